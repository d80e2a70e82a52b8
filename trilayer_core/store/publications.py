"""The publication: the one pointer that puts all batch views in force at once.

And the fence that keeps a late run from moving it.

- `publications/00000012.json`: a version, with T, cuts, fingerprints and files with digests. It is
  never changed.
- `publications/current.json`: the version in force, those before it, and who holds it. It is
  replaced in one step.
- `publications/looked.json`: what the last run saw that had nothing to publish. It is replaced in
  one step.
- `fence/00000031.json`: a token, taken by each run. Only the holder of the newest may publish.
- `locks/pointer`: held around each check and what rests on it: a token taken, a version written or
  deleted, the pointer moved.

On a local disk none of these four steps can come between the parts of another: a run that was
fenced off neither writes a version nor moves the pointer, and what the pointer may be moved to is
not deleted. All that is done under the lock takes milliseconds; Spark is never waited for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

from trilayer_core.errors import (
    ConflictError,
    HeldError,
    IntegrityError,
    OvertakenError,
    StoreError,
    UsageError,
)
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.seam import Cut, format_time
from trilayer_core.store import layout
from trilayer_core.store.documents import (
    ABSENT_IF_NONE,
    NO_OTHER_FIELDS,
    digest_in,
    parse_document,
)
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.runs import ReconciledView

logger = logging.getLogger("trilayer.publication")

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
class PublishedStream:
    """What a publication holds of a stream.

    Attributes:
        topic_id: Identity of the origin in which the cut counts.
        fingerprint: Of the stream.
        cut: Partition to offset.
        events: Records below the cut, the quarantined ones included, the lost ones not.
        quarantined: Records that do not fit their schema.
        lost: Records that retention took.
        departed: Number of the newest generation of the speed layer that is known to have read
            records which the log had lost by the time it was ingested; 0 if there was none.
            Generations up to it are not merged with the publication.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    topic_id: str
    fingerprint: str
    cut: Cut
    events: int
    quarantined: int
    lost: int
    departed: int = 0


@dataclass(frozen=True)
class PublishedView:
    """A batch view: the files whose partials, merged, are the view.

    `changed_keys`: how many keys events since the base have touched.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    fingerprint: str
    files: Sequence[StoredFile]
    changed_keys: int = 0

    @property
    def rows(self) -> int:
        """Rows of all files together."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Publication:
    """All batch views as of one T.

    Attributes:
        version: Its number.
        token: Of the run that made it.
        t_ms: T, in ms since 1970.
        kind: incremental or full.
        base: The version in force when the run began; None only before the first publication.
        streams: Per stream, what lies below the cut.
        views: Per view, its files.
        reconciliation: Per view, what both layers have computed of it; empty if the step was left
            out.
        created_ms: When it was written, in ms since 1970.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    version: int
    t_ms: int
    token: int
    kind: str
    base: int | None
    created_ms: int
    streams: Mapping[str, PublishedStream]
    views: Mapping[str, PublishedView]
    reconciliation: Mapping[str, ReconciledView]

    @property
    def t(self) -> str:
        """T as text."""
        return format_time(self.t_ms)


def read_version(store: Store, version: int) -> Publication:
    """The version of this number. Raises IntegrityError if it is missing or altered."""
    return store.read_document(layout.version(version), Publication)


def pointer_bytes(store: Store) -> bytes | None:
    """The pointer as it stands, to see cheaply whether it has moved.

    None before the first publication.
    """
    return store.read(layout.POINTER) if store.exists(layout.POINTER) else None


def in_force(store: Store) -> Publication | None:
    """The publication in force; None before the first one.

    Raises IntegrityError where it is missing or altered.
    """
    while (data := pointer_bytes(store)) is not None:
        try:
            return pointed_at(store, data)
        except IntegrityError:
            # Runs that publish meanwhile clear away what the pointer named when it was read.
            if pointer_bytes(store) == data:
                raise
    return None


def pointed_at(store: Store, pointer: bytes) -> Publication:
    """The publication that a pointer's bytes name."""
    standing = parse_document(pointer, layout.POINTER, Pointer)
    path = layout.version(standing.version)
    data = store.read(path)
    publication = parse_document(data, path, Publication)
    if standing.version_digest != digest_in(data):
        raise IntegrityError(
            f"{path} must be the publication that {layout.POINTER} points at; its content differs:"
            " it was replaced"
        )
    return publication


def versions(store: Store) -> list[Publication]:
    """Every version kept, oldest first.

    One that can't be read is passed over with a warning: it can't be put in force, nor be in the
    way.
    """
    found = []
    for number in version_numbers(store):
        try:
            found.append(read_version(store, number))
        except (IntegrityError, StoreError) as error:
            if store.exists(layout.version(number)):  # else a batch run has just cleared it away
                logger.warning("version %s is passed over: %s", number, error)
    return found


def write_version(store: Store, publication: Publication) -> Publication:
    """Writes a version, which puts nothing in force.

    Its number is the next one, unless this run has written it before it was killed. Raises
    OvertakenError where a later run has taken over.
    """
    with pointer_lock(store, "the writing of a version"):
        check_token(store, publication.token)
        failpoint("publish.in-version")
        for known in reversed(versions(store)):
            if known.token == publication.token:
                return known
        if not store.create_document(layout.version(publication.version), publication):
            raise ConflictError(
                f"version {publication.version} must be new; another run has just written it; run"
                " again"
            )
        return publication


def next_version(store: Store) -> int:
    """One more than the number of any version that is there."""
    return max(version_numbers(store), default=0) + 1


def version_numbers(store: Store) -> list[int]:
    """The numbers, in order, of all versions that are there, those that can't be read included."""
    names = store.names(layout.VERSIONS)
    return [int(stem) for name in names if (stem := name.removesuffix(".json")).isdigit()]


def put_in_force(store: Store, version: int, token: int, reason: str) -> None:
    """Moves the pointer, if `token` is still the newest and nobody holds the version.

    The reason that is recorded is `publish`.
    """
    failpoint(f"{reason}.before-pointer")
    with pointer_lock(store, f"a {reason}"):
        check_token(store, token)
        check_not_held(store)
        _move(store, version, token, reason, None)
    failpoint(f"{reason}.after-pointer")


def roll_back(store: Store, version: int | None, hold: Held | None = None) -> Publication:
    """Puts the version that `find_version` chooses in force.

    Fences off every run under way, in the same step.

    Args:
        store: The store.
        version: Of which number; None for the one that was in force before.
        hold: Who holds it in force from then on, and why. A hold that was there before stays where
            this is None.
    """
    failpoint("rollback.before-pointer")
    with pointer_lock(store, "a rollback"):
        target = find_version(store, version)
        token = _take_token(store, f"a rollback to version {target.version}")
        _move(store, target.version, token, "rollback", hold or _held(store))
    failpoint("rollback.after-pointer")
    return target


def _move(store: Store, version: int, token: int, reason: str, held: Held | None) -> None:
    failpoint(f"{reason}.in-pointer")
    past = _past(store).moved_to(version, version_numbers(store))
    path = layout.version(version)
    data = store.read(path)
    parse_document(data, path, Publication)
    standing = Pointer(
        version, digest_in(data), token, reason, now_ms(), past.before, past.left, held
    )
    store.write_document(layout.POINTER, standing)


# -- a version that a person holds -----------------------------------------------------------------


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


def held(store: Store) -> Held | None:
    """The hold on the version in force; None if there is none.

    Raises IntegrityError if the pointer can't be read.
    """
    standing = pointer(store)
    return standing.held if standing else None


def _held(store: Store) -> Held | None:
    """As `held`; where the pointer can't be read, nobody is known to hold what it named."""
    try:
        return held(store)
    except IntegrityError as error:
        logger.warning("whether the version in force was held is not known: %s", error)
        return None


def hold(store: Store, by: Held) -> Publication:
    """Keeps the version in force there until it is released.

    Raises UsageError where there is none.
    """
    with pointer_lock(store, "a hold"):
        standing, published = pointer(store), in_force(store)
        if standing is None or published is None:
            raise UsageError(
                "a hold must have a publication to keep in force; there is none yet; run `trilayer"
                " batch run`"
            )
        store.write_document(layout.POINTER, replace(standing, held=by))
    return published


def release(store: Store) -> Held | None:
    """Lets batch runs publish again. Returns the hold that ends; None where there was none."""
    with pointer_lock(store, "a release"):
        ended = held(store)
        standing = pointer(store)
        if ended and standing:
            store.write_document(layout.POINTER, replace(standing, held=None))
    return ended


def check_not_held(store: Store) -> None:
    """Raises HeldError where a person holds the version in force."""
    by = held(store)
    if by is not None:
        standing = pointer(store)
        version = standing.version if standing else None
        raise HeldError(
            f"a run may publish only while nobody holds the version in force; version {version} is"
            f" held {by}; release it with `trilayer batch release`, or the DAG lambda_release"
        )


# -- a run with nothing new ------------------------------------------------------------------------


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


@dataclass(frozen=True)
class Look:
    """What the last run saw that had nothing to publish.

    Attributes:
        version: The version in force, which stands as it was.
        t_ms: The run's T: the version holds every event before it.
        token: The run's token.
        looked_ms: When it looked, in ms since 1970.
    """

    version: int
    t_ms: int
    token: int
    looked_ms: int

    @property
    def t(self) -> str:
        """T as text."""
        return format_time(self.t_ms)


def write_look(store: Store, look: Look) -> None:
    """Records a look, if the run's token is still the newest."""
    with pointer_lock(store, "a look"):
        check_token(store, look.token)
        store.write_document(layout.LOOKED, look)


def last_look(store: Store, publication: Publication) -> Look | None:
    """The last look at this version that found nothing new.

    None if there was none, or if it can't be read.
    """
    if not store.exists(layout.LOOKED):
        return None
    try:
        look = store.read_document(layout.LOOKED, Look)
    except (IntegrityError, StoreError) as error:
        # Nothing of the version is wrong: the next run that finds nothing new writes it anew.
        logger.warning(
            "when a run last looked is not known, until the next run looks: %s can't be read (%s)",
            layout.LOOKED,
            type(error).__name__,
        )
        return None
    return look if look.version == publication.version else None


def complete_to_ms(store: Store, publication: Publication, latest_ms: int) -> int:
    """The latest T, in ms, up to which the publication is known to hold every event.

    Its own T, or a later one at which a run found nothing new. A look of a T later than `latest_ms`
    was by a clock that was ahead, and counts for nothing.
    """
    look = last_look(store, publication)
    return max(publication.t_ms, look.t_ms) if look and look.t_ms <= latest_ms else publication.t_ms


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


def read_past(store: Store) -> Past:
    """Which versions have been in force, of those that are kept.

    Raises IntegrityError if the pointer can't be read.
    """
    standing = pointer(store)
    if standing is None:
        return Past(None, [], [])
    if standing.before is not None:
        return Past(standing.version, standing.before, standing.left or [])
    # A pointer from before this was recorded: a run is computed from the version in force, so that
    # `base` leads back through them. The others may have been in force too, and were left.
    there = version_numbers(store)
    base = {known.version: known.base for known in versions(store)}
    line = [standing.version]
    while (older := base.get(line[-1])) is not None and older in there and older not in line:
        line.append(older)
    if line[-1] not in base:  # it can't be read: the numbers are all that is known
        line += [number for number in reversed(there) if number < line[-1]]
    left = [number for number in there if number not in line]
    return Past(standing.version, line[:0:-1], left)


def _past(store: Store) -> Past:
    """As `read_past`, also if the pointer can't be read.

    All that is there has then been left: by number, any of it can be put in force again.
    """
    try:
        return read_past(store)
    except IntegrityError as error:
        logger.warning("what was in force before is not known: %s", error)
        return Past(None, [], version_numbers(store))


def pointer(store: Store) -> Pointer | None:
    """The pointer as it stands; None before the first publication.

    Raises IntegrityError if it can't be read.
    """
    data = pointer_bytes(store)
    return None if data is None else parse_document(data, layout.POINTER, Pointer)


# -- the fence -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Token:
    """That a token was taken.

    Attributes:
        token: Its number.
        what: By what, in words.
        taken_ms: When, in ms since 1970.
    """

    token: int
    what: str
    taken_ms: int


def newest_token(store: Store) -> int:
    """The token taken last; 0 before the first."""
    return max((int(name.removesuffix(".json")) for name in store.names(layout.FENCE)), default=0)


def take_token(store: Store, what: str) -> int:
    """A token above all before it: whoever took an older one can't publish any more."""
    with pointer_lock(store, "the taking of a token"):
        return _take_token(store, what)


def _take_token(store: Store, what: str) -> int:
    while True:
        token = newest_token(store) + 1
        if store.create_document(layout.token(token), Token(token, what, now_ms())):
            for old in store.names(layout.FENCE)[:-20]:
                store.delete(f"{layout.FENCE}/{old}")
            return token


def check_token(store: Store, token: int) -> None:
    """Raises OvertakenError if a newer token than this one has been taken."""
    newest = newest_token(store)
    if token != newest:
        raise OvertakenError(
            f"a run must hold the newest token to publish; got token {token}, the newest is"
            f" {newest}: {_taker(store, newest)} has taken over, and this one ends without a"
            " change"
        )


def _taker(store: Store, token: int) -> str:
    """Who took a token, in words: a rollback by its version; everything else is a later run."""
    path = layout.token(token)
    try:
        what = store.read_document(path, Token).what
    except (IntegrityError, StoreError) as error:
        logger.debug("what took token %s is not known: %s", token, error)
        return "a later run"
    return what if what.startswith("a rollback") else "a later run"


def find_version(store: Store, version: int | None) -> Publication:
    """A version to roll back to.

    Args:
        store: The store.
        version: The one to go back to; None for the last one before the present that was in force
            and can be read. A version that a killed run wrote and never put in force is not chosen
            then, but can be named.

    Raises:
        UsageError: There is none, or none of that number.
    """
    known = versions(store)
    if version is not None:
        return choose_version(known, version)
    past = read_past(store)
    if past.version is None:
        raise UsageError(
            "a rollback must have a publication to go back to; there is none yet; run `trilayer"
            " batch run`"
        )
    older = [p for number in past.before for p in known if p.version == number]
    if not older:
        others = ", ".join(str(p.version) for p in known if p.version != past.version)
        raise UsageError(
            f"a rollback must have an older version; {past.version} in force is the oldest kept"
            + (
                f" of those that were in force; name another one: there is {others}"
                if others
                else ""
            )
        )
    return older[-1]


def choose_version(known: Sequence[Publication], version: int) -> Publication:
    """The one of that number. Raises UsageError where it is not among them."""
    for publication in known:
        if publication.version == version:
            return publication
    kept = ", ".join(str(p.version) for p in known) or "none yet; run `trilayer batch run`"
    raise UsageError(f"version must be one that is kept; got {version}; there is {kept}")


# -- clearing away ---------------------------------------------------------------------------------


def retire_versions(store: Store, keep: int) -> list[Publication] | None:
    """Deletes the versions that no rollback will want.

    Their files are no longer needed by anyone from then on.

    Four kinds are kept: the `keep` versions through which rollbacks without a number would lead;
    the `keep` newest ones that have been in force; the one with the highest number, so that no
    number is given twice; and one that a run has written and may still put in force.

    Returns:
        What is kept, oldest first; None where a version that is kept can't be read, so that what it
        needs is not known.
    """
    with pointer_lock(store, "the clearing away of versions"):
        past = read_past(store)
        there = version_numbers(store)
        known = {publication.version: publication for publication in versions(store)}
        newest = newest_token(store)
        unpublished = {
            n for n in there if n not in past.by_use and n in known and known[n].token >= newest
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
                store.delete(layout.version(number))
        store.sync_folder(layout.VERSIONS)  # before the files go that they refer to
    kept = [known[number] for number in there if number in wanted and number in known]
    return kept if len(kept) == len(wanted & set(there)) else None
