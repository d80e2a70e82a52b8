"""The speed layer's process: one Spark session, a query for each stream, and compaction.

It waits for an unavailable broker, and ends with an error if waiting does not help.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import duckdb

from speed_layer.compaction import compact
from speed_layer.query import StreamQuery
from speed_layer.supervisor import Supervisor, record_fault
from trilayer_core.compute.rows import check_rows
from trilayer_core.errors import EnvironmentFault, LogError, TrilayerError
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.runtime.kafka_source import lost_by_log
from trilayer_core.runtime.session import driver_at_work, first_cause, session
from trilayer_core.store import layout
from trilayer_core.store.generations import Generations
from trilayer_core.store.segments import Fault
from trilayer_core.store.tables import check_tables

logger = logging.getLogger("trilayer.speed")

SPARK_CONF = {
    # Measured: 200 partitions cost two seconds per micro-batch; a single one costs next to nothing
    # at any rate that one machine can reach.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # This halves the time of an empty micro-batch. If a crash leaves a checkpoint incomplete,
    # deleting it begins a new generation.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
    # The interval at which an idle query polls Kafka. Spark's default of 10 ms uses a third of a
    # core, here and in the broker.
    "spark.sql.streaming.pollingDelay": "30ms",
    # A result is in the heap several times on its way to Python. Measured: with compression a heap
    # of 640 MB holds the groups of a million events with distinct keys in five views; without it
    # half a million in two views filled the heap.
    "spark.sql.execution.arrow.compression.codec": "zstd",
    "spark.sql.execution.arrow.compression.zstd.level": "1",
    # Spark keeps the plans of 100 micro-batches and 100 reports of progress by default. A restart
    # needs the last two plans, and nothing reads the reports.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
}

MEMORY = "speed.memory_mb, or lower speed.max_events"
"""What to change if the driver's heap was full."""

ORIGIN_CHECK_S = 2.0
"""How often the speed layer checks whether a batch run has begun a new origin, in seconds."""


def run_speed(
    project: Project,
    stop: threading.Event,
    *,
    rebuild: bool = False,
    on_ready: Callable[[list[StreamQuery]], None] = lambda queries: None,
) -> None:
    """Runs the queries of all streams until `stop` is set.

    Raises:
        ConflictError: Another process runs the speed layer on this store.
    """
    catalog, settings, store = project.catalog, project.settings, project.store
    with driver_at_work(MEMORY), ExitStack() as stack:
        stack.enter_context(store.lock(layout.SPEED_LOCK, "the speed layer"))
        with Log(settings.bootstrap_servers) as log:
            for stream in catalog.streams:
                log.ensure(stream, settings.replication_factor)
        spark = session(
            "trilayer-speed", settings, memory_mb=settings.speed.memory_mb, conf=SPARK_CONF
        )
        stack.callback(spark.stop)
        check_tables(store, catalog.rows, settings.table_max_mb)
        check_rows(catalog.rows, spark)
        queries = [StreamQuery(project, stream, spark) for stream in catalog.streams]
        compactors = [Compactor(query, project, stop) for query in queries]
        try:
            supervisor = Supervisor(queries, settings, store, stop, MEMORY)
            for query in queries:
                supervisor.attend(query, partial(query.start, rebuild))
            on_ready(queries)
            for compactor in compactors:
                compactor.start()
            checked_at = time.monotonic()
            while not stop.wait(0.2):
                is_due = time.monotonic() - checked_at >= ORIGIN_CHECK_S
                for query in queries:
                    supervisor.attend(query, partial(_check, query, supervisor, follow=is_due))
                for compactor in compactors:
                    compactor.check()
                if is_due:
                    checked_at = time.monotonic()
            supervisor.check()
        finally:
            stop.set()
            for query in queries:
                query.stop()
            for compactor in compactors:
                if compactor.is_alive():
                    compactor.join()


def _check(query: StreamQuery, supervisor: Supervisor, *, follow: bool) -> None:
    """Checks a query, and its origin if it is to `follow` that."""
    if (ended := query.failure()) is not None:
        _restart(query, ended, supervisor)
    if follow:
        _follow_origin(query, supervisor)


def _restart(query: StreamQuery, ended: Exception, supervisor: Supervisor) -> None:
    """Restarts a query whose broker was unavailable; raises if it ended for another reason."""
    text = str(ended)
    missing = lost_by_log(text)
    try:
        again = query.unsettled or query.loss or (missing and query.has_lost())
    except EnvironmentFault as error:
        supervisor.restart(query, str(error))
        return
    if query.unsettled:
        logger.info("stream %s: %s; its query starts again", query.stream.name, query.unsettled)
    if again:
        supervisor.restart(query)  # which logs if it begins another generation
        return
    if missing:
        raise LogError(
            f"stream {query.stream.name!r}: the log no longer holds what the speed layer reads"
            " next; retention deleted it, or the topic was created again; run `trilayer batch"
            f" run`, then start again: {first_cause(text)}"
        )
    if not supervisor.is_outage(text):
        raise TrilayerError(
            f"stream {query.stream.name!r}: its query ended: {first_cause(text)}; start it again."
            " If an expression of a view, or the function of a `Rows` source, fails on an event,"
            " change that first; if a file below speed/ is named at each start, run `trilayer"
            " speed run --rebuild`"
        ) from ended
    supervisor.restart(query, first_cause(text))


def _follow_origin(query: StreamQuery, supervisor: Supervisor) -> None:
    """Restarts a query after a loss was accepted or found.

    In the first case the offsets of its generation no longer count. In the second case the log has
    lost what it has read.
    """
    if query.overtaken():
        logger.warning(
            "stream %s: a new origin has begun; another generation follows it", query.stream.name
        )
        supervisor.restart(query)
        return
    query.check_log()
    if query.loss:
        supervisor.restart(query)


class Compactor(threading.Thread):
    """Compacts one stream's commits until `stop` is set.

    An error that ends the thread before is stored for `check`.
    """

    def __init__(self, query: StreamQuery, project: Project, stop: threading.Event) -> None:
        super().__init__(daemon=True, name=f"compaction-{query.stream.name}")
        self._query, self._settings, self._store = query, project.settings, project.store
        self._stopping = stop
        self._views = project.catalog.stored_of(query.stream)
        self._ended_by: BaseException | None = None
        self._fault: Fault | None = None

    def run(self) -> None:
        """Compacts until `stop` is set."""
        try:
            while not self._stopping.wait(min(5.0, self._settings.tick_s)):
                self._compact()
        except BaseException as error:  # noqa: BLE001  # `check` raises it in the thread that waits
            self._ended_by = error

    def check(self) -> None:
        """Raises TrilayerError if an unexpected error has ended the thread."""
        if self._ended_by is not None:
            kind = type(self._ended_by).__name__
            raise TrilayerError(
                f"stream {self._query.stream.name!r}: its compaction ended: {kind}:"
                f" {first_cause(str(self._ended_by))}; start the speed layer again; if it ends so"
                " again, run `trilayer speed run --rebuild`"
            ) from self._ended_by

    def _compact(self) -> None:
        stream, generation = self._query.stream, self._query.generation
        if generation is None:
            return
        try:
            while not self._stopping.is_set() and compact(
                Generations(self._store, stream),
                self._views,
                generation.name,
                self._settings.compact_after,
            ):
                pass
        # A batch run may have deleted what was read, and a full disk may have space again.
        except (TrilayerError, OSError, duckdb.Error) as error:
            logger.warning("stream %s: not compacted this time: %s", stream.name, error)
            since_ms = self._fault.since_ms if self._fault else self._store.clock()
            self._fault = Fault(since_ms, str(error))
        else:
            self._fault = None
        record_fault(self._store, layout.compaction_fault(stream, generation.name), self._fault)
