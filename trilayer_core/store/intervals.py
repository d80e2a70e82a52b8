"""The intervals of the master dataset, and functions over a series of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import CoverageError
from trilayer_core.log.broker import Marks
from trilayer_core.seam import Cut
from trilayer_core.store.documents import OriginId, RuledOut, StoredRange
from trilayer_core.store.files import StoredFile


@dataclass(frozen=True)
class Interval:
    """One ingested interval.

    Attributes:
        number: Its position in its chain.
        t_ms: The T of its run.
        origin_id: The identity of the origin in which its offsets count, see `Origin`.
        ranges: The offsets [start, end) of each partition. The ends are the recorded cut of `t_ms`.
        files: The files of its records.
        events: The number of records, including quarantined ones.
        quarantined: The number of records that do not fit their schema.
        lost: The parts of `ranges` that retention deleted before they were ingested, as accepted by
            an operator.
        marks: The last record of each partition that has been ingested, from which the next run
            sees whether the log still holds it. None if the log had no record below the end.
            Manifests from before marks were stored have none.
        newest_ruled_out: The number of the newest generation of the speed layer that, at the time
            of the ingest, had read records which the log no longer held. Generations up to it are
            not merged with this interval. 0 if there was none.
    """

    number: int
    t_ms: int
    origin_id: OriginId
    ranges: Mapping[int, StoredRange]
    lost: Mapping[int, StoredRange]
    files: Sequence[StoredFile]
    events: int
    quarantined: int
    marks: Marks = field(default_factory=dict)
    newest_ruled_out: RuledOut = 0

    @property
    def end(self) -> dict[int, int]:
        """The end of each partition's range."""
        return {partition: r.end for partition, r in self.ranges.items()}


def of_origin(chain: Sequence[Interval], identity: str) -> list[Interval]:
    """The intervals of one origin."""
    return [interval for interval in chain if interval.origin_id == identity]


def newest_of(chain: Sequence[Interval], identity: str) -> list[Interval]:
    """The newest interval of one origin, or none; `chain_end` needs no more."""
    return next(([i] for i in reversed(chain) if i.origin_id == identity), [])


def chain_end(chain: Sequence[Interval], start: Cut) -> dict[int, int]:
    """The offsets at which the next ingest begins: the end of the intervals of one origin.

    `start` is where the origin begins.
    """
    return dict(start) | (chain[-1].end if chain else {})


def newest_ruled_out(chain: Sequence[Interval], identity: str) -> int:
    """The newest generation that the intervals of an origin rule out.

    It is 0 if there is none.
    """
    own = newest_of(chain, identity)
    return own[-1].newest_ruled_out if own else 0


def rising_ts(chain: Sequence[Interval], latest_ms: int | None = None) -> list[int]:
    """The T to which each interval's cut is assigned, as `recorded_cuts` explains."""
    # From the newest interval back, because only a later T shows that one came from a clock that
    # was ahead.
    latest, sound = latest_ms, []
    for interval in reversed(chain):
        sound.append(latest is None or interval.t_ms <= latest)
        latest = interval.t_ms if latest is None else min(latest, interval.t_ms)
    ts: list[int] = []
    for interval, good in zip(chain, reversed(sound), strict=True):
        before = ts[-1] if ts else -1
        ts.append(interval.t_ms if good and interval.t_ms > before else before + 1)
    return ts


def intervals_below(chain: Sequence[Interval], cut: Cut, identity: str) -> list[Interval]:
    """The intervals up to `cut`, and all of the origins before it.

    `cut` is a cut of the origin with this identity.
    """
    # The intervals of an origin are adjacent. Those of later origins lie above any cut of this one.
    until = max(
        (place for place, interval in enumerate(chain) if interval.origin_id == identity),
        default=-1,
    )
    return [
        i
        for i in chain[: until + 1]
        if i.origin_id != identity or all(r.end <= cut.get(p, 0) for p, r in i.ranges.items())
    ]


def intervals_after(
    chain: Sequence[Interval], cut: Cut, stream: Stream, identity: str
) -> list[Interval]:
    """The intervals above a cut: those of its own origin above it, and all of later origins.

    Args:
        chain: Intervals, oldest first.
        cut: The cut.
        stream: The stream, for messages.
        identity: The identity of the origin in which the cut counts.

    Raises:
        CoverageError: An interval lies across the cut, or there is none of that origin.
    """
    own = [place for place, interval in enumerate(chain) if interval.origin_id == identity]
    if not own:
        raise CoverageError(
            f"stream {stream.name!r}: the master dataset has no intervals of the origin"
            f" {identity} of the publication in force; run `trilayer batch run --full`"
        )
    above = []
    for interval in chain[own[0] : own[-1] + 1]:
        # A partition without records in the interval is on neither side.
        sides = {r.start >= cut.get(p, 0) for p, r in interval.ranges.items() if len(r)}
        across = [(p, r) for p, r in interval.ranges.items() if r.start < cut.get(p, 0) < r.end]
        if across or len(sides) > 1:
            partition, r = across[0] if across else next(iter(interval.ranges.items()))
            raise CoverageError(
                f"stream {stream.name!r} partition {partition}: interval {interval.number}"
                f" [{r.start}, {r.end}) lies across the cut in force at offset"
                f" {cut.get(partition, 0)}; run `trilayer batch run --full`"
            )
        if True in sides:
            above.append(interval)
    return [*above, *chain[own[-1] + 1 :]]


def check_follows(stream: Stream, before: Interval, after: Interval) -> None:
    """Checks that the ranges of two neighbours of an origin are contiguous.

    Raises:
        CoverageError: They are not.
    """
    if before.origin_id != after.origin_id:
        return
    for partition, r in after.ranges.items():
        if partition in before.ranges and r.start != before.ranges[partition].end:
            raise CoverageError(
                f"stream {stream.name!r} partition {partition}: interval {after.number} of the"
                f" master dataset begins at offset {r.start} instead of"
                f" {before.ranges[partition].end}; restore the manifests of this chain from a copy"
            )
