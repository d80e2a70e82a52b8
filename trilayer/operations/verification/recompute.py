"""Recomputes the views' partials from the records."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from trilayer.operations.verification.findings import Notes
from trilayer.operations.verification.records import SLOT, Records
from trilayer.operations.verification.state import StreamState
from trilayer_core.compute.grouping import Pass, partial_schema
from trilayer_core.compute.rows import rows_made
from trilayer_core.definitions.stream import Rows
from trilayer_core.definitions.view import View
from trilayer_core.store.segments import TICK
from trilayer_core.store.tables import table_frames

MOST_TICKS = 64
"""The maximum number of ticks for which a view over `Rows` is recomputed tick by tick.

Its function is called for each of them.
"""


@dataclass(frozen=True)
class Recomputed:
    """The recomputed partials of a view.

    Attributes:
        whole: Those of all records.
        batch: Those of the records below the cut.
        speed: Those of the records above it, with their tick.
        by_tick: Whether the ticks of `speed` are known; otherwise they are NULL.
    """

    whole: pa.Table
    batch: pa.Table
    speed: pa.Table
    by_tick: bool


def recompute(
    state: StreamState, records: Records, pass_: Pass, notes: Notes
) -> dict[str, Recomputed]:
    """Recomputes the partials of the pass's views.

    There are those of all records, of those below the cut, and tick by tick of those above it.
    """
    # The slot of all records together: one more than those below the cut and of ticks.
    whole = len(state.ticks) + 1
    by_tick = not isinstance(pass_.source, Rows) or len(state.ticks) <= MOST_TICKS
    if not by_tick:
        notes.not_compared.append(
            f"views on {pass_.source.name!r}: {len(state.ticks)} ticks above the cut were"
            " compared together, not one by one"
        )
    if records.rows is None:
        tables = [partial_schema(view, {SLOT: pa.int32()}).empty_table() for view in pass_.views]
    elif isinstance(pass_.source, Rows):
        store = state.project.store
        joined = table_frames(store, pass_.source, records.start())
        tables = _of_rows(records, pass_, pass_.source, joined, whole, by_tick)
    else:
        # Each record occurs twice: in the slot of its layer and tick, and in that of all records.
        rows = records.counted.withColumn(SLOT, F.explode(F.array(F.col(SLOT), F.lit(whole))))
        tables = _partials(pass_, rows, few=records.few)
    by_view = zip(pass_.views, tables, strict=True)
    return {view.name: _split(state, view, table, whole, by_tick) for view, table in by_view}


def _partials(pass_: Pass, rows: DataFrame, *, few: bool) -> list[pa.Table]:
    """Returns the partials of each view of the pass, with their part."""
    result = pass_.run(rows, SLOT)
    if few:
        table = result.toArrow()
        return [pass_.arrow_slice_of(view, table, (SLOT,)) for view in pass_.views]
    result = result.persist()
    try:
        # A small Spark job mostly waits for the driver.
        with ThreadPoolExecutor(max_workers=4) as pool:
            return list(
                pool.map(lambda v: pass_.slice_of(v, result, (SLOT,)).toArrow(), pass_.views)
            )
    finally:
        result.unpersist()


def _of_rows(
    records: Records,
    pass_: Pass,
    source: Rows,
    joined: Sequence[DataFrame],
    whole: int,
    by_tick: bool,
) -> list[pa.Table]:
    """As `_partials`, for a function of rows, which does not pass the slot through.

    It takes a job for each slot, and one for all records.
    """
    ticks = range(1, whole)
    # For each slot, the slots whose records it contains.
    members = {0: [0], **({tick: [tick] for tick in ticks} if by_tick else {})}
    if not by_tick:
        members[1] = list(ticks)
    members[whole] = list(range(whole))

    def tables(slot: int) -> list[pa.Table]:
        # An array is not part of the code that Spark compiles, which is then the same for all
        # parts.
        wanted = F.expr(f"array_contains(array({', '.join(map(str, members[slot]))}), {SLOT})")
        rows = rows_made(source, records.counted.where(wanted), joined)
        return [
            table.set_column(0, SLOT, pa.array([slot] * table.num_rows, pa.int32()))
            for table in _partials(pass_, rows.withColumn(SLOT, F.lit(0)), few=records.few)
        ]

    with ThreadPoolExecutor(max_workers=2) as pool:
        of_slots = list(pool.map(tables, members))
    return [pa.concat_tables(of_view) for of_view in zip(*of_slots, strict=True)]


def _split(
    state: StreamState, view: View, table: pa.Table, whole: int, by_tick: bool
) -> Recomputed:
    slot = table[SLOT]
    states = table.drop_columns([SLOT]).cast(partial_schema(view))
    above = pc.and_(pc.greater(slot, 0), pc.less(slot, whole))
    if by_tick and state.ticks:
        places = pc.subtract(slot.filter(above), 1)
        ticks = pa.array(state.ticks, pa.int64()).take(places)
    else:
        ticks = pa.nulls(pc.sum(above).as_py() or 0, pa.int64())
    return Recomputed(
        states.filter(pc.equal(slot, whole)),
        states.filter(pc.equal(slot, 0)),
        states.filter(above).add_column(0, TICK, ticks),
        by_tick,
    )
