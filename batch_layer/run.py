"""A whole batch run: the steps one after another, in one process with one Spark session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock

from pyspark.sql import SparkSession

from batch_layer.accept import accept_loss as accept_loss_of
from batch_layer.cut import choose_t, cut, latest_ms
from batch_layer.ingest import StartSpark, ingest
from batch_layer.publish import publish
from batch_layer.recompute import is_continued, recompute
from batch_layer.reconcile import reconcile
from trilayer_core.compute.rows import check_rows
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.steps import how_far
from trilayer_core.definitions.stream import Rows, Stream
from trilayer_core.runtime.session import batch_session, driver_at_work
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import format_time
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.looks import Looks
from trilayer_core.store.origins import Origins
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications

logger = logging.getLogger("trilayer.batch")


def batch_run(
    catalog: Catalog,
    settings: Settings,
    store: Store,
    *,
    until_ms: int | None = None,
    full: bool = False,
    accept_loss: bool = False,
    accept_clock: bool = False,
    tell: Callable[[str], None] = lambda far: None,
) -> Publication:
    """Cut, ingest, recompute, reconcile, publish.

    Returns the publication in force if it is already of this T and these definitions, or if nothing
    has come since.

    A run that dies anywhere leaves the answers as they were, and the next one goes on.

    Args:
        catalog: The definitions.
        settings: The settings.
        store: The store.
        until_ms: T; the newest settled tick unless given.
        full: Recompute from the whole master dataset.
        accept_loss: Go on without records that retention took, or with a log that has lost what was
            ingested; the loss is recorded.
        accept_clock: Go on if a recorded T, or the stamps of the newest records, are later than
            now, as `choose_t` and `cut` say.
        tell: Called with how far the run has come.

    Raises:
        ConflictError: Another run is under way.
        HeldError: A person holds the version in force.
    """
    with batch_lock(store), batch_spark(settings, catalog.rows) as spark:
        PointerFile(store).check_not_held()
        sinks = bool(catalog.sinks)
        tell(how_far("cut", sinks=sinks))
        if accept_loss:
            accept_losses(catalog, settings, store)
        t_ms = choose_t(catalog, settings, store, until_ms, accept_clock=accept_clock)
        covering = None if full else covered_by(catalog, settings, store, t_ms)
        if covering:
            return covering
        run = cut(catalog, settings, store, t_ms, full, accept_clock=accept_clock)
        for stream in catalog.streams:
            tell(how_far("ingest", stream.name, sinks=sinks))
            with ingest_lock(store, stream):
                ingest(stream, run, settings, store, spark, accept_loss=accept_loss)
        tell(how_far("recompute", sinks=sinks))
        recomputed = recompute(catalog, run, store, spark)
        tell(how_far("reconcile", sinks=sinks))
        reconciliation = reconcile(catalog, run, recomputed, settings, store)
        tell(how_far("publish", sinks=sinks))
        return publish(catalog, run, recomputed, reconciliation, settings, store)


def covered_by(catalog: Catalog, settings: Settings, store: Store, t_ms: int) -> Publication | None:
    """The publication in force if a run until T has nothing to do, else None.

    It must hold every event before T, by its own T or since a run has found nothing new, and be of
    the same definitions and of the present origins. One whose own T is later than now covers
    nothing: its cut is where the log ended when it was made.
    """
    published = Publications(store).in_force()
    if published is None or published.t_ms > latest_ms(settings):
        return None
    up_to_ms = Looks(store).complete_to_ms(published, latest_ms(settings))
    if t_ms > up_to_ms:
        return None
    if not all(is_continued(catalog, stream, published) for stream in catalog.streams):
        return None
    for stream in catalog.streams:
        present = Origins(store, stream).present()
        if present is None or published.streams[stream.name].topic_id != present.identity:
            return None
    logger.info(
        "version %s in force, T=%s, covers T=%s: nothing to do",
        published.version,
        format_time(up_to_ms),
        format_time(t_ms),
    )
    return published


def accept_losses(catalog: Catalog, settings: Settings, store: Store) -> None:
    """Begins a new origin for each stream whose log no longer holds what was ingested of it."""
    for stream in catalog.streams:
        with ingest_lock(store, stream):
            accept_loss_of(stream, settings, store)


def batch_lock(store: Store) -> AbstractContextManager[None]:
    """The lock that lets one batch run or step work at a time."""
    return store.lock(layout.BATCH_LOCK, "a batch run")


def ingest_lock(store: Store, stream: Stream) -> AbstractContextManager[None]:
    """The lock that lets one ingest of a stream work at a time.

    Ingests of several streams may run side by side.
    """
    return store.lock(layout.ingest_lock(stream.name), f"an ingest of {stream.name!r}")


@contextmanager
def batch_spark(settings: Settings, rows: Sequence[Rows] = ()) -> Iterator[StartSpark]:
    """A Spark session that is started when first asked for, and stopped at the end.

    Args:
        settings: The settings.
        rows: What will be run; starting the session raises DefinitionError where the function of
            one does not return what it declares.
    """
    started: list[SparkSession] = []
    one_at_a_time = Lock()

    def start() -> SparkSession:
        with one_at_a_time:
            if not started:
                started.append(batch_session(settings))
                check_rows(rows, started[0])
            return started[0]

    with driver_at_work("batch_memory_mb"):
        try:
            yield start
        finally:
            for spark in started:
                spark.stop()
