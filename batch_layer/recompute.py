"""Step 3, recompute: computes the batch views below the cut, as files of partials.

A batch view is a small number of files whose partials, merged, are the view. An incremental run
adds the partials of the new interval as a file, and merges it with earlier files only while these
are not much larger. The cost of a run thus depends on what is new, not on the history. A full run
computes one file from the whole master dataset. Both give the same partials. The rules of
alerts are evaluated in the same step, see alerts/evaluation.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from batch_layer.alerts.evaluation import alert_definitions, evaluate
from batch_layer.engine import Engine, tail
from trilayer_core.compute.grouping import plan
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import OvertakenError, TrilayerError
from trilayer_core.project import Project
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.runtime.session import driver_at_work
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import StoredFile
from trilayer_core.store.intervals import intervals_after, intervals_below
from trilayer_core.store.master import Master
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Recomputed, RecomputedAlert, RecomputedMemory, Run

logger = logging.getLogger("trilayer.batch")


def recompute(project: Project, run: Run, engine: Engine) -> Recomputed:
    """Computes all views, once per run.

    If the base has all views of a stream with the same definitions, only the new intervals are
    computed, and the base's files are kept or merged with the result. Otherwise, and in a full run,
    the views are computed from the whole master dataset.
    """
    catalog, store = project.catalog, project.store
    Fence(store).check(run.token)
    done = recomputed_before(project, run)
    if done:
        return done
    # Take fingerprints now: running the author's code may change what its closures hold.
    definitions = _definitions(catalog)
    base = Publications(store).in_force()
    failpoint("recompute.before-write")
    kinds: dict[str, str] = {}
    views: dict[str, Sequence[StoredFile]] = {}
    added: dict[str, Sequence[StoredFile]] = {}
    alerts: dict[str, RecomputedAlert] = {}
    memories: dict[str, RecomputedMemory] = {}
    for stream in catalog.streams:
        comparable = base is not None and is_continued(catalog, stream, base)
        published = base.streams[stream.name] if base and comparable else None
        incremental = published is not None and not run.full
        kinds[stream.name] = "incremental" if incremental else "full"
        identity = run.origin_ids[stream.name]
        if published is not None and incremental:
            history = Master(store, stream).chain_after(published.cut, published.origin_id)
        else:
            history = Master(store, stream).read_chain()
        chain = intervals_below(history, run.cuts[stream.name], identity)
        new = (
            intervals_after(chain, published.cut, stream, published.origin_id) if published else []
        )
        for pass_ in plan(catalog.stored_of(stream)):
            with _naming(stream, pass_.views):
                # In a full run as well: `reconcile` compares what the new intervals add with the
                # speed layer.
                if comparable:
                    added |= engine.compute(pass_, new, run.token, "added")
                if not incremental:
                    views |= engine.compute(pass_, chain, run.token, "full")
                elif base is not None:
                    views |= _grown(pass_.views, base, added, run, engine)
        logger.info(
            "recomputed %s views of %s, %s",
            len(catalog.stored_of(stream)),
            stream.name,
            kinds[stream.name],
        )
        alerts_of_stream, memories_of_stream = evaluate(catalog, stream, run, base, store, engine)
        alerts |= alerts_of_stream
        memories |= memories_of_stream
    result = Recomputed(
        base.version if base else None, definitions, kinds, views, added, alerts, memories
    )
    failpoint("recompute.before-record")
    store.write_document(run.path("recompute"), result)
    failpoint("recompute.after-record")
    return result


@contextmanager
def _naming(stream: Stream, views: Sequence[View]) -> Iterator[None]:
    """Adds the stream and the views to an error of Spark, which has the failing expression."""
    try:
        with driver_at_work("batch.memory_mb"):
            yield
    except TrilayerError as error:
        # The error of a Spark job has no class of its own; the others name their place already.
        if type(error) is not TrilayerError:
            raise
        names = ", ".join(view.name for view in views)
        raise TrilayerError(f"stream {stream.name!r}, when computing {names}: {error}") from error


def recomputed_before(project: Project, run: Run) -> Recomputed | None:
    """What the run has recomputed; None if it has not done so yet.

    Raises:
        OvertakenError: It was recomputed with other definitions than the catalog's.
    """
    recomputed = project.store.find_document(run.path("recompute"), Recomputed)
    if recomputed is None:
        return None
    present = _definitions(project.catalog)
    changed = {name for name, _ in recomputed.definitions.items() ^ present.items()}
    if changed:
        raise OvertakenError(
            f"definitions have changed since the run was recomputed: {', '.join(sorted(changed))};"
            " run `trilayer batch run`, or clear the whole run in Airflow"
        )
    return recomputed


def _definitions(catalog: Catalog) -> dict[str, str]:
    views = {view.name: view.fingerprint for view in catalog.stored}
    return views | alert_definitions(catalog)


def is_continued(catalog: Catalog, stream: Stream, base: Publication) -> bool:
    """Whether the publication has all of the stream's views with the same definitions."""
    published = base.streams.get(stream.name)
    return (
        published is not None
        and published.fingerprint == stream.fingerprint
        and all(base.has(view) for view in catalog.views_of(stream))
    )


def _grown(
    of_pass: Sequence[View],
    base: Publication,
    added: Mapping[str, Sequence[StoredFile]],
    run: Run,
    engine: Engine,
) -> dict[str, Sequence[StoredFile]]:
    """The files of the base and the added ones, where small files are merged.

    Files at the end are merged as long as each is not much larger than those after it.
    """
    parts = {view.name: tail(base.views[view.name].files, added[view.name]) for view in of_pass}
    due = [view for view in of_pass if parts[view.name][1]]
    merged = engine.merge(due, {view.name: parts[view.name][1] for view in due}, run.token)
    return {name: [*kept, *merged.get(name, [])] for name, (kept, _) in parts.items()}
