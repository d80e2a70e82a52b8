"""Finds orphans: files and folders that nothing refers to, now or later, and nobody writes.

Most are left by killed processes. The others are the batch views and the run folders of versions
that were deleted because they are no longer kept: `clean` in batch_layer/clean.py deletes only
the versions' documents itself, and finds their files here.

Age alone never makes a file an orphan. For each kind there is a proof that no process can still
make it count:

- A temporary file: its writer does not hold its lock any more.
- An interval's folder: the interval's manifest names another one, or there is no manifest and no
  ingest of the stream is running.
- A batch view's folder, or a run's: no version needs it, and its run can't publish any more because
  it has published or was overtaken.
- A segment's file: it is in no commit although later micro-batches are committed; or compaction
  wrote it and no speed layer is running.
- A generation's folder: it has no `generation.json`, and no speed layer is running.
- The content of a reference table: no kept version and no generation was computed with it, and no
  run is under way.
- The profile of an alert: `needed_profiles` does not name it; or no generation names it, and no
  process of alerts is running.
- The checkpoint of a group of alerts: a later generation has begun, and no process of alerts is
  running, or the later generation has finished a batch.

Stores that are not local have no locks; what only a lock could prove is left alone there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trilayer_core.errors import IntegrityError, StoreError
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGeneration, alert_generations, needed_profiles
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import STALE_AFTER_S, Store
from trilayer_core.store.intervals import Interval
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import Generation

logger = logging.getLogger("trilayer.store")

TEMPORARY, INTERVAL, ATTEMPT, RUN, SEGMENT, GENERATION, TABLE, PROFILE, CHECKPOINT = (
    "temporary file",
    "interval without manifest",
    "batch view never published",
    "run that was overtaken",
    "segment file without commit",
    "generation never begun",
    "content of a table that no version needs",
    "profile that no alert needs",
    "checkpoint of an earlier generation of alerts",
)


@dataclass(frozen=True)
class Orphan:
    """A file or folder that can be deleted.

    Attributes:
        kind: Its kind, one of the constants above.
        path: Its path in the store.
        lock: The lock that must be held to delete it, because a starting process might create a
            file of the same name.
        commit: A file to check for while holding the lock. If it exists, the orphan is needed
            after all. Empty if there is none.
    """

    kind: str
    path: str
    lock: str = ""
    commit: str = ""


def find_orphans(store: Store, *, thorough: bool = True, chains: bool = True) -> list[Orphan]:
    """Finds everything that can be deleted, as described above.

    Args:
        store: The store.
        thorough: Whether to read the manifest of every interval. If not, an interval's only folder
            is assumed to be the one that its manifest names, which takes one listing however long
            the history is.
        chains: Whether to search the intervals at all.
    """
    return [
        *(Orphan(TEMPORARY, path) for path in store.stale_temporaries(_written_to(store, chains))),
        *(_intervals(store, thorough) if chains else ()),
        *_of_versions(store),
        *_segments(store),
    ]


def clear(store: Store, orphans: Iterable[Orphan]) -> int:
    """Deletes what `find_orphans` has found, and returns the number of deleted orphans."""
    deleted = 0
    for left in orphans:
        if not left.lock:
            store.delete(left.path)
            deleted += 1
            continue
        with store.unless_locked(left.lock) as free:
            if free and not (left.commit and store.exists(left.commit)):
                store.delete(left.path)
                deleted += 1
    return deleted


def _written_to(store: Store, chains: bool) -> Iterator[str]:
    """The folders into which trilayer itself writes files."""
    yield from ("", layout.VERSIONS, layout.FENCE)
    for kind in (layout.STREAMS, layout.QUARANTINE):
        yield from _in(store, kind)
    for stream in _in(store, layout.MASTER) if chains else ():
        yield from _in(store, stream)
    for run in _in(store, layout.RUNS):
        yield from (run, f"{run}/{layout.RECONCILIATION}")
    yield from _in(store, layout.TABLES)
    for group in _in(store, layout.ALERT_GROUPS):
        yield from (group, layout.alert_generations(group.rsplit("/", 1)[1]))
    for kind in (layout.PROFILES, layout.SENT):
        yield from _in(store, kind)
    for folder in _generations(store):
        yield from (folder, f"{folder}/{layout.COMMITS}", f"{folder}/{layout.DATA}")


def _in(store: Store, folder: str) -> list[str]:
    """The paths of everything in a folder."""
    return [f"{folder}/{name}" for name in store.names(folder)]


def _generations(store: Store) -> Iterator[str]:
    """The folders of the generations of all streams."""
    for stream in _in(store, layout.SPEED):
        yield from _in(store, stream)


def _intervals(store: Store, thorough: bool) -> Iterator[Orphan]:
    for stream in store.names(layout.MASTER):
        for chain in _in(store, f"{layout.MASTER}/{stream}"):
            # The folders are listed first, so that the manifests, which are read afterwards,
            # include those of all listed folders.
            folders: dict[str, list[str]] = {}
            for name in store.names(chain):
                if not name.endswith(".json"):
                    folders.setdefault(name.split("-")[0], []).append(name)
            manifests = {name for name in store.names(chain) if name.endswith(".json")}
            unfinished = []
            for number, names in folders.items():
                if f"{number}.json" not in manifests:
                    unfinished += [
                        name for name in names if store.age_s(f"{chain}/{name}") > STALE_AFTER_S
                    ]
                elif thorough or len(names) > 1:
                    used = _used(store, f"{chain}/{number}.json")
                    yield from (
                        Orphan(INTERVAL, f"{chain}/{name}")
                        for name in names
                        if used and name not in used
                    )
            if unfinished:
                yield from _given_up(store, stream, chain, unfinished)


def _used(store: Store, manifest: str) -> set[str]:
    """The folders that a manifest names; an empty set if it can't be read.

    The set also contains an empty name, so that an interval without files differs from a manifest
    that can't be read.
    """
    try:
        files = store.read_document(manifest, Interval).files
    except (IntegrityError, StoreError) as error:
        logger.warning("what it refers to is left alone: %s", error)
        return set()
    return {file.path.split("/")[-2] for file in files} | {""}


def _given_up(store: Store, stream: str, chain: str, unfinished: Iterable[str]) -> Iterator[Orphan]:
    """Those folders without a manifest that no running ingest has created."""
    with store.unless_locked(layout.ingest_lock(stream)) as free:
        manifests = set(store.names(chain)) if free else set()
    if free:
        for name in unfinished:
            if f"{name.split('-')[0]}.json" not in manifests:
                yield Orphan(INTERVAL, f"{chain}/{name}")


def _of_versions(store: Store) -> Iterator[Orphan]:
    """What no version and no generation of alerts needs."""
    # The files are listed before what may name them is read: whoever writes a file has begun a run
    # or a generation before, or names the file in one afterwards.
    attempts, tables, profiles = (
        [path for folder in _in(store, kind) for path in _in(store, folder)]
        for kind in (layout.BATCH, layout.TABLES, layout.PROFILES)
    )
    runs = store.names(layout.RUNS)
    checkpoints = {
        group: _in(store, layout.alert_checkpoints(group))
        for group in store.names(layout.ALERT_GROUPS)
    }
    # The token is read before the versions: a version that is written afterwards has this token or
    # a newer one.
    newest = Fence(store).newest()
    try:
        publications = Publications(store)
        kept = [publications.read(number) for number in publications.numbers()]
        past = publications.past().by_use
        generations = {group: alert_generations(store, group) for group in checkpoints}
        tables_needed = _needed_tables(store, kept) if tables else set()
    except (IntegrityError, StoreError) as error:
        logger.warning("what it may need is left alone: %s", error)
        return
    yield from _attempts_and_runs(attempts, runs, kept, past, generations, newest)
    if kept and max(publication.token for publication in kept) >= newest:
        yield from _tables(store, tables, tables_needed)
    yield from _profiles(store, profiles, generations, kept)
    yield from _checkpoints(store, checkpoints, generations)


def _attempts_and_runs(
    attempts: Iterable[str],
    runs: Iterable[str],
    kept: Sequence[Publication],
    past: Sequence[int],
    generations: Mapping[str, Sequence[AlertGeneration]],
    newest: int,
) -> Iterator[Orphan]:
    memories = [file for each in generations.values() for g in each[-1:] for file in g.memory]
    needed = {
        file.path.rsplit("/", 1)[0] for file in [*memories, *(f for p in kept for f in p.files)]
    }
    tokens = {publication.token for publication in kept}
    done = {publication.token for publication in kept if publication.version in past}
    for path in attempts:
        token = _token(path.rsplit("/", 1)[1])
        if path not in needed and (token < newest or token in done):
            yield Orphan(ATTEMPT, path)
    for name in runs:
        if _token(name) not in tokens and _token(name) < newest:
            yield Orphan(RUN, f"{layout.RUNS}/{name}")


def _token(name: str) -> float:
    """The token at the beginning of a folder's name.

    Infinity if there is none, so that the folder never counts as old.
    """
    return int(name[:8]) if name[:8].isdigit() else float("inf")


def _segments(store: Store) -> Iterator[Orphan]:
    for folder in _generations(store):
        record = f"{folder}/{layout.RECORD}"
        if not store.exists(record):
            if store.age_s(folder) > STALE_AFTER_S:
                yield Orphan(GENERATION, folder, layout.SPEED_LOCK, record)
            continue
        # The files are listed first, so that the commits, which are read afterwards, include those
        # of all listed files.
        files = _in(store, f"{folder}/{layout.DATA}")
        names = store.names(f"{folder}/{layout.COMMITS}")
        commits = [span for name in names if (span := _span(name))]
        abandoned = _abandoned(commits)
        for path in files:
            name = path.rsplit("/", 1)[1]
            span = _span(name)
            if span is None or span in commits:
                continue
            if abandoned(span):
                yield Orphan(SEGMENT, path)
            elif span[0] < span[1] and store.age_s(path) > STALE_AFTER_S:
                with store.unless_locked(layout.SPEED_LOCK) as free:
                    pass
                if free:
                    commit = f"{folder}/{layout.COMMITS}/{layout.micro_batches(*span)}.json"
                    yield Orphan(SEGMENT, path, layout.SPEED_LOCK, commit)


def _needed_tables(store: Store, kept: Sequence[Publication]) -> set[tuple[str, str]]:
    """The names and digests of reference tables with which a version or generation was computed."""
    needed = {item for publication in kept for item in (publication.tables or {}).items()}
    for folder in _generations(store):
        if store.exists(record := f"{folder}/{layout.RECORD}"):
            needed.update((store.read_document(record, Generation).tables or {}).items())
    return needed


def _tables(store: Store, files: Iterable[str], needed: set[tuple[str, str]]) -> Iterator[Orphan]:
    """The contents of tables, each with its record, which is deleted first."""
    for path in files:
        _, name, file = path.split("/")
        if (name, file.partition(".")[0]) not in needed and store.age_s(path) > STALE_AFTER_S:
            yield Orphan(TABLE, path)


def _profiles(
    store: Store,
    files: Iterable[str],
    generations: Mapping[str, Sequence[AlertGeneration]],
    kept: Sequence[Publication],
) -> Iterator[Orphan]:
    """The profiles that no generation of alerts needs."""
    named = {
        p.file.path for each in generations.values() for g in each for p in g.profiles.values()
    }
    needed = {
        path for group, each in generations.items() for path in needed_profiles(group, each, kept)
    }
    for path in files:
        if path in named and path not in needed:
            yield Orphan(PROFILE, path)
        elif path not in named and store.age_s(path) > STALE_AFTER_S:
            yield Orphan(PROFILE, path, layout.ALERTS_LOCK)


def _checkpoints(
    store: Store,
    checkpoints: Mapping[str, Sequence[str]],
    generations: Mapping[str, Sequence[AlertGeneration]],
) -> Iterator[Orphan]:
    """The checkpoints of generations of alerts that a later one has replaced."""
    for group, paths in checkpoints.items():
        newest = generations[group][-1].number if generations[group] else 0
        begun = store.names(f"{layout.alert_checkpoint(group, newest)}/commits")
        for path in paths:
            if _token(path.rsplit("/", 1)[1]) < newest:
                yield Orphan(CHECKPOINT, path, "" if begun else layout.ALERTS_LOCK)


def _span(name: str) -> tuple[int, int] | None:
    """The first and last micro-batch in the name of a commit or segment file, else None."""
    first, last = name[:12], name[13:25]
    return (int(first), int(last)) if first.isdigit() and last.isdigit() else None


def _abandoned(commits: list[tuple[int, int]]) -> Callable[[tuple[int, int]], bool]:
    """Whether micro-batches without a commit can't be committed any more.

    That is the case if later micro-batches are committed.
    """
    newest = max((last for _, last in commits), default=-1)

    def beyond(span: tuple[int, int]) -> bool:
        first, last = span
        if first == last:
            return last <= newest
        return any(begin <= first and last <= end for begin, end in commits)

    return beyond
