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
    "n": "int",
    "big": "bigint",
    "price": "decimal(10,2)",
    "ok": "boolean",
    "tags": "array<string>",
    "nums": "array<int>",
    "place": "struct<lat:double,lonG:double>",
    "words": "map<string,string>",
}
PROFILE = {"card": "string", "max_amount": "double"}


def rule(sql, **more):
    defaults = {"required": "at", "last": 100, "profile": PROFILE}
    return parse_rule(sql, COLUMNS, "rule of alert 'a'", **(defaults | more))


WHOLE = rule("true").partition("TRUE")


@pytest.mark.parametrize(
    ("written", "total"),
    [
        (
            "size(last) > 0 AND at <= last[0].at + INTERVAL 10 SECONDS",
            "SIZE(last) > 0 AND at <= GET(last, 0).at + INTERVAL '10' SECONDS",
        ),
        ("amount > 3 * profile.max_amount", "amount > TRY_MULTIPLY(3, profile.max_amount)"),
        (
            "aggregate(last, 0D, (s, e) -> s + e.amount) > 100",
            "AGGREGATE(last, TRY_CAST(0 AS DOUBLE), (s, e) -> TRY_ADD(s, e.amount)) > 100",
        ),
        ("(n / 2 - 1) * n = n % 2",
         "TRY_MULTIPLY((TRY_SUBTRACT(TRY_DIVIDE(n, 2), 1)), n) = TRY_MOD(n, 2)"),
        ("-(n - -1) > 0 or - n::bigint > 1",
         "-(TRY_SUBTRACT(n, -1)) > 0 OR -TRY_CAST(n AS BIGINT) > 1"),
        ("nums[big] = nums[nums[0]]", "GET(nums, TRY_CAST(big AS INT)) = GET(nums, GET(nums, 0))"),
        ("element_at(nums, n) = 1", "TRY_ELEMENT_AT(nums, n) = 1"),
        ("words['k'] = 'v'", "TRY_ELEMENT_AT(words, 'k') = 'v'"),
        ("card NOT IN ('a', \"it's\")", "NOT card IN ('a', 'it\\'s')"),
        ("n <=> NULL", "n IS NOT DISTINCT FROM NULL"),
        ("exists(last, e -> e.place.LONG > 1)", "EXISTS(last, e -> e.place.`lonG` > 1)"),
        ("price = 1.5BD", "price = TRY_CAST('1.5' AS DECIMAL(2, 1))"),
        ("day + 1 > day", "day + 1 > day"),
        ("`card` LIKE '%a%'", "`card` LIKE '%a%'"),
    ],
)  # fmt: skip
def test_what_fails_most_is_null_alone_and_all_else_as_a_whole(written, total):
    before, _, after = WHOLE
    assert rule(written) == f"{before}{total}{after}"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "must be a Spark SQL expression; got ''"),
        ("ok, ok", "must be one Spark SQL expression"),
        ("amount", "must be boolean; got 'amount', which is double; write a condition"),
        ("count(*) > 1", "must be computed from one event alone"),
        ("rand() > 0.5", "depend on their arguments alone; got 'rand() > 0.5', which calls rand()"),
        ("CAST(concat('to', 'day') AS DATE) = day", "for a time of its clock"),
        ("amonut > 1", "got 'amonut' in 'amonut > 1'; did you mean 'amount'?"),
        ("exists(last, e -> e.amonut > 1)", "did you mean 'amount'?"),
        ("profile.max > 1", "got 'max' in 'profile.max > 1'"),
        ("card = 1", "write `try_cast(card as int) = 1`"),
        (
            "concat_ws('', array()) = 'x'",
            "whose type is unknown; write `try_cast(array() as TYPE)`",
        ),
        ("card RLIKE 'a'", "write startswith(), endswith(), contains() or LIKE"),
        ("card LIKE '%a%b%'", "startswith(), endswith() and contains()"),
        ("card LIKE tags[0]", "startswith(), endswith() and contains()"),
        ("card ILIKE 'a'", "write lower(...) LIKE"),
        ("card LIKE 'a' ESCAPE 'b'", "must have bounds for its time and size"),
        (r"card = 'a\b'", "must contain no backslash"),
        ("card = '${x}'", "must contain no backslash and no `${`"),
        ("n DIV 2 = 1", "write floor(a / b)"),
        ("repeat(card, n) = 'a'", "which calls repeat()"),
        ("size(sequence(1, n)) > 1", "which calls sequence()"),
        ("sizee(last) > 1", "did you mean 'size'?"),
        ("trim(BOTH 'x' FROM card) = 'a'", "write trim() of one operand"),
        ("to_date(card, 'yyyy') = day", "write to_date() of one operand"),
        ("concat_ws(card, tags) = 'x'", "write a literal text as the separator"),
        ("replace(card, 'a', 'bb') = 'x'", "of which the second is not longer"),
        ("at > at + INTERVAL 106751992 DAYS", "does not take INTERVAL"),
        ("CAST(n AS ARRAY<INT>) = nums", "write a cast to a number, text"),
        ("exists(last, e -> e.amount)", "must have conditions that are boolean"),
        ("greatest(words, words)['a'] = 'b'", "has map<string,string>"),
        (
            "exists(last, a -> exists(last, b -> exists(last, c -> c.ok)))",
            "at most 2 lambdas inside each other",
        ),
        ("aggregate(last, 0, (s, e) -> s + e.amount) > 1", "start is int and the lambda double"),
        ("aggregate(last, '', (s, e) -> s || s) = ''", "write a number, a boolean or a time"),
        (
            "size(transform(last, e -> concat_ws('', last.card))) = 1",
            "write concat_ws() outside of lambdas",
        ),
        (" AND ".join(["ok"] * 200), "must be at most 100 levels deep"),
        ("(" * 900 + "ok" + ")" * 900, "must be at most 100 levels deep"),
    ],
)
def test_a_rule_that_may_take_too_long_or_is_wrong_is_refused(written, message):
    with pytest.raises(DefinitionError, match=re.escape(message)) as raised:
        rule(written)
    assert "rule of alert 'a' must " in str(raised.value)


def test_a_rule_names_only_what_its_alert_has():
    with pytest.raises(DefinitionError, match="names `last`; write `last=` in the alert"):
        rule("size(last) > 0", last=0)
    with pytest.raises(DefinitionError, match="names `profile`; write `profile=` in the alert"):
        rule("profile.max_amount > 0", profile=None)


def test_an_index_at_which_there_is_never_an_event_is_refused():
    for index, message in (
        ("last[3]", "look at the 3 events that `last` has"),
        ("last[-1]", "an index from 0, the newest, to 2, the oldest"),
        ("element_at(last, 0)", "an index from 1, the newest, to 3, the oldest"),
        ("element_at(last, -4)", "which is always NULL"),
    ):
        with pytest.raises(DefinitionError, match=re.escape(message)):
            rule(f"{index}.amount > 1", last=3)
    for index in ("last[0]", "last[2]", "last[n]", "element_at(last, 3)", "element_at(last, -3)"):
        assert rule(f"{index}.amount > 1", last=3)
