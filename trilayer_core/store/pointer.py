"""The one pointer, `publications/current.json`: the version in force, those before, who holds it.

It is replaced in one step. Around each check, and what rests on it, its lock is held: a token
taken, a version written or deleted, the pointer moved. So on a local disk none of these can come
between the parts of another: a run that was fenced off neither writes a version nor moves the
pointer, and what the pointer may be moved to is not deleted. All that is done under the lock takes
milliseconds; Spark is never waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from trilayer_core.errors import HeldError
from trilayer_core.seam import format_time
from trilayer_core.store import layout
from trilayer_core.store.documents import ABSENT_IF_NONE, parse_document
from trilayer_core.store.files import Store

LOCK_WAIT_S = 30.0
"""How long the pointer's lock is waited for: a thousand times what is done under it. A process that
still holds it then has been stopped."""


@contextmanager
def pointer_lock(store: Store, what: str) -> Iterator[None]:
    """Lets one process or thread at a time move the pointer.

    Or take a token, or write or delete a version. Not re-entrant.

    Raises ConflictError, which says who has it, after `LOCK_WAIT_S`. Does nothing on stores that
    have no locks.
    """
    with store.lock(layout.POINTER_LOCK, what, LOCK_WAIT_S):
        yield


@dataclass(frozen=True)
class Held:
    """A hold: while it stands, the version in force is moved by a rollback alone.

    Attributes:
        who: Who holds it, such as `ann@laptop`.
        why: The reason that they gave; may be empty.
        since_ms: Since when, in ms since 1970.
    """

    who: str
    why: str
    since_ms: int

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ", who gave no reason"
        return f"since {format_time(self.since_ms // 1000 * 1000)} by {self.who}{why}"


@dataclass(frozen=True)
class Pointer:
    """What puts a version in force.

    Attributes:
        version: The version in force.
        version_digest: The digest in its document.
        token: Of the run or rollback that put it there.
        reason: publish or rollback.
        moved_ms: When, in ms since 1970.
        before: Versions that were in force before it, as in `Past`. None in pointers from before
            this was kept.
        left: Versions that a rollback has left, likewise.
        held: Who holds it; None if nobody does.
    """

    version: int
    version_digest: str
    token: int
    reason: str
    moved_ms: int
    before: Annotated[Sequence[int] | None, ABSENT_IF_NONE] = None
    left: Annotated[Sequence[int] | None, ABSENT_IF_NONE] = None
    held: Held | None = None


class PointerFile:
    """The pointer of a store.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def data(self) -> bytes | None:
        """Its bytes as they stand, to see cheaply whether it has moved.

        None before the first publication.
        """
        there = self._store.exists(layout.POINTER)
        return self._store.read(layout.POINTER) if there else None

    def read(self) -> Pointer | None:
        """The pointer as it stands; None before the first publication.

        Raises IntegrityError if it can't be read.
        """
        data = self.data()
        return None if data is None else parse_document(data, layout.POINTER, Pointer)

    def write(self, pointer: Pointer) -> None:
        """Replaces it. The caller holds the lock."""
        self._store.write_document(layout.POINTER, pointer)

    def held(self) -> Held | None:
        """The hold on the version in force; None if there is none.

        Raises IntegrityError if the pointer can't be read.
        """
        standing = self.read()
        return standing.held if standing else None

    def check_not_held(self) -> None:
        """Raises HeldError where a person holds the version in force."""
        standing = self.read()
        if standing is not None and standing.held is not None:
            raise HeldError(
                "a run may publish only while nobody holds the version in force; version"
                f" {standing.version} is held {standing.held}; release it with `trilayer batch"
                " release`, or the DAG lambda_release"
            )


@dataclass(frozen=True)
class Past:
    """Which versions have been in force.

    Attributes:
        version: The one in force; None before the first publication, and where the pointer can't be
            read.
        before: Those that were in force before it, oldest first: where rollbacks lead, one after
            another.
        left: Those that a rollback has left, in the order in which it did.
    """

    version: int | None
    before: Sequence[int]
    left: Sequence[int]

    def moved_to(self, version: int, there: Sequence[int]) -> Past:
        """The past once `version` is in force.

        Of versions that are not among `there` any more nothing is kept.

        >>> Past(3, [1, 2], []).moved_to(2, [1, 2, 3])  # a rollback
        Past(version=2, before=[1], left=[3])
        >>> # and the next publication: before it was 2, not 3
        >>> Past(2, [1], [3]).moved_to(4, [1, 2, 3, 4])
        Past(version=4, before=[1, 2], left=[3])
        """
        line = [*self.before, *([] if self.version is None else [self.version])]
        back = line.index(version) if version in line else len(line)
        left = [number for number in self.left if number not in line]
        left += [number for number in line[back:] if number != version]
        known = set(there) - {version}
        return Past(
            version,
            [number for number in line[:back] if number in known],
            [number for number in left if number in known],
        )

    @property
    def by_use(self) -> list[int]:
        """Every version that has been in force.

        The one that a rollback is likeliest to want comes first.
        """
        present = [] if self.version is None else [self.version]
        return [*present, *reversed(self.before), *reversed(self.left)]
