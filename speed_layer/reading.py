"""What a generation reads from its stream's log, micro-batch by micro-batch, without Spark.

`Reading` decides which offsets a micro-batch has, which ticks they are in, and whether it may be
committed: only if the log still holds everything that was read, as it was read. docs/seam.md
explains why the checks are sufficient.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

from speed_layer.checkpoint import Checkpoint
from speed_layer.ticks import Ticks
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import CoverageError, EnvironmentFault, IntegrityError, LogError
from trilayer_core.log.broker import Log, Marks, Topic
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Cut, Ranges, RangesByTick, ranges_between
from trilayer_core.store.continuity import (
    NOTHING_READ,
    Read,
    changed,
    check_log,
    falls_short,
    lost_of,
)
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval, newest_departed
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins
from trilayer_core.store.segments import Commit, Generation

LOOK_BACK_S = 2.0
"""How long a check of the log is valid, in seconds; nothing is committed on an older one.

A broker that loses acknowledged records is unavailable for longer, whether it restarts or a replica
takes over. The log therefore lost nothing between a check and what is done within this time after
it.
"""

Write = Callable[[RangesByTick, Callable[[], Marks]], Commit]
"""Computes and commits the offsets of a micro-batch, by tick.

The second argument is called when everything has been read and written. It returns the commit's
marks, and can raise an error to prevent the commit.
"""


class Reading:
    """The reading of a stream's log by one generation.

    Attributes:
        generation: The generation.
        departed: A description of what the log has lost, if anything; another generation must then
            begin.
        unsettled: The reason why a micro-batch was not committed as it was read, if there is one;
            it must then be read again.
    """

    def __init__(
        self,
        stream: Stream,
        generation: Generation,
        read: Read,
        topic: Topic,
        log: Log,
        settings: Settings,
        store: Store,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Continues after what the generation has read.

        Args:
            stream: The stream.
            generation: The generation.
            read: What it has read so far.
            topic: The stream's topic.
            log: The log, which is used from now on.
            settings: The tick and the settle delay.
            store: The store.
            elapsed: A monotonic clock, in seconds.
        """
        self.generation = generation
        self.departed: str | None = None
        self.unsettled: str | None = None
        self._stream, self._topic, self._log, self._store = stream, topic, log, store
        self._read, self._elapsed = read, elapsed
        self._master, self._origins = Master(store, stream), Origins(store, stream)
        self._generations = Generations(store, stream)
        self._checkpoint = Checkpoint(store, stream, generation)
        self._ticks = Ticks(stream, topic, log, store, settings.tick_ms, settings.settle_ms)
        self._ends: dict[int, Cut] = {}
        self._epochs: dict[int, int] = {}
        self._looked_back = float("-inf")

    def commit(self, batch_id: int, write: Write) -> Commit | None:
        """Writes a micro-batch, and commits it if all of it comes from one state of the log.

        Args:
            batch_id: Its number in Spark.
            write: Writes and commits it.

        Returns:
            The commit; None if there is nothing to commit, or if it was committed before.

        Raises:
            LogError: The log has lost what was read, or may have; `departed` or `unsettled` says
                which.
        """
        ranges = self._ranges(batch_id)
        if self._generations.has_commit(self.generation.name, batch_id, batch_id) or not ranges:
            return None
        self._look_back()
        commit = self._commit(batch_id, ranges, write)
        self._read = self._read.and_of([commit])
        return commit

    def look(self) -> None:
        """Checks whether the log has lost records that were read, and sets `departed` if so.

        A micro-batch checks this itself, but there is none while the log does not grow.
        """
        # The first loss is in `departed`; the next micro-batch finds the others.
        with suppress(LogError, EnvironmentFault, CoverageError, IntegrityError):
            self._look_back()

    def overtaken(self) -> bool:
        """Whether a new origin has begun since the generation began."""
        present = self._origins.present()
        return present is not None and present.identity != self.generation.topic_id

    def has_lost(self) -> bool:
        """Whether the log has lost what the generation has read or was about to read."""
        topic = self._log.topic(self._stream)
        return lost(self._stream, self.generation, topic, self._log, self._store)[1] is not None

    # -- one micro-batch ---------------------------------------------------------------------------

    def _ranges(self, batch_id: int) -> Ranges:
        """The micro-batch's offsets, from Spark's checkpoint.

        Spark writes it before the micro-batch runs.

        Raises:
            LogError: They go backwards.
        """
        known, checkpoint = self._ends, self._checkpoint
        end = known[batch_id] if batch_id in known else checkpoint.end(batch_id)
        start = known[batch_id - 1] if batch_id - 1 in known else checkpoint.begin(batch_id)
        if short := falls_short(end, start):
            self._depart(short)
        self._ends = {batch_id - 1: start, batch_id: end}
        return {partition: r for partition, r in ranges_between(start, end).items() if len(r)}

    def _commit(self, batch_id: int, ranges: Ranges, write: Write) -> Commit:
        ends = {p: r.end for p, r in ranges.items()}
        looked = self._elapsed()
        marks = self._last_records(ends)
        self._check_leaders(marks)
        parts = self._ticks.split(ranges, self._ends[batch_id])
        return write(parts, partial(self._vouch, marks, ends, looked))

    def _last_records(self, ends: Cut) -> Marks:
        """The last record below each offset.

        Raises:
            LogError: The log does not reach one of the offsets.
        """
        self._know_partitions(ends)
        if short := falls_short(self._log.end(self._topic), ends):
            self._depart(short)
        found = self._log.last_records(self._topic, ends)
        return {p: found.get(p) for p in ends}

    def _check_leaders(self, marks: Marks) -> None:
        """Checks that each partition's last record has the same leader as before.

        Otherwise Spark may have prefetched records that the new leader does not have.

        Raises:
            LogError: It has another leader.
        """
        for partition, mark in marks.items():
            if mark and self._epochs.setdefault(partition, mark.epoch) != mark.epoch:
                self._read_again(f"partition {partition} has another leader")

    def _vouch(self, marks: Marks, ends: Cut, looked: float) -> Marks:
        """Checks the marks, and returns them for the commit.

        Args:
            marks: The marks of the last records below `ends`.
            ends: The end of the micro-batch.
            looked: When the marks were looked up, by the monotonic clock.

        Raises:
            LogError: The log has lost something since they were looked up.
        """
        self._look_back()
        if self._elapsed() - looked >= LOOK_BACK_S and changed(self._topic, marks, ends, self._log):
            self._read_again("the log has lost what a micro-batch has read of it")
        return marks

    # -- whether the log still holds what was read -------------------------------------------------

    def _look_back(self) -> None:
        """Checks that the log has not lost what was ingested or what was read before.

        Does nothing if the last check is younger than `LOOK_BACK_S`. It is called before a
        micro-batch is read and before it is committed, so that records which replaced lost ones are
        not committed on top of those.

        Raises:
            LogError: It has.
        """
        began = self._elapsed()
        if began - self._looked_back < LOOK_BACK_S:
            return
        self._know_partitions(self._read.ends)
        # Ingested records are part of the answers whether or not this generation has read them.
        present = self._origins.present()
        if present is not None and present.identity == self.generation.topic_id:
            chain = self._master.longest_chain()
            try:
                check_log(self._stream, self._topic, present, chain, self._log)
            except LogError as error:
                self.departed = str(error)
                raise
            if why := ruled_out(self.generation, chain):
                self._depart(why)
        found = lost_of(self._read, self._topic, self._log)
        self._looked_back = began
        if found:
            self._depart(found)

    def _know_partitions(self, offsets: Cut) -> None:
        """Describes the topic again if a partition was added since."""
        if not offsets.keys() <= set(self._topic.partitions):
            self._topic = self._log.topic(self._stream)

    def _depart(self, why: str) -> NoReturn:
        """Ends the query, so that another generation begins."""
        self.departed = why
        raise LogError(f"stream {self._stream.name!r}: {why}")

    def _read_again(self, why: str) -> NoReturn:
        """Ends the query, so that the next `start` reads the micro-batch again.

        The new query's consumers have not prefetched anything.
        """
        self.unsettled = why
        raise LogError(f"stream {self._stream.name!r}: {why}; the micro-batch is read again")


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
    for batch_id in checkpoint.planned()[-1:]:
        try:
            planned, before = checkpoint.end(batch_id), checkpoint.begin(batch_id)
        except IntegrityError:
            break
        if short := falls_short(planned, before) or falls_short(end, planned):
            return read, short
    return read, lost_of(read, topic, log)


def ruled_out(generation: Generation, chain: Sequence[Interval]) -> str | None:
    """A message if a batch run has found that the log lost what the generation had read, else None.

    Readers never merge such a generation again.
    """
    if generation.number > newest_departed(chain, generation.topic_id):
        return None
    return (
        f"a batch run has found that the log lost records which generation {generation.number} had"
        " read"
    )
