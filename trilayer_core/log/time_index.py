"""H(T): the first offset of each partition that arrived at or after T.

Both layers ask here, and nowhere else.

The broker's time index answers with the first record stamped T or later. That is H(T) as long as
stamps rise with offsets. A record stamped far ahead (by a producer, while the topic still had
CreateTime, or by a broker whose clock was wrong for a while) would answer for every T until the
clocks have caught up with it, and hold all those cuts at its own offset. So a record that is
*ahead* is ignored: its stamp is later than this machine's clock, or than the stamp of a record
after it in the log, by more than a tick and the settle delay. H(T) is then looked for among the
records after it, by reading a few of them.

No offset found here can make an answer wrong: any offset may be a cut, as long as both layers use
the same one, and a cut is recorded before it is used. What matters is that both layers find the
same offset, and that it moves.
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
"""Runs of ahead records that one look-up passes over. A log with more of them between two ticks
gets a boundary among them, which is as good as any other."""

CHUNKS = 64
"""Answers of the broker that are kept: look-ups close to each other read the same records."""

_ANY_STAMP_IS_BELOW = 1 << 62


@dataclass(frozen=True, order=True)
class Stamped:
    """A record's offset, and its append time in ms."""

    offset: int
    stamp: int


class TimeIndex:
    """H(T) of one topic.

    Args:
        log: the connection to the broker.
        topic: the topic, which may be replaced when partitions were added.
        tick_ms: the length of a tick.
        settle_ms: the settle delay.
        clock: this machine's clock, in ms since 1970.
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
        """By how much a stamp must be too late for its record to be ignored.

        Later than the clock, or than a stamp after it in the log.
        """
        return self._tick_ms + self._settle_ms

    def first(self, t_ms: int, floor: Cut) -> tuple[dict[int, int], dict[int, int]]:
        """H(T), and the stamp of the record found, by partition.

        Partitions without a record at or after T are left out.

        One request where stamps rise, as they do on a healthy topic that is not quiet.

        Args:
            t_ms: T.
            floor: where an earlier tick begins; a record below that is not looked at.
        """
        offsets, stamps = self._log.index(self.topic, t_ms)
        found = {
            p: h
            for p, offset in offsets.items()
            if (h := self._first(p, t_ms, Stamped(offset, stamps[p]), floor.get(p, 0)))
        }
        return {p: h.offset for p, h in found.items()}, {p: h.stamp for p, h in found.items()}

    def cut(self, t_ms: int, floor: Cut, *, accept_clock: bool = False) -> dict[int, int]:
        """H(T) for a batch run; where no record is at or after T, the end of the log.

        Args:
            t_ms: T, which has passed by the settle delay.
            floor: the newest recorded cut of a tick before T.
            accept_clock: cut at the end, too, where the broker's clock seems to be ahead at this
                moment.

        Raises:
            ClockError: if the newest records of a partition are ahead, one after the other for
                longer than the settle delay: then the broker's clock differs from this one now, and
                nothing tells where T lies.
        """
        # The end is asked first, so that no record falls between the two requests.
        end = self._log.end(self.topic)
        # As the speed layer does, which finds one boundary after the other: what the tick before T
        # has passed over, T passes over too.
        before, _ = self.first(t_ms - self._tick_ms, floor)
        floor = {p: max(floor.get(p, 0), before.get(p, 0)) for p in end}
        offsets, _ = self.first(t_ms, floor)
        for partition in end.keys() - offsets.keys():
            if not accept_clock:
                self._check_end(partition, floor[partition], end[partition])
        return {p: offsets.get(p, offset) for p, offset in end.items()}

    def stamped_later_than_now(self) -> dict[int, Stamped]:
        """The first record of each partition that is stamped later than the clock.

        Later by more than the settle delay.
        """
        offsets, stamps = self._log.index(self.topic, self._clock() + self._settle_ms + 1)
        return {p: Stamped(offset, stamps[p]) for p, offset in sorted(offsets.items())}

    # -- one partition -----------------------------------------------------------------------------

    def _first(self, p: int, t_ms: int, found: Stamped | None, floor: int) -> Stamped | None:
        """The first record at or after T that is not ahead.

        `found` is the first one stamped T or later.
        """
        latest = self._clock() + self.margin_ms
        for _ in range(ROUNDS):
            if found is None:
                return None
            if found.offset < floor:
                found = self._search(p, t_ms, floor, self._end(p), latest)
            elif found.stamp > latest:
                found = self._search(p, t_ms, found.offset + 1, self._end(p), latest)
            elif found.stamp < t_ms + self._tick_ms:
                return found  # in T's own tick: whatever else it is, it delays no other one
            else:
                # After a quiet time, or ahead when it came. If so, a record after it has a lower
                # stamp.
                low = found.stamp - self.margin_ms
                lower = self._lower(p, found.offset + 1, self._end(p), low)
                if lower is None:
                    return found
                if lower.stamp >= t_ms:
                    found = self._search(p, t_ms, found.offset + 1, lower.offset + 1, low - 1)
                else:
                    found = self._search(p, t_ms, lower.offset + 1, self._end(p), latest)
            floor = max(floor, found.offset) if found else floor
        return found

    def _search(self, p: int, t_ms: int, low: int, high: int, latest: int) -> Stamped | None:
        """A record of [low, high) stamped from T to `latest`, right after none or one below T.

        None if there is none.

        Records stamped later than `latest` are passed over.
        """
        best = self._newest(p, t_ms, low, high, latest)
        if best is None or best.stamp < t_ms:
            return None
        high, middle = best.offset, low
        while low < high:
            known = self._some(p, middle, high, latest)
            over = next((record for record in known if record.stamp >= t_ms), None)
            if not known:
                high = middle
            elif over is None:
                low = known[-1].offset + 1
            elif over == known[0]:
                best, high = over, middle
            else:
                return over
            middle = (low + high) // 2
        return best

    def _newest(self, p: int, t_ms: int, low: int, high: int, latest: int) -> Stamped | None:
        """A record of [low, high) stamped T to `latest` near its end.

        Else the newest one below T; None if all are later.
        """
        step, above = 1, high
        while True:
            start = max(low, high - step)
            known = self._fitting(p, start, high, latest)
            if known or start <= low:
                break
            step, above = step * 4, start
        # Further and further back nothing was met but records that are ahead: there may be others
        # between.
        known = known or self._some(p, low, high, latest)
        if not known:
            return None
        # And between what was met and the records that are all ahead there may be more.
        newest, position = known[-1], known[-1].offset + 1
        while newest.stamp < t_ms and position < above:
            middle = (position + above) // 2
            known = self._fitting(p, middle, above, latest)
            if known:
                newest, position = known[-1], known[-1].offset + 1
            else:
                above = middle
        return newest

    def _some(self, p: int, start: int, high: int, latest: int) -> list[Stamped]:
        """The first records of [start, high) stamped up to `latest`; none if there are none.

        A long run of records that are ahead is not read, but its end is searched for.
        """
        passed, step = start, 1
        while True:
            known = self._read(p, start, high)
            found = [record for record in known if record.stamp <= latest]
            if found or not known:
                break
            passed = known[-1].offset + 1
            start, step = passed + step - 1, step * 4
        above = min(start, high)
        while passed < above:
            middle = (passed + above) // 2
            known = self._read(p, middle, above)
            fitting = [record for record in known if record.stamp <= latest]
            if fitting:
                found, above = fitting, middle
                if fitting[0] != known[0]:
                    break
            elif known:
                passed = known[-1].offset + 1
            else:
                above = middle
        return found

    def _lower(self, p: int, start: int, end: int, bound: int) -> Stamped | None:
        """A record of [start, end) stamped below `bound`.

        The first one if it is near, else as samples show.
        """
        step = 1
        while start < end:
            known = self._read(p, start, end)
            if not known:
                return None
            lower = next((record for record in known if record.stamp < bound), None)
            if lower:
                return lower
            # On a multiple of the step, which the next look-up reads too.
            start = (known[-1].offset // step + 1) * step
            step *= 4
        return None

    def _check_end(self, p: int, low: int, end: int) -> None:
        """Raises ClockError if the log ends with records that are ahead.

        And if they came for longer than the settle delay.
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
        """The last record of [low, end); None if there is none.

        The markers of transactions may follow it, which are no records.
        """
        back = 1
        while True:
            start = max(low, end - back)
            known = self._read(p, start, end)
            while known and (more := self._read(p, known[-1].offset + 1, end)):
                known = more
            if known or start <= low:
                return known[-1] if known else None
            back *= 64

    def _end(self, p: int) -> int:
        return self._log.end(self.topic)[p]

    def _fitting(self, p: int, start: int, high: int, latest: int) -> list[Stamped]:
        return [record for record in self._read(p, start, high) if record.stamp <= latest]

    def _read(self, p: int, start: int, high: int) -> list[Stamped]:
        """The next records of [start, high), as many as the broker sends at once.

        At least one if there is any.
        """
        if start >= high:
            return []
        for (partition, asked), chunk in self._chunks.items():
            if partition == p and asked <= start <= chunk[-1].offset:
                self._chunks.move_to_end((partition, asked))
                break
        else:
            chunk = [Stamped(*found) for found in self._log.stamps(self.topic, p, start, high)]
            if not chunk:
                return []
            self._chunks[p, start] = chunk
            if len(self._chunks) > CHUNKS:
                self._chunks.popitem(last=False)
        return [record for record in chunk if start <= record.offset < high]
