"""Batch runs, whole or step by step, as a person or Airflow starts them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from batch_layer import cut as cut_step
from batch_layer.cut import find_run
from batch_layer.ingest import ingest as ingest_step
from batch_layer.publish import publish as publish_step
from batch_layer.recompute import recompute as recompute_step
from batch_layer.recompute import recomputed_before
from batch_layer.reconcile import reconcile as reconcile_step
from batch_layer.run import (
    accept_losses,
    batch_lock,
    batch_run,
    batch_spark,
    covered_by,
    ingest_lock,
)
from trilayer.operations.delivery import deliver
from trilayer.operations.project import Project
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import EnvironmentFault, LogError, SinkError, UsageError
from trilayer_core.log.lag import after_cut
from trilayer_core.seam import format_time
from trilayer_core.store.files import Store
from trilayer_core.store.looks import Looks
from trilayer_core.store.master import Interval
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publication import Publication, choose_version
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Recomputed, ReconciledView, Reconciliation, Run

logger = logging.getLogger("trilayer.batch")


@dataclass(frozen=True)
class Outcome:
    """What a run has come to.

    Attributes:
        publication: The one in force now.
        anew: Whether the run has published it; there was nothing new otherwise.
        undelivered: What sinks have failed with, if any has.
    """

    publication: Publication
    anew: bool
    undelivered: SinkError | None = None


def whole_run(
    p: Project,
    *,
    until_ms: int | None,
    full: bool,
    accept_loss: bool,
    accept_clock: bool,
    wait: bool,
    tell: Callable[[str], None],
) -> Outcome:
    """A run from cut to delivery.

    Args:
        p: The project.
        until_ms: As for `batch_run`.
        full: As for `batch_run`.
        accept_loss: As for `batch_run`.
        accept_clock: As for `batch_run`.
        wait: Wait first for a T that covers every event that is in the log now.
        tell: Called with how far the run has come.
    """
    before = Publications(p.store).in_force()
    if wait:
        PointerFile(p.store).check_not_held()
        t_ms = cut_step.t_of_all(p.catalog, p.settings)
        tell(f"waiting for T={format_time(t_ms)}, which covers every event that is there now")
        cut_step.wait_until_settled(p.settings, t_ms)
    published = batch_run(
        p.catalog,
        p.settings,
        p.store,
        until_ms=until_ms,
        full=full,
        accept_loss=accept_loss,
        accept_clock=accept_clock,
        tell=tell,
    )
    anew = before is None or before.version != published.version
    return Outcome(published, anew, deliver_all(p, tell))


def deliver_all(p: Project, tell: Callable[[str], None] = lambda far: None) -> SinkError | None:
    """Delivers to all sinks. Returns what has failed, to be raised when all else is told."""
    try:
        deliver(p, p.catalog.sinks, tell)
    except SinkError as error:
        return error
    return None


@dataclass(frozen=True)
class Covered:
    """The publication that covers T already, and the T up to which it holds every event."""

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
    """The first step: takes a token and cuts the log, unless T is covered `at_least`."""
    with batch_lock(p.store):
        PointerFile(p.store).check_not_held()
        if accept_loss:
            accept_losses(p.catalog, p.settings, p.store)
        t_ms = cut_step.choose_t(
            p.catalog,
            p.settings,
            p.store,
            until_ms,
            at_least=at_least,
            accept_clock=accept_clock,
        )
        if at_least and not full:
            # By the T asked for: a run under way may have ingested more than that already, and must
            # not be fenced off for nothing.
            covering = covered_by(p.catalog, p.settings, p.store, until_ms or t_ms)
            if covering:
                covered_ms = Looks(p.store).complete_to_ms(covering, cut_step.latest_ms(p.settings))
                return Covered(covering.version, format_time(covered_ms))
        return cut_step.cut(p.catalog, p.settings, p.store, t_ms, full, accept_clock=accept_clock)


def ingest(
    p: Project,
    token: int | None,
    until_ms: int | None,
    streams: Sequence[Stream],
    *,
    accept_loss: bool,
) -> tuple[Run, dict[str, Interval]]:
    """The second step, for these streams. Returns the run, and what was ingested for it."""
    ingested: dict[str, Interval] = {}
    with batch_spark(p.settings, p.catalog.rows) as spark:
        run = find_run(p.store, token, until_ms)
        for stream in streams:
            with ingest_lock(p.store, stream):
                ingested[stream.name] = ingest_step(
                    stream, run, p.settings, p.store, spark, accept_loss=accept_loss
                )
    return run, ingested


def recompute(p: Project, token: int | None, until_ms: int | None) -> Recomputed:
    """The third step."""
    with (
        _locked_run(p, token, until_ms) as run,
        batch_spark(p.settings, p.catalog.rows) as spark,
    ):
        return recompute_step(p.catalog, run, p.store, spark)


def reconcile(p: Project, token: int | None, until_ms: int | None) -> Mapping[str, ReconciledView]:
    """The fourth step."""
    with _locked_run(p, token, until_ms) as run:
        return reconcile_step(p.catalog, run, _recomputed(p, run), p.settings, p.store)


def publish(p: Project, token: int | None, until_ms: int | None) -> Outcome:
    """The fifth step."""
    with _locked_run(p, token, until_ms) as run:
        recomputed = _recomputed(p, run)
        reconciled = run.path("reconcile")
        reconciliation = (
            p.store.read_document(reconciled, Reconciliation).views
            if p.store.exists(reconciled)
            else {}
        )
        published = publish_step(p.catalog, run, recomputed, reconciliation, p.settings, p.store)
        return Outcome(published, anew=published.token == run.token)


@contextmanager
def _locked_run(p: Project, token: int | None, until_ms: int | None) -> Iterator[Run]:
    with batch_lock(p.store):
        yield find_run(p.store, token, until_ms)


def _recomputed(p: Project, run: Run) -> Recomputed:
    recomputed = recomputed_before(p.catalog, run, p.store)
    if recomputed is None:
        raise UsageError(
            f"this step must follow `trilayer batch recompute`; the run until {run.t} has none yet"
        )
    return recomputed


def kept_version(store: Store, version: int | None, *, full: bool) -> Publication:
    """The publication of this version.

    Args:
        store: The store.
        version: Its number; unless given, the publication is the one in force.
        full: Take full runs' alone, and unless a version is given the newest of them.

    Raises:
        UsageError: There is none.
    """
    known = [p for p in Publications(store).versions() if not full or p.kind == "full"]
    if version is not None:
        return choose_version(known, version)
    newest = (known[-1] if known else None) if full else Publications(store).in_force()
    if newest is None:
        raise UsageError(
            f"there must be a{' full' if full else ''} publication; there is none yet; run"
            f" `trilayer batch run{' --full' if full else ''}`"
        )
    return newest


def events_after_t(p: Project, publication: Publication) -> Mapping[str, int]:
    """How many events of each stream have come after the publication's T; empty if unknown."""
    try:
        return after_cut(
            p.catalog, p.settings, {name: s.cut for name, s in publication.streams.items()}
        )
    except (EnvironmentFault, LogError) as error:
        logger.debug("how many events came after T is not known: %s", error)
        return {}
