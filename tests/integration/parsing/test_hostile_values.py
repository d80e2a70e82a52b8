"""Values that one engine can hold and another cannot: both layers' pass makes something of them
that every reader can hold.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_layer.engine import rejected_in
from serving_layer.result import Provenance, Result, RowSet
from trilayer import Rows, Stream, View, count, latest, max_, min_, sliding, sum_, tumbling
from trilayer.cli.sql import Format, _print
from trilayer_core.compute.grouping import Pass, partial_schema
from trilayer_core.compute.merging import (
    compare_partials,
    create_table_sql,
    insert_rows,
    open_duckdb,
    present_compared_select,
    present_select,
)
from trilayer_core.compute.parsing import REJECT
from trilayer_core.errors import DefinitionError

STREAM = Stream(
    "hostile",
    "b binary, n bigint, wide decimal(38,2), x double, at timestamp, local timestamp_ntz",
    event_time="at",
)


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def answers(spark, view, events):
    """The view's answer as rows of Python values, from one pass over `events`."""
    columns = {"b": None, "n": None, "wide": None, "x": None, "at": None, "local": None}
    rows = [(*tuple((columns | event).values()), 0, n) for n, event in enumerate(events)]
    schema = ", ".join(f"{name} {type_}" for name, type_ in STREAM.columns.items())
    frame = spark.createDataFrame(rows, f"{schema}, _partition int, _offset bigint")
    if isinstance(view.source, Rows):
        frame = view.source.rows(frame)
    pass_ = Pass(view.source, (view,))
    partials = pass_.arrow_slice_of(view, pass_.run(frame).toArrow())
    with open_duckdb(threads=1) as connection:
        connection.execute(create_table_sql("p", view))
        insert_rows(connection, "p", partials)
        found = RowSet(
            connection.sql(f"FROM ({present_select(view, ['p'])}) ORDER BY ALL").to_arrow_table()
        )
    return found.dicts()


@pytest.mark.spark
def test_text_that_is_not_utf8_becomes_text_that_is(spark):
    view = View(
        "by_text",
        source=STREAM,
        key={"k": "cast(b as string)"},
        aggregates={
            "last": latest("string(unhex('C3'))", by="n"),
            "least": min_("substring(cast(b as string), 1, 1)"),
        },
    )
    events = [
        {"b": bytearray(b"\xff\xfe"), "n": 1},
        {"b": bytearray("日".encode()), "n": 2},
        {"b": bytearray(b"a\0b"), "n": 3},
    ]
    # An expression that may fail is computed for events that fit, which have a time.
    found = answers(spark, view, [event | {"at": at("2026-01-01")} for event in events])
    assert found == [
        {"k": "a\0b", "last": "\ufffd", "least": "a"},
        {"k": "日", "last": "\ufffd", "least": "日"},
        {"k": "\ufffd\ufffd", "last": "\ufffd", "least": "\ufffd"},
    ]


@pytest.mark.spark
def test_what_a_row_function_hands_on_is_made_fit_too(spark):
    def decode(rows):
        return rows.selectExpr("cast(b AS string) AS k", "at + interval 9000 years AS at")

    source = Rows("decoded", source=STREAM, rows=decode, schema="k string, at timestamp")
    view = View(
        "by_k", source=source, key=["k", "at"], aggregates={"last": max_("at"), "n": count("at")}
    )
    found = answers(spark, view, [{"b": bytearray(b"\xed\xa0\x80"), "at": at("2026-01-01")}])
    assert found == [{"k": "\ufffd\ufffd\ufffd", "at": None, "last": None, "n": 0}]


@pytest.mark.spark
def test_windows_that_end_after_the_year_9999_or_begin_before_the_year_1(
    spark,
):
    first, last, usual = (
        at("0001-01-01T00:10:00"),
        at("9999-12-31T23:30:00"),
        at("2026-01-01T00:10:00"),
    )
    events = [{"at": first}, {"at": last}, {"at": usual}, {}]

    def windows(window):
        view = View("windows", source=STREAM, key={"w": window}, aggregates={"n": count()})
        return {(row["w"], row["w_end"]): row["n"] for row in answers(spark, view, events)}

    assert windows(tumbling("at", "1 hour")) == {
        (at("0001-01-01"), at("0001-01-01T01:00:00")): 1,
        (at("2026-01-01"), at("2026-01-01T01:00:00")): 1,
        (at("9999-12-31T23:00:00"), None): 1,
        (None, None): 1,
    }
    assert windows(tumbling("at", "1 week")) == {  # a week from 1970 on begins on a Thursday
        (at("2026-01-01"), at("2026-01-08")): 1,
        (at("9999-12-30"), None): 1,
        (None, None): 2,
    }
    assert windows(sliding("at", "30 minutes", "15 minutes")) == {
        (at("2025-12-31T23:45:00"), at("2026-01-01T00:15:00")): 1,
        (at("2026-01-01"), at("2026-01-01T00:30:00")): 1,
        (at("9999-12-31T23:15:00"), at("9999-12-31T23:45:00")): 1,
        (at("9999-12-31T23:30:00"), None): 1,
        (None, None): 2,
    }


@pytest.mark.spark
def test_times_that_leave_the_years_1_to_9999_are_null(spark):
    view = View(
        "times",
        source=STREAM,
        key={
            "next": "at + interval 1 hour",
            "day": "date_add(cast(at as date), 1)",
            "zone": "from_utc_timestamp(at, 'Asia/Tokyo')",
        },
        aggregates={
            "last": max_("local + interval 1 year"),
            "first": min_("at - interval 1 day"),
            "n": count(),
        },
    )
    events = [
        {"at": at("9999-12-31T23:30:00"), "local": datetime(9999, 1, 1)},  # noqa: DTZ001
        {"at": at("0001-01-01")},
    ]
    early, late = answers(spark, view, events)
    assert late == {
        "next": None,
        "day": None,
        "zone": None,
        "last": None,
        "first": at("9999-12-30T23:30:00"),
        "n": 1,
    }
    assert (early["next"], early["first"]) == (at("0001-01-01T01:00:00"), None)


# -- without Spark ---------------------------------------------------------------------------------


def test_a_window_must_fit_the_years():
    with pytest.raises(DefinitionError, match="at most 365000 days"):
        tumbling("at", "400000 days")
    with pytest.raises(DefinitionError, match="at most 365000 days"):
        sliding("at", "99999999999999999999 weeks", "1 week")


def test_rows_and_every_format_show_what_python_cannot_hold(capsys):
    with open_duckdb() as connection:
        query = """SELECT
            TIMESTAMPTZ '9999-12-31 23:30:00+00' + INTERVAL 1 HOUR AS a,
            DATE '0001-01-01' - 1 AS b,
            [DATE '9999-12-31' + 1] AS c,
            {'d': TIMESTAMP '0001-01-01' - INTERVAL 1 DAY, 'e': 1} AS s,
            TIMESTAMP 'infinity' AS i,
            TIMESTAMPTZ '2026-01-01 00:00:00+00' AS t"""
        table = connection.sql(query).to_arrow_table()
    (row,) = RowSet(table).dicts()
    assert row["t"] == at("2026-01-01")
    assert row["a"].startswith("10000-01-01T00:30:00")
    assert row["b"] == "0000-12-31"
    assert row["c"] == ["10000-01-01"]
    assert row["s"]["d"].startswith("0000-12-31T00:00:00")
    assert row["s"]["e"] == 1
    assert isinstance(row["i"], str)
    result = Result(table, Provenance(None, None, None, True, {}))
    for format_ in Format:
        _print(result, format_)
        assert "10000" in capsys.readouterr().out


def test_rejected_events_are_counted_where_parquet_has_no_statistics(store):
    table = pa.table(
        {
            "_offset": pa.array([1, 2, 3], pa.int64()),
            REJECT: pa.array([None, "x" * 5000, "y" * 5000]),
        }
    )
    path = store.path("t.parquet")
    store.fs.create_dir(path.rpartition("/")[0])
    pq.write_table(table, path, filesystem=store.fs, write_statistics=False)
    (file,) = store.describe_folder("")
    assert rejected_in(file, store) == 2


def test_a_total_that_does_not_fit_is_null_beside_others_in_a_comparison():
    view = View(
        "sums", source=STREAM, key={"k": "n"}, aggregates={"total": sum_("n"), "wide": sum_("wide")}
    )
    rows = [
        {
            "k": 1,
            "total__sum": Decimal(2**63),
            "wide__high": Decimal(10**19),
            "wide__low": Decimal("0.01"),
        },
        {"k": 2, "total__sum": Decimal(2), "wide__high": Decimal(1), "wide__low": Decimal("0.01")},
    ]
    with open_duckdb(threads=1) as connection:
        for name in ("l_", "r_"):
            connection.execute(create_table_sql(name, view))
            insert_rows(connection, name, pa.Table.from_pylist(rows, partial_schema(view)))
        assert compare_partials(connection, view, "l_", "r_", into="c").match == 2
        shown = connection.sql(present_compared_select(view, "c", ("batch", "speed"))).fetchall()
        found = connection.sql(f"FROM ({present_select(view, ['l_'])}) ORDER BY k").fetchall()
    assert found == [(1, None, None), (2, 2, Decimal("1000000000000000000.01"))]
    assert [row[1:3] for row in shown] == [(1, None), (2, 2)]
    assert json.dumps(str(shown))
