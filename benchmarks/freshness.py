"""Freshness: the time from the creation of an event to the first DuckDB answer that counts it.

There are 2,000 events per second. The producer, the speed layer and the reader are separate
processes, as in production. The producer creates events at regular moments, and the reader
repeatedly asks how many are counted: event number n is visible in the first answer that counts at
least n events. Measured are catalogs of two and of five plain views, and those of the examples
`social` and `retail`, whose views have windows and cells. One load reads the topic of a changelog,
which a further process writes, instead of an answer.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from kafka import KafkaConsumer, KafkaProducer

import serving_layer
from benchmarks.figure import Figure, Options, say
from benchmarks.workload import PROJECT, broker, home
from examples import retail, social
from examples.demo import iso
from examples.retail import generate as purchases
from examples.social.generate import generate as generate_posts
from trilayer import (
    Catalog,
    Changelog,
    Stream,
    View,
    count,
    max_,
    mean,
    min_,
    sum_,
    tumbling,
)
from trilayer_core.log.broker import Log
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_local import processes

RATE, WARM_UP_S, WINDOW_S = 2_000, 60.0, 20.0
GENERATED = 20_000
"""The number of events of an example that are generated. They are sent again and again."""

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
WITH_TOPIC = Catalog(
    views=VIEWS[:2], changelogs=[Changelog("visitors", view=VIEWS[0], topic="visitors")]
)

Make = Callable[[int, datetime], str]
"""Makes the event with this number, created now."""


@dataclass(frozen=True)
class Load:
    """A catalog, the events that are sent to it, and what is to be reached.

    Attributes:
        catalog: As `module:attribute`.
        loaded: The same catalog.
        stream: The stream of the events.
        counted: The question how many events are counted.
        events: Returns the function that makes them.
        p50_s: The largest median delay to accept, in seconds.
        p99_s: The largest delay to accept for 99 % of the events, in seconds.
    """

    catalog: str
    loaded: Catalog
    stream: Stream
    counted: str
    events: Callable[[], Make]
    p50_s: float
    p99_s: float


def _visits() -> Make:
    def make(number: int, now: datetime) -> str:
        return (
            f'{{"visitor":"v{number * 7919 % 1_000:06d}","page":"p{number * 31 % 500:03d}",'
            f'"took_ms":{number * 17 % 1000},"created_us":{now.timestamp() * 1e6:.0f},'
            f'"at":"{iso(now)}"}}'
        )

    return make


def _posts() -> Make:
    posts = generate_posts(events=GENERATED, seed=1, start=datetime.now(UTC))
    return lambda number, now: json.dumps(posts[number % GENERATED] | {"posted": iso(now)})


def _purchases() -> Make:
    """Purchases with new numbers, which are as late as they were generated."""
    start = datetime.now(UTC)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "purchases.jsonl"
        purchases.generate(file, events=GENERATED, seed=1, start=start)
        events = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    late: list[timedelta] = [
        start + number * purchases.EVERY - datetime.fromisoformat(event["purchased_at"])
        for number, event in enumerate(events)
    ]

    def make(number: int, now: datetime) -> str:
        of = number % GENERATED
        changed = {"purchase_id": f"p{number:09}", "purchased_at": iso(now - late[of])}
        return purchases.encode(events[of] | changed)

    return make


VISITS = "SELECT sum(visits)::BIGINT FROM by_visitor"
LOADS = {
    "two views": Load("benchmarks.freshness:TWO", TWO, STREAM, VISITS, _visits, 0.4, 0.8),
    "five views": Load("benchmarks.freshness:FIVE", FIVE, STREAM, VISITS, _visits, 0.45, 0.9),
    "the topic of one of two views": Load(
        "benchmarks.freshness:WITH_TOPIC", WITH_TOPIC, STREAM, VISITS, _visits, 0.9, 1.5
    ),
    "social": Load(
        "examples.social:catalog", social.catalog, social.posts,
        "SELECT sum(posts)::BIGINT FROM authors", _posts, 0.6, 1.2,
    ),
    "retail": Load(
        "examples.retail:catalog", retail.catalog, retail.purchases,
        "SELECT sum(purchases)::BIGINT FROM sales_by_product", _purchases, 0.6, 1.2,
    ),
}  # fmt: skip


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    figures: list[Figure] = []
    for name, load in LOADS.items():
        halves, tails = _measure(name, load, options)
        figures += [
            Figure(f"freshness, {name}, p50", "s", halves, at_most=load.p50_s),
            Figure(f"freshness, {name}, p99", "s", tails, at_most=load.p99_s),
        ]
    return figures


def _measure(name: str, load: Load, options: Options) -> tuple[list[float], list[float]]:
    halves: list[float] = []
    tails: list[float] = []
    with home() as folder, broker(folder) as shared:
        settings = shared.model_copy(update={"catalog": load.catalog})
        with Log(settings.bootstrap_servers) as log:
            log.ensure(load.stream)
        ready = folder / "ready"
        command = [sys.executable, "-m", "trilayer.cli", "speed", "run", "--ready-file", str(ready)]
        speed = processes.start(
            "speed", command, home=folder, env=settings.environment(), cwd=PROJECT
        )
        spawn = multiprocessing.get_context("spawn")
        began_s = spawn.Value("d", 0.0)
        producer = spawn.Process(target=produce, args=(name, settings.bootstrap_servers, began_s))
        try:
            while not ready.exists():
                if processes.exit_status(speed) is not None:
                    raise AssertionError(processes.log_tail(speed))
                time.sleep(0.1)
            producer.start()
            reading = _topic_read if load.loaded.changelogs else _store_asked
            with reading(load, settings, folder) as counted:
                while not counted():
                    time.sleep(0.1)
                _watch(counted, WARM_UP_S)
                for _ in range(options.repeats):
                    seen = _watch(counted, WINDOW_S * min(1.0, options.scale))
                    delays = _delays(seen, began_s.value)
                    halves.append(float(np.percentile(delays, 50)))
                    tails.append(float(np.percentile(delays, 99)))
                    say(
                        f"{name}: p50 {halves[-1]:.3f} s, p99 {tails[-1]:.3f} s,"
                        f" {len(delays):,} events"
                    )
        finally:
            if producer.is_alive():
                producer.terminate()
            processes.terminate(speed, home=folder)
    return halves, tails


@contextmanager
def _store_asked(load: Load, settings: Settings, folder: Path) -> Iterator[Callable[[], int]]:
    """Asks a reader of the store how many events are counted."""
    with serving_layer.connect(load.loaded, settings, Store(settings.store)) as connection:
        yield lambda: connection.sql(load.counted).rows()[0][0]
        _check(connection, load)


@contextmanager
def _topic_read(load: Load, settings: Settings, folder: Path) -> Iterator[Callable[[], int]]:
    """Reads in the topic of the changelog how many events are counted."""
    (changelog,) = load.loaded.changelogs
    ready = folder / "changelog.ready"
    command = [sys.executable, "-m", "trilayer.cli", "changelog", "run", "--ready-file", str(ready)]
    writer = processes.start(
        "changelog", command, home=folder, env=settings.environment(), cwd=PROJECT
    )
    visits: dict[bytes, int] = {}

    def counted() -> int:
        if processes.exit_status(writer) is not None:
            raise AssertionError(processes.log_tail(writer))
        for records in reader.poll(timeout_ms=5).values():
            for record in records:
                visits[record.key] = json.loads(record.value)["visits"]
        return sum(visits.values())

    try:
        while not ready.exists():
            if processes.exit_status(writer) is not None:
                raise AssertionError(processes.log_tail(writer))
            time.sleep(0.1)
        reader = KafkaConsumer(
            changelog.topic,
            bootstrap_servers=settings.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        yield counted
        reader.close(autocommit=False)
    finally:
        processes.terminate(writer, home=folder)


def produce(name: str, bootstrap_servers: str, began_s: Synchronized[float]) -> None:
    """Sends events one at a time at regular moments, until the process is stopped.

    `began_s` gets the moment of the first one, in seconds since 1970.
    """
    load = LOADS[name]
    make = load.events()
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=5)
    began_s.value = began = time.time()
    number = 0
    while True:
        due = began + number / RATE
        if (wait := due - time.time()) > 0:
            time.sleep(wait)
        event = make(number, datetime.now(UTC))
        producer.send(load.stream.topic, event.encode())
        number += 1


def _watch(counted_now: Callable[[], int], for_s: float) -> list[tuple[float, int]]:
    """Asks every 30 ms how many events are counted.

    Returns:
        The moment of each answer with more events than the one before, in seconds since 1970, and
        their number.
    """
    seen: list[tuple[float, int]] = []
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        counted = counted_now()
        if not seen or counted > seen[-1][1]:
            seen.append((time.time(), counted))
        time.sleep(0.03)
    return seen


def _delays(seen: Sequence[tuple[float, int]], began_s: float) -> list[float]:
    """The seconds from creation to visibility of the events between first and last answer."""
    numbers = [counted for _, counted in seen]
    return [
        seen[bisect_left(numbers, number)][0] - (began_s + (number - 1) / RATE)
        for number in range(numbers[0] + 1, numbers[-1] + 1)
    ]


def _check(connection: serving_layer.Connection, load: Load) -> None:
    """Checks that an answer counts every event below the head that it states."""
    with connection.snapshot() as snapshot:
        (counted,) = snapshot.sql(load.counted).rows()[0]
        head = sum(snapshot.provenance.streams[load.stream.name].head.values())
    if counted != head:
        raise AssertionError(f"all {head} events below the head must be counted; got {counted}")
