"""The streaming query of one stream.

Generations, the offsets of a micro-batch, and what keeps it running.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NoReturn
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from speed_layer.segments import write_segment
from speed_layer.ticks import Ticks
from trilayer_core.compute.grouping import plan
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import CoverageError, EnvironmentFault, IntegrityError, LogError
from trilayer_core.log.broker import Log, Marks, Topic
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.kafka_source import KAFKA_OPTIONS, offsets_json
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Cut, Range, Ranges, ranges_between, size
from trilayer_core.store import layout
from trilayer_core.store.continuity import NOTHING_READ, changed, check_log, falls_short, lost_of
from trilayer_core.store.files import Store, read_listed
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval, newest_departed
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origin, Origins
from trilayer_core.store.publication import oldest_cut
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import Commit, Generation

logger = logging.getLogger("trilayer.speed")

STOP_TIMEOUT_S = 10.0
"""How long a stop waits for the micro-batch under way before it is cancelled."""

LOOK_BACK_S = 2.0
"""How long a look at the log is relied on, in seconds: nothing is committed on an older one.

A broker that loses acknowledged records is away for longer, whether it restarts or a replica takes
over from it: so the log lost nothing between a look and what is done less than this after it.
"""


class StreamQuery:
    """One stream's query.

    `start` chooses or begins a generation; `stop` ends it between two micro-batches.

    Attributes:
        stream: The stream.
        generation: The generation that it works on; None before `start`.
        departed: What the log was found to have lost, in words, after which the next `start` begins
            another generation; else None.
        unsettled: Why a micro-batch was not committed as it was read, after which the next `start`
            has it read again; else None.
    """

    def __init__(
        self,
        catalog: Catalog,
        stream: Stream,
        settings: Settings,
        store: Store,
        spark: SparkSession,
    ) -> None:
        self.stream = stream
        self.generation: Generation | None = None
        self._catalog, self._settings, self._store, self._spark = catalog, settings, store, spark
        self._master, self._origins = Master(store, stream), Origins(store, stream)
        self._generations = Generations(store, stream)
        self._passes = plan(catalog.views_of(stream))
        self._between_batches = threading.Lock()
        self._stopping = threading.Event()
        self._query: StreamingQuery | None = None
        self._ticks: Ticks | None = None
        self._log: Log | None = None
        self._ends: dict[int, Mapping[int, int]] = {}
        self._read = NOTHING_READ
        self._looked_back = 0.0
        self._epochs: dict[int, int] = {}
        self._topic: Topic | None = None
        self.departed: str | None = None
        self.unsettled: str | None = None

    def start(self, rebuild: bool = False) -> StreamingQuery:
        """Chooses or begins a generation, as `choose` does, and starts Spark's query of it.

        Args:
            rebuild: Whether to begin a generation in any case.

        Returns:
            Spark's query, which runs in a thread of its own.

        Raises:
            LogError: The topic does not have append time, was created again, or no longer holds
                what was ingested.
            EnvironmentFault: No broker answers.
        """
        self._log = Log(self._settings.bootstrap_servers)
        topic = self._log.topic(self.stream)
        self._log.check_append_time(topic)
        generation = self.choose(topic, self._log, rebuild)
        tick_ms, settle_ms = self._settings.tick_ms, self._settings.settle_ms
        self._ticks = Ticks(self.stream, topic, self._log, self._store, tick_ms, settle_ms)
        self._ends, self._epochs, self.unsettled = {}, {}, None
        reader = (
            self._spark.readStream.format("kafka")
            .options(**KAFKA_OPTIONS)
            .option("kafka.bootstrap.servers", self._settings.bootstrap_servers)
            .option("subscribe", topic.name)
            .option(
                "startingOffsets", offsets_json(topic.name, self._start_offsets(topic.partitions))
            )
            .option("maxOffsetsPerTrigger", str(self._settings.speed_max_events))
        )
        writer = reader.load().writeStream.foreachBatch(self._process).queryName(self.stream.name)
        self._query = (
            writer.option("checkpointLocation", self._store.uri(self._checkpoint(generation)))
            .trigger(processingTime=f"{self._settings.speed_trigger_s} seconds")
            .start()
        )
        return self._query

    def stop(self) -> None:
        """Ends the query when no micro-batch is under way: Spark is noisy when one is torn apart.

        One that does not end, since its broker is gone, is cancelled; it is replayed at the next
        start.
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

    def choose(self, topic: Topic, log: Log, rebuild: bool = False) -> Generation:
        """The generation to go on with; the first part of `start`.

        It is the newest one if it can go on: it has a checkpoint and today's definitions and ticks,
        and the log still holds what it has read and is about to read. Else another begins.

        Args:
            topic: The stream's topic.
            log: The log, which the query uses from now on.
            rebuild: Whether to begin a generation in any case.

        Raises:
            LogError: The topic was created again, or the log no longer holds what was ingested.
            EnvironmentFault: No broker answers.
        """
        self._log, self._topic = log, topic
        present = self._origins.at(topic, log)
        chain = self._master.longest_chain()
        check_log(self.stream, topic, present, chain, log)
        self._read = NOTHING_READ
        known = self._generations.all()
        lost = None
        if known and known[-1].topic_id == present.identity:
            lost = self.departed or _ruled_out(known[-1], chain) or self._lost(known[-1], topic)
        if lost:
            logger.warning(
                "stream %s: %s; another generation begins, which reads what the log holds now",
                self.stream.name,
                lost,
            )
        self.generation = None if rebuild or lost else self._resumable(present, topic)
        if self.generation is None:
            self._read = NOTHING_READ
            self.generation = self._begin(topic, present, anew=lost is not None)
        self.departed = None
        return self.generation

    def overtaken(self) -> bool:
        """Whether a new origin has begun since the generation did.

        Then the query should be started again.
        """
        present = self._origins.present()
        return (
            self.generation is not None
            and present is not None
            and present.identity != self.generation.topic_id
        )

    def has_lost(self) -> bool:
        """Whether the log has lost what the generation has read or was about to read.

        To be asked when the query has ended.
        """
        if self.generation is None or self._log is None:
            return False
        return self._lost(self.generation, self._log.topic(self.stream)) is not None

    def failure(self) -> Exception | None:
        """What ended the query; None while it runs, and before `start`."""
        if self._query is None or self._query.isActive:
            return None
        return self._query.exception() or RuntimeError("the query was stopped from outside")

    # -- generations -------------------------------------------------------------------------------

    def _checkpoint(self, generation: Generation) -> str:
        """Where Spark keeps what it has planned and done, in the store."""
        return layout.checkpoint(self.stream, generation.name)

    def _resumable(self, present: Origin, topic: Topic) -> Generation | None:
        known = self._generations.all()
        if not known:
            return None
        newest = known[-1]
        why = self._ended(newest, present.identity, topic)
        if why:
            logger.warning(
                "stream %s: generation %s ends, and another begins: %s",
                self.stream.name,
                newest.number,
                why,
            )
        return None if why else newest

    def _ended(self, generation: Generation, identity: str, topic: Topic) -> str:
        """Why the generation can't go on; an empty text if it can."""
        if generation.topic_id != identity:
            return "a new origin has begun"
        if generation.fingerprint != self._catalog.stream_fingerprint(self.stream):
            return "definitions have changed"
        planned = self._planned(generation)
        if not planned:
            return "it has no checkpoint"
        tick_ms = self._tick_ms_of(generation)
        if tick_ms != self._settings.tick_ms:
            was = f"{tick_ms / 1000:g} s" if tick_ms else "another length"
            return f"ticks are {self._settings.tick_s} s now; they were {was}"
        return (
            self._torn(generation)
            or self._taken(generation, planned[-1], topic)
            or self._too_large(generation, planned)
        )

    def _torn(self, generation: Generation) -> str:
        """Says so if a micro-batch's segment is not as it was committed.

        Segments of micro-batches are not forced to the disk, so that a power cut may take the
        newest of them. What compaction writes is.
        """

        def narrow() -> list[tuple[int, int]]:
            spans = self._generations.spans(generation.name)
            return [(first, last) for first, last in spans if first == last]

        def check(span: tuple[int, int]) -> None:
            commit = self._generations.commit(generation.name, *span)
            self._store.check_all(commit.files.values())

        try:
            read_listed(narrow, check)  # read again where a batch run has just cleared some away
        except IntegrityError as error:
            return f"a segment was lost, as in a power cut: {error}"
        return ""

    def _taken(self, generation: Generation, batch: int, topic: Topic) -> str:
        """Says so if the log no longer holds what the generation would go on with.

        Spark would refuse to go on, at each start.
        """
        assert self._log
        try:
            if self._store.exists(f"{self._checkpoint(generation)}/commits/{batch}"):
                following = self._planned_end(generation, batch)
            else:
                following = self._planned_end(generation, batch - 1) if batch else generation.start
        except IntegrityError as error:
            return f"its checkpoint can't be read: {error}"
        for partition, first in self._log.beginning(topic).items():
            offset = following.get(partition, 0)
            if offset < first:
                return (
                    f"the log no longer holds offsets [{offset}, {first}) of partition {partition}"
                )
        return ""

    def _tick_ms_of(self, generation: Generation) -> int | None:
        """The length of the generation's ticks.

        None if it was not kept and a segment's tick is not on today's grid.
        """
        if generation.tick_ms is not None:
            return generation.tick_ms
        commits = self._generations.commits(generation.name)
        ticks = {segment.tick for commit in commits for segment in commit.segments}
        on_grid = all(tick % self._settings.tick_ms == 0 for tick in ticks)
        return self._settings.tick_ms if on_grid else None

    def _too_large(self, generation: Generation, planned: list[int]) -> str:
        """Says so if the micro-batch to be replayed has more events than one may have now.

        It was planned with other settings.

        Spark replays it with the very same offsets: one that did not fit into the driver's memory
        never would.
        """
        batch = planned[-1]
        done = f"{self._checkpoint(generation)}/commits/{batch}"
        if self._store.exists(done) or self._generations.has_commit(generation.name, batch, batch):
            return ""
        try:
            end = self._planned_end(generation, batch)
            start = self._planned_end(generation, batch - 1) if batch else generation.start
        except IntegrityError as error:
            return f"its checkpoint can't be read: {error}"
        most = self._settings.speed_max_events
        found = size(ranges_between(start, end))
        # Spark rounds each partition's share of the most up to one.
        if found <= most + len(end):
            return ""
        return (
            f"micro-batch {batch} was planned with {found:,} events; speed_max_events is {most:,}"
            " now"
        )

    def _begin(self, topic: Topic, present: Origin, *, anew: bool) -> Generation:
        """A generation that reads from the cut of the oldest publication kept.

        A rollback then never meets a hole.

        Publications of an older origin do not count: their cuts are no offsets of the log as it is
        now.
        """
        assert self._log
        # Before the first publication answers begin at the origin, whatever a run that died has
        # written.
        publications = Publications(self._store)
        standing = publications.in_force()
        known_versions = publications.versions() if standing else []
        start = oldest_cut(known_versions, self.stream.name, present.identity, present.start)
        beginning = self._log.beginning(topic)
        published = standing.streams.get(self.stream.name) if standing else None
        of_present = published is not None and published.topic_id == present.identity
        needed = published.cut if published and of_present else dict(start)
        for partition, offset in start.items():
            first = beginning.get(partition, 0)
            if offset < first:
                start[partition] = first
                if needed.get(partition, 0) < first:
                    logger.warning(
                        "stream %s partition %s: the log no longer holds offsets [%s, %s), which"
                        " follow the batch views in force; this generation answers from the next"
                        " publication on: run `trilayer batch run`",
                        self.stream.name,
                        partition,
                        needed.get(partition, 0),
                        first,
                    )
        known = self._generations.all()
        # Above those that are ruled out too, whether their folders are still there or not.
        departed = newest_departed(self._master.longest_chain(), present.identity)
        number = max(known[-1].number if known else 0, departed) + 1
        views = {view.name: view.fingerprint for view in self._catalog.views_of(self.stream)}
        generation = Generation(
            f"{number:06d}-{uuid4().hex[:6]}",
            present.identity,
            self._catalog.stream_fingerprint(self.stream),
            views,
            start,
            now_ms(),
            self._settings.tick_ms,
            anew,
        )
        self._generations.begin(generation)
        logger.info(
            "stream %s: generation %s from %s",
            self.stream.name,
            number,
            ", ".join(f"{p}:{o}" for p, o in sorted(start.items())),
        )
        return generation

    def _start_offsets(self, partitions: tuple[int, ...]) -> dict[int, int]:
        """From where Spark reads.

        Also of a partition that was added and ingested after `partitions` were asked for.
        """
        assert self.generation
        start = self.generation.start
        return {partition: start.get(partition, 0) for partition in sorted({*partitions, *start})}

    # -- micro-batches -----------------------------------------------------------------------------

    def _process(self, records: DataFrame, batch_id: int) -> None:
        # Spark's stop waits for this very thread: waiting here for `stop` to let go of the lock
        # would last for ever. To return would have Spark count the micro-batch as done; the error
        # leaves it to be replayed.
        while not self._between_batches.acquire(timeout=0.02):
            if self._stopping.is_set():
                raise InterruptedError(
                    "the query is being stopped; this micro-batch is replayed at the next start"
                )
        try:
            assert self.generation
            ranges = self._ranges(batch_id)
            if self._generations.has_commit(self.generation.name, batch_id, batch_id) or not ranges:
                return
            self._look_back()
            commit = self._commit(records, batch_id, ranges)
            self._read = self._read.and_of([commit])
            logger.debug(
                "stream %s: micro-batch %s, %s events", self.stream.name, batch_id, size(ranges)
            )
            bad = sum(segment.quarantined for segment in commit.segments)
            if bad:
                logger.warning(
                    "stream %s: %s events quarantined; see `trilayer quarantine list`",
                    self.stream.name,
                    bad,
                )
        finally:
            self._between_batches.release()

    def _commit(self, records: DataFrame, batch_id: int, ranges: Ranges) -> Commit:
        """Writes and commits a micro-batch.

        Only if all that was read of it is of the state of the log that its marks are of.

        Raises LogError if it is not, or may not be. `docs/seam.md` argues why these checks suffice.
        """
        assert self.generation
        assert self._ticks
        ends = {p: r.end for p, r in ranges.items()}
        looked = time.monotonic()
        marks = self._last_records(ends)
        self._check_leaders(marks)
        parts = self._ticks.split(ranges, self._ends[batch_id])
        return write_segment(
            records, batch_id, parts, self.stream, self._passes, self.generation, self._store,
            before_commit=partial(self._vouch, marks, ends, looked),
        )  # fmt: skip

    def _check_leaders(self, marks: Marks) -> None:
        """Raises LogError if a partition's last record is of another leader than before.

        Spark may have fetched records ahead that the new leader does not have.
        """
        for partition, mark in marks.items():
            if mark and self._epochs.setdefault(partition, mark.epoch) != mark.epoch:
                self._read_again(f"partition {partition} has another leader")

    def _vouch(self, marks: Marks, ends: Cut, looked: float) -> Marks:
        """The marks, for the commit to keep.

        Args:
            marks: Of the last records below `ends`.
            ends: Where the micro-batch ends.
            looked: When the marks were looked up, by the monotonic clock.

        Raises:
            LogError: The log has lost something since they were looked up.
        """
        assert self._log
        assert self._topic
        self._look_back()
        if time.monotonic() - looked >= LOOK_BACK_S and changed(
            self._topic, marks, ends, self._log
        ):
            self._read_again("the log has lost what a micro-batch has read of it")
        return marks

    def _read_again(self, why: str) -> NoReturn:
        """Ends the query, so that the next `start` has the micro-batch read anew.

        The consumers that read it then have fetched nothing yet.
        """
        self.unsettled = why
        raise LogError(f"stream {self.stream.name!r}: {why}; the micro-batch is read again")

    def _last_records(self, ends: Cut) -> Marks:
        """The last record below each offset.

        Raises LogError if the log does not reach one of the offsets.
        """
        assert self._log
        if self._topic is None or not ends.keys() <= set(self._topic.partitions):
            self._topic = self._log.topic(self.stream)
        if short := falls_short(self._log.end(self._topic), ends):
            self.departed = short
            raise LogError(f"stream {self.stream.name!r}: {short}")
        found = self._log.last_records(self._topic, ends)
        return {p: found.get(p) for p in ends}

    def look(self) -> None:
        """Checks whether the log has lost records that were read, and sets `departed` if so.

        Only while no micro-batch is running.

        A micro-batch looks itself, but none comes while the log does not grow.
        """
        if (
            self._query is None
            or not self._query.isActive
            or not self._between_batches.acquire(blocking=False)
        ):
            return
        try:
            self._look_back()
        except (LogError, EnvironmentFault, CoverageError, IntegrityError):
            pass  # the first is in `departed`; of the others the next micro-batch will tell
        finally:
            self._between_batches.release()

    def _look_back(self) -> None:
        """Raises LogError if the log has lost what was ingested, or what was read before.

        Does nothing if the last look is younger than `LOOK_BACK_S`.

        Called before a micro-batch is read and before it is committed, so that records which came
        in the place of lost ones are not committed on top of those.
        """
        assert self._log
        if time.monotonic() - self._looked_back < LOOK_BACK_S:
            return
        if self._topic is None or not self._read.ends.keys() <= set(self._topic.partitions):
            self._topic = self._log.topic(self.stream)
        began = time.monotonic()
        # What was ingested counts in the answers too, whether this generation has read it or not.
        present = self._origins.present()
        if (
            present is not None
            and self.generation is not None
            and present.identity == self.generation.topic_id
        ):
            chain = self._master.longest_chain()
            try:
                check_log(self.stream, self._topic, present, chain, self._log)
            except LogError as error:
                self.departed = str(error)
                raise
            if why := _ruled_out(self.generation, chain):
                self.departed = why
                raise LogError(f"stream {self.stream.name!r}: {why}")
        found = lost_of(self._read, self._topic, self._log)
        self._looked_back = began
        if found:
            self.departed = found
            raise LogError(f"stream {self.stream.name!r}: {found}")

    def _lost(self, generation: Generation, topic: Topic) -> str | None:
        """What the log has lost of what a generation has read or was about to read.

        None if nothing.
        """
        assert self._log
        try:
            self._read = NOTHING_READ.and_of(self._generations.commits(generation.name))
        except IntegrityError:
            self._read = (
                NOTHING_READ  # what can't be read is no evidence; `_ended` has its say about it
            )
        end = self._log.end(topic)
        for batch in self._planned(generation)[-1:]:
            try:
                planned = self._planned_end(generation, batch)
                before = self._planned_end(generation, batch - 1) if batch else generation.start
            except IntegrityError:
                # A checkpoint that can't be read is no evidence; `_ended` has its say about it.
                break
            if short := falls_short(planned, before) or falls_short(end, planned):
                return short
        return lost_of(self._read, topic, self._log)

    def _ranges(self, batch_id: int) -> dict[int, Range]:
        """The micro-batch's offsets, from Spark's checkpoint, written before it runs.

        Raises LogError if they go back.
        """
        assert self.generation
        end = self._end_of(batch_id)
        start = self._end_of(batch_id - 1) if batch_id else self.generation.start
        if short := falls_short(end, start):
            self.departed = short
            raise LogError(f"stream {self.stream.name!r}: {short}")
        self._ends = {batch_id - 1: start, batch_id: end}
        return {partition: r for partition, r in ranges_between(start, end).items() if len(r)}

    def _end_of(self, batch_id: int) -> Mapping[int, int]:
        assert self.generation
        if batch_id not in self._ends:
            self._ends[batch_id] = self._planned_end(self.generation, batch_id)
        return self._ends[batch_id]

    def _planned(self, generation: Generation) -> list[int]:
        """The micro-batches that Spark has planned and not yet forgotten, in order."""
        names = self._store.names(f"{self._checkpoint(generation)}/offsets")
        return sorted(int(name) for name in names if name.isdigit())

    def _planned_end(self, generation: Generation, batch_id: int) -> Mapping[int, int]:
        """The offsets at which Spark's plan for a micro-batch ends.

        Raises IntegrityError if it can't be read.
        """
        path = f"{self._checkpoint(generation)}/offsets/{batch_id}"
        try:
            offsets = json.loads(self._store.read(path).decode().splitlines()[2])[self.stream.topic]
            return {int(partition): offset for partition, offset in offsets.items()}
        except (ValueError, LookupError, TypeError, AttributeError):
            raise IntegrityError(
                f"{path} must hold the offsets that Spark has planned; it was truncated or"
                " altered, as by a power cut; run `trilayer speed run --rebuild`"
            ) from None


def _ruled_out(generation: Generation, chain: Sequence[Interval]) -> str | None:
    """Says so if a batch run has found that the log lost what the generation had read.

    Readers never merge it again.
    """
    if generation.number > newest_departed(chain, generation.topic_id):
        return None
    return (
        f"a batch run has found that the log lost records which generation {generation.number} had"
        " read"
    )
