"""The streaming query of one stream: runs Spark as `Succession` and `Reading` decide."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from speed_layer.reading import Reading, Written
from speed_layer.segments import write_segments
from speed_layer.succession import Succession
from trilayer_core.compute.grouping import plan
from trilayer_core.definitions.stream import Stream
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.runtime.kafka_source import KAFKA_OPTIONS, offsets_json
from trilayer_core.seam import RangesByTick, size
from trilayer_core.store import layout
from trilayer_core.store.segments import Commit, Generation

logger = logging.getLogger("trilayer.speed")

STOP_TIMEOUT_S = 10.0
"""How long `stop` waits for the running micro-batch before cancelling it."""


class StreamQuery:
    """The query of one stream.

    `start` chooses or begins a generation; `stop` ends the query between two micro-batches.

    Attributes:
        stream: The stream.
        generation: The generation in use; None before `start`.
        loss: A description of what the log has lost, if anything; the next `start` then begins
            another generation.
        unsettled: The reason why a micro-batch was not committed as it was read, if there is one;
            the next `start` then reads it again.
    """

    def __init__(
        self,
        project: Project,
        stream: Stream,
        spark: SparkSession,
        *,
        open_log: Callable[[str], Log] = Log,
        write: Callable[..., Written] = write_segments,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepares the query, without reading anything.

        Args:
            project: The project.
            stream: The stream.
            spark: The session that runs the query.
            open_log: Connects to the brokers.
            write: Writes the segments of a micro-batch, as `write_segments` does.
            elapsed: A monotonic clock, in seconds.
        """
        self.stream = stream
        self._project, self._spark = project, spark
        self._open_log, self._write, self._elapsed = open_log, write, elapsed
        self._passes = plan(project.catalog.stored_of(stream))
        self._between_batches = threading.Lock()
        self._stopping = threading.Event()
        self._query: StreamingQuery | None = None
        self._log: Log | None = None
        self._reading: Reading | None = None

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"stream {self.stream.name}"

    @property
    def fault_path(self) -> str:
        """The document in the store with the reason why it fails."""
        return layout.stream_fault(self.stream.name)

    @property
    def generation(self) -> Generation | None:
        """The generation in use; None before `start`."""
        return self._reading.generation if self._reading else None

    @property
    def loss(self) -> str | None:
        """What the log has lost, if anything; the next `start` then begins another generation."""
        return self._reading.loss if self._reading else None

    @property
    def unsettled(self) -> str | None:
        """Why a micro-batch was not committed, if so; the next `start` then reads it again."""
        return self._reading.unsettled if self._reading else None

    def start(self, rebuild: bool = False) -> StreamingQuery:
        """Chooses or begins a generation, and starts its Spark query.

        Args:
            rebuild: Whether to begin a generation in any case.

        Returns:
            Spark's query, which runs in a thread of its own.

        Raises:
            LogError: The topic does not have append times, was created again, or no longer holds
                what was ingested.
            EnvironmentFault: No broker answers.
        """
        settings, store = self._project.settings, self._project.store
        self._log = log = self._open_log(settings.bootstrap_servers)
        topic = log.topic(self.stream)
        log.check_append_time(topic)
        succession = Succession(self._project, self.stream, topic, log)
        generation, read = succession.choose(loss=self.loss, rebuild=rebuild)
        # Made before Spark's query starts, whose thread may call `_process` at once.
        self._reading = Reading(
            self._project, self.stream, generation, read, topic, log, elapsed=self._elapsed
        )
        # Includes a partition that was added and ingested after the topic was described.
        start = {p: generation.start.get(p, 0) for p in (*topic.partitions, *generation.start)}
        reader = (
            self._spark.readStream.format("kafka")
            .options(**KAFKA_OPTIONS)
            .option("kafka.bootstrap.servers", settings.bootstrap_servers)
            # Unlike `assign`, this also reads partitions that are added later.
            .option("subscribe", topic.name)
            # Spark ignores these once the checkpoint has a plan.
            .option("startingOffsets", offsets_json(topic.name, start))
            # Of all partitions together; Spark rounds up the share of each.
            .option("maxOffsetsPerTrigger", str(settings.speed.max_events))
        )
        writer = reader.load().writeStream.foreachBatch(self._process).queryName(self.stream.name)
        checkpoint = layout.checkpoint(self.stream, generation.name)
        self._query = (
            writer.option("checkpointLocation", store.uri(checkpoint))
            .trigger(processingTime=f"{settings.speed.trigger_s} seconds")
            .start()
        )
        return self._query

    def stop(self) -> None:
        """Ends the query between two micro-batches.

        Spark logs errors if a micro-batch is interrupted.

        A micro-batch that does not end because its broker is unavailable is cancelled, and replayed
        at the next start.
        """
        self._stopping.set()
        if not self._between_batches.acquire(timeout=STOP_TIMEOUT_S):
            self._spark.sparkContext.cancelAllJobs()
            self._between_batches.acquire()
        try:
            if self._query is not None:
                self._query.stop()
        finally:
            self._between_batches.release()
        self._stopping.clear()
        if self._log is not None:
            self._log.close()

    def failure(self) -> Exception | None:
        """The error that ended the query; None while it runs, and before `start`."""
        if self._query is None or self._query.isActive:
            return None
        return self._query.exception() or RuntimeError("the query was stopped from outside")

    def overtaken(self) -> bool:
        """Whether a new origin has begun since the generation began.

        The query must then be restarted.
        """
        return self._reading is not None and self._reading.overtaken()

    def has_lost(self) -> bool:
        """Whether the log has lost what the generation has read or was about to read.

        To be called after the query has ended.
        """
        return self._reading is not None and self._reading.has_lost()

    def check_log(self) -> None:
        """Checks whether the log has lost records that were read, and sets `loss` if so.

        It only does so between micro-batches. A micro-batch checks this itself, but there is none
        while the log does not grow.
        """
        if (
            self._reading is None
            or self._query is None
            or not self._query.isActive
            or not self._between_batches.acquire(blocking=False)
        ):
            return
        try:
            self._reading.check()
        finally:
            self._between_batches.release()

    def _process(self, records: DataFrame, batch_id: int) -> None:
        """Processes one micro-batch, in a thread of Spark."""
        # Spark's stop waits for this thread, so waiting here until `stop` releases the lock would
        # never end. Returning would make Spark count the micro-batch as done. The error makes Spark
        # replay it.
        while not self._between_batches.acquire(timeout=0.02):
            if self._stopping.is_set():
                raise InterruptedError(
                    "the query is being stopped; this micro-batch is replayed at the next start"
                )
        try:
            assert self._reading
            name, store = self._reading.generation.name, self._project.store
            path_of = partial(layout.segment, self.stream, name, batch_id, batch_id)

            def write(parts: RangesByTick) -> Written:
                return self._write(records, parts, self.stream, self._passes, path_of, store)

            commit = self._reading.process(batch_id, write)
        finally:
            self._between_batches.release()
        if commit is not None:
            self._report(commit)

    def _report(self, commit: Commit) -> None:
        events = sum(size(segment.ranges) for segment in commit.segments)
        logger.debug("stream %s: micro-batch %s, %s events", self.stream.name, commit.last, events)
        bad = sum(segment.quarantined for segment in commit.segments)
        if bad:
            logger.warning(
                "stream %s: %s events quarantined; see `trilayer quarantine list`",
                self.stream.name,
                bad,
            )
