"""Step 5, publish: puts all recomputed views in force at once, and clears away what no kept version needs. Rollback is its reverse."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from batch_layer.cut import Run
from batch_layer.recompute import Recomputed
from trilayer.catalog import Catalog
from trilayer.cut import Cut, size
from trilayer.errors import CoverageError, IntegrityError, TrilayerError
from trilayer.failpoints import failpoint
from trilayer.log import now_ms
from trilayer.master import (
    Interval,
    chain_end,
    chain_folder,
    delete_chain,
    intervals_below,
    of_origin,
    read_chain,
    schemas,
)
from trilayer.publication import (
    Publication,
    PublishedStream,
    PublishedView,
    check_token,
    find_version,
    in_force,
    next_version,
    pointer,
    put_in_force,
    take_token,
    version_numbers,
    versions,
    write_version,
)
from trilayer.segment import (
    Generation,
    best_cover,
    commit_names,
    commit_path,
    folder,
    generations,
    read_commit,
)
from trilayer.settings import Settings
from trilayer.store import Store
from trilayer.stream import Stream

logger = logging.getLogger("trilayer.batch")


def publish(
    catalog: Catalog,
    run: Run,
    recomputed: Recomputed,
    reconciliation: Mapping[str, Any],
    settings: Settings,
    store: Store,
) -> Publication:
    """The run's views in force. Raises ConflictError if a later run has taken over. Done once for a run."""
    standing = pointer(store)
    if standing and standing["token"] == run.token and standing["reason"] == "publish":
        published = in_force(store)
        assert published is not None
        clean(catalog, published, settings, store)
        return published
    check_token(store, run.token)
    base = in_force(store)
    if (base.version if base else None) != recomputed.base:
        raise TrilayerError(
            f"a run must publish on top of what it was computed from, version {recomputed.base}; {base.version if base else None} is in force;"
            " run `trilayer batch run` again"
        )
    failpoint("publish.before-version")
    kind = "full" if "full" in recomputed.kinds.values() else "incremental"
    streams = {stream.name: _published(stream, run, read_chain(store, stream)) for stream in catalog.streams}
    views = {
        view.name: PublishedView(
            view.fingerprint, recomputed.views[view.name], recomputed.changed_keys[view.name]
        )
        for view in catalog.views
    }
    publication = write_version(
        store,
        Publication(
            next_version(store),
            run.t_ms,
            run.token,
            kind,
            recomputed.base,
            now_ms(),
            streams,
            views,
            reconciliation,
        ),
    )
    put_in_force(store, publication.version, run.token, "publish")
    logger.info("published version %s, T=%s, %s", publication.version, publication.t, kind)
    clean(catalog, publication, settings, store)
    return publication


def _published(stream: Stream, run: Run, chain: Sequence[Interval]) -> PublishedStream:
    cut, identity = run.cuts[stream.name], run.topic_ids[stream.name]
    below = intervals_below(chain, cut, identity)
    end = chain_end(of_origin(below, identity), {})
    if end != dict(cut):
        raise CoverageError(
            f"stream {stream.name!r}: the master dataset must end at the cut {dict(cut)}; it ends at {end}"
        )
    return PublishedStream(
        identity,
        stream.fingerprint,
        cut,
        sum(interval.events for interval in below),
        sum(interval.quarantined for interval in below),
        sum(size(interval.lost) for interval in below),
    )


def rollback(version: int | None, store: Store) -> Publication:
    """An older version in force again, its cuts with it; the one before the present unless named. Fences off any run under way."""
    target = find_version(store, version)
    token = take_token(store, f"rollback to {target.version}")
    put_in_force(store, target.version, token, "rollback")
    logger.info("version %s in force again, T=%s", target.version, target.t)
    return target


# -- clearing away -----------------------------------------------------------------------------------------------------


def clean(catalog: Catalog, published: Publication, settings: Settings, store: Store) -> None:
    """Deletes versions beyond `keep_versions`, and the files, segments and chains that no kept version needs.

    What is deleted first is what refers, then what is referred to: a run that is killed here leaves files too many, never too few.
    """
    failpoint("publish.before-clean")
    standing = pointer(store)
    assert standing is not None
    there = version_numbers(store)
    # What the pointer names too, since a rollback may have come between.
    in_use = {published.version, standing["version"], *there[-settings.keep_versions :]}
    kept = [publication for publication in versions(store) if publication.version in in_use]
    for number in there:
        if number not in in_use:
            store.delete(f"publications/{number:08d}.json")
    if len(kept) == len(in_use):  # else what a damaged version refers to is not known, and it may be mended
        _clean_views(kept, published.token, store)
    for stream in catalog.streams:
        _clean_segments(stream, kept, store)
        _clean_chains(stream, kept, store)
    for run in store.names("runs"):
        if int(run) < min(p.token for p in kept):
            store.delete(f"runs/{run}")


def _clean_views(kept: Sequence[Publication], token: int, store: Store) -> None:
    needed = {file.path for p in kept for view in p.views.values() for file in view.files}
    folders = {path.rsplit("/", 1)[0] for path in needed}
    for view in store.names("batch"):
        for attempt in store.names(f"batch/{view}"):
            if f"batch/{view}/{attempt}" not in folders and int(attempt[:8]) <= token:
                store.delete(f"batch/{view}/{attempt}")


def oldest_cut(kept: Sequence[Publication], stream: Stream, identity: str | None = None) -> dict[int, int]:
    """The lowest cut, partition by partition, that a rollback could come back to. identity: of the origin in which the cuts
    count; the newest publication's unless given."""
    of_stream = [p.streams[stream.name] for p in kept if stream.name in p.streams]
    if identity is None and of_stream:
        identity = of_stream[-1].topic_id
    cuts = [published.cut for published in of_stream if published.topic_id == identity]
    partitions = {partition for cut in cuts for partition in cut}
    return {partition: min(cut.get(partition, 0) for cut in cuts) for partition in partitions}


def _clean_segments(stream: Stream, kept: Sequence[Publication], store: Store) -> None:
    known = generations(store, stream)
    for generation in known:
        cut = oldest_cut(kept, stream, generation.topic_id)
        old = generation is not known[-1]
        if old and (not _needed(generation, stream, kept) or _superseded(generation, stream, cut, store)):
            store.delete(folder(stream, generation.name))
            continue
        for first, last in commit_names(store, stream, generation.name):
            try:
                commit = read_commit(store, stream, generation.name, first, last)
            except IntegrityError as error:
                logger.debug("not cleared away, since compaction took it or it can't be read: %s", error)
                continue
            if any(r.end > cut.get(p, 0) for segment in commit.segments for p, r in segment.ranges.items()):
                break
            store.delete(commit_path(stream, generation.name, first, last))
            for file in [*commit.files.values(), *([commit.quarantine] if commit.quarantine else [])]:
                store.delete(file.path)


def _needed(generation: Generation, stream: Stream, kept: Sequence[Publication]) -> bool:
    """Whether a kept version of the generation's origin has a view by a definition that it computes."""
    return any(
        p.views[name].fingerprint == fingerprint
        for p in kept
        if stream.name in p.streams and p.streams[stream.name].topic_id == generation.topic_id
        for name, fingerprint in generation.views.items()
        if name in p.views
    )


def _superseded(generation: Generation, stream: Stream, cut: Cut, store: Store) -> bool:
    """Whether a newer generation of the same definitions has taken over, for every cut that a rollback could come back to."""
    try:
        best = best_cover(store, stream, generation.topic_id, generation.views, cut)
    except (CoverageError, IntegrityError):
        return False
    return best is not None and best.generation.number > generation.number


def _clean_chains(stream: Stream, kept: Sequence[Publication], store: Store) -> None:
    needed = {stream.fingerprint} | {
        p.streams[stream.name].fingerprint for p in kept if stream.name in p.streams
    }
    for schema in schemas(store, stream):
        if schema not in needed:
            delete_chain(store, stream, schema)
    own = chain_folder(stream, stream.fingerprint)
    used = {file.path.rsplit("/", 1)[0] for interval in read_chain(store, stream) for file in interval.files}
    for name in store.names(own):
        if not name.endswith(".json") and f"{own}/{name}" not in used:
            store.delete(f"{own}/{name}")
