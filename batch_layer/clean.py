"""Deletes what no kept version needs: versions, segments, chains, and what killed runs left."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import CoverageError, IntegrityError
from trilayer_core.project import Project
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.seam import Cut
from trilayer_core.store.cover import best_cover
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.last_check import LastChecks
from trilayer_core.store.master import Master
from trilayer_core.store.orphans import clear, find_orphans
from trilayer_core.store.publication import Publication, oldest_cut
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Runs
from trilayer_core.store.segments import Generation

logger = logging.getLogger("trilayer.batch")


def clean(project: Project) -> None:
    """Deletes versions beyond `keep_versions`, what no kept version needs, and orphans.

    `find_orphans` finds the batch views and the run folders of the deleted versions, together
    with what killed processes have left.

    References are deleted before the files that they refer to: a crash then leaves garbage, never a
    dangling reference. A rollback can happen at any moment in between. The files of a kept version
    stay, and for a deleted version the rollback reports that it does not exist.
    """
    catalog, store = project.catalog, project.store
    failpoint("publish.before-clean")
    kept = Publications(store).retire(project.settings.keep_versions)
    if kept is None:
        logger.warning(
            "nothing is cleared away: a version that is kept can't be read, so that what it needs"
            " is not known"
        )
        return
    failpoint("clean.before-files")
    for stream in catalog.streams:
        _clean_segments(stream, kept, store)
        _clean_chains(stream, kept, store)
    failpoint("clean.between-files")
    present = Publications(store).in_force()
    check = LastChecks(store).last(present) if present else None
    attempts = Runs(store).ingest_notes(max(kept[-1].token, check.token if check else 0))
    # More notes than streams mean that an attempt was killed. Only then are the folders of all
    # intervals searched: for a year of them this takes longer than a run with little to do.
    killed = len(attempts) > len(catalog.streams)
    chains = killed or kept[-1].kind == "full"
    cleared = clear(store, find_orphans(store, thorough=killed, chains=chains))
    for path in attempts:
        store.delete(path)
    if cleared:
        logger.debug("cleared away %s files and folders that no version needs", cleared)


def _clean_segments(stream: Stream, kept: Sequence[Publication], store: Store) -> None:
    of_stream = Generations(store, stream)
    generations = of_stream.all()
    for generation in generations:
        cut = oldest_cut(kept, stream.name, generation.origin_id)
        old = generation is not generations[-1]  # the speed layer writes the newest one
        if old and _superseded(generation, _needed(generation, stream, kept), stream, cut, store):
            of_stream.delete(generation.name)
            continue
        for first, last in of_stream.spans(generation.name):
            try:
                commit = of_stream.commit(generation.name, first, last)
            except IntegrityError as error:
                logger.debug(
                    "not cleared away, since compaction took it or it can't be read: %s", error
                )
                continue
            if any(
                r.end > cut.get(p, 0)
                for segment in commit.segments
                for p, r in segment.ranges.items()
            ):
                break  # the commits that follow reach further
            of_stream.delete_commit(generation.name, commit)


def _needed(
    generation: Generation, stream: Stream, kept: Sequence[Publication]
) -> Mapping[str, str]:
    """The generation's views that a kept version of its origin has with the same definition."""
    published = [
        (name, view.fingerprint)
        for p in kept
        if stream.name in p.streams and p.streams[stream.name].origin_id == generation.origin_id
        for name, view in p.views.items()
    ]
    return dict(generation.views.items() & set(published))


def _superseded(
    generation: Generation, needed: Mapping[str, str], stream: Stream, cut: Cut, store: Store
) -> bool:
    """Whether a newer generation has taken over all views that are needed, if there are any.

    It must have done so for every cut to which a rollback could go back.
    """
    if not needed:
        return True
    try:
        best = best_cover(Generations(store, stream), generation.origin_id, needed, cut)
    except (CoverageError, IntegrityError):
        return False
    return best is not None and best.generation.number > generation.number


def _clean_chains(stream: Stream, kept: Sequence[Publication], store: Store) -> None:
    needed = {stream.fingerprint} | {
        p.streams[stream.name].fingerprint for p in kept if stream.name in p.streams
    }
    master = Master(store, stream)
    for schema in master.schemas():
        if schema not in needed:
            master.delete_chain(schema)
