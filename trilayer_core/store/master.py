"""The master dataset's format: the immutable copy of a stream's log.

It holds what lies below the latest cut, an interval a batch run.

- `master/STREAM/SCHEMA/00000007.json`: a manifest, with T, offset ranges and files with digests.
  Its writing is the commit.
- `master/STREAM/SCHEMA/00000007-ab12cd/`: Parquet files, each record as it was in the log, then its
  typed columns.

SCHEMA is the stream's fingerprint. After a schema change a chain under the new one is made from the
raw bytes of the old.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload
from weakref import WeakKeyDictionary

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import CoverageError, IntegrityError
from trilayer_core.log.broker import Marks
from trilayer_core.seam import Cut
from trilayer_core.store import layout
from trilayer_core.store.documents import StoredRange
from trilayer_core.store.files import Store, StoredFile, read_listed


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


def schemas(store: Store, stream: Stream) -> list[str]:
    """Fingerprints of the schemas under which the stream has a chain."""
    return store.names(layout.chains(stream))


class Chain(Sequence[Interval]):
    """The intervals of a chain, oldest first, each read when it is asked for.

    What a run costs must not grow with the history. So the length is found by looking for single
    manifests, without a listing: `ingest` adds them without a gap, and `delete_chain` takes the
    newest first. Neighbours are checked to follow each other once both have been read. Only
    `read_chain` checks the chain as a whole.

    Raises:
        IntegrityError: A manifest is missing in the middle or altered; when the chain is made, or
            read.
        CoverageError: The ranges of two neighbours don't follow each other.
    """

    def __init__(self, store: Store, stream: Stream, schema: str | None = None) -> None:
        self._store, self._stream = store, stream
        self._folder = layout.chain(stream, schema or stream.fingerprint)
        self._read: dict[int, Interval] = {}
        self._length = _length(store, self._folder)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Interval: ...
    @overload
    def __getitem__(self, place: slice) -> list[Interval]: ...
    def __getitem__(self, place: int | slice) -> Interval | list[Interval]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(self._length))]
        number = range(self._length)[place]
        if number not in self._read:
            path = layout.manifest(self._folder, number)
            self._read[number] = self._store.read_document(path, Interval)
            for before, after in ((number - 1, number), (number, number + 1)):
                if before in self._read and after in self._read:
                    _check_follows(self._stream, self._read[before], self._read[after])
        return self._read[number]

    def tail(
        self,
        reached: Callable[[Interval], bool],
        latest_ms: int | None = None,
        identity: str | None = None,
    ) -> list[Interval]:
        """The newest intervals, oldest first, back to the second one that counts as reached.

        Two are needed: by the T of the older one it is known by which T the cut of the younger one
        goes, and where the tick before it begins. A chain that is cleared away meanwhile is empty.

        Args:
            reached: Whether an interval lies as far back as the caller needs. An interval whose T
                is later than `latest_ms`, or than that of an interval after it, does not count,
                whatever this says.
            latest_ms: The latest T that the clock bears out; any T unless given.
            identity: Identity of the one origin whose intervals are meant; all origins unless
                given.

        Returns:
            Those intervals, or all of them if fewer than two count as reached.
        """
        found: list[Interval] = []
        wanted, lowest = 2, latest_ms
        try:
            for number in reversed(range(self._length)):
                interval = self[number]
                if identity is not None and interval.topic_id != identity:
                    if found:
                        break  # the intervals of an origin lie side by side
                    continue
                found.append(interval)
                sound = lowest is None or interval.t_ms <= lowest
                lowest = interval.t_ms if lowest is None else min(lowest, interval.t_ms)
                wanted -= sound and reached(interval)
                if not wanted:
                    break
        except IntegrityError:
            # What is cleared away goes from the newest interval to the oldest: one that was there
            # at first is missing then.
            if self._store.exists(layout.manifest(self._folder, self._length - 1)):
                raise
            again = Chain(self._store, self._stream, self._folder.rsplit("/", 1)[1])
            return again.tail(reached, latest_ms, identity)
        return found[::-1]


_lengths: WeakKeyDictionary[Store, dict[str, int]] = WeakKeyDictionary()
"""How many manifests a chain's folder had when it was last looked at: where to begin to look."""


def _length(store: Store, folder: str) -> int:
    """How many manifests there are.

    Raises IntegrityError if one is missing in the middle, as far as that shows.
    """

    def there(number: int) -> bool:
        return store.exists(layout.manifest(folder, number))

    known = _lengths.setdefault(store, {})
    low = known.get(folder, 0)
    if low and not there(low - 1):
        low = 0
    step = 1
    while there(low + step - 1):
        low, step = low + step, step * 2
    high = low + step - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if there(middle) else (low, middle)
    for further in (1, 2, 4, 8, 16, 32):
        # A manifest may be added between the two looks: so look for the first again before calling
        # it missing.
        if there(low + further) and not there(low):
            raise _missing(folder, low, f"{low + further:08d}.json")
    known[folder] = low
    return low


def _missing(folder: str, number: int, after: str) -> IntegrityError:
    return IntegrityError(
        f"{layout.manifest(folder, number)} must be in the store; it is missing, and {after} comes"
        " after it"
    )


def _check_follows(stream: Stream, before: Interval, after: Interval) -> None:
    if before.topic_id != after.topic_id:
        return
    for partition, r in after.ranges.items():
        if partition in before.ranges and r.start != before.ranges[partition].end:
            raise CoverageError(
                f"stream {stream.name!r} partition {partition}: interval {after.number} of the"
                f" master dataset must begin at offset {before.ranges[partition].end}; it begins"
                f" at {r.start}; restore the manifests of this chain from a copy"
            )


def read_chain(store: Store, stream: Stream, schema: str | None = None) -> list[Interval]:
    """The intervals of a chain, oldest first, checked to be contiguous within each origin.

    `schema` is the stream's present one unless given.

    Raises IntegrityError for a manifest that is missing in the middle or altered, CoverageError for
    ranges that don't follow each other.
    """
    folder = layout.chain(stream, schema or stream.fingerprint)
    # Read again where a batch run has just cleared the chain away.
    found = read_listed(
        lambda: _manifests(store, folder),
        lambda name: (name, store.read_document(f"{folder}/{name}", Interval)),
    )
    for expected, (name, _) in enumerate(found):
        if name != f"{expected:08d}.json":
            raise _missing(folder, expected, name)
    intervals = [interval for _, interval in found]
    for before, after in itertools.pairwise(intervals):
        _check_follows(stream, before, after)
    return intervals


def _manifests(store: Store, folder: str) -> list[str]:
    return [name for name in store.names(folder) if name.endswith(".json")]


def delete_chain(store: Store, stream: Stream, schema: str) -> None:
    """Deletes a chain, from the newest interval to the oldest.

    Whatever a kill leaves, or a reader meets, is a chain.
    """
    folder = layout.chain(stream, schema)
    for name in reversed(_manifests(store, folder)):
        store.delete(f"{folder}/{name}")
    store.delete(folder)


def longest_chain(store: Store, stream: Stream) -> Sequence[Interval]:
    """The longest chain under any schema.

    After a schema change the present one is not yet as long as the one before.
    """
    chains: list[Sequence[Interval]] = [
        Chain(store, stream, schema) for schema in schemas(store, stream)
    ]
    return max(chains, key=len, default=[])


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


def recorded_cuts(
    store: Store,
    stream: Stream,
    latest_ms: int | None = None,
    back_to: Callable[[Interval], bool] = lambda interval: False,
    *,
    identity: str | None = None,
) -> dict[int, Mapping[int, int]]:
    """T to the cut that an ingest has recorded for it, from every chain.

    The Ts rise as the cuts do.

    An interval whose T is later than `latest_ms`, or than the T of an interval after it, was
    ingested by a machine whose clock was ahead. Its cut goes by a T one millisecond after the one
    before it: on no grid, so that nobody asks for it, and the same before and after a run with the
    right time has followed it.

    Args:
        store: The store.
        stream: The stream.
        latest_ms: The latest T that the clock bears out; any T unless given.
        back_to: How far back to read, as `reached` of `Chain.tail`; to the first interval unless
            given.
        identity: Identity of the one origin whose cuts are meant. Without it the cuts of all
            origins are returned together, of which only the Ts mean something: offsets of different
            origins can't be compared.
    """
    cuts: dict[int, Mapping[int, int]] = {}
    for schema in schemas(store, stream):
        tail = Chain(store, stream, schema).tail(back_to, latest_ms, identity)
        cuts |= {t_ms: i.end for t_ms, i in zip(rising_ts(tail, latest_ms), tail, strict=True)}
    return cuts


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


def chain_after(store: Store, stream: Stream, cut: Cut, identity: str) -> list[Interval]:
    """The newest intervals, at least those above `cut` and those of later origins.

    `cut` is one of the origin with this identity.
    """
    return Chain(store, stream).tail(
        lambda interval: (
            interval.topic_id == identity
            and all(end <= cut.get(partition, 0) for partition, end in interval.end.items())
        )
    )


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
