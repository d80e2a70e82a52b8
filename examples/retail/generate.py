"""Generates purchases as JSON Lines, valid and invalid ones, and the correct answers to them.

The same seed gives the same bytes. The answers are computed in plain Python while the events are
written, independently of the code that they are compared with. `FILE.truth.json` has, under a
view's name, the rows that the view must have.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, TypeVar

PRODUCTS = {
    "tea": "3.20",
    "coffee": "6.49",
    "cocoa": "4.75",
    "honey": "7.90",
    "jam": "3.35",
    "oats": "1.89",
    "rice": "2.49",
    "pasta": "1.19",
    "lentils": "2.15",
    "flour": "0.99",
    "olive oil": "11.95",
    "vinegar": "2.79",
    "salt": "0.55",
    "pepper": "3.99",
    "cumin": "2.29",
    "crème fraîche": "1.65",
    "butter": "2.85",
    "cheese": "8.40",
    "walnuts": "5.60",
    "espresso machine": "1249.00",
}
CUSTOMERS = [f"customer-{number:03}" for number in range(1, 301)]
COUPONS = ["autumn", "newsletter", "welcome"]

EVERY = timedelta(seconds=1)
"""The time between two arrivals."""

LATE = timedelta(hours=2)
"""The longest time between a late event and its arrival."""

LATE_SHARE, GUEST_SHARE, COUPON_SHARE, SALE_SHARE = 0.05, 0.1, 0.2, 0.15

Event = dict[str, Any]
Key = TypeVar("Key", bound=str | None)

BAD: dict[str, Callable[[Event], str]] = {
    "broken JSON": lambda event: encode(event)[:-20],
    "wrong type": lambda event: encode(event | {"quantity": "a few"}),
    "missing field": lambda event: encode(
        {name: event[name] for name in event if name != "product"}
    ),
}
"""The ways to make an event invalid, by the reason with which it is quarantined."""


@dataclass(frozen=True)
class Sales:
    """The aggregates that the views have in common; they can be added."""

    purchases: int = 0
    items: int = 0
    revenue: Decimal = Decimal("0.00")

    def __add__(self, other: Sales) -> Sales:
        return Sales(
            self.purchases + other.purchases, self.items + other.items, self.revenue + other.revenue
        )


@dataclass(frozen=True)
class Truth:
    """The correct answers.

    `good` is the number of events that fit the schema, and `bad` the number of other events by
    reason. `purchases` are the events that fit, and the remaining fields are the rows of each view,
    by key.
    """

    good: int
    bad: dict[str, int]
    sales_by_product: dict[str, Sales]
    sales_by_customer: dict[str | None, Sales]
    sales_by_coupon: dict[str, Sales]
    purchases: list[Event]

    @property
    def events(self) -> int:
        """The number of all events."""
        return self.good + sum(self.bad.values())

    def to_json(self) -> dict[str, Any]:
        """The answers with views as lists of rows, and decimals as text with all their digits."""
        return {
            "events": self.events,
            "good": self.good,
            "bad": self.bad,
            "sales_by_product": _rows("product", self.sales_by_product),
            "sales_by_customer": _rows("customer", self.sales_by_customer),
            "sales_by_coupon": _rows("coupon", self.sales_by_coupon),
        }


def generate(path: Path, *, events: int, seed: int, start: datetime, bad: float = 0.0) -> Truth:
    """Writes `events` purchases to `path`, and the truth to `truth_path(path)`.

    `start` is the time at which the first one arrives. `bad` is the fraction of events that do not
    fit the schema; the kinds of `BAD` are used in turn.
    """
    if events < 0 or not 0 <= bad <= 1 or start.tzinfo is None:
        raise ValueError(
            f"events must be 0 or more, bad from 0 to 1, start with a time zone; got {events},"
            f" {bad}, {start}"
        )
    random = Random(seed)
    rejected = dict.fromkeys(BAD, 0)
    products: dict[str, Sales] = {}
    customers: dict[str | None, Sales] = {}
    coupons: dict[str, Sales] = {}
    good = []
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number in range(events):
            event = _purchase(random, number, start + number * EVERY)
            if random.random() < bad:
                reason = list(BAD)[sum(rejected.values()) % len(BAD)]
                rejected[reason] += 1
                file.write(BAD[reason](event) + "\n")
                continue
            file.write(encode(event) + "\n")
            good.append(event)
            sale = Sales(1, event["quantity"], event["quantity"] * Decimal(event["unit_price"]))
            _add(products, event["product"], sale)
            _add(customers, event["customer"], sale)
            for coupon in event.get("coupons", ()):
                _add(coupons, coupon, sale)
    truth = Truth(events - sum(rejected.values()), rejected, products, customers, coupons, good)
    truth_path(path).write_text(
        json.dumps(truth.to_json(), indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    return truth


def truth_path(path: Path) -> Path:
    """The path of the truth: `purchases.truth.json` for `purchases.jsonl`."""
    return path.with_suffix(".truth.json")


def encode(event: Event) -> str:
    """An event as a line of JSON."""
    return json.dumps(event, ensure_ascii=False)


def _purchase(random: Random, number: int, arrival: datetime) -> Event:
    """One purchase as a JSON object.

    Some products sell more than others, some customers buy more, and some prices are reduced by a
    tenth.
    """
    late = LATE * random.random() if random.random() < LATE_SHARE else timedelta()
    product = _skewed(random, list(PRODUCTS))
    price = Decimal(PRODUCTS[product])
    if random.random() < SALE_SHARE:
        price = (price * Decimal("0.9")).quantize(Decimal("0.01"))
    event: Event = {
        "purchase_id": f"p{number:09}",
        "purchased_at": (arrival - late).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "customer": None if random.random() < GUEST_SHARE else _skewed(random, CUSTOMERS),
        "product": product,
        "quantity": random.randint(1, 5),
        "unit_price": str(price),
    }
    if random.random() < COUPON_SHARE:
        event["coupons"] = random.sample(COUPONS, random.randint(1, 2))
    return event


def _skewed(random: Random, names: list[str]) -> str:
    return names[int(len(names) * random.random() ** 2)]


def _add(totals: dict[Key, Sales], key: Key, sale: Sales) -> None:
    totals[key] = totals.get(key, Sales()) + sale


def _rows(key: str, totals: Mapping[Key, Sales]) -> list[dict[str, Any]]:
    ordered = sorted(totals, key=lambda value: (value is not None, str(value)))
    return [
        {key: value} | asdict(totals[value]) | {"revenue": str(totals[value].revenue)}
        for value in ordered
    ]


def main() -> None:
    """Writes the file named on the command line, and its correct answers."""
    parser = argparse.ArgumentParser(prog="python -m examples.retail.generate", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--bad", type=float, default=0.0, help="share of events that do not fit the schema"
    )
    parser.add_argument(
        "--start",
        type=datetime.fromisoformat,
        help=(
            "when the first purchase arrives, such as 2026-01-01T00:00:00Z; by default the last"
            " one arrives now"
        ),
    )
    arguments = parser.parse_args()
    start = arguments.start or datetime.now(UTC) - arguments.events * EVERY
    truth = generate(
        arguments.file, events=arguments.events, seed=arguments.seed, start=start, bad=arguments.bad
    )
    print(f"{truth.events:,} events written to {arguments.file}, {truth.good:,} of them good")
    print(f"the right answers are in {truth_path(arguments.file)}")


if __name__ == "__main__":
    main()
