"""An event that an expression can't take is set aside, with the reason, in both ways that Spark
computes.
"""

import json

import pytest

from trilayer import Catalog, Stream, View, count, distinct, latest, sum_
from trilayer_core.compute.grouping import plan
from trilayer_core.compute.parsing import FITS, REJECT, parse
from trilayer_core.runtime.session import first_cause

pytestmark = pytest.mark.spark

LOGS = Stream(
    "logs",
    "host string, status string, n int, items array<int>, at timestamp",
    event_time="at",
)
RISKY = {
    "cast": ("cast(status as int) > 0", {1, 2}),
    "overflow": ("n * 1000000 > 0", {2}),
    "division": ("100 / n > 0", {1}),
    "element": ("items[n] > 0", {2}),
    "date": ("to_date(status) is null", {0, 1, 4}),
    "inside of a lambda": ("exists(array(status), x -> cast(x as int) > 0)", {1, 2}),
    "fails on NULL": ("cast(coalesce(status, 'x') as int) > 0", {1, 2, 3}),
    "the same twice": ("cast(status as int) + 1 > cast(status as int)", {1, 2}),
}
"""Expressions, and the places in `EVENTS` of those that fit the schema for which each fails."""

EVENTS = [
    {"host": "a", "status": "200", "n": 1, "items": [5, 6]},
    {"host": "a", "status": "N/A", "n": 0},
    {"host": "a", "status": "2020-01-01", "n": 3000, "items": [1]},
    {"host": "b"},
    {"host": "b", "status": "404", "n": 7, "items": [0] * 9},
    {"n": "x"},
]


@pytest.fixture(params=["compiled", "interpreted"])
def session(spark, request):
    """A session that computes in one way."""
    other = spark.newSession()
    interpreted = request.param == "interpreted"
    other.conf.set("spark.sql.codegen.wholeStage", str(not interpreted).lower())
    other.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if interpreted else "CODEGEN_ONLY")
    return other


def records(spark, events):
    rows = [
        (0, offset, bytearray(json.dumps({**event, "at": "2026-01-01"}).encode()))
        for offset, event in enumerate(events)
    ]
    return spark.createDataFrame(rows, "_partition int, _offset bigint, _value binary")


def test_what_spark_cant_compute_is_set_aside_and_all_else_counts(session):
    for what, (sql, failing) in RISKY.items():
        catalog = Catalog(
            views=[
                View("all", source=LOGS, key=["host"], aggregates={"n": count()}),
                View("some", source=LOGS, key=["host"], aggregates={"n": count(where=sql)}),
            ]
        )
        stream = catalog.stream("logs")
        parsed = parse(records(session, EVENTS), stream)
        found = [tuple(row) for row in parsed.select(FITS, REJECT).collect()]
        expected = [place not in failing for place in range(len(EVENTS) - 1)]
        assert [fits for fits, _ in found] == [*expected, False], what
        for (fits, reason), event in zip(found[:-1], EVENTS, strict=False):
            if not fits:
                assert reason.startswith(
                    "failed expression: where of aggregate 'n' of view 'some' could not be"
                    f" computed: {sql}, from {{"
                )
                if '"status"' in reason and "status" in event:
                    assert f'"status":"{event["status"]}"' in reason
        assert found[-1][1].startswith("wrong type")
        (pass_,) = plan(catalog.stored_of(stream))
        result = pass_.run(parsed)
        counted = pass_.slice_of(catalog.view("all"), result).where("host is not null").collect()
        assert sum(row["n__n"] for row in counted) == sum(expected), what


def test_an_event_that_no_filter_selects_is_not_computed(session):
    view = View(
        "numbers",
        source=LOGS,
        key={"first": "items[n]"},
        where="status rlike '^[0-9]+$'",
        aggregates={
            "total": sum_("cast(status as int)", where="n > 5"),
            "different": distinct("cast(status as int)"),
            "last": latest("100 / n", by="at", where="n > 0"),
        },
    )
    catalog = Catalog(views=[view])
    stream = catalog.stream("logs")
    parsed = parse(records(session, EVENTS), stream)
    assert [row[0] for row in parsed.select(FITS).collect()] == [True] * 5 + [False]
    (pass_,) = plan(catalog.stored_of(stream))
    result = pass_.run(parsed)
    rows = pass_.slice_of(pass_.views[0], result).collect()
    assert sorted((row["first"], row["total__sum"]) for row in rows) == [(0, 404), (6, None)]
    cells = pass_.slice_of(pass_.views[1], result).collect()
    assert sorted(row["first"] for row in cells) == [0, 6]


@pytest.mark.parametrize("crossing", ["collected", "as Arrow", "in a callback", "in Python"])
def test_an_error_keeps_its_condition_value_and_place(spark, tmp_path, crossing):
    bad = records(spark, [{"status": "N/A"}]).selectExpr("cast(_value as string) AS status")
    failing = bad.selectExpr("(cast(status as int) = 200) AS ok")

    def raising(rows):
        raise ValueError(f"no number: {rows}")

    def run():
        if crossing == "collected":
            failing.collect()
        elif crossing == "as Arrow":
            failing.toArrow()
        elif crossing == "in Python":
            bad.mapInArrow(raising, "status string").collect()
        else:
            bad.write.parquet(f"{tmp_path}/events")
            stream = spark.readStream.schema("status string").parquet(f"{tmp_path}/events")
            writer = stream.writeStream.foreachBatch(
                lambda rows, _: rows.selectExpr("(cast(status as int) = 200) AS ok").toArrow()
            )
            writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(
                availableNow=True
            ).start().awaitTermination()

    with pytest.raises(Exception) as raised:
        run()
    said = first_cause(str(raised.value))
    if crossing == "in Python":
        assert said.startswith("ValueError: no number: <")
        assert "test_guards_of_views.py:" in said
    else:
        assert "[CAST_INVALID_INPUT]" in said
        assert "N/A" in said
        assert "(in cast(status as int)" in said
