"""What `trilayer.testing` computes from the definition of a view, for tests of its author."""

import math
from datetime import UTC, date, datetime, timedelta

import pytest

from examples.extensions.count_between import CountBetween, count_between
from examples.extensions.year_to_date import YearToDate, year_to_date
from trilayer import (
    Aggregate,
    Rows,
    State,
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
from trilayer.testing import Aggregation, Event, aggregate, answers, differences, field
from trilayer_core.definitions.windows import AlignedWindow
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
    today = {"all": "'all'", "now": recent("to_date(at)", "1 day", "1 day")}
    half_hour = {"product": "product", "now": recent("at", "30 minutes", "10 minutes")}
    days, midnight = {"to_date(at)": lambda row: row["at"].date()}, NOON - timedelta(hours=12)
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
            days,
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
        (view({"days": session("to_date(at)", "1 day")}), days, {(midnight,): {"n": 4}}),
        (view(today), days | {"'all'": lambda row: "all"}, {("all",): {"n": 4}}),
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
    with pytest.raises(
        UsageError, match=r"'now' of .* with now=, recent; got RecentWindow; give now="
    ):
        answers(view({"product": "product", "now": recent("at", "1 hour", "1 minute")}), EVENTS)


def between(aggregate, values):
    return sum(v is not None and aggregate.low <= v <= aggregate.high for v in values)


def days_from(window, time, times):
    return [
        at.replace(hour=0, minute=0)
        for at in times
        if at.year == time.year and at.date() >= time.date()
    ]


def test_an_aggregate_of_ones_own_has_a_function():
    short = view(
        ["product"],
        few=count_between("quantity", 1, 2, where="price > 1"),
        many=count_between("quantity", 3, 9),
        n=count(),
    )
    prices = {"price > 1": lambda row: row["price"] > 1}
    got = answers(short, EVENTS, prices, aggregates={CountBetween: between})
    assert got == {
        ("tea",): {"few": 1, "many": 1, "n": 2},
        ("jam",): {"few": 0, "many": 0, "n": 1},
        (None,): {"few": 1, "many": 0, "n": 1},
    }
    with pytest.raises(
        UsageError, match=r"'few' of view 'v' must be .* in aggregates=\{CountBetween: \.\.\.\}"
    ):
        answers(short, EVENTS[1:2], prices)


class Widest(Aggregate):
    """Takes the name of another aggregate, and has no value in one of the tests."""

    kind = "count"

    def states(self, types, positioned):
        return {"n": State("bigint", "count(1)", "sum(state)")}

    def present(self, types):
        return "n", "bigint"


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        (Widest(), [None, None]),
        (Widest(value="quantity"), [3, None]),
        (Widest(value="quantity", by="price"), [(3, 1.5), (None, 1.5)]),
    ],
)
def test_its_class_decides_and_not_its_kind(declared, given):
    widest = view({"all": "'all'"}, widest=declared)
    constant = {"'all'": lambda row: "all"}
    with pytest.raises(UsageError, match=r"must be built in, .* got Widest"):
        answers(widest, EVENTS[:2], constant)
    functions = {Widest: lambda aggregate, values: values}
    got = answers(widest, EVENTS[:2], constant, aggregates=functions)
    assert got == {("all",): {"widest": given}}


def test_an_unknown_kind_is_refused_also_without_values():
    for events in ([], [Event(0, 0, EVENTS[0])]):
        with pytest.raises(UsageError, match="got 'median'; give it a function"):
            aggregate(Aggregation("median", field("quantity")), events)
    median = Aggregation("median", field("quantity"), function=math.prod)
    assert aggregate(median, [Event(0, 0, EVENTS[0])]) == 3


def test_a_window_of_ones_own_has_a_function():
    so_far = view({"day": year_to_date("at"), "product": "product"}, items=sum_("quantity"))
    day = 24 * 60
    events = [
        order("tea", 1, -day),
        order("tea", 2, 0),
        order("jam", 9, 2 * day),
        order("tea", 4, 3 * day),
        order("tea", 8, 3 * day + 5),
        order("tea", 16, 0) | {"at": None},
    ]
    midnight = NOON.replace(hour=0)
    assert answers(so_far, events, windows={YearToDate: days_from}) == {
        (midnight - timedelta(days=1), "tea"): {"items": 1},
        (midnight, "tea"): {"items": 2},
        (midnight + timedelta(days=2), "jam"): {"items": 9},
        (midnight + timedelta(days=3), "tea"): {"items": 14},
        (None, "tea"): {"items": 16},
    }
    with pytest.raises(UsageError, match=r"'v' must be .* in windows=\{YearToDate: \.\.\.\}"):
        answers(so_far, events)


class Shifted(AlignedWindow):
    """Differs from the window of which it is a subclass."""


class LastDay(Shifted):
    """Shows no key, as `recent`."""

    as_of_query = True


def test_a_subclass_of_a_window_is_not_that_window():
    hour = Shifted("at", 3_600_000_000, 3_600_000_000)
    with pytest.raises(UsageError, match="got Shifted; give the class a function"):
        answers(view({"hour": hour}), EVENTS)
    last = LastDay("at", 3_600_000_000, 3_600_000_000)
    hidden = view({"last": last, "product": "product"})
    late = {LastDay: lambda window, time, times: [time] if time > NOON else []}
    assert answers(hidden, EVENTS, windows=late) == {
        ("jam",): {"n": 1},
        ("tea",): {"n": 1},
        (None,): {"n": 1},
    }
