"""How the pass over the rows of a source is planned, and how its result is handed out to views."""

import pyarrow as pa
import pytest

from trilayer import Rows, State, Stream, View, count, max_, sum_
from trilayer_core.compute.grouping import (
    EVENTS,
    SET,
    Pass,
    aggregate_sql,
    arrow_type,
    merge_sql,
    partial_schema,
    plan,
    quoted,
)
from trilayer_core.errors import DefinitionError

STREAM = Stream("s", "k string, n int, at timestamp", event_time="at")
ROWS = Rows("r", source=STREAM, rows=lambda events: events, schema="k string, n int")


def view(name, key, source=STREAM, **more):
    return View(
        name, source=source, key=key, aggregates={"all": count(), "most": max_("n")}, **more
    )


def test_views_of_one_source_share_a_pass():
    views = [view("a", ["k"]), view("b", ["k"], ROWS), view("c", ["n"])]
    planned = plan(views)
    assert [(one.source.name, [v.name for v in one.views]) for one in planned] == [
        ("s", ["a", "c"]),
        ("r", ["b"]),
    ]


def test_views_with_the_same_keys_share_a_grouping_set():
    (one,) = plan([view("a", {"x": "k", "y": "n"}), view("b", ["n"]), view("c", ["n", "k"])])
    assert one.sets == [("_k0", "_k1"), ("_k1",)]


def test_rows_of_a_function_have_no_place_in_the_log():
    (stream,), (rows,) = plan([view("a", ["k"])]), plan([view("a", ["k"], ROWS)])
    assert "_offset" in stream.sql("events")
    assert "_offset" not in rows.sql("events")


def test_a_pass_tells_no_parts_and_no_stamps_unless_asked():
    (one,) = plan([view("a", ["k"])])
    assert " ".join(one.sql("events").split()) == (
        "SELECT _group % 1 AS _set, _k0, _events, cast(_s0 AS bigint) AS _s0, cast(_s1 AS int) AS"
        " _s1 FROM ( SELECT _group, _k0, count(1) AS _events, COUNT(1) AS _s0, MAX(`_i0`) AS _s1"
        " FROM (SELECT 0 * 1 + _set AS _group, _partition, _offset, _i0, _k0 FROM (SELECT *, 0 AS"
        " _set FROM (SELECT _partition, _offset, k AS _k0, n AS _i0 FROM events))) GROUP BY _group,"
        " _k0)"
    )


def test_a_view_gets_its_own_groups_under_its_own_names():
    """Two views with the same keys, of which one has a filter, and one by another key."""
    views = (view("a", {"x": "k"}), view("b", {"y": "k"}, where="n > 0"), view("c", {"z": "n"}))
    one = Pass(STREAM, views)
    states = [name for name in one.state_types if name not in (SET, EVENTS)]
    result = pa.table(
        {
            "_tick": pa.array([7, 7, 8], pa.int64()),
            SET: pa.array([0, 0, 1], pa.int32()),
            "_k0": pa.array(["p", "q", None]),
            "_k1": pa.array([None, None, 5], pa.int32()),
            EVENTS: [3, 4, 5],
            **{state: [n, 0, n + 10] for n, state in enumerate(states, 1)},
        }
    )
    assert one.states == {
        "COUNT(1) FILTER(WHERE `_i0`)": "_s0",
        "COUNT(1)": "_s1",
        "MAX(`_i1`)": "_s2",
        "MAX(`_i1`) FILTER(WHERE `_i0`)": "_s3",
    }
    assert one.state_types == {"_s0": "bigint", "_s1": "bigint", "_s2": "int", "_s3": "int"}
    plain, filtered, other = (one.arrow_slice_of(v, result) for v in views)
    assert plain.schema == partial_schema(views[0])
    assert plain.to_pylist() == [
        {"x": "p", "all__n": 2, "most__max": 3},
        {"x": "q", "all__n": 0, "most__max": 0},
    ]
    assert filtered.to_pylist() == [{"y": "p", "all__n": 1, "most__max": 4}]
    assert other.to_pylist() == [{"z": 5, "all__n": 12, "most__max": 13}]
    parts = one.arrow_slice_of(views[2], result, ["_tick"])
    assert parts.schema == partial_schema(views[2], {"_tick": pa.int64()})
    assert parts.to_pylist() == [{"_tick": 8, "z": 5, "all__n": 12, "most__max": 13}]


@pytest.mark.parametrize(
    ("type_", "arrow"),
    [
        ("bigint", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal(12,3)", pa.decimal128(12, 3)),
        ("decimal(38,0)", pa.decimal128(38, 0)),
        ("array<decimal(6,2)>", pa.list_(pa.decimal128(6, 2))),
        ("map<string,array<date>>", pa.map_(pa.string(), pa.list_(pa.date32()))),
        (
            "struct<a:int,b:struct<c:binary>>",
            pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.binary())]))]),
        ),
    ],
)
def test_each_type_of_spark_has_one_of_arrow(type_, arrow):
    assert arrow_type(type_) == arrow


def test_a_filter_is_put_into_each_aggregate_function():
    columns = {"value": "a b"}
    assert aggregate_sql("sum(value) - count(1)", columns, "duckdb", "ok") == (
        'SUM("a b") FILTER(WHERE "ok") - COUNT(1) FILTER(WHERE "ok")'
    )
    assert aggregate_sql("sum(value + other)", columns, "spark") == "SUM(`a b` + other)"
    assert quoted("a b") == "`a b`"


def test_a_state_may_be_merged_by_another_function_in_duckdb():
    state = State("double", "sum(value)", "sum(state)", duckdb_merge="fsum(state)")
    assert merge_sql("a b", state, "duckdb") == 'CAST(fsum("a b") AS DOUBLE)'
    assert merge_sql("a b", state, "spark") == "CAST(SUM(`a b`) AS DOUBLE)"


def test_a_filter_needs_an_aggregate_function_that_is_known():
    with pytest.raises(
        DefinitionError,
        match=r"must be made by an aggregate function that sqlglot knows; got own_sum\(value\); put"
        r" the filter into its value$",
    ):
        aggregate_sql("own_sum(value)", {"value": "a"}, "spark", "ok")


def test_the_total_of_decimals_is_wider_than_they_are():
    wide = View(
        "v",
        source=Stream("d", "k string, d decimal(6,2), at timestamp", event_time="at"),
        key=["k"],
        aggregates={"d": sum_("d")},
    )
    assert partial_schema(wide) == pa.schema([("k", pa.string()), ("d__sum", pa.decimal128(38, 2))])
