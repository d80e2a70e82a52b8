"""What `trilayer.testing` computes from the definition of a view, for tests of its author."""

from datetime import UTC, date, datetime, timedelta

import pytest

from trilayer import (
    Rows,
    Stream,
    View,
    count,
    latest,
    mean,
    quantiles,
    recent,
    session,
    sum_,
    top,
    tumbling,
)
from trilayer.testing import Event, answers, differences
from trilayer_core.errors import UsageError

ORDERS = Stream(
    "orders",
    schema="product string, quantity int, price double, at timestamp",
    event_time="at",
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def order(product, quantity, minutes, price=1.5):
    at = NOON + timedelta(minutes=minutes)
    return {"product": product, "quantity": quantity, "price": price, "at": at}


EVENTS = [order("tea", 3, 0), order("jam", None, 50), order("tea", 1, 20), order(None, 2, 70)]


def view(key, **aggregates):
    return View("v", source=ORDERS, key=key, aggregates=aggregates or {"n": count()})


def test_each_kind_of_view_has_its_answer():
    hour = {"hour": tumbling("at", "1 hour")}
    visits = {"product": "product", "visit": session("at", "30 minutes")}
    half_hour = {"product": "product", "now": recent("at", "30 minutes", "10 minutes")}
    cases = [
        (
            view(["product"], items=sum_("quantity"), big=count(where="quantity > 2")),
            {"quantity > 2": lambda row: row["quantity"] and row["quantity"] > 2},
            {
                ("tea",): {"items": 4, "big": 1},
                ("jam",): {"items": None, "big": 0},
                (None,): {"items": 2, "big": 0},
            },
        ),
        (
            view({"day": "to_date(at)"}, price=mean("price"), last=latest("product", by="at")),
            {"to_date(at)": lambda row: row["at"].date()},
            {(date(2026, 1, 1),): {"price": 1.5, "last": None}},
        ),
        (
            view(hour, best=top("product", 1), spread=quantiles("quantity", [0.5, 1])),
            {},
            {
                (NOON,): {"best": [{"value": "tea", "n": 2}], "spread": [1.0, 3.0]},
                (NOON + timedelta(hours=1),): {"best": None, "spread": [2.0, 2.0]},
            },
        ),
        (
            view(visits),
            {},
            {
                ("tea", NOON): {"n": 2},
                ("jam", NOON + timedelta(minutes=50)): {"n": 1},
                (None, NOON + timedelta(minutes=70)): {"n": 1},
            },
        ),
        (view(half_hour), {}, {("jam",): {"n": 1}, (None,): {"n": 1}}),
    ]
    for definition, expressions, expected in cases:
        now = NOON + timedelta(minutes=75)
        got = answers(definition, EVENTS, expressions, now=now)
        assert not differences(got, expected), definition


def test_the_place_in_the_log_breaks_ties():
    last = view(["product"], last=latest("quantity", by="at"))
    at = [Event(1, 0, order("tea", 1, 0)), Event(0, 9, order("tea", 2, 0))]
    assert answers(last, at) == {("tea",): {"last": 1}}


def test_rows_are_made_by_a_function_in_plain_python():
    letters = Rows("letters", source=ORDERS, rows=lambda orders: orders, schema="letter string")
    uses = View("uses", source=letters, key=["letter"], aggregates={"n": count()})
    got = answers(
        uses, EVENTS[:1], rows=lambda row: [{"letter": letter} for letter in row["product"]]
    )
    assert got == {(letter,): {"n": 1} for letter in "tea"}
    with pytest.raises(UsageError, match="rows= must be the function of 'letters'"):
        answers(uses, EVENTS)


def test_what_is_missing_is_named():
    with pytest.raises(UsageError, match="none for 'to_date"):
        answers(view({"day": "to_date(at)"}), EVENTS)
    with pytest.raises(UsageError, match=r"'now' must be .* with now=, recent; got RecentWindow"):
        answers(view({"product": "product", "now": recent("at", "1 hour", "1 minute")}), EVENTS)
