"""What the topic of a changelog holds, compared with what SQL answers."""

import json
import threading
from datetime import datetime
from decimal import Decimal

from kafka import KafkaConsumer, TopicPartition

import serving_layer
from tests.support.waiting import in_thread, until
from trilayer.operations.changelog import run_changelogs


def read(bootstrap, topic):
    """What a reader holds that has read the topic from its beginning, and all committed records."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False
    )
    places = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends = consumer.end_offsets(places)
    held, records = {}, []
    while any(consumer.position(place) < end for place, end in ends.items()):
        for some in consumer.poll(timeout_ms=100).values():
            records += some
            for record in some:
                held[record.key] = record.value
    consumer.close()
    return {key: value for key, value in held.items() if value is not None}, records


def plain(value):
    """A value of an answer as JSON has it."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S.%fZ}"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def answers(catalog, settings, store, changelog):
    """What a reader of the store that merges on demand answers, as the topic has it."""
    view = changelog.view
    with serving_layer.connect(catalog, settings, store, keep=False) as connection:
        rows = [plain(dict(row)) for row in connection.sql(f"FROM {view.name}").dicts()]
    return {
        json.dumps({name: row[name] for name in view.key_names}): {
            name: Decimal(repr(value)) if isinstance(value, float) else value
            for name, value in row.items()
        }
        for row in rows
    }


def in_topic(settings, changelog):
    """The rows that a reader of the topic holds, by key."""
    held, _ = read(settings.bootstrap_servers, changelog.topic)
    return {
        json.dumps(json.loads(key)): json.loads(value, parse_float=Decimal)
        for key, value in held.items()
    }


def become_current(catalog, settings, store):
    """Returns when each topic holds what is answered now."""
    for changelog in catalog.changelogs:
        now = answers(catalog, settings, store, changelog)
        until(lambda c=changelog, now=now: in_topic(settings, c) == now, timeout_s=60)


class Following:
    """The writer of changelogs, in a thread."""

    def __init__(self, project):
        self._stop, self._errors = threading.Event(), []
        ready = threading.Event()
        self._thread = in_thread(
            lambda: run_changelogs(project, self._stop, ready.set), self._errors
        )
        until(lambda: ready.is_set() or bool(self._errors), timeout_s=60)
        assert not self._errors, self._errors

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join(timeout=30)
        assert not self._thread.is_alive()
        assert not self._errors, self._errors
