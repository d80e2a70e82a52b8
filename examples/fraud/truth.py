"""The correct answers about generated payments, in plain Python.

These are the rows of the views; the payments for which the rule of each alert holds, found by
walking the log; and the frauds that the alerts are meant to find. The last two differ, because no
rule is right about everything.

`python -m examples.fraud.truth FOLDER` writes payments to replay, and these answers.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from kafka.partitioner.default import murmur2

from examples.demo import (
    QUANTILE,
    Demo,
    Event,
    Expected,
    Key,
    Planted,
    Prepared,
    floor,
    grouped,
    main,
    ranked,
    sessions,
    write_events,
)
from examples.fraud import transactions
from examples.fraud.generate import EVERY, Payment, generate

EVENTS = 36_000

HISTORY = 2 / 3
"""The share of the payments that was made before the alerts are watched."""

BEFORE = 2
"""The most payments of a card that a rule looks back at."""


def prepare(
    folder: Path, *, events: int = EVENTS, seed: int = 1, start: datetime | None = None
) -> Prepared:
    """Writes payments, of which by default the last one is made now; one in 400 is invalid."""
    start = start or datetime.now(UTC) - events * EVERY
    payments = generate(events=events, seed=seed, start=start)
    before = round(events * HISTORY)
    history, live = folder / "history.jsonl", folder / "transactions.jsonl"
    write_events(history, (payment.event for payment in payments[:before]))
    write_events(live, (payment.event for payment in payments[before:]))
    expected = [*truth(payments), *exact(payments, transactions.partitions)]
    return Prepared(
        {"transactions": live},
        sum(payment.fits for payment in payments),
        lambda now: expected,
        history={"transactions": history},
        planted=planted(payments[before:]),
    )


def planted(payments: Iterable[Payment]) -> Planted:
    """Which of some payments the alerts are meant to find."""
    ids: dict[str, set[str]] = {alert: set() for alert in (*RULES, "high_amount")}
    frauds, everything = set(), set()
    for payment in payments:
        everything.add(payment.id)
        if payment.is_fraud:
            frauds.add(payment.id)
        if payment.planted:
            ids[payment.planted].add(payment.id)
    return Planted("id", "frauds", ids, frauds, everything)


# -- the views -------------------------------------------------------------------------------------


def typed(payments: Iterable[Payment]) -> list[Event]:
    """The events that fit the schema, with the values of their columns."""
    return [
        payment.event
        | {
            "amount": Decimal(payment.event["amount"]),
            "paid_at": datetime.fromisoformat(payment.event["paid_at"]),
        }
        for payment in payments
        if payment.fits
    ]


def truth(payments: Iterable[Payment]) -> list[Expected]:
    """The correct rows of the views."""
    paid = typed(payments)
    for event in paid:
        event["minute"] = floor(event["paid_at"], timedelta(minutes=1))
    cards = {
        key: _sums(of_key)
        | {
            "max_amount": max(event["amount"] for event in of_key),
            "last_paid_at": max(event["paid_at"] for event in of_key),
        }
        for key, of_key in grouped(paid, "card").items()
    }
    minutes = {
        key: _sums(of_key) | {"largest": max(event["amount"] for event in of_key)}
        for key, of_key in grouped(paid, "minute").items()
    }
    merchants = {
        key: _sums(of_key)
        | {"amounts": ranked((event["amount"] for event in of_key), [0.5, 0.9, 0.99])}
        for key, of_key in grouped(paid, "merchant").items()
    }
    hour = timedelta(hours=1)
    outings = {
        (*key, outing[0]["paid_at"]): {"outing_end": outing[-1]["paid_at"] + hour}
        | _sums(outing)
        | {"largest": max(event["amount"] for event in outing)}
        for key, of_key in grouped(paid, "card").items()
        for outing in sessions(of_key, "paid_at", hour)
    }
    return [
        Expected("by_card", ["card"], cards),
        Expected("by_minute", ["minute"], minutes),
        Expected("merchants", ["merchant"], merchants, within={"amounts": QUANTILE}),
        Expected("outings", ["card", "outing"], outings),
    ]


def _sums(events: list[Event]) -> dict[str, Any]:
    return {"transactions": len(events), "total": sum(event["amount"] for event in events)}


# -- the alerts ------------------------------------------------------------------------------------


def exact(payments: Iterable[Payment], partitions: int) -> list[Expected]:
    """The payments for which each rule without a profile holds, by their place in the log.

    Args:
        payments: All that were sent, in order, each with its card as the key of its record.
        partitions: The number of partitions of the topic.
    """
    ends: dict[int, int] = defaultdict(int)
    last: dict[str, deque[Event]] = defaultdict(lambda: deque(maxlen=BEFORE))
    raised: dict[str, dict[Key, dict[str, str]]] = {alert: {} for alert in RULES}
    for payment in payments:
        card = payment.event["card"]
        partition = (murmur2(card.encode()) & 0x7FFFFFFF) % partitions
        offset = ends[partition]
        ends[partition] += 1
        for event in typed([payment]):
            for alert, rule in RULES.items():
                if rule(event, [*last[card]]):
                    raised[alert][partition, offset] = {"id": payment.id}
            last[card].appendleft(event)
    return [
        Expected(
            f"alerts.{alert}",
            ["partition", "offset"],
            rows,
            source=(
                'SELECT "partition", "offset", event.id AS id'
                f" FROM alerts.{alert} WHERE state <> 'withdrawn'"
            ),
        )
        for alert, rows in raised.items()
    ]


def velocity(event: Event, last: list[Event]) -> bool:
    """Whether a payment is another one within ten seconds, or the third one within thirty."""
    return any(
        len(last) > place and abs(event["paid_at"] - last[place]["paid_at"]) <= within
        for place, within in enumerate((timedelta(seconds=10), timedelta(seconds=30)))
    )


def far_from_phone(event: Event, last: list[Event]) -> bool:
    """Whether the phone is more than 300 km away from the terminal."""
    return "phone" in event and distance_km(event["phone"], event["terminal"]) > 300


def new_card(event: Event, last: list[Event]) -> bool:
    """Whether a card pays more than 500 the first time."""
    return not last and event["amount"] > 500


RULES = {"velocity": velocity, "far_from_phone": far_from_phone, "new_card": new_card}
"""The rules without a profile, over a payment and those of its card before it, newest first."""


def distance_km(one: Mapping[str, float], two: Mapping[str, float]) -> float:
    """The distance on a sphere, by the haversine formula."""
    lat, lon = (math.radians(two[name] - one[name]) / 2 for name in ("lat", "lon"))
    cosines = math.cos(math.radians(one["lat"])) * math.cos(math.radians(two["lat"]))
    return 2 * 6371 * math.asin(math.sqrt(math.sin(lat) ** 2 + cosines * math.sin(lon) ** 2))


demo = Demo(
    catalog="examples.fraud:catalog",
    what="payments by card, with frauds among them",
    events="payments",
    counted={"by_card": "transactions"},
    prepare=prepare,
    queries={
        "alert_states": "alerts by what the batch layer says of them",
        "disagreements": "why the layers do not agree",
        "biggest_outings": "cards that paid the most without a pause of an hour",
        "dearest_merchants": "merchants with the most revenue",
    },
    rate=100,
    settings={
        "alerts": {
            # A real system looks back further, and an alert is withdrawn for a want of memory only
            # if a card was quiet for longer. Here nothing was sent before.
            "horizon_s": 0,
            # A publication changes the state of alerts at the end of such a batch. That pauses them
            # for about a second, and is done rarely if it matters.
            "boundary_s": 20,
        },
    },
)


if __name__ == "__main__":
    main(prepare, "python -m examples.fraud.truth", str(__doc__), events=EVENTS)
