"""Step 4, reconcile: compares the results of both layers for the same events, key by key.

The batch layer's share is what the run's new intervals have added; the speed layer's share is the
segments between the same two cuts. All keys with both answers are stored with the run, as long as
its publication is kept. Alerts are compared in the same step, see alerts/comparison.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from batch_layer.alerts.comparison import reconcile_alerts
from batch_layer.shares import Shares
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError, DifferenceError, IntegrityError
from trilayer_core.project import Project
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.runtime.settings import Settings
from trilayer_core.store import layout
from trilayer_core.store.cover import Cover, best_cover, cover_from
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import newest_ruled_out
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Recomputed, ReconciledView, Reconciliation, Run
from trilayer_core.store.segments import read_partials

logger = logging.getLogger("trilayer.batch")


def reconcile(
    project: Project,
    run: Run,
    recomputed: Recomputed,
    open_shares: Callable[[Settings, Store], Shares] = Shares,
) -> Mapping[str, ReconciledView]:
    """Compares batch and speed over the events that both have read, view by view.

    The comparison is made once per run.

    Raises:
        DifferenceError: There is a difference and the setting `reconcile` is `fail`. This is raised
            at every call.
    """
    store = project.store
    Fence(store).check(run.token)
    done = store.find_document(run.path("reconcile"), Reconciliation)
    if done is None:
        base = Publications(store).read(recomputed.base) if recomputed.base else None
        views = _reconcile(project, run, recomputed, base, open_shares)
        for name, view in views.items():
            _say(name, view)
        alerts = reconcile_alerts(project, run, recomputed, base)
        done = Reconciliation(views, alerts)
        failpoint("reconcile.before-record")
        store.write_document(run.path("reconcile"), done)
    different = [
        *(name for name, view in done.views.items() if view.different),
        *(f"alert {name}" for name, alert in done.alerts.items() if alert.different),
    ]
    if different and project.settings.reconcile == "fail":
        raise DifferenceError(
            f"batch and speed differ in {', '.join(different)}; see {run.path('reconcile')}; to"
            ' publish the batch layer\'s answer nevertheless, set reconcile = "warn" and run'
            " `trilayer batch publish`"
        )
    return done.views


def _reconcile(
    project: Project,
    run: Run,
    recomputed: Recomputed,
    base: Publication | None,
    open_shares: Callable[[Settings, Store], Shares],
) -> Mapping[str, ReconciledView]:
    catalog, store = project.catalog, project.store
    views: dict[str, ReconciledView] = {}
    with open_shares(project.settings, store) as shares:
        for stream in catalog.streams:
            find = partial(speed_share, catalog, stream, run, base, store)
            share = find()
            for view in catalog.stored_of(stream):
                share = _load_speed(shares, view, share, find, store)
                views[view.name] = _compare(shares, view, share, recomputed, base, run)
                if (
                    base
                    and recomputed.kinds[stream.name] == "full"
                    and view.name in recomputed.added
                ):
                    # What an incremental run would have published.
                    before = [*base.views[view.name].files, *recomputed.added[view.name]]
                    full = shares.differences(view, recomputed.views[view.name], before)
                    views[view.name] = replace(
                        views[view.name],
                        changed=full.differ + full.missing + full.extra,
                        changed_keys=[_printable(row) for row in full.keys],
                    )
    return views


@dataclass(frozen=True)
class SpeedShare:
    """The speed layer's segments between the two cuts.

    Attributes:
        cover: The commits that contain them.
        ticks: The ticks between the cuts, by commit name.
    """

    cover: Cover
    ticks: Mapping[str, frozenset[int]]


@dataclass(frozen=True)
class NotCompared:
    """The reason why there is nothing to compare."""

    why: str


def speed_share(
    catalog: Catalog, stream: Stream, run: Run, base: Publication | None, store: Store
) -> SpeedShare | NotCompared:
    """The speed layer's share of the events between the base's cut and the run's."""
    views = {view.name: view.fingerprint for view in catalog.stored_of(stream)}
    if base is not None and stream.name not in base.streams:
        return NotCompared("the stream is new")
    # Without a base the run has counted everything since the first origin.
    before, first = base and base.streams[stream.name], Origins(store, stream).all()[0]
    end, identity = run.cuts[stream.name], run.origin_ids[stream.name]
    if (before.origin_id if before else first.identity) != identity:
        return NotCompared("a new origin has begun since")
    start = before.cut if before else first.start
    try:
        ruled_out = newest_ruled_out(Master(store, stream).chain(), identity)
        covered = best_cover(Generations(store, stream), identity, views, start, ruled_out)
        if covered is None:
            return NotCompared("the speed layer has not run these definitions")
        # Also proves that no segment straddles the run's cut: each is above it, or between both
        # cuts.
        above = cover_from(stream, covered.generation, covered.commits, end)
    except (CoverageError, IntegrityError) as error:
        return NotCompared(f"the speed layer can't be compared: {error}")
    behind = [p for p, offset in end.items() if covered.head.get(p, 0) < offset]
    if behind:
        return NotCompared(f"the speed layer has not reached the cut in partition {behind[0]}")
    between = {
        name: ticks - above.ticks.get(name, frozenset()) for name, ticks in covered.ticks.items()
    }
    return SpeedShare(covered, {name: ticks for name, ticks in between.items() if ticks})


def _load_speed(
    shares: Shares,
    view: View,
    share: SpeedShare | NotCompared,
    find: Callable[[], SpeedShare | NotCompared],
    store: Store,
) -> SpeedShare | NotCompared:
    """Loads the speed layer's partials of the view, and returns their share.

    If compaction has deleted what was listed, the share is determined again. Returns the reason if
    the partials can't be read.
    """
    attempts = 3
    while isinstance(share, SpeedShare):
        try:
            shares.load_speed(view, _partials(view, share, store))
            return share
        except IntegrityError as error:
            attempts -= 1
            why = f"the speed layer can't be compared: {error}"
            share = find() if attempts else NotCompared(why)
    return share


def _partials(view: View, share: SpeedShare, store: Store) -> Iterator[pa.Table]:
    for commit in share.cover.commits:
        if commit.name in share.ticks:
            table = read_partials(store, commit, view, share.ticks[commit.name])
            if table is not None:
                yield table


def _compare(
    shares: Shares,
    view: View,
    share: SpeedShare | NotCompared,
    recomputed: Recomputed,
    base: Publication | None,
    run: Run,
) -> ReconciledView:
    if isinstance(share, NotCompared):
        return ReconciledView(not_compared=share.why)
    if base is not None and view.name not in recomputed.added:
        return ReconciledView(
            not_compared=f"a definition of a view of {view.stream.name} has changed"
        )
    added = recomputed.added[view.name] if base is not None else recomputed.views[view.name]
    # Written before the record that names it: a run that is killed in between writes it again.
    counts, file = shares.compare(view, added, layout.reconciliation(run.token, view.name))
    return ReconciledView(
        counts.match,
        counts.differ,
        counts.missing,
        counts.extra,
        [_printable(row) for row in counts.keys],
        file,
    )


def _printable(row: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in row.items()}


def _say(name: str, view: ReconciledView) -> None:
    if view.not_compared is not None:
        logger.info("reconcile %s: not compared, %s", name, view.not_compared)
        return
    logger.log(
        logging.WARNING if view.different else logging.INFO,
        "reconcile %s: %s",
        name,
        view.counts,
    )
