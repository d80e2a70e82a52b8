"""Compares the speed layer's segments with the records of the log that they cover."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from trilayer.operations.verification.findings import at_most, range_text, ranges_text
from trilayer.operations.verification.records import Group
from trilayer.operations.verification.state import StreamState
from trilayer_core.seam import Range, format_time, tick_of
from trilayer_core.store.intervals import of_origin, rising_ts


def check_segments(state: StreamState, groups: Sequence[Group]) -> list[str]:
    """Compares each segment's counts, stamps and tick with the log's records in its ranges."""
    of_segments = [g for g in groups if g.file is None and g.segment is not None]
    return at_most([*_wrong_counts(state, of_segments), *_wrong_ticks(state, of_segments)])


def _wrong_counts(state: StreamState, groups: Sequence[Group]) -> Iterator[str]:
    by_segment: dict[int | None, list[Group]] = {}
    for group in groups:
        by_segment.setdefault(group.segment, []).append(group)
    for number, (commit, segment) in enumerate(state.segments):
        covered = by_segment.get(number, [])
        what = (
            f"segment {commit.name} of tick {format_time(segment.tick)},"
            f" {ranges_text(segment.ranges)},"
        )
        for name, stated, actual in (
            ("records", segment.events, sum(g.records for g in covered)),
            ("quarantined records", segment.quarantined, sum(g.unfit for g in covered)),
        ):
            if stated != actual:
                yield f"{what} counts {stated:,} {name}, the log holds {actual:,}"
        for name, stamp, in_log in (
            ("first", segment.oldest_ms, min((g.oldest_ms for g in covered), default=None)),
            ("last", segment.newest_ms, max((g.newest_ms for g in covered), default=None)),
        ):
            if stamp is not None and in_log is not None and stamp != in_log:
                yield (
                    f"{what} says that the {name} of them was appended at"
                    f" {format_time(stamp)}, the log {format_time(in_log)}"
                )


def _wrong_ticks(state: StreamState, groups: Sequence[Group]) -> Iterator[str]:
    """Segments whose tick is not the one in which their records arrived.

    Records whose stamps are out of order are ignored, because their tick is determined by the
    broker's index. So are stamps on the other side of a recorded cut, because that takes precedence
    over stamps.
    """
    by_partition: dict[int, list[Group]] = {}
    for group in groups:
        by_partition.setdefault(group.partition, []).append(group)
    assert state.cover or not by_partition
    settings = state.project.settings
    tick_ms = (state.cover and state.cover.generation.tick_ms) or settings.tick_ms
    margin_ms = tick_ms + round(settings.settle_s * 1000)
    own = of_origin(state.chain, state.identity)
    # A cut whose own T is not confirmed by a clock is assigned to a T that is not on the grid, and
    # says nothing about ticks.
    cuts = [
        (t_ms, i.ranges) for t_ms, i in zip(rising_ts(own), own, strict=True) if t_ms % tick_ms == 0
    ]
    for partition, of_partition in sorted(by_partition.items()):
        recorded = [(ranges[partition].end, t_ms) for t_ms, ranges in cuts if partition in ranges]
        ends = [end for end, _ in recorded]
        of_partition.sort(key=lambda g: g.low)
        least_after = [g.oldest_ms for g in of_partition[1:]] + [1 << 62]
        for place in range(len(of_partition) - 2, -1, -1):
            least_after[place] = min(least_after[place], least_after[place + 1])
        before = -1
        for group, after in zip(of_partition, least_after, strict=True):
            assert group.segment is not None
            commit, segment = state.segments[group.segment]
            in_order = before <= group.oldest_ms and group.newest_ms <= after
            in_order &= group.newest_ms <= commit.committed_ms + margin_ms  # otherwise it was ahead
            before = max(before, group.newest_ms)
            passed = bisect_right(ends, group.low)
            low = recorded[passed - 1][1] if passed else 0
            high = recorded[passed][1] - tick_ms if passed < len(recorded) else 1 << 62
            expected = {
                min(max(tick_of(ms, tick_ms), low), high)
                for ms in (group.oldest_ms, group.newest_ms)
            }
            if in_order and expected != {segment.tick}:
                yield (
                    f"partition {partition}: offsets"
                    f" {range_text(Range(group.low, group.high + 1))} arrived in the tick"
                    f" {' to '.join(format_time(t) for t in sorted(expected))}; segment"
                    f" {commit.name} has them in {format_time(segment.tick)}"
                )
