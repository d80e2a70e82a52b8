"""Operators and aggregates over columns of each type are what PostgreSQL computes."""

import psycopg
import pytest

from tests.support.postgres_answers import answer

NUMBERS = {
    "i2": "seconds::int2", "i4": "seconds", "i8": "seconds::int8",
    "n": "(seconds * 1.25)::numeric(10, 2)", "f8": "score::float8 * 2 - 3",
}  # fmt: skip
MOMENTS = {"d": '"at"::date', "ts": '"at"', "tz": '"at"::timestamptz'}
COLUMNS = ", ".join(f"{sql} AS {name}" for name, sql in (NUMBERS | MOMENTS).items())
V = f"(SELECT visit, country, {COLUMNS} FROM tables.visits) v"

OPERATORS = [
    f"{left} {operator} {right}"
    for left in NUMBERS
    for operator in "+-*/"
    for right in ("7", "2.5", *(f"nullif({name}, 0)" for name in NUMBERS))
]
SUMS = [
    sql.format(name)
    for name in NUMBERS
    for sql in (
        "sum({})", "sum({}) / 7", "sum({}) / count(*)", "100 * sum({}) / 7", "sum(DISTINCT {}) / 7",
        "sum({}) FILTER (WHERE i4 > 50) / 7", "sum(-{} + 1) / 7", "sum(coalesce({}, 0)) / 7",
        "sum(CASE WHEN i4 > 50 THEN {} ELSE 0 END) / 7", "sum({}) / sum(i4)", "sum({}) / sum(i8)",
        "round(sum({}) / 7)", "sum(count(*)) OVER () / 7", "min({}) / 7", "max({}) / 7",
        "count({}) / 7", "sum({}) * interval '1 second'",
    )
]  # fmt: skip
TRUNCATED = [
    f"date_trunc('{part}', {of}({name}))"
    for part in ("hour", "month")
    for of in ("", "min", "max")
    for name in MOMENTS
    if of
]
ROUNDED = [
    "round(f8 + 0.5)",
    "round(f8)",
    "round(n)",
    "round(n / 2)",
    "round(i4)",
    "round(f8::float4)",
]


def same(ours, theirs, sql):
    names, _, rows = answer(ours, sql)
    their_names, _, their_rows = answer(theirs, sql)
    differing = [
        (name, mine[place], other[place])
        for place, name in enumerate(names)
        for mine, other in zip(rows, their_rows, strict=True)
        if mine[place] != other[place]
    ]
    assert names == their_names
    assert differing == []


def listed(expressions):
    return ", ".join(f'{sql} AS "{sql}"' for sql in expressions)


@pytest.mark.parametrize("expressions", [OPERATORS, ROUNDED], ids=["operators", "rounded"])
def test_an_expression_of_columns(ours, theirs, expressions):
    same(ours, theirs, f"SELECT {listed(expressions)} FROM {V} ORDER BY visit")


def test_an_aggregate_of_columns(ours, theirs):
    same(ours, theirs, f"SELECT country, {listed(SUMS)} FROM {V} GROUP BY country ORDER BY country")


def test_a_sum_keeps_its_type_outside_of_its_statement(ours, theirs):
    sums = ", ".join(f"sum({name}) AS {name}" for name in NUMBERS)
    sql = listed(f"{name} / 7" for name in NUMBERS)
    same(
        ours,
        theirs,
        f"SELECT {sql} FROM (SELECT country, {sums} FROM {V} GROUP BY 1) q ORDER BY country",
    )
    windows = listed(f"sum({name}) OVER (ORDER BY visit) / 7" for name in NUMBERS)
    same(ours, theirs, f"SELECT {windows} FROM {V} ORDER BY visit")


def test_a_truncated_time_has_the_type_of_postgresql(ours, theirs):
    sql = f"SELECT {listed(TRUNCATED)} FROM {V}"
    assert answer(ours, sql) == answer(theirs, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT substr('abcd', -1), substr('abcd', 0, 2), substring('abcd' FROM -1 FOR 4),"
        " substring(product, -1, 4), substr(product, 2) FROM tables.visits ORDER BY visit",
        "SELECT * FROM unnest(ARRAY['a', 'b'], ARRAY[1, 2, 3]) WITH ORDINALITY AS u(k, v, n)",
        "SELECT * FROM unnest(ARRAY['a', 'b'], ARRAY[1, 2, 3]) AS u(k, v)",
        'SELECT * FROM json_array_elements_text(\'["x", "y"]\') WITH ORDINALITY AS u(k, n)',
        "SELECT visit, k, v, n FROM tables.visits, unnest(string_to_array(product, 'p'), ARRAY[1])"
        " WITH ORDINALITY AS u(k, v, n) ORDER BY visit, n",
    ],
)
def test_places_are_counted_as_postgresql_does(ours, theirs, sql):
    same(ours, theirs, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "regexp_matches(product, 'a(.)')", "to_number('1,2', '9,9')", "make_interval(days => 1)",
        "justify_days(interval '40 days')", "substring(product from '%#\"a#\"%' for '#')",
    ],
)  # fmt: skip
def test_a_function_that_is_lacking_has_a_hint(ours, sql):
    with pytest.raises(psycopg.Error) as caught:
        ours.execute(f"SELECT {sql} FROM tables.visits".encode())
    assert caught.value.diag.message_hint.startswith("Write ")
