"""What a generation reads of its stream's log, micro-batch by micro-batch, without Spark.

`Reading` decides which offsets a micro-batch has, in which ticks they are, and whether it may be
committed: only if the log still holds all that was read, as it was read. `docs/seam.md` argues why
these checks suffice.
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
"""How long a look at the log is relied on, in seconds: nothing is committed on an older one.

A broker that loses acknowledged records is away for longer, whether it restarts or a replica takes
over from it: so the log lost nothing between a look and what is done less than this after it.
"""

Write = Callable[[RangesByTick, Callable[[], Marks]], Commit]
"""Computes and commits the offsets of a micro-batch, by tick.

The second argument is called when all has been read and written, and gives the commit's marks; what
it raises keeps the micro-batch from being committed.
"""


class Reading:
    """One generation's reading of its stream's log.

    Attributes:
        generation: The generation.
        departed: What the log was found to have lost, in words, after which another generation must
            begin; else None.
        unsettled: Why a micro-batch was not committed as it was read, after which it must be read
            again; else None.
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
        """Goes on from what the generation has read.

        Args:
            stream: The stream.
            generation: The generation.
            read: What it has read so far.
            topic: The stream's topic.
            log: The log, which is asked from now on.
            settings: The tick and the settle delay.
            store: Where the generation is.
            elapsed: A clock that never goes back, in seconds.
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
        """Has a micro-batch written, and committed.

        Only if all that was read of it is of the state of the log that its marks are of.

        Args:
            batch_id: Its number, by which Spark has planned it.
            write: Writes and commits it.

        Returns:
            The commit; None if there is nothing to commit, or it was done before.

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

        A micro-batch looks itself, but none comes while the log does not grow.
        """
        # The first is in `departed`; of the others the next micro-batch will tell.
        with suppress(LogError, EnvironmentFault, CoverageError, IntegrityError):
            self._look_back()

    def overtaken(self) -> bool:
        """Whether a new origin has begun since the generation did."""
        present = self._origins.present()
        return present is not None and present.identity != self.generation.topic_id

    def has_lost(self) -> bool:
        """Whether the log has lost what the generation has read or was about to read."""
        topic = self._log.topic(self._stream)
        return lost(self._stream, self.generation, topic, self._log, self._store)[1] is not None

    # -- one micro-batch ---------------------------------------------------------------------------

    def _ranges(self, batch_id: int) -> Ranges:
        """The micro-batch's offsets, from Spark's checkpoint, written before it runs.

        Raises LogError if they go back.
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

        Raises LogError if the log does not reach one of the offsets.
        """
        self._know_partitions(ends)
        if short := falls_short(self._log.end(self._topic), ends):
            self._depart(short)
        found = self._log.last_records(self._topic, ends)
        return {p: found.get(p) for p in ends}

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
            looked: When the marks were looked up, by the clock that never goes back.

        Raises:
            LogError: The log has lost something since they were looked up.
        """
        self._look_back()
        if self._elapsed() - looked >= LOOK_BACK_S and changed(self._topic, marks, ends, self._log):
            self._read_again("the log has lost what a micro-batch has read of it")
        return marks

    # -- whether the log still holds what was read -------------------------------------------------

    def _look_back(self) -> None:
        """Raises LogError if the log has lost what was ingested, or what was read before.

        Does nothing if the last look is younger than `LOOK_BACK_S`.

        Called before a micro-batch is read and before it is committed, so that records which came
        in the place of lost ones are not committed on top of those.
        """
        began = self._elapsed()
        if began - self._looked_back < LOOK_BACK_S:
            return
        self._know_partitions(self._read.ends)
        # What was ingested counts in the answers too, whether this generation has read it or not.
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
        """Asks for the topic again if a partition was added since it was asked for."""
        if not offsets.keys() <= set(self._topic.partitions):
            self._topic = self._log.topic(self._stream)

    def _depart(self, why: str) -> NoReturn:
        """Ends the query, so that another generation begins."""
        self.departed = why
        raise LogError(f"stream {self._stream.name!r}: {why}")

    def _read_again(self, why: str) -> NoReturn:
        """Ends the query, so that the next one reads the micro-batch anew.

        The consumers that read it then have fetched nothing yet.
        """
        self.unsettled = why
        raise LogError(f"stream {self._stream.name!r}: {why}; the micro-batch is read again")


def lost(
    stream: Stream, generation: Generation, topic: Topic, log: Log, store: Store
) -> tuple[Read, str | None]:
    """What a generation has read, and what the log has lost of it or of what it would read next.

    The second is None if nothing was lost. What can't be read is no evidence of a loss.
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
    """Says so if a batch run has found that the log lost what the generation had read.

    Readers never merge it again.
    """
    if generation.number > newest_departed(chain, generation.topic_id):
        return None
    return (
        f"a batch run has found that the log lost records which generation {generation.number} had"
        " read"
    )
