"""Compaction: merges many small commits into one that covers the same offsets.

The wide commit is written before the narrow ones are deleted, and readers use the widest, so that a
reader sees every event exactly once at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from speed_layer.segments import fit_quarantine
from trilayer_core.compute.merging import create_table_sql, insert_rows, merge_select, open_duckdb
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.seam import Cut, Range, tick_of
from trilayer_core.store import layout
from trilayer_core.store.continuity import NOTHING_READ
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval
from trilayer_core.store.master import Master
from trilayer_core.store.runs import Runs
from trilayer_core.store.segments import TICK, Commit, Segment, read_partials

logger = logging.getLogger("trilayer.speed")

RECENT_MS = 30_000
"""Commits of an open tick are not compacted for this long.

A reader that queries within that time continues with the next commit.
"""


def merge_partials(view: View, run: Sequence[Commit], path: str, store: Store) -> StoredFile | None:
    """Merges the view's partials in these commits by tick and key into the file at that path.

    Returns None if they have none.
    """
    # One thread, because micro-batches need the processors at the same time.
    with open_duckdb(threads=1) as connection:
        connection.execute(create_table_sql("partials", view, [f"{TICK} BIGINT"]))
        for commit in run:
            table = read_partials(
                store, commit, view, frozenset(segment.tick for segment in commit.segments)
            )
            if table is not None:
                insert_rows(connection, "partials", table)
        merged = connection.sql(merge_select(view, ["partials"], [TICK])).to_arrow_table()
    return store.write_table(path, merged) if merged.num_rows else None


def compact(
    of_stream: Generations,
    views: Sequence[View],
    generation: str,
    at_least: int,
    *,
    recent_ms: int = RECENT_MS,
    merge: Callable[[View, Sequence[Commit], str, Store], StoredFile | None] = merge_partials,
) -> Commit | None:
    """Merges neighbouring commits of similar size once there are `at_least` of them.

    A commit is merged with others of the same level, where levels are powers of `at_least` in the
    number of micro-batches. Of n micro-batches each is thus rewritten log(n) times, and few commits
    remain. Commits of closed ticks are merged as soon as there are enough of them; a tick is closed
    when a later commit has a later tick. `_groups` decides what can be merged in an open tick. The
    newest commit is never merged, because Spark may replay its micro-batch.

    Args:
        of_stream: The generations of the stream.
        views: The views that the generation computes.
        generation: Its name.
        at_least: The number of commits of similar size that are merged.
        recent_ms: Commits of an open tick are merged only if they are older than the newest commit
            by this time.
        merge: Merges the partials of a view, as `merge_partials` does.

    Returns:
        The wide commit, or None if there was nothing to merge.

    Raises:
        CoverageError: The ranges of two commits to be merged are not contiguous. `_groups`
            separates such commits, so this would be a bug; nothing is written.
    """
    stream, store = of_stream.stream, of_stream.store
    commits = of_stream.commits(generation)
    if len(commits) <= at_least:
        return None
    run: list[Commit] = []
    for group in _groups(of_stream, generation, commits, recent_ms):
        run = run or _of_like_size(group, at_least)
    if not run:
        return None
    segments = _segments(stream, run)
    failpoint("compaction.before-write")
    first, last = run[0].first, run[-1].last
    try:
        files = {
            view.name: file
            for view in views
            if (
                file := merge(
                    view, run, layout.segment(stream, generation, first, last, view.name), store
                )
            )
        }
        quarantine = _quarantine(
            run, layout.segment(stream, generation, first, last, "_quarantine"), store
        )
        marks = NOTHING_READ.and_of(run).marks
        wide = Commit(first, last, segments, files, quarantine, run[-1].committed_ms, marks)
        failpoint("compaction.before-commit")
        # Flushed to the disk, unlike the commits of micro-batches: what it replaces is deleted
        # next.
        of_stream.write_commit(generation, wide)
    except Exception:
        # The next attempt comes soon and covers more micro-batches, under other file names, so
        # these files would accumulate.
        if not of_stream.has_commit(generation, first, last):
            for name in (*(view.name for view in views), "_quarantine"):
                store.delete(layout.segment(stream, generation, first, last, name))
        raise
    failpoint("compaction.before-delete")
    for commit in run:
        of_stream.delete_commit(generation, commit)
    logger.debug(
        "stream %s: %s commits compacted into one at %s", stream.name, len(run), store.clock()
    )
    return wide


def _of_like_size(group: Sequence[Commit], at_least: int) -> list[Commit]:
    """The first series of neighbours that contains `at_least` commits of one level.

    None of them has a higher level; lower levels are considered first.
    """
    levels = [_level(commit, at_least) for commit in group]
    for level in sorted(set(levels)):
        start = 0
        for end in range(len(group) + 1):
            if end < len(group) and levels[end] <= level:
                continue
            places = [place for place in range(start, end) if levels[place] == level]
            if len(places) >= at_least:
                return list(group[places[0] : places[-1] + 1])
            start = end + 1
    return []


def _level(commit: Commit, at_least: int) -> int:
    """The exponent of the highest power of `at_least` within the number of micro-batches.

    It is 0 for one micro-batch, else at least 1.
    """
    level, width = 0, at_least
    while commit.last - commit.first + 1 >= width:
        level, width = level + 1, width * at_least
    return max(level, 1) if commit.last > commit.first else 0


def _groups(
    of_stream: Generations, generation: str, commits: Sequence[Commit], recent_ms: int
) -> list[list[Commit]]:
    """Groups of neighbouring commits that may be merged with one another.

    No merged segment may lie across a cut that is recorded now or later.

    A known cut, up to which an interval was ingested or which a run has chosen, separates the
    commits on either side.

    A future cut has a T later than all known ones, and lies at or above what was read before T: it
    is the first record stamped at or after T, or the end of the log at a moment after T. It never
    falls into a closed tick, as long as stamps increase with offsets. In an open tick it may fall
    between what was committed before T and what was committed after it, for each T on the grid.
    Commits that were committed in different ticks are therefore kept apart until a cut of a later T
    is known.
    """
    *due, newest = commits
    open_ticks = {segment.tick for segment in newest.segments}
    first_open = next((i for i, c in enumerate(due) if _ticks(c) & open_ticks), len(due))
    record, now = of_stream.read(generation), of_stream.store.clock()
    cuts = _recorded_cuts(of_stream, record.origin_id, commits)
    # A T later than now comes from a clock that was ahead; earlier ones may still be chosen.
    newest_t = max((t_ms for t_ms, _ in cuts if t_ms <= now), default=0)
    groups: list[list[Commit]] = [[]]
    sides: dict[int, list[set[str]]] = {}
    ends: dict[tuple[int, int], int] = {}
    before: int | None = None
    for place, commit in enumerate(due):
        slot = None
        if place >= first_open:
            if record.tick_ms is None or newest.committed_ms - commit.committed_ms < recent_ms:
                break
            slot = tick_of(max(commit.committed_ms, newest_t), record.tick_ms)
        sides_of = {s.tick: [_sides(s, cut) for _, cut in cuts] for s in commit.segments}
        divided = any(sides_of[tick] != sides[tick] for tick in sides_of.keys() & sides.keys())
        ranges = [(s.tick, p, r) for s in commit.segments for p, r in s.ranges.items()]
        apart = any(ends.get((tick, p), r.start) != r.start for tick, p, r in ranges)
        if groups[-1] and (divided or apart or slot != before):
            groups.append([])
            sides, ends = {}, {}
        groups[-1].append(commit)
        sides |= sides_of
        ends |= {(tick, p): r.end for tick, p, r in ranges}
        before = slot
    return groups


def _recorded_cuts(
    of_stream: Generations, origin_id: str, commits: Sequence[Commit]
) -> list[tuple[int, Cut]]:
    """The T and the cut of recorded runs and of the newest intervals.

    The intervals are those that end above the beginning of the commits.

    A recorded run may not have ingested yet, so that no interval has its cut.
    """
    begin: dict[int, int] = {}
    for segment in (segment for commit in commits for segment in commit.segments):
        for partition, r in segment.ranges.items():
            begin[partition] = min(r.start, begin.get(partition, r.start))
    back_to: Callable[[Interval], bool] = lambda interval: all(  # noqa: E731
        interval.end.get(partition, 0) <= offset for partition, offset in begin.items()
    )
    stream, store = of_stream.stream, of_stream.store
    cuts = list(Master(store, stream).recorded_cuts(back_to=back_to, identity=origin_id).items())
    runs = Runs(store)
    for run in filter(None, map(runs.begun, runs.tokens())):
        if run.origin_ids.get(stream.name) == origin_id:
            cuts.append((run.t_ms, run.cuts[stream.name]))
    return cuts


def _sides(segment: Segment, cut: Cut) -> set[str]:
    """The sides of the cut on which the segment lies."""
    return {
        "below" if r.end <= cut.get(p, 0) else "above" if r.start >= cut.get(p, 0) else "across"
        for p, r in segment.ranges.items()
        if len(r)
    }


def _ticks(commit: Commit) -> set[int]:
    return {segment.tick for segment in commit.segments}


def _quarantine(run: Sequence[Commit], path: str, store: Store) -> StoredFile | None:
    files = [commit.quarantine for commit in run if commit.quarantine]
    events = sum(file.rows for file in files)
    tables = [fit_quarantine(store.read_table(file), events) for file in files]
    return store.write_table(path, pa.concat_tables(tables)) if tables else None


def _segments(stream: Stream, run: Sequence[Commit]) -> list[Segment]:
    """One segment per tick, which combines the ranges of all of them."""
    by_tick: dict[int, list[Segment]] = {}
    for commit in run:
        for segment in commit.segments:
            by_tick.setdefault(segment.tick, []).append(segment)
    return [
        Segment(
            tick,
            _joined(stream, segments),
            sum(s.events for s in segments),
            sum(s.quarantined for s in segments),
            min((s.oldest_ms for s in segments if s.oldest_ms is not None), default=None),
            max((s.newest_ms for s in segments if s.newest_ms is not None), default=None),
            max((s.waited_ms for s in segments if s.waited_ms is not None), default=None),
        )
        for tick, segments in sorted(by_tick.items())
    ]


def _joined(stream: Stream, segments: Sequence[Segment]) -> Mapping[int, Range]:
    joined: dict[int, Range] = {}
    for segment in segments:
        for partition, r in segment.ranges.items():
            before = joined.get(partition)
            if before is not None and r.start != before.end:
                raise CoverageError(
                    f"stream {stream.name!r} partition {partition}: a segment to be compacted has"
                    f" offsets [{r.start}, {r.end}), but the one before it in its tick ends at"
                    f" offset {before.end}; rebuild the speed layer: `trilayer speed run --rebuild`"
                )
            joined[partition] = Range(before.start if before else r.start, r.end)
    return joined
