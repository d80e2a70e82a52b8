"""Checks of the store and its files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trilayer.operations.checks.examination import Note, Subject, Unchecked, writable
from trilayer_core.errors import StoreError, TrilayerError
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.leftovers import Leftover, find_leftovers
from trilayer_core.store.master import Master
from trilayer_core.store.publications import Publications


def check_store(p: Subject) -> Iterator[str]:
    """Checks that the store can be written, and reports the guarantees that it lacks."""
    store = p.store
    try:
        if store.local and not Path(store.root).exists():
            yield writable(Path(store.root))
        else:
            store.write("doctor", b"writable")
            store.delete("doctor")
            yield f"{p.settings.store} is writable"
    except (StoreError, OSError) as error:
        raise StoreError(
            f"store must be a folder or URI that can be written; got {p.settings.store!r}: {error}"
        ) from None
    yield from store.limits()


def readable(p: Subject) -> Store:
    """The store, for a check that reads from it."""
    store = p.store
    try:
        store.names("")
    except StoreError as error:
        raise Unchecked("the store can't be read") from error
    return store


def check_files(p: Subject) -> Iterator[str]:
    """Checks that the files of the version in force, and the manifests, are unchanged."""
    store = readable(p)
    publication = Publications(store).in_force()
    files = (
        [file for view in publication.views.values() for file in view.files] if publication else []
    )
    for file in files:  # not in a thread pool, for which the process would wait when it ends
        store.check(file)
    yield (
        f"version {publication.version} in force, {len(files)} files with the right digests"
        if publication
        else "no publication yet"
    )
    for stream in p.catalog.streams:
        Master(store, stream).read_chain()


def check_leftovers(p: Subject) -> Iterator[str]:
    """Never fails, because leftovers take up space but do no harm."""
    store = readable(p)
    leftovers = find_leftovers(store)
    if not leftovers:
        yield "no killed process has left anything in the store"
        return
    kinds: dict[str, list[Leftover]] = {}
    for left in leftovers:
        kinds.setdefault(left.what, []).append(left)
    for what, those in kinds.items():
        size = sum(store.size(left.path) for left in those)
        yield Note(f"{len(those)} x {what}, {size:,} bytes, such as {those[0].path}")
    yield Note(
        "a batch run deletes them with what it clears away; to do it now, run `trilayer doctor"
        " --clear-leftovers`"
    )


def check_definitions(p: Subject) -> Iterator[str]:
    """Checks that both layers run the present definitions."""
    catalog, store = p.catalog, readable(p)
    publication = Publications(store).in_force()
    for view in catalog.views:
        if publication and not publication.has(view):
            what = "has changed" if view.name in publication.views else "is new"
            raise TrilayerError(
                f"view {view.name!r} must be published as it is defined; it {what} since version"
                f" {publication.version}; run `trilayer batch run`"
            )
    for stream in catalog.streams:
        known = Generations(store, stream).all()
        if known and known[-1].fingerprint != catalog.stream_fingerprint(stream):
            raise TrilayerError(
                f"the speed layer must run the definitions of stream {stream.name!r} as they are;"
                f" generation {known[-1].number} runs others; run `trilayer speed restart` beside"
                " `trilayer up`, or start `trilayer speed run` again"
            )
    yield "definitions are those that both layers run" if publication else "nothing published yet"
