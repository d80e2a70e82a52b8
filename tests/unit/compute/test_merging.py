"""How partials are merged, presented and compared, in DuckDB alone."""

import math
from datetime import UTC, datetime, timedelta
from itertools import permutations

import duckdb
import pyarrow as pa
import pytest

from trilayer import Stream, View, count, latest, mean, session, sliding, sum_
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.compute.merging import (
    Comparison,
    compare_answers,
    compare_partials,
    create_table_sql,
    insert_rows,
    merge_select,
    open_duckdb,
    present_compared_select,
    present_select,
)

STREAM = Stream("s", "k string, n int, x double, at timestamp", event_time="at")
COUNTS = View("counts", source=STREAM, key=["k"], aggregates={"n": count(), "sum": sum_("n")})
SUMS = View("sums", source=STREAM, key=["k"], aggregates={"total": sum_("x"), "mean": mean("x")})
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def duck():
    with open_duckdb(threads=1) as connection:
        yield connection


def table(duck, name, view, rows, **extra):
    """Partials as a table, after a column for each of `extra`, name to SQL type."""
    duck.execute(create_table_sql(name, view, [f"{c} {type_}" for c, type_ in extra.items()]))
    types = dict.fromkeys(extra, pa.int32())
    insert_rows(duck, name, pa.Table.from_pylist(rows, partial_schema(view, types)))
    return name


def counted(k, n, total=0, **extra):
    return {"k": k, "n__n": n, "sum__sum": total, **extra}


def added(k, total, magnitude=None, number=1):
    """A partial of SUMS."""
    magnitude = abs(total) if magnitude is None else magnitude
    return {
        "k": k,
        "total__sum": total,
        "total__magnitude": magnitude,
        "mean__sum": total,
        "mean__magnitude": magnitude,
        "mean__count": number,
    }


# -- the database ----------------------------------------------------------------------------------


def test_a_database_of_the_readers_is_in_utc_within_its_memory_and_threads():
    with open_duckdb(memory_mb=100, threads=3) as duck:
        assert settings_of(duck) == ("UTC", "95.3 MiB", 3)
        assert settings_of(duck.cursor()) == ("UTC", "95.3 MiB", 3)
    with open_duckdb() as duck:
        assert settings_of(duck)[:2] == ("UTC", "976.5 MiB")


def settings_of(duck):
    names = ("TimeZone", "memory_limit", "threads")
    (found,) = duck.sql(
        "SELECT " + ", ".join(f"current_setting('{name}')" for name in names)
    ).fetchall()
    return found


def test_a_query_cannot_read_variables_of_the_program(duck):
    private = pa.table({"n": [1]})
    with pytest.raises(duckdb.CatalogException, match="private"):
        duck.sql("FROM private")
    assert private.num_rows == 1


def test_rows_are_inserted_by_name_in_order_and_nothing_else_is_left(duck):
    duck.execute('CREATE TABLE t (a INT, "B b" INT)')
    insert_rows(duck, "t", pa.table({"B b": [1, 1, 0], "a": [6, 5, 7]}), ["B b", "a"])
    assert duck.sql("FROM t").fetchall() == [(7, 0), (5, 1), (6, 1)]
    assert duck.sql("SHOW TABLES").fetchall() == [("t",)]


# -- merging and presenting ------------------------------------------------------------------------


def test_partials_of_all_tables_are_merged_by_key_and_kept_apart_by_what_is_kept(duck):
    rows = [counted("a", 1, 5, _tick=1), counted("a", 2, 7, _tick=2), counted(None, 4, _tick=1)]
    tables = [table(duck, name, COUNTS, rows, _tick="INT") for name in ("batch", "speed")]
    assert duck.sql(f"FROM ({merge_select(COUNTS, tables)}) ORDER BY ALL").fetchall() == [
        ("a", 6, 24),
        (None, 8, 0),
    ]
    kept = duck.sql(f"FROM ({merge_select(COUNTS, tables, ['_tick'])}) ORDER BY ALL")
    assert kept.fetchall() == [(1, "a", 2, 10), (1, None, 8, 0), (2, "a", 4, 14)]
    kept = duck.sql(f"FROM ({present_select(COUNTS, tables[:1], ['_tick'])}) ORDER BY ALL")
    assert kept.columns == ["_tick", "k", "n", "sum"]
    assert kept.fetchall() == [(1, "a", 1, 5), (1, None, 4, 0), (2, "a", 2, 7)]


def test_an_answer_has_magnitudes_of_floating_point_sums_if_they_are_asked_for(duck):
    view = View("v", source=STREAM, key=["k"], aggregates={"n": count(), "mean": mean("x")})
    rows = [{"k": "a", "n__n": 2, "mean__sum": 1.0, "mean__magnitude": 5.0, "mean__count": 2}]
    tables = [table(duck, "p", view, rows)]
    answer = duck.sql(present_select(view, tables))
    assert (answer.columns, answer.fetchall()) == (["k", "n", "mean"], [("a", 2, 0.5)])
    answer = duck.sql(present_select(view, tables, magnitudes=True))
    assert answer.columns == ["k", "n", "mean", "mean__magnitude"]
    assert answer.fetchall() == [("a", 2, 0.5, 2.5)]


def test_a_window_is_put_together_from_the_panes_of_all_tables(duck):
    view = View(
        "v",
        source=STREAM,
        key={"k": "k", "w": sliding("at", "2 minutes", "1 minute")},
        aggregates={"n": count()},
    )
    panes = [{"k": "a", "w": NOON, "n__n": 1}, {"k": "a", "w": NOON + MINUTE, "n__n": 10}]
    tables = [table(duck, f"p{n}", view, [pane]) for n, pane in enumerate(panes)]
    answer = duck.sql(f"FROM ({present_select(view, tables)}) ORDER BY ALL")
    assert answer.columns == ["k", "w", "w_end", "n"]
    assert answer.fetchall() == [
        ("a", start, start + 2 * MINUTE, n)
        for start, n in ((NOON - MINUTE, 1), (NOON, 11), (NOON + MINUTE, 10))
    ]


def test_a_window_with_states_of_its_own_gets_whole_panes_of_each_key_and_tick(duck):
    """Two halves of a pane, each at most a gap before the next one: a session, not two."""
    view = View(
        "v",
        source=STREAM,
        key={"k": "k", "w": session("at", "1 minute")},
        aggregates={"n": count()},
    )

    def pane(k, start, first, last, tick):
        first, last = (NOON + timedelta(seconds=s) for s in (first, last))
        return {"k": k, "w": start, "w__first": first, "w__last": last, "n__n": 1, "_tick": tick}

    rows = [
        pane("a", NOON, 10, 20, 1),
        pane("a", NOON, 30, 50, 1),
        pane("a", NOON + MINUTE, 100, 100, 1),
        pane("a", NOON + MINUTE, 119, 119, 2),
        pane("b", NOON + MINUTE, 70, 70, 1),
    ]
    tables = [table(duck, "p", view, rows, _tick="INT")]
    from_, until = NOON + timedelta(seconds=10), NOON + timedelta(seconds=160)
    answers = duck.sql(f"FROM ({present_select(view, tables, ['_tick'])}) ORDER BY ALL").fetchall()
    assert answers == [
        (1, "a", from_, until, 3),
        (1, "b", NOON + timedelta(seconds=70), NOON + timedelta(seconds=130), 1),
        (2, "a", NOON + timedelta(seconds=119), NOON + timedelta(seconds=179), 1),
    ]
    answers = duck.sql(f"FROM ({present_select(view, tables)}) ORDER BY ALL").fetchall()
    assert answers[0] == ("a", from_, NOON + timedelta(seconds=179), 4)


def test_the_parts_of_a_state_are_presented_each_by_its_name(duck):
    view = View("v", source=STREAM, key=["k"], aggregates={"n": latest("n", by="at")})
    event = {"by": NOON, "partition": 0, "offset": 7, "known": True, "value": 5}
    older = event | {"by": NOON - MINUTE, "value": 6}
    rows = [{"k": "a", "n__event": older}, {"k": "a", "n__event": event}]
    tables = [table(duck, "p", view, rows)]
    assert duck.sql(present_select(view, tables)).fetchall() == [("a", 5)]


# -- comparing -------------------------------------------------------------------------------------


@pytest.fixture
def sides(duck):
    """A key that matches, a key that is NULL and matches, one that differs, one on each side."""
    table(duck, "lefts", COUNTS, [counted(k, 1, 5) for k in ("a", None, "b", "left")])
    right = [counted("a", 1, 5), counted(None, 1, 5), counted("b", 1, 6), counted("right", 1)]
    table(duck, "rights", COUNTS, right)
    return "lefts", "rights"


def test_keys_match_differ_are_missing_or_extra(duck, sides):
    found = compare_partials(duck, COUNTS, *sides)
    assert (found.match, found.differ, found.missing, found.extra) == (2, 1, 1, 1)
    assert found.keys == [
        {"_kind": kind, "k": k, "left_n__n": ln, "right_n__n": rn, "left_sum__sum": ls,
         "right_sum__sum": rs}
        for kind, k, ln, rn, ls, rs in (
            ("differ", "b", 1, 1, 5, 6),
            ("extra", "right", None, 1, None, 0),
            ("missing", "left", 1, None, 5, None),
        )
    ]  # fmt: skip
    assert duck.sql("SHOW TABLES").fetchall() == [("lefts",), ("rights",)]


def test_twenty_keys_that_do_not_match_are_shown(duck):
    table(duck, "many", COUNTS, [counted(str(n), 1) for n in range(30)])
    table(duck, "none", COUNTS, [])
    answers = [f"({present_select(COUNTS, [side])})" for side in ("many", "none")]
    for found in (
        compare_partials(duck, COUNTS, "many", "none"),
        compare_answers(duck, COUNTS, *answers),
    ):
        assert (found.match, found.differ, found.missing, found.extra) == (0, 0, 30, 0)
        assert len(found.keys) == 20
    found = compare_partials(duck, COUNTS, "none", "many")
    assert (found.match, found.differ, found.missing, found.extra) == (0, 0, 0, 30)
    assert duck.sql("SHOW TABLES").fetchall() == [("many",), ("none",)]


@pytest.mark.parametrize("counts", [(0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)])
def test_answers_are_the_same_only_if_no_key_is_different(counts):
    assert Comparison(5, 0, 0, 0, []).same
    assert not Comparison(*counts, []).same


def test_a_comparison_can_be_kept_with_its_keys_and_both_sides(duck):
    left = [counted("a", 1, 5, _tick=1), counted("a", 1, 5, _tick=2)]
    right = [counted("a", 1, 5, _tick=1), counted("a", 2, 5, _tick=2)]
    table(duck, "lefts", COUNTS, left, _tick="INT")
    table(duck, "rights", COUNTS, right, _tick="INT")
    found = compare_partials(duck, COUNTS, "lefts", "rights", into="c", keep=["_tick"])
    assert (found.match, found.differ, len(found.keys)) == (1, 1, 1)
    assert duck.sql("FROM c ORDER BY _tick").fetchall() == [
        ("match", 1, "a", 1, 1, 5, 5),
        ("differ", 2, "a", 1, 2, 5, 5),
    ]
    shown = duck.sql(present_compared_select(COUNTS, "c", ("batch", "speed")))
    assert shown.columns == ["_kind", "k", "n__batch", "n__speed", "sum__batch", "sum__speed"]
    assert sorted(shown.fetchall()) == [("differ", "a", 1, 2, 5, 5), ("match", "a", 1, 1, 5, 5)]


def test_a_comparison_is_presented_in_the_order_of_its_keys(duck):
    view = View("v", source=STREAM, key=["k", "n"], aggregates={"all": count()})
    keys = [("c", 1), ("a", 2), (None, 0), ("a", 1)]
    for side in ("lefts", "rights"):
        table(duck, side, view, [{"k": k, "n": n, "all__n": 1} for k, n in keys])
    compare_partials(duck, view, "lefts", "rights", into="c")
    shown = duck.sql(present_compared_select(view, "c", ("batch", "speed"))).fetchall()
    assert [row[1:3] for row in shown] == [("a", 1), ("a", 2), ("c", 1), (None, 0)]


def test_a_null_equals_a_null_alone(duck):
    table(duck, "lefts", SUMS, [added("a", None, 0.0), added("b", None, 0.0), added("c", 1.0)])
    table(duck, "rights", SUMS, [added("a", None, 0.0), added("b", 0.0), added("c", None, 0.0)])
    found = compare_partials(duck, SUMS, "lefts", "rights")
    assert [(row["_kind"], row["k"]) for row in found.keys] == [("differ", "b"), ("differ", "c")]


@pytest.mark.parametrize("magnitudes", [False, True])
def test_answers_may_differ_by_a_part_of_their_numbers(duck, magnitudes):
    """Of the numbers that were added up, where the left side has them; of the sums elsewhere."""
    left = [added("a", 1.0, 100.0, 4), added("b", -1.0, 1.0, 4), added("c", 2.0, 2.0, 4)]
    right = [added("a", 1.0 + 2e-8, 1.0, 4), added("b", -1.0 - 5e-10, 1.0, 4), added("c", 2.1)]
    table(duck, "lefts", SUMS, left)
    table(duck, "rights", SUMS, right)
    asked = (f"({present_select(SUMS, ['lefts'], magnitudes=magnitudes)})",
             f"({present_select(SUMS, ['rights'])})")  # fmt: skip
    found = compare_answers(duck, SUMS, *asked, **({"magnitudes": True} if magnitudes else {}))
    assert [row["k"] for row in found.keys] == (["c"] if magnitudes else ["a", "c"])


def test_answers_without_floating_point_numbers_must_be_equal(duck):
    table(duck, "lefts", COUNTS, [counted("a", 10**12, 1)])
    table(duck, "rights", COUNTS, [counted("a", 10**12 + 1, 1)])
    asked = [f"({present_select(COUNTS, [side])})" for side in ("lefts", "rights")]
    for magnitudes in (False, True):
        assert compare_answers(duck, COUNTS, *asked, magnitudes=magnitudes).differ == 1


def test_answers_that_are_text_must_be_equal(duck):
    view = View("v", source=STREAM, key=["n"], aggregates={"who": latest("k", by="at")})
    one, other = "(SELECT 1 AS n, 'x' AS who)", "(SELECT 1 AS n, 'y' AS who)"
    assert compare_answers(duck, view, one, one).same
    assert compare_answers(duck, view, one, other).differ == 1


def summed(values):
    """A partial of values that were added up in this order."""
    total = magnitude = 0.0
    for value in values:
        total, magnitude = total + value, magnitude + abs(value)
    return added("a", total, magnitude, len(values))


def compared(duck, left, right):
    """The comparisons of partials and of answers, of values added up in two orders."""
    duck.execute("DROP TABLE IF EXISTS lefts; DROP TABLE IF EXISTS rights")
    table(duck, "lefts", SUMS, [summed(left)])
    table(duck, "rights", SUMS, [summed(right)])
    partials = compare_partials(duck, SUMS, "lefts", "rights", into="c")
    duck.sql(present_compared_select(SUMS, "c", ("batch", "speed"))).fetchall()
    expected = f"({present_select(SUMS, ['lefts'], magnitudes=True)})"
    answer = f"({present_select(SUMS, ['rights'])})"
    return partials, compare_answers(duck, SUMS, expected, answer, magnitudes=True)


@pytest.mark.parametrize(
    "values",
    [(1e16, 1.0, -1e16), (0.1, 0.2, -0.3), (1e308, 1e308, -1e308), (1e308, 1e308, -math.inf)],
)
def test_floating_point_sums_that_cancel_are_the_same_in_any_order(duck, values):
    for order in permutations(values):
        same, answer = compared(duck, values, order)
        assert same.same
        assert answer.same


@pytest.mark.parametrize(
    "other", [(1e8, 1e8), (1e16, 1.0, -1e16, 1e8), (1e16, 1.0), (), (math.nan, 1.0)]
)
def test_floating_point_sums_of_other_numbers_are_not(duck, other):
    same, answer = compared(duck, (1e16, 1.0, -1e16), other)
    assert same.differ == answer.differ == 1
