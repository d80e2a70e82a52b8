"""Sessions over a million panes: questions over the whole view.

Two programs show how fast an answer could be. One is a plain GROUP BY of the panes in a native
DuckDB table, which does not assemble sessions: it is compared with a reader that merges on demand.
The other is a native table with the rows of the answer: it is compared with a reader that keeps
answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pyarrow as pa

import serving_layer
from benchmarks.figure import Figure, Options, ratios, say, seconds
from benchmarks.workload import ask_native, home
from benchmarks.written import Written
from trilayer import Stream, View, count, session, sum_
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.compute.merging import open_duckdb
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

PANES, PANES_OF_KEY, SEGMENTS, SEGMENT_PANES = 1_000_000, 50, 100, 1_000
GAP_US = 1_800_000_000
TIMES = 5

STREAM = Stream("rides", "bus string, riders int, at timestamp", event_time="at")
VIEW = View(
    "shifts",
    source=STREAM,
    key={"bus": "bus", "shift": session("at", "30 minutes")},
    aggregates={"reports": count(), "riders": sum_("riders")},
)

QUERY = "SELECT sum(riders)::BIGINT, count(*), max(shift_end) FROM shifts"
PLAIN = """SELECT sum(riders)::BIGINT, count(*), max(last) FROM (
    SELECT bus, shift, max(shift__last) AS last, sum(reports__n) AS reports,
        sum(riders__sum) AS riders
    FROM panes GROUP BY ALL
)"""


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    random_ = random.Random(5)
    with home() as at:
        settings, store = Settings(home=at, store=str(at / "store")), Store(str(at / "store"))
        written = Written(store, VIEW)
        panes = _panes(options.events(PANES), random_)
        written.publish(panes, len(panes), 60_000)
        written.begin(1)
        parts = [panes]
        for number in range(SEGMENTS):
            some = sorted(random_.sample(range(len(panes)), min(SEGMENT_PANES, len(panes))))
            parts.append(panes.take(pa.array(some)))
            written.commit(parts[-1], len(some), 120_000 + number)
        with (
            serving_layer.connect(written.catalog, settings, store) as kept,
            serving_layer.connect(written.catalog, settings, store, keep=False) as on_demand,
            open_duckdb(settings.serving.memory_mb) as native,
        ):
            for name, table in (
                ("panes", pa.concat_tables(parts)),
                ("shifts", kept.sql("FROM shifts").arrow()),
            ):
                native.register("rows", table)
                native.execute(f"CREATE TABLE {name} AS FROM rows")
                native.unregister("rows")
            answers = {
                str(one.to_pylist())
                for one in (
                    kept.sql(QUERY).arrow(),
                    on_demand.sql(QUERY).arrow(),
                    ask_native(native, QUERY),
                )
            }
            if len(answers) > 1:
                raise AssertionError(f"there must be one answer; got {answers}")
            say(f"{len(panes):,} panes: {answers}")
            times: dict[str, list[float]] = {"plain": [], "demand": [], "native": [], "kept": []}
            for _ in range(options.repeats):
                times["plain"].append(_seconds(lambda: ask_native(native, PLAIN)))
                times["demand"].append(_seconds(lambda: on_demand.sql(QUERY).arrow()))
                times["native"].append(_seconds(lambda: ask_native(native, QUERY)))
                times["kept"].append(_seconds(lambda: kept.sql(QUERY).arrow()))
    return [
        Figure("limit: plain GROUP BY of the panes", "ms", _ms(times["plain"])),
        Figure("limit: native table of the sessions", "ms", _ms(times["native"])),
        Figure(
            "merged on demand / plain GROUP BY", "", ratios(times["demand"], times["plain"]),
            at_most=8,
        ),
        Figure("kept / native", "", ratios(times["kept"], times["native"]), at_most=3),
    ]  # fmt: skip


def _panes(number: int, random_: random.Random) -> pa.Table:
    """`number` partials of buses, whose panes lie one to three gaps apart."""
    columns: dict[str, list[object]] = {name: [] for name in partial_schema(VIEW).names}
    for start in range(0, number, PANES_OF_KEY):
        pane = 0
        for _ in range(min(PANES_OF_KEY, number - start)):
            pane += random_.choice((1, 1, 1, 2, 3))
            first = pane * GAP_US + random_.randrange(GAP_US // 2)
            values = (
                f"bus {start // PANES_OF_KEY}", pane * GAP_US, first,
                first + random_.randrange(GAP_US // 2), random_.randrange(1, 60),
                random_.randrange(2_000),
            )  # fmt: skip
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    return pa.table(columns, schema=partial_schema(VIEW))


def _seconds(ask: Callable[[], pa.Table]) -> float:
    return seconds(lambda: [ask() for _ in range(TIMES)])


def _ms(times: Sequence[float]) -> list[float]:
    return [1000 * time / TIMES for time in times]
