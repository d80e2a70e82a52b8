"""Generates rides of skiers on lifts, and reports of buses.

The same seed and start give the same bytes.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from random import Random

from examples.demo import Event, iso

LIFTS = [f"L{number:02}" for number in range(1, 13)]
SKIERS = [f"pass-{number:05}" for number in range(1, 3001)]
ROUTES = ["Village", "Station", "Glacier", "Lake", "Forest", "Night bus"]
BUSES = [f"bus-{number:02}" for number in range(1, 41)]

EVERY = timedelta(seconds=30)
"""The time between two reports of a bus."""

SERVICE, PAUSE = 50, 20
"""The number of reports that a bus makes before it pauses, and that it leaves out then."""

RIDES_PER_SECOND = 1.5


def span(events: int) -> timedelta:
    """The time in which this many rides take place."""
    return timedelta(seconds=events / RIDES_PER_SECOND)


def generate_rides(*, events: int, seed: int, start: datetime) -> list[Event]:
    """The rides in their order; now and then there is a rush to one of the lifts."""
    random = Random(seed)
    rides = []
    for number in range(events):
        seconds = number / RIDES_PER_SECOND
        rush = int(seconds // 600) * 5 % len(LIFTS)
        lift = rush if random.random() < 0.25 else int(len(LIFTS) * random.random() ** 1.5)
        rides.append(
            {
                "passed": iso(start + timedelta(seconds=seconds)),
                "lift": LIFTS[lift],
                "skier": random.choice(SKIERS),
            }
        )
    return rides


def generate_reports(*, until: timedelta, seed: int, start: datetime) -> list[Event]:
    """The reports of all buses in their order. A bus pauses between two services."""
    random = Random(seed)
    reports = []
    for number, bus in enumerate(BUSES):
        delay = 0.0
        for step in range(until // EVERY):
            place = (step + 7 * number) % (SERVICE + PAUSE)
            if place >= SERVICE:
                delay = 0.0
                continue
            route = ROUTES[number % len(ROUTES)]
            # Delays grow and shrink by chance, and those of the glacier's buses grow faster.
            delay += random.gauss(8 if route == "Glacier" else 1, 25)
            angle = 2 * math.pi * place / SERVICE
            offset = timedelta(milliseconds=random.randint(0, 2000))
            reports.append(
                {
                    "reported": iso(start + step * EVERY + offset),
                    "bus": bus,
                    "route": route,
                    "latitude": round(46.5 + 0.02 * number / 40 + 0.03 * math.sin(angle), 5),
                    "longitude": round(9.8 + 0.05 * math.cos(angle), 5),
                    "delay_s": int(delay),
                    "passengers": 0 if number == 0 else random.randint(0, 60),
                }
            )
    return sorted(reports, key=lambda report: (report["reported"], report["bus"]))
