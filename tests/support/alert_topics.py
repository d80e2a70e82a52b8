"""What a topic of alerts holds, and what it should: an oracle that walks the stream's log."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

Place = tuple[int, int]
"""Partition and offset."""


def read_all(bootstrap_servers: str, topic: str) -> Iterator[Any]:
    """All records that a topic has now, each partition in order; none if it does not exist."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        fetch_max_wait_ms=20,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        places = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        if not places:
            return
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            for records in consumer.poll(timeout_ms=200).values():
                yield from records
    finally:
        consumer.close()


def sent(bootstrap_servers: str, topic: str, alert: str) -> dict[Place, list[dict[str, Any]]]:
    """The alerts of one name in a topic, by the place of their event; repeats are in the list."""
    found: dict[Place, list[dict[str, Any]]] = defaultdict(list)
    for record in read_all(bootstrap_servers, topic):
        payload = json.loads(record.value)
        if payload["alert"] == alert:
            found[payload["partition"], payload["offset"]].append(payload)
    return dict(found)


def expected(
    bootstrap_servers: str,
    topic: str,
    key: str,
    last: int,
    rule: Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], bool],
    required: Sequence[str] = (),
) -> dict[Place, list[Mapping[str, Any]]]:
    """The places at which a rule holds, with the newest events of the key before, newest first.

    An event fits if it is a JSON object with what is `required`.
    """
    before: dict[tuple[int, Any], list[Mapping[str, Any]]] = defaultdict(list)
    found: dict[Place, list[Mapping[str, Any]]] = {}
    for record in read_all(bootstrap_servers, topic):
        try:
            event = json.loads(record.value)
        except ValueError:
            continue
        if not isinstance(event, dict) or any(event.get(name) is None for name in required):
            continue
        of_key = before[record.partition, event.get(key)]
        if rule(event, of_key[:last]):
            found[record.partition, record.offset] = of_key[:last]
        of_key.insert(0, event)
        del of_key[last:]
    return found


def produce(bootstrap_servers: str, topic: str, key: str, events: Sequence[Any]) -> None:
    """Appends events, each with its key as the key of the record; bytes as they are, without."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=5)
    for event in events:
        if isinstance(event, bytes):
            producer.send(topic, event)
        else:
            of_record = None if event[key] is None else str(event[key]).encode()
            producer.send(topic, json.dumps(event).encode(), key=of_record)
    producer.flush()
    producer.close()
