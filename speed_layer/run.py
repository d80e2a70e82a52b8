"""The speed layer's process: one Spark session, a query for each stream, compaction beside them.

It waits out a broker that is away, and ends with an error for anything that waiting does not mend.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack

import duckdb

from speed_layer.compaction import compact
from speed_layer.query import StreamQuery
from trilayer.catalog import Catalog
from trilayer.errors import EnvironmentFault, LogError, TrilayerError
from trilayer.log import Log
from trilayer.settings import Settings
from trilayer.spark import driver_at_work, session
from trilayer.store import Store

logger = logging.getLogger("trilayer.speed")

SPARK_CONF = {
    # Measured: 200 partitions cost two seconds a micro-batch, one next to nothing, at any rate a single machine reaches.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Half the time of an empty micro-batch. Should a crash tear a checkpoint all the same, deleting it begins a new generation.
    "spark.sql.streaming.checkpointFileManagerClass":
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    # An idle query asks Kafka for news this often; at the 10 ms that Spark asks by default it takes a third of a core, here and in the broker.
    "spark.sql.streaming.pollingDelay": "30ms",
    # A result is in the heap several times over on its way to Python. Measured: so a heap of 640 MB holds the groups of a million events with
    # a key each in five views, where without it half a million in two views filled it.
    "spark.sql.execution.arrow.compression.codec": "zstd",
    "spark.sql.execution.arrow.compression.zstd.level": "1",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
}  # fmt: skip

_AWAY = ("TimeoutException", "DisconnectException", "KafkaException", "Failed to construct kafka", "UnknownTopicOrPartition",
         "LEADER_NOT_AVAILABLE", "Call(callName", "OffsetFetch", "Connection to node")  # fmt: skip


def run_speed(
    catalog: Catalog,
    settings: Settings,
    store: Store,
    stop: threading.Event,
    *,
    rebuild: bool = False,
    on_ready: Callable[[list[StreamQuery]], None] = lambda queries: None,
) -> None:
    """Runs every stream's query until `stop` is set. Raises ConflictError where another process runs the speed layer on this store."""
    with driver_at_work("speed_memory_mb, or lower speed_max_events"), ExitStack() as stack:
        stack.enter_context(store.lock("locks/speed", "the speed layer"))
        with Log(settings.bootstrap_servers) as log:
            for stream in catalog.streams:
                log.ensure(stream, settings.replication_factor)
        spark = session("trilayer-speed", settings, memory_mb=settings.speed_memory_mb, conf=SPARK_CONF)
        stack.callback(spark.stop)
        queries = [StreamQuery(catalog, stream, settings, store, spark) for stream in catalog.streams]
        threads = [
            threading.Thread(target=_compact_on, args=(q, catalog, settings, store, stop), daemon=True)
            for q in queries
        ]
        try:
            for query in queries:
                query.start(rebuild)
            on_ready(queries)
            for thread in threads:
                thread.start()
            while not stop.wait(0.2):
                for query in queries:
                    _check(query, settings, stop)
        finally:
            stop.set()
            for query in queries:
                query.stop()
            for thread in threads:
                if thread.is_alive():
                    thread.join()


def _check(query: StreamQuery, settings: Settings, stop: threading.Event) -> None:
    """Starts a query again whose broker was away; raises for one that ended for another reason."""
    ended = query.failure()
    if ended is None:
        return
    text = str(ended)
    if (
        "OffsetOutOfRange" in text
        or "Some data may have been lost" in text
        or "data may have been missed" in text
    ):
        raise LogError(
            f"stream {query.stream.name!r}: the log must still hold what the speed layer goes on with; retention took it, or the topic was"
            f" created again; run `trilayer batch run`, then start again: {_first_line(text)}"
        )
    if not any(sign in text for sign in _AWAY) and _reachable(settings):
        raise TrilayerError(
            f"stream {query.stream.name!r}: its query ended: {_first_line(text)};"
            " if it ends so at each start, run `trilayer speed run --rebuild`"
        ) from ended
    logger.warning("stream %s: the broker is away; waiting for it", query.stream.name)
    query.stop()
    while not stop.is_set() and not _reachable(settings):
        stop.wait(0.5)
    if not stop.is_set():
        query.start()
        logger.warning("stream %s: goes on", query.stream.name)


def _reachable(settings: Settings) -> bool:
    try:
        with Log(settings.bootstrap_servers):
            return True
    except EnvironmentFault:
        return False


def _first_line(text: str) -> str:
    """The line of a Spark error that says what happened: its root cause where there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by:")]
    return (causes or lines or ["no reason given"])[-1 if causes else 0]


def _compact_on(
    query: StreamQuery, catalog: Catalog, settings: Settings, store: Store, stop: threading.Event
) -> None:
    views = catalog.views_of(query.stream)
    while not stop.wait(min(5.0, settings.tick_s)):
        if query.generation is None:
            continue
        try:
            compact(store, query.stream, views, query.generation.name, settings.compact_after)
        # A batch run may have cleared away what it read.
        except (TrilayerError, OSError, duckdb.Error) as error:
            logger.warning("stream %s: not compacted this time: %s", query.stream.name, error)
