"""What becomes of the rule of an alert, and which rules are refused, with what to write instead."""

import re

import pytest

from trilayer_core.definitions.rules import parse_rule
from trilayer_core.errors import DefinitionError

COLUMNS = {
    "card": "string",
    "amount": "double",
    "at": "timestamp",
    "day": "date",
    "local": "timestamp_ntz",
    "n": "int",
    "big": "bigint",
    "price": "decimal(10,2)",
    "wide": "decimal(38,18)",
    "ok": "boolean",
    "raw": "binary",
    "tags": "array<string>",
    "nums": "array<int>",
    "place": "struct<lat:double,lon:double>",
    "words": "map<string,string>",
}
PROFILE = {"card": "string", "max_amount": "double"}


def rule(sql, **more):
    return parse_rule(
        sql, COLUMNS, "rule of alert 'a'", **({"last": 100, "profile": PROFILE} | more)
    )


@pytest.mark.parametrize(
    ("written", "total"),
    [
        (
            "size(last) > 0 AND at <= last[0].at + INTERVAL 10 SECONDS",
            "(SIZE(`last`) > 0) AND (`at` <= TRY_ADD(GET(`last`, 0).`at`, INTERVAL '10' SECOND))",
        ),
        ("amount > 3 * profile.max_amount", "`amount` > TRY_MULTIPLY(3, `profile`.`max_amount`)"),
        ("EXISTS(last, e -> e.amount > 100)", "EXISTS(`last`, `e` -> `e`.`amount` > 100)"),
        (
            "aggregate(last, 0D, (s, e) -> s + e.amount) > 100",
            "AGGREGATE(`last`, TRY_CAST(0 AS DOUBLE), (`s`, `e`) -> TRY_ADD(`s`, `e`.`amount`))"
            " > 100",
        ),
        ("n / 2 - 1 = n % 2", "TRY_SUBTRACT(TRY_DIVIDE(`n`, 2), 1) = TRY_MOD(`n`, 2)"),
        ("-n > 0", "TRY_SUBTRACT(TRY_CAST(0 AS INT), `n`) > 0"),
        ("-amount > - -1", "(-`amount`) > TRY_SUBTRACT(TRY_CAST(0 AS INT), -1)"),
        ("card::int = 1", "TRY_CAST(`card` AS INT) = 1"),
        ("nums[big] = 1", "GET(`nums`, TRY_CAST(`big` AS INT)) = 1"),
        ("element_at(nums, n) = 1", "TRY_ELEMENT_AT(`nums`, NULLIF(`n`, 0)) = 1"),
        ("words['k'] = 'v'", "TRY_ELEMENT_AT(`words`, 'k') = 'v'"),
        ("abs(n) = 1", "TRY_CAST(ABS(TRY_CAST(`n` AS DECIMAL(20, 0))) AS INT) = 1"),
        ("abs(amount) = 1", "ABS(`amount`) = 1"),
        ("card NOT LIKE 'a%'", "NOT (`card` LIKE 'a%')"),
        ("card NOT IN ('a', \"it's\")", "NOT (`card` IN ('a', 'it\\'s'))"),
        ("n IS NOT NULL", "NOT (`n` IS NULL)"),
        ("n <=> NULL", "`n` IS NOT DISTINCT FROM NULL"),
        ("last.amount[0] > 1", "GET(`last`.`amount`, 0) > 1"),
        ("dayofweek(at) = 1", "DAYOFWEEK(`at`) = 1"),
        ("extract(hour FROM at) = 1", "DATE_PART('HOUR', `at`) = 1"),
        ("card || 'x' = 'ax'", "CONCAT(`card`, 'x') = 'ax'"),
        ("day + big > day", "TRY_ADD(`day`, TRY_CAST(`big` AS INT)) > `day`"),
        ("CASE n WHEN 1 THEN ok END", "CASE `n` WHEN 1 THEN `ok` END"),
        ("ok", "`ok`"),
    ],
)
def test_what_could_raise_is_replaced(written, total):
    assert rule(written) == total


def test_dates_beside_times_and_large_doubles_are_limited_to_what_spark_can_convert():
    limited = "GET(FILTER(ARRAY({}), `_v` -> `_v` BETWEEN {} AND {}), 0)"
    days = ("DATE_FROM_UNIX_DATE(-106751990)", "DATE_FROM_UNIX_DATE(106751990)")
    assert rule("at > day") == f"`at` > TRY_CAST({limited.format('`day`', *days)} AS TIMESTAMP)"
    doubles = ("-9.223372036854774e18", "9.223372036854774e18")
    assert rule("floor(amount) = 1") == f"FLOOR({limited.format('`amount`', *doubles)}) = 1"
    micros = ("TIMESTAMP_MICROS(-9223300000000000000)", "TIMESTAMP_MICROS(9223300000000000000)")
    truncated = f"DATE_TRUNC('HOUR', {limited.format('`at`', *micros)})"
    assert rule("date_trunc('hour', at) = at") == f"{truncated} = `at`"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "must be a Spark SQL expression; got ''"),
        ("amount >", "must be a Spark SQL expression; got 'amount >'"),
        ("ok FROM t WHERE ok", "must be a Spark SQL expression"),
        ("ok, ok", "must be one Spark SQL expression"),
        ("ok AS x", "must be one expression without a name, a star or a comment"),
        ("ok -- x", "must be one expression without a name, a star or a comment"),
        ("amount", "must be boolean; got 'amount', which is double; write a condition"),
        ("count(*) > 1", "must be computed from one event, `last` and `profile`"),
        ("sum(amount) OVER () > 1", "must be computed from one event"),
        ("(SELECT true)", "must be computed from one event"),
        ("explode(tags) = 'a'", "must be computed from one event"),
        ("rand() > 0.5", "must give the same answer in every run; got 'rand() > 0.5'"),
        ("at > now()", "which calls now(); write the event's own columns"),
        ("day = current_date", "which calls current_date()"),
        ("CAST('today' AS DATE) = day", "which Spark may take for a time of its clock"),
        ("CAST(concat('to', 'day') AS DATE) = day", "which Spark may take for a time of its clock"),
        ("day = DATE'today'", "write DATE'2026-01-31'"),
        ("amonut > 1", "got 'amonut' in 'amonut > 1'; did you mean 'amount'?"),
        ("last[0].amonut > 1", "got 'amonut' in 'last[0].amonut'"),
        ("exists(last, e -> e.amonut > 1)", "did you mean 'amount'?"),
        ("profile.max > 1", "got 'max' in 'profile.max', in 'profile.max > 1'"),
        ("place.lot > 1", "did you mean 'lon'?"),
        ("amount.x > 1", "what has a field 'x' must be a struct, and not double"),
        (
            "card = 1",
            "mixes string and int; write TRY_CAST(... AS DOUBLE) around the text, or 1 in quotes",
        ),
        ("n = '1'", "which mixes int and string; write TRY_CAST('1' AS INT)"),
        ("n IN (1, 'a')", "which mixes int and string; write TRY_CAST('a' AS INT)"),
        ("at BETWEEN '2026-01-01' AND at", "write TRY_CAST('2026-01-01' AS TIMESTAMP)"),
        ("coalesce(amount, 'x') = 1", "which mixes double and string"),
        ("CASE WHEN ok THEN n ELSE 'x' END = 1", "which mixes int and string"),
        ("greatest(n, card) = 1", "which mixes int and string"),
        ("concat(card, n) = 'a1'", "which mixes string and int"),
        ("ok = 1", "which mixes boolean and int"),
        ("at > local", "which mixes timestamp and timestamp_ntz"),
        ("n AND ok", "'n' must be boolean, and not int"),
        ("n + card > 1", "what is beside int and + must be a number"),
        ("at + 1 > at", "what is beside timestamp and + must be a number"),
        ("INTERVAL 1 DAY > INTERVAL 1 MONTH", "which mixes interval day and interval month"),
        ("length(n) = 1", "'n' must be string, and not int; write TRY_CAST(n AS STRING)"),
        ("sqrt(card) = 1", "'card' must be number, and not string; write TRY_CAST(card AS DOUBLE)"),
        ("hour(day) = 1", "write TRY_CAST(day AS TIMESTAMP)"),
        ("words = words", "what is compared must not contain a map"),
        ("abs(wide) > 1", "must be known to have at most 34 digits, and not decimal(38,18)"),
        ("-(price * wide) > 1", "write CAST(... AS DECIMAL(34, 2))"),
        ("card RLIKE 'a'", "write startswith(), endswith(), contains() or LIKE"),
        ("regexp_like(card, 'a')", "which calls regexp_like()"),
        ("card LIKE '%a%b%'", "startswith(), endswith() and contains()"),
        ("card LIKE tags[0]", "startswith(), endswith() and contains()"),
        ("card ILIKE 'a'", "write lower(...) LIKE"),
        ("card LIKE 'a' ESCAPE 'b'", "consist of what never fails"),
        (r"card = 'a\b'", "must contain no backslash"),
        ("card = '${x}'", "must contain no backslash and no `${`"),
        ("n DIV 2 = 1", "write floor(a / b)"),
        ("n BETWEEN SYMMETRIC 2 AND 1", "write it without SYMMETRIC"),
        ("repeat(card, n) = 'a'", "which calls repeat()"),
        ("to_json(place) = ''", "which calls to_json()"),
        ("size(sequence(1, n)) > 1", "which calls sequence()"),
        ("to_timestamp(card) > at", "write CAST(... AS TIMESTAMP)"),
        ("sizee(last) > 1", "did you mean 'size'?"),
        ("round(amount, n) = 1", "write a literal number of digits from 0 to 38"),
        ("date_trunc(card, at) = at", "as the unit"),
        ("timestampdiff(MICROSECOND, at, at) = 1", "as the unit"),
        ("replace(card, 'a', 'bb') = 'x'", "of which the second is not longer"),
        ("concat_ws(card, tags) = 'x'", "write a literal text as the separator"),
        ("at > at + INTERVAL 106751992 DAYS", "write a whole number of one unit"),
        ("at > at + INTERVAL '1 2' DAY TO HOUR", "write a whole number of one unit"),
        ("amount > 1e400", "write a number that a double can hold"),
        (f"n > {10**38}", "write a number of at most 38 digits"),
        ("size(slice(last, n, 1)) = 1", "write a literal start from 1 on"),
        ("lower(card, card) = 'a'", "write the call with the arguments"),
        ("CAST(raw AS STRING) = 'a'", "must be a number, text, a boolean or a time"),
        ("CAST(at AS BOOLEAN)", "must be of a type that Spark casts to it, and not timestamp"),
        ("CAST(n AS ARRAY<INT>) = nums", "write a cast to a number, text"),
        ("exists(last, n -> n.amount > 1)", "names that nothing else has"),
        ("exists(last, E -> E.amount > 1)", "names that nothing else has, in lower case"),
        ("exists(last, e -> e.amount)", "the lambda must be boolean, and not double"),
        ("exists(last, true)", "write a lambda, such as `e -> e.amount > 100`"),
        ("exists(last, (e, i) -> i > 1)", "write a lambda"),
        (
            "exists(last, a -> exists(last, b -> exists(last, c -> c.ok)))",
            "at most 2 lambdas inside each other",
        ),
        (
            "aggregate(last, 0, (s, e) -> s + e.amount) > 1",
            "the lambda must have the type of the start, int, and not double",
        ),
        ("aggregate(last, '', (s, e) -> s || s) = ''", "the start must be a number, a boolean"),
        (
            "aggregate(last, CAST(0 AS DECIMAL(9, 2)), (s, e) -> s + e.price) > 1",
            "write CAST(... AS DECIMAL(9,2)) in the lambda",
        ),
        (
            "size(transform(last, e -> concat_ws('', last.card))) = 1",
            "write concat_ws() outside of lambdas",
        ),
        (" AND ".join(["ok"] * 200), "must be at most 100 levels deep"),
        ("(" * 900 + "ok" + ")" * 900, "must be at most 100 levels deep"),
    ],
)
def test_a_rule_that_could_raise_is_refused(written, message):
    with pytest.raises(DefinitionError, match=re.escape(message)) as raised:
        rule(written)
    assert str(raised.value).startswith("rule of alert 'a' must ")


def test_a_rule_names_only_what_its_alert_has():
    with pytest.raises(DefinitionError, match="names `last`; write `last=` in the alert"):
        rule("size(last) > 0", last=False)
    with pytest.raises(DefinitionError, match="names `profile`; write `profile=` in the alert"):
        rule("profile.max_amount > 0", profile=None)


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ("last[3]", "look at the 3 events that `last` has"),
        ("last[-1]", "an index from 0, the newest, to 2, the oldest"),
        ("element_at(last, 0)", "an index from 1, the newest, to 3, the oldest"),
        ("element_at(last, -4)", "which is always NULL"),
        ("last[1.5]", "'1.5' must be integer"),
        ("last['x']", "must be integer"),
    ],
)
def test_an_index_at_which_there_is_never_an_event_is_refused(index, says):
    with pytest.raises(DefinitionError, match=re.escape(says)):
        rule(f"{index}.amount > 1", last=3)


@pytest.mark.parametrize(
    "index", ["last[0]", "last[2]", "last[n]", "element_at(last, 3)", "element_at(last, -3)"]
)
def test_an_index_at_which_there_may_be_an_event_is_accepted(index):
    assert rule(f"{index}.amount > 1", last=3)
