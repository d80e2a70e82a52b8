"""The format of the master dataset: the immutable copy of a stream's log.

It contains everything below the latest cut, in one interval per batch run.

- `master/STREAM/SCHEMA/00000007.json`: a manifest with T, offset ranges, and files with digests.
  Writing it commits the interval.
- `master/STREAM/SCHEMA/00000007-ab12cd/`: Parquet files with each record as it was in the log and
  its typed columns.

SCHEMA is the stream's fingerprint. After a change of the schema, a chain of intervals under the new
one is made from the raw bytes of the old one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import overload
from weakref import WeakKeyDictionary

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import ConflictError, IntegrityError
from trilayer_core.runtime.retries import read_listed
from trilayer_core.seam import Cut
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.intervals import Interval, check_follows, rising_ts


class Master:
    """The master dataset of a stream, which has a chain of intervals for each of its schemas.

    Args:
        store: The store.
        stream: The stream, whose present schema is the default.
    """

    def __init__(self, store: Store, stream: Stream) -> None:
        self._store, self._stream = store, stream

    def schemas(self) -> list[str]:
        """The fingerprints of the schemas for which the stream has a chain."""
        return self._store.names(layout.chains(self._stream))

    def chain(self, schema: str | None = None) -> Chain:
        """The chain for a schema, whose intervals are each read when they are accessed."""
        return Chain(self._store, self._stream, schema)

    def longest_chain(self) -> Sequence[Interval]:
        """The longest chain under any schema.

        After a change of the schema, the chain of the new one is not as long as the old one yet.
        """
        chains: list[Sequence[Interval]] = [self.chain(schema) for schema in self.schemas()]
        return max(chains, key=len, default=[])

    def read_chain(self, schema: str | None = None) -> list[Interval]:
        """The intervals of a chain, oldest first, checked to be contiguous within each origin.

        Args:
            schema: The schema's fingerprint; by default that of the stream's present one.

        Raises:
            IntegrityError: A manifest in the middle is missing or altered.
            CoverageError: Ranges are not contiguous.
        """
        folder = self._folder(schema)
        # Reading is repeated if a batch run has just deleted the chain.
        manifests = read_listed(
            lambda: self._manifests(folder),
            lambda name: (name, self._store.read_document(f"{folder}/{name}", Interval)),
        )
        for expected, (name, _) in enumerate(manifests):
            if name != f"{expected:08d}.json":
                raise _missing(folder, expected, name)
        intervals = [interval for _, interval in manifests]
        for before, after in itertools.pairwise(intervals):
            check_follows(self._stream, before, after)
        return intervals

    def chain_after(self, cut: Cut, identity: str) -> list[Interval]:
        """The newest intervals: at least those above `cut`, and those of later origins.

        `cut` is a cut of the origin with this identity.
        """
        return self.chain().tail(
            lambda interval: (
                interval.origin_id == identity
                and all(end <= cut.get(partition, 0) for partition, end in interval.end.items())
            )
        )

    def recorded_cuts(
        self,
        latest_ms: int | None = None,
        back_to: Callable[[Interval], bool] = lambda interval: False,
        *,
        identity: str | None = None,
    ) -> dict[int, Mapping[int, int]]:
        """The cut that an ingest has recorded for each T, from every chain.

        The Ts increase with the cuts. An interval whose T is later than `latest_ms`, or than the T
        of a later interval, was ingested by a machine whose clock was ahead. Its cut is assigned to
        a T one millisecond after the previous one. That T is not on the grid, so nobody asks for
        it, and it does not change when a run with the right time follows.

        Args:
            latest_ms: The latest T that the clock confirms; None for any T.
            back_to: How far back to read, as `reached` of `Chain.tail`; None for the first
                interval.
            identity: The identity of the origin whose cuts are meant. If it is None, the cuts of
                all origins are returned together. Only their Ts are meaningful then, because
                offsets of different origins can't be compared.
        """
        cuts: dict[int, Mapping[int, int]] = {}
        for schema in self.schemas():
            tail = self.chain(schema).tail(back_to, latest_ms, identity)
            cuts |= {t_ms: i.end for t_ms, i in zip(rising_ts(tail, latest_ms), tail, strict=True)}
        return cuts

    def commit(self, interval: Interval) -> None:
        """Writes the manifest of an interval, which makes it count.

        Raises:
            ConflictError: Another run has just ingested an interval with its number.
        """
        path = layout.manifest(self._folder(None), interval.number)
        if not self._store.create_document(path, interval):
            raise ConflictError(f"another run has just written {path}; run this again")

    def delete_chain(self, schema: str) -> None:
        """Deletes a chain from the newest interval to the oldest.

        If the process is killed, or a reader comes in between, what remains is still a chain.
        """
        folder = self._folder(schema)
        for name in reversed(self._manifests(folder)):
            self._store.delete(f"{folder}/{name}")
        self._store.delete(folder)

    def _folder(self, schema: str | None) -> str:
        return layout.chain(self._stream, schema or self._stream.fingerprint)

    def _manifests(self, folder: str) -> list[str]:
        return [name for name in self._store.names(folder) if name.endswith(".json")]


class Chain(Sequence[Interval]):
    """The intervals of a chain, oldest first, each read when it is accessed.

    The cost of a run must not grow with the history. The number of intervals is therefore found by
    probing single manifests, without a listing: `ingest` adds them without gaps, and `delete_chain`
    deletes the newest first. Two neighbours are checked to be contiguous once both have been read.
    Only `read_chain` checks the whole chain.

    Raises:
        IntegrityError: A manifest in the middle is missing or altered. This is raised when the
            chain is created or read.
        CoverageError: The ranges of two neighbours are not contiguous.
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
                    check_follows(self._stream, self._read[before], self._read[after])
        return self._read[number]

    def tail(
        self,
        reached: Callable[[Interval], bool],
        latest_ms: int | None = None,
        identity: str | None = None,
    ) -> list[Interval]:
        """The newest intervals, oldest first, back to the second one that counts as reached.

        Two are needed: the T of the older one determines the T to which the cut of the younger one
        belongs, and where the tick before it begins. A chain that is deleted meanwhile counts as
        empty.

        Args:
            reached: Whether an interval is as old as the caller needs. An interval whose T is later
                than `latest_ms`, or than that of a later interval, never counts as reached.
            latest_ms: The latest T that the clock confirms; None for any T.
            identity: The identity of the origin whose intervals are meant; None for all origins.

        Returns:
            These intervals, or all if fewer than two count as reached.
        """
        intervals: list[Interval] = []
        wanted, lowest = 2, latest_ms
        try:
            for number in reversed(range(self._length)):
                interval = self[number]
                if identity is not None and interval.origin_id != identity:
                    if intervals:
                        break  # the intervals of an origin are adjacent
                    continue
                intervals.append(interval)
                sound = lowest is None or interval.t_ms <= lowest
                lowest = interval.t_ms if lowest is None else min(lowest, interval.t_ms)
                wanted -= sound and reached(interval)
                if not wanted:
                    break
        except IntegrityError:
            # Chains are deleted from the newest interval to the oldest, so an interval that existed
            # before is missing then.
            if self._store.exists(layout.manifest(self._folder, self._length - 1)):
                raise
            again = Chain(self._store, self._stream, self._folder.rsplit("/", 1)[1])
            return again.tail(reached, latest_ms, identity)
        return intervals[::-1]


_lengths: WeakKeyDictionary[Store, dict[str, int]] = WeakKeyDictionary()
"""The number of manifests in a chain's folder at the last look, where the next look begins."""


def _length(store: Store, folder: str) -> int:
    """The number of manifests.

    Raises:
        IntegrityError: One in the middle is missing, as far as this was noticed.
    """

    def there(number: int) -> bool:
        return store.exists(layout.manifest(folder, number))

    lengths = _lengths.setdefault(store, {})
    low = lengths.get(folder, 0)
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
        # A manifest may be added between the two checks, so the first check is repeated before one
        # is called missing.
        if there(low + further) and not there(low):
            raise _missing(folder, low, f"{low + further:08d}.json")
    lengths[folder] = low
    return low


def _missing(folder: str, number: int, after: str) -> IntegrityError:
    return IntegrityError(
        f"{layout.manifest(folder, number)} is missing in the store, although {after} follows it"
    )
