"""The publication: the one pointer that puts all batch views in force at once, and the fence that keeps a late run from moving it.

publications/00000012.json    a version: T, cuts, fingerprints, files with digests; never changed
publications/current.json     the version in force; replaced in one step
fence/00000031.json           a token, taken by each run; only the holder of the newest may publish
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trilayer.cut import Cut, cut_from_json, format_time
from trilayer.errors import ConflictError, IntegrityError, OvertakenError, UsageError
from trilayer.failpoints import failpoint
from trilayer.log import now_ms
from trilayer.store import Store, StoredFile, document_bytes, parse_document

logger = logging.getLogger("trilayer.publication")

POINTER = "publications/current.json"


@dataclass(frozen=True)
class PublishedStream:
    """What a publication holds of a stream. events: records below the cut, the quarantined ones included, the lost ones not."""

    topic_id: str
    fingerprint: str
    cut: Cut
    events: int
    quarantined: int
    lost: int


@dataclass(frozen=True)
class PublishedView:
    """A batch view: the files whose partials, merged, are the view. changed_keys: those that events since the base have touched."""

    fingerprint: str
    files: Sequence[StoredFile]
    changed_keys: int = 0

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Publication:
    """All batch views as of one T. kind: incremental or full. base: the version it was computed from, None for a full one.

    reconciliation: per view, counts of match, differ, missing, extra, and of keys changed since the base; None where not compared.
    """

    version: int
    t_ms: int
    token: int
    kind: str
    base: int | None
    created_ms: int
    streams: Mapping[str, PublishedStream]
    views: Mapping[str, PublishedView]
    reconciliation: Mapping[str, Any]

    @property
    def t(self) -> str:
        return format_time(self.t_ms)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "t_ms": self.t_ms,
            "token": self.token,
            "kind": self.kind,
            "base": self.base,
            "created_ms": self.created_ms,
            "streams": {name: vars(stream) for name, stream in self.streams.items()},
            "views": {
                name: {
                    "fingerprint": view.fingerprint,
                    "files": list(view.files),
                    "changed_keys": view.changed_keys,
                }
                for name, view in self.views.items()
            },
            "reconciliation": self.reconciliation,
        }

    @staticmethod
    def of(document: dict[str, Any]) -> Publication:
        streams = {
            n: PublishedStream(**(s | {"cut": cut_from_json(s["cut"])}))
            for n, s in document["streams"].items()
        }
        views = {
            name: PublishedView(**(view | {"files": [StoredFile.of(file) for file in view["files"]]}))
            for name, view in document["views"].items()
        }
        return Publication(**(document | {"streams": streams, "views": views}))


def _path(version: int) -> str:
    return f"publications/{version:08d}.json"


def read_version(store: Store, version: int) -> Publication:
    return Publication.of(store.read_document(_path(version)))


def pointer_bytes(store: Store) -> bytes | None:
    """The pointer as it stands, to see cheaply whether it has moved; None before the first publication."""
    return store.read(POINTER) if store.exists(POINTER) else None


def in_force(store: Store) -> Publication | None:
    """The publication in force; None before the first one. Raises IntegrityError where it is missing or altered."""
    data = pointer_bytes(store)
    return None if data is None else pointed_at(store, data)


def pointed_at(store: Store, pointer: bytes) -> Publication:
    """The publication that a pointer's bytes name."""
    document = parse_document(pointer, POINTER)
    path = _path(document["version"])
    publication = parse_document(store.read(path), path)
    if document["version_digest"] != _digest(publication):
        raise IntegrityError(
            f"{path} must be the publication that {POINTER} points at; its content differs: it was replaced"
        )
    return Publication.of(publication)


def versions(store: Store) -> list[Publication]:
    """Every version kept, oldest first. One that can't be read is passed over with a warning: it can't be put in force, nor be in the way."""
    found = []
    for number in version_numbers(store):
        try:
            found.append(read_version(store, number))
        except IntegrityError as error:
            if store.exists(_path(number)):  # else a batch run has just cleared it away
                logger.warning("version %s is passed over: %s", number, error)
    return found


def write_version(store: Store, publication: Publication) -> Publication:
    """Writes a version, which puts nothing in force. Its number is the next one, unless this run has written it before it was killed."""
    for known in reversed(versions(store)):
        if known.token == publication.token:
            return known
    if not store.create_document(_path(publication.version), publication.to_json()):
        raise ConflictError(
            f"version {publication.version} must be new; another run has just written it; run again"
        )
    return publication


def next_version(store: Store) -> int:
    return max(version_numbers(store), default=0) + 1


def version_numbers(store: Store) -> list[int]:
    """Of every version that is there, whether it can be read or not, in order."""
    names = store.names("publications")
    return [int(stem) for name in names if (stem := name.removesuffix(".json")).isdigit()]


def put_in_force(store: Store, version: int, token: int, reason: str) -> None:
    """Moves the pointer, if `token` is still the newest. reason: publish or rollback."""
    check_token(store, token)
    failpoint(f"{reason}.before-pointer")
    document = {
        "version": version,
        "version_digest": _digest(store.read_document(_path(version))),
        "token": token,
        "reason": reason,
        "moved_ms": now_ms(),
    }
    store.write_document(POINTER, document)
    failpoint(f"{reason}.after-pointer")


def pointer(store: Store) -> dict[str, Any] | None:
    """version, token, reason (publish or rollback) and moved_ms of the pointer."""
    data = pointer_bytes(store)
    return None if data is None else parse_document(data, POINTER)


def _digest(document: dict[str, Any]) -> str:
    return str(json.loads(document_bytes(document))["sha256"])


# -- the fence ---------------------------------------------------------------------------------------------------------


def newest_token(store: Store) -> int:
    return max((int(name.removesuffix(".json")) for name in store.names("fence")), default=0)


def take_token(store: Store, what: str) -> int:
    """A token above all before it: whoever took an older one can't publish any more."""
    while True:
        token = newest_token(store) + 1
        if store.create_document(
            f"fence/{token:08d}.json", {"token": token, "what": what, "taken_ms": now_ms()}
        ):
            for old in store.names("fence")[:-20]:
                store.delete(f"fence/{old}")
            return token


def check_token(store: Store, token: int) -> None:
    newest = newest_token(store)
    if token != newest:
        raise OvertakenError(
            f"a run must hold the newest token to publish; got token {token}, the newest is {newest}: a later run has taken over,"
            " and this one ends without a change"
        )


def find_version(store: Store, version: int | None) -> Publication:
    """A version to roll back to: the one asked for, or the newest below the one in force, which may be one that can't be read any more."""
    known = versions(store)
    if version is not None:
        return choose_version(known, version)
    standing = pointer(store)
    if standing is None:
        raise UsageError(
            "a rollback must have a publication to go back to; there is none yet; run `trilayer batch run`"
        )
    older = [p for p in known if p.version < standing["version"]]
    if not older:
        raise UsageError(
            f"a rollback must have an older version; {standing['version']} in force is the oldest kept"
        )
    return older[-1]


def choose_version(known: Sequence[Publication], version: int) -> Publication:
    """The one of that number. Raises UsageError where it is not among them."""
    for publication in known:
        if publication.version == version:
            return publication
    kept = ", ".join(str(p.version) for p in known) or "none yet; run `trilayer batch run`"
    raise UsageError(f"version must be one that is kept; got {version}; there is {kept}")
