"""The correct answers about generated purchases, in plain Python.

`python -m examples.retail.generate` writes the totals to a file as well. What is computed here
needs all purchases of a key at once.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from examples.demo import (
    DISTINCT,
    QUANTILE,
    Demo,
    Expected,
    Prepared,
    buckets,
    floor,
    grouped,
    most_frequent,
    ranked,
    recent,
)
from examples.retail.generate import EVERY, Truth, generate

EVENTS = 40_000


def prepare(
    folder: Path, *, events: int = EVENTS, seed: int = 1, start: datetime | None = None
) -> Prepared:
    """Writes purchases, of which by default the last one is made now; one in 200 is invalid."""
    start = start or datetime.now(UTC) - events * EVERY
    path = folder / "purchases.jsonl"
    made = generate(path, events=events, seed=seed, start=start, bad=0.005)
    return Prepared({"purchases": path}, made.good, lambda now: truth(made, now))


def truth(made: Truth, now: datetime) -> list[Expected]:
    """The correct rows of the views; those of the last hour are as of `now`."""
    purchases = [
        event
        | {
            "purchased_at": datetime.fromisoformat(event["purchased_at"]),
            "amount": event["quantity"] * Decimal(event["unit_price"]),
        }
        for event in made.purchases
    ]
    for event in purchases:
        event["hour"] = floor(event["purchased_at"], timedelta(hours=1))
    buyers = {
        key: {
            "buyers": len({event["customer"] for event in of_key} - {None}),
            "with_coupon": sum("coupons" in event for event in of_key),
        }
        for key, of_key in grouped(purchases, "product").items()
    }
    spending = {
        key: {
            "purchases": len(of_key),
            "favourite": most_frequent((event["product"] for event in of_key), 1)[0]["value"],
            "bought_in_bulk": any(event["quantity"] >= 5 for event in of_key),
        }
        | _spread([event["amount"] for event in of_key])
        for key, of_key in grouped(purchases, "customer").items()
    }
    baskets = {
        key: {
            "purchases": len(of_key),
            "amounts": ranked((event["amount"] for event in of_key), [0.5, 0.9, 0.99]),
            "sizes": buckets((event["amount"] for event in of_key), [5, 10, 20, 50]),
            "best_sellers": most_frequent((event["product"] for event in of_key), 3),
        }
        for key, of_key in grouped(purchases, "hour").items()
    }
    minute = timedelta(minutes=1)
    last_hour = {
        key: {
            "purchases": len(of_key),
            "items": sum(event["quantity"] for event in of_key),
            "revenue": sum(event["amount"] for event in of_key),
        }
        for key, of_key in grouped(
            recent(purchases, "purchased_at", now, 60 * minute, minute), "product"
        ).items()
    }
    return [
        *(
            Expected(view, [key], {(name,): asdict(sales) for name, sales in rows.items()})
            for view, key, rows in (
                ("sales_by_product", "product", made.sales_by_product),
                ("sales_by_customer", "customer", made.sales_by_customer),
                ("sales_by_coupon", "coupon", made.sales_by_coupon),
            )
        ),
        Expected("buyers_by_product", ["product"], buyers, within={"buyers": DISTINCT}),
        Expected("sales_of_last_hour", ["product"], last_hour),
        Expected("spending_by_customer", ["customer"], spending),
        Expected("baskets_by_hour", ["hour"], baskets, within={"amounts": QUANTILE}),
    ]


def _spread(amounts: list[Decimal]) -> dict[str, float | None]:
    """The sample variance and its root, exact until they are rounded once."""
    n = len(amounts)
    if n < 2:
        return {"variance": None, "deviation": None}
    mean = Fraction(sum(amounts)) / n
    variance = sum((Fraction(amount) - mean) ** 2 for amount in amounts) / (n - 1)
    return {"variance": float(variance), "deviation": math.sqrt(variance)}


demo = Demo(
    catalog="examples.retail:catalog",
    what="purchases of a shop, some of them late and some invalid",
    events="purchases",
    counted={"sales_by_product": "purchases"},
    prepare=prepare,
    queries={
        "top_sellers": "products with the most revenue",
        "erratic_customers": "customers whose purchases differ the most",
        "latest_baskets": "median, 90 % and 99 % of what a purchase costs, and best sellers",
    },
    rate=1_000,
)
