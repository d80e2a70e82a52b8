"""A partition that is added to a topic while the layers run is read by both."""

import json
import threading
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from speed_layer import run
from tests.support.layers import Pipeline, quick
from tests.support.waiting import in_thread, until
from trilayer import Catalog, Stream, View, count
from trilayer.operations.verification.run import verification
from trilayer_core.errors import CoverageError
from trilayer_core.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def test_the_speed_layer_goes_on_and_answers_are_right(
    broker, spark, new_topic, store, monkeypatch
):
    """Spark's session is that of the test run, which the speed layer must not stop."""
    stream = Stream(
        "sales", "user string, at timestamp", event_time="at", topic=new_topic(), partitions=2
    )
    view = View("by_user", source=stream, key=["user"], aggregates={"n": count()})
    catalog, settings = Catalog(views=[view]), quick(broker.bootstrap)
    shared = {name: getattr(spark, name) for name in ("readStream", "sparkContext", "sql")}
    monkeypatch.setattr(
        run, "session", lambda *_, **__: SimpleNamespace(stop=lambda: None, **shared)
    )
    counted, stop, errors = Counter(), threading.Event(), []

    def send(*partitions):
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for partition in partitions:
            value = {"user": f"u{partition}", "at": "2026-01-01T00:00:00Z"}
            producer.send(stream.topic, json.dumps(value).encode(), partition=partition)
            counted[f"u{partition}",] += 1
        producer.flush()
        producer.close()

    def add(partitions):
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_partitions({stream.topic: partitions})
        admin.close()

    with Pipeline(catalog, settings, store, spark) as pipeline:

        def right():
            assert not errors
            with suppress(CoverageError):  # before the first micro-batch, and after a new partition
                found, _ = pipeline.answers()
                return found["by_user"] == {user: {"n": n} for user, n in counted.items()}

        thread = in_thread(lambda: run.run_speed(Project(settings, catalog, store), stop), errors)
        try:
            send(0, 1, 1)
            until(right, timeout_s=60)
            add(4)
            send(3, 0, 3)
            until(right, timeout_s=60)
            pipeline.wait_for_tick()
            assert pipeline.batch().streams["sales"].cut == {0: 2, 1: 2, 2: 0, 3: 2}
            add(5)
            send(4, 2)
            until(right, timeout_s=60)
            found = verification(Project(settings, catalog, store), lambda: spark)
            assert list(found.faults()) == []
        finally:
            stop.set()
            thread.join(timeout=60)
        assert not thread.is_alive()
        assert not errors
