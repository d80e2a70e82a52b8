"""The correct answers about generated rides and reports, in plain Python.

`python -m examples.transport.truth FOLDER` writes both to replay, and these answers.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

from examples.demo import (
    DISTINCT,
    QUANTILE,
    Demo,
    Event,
    Expected,
    Prepared,
    floor,
    grouped,
    main,
    ranked,
    sessions,
    write_events,
)
from examples.transport import lifts
from examples.transport.generate import generate_reports, generate_rides, span

EVENTS = 20_000


def prepare(
    folder: Path, *, events: int = EVENTS, seed: int = 1, start: datetime | None = None
) -> Prepared:
    """Writes this many rides, of which by default the last one is now; and reports as long."""
    start = start or datetime.now(UTC) - span(events)
    rides = generate_rides(events=events, seed=seed, start=start)
    reports = generate_reports(until=span(events), seed=seed, start=start)
    files = {"rides": folder / "rides.jsonl", "reports": folder / "reports.jsonl"}
    write_events(files["rides"], rides)
    write_events(files["reports"], reports)
    return Prepared(files, len(rides) + len(reports), lambda now: truth(rides, reports))


def truth(rides: list[Event], reports: list[Event]) -> list[Expected]:
    """The correct rows of the views."""
    with lifts.file.open(encoding="utf-8") as file:
        by_lift = {lift["lift"]: lift for lift in csv.DictReader(file)}
    named = [
        ride
        | {
            "lift": by_lift[ride["lift"]]["name"] if ride["lift"] in by_lift else ride["lift"],
            "sector": by_lift[ride["lift"]]["sector"] if ride["lift"] in by_lift else None,
        }
        for ride in rides
    ]
    sectors = {
        key: {"rides": len(of_key), "skiers": len({ride["skier"] for ride in of_key})}
        for key, of_key in grouped(named, "sector").items()
    }
    windows = [
        ride | {"period": start - back}
        for ride in named
        for start in [floor(datetime.fromisoformat(ride["passed"]), timedelta(minutes=5))]
        for back in (timedelta(), timedelta(minutes=5))
    ]
    riders = {
        key: {"rides": len(of_key), "skiers": len({ride["skier"] for ride in of_key})}
        for key, of_key in grouped(windows, "lift", "period").items()
    }
    skiers = {
        key: {
            "rides": len(of_key),
            "last_lifts": [ride["lift"] for ride in reversed(of_key[-3:])],
        }
        for key, of_key in grouped(rides, "skier").items()
    }
    buses = {
        key: {
            "reports": len(of_key),
            "reported": datetime.fromisoformat(of_key[-1]["reported"]),
            **{name: of_key[-1][name] for name in ("route", "latitude", "longitude")},
            "always_empty": not any(report["passengers"] for report in of_key),
        }
        for key, of_key in grouped(reports, "bus").items()
    }
    delays = {
        key: {
            "reports": len(of_key),
            "late": sum(report["delay_s"] > 300 for report in of_key),
            "delay_s": ranked((report["delay_s"] for report in of_key), [0.5, 0.9, 0.99]),
        }
        for key, of_key in grouped(reports, "route").items()
    }
    timed = [
        report | {"reported": datetime.fromisoformat(report["reported"])} for report in reports
    ]
    services = {
        (*key, service[0]["reported"]): {
            "service_end": service[-1]["reported"] + timedelta(minutes=5),
            "reports": len(service),
            "most_passengers": max(report["passengers"] for report in service),
            "longest_delay_s": max(report["delay_s"] for report in service),
        }
        for key, of_key in grouped(timed, "bus").items()
        for service in sessions(of_key, "reported", timedelta(minutes=5))
    }
    return [
        Expected("riders", ["lift", "period"], riders),
        Expected("sectors", ["sector"], sectors, within={"skiers": DISTINCT}),
        Expected("skiers", ["skier"], skiers),
        Expected("buses", ["bus"], buses),
        Expected("services", ["bus", "service"], services),
        Expected("delays_by_route", ["route"], delays, within={"delay_s": QUANTILE}),
    ]


demo = Demo(
    catalog="examples.transport:catalog",
    what="rides on the lifts of a ski resort, and the reports of its buses",
    events="events",
    counted={"skiers": "rides", "buses": "reports"},
    prepare=prepare,
    queries={
        "busiest_lifts": "the busiest lifts of the last minutes",
        "where_buses_are": "where the buses are",
        "late_services": "services with the longest delays",
        "late_routes": "routes by their longest delays: median, 90 % and 99 %, in seconds",
    },
    rate=1_000,
)


if __name__ == "__main__":
    main(prepare, "python -m examples.transport.truth", str(__doc__), events=EVENTS)
