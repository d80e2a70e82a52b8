"""Compaction: the many small commits of ticks that are closed, merged into one that covers the same.

The wide commit is written first and the narrow ones deleted after it; a reader takes the widest, so that it meets every event once at any moment.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pyarrow as pa

from trilayer.cut import Range
from trilayer.failpoints import failpoint
from trilayer.log import now_ms
from trilayer.merging import create_table_sql, insert_rows, merge_select, open_duckdb
from trilayer.segment import TICK, Commit, Segment, commit_path, folder, read_commits, read_partials
from trilayer.store import Store, StoredFile
from trilayer.stream import Stream
from trilayer.view import View

logger = logging.getLogger("trilayer.speed")


def compact(
    store: Store, stream: Stream, views: Sequence[View], generation: str, at_least: int
) -> Commit | None:
    """Merges the commits of closed ticks once there are `at_least` small ones. Returns the wide commit, or None where nothing was due.

    A tick is closed when a later commit is of a later tick; the newest commit is never touched, since Spark may replay its micro-batch.
    """
    commits = read_commits(store, stream, generation)
    newest = {segment.tick for commit in commits[-1:] for segment in commit.segments}
    due: list[Commit] = []
    for commit in commits[:-1]:
        if any(segment.tick in newest for segment in commit.segments):
            break
        due.append(commit)
    narrow = [commit for commit in due if commit.first == commit.last]
    if len(narrow) < at_least:
        return None
    run = due[due.index(narrow[0]) : due.index(narrow[-1]) + 1]
    failpoint("compaction.before-write")
    first, last = run[0].first, run[-1].last
    data = f"{folder(stream, generation)}/data/{first:012d}-{last:012d}"
    try:
        files = {
            view.name: file
            for view in views
            if (file := _merged(store, view, run, f"{data}-{view.name}.parquet"))
        }
        quarantine = _quarantine(store, run, f"{data}-_quarantine.parquet")
        wide = Commit(first, last, _segments(run), files, quarantine, run[-1].committed_ms)
        failpoint("compaction.before-commit")
        store.create_document(commit_path(stream, generation, first, last), wide.to_json())
    except Exception:
        # It is tried again soon, over more micro-batches and so under another name: these files would add up.
        if not store.exists(commit_path(stream, generation, first, last)):
            for name in (*(view.name for view in views), "_quarantine"):
                store.delete(f"{data}-{name}.parquet")
        raise
    failpoint("compaction.before-delete")
    for commit in run:
        store.delete(commit_path(stream, generation, commit.first, commit.last))
        for file in [*commit.files.values(), *([commit.quarantine] if commit.quarantine else [])]:
            store.delete(file.path)
    logger.debug("stream %s: %s commits compacted into one at %s", stream.name, len(run), now_ms())
    return wide


def _merged(store: Store, view: View, run: Sequence[Commit], path: str) -> StoredFile | None:
    with open_duckdb(threads=1) as connection:
        connection.execute(create_table_sql("partials", view, [f"{TICK} BIGINT"]))
        for commit in run:
            table = read_partials(store, commit, view, frozenset(segment.tick for segment in commit.segments))
            if table is not None:
                insert_rows(connection, "partials", table)
        merged = connection.sql(merge_select(view, ["partials"], [TICK])).to_arrow_table()
    return store.write_table(path, merged) if merged.num_rows else None


def _quarantine(store: Store, run: Sequence[Commit], path: str) -> StoredFile | None:
    tables = [store.read_table(commit.quarantine) for commit in run if commit.quarantine]
    return store.write_table(path, pa.concat_tables(tables)) if tables else None


def _segments(run: Sequence[Commit]) -> list[Segment]:
    """One segment a tick, with the ranges of all of them put together."""
    by_tick: dict[int, list[Segment]] = {}
    for commit in run:
        for segment in commit.segments:
            by_tick.setdefault(segment.tick, []).append(segment)
    return [
        Segment(
            tick,
            _joined(found),
            sum(s.events for s in found),
            sum(s.quarantined for s in found),
            min((s.oldest_ms for s in found if s.oldest_ms is not None), default=None),
            max((s.newest_ms for s in found if s.newest_ms is not None), default=None),
            max((s.waited_ms for s in found if s.waited_ms is not None), default=None),
        )
        for tick, found in sorted(by_tick.items())
    ]


def _joined(segments: Sequence[Segment]) -> Mapping[int, Range]:
    joined: dict[int, Range] = {}
    for segment in segments:
        for partition, r in segment.ranges.items():
            known = joined.get(partition, r)
            joined[partition] = Range(min(known.start, r.start), max(known.end, r.end))
    return joined
