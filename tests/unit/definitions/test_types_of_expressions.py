"""Expressions have the types that Spark has for them; what Spark could not compute is refused."""

import itertools
import random
import re

import pytest

from trilayer import Stream, View, max_, mean, quantiles
from trilayer_core.definitions.expressions import parse_expression
from trilayer_core.definitions.spark_types import ANY, ARGUMENTS, INTERVALS, table
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
    "nums": "array<int>",
    "m": "map<string,bigint>",
    "list": "array<string>",
    "both": "string",
    "text": "string",
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
        ("array(n, big)[0]", "bigint"),
        ("array('a', name)[n]", "string"),
        ("list[0]", "string"),
        ("both", "string"),
        ("text || 'x'", "string"),
        ("trim(both)", "string"),
        ("map('a', price)['a']", "decimal(10,2)"),
        ("size(map_filter(m, (k, v) -> v > 1))", "bigint"),
        ("transform_values(m, (k, v) -> concat(k, v))['a']", "string"),
        ("struct(n, name as Label).label", "string"),
        ("struct(ship.ZIPCODE).zipCode", "string"),
        ("sequence(d, d, interval 1 day)[0]", "date"),
        ("array_insert(nums, 1, 5)[0]", "bigint"),
        ("array_union(tags, tags)[0]", "string"),
        ("to_char(n, '999')", "string"),
        ("to_binary(name, 'hex')", "binary"),
        ("coalesce(d, '2026')", "date"),
    ],
)
def test_a_type_is_that_of_spark(sql, type_):
    assert typed(sql) == type_


def test_every_function_has_the_type_that_the_table_has():
    chosen = random.Random(30)
    for name, lines in table().items():
        for line in (
            lines if re.fullmatch(r"\w+", name) and name not in (ARGUMENTS, "chosen") else ()
        ):
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


TEXTS = ("name", "upper(name)", "ship.zipCode", "'a' || name", "trim(BOTH 'x' FROM name)")


@pytest.mark.parametrize("text", TEXTS)
def test_calls_with_words_between_their_operands(text):
    trims = [f"{side} {c} from" for side in ("both", "LEADING", "trailing") for c in ("", "'x'")]
    for sql in (
        *(f"trim({words} {text})" for words in (*trims, "'x' FROM")),
        f"substring({text} from 2)",
        f"SUBSTR({text} FROM n FOR 2 + 1)",
        f"overlay({text} placing {text} from 2)",
        f"OVERLAY({text} PLACING 'x' FROM n FOR 1)",
        f"replace({text}, 'a')",
    ):
        found = parse_expression(sql, COLUMNS, "it")
        assert (found.type, sql in found.sql) == ("string", True), sql
        assert "name" in found.columns or "ship" in found.columns
    assert typed(f"position({text} in {text}) > 1") == "boolean"


@pytest.mark.parametrize("call", ["array({}, name)[0]", "map('a', {})['a']", "struct({} as a).a"])
def test_columns_inside_collections_are_checked(call):
    assert parse_expression(call.format("name"), COLUMNS, "it").columns == {"name"}
    with pytest.raises(DefinitionError, match="must use columns of its source; got 'nmae'"):
        typed(call.format("nmae"))


@pytest.mark.parametrize("type_", ["bool", "text", "int4", "int8", "datetime", "uuid", "number"])
def test_types_of_other_databases_are_refused(type_):
    for sql in (f"cast(name as {type_})", f"try_cast(name as {type_})", f"name::{type_}"):
        with pytest.raises(DefinitionError, match=r"write a type of Spark: tinyint, .*boolean"):
            typed(sql)


@pytest.mark.parametrize(
    ("sql", "write"),
    [
        ("name = 200", "`try_cast(name as int) = 200`"),
        ("upper(name) > a", "`try_cast(upper(name) as timestamp) > a`"),
        ("name + 1", "`try_cast(name as int) + 1`"),
        ("a - b", "`unix_seconds(b) - unix_seconds(a)`, or `datediff(b, a)` of dates"),
        ("year(name)", "`try_cast(... as TYPE)` around the operand of another type"),
        ("abs(name)", "`try_cast(... as TYPE)` around the operand of another type"),
        ("n and true", "a comparison, or `try_cast(n as boolean)`"),
        ("cast(d as int)", "an expression of another type"),
        ("'x' || n + 1", "`'x' || (n + 1)`"),
        ("ship.zip", "; did you mean 'zipCode'?"),
        ("tags.x", "it without the dot, or `m['key']` for a map"),
        ("uper(name)", "which calls uper(); did you mean 'upper'?"),
        ("from_json(name, 'x int').x", "`cast(from_json(name, 'x int').x as TYPE)`"),
        ("extract(epoch from a)", "minute or second; or `unix_seconds(...)`"),
        ("date_part('century', d)", "write year, quarter, month"),
        ("a + interval n hours", "write `n * interval 1 HOURS`"),
        ("dateadd('day', 1, a)", "write `dateadd(DAY, ...)`"),
        ("greatest(d, '2026-01-01')", "`try_cast(... as TYPE)` around the operand"),
        ("coalesce(price, '1.5')", "a text that Spark takes for decimal(10,2), or no quotes"),
        ("array_contains(nums, '1')", "`try_cast(... as TYPE)` around the operand"),
        ("exists(m, x -> x > 1)", "`try_cast(... as TYPE)` around the operand"),
        ("any(n > 1)", "put aggregates in `aggregates=`"),
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
        "d in ('2026-01-01', '2026-1', '2026')",
        "price = '1.50'",
        "n = '5'",
        "c_boolean = 'true'",
    ],
)
def test_a_literal_text_stands_for_what_it_says(sql):
    assert typed(sql) == "boolean"


@pytest.mark.parametrize(
    "sql",
    ["a > '2026-02-30'", "a > 'soon'", "n = '5x'", "c_tinyint = '500'", "d = ''", "d > '2026-13'"],
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
    message = "which is an interval, time interval; write a number"
    with pytest.raises(DefinitionError, match=message):
        View("v", source=rides, key=["rider"], aggregates={"x": aggregate("ended - started")})


@pytest.mark.parametrize(
    "sql",
    ["0x1F", "n + 0x1F", "cast(0x1f as int)", "concat(0x1F, X'00')", "concat('x', hex(0x1F))"],
)
def test_numbers_that_spark_does_not_have_are_refused(sql):
    with pytest.raises(DefinitionError, match="decimal notation"):
        typed(sql)


SYNTAX_OF_OTHERS = r"""
n = :x
n = ?
n = @x
n = $1
n > {x}
{fn upper(name)} = 'A'
name = N'abc'
name ->> 'a' = 'b'
name -> 'a' = 'b'
a at time zone 'Europe/Berlin' > local
name similar to 'x' or c_boolean
name glob 'a*'
name ~* 'a'
name is json
(a, b) overlaps (a, b)
name isnull
name notnull
n is of (int)
n between symmetric 5 and 1
(n, big) = (1, 2)
n in ()
n in unnest(nums)
name in ('a',)
upper(name,) = 'A'
c_boolean,
ALL c_boolean
nums[0:1] = nums
extract(year, a) = 2026
cast(name as int format 'x') = 1
cast(name as varchar) = 'a'
n::char = 'a'
try_cast(name as array) = nums
exists(nums)
nvl(n) = 1
hash() = 1
isnull(n, n)
if(c_boolean, 1) = 1
map('a')['a'] = 1
n is true
--n = 1
aggregate(nums, 0) = 1
upper(x -> x) = 'a'
name collate nocase = 'a'
+name = 'a'
n = +(s || s)
date'2024-01-01'::string = s
concat(s, date'2024-01-01'::string::timestamp::string) = s
interval 1 day::string = s
interval '1 day'::string = s
name || +name = 'a'
+c_boolean
+d = d
n = 1e
n = 1e+
-1e = n
n / 1e = 1
date 'x' = d
date'2020-13-01' = d
timestamp'2020-02-30 10:00:00' = a
timestamp'2020-01-01 25:00:00' = a
timestamp_ntz'soon' = local
from_utc_timestamp(a, 'America/Nowhere') > a
to_utc_timestamp(a, '+19:00') > a
name like 'a' = c_boolean
c_boolean = name is null
c_boolean is null is true
c_boolean is not null is true
n not in (1) is true
name not like 'a' is true
n is null = true
n is distinct from 5 is true
n in [1]
substring(name for 2) = 'a'
substr(name for 2) = 'a'
overlay(name placing 'x' for 2) = 'a'
name like all ()
name not ilike any ()
name like any (nmae)
name like any ('a') escape '!'
name rlike 'a' escape '!'
name like 'a' escape 'ab'
name ilike 'a' escape ''
like(name, 'a', 'ab')
extract('year' from a) = 2026
extract("year" from a) = 2026
name.upper() = 'A'
hash(ship[0]) = 1
hash(ship[n]) = 1
hash(ship['zipcode']) = 1
hash(cast(a as timestamp(3))) = 1
hash(cast(n as int(3))) = 1
hash(cast(n as int unsigned)) = 1
hash(cast(n as null)) = 1
hash(cast(nums as array<int,int>)) = 1
hash(cast(m as map<string>)) = 1
hash(cast(ship as struct<a: string(3)>)) = 1
hash(named_struct(name, 1)) = 1
hash(named_struct(5, 1)) = 1
hash(named_struct(null, 1)) = 1
hash(named_struct('a')) = 1
size(transform(nums, (x, x) -> x)) = 1
size(transform(nums, (x, y, z) -> x)) = 1
size(transform(nums, (x) -> x)) = 1
exists(nums, (x, y) -> x = y)
aggregate(nums, 0, x -> x) = 1
aggregate(nums, 0, (x, y) -> x, (x, y) -> x) = 1
aggregate(nums, x -> x, (x, y) -> x) = 1
size(array_sort(nums, x -> x)) = 1
size(zip_with(nums, nums, x -> x)) = 1
size(map_filter(m, k -> true)) = 1
size(map_zip_with(m, m, (k, v) -> k)) = 1
size(array(x -> x)) = 1
size(flatten(x -> x)) = 1
name collate UTF8_NOCASE = 'a'
name collate UNICODE_CI_CI = 'a'
name collate 'UNICODE' = 'a'
n collate UNICODE = 'a'
collate(name, 'NONE') = 'a'
upper(null, null) = 'a'
hash(upper(tags, 1)) = 1
hash(int(name, 1)) = 1
size(array_repeat(1)) = 1
size(slice(nums, 1)) = 1
chosen(n, n) = 1
convert_timezone('America/Nowhere', local) = local
convert_timezone('UTC', 'America/Nowhere', local) = local
try_make_timestamp(2026, 1, 1, 0, 0, 0, 'America/Nowhere') = a
n = 1e400
n = 99999999999999999999999999999999999999999
hash(m) = 1
xxhash64(n, array(m)) = 1
a + interval 106751992 days = a
a - interval -9223372036854775808 microseconds = a
a + interval '178956971' years = a
""".strip().splitlines()


@pytest.mark.parametrize("sql", SYNTAX_OF_OTHERS)
def test_what_only_other_databases_take_is_refused(sql):
    for written in (sql, f"({sql})"):
        with pytest.raises(DefinitionError, match=r"^it must "):
            parse_expression(written, COLUMNS, "it", "boolean")


@pytest.mark.parametrize(
    "sql",
    [
        "(n not in (1)) is true",
        "((name like 'a')) = c_boolean",
        "hash(cast(a as timestamp(6))) = 1",
        "hash(ship['zipCode']) = 1",
        "name like any (name)",
        r"name like 'a' escape '\\'",
        "substring(name, 1 for 2) = 'a'",
        "name collate unicode_ci_ai = 'a'",
        "hash(named_struct('a' || 'b', n)) = 1",
        "size(transform(nums, (x, y) -> x + y)) = 1",
        "size(transform_keys(m, (k, v) -> k)) = 1",
        "mask(name, 'x', 'y', 'z') = 'a'",
        "size(array(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)) = 10",
        "convert_timezone('Europe/Berlin', local) = local",
        "a + interval 106751991 days = a",
        "a + interval 178956970 years = a",
        "hash(nums, ship) = 1",
    ],
)
def test_what_spark_takes_is_not_refused(sql):
    assert typed(sql) == "boolean"


def test_arrays_are_joined():
    assert typed("(tags || tags)[0]") == typed("concat(tags, tags, tags)[0]") == "string"
    assert typed("X'1F'") == "binary"
