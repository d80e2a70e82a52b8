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
from typing import overload
from weakref import WeakKeyDictionary

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import ConflictError, IntegrityError
from trilayer_core.seam import Cut
from trilayer_core.store import layout
from trilayer_core.store.files import Store, read_listed
from trilayer_core.store.intervals import Interval, check_follows, rising_ts


class Master:
    """The master dataset of a stream: a chain of intervals for each schema that it has had.

    Args:
        store: The store.
        stream: The stream, whose present schema is meant where none is named.
    """

    def __init__(self, store: Store, stream: Stream) -> None:
        self._store, self._stream = store, stream

    def schemas(self) -> list[str]:
        """Fingerprints of the schemas under which the stream has a chain."""
        return self._store.names(layout.chains(self._stream))

    def chain(self, schema: str | None = None) -> Chain:
        """The chain under a schema, each of whose intervals is read when it is asked for."""
        return Chain(self._store, self._stream, schema)

    def longest_chain(self) -> Sequence[Interval]:
        """The longest chain under any schema.

        After a schema change the present one is not yet as long as the one before.
        """
        chains: list[Sequence[Interval]] = [self.chain(schema) for schema in self.schemas()]
        return max(chains, key=len, default=[])

    def read_chain(self, schema: str | None = None) -> list[Interval]:
        """The intervals of a chain, oldest first, checked to be contiguous within each origin.

        Raises IntegrityError for a manifest that is missing in the middle or altered, CoverageError
        for ranges that don't follow each other.
        """
        folder = self._folder(schema)
        # Read again where a batch run has just cleared the chain away.
        found = read_listed(
            lambda: self._manifests(folder),
            lambda name: (name, self._store.read_document(f"{folder}/{name}", Interval)),
        )
        for expected, (name, _) in enumerate(found):
            if name != f"{expected:08d}.json":
                raise _missing(folder, expected, name)
        intervals = [interval for _, interval in found]
        for before, after in itertools.pairwise(intervals):
            check_follows(self._stream, before, after)
        return intervals

    def chain_after(self, cut: Cut, identity: str) -> list[Interval]:
        """The newest intervals, at least those above `cut` and those of later origins.

        `cut` is one of the origin with this identity.
        """
        return self.chain().tail(
            lambda interval: (
                interval.topic_id == identity
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
        """T to the cut that an ingest has recorded for it, from every chain.

        The Ts rise as the cuts do.

        An interval whose T is later than `latest_ms`, or than the T of an interval after it, was
        ingested by a machine whose clock was ahead. Its cut goes by a T one millisecond after the
        one before it: on no grid, so that nobody asks for it, and the same before and after a run
        with the right time has followed it.

        Args:
            latest_ms: The latest T that the clock bears out; any T unless given.
            back_to: How far back to read, as `reached` of `Chain.tail`; to the first interval
                unless given.
            identity: Identity of the one origin whose cuts are meant. Without it the cuts of all
                origins are returned together, of which only the Ts mean something: offsets of
                different origins can't be compared.
        """
        cuts: dict[int, Mapping[int, int]] = {}
        for schema in self.schemas():
            tail = self.chain(schema).tail(back_to, latest_ms, identity)
            cuts |= {t_ms: i.end for t_ms, i in zip(rising_ts(tail, latest_ms), tail, strict=True)}
        return cuts

    def commit(self, interval: Interval) -> None:
        """Writes the manifest of an interval, which makes it count.

        Raises ConflictError if another run has just ingested an interval of its number.
        """
        path = layout.manifest(self._folder(None), interval.number)
        if not self._store.create_document(path, interval):
            raise ConflictError(f"{path} must be new; another run has just ingested it; run again")

    def delete_chain(self, schema: str) -> None:
        """Deletes a chain, from the newest interval to the oldest.

        Whatever a kill leaves, or a reader meets, is a chain.
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
    """The intervals of a chain, oldest first, each read when it is asked for.

    What a run costs must not grow with the history. So the length is found by looking for single
    manifests, without a listing: `ingest` adds them without a gap, and `delete_chain` takes the
    newest first. Neighbours are checked to follow each other once both have been read. Only
    `Master.read_chain` checks the chain as a whole.

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
                    check_follows(self._stream, self._read[before], self._read[after])
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
