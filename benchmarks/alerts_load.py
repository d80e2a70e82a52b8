"""The load of the benchmark of alerts: its catalogs, producer, reader and oracle.

The producer and the reader are processes of their own, as in production. Both use librdkafka,
because kafka-python needs half a millisecond of processor time for a record on its own. The
producer writes the moment of creation into each event. The reader notes when it has read an alert,
and parses nothing: everything is evaluated after the run.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection as Pipe
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import TypedDict

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from trilayer import Alert, Catalog, Stream, View, count, sum_

CARDS, RATE = 2_000, 1_000.0
PARTITIONS, LAST = 4, 2

STREAM = Stream(
    "payments",
    "card string not null, amount decimal(10,2), created_us bigint, at timestamp",
    event_time="at",
    record_key="card",
    partitions=PARTITIONS,
)
BY_CARD = View(
    "by_card",
    source=STREAM,
    key=["card"],
    aggregates={"payments": count(), "total": sum_("amount")},
)
EVERY = Alert("every", source=STREAM, key=["card"], rule="amount >= 0")
FOLLOWING = Alert(
    "following", source=STREAM, key=["card"], last=LAST, rule="size(last) >= 0 AND amount >= 0"
)
KNOWN = Alert(
    "known",
    source=STREAM,
    key=["card"],
    last=LAST,
    profile=BY_CARD,
    rule="size(last) >= 0 AND coalesce(profile.payments, 0) >= 0",
)
STATELESS = Catalog(views=[BY_CARD], alerts=[EVERY])
LAST_TWO = Catalog(views=[BY_CARD], alerts=[FOLLOWING])
WITH_PROFILE = Catalog(views=[BY_CARD], alerts=[KNOWN])
CATALOGS = {"STATELESS": STATELESS, "LAST_TWO": LAST_TWO, "WITH_PROFILE": WITH_PROFILE}
"""The catalogs by their names in this module. In all of them each event raises an alert."""

OUTPUT = EVERY.topic

MOST_WAITING = 2_000_000
"""The number of events that may wait to be sent, which is more than a burst has."""

MOST_LATE_S = 0.02
"""How far the producer may fall behind its rate before it gives up the time, in seconds, because
what it would catch up would be a burst.
"""


class Payment(TypedDict):
    """An event, as it is found in a record or in an alert."""

    card: str
    amount: float
    created_us: int
    at: str


POLL_S = 0.2
"""How long a consumer waits for a record, in seconds."""

Place = tuple[int, int]
"""Partition and offset."""


# -- producer --------------------------------------------------------------------------------------


def card(number: int) -> str:
    """The card with this number."""
    return f"c{number:07d}"


def events(cards: int) -> list[tuple[bytes, bytes, bytes]]:
    """Card and JSON of an event of each card, the JSON in two parts around the creation time.

    Consecutive events are those of different cards.
    """
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    names = [card(number * 7919 % cards) for number in range(cards)]
    return [
        (
            name.encode(),
            f'{{"card":"{name}","amount":{number % 1000}.25,"at":"{at}","created_us":'.encode(),
            b"}",
        )
        for number, name in enumerate(names)
    ]


def produce(
    bootstrap_servers: str,
    rate: float,
    cards: int,
    sent: Synchronized[int],
    stop: Synchronized[int],
) -> None:
    """Sends events one at a time at regular moments, until `stop` is not 0."""
    producer = _producer(bootstrap_servers, linger_ms=0)
    made = events(cards)
    gc.disable()
    number, due = 0, time.monotonic()
    while not stop.value:
        now = time.monotonic()
        if now < due:
            time.sleep(due - now)
        _send(producer, made[number % cards])
        number += 1
        sent.value = number
        due = max(due + 1 / rate, now - MOST_LATE_S)
    _finish(producer)
    gc.enable()


def burst(bootstrap_servers: str, number: int, cards: int) -> None:
    """Sends events as fast as possible."""
    made = events(cards)
    producer = _producer(bootstrap_servers, linger_ms=20)
    for place in range(number):
        _send(producer, made[place % cards])
    _finish(producer)


def _producer(bootstrap_servers: str, *, linger_ms: int) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": linger_ms,
            "acks": 1,
            "partitioner": "murmur2",  # as other clients do
            "queue.buffering.max.messages": MOST_WAITING,
        }
    )


def _send(producer: Producer, event: tuple[bytes, bytes, bytes]) -> None:
    """Sends an event that is created now."""
    key, head, tail = event
    producer.produce(STREAM.topic, head + b"%d" % (time.time_ns() // 1000) + tail, key)


def _finish(producer: Producer) -> None:
    """Waits until the broker has all."""
    if left := producer.flush(60):
        raise AssertionError(f"all events must be sent; {left} were not within 60 s")


# -- reader ----------------------------------------------------------------------------------------


def read(
    bootstrap_servers: str, topic: str, to: Path, received: Synchronized[int], orders: Pipe
) -> None:
    """Notes each record of a topic and when it was read, until told to stop.

    The values are then written to the file `to`, one a line, and the moments to `to` with the
    suffix `.npy`, in us since 1970.
    """
    consumer = _consumer(bootstrap_servers, topic)
    gc.disable()
    moments: list[int] = []
    values: list[bytes] = []
    while not orders.poll():
        record = consumer.poll(POLL_S)
        while record is not None:
            moments.append(time.time_ns() // 1000)
            values.append(_read(record)[2])
            received.value = len(values)
            record = consumer.poll(0)
    gc.enable()
    consumer.close()
    to.write_bytes(b"\n".join(values))
    np.save(to.with_suffix(".npy"), np.array(moments, np.int64))
    orders.send(len(values))


def _consumer(bootstrap_servers: str, topic: str) -> Consumer:
    """A consumer of a whole topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "benchmark"})
    partitions = range(PARTITIONS)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    return consumer


def _read(record: Message) -> tuple[int, int, bytes]:
    """Partition, offset and value of a record."""
    partition, offset, value = record.partition(), record.offset(), record.value()
    if record.error() or partition is None or offset is None or value is None:
        raise AssertionError(f"each record must be read; got {record.error()}")
    return partition, offset, value


@contextmanager
def reading(bootstrap_servers: str, topic: str, to: Path) -> Iterator[Callable[[], int]]:
    """Runs a reader; yields the number of records that it has read."""
    spawn = multiprocessing.get_context("spawn")
    received = spawn.Value("q", 0, lock=False)
    ours, theirs = spawn.Pipe()
    reader = spawn.Process(target=read, args=(bootstrap_servers, topic, to, received, theirs))
    reader.start()

    def number() -> int:
        if reader.exitcode is not None:
            raise AssertionError(f"the reader must run; it ended with {reader.exitcode}")
        return received.value

    try:
        yield number
        ours.send("stop")
        ours.recv()
        reader.join(10)
    finally:
        if reader.is_alive():
            reader.kill()


@contextmanager
def producing(
    bootstrap_servers: str, rate: float = RATE, cards: int = CARDS
) -> Iterator[Callable[[], int]]:
    """Runs a producer; yields the number of events that it has sent."""
    spawn = multiprocessing.get_context("spawn")
    sent, stop = spawn.Value("q", 0, lock=False), spawn.Value("i", 0, lock=False)
    producer = spawn.Process(target=produce, args=(bootstrap_servers, rate, cards, sent, stop))
    producer.start()

    def number() -> int:
        if producer.exitcode is not None and not stop.value:
            raise AssertionError(f"the producer must run; it ended with {producer.exitcode}")
        return sent.value

    try:
        yield number
        stop.value = 1
        producer.join(60)
    finally:
        if producer.is_alive():
            producer.kill()


# -- evaluation ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What has become of the events, held against the oracle.

    Attributes:
        created_us: When each event was created, in us since 1970, in the order in which their first
            alerts came.
        seen_us: When its first alert was read.
        events: The number of events in the log.
        missing: The number of events without an alert.
        repeated: The number of alerts that had come before.
        changed: The number of those whose bytes were others than before.
        wrong: The number of alerts with another event, or with others before it, than in the log.
        foreign: The number of alerts of no event.
        versions: The number of alerts by the version of their profile.
    """

    created_us: np.ndarray
    seen_us: np.ndarray
    events: int
    missing: int
    repeated: int
    changed: int
    wrong: int
    foreign: int
    versions: Mapping[int | None, int]

    def delays_ms(self, from_us: float = 0, to_us: float = float("inf")) -> np.ndarray:
        """The time from creation to the alert, in ms, of events created in a period."""
        within = (self.created_us >= from_us) & (self.created_us < to_us)
        delays: np.ndarray = (self.seen_us - self.created_us)[within] / 1000
        return delays

    def longest_gap_s(self, from_us: float, to_us: float) -> float:
        """The longest time without a new alert in a period, in seconds."""
        within = np.sort(self.seen_us[(self.seen_us >= from_us) & (self.seen_us < to_us)])
        return float(np.diff(within).max() / 1e6) if len(within) > 1 else 0.0

    def check(self, *, repeats: bool = False, changes: bool = False) -> None:
        """Checks that each event has an alert, the right one and once.

        Args:
            repeats: Whether alerts may come again.
            changes: Whether they may then have another profile.
        """
        faults = {"missing": self.missing, "wrong": self.wrong, "foreign": self.foreign}
        if not repeats:
            faults["repeated"] = self.repeated
        if not changes:
            faults["changed"] = self.changed
        if any(faults.values()):
            raise AssertionError(
                f"each of {self.events:,} events must have its alert; got {faults}"
            )


def evaluate(
    bootstrap_servers: str, noted: Path, last: int, since: Mapping[int, int] | None = None
) -> Outcome:
    """Holds what a reader has noted against what the log demands.

    Args:
        bootstrap_servers: The broker.
        noted: The file of the reader.
        last: The number of events before an event that an alert has.
        since: The offsets from which on events raise alerts; None for all.
    """
    demanded = {
        (partition, offset): events
        for (partition, offset), events in _demanded(bootstrap_servers, last).items()
        if offset >= (since or {}).get(partition, 0)
    }
    moments = np.load(noted.with_suffix(".npy"))
    first: dict[Place, bytes] = {}
    created, seen = [], []
    repeated = changed = wrong = foreign = 0
    versions: dict[int | None, int] = defaultdict(int)
    lines = noted.read_bytes().split(b"\n") if len(moments) else []
    for moment, line in zip(moments, lines, strict=True):
        alert = json.loads(line)
        place = alert["partition"], alert["offset"]
        if place not in demanded:
            foreign += 1
            continue
        if place in first:
            repeated += 1
            changed += first[place] != line
            continue
        first[place] = line
        event = alert["event"]
        before = [_identity(one) for one in alert["last"] if one["card"] is not None]
        wrong += [_identity(event), *before] != demanded[place]
        created.append(event["created_us"])
        seen.append(moment)
        versions[alert.get("profile_version")] += 1
    return Outcome(
        np.array(created, np.int64), np.array(seen, np.int64), len(demanded),
        len(demanded) - len(first), repeated, changed, wrong, foreign, versions,
    )  # fmt: skip


def _demanded(bootstrap_servers: str, last: int) -> dict[Place, list[str]]:
    """For each place in the stream's log its event and the newest ones of the card before it."""
    before: dict[tuple[int, str], list[str]] = defaultdict(list)
    rows: dict[Place, list[str]] = {}
    for partition, offset, value in _log(bootstrap_servers):
        event: Payment = json.loads(value)
        of_card = before[partition, event["card"]]
        rows[partition, offset] = [_identity(event), *of_card]
        of_card.insert(0, rows[partition, offset][0])
        del of_card[last:]
    return rows


def _identity(event: Payment) -> str:
    return f"{event['card']} {event['amount']} {event['created_us']}"


def _log(bootstrap_servers: str) -> Iterator[tuple[int, int, bytes]]:
    """Partition, offset and value of each record of the stream, each partition in order."""
    consumer = _consumer(bootstrap_servers, STREAM.topic)
    left = 0
    for partition in range(PARTITIONS):
        first, end = consumer.get_watermark_offsets(TopicPartition(STREAM.topic, partition))
        left += end - first
    while left:
        record = consumer.poll(POLL_S)
        if record is not None:
            yield _read(record)
            left -= 1
    consumer.close()
