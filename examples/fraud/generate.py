"""Generates payments by card, with frauds among them, and says which ones are frauds.

The same seed and start give the same bytes. A fraud is never marked in its event: what is true is
kept here, by the id of the transaction. The frauds are not all of a kind that a rule finds, and
some honest payments look like frauds, as in life:

- Several payments in a few seconds. Some thieves wait up to twenty. Honest people tap twice.
- An amount above three times the largest one before. Some thieves are careful. Honest people make a
  rare large purchase.
- A copied card, far from the holder's phone. The phone may be off, or the terminal near. Honest
  people travel, and leave their phones at home.
- A new card that was stolen from the post. Some thieves pay little. Honest people buy furniture
  with a new card.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from random import Random

from examples.demo import Event, iso

CARDS = 2_000
"""The number of cards at the beginning; new ones are issued meanwhile."""

EVERY = timedelta(seconds=1)
"""The time between two arrivals."""

LATE = timedelta(hours=1)
"""The longest time between a late payment, of a terminal that was offline, and its arrival."""

CITIES = {
    "Athens": (37.98, 23.73),
    "Berlin": (52.52, 13.40),
    "Bucharest": (44.43, 26.10),
    "Dublin": (53.35, -6.26),
    "Helsinki": (60.17, 24.94),
    "Lisbon": (38.72, -9.14),
    "London": (51.51, -0.13),
    "Madrid": (40.42, -3.70),
    "Oslo": (59.91, 10.75),
    "Paris": (48.86, 2.35),
    "Rome": (41.90, 12.50),
    "Stockholm": (59.33, 18.07),
    "Vienna": (48.21, 16.37),
    "Warsaw": (52.23, 21.01),
}
"""Latitude and longitude; no two of these are less than 340 km apart."""

SHOPS = ("bakery", "bookshop", "café", "chemist", "cinema", "florist", "garage", "grocer", "kiosk")

# The share of arrivals at which each kind of fraud begins.
VELOCITY, HIGH_AMOUNT, FAR, STOLEN_NEW = 0.003, 0.004, 0.004, 0.002

# The shares of other things.
NEW, TAPPED_TWICE, LARGE, TRAVELLING, PHONE_OFF, LEFT_AT_HOME = 0.01, 0.003, 0.003, 0.03, 0.2, 0.08
LATE_SHARE, BAD_SHARE = 0.005, 0.0025

MODEST = 400
"""Thieves who pay a high amount choose cards whose largest one was smaller than this."""

Place = tuple[float, float]


@dataclass(frozen=True)
class Payment:
    """A transaction, and what nobody who sees only its event can know.

    Attributes:
        event: The event.
        fits: Whether it fits the schema.
        is_fraud: Whether a thief has paid.
        planted: The alert that is meant to find it, if any. Of several payments within seconds,
            the first one looks like any other.
    """

    event: Event
    fits: bool = True
    is_fraud: bool = False
    planted: str | None = None

    @property
    def id(self) -> str:
        """The id of the transaction."""
        return str(self.event["id"])


@dataclass
class _Card:
    number: int
    city: str
    home: Place
    typical: float
    payments: int = 0
    largest: float = 0.0


@dataclass(order=True)
class _Next:
    """A payment that follows another one of its card within seconds."""

    at: datetime
    order: int
    card: _Card = field(compare=False)
    amount: float = field(compare=False)
    merchant: str | None = field(compare=False)
    is_fraud: bool = field(compare=False)


def generate(*, events: int, seed: int, start: datetime) -> list[Payment]:
    """The payments in the order of their arrival, the first one at `start`."""
    return list(_Generator(Random(seed), start).payments(events))


class _Generator:
    def __init__(self, random: Random, start: datetime) -> None:
        self._random, self._start = random, start
        self._numbers, self._orders = count(1), count()
        self._cards = [self._new_card() for _ in range(CARDS)]
        self._next: list[_Next] = []
        self._ids = count()

    def payments(self, events: int) -> Iterator[Payment]:
        random = self._random
        for number in range(events):
            arrival = self._start + number * EVERY
            if self._next and self._next[0].at <= arrival:
                due = heapq.heappop(self._next)
                yield self._paid(
                    due.card,
                    due.amount,
                    due.at,
                    merchant=due.merchant,
                    is_fraud=due.is_fraud,
                    planted="velocity" if due.is_fraud else None,
                )
                continue
            at = arrival + timedelta(milliseconds=random.randrange(1000))
            chosen = random.random()
            for share, begin in (
                (VELOCITY, self._burst),
                (HIGH_AMOUNT, self._high_amount),
                (FAR, self._copied),
                (STOLEN_NEW, self._stolen_new),
                (NEW, self._first_payment),
            ):
                if chosen < share:
                    yield begin(at)
                    break
                chosen -= share
            else:
                yield self._honest(at)

    # -- cards and amounts -------------------------------------------------------------------------

    def _new_card(self) -> _Card:
        city = self._random.choice(list(CITIES))
        home = self._near(CITIES[city], 10)
        return _Card(next(self._numbers), city, home, self._random.lognormvariate(3.4, 0.8))

    def _some_card(self) -> _Card:
        """Some cards pay more often than others."""
        return self._cards[int(len(self._cards) * self._random.random() ** 1.3)]

    def _amount(self, card: _Card) -> float:
        return card.typical * self._random.lognormvariate(0, 0.6)

    def _near(self, place: Place, km: float) -> Place:
        lat, lon = place
        north, east = (self._random.gauss(0, km / 2) for _ in range(2))
        degree_km = 111.2
        return lat + north / degree_km, lon + east / (degree_km * math.cos(math.radians(lat)))

    # -- honest payments ---------------------------------------------------------------------------

    def _honest(self, at: datetime) -> Payment:
        random = self._random
        card = self._some_card()
        amount = self._amount(card)
        if random.random() < LARGE:
            amount *= random.uniform(8, 20)
        if random.random() < TAPPED_TWICE:
            merchant = self._merchant(card.city)
            again = at + timedelta(seconds=random.uniform(3, 9))
            self._follow(again, card, amount, merchant, is_fraud=False)
            return self._paid(card, amount, at, merchant=merchant)
        if random.random() < LATE_SHARE:
            at -= LATE * random.random()
        if random.random() < TRAVELLING:
            city = self._elsewhere(card)
            terminal = self._near(CITIES[city], 10)
            phone = card.home if random.random() < LEFT_AT_HOME else terminal
            return self._paid(card, amount, at, city=city, terminal=terminal, phone=phone)
        return self._paid(card, amount, at, may_be_bad=True)

    def _first_payment(self, at: datetime) -> Payment:
        card = self._new_card()
        self._cards.append(card)
        amount = self._amount(card)
        return self._paid(card, amount * 20 if self._random.random() < 0.05 else amount, at)

    # -- frauds ------------------------------------------------------------------------------------

    def _burst(self, at: datetime) -> Payment:
        random = self._random
        card, fast = self._some_card(), random.random() < 0.75
        time = at
        for _ in range(random.randint(2, 4)):
            time += timedelta(seconds=random.uniform(2, 9) if fast else random.uniform(11, 20))
            self._follow(time, card, self._amount(card), None, is_fraud=True)
        return self._paid(card, self._amount(card), at, is_fraud=True)

    def _high_amount(self, at: datetime) -> Payment:
        random = self._random
        # A card that has paid often, and whose largest amount is no fraud's yet.
        cards = [self._some_card() for _ in range(6)]
        card = max(cards, key=lambda card: (card.largest < MODEST, card.payments))
        careful = random.random() < 0.2
        largest = card.largest or card.typical
        amount = largest * (random.uniform(2, 2.9) if careful else random.uniform(3.2, 8))
        return self._paid(card, amount, at, is_fraud=True, planted="high_amount")

    def _copied(self, at: datetime) -> Payment:
        card = self._some_card()
        city = self._elsewhere(card)
        terminal = self._near(CITIES[city], 10)
        if self._random.random() < 0.15:  # not far enough
            terminal = card.home[0] + self._random.uniform(0.9, 2.2), card.home[1]
        return self._paid(
            card,
            self._amount(card),
            at,
            city=city,
            terminal=terminal,
            phone=self._near(card.home, 5),
            is_fraud=True,
            planted="far_from_phone",
        )

    def _stolen_new(self, at: datetime) -> Payment:
        card = self._new_card()
        amount = self._random.uniform(510, 1_900)
        if self._random.random() < 0.2:
            amount = self._random.uniform(200, 490)
        return self._paid(card, amount, at, is_fraud=True, planted="new_card")

    # -- the event ---------------------------------------------------------------------------------

    def _elsewhere(self, card: _Card) -> str:
        return self._random.choice([city for city in CITIES if city != card.city])

    def _merchant(self, city: str) -> str:
        return f"{self._random.choice(SHOPS)} {self._random.randint(1, 8)}, {city}"

    def _follow(
        self, at: datetime, card: _Card, amount: float, merchant: str | None, *, is_fraud: bool
    ) -> None:
        heapq.heappush(self._next, _Next(at, next(self._orders), card, amount, merchant, is_fraud))

    def _paid(
        self,
        card: _Card,
        amount: float,
        at: datetime,
        *,
        merchant: str | None = None,
        city: str = "",
        terminal: Place | None = None,
        phone: Place | None = None,
        is_fraud: bool = False,
        planted: str | None = None,
        may_be_bad: bool = False,
    ) -> Payment:
        random = self._random
        terminal = terminal or self._near(card.home, 8)
        phone = self._near(phone or terminal, 0.1)
        paid = max(round(amount, 2), 0.5)
        event: Event = {
            "id": f"t{next(self._ids):07}",
            "card": f"card-{card.number:04}",
            "holder": f"holder-{card.number - (card.number % 10 == 0):04}",  # some have two cards
            "amount": f"{paid:.2f}",
            "merchant": merchant or self._merchant(city or card.city),
            "terminal": {"lat": round(terminal[0], 5), "lon": round(terminal[1], 5)},
            "paid_at": iso(at),
        }
        if random.random() >= PHONE_OFF:
            event["phone"] = {"lat": round(phone[0], 5), "lon": round(phone[1], 5)}
        if may_be_bad and random.random() < BAD_SHARE:
            return Payment(event | {"amount": event["amount"].replace(".", ",")}, fits=False)
        card.payments += 1
        card.largest = max(card.largest, paid)
        return Payment(event, is_fraud=is_fraud, planted=planted)
