"""Alerts as they come from their topic: collected into the store, and followed by readers."""

import json
import logging
import os
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

import serving_layer
from speed_layer.alerts import collect
from speed_layer.alerts.collect import Collector
from tests.support.in_process import Killed
from tests.support.sent_alerts import Raised
from tests.support.waiting import in_thread, until
from trilayer import Alert, Catalog, Stream, View, count
from trilayer.cli.alerts import json_line, tail, text_line
from trilayer_core.log.broker import Log
from trilayer_core.runtime import failpoints
from trilayer_core.runtime.settings import Settings
from trilayer_core.store import layout
from trilayer_core.store.alerts import Sent, sent_alerts
from trilayer_local import kafka

pytestmark = pytest.mark.kafka

GARBAGE = [None, b"", b"\xff", b"[" * 10_000, b'{"id": "x"}', b"5"]


@pytest.fixture
def alert(broker, new_topic):
    payments = Stream(
        "payments", "card string, amount bigint, note string, at timestamp", event_time="at"
    )
    found = Alert("large", source=payments, key=["card"], rule="amount > 5", topic=new_topic())
    create(broker.bootstrap, found.topic)
    return found


def create(bootstrap, topic):
    with Log(bootstrap) as log:
        return log.ensure_alerts(topic, 2)


def delete(bootstrap, topic):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.delete_topics([topic])
    admin.close()
    with Log(bootstrap) as log:
        until(lambda: log.find_named(topic) is None)


def send(bootstrap, topic, *values, partition=0):
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for value in values:
        value = value.payload.encode() if isinstance(value, Raised) else value
        producer.send(topic, key=b"{}", value=value, partition=partition)
    producer.flush()
    producer.close()


def raised(alert, *offsets):
    return [Raised(alert, offset) for offset in offsets]


def stored(store, alert):
    """The offsets of the stored alerts, in order of the files."""
    sent = sent_alerts(store, alert.topic)
    return [
        offset
        for file in (sent.files if sent else ())
        for offset in store.read_table(file)["offset"].to_pylist()
    ]


class Collecting:
    """A collector, in a thread."""

    def __init__(self, store, bootstrap, alert, **more):
        self.stop = threading.Event()
        self.collector = Collector(store, bootstrap, alert.topic, self.stop, **more)

    def __enter__(self):
        self.collector.start()
        return self

    def __exit__(self, *error):
        self.stop.set()
        self.collector.join(timeout=30)
        assert not self.collector.is_alive()
        self.collector.check()


def test_alerts_are_stored_once_whatever_else_is_in_the_topic(broker, store, alert, caplog):
    one, two, three = raised(alert, 1, 2, 3)
    send(broker.bootstrap, alert.topic, *GARBAGE, one, one, two)
    with Collecting(store, broker.bootstrap, alert):
        until(lambda: stored(store, alert) == [1, 2])
        send(broker.bootstrap, alert.topic, three, partition=1)
        until(lambda: sorted(stored(store, alert)) == [1, 2, 3])
    (said,) = [r.getMessage() for r in caplog.records if "no alerts of trilayer" in r.getMessage()]
    assert f"{len(GARBAGE)} records" in said
    assert "partition 0, offset 0" in said
    sent = sent_alerts(store, alert.topic)
    assert sent.offsets == {0: len(GARBAGE) + 3, 1: 1}
    (row,) = [
        row
        for file in sent.files
        for row in store.read_table(file).to_pylist()
        if row["offset"] == 2
    ]
    assert row["payload"] == two.payload
    assert row["created_at"] == two.created_at
    assert row["seen_at"] - two.created_at > timedelta(0)
    with Collecting(store, broker.bootstrap, alert):
        send(broker.bootstrap, alert.topic, *raised(alert, 4))
        until(lambda: 4 in stored(store, alert))
    assert sorted(stored(store, alert)) == [1, 2, 3, 4]


def test_files_are_merged_and_deleted_when_no_reader_needs_them(broker, store, alert):
    now = [0.0]
    folder = layout.sent_folder(alert.topic)

    def has(offset):
        now[0] += 1  # the time after which alerts are stored again
        return offset in stored(store, alert)

    with Collecting(store, broker.bootstrap, alert, clock=lambda: now[0]):
        for offset in range(40):
            send(broker.bootstrap, alert.topic, *raised(alert, offset, offset // 2))
            until(lambda offset=offset: has(offset))
        assert set(stored(store, alert)) == set(range(40))
        assert len(sent_alerts(store, alert.topic).files) <= 6

        def cleaned():
            now[0] += 10  # also the time after which the folder is searched again
            listed = {file.path for file in sent_alerts(store, alert.topic).files}
            names = [name for name in store.names(folder) if name.endswith(".parquet")]
            return {f"{folder}/{name}" for name in names} == listed

        until(cleaned)
    assert set(stored(store, alert)) == set(range(40))


def test_a_file_is_kept_while_readers_may_still_need_it(broker, store, alert):
    now = [0.0]
    collector = Collector(store, broker.bootstrap, alert.topic, threading.Event(), lambda: now[0])
    left = layout.sent_file(alert.topic, "000000000001-000000000001-abcdef")
    store.write(left, b"left over")
    for at, there in ((0, True), (59, True), (60, False)):
        now[0] = at
        collector._clean(Sent("id"))
        assert store.exists(left) == there


@pytest.mark.parametrize(
    "failpoint",
    ["collect.before-file", "collect.before-document", "collect.after-document", "store.write"],
)
def test_killed_anywhere_no_alert_is_lost_and_none_is_there_twice(
    broker, store, alert, failpoint, monkeypatch
):
    def die():
        raise Killed

    send(broker.bootstrap, alert.topic, *raised(alert, 1, 2))
    with Collecting(store, broker.bootstrap, alert):
        until(lambda: stored(store, alert) == [1, 2])
    send(broker.bootstrap, alert.topic, *raised(alert, 3, 4))
    with monkeypatch.context() as context:
        failpoints._reached.clear()
        context.setattr(failpoints, "_die", die)
        context.setenv(failpoints.VARIABLE, failpoint)
        collector = Collector(store, broker.bootstrap, alert.topic, threading.Event())
        with pytest.raises(Killed):
            collector.collect()
    assert stored(store, alert) in ([1, 2], [1, 2, 3, 4])
    with Collecting(store, broker.bootstrap, alert):
        send(broker.bootstrap, alert.topic, *raised(alert, 5))
        until(lambda: 5 in stored(store, alert))
    assert stored(store, alert) == [1, 2, 3, 4, 5]


def test_a_topic_that_is_created_again_is_read_from_its_beginning(broker, store, alert):
    with Collecting(store, broker.bootstrap, alert):
        send(broker.bootstrap, alert.topic, *raised(alert, 1, 2, 3))
        until(lambda: stored(store, alert) == [1, 2, 3])
        before = sent_alerts(store, alert.topic).topic_id
        delete(broker.bootstrap, alert.topic)
        create(broker.bootstrap, alert.topic)
        send(broker.bootstrap, alert.topic, *raised(alert, 4))
        until(lambda: 4 in stored(store, alert), timeout_s=40)
    sent = sent_alerts(store, alert.topic)
    assert sent.topic_id != before
    assert sent.offsets == {0: 1, 1: 0}
    assert stored(store, alert) == [1, 2, 3, 4]


def test_records_that_retention_has_deleted_are_reported(broker, store, alert, caplog):
    send(broker.bootstrap, alert.topic, *raised(alert, 1, 2, 3))
    with Log(broker.bootstrap) as log:
        topic = log.find_named(alert.topic)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition(alert.topic, 0): 2})
    admin.close()
    store.write_document(layout.sent(alert.topic), Sent(topic.id, {0: 0}))
    with Collecting(store, broker.bootstrap, alert):
        until(lambda: stored(store, alert) == [3])
    assert "has deleted 2 records" in caplog.text


def test_a_damaged_file_stays_listed_and_does_not_end_the_collector(broker, store, alert):
    with Collecting(store, broker.bootstrap, alert):
        send(broker.bootstrap, alert.topic, *raised(alert, 1))
        until(lambda: stored(store, alert) == [1])
        (file,) = sent_alerts(store, alert.topic).files
        store.write(file.path, b"damaged")
        send(broker.bootstrap, alert.topic, *raised(alert, 2))
        until(lambda: len(sent_alerts(store, alert.topic).files) == 2)
        assert file in sent_alerts(store, alert.topic).files


# -- readers ---------------------------------------------------------------------------------------


@pytest.fixture
def connection(broker, store, alert, tmp_path):
    counted = View("by_card", source=alert.source, key=["card"], aggregates={"n": count()})
    catalog = Catalog(views=[counted], alerts=[alert])
    settings = Settings(home=tmp_path, store=store.root, bootstrap_servers=broker.bootstrap)
    with serving_layer.connect(catalog, settings, store) as connection:
        yield connection


def test_alerts_come_once_with_the_values_that_sql_has(broker, store, alert, connection):
    one, two, three = raised(alert, 1, 2, 3)
    send(broker.bootstrap, alert.topic, one)
    with connection.alerts("large") as alerts:
        send(broker.bootstrap, alert.topic, b"garbage", two, two, replace(one, fingerprint="old"))
        first = next(alerts)
        assert (first.id, first.offset, first.created_at) == (
            f"large-{alert.fingerprint}-0-2", 2, two.created_at,
        )  # fmt: skip
        send(broker.bootstrap, alert.topic, two, three)
        assert next(alerts).offset == 3
    with connection.alerts("large", from_beginning=True) as alerts:
        assert [next(alerts).offset for _ in range(3)] == [1, 2, 3]
    with Collecting(store, broker.bootstrap, alert):
        until(lambda: len(stored(store, alert)) >= 3)
    asked = 'SELECT seen_at, key, event, last FROM alerts.large WHERE "offset" = 2'
    assert connection.sql(asked).rows() == [(first.seen_at, first.key, first.event, first.last)]


def test_closing_ends_those_that_wait(alert, connection):
    alerts, got, errors = connection.alerts("large"), [], []
    thread = in_thread(lambda: got.extend(alerts), errors)
    connection.close()
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert (got, errors) == ([], [])
    assert list(alerts) == []


def test_lines(alert, connection, broker):
    send(broker.bootstrap, alert.topic, Raised(alert, 4, content='two "words"'))
    with connection.alerts("large", from_beginning=True) as alerts:
        one = next(alerts)
    one = replace(one, seen_at=one.created_at + timedelta(milliseconds=12.7))
    assert text_line(one) == (
        "2026-01-01T00:00:04Z  12 ms  card=c1"
        '  amount=4 note="two \\"words\\"" at=2026-01-01T00:00:00Z'
    )
    found = json.loads(json_line(one))
    assert (found["latency_ms"], found["key"], found["last"]) == (12, {"card": "c1"}, [])
    assert found["event"]["note"] == 'two "words"'
    too_large = replace(one, key=None, event=None, last=None)
    assert text_line(too_large) == "2026-01-01T00:00:04Z  12 ms"
    assert json.loads(json_line(too_large))["event"] is None


def test_tail_prints_lines_until_its_pipe_is_closed(alert, connection, broker, monkeypatch):
    made = SimpleNamespace(
        catalog=connection.catalog, settings=connection._settings, store=connection._store
    )
    monkeypatch.setattr("trilayer.cli.alerts.project", lambda: made)
    read, write = os.pipe()
    with os.fdopen(read) as lines, os.fdopen(write, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        errors = []
        thread = in_thread(lambda: tail("large", from_beginning=True, as_json=True), errors)
        send(broker.bootstrap, alert.topic, *raised(alert, 4))
        assert json.loads(lines.readline())["event"]["amount"] == 4
        lines.close()
        send(broker.bootstrap, alert.topic, *raised(alert, 5))
        thread.join(timeout=20)
        assert not thread.is_alive()
        assert errors == []


@pytest.mark.slow
def test_a_broker_that_goes_away_is_waited_for(tmp_path, store, kafka_jars, caplog):
    caplog.set_level(logging.INFO)
    home = tmp_path / "broker"
    broker = kafka.start(home, jars=kafka_jars, echo=lambda _: None)
    payments = Stream(
        "payments", "card string, amount bigint, note string, at timestamp", event_time="at"
    )
    alert = Alert("large", source=payments, key=["card"], rule="amount > 5")
    counted = View("by_card", source=payments, key=["card"], aggregates={"n": count()})
    settings = Settings(home=tmp_path, store=store.root, bootstrap_servers=broker.bootstrap)
    got, errors = [], []
    try:
        with (
            serving_layer.connect(Catalog(views=[counted], alerts=[alert]), settings, store) as c,
            Collecting(store, broker.bootstrap, alert),
        ):
            alerts = c.alerts("large")  # its topic does not exist yet
            thread = in_thread(lambda: got.extend(alerts), errors)
            create(broker.bootstrap, alert.topic)
            send(broker.bootstrap, alert.topic, *raised(alert, 1))
            until(lambda: stored(store, alert) == [1] and len(got) == 1, timeout_s=40)
            kafka.stop(home)
            until(lambda: "are waited for" in caplog.text and "tried again" in caplog.text,
                  timeout_s=90)  # fmt: skip
            broker = kafka.start(home, jars=kafka_jars, echo=lambda _: None)
            send(broker.bootstrap, alert.topic, *raised(alert, 2))
            until(lambda: stored(store, alert) == [1, 2] and len(got) == 2, timeout_s=90)
            alerts.close()
            thread.join(timeout=20)
            assert not thread.is_alive()
            assert not errors
    finally:
        kafka.stop(home)


def test_a_full_disk_is_waited_for(broker, store, alert, monkeypatch, caplog):
    monkeypatch.setattr(collect, "AGAIN_S", (0.05, 0.1))
    send(broker.bootstrap, alert.topic, *raised(alert, 1))
    monkeypatch.setenv(failpoints.VARIABLE, "store.write:error:1")
    with Collecting(store, broker.bootstrap, alert):
        until(lambda: "are not stored" in caplog.text)
        monkeypatch.delenv(failpoints.VARIABLE)
        until(lambda: stored(store, alert) == [1])
