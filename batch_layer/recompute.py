"""Step 3, recompute: the batch views below the cut, as files of partials.

A batch view is a few files whose partials, merged, are the view: an incremental run adds the new
interval's partials as a file of its own, and merges it with the files before it only while those
are not much larger. So a run costs what is new, whatever the history (the idea of a log-structured
merge tree: O'Neil, Cheng, Gawlick, O'Neil, 1996). A full run computes one file from the whole
master dataset. Both hold the same partials.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_layer.ingest import StartSpark
from trilayer_core.compute.grouping import Pass, merge_sql, plan, quoted
from trilayer_core.compute.parsing import REJECT
from trilayer_core.compute.rows import rows_made
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.stream import Rows, Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import OvertakenError
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.store import layout
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.intervals import Interval, intervals_after, intervals_below
from trilayer_core.store.master import Master
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Recomputed, Run
from trilayer_core.store.spark_files import write_files

logger = logging.getLogger("trilayer.batch")

GROWTH = 2
"""A file is merged with the one before it while that has at most this many times its rows."""


def recompute(catalog: Catalog, run: Run, store: Store, spark: StartSpark) -> Recomputed:
    """Computes every view: what was added, if the base has the view by this definition.

    Else all of it. Done once for a run.
    """
    Fence(store).check(run.token)
    done = recomputed_before(catalog, run, store)
    if done:
        return done
    # As they are before their code has run, which may fill caches that it holds.
    definitions = _definitions(catalog)
    base = Publications(store).in_force()
    failpoint("recompute.before-write")
    kinds: dict[str, str] = {}
    views: dict[str, Sequence[StoredFile]] = {}
    added: dict[str, Sequence[StoredFile]] = {}
    for stream in catalog.streams:
        incremental = not run.full and base is not None and is_continued(catalog, stream, base)
        kinds[stream.name] = "incremental" if incremental else "full"
        identity = run.topic_ids[stream.name]
        comparable = base is not None and is_continued(catalog, stream, base)
        published = base.streams[stream.name] if base and comparable else None
        if incremental and published is not None:
            history = Master(store, stream).chain_after(published.cut, published.topic_id)
        else:
            history = Master(store, stream).read_chain()
        chain = intervals_below(history, run.cuts[stream.name], identity)
        new = intervals_after(chain, published.cut, stream, published.topic_id) if published else []
        for pass_ in plan(catalog.views_of(stream)):
            if comparable:
                added |= _compute(pass_, new, run, store, spark, "added")
            if not incremental:
                views |= _compute(pass_, chain, run, store, spark, "full")
            elif base is not None:
                views |= _side_by_side(
                    pass_.views,
                    partial(_grown, base=base, added=added, run=run, store=store, spark=spark),
                )
        logger.info(
            "recomputed %s views of %s, %s",
            len(catalog.views_of(stream)),
            stream.name,
            kinds[stream.name],
        )
    result = Recomputed(base.version if base else None, definitions, kinds, views, added)
    failpoint("recompute.before-record")
    store.write_document(run.path("recompute"), result)
    failpoint("recompute.after-record")
    return result


def recomputed_before(catalog: Catalog, run: Run, store: Store) -> Recomputed | None:
    """What the run has recomputed, None where it hasn't.

    Raises OvertakenError where that was by other definitions than the catalog's.
    """
    if not store.exists(run.path("recompute")):
        return None
    found = store.read_document(run.path("recompute"), Recomputed)
    changed = {name for name, _ in found.definitions.items() ^ _definitions(catalog).items()}
    if changed:
        raise OvertakenError(
            "a run must end with the definitions it was recomputed by;"
            f" {', '.join(sorted(changed))} changed since; run `trilayer batch run`, or clear the"
            " whole run in Airflow"
        )
    return found


def _definitions(catalog: Catalog) -> dict[str, str]:
    return {view.name: view.fingerprint for view in catalog.views}


def is_continued(catalog: Catalog, stream: Stream, base: Publication) -> bool:
    """Whether the publication has the stream's views, all of them, by the same definitions."""
    published = base.streams.get(stream.name)
    return (
        published is not None
        and published.fingerprint == stream.fingerprint
        and all(
            v.name in base.views and base.views[v.name].fingerprint == v.fingerprint
            for v in catalog.views_of(stream)
        )
    )


def rows_of(
    pass_: Pass, intervals: Sequence[Interval], store: Store, spark: StartSpark
) -> DataFrame | None:
    """The pass's rows in the master dataset, digests checked first; None where there are none."""
    files = [file for interval in intervals for file in interval.files]
    if not files:
        return None
    store.check_all(files)
    rows = (
        spark()
        .read.parquet(*(store.uri(file.path) for file in files))
        .where(F.col(REJECT).isNull())
    )
    if isinstance(pass_.source, Rows):
        return rows_made(pass_.source, rows)
    return rows


def _compute(
    pass_: Pass, intervals: Sequence[Interval], run: Run, store: Store, spark: StartSpark, kind: str
) -> dict[str, Sequence[StoredFile]]:
    rows = rows_of(pass_, intervals, store, spark)
    if rows is None:
        return {view.name: [] for view in pass_.views}
    result = pass_.run(rows).persist()
    try:
        return _side_by_side(
            pass_.views, lambda view: _write(pass_.slice_of(view, result), view, run, store, kind)
        )
    finally:
        result.unpersist()


def _side_by_side(
    views: Sequence[View], work: Callable[[View], Sequence[StoredFile]]
) -> dict[str, Sequence[StoredFile]]:
    """By view, what `work` returns. Most of a small Spark job is waiting for the driver."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip((view.name for view in views), pool.map(work, views), strict=True))


def _grown(
    view: View,
    *,
    base: Publication,
    added: Mapping[str, Sequence[StoredFile]],
    run: Run,
    store: Store,
    spark: StartSpark,
) -> Sequence[StoredFile]:
    """The files of the base and the added ones, merged where they are small.

    Files at the end are merged while each is not much larger than what follows it.
    """
    before, new = base.views[view.name].files, added[view.name]
    if not new:
        return before
    kept, tail = list(before), list(new)
    while kept and kept[-1].rows <= GROWTH * sum(file.rows for file in tail):
        tail.insert(0, kept.pop())
    if len(tail) == len(new):
        return [*kept, *new]
    store.check_all(tail)
    partials = spark().read.parquet(*(store.uri(file.path) for file in tail))
    return [*kept, *_write(merge(view, partials), view, run, store, "merged")]


def merge(view: View, partials: DataFrame) -> DataFrame:
    """Partials of `view`, merged by key in Spark."""
    states = [
        F.expr(merge_sql(column, state, "spark")).alias(column)
        for column, state in view.states.items()
    ]
    return partials.groupBy(*(quoted(key.name) for key in view.keys)).agg(*states)


def _write(
    partials: DataFrame, view: View, run: Run, store: Store, kind: str
) -> Sequence[StoredFile]:
    # A folder of its own for each attempt: what a killed one has begun may still be written to on a
    # server or a cluster.
    folder = layout.partials(view.name, run.token, kind, uuid4().hex[:6])
    return write_files(partials, folder, store)
