"""The records of one stream, each parsed again from its bytes, and their counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_layer.engine import StartSpark
from trilayer.operations.verification.findings import Notes
from trilayer.operations.verification.state import StreamState
from trilayer_core.compute.parsing import FITS, LOG_COLUMNS, REJECT, log_columns, parse
from trilayer_core.definitions.aggregates.base import POSITION
from trilayer_core.runtime.kafka_source import read_log
from trilayer_core.seam import Ranges, size

FEW_RECORDS = 20_000
"""Up to this many records are processed by one task.

This saves each job its shuffle and most of its scheduling.
"""

SLOT = "_slot"
"""The column with the recompute that a record belongs to.

It is 0 below the cut, a tick's number from 1 on above it, and negative for none.
"""

FILE = "_file"
"""The column with the end of the path of a record's file in the master dataset.

It is NULL for a record read from the log.
"""

SEGMENT = "_segment"
DIGEST = "_digest"
ORIGIN = "_origin"
STORED = "_stored"
ALTERED = "_altered"
REJECTED = "_rejected"

CONTENT = "xxhash64(isnull(_key), _key, isnull(_value), _value, _timestamp, _headers)"
"""The SQL of a record's digest. Records with equal digests have the same content."""

_NUMBER = f"cast(substring({FILE}, 1, 8) AS int)"
"""The number of the interval to which a file belongs."""

_RAW = "concat(coalesce(sha2(_key, 256), ''), '/', coalesce(sha2(_value, 256), ''))"


@dataclass(frozen=True)
class Group:
    """The records of one partition in one file of the master dataset or one segment."""

    file: str | None
    segment: int | None
    partition: int
    counted: bool
    records: int
    unfit: int
    rejected: int
    low: int
    high: int
    oldest_ms: int
    newest_ms: int
    altered: int
    sample: Any


@dataclass(frozen=True)
class Records:
    """All records of one stream: those of the master dataset, and of the log above the cut.

    Attributes:
        start: Returns the Spark session, which it starts on the first call.
        rows: The records, parsed again and cached in Spark; None if there are none.
        groups: Their counts.
        few: Whether one task processes all of them.
    """

    start: StartSpark
    rows: DataFrame | None
    groups: Sequence[Group]
    few: bool

    @property
    def counted(self) -> DataFrame:
        """The records that are counted in a view."""
        assert self.rows is not None
        return self.rows.where(F.col(FITS) & (F.col(SLOT) >= 0))


def tasks(rows: DataFrame, few: bool) -> DataFrame:
    """Returns the rows in one task if there are few records, else in as many as Spark chooses."""
    return rows.coalesce(1) if few else rows


@contextmanager
def read_records(
    state: StreamState, above: Ranges, start: StartSpark, notes: Notes
) -> Iterator[Records]:
    """Reads all records: of the master dataset, and of the log in the ranges `above` the cut.

    Raises:
        IntegrityError: A file of the master dataset is missing or altered.
    """
    few = sum(interval.events for interval in state.chain) + size(above) <= FEW_RECORDS
    for interval in state.chain:
        state.project.store.check_all(interval.files)
    parsed = _parsed(state, above, start, few, notes)
    if parsed is None:
        yield Records(start, None, [], few)
        return
    rows = parsed.persist()
    try:
        yield Records(start, rows, _grouped(rows), few)
    finally:
        rows.unpersist()


def _parsed(
    state: StreamState, above: Ranges, start: StartSpark, few: bool, notes: Notes
) -> DataFrame | None:
    stream, settings, store = state.stream, state.project.settings, state.project.store
    frames: list[DataFrame] = []
    files = [file for interval in state.chain for file in interval.files]
    if files:
        rows = start().read.parquet(*(store.uri(file.path) for file in files))
        stored = ", ".join([REJECT, *(f"`{name}`" for name in stream.columns)])
        frames.append(
            rows.selectExpr(
                *LOG_COLUMNS,
                f"struct({stored}) AS {STORED}",
                f"regexp_extract(_metadata.file_path, '([^/]+/[^/]+)$') AS {FILE}",
                f"cast(NULL AS int) AS {SEGMENT}",
                "cast(NULL AS int) AS _tick_number",
            )
        )
    if above:
        read = read_log(start(), settings.bootstrap_servers, stream.topic, above)
        frames.append(_in_segments(state, log_columns(read), start()))
    if not frames:
        return None
    raw = tasks(
        reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), frames), few
    )
    altered, rejected = "cast(NULL AS string)", "cast(NULL AS boolean)"
    if STORED in raw.columns:
        altered, rejected = _altered_sql(state, notes), f"{STORED}.{REJECT} IS NOT NULL"
    return parse(raw, stream).selectExpr(
        *POSITION,
        "unix_millis(_timestamp) AS _stamp",
        FITS,
        FILE,
        SEGMENT,
        f"{altered} AS {ALTERED}",
        f"{rejected} AS {REJECTED}",
        f"IF({FITS}, NULL, {REJECT}) AS {REJECT}",
        f"IF({FITS}, NULL, {_RAW}) AS _raw",
        f"IF({FILE} IS NULL, NULL, {CONTENT}) AS {DIGEST}",
        f"{_slot_sql(state)} AS {SLOT}",
        f"{_origin_sql(state)} AS {ORIGIN}",
        *(f"`{name}`" for name in stream.columns),
    )


def _in_segments(state: StreamState, records: DataFrame, spark: SparkSession) -> DataFrame:
    """Adds the number of the segment and of its tick to records, by a join with the ranges."""
    tick_numbers = {tick: number for number, tick in enumerate(state.ticks, 1)}
    ranges = [
        (partition, r, number, tick_numbers[segment.tick])
        for number, (_, segment) in enumerate(state.segments)
        for partition, r in segment.ranges.items()
        if len(r)
    ]
    # Offsets are divided into steps. Equality of steps makes the join a hash look-up, with at most
    # about 100,000 rows.
    step = max(1, sum(len(r) for _, r, _, _ in ranges) // 100_000)
    rows = [
        (q, bucket, r.start, r.end, number, tick)
        for q, r, number, tick in ranges
        for bucket in range(r.start // step, (r.end - 1) // step + 1)
    ]
    names = ["_q", "_bucket", "_from", "_to", SEGMENT, "_tick_number"]
    types = [pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.int32(), pa.int32()]
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    looked_up = pa.table(
        {n: pa.array(list(c), t) for n, c, t in zip(names, columns, types, strict=True)}
    )
    joined = records.join(
        F.broadcast(spark.createDataFrame(looked_up)),
        F.expr(
            f"_partition = _q AND _offset DIV {step} = _bucket AND _offset >= _from AND"
            " _offset < _to"
        ),
        "left",
    )
    return joined.selectExpr(
        *LOG_COLUMNS, f"cast(NULL AS string) AS {FILE}", SEGMENT, "_tick_number"
    )


def _slot_sql(state: StreamState) -> str:
    # Passed as an array: Spark would compile new code for each cut if the numbers were literals.
    at = state.provenance
    partitions = range(1 + max([0, *at.cut, *at.head]))
    cut, head = (
        f"array({', '.join(f'{offsets.get(q, 0)}L' for q in partitions)})[_partition]"
        for offsets in (at.cut, at.head)
    )
    listed = f"_partition < {len(partitions)}"
    below = f"{_NUMBER} < {len(state.below)}"
    return (
        f"CASE WHEN {FILE} IS NOT NULL THEN IF({below}, 0, -1) WHEN NOT ({listed}) THEN -1 WHEN"
        f" _offset >= {cut} AND _offset < {head} THEN coalesce(_tick_number, -1) ELSE -1 END"
    )


def _origin_sql(state: StreamState) -> str:
    """Returns the number of origins before that of a record of the master dataset.

    Offsets of different origins can't be compared.
    """
    return " + ".join(["0", *(f"IF({_NUMBER} >= {number}, 1, 0)" for number in state.begun)])


def _altered_sql(state: StreamState, notes: Notes) -> str:
    """Returns the columns of the master dataset that differ from their bytes, parsed again.

    NULL if all are equal.
    """
    wrong = [f"IF({STORED}.{REJECT} <=> {REJECT}, NULL, 'the reason to quarantine it')"]
    for name, type_ in state.stream.columns.items():
        left, right = f"{STORED}.`{name}`", f"`{name}`"
        nested = any(kind in type_ for kind in ("struct", "array", "map"))
        if nested and any(kind in type_ for kind in ("timestamp", "date")):
            # A time without a date in a nested value depends on the day on which it is parsed.
            notes.not_compared.append(
                f"column {name!r} of the master dataset: times in nested values may be read"
                " otherwise another day"
            )
            continue
        if "map" in type_:
            left, right = f"cast({left} AS string)", f"cast({right} AS string)"
        wrong.append(f"IF({left} <=> {right}, NULL, '{name}')")
    return f"IF({STORED} IS NULL, NULL, nullif(concat_ws(', ', {', '.join(wrong)}), ''))"


def _grouped(rows: DataFrame) -> list[Group]:
    groups = rows.groupBy(FILE, SEGMENT, "_partition", (F.col(SLOT) >= 0).alias("_counted")).agg(
        F.count(F.lit(1)),
        F.count_if(~F.col(FITS)),
        F.count_if(F.col(REJECTED)),
        F.min("_offset"),
        F.max("_offset"),
        F.min("_stamp"),
        F.max("_stamp"),
        F.count(ALTERED),
        F.min(F.when(F.col(ALTERED).isNotNull(), F.struct("_offset", ALTERED))),
    )
    return [Group(*row) for row in groups.collect()]
