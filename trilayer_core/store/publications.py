"""The versions that are kept, and the atomic step that puts all views of one in force."""

from __future__ import annotations

import logging
from dataclasses import replace

from trilayer_core.errors import ConflictError, IntegrityError, StoreError, UsageError, there_are
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.store import layout
from trilayer_core.store.documents import digest_in, mending, parse_document
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.pointer import Held, Past, Pointer, PointerFile, pointer_lock
from trilayer_core.store.publication import Publication, choose_version

logger = logging.getLogger("trilayer.publication")


class Publications:
    """The publications of a store.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pointer = PointerFile(store)

    # -- reading -----------------------------------------------------------------------------------

    def in_force(self) -> Publication | None:
        """The publication in force; None before the first one.

        Raises:
            IntegrityError: It is missing or altered.
        """
        while (data := self._pointer.data()) is not None:
            try:
                return self.pointed_at(data)
            except IntegrityError:
                # A run that publishes meanwhile may delete the version that the pointer named when
                # it was read.
                if self._pointer.data() == data:
                    raise
        return None

    def pointed_at(self, pointer: bytes) -> Publication:
        """The publication that a pointer's bytes name."""
        standing = parse_document(pointer, layout.POINTER, Pointer)
        publication, digest = self._read(standing.version)
        if standing.version_digest != digest:
            raise IntegrityError(
                f"{layout.version(standing.version)} is not the publication that"
                f" {layout.POINTER} names: its content differs, so it was replaced"
            )
        return publication

    def read(self, version: int) -> Publication:
        """The version with this number. Raises IntegrityError if it is missing or altered."""
        publication, _ = self._read(version)
        return publication

    def _read(self, version: int) -> tuple[Publication, str]:
        """The version with this number, and the digest in its document."""
        path = layout.version(version)
        data = self._store.read(path)
        publication = parse_document(data, path, Publication)
        if publication.version != version:
            raise IntegrityError(
                f"{path} must be that of version {version}; it is that of {publication.version};"
                f" {mending(path)}"
            )
        return publication, digest_in(data)

    def numbers(self) -> list[int]:
        """The numbers of all versions that exist, in order, including those that can't be read.

        The pointer and other files in the folder have no number.
        """
        return layout.numbers(self._store.names(layout.VERSIONS))

    def next_number(self) -> int:
        """The number after the highest of any version that exists."""
        return max(self.numbers(), default=0) + 1

    def versions(self) -> list[Publication]:
        """All versions that are kept, oldest first.

        A version that can't be read is skipped with a warning: it can't be put in force, and does
        not prevent another from being put in force.
        """
        kept = []
        for number in self.numbers():
            try:
                kept.append(self.read(number))
            except (IntegrityError, StoreError) as error:
                if self._store.exists(layout.version(number)):
                    logger.warning("version %s is passed over: %s", number, error)
                # otherwise a batch run has just deleted it
        return kept

    def past(self) -> Past:
        """The kept versions that have been in force.

        Raises:
            IntegrityError: The pointer can't be read.
        """
        standing = self._pointer.read()
        if standing is None:
            return Past(None, [], [])
        if standing.before is not None:
            return Past(standing.version, standing.before, standing.left or [])
        # An older pointer does not record this. A run is computed from the version in force, so
        # `base` leads back through the versions that were in force. The others may have been in
        # force as well, and were left.
        there = self.numbers()
        base = {publication.version: publication.base for publication in self.versions()}
        line = [standing.version]
        while (older := base.get(line[-1])) is not None and older in there and older not in line:
            line.append(older)
        if line[-1] not in base:  # it can't be read, so only the numbers are known
            line += [number for number in reversed(there) if number < line[-1]]
        left = [number for number in there if number not in line]
        return Past(standing.version, line[:0:-1], left)

    def find(self, version: int | None) -> Publication:
        """The version to roll back to.

        Args:
            version: Its number; None for the last version before the present one that was in force
                and can be read. A version that a killed run wrote and never put in force is only
                chosen by its number.

        Raises:
            UsageError: There is none, or none with that number.
        """
        kept = self.versions()
        if version is not None:
            return choose_version(kept, version)
        past = self.past()
        if past.version is None:
            raise UsageError(
                "a rollback must have a publication to go back to; there is none yet; run"
                " `trilayer batch run`"
            )
        older = [p for number in past.before for p in kept if p.version == number]
        if not older:
            others = [p.version for p in kept if p.version != past.version]
            raise UsageError(
                f"a rollback must have an older version; {past.version} in force is the oldest kept"
                + (
                    f" of those that were in force; name another one: {there_are(others)}"
                    if others
                    else ""
                )
            )
        return older[-1]

    # -- writing -----------------------------------------------------------------------------------

    def write(self, publication: Publication) -> Publication:
        """Writes a version, without putting it in force.

        It gets the next number, unless this run wrote it already before it was killed.

        Raises:
            OvertakenError: A later run has taken over.
        """
        with pointer_lock(self._store, "the writing of a version"):
            Fence(self._store).check(publication.token)
            failpoint("publish.in-version")
            for written in reversed(self.versions()):
                if written.token == publication.token:
                    return written
            path = layout.version(publication.version)
            if not self._store.create_document(path, publication):
                raise ConflictError(
                    f"another run has just written version {publication.version}; run this again"
                )
            return publication

    def put_in_force(self, version: int, token: int, reason: str) -> None:
        """Moves the pointer, if `token` is still the newest and nobody holds the version in force.

        The recorded reason is `publish`.
        """
        failpoint(f"{reason}.before-pointer")
        with pointer_lock(self._store, f"a {reason}"):
            Fence(self._store).check(token)
            self._pointer.check_not_held()
            self._move(version, token, reason, None)
        failpoint(f"{reason}.after-pointer")

    def roll_back(self, version: int | None, hold: Held | None = None) -> Publication:
        """Puts the version that `find` chooses in force.

        In the same step it overtakes every run that is active.

        Args:
            version: Its number; None for the one that was in force before.
            hold: Who holds it in force from then on, and why. If it is None, an existing hold
                stays.
        """
        failpoint("rollback.before-pointer")
        with pointer_lock(self._store, "a rollback"):
            target = self.find(version)
            token = Fence(self._store).take_under_lock(f"a rollback to version {target.version}")
            self._move(target.version, token, "rollback", hold or self._held())
        failpoint("rollback.after-pointer")
        return target

    def _move(self, version: int, token: int, reason: str, held: Held | None) -> None:
        failpoint(f"{reason}.in-pointer")
        past = self._past().moved_to(version, self.numbers())
        _, digest = self._read(version)
        self._pointer.write(
            Pointer(
                version, digest, token, reason, self._store.clock(), past.before, past.left, held
            )
        )

    def _past(self) -> Past:
        """As `past`, but works even if the pointer can't be read.

        In that case all versions count as left, and can be put in force again by number.
        """
        try:
            return self.past()
        except IntegrityError as error:
            logger.warning("what was in force before is not known: %s", error)
            return Past(None, [], self.numbers())

    def _held(self) -> Held | None:
        """The hold on the version in force; None as well if the pointer can't be read."""
        try:
            return self._pointer.held()
        except IntegrityError as error:
            logger.warning("whether the version in force was held is not known: %s", error)
            return None

    def hold(self, by: Held) -> Publication:
        """Keeps the version in force until it is released.

        Raises:
            UsageError: There is none.
        """
        with pointer_lock(self._store, "a hold"):
            standing, published = self._pointer.read(), self.in_force()
            if standing is None or published is None:
                raise UsageError(
                    "a hold must have a publication to keep in force; there is none yet; run"
                    " `trilayer batch run`"
                )
            self._pointer.write(replace(standing, held=by))
        return published

    def release(self) -> Held | None:
        """Ends the hold, so that batch runs publish again.

        Returns the hold; None if there was none.
        """
        with pointer_lock(self._store, "a release"):
            standing = self._pointer.read()
            if standing is None or standing.held is None:
                return None
            self._pointer.write(replace(standing, held=None))
        return standing.held

    def retire(self, keep: int) -> list[Publication] | None:
        """Deletes the versions that no rollback will need. Their files are not needed afterwards.

        Four kinds of versions are kept: the `keep` versions through which rollbacks without a
        number would go; the `keep` newest ones that have been in force; the one with the highest
        number, so that no number is used twice; and one that a run has written and may still put in
        force.

        Args:
            keep: The number of versions to keep.

        Returns:
            The kept versions, oldest first; None if one of them can't be read, because the files
            that it needs are then unknown.
        """
        with pointer_lock(self._store, "the clearing away of versions"):
            past = self.past()
            there = self.numbers()
            readable = {publication.version: publication for publication in self.versions()}
            newest = Fence(self._store).newest()
            unpublished = {
                n
                for n in there
                if n not in past.by_use and n in readable and readable[n].token >= newest
            }
            numbers = sorted(set(past.by_use) & set(there))[-keep:]
            wanted = (
                {*past.by_use[:keep], *numbers, *unpublished, *there[-1:]}
                if past.version
                else set(there)
            )
            failpoint("clean.in-versions")
            for number in there:
                if number not in wanted:
                    self._store.delete(layout.version(number))
            self._store.sync_folder(layout.VERSIONS)  # before their files are deleted
        kept = [readable[number] for number in there if number in wanted and number in readable]
        return kept if len(kept) == len(wanted & set(there)) else None
