"""Expressions have the types that Spark has for them; what Spark could not compute is refused."""

import itertools
import random
import re
import subprocess
import sys

import pytest

from trilayer import Stream, View, max_, mean, quantiles
from trilayer_core.definitions.expressions import parse_expression
from trilayer_core.definitions.spark_types import ANY, INTERVALS, OTHERS, table
from trilayer_core.errors import DefinitionError

COLUMNS = {f"c_{kind}": "decimal(10,2)" if kind == "decimal" else kind for kind in ANY} | {
    "name": "string",
    "n": "int",
    "big": "bigint",
    "price": "decimal(10,2)",
    "a": "timestamp",
    "b": "timestamp",
    "d": "date",
    "local": "timestamp_ntz",
    "ship": "struct<zipCode:string,Lines:array<struct<skuId:string>>>",
    "tags": "array<string>",
}
WIDEST = dict.fromkeys(ANY[:4], "bigint") | dict.fromkeys(("float", "double"), "double")


def typed(sql: str) -> str:
    return parse_expression(sql, COLUMNS, "it").type


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("round(price, 1)", "decimal(10,1)"),
        ("round(big, 0)", "bigint"),
        ("coalesce(big, 0.5)", "decimal(21,1)"),
        ("price * 2", "decimal(12,2)"),
        ("price / 3", "decimal(14,6)"),
        ("price % 7", "decimal(3,2)"),
        ("ceil(price)", "decimal(9,0)"),
        ("extract(second from a)", "decimal(8,6)"),
        ("n / 2", "double"),
        ("n + 1", "bigint"),
        ("c_binary || c_binary", "binary"),
        ("d + 1", "date"),
        ("a + interval 1 hour", "timestamp"),
        ("width_bucket(price, 0, 10, 5)", "bigint"),
        ("date_trunc('day', local)", "timestamp"),
        ("ship.ZIPCODE", "string"),
        ("ship.lines[0].skuid", "string"),
        ("cast(from_json(name, 'x int').x as int)", "int"),
    ],
)
def test_a_type_is_that_of_spark(sql, type_):
    assert typed(sql) == type_


def test_every_function_has_the_type_that_the_table_has():
    chosen = random.Random(30)
    for name, lines in table().items():
        for line in lines if re.fullmatch(r"\w+", name) and name not in (OTHERS, "chosen") else ():
            arguments, _, result = line.partition(" -> ")
            lists = list(itertools.product(*(k.split("|") for k in arguments.split(", ") if k)))
            kinds = chosen.choice(lists)
            if result in (*INTERVALS, "decimal") or not {*kinds} <= {*ANY}:
                continue
            sql = f"{name}({', '.join(f'c_{kind}' for kind in kinds)})"
            assert typed(sql) == WIDEST.get(result, result), sql


TEXT_AND = [kind for kind in ANY if kind not in ("string", "binary")]


@pytest.mark.parametrize("kind", TEXT_AND)
def test_text_is_not_compared_with_another_type(kind):
    column = f"c_{kind}"
    for sql in (
        *(f"name {operator} {column}" for operator in ("=", "<>", "<", ">=", "<=>")),
        f"{column} = name",
        f"{column} in ({column}, name)",
        f"name between {column} and {column}",
        f"coalesce(name, {column}) is null",
        f"if(n > 1, {column}, name) is null",
        f"case name when {column} then 1 end",
        f"nullif(name, {column})",
        f"greatest({column}, name)",
    ):
        with pytest.raises(DefinitionError, match=r"mixes .*; write `.*try_cast\(name as"):
            typed(sql)


@pytest.mark.parametrize(
    ("sql", "write"),
    [
        ("name = 200", "`try_cast(name as int) = 200`"),
        ("upper(name) > a", "`try_cast(upper(name) as timestamp) > a`"),
        ("name + 1", "`try_cast(name as int) + 1`"),
        ("a - b", "`unix_seconds(a) - unix_seconds(b)`"),
        ("(a - b)", "`unix_seconds(a) - unix_seconds(b)`"),
        ("d - d", "`datediff(d, d)`"),
        ("local - local", "`timestampdiff(SECOND, local, local)`"),
        ("year(name)", "`try_cast(... as TYPE)` around the operand of another type"),
        ("abs(name)", "`try_cast(... as TYPE)` around the operand of another type"),
        ("n and true", "a comparison, or `try_cast(n as boolean)`"),
        ("cast(d as int)", "an expression of another type"),
        ("'x' || n + 1", "`'x' || (n + 1)`"),
        ("ship.zip", "; did you mean 'zipCode'?"),
        ("tags.x", "it without the dot, or `m['key']` for a map"),
        ("uper(name)", "which calls uper(); did you mean 'upper'?"),
        ("from_json(name, 'x int').x", "`cast(from_json(name, 'x int').x as TYPE)`"),
        ("extract(epoch from a)", "`try_cast(... as TYPE)` around the operand of another type"),
        ("unix_timestamp()", "`try_cast(... as TYPE)` around the operand of another type"),
    ],
)
def test_what_to_write_instead(sql, write):
    with pytest.raises(DefinitionError, match=re.escape(write)):
        typed(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "a > '2026-01-01'",
        "'2026-01-01 10:00:00Z' < a",
        "d in ('2026-01-01')",
        "n = '5'",
        "c_boolean = 'true'",
    ],
)
def test_a_literal_text_stands_for_what_it_says(sql):
    assert typed(sql) == "boolean"


@pytest.mark.parametrize(
    "sql", ["a > '2026-02-30'", "a > 'soon'", "n = '5x'", "c_tinyint = '500'", "d = ''"]
)
def test_a_literal_text_that_says_something_else_is_refused(sql):
    with pytest.raises(DefinitionError, match="mixes"):
        typed(sql)


def test_fields_are_passed_on_as_they_are_declared():
    found = parse_expression("upper(ship.ZIPcode) || `ship`.lines[0].SKUID", COLUMNS, "it")
    assert "upper(ship.`zipCode`) || `ship`.`Lines`[0].`skuId`" in found.sql
    assert "ship.zipCode" in parse_expression("ship.zipCode", COLUMNS, "it").sql


@pytest.mark.parametrize("aggregate", [max_, mean, lambda sql: quantiles(sql, [0.5])])
def test_an_interval_is_refused_where_it_is_declared(aggregate):
    rides = Stream(
        "rides", "rider string, started timestamp, ended timestamp", event_time="started"
    )
    message = r"an interval, time interval; write `unix_seconds\(ended\) - unix_seconds\(started\)`"
    with pytest.raises(DefinitionError, match=message):
        View("v", source=rides, key=["rider"], aggregates={"x": aggregate("ended - started")})


def test_total_expressions():
    for sql in (
        "name",
        "ship.zipCode",
        "n > 1 and name like 'a%'",
        "lower(name)",
        "coalesce(n, 0)",
    ):
        assert parse_expression(sql, COLUMNS, "it").total, sql
    for sql in ("try_cast(name as int)", "c_double * 2D", "coalesce(n, 0)", "cast(n as string)"):
        assert parse_expression(sql, COLUMNS, "it").total, sql
    for sql in ("n + 1", "n / 2", "cast(name as int)", "tags[0]", "price * 2", "to_date(name)"):
        assert not parse_expression(sql, COLUMNS, "it").total, sql


def test_an_error_of_a_definition_has_no_internal_frames(tmp_path):
    file = tmp_path / "bike.py"
    file.write_text(
        "from trilayer import Stream, View, count\n"
        "rides = Stream('rides', 'rider string, at timestamp', event_time='at')\n"
        "View('v', source=rides, key=['ridder'], aggregates={'n': count()})\n"
    )
    found = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    lines = found.stderr.strip().splitlines()
    assert lines[-1].startswith(
        "trilayer_core.errors.DefinitionError: key 'ridder' of view 'v' must"
    )
    assert len(lines) <= 8
