"""Step 5, publish: puts all recomputed views in force at once. `rollback` goes back.

Afterwards `clean` deletes what no kept version needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from batch_layer.clean import clean
from batch_layer.cut import check_ends_at
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import TrilayerError
from trilayer_core.project import Project
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.seam import size
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.intervals import (
    chain_end,
    intervals_after,
    intervals_below,
    newest_of,
    newest_ruled_out,
)
from trilayer_core.store.last_check import LastCheck, LastChecks
from trilayer_core.store.master import Master
from trilayer_core.store.pointer import Held, PointerFile
from trilayer_core.store.publication import (
    Publication,
    PublishedAlert,
    PublishedMemory,
    PublishedStream,
    PublishedView,
)
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Recomputed, ReconciledView, Reconciliation, Run
from trilayer_core.store.tables import digests

logger = logging.getLogger("trilayer.batch")


def publish(
    project: Project,
    run: Run,
    recomputed: Recomputed,
    reconciliation: Mapping[str, ReconciledView],
    before_publish: Callable[[], None] = lambda: None,
) -> Publication:
    """Puts the run's views in force, unless they are the same as those in force.

    It does so once per run.

    Args:
        project: The project.
        run: The run.
        recomputed: What it has computed.
        reconciliation: The comparison of both layers for each view.
        before_publish: Called once it is certain that the run may publish; what it raises prevents
            that.

    Raises:
        HeldError: A person holds the version in force.
        OvertakenError: A later run, or a rollback, has taken over.
    """
    store = project.store
    publications, pointer = Publications(store), PointerFile(store)
    standing = pointer.read()
    # A run that was killed after it had moved the pointer has only to delete old files.
    if standing and standing.token == run.token and standing.reason == "publish":
        published = publications.in_force()
        assert published is not None
        clean(project)
        return published
    Fence(store).check(run.token)
    pointer.check_not_held()
    base = publications.in_force()
    if (base.version if base else None) != recomputed.base:
        raise TrilayerError(
            f"the run was computed from version {recomputed.base}, but version"
            f" {base.version if base else None} is in force now; run `trilayer batch run` again"
        )
    before_publish()
    failpoint("publish.before-version")
    candidate = _candidate(project, run, recomputed, reconciliation, base)
    if base and candidate.kind == "incremental" and _is_the_same(base, candidate):
        LastChecks(store).write(LastCheck(base.version, run.t_ms, run.token, store.clock()))
        logger.info(
            "nothing new up to T=%s: version %s, T=%s, stays in force", run.t, base.version, base.t
        )
        clean(project)
        return base
    # Written before the pointer moves, which must never name a version that does not exist.
    publication = publications.write(candidate)
    publications.put_in_force(publication.version, run.token, "publish")
    logger.info(
        "published version %s, T=%s, %s", publication.version, publication.t, publication.kind
    )
    # Last, because until the pointer moved readers needed what is deleted here.
    clean(project)
    return publication


def _candidate(
    project: Project,
    run: Run,
    recomputed: Recomputed,
    reconciliation: Mapping[str, ReconciledView],
    base: Publication | None,
) -> Publication:
    """The version with what the run has computed."""
    catalog, store = project.catalog, project.store
    streams = {
        stream.name: _published(
            stream, run, base if recomputed.kinds[stream.name] == "incremental" else None, store
        )
        for stream in catalog.streams
    }
    views = {
        view.name: PublishedView(
            view.fingerprint, recomputed.views[view.name], recomputed.changed_keys[view.name]
        )
        for view in catalog.stored
    }
    alerts = {
        alert.name: PublishedAlert(
            alert.fingerprint,
            recomputed.alerts[alert.name].files,
            recomputed.alerts[alert.name].judged,
        )
        for alert in catalog.alerts
    }
    memories = {
        group.name: PublishedMemory(
            group.memory_fingerprint,
            recomputed.memories[group.name].files,
            recomputed.memories[group.name].scattered,
        )
        for group in catalog.alert_groups
        if group.last
    }
    reconciled = store.find_document(run.path("reconcile"), Reconciliation)
    return Publication(
        Publications(store).next_number(),
        run.t_ms,
        run.token,
        "full" if "full" in recomputed.kinds.values() else "incremental",
        recomputed.base,
        store.clock(),
        streams,
        views,
        reconciliation,
        digests(catalog.rows),
        alerts or None,
        memories or None,
        (reconciled.alerts or None) if reconciled else None,
    )


def _is_the_same(base: Publication, candidate: Publication) -> bool:
    """Whether a version would be equal to the one in force, except for T.

    If the T in force is later than the run's, it comes from a clock that was ahead, and is
    replaced.
    """

    def content(publication: Publication) -> dict[str, tuple[str, Sequence[StoredFile]]]:
        return {
            name: (artefact.fingerprint, artefact.files)
            for name, artefact in publication.artefacts.items()
        }

    return (
        base.t_ms <= candidate.t_ms
        and base.streams == candidate.streams
        and content(base) == content(candidate)
    )


def _published(stream: Stream, run: Run, base: Publication | None, store: Store) -> PublishedStream:
    """The publication's entry of a stream.

    `base` is the publication whose counts are continued; without one they are added up from the
    beginning.
    """
    cut, identity = run.cuts[stream.name], run.origin_ids[stream.name]
    before = base.streams[stream.name] if base else None
    if before:
        below = intervals_below(
            Master(store, stream).chain_after(before.cut, before.origin_id), cut, identity
        )
        added = intervals_after(below, before.cut, stream, before.origin_id)
    else:
        below = added = intervals_below(Master(store, stream).read_chain(), cut, identity)
    check_ends_at(stream, chain_end(newest_of(below, identity), {}), cut)
    return PublishedStream(
        identity,
        stream.fingerprint,
        cut,
        sum(interval.events for interval in added) + (before.events if before else 0),
        sum(interval.quarantined for interval in added) + (before.quarantined if before else 0),
        sum(size(interval.lost) for interval in added) + (before.lost if before else 0),
        max(newest_ruled_out(below, identity), before.newest_ruled_out if before else 0),
    )


def rollback(version: int | None, store: Store, hold: Held | None = None) -> Publication:
    """Puts an older version in force again, and overtakes any active run.

    Args:
        version: Its number; None for the version that was in force before the present one.
        store: The store.
        hold: Who keeps it in force from then on. Without a hold the next batch run publishes on top
            of it.
    """
    target = Publications(store).roll_back(version, hold)
    logger.info("version %s in force again, T=%s", target.version, target.t)
    return target
