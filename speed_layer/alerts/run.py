"""The process that evaluates events by the rules of alerts: one Spark session for all groups."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from pyspark.sql import SparkSession

from speed_layer.alerts.collect import Collector
from speed_layer.alerts.query import AlertQuery
from speed_layer.supervisor import Supervisor
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.errors import EnvironmentFault, TrilayerError
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.runtime.kafka_source import lost_by_log
from trilayer_core.runtime.session import driver_at_work, first_cause, session
from trilayer_core.runtime.settings import Settings
from trilayer_core.store import layout

logger = logging.getLogger("trilayer.alerts")

SPARK_CONF = {
    # A table that is joined is read by one task, because each task needs a slot beside the queries.
    "spark.default.parallelism": "1",
    # One task has the state of all keys. Each further one would need a processor of its own.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # By default a record waits up to 50 ms for others on its way to the state.
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
    # This rule repeats the parser's work in a filter below the rows that `explode` makes.
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.InferFiltersFromGenerate"
    ),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.minBatchesToRetain": "2",
}

JOIN_SLOTS = 8
"""The number of tasks of each query that may read tables which it joins, at the same time."""

NO_SLOTS = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"
"""What Spark says if other tasks have the slots that a query needs at once."""

MOST_REFUSED = 20
"""How often a query is started again in a row because of that."""

ANOTHER_PARTITION = "you must specify all TopicPartitions"
"""What Spark says if the topic has got a partition since the generation began."""

REFUSED_S = 1.0
"""How long other tasks are waited for then, in seconds."""

MEMORY = "alerts.memory_mb"
"""The setting to increase if the driver's heap was full."""

POLL_S = 0.1
"""Interval between checks for the end of a batch, in seconds."""

ORIGIN_CHECK_S = 2.0
"""Interval between checks for a new origin, in seconds."""

TOPIC_CHECK_S = 5.0
"""Interval between checks whether a topic was created again, in seconds."""


def run_alerts(
    project: Project,
    stop: threading.Event,
    *,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Evaluates the events of all streams that have alerts until `stop` is set.

    Args:
        project: The project.
        stop: Ends it.
        on_ready: Called once, when all queries evaluate events.

    Raises:
        ConflictError: Another process does so on this store.
        LogError: A topic was created again.
    """
    catalog, settings, store = project.catalog, project.settings, project.store
    with driver_at_work(MEMORY), ExitStack() as stack:
        stack.enter_context(store.lock(layout.ALERTS_LOCK, "the alerts of the speed layer"))
        slots = _ensure_topics(catalog, settings)
        spark = _session(settings, slots)
        stack.callback(spark.stop)
        queries = [AlertQuery(group, settings, store, spark) for group in catalog.alert_groups]
        topics = dict.fromkeys(topic for group in catalog.alert_groups for topic in group.topics)
        collectors = [Collector(store, settings.bootstrap_servers, topic, stop) for topic in topics]
        try:
            for collector in collectors:
                collector.start()
            supervisor = Supervisor(queries, settings, store, stop, MEMORY)
            for query in queries:
                supervisor.attend(query, partial(supervisor.restart, query))
            _run(queries, collectors, supervisor, stop, on_ready)
        finally:
            stop.set()
            # Spark reports the tasks of a stopped query as failures.
            spark.sparkContext.setLogLevel("OFF")
            for query in queries:
                query.stop()
            for collector in collectors:
                collector.join()


def _run(
    queries: Sequence[AlertQuery],
    collectors: Sequence[Collector],
    supervisor: Supervisor,
    stop: threading.Event,
    on_ready: Callable[[], None],
) -> None:
    ready, origin_checked_at, topics_checked_at = False, time.monotonic(), time.monotonic()
    while not stop.wait(POLL_S):
        follow, ask = (
            time.monotonic() - origin_checked_at >= ORIGIN_CHECK_S,
            time.monotonic() - topics_checked_at >= TOPIC_CHECK_S,
        )
        for query in queries:
            check = partial(_check, query, supervisor, stop, follow=follow, ask=ask)
            supervisor.attend(query, check)
        for collector in collectors:
            collector.check()
        if not ready and all(query.runs or query in supervisor for query in queries):
            ready = True
            on_ready()
        origin_checked_at = time.monotonic() if follow else origin_checked_at
        topics_checked_at = time.monotonic() if ask else topics_checked_at
    supervisor.check()


def _check(
    query: AlertQuery, supervisor: Supervisor, stop: threading.Event, *, follow: bool, ask: bool
) -> None:
    """Checks a query.

    Args:
        query: The query.
        supervisor: Starts it again.
        stop: Set when the process is to end.
        follow: Whether to check for a new origin as well.
        ask: Whether to check for another topic as well.
    """
    if (ended := query.failure()) is not None:
        _restart(query, ended, supervisor, stop)
    else:
        try:
            query.step()
        except EnvironmentFault as error:
            supervisor.restart(query, str(error))
    if follow and query.overtaken():
        logger.warning("%s: a new origin has begun; it is followed", query.label)
        supervisor.restart(query)
    if ask:
        # While no broker answers, the query notices that as well.
        with suppress(EnvironmentFault):
            if query.reads_another_topic():
                supervisor.restart(query)  # which says what to do about it


def _ensure_topics(catalog: Catalog, settings: Settings) -> int:
    """Creates the topics that are not there; returns the number of tasks that may run at once.

    A query that does not find a slot for each of its tasks at once fails. Those for the tables that
    it joins are only taken in between, by tasks of one query or another.
    """
    slots = 0
    with Log(settings.bootstrap_servers) as log:
        for group in catalog.alert_groups:
            topic = log.ensure(group.stream, settings.replication_factor)
            slots += len(topic.partitions) + bool(group.last) + JOIN_SLOTS
            for name in group.topics:
                log.ensure_alerts(name, group.stream.partitions, settings.replication_factor)
    return slots


def _session(settings: Settings, slots: int) -> SparkSession:
    """The session. In real-time mode all tasks of a query run at the same time, each in a slot."""
    if settings.spark_master.startswith("local"):
        settings = settings.model_copy(update={"spark_master": f"local[{slots}]"})
    return session(
        "trilayer-alerts",
        settings,
        memory_mb=settings.alerts.memory_mb,
        conf=SPARK_CONF,
    )


def _restart(
    query: AlertQuery, ended: Exception, supervisor: Supervisor, stop: threading.Event
) -> None:
    """Starts a query that has ended; raises if that would not help."""
    text = str(ended)
    if lost_by_log(text):
        logger.warning(
            "%s: the log has lost what it reads next: %s", query.label, first_cause(text)
        )
        supervisor.restart(query)
    elif supervisor.is_outage(text):
        supervisor.restart(query, first_cause(text))
    elif NO_SLOTS in text and query.refused < MOST_REFUSED:
        query.refused += 1
        logger.warning("%s: other tasks have its slots; it starts again", query.label)
        stop.wait(REFUSED_S)
        supervisor.restart(query)
    elif query.has_lost_files() or ANOTHER_PARTITION in text:
        supervisor.restart(query)
    else:
        raise TrilayerError(
            f"{query.label}: its query ended: {first_cause(text)}; start it again. If it ends so at"
            f" each start, delete {query.checkpoint} in the store: what was judged with it is then"
            " judged and sent again"
        ) from ended
