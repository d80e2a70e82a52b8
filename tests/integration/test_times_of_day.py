"""A text that is a time of day is no timestamp; Spark alone would add the current date to it."""

import pytest

from trilayer_core.definitions.expressions import parse_expression
from trilayer_core.definitions.rules import parse_rule

pytestmark = pytest.mark.spark

TIMES_OF_DAY = ["10:00", "7:3:2", " \t10:00:00.5 Z", "T1:2", "\x7fT23:59:59+01:00", "10:00 PST"]
OTHERS = [
    *("2026-01-02", "2026-01-02 10:00", " 2026-01-02T10:00:00.5+02:00", "2026", "+2026-01-02 1:2"),
    *("today", "now", "noon", "T", "Tuesday", "", "10", "10.5", "2026-01-02T10", "t10:00"),
]
COLUMNS = {
    "s": "string",
    "o": "struct<aB:string>",
    "a": "array<string>",
    "m": "map<string,string>",
    "n": "array<struct<p:struct<l:string>>>",
}
CONVERSIONS = """
try_cast(s as timestamp)
nullif(try_cast( ( s ) AS timestamp_ltz), null)
try_to_timestamp(s)
try_cast(o.Ab as timestamp)
try_cast(a[0] as timestamp)
try_cast(m['k'] as timestamp)
transform(a, x -> try_cast(x as timestamp))[0]
transform(n, x -> try_cast(x.p.l as timestamp))[0]
transform(n, x -> try_to_timestamp(x.p.l || ''))[0]
filter(transform(a, x -> try_to_timestamp(x)), (x, i) -> i = 0)[0]
coalesce(null, try_cast(concat(s, '') as timestamp))
try_cast(case when s is null then 'x' else s || '' end as timestamp)
try_cast(cast(try_cast(s as timestamp) as string) as timestamp)
if(hour(try_cast(s as timestamp)) >= 0, try_to_timestamp(s), null)
""".strip().splitlines()


@pytest.fixture(scope="module")
def texts(spark):
    rows = [(text, (text,), [text], {"k": text}, [((text,),)]) for text in TIMES_OF_DAY + OTHERS]
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    return spark.createDataFrame(rows, columns).coalesce(1)


def test_a_time_of_day_becomes_no_timestamp_and_other_texts_become_what_they_are(texts):
    converted = [parse_expression(sql, COLUMNS, "it").sql for sql in CONVERSIONS]
    rows = texts.selectExpr("s", "try_cast(s AS timestamp) AS own", *converted).collect()
    assert sum(row.own is not None for row in rows) > len(TIMES_OF_DAY)  # Spark takes both kinds
    for text, own, *values in rows:
        expected = None if text in TIMES_OF_DAY else own
        assert values == [expected] * len(CONVERSIONS), text


def test_a_rule_takes_no_time_of_day_for_a_timestamp(texts):
    rule = parse_rule(
        "CAST(s AS TIMESTAMP) > TIMESTAMP'0001-01-01'",
        COLUMNS,
        "it",
        required="s",
        last=0,
        profile={},
    )
    rows = texts.selectExpr("s", "try_cast(s AS timestamp) IS NOT NULL", rule).collect()
    for text, is_time, answer in rows:
        assert bool(answer) == (is_time and text not in TIMES_OF_DAY), text


@pytest.mark.parametrize("sql", ["cast(s as timestamp)", "s::timestamp", "to_timestamp(s)"])
def test_a_strict_conversion_of_a_time_of_day_fails_as_of_any_text(texts, sql):
    written = parse_expression(sql, COLUMNS, "it").sql
    with pytest.raises(Exception, match=r"CAST_INVALID_INPUT|CANNOT_PARSE_TIMESTAMP"):
        texts.where("s = '10:00'").selectExpr(written).collect()
    (row,) = texts.where("s = '2026-01-02'").selectExpr(f"{written} = DATE'2026-01-02'").collect()
    assert row[0]
