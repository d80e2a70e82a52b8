"""Determines the tick of each offset of a micro-batch.

It uses the broker's time index and the cuts that batch runs have recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trilayer_core.definitions.stream import Stream
from trilayer_core.log.broker import Log, Topic
from trilayer_core.log.time_index import TimeIndex
from trilayer_core.seam import Cut, Range, Ranges, effective_cut, split_by_ticks, tick_of
from trilayer_core.store.files import Store
from trilayer_core.store.intervals import Interval
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins

_NEVER = 1 << 62

MOST_WAITING = 256
"""The number of boundaries that are kept for partitions without a record since then.

The next record of such a partition will be stamped about now, so it needs the newest boundary, or
one shortly before if clocks differ.
"""


class Ticks:
    """The boundaries between ticks around the end of what has been read.

    This takes one look-up per micro-batch, and one more per boundary passed.

    An example, with ticks of a minute: a micro-batch has read offsets [100, 180) of partition 0,
    and nothing of partition 1, which ends at offset 40. According to the time index 12:01 begins at
    offset 150 of partition 0, partition 1 has no record since then, and nothing has arrived since
    12:02. The boundaries are then

        12:00: {0: 100, 1: 40}    12:01: {0: 150, 1: _NEVER}

    and `split` returns [100, 150) for 12:00 and [150, 180) for 12:01. The next micro-batch reads
    [40, 45) of partition 1. The boundary of 12:01 is now looked up again for that partition, which
    may have had events shortly before 12:01 that were appended, but not read yet. It is offset 43,
    so that [40, 43) belongs to 12:00 and [43, 45) to 12:01.
    """

    def __init__(
        self,
        stream: Stream,
        topic: Topic,
        log: Log,
        store: Store,
        tick_ms: int,
        settle_ms: int,
    ) -> None:
        self._stream, self._log, self._store, self._tick_ms = stream, log, store, tick_ms
        self._settle_ms = settle_ms
        self._index = TimeIndex(log, topic, tick_ms, settle_ms, store.clock)
        self._boundaries: dict[int, Cut] = {}
        self._floors: dict[int, dict[int, int]] = {}
        self._next_ms = 0
        origin = Origins(store, stream).present()
        self._origin = origin.identity if origin else None
        self._start: Cut = {}
        self._recorded: Mapping[int, Cut] = {}

    def split(self, ranges: Ranges, end: Cut) -> dict[int, dict[int, Range]]:
        """Splits ranges by tick. Each call must continue where the last one ended.

        Args:
            ranges: The offsets to split.
            end: The offset up to which each partition has been read, including those without a
                range: a boundary that they have not passed is still needed.
        """
        if not end.keys() <= set(self._index.topic.partitions):
            self._index.topic = self._log.topic(self._stream)  # a partition was added
        self._start = {p: ranges[p].start if p in ranges else offset for p, offset in end.items()}
        if not self._boundaries:
            self._begin()
        self._find_unknown(end)
        while self._find_next(end):
            pass
        recorded = {
            t_ms: cut
            for t_ms, cut in self._recorded.items()
            if any(cut.get(p, 0) > r.start for p, r in ranges.items())
        }
        parts = split_by_ticks(ranges, self._boundaries | recorded, first_tick=0)
        self._forget(end)
        return parts

    def _begin(self) -> None:
        """Skips the ticks before the newest recorded cut at or below the start.

        Nothing is read there any more.
        """
        self._recorded = self._read_recorded()
        passed = [t for t, cut in self._recorded.items() if self._is_passed(cut)]
        # Rounded up to the grid: a cut whose T was later than now is assigned to another T, which
        # is not on the grid.
        self._next_ms = -(-max(passed, default=0) // self._tick_ms) * self._tick_ms

    def _find_unknown(self, end: Cut) -> None:
        """Looks up boundaries again that were unknown.

        These belong to partitions that had no record at or after T, and have new records now.
        """
        waiting: set[int] = set()
        for t_ms, bound in sorted(self._boundaries.items()):
            # A partition without a record at or after T has none at or after a later T.
            unknown = [p for p in end if bound.get(p, _NEVER) == _NEVER and p not in waiting]
            if unknown and t_ms not in self._recorded:
                offsets, _ = self._index.first(t_ms, self._floor(t_ms))
                waiting |= {p for p in unknown if p not in offsets}
                self._boundaries[t_ms] = dict(bound) | {p: offsets.get(p, _NEVER) for p in unknown}
                self._floors.clear()

    def _find_next(self, end: Cut) -> bool:
        """Finds the next boundary with a record at or after it.

        Returns False if it lies at or above `end` in every partition.
        """
        offsets, stamps = self._index.first(self._next_ms, self._floor(self._next_ms))
        if not any(offsets.get(p, _NEVER) < offset for p, offset in end.items()):
            return False
        # Ticks without records begin where the next tick with records begins, and need no boundary
        # of their own.
        t_ms = max(self._next_ms, tick_of(min(stamps.values()), self._tick_ms))
        self._recorded = self._read_recorded()
        index = {p: offsets.get(p, _NEVER) for p in self._index.topic.partitions}
        self._boundaries[t_ms] = effective_cut(t_ms, index, self._recorded)
        self._next_ms = t_ms + self._tick_ms
        self._floors.clear()
        return True

    def _floor(self, t_ms: int) -> dict[int, int]:
        """The offset at which the newest known tick before T begins, in each partition."""
        if t_ms not in self._floors:
            floor: dict[int, int] = {}
            for earlier, bound in [*self._boundaries.items(), *self._recorded.items()]:
                if earlier < t_ms:
                    floor |= {p: o for p, o in bound.items() if o != _NEVER and o > floor.get(p, 0)}
            self._floors[t_ms] = floor
        return self._floors[t_ms]

    def _read_recorded(self) -> Mapping[int, Cut]:
        """The recorded cuts from the beginning of the micro-batch on.

        Earlier ones do not affect what is read now.
        """
        latest_ms = self._store.clock() + self._settle_ms
        back_to: Callable[[Interval], bool] = lambda interval: self._is_passed(interval.end)  # noqa: E731
        return Master(self._store, self._stream).recorded_cuts(
            latest_ms, back_to, identity=self._origin
        )

    def _is_passed(self, cut: Cut) -> bool:
        return all(cut.get(p, 0) <= offset for p, offset in self._start.items())

    def _forget(self, end: Cut) -> None:
        """Forgets boundaries that are no longer needed.

        It keeps the newest one that lies at or below the end in every partition, and all after it.
        Of those that only partitions without a record since then have not passed, it keeps the
        newest `MOST_WAITING`.
        """
        passed: list[int] = []
        waiting: list[int] = []
        for t_ms, bound in sorted(self._boundaries.items()):
            ahead = [bound.get(p, 0) for p, offset in end.items() if bound.get(p, 0) > offset]
            if not ahead:
                passed.append(t_ms)
            elif all(offset == _NEVER for offset in ahead):
                waiting.append(t_ms)
        for t_ms in [*passed[:-1], *waiting[:-MOST_WAITING]]:
            del self._boundaries[t_ms]
