"""PostgreSQL's meaning of single expressions, and what is left as it is written."""

from importlib import resources
from pathlib import Path

import duckdb
import pytest

from trilayer_core.compute.merging import open_duckdb
from trilayer_server.engine.statements import parser
from trilayer_server.introspection import translated
from trilayer_server.introspection.dialect import is_plain
from trilayer_server.introspection.expressions import macros
from trilayer_server.sql_error import SqlError

EXPRESSIONS = [
    line
    for line in (Path(__file__).parent / "expressions.sql").read_text().splitlines()
    if not line.startswith("--")
]


@pytest.fixture(scope="module")
def database():
    with open_duckdb(alone=True) as database:
        database.execute("CREATE SCHEMA _pg")
        folder = resources.files("trilayer_server.introspection")
        database.execute((folder / "dialect.sql").read_text(encoding="utf-8"))
        yield database


def asked(sql):
    return translated(sql, "trilayer", parser())


PLAIN = [
    "SELECT * FROM by_user",
    """SELECT * FROM by_user WHERE "user" = 'u''1'""",
    "select a, b from merged.v where a = 1 and b = 'x' limit 10",
]


def test_a_look_up_is_not_parsed_twice():
    for sql in PLAIN:
        assert is_plain(sql)
        assert asked(sql) == sql


NO_LOOK_UPS = [
    "SELECT count(*) FROM v",
    "SELECT a FROM trilayer.merged.v",
    "SELECT a FROM v ORDER BY a DESC",
    "SELECT a / 2 FROM v",
    r"SELECT a FROM v WHERE b LIKE 'a\_'",
]


def test_what_means_something_else_is_no_look_up():
    for sql in NO_LOOK_UPS:
        assert not is_plain(sql)


def test_what_both_mean_alike_stays(database):
    """DuckDB's SQL goes through its tree and back without another meaning."""
    for expression in EXPRESSIONS:
        sql = f"SELECT {expression}"
        try:
            expected = repr(database.execute(sql).fetchall())
        except duckdb.Error:
            continue  # it is an error in both, or has another spelling
        assert repr(database.execute(asked(sql)).fetchall()) == expected


MEANINGS = [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7 / 2.0", 3.5),
        ("sum(x) / 2 FROM (VALUES (3), (4)) t(x)", 3),
        ("sum(x) / 2 FROM (VALUES (3::int8), (4)) t(x)", 3.5),
        ("value FROM json_array_elements_text('[\"a\"]')", "a"),
        (r"'a_c' LIKE 'a\_c'", True),
        (r"'abc' LIKE 'a\_c'", False),
        ("'apple' SIMILAR TO '%(pp|x)_e'", True),
        ("'a.c' SIMILAR TO 'a.c'", True),
        ("'abc' SIMILAR TO 'a.c'", False),
        ("substring('abc' FROM 'b.')", "bc"),
        ("substring('abc' FROM 'a(.)')", "b"),
        ("substring('abc' FROM 2)", "bc"),
        ("1.0::float8::text", "1"),
        ("16777217::float", 16777217.0),
        ("'abc'::varchar(2)", "ab"),
        ("(regexp_match('ab', '(a)(b)'))[2]", "b"),
        ("""'{"a": {"b": [1, 2]}}'::json #>> '{a,b,1}'""", "2"),
        ("""'{"a": {"b": "c"}}'::jsonb -> 'a' ->> 'b'""", "c"),
        ("""'{"a": 1}'::json -> 'a' IS NOT NULL""", True),
        ("to_char(TIMESTAMP '2024-03-05 14:05:06', 'FMMonth FMDDth'::text)", None),
        ("to_char(1234.5, 'FM9,999.00')", "1,234.50"),
        ("to_char(-0.5, 'FM0.0')", "-0.5"),
        ("to_char(12, '0000')", " 0012"),
        ("to_char(1234, '999')", " ###"),
        ("to_char(DATE '2024-05-05', 'Q')", "2"),
        ("(to_timestamp('2024-03-05', 'YYYY-MM-DD HH24:MI') AT TIME ZONE 'UTC')::text",
         "2024-03-05 00:00:00"),
        ("2 = ANY('{1,2}'::int[])", True),
        ("format('%s is %s', 'a', 1)", "a is 1"),
        ("at FROM (SELECT 1 AS at) t WHERE t.at = 1", 1),
        ("'a' || '{1,2}'::int[]::text || (ARRAY['b c', NULL, ''])::text", 'a{1,2}{"b c",NULL,""}'),
        ("json_build_object('at', max(x)) FROM (VALUES (TIMESTAMP '2024-01-01')) t(x)",
         '{"at":"2024-01-01T00:00:00"}'),
        ("interval '1 month - 1 day' = interval '1 month -1 day'", True),
    ]  # fmt: skip


def test_an_expression_means_what_it_means_to_postgresql(database):
    for expression, value in MEANINGS:
        if value is None:
            with pytest.raises(SqlError, match=r"literal|known"):
                asked(f"SELECT {expression}")
            continue
        assert database.execute(asked(f"SELECT {expression}")).fetchall() == [(value,)]


NAMES = [
        ("SELECT count(*), 1, 'ä', sum(1)", ["count", "?column?", "?column?", "sum"]),
        ("SELECT Count(*) AS Total, 1 AS \"As Is\"", ["total", "As Is"]),
        ("SELECT max FROM (SELECT max(1)) t", ["max"]),
        ("SELECT * FROM (VALUES (1, 2)) t", ["column1", "column2"]),
        ("SELECT (SELECT count(*)), EXISTS (SELECT 1), ARRAY[1], '1'::int, trim(' ')",
         ["count", "exists", "array", "int4", "btrim"]),
        ("SELECT 'ö' || 'ä', now() AT TIME ZONE 'UTC', extract(year FROM now())",
         ["?column?", "timezone", "extract"]),
    ]  # fmt: skip


def test_a_column_has_the_name_that_postgresql_gives_it(database):
    for sql, names in NAMES:
        assert [column[0] for column in database.execute(asked(sql)).description] == names


def test_what_is_no_select_is_left_to_be_refused():
    for sql in ("DROP TABLE v", "SELECT FROM WHERE", "SELECT 1; SELECT count(*)", ""):
        assert asked(sql) == sql


def test_the_number_of_arguments_of_each_macro_is_read():
    assert macros()["lpad"] == {2, 3}
    assert macros()["date_trunc"] == {2}
    assert macros()["statement_timestamp"] == {0}


TEMPLATES = ["HH24:Mi", "MONTH mON", "Am", "FmDD", "DDTH", "RM", "9MI"]


def test_a_template_that_postgresql_reads_otherwise_is_an_error():
    for template in TEMPLATES:
        with pytest.raises(SqlError):
            asked(f"SELECT to_char(current_date, '{template}')")
