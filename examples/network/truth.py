"""The correct answers about generated packets, in plain Python.

`python -m examples.network.truth FOLDER` writes packets to replay, and these answers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from examples.demo import (
    DISTINCT,
    Demo,
    Event,
    Expected,
    Prepared,
    buckets,
    floor,
    grouped,
    main,
    write_events,
)
from examples.network.generate import BURSTING, PER_SECOND, SCANNER, generate

EVENTS = 60_000


def prepare(
    folder: Path, *, events: int = EVENTS, seed: int = 1, start: datetime | None = None
) -> Prepared:
    """Writes packets, of which by default the last one is seen now."""
    start = start or datetime.now(UTC) - timedelta(seconds=events / PER_SECOND)
    packets = generate(events=events, seed=seed, start=start)
    path = folder / "packets.jsonl"
    write_events(path, packets)
    return Prepared({"packets": path}, len(packets), lambda now: truth(packets))


def truth(packets: list[Event]) -> list[Expected]:
    """The correct rows of the views; and what the two queries about attacks must find."""
    seen = [
        packet
        | {
            "seen": datetime.fromisoformat(packet["seen"]),
            "second": floor(datetime.fromisoformat(packet["seen"]), timedelta(seconds=1)),
        }
        for packet in packets
    ]
    seconds = {
        key: {"packets": len(of_key), "bytes": sum(p["bytes"] for p in of_key)}
        for key, of_key in grouped(seen, "source", "second").items()
    }
    sources = {
        key: {
            "packets": len(of_key),
            "bytes": sum(p["bytes"] for p in of_key),
            "ports": len({p["port"] for p in of_key}),
            "destinations": len({p["destination"] for p in of_key}),
            "first_seen": min(p["seen"] for p in of_key),
            "last_seen": max(p["seen"] for p in of_key),
            "sizes": buckets((p["bytes"] for p in of_key), [128, 512, 1024]),
        }
        for key, of_key in grouped(seen, "source").items()
    }
    return [
        Expected("traffic_by_second", ["source", "second"], seconds),
        Expected("sources", ["source"], sources, within={"ports": DISTINCT}),
        Expected("scanners", ["source"], {(SCANNER,): {}}),
        Expected("strangers", ["source"], {(SCANNER,): {}}),
        Expected("unusual", ["source"], {(BURSTING,): {}}),
    ]


demo = Demo(
    catalog="examples.network:catalog",
    what="packets of a network, with a scan of ports and a burst among them",
    events="packets",
    counted={"sources": "packets"},
    prepare=prepare,
    queries={
        "scanners": "sources that try many ports",
        "unusual": "sources that send much more than usual in the last ten seconds, or are new",
        "strangers": "sources from outside that are in no list",
        "loudest": "sources that send the most",
    },
)


if __name__ == "__main__":
    main(prepare, "python -m examples.network.truth", str(__doc__), events=EVENTS)
