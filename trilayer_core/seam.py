"""Ticks, cuts and coverage: the rules of the seam, as pure functions over offsets.

Times are in milliseconds since 1970 (UTC), as the broker stamps records. The batch layer counts
everything below a cut, the speed layer everything at or above it. The event time plays no part, so
nothing here is about late events. tests/unit/seam checks these functions against a model, in
thousands of random schedules. docs/seam.md explains the rules, and docs/design.md names the code
that applies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from trilayer_core.errors import CoverageError, LogError, OvertakenError, UsageError

Cut = Mapping[int, int]
"""One offset for each partition."""


@dataclass(frozen=True)
class Range:
    """Offsets [start, end) of one partition."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


Ranges = Mapping[int, Range]
"""One range of offsets for each partition."""

RangesByTick = Mapping[int, Ranges]
"""Tick to partition to range."""


def ranges_between(start: Cut, end: Cut) -> dict[int, Range]:
    """The offsets between two cuts, for each partition.

    A partition that only one of the cuts has begins at offset 0 in the other: it was added between
    the two. If it is `end` that lacks the partition, `end` is the older cut and the range goes
    backwards; callers must refuse such a range.
    """
    partitions = sorted(start.keys() | end.keys())
    return {
        partition: Range(start.get(partition, 0), end.get(partition, 0)) for partition in partitions
    }


def size(ranges: Ranges) -> int:
    """The number of offsets in all partitions."""
    return sum(len(r) for r in ranges.values())


# -- ticks -----------------------------------------------------------------------------------------


def tick_of(timestamp_ms: int, tick_ms: int) -> int:
    """The start, in ms, of the tick that contains a moment."""
    return timestamp_ms - timestamp_ms % tick_ms


def latest_tick(now_ms: int, tick_ms: int, settle_ms: int) -> int:
    """The newest T whose cut may be requested: it is in the past by the settle delay."""
    return tick_of(now_ms - settle_ms, tick_ms)


def check_tick(t_ms: int, now_ms: int, tick_ms: int, settle_ms: int) -> None:
    """Raises UsageError unless T is on the grid and settled."""
    if t_ms % tick_ms:
        below = tick_of(t_ms, tick_ms)
        raise UsageError(
            f"T must be on the grid of {tick_ms // 1000} s ticks; got {format_time(t_ms)};"
            f" take {format_time(below)} or {format_time(below + tick_ms)}"
        )
    newest = latest_tick(now_ms, tick_ms, settle_ms)
    if t_ms > newest:
        raise UsageError(
            f"T must have passed by the settle delay of {settle_ms / 1000:g} s; got"
            f" {format_time(t_ms)}; the newest T now is {format_time(newest)}"
        )


def format_time(t_ms: int) -> str:
    """A moment as text, such as `2026-03-01T12:05:00Z`.

    It has milliseconds only if they are not zero. A moment that is out of range for a calendar date
    is written as its number.
    """
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=t_ms)
    except OverflowError:  # such as a stamp in microseconds
        return f"{t_ms} ms since 1970"
    return moment.isoformat(timespec="milliseconds" if t_ms % 1000 else "seconds").replace(
        "+00:00", "Z"
    )


def parse_time(text: str) -> int:
    """The milliseconds since 1970 of an ISO 8601 moment; a moment without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip().upper())
    except ValueError:
        raise UsageError(f"T must be a moment such as 2026-03-01T12:05:00Z; got {text!r}") from None
    return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)


# -- boundaries ------------------------------------------------------------------------------------


def effective_cut(t_ms: int, index: Cut, recorded: Mapping[int, Cut]) -> dict[int, int]:
    """b(T): the offset at which tick T begins in each partition.

    A recorded cut is the boundary of its own T. Boundaries never decrease over time, so no earlier
    boundary lies above a recorded cut and no later one below it: b(T) = max(recorded cuts of
    earlier ticks, min(H(T), recorded cuts of later ticks)).

    Args:
        t_ms: T.
        index: H(T), according to the broker's time index.
        recorded: The cuts up to which batch runs have ingested, by T.

    In these examples a batch run has recorded offset 10 as the cut of T=2000. What the time index
    says later may agree with that or not:

        >>> effective_cut(2000, {0: 12}, {2000: {0: 10}})  # the recorded T itself
        {0: 10}
        >>> effective_cut(1000, {0: 11}, {2000: {0: 10}})  # an earlier tick begins there or below
        {0: 10}
        >>> effective_cut(3000, {0: 9}, {2000: {0: 10}})  # a later tick begins there or above
        {0: 10}
        >>> effective_cut(3000, {0: 15}, {2000: {0: 10}})
        {0: 15}
    """
    if t_ms in recorded:
        return dict(recorded[t_ms])
    bound = dict(index)
    for recorded_t, cut in recorded.items():
        if recorded_t > t_ms:
            for partition, offset in cut.items():
                if partition in bound:
                    bound[partition] = min(bound[partition], offset)
        else:
            for partition, offset in cut.items():
                if partition in bound:
                    bound[partition] = max(bound[partition], offset)
    return bound


def split_by_ticks(
    ranges: Ranges, boundaries: Mapping[int, Cut], first_tick: int
) -> dict[int, dict[int, Range]]:
    """Splits ranges of offsets at the boundaries of ticks.

    Every offset ends up in exactly one tick, and no resulting range crosses a boundary.

    Args:
        ranges: The offsets to split.
        boundaries: b(T) by T, for every T that may lie inside the ranges.
        first_tick: The tick of the offsets below all boundaries.

    Returns:
        The ranges of each tick that has some, by tick.

    In this example a micro-batch has read [5, 12) of partition 0, and a tick ends at offset 8:

        >>> split_by_ticks({0: Range(5, 12)}, {2000: {0: 8}, 3000: {0: 12}}, first_tick=1000)
        {1000: {0: Range(start=5, end=8)}, 2000: {0: Range(start=8, end=12)}}
    """
    parts: dict[int, dict[int, Range]] = {}
    for partition, whole in ranges.items():
        start, tick = whole.start, first_tick
        for t_ms, bound in _rising(boundaries, partition):
            if bound >= whole.end:
                break
            if bound > start:
                parts.setdefault(tick, {})[partition] = Range(start, bound)
                start = bound
            tick = t_ms
        if start < whole.end:
            parts.setdefault(tick, {})[partition] = Range(start, whole.end)
    return dict(sorted(parts.items()))


def _rising(boundaries: Mapping[int, Cut], partition: int) -> list[tuple[int, int]]:
    """The pairs (T, b(T)) of one partition, by increasing T.

    The boundaries are made to increase as well: each is lowered to that of the next tick if that
    lies below. The boundary of a later tick may come from a cut that was recorded after that of the
    earlier tick was determined.
    """
    rising: list[tuple[int, int]] = []
    for t_ms in sorted(boundaries, reverse=True):
        bound = boundaries[t_ms].get(partition, 0)
        rising.append((t_ms, min(bound, rising[-1][1]) if rising else bound))
    return rising[::-1]


# -- coverage --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """The offsets of one segment.

    Attributes:
        key: The name of its commit, and its tick.
        ranges: Its offsets.
    """

    key: tuple[str, int]
    ranges: Ranges

    def __str__(self) -> str:
        return "{}#{}".format(*self.key)


def cover(
    stream: str, cut: Cut, pieces: Iterable[Piece]
) -> tuple[list[tuple[str, int]], dict[int, int]]:
    """Proves that the pieces cover the log from `cut` on, without holes and overlaps.

    Pieces that lie completely below the cut are ignored.

    Args:
        stream: The stream's name, for messages.
        cut: The cut of the publication in force.
        pieces: The segments that exist.

    Returns:
        The keys of the pieces from the cut on, and the head: the offset up to which each partition
        is covered.

    Raises:
        CoverageError: There is a hole, an overlap, or a piece that straddles the cut. The message
            names stream, partition and range.

    Examples:
        >>> pieces = [Piece(("a", 1), {0: Range(5, 8)}), Piece(("b", 2), {0: Range(8, 12)})]
        >>> cover("s", {0: 8}, pieces)  # everything from the cut to the head
        ([('b', 2)], {0: 12})
        >>> cover("s", {0: 9}, pieces)
        Traceback (most recent call last):
        trilayer_core.errors.CoverageError: stream 's' partition 0: no segment may straddle the \
cut at offset 9; b#2 covers [8, 12); rebuild the speed layer: `trilayer speed run --rebuild`
    """
    used: list[tuple[str, int]] = []
    above: dict[int, list[tuple[Range, Piece]]] = {}
    for piece in pieces:
        sides = set()
        for partition, r in piece.ranges.items():
            if not len(r):
                continue
            bound = cut.get(partition, 0)
            # Rule 5 of docs/seam.md: no segment straddles the cut.
            if r.start < bound < r.end:
                raise CoverageError(
                    f"stream {stream!r} partition {partition}: no segment may straddle the cut at"
                    f" offset {bound}; {piece} covers [{r.start}, {r.end}); rebuild the speed"
                    " layer: `trilayer speed run --rebuild`"
                )
            sides.add(r.start >= bound)
            if r.start >= bound:
                above.setdefault(partition, []).append((r, piece))
        if len(sides) > 1:
            raise CoverageError(
                f"stream {stream!r}: a segment must lie on one side of the cut; {piece} lies"
                " on both; rebuild the speed layer: `trilayer speed run --rebuild`"
            )
        if True in sides:
            used.append(piece.key)
    head = dict(cut)
    for partition, covered in sorted(above.items()):
        position = cut.get(partition, 0)
        for r, piece in sorted(covered, key=lambda item: (item[0].start, item[0].end)):
            # Also rule 5: no hole and no overlap from the cut to the head.
            if r.start != position:
                what = "nothing covers" if r.start > position else "two segments cover"
                low, high = sorted((position, r.start))
                raise CoverageError(
                    f"stream {stream!r} partition {partition}: {what} offsets [{low}, {high}), at"
                    f" {piece}; rebuild the speed layer: `trilayer speed run --rebuild`"
                )
            position = r.end
        head[partition] = position
    return used, head


def check_contiguous(stream: str, have: Cut, ranges: Ranges, beginning: Cut) -> None:
    """Checks that `ranges` continue the master dataset and are still in the log.

    Args:
        stream: The stream's name.
        have: The end of the master dataset.
        ranges: The offsets that are about to be ingested.
        beginning: The first offset that the log still holds.

    Raises:
        OvertakenError: The ranges go backwards.
        CoverageError: They do not begin where the master dataset ends.
        LogError: Retention deleted some of them. An operator can accept this error, and so it is
            only raised if there is no other.
    """
    for partition, r in sorted(ranges.items()):
        expected = have.get(partition, 0)
        if r.start != expected:
            raise CoverageError(
                f"stream {stream!r} partition {partition}: ingest must go on at offset {expected};"
                f" got [{r.start}, {r.end}); nothing was ingested; run `trilayer batch run`"
            )
        if r.end < r.start:
            raise OvertakenError(
                f"stream {stream!r} partition {partition}: the cut must not lie below the master"
                f" dataset's end {r.start}; got {r.end}: another run has ingested more since this"
                " one was cut. Nothing was ingested; run `trilayer batch run`"
            )
    for partition, r in sorted(ranges.items()):
        # Checked last, because an operator can accept this error but not the ones above.
        if r.start < r.end and r.start < beginning.get(partition, 0):
            lost = min(beginning[partition], r.end)
            raise LogError(
                f"stream {stream!r} partition {partition}: retention took offsets [{r.start},"
                f" {lost}) before they were ingested; they are nowhere else; to go on without"
                " them, run `trilayer batch run --accept-loss`, which records the loss"
            )
