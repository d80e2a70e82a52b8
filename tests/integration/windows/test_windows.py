"""Each window with each aggregate. Spark computes the partials of events in three parts, and DuckDB
merges them and puts the windows together: the answers are those of the oracle, and sessions are
those of Spark's own `session_window`.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from trilayer import Catalog, Stream, View, count, recent, session, sliding, tumbling
from trilayer.testing import (
    Aggregation,
    Event,
    Recent,
    Sessions,
    Windowed,
    answer,
    canonical,
    field,
)
from trilayer.testing import differences as differ
from trilayer_core.compute.grouping import plan
from trilayer_core.compute.merging import (
    create_table_sql,
    insert_rows,
    open_duckdb,
    present_select,
    quoted_duckdb,
)
from trilayer_core.definitions.aggregates import AGGREGATES
from trilayer_core.errors import DefinitionError

pytestmark = pytest.mark.spark

SCHEMA = "k string, n int, yes boolean, at timestamp"
STREAM = Stream("walks", SCHEMA, event_time="at")
PARAMETERS = {
    "collect": {"k": 2},
    "distinct": {"exact": True},
    "histogram": {"bounds": (-3, 0, 4)},
    "quantiles": {"quantiles": (0, 0.5, 1)},
    "top": {"k": 2},
}
MINUTE, HALF, GAP = timedelta(minutes=1), timedelta(seconds=30), timedelta(seconds=10)
NOW = datetime(1970, 1, 1, 0, 10, 0, 250_000, UTC)


def aggregates(window):
    """One of each kind that the window accepts."""
    found = {}
    for kind in AGGREGATES:
        for column in (None, "n", "yes"):
            for by in (None, "at"):
                made = kind(value=column, by=by, **PARAMETERS.get(kind.kind, {}))
                key = {"k": "k", "w": window}
                try:
                    View("v", source=STREAM, key=key, aggregates={"a": made})
                except (DefinitionError, KeyError):
                    continue
                found.setdefault(f"a_{kind.kind.strip('_')}", made)
    return found


def asked(made):
    options = {f.name: getattr(made, f.name) for f in fields(made)}
    value, by = (getattr(made, role) and field(getattr(made, role)) for role in ("value", "by"))
    return Aggregation(made.kind, value, by, options=options)


WINDOWS = {
    "tumbling": (tumbling("at", "1 minute"), Windowed(field("at"), MINUTE, MINUTE)),
    "sliding": (sliding("at", "1 minute", "30 seconds"), Windowed(field("at"), MINUTE, HALF)),
    "session": (session("at", "10 seconds"), Sessions(field("at"), GAP)),
    "recent": (
        recent("at", "9 minutes", "30 seconds"),
        Recent(field("at"), 9 * MINUTE, HALF, NOW),
    ),
}


@pytest.fixture(scope="module")
def catalog():
    return Catalog(
        views=[
            View(name, source=STREAM, key={"k": "k", "w": window}, aggregates=aggregates(window))
            for name, (window, _) in WINDOWS.items()
        ]
    )


def walk(rng, number):
    """Rows around 1970. Those of a key are often a gap apart, or a gap but for a microsecond."""
    step = [timedelta(0), GAP, GAP + timedelta(microseconds=1), GAP - timedelta(microseconds=1)]
    last = dict.fromkeys([None, "", "a", "b"], datetime(1970, 1, 1, tzinfo=UTC) - 4 * MINUTE)
    rows = []
    for _ in range(number):
        key = rng.choice(list(last))
        last[key] += rng.choice([*step, timedelta(seconds=3), timedelta(seconds=rng.random() * 25)])
        rows.append(
            {
                "k": key,
                "n": rng.choice([None, *range(-5, 6)]),
                "yes": rng.choice([None, True, False]),
                "at": rng.choice([last[key]] * 9 + [None]),
            }
        )
    rng.shuffle(rows)
    return rows


@pytest.fixture(scope="module")
def rows():
    return walk(random.Random(5), 400)


@pytest.fixture(scope="module")
def answers(spark, catalog, rows):
    """View to its answer, as the oracle gives it."""
    rng = random.Random(6)
    places = [(*row.values(), rng.randrange(3), n % 2, n) for n, row in enumerate(rows)]
    schema = f"{SCHEMA}, _part int, _partition int, _offset bigint"
    frame = spark.createDataFrame(places, schema)
    found = {}
    with open_duckdb(threads=1) as duck:
        for one in plan(catalog.stored):
            result = one.run(frame, "_part").toArrow()
            for stored in one.views:
                duck.execute(create_table_sql(quoted_duckdb(stored.name), stored))
                insert_rows(duck, quoted_duckdb(stored.name), one.arrow_slice_of(stored, result))
        for view in catalog.views:
            select = present_select(
                view,
                lambda stored: [quoted_duckdb(stored.name)],
                now=f"TIMESTAMPTZ '{NOW.isoformat()}'",
            )
            answered = duck.sql(select).to_arrow_table()
            assert answered.column_names == view.output
            found[view.name] = answered.to_pylist()
    return found


def keyed(view, answered):
    found = {}
    for row in answered:
        key = tuple(canonical(row[name]) for name in view.key_names)
        assert key not in found
        found[key] = {name: row[name] for name in view.aggregates}
    return found


@pytest.mark.parametrize("name", WINDOWS)
def test_each_aggregate_of_a_window_is_that_of_all_its_events(name, answers, catalog, rows):
    """Cells as well: the panes of a window are put together first, and its cells folded then. A
    quantile or a number of distinct values of panes would not be one of the window.
    """
    view, part = catalog.view(name), WINDOWS[name][1]
    assert len(view.aggregates) == len(AGGREGATES) - 4 * (name == "session")
    assert {made.kind for made in view.aggregates.values()} >= {"count", "collect", "variance"}
    events = [Event(n % 2, n, row) for n, row in enumerate(rows)]
    expected = answer(
        events,
        {"k": field("k"), "w": part},
        {column: asked(made) for column, made in view.aggregates.items()},
    )
    assert len(expected) > (3 if name == "recent" else 20)
    tolerances = {"a_quantiles": 0.01 + 1e-9, "a_variance": 1e-12, "a_stddev": 1e-12}
    different = differ(keyed(view, answers[name]), expected, tolerances)
    assert not different, "\n".join(different[:20])


def test_sessions_are_those_of_spark(answers, rows, spark):
    from pyspark.sql import functions as F

    frame = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)
    window = F.session_window("at", "10 seconds").alias("w")
    theirs = frame.groupBy("k", window).agg(F.count("*").alias("n"), F.sum("n").alias("total"))
    columns = ["k", F.col("w.start").alias("w"), F.col("w.end").alias("w_end"), "n", "total"]
    expected = Counter(map(tuple, map(dict.values, theirs.select(columns).toArrow().to_pylist())))
    ours = [
        (row["k"], row["w"], row["w_end"], row["a_count"], row["a_sum"])
        for row in answers["session"]
        if row["w"] is not None
    ]
    assert Counter(ours) == expected
    assert 50 < len(ours) < len(rows) / 2
    exactly_a_gap = [n for _, start, end, n, _ in ours if n == 2 and end - start == 2 * GAP]
    assert exactly_a_gap, "no session of two events that are exactly a gap apart"


def test_a_session_of_moments_at_the_ends_of_time_has_an_end_that_every_reader_can_hold(spark):
    view = View(
        "v", source=STREAM, key={"k": "k", "w": session("at", "7 days")}, aggregates={"n": count()}
    )
    first, last = datetime(1, 1, 8, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
    days = [first, first + timedelta(days=7), last, last - timedelta(days=8), None]
    rows = [("a", None, None, at, 0, n) for n, at in enumerate(days)]
    frame = spark.createDataFrame(rows, f"{SCHEMA}, _partition int, _offset bigint")
    (one,) = plan([view])
    with open_duckdb(threads=1) as duck:
        duck.execute(create_table_sql("p", view))
        insert_rows(duck, "p", one.arrow_slice_of(view, one.run(frame).toArrow()))
        found = duck.sql(f"FROM ({present_select(view, ['p'])}) ORDER BY w").to_arrow_table()
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("a", first, first + timedelta(days=14), 2),
        ("a", last - timedelta(days=8), last - timedelta(days=1), 1),
        ("a", last, None, 1),
        ("a", None, None, 1),
    ]
