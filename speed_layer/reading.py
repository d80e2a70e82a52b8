"""What a generation reads from its stream's log, micro-batch by micro-batch.

`Reading.process` is one micro-batch from its plan to its commit. It is committed only if the log
still holds everything that was read, as it was read. docs/seam.md explains why the checks are
sufficient. Spark's part is behind `Write`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NoReturn

from speed_layer.ticks import Ticks
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import CoverageError, EnvironmentFault, IntegrityError, LogError
from trilayer_core.log.broker import Log, Marks, Topic
from trilayer_core.project import Project
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.seam import Cut, RangesByTick, ranges_between
from trilayer_core.store import layout
from trilayer_core.store.continuity import (
    NOTHING_READ,
    Read,
    changed,
    check_log,
    falls_short,
    lost_of,
)
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval, newest_ruled_out
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins
from trilayer_core.store.segments import Commit, Generation, Segment

CHECK_VALID_S = 2.0
"""How long a check of the log is valid, in seconds; nothing is committed on an older one.

A broker that loses acknowledged records is unavailable for longer, whether it restarts or a replica
takes over. The log therefore lost nothing between a check and what is done within this time after
it.
"""


@dataclass(frozen=True)
class Written:
    """The segments of a micro-batch and their files, which do not count until a commit names them.

    Attributes:
        segments: A segment for each tick.
        files: The file of each view's partials.
        quarantine: The file of events that do not fit the schema; None if there are none.
    """

    segments: Sequence[Segment]
    files: Mapping[str, StoredFile]
    quarantine: StoredFile | None


Write = Callable[[RangesByTick], Written]
"""Reads the offsets of a micro-batch, and writes their segments."""


class Reading:
    """The reading of a stream's log by one generation.

    Attributes:
        generation: The generation.
        loss: A description of what the log has lost, if anything; another generation must then
            begin.
        unsettled: The reason why a micro-batch was not committed as it was read, if there is one;
            it must then be read again.
    """

    def __init__(
        self,
        project: Project,
        stream: Stream,
        generation: Generation,
        read: Read,
        topic: Topic,
        log: Log,
        *,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Continues after what the generation has read.

        Args:
            project: The project, with the tick and the settle delay.
            stream: The stream.
            generation: The generation.
            read: What it has read so far.
            topic: The stream's topic.
            log: The log, which is used from now on.
            elapsed: A monotonic clock, in seconds.
        """
        store, settings = project.store, project.settings
        self.generation = generation
        self.loss: str | None = None
        self.unsettled: str | None = None
        self._stream, self._topic, self._log, self._store = stream, topic, log, store
        self._read, self._elapsed = read, elapsed
        self._master, self._origins = Master(store, stream), Origins(store, stream)
        self._generations = Generations(store, stream)
        self._checkpoint = Checkpoint(store, stream, generation)
        self._ticks = Ticks(stream, topic, log, store, settings.tick_ms, settings.settle_ms)
        self._ends: dict[int, Cut] = {}
        self._epochs: dict[int, int] = {}
        self._checked_at = float("-inf")

    def process(self, batch_id: int, write: Write) -> Commit | None:
        """Processes one micro-batch: plans offsets, writes segments, takes marks, and commits.

        Called again before the commit, it overwrites its files.

        Args:
            batch_id: Its number in Spark.
            write: Writes its segments.

        Returns:
            The commit; None if there is nothing to commit, or if it was committed before.

        Raises:
            LogError: The log has lost what was read, or may have; `loss` or `unsettled` says
                which.
        """
        start, end = self._planned(batch_id)
        ranges = {p: r for p, r in ranges_between(start, end).items() if len(r)}
        # After a crash Spark repeats the last micro-batch of its checkpoint, also one that was
        # committed before Spark had noted its end.
        if not ranges or self._generations.has_commit(self.generation.name, batch_id, batch_id):
            return None
        self._check_log()
        # The time before the marks are taken, so that they never count as newer than they are.
        marked_at = self._elapsed()
        marks = self._last_records({p: end[p] for p in ranges})
        parts = self._ticks.split(ranges, end)

        written = write(parts)

        # The log must hold now what it held when the marks were taken, because Spark has read
        # it in between.
        self._check_log()
        is_old = self._elapsed() - marked_at >= CHECK_VALID_S
        if is_old and changed(self._topic, marks, end, self._log):
            self._read_again("the log has lost what a micro-batch has read of it")
        commit = _commit(batch_id, written, self._store.clock(), marks)
        failpoint("segment.before-commit")
        # Not flushed to the disk: after a power cut the log still has the records, and
        # succession.py begins another generation if a segment is torn.
        self._generations.write_commit(self.generation.name, commit, durable=False)
        failpoint("segment.after-commit")
        self._read = self._read.and_of([commit])
        return commit

    def check(self) -> None:
        """Checks whether the log has lost records that were read, and sets `loss` if so.

        A micro-batch checks this itself, but there is none while the log does not grow.
        """
        # The first loss is in `loss`; the next micro-batch finds the others.
        with suppress(LogError, EnvironmentFault, CoverageError, IntegrityError):
            self._check_log()

    def overtaken(self) -> bool:
        """Whether a new origin has begun since the generation began."""
        present = self._origins.present()
        return present is not None and present.identity != self.generation.origin_id

    def has_lost(self) -> bool:
        """Whether the log has lost what the generation has read or was about to read."""
        topic = self._log.topic(self._stream)
        return lost(self._stream, self.generation, topic, self._log, self._store)[1] is not None

    # -- one micro-batch ---------------------------------------------------------------------------

    def _planned(self, batch_id: int) -> tuple[Cut, Cut]:
        """The offsets at which the micro-batch begins and ends, from Spark's checkpoint.

        Spark writes it before the micro-batch runs.

        Raises:
            LogError: They go backwards.
        """
        ends, checkpoint = self._ends, self._checkpoint
        end = ends[batch_id] if batch_id in ends else checkpoint.end(batch_id)
        start = ends[batch_id - 1] if batch_id - 1 in ends else checkpoint.begin(batch_id)
        if short := falls_short(end, start):
            self._end_generation(short)
        self._ends = {batch_id - 1: start, batch_id: end}
        return start, end

    def _last_records(self, ends: Cut) -> Marks:
        """The last record below each offset.

        Raises:
            LogError: The log does not reach one of the offsets, or a partition has another leader
                than before: Spark may have prefetched records that the new leader does not have.
        """
        self._know_partitions(ends)
        if short := falls_short(self._log.end(self._topic), ends):
            self._end_generation(short)
        last = self._log.last_records(self._topic, ends)
        for partition, mark in last.items():
            if self._epochs.setdefault(partition, mark.epoch) != mark.epoch:
                self._read_again(f"partition {partition} has another leader")
        return {p: last.get(p) for p in ends}

    # -- whether the log still holds what was read -------------------------------------------------

    def _check_log(self) -> None:
        """Checks that the log has not lost what was ingested or what was read before.

        Does nothing if the last check is younger than `CHECK_VALID_S`. It is called before a
        micro-batch is read and before it is committed, so that records which replaced lost ones are
        not committed on top of those.

        Raises:
            LogError: It has.
        """
        began = self._elapsed()
        if began - self._checked_at < CHECK_VALID_S:
            return
        self._know_partitions(self._read.ends)
        # Ingested records are part of the answers whether or not this generation has read them.
        present = self._origins.present()
        if present is not None and present.identity == self.generation.origin_id:
            chain = self._master.longest_chain()
            try:
                check_log(self._stream, self._topic, present, chain, self._log)
            except LogError as error:
                self.loss = str(error)
                raise
            if why := why_ruled_out(self.generation, chain):
                self._end_generation(why)
        loss = lost_of(self._read, self._topic, self._log)
        # The time at which the check began: it may have missed what the log lost meanwhile.
        self._checked_at = began
        if loss:
            self._end_generation(loss)

    def _know_partitions(self, offsets: Cut) -> None:
        """Describes the topic again if a partition was added since."""
        if not offsets.keys() <= set(self._topic.partitions):
            self._topic = self._log.topic(self._stream)

    def _end_generation(self, why: str) -> NoReturn:
        """Ends the query, so that another generation begins."""
        self.loss = why
        raise LogError(f"stream {self._stream.name!r}: {why}")

    def _read_again(self, why: str) -> NoReturn:
        """Ends the query, so that the next `start` reads the micro-batch again.

        The new query's consumers have not prefetched anything.
        """
        self.unsettled = why
        raise LogError(f"stream {self._stream.name!r}: {why}; the micro-batch is read again")


def _commit(batch_id: int, written: Written, now_ms: int, marks: Marks) -> Commit:
    segments = [
        replace(s, waited_ms=None if s.oldest_ms is None else now_ms - s.oldest_ms)
        for s in written.segments
    ]
    return Commit(batch_id, batch_id, segments, written.files, written.quarantine, now_ms, marks)


def lost(
    stream: Stream, generation: Generation, topic: Topic, log: Log, store: Store
) -> tuple[Read, str | None]:
    """What a generation has read, and a description of what the log has lost of it.

    This includes what it would read next. The description is None if nothing was lost. A file that
    can't be read does not prove a loss.
    """
    try:
        read = NOTHING_READ.and_of(Generations(store, stream).commits(generation.name))
    except IntegrityError:
        read = NOTHING_READ
    end, checkpoint = log.end(topic), Checkpoint(store, stream, generation)
    # The last micro-batch that was planned may not be committed. Spark would read its offsets
    # again, so the log must still reach them.
    for batch_id in checkpoint.planned()[-1:]:
        try:
            planned, before = checkpoint.end(batch_id), checkpoint.begin(batch_id)
        except IntegrityError:
            break
        if short := falls_short(planned, before) or falls_short(end, planned):
            return read, short
    return read, lost_of(read, topic, log)


def why_ruled_out(generation: Generation, chain: Sequence[Interval]) -> str | None:
    """A message if a batch run has found that the log lost what the generation had read, else None.

    Readers never merge such a generation again.
    """
    if generation.number > newest_ruled_out(chain, generation.origin_id):
        return None
    return (
        f"a batch run has found that the log lost records which generation {generation.number} had"
        " read"
    )


class Checkpoint:
    """Spark's checkpoint of one generation.

    Attributes:
        path: Its folder in the store.
    """

    def __init__(self, store: Store, stream: Stream, generation: Generation) -> None:
        self.path = layout.checkpoint(stream, generation.name)
        self._store, self._stream, self._generation = store, stream, generation

    def planned(self) -> list[int]:
        """The micro-batches in Spark's checkpoint, in order."""
        names = self._store.names(f"{self.path}/offsets")
        return sorted(int(name) for name in names if name.isdigit())

    def is_done(self, batch_id: int) -> bool:
        """Whether Spark counts the micro-batch as finished."""
        return self._store.exists(f"{self.path}/commits/{batch_id}")

    def begin(self, batch_id: int) -> Cut:
        """The offsets at which a micro-batch begins, which are the end of the previous one.

        Raises:
            IntegrityError: Spark's plan can't be read.
        """
        return self.end(batch_id - 1) if batch_id else self._generation.start

    def end(self, batch_id: int) -> Cut:
        """The end offsets of a micro-batch in Spark's checkpoint.

        Raises:
            IntegrityError: The file can't be read.
        """
        remedy = "run `trilayer speed run --rebuild`"
        return read_end(self._store, self.path, batch_id, self._stream.topic, remedy)


def read_end(store: Store, checkpoint: str, batch_id: int, topic: str, remedy: str) -> Cut:
    """The end offsets that Spark has written for a batch into the folder of a checkpoint.

    Raises:
        IntegrityError: The file can't be read; `remedy` says what to do.
    """
    path = f"{checkpoint}/offsets/{batch_id}"
    try:
        # The first two lines are the format's version, and properties of the batch.
        ends = json.loads(store.read(path).decode().splitlines()[2])[topic]
        return {int(partition): offset for partition, offset in ends.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise IntegrityError(
            f"{path} does not contain the offsets that Spark has planned; it was truncated or"
            f" altered, for example by a power cut; {remedy}"
        ) from None
