"""Which expressions can fail on an event, and what follows for the definitions."""

import pytest

from trilayer import Alert, Catalog, Rows, Stream, View, count, distinct, sum_, tumbling
from trilayer_core.definitions.expressions import parse_expression

COLUMNS = {
    "text": "string",
    "n": "int",
    "big": "bigint",
    "d": "double",
    "p": "decimal(10,2)",
    "q": "decimal(38,10)",
    "at": "timestamp",
    "day": "date",
    "b": "boolean",
    "s": "struct<x:int>",
    "a": "array<int>",
    "t": "array<string>",
    "m": "map<string,int>",
}

TOTAL = """
text | s.x | 'all' | -1 | text = 'x' | n > 15 | n > d | p > 1.5 | n in (1, 2) | n = -1 | q > 1
n between 1 and 2 | text in ('a', 'b') | text is not null | not b and (n > 1 or text is null)
to_date(at) | date_trunc('hour', at) | hour(at) | cast(hour(at) as int) | cast(at as date)
cast(day as timestamp) | day > date'2020-01-01' | from_utc_timestamp(at, 'America/New_York')
to_date(from_utc_timestamp(at, 'UTC')) | text || '-' || n | upper(text) | substring(text, 1, 2)
if(b, n, n) | case when n > 1 then 'a' when b then 'b' else 'c' end | coalesce(text, 'x')
try_cast(text as int) | try_cast(text as int) > 3 | cast(n as bigint) | cast(n as string)
n % 2 = 1 | n / 2 | d * d | p * n | p + 1 | cast(p * n as decimal(20,2)) | nullif(n, 0)
p * p - p / 3 | round(p, 1) | round(d, 2) | text like 'a%' | cast(b as int) | cast(null as int)
case n when 1 then 2 end | size(a) | get(a, n) | array_contains(a, n) | m['x'] | hash(a)
unix_seconds(at) | timestampdiff(SECOND, at, at) | extract(year from at) | try_divide(n, n)
"""

MAY_FAIL = """
n + 1 | big * big | d / d | n / 0 | n % 0 | n / big | p / p | n div -1 | q * q | q - 1 | -n | abs(n)
a[0] | a[n] | element_at(a, n) | cast(text as int) | text::int | int(text) | double(text)
date(text) | timestamp(text) | boolean(text) | decimal(text) | cast(big as int) | cast(d as int)
cast(p as decimal(9,2)) | cast(p * n as decimal(19,2)) | to_date(text) | to_timestamp(text)
day > cast('2020-13-01' as date) | from_utc_timestamp(at, text) | cast(text as int) is null
try_cast(a[0] as int) | try_cast(text as int) > cast(text as int) | size(cast(t as array<int>))
make_date(n, n, n) | text like text | text like 'a\\\\' | text rlike text
text like any ('a', text) | at + interval 1 day | date_format(at, text) | repeat(text, n)
"""


def listed(text):
    return [sql.strip() for line in text.strip().splitlines() for sql in line.split(" | ")]


@pytest.mark.parametrize("sql", listed(TOTAL))
def test_an_expression_that_cant_fail(sql):
    assert parse_expression(sql, COLUMNS, "it").total


@pytest.mark.parametrize("sql", listed(MAY_FAIL))
def test_an_expression_that_may_fail(sql):
    assert not parse_expression(sql, COLUMNS, "it").total


STREAM = Stream(
    "s", ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items()), event_time="at"
)
PLAIN = View("plain", source=STREAM, key=["text"], aggregates={"n": count()})


def view(name="risky", **more):
    given = {
        "source": STREAM,
        "key": ["text"],
        "aggregates": {"n": count(where="cast(text as int) = 200")},
    }
    return View(name, **(given | more))


def written(catalog):
    return sorted(guard.written for guard in catalog.stream("s").guards)


def test_every_part_of_a_view_is_guarded_under_its_filters():
    risky = view(
        key={"k": "a[n]", "w": tumbling("to_timestamp(text)", "1 hour")},
        where="big * big > 1",
        aggregates={"s": sum_("n + 1", where="d / d > 1"), "c": distinct("cast(text as int)")},
    )
    assert written(Catalog(views=[PLAIN, risky])) == [
        "a[n]",
        "big * big > 1",
        "cast(text as int)",
        "d / d > 1",
        "n + 1",
        "to_timestamp(text)",
    ]


def test_keys_of_alerts_are_guarded():
    alert = Alert("a", source=STREAM, key={"k": "cast(text as int)"}, rule="n > 1")
    assert written(Catalog(views=[PLAIN], alerts=[alert])) == ["cast(text as int)"]


def test_a_stream_without_guards_keeps_its_fingerprint():
    catalog = Catalog(views=[PLAIN])
    assert catalog.stream("s") is STREAM
    assert catalog.views[0] is PLAIN


def test_what_may_fail_decides_what_the_other_views_of_the_stream_count():
    rows = Rows("r", source=STREAM, rows=lambda events: events, schema="text string")
    over_rows = View("over_rows", source=rows, key=["text"], aggregates={"n": count()})
    other = Stream("other", "k int, at timestamp", event_time="at")
    apart = View("apart", source=other, key=["k"], aggregates={"n": count()})
    before = Catalog(views=[PLAIN, over_rows, apart])
    after = Catalog(views=[PLAIN, over_rows, apart, view()])
    changed = [
        name
        for name in ("plain", "over_rows", "apart")
        if before.view(name).fingerprint != after.view(name).fingerprint
    ]
    assert changed == ["plain", "over_rows"]
    assert before.stream("s").fingerprint != after.stream("s").fingerprint
    assert after.view("over_rows").stream is after.view("plain").source is after.stream("s")
    again = Catalog(views=after.views[:3])
    assert again.view("plain").fingerprint == PLAIN.fingerprint


def test_the_order_of_views_means_nothing():
    one, two = view(), view("other", aggregates={"s": sum_("n + 1")})
    fingerprints = {Catalog(views=v).stream("s").fingerprint for v in ([one, two], [two, one])}
    assert len(fingerprints) == 1


def test_a_filter_goes_before_what_it_selects_for():
    risky = view(where="int(text) > 0", aggregates={"s": sum_("n + 1", where="d / d > 1")})
    guards = Catalog(views=[risky]).stream("s").guards
    assert [guard.written for guard in guards] == ["int(text) > 0", "d / d > 1", "n + 1"]
