"""The laws of every aggregate, with the merges of both engines: it is a commutative monoid, the
partials of parts merge to the partial of the whole, and its answer is that of the oracle. Every
aggregate in `AGGREGATES` is tested. Only two things depend on its kind: the tolerance for sums and
means of floating-point numbers, and sums that are NULL because they do not fit.

Hypothesis draws all groups of events first, so that three Spark jobs for each aggregate try
hundreds of cases.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from trilayer import Stream, View
from trilayer.testing import Aggregation, Event, aggregate, canonical, field, same
from trilayer_core.compute.grouping import Pass, arrow_type, partial_schema
from trilayer_core.compute.merging import (
    create_table_sql,
    merge_select,
    open_duckdb,
    present_select,
)
from trilayer_core.definitions.aggregates import AGGREGATES
from trilayer_core.definitions.expressions import FLOATS
from trilayer_core.errors import DefinitionError

pytestmark = pytest.mark.spark

VALUES = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.one_of(st.sampled_from([2**63 - 1, -(2**63)]), st.integers(-(2**60), 2**60)),
    "decimal(20,3)": st.decimals(-(10**16), 10**16, places=3, allow_nan=False),
    "decimal(38,2)": st.integers(1 - 10**38, 10**38 - 1).map(lambda n: Decimal(f"{n}e-2")),
    "double": st.one_of(
        st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324]), st.floats(-1e6, 1e6)
    ),
    "float": st.one_of(
        st.sampled_from([math.nan, math.inf, -0.0, 0.0]), st.floats(-1000, 1000, width=32)
    ),
    "string": st.just("NaN")
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4),
    "boolean": st.booleans(),
    "date": st.dates(date(1, 1, 3), date(9999, 12, 30)),
    "timestamp": st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 30), timezones=st.just(UTC)),  # noqa: DTZ001  # hypothesis wants them so
    "binary": st.binary(max_size=3),
}
TYPES = list(VALUES)
COLUMN = {type_: type_.translate(str.maketrans("(,", "__", ")")) + "_value" for type_ in TYPES}
STREAM = Stream(
    "laws",
    ", ".join(["g int", "at timestamp", "ok boolean", *(f"{COLUMN[t]} {t}" for t in TYPES)]),
    event_time="at",
)
ROW = st.fixed_dictionaries(
    {"at": st.none() | VALUES["timestamp"], "ok": st.none() | st.booleans()}
    | {COLUMN[t]: st.none() | VALUES[t] for t in TYPES}
)  # fmt: skip
GROUPS = st.lists(st.lists(ROW, min_size=1, max_size=6), min_size=20, max_size=40)


PARAMETERS = {
    "collect": [{"k": 2}],
    "distinct": [{}, {"exact": True}],
    "histogram": [{"bounds": (-100, 0, 0.5, 1000)}],
    "quantiles": [{"quantiles": (0, 0.3, 0.5, 1)}],
    "top": [{"k": 2}],
}
"""The further fields with which an aggregate is tested; those of others are the defaults."""

BOUNDS = {"quantiles": 0.01 + 1e-9}
"""How far an approximate answer may be from the exact one, relative to it."""

ROUNDED = ("sum_", "mean", "variance", "stddev")


def every_measure(kind):
    """The aggregate over every type that it accepts, and once with a filter. If it has a `by`, this
    is of every type as well.
    """
    made = {}
    bys = [None, *TYPES]
    fields_ = PARAMETERS.get(kind.kind, [{}])
    for type_, by, extra in itertools.product([None, *TYPES], bys, fields_):
        if by and type_ != "string" and by != "double":
            continue  # each type of one role, beside one of the other
        given_ = kind(value=type_ and COLUMN[type_], by=by and COLUMN[by], **extra)
        try:
            View("v", source=STREAM, key=["g"], aggregates={"a": given_})
        except (DefinitionError, KeyError):
            continue
        if by is None or _uses_by(given_):
            name = f"m{len(made)}"
            made[name] = given_
            if len(made) == 1:  # a filter works on all types alike
                made[f"{name}_ok"] = replace(given_, where="ok")
    return made


def _uses_by(aggregate_):
    states = aggregate_.states(
        {r: STREAM.columns[c] for r, c in aggregate_.roles.items()}, positioned=True
    )
    return any("by" in state.partial for state in states.values())


def view_of(kind):
    view = View("v", source=STREAM, key=["g"], aggregates=every_measure(kind))
    assert len(view.measures) >= 2
    return view


def events_table(groups):
    rows = [
        {"g": g, "_part": rnd, "_partition": n % 2, "_offset": n, **row}
        for g, group in enumerate(groups)
        for n, row in enumerate(group)
        for rnd in [random.Random(g * 31 + n).randrange(3)]
    ]
    fields = [
        ("g", pa.int32()),
        ("_part", pa.int32()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
    ]
    fields += [(name, arrow_type(type_)) for name, type_ in STREAM.columns.items() if name != "g"]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def partials_of(spark, view, table, part=""):
    """The partials of each stored view, all from one pass."""
    pass_ = Pass(STREAM, view.stored)
    result = pass_.run(spark.createDataFrame(table), part).toArrow()
    return [pass_.arrow_slice_of(stored, result, (part,) if part else ()) for stored in view.stored]


def merged_by_spark(spark, views, partials):
    """The merged partials of each view, all from one Spark job: a column for each view, with its
    rows as structs.
    """
    from batch_layer.engine import merge

    frames = [
        merge(view, spark.createDataFrame(table)).select(F.struct("*").alias("row"))
        for view, table in zip(views, partials, strict=True)
    ]
    types = [frame.schema["row"].dataType for frame in frames]

    def of_view(frame, number):
        rows = [
            F.col("row") if place == number else F.lit(None).cast(type_)
            for place, type_ in enumerate(types)
        ]
        return frame.select(*(row.alias(f"v{place}") for place, row in enumerate(rows)))

    places = range(len(views))
    result = reduce(DataFrame.union, map(of_view, frames, places)).toArrow()
    return [
        pa.Table.from_struct_array(result[f"v{number}"].drop_null()).cast(partial_schema(view))
        for number, view in enumerate(views)
    ]


def merged_by_duckdb(spark, views, partials):
    return [_merged_by_duckdb(*pair) for pair in zip(views, partials, strict=True)]


def _merged_by_duckdb(view, partials):
    with open_duckdb(threads=1) as connection:
        connection.register("arriving", partials)
        connection.execute(create_table_sql("p", view))
        columns = ", ".join(f'"{name}"' for name in partials.schema.names)
        connection.execute(f"INSERT INTO p BY NAME SELECT {columns} FROM arriving")
        return connection.sql(merge_select(view, ["p"])).to_arrow_table().cast(partial_schema(view))


def by_key(view, table):
    found = {}
    for row in table.to_pylist():
        key = tuple(canonical(row[name]) for name in view.key_names)
        assert key not in found
        found[key] = row
    return found


def inexact(view, column):
    measure = next(m for m in view.measures if column in m.states)
    state = measure.states[column]
    return bool(state.close) or (state.type in FLOATS and measure.aggregate.kind in ROUNDED)


def assert_same_partials(view, left, right):
    left, right = by_key(view, left), by_key(view, right)
    assert left.keys() == right.keys()
    for key, row in left.items():
        for column in view.states:
            tolerance = 1e-9 if inexact(view, column) else 0.0
            one, two = row[column], right[key][column]
            assert alike(one, two, tolerance), f"group {key} {column}: {one!r} and {two!r}"


def alike(one, two, tolerance):
    """Whether two values are the same, or differ by rounding. Sums that cancel are off by a small
    part of what was added: at most 6 values of 1e6, or of their squares.
    """
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(alike(one[k], two[k], tolerance) for k in one)
    if isinstance(one, list) and isinstance(two, list):
        pairs = zip(one, two, strict=False)
        return len(one) == len(two) and all(alike(a, b, tolerance) for a, b in pairs)
    if same(one, two, tolerance):
        return True
    return tolerance > 0 and None not in (one, two) and abs(one - two) <= tolerance * 6e6


ENGINES = {"spark": merged_by_spark, "duckdb": merged_by_duckdb}
DRAWN = settings(
    max_examples=2,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # nothing can fail while groups are drawn
    suppress_health_check=list(HealthCheck),
)


@cache
def drawn():
    """Groups of events. The first ones are the simplest: a single event without a value."""
    groups = []

    @DRAWN
    @given(GROUPS)
    def draw(more):
        groups.extend(more)

    draw()
    assert max(map(len, groups)) > 3
    return groups


@dataclass(frozen=True)
class Grouped:
    """The view of an aggregate, groups of events, and the partials of each stored view: those of
    whole groups, and those of the three parts of each group.
    """

    view: View
    groups: list
    whole: list
    parts: list


@pytest.fixture(scope="module", params=AGGREGATES, ids=lambda kind: kind.kind)
def grouped(request, spark):
    view, groups = view_of(request.param), drawn()
    events = events_table(groups)
    place = events.schema.get_field_index("_part")
    all_of_them = events.set_column(place, "_part", pa.array([WHOLE] * len(events), pa.int32()))
    both = partials_of(spark, view, pa.concat_tables([events, all_of_them]), "_part")
    is_whole = [pc.equal(table["_part"], WHOLE) for table in both]
    return Grouped(
        view,
        groups,
        [
            table.filter(mask).drop_columns("_part")
            for table, mask in zip(both, is_whole, strict=True)
        ],
        [table.filter(pc.invert(mask)) for table, mask in zip(both, is_whole, strict=True)],
    )


WHOLE = 3
"""The slot of whole groups, after those of their three parts."""

APART = 10_000
"""More than there are groups."""


def moved(table, by):
    """The same partials under other keys."""
    place = table.schema.get_field_index("g")
    keys = pc.add(table["g"], pa.scalar(by, pa.int32()))
    return table.set_column(place, table.schema.field(place), keys)


def union_of(unions):
    """The partials of several unions in one table: each union has keys of its own.

    The first partials of all unions come first, so that Spark has those of one key in two tasks.
    """
    places = range(max(map(len, unions)))
    return pa.concat_tables(
        moved(union[place], n * APART)
        for place in places
        for n, union in enumerate(unions)
        if place < len(union)
    )


def merged_apart(merge, views, unions_of):
    """Each of the unions of partials of each view merged, all in one query for each engine."""
    results = merge(views, [union_of(unions) for unions in unions_of])
    return [
        [
            moved(result.filter(pc.equal(pc.divide(result["g"], APART), n)), -n * APART)
            for n, _ in enumerate(unions)
        ]
        for result, unions in zip(results, unions_of, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_merging_is_a_commutative_monoid_whose_partials_merge_to_the_whole(grouped, engine, spark):
    views, merge = grouped.view.stored, partial(ENGINES[engine], spark)
    parts_of = [
        [table.filter(pc.equal(table["_part"], n)).drop_columns("_part") for n in range(3)]
        for table in grouped.parts
    ]
    first = merged_apart(
        merge,
        views,
        [
            [
                *((one, two, three), (three, one, two), (one, two), (two, three)),
                *((whole, nothing), (nothing, whole)),
            ]
            for view, whole, (one, two, three) in zip(views, grouped.whole, parts_of, strict=True)
            for nothing in [neutral(view, whole)]
        ],
    )
    second = merged_apart(
        merge,
        views,
        [
            [(first_two, three), (one, last_two)]
            for (_, _, first_two, last_two, _, _), (one, _, three) in zip(
                first, parts_of, strict=True
            )
        ],
    )
    for view, whole, merged, (left, right) in zip(views, grouped.whole, first, second, strict=True):
        in_order, turned, _, _, and_nothing, nothing_and = merged
        assert_same_partials(view, in_order, whole)
        assert_same_partials(view, turned, in_order)  # commutative
        assert_same_partials(view, left, in_order)  # associative
        assert_same_partials(view, right, in_order)
        assert_same_partials(view, and_nothing, whole)
        assert_same_partials(view, nothing_and, whole)


def neutral(view, whole):
    """A row of neutral elements for each key, read from the aggregate's own SQL literals."""
    with open_duckdb(threads=1) as connection:
        keys = ", ".join(f'"{name}"' for name in view.key_names)
        connection.register("whole", whole.select(view.key_names))
        connection.execute(create_table_sql("p", view))
        literals = ", ".join(
            f'{state.neutral} AS "{column}"' for column, state in view.states.items()
        )
        connection.execute(f"INSERT INTO p BY NAME SELECT {keys}, {literals} FROM whole")
        return connection.sql("FROM p").to_arrow_table().cast(partial_schema(view))


@pytest.mark.slow
def test_what_is_presented_is_what_the_oracle_says(grouped):
    view = grouped.view
    with open_duckdb(threads=1) as connection:
        tables = {}
        for number, (stored, parts) in enumerate(zip(view.stored, grouped.parts, strict=True)):
            tables[stored.name] = f"p{number}"
            connection.register("arriving", parts.drop_columns("_part"))
            connection.execute(create_table_sql(f"p{number}", stored))
            connection.execute(f"INSERT INTO p{number} BY NAME FROM arriving")
        answer = present_select(view, lambda stored: [tables[stored.name]])
        found = {row["g"]: row for row in connection.sql(answer).to_arrow_table().to_pylist()}
    for g, group in enumerate(grouped.groups):
        events = [Event(n % 2, n, row) for n, row in enumerate(group)]
        for measure in view.measures:
            a = measure.aggregate
            where = field("ok") if a.where else (lambda row: True)
            options = {f.name: getattr(a, f.name) for f in fields(a)}
            asked = Aggregation(
                a.kind, a.value and field(a.value), a.by and field(a.by), where, options=options
            )
            expected = aggregate(asked, events)
            if a.kind == "sum_" and not fits(expected):
                expected = None
            got = found[g][measure.name]
            tolerance = BOUNDS.get(a.kind, 1e-9 if a.kind in ROUNDED else 0.0)
            if measure.bound and a.kind == "distinct":  # two of six in one register of 1,024
                assert abs(got - expected) <= 1, f"group {g} {a}: {got!r}, not {expected!r}"
                continue
            assert alike(got, expected, tolerance), (
                f"group {g} {a}: got {got!r}, expected {expected!r}"
            )


def fits(total):
    """Whether a total can be presented: integers as bigint, decimals with 38 digits."""
    if isinstance(total, Decimal):
        return len(total.as_tuple().digits) <= 38
    return not isinstance(total, int) or -(2**63) <= total < 2**63


def totals(spark, type_, *groups):
    """Of each group of values the total, its partials made from single events."""
    from trilayer import sum_

    view = View("v", source=STREAM, key=["g"], aggregates={"total": sum_(COLUMN[type_])})
    empty = {"at": None, "ok": None} | {COLUMN[t]: None for t in TYPES}
    events = events_table(
        [[empty | {COLUMN[type_]: value} for value in values] for values in groups]
    )
    (parts,) = partials_of(spark, view, events, "_offset")
    parts = parts.drop_columns("_offset")
    with open_duckdb(threads=1) as connection:
        connection.register("arriving", parts)
        connection.execute(create_table_sql("p", view))
        connection.execute("INSERT INTO p BY NAME FROM arriving")
        return [
            total for _, total in sorted(connection.sql(present_select(view, ["p"])).fetchall())
        ]


def test_a_transient_overflow_is_none(spark):
    groups = [[2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 2], [2**63 - 1, 1, -1]]
    assert totals(spark, "bigint", *groups) == [0, 2**63 - 1]
    most, least = (
        Decimal(f"{'9' * 36}.99"),
        Decimal(f"-{'9' * 36}.99"),
    )  # `-most` would be rounded to 28 digits
    groups = [
        [most, most, least, least],
        [most, Decimal("0.02"), Decimal("-0.03")],
        [least, least, most],
    ]
    assert totals(spark, "decimal(38,2)", *groups) == [0, Decimal(f"{'9' * 36}.98"), least]


def test_a_total_that_does_not_fit_is_null_and_other_keys_go_on(spark):
    assert totals(spark, "bigint", [2**63 - 1, 1], [-(2**63), -1], [7]) == [None, None, 7]
    most, least = Decimal(f"{'9' * 36}.99"), Decimal(f"-{'9' * 36}.99")
    groups = [[most, most], [least, least], [Decimal("0.01")]]
    assert totals(spark, "decimal(38,2)", *groups) == [None, None, Decimal("0.01")]


def test_a_sum_of_many_large_integers_does_not_overflow_once_merged(spark):
    """2^32 events of the largest int, as that many partials would add up."""
    from trilayer import sum_

    view = View("v", source=STREAM, key=["g"], aggregates={"total": sum_("int_value")})
    large = pa.table({"g": [1, 1, 2], "total__sum": [Decimal(2**62), Decimal(2**62), Decimal(5)]})
    (merged,) = merged_by_spark(spark, [view], [large.cast(partial_schema(view))])
    merged = by_key(view, merged)
    assert merged[1,]["total__sum"] == 2**63
    with open_duckdb(threads=1) as connection:
        connection.register("p", large)
        assert sorted(connection.sql(present_select(view, ["p"])).fetchall()) == [(1, None), (2, 5)]


def test_a_decimal_is_exact(spark):
    from trilayer import sum_

    view = View("v", source=STREAM, key=["g"], aggregates={"total": sum_(COLUMN["decimal(20,3)"])})
    empty = {"at": None, "ok": None} | {COLUMN[t]: None for t in TYPES}
    events = events_table([[empty | {COLUMN["decimal(20,3)"]: Decimal("0.001")}] * 1000])
    (partials,) = partials_of(spark, view, events)
    with open_duckdb(threads=1) as connection:
        connection.register("p", partials)
        assert connection.sql(present_select(view, ["p"])).fetchall() == [(0, Decimal("1.000"))]
