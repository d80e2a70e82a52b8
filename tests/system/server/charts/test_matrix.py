"""What PostgreSQL makes of each type, ours makes too, or an error that says what to write."""

import itertools
import re

import psycopg
import pytest

from tests.support.postgres_answers import NUMBERS, OTHERS, answer

COLUMNS = {
    "i4": "seconds",
    "i8": "seconds::int8",
    "n": "(seconds * 1.25)::numeric(10, 2)",
    "f8": "score::float8 * 2 - 3",
    "t": "product",
    "b": "seconds % 2 = 0",
    "d": '"at"::date',
    "ts": '"at"',
    "iv": "\"at\" - timestamp '2024-03-30 05:00'",
    "ta": "string_to_array(product, 'p')",
    "ai": "ARRAY[seconds, 7]",
    "j": "('{\"b\": [1, 2], \"a\": ' || coalesce(seconds::text, 'null') || '}')::json",
}
LITERALS = ["7", "0.5", "'7'", "interval '1 day'", "date '2024-03-31'", "nullif(i4, 0)",
            "'{7}'::int[]"]  # fmt: skip
NUMBER_COLUMNS = ["i4", "i8", "n", "f8"]
TIMES = ["d", "ts", "iv"]
LISTED = ", ".join(f"{sql} AS {name}" for name, sql in COLUMNS.items())
V = f"(SELECT visit, country, {LISTED} FROM tables.visits) v"
ROWS = f"FROM {V} ORDER BY visit"
GROUPS = f"FROM {V} GROUP BY country ORDER BY country"


def each(template, *lists):
    """The template with each combination of values, or of a text's words, in the places of `{}`."""
    values = [words.split() if isinstance(words, str) else words for words in lists]
    return [template.format(*each) for each in itertools.product(*values)]


SIGNS = ["+", "-", "*", "=", "<", "||", "~", "LIKE", "IS DISTINCT FROM"]
OPERATORS = [
    *each("{} {} {}", COLUMNS, SIGNS, [*COLUMNS, *LITERALS]),
    *each("{} {} {}", LITERALS, SIGNS, COLUMNS),
    *each(
        "{} {} {}",
        NUMBER_COLUMNS,
        ["/", "%", "^"],
        ["7", "2.5", *each("nullif({}, 0)", NUMBER_COLUMNS)],
    ),
    *each(
        "{}({}) / 7",
        "round trunc sign ceil floor abs sqrt -",
        ["i4", "i8", "n", "abs(f8)"],
    ),
    *each("iv {}", ["/ 2", "* 1.5", "* -1", "/ nullif(i4, 0)"]),
    *each("{} BETWEEN '2024-03-30' AND '2024-03-31'", ["d", "ts"]),
    "(ts, ts) OVERLAPS (ts, ts)",
    "i4 * interval '1 month'",
    "(i4 || ' days')::interval",
    "d + i4",
]
TYPES = [
    "int2",
    "int4",
    "int8",
    "numeric",
    "numeric(10, 1)",
    "float8",
    "text",
    "varchar(3)",
    "date",
    "timestamp",
    "timestamptz",
    "time",
    "boolean",
    "interval",
    "json",
    "text[]",
    "int[]",
]
CASTS = [*each("{}::{}", COLUMNS, TYPES), *each("({}::{})::text", COLUMNS, TYPES)]
FUNCTIONS = [
    *each(
        "{}({})",
        (
            "abs ceil floor round trunc sign sqrt exp ln length reverse btrim md5 ascii concat "
            "to_json date quote_literal cardinality int4 int8 float8 timestamptz + - NOT"
        ),
        COLUMNS,
    ),
    *each("{}('x', {})", ["concat", "json_build_object", "json_build_array"], COLUMNS),
    *each("concat_ws('-', {}, {})", COLUMNS, ["t", "f8", "b"]),
    *each("round({})", ["f8 + 0.5", "n / 2", "f8::float4"]),
    *each(
        "{}({}, {})",
        ["coalesce", "greatest", "least", "nullif"],
        COLUMNS,
        "7 0.5 '7' i8 f8 ts",
    ),
    *each("CASE WHEN b THEN {} ELSE {} END", COLUMNS, ["7", "0.5", "NULL", "i8", "f8"]),
]
PARTS = (
    "century day decade dow doy epoch hour isodow isoyear julian microseconds millennium "
    "milliseconds minute month quarter second week year"
)
MOMENTS = [
    *each("extract({} FROM {})", PARTS, TIMES),
    *each("date_part('{}', {})", PARTS, TIMES),
    *each("date_trunc('{}', {})", PARTS, TIMES),
    *each("date_trunc('{}', {}, 'America/New_York')", ["day", "month"], ["d", "ts"]),
    *each("{} AT TIME ZONE '{}'", ["d", "ts", "ts::timestamp"], ["UTC", "Europe/Berlin", "EST"]),
    *each("age({}, {})", ["d", "ts"], ["d", "ts"]),
    "extract(epoch FROM iv) / 3600",
    "ts::time",
    "ts::date + 1",
    "d - date '2024-01-01'",
    "date_bin('15 minutes', ts, timestamptz '2001-01-01')",
    "to_timestamp(i4)",
    "to_timestamp(f8)",
]
SHARES = ["", " / 2", " * 2", " % 7", " FILTER (WHERE b)", " + 0.5", "::int", " / count(*)"]
AGGREGATES = [
    *each(
        "{}({})",
        "count sum avg min max stddev stddev_pop var_pop variance bool_and every bit_or",
        COLUMNS,
    ),
    *each("{}(DISTINCT {})", ["count", "sum"], COLUMNS),
    *each("{}({}){}", ["sum", "avg", "min", "max", "count"], [*NUMBER_COLUMNS, "iv"], SHARES),
    *each("round({}({})) / 7", ["sum", "max", "min"], NUMBER_COLUMNS),
    *each("100 * {}({}) / 7", ["sum", "min", "max", "count"], NUMBER_COLUMNS),
    *each(
        "sum({}) / 7",
        [
            *each("{}{}", ["DISTINCT ", "1 - "], NUMBER_COLUMNS),
            *each("CASE WHEN i4 > 50 THEN {} ELSE 0 END", NUMBER_COLUMNS),
        ],
    ),
    *each("sum({}) / sum({})", NUMBER_COLUMNS, ["i4", "i8"]),
    *each("sum({}) * interval '1 second'", NUMBER_COLUMNS),
    *each(
        "date_trunc('{}', {}({}))",
        ["hour", "month"],
        ["min", "max"],
        [*TIMES[:2], "ts::timestamptz"],
    ),
    "sum(count(*)) OVER () / 7",
    *each("coalesce(sum({}), 0) / 7", NUMBER_COLUMNS),
    *each("max({}) || '%'", COLUMNS),
    *each("{}(0.5) WITHIN GROUP (ORDER BY {})", ["percentile_cont", "percentile_disc"], COLUMNS),
    *each("percentile_cont(ARRAY[0.1, 0.5]) WITHIN GROUP (ORDER BY {})", COLUMNS),
    *each("mode() WITHIN GROUP (ORDER BY {})", COLUMNS),
    *each("{}({} ORDER BY visit)", ["array_agg", "json_agg"], COLUMNS),
    *each("string_agg({}::text, ',' ORDER BY visit)", COLUMNS),
    *each("json_object_agg(visit, {} ORDER BY visit)", ["i4", "t", "ts"]),
    *each("{}({}, {})", ["corr", "covar_pop", "regr_slope", "regr_r2"], ["f8", "i4"], ["i8", "n"]),
    "count(DISTINCT (country, i4))",
    "100.0 * count(*) / 7",
    "sum(b::int)",
    "count(*) / 3",
]
WINDOWS = [
    *each(
        "{} OVER (PARTITION BY country ORDER BY visit)",
        ["row_number()", "rank()", "percent_rank()", "cume_dist()", "ntile(4)", "lag(i4, 1, 0)"],
    ),
    *each(
        "{}({}) OVER (ORDER BY visit ROWS 2 PRECEDING)",
        "sum avg min max count lag first_value",
        COLUMNS,
    ),
    *each("100 * {} / nullif(sum({}) OVER (), 0)", NUMBER_COLUMNS, NUMBER_COLUMNS),
    "sum(i4) OVER (ORDER BY ts RANGE BETWEEN interval '3 hours' PRECEDING AND CURRENT ROW)",
]
TEXTS = [
    *each("format('{}', {})", ["%s|%I", "%L", "%2$s %1$s", "%10s|%-4s|%%"], ["visit, country"]),
    *each("format('%L %s', {}, 7)", ["i4", "t", "NULL"]),
    *each("format('{}', t, i4, i4 > 7)", ["%2$s %s", "%s %1$s %s", "%3$s", "%s %s %s"]),
    *each("('[1, 2]'::jsonb)[{}]", [0, 1, -1]),
    *each("'abc'::{}", ["char", "character", "char(2)", "character(3)", "varchar(2)"]),
    *each("array_to_string(ARRAY[i4 > 7, NULL], ','{})", ["", ", '*'"]),
    *each("{}::text", [r"'\x6162'::bytea", "decode('6162', 'hex')", "convert_to(t, 'UTF8')"]),
    *each("encode(convert_to({}, 'UTF8'), '{}')", ["t", "visit"], ["hex", "base64"]),
    *each("convert_from(decode({}, '{}'), 'UTF8')", ["'6162'", "'YWJj'"], ["hex", "base64"]),
    *each("decode('{}', 'hex')", ["6162", ""]),
    *each("encode(sha256({}), 'hex')", ["'abc'::bytea", "convert_to(t, 'UTF8')"]),
    *each("'{}'::bytea", [r"\x6162", r"\x"]),
    *each("string_to_array({}, {})", ["t", "''", "NULL"], ["NULL", "''", "'p'"]),
    *each("string_to_array({}, ',', '')", ["'a,,b'", "t"]),
    *each("array_to_string(ta, '-'{})", ["", ", '*'", ", NULL"]),
    *each("array_to_string(string_to_array('a,,b', ',', ''), '-'{})", ["", ", '*'"]),
    *each("array_remove({}, {})", ["ai"], ["7", "i4", "NULL"]),
    *each("array_replace({}, 7, {})", ["ai"], ["i4", "NULL"]),
    *each("(ai)[{}]", ["1", "2", "3", "0", "-1"]),
    *each("{}(row(i4, t, b))", ["to_json", "row_to_json"]),
    "json_build_object('a', row(i4, t))",
    "json_build_array(row(i4, t), 1)",
]
WORDS = ["t", "tr", "TRUE", "yes", "on", "1", "f", "no", "of", "off", "0", " n ", "o", "2", "", "x"]
NUMBERS_AS_TEXT = ["1.5", "1e3", "0x1F", "1_000", " 7 ", "-7", "+7", "", ".", "1.", "12abc", "1e"]
FAILING = [
    *each("{}({})", "sqrt ln log exp acos asin", ["-1", "0", "2", "1000", "NULL"]),
    *each("{}(f8)", ["sqrt", "ln", "log", "exp", "acos"]),
    *each("power({}, {})", ["0", "2", "f8"], ["-1", "2", "0.5"]),
    *each("{} ^ {}", ["0", "2", "f8", "(-8)"], ["-1", "2", "0.5", "400"]),
    *each("log({}, 8)", ["2", "0", "-1"]),
    *each("'{}'::{}", NUMBERS_AS_TEXT, ["int2", "int", "int8", "numeric"]),
    *each("'{}'::{}", set(NUMBERS_AS_TEXT) - {"0x1F"}, ["float4", "float8"]),
    *each("'{}'::boolean", WORDS),
    *each("format('{}', 'a')", ["%s %s", "%2$s", "%0$s", "%x", "%", "%%", "%1$s %1$s"]),
]
"""What PostgreSQL refuses, ours refuses, too, or it says what to write."""

RELATIONS = [
    *each(
        "SELECT x FROM generate_series({}) AS x",
        [
            "date '2024-01-01', date '2024-01-03', interval '1 day'",
            "'2024-01-01'::date, '2024-01-03', '1 day'::interval",
            "timestamp '2024-01-01', timestamp '2024-01-02', interval '6 hours'",
            "1, 3",
            "3, 1, -1",
            "date '2024-01-01', date '2024-01-03', '1 day'",
            "date '2024-01-01', date '2024-01-03', interval '1' day",
            "date '2024-01-01', date '2024-01-03', 2 * interval '1 day'",
        ],
    ),
    *each(
        "SELECT * FROM (SELECT 1 AS a, 2 AS b) AS x JOIN (SELECT 2 AS b, 5 AS c) AS y {}",
        [
            "USING (b) JOIN (SELECT 5 AS c, 8 AS d) AS z USING (c)",
            "ON x.b = y.b",
        ],
    ),
    "SELECT * FROM json_each((SELECT '{\"a\": 1}'::json))",
    "SELECT * FROM jsonb_each_text((SELECT '{\"a\": 1}'::jsonb)) AS e (k, v)",
    *each(
        'SELECT * FROM {}(\'{{"a": 1, "b": "x"}}\') {}',
        ["json_each", "jsonb_each", "json_each_text", "jsonb_each_text"],
        ["", "AS t", "AS t(k, v)"],
    ),
    "SELECT * FROM tables.visits a JOIN tables.sales b USING (product) ORDER BY visit, id",
    "SELECT * FROM tables.visits a LEFT JOIN tables.sales b USING (product) ORDER BY visit, id",
    "SELECT * FROM (SELECT 1 a, 2 b) x JOIN (SELECT 3 c, 2 b, 1 a) y USING (b, a)",
    "SELECT * FROM (SELECT 1 a, 2 b) x JOIN (SELECT 2 b, 3 c) y USING (b) JOIN (SELECT 5 d, 3 c) z"
    " USING (c)",
    *each(
        "SELECT {0} / 7 AS {0} FROM (SELECT country, sum({0}) AS {0} {1} GROUP BY 1) q"
        " ORDER BY country",
        NUMBER_COLUMNS,
        [f"FROM {V}"],
    ),
    *each("SELECT sum({}) OVER (ORDER BY visit) / 7 AS x {}", NUMBER_COLUMNS, [ROWS]),
    "SELECT substr('abcd', -1), substr('abcd', 0, 2), substring('abcd' FROM -1 FOR 4),"
    " substring(product, -1, 4), substr(product, 2) FROM tables.visits ORDER BY visit",
    *each(
        "SELECT * FROM unnest(ARRAY['a', 'b'], ARRAY[1, 2, 3]) {}",
        ["WITH ORDINALITY AS u(k, v, n)", "AS u(k, v)"],
    ),
    'SELECT * FROM json_array_elements_text(\'["x", "y"]\') WITH ORDINALITY AS u(k, n)',
    "SELECT visit, k, v, n FROM tables.visits, unnest(string_to_array(product, 'p'), ARRAY[1])"
    " WITH ORDINALITY AS u(k, v, n) ORDER BY visit, n",
]
"""Statements of which the names and the order of the columns are compared, too."""

OTHERWISE = re.compile(
    r"""(?:\(\w+::numeric\)::text | \(j::\w+\)::text   # digits of numeric, spaces of json
    | array_agg\((?:j|ai)\ .* | json_build_object\('x',\ f8\)  # json; -3.0 in place of -3
    | quote_literal\((?:f8|ta|ai)\)
    | 0\.5\ \^\ .* )""",
    re.VERBOSE,
)
"""Differences that docs/server.md names, or that no tool asks about."""


def answers(client, expressions, rest, errors):
    """The type and values of each expression, asked together as far as there are no errors."""
    try:
        _, types, rows = answer(client, f"SELECT {', '.join(expressions)} {rest}")
    except psycopg.Error as error:
        if len(expressions) == 1:
            errors[expressions[0]] = error.diag.message_hint
            return {}
        middle = len(expressions) // 2
        first = answers(client, expressions[:middle], rest, errors)
        return first | answers(client, expressions[middle:], rest, errors)
    values = zip(*rows, strict=True)
    return dict(zip(expressions, zip(types, map(list, values), strict=True), strict=True))


SETS = {
    "operators": (OPERATORS, ROWS),
    "casts": (CASTS, ROWS),
    "functions": (FUNCTIONS, ROWS),
    "moments": (MOMENTS, ROWS),
    "aggregates": (AGGREGATES, GROUPS),
    "windows": (WINDOWS, ROWS),
    "texts": (TEXTS, ROWS),
}


@pytest.mark.parametrize(("expressions", "rest"), SETS.values(), ids=SETS)
def test_an_expression_of_each_type_is_what_postgresql_makes_of_it(ours, theirs, expressions, rest):
    expected = {}
    wanted = [each for each in dict.fromkeys(expressions) if not OTHERWISE.fullmatch(each)]
    for place in range(0, len(wanted), 20):
        expected |= answers(theirs, wanted[place : place + 20], rest, {})
    asked, hints, differing = list(expected), {}, {}
    for place in range(0, len(asked), 20):
        given = answers(ours, asked[place : place + 20], rest, hints)
        for expression, (type_, values) in given.items():
            their_type, their_values = expected[expression]
            if values != their_values or _kind(type_) != _kind(their_type):
                pairs = zip(values, their_values, strict=False)
                first = next((pair for pair in pairs if pair[0] != pair[1]), ())
                differing[expression] = (type_, their_type, *first)
    assert len(asked) > 30
    assert differing == {}
    assert [expression for expression, hint in hints.items() if not hint] == []
    assert len(hints) < len(asked) / 8


def test_an_expression_that_postgresql_refuses_is_refused(ours, theirs):
    differing = {}
    for expression in FAILING:
        outcomes = []
        for client in (ours, theirs):
            try:
                outcomes.append(answer(client, f"SELECT {expression} AS x FROM {V} LIMIT 1")[2])
            except psycopg.Error as error:
                outcomes.append(error.sqlstate[:3])  # 2201E and 2201F are ours for some more
        if outcomes[0] != outcomes[1]:
            differing[expression] = outcomes
    assert differing == {}


def test_a_relation_has_the_columns_of_postgresql(ours, theirs):
    for sql in RELATIONS:
        names, types, rows = answer(ours, sql)
        their_names, their_types, their_rows = answer(theirs, sql)
        assert (sql, names, rows) == (sql, their_names, their_rows)
        assert (sql, [*map(_kind, types)]) == (sql, [*map(_kind, their_types)])


def test_a_function_that_is_lacking_has_a_hint(ours):
    for sql in (
        "regexp_matches(product, 'a(.)')",
        "to_number('1,2', '9,9')",
        "make_interval(days => 1)",
        "justify_days(interval '40 days')",
        "substring(product from '%#\"a#\"%' for '#')",
    ):
        with pytest.raises(psycopg.Error) as caught:
            ours.execute(f"SELECT {sql} FROM tables.visits".encode())
        assert caught.value.diag.message_hint.startswith("Write ")


def test_a_text_with_padding_is_refused(ours):
    for type_ in ("char (9)", "char(5)", "character(5)"):
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            ours.execute(f"SELECT 'abc'::{type_}")
        assert refused.value.diag.message_hint == "Write varchar(n) or text"
    assert ours.execute("SELECT 'abc'::character varying(2)").fetchall() == [("ab",)]


def _kind(oid):
    return NUMBERS.get(oid, _LISTS.get(oid, OTHERS.get(oid, oid)))


_LISTS = {1022: 1231, 1007: 1231, 1016: 1231}


def test_tables_that_are_joined_in_several_ways_lose_no_column(ours, theirs):
    for more in ("JOIN z ON z.b = y.b", "LEFT JOIN z ON true", ", z"):
        _check_joined(ours, theirs, more)


def _check_joined(ours, theirs, more):
    tables = "x (a, b) AS (SELECT 1, 2), y (b, c) AS (SELECT 2, 5), z (c, b) AS (SELECT 5, 2)"
    sql = f"WITH {tables} SELECT * FROM x JOIN y USING (b) {more}"
    (names, _, (row,)), (their_names, _, (their_row,)) = answer(ours, sql), answer(theirs, sql)
    columns, their_columns = zip(names, row, strict=True), zip(their_names, their_row, strict=True)
    assert sorted(columns) == sorted(their_columns)  # in another order
