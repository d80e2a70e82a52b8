"""Delivers publications to the catalog's sinks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

import serving_layer
from serving_layer.tables import batch_table
from trilayer_core.compute.merging import present_select
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.sinks import Delivery, Sink
from trilayer_core.definitions.steps import how_far
from trilayer_core.errors import SinkError, UsageError, did_you_mean
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.store import layout
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications

logger = logging.getLogger("trilayer.batch")


@dataclass(frozen=True)
class Delivered:
    """The result of a delivery.

    Attributes:
        version: The publication that the sink has now.
        anew: Whether it was delivered now; otherwise the sink already had it.
    """

    version: int
    anew: bool


@dataclass(frozen=True)
class SinkHas:
    """The version that a sink has, and when it was delivered, in ms since 1970."""

    version: int
    delivered_ms: int


def deliver(
    p: Project, sinks: Sequence[Sink], report: Callable[[str], None] = lambda far: None
) -> dict[str, Delivered]:
    """Delivers the publication in force to each of the sinks that has not received it.

    A sink that fails does not affect the others.

    Args:
        p: The project.
        sinks: Sinks of its catalog.
        report: Called with the progress.

    Returns:
        What each sink has now, by name; empty before the first publication.

    Raises:
        SinkError: Sinks have failed. The message names each with the reason.
    """
    done: dict[str, Delivered] = {}
    failed: list[str] = []
    for sink in sinks:
        report(how_far("deliver", sink.name, sinks=True))
        with p.store.lock(layout.sink_lock(sink.name), f"a delivery to sink {sink.name!r}"):
            publication = Publications(p.store).in_force()
            if publication is None:
                return {}
            if _delivered(p, sink) == publication.version:
                done[sink.name] = Delivered(publication.version, anew=False)
                continue
            try:
                _hand_over(p, sink, publication)
            except Exception as error:  # the author's code can raise anything
                reason = str(error) or "no message"
                failed.append(
                    f"sink {sink.name!r} has not taken version {publication.version}:"
                    f" {type(error).__name__}: {reason}"
                )
                logger.debug("sink %s failed", sink.name, exc_info=True)
                continue
            done[sink.name] = Delivered(publication.version, anew=True)
            logger.info("version %s delivered to %s", publication.version, sink.name)
    if failed:
        raise SinkError(
            f"{'; '.join(failed)}. The publication is in force all the same; `trilayer batch"
            " deliver`, or the next batch run, delivers what is in force then"
        )
    return done


def sink(p: Project, name: str) -> Sink:
    """Returns the catalog's sink with this name. Raises UsageError if there is none."""
    names = [one.name for one in p.catalog.sinks]
    if name not in names:
        raise UsageError(
            f"sink must be one of the catalog's; got {name!r}{did_you_mean(name, names)}"
        )
    return p.catalog.sinks[names.index(name)]


def unanswered_views(catalog: Catalog, publication: Publication) -> list[str]:
    """Returns the catalog's views that the publication lacks, or has with another definition."""
    return [view.name for view in catalog.views if not publication.has(view)]


def check_answered(catalog: Catalog, target: Publication) -> None:
    """Checks that every view has an answer after a rollback to `target`.

    Raises:
        UsageError: Views would have none until the next publication.
    """
    if unanswered := unanswered_views(catalog, target):
        raise UsageError(
            "a rollback must go back to a version that has every view as it is defined now; version"
            f" {target.version} has another definition, or none, of {', '.join(unanswered)}, which"
            " would have no answer until the next publication; restore the definitions of that"
            " version first, or accept this with --accept-unanswered"
        )


def _delivered(p: Project, sink: Sink) -> int | None:
    if not p.store.exists(layout.sink(sink.name)):
        return None
    return p.store.read_document(layout.sink(sink.name), SinkHas).version


def _hand_over(p: Project, sink: Sink, publication: Publication) -> None:
    unanswered = unanswered_views(p.catalog, publication)
    views = [view.name for view in p.catalog.views if view.name not in unanswered]
    with (
        serving_layer.connect(p.catalog, p.settings, p.store, keep=False) as connection,
        connection.snapshot(publication.version) as snapshot,
    ):

        def read(view: str) -> pa.Table:
            declared, answer = p.catalog.view(view), f'SELECT * FROM "{view}"'
            if declared.as_of_query:
                # A version that is delivered twice must be the same, so its T is the moment.
                moment = f"make_timestamptz({publication.t_ms * 1000})"
                answer = present_select(declared, lambda stored: [batch_table(stored)], now=moment)
            return snapshot.sql(answer, "batch").arrow()

        sink.deliver(Delivery(publication.version, publication.t, views, read))
    p.store.write_document(layout.sink(sink.name), SinkHas(publication.version, now_ms()))
