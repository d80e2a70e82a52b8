"""The generations of a stream's speed layer, and the commits of each."""

from __future__ import annotations

from collections.abc import Iterable

from trilayer_core.definitions.stream import Stream
from trilayer_core.runtime.retries import read_listed
from trilayer_core.seam import Cut
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.segments import Commit, Fault, Generation


class Generations:
    """The generations of a stream.

    Args:
        store: The store.
        stream: The stream.

    Attributes:
        store: The store.
        stream: The stream.
    """

    def __init__(self, store: Store, stream: Stream) -> None:
        self.store, self.stream = store, stream

    def all(self) -> list[Generation]:
        """All generations, oldest first."""

        def listing() -> list[str]:
            names = self.store.names(layout.generations(self.stream))
            paths = [self._record(name) for name in names if name[:6].isdigit()]
            return [path for path in paths if self.store.exists(path)]

        # Reading is repeated if a batch run has just deleted one.
        return read_listed(listing, lambda path: self.store.read_document(path, Generation))

    def read(self, generation: str) -> Generation:
        """The generation with this name. Raises IntegrityError if it is missing or altered."""
        return self.store.read_document(self._record(generation), Generation)

    def begin(self, generation: Generation) -> None:
        """Records a generation, which exists from then on."""
        self.store.create_document(self._record(generation.name), generation)

    def delete(self, generation: str) -> None:
        """Deletes a generation, beginning with its record, without which it does not exist."""
        self.store.delete(self._record(generation))
        self.store.delete(layout.generation(self.stream, generation))

    def spans(self, generation: str) -> list[tuple[int, int]]:
        """The (first, last) of the widest commits, in order, without those inside a wider one."""
        names = self.store.names(layout.commits(self.stream, generation))
        spans = sorted((first, -last) for first, last in layout.spans(names))
        widest: list[tuple[int, int]] = []
        for first, negative_last in spans:
            if not widest or -negative_last > widest[-1][1]:
                widest.append((first, -negative_last))
        return widest

    def commits(self, generation: str) -> list[Commit]:
        """The widest commits of a generation, in order.

        Reading is repeated if compaction has just replaced some.
        """
        return read_listed(
            lambda: self.spans(generation), lambda span: self.commit(generation, *span)
        )

    def commit(self, generation: str, first: int, last: int) -> Commit:
        """Reads a commit. Raises IntegrityError if it is missing or altered."""
        return self.store.read_document(self._commit(generation, first, last), Commit)

    def has_commit(self, generation: str, first: int, last: int) -> bool:
        """Whether this commit exists, rather than a wider one."""
        return self.store.exists(self._commit(generation, first, last))

    def write_commit(self, generation: str, commit: Commit, *, durable: bool = True) -> None:
        """Writes a commit, which makes its segments count.

        Does nothing if it exists already.
        """
        path = self._commit(generation, commit.first, commit.last)
        self.store.create_document(path, commit, durable=durable)

    def delete_commit(self, generation: str, commit: Commit) -> None:
        """Deletes a commit, and then its files."""
        self.store.delete(self._commit(generation, commit.first, commit.last))
        for file in commit.stored:
            self.store.delete(file.path)

    def compaction_fault(self) -> Fault | None:
        """The reason why the commits of the newest generation can't be compacted.

        None if they can.
        """
        generations = self.all()
        if not generations:
            return None
        path = layout.compaction_fault(self.stream, generations[-1].name)
        return self.store.find_document(path, Fault)

    def _record(self, generation: str) -> str:
        return layout.generation_record(self.stream, generation)

    def _commit(self, generation: str, first: int, last: int) -> str:
        return layout.commit(self.stream, generation, first, last)


class CachedCommits(Generations):
    """Generations whose commits are each read once, because a commit never changes."""

    def __init__(self, store: Store, stream: Stream) -> None:
        super().__init__(store, stream)
        self._read: dict[str, dict[tuple[int, int], Commit]] = {}

    def commits(self, generation: str) -> list[Commit]:
        """As `Generations.commits`; other commits of the generation are forgotten."""
        commits = super().commits(generation)
        self._read[generation] = {(commit.first, commit.last): commit for commit in commits}
        return commits

    def commit(self, generation: str, first: int, last: int) -> Commit:
        """As `Generations.commit`."""
        commits = self._read.setdefault(generation, {})
        if (first, last) not in commits:
            commits[first, last] = super().commit(generation, first, last)
        return commits[first, last]

    def keep(self, names: Iterable[str]) -> None:
        """Forgets all generations except these."""
        self._read = {name: self._read[name] for name in names if name in self._read}


class CommitsUpTo(CachedCommits):
    """One generation of a stream as it was when its head was at an earlier offset.

    A commit that compaction has merged across that head is left out, so that the generation then
    ends before it.
    """

    def __init__(self, store: Store, stream: Stream, generation: str | None, head: Cut) -> None:
        super().__init__(store, stream)
        self._generation, self._head = generation, head

    def all(self) -> list[Generation]:
        """The generation alone; empty if it is gone, or if there was none."""
        return [generation for generation in super().all() if generation.name == self._generation]

    def commits(self, generation: str) -> list[Commit]:
        """The commits below the head."""
        return [
            commit
            for commit in super().commits(generation)
            if all(
                offsets.end <= self._head.get(partition, 0)
                for segment in commit.segments
                for partition, offsets in segment.ranges.items()
            )
        ]
