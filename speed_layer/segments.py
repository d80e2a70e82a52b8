"""Computes and writes the segments of a micro-batch: the partials of all views, by tick."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from speed_layer.reading import Written
from trilayer_core.compute.grouping import EVENTS, NEWEST, OLDEST, SET, Pass
from trilayer_core.compute.parsing import FITS, LOG_COLUMNS, REJECT, kafka_sql, parse_sql
from trilayer_core.compute.rows import rows_made
from trilayer_core.definitions.stream import Rows, Stream
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.seam import RangesByTick, size
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.segments import BYTES, SHORTEST_REASON, TICK, Segment, with_bytes
from trilayer_core.store.tables import table_frames

MAX_TICKS = 64
"""The most ticks that one pass distinguishes.

Their boundaries are part of an expression.
"""

FEW_EVENTS = 20_000
"""Up to this many events are processed by one task.

This saves the shuffle and most of the scheduling of a micro-batch.
"""

PLACE = "_place"
"""The column with the index of a row's tick among the ticks of a pass."""

SLOT = "_slot"
"""The column with twice that index, plus one if the row does not fit its schema."""

STAMP = "_timestamp"
"""The column with the broker's append time."""

QUARANTINE_BYTES = 64 * 2**20
"""The most bytes of values, and of keys, that a commit stores of events that do not fit the schema.

They pass through the driver's memory, and a micro-batch may have a million such events of a
megabyte each. The log and the master dataset have them in full.
"""


_THREADS = ThreadPoolExecutor(4, thread_name_prefix="pass")
"""They are kept from one micro-batch to the next, because each has a connection to the JVM."""


_Census = dict[int, tuple[int, int, int, int]]
"""The number of events of each tick, that of quarantined ones, and their first and last append
time, in ms."""

_PassResults = tuple[list[tuple[Pass, pa.Table]], _Census]
"""Results of passes, and the census of ticks."""


def write_segments(
    records: DataFrame,
    parts: RangesByTick,
    stream: Stream,
    passes: list[Pass],
    path_of: Callable[[str], str],
    store: Store,
) -> Written:
    """Computes and writes the segments of one micro-batch.

    If it is called again before the commit, it overwrites its files; after the commit it must not
    be called.

    Args:
        records: The records as Spark's Kafka source returns them.
        parts: The offsets of each tick.
        stream: The stream.
        passes: The passes that compute its views.
        path_of: Returns the path of the file with a view's partials, by its name.
        store: The store.
    """
    view = f"_records_{stream.name}"
    columns = [name for name in LOG_COLUMNS if name != "_headers"]
    spark = records.sparkSession
    few = sum(size(ranges) for ranges in parts.values()) <= FEW_EVENTS
    # No more tasks than can run in parallel, because each task creates its own group for every key.
    records.coalesce(1 if few else spark.sparkContext.defaultParallelism).createOrReplaceTempView(
        view
    )
    raw = f"(SELECT {', '.join(kafka_sql(columns))} FROM {view})"
    parsed = f"({parse_sql(stream, raw, columns, reasons=False)})"
    of_rows = any(isinstance(pass_.source, Rows) for pass_ in passes)
    # Few events of a tick or two are read and parsed again by each pass. This takes less time than
    # to keep them.
    at_once = few and len(parts) <= 2
    cached: DataFrame | None = None
    if len(parts) > MAX_TICKS or (of_rows and not at_once):
        cached = spark.sql(parse_sql(stream, raw, columns)).persist()
        cached.createOrReplaceTempView(view)
        parsed = view
    try:
        tables, census = _compute(spark, parsed, parts, passes, store, at_once=at_once)
        rejected = None
        if bad := sum(quarantined for _, quarantined, _, _ in census.values()):
            with_reasons = view if cached is not None else f"({parse_sql(stream, raw, columns)})"
            rejected = _rejected(spark, with_reasons, parts, columns, bad)
    finally:
        if cached is not None:
            cached.unpersist()
    failpoint("segment.before-write")

    def write(name: str, table: pa.Table) -> StoredFile:
        return store.write_table(path_of(name), table, durable=False)

    files = {name: write(name, table) for name, table in tables.items() if table.num_rows}
    quarantine = write("_quarantine", rejected) if rejected is not None else None
    # A tick that is not in the census has offsets without records, such as a transaction's markers.
    segments = [
        Segment(tick, ranges, *census.get(tick, (0, 0, None, None)))
        for tick, ranges in parts.items()
    ]
    return Written(segments, files, quarantine)


def _compute(
    spark: SparkSession,
    parsed: str,
    parts: RangesByTick,
    passes: list[Pass],
    store: Store,
    *,
    at_once: bool,
) -> tuple[dict[str, pa.Table], _Census]:
    """The partials of each view, and the census of each tick.

    If the passes run at once, Spark plans one while the task of another works.
    """
    tables: dict[str, list[pa.Table]] = {view.name: [] for pass_ in passes for view in pass_.views}
    census: _Census = {}
    of_events = [pass_ for pass_ in passes if isinstance(pass_.source, Stream)]
    of_rows = [pass_ for pass_ in passes if isinstance(pass_.source, Rows)]
    for some in _batched(parts):
        placed = _placed(parsed, some, parts)
        jobs: list[Callable[[], _PassResults]] = [
            partial(_of_events, spark, placed, some, of_events),
            *(partial(_of_rows, spark, placed, some, pass_, store) for pass_ in of_rows),
        ]
        if at_once and len(jobs) > 1:
            futures = [_THREADS.submit(job) for job in jobs]
            # For all of them even if one fails: Spark repeats a micro-batch that has failed, while
            # the passes of this attempt would still be at work.
            wait(futures)
            results = [future.result() for future in futures]
        else:
            results = [job() for job in jobs]
        for tables_of_passes, counted in results:
            census |= counted
            for pass_, result in tables_of_passes:
                _slice(pass_, result, tables)
    return {name: pa.concat_tables(batches) for name, batches in tables.items()}, census


def _of_events(
    spark: SparkSession, placed: str, some: RangesByTick, passes: list[Pass]
) -> _PassResults:
    """The result of the pass over the stream's events, if there is one, and the census."""
    for pass_ in passes:  # one at most
        result = _collect(spark.sql(pass_.sql(placed, SLOT, STAMP)), some)
        return [(pass_, result)], _census(result.filter(pc.equal(result[SET], 0)))
    columns = f"count(1) AS {EVENTS}, min({STAMP}) AS {OLDEST}, max({STAMP}) AS {NEWEST}"
    counts = spark.sql(f"SELECT {SLOT}, {columns} FROM {placed} GROUP BY {SLOT}")
    return [], _census(_collect(counts, some))


def _of_rows(
    spark: SparkSession, placed: str, some: RangesByTick, pass_: Pass, store: Store
) -> _PassResults:
    """The results of the pass over what a function makes of events, one for each tick."""
    assert isinstance(pass_.source, Rows)
    joined = table_frames(store, pass_.source, spark, keep=True)
    results = []
    for place in range(len(some)):
        events = spark.sql(f"SELECT * FROM {placed} WHERE {PLACE} = {place} AND {FITS}")
        made = rows_made(pass_.source, events, joined).withColumn(SLOT, F.lit(2 * place))
        results.append((pass_, _collect(pass_.run(made, SLOT), some)))
    return results, {}


def _placed(parsed: str, some: RangesByTick, parts: RangesByTick) -> str:
    """A SELECT, in brackets, of the parsed rows in `some` of the micro-batch's `parts`.

    It adds their place and slot. The boundaries of ticks are passed as arrays with as few different
    numbers as possible: Spark compiles individual numbers into its code, which would then be new,
    and slow, with each tick.
    """
    ticks = list(some.values())
    number = max(2, 1 << (len(ticks) - 1).bit_length())
    partitions = range(1 + max(p for ranges in parts.values() for p in ranges))
    first = [min((r[p].start for r in ticks if p in r), default=0) for p in partitions]
    ends = [list(first)]
    for ranges in ticks:
        ends.append([ranges[p].end if p in ranges else end for p, end in enumerate(ends[-1])])
    ends += [ends[-1]] * (number - len(ticks))
    before, *cases = [
        f"WHEN _offset < array({', '.join(f'{end}L' for end in some)})[_partition]" for some in ends
    ]
    numbered = " ".join(f"{case} THEN {place}" for place, case in enumerate(cases))
    placed = f"SELECT *, CASE {before} THEN NULL {numbered} END AS {PLACE} FROM {parsed}"
    return (
        f"(SELECT *, 2 * {PLACE} + IF({FITS}, 0, 1) AS {SLOT} FROM ({placed}) WHERE {PLACE} IS NOT"
        " NULL)"
    )


def _collect(rows: DataFrame, some: RangesByTick) -> pa.Table:
    """The rows as Arrow, with their tick and whether they fit instead of their slot."""
    table = rows.toArrow()
    slots = table[SLOT].combine_chunks()
    ticks = pa.array(list(some), pa.int64()).take(pc.shift_right(slots, 1))
    table = table.set_column(table.schema.get_field_index(SLOT), TICK, ticks)
    return table.append_column(FITS, pc.equal(pc.bit_wise_and(slots, 1), 0))


def _slice(pass_: Pass, result: pa.Table, tables: dict[str, list[pa.Table]]) -> None:
    fitting = result.filter(result[FITS])
    for view in pass_.views:
        tables[view.name].append(pass_.arrow_slice_of(view, fitting, (TICK,)))


def _census(table: pa.Table) -> _Census:
    """The census of each tick, from groups of its events."""
    stamps = {
        # Spark has microseconds. Kafka's stamps are whole milliseconds, so nothing is lost.
        name: pc.cast(table[name], pa.timestamp("ms", "UTC"), safe=False)
        for name in (OLDEST, NEWEST)
    }
    groups = pa.table(
        {TICK: table[TICK], EVENTS: table[EVENTS], "bad": pc.if_else(table[FITS], 0, table[EVENTS])}
        | {name: column.cast(pa.int64()) for name, column in stamps.items()}
    )
    totals = groups.group_by(TICK).aggregate(
        [(EVENTS, "sum"), ("bad", "sum"), (OLDEST, "min"), (NEWEST, "max")]
    )
    return {
        row[TICK]: (
            row[f"{EVENTS}_sum"],
            row["bad_sum"],
            row[f"{OLDEST}_min"],
            row[f"{NEWEST}_max"],
        )
        for row in totals.to_pylist()
    }


def _rejected(
    spark: SparkSession, parsed: str, parts: RangesByTick, columns: list[str], bad: int
) -> pa.Table:
    """The `bad` events that do not fit the schema, with their reasons.

    Each value is truncated to its share of what may be stored.
    """
    share = quarantine_share(bad)
    cut = {"_value": f"substring(_value, 1, {share})", "_key": f"substring(_key, 1, {share})"}
    shown = [f"{cut[name]} AS {name}" if name in cut else name for name in columns]
    reason = f"substring({REJECT}, 1, {max(share // 4, SHORTEST_REASON)}) AS {REJECT}"
    wanted = ", ".join([SLOT, *shown, f"cast(octet_length(_value) AS bigint) AS {BYTES}", reason])
    return pa.concat_tables(
        _collect(
            spark.sql(f"SELECT {wanted} FROM {_placed(parsed, some, parts)} WHERE NOT {FITS}"), some
        )
        for some in _batched(parts)
    ).drop_columns([FITS])


def quarantine_share(events: int) -> int:
    """The bytes of its value that each of `events` quarantined events may store.

    It is a power of two, because Spark compiles the number into its code, which would otherwise be
    new, and slow, for each number of events.
    """
    return 1 << (max(QUARANTINE_BYTES // events, 1).bit_length() - 1)


def fit_quarantine(table: pa.Table, events: int) -> pa.Table:
    """The rows of a quarantine as they are stored together with others, `events` in total.

    Each is truncated to the share that this leaves.
    """
    table = with_bytes(table)
    share = quarantine_share(events)
    for column in ("_value", "_key"):
        place = table.schema.get_field_index(column)
        table = table.set_column(place, column, pc.binary_slice(table[column], 0, share))
    return table


def _batched(parts: RangesByTick) -> Iterator[RangesByTick]:
    ticks = list(parts)
    for start in range(0, len(ticks), MAX_TICKS):
        yield {tick: parts[tick] for tick in ticks[start : start + MAX_TICKS]}
