"""Finds leftovers: files and folders that nothing refers to, now or later, and nobody writes.

Most are left by killed processes. The others are the batch views and the run folders of versions
that were deleted because they are no longer kept: `clean` in batch_layer/clean.py deletes only
the versions' documents itself, and finds their files here.

Age alone never makes a file a leftover. For each kind there is a proof that no process can still
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
- The profile of an alert: the newest generation of no group judges by it, and no other one judges
  by it any event above the oldest kept cut; or no generation names it, and no process of alerts is
  running.
- The checkpoint of a group of alerts: a later generation has begun, and no process of alerts is
  running, or the later generation has finished a batch.

Stores that are not local have no locks; what only a lock could prove is left alone there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from trilayer_core.errors import IntegrityError, StoreError
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGeneration, alert_generations, judges_above
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
class Leftover:
    """A file or folder that can be deleted.

    Attributes:
        what: Its kind, one of the constants above.
        path: Its path in the store.
        lock: The lock that must be held to delete it, because a starting process might create a
            file of the same name.
        commit: A file to look for while holding the lock. If it exists, the leftover is needed
            after all. Empty if there is none.
    """

    what: str
    path: str
    lock: str = ""
    commit: str = ""


def find_leftovers(store: Store, *, thorough: bool = True, chains: bool = True) -> list[Leftover]:
    """Finds everything that can be deleted, as described above.

    Args:
        store: The store.
        thorough: Whether to read the manifest of every interval. If not, an interval's only folder
            is assumed to be the one that its manifest names, which takes one listing however long
            the history is.
        chains: Whether to search the intervals at all.
    """
    return [
        *(
            Leftover(TEMPORARY, path)
            for path in store.stale_temporaries(_written_to(store, chains))
        ),
        *(_intervals(store, thorough) if chains else ()),
        *_attempts_and_runs(store),
        *_segments(store),
        *_tables(store),
        *_alerts(store),
    ]


def clear(store: Store, leftovers: Iterable[Leftover]) -> int:
    """Deletes what `find_leftovers` has found, and returns the number of deleted leftovers."""
    deleted = 0
    for left in leftovers:
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


def _intervals(store: Store, thorough: bool) -> Iterator[Leftover]:
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
                        Leftover(INTERVAL, f"{chain}/{name}")
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


def _given_up(
    store: Store, stream: str, chain: str, unfinished: Iterable[str]
) -> Iterator[Leftover]:
    """Those folders without a manifest that no running ingest has created."""
    with store.unless_locked(layout.ingest_lock(stream)) as free:
        manifests = set(store.names(chain)) if free else set()
    if free:
        for name in unfinished:
            if f"{name.split('-')[0]}.json" not in manifests:
                yield Leftover(INTERVAL, f"{chain}/{name}")


def _attempts_and_runs(store: Store) -> Iterator[Leftover]:
    attempts = [path for view in _in(store, layout.BATCH) for path in _in(store, view)]
    runs = store.names(layout.RUNS)
    # The token is read before the versions: a version that is written afterwards has this token or
    # a newer one.
    newest = Fence(store).newest()
    try:
        publications = Publications(store)
        kept = [publications.read(number) for number in publications.numbers()]
        past = publications.past().by_use
        remembered = [
            file
            for generations in _alert_generations(store).values()
            for generation in generations[-1:]
            for file in generation.memory
        ]
    except (IntegrityError, StoreError) as error:
        logger.warning("what it may need is left alone: %s", error)
        return
    needed = {
        file.path.rsplit("/", 1)[0] for file in [*remembered, *(f for p in kept for f in p.files)]
    }
    tokens = {publication.token for publication in kept}
    done = {publication.token for publication in kept if publication.version in past}
    for path in attempts:
        token = _token(path.rsplit("/", 1)[1])
        if path not in needed and (token < newest or token in done):
            yield Leftover(ATTEMPT, path)
    for name in runs:
        if _token(name) not in tokens and _token(name) < newest:
            yield Leftover(RUN, f"{layout.RUNS}/{name}")


def _token(name: str) -> float:
    """The token at the beginning of a folder's name.

    Infinity if there is none, so that the folder never counts as old.
    """
    return int(name[:8]) if name[:8].isdigit() else float("inf")


def _segments(store: Store) -> Iterator[Leftover]:
    for folder in _generations(store):
        record = f"{folder}/{layout.RECORD}"
        if not store.exists(record):
            if store.age_s(folder) > STALE_AFTER_S:
                yield Leftover(GENERATION, folder, layout.SPEED_LOCK, record)
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
                yield Leftover(SEGMENT, path)
            elif span[0] < span[1] and store.age_s(path) > STALE_AFTER_S:
                with store.unless_locked(layout.SPEED_LOCK) as free:
                    pass
                if free:
                    commit = f"{folder}/{layout.COMMITS}/{layout.micro_batches(*span)}.json"
                    yield Leftover(SEGMENT, path, layout.SPEED_LOCK, commit)


def _tables(store: Store) -> Iterator[Leftover]:
    """The contents of tables, each with its record, which is deleted first."""
    # The files are listed first. Whoever stores a content has begun a generation or a run before.
    files = [path for table in _in(store, layout.TABLES) for path in _in(store, table)]
    if not files:
        return
    newest = Fence(store).newest()
    needed: set[tuple[str, str]] = set()
    try:
        publications = Publications(store)
        kept = [publications.read(number) for number in publications.numbers()]
        if not kept or max(publication.token for publication in kept) < newest:
            return
        for publication in kept:
            needed.update((publication.tables or {}).items())
        for folder in _generations(store):
            if store.exists(record := f"{folder}/{layout.RECORD}"):
                needed.update((store.read_document(record, Generation).tables or {}).items())
    except (IntegrityError, StoreError) as error:
        logger.warning("what it may need is left alone: %s", error)
        return
    for path in files:
        _, name, file = path.split("/")
        digest = file.partition(".")[0]
        if (name, digest) not in needed and store.age_s(path) > STALE_AFTER_S:
            yield Leftover(TABLE, path)


def _alert_generations(store: Store) -> dict[str, list[AlertGeneration]]:
    """The generations of each group of alerts, oldest first."""
    groups = store.names(layout.ALERT_GROUPS)
    return {group: alert_generations(store, group) for group in groups}


def _alerts(store: Store) -> Iterator[Leftover]:
    """The profiles and checkpoints that no generation of alerts needs."""
    # The files are listed first. Whoever writes one records its generation afterwards.
    files = [path for view in _in(store, layout.PROFILES) for path in _in(store, view)]
    checkpoints = {
        group: _in(store, layout.alert_checkpoints(group))
        for group in store.names(layout.ALERT_GROUPS)
    }
    if not files and not checkpoints:
        return
    try:
        publications = Publications(store)
        kept = [publications.read(number) for number in publications.numbers()]
        generations = _alert_generations(store)
    except (IntegrityError, StoreError) as error:
        logger.warning("what it may need is left alone: %s", error)
        return
    named = {p.file.path for of in generations.values() for g in of for p in g.profiles.values()}
    needed = {path for group, of in generations.items() for path in _profiles(group, of, kept)}
    for path in files:
        if path in named and path not in needed:
            yield Leftover(PROFILE, path)
        elif path not in named and store.age_s(path) > STALE_AFTER_S:
            yield Leftover(PROFILE, path, layout.ALERTS_LOCK)
    for group, paths in checkpoints.items():
        newest = generations[group][-1].number if generations.get(group) else 0
        begun = store.names(f"{layout.alert_checkpoint(group, newest)}/commits")
        for path in paths:
            if _token(path.rsplit("/", 1)[1]) < newest:
                yield Leftover(CHECKPOINT, path, "" if begun else layout.ALERTS_LOCK)


def _profiles(
    group: str, generations: Sequence[AlertGeneration], kept: Sequence[Publication]
) -> Iterator[str]:
    """The files of profiles by which events may still be judged.

    A run may begin at any version that is kept, after a rollback. If that does not have an alert,
    the run judges all its events.
    """
    if not generations:
        return
    yield from (profile.file.path for profile in generations[-1].profiles.values())
    stream = group.partition("-")[0]
    published = {(name, one.fingerprint) for p in kept for name, one in (p.alerts or {}).items()}
    for alert, fingerprint in {*generations[-1].alerts.items(), *published}:
        of = [one for one in generations if one.alerts.get(alert) == fingerprint]
        for place, one in enumerate(of):
            later = of[place + 1 :]
            if not kept or any(
                _may_judge(alert, fingerprint, stream, one, later, version) for version in kept
            ):
                yield from (profile.file.path for profile in one.profiles.values())


def _may_judge(
    alert: str,
    fingerprint: str,
    stream: str,
    one: AlertGeneration,
    later: Sequence[AlertGeneration],
    version: Publication,
) -> bool:
    """Whether a run that begins at a version may judge events by a generation."""
    alert_in_version, published = (version.alerts or {}).get(alert), version.streams.get(stream)
    if alert_in_version is None or alert_in_version.fingerprint != fingerprint or published is None:
        return True
    if published.topic_id == one.topic_id:
        return judges_above(one, later, published.cut)
    # Generations follow the origins: an earlier origin has only earlier generations.
    passed = any(other.topic_id == published.topic_id for other in later)
    return judges_above(one, later, None if passed else {})


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
