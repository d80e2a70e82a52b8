"""Freshness: the time from the creation of an event to the first DuckDB answer that counts it.

There are 2,000 events per second. The producer, the speed layer and the reader are separate
processes, as in production. The producer stamps each event when it creates it, and the reader
repeatedly asks for the newest stamp. An event is visible in the first answer whose newest stamp is
not older than its own.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from kafka import KafkaProducer

import serving_layer
from benchmarks.figure import Figure, Options, say
from benchmarks.workload import PROJECT, broker, home
from trilayer import Catalog, Stream, View, count, max_, mean, min_, sum_, tumbling
from trilayer.local import processes
from trilayer_core.log.broker import Log
from trilayer_core.store.files import Store

RATE, WARM_UP_S, WINDOW_S = 2_000, 60.0, 20.0
REACH = {"two": (0.4, 0.8), "five": (0.45, 0.9)}

STREAM = Stream(
    "visits",
    "visitor string, page string, took_ms int, created_us bigint, at timestamp",
    event_time="at",
)
VIEWS = [
    View(
        "by_visitor",
        source=STREAM,
        key=["visitor"],
        aggregates={
            "visits": count(),
            "slow": count(where="took_ms > 500"),
            "mean_ms": mean("took_ms"),
            "newest": max_("created_us"),
        },
    ),
    View(
        "by_page_day",
        source=STREAM,
        key={"page": "page", "day": "to_date(`at`)"},
        aggregates={
            "visits": count(),
            "ms": sum_("took_ms"),
            "quickest": min_("took_ms"),
            "slowest": max_("took_ms"),
        },
    ),
    View(
        "by_minute",
        source=STREAM,
        key={"minute": tumbling("`at`", "1 minute")},
        aggregates={"visits": count(), "newest": max_("created_us")},
    ),
    View(
        "by_page",
        source=STREAM,
        key=["page"],
        aggregates={"visits": count(), "mean_ms": mean("took_ms")},
    ),
    View(
        "by_speed", source=STREAM, key={"tenth": "took_ms div 100"}, aggregates={"visits": count()}
    ),
]
TWO, FIVE = Catalog(views=VIEWS[:2]), Catalog(views=VIEWS)
QUESTION = "SELECT max(newest) FROM by_visitor"


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    figures: list[Figure] = []
    for name, catalog in (("two", TWO), ("five", FIVE)):
        halves, tails = _measure(name, catalog, options)
        p50, p99 = REACH[name]
        figures += [
            Figure(f"freshness, {name} views, p50", "s", halves, at_most=p50),
            Figure(f"freshness, {name} views, p99", "s", tails, at_most=p99),
        ]
    return figures


def _measure(name: str, catalog: Catalog, options: Options) -> tuple[list[float], list[float]]:
    halves: list[float] = []
    tails: list[float] = []
    with home() as folder, broker(folder) as shared:
        settings = shared.model_copy(update={"catalog": f"benchmarks.freshness:{name.upper()}"})
        with Log(settings.bootstrap_servers) as log:
            log.ensure(STREAM)
        ready = folder / "ready"
        command = [sys.executable, "-m", "trilayer.cli", "speed", "run", "--ready-file", str(ready)]
        speed = processes.start(
            "speed", command, home=folder, env=settings.environment(), cwd=PROJECT
        )
        producer = multiprocessing.get_context("spawn").Process(
            target=produce, args=(settings.bootstrap_servers,)
        )
        producer.start()
        try:
            while not ready.exists():
                if processes.exit_status(speed) is not None:
                    raise AssertionError(processes.log_tail(speed))
                time.sleep(0.1)
            with serving_layer.connect(catalog, settings, Store(settings.store)) as connection:
                while not connection.sql("FROM by_visitor").rows():
                    time.sleep(0.1)
                _watch(connection, WARM_UP_S)
                for _ in range(options.repeats):
                    delays = _delays(_watch(connection, WINDOW_S * min(1.0, options.scale)))
                    halves.append(float(np.percentile(delays, 50)))
                    tails.append(float(np.percentile(delays, 99)))
                    say(
                        f"{name} views: p50 {halves[-1]:.3f} s, p99 {tails[-1]:.3f} s,"
                        f" {len(delays):,} events"
                    )
                _check(connection)
        finally:
            producer.terminate()
            processes.terminate(speed, home=folder)
    return halves, tails


def produce(bootstrap_servers: str) -> None:
    """Sends events one at a time at regular moments, until the process is stopped."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=5)
    started, sent = time.time(), 0
    while True:
        due = started + sent / RATE
        if (wait := due - time.time()) > 0:
            time.sleep(wait)
        created_us = time.time_ns() // 1000
        at = datetime.fromtimestamp(created_us / 1e6, UTC).isoformat(timespec="milliseconds")
        event = (
            f'{{"visitor":"v{sent * 7919 % 1_000:06d}","page":"p{sent * 31 % 500:03d}",'
            f'"took_ms":{sent * 17 % 1000},"created_us":{created_us},"at":"{at}"}}'
        )
        producer.send(STREAM.topic, event.encode())
        sent += 1


def _watch(connection: serving_layer.Connection, for_s: float) -> list[tuple[float, int]]:
    """Asks every 30 ms for the newest stamp.

    Returns:
        The moment of each answer, in seconds since 1970, and the newest stamp in it, in
        microseconds since 1970.
    """
    seen: list[tuple[float, int]] = []
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        (newest,) = connection.sql(QUESTION).rows()[0]
        if newest is not None and (not seen or newest > seen[-1][1]):
            seen.append((time.time(), newest))
        time.sleep(0.03)
    return seen


def _delays(seen: Sequence[tuple[float, int]]) -> list[float]:
    """The seconds from creation to visibility, for a regular sample of the events.

    The sample covers the time between the first and the last answer.
    """
    stamps = [newest for _, newest in seen]
    created = np.arange(stamps[0] + 1, stamps[-1], 1_000_000 // RATE)
    return [seen[bisect_left(stamps, int(stamp))][0] - stamp / 1e6 for stamp in created]


def _check(connection: serving_layer.Connection) -> None:
    """Checks that an answer counts every event below the head that it states."""
    with connection.snapshot() as snapshot:
        (counted,) = snapshot.sql("SELECT sum(visits)::BIGINT FROM by_visitor").rows()[0]
        head = sum(snapshot.provenance.streams[STREAM.name].head.values())
    if counted != head:
        raise AssertionError(f"all {head} events below the head must be counted; got {counted}")
