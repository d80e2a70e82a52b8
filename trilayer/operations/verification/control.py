"""Checks the documents by which the layers find their files: pointer, tokens, generations, commits.

Most of them are read by one process alone, and no answer shows whether they are as they were
written. Here each is compared with the documents that repeat a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trilayer_core.definitions.alerts import AlertGroup
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import IntegrityError
from trilayer_core.runtime.retries import read_listed
from trilayer_core.seam import Cut
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGeneration, alert_generations
from trilayer_core.store.fence import Fence, Token
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.last_check import LastCheck
from trilayer_core.store.origins import Origin, Origins
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Runs
from trilayer_core.store.segments import Commit, Generation


def control_faults(store: Store, catalog: Catalog) -> list[str]:
    """What these documents say that is not so. A document that can't be read is a fault, too."""
    # What is being replaced may be a fault for a moment: only one that stays is one.
    first = list(_faults(store, catalog))
    return [fault for fault in _faults(store, catalog) if fault in first] if first else []


def _faults(store: Store, catalog: Catalog) -> Iterator[str]:
    versions = {version.version: version for version in Publications(store).versions()}
    for faults in (
        _token_faults(store),
        _run_faults(store),
        _look_faults(store),
        _pointer_faults(store, versions),
        *(_origin_faults(store, stream) for stream in catalog.streams),
        *(_speed_faults(store, catalog, stream) for stream in catalog.streams),
        *(_alert_faults(store, group, versions) for group in catalog.alert_groups),
    ):
        try:
            yield from faults
        except IntegrityError as error:
            yield str(error)


# -- what is in force ------------------------------------------------------------------------------


def _token_faults(store: Store) -> Iterator[str]:
    for number in layout.numbers(store.names(layout.FENCE)):
        path = layout.token(number)
        yield from _unlike(path, "number", store.read_document(path, Token).token, number)


def _run_faults(store: Store) -> Iterator[str]:
    runs = Runs(store)
    for token in runs.tokens():
        if (run := runs.begun(token)) is not None:
            yield from _unlike(run.path("cut"), "token", run.token, token)


def _look_faults(store: Store) -> Iterator[str]:
    if not store.exists(layout.LOOKED):
        return
    last_check = store.read_document(layout.LOOKED, LastCheck)
    if last_check.token > Fence(store).newest():
        yield f"{layout.LOOKED} is that of a token that was never taken: {last_check.token}"
    if not 0 < last_check.version < Publications(store).next_number():
        yield f"{layout.LOOKED} is that of a version that was never written: {last_check.version}"
    run = Runs(store).begun(last_check.token)
    if run is not None:
        yield from _unlike(layout.LOOKED, "T", last_check.t, run.t)


def _pointer_faults(store: Store, versions: Mapping[int, Publication]) -> Iterator[str]:
    pointer = PointerFile(store).read()
    if pointer is None:
        return
    path, published = layout.POINTER, versions.get(pointer.version)
    if pointer.reason not in ("publish", "rollback"):
        yield f"{path}: its reason must be publish or rollback; got {pointer.reason!r}"
    if pointer.token > Fence(store).newest():
        yield f"{path} is that of a token that was never taken: {pointer.token}"
    elif published is not None and (pointer.token == published.token) != (
        pointer.reason == "publish"
    ):
        yield (
            f"{path} must have the token of the run that has put version {pointer.version} in"
            f" force, {published.token}, or that of a rollback; got {pointer.token},"
            f" {pointer.reason}"
        )
    if pointer.before is None:
        return
    past = [*pointer.before, pointer.version, *(pointer.left or ())]
    if len(past) != len({*past}):
        yield f"{path} lists a version twice: {past}"
    next_number = Publications(store).next_number()
    if unknown := sorted(number for number in past if not 0 < number < next_number):
        yield f"{path} lists versions that were never written: {unknown}"
    # A run starts from the version in force, which its version then replaces.
    bases = {version.base for number, version in versions.items() if number in past}
    if missing := [number for number in versions if number in bases and number not in past]:
        yield f"{path} does not list versions that have been in force: {missing}"


def _origin_faults(store: Store, stream: Stream) -> Iterator[str]:
    before: Origin | None = None
    for number, origin in enumerate(Origins(store, stream).all(), start=1):
        path = layout.origin(stream, number)
        yield from _unlike(path, "number", origin.number, number)
        yield from _unlike(path, "topic", origin.topic, stream.topic)
        yield from _unlike(
            path, "origin before it", origin.before, before.identity if before else None
        )
        before = origin


# -- the speed layer -------------------------------------------------------------------------------


def _speed_faults(store: Store, catalog: Catalog, stream: Stream) -> Iterator[str]:
    generations = Generations(store, stream)
    origins = {origin.identity: origin for origin in Origins(store, stream).all()}
    views = {view.name: view.fingerprint for view in catalog.stored_of(stream)}
    for generation in generations.all():
        path = layout.generation_record(stream, generation.name)
        if not store.exists(path):
            yield f"a generation of {stream.name!r} says that it is {path}, which does not exist"
            continue
        # With another schema of the stream, the same views have another one.
        present = generation.fingerprint == catalog.stream_fingerprint(stream)
        if present and dict(generation.views) != views:
            yield f"{path}: its fingerprint is not that of its views"
        yield from _generation_faults(store, path, generation, origins)
        commits = _commits(generations, generation)
        for name, commit in commits.items():
            where = f"{layout.commits(stream, generation.name)}/{name}.json"
            yield from _unlike(where, "micro-batches", commit.name, name)
            yield from _commit_faults(where, commit, generation)
        ticks = {s.tick for commit in commits.values() for s in commit.segments if s.tick}
        # A few may be off the grid: a T that was later than now is assigned to another T.
        if ticks and generation.tick_ms and all(tick % generation.tick_ms for tick in ticks):
            yield f"{path}: its segments' ticks are not those of {generation.tick_ms} ms"


def _commits(generations: Generations, generation: Generation) -> dict[str, Commit]:
    """Returns the widest commits by the names of their files."""
    read = read_listed(
        lambda: generations.spans(generation.name),
        lambda span: (layout.micro_batches(*span), generations.commit(generation.name, *span)),
    )
    return dict(read)


def _generation_faults(
    store: Store, path: str, generation: Generation, origins: Mapping[str, Origin]
) -> Iterator[str]:
    origin = origins.get(generation.origin_id)
    if origin is None:
        yield f"{path}: the stream has never had its origin, {generation.origin_id}"
    elif _below(generation.start, origin.start):
        yield f"{path} begins at {dict(generation.start)}, before its origin: {dict(origin.start)}"
    for name, digest in (generation.tables or {}).items():
        if not store.exists(layout.table_record(name, digest)):
            yield f"{path}: the store does not have the content {digest} of its table {name}"


def _commit_faults(path: str, commit: Commit, generation: Generation) -> Iterator[str]:
    ends: dict[int, int] = {}
    for segment in commit.segments:
        for partition, offsets in segment.ranges.items():
            ends[partition] = max(ends.get(partition, 0), offsets.end)
            start = generation.start.get(partition, 0)
            if offsets.start < start:
                yield (
                    f"{path}: partition {partition} begins at offset {offsets.start}, and its"
                    f" generation at {start}"
                )
    if extra := sorted(commit.files.keys() - generation.views.keys()):
        yield f"{path} has files of views that its generation does not compute: {extra}"
    for partition, mark in commit.marks.items():
        if mark is not None and mark.offset >= ends.get(partition, mark.offset + 1):
            yield f"{path}: the mark of partition {partition} must be below its end; got {mark}"


# -- alerts ----------------------------------------------------------------------------------------


def _alert_faults(
    store: Store, group: AlertGroup, versions: Mapping[int, Publication]
) -> Iterator[str]:
    origins = {origin.identity for origin in Origins(store, group.stream).all()}
    alerts = {alert.name: alert.fingerprint for alert in group.alerts}
    by_name: dict[str, AlertGeneration] = {}
    next_number = Publications(store).next_number()
    generations = alert_generations(store, group.name, by_name)
    for name, generation in by_name.items():
        path = f"{layout.alert_generations(group.name)}/{name}"
        yield from _unlike(
            path, "path", layout.alert_generation(group.name, generation.number), path
        )
        if (generation.fingerprint == group.fingerprint) != (dict(generation.alerts) == alerts):
            yield f"{path}: its fingerprint is not that of its alerts"
        if generation.origin_id not in origins:
            yield f"{path}: the stream has never had its origin, {generation.origin_id}"
        if _below(generation.alert_from, generation.read_from):
            yield (
                f"{path}: it judges from {dict(generation.alert_from)}, before it reads:"
                f" {generation.read_from}"
            )
        if generation.version is not None and not 0 < generation.version < next_number:
            yield f"{path}: version {generation.version} was never written"
        yield from _alert_version_faults(path, group, generation, versions)
    for file in generations[-1].files if generations else ():
        store.check(file)


def _alert_version_faults(
    path: str, group: AlertGroup, generation: AlertGeneration, versions: Mapping[int, Publication]
) -> Iterator[str]:
    """What a generation says of publications otherwise than these do."""
    stream = group.stream.name
    of = versions.get(generation.version or 0)
    if of is not None and stream in of.streams:
        cut = of.streams[stream].cut
        expected = {
            partition: cut[partition] for partition in generation.alert_from if partition in cut
        }
        start = {partition: o for partition, o in generation.read_from.items() if partition in cut}
        yield from _unlike(path, "start", start, expected)
        memory = (of.memories or {}).get(group.name)
        yield from _unlike(path, "memory", [*generation.memory], [*memory.files] if memory else [])
    of_views = {view.name: view.stream.name for view in group.profiles}
    for view, profile in generation.profiles.items():
        version = versions.get(profile.version)
        at = version.streams.get(of_views.get(view, "")) if version else None
        if at is not None:
            yield from _unlike(path, f"cut of {view}", dict(profile.cut), dict(at.cut))
            yield from _unlike(path, f"origin of {view}", profile.origin_id, at.origin_id)


# -- helpers ---------------------------------------------------------------------------------------


def _unlike(path: str, what: str, got: object, expected: object) -> Iterator[str]:
    if got != expected:
        yield f"{path}: its {what} must be {expected}; got {got}"


def _below(offsets: Cut, others: Cut) -> bool:
    """Returns whether one of the offsets is below the other ones."""
    return any(offsets.get(partition, 0) < offset for partition, offset in others.items())
