"""The generations of a stream's speed layer, and the commits of each."""

from __future__ import annotations

from collections.abc import Iterable

from trilayer_core.definitions.stream import Stream
from trilayer_core.store import layout
from trilayer_core.store.files import Store, read_listed
from trilayer_core.store.segments import Commit, CompactionFault, Generation


class Generations:
    """The generations of a stream.

    Args:
        store: The store.
        stream: The stream.

    Attributes:
        stream: The stream.
    """

    def __init__(self, store: Store, stream: Stream) -> None:
        self._store, self.stream = store, stream

    def all(self) -> list[Generation]:
        """Every generation, oldest first."""

        def listing() -> list[str]:
            names = self._store.names(layout.generations(self.stream))
            paths = [self._record(name) for name in names if name[:6].isdigit()]
            return [path for path in paths if self._store.exists(path)]

        # Read again if a batch run has just cleared one away.
        return read_listed(listing, lambda path: self._store.read_document(path, Generation))

    def read(self, generation: str) -> Generation:
        """The generation of this name. Raises IntegrityError if it is missing or altered."""
        return self._store.read_document(self._record(generation), Generation)

    def begin(self, generation: Generation) -> None:
        """Records a generation, which is there from then on."""
        self._store.create_document(self._record(generation.name), generation)

    def delete(self, generation: str) -> None:
        """Deletes a generation, first the record without which it is none."""
        self._store.delete(self._record(generation))
        self._store.delete(layout.generation(self.stream, generation))

    def spans(self, generation: str) -> list[tuple[int, int]]:
        """(first, last) of the widest commits, in order; those inside a wider one are left out."""
        names = self._store.names(layout.commits(self.stream, generation))
        stems = [name.removesuffix(".json") for name in names]
        spans = sorted((int(stem[:12]), -int(stem[13:])) for stem in stems)
        widest: list[tuple[int, int]] = []
        for first, negative_last in spans:
            if not widest or -negative_last > widest[-1][1]:
                widest.append((first, -negative_last))
        return widest

    def commits(self, generation: str) -> list[Commit]:
        """All commits of a generation, the widest ones, in order.

        Read again where compaction has just replaced some.
        """
        return read_listed(
            lambda: self.spans(generation), lambda span: self.commit(generation, *span)
        )

    def commit(self, generation: str, first: int, last: int) -> Commit:
        """One commit. Raises IntegrityError if it is missing or altered."""
        return self._store.read_document(self._commit(generation, first, last), Commit)

    def has_commit(self, generation: str, first: int, last: int) -> bool:
        """Whether there is this very commit."""
        return self._store.exists(self._commit(generation, first, last))

    def write_commit(self, generation: str, commit: Commit, *, durable: bool = True) -> None:
        """Writes a commit, which makes its segments count.

        Nothing happens if it is there already.
        """
        path = self._commit(generation, commit.first, commit.last)
        self._store.create_document(path, commit, durable=durable)

    def delete_commit(self, generation: str, commit: Commit) -> None:
        """Deletes a commit, then the files that it names."""
        self._store.delete(self._commit(generation, commit.first, commit.last))
        for file in commit.stored:
            self._store.delete(file.path)

    def compaction_fault(self) -> CompactionFault | None:
        """What keeps the commits of the newest generation from being compacted.

        None if nothing does.
        """
        known = self.all()
        path = layout.compaction_fault(self.stream, known[-1].name) if known else ""
        if not path or not self._store.exists(path):
            return None
        return self._store.read_document(path, CompactionFault)

    def _record(self, generation: str) -> str:
        return layout.generation_record(self.stream, generation)

    def _commit(self, generation: str, first: int, last: int) -> str:
        return layout.commit(self.stream, generation, first, last)


class KnownCommits(Generations):
    """Generations of which each commit is read once: a commit never changes."""

    def __init__(self, store: Store, stream: Stream) -> None:
        super().__init__(store, stream)
        self._known: dict[str, dict[tuple[int, int], Commit]] = {}

    def commits(self, generation: str) -> list[Commit]:
        """As of `Generations`; of the generation's commits all others are forgotten."""
        commits = super().commits(generation)
        self._known[generation] = {(commit.first, commit.last): commit for commit in commits}
        return commits

    def commit(self, generation: str, first: int, last: int) -> Commit:
        """As of `Generations`."""
        known = self._known.setdefault(generation, {})
        if (first, last) not in known:
            known[first, last] = super().commit(generation, first, last)
        return known[first, last]

    def keep(self, names: Iterable[str]) -> None:
        """Forgets all generations but these."""
        self._known = {name: self._known[name] for name in names if name in self._known}
