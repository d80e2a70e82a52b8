"""The real-time query of one group of alerts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from speed_layer.alerts.succession import AlertSuccession, Progress
from trilayer_core.compute.alerts import (
    ORIGIN_ID,
    alerts_of,
    remembered_sql,
    streamed_sql,
    with_profile,
    with_remembered,
    without_profile,
)
from trilayer_core.compute.formats.json import literal
from trilayer_core.compute.parsing import FITS, kafka_sql
from trilayer_core.definitions.alerts import AlertGroup, profile_columns
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import CoverageError, IntegrityError, StoreError
from trilayer_core.log.broker import MOST_ALERT_BYTES, Log
from trilayer_core.runtime.kafka_source import KAFKA_OPTIONS, offsets_json
from trilayer_core.runtime.session import select_from
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Cut
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGeneration, AlertGenerations, AlertState, Profile
from trilayer_core.store.files import Store
from trilayer_core.store.origins import Origins, topic_id_of
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publications import Publications

logger = logging.getLogger("trilayer.alerts")

# A real-time query waits for records in any case, so the broker may hold a request until there are
# some. Answering each request after 10 ms took half a core, here and in the broker.
REAL_TIME_OPTIONS = {**KAFKA_OPTIONS, "kafka.fetch.max.wait.ms": "500"}

PREPARE_AGAIN_S = 15.0
"""The time after which a profile that could not be stored is tried again, in seconds."""


class AlertQuery:
    """The query of one group of alerts.

    `start` chooses or begins a generation. `step` begins another one at the end of a batch, if one
    is due.

    Attributes:
        group: The group.
        generation: The generation that runs; None before `start`.
        refused: How often Spark has refused to run it for want of slots, since a batch has ended.
    """

    def __init__(
        self,
        group: AlertGroup,
        settings: Settings,
        store: Store,
        spark: SparkSession,
        *,
        open_log: Callable[[str], Log] = Log,
    ) -> None:
        """Prepares the query, without reading anything.

        Args:
            group: The group.
            settings: The settings.
            store: The store.
            spark: The session that runs the query, in real-time mode.
            open_log: Connects to the brokers.
        """
        self.group = group
        self.generation: AlertGeneration | None = None
        self.refused = 0
        self._settings, self._store, self._spark = settings, store, spark
        self._open_log = open_log
        self._query: StreamingQuery | None = None
        self._finished = -1
        self._pointer: bytes | None = None
        self._prepared: Mapping[str, Profile] = {}
        self._prepare_again = float("-inf")

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"alerts {', '.join(alert.name for alert in self.group.alerts)}"

    @property
    def fault_path(self) -> str:
        """The document in the store with the reason why it fails."""
        return layout.alerts_fault(self.group.name)

    @property
    def checkpoint(self) -> str:
        """The folder of Spark's checkpoint; empty before `start`."""
        number = self.generation.number if self.generation else 0
        return layout.alert_checkpoint(self.group.name, number) if number else ""

    @property
    def stream(self) -> Stream:
        """The stream."""
        return self.group.stream

    def start(self) -> None:
        """Starts the query, with the newest generation if that can go on.

        Raises:
            LogError: The topic was created again.
            EnvironmentFault: No broker answers.
        """
        with self._open_log(self._settings.bootstrap_servers) as log:
            for name in self.group.topics:
                log.ensure_alerts(name, self.stream.partitions, self._settings.replication_factor)
            self._run(self._succession(log).choose())

    def stop(self) -> None:
        """Ends the query. What was evaluated since the end of the last batch is evaluated again."""
        if self._query is not None:
            self._query.stop()

    def failure(self) -> Exception | None:
        """The error that ended the query; None while it runs, and before `start`."""
        if self._query is None or self._query.isActive:
            return None
        return self._query.exception() or RuntimeError("the query was stopped from outside")

    @property
    def runs(self) -> bool:
        """Whether all tasks of its batch run, so that events are evaluated as they come."""
        if self._query is None or self.generation is None:
            return False
        tracker = self._spark.sparkContext.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(str(self._query.runId)))
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        # In real-time mode all stages of a batch run at once: a task for each partition, and at
        # least one for the state of the keys.
        needed = len(self.generation.read_from) + bool(self.group.last)
        return sum(stage.numActiveTasks for stage in stages if stage) >= needed

    def overtaken(self) -> bool:
        """Whether a new origin has begun since the generation began."""
        present = Origins(self._store, self.stream).present()
        return (
            self.generation is not None
            and present is not None
            and present.identity != self.generation.origin_id
        )

    def reads_another_topic(self) -> bool:
        """Whether the stream's topic was created again since the query was started.

        Kafka's client goes on at the same offsets then, if it noticed nothing meanwhile.

        Raises:
            EnvironmentFault: No broker answers.
        """
        with self._open_log(self._settings.bootstrap_servers) as log:
            topic = log.find_named(self.stream.topic)
        return (
            topic is not None
            and self.generation is not None
            and topic.id != topic_id_of(self.generation.origin_id)
        )

    def has_lost_files(self) -> bool:
        """Whether a file that the generation reads is missing, so that another one must begin."""
        files = self.generation.files if self.generation else []
        return not all(self._store.exists(file.path) for file in files)

    def step(self) -> None:
        """Looks for a new publication, and at the end of a batch begins a generation if one is due.

        Raises:
            EnvironmentFault: No broker answers.
        """
        if self.generation is None or self._query is None or not self._query.isActive:
            return
        self._prepare()
        progress = Progress(self._store, self.group, self.generation.number)
        finished = progress.finished()
        if finished == self._finished:
            return
        self._finished = finished
        self.refused = 0
        judged = {**self.generation.read_from, **progress.judged()}
        keys = self._keys()
        why = ""
        if finished >= 0:
            with self._open_log(self._settings.bootstrap_servers) as log:
                succession = self._succession(log)
                why = succession.due(self.generation, judged, keys, self._prepared)
                if why:
                    self.stop()
                    self._run(succession.begin(why, self._prepared))
        if not why:
            self._note(judged, keys)

    def _prepare(self) -> None:
        """Stores the profiles of a new publication, so that a generation begins without delay."""
        if not self.group.profiles or time.monotonic() < self._prepare_again:
            return
        try:
            pointer = PointerFile(self._store).data()
            if pointer is None or pointer == self._pointer:
                return
            in_force = Publications(self._store).pointed_at(pointer)
            with self._open_log(self._settings.bootstrap_servers) as log:
                prepared = self._succession(log).profiles(in_force)
            self._pointer = pointer
            self._prepared, former = prepared, self._prepared
            self._delete_unused(former.values())
        except (IntegrityError, StoreError, CoverageError) as error:
            logger.warning("%s: the profile is not changed this time: %s", self.label, error)
            self._prepare_again = time.monotonic() + PREPARE_AGAIN_S

    def _delete_unused(self, former: Iterable[Profile]) -> None:
        """Deletes profiles that were replaced before a generation evaluated by them."""
        generations = AlertGenerations(self._store, self.group).all()
        used = {profile.file.path for one in generations for profile in one.profiles.values()}
        used |= {profile.file.path for profile in self._prepared.values()}
        for profile in former:
            if profile.file.path not in used:
                self._store.delete(profile.file.path)

    def _keys(self) -> int:
        """The number of keys in the state."""
        last = self._query.lastProgress if self._query else None
        return sum(state.numRowsTotal for state in last.stateOperators) if last else 0

    def _note(self, judged: Cut, keys: int) -> None:
        assert self.generation is not None
        state = AlertState(self.generation.number, judged, keys, self._store.clock())
        self._store.write_document(layout.alert_state(self.group.name), state)

    def _succession(self, log: Log) -> AlertSuccession:
        return AlertSuccession(self.group, self._settings, self._store, log.topic(self.stream), log)

    # -- Spark -------------------------------------------------------------------------------------

    def _run(self, generation: AlertGeneration) -> None:
        self.generation = generation
        progress = Progress(self._store, self.group, generation.number)
        self._finished = progress.finished()
        writer = (
            self._alerts(generation)
            .selectExpr("cast(key AS binary) AS key", "cast(payload AS binary) AS value", "topic")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self._settings.bootstrap_servers)
            # An alert is sent at once, and does not wait for others to be sent with it.
            .option("kafka.linger.ms", "0")
            # By default the client refuses records of more than a megabyte.
            .option("kafka.max.request.size", str(MOST_ALERT_BYTES))
            .option("kafka.buffer.memory", str(2 * MOST_ALERT_BYTES))
            .queryName(self.group.name)
            .outputMode("update")
            .option("checkpointLocation", self._store.uri(progress.path))
            .trigger(  # type: ignore[call-overload]  # the declared overloads lack this one
                realTime=f"{self._settings.alerts.boundary_s} seconds"
            )
        )
        self._query = writer.start()
        path = layout.alert_state(self.group.name)
        state = self._store.find_document(path, AlertState)
        if state is None or state.generation != generation.number:
            self._note({**generation.read_from, **progress.judged()}, 0)

    def _alerts(self, generation: AlertGeneration) -> DataFrame:
        """The alerts of a generation, as a streaming DataFrame."""
        group, topic = self.group, self.stream.topic
        records = (
            self._spark.readStream.format("kafka")
            .options(**REAL_TIME_OPTIONS)
            .option("kafka.bootstrap.servers", self._settings.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", offsets_json(topic, generation.read_from))
            .load()
            .selectExpr(*kafka_sql(["_partition", "_offset", "_timestamp", "_value"]))
        )
        events = select_from(records, lambda rows: streamed_sql(group, rows, generation.origin_id))
        events = _judged_only(events, generation)
        if generation.memory:
            events = with_remembered(events, self._remembered(generation), group)
        for view in group.profiles:
            profile = generation.profiles.get(view.name)
            if profile is None:
                events = without_profile(events, group, view)
            else:
                self._store.check(profile.file)
                columns = ", ".join(f"`{n}` {t}" for n, t in profile_columns(view).items())
                rows = self._spark.read.schema(columns).parquet(self._store.uri(profile.file.path))
                events = with_profile(
                    events, rows, group, view, f"CAST({profile.version} AS BIGINT)"
                )
        return alerts_of(group, events, may_not_fit=True)

    def _remembered(self, generation: AlertGeneration) -> DataFrame:
        """The newest events of each key below the generation's cut."""
        self._store.check_all(generation.memory)
        paths = [self._store.uri(file.path) for file in generation.memory]
        of_origin = f"{ORIGIN_ID} = {literal(generation.origin_id)}"
        rows = self._spark.read.parquet(*paths).where(of_origin)
        return select_from(rows, lambda name: remembered_sql(self.group, name))


def _judged_only(events: DataFrame, generation: AlertGeneration) -> DataFrame:
    """Events of which those before `alert_from` do not count as fitting, so raise no alert."""
    later = {
        partition: offset
        for partition, offset in generation.alert_from.items()
        if offset > generation.read_from.get(partition, 0)
    }
    if not later:
        return events
    whens = " ".join(f"WHEN {partition} THEN {offset}" for partition, offset in later.items())
    judged = f"_offset >= CASE _partition {whens} ELSE 0 END"
    columns = [name for name in events.columns if name != FITS]
    return events.selectExpr(*columns, f"{FITS} AND {judged} AS {FITS}")
