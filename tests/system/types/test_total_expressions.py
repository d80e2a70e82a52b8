"""An expression that counts as one that can't fail fails on no value, however hostile."""

import itertools

import pytest
from pyspark.errors import PySparkException

from tests.support.spark_types import shapes
from trilayer_core.definitions.expressions import parse_expression
from trilayer_core.definitions.spark_types import ANY, table
from trilayer_core.errors import DefinitionError

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLACES = 8


def _integers(bits):
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return [f"{least + 1} - 1", most, -1, 0, 1, 100, -100, "NULL"]


_FLOATS = ["'NaN'", "'Infinity'", "'-Infinity'", "-0.0D", "0", "1.7976931348623157E308D",
           "4.9E-324D", "NULL"]  # fmt: skip
_TIMES = ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1582-10-10 00:00:00",
          "1969-12-31 23:59:59.999999", "2024-02-29 00:00:00", "2026-03-29 01:30:00",
          "2026-10-25 01:30:00"]  # fmt: skip
HOSTILE = {
    **{kind: _integers(bits) for kind, bits in zip(ANY[:4], (8, 16, 32, 64), strict=True)},
    **dict.fromkeys(("float", "double"), _FLOATS),
    "decimal": ["9" * 38 + "BD", "-" + "9" * 38 + "BD", 0, 1, -1, -7, 100, "NULL"],
    "decimal(38,38)": ["0." + "9" * 38 + "BD", "-0." + "9" * 38 + "BD", *["0", "NULL"] * 3],
    "decimal(38,10)": [f"{sign}{'9' * 28}.{'9' * 10}BD" for sign in ("", "-") * 3] + ["0", "NULL"],
    "decimal(10,2)": ["99999999.99", "-99999999.99", 0, "0.01", "-0.01", 1, -1, "NULL"],
    "string": ["''", r"'a\\'", r"'\\x%_'", "decode(X'C3A4F09F9880CC88', 'utf-8')", "'([{*'",
               "repeat('ä', 500)", r"'\0'", "NULL"],
    "binary": ["X''", "X'FF'", "X'00'", "X'5C'", "X'61'", "X'255F'", "X'C3A4'", "NULL"],
    "boolean": ["true", "false", "NULL", *["true"] * 5],
    "date": [*(f"'{time[:10]}'" for time in _TIMES), "NULL"],
    "timestamp": [*(f"'{time}Z'" for time in _TIMES), "NULL"],
    "timestamp_ntz": [*(f"'{time}'" for time in _TIMES), "NULL"],
}  # fmt: skip
"""Values of each type."""

TYPES = {kind: kind for kind in HOSTILE} | {"decimal": "decimal(38,0)"}
NESTED = {
    "m": ("map<string,bigint>", "map('', 1L, 'a', NULL)"),
    "tags": ("array<string>", "IF(i < 4, array('a', NULL), array())"),
    "nums": ("array<int>", "IF(i < 4, array(2147483647, NULL), NULL)"),
    "s": ("struct<x:int,y:string>", "IF(i < 4, named_struct('x', 1, 'y', NULL), NULL)"),
}


def column(place, kind):
    return f"{'abc'[place]}_{kind.replace('(', '_').replace(',', '_').replace(')', '')}"


COLUMNS = {
    column(place, kind): TYPES[kind] for kind in HOSTILE for place in range(3)
} | {name: type_ for name, (type_, _) in NESTED.items()}  # fmt: skip
OTHERS = """
m['b'] | m[a_string] | cast(m as string) | size(m) | map_keys(m) | map_values(m)[0] | to_json(m)
array_contains(tags, a_string) | array_contains(nums, b_tinyint) | array_contains(nums, b_bigint)
size(tags) | array_size(nums) | cardinality(m) | get(nums, a_int) | get(tags, a_bigint)
array_min(nums) | array_max(tags) | sort_array(nums) | array_sort(tags) | array_distinct(tags)
size(map_values(m)) | size(reverse(tags)) | size(array_compact(nums)) | concat_ws(',', tags)
hash(tags, s) | xxhash64(nums) | typeof(m) | isnull(m) | s.x | s.y = a_string | to_json(s)
named_struct('p', a_int, 'q', b_string).p | struct(a_int, s).s.x | array(a_int, b_bigint)[0]
get(array(a_tinyint, b_bigint), c_tinyint) | size(cast(tags as array<int>)) | cast(s as string)
a_string like 'a%' | a_string like 'a\\\\' | a_string like b_string | a_string ilike '%ä_'
a_string like any ('a%', b_string) | a_string like all ('a', 'b') | a_string not like '%\\\\'
a_string rlike b_string | a_string rlike '^[0-9]+$' | like(a_string, b_string)
a_int % 2 = 1 | a_bigint % 7 | a_int / 3 | a_bigint div 2 | a_bigint div -1 | a_double / 0.5
a_int / 0 | a_decimal_10_2 / 3 | a_decimal / 7 | a_decimal_10_2 * b_int | a_decimal_10_2 + b_bigint
a_decimal_10_2 * 1.19 | a_decimal_38_10 * 2 | a_decimal_38_10 - b_decimal_38_38 | a_bigint + 1
a_decimal_10_2 * b_decimal_10_2 - c_decimal_10_2 | round(a_decimal_10_2, 1) | round(a_double, 2)
round(a_decimal_10_2, -8) | round(a_decimal_38_10, 2) | floor(a_double) | ceil(a_float)
bround(a_float, -3) | round(a_double) | ceil(a_decimal_10_2, 1) | abs(a_decimal_10_2) | -a_double
mod(a_int, 10) | pmod(a_int, 10) | pmod(a_double, 3) | a_decimal_38_38 % 2
cast(a_decimal_10_2 as decimal(9,2)) | cast(a_decimal_10_2 as decimal(12,4))
cast(a_decimal_10_2 as decimal(9,1)) | cast(a_int as decimal(9,0)) | cast(a_int as decimal(12,2))
cast(a_int * b_decimal_10_2 as decimal(20,2)) | cast(a_bigint * b_int as decimal(25,0))
to_date(a_timestamp) | to_date(a_string) | to_timestamp(a_date) | to_date(a_timestamp, 'yyyy')
from_utc_timestamp(a_timestamp, 'America/New_York') | to_utc_timestamp(a_timestamp, 'Asia/Kolkata')
to_date(from_utc_timestamp(a_timestamp, 'Pacific/Kiritimati')) | date_trunc(a_string, b_timestamp)
extract(week from a_timestamp) | extract(second from a_timestamp_ntz) | date_part('doy', a_date)
timestampdiff(SECOND, a_timestamp, b_timestamp) | timestampdiff(MICROSECOND, a_date, b_timestamp)
timestampadd(YEAR, 9999, a_timestamp) | a_date + interval 9999 years | a_timestamp - b_timestamp
date'2020-01-01' < a_timestamp | a_timestamp > '2026-01-01' | a_decimal_10_2 = '1.50'
case when a_boolean then b_int when a_int > 1 then c_bigint else 0 end | a_int in (1, 2.5, b_bigint)
case a_int when b_bigint then 1 end | (a_int, b_string) in ((1, 'a')) | nvl2(a_int, b_date, c_date)
a_int between b_double and c_decimal | a_boolean and not b_boolean or a_int is null
element_at(nums, a_int) | try_element_at(nums, a_int) | nums[a_int] | element_at(m, a_string)
substring(a_string, b_int, c_int) | left(a_string, b_int) | a_string || b_int || c_double
replace(a_string, b_string, c_string) | translate(a_string, b_string, c_string)
locate(a_string, b_string, c_int) | levenshtein(a_string, b_string, c_int) | date(a_string)
"""


def _parts():
    """Expressions over all types that the table has, and others."""
    for name, (template, _) in shapes().items():
        for line in table().get(name, ()):
            for kinds in itertools.product(
                *(k.split("|") for k in line.partition(" -> ")[0].split(", ") if k)
            ):
                if {*kinds} <= {*ANY, "int literal"} and len(kinds) <= 2:
                    given = [
                        "2" if kind == "int literal" else column(place, kind)
                        for place, kind in enumerate(kinds)
                    ]
                    several = template.count("{}") > 1 or len(given) == 1
                    yield template.format(*given) if several else template.format(", ".join(given))
    for of, to in itertools.product(HOSTILE, TYPES.values()):
        yield f"cast({column(0, of)} as {to})"
    for left, right in itertools.product(HOSTILE, HOSTILE):
        one, two = column(0, left), column(1, right)
        yield from (f"{one} = {two}", f"{one} < {two}", f"greatest({one}, {two})")
        if "(" in left or "(" in right:
            yield from (f"{one} {operator} {two}" for operator in "+-*/%")
    for time, unit in itertools.product(ANY[10:], ("hour", "week", "quarter", "millennium", "x")):
        yield from (f"date_trunc('{unit}', {column(0, time)})", f"trunc({column(0, time)}, 'x')")
    yield from (sql.strip() for line in OTHERS.strip().splitlines() for sql in line.split(" | "))


def total():
    """Those of them that can't fail, with Spark's SQL."""
    for sql in dict.fromkeys(_parts()):
        try:
            expression = parse_expression(f"hash({sql})", COLUMNS, "it")
        except DefinitionError:
            continue
        if expression.total:
            yield sql


@pytest.fixture(scope="module")
def hostile(spark):
    """A session with a view of all pairs of hostile values."""
    session = spark.newSession()
    # Spark compiles nothing for so few rows.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    rows = session.range(PLACES * PLACES).selectExpr(
        f"int(id div {PLACES}) AS i", f"int(id % {PLACES}) AS j"
    )
    at = ("i", "j", f"(i + j) % {PLACES}")
    selected = [
        f"array({', '.join(f'CAST({value} AS {TYPES[kind]})' for value in values)})[{at[place]}]"
        f" AS {column(place, kind)}"
        for kind, values in HOSTILE.items()
        for place in range(3)
    ]
    selected += [f"CAST({sql} AS {type_}) AS {name}" for name, (type_, sql) in NESTED.items()]
    made = rows.selectExpr(*selected).toArrow()
    session.createDataFrame(made, ", ".join(f"{n} {t}" for n, t in COLUMNS.items())).coalesce(
        1
    ).createOrReplaceTempView("hostile_values")
    return session


def _failing(session, expressions):
    """Those of some expressions that fail, with the reason."""
    selected = ", ".join(f"max(hash({sql}))" for sql in expressions)
    try:
        session.sql(f"SELECT {selected} FROM hostile_values").collect()
    except PySparkException as error:
        if len(expressions) == 1:
            return {expressions[0]: str(error)[:200]}
        half = len(expressions) // 2
        return _failing(session, expressions[:half]) | _failing(session, expressions[half:])
    return {}


def test_what_cant_fail_fails_on_no_value(hostile):
    expressions, failing = list(total()), {}
    assert len(expressions) > 1000
    for start in range(0, len(expressions), 100):
        failing |= _failing(hostile, expressions[start : start + 100])
    assert failing == {}
