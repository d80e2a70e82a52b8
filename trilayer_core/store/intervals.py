"""The intervals of the master dataset: what one holds, and what is asked of a row of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import CoverageError
from trilayer_core.log.broker import Marks
from trilayer_core.seam import Cut
from trilayer_core.store.documents import StoredRange
from trilayer_core.store.files import StoredFile


@dataclass(frozen=True)
class Interval:
    """One ingested interval.

    Attributes:
        number: Its place in its chain.
        t_ms: The T of its run.
        topic_id: Identity of the origin in which its offsets count, see `Origin`.
        ranges: Offsets [start, end) of each partition; the ends are the recorded cut of `t_ms`.
        files: Where its records are.
        events: Records held, the quarantined ones included.
        quarantined: Records that do not fit their schema.
        lost: Parts of `ranges` that retention took before they were ingested, accepted by an
            operator.
        marks: Per partition, the last record that has been ingested, by which the next run tells
            whether the log still holds it; None if the log had no record below the end. Manifests
            from before marks were kept have none.
        departed: Number of the newest generation of the speed layer that had read, when this was
            ingested, what the log holds no longer: none up to it is merged with this interval. 0 if
            there was none.
    """

    number: int
    t_ms: int
    topic_id: str
    ranges: Mapping[int, StoredRange]
    lost: Mapping[int, StoredRange]
    files: Sequence[StoredFile]
    events: int
    quarantined: int
    marks: Marks = field(default_factory=dict)
    departed: int = 0

    @property
    def end(self) -> dict[int, int]:
        """Where it ends in each partition."""
        return {partition: r.end for partition, r in self.ranges.items()}


def of_origin(chain: Sequence[Interval], identity: str) -> list[Interval]:
    """The intervals of one origin."""
    return [interval for interval in chain if interval.topic_id == identity]


def newest_of(chain: Sequence[Interval], identity: str) -> list[Interval]:
    """The newest interval of one origin, or none: all that `chain_end` needs of it."""
    return next(([i] for i in reversed(chain) if i.topic_id == identity), [])


def chain_end(chain: Sequence[Interval], start: Cut) -> dict[int, int]:
    """Where ingest goes on: the end of the intervals of one origin, which begins at `start`."""
    return dict(start) | (chain[-1].end if chain else {})


def newest_departed(chain: Sequence[Interval], identity: str) -> int:
    """The newest generation that the intervals of an origin say has departed from the log.

    Its number, or 0 if none has.
    """
    own = newest_of(chain, identity)
    return own[-1].departed if own else 0


def rising_ts(chain: Sequence[Interval], latest_ms: int | None = None) -> list[int]:
    """The T by which each interval's cut goes, as `recorded_cuts` says."""
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
    """The intervals up to `cut`, a cut of the origin with this identity.

    And all of the origins before it.
    """
    until = max(
        (place for place, interval in enumerate(chain) if interval.topic_id == identity), default=-1
    )
    return [
        i
        for i in chain[: until + 1]
        if i.topic_id != identity or all(r.end <= cut.get(p, 0) for p, r in i.ranges.items())
    ]


def intervals_after(
    chain: Sequence[Interval], cut: Cut, stream: Stream, identity: str
) -> list[Interval]:
    """The intervals above a cut.

    Those of its own origin that lie above it, and all of later origins.

    Args:
        chain: Intervals, oldest first.
        cut: The cut.
        stream: The stream, which errors name.
        identity: Identity of the origin in which the cut counts.

    Raises:
        CoverageError: An interval lies across the cut, or there is none of that origin.
    """
    own = [place for place, interval in enumerate(chain) if interval.topic_id == identity]
    if not own:
        raise CoverageError(
            f"stream {stream.name!r}: the master dataset must have intervals of the origin"
            f" {identity} that the publication in force is of; it has none; run `trilayer batch"
            " run --full`"
        )
    above = []
    for interval in chain[own[0] : own[-1] + 1]:
        sides = {r.start >= cut.get(p, 0) for p, r in interval.ranges.items() if len(r)}
        across = [(p, r) for p, r in interval.ranges.items() if r.start < cut.get(p, 0) < r.end]
        if across or len(sides) > 1:
            partition, r = across[0] if across else next(iter(interval.ranges.items()))
            raise CoverageError(
                f"stream {stream.name!r} partition {partition}: interval {interval.number}"
                f" [{r.start}, {r.end}) must lie on one side of the cut in force at offset"
                f" {cut.get(partition, 0)}; run `trilayer batch run --full`"
            )
        if True in sides:
            above.append(interval)
    return [*above, *chain[own[-1] + 1 :]]


def check_follows(stream: Stream, before: Interval, after: Interval) -> None:
    """Raises CoverageError unless the ranges of two neighbours of an origin follow each other."""
    if before.topic_id != after.topic_id:
        return
    for partition, r in after.ranges.items():
        if partition in before.ranges and r.start != before.ranges[partition].end:
            raise CoverageError(
                f"stream {stream.name!r} partition {partition}: interval {after.number} of the"
                f" master dataset must begin at offset {before.ranges[partition].end}; it begins"
                f" at {r.start}; restore the manifests of this chain from a copy"
            )
