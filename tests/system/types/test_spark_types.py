"""What is decided about types when a definition is declared is what Spark computes."""

import itertools
import random

import pytest
from pyspark.errors import PySparkException

from tests.support.spark_types import (
    Spark,
    is_safe,
    kind_of,
    results,
    shapes,
    sql_of,
)
from trilayer_core.definitions.expressions import INTEGERS, is_orderable, parse_expression
from trilayer_core.definitions.inference import Inference
from trilayer_core.definitions.literals import is_zone
from trilayer_core.definitions.spark_types import (
    ANY,
    ARGUMENTS,
    INTERVALS,
    MOST,
    UNKNOWN,
    functions,
    table,
)
from trilayer_core.definitions.syntax import edited, parse_one_expression

pytestmark = pytest.mark.spark

SEED = 30
COLUMNS = {f"c_{kind}": "decimal(10,2)" if kind == "decimal" else kind for kind in ANY}
NESTED = {
    "tags": "array<string>",
    "nums": "array<int>",
    "prices": "array<decimal(8,2)>",
    "m": "map<string,bigint>",
    "ship": "struct<zipCode:string,Lines:array<struct<skuId:string,Price:decimal(8,2)>>>",
    "lines": "array<struct<skuId:string,n:int>>",
    "places": "map<string,struct<Lat:double>>",
}
WRITTEN = r"""
ship.zipCode
ship.ZIPCODE || c_string
ship.Lines[0].skuId
ship.lines[c_int].price * 2
element_at(lines, 1).n + 1
lines.n[0]
places['a'].lat
element_at(places, c_string).Lat
m['a'] + c_int
size(tags) + size(m)
tags[0] || tags[1]
(tags || tags)[0]
size(concat(nums, nums))
array_contains(tags, c_string)
array_contains(nums, 5)
array_max(prices)
array_min(nums) * c_bigint
get(array(c_int, c_bigint), 0)
array(1.5, 2)[0]
array(c_int, c_bigint)[0]
map('a', c_decimal)['a']
map(c_string, c_int)[c_string]
size(map_filter(m, (k, v) -> v > 1))
transform_values(m, (k, v) -> concat(k, v))['a']
map_concat(m, m)['a']
struct(c_int, c_string as Label).label
struct(ship.ZIPCODE).zipCode
struct(upper(c_string), c_int).col1
sequence(c_date, c_date, interval 1 day)[0]
sequence(1, c_int)[0]
array_insert(nums, 1, 5)[0]
array_append(tags, c_string)[0]
array_union(tags, tags)[0]
to_char(c_int, '999')
to_char(c_double, '999.9')
to_binary(c_string, 'hex')
mask(c_string, '*', '*', '*', '*')
like(c_string, 'a!%', '!')
ilike(c_string, 'a!%', '!')
trim(both 'x' from c_string)
trim(leading from c_string)
trim(trailing c_string from upper(c_string))
substring(c_string from 2)
substr(c_string from c_int for 2)
overlay(c_string placing 'x' from 2)
overlay(c_string placing 'x' from c_int for 1)
coalesce(c_date, '2026')
coalesce(c_int, '5')
coalesce(c_float, '1.5')
c_decimal = '1.50'
c_timestamp >= '2026-01'
c_timestamp - 5 * interval 1 minute
c_timestamp + c_int * interval 1 hours
(c_int, c_string) in ((1, 'a'))
c_string like any ('a%', 'b%')
c_boolean is not true
split(c_string, ',')[1]
size(filter(nums, n -> n > c_int))
exists(lines, l -> l.SKUID = c_string)
aggregate(nums, 0, (s, n) -> s + n)
aggregate(nums, 0, (s, n) -> s + n, s -> s / 2)
transform(lines, l -> l.n + 1)[0]
array_join(tags, ',')
named_struct('A', c_int, 'B', c_string).a
concat_ws('-', tags, c_string)
case when c_boolean then c_decimal else c_bigint end
case c_string when 'a' then 1 when 'b' then 2.5 end
if(c_int > 1, c_date, c_timestamp)
coalesce(c_bigint, 0.5)
coalesce(c_timestamp, '2026-01-01')
nullif(c_int, c_bigint)
greatest(c_tinyint, c_decimal, c_int)
least(c_float, c_double)
nvl2(c_string, c_decimal, 1)
c_timestamp > '2026-01-01'
c_date between '2026-01-01' and '2026-12-31'
c_int in (1, 2.5, c_bigint)
c_string in ('a', 'b')
c_int = '5'
c_string like '%a%' or c_string rlike 'b' and not c_boolean
c_string is not null
c_decimal * 2
c_decimal / 3
c_decimal + 1.25
-c_decimal
round(c_decimal, 1)
round(c_bigint, 0)
round(c_int)
round(c_decimal, -1)
bround(c_double, 2)
ceil(c_decimal)
floor(c_double)
abs(c_int)
c_int div 2
c_int % 7
5 - -3
1.5BD * c_int
2D + c_int
3000000000 + c_int
99999999999999999999 + 1
extract(second from c_timestamp)
extract(dow from c_date)
date_part('year', c_timestamp)
timestampdiff(MINUTE, c_timestamp, c_timestamp)
timestampadd(HOUR, 1, c_timestamp)
dateadd(DAY, 1, c_date)
date_add(c_date, 1)
date_trunc('hour', c_timestamp)
c_timestamp + interval 1 hour
c_date + interval 1 day
c_timestamp - c_timestamp > interval 90 seconds
to_date(c_string, 'yyyy-MM-dd')
int(c_string)
cast(c_string as decimal(5,1)) + 1
c_string::int
position('a' in c_string)
hash(c_int, c_string, tags)
concat(c_string, c_int, '-')
c_string || 'l''heure'
X'1F'
c_boolean is unknown
c_string is not distinct from tags[0]
c_int not in (1, 2) and c_int not between 3 and 4
c_string not like 'a%' or c_string ilike any ('A%')
c_string like 'a!%' escape '!'
c_string collate UTF8_LCASE = 'a'
(c_int is null) = c_boolean
1.5e-3 + 1. + .5
cast(c_int as varchar(3))
from_utc_timestamp(c_timestamp, 'America/New_York')
to_utc_timestamp(c_timestamp, '+01:00')
from_utc_timestamp(c_timestamp, 'UTC+1')
+c_int + -+c_bigint - +1
abs(+c_tinyint) * +(c_decimal)
c_double + +c_float
from_utc_timestamp(c_timestamp, 'PST')
size(zip_with(nums, nums, (x, y) -> x + y))
size(transform(nums, (x, n) -> x + n))
size(array_sort(nums, (x, y) -> x - y))
(c_int not in (1)) is true
((c_string like 'a')) = c_boolean
cast(c_timestamp as timestamp(6))
c_string like any (c_string)
substring(c_string, 1 for 2)
c_string collate unicode_ci_ai = 'a'
convert_timezone('Europe/Berlin', c_timestamp_ntz)
'2026' 'a' || r'a\b'
TIMESTAMP'2026-01-31 10:00:00 UTC'
DATE'2026-01-31'
true
""".strip().splitlines()


DIGITS = [(p, s) for p in (1, 2, 5, 9, 10, 18, 19, 20, 37, 38) for s in {0, 1, p // 2, p} if s <= p]
SCHEMA = COLUMNS | NESTED | {f"d_{p}_{s}": f"decimal({p},{s})" for p, s in DIGITS}


@pytest.fixture(scope="module")
def asking(spark):
    return Spark(spark, {name: type_ for name, type_ in SCHEMA.items() if name not in COLUMNS})


def lists_of(line: str) -> list[tuple[str, ...]]:
    arguments = line.partition(" -> ")[0]
    return list(itertools.product(*(kinds.split("|") for kinds in arguments.split(", ") if kinds)))


def answered(asking: Spark, expressions: list[str]) -> list[tuple[str, str] | None]:
    return [
        answer
        for start in range(0, len(expressions), 200)
        for answer in asking.ask(expressions[start : start + 200])
    ]


def test_the_table_has_what_spark_answers(asking):
    chosen, every = random.Random(SEED), shapes()
    known: list[tuple[str, tuple[str, ...], str]] = []
    for name, lines in table().items():
        for line in lines if name != ARGUMENTS else ():
            lists = lists_of(line)
            some = chosen.sample(lists, min(len(lists), 3))
            known += [(name, kinds, line.partition(" -> ")[2]) for kinds in some]
    answers = answered(asking, [sql_of(every[name][0], kinds) for name, kinds, _ in known])
    for (name, kinds, result), answer in zip(known, answers, strict=True):
        assert answer is not None, (name, kinds)
        assert name.startswith("cast ") or is_safe(answer[1]), (name, kinds, answer)
        assert result in (answer[0], kind_of(answer[0])), (name, kinds, answer)


def test_the_table_lacks_what_spark_refuses(asking):
    chosen = random.Random(SEED)
    for name, (template, lists) in shapes().items():
        has = {kinds for line in table()[name] for kinds in lists_of(line)}
        lengths = {len(kinds) for kinds in has if len(kinds) <= MOST}
        every = lists or [k for n in lengths for k in itertools.product(ANY, repeat=n)]
        lacks = [kinds for kinds in every if kinds not in has and "date text" not in kinds]
        some = chosen.sample(lacks, min(len(lacks), 2))
        assert results(asking, template, some) == {}, name


def test_functions_have_the_numbers_of_arguments_of_spark(asking):
    for name in random.Random(SEED).sample(sorted(functions()), 15):
        assert functions()[name] == asking.numbers(name), name


def test_declarations_have_the_types_of_spark(asking):
    written = [*WRITTEN]
    chosen, every = random.Random(SEED), shapes()
    for name, lines in table().items():
        for line in lines if name != ARGUMENTS else ():
            kinds = chosen.choice(lists_of(line))
            if not {*kinds} & {*INTERVALS}:
                written.append(sql_of(every[name][0], kinds))
    check(asking, written)


def check(asking: Spark, written: list[str]) -> None:
    """Compares the types of expressions, as written and as they are declared, with Spark's."""
    texts, types, declared = [], [], {}
    for sql in written:
        inference = Inference(sql, "it", SCHEMA)
        types.append(inference.type(parse_one_expression(sql, "it")))
        texts.append(edited(sql, inference.edits))
        if is_orderable(str(types[-1])):
            declared[sql] = parse_expression(sql, SCHEMA, "it", parsed=False)
    for sql, type_, answer in zip(written, types, answered(asking, texts), strict=True):
        assert answer is not None, sql
        if type_.kind in INTERVALS:
            assert answer[0].startswith("interval"), (sql, answer)
        elif type_ != UNKNOWN:
            assert str(type_) == answer[0], (sql, answer)
    answers = answered(asking, [expression.sql for expression in declared.values()])
    for (sql, expression), answer in zip(declared.items(), answers, strict=True):
        assert answer is not None, sql
        assert expression.type == answer[0], (sql, answer)


def test_decimals_have_the_digits_of_spark(asking):
    chosen = random.Random(SEED)
    columns = [f"d_{p}_{s}" for p, s in DIGITS]
    written = [f"{f}({d})" for d in columns for f in ("abs", "negative", "ceil", "floor", "round")]
    written += [f"-{d}" for d in columns]
    for _ in range(25):
        one, two = chosen.sample(columns, 2)
        whole = chosen.choice([f"c_{kind}" for kind in INTEGERS] + ["7", "-1000", "3000000000"])
        written += [f"{one} {operator} {two}" for operator in "+-*/%"]
        written += [
            f"{one} {chosen.choice('+-*/%')} {whole}",
            f"{whole} {chosen.choice('+-*/')} {one}",
        ]
        written += [f"coalesce({one}, {two})", f"greatest({one}, {two}, {whole})"]
        written += [f"if(c_boolean, {whole}, {one})", f"nullif({one}, {two})"]
        written += [f"{f}({one}, {chosen.randint(-5, 12)})" for f in ("round", "bround", "ceil")]
        written += [f"{f}({one}, {two})" for f in ("try_add", "try_multiply", "mod", "pmod")]
        written += [f"{f}({one}, {whole})" for f in ("try_subtract", "try_divide", "mod")]
    unknown = [
        w
        for w in written
        if Inference(w, "it", SCHEMA).type(parse_one_expression(w, "it")) == UNKNOWN
    ]
    assert unknown == []
    check(asking, written)


def test_time_zones_are_those_of_spark(spark):
    of_java = spark._jvm.java.time.ZoneId.getAvailableZoneIds()
    assert [name for name in of_java if not is_zone(name)] == []
    offsets = [f"{sign}{text}" for sign in ("+", "-", "UTC+", "GMT-") for text in (
        "5", "05", "5:30", "05:30", "0530", "530", "05:30:15", "053015", "18", "18:00", "18:01",
        "19", "5:3", "", "005",
    )]  # fmt: skip
    for zone in [*offsets, "EST", "MST", "HST", "PST", "Z", "z", "UTC", "utc", "ROC",
                 "Factory", "localtime", "Mars/Base"]:  # fmt: skip
        try:
            spark.sql(f"SELECT from_utc_timestamp(timestamp'2026-01-01', '{zone}')").collect()
        except PySparkException:
            assert not is_zone(zone), zone
        else:
            assert is_zone(zone) or zone.endswith((":3", "utc")), zone
