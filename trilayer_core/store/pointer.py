"""The pointer, `publications/current.json`, which puts a version in force.

It records the version in force, those before it, and who holds it, and is replaced atomically. Its
lock is held around every check together with the action that depends on it: taking a token, writing
or deleting a version, moving the pointer. On a local disk none of these can come between the check
and the action of another. A run that was overtaken therefore neither writes a version nor moves the
pointer, and no version is deleted to which the pointer may be moved. Everything that is done under
the lock takes milliseconds; it never waits for Spark.
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
"""How long to wait for the pointer's lock.

This is a thousand times what the work under it takes; a process that still holds it has been
suspended.
"""


@contextmanager
def pointer_lock(store: Store, what: str) -> Iterator[None]:
    """Holds the pointer's lock, which lets one process or thread at a time change what is in force.

    It is needed to move the pointer, to take a token, and to write or delete a version. It is not
    re-entrant, and does nothing on stores without locks.

    Raises:
        ConflictError: Another process still holds it after `LOCK_WAIT_S`. The message says which.
    """
    with store.lock(layout.POINTER_LOCK, what, LOCK_WAIT_S):
        yield


@dataclass(frozen=True)
class Held:
    """A hold: while it lasts, only a rollback changes the version in force.

    Attributes:
        who: Who holds the version, such as `ann@laptop`.
        why: The reason that they gave; may be empty.
        since_ms: When the hold began, in ms since 1970.
    """

    who: str
    why: str
    since_ms: int

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ", who gave no reason"
        return f"since {format_time(self.since_ms // 1000 * 1000)} by {self.who}{why}"


@dataclass(frozen=True)
class Pointer:
    """The document that puts a version in force.

    Attributes:
        version: The version in force.
        version_digest: The digest in its document.
        token: The token of the run or rollback that put it in force.
        reason: publish or rollback.
        moved_ms: When it was put in force, in ms since 1970.
        before: Versions that were in force before it, as in `Past`. None in older pointers.
        left: Versions that a rollback has left. None in older pointers.
        held: The hold; None if there is none.
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
        """The file's bytes, from which a change is noticed cheaply.

        None before the first publication.
        """
        there = self._store.exists(layout.POINTER)
        return self._store.read(layout.POINTER) if there else None

    def read(self) -> Pointer | None:
        """The pointer; None before the first publication.

        Raises:
            IntegrityError: It can't be read.
        """
        data = self.data()
        return None if data is None else parse_document(data, layout.POINTER, Pointer)

    def write(self, pointer: Pointer) -> None:
        """Replaces the pointer. The caller must hold the lock."""
        self._store.write_document(layout.POINTER, pointer)

    def held(self) -> Held | None:
        """The hold on the version in force; None if there is none.

        Raises:
            IntegrityError: The pointer can't be read.
        """
        standing = self.read()
        return standing.held if standing else None

    def check_not_held(self) -> None:
        """Raises HeldError if a person holds the version in force."""
        standing = self.read()
        if standing is not None and standing.held is not None:
            by = standing.held
            raise HeldError(
                f"held by {by.who}: {by.why or 'no reason was given'}; release it with `trilayer"
                " batch release`, or the DAG lambda_release; until then version"
                f" {standing.version} stays in force and runs publish nothing; held since"
                f" {format_time(by.since_ms // 1000 * 1000)}"
            )


@dataclass(frozen=True)
class Past:
    """The versions that have been in force.

    Attributes:
        version: The one in force; None before the first publication, or if the pointer can't be
            read.
        before: Those that were in force before it, oldest first. Rollbacks go back through them one
            by one.
        left: Those that a rollback has left, in the order of the rollbacks.
    """

    version: int | None
    before: Sequence[int]
    left: Sequence[int]

    def moved_to(self, version: int, there: Sequence[int]) -> Past:
        """The past after `version` is put in force.

        Versions that are not in `there` no longer exist and are dropped.

        >>> Past(3, [1, 2], []).moved_to(2, [1, 2, 3])  # a rollback
        Past(version=2, before=[1], left=[3])
        >>> # and the next publication: the version before it is 2, not 3
        >>> Past(2, [1], [3]).moved_to(4, [1, 2, 3, 4])
        Past(version=4, before=[1, 2], left=[3])
        """
        line = [*self.before, *([] if self.version is None else [self.version])]
        back = line.index(version) if version in line else len(line)
        left = [number for number in self.left if number not in line]
        left += [number for number in line[back:] if number != version]
        kept = set(there) - {version}
        return Past(
            version,
            [number for number in line[:back] if number in kept],
            [number for number in left if number in kept],
        )

    @property
    def by_use(self) -> list[int]:
        """All versions that have been in force, the likeliest target of a rollback first."""
        present = [] if self.version is None else [self.version]
        return [*present, *reversed(self.before), *reversed(self.left)]
