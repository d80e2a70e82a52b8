"""The generator of purchases: the same seed gives the same bytes, and its truth is what the file
says when read again.
"""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from examples.retail import purchases
from examples.retail.generate import BAD, EVERY, LATE, generate, truth_path

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(tmp_path / f"{name}.jsonl", events=500, seed=seed, start=START, bad=0.1)
    a, b, c = ((tmp_path / f"{name}.jsonl").read_bytes() for name in "abc")
    assert a == b != c
    a, b, c = (truth_path(tmp_path / f"{name}.jsonl").read_bytes() for name in "abc")
    assert a == b != c


def test_the_truth_adds_up_from_the_file(tmp_path):
    path = tmp_path / "purchases.jsonl"
    truth = generate(path, events=5_000, seed=1, start=START, bad=0.05)
    lines = path.read_text("utf-8").splitlines()
    good = [event for event in map(readable, lines) if event]
    assert len(lines) == truth.events == 5_000
    assert len(good) == truth.good == truth.events - sum(truth.bad.values())
    assert min(truth.bad.values()) > 0
    revenue, items, customers = Counter(), Counter(), Counter()
    for event in good:
        revenue[event["product"]] += event["quantity"] * Decimal(event["unit_price"])
        items[event["product"]] += event["quantity"]
        customers[event["customer"]] += 1
    assert {product: sales.revenue for product, sales in truth.sales_by_product.items()} == revenue
    assert {product: sales.items for product, sales in truth.sales_by_product.items()} == items
    assert {
        customer: sales.purchases for customer, sales in truth.sales_by_customer.items()
    } == customers
    total = sum(revenue.values())
    assert sum(sales.revenue for sales in truth.sales_by_customer.values()) == total
    assert json.loads(truth_path(path).read_text("utf-8")) == truth.to_json()


def test_events_have_what_is_hard(tmp_path):
    path = tmp_path / "purchases.jsonl"
    generate(path, events=5_000, seed=1, start=START)
    events = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    late = [
        arrival - happened
        for number, event in enumerate(events)
        if (happened := datetime.fromisoformat(event["purchased_at"]))
        < (arrival := START + number * EVERY)
    ]
    assert 0.03 < len(late) / len(events) < 0.07
    assert timedelta(hours=1) < max(late) <= LATE + timedelta(milliseconds=1)
    assert any(event["customer"] is None for event in events)
    assert any("coupons" not in event for event in events)
    assert len({event["purchase_id"] for event in events}) == len(events)
    assert {len(event) for event in events} == {len(purchases.columns), len(purchases.columns) - 1}


@pytest.mark.parametrize("reason", BAD)
def test_all_bad_is_all_bad(tmp_path, reason):
    truth = generate(tmp_path / "p.jsonl", events=99, seed=1, start=START, bad=1)
    assert truth.good == 0
    assert truth.bad[reason] == 33
    assert not any(map(readable, (tmp_path / "p.jsonl").read_text("utf-8").splitlines()))


@pytest.mark.parametrize("wrong", [{"events": -1}, {"bad": 1.5}, {"start": datetime(2026, 1, 1)}])  # noqa: DTZ001  # the naive one
def test_arguments_out_of_range_are_refused(tmp_path, wrong):
    with pytest.raises(ValueError, match="must be"):
        generate(tmp_path / "p.jsonl", **{"events": 1, "seed": 1, "start": START} | wrong)


def test_command_line(tmp_path, run_module):
    path = tmp_path / "p.jsonl"
    options = ("--events", 200, "--seed", 5, "--bad", 0.1, "--start", START.isoformat())
    assert "200 events" in run_module("examples.retail.generate", path, *options)
    by_hand = generate(tmp_path / "q.jsonl", events=200, seed=5, start=START, bad=0.1)
    assert path.read_bytes() == (tmp_path / "q.jsonl").read_bytes()
    assert json.loads(truth_path(path).read_text("utf-8"))["good"] == by_hand.good


def readable(line: str) -> dict | None:
    """The event, where it is a JSON object that fits the stream's schema."""
    try:
        event = json.loads(line)
    except json.JSONDecodeError:
        return None
    fits = isinstance(event.get("quantity"), int) and all(
        event.get(field.name) is not None for field in purchases.fields if field.required
    )
    return event if fits else None
