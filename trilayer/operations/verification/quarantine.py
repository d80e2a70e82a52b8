"""Compares the speed layer's quarantine with the records above the cut that do not fit."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from trilayer.operations.verification.findings import at_most
from trilayer.operations.verification.records import FILE, SEGMENT, Records
from trilayer.operations.verification.state import StreamState
from trilayer_core.compute.parsing import FITS, REJECT
from trilayer_core.store.segments import BYTES, SHORTEST_REASON, TICK, with_bytes

_KEPT = pa.schema(
    [
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", "UTC")),
        ("_key", pa.binary()),
        ("_value", pa.binary()),
        (REJECT, pa.string()),
        (TICK, pa.int64()),
        (BYTES, pa.int64()),
    ]
)

_FAULTS = f"""WITH k AS (
      SELECT _partition, _offset, any_value(epoch_ms(_timestamp)) AS _stamp,
        any_value({REJECT}) AS {REJECT}, any_value({TICK}) AS {TICK}, count(*) AS n,
        any_value(coalesce(sha256(_key), '') || '/' || coalesce(sha256(_value), ''))
          AS _raw,
        -- If many events do not fit, each keeps the beginning of its key, value and
        -- reason: as many bytes as a power of two.
        any_value(
          (octet_length(_value) BETWEEN {SHORTEST_REASON} AND {BYTES} - 1
            AND bit_count(octet_length(_value)) = 1)
          OR (octet_length(_key) >= {SHORTEST_REASON}
            AND bit_count(octet_length(_key)) = 1)) IS TRUE AS _cut
      FROM kept GROUP BY ALL)
    SELECT coalesce(t._partition, k._partition), coalesce(t._offset, k._offset), CASE
      WHEN k._offset IS NULL
        THEN 'does not fit (' || t.{REJECT} || ') and is not in the speed layer''s'
          || ' quarantine'
      WHEN t._offset IS NULL
        THEN 'is in the speed layer''s quarantine (' || k.{REJECT} || ') and fits, or'
          || ' is not there'
      WHEN k.n > 1 THEN 'is in the speed layer''s quarantine ' || k.n || ' times'
      WHEN t.{REJECT} IS DISTINCT FROM k.{REJECT}
          AND NOT (length(k.{REJECT}) >= {SHORTEST_REASON}
            AND starts_with(t.{REJECT}, k.{REJECT}))
        THEN 'is in the speed layer''s quarantine as ''' || k.{REJECT}
          || '''; it is ''' || t.{REJECT} || ''''
      WHEN t.{TICK} IS DISTINCT FROM k.{TICK}
        THEN 'is in the speed layer''s quarantine in another tick than its segment'
      WHEN (t._raw <> k._raw AND NOT k._cut) OR t._stamp <> k._stamp
        THEN 'has other bytes in the speed layer''s quarantine than in the log'
      END AS fault
    FROM there t FULL JOIN k ON t._partition = k._partition AND t._offset = k._offset
    WHERE fault IS NOT NULL ORDER BY ALL"""
"""The SQL that compares `there`, the records that do not fit, with `kept`, the quarantine."""


def check_quarantine(
    state: StreamState, records: Records, duck: duckdb.DuckDBPyConnection
) -> list[str]:
    """Checks that each record above the cut that does not fit is in quarantine once, unchanged."""
    if state.cover is None or records.rows is None:
        return []
    tables: list[pa.Table] = []
    for commit in state.cover.commits:
        ticks = state.ticks_of(commit)
        if commit.quarantine and ticks:
            table = state.project.store.read_table(commit.quarantine)
            tables.append(table.filter(pc.is_in(table[TICK], pa.array(sorted(ticks), pa.int64()))))
    if not tables and not any(g.unfit for g in records.groups if g.file is None):
        return []
    columns = ["_partition", "_offset", "_stamp", REJECT, "_raw", SEGMENT]
    there = records.rows.where(F.col(FILE).isNull() & ~F.col(FITS)).select(*columns).toArrow()
    ticks_there = [
        state.segments[number][1].tick if number is not None else None
        for number in there[SEGMENT].to_pylist()
    ]
    duck.register("there", there.append_column(TICK, pa.array(ticks_there, pa.int64())))
    kept = [with_bytes(table).select(_KEPT.names).cast(_KEPT) for table in tables]
    duck.register("kept", pa.concat_tables(kept) if kept else _KEPT.empty_table())
    return at_most(
        [
            f"partition {partition}: offset {offset} {fault}"
            for partition, offset, fault in duck.execute(_FAULTS).fetchall()
        ]
    )
