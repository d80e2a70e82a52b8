"""H(T): the first offset of each partition that arrived at or after T.

Both layers determine H(T) through this module. docs/seam.md has the rule and its reasons.

The broker's time index returns the first record stamped T or later, which is H(T) as long as stamps
increase with offsets. A record that is stamped far ahead (by a producer, while the topic still had
CreateTime, or by a broker whose clock was wrong for a while) would be the result for every T until
the clocks have reached its stamp, and hold all those cuts at its own offset. A record that is
*ahead* is therefore skipped: its stamp is later than this machine's clock, or than the stamp of a
record after it in the log, by more than a tick plus the settle delay. H(T) is then searched for
among the records after it, by reading a few of them.

A wrong offset can't make an answer wrong: any offset may be a cut, as long as both layers use the
same one, and a cut is recorded before it is used. What matters is that both layers find the same
offset, and that the cut advances.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from trilayer_core.errors import ClockError
from trilayer_core.log.broker import Log, Topic
from trilayer_core.runtime.clock import now_ms
from trilayer_core.seam import Cut, format_time

ROUNDS = 16
"""How many runs of records that are ahead one look-up skips.

In a log with more runs between two ticks the boundary lies among them, which is as good as any
other.
"""

CHUNKS = 64
"""The number of the broker's answers that are cached.

Nearby look-ups read the same records.
"""

_ANY_STAMP_IS_BELOW = 1 << 62


@dataclass(frozen=True, order=True)
class Stamped:
    """The offset of a record and its append time in ms."""

    offset: int
    stamp: int


class TimeIndex:
    """Finds H(T) of one topic.

    An example, with ticks of 60 s and a settle delay of 10 s: a record is ahead if its stamp is
    later than the clock, or than the stamp of a later record, by more than 70 s. One partition has

        offset      0         1         2         3         4         5
        stamp   10:00:50  10:01:10  10:30:00  10:01:40  10:02:05  10:02:20

    and T is 10:02:00, for which the broker's index returns offset 2.

    - At 10:02:30 that record is ahead of the clock. Among the records after it, the newest one is
      stamped at or after T, and bisection leads from there to offset 4, which follows a record
      below T: H(T) is 4.
    - At 11:00:00 the clock has passed the stamp of offset 2. But offset 3, which arrived later, is
      stamped 28 minutes lower. So offset 2 was ahead when it arrived, and H(T) is 4 again.
    - If the log ended after offset 2, that record would be the first one after a quiet half hour at
      11:00:00, and H(T) would be 2.

    Args:
        log: The connection to the broker.
        topic: The topic. It may be replaced after partitions were added.
        tick_ms: The length of a tick.
        settle_ms: The settle delay.
        clock: This machine's clock, in ms since 1970.
    """

    def __init__(
        self,
        log: Log,
        topic: Topic,
        tick_ms: int,
        settle_ms: int,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.topic = topic
        self._log, self._tick_ms, self._settle_ms, self._clock = log, tick_ms, settle_ms, clock
        self._chunks: OrderedDict[tuple[int, int], list[Stamped]] = OrderedDict()

    @property
    def margin_ms(self) -> int:
        """How much later a stamp must be for its record to be ahead.

        It is compared with the clock, and with the stamps of later records.
        """
        return self._tick_ms + self._settle_ms

    def first(self, t_ms: int, floor: Cut) -> tuple[dict[int, int], dict[int, int]]:
        """H(T), and the stamps of the records at these offsets, by partition.

        Partitions without a record at or after T are left out. This takes one request if stamps
        increase, as they do on a healthy topic that is not quiet.

        Args:
            t_ms: T.
            floor: The offsets at which an earlier tick begins; records below are ignored.
        """
        offsets, stamps = self._log.index(self.topic, t_ms)
        records = {
            p: h
            for p, offset in offsets.items()
            if (h := self._first(p, t_ms, Stamped(offset, stamps[p]), floor.get(p, 0)))
        }
        return {p: h.offset for p, h in records.items()}, {p: h.stamp for p, h in records.items()}

    def cut(self, t_ms: int, floor: Cut, *, accept_clock: bool = False) -> dict[int, int]:
        """H(T) for a batch run; the end of the log if no record is at or after T.

        Args:
            t_ms: T, which has passed by the settle delay.
            floor: The newest recorded cut of a tick before T.
            accept_clock: Whether to cut at the end even if the broker's clock seems to be ahead at
                present.

        Raises:
            ClockError: The newest records of a partition are ahead and arrived over a longer time
                than the settle delay. The broker's clock then differs from this one at present, and
                the position of T can't be determined.
        """
        # The end is requested first, so that no record falls between the two requests.
        end = self._log.end(self.topic)
        # The speed layer finds one boundary after the other. To find the same one, records that the
        # tick before T skips must be skipped for T as well.
        before, _ = self.first(t_ms - self._tick_ms, floor)
        floor = {p: max(floor.get(p, 0), before.get(p, 0)) for p in end}
        offsets, _ = self.first(t_ms, floor)
        for partition in end.keys() - offsets.keys():
            if not accept_clock:
                self._check_end(partition, floor[partition], end[partition])
        return {p: offsets.get(p, offset) for p, offset in end.items()}

    def stamped_later_than_now(self) -> dict[int, Stamped]:
        """The first record of each partition that is stamped later than the clock.

        Stamps within the settle delay are not counted.
        """
        offsets, stamps = self._log.index(self.topic, self._clock() + self._settle_ms + 1)
        return {p: Stamped(offset, stamps[p]) for p, offset in sorted(offsets.items())}

    # -- one partition -----------------------------------------------------------------------------

    def _first(self, p: int, t_ms: int, candidate: Stamped | None, floor: int) -> Stamped | None:
        """The first record at or after T that is not ahead.

        `candidate` is the first record stamped T or later, according to the broker.
        """
        latest = self._clock() + self.margin_ms
        for _ in range(ROUNDS):
            if candidate is None:
                return None
            if candidate.offset < floor:
                candidate = self._search(p, t_ms, floor, self._end(p), latest)
            elif candidate.stamp > latest:
                candidate = self._search(p, t_ms, candidate.offset + 1, self._end(p), latest)
            elif candidate.stamp < t_ms + self._tick_ms:
                return candidate  # in T's own tick, so it delays no other tick
            else:
                # The record arrived after a quiet time, or it was ahead when it arrived. In the
                # second case a record after it has a lower stamp.
                low = candidate.stamp - self.margin_ms
                lower = self._lower(p, candidate.offset + 1, self._end(p), low)
                if lower is None:
                    return candidate
                if lower.stamp >= t_ms:
                    candidate = self._search(
                        p, t_ms, candidate.offset + 1, lower.offset + 1, low - 1
                    )
                else:
                    candidate = self._search(p, t_ms, lower.offset + 1, self._end(p), latest)
            floor = max(floor, candidate.offset) if candidate else floor
        return candidate

    def _search(self, p: int, t_ms: int, low: int, high: int, latest: int) -> Stamped | None:
        """A record in [low, high) stamped from T to `latest` that follows no record or one below T.

        Records stamped later than `latest` are skipped. None if there is no such record.
        """
        best = self._newest(p, t_ms, low, high, latest)
        if best is None or best.stamp < t_ms:
            return None
        high, middle = best.offset, low
        while low < high:
            records = self._some(p, middle, high, latest)
            over = next((record for record in records if record.stamp >= t_ms), None)
            if not records:
                high = middle
            elif over is None:
                low = records[-1].offset + 1
            elif over == records[0]:
                best, high = over, middle
            else:
                return over
            middle = (low + high) // 2
        return best

    def _newest(self, p: int, t_ms: int, low: int, high: int, latest: int) -> Stamped | None:
        """A record in [low, high) near its end that is stamped from T to `latest`.

        Otherwise the newest record stamped below T; None if all records are stamped later than
        `latest`.
        """
        step, above = 1, high
        while True:
            start = max(low, high - step)
            records = self._fitting(p, start, high, latest)
            if records or start <= low:
                break
            step, above = step * 4, start
        # Only records that are ahead were found at these samples; there may be others between them.
        records = records or self._some(p, low, high, latest)
        if not records:
            return None
        # There may be more between the record found and the records that are all ahead.
        newest, position = records[-1], records[-1].offset + 1
        while newest.stamp < t_ms and position < above:
            middle = (position + above) // 2
            records = self._fitting(p, middle, above, latest)
            if records:
                newest, position = records[-1], records[-1].offset + 1
            else:
                above = middle
        return newest

    def _some(self, p: int, start: int, high: int, latest: int) -> list[Stamped]:
        """The first records in [start, high) stamped up to `latest`; empty if there are none.

        A long run of records that are ahead is not read completely; its end is found by bisection.
        """
        passed, step = start, 1
        while True:
            records = self._read(p, start, high)
            usable = [record for record in records if record.stamp <= latest]
            if usable or not records:
                break
            passed = records[-1].offset + 1
            start, step = passed + step - 1, step * 4
        above = min(start, high)
        while passed < above:
            middle = (passed + above) // 2
            records = self._read(p, middle, above)
            fitting = [record for record in records if record.stamp <= latest]
            if fitting:
                usable, above = fitting, middle
                if fitting[0] != records[0]:
                    break
            elif records:
                passed = records[-1].offset + 1
            else:
                above = middle
        return usable

    def _lower(self, p: int, start: int, end: int, bound: int) -> Stamped | None:
        """A record in [start, end) stamped below `bound`.

        It is the first one if that is near; otherwise one that the samples contain.
        """
        step = 1
        while start < end:
            records = self._read(p, start, end)
            if not records:
                return None
            lower = next((record for record in records if record.stamp < bound), None)
            if lower:
                return lower
            # Samples lie at multiples of the step, so that the next look-up reads the same ones.
            start = (records[-1].offset // step + 1) * step
            step *= 4
        return None

    def _check_end(self, p: int, low: int, end: int) -> None:
        """Checks that the log does not end with records that are ahead.

        Raises:
            ClockError: It does, and these records arrived over a longer time than the settle delay.
        """
        latest = self._clock() + self.margin_ms
        last = self._last(p, low, end)
        if last is None or last.stamp <= latest:
            return
        before = self._newest(p, _ANY_STAMP_IS_BELOW, low, end, latest)
        first = next(iter(self._read(p, before.offset + 1 if before else low, end)), last)
        if abs(last.stamp - first.stamp) > self._settle_ms:
            raise ClockError(
                f"topic {self.topic.name!r} partition {p}: the broker's clock and this machine's"
                f" must agree up to a tick; the newest records, offsets {first.offset} to"
                f" {last.offset}, are stamped {format_time(first.stamp)} to"
                f" {format_time(last.stamp)}, and it is {format_time(self._clock())} here; set the"
                " clock that is wrong, and run again; to go on all the same, cut at the log's"
                " end: `trilayer batch run --accept-clock`, and `trilayer speed run --rebuild` if"
                " answers are refused then"
            )

    def _last(self, p: int, low: int, end: int) -> Stamped | None:
        """The last record in [low, end); None if there is none.

        It may be followed by the markers of transactions, which are not records.
        """
        back = 1
        while True:
            start = max(low, end - back)
            records = self._read(p, start, end)
            while records and (more := self._read(p, records[-1].offset + 1, end)):
                records = more
            if records or start <= low:
                return records[-1] if records else None
            back *= 64

    def _end(self, p: int) -> int:
        return self._log.end(self.topic)[p]

    def _fitting(self, p: int, start: int, high: int, latest: int) -> list[Stamped]:
        return [record for record in self._read(p, start, high) if record.stamp <= latest]

    def _read(self, p: int, start: int, high: int) -> list[Stamped]:
        """The next records in [start, high), as many as the broker sends at once.

        At least one if there are any.
        """
        if start >= high:
            return []
        for (partition, asked), chunk in self._chunks.items():
            if partition == p and asked <= start <= chunk[-1].offset:
                self._chunks.move_to_end((partition, asked))
                break
        else:
            chunk = [Stamped(*stamp) for stamp in self._log.stamps(self.topic, p, start, high)]
            if not chunk:
                return []
            self._chunks[p, start] = chunk
            if len(self._chunks) > CHUNKS:
                self._chunks.popitem(last=False)
        return [record for record in chunk if start <= record.offset < high]
