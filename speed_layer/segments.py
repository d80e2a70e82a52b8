"""From a micro-batch to its committed segment: partials of all views by tick, then one commit file that makes them count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from trilayer.cut import Range
from trilayer.events import FITS, LOG_COLUMNS, REJECT, log_columns, parse
from trilayer.failpoints import failpoint
from trilayer.log import now_ms
from trilayer.partials import EVENTS, SET, Pass
from trilayer.segment import TICK, Commit, Generation, Segment, commit_path, folder
from trilayer.store import Store, StoredFile
from trilayer.stream import Rows, Stream

MAX_TICKS = 64
"""Most ticks that one pass tells apart: their boundaries go into an expression."""

Parts = Mapping[int, Mapping[int, Range]]
"""Tick to partition to offsets."""


def write_segment(
    records: DataFrame,
    batch_id: int,
    parts: Parts,
    stream: Stream,
    passes: list[Pass],
    generation: Generation,
    store: Store,
) -> Commit:
    """Computes and commits one micro-batch. Running it again before the commit overwrites what it wrote; after it, it must not be called."""
    parsed = parse(log_columns(records), stream)
    again = len(parts) > MAX_TICKS or any(isinstance(pass_.source, Rows) for pass_ in passes)
    if again:
        parsed = parsed.persist()
    try:
        tables, census = _compute(parsed, parts, passes)
        rejected = _rejected(parsed, parts) if sum(bad for _, bad in census.values()) else None
    finally:
        if again:
            parsed.unpersist()
    failpoint("segment.before-write")
    files = {
        name: _write(name, table, batch_id, stream, generation, store)
        for name, table in tables.items()
        if table.num_rows
    }
    quarantine = (
        _write("_quarantine", rejected, batch_id, stream, generation, store) if rejected is not None else None
    )
    segments = [Segment(tick, ranges, *census.get(tick, (0, 0))) for tick, ranges in parts.items()]
    commit = Commit(batch_id, batch_id, segments, files, quarantine, now_ms())
    failpoint("segment.before-commit")
    store.create_document(
        commit_path(stream, generation.name, batch_id, batch_id), commit.to_json(), durable=False
    )
    failpoint("segment.after-commit")
    return commit


def _compute(
    parsed: DataFrame, parts: Parts, passes: list[Pass]
) -> tuple[dict[str, pa.Table], dict[int, tuple[int, int]]]:
    """Per view its partials by tick; per tick the number of events and of those that don't fit."""
    tables: dict[str, list[pa.Table]] = {view.name: [] for pass_ in passes for view in pass_.views}
    census: dict[int, tuple[int, int]] = {}
    for some in _batched(parts):
        ticked = parsed.withColumn(TICK, _tick_of(some))
        if len(some) < len(parts):
            ticked = ticked.where(F.col(TICK).isNotNull())
        counted = False
        for pass_ in passes:
            if isinstance(pass_.source, Rows):
                for tick in some:
                    rows = ticked.where((F.col(TICK) == tick) & F.col(FITS)).select(*stream_columns(pass_))
                    made = pass_.source.rows(rows).withColumn(TICK, F.lit(tick).cast("bigint"))
                    _slice(pass_, pass_.run(made, (TICK,)).toArrow(), tables)
                continue
            result = pass_.run(ticked, (TICK, FITS)).toArrow()
            if not counted:
                census |= _census(result.filter(pc.equal(result[SET], 0)), EVENTS)
                counted = True
            _slice(pass_, result.filter(result[FITS]), tables)
        if not counted:
            grouped = ticked.groupBy(TICK, FITS).agg(F.count(F.lit(1)).alias(EVENTS)).toArrow()
            census |= _census(grouped, EVENTS)
    return {name: pa.concat_tables(found) for name, found in tables.items()}, census


def stream_columns(pass_: Pass) -> list[str]:
    return list(pass_.source.stream.columns)


def _slice(pass_: Pass, result: pa.Table, tables: dict[str, list[pa.Table]]) -> None:
    for view in pass_.views:
        tables[view.name].append(pass_.arrow_slice_of(view, result, (TICK,)))


def _census(table: pa.Table, count: str) -> dict[int, tuple[int, int]]:
    census: dict[int, tuple[int, int]] = {}
    for tick, fits, number in zip(
        table[TICK].to_pylist(), table[FITS].to_pylist(), table[count].to_pylist(), strict=True
    ):
        events, bad = census.get(tick, (0, 0))
        census[tick] = (events + number, bad + (0 if fits else number))
    return census


def _rejected(parsed: DataFrame, parts: Parts) -> pa.Table:
    tables = [
        parsed.withColumn(TICK, _tick_of(some)).where(~F.col(FITS) & F.col(TICK).isNotNull())
        .select(TICK, *(c for c in LOG_COLUMNS if c in parsed.columns), REJECT).toArrow()
        for some in _batched(parts)
    ]  # fmt: skip
    return pa.concat_tables(tables)


def _batched(parts: Parts) -> Iterator[Parts]:
    ticks = list(parts)
    for start in range(0, len(ticks), MAX_TICKS):
        yield {tick: parts[tick] for tick in ticks[start : start + MAX_TICKS]}


def _tick_of(parts: Parts) -> Column:
    """The tick of a row, by its partition and offset; NULL for a row in none of `parts`."""
    by_partition: dict[int, list[tuple[Range, int]]] = {}
    for tick, ranges in parts.items():
        for partition, r in ranges.items():
            by_partition.setdefault(partition, []).append((r, tick))
    column = F.lit(None).cast("bigint")
    for partition, found in by_partition.items():
        of_partition = F.lit(None).cast("bigint")
        for r, tick in reversed(found):
            inside = (F.col("_offset") >= r.start) & (F.col("_offset") < r.end)
            of_partition = F.when(inside, F.lit(tick).cast("bigint")).otherwise(of_partition)
        column = F.when(F.col("_partition") == partition, of_partition).otherwise(column)
    return column


def _write(
    name: str, table: pa.Table, batch_id: int, stream: Stream, generation: Generation, store: Store
) -> StoredFile:
    path = f"{folder(stream, generation.name)}/data/{batch_id:012d}-{batch_id:012d}-{name}.parquet"
    return store.write_table(path, table, durable=False)
