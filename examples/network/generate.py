"""Generates packets: ordinary traffic, a slow scan of ports, and a burst at the end.

The same seed and start give the same bytes.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from examples.demo import Event, iso

SOURCES = [f"10.0.{number // 50}.{number % 50 + 1}" for number in range(200)]
SERVERS = [f"192.168.1.{number}" for number in range(1, 13)]
PORTS = [80, 443, 443, 443, 22, 53, 53, 123, 5432, 8080]

SCANNER = "203.0.113.7"
"""The source that tries one port after the other, on one server."""

BURSTING = SOURCES[17]
"""The source that sends much more in the last seconds than ever before."""

PER_SECOND = 50
"""The packets in a second of ordinary traffic."""

SCAN_SHARE, BURST_SECONDS, BURST_PER_SECOND = 0.02, 8, 40


def generate(*, events: int, seed: int, start: datetime) -> list[Event]:
    """The packets in the order in which they were seen, the first one at `start`."""
    random = Random(seed)
    burst = min(BURST_SECONDS * BURST_PER_SECOND, events // 4)
    ordinary = events - burst
    packets = []
    for number in range(ordinary):
        seen = start + timedelta(seconds=number / PER_SECOND)
        if random.random() < SCAN_SHARE:
            packets.append(_packet(seen, SCANNER, SERVERS[0], 1 + len(packets) % 60_000, 60))
            continue
        # Some sources send much more than others, and most packets are small or full.
        source = SOURCES[int(len(SOURCES) * random.random() ** 3)]
        size = 1500 if random.random() < 0.3 else random.randint(40, 600)
        packets.append(_packet(seen, source, random.choice(SERVERS), random.choice(PORTS), size))
    end = ordinary / PER_SECOND
    for number in range(burst):
        seen = start + timedelta(seconds=end - BURST_SECONDS + number / BURST_PER_SECOND)
        packets.append(_packet(seen, BURSTING, SERVERS[3], 443, 1500))
    return sorted(packets, key=lambda packet: packet["seen"])


def _packet(seen: datetime, source: str, destination: str, port: int, size: int) -> Event:
    return {
        "seen": iso(seen),
        "source": source,
        "destination": destination,
        "port": port,
        "bytes": size,
    }
