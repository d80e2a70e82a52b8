"""Batch runs, complete or step by step, as a person or Airflow starts them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from batch_layer.cut import latest_ms, t_of_all, wait_until_settled
from batch_layer.run import BatchLayer
from trilayer.operations.delivery import deliver
from trilayer_core.errors import EnvironmentFault, LogError, SinkError, UsageError
from trilayer_core.log.lag import events_after
from trilayer_core.project import Project
from trilayer_core.seam import format_time
from trilayer_core.store.files import Store
from trilayer_core.store.last_check import LastChecks
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publication import Publication, choose_version
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Run

logger = logging.getLogger("trilayer.batch")


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes:
        publication: The publication in force now.
        is_new: Whether the run has published it; otherwise there was nothing new.
        undelivered: The errors of sinks that have failed, if any.
    """

    publication: Publication
    is_new: bool
    undelivered: SinkError | None = None


def layer(p: Project) -> BatchLayer:
    """Returns the batch layer of the project's store."""
    return BatchLayer(p)


def wait_for_all(p: Project, report: Callable[[str], None]) -> None:
    """Waits until a run may have a T that covers every event that is in the log now.

    Args:
        p: The project.
        report: Called with the progress.

    Raises:
        HeldError: A person holds the version in force, so that a run would publish nothing.
    """
    PointerFile(p.store).check_not_held()
    t_ms = t_of_all(p)
    report(f"waiting for T={format_time(t_ms)}, which covers every event that is there now")
    wait_until_settled(p, t_ms)


def whole_run(
    p: Project,
    *,
    until_ms: int | None,
    full: bool,
    accept_loss: bool,
    accept_clock: bool,
    report: Callable[[str], None],
) -> Outcome:
    """Performs a run from cut to delivery.

    Args:
        p: The project.
        until_ms: As for `BatchLayer.run`.
        full: As for `BatchLayer.run`.
        accept_loss: As for `BatchLayer.run`.
        accept_clock: As for `BatchLayer.run`.
        report: Called with the progress.
    """
    before = Publications(p.store).in_force()
    published = layer(p).run(
        until_ms=until_ms,
        full=full,
        accept_loss=accept_loss,
        accept_clock=accept_clock,
        report=report,
    )
    is_new = before is None or before.version != published.version
    return Outcome(published, is_new, deliver_all(p, report))


def deliver_all(p: Project, report: Callable[[str], None] = lambda far: None) -> SinkError | None:
    """Delivers to all sinks. Returns the error, to be raised after everything else is reported."""
    try:
        deliver(p, p.catalog.sinks, report)
    except SinkError as error:
        return error
    return None


@dataclass(frozen=True)
class Covered:
    """The publication that covers T already, and the T up to which it contains every event."""

    version: int
    t: str


def cut(
    p: Project,
    *,
    until_ms: int | None,
    full: bool,
    at_least: bool,
    accept_loss: bool,
    accept_clock: bool,
) -> Run | Covered:
    """Takes a token and determines the cut, the first step, unless T is covered `at_least`."""
    begun = layer(p).cut(
        until_ms, full=full, at_least=at_least, accept_loss=accept_loss, accept_clock=accept_clock
    )
    if isinstance(begun, Run):
        return begun
    covered_ms = LastChecks(p.store).complete_to_ms(begun, latest_ms(p))
    return Covered(begun.version, format_time(covered_ms))


def publish(p: Project, token: int | None, until_ms: int | None) -> Outcome:
    """Puts the run's views in force, the fifth step."""
    run, published = layer(p).publish(token, until_ms)
    return Outcome(published, is_new=published.token == run.token)


def kept_version(store: Store, version: int | None, *, full: bool) -> Publication:
    """Returns the publication with a version number.

    Args:
        store: The store.
        version: Its number; None for the publication in force.
        full: Whether to consider only full runs; without a version, the newest of them.

    Raises:
        UsageError: There is none.
    """
    candidates = [p for p in Publications(store).versions() if not full or p.kind == "full"]
    if version is not None:
        return choose_version(candidates, version)
    newest = (candidates[-1] if candidates else None) if full else Publications(store).in_force()
    if newest is None:
        raise UsageError(
            f"there must be a{' full' if full else ''} publication; there is none yet; run"
            f" `trilayer batch run{' --full' if full else ''}`"
        )
    return newest


def events_after_t(p: Project, publication: Publication) -> Mapping[str, int]:
    """Returns the number of events of each stream after the publication's T; empty if unknown."""
    try:
        return events_after(
            p.catalog, p.settings, {name: s.cut for name, s in publication.streams.items()}
        )
    except (EnvironmentFault, LogError) as error:
        logger.debug("how many events came after T is not known: %s", error)
        return {}
