"""A real broker that has lost the end of its log, as a power cut leaves it, with real layers over
it.
"""

import dataclasses
import json
import os
import signal
import struct
import threading

import pytest
from kafka import KafkaProducer

from batch_layer.accept import accept_loss
from speed_layer.reading import Reading
from tests.support.layers import Pipeline, quick
from tests.support.places import JARS
from tests.support.waiting import until
from trilayer import Catalog, Stream, View, count, sum_
from trilayer_core.errors import LogError
from trilayer_core.log.broker import Log, Mark, Topic
from trilayer_core.store.generations import Generations
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins
from trilayer_local import kafka

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

STREAM = Stream(
    "events", "k string, n int, at timestamp", event_time="at", topic="truncated", partitions=2
)
CATALOG = Catalog(
    views=[
        View("by_key", source=STREAM, key=["k"], aggregates={"events": count(), "total": sum_("n")})
    ]
)


@pytest.fixture(scope="module")
def home(tmp_path_factory, shared_classes, kafka_jars):
    home = tmp_path_factory.mktemp("broker")
    yield home
    kafka.stop(home, timeout_s=5)


def start(home):
    return kafka.start(home, jars=JARS / "kafka", echo=lambda _: None)


def lose_end(home, broker, partition, offset, topic=STREAM.topic):
    """Kills the broker, and cuts its log of the partition off at the batch that begins at `offset`,
    as if that had never reached the disk.
    """
    os.kill(broker.pid, signal.SIGKILL)
    kafka.stop(home)
    folder = home / "kafka" / "data" / f"{topic}-{partition}"
    (log,) = folder.glob("*.log")
    data, place = log.read_bytes(), 0
    while place < len(data):
        base, length = struct.unpack_from(">qi", data, place)
        if base >= offset:
            assert base == offset, f"a batch must begin at {offset}; one begins at {base}"
            break
        place += 12 + length
    else:
        raise AssertionError(f"the log must have a batch at {offset}")
    log.write_bytes(data[:place])
    for name in ("*.index", "*.timeindex", "*.snapshot"):
        for file in folder.glob(name):
            file.unlink()
    return start(home)


def produce(pipeline, number, key, partition=0):
    """So many events, in batches of their own."""
    value = json.dumps({"k": key, "n": 2, "at": "2026-03-01T00:00:00Z"}).encode()
    # A producer of its own each time: one that counts its batches would find the broker's count
    # behind its own after a loss.
    producer = KafkaProducer(bootstrap_servers=pipeline.settings.bootstrap_servers)
    topic = pipeline.stream.topic
    sent = [producer.send(topic, value, key=b"k", partition=partition) for _ in range(number)]
    for future in sent:
        future.get(timeout=30)
    producer.close()


def answer(pipeline):
    found, _ = pipeline.answers()
    for (_,), row in found["by_key"].items():
        assert row["total"] == 2 * row["events"]
    return {key: row["events"] for (key,), row in found["by_key"].items()}


def test_a_loss_above_the_cut_is_read_anew_and_one_below_it_is_refused(home, spark, store):
    broker = start(home)
    with Pipeline(CATALOG, quick(broker.bootstrap), store, spark) as pipeline:
        produce(pipeline, 80, "a")
        produce(pipeline, 20, "a")
        produce(pipeline, 7, "other", partition=1)
        pipeline.catch_up()
        pipeline.wait_for_tick()
        pipeline.batch()
        produce(pipeline, 30, "lost")
        pipeline.catch_up()
        assert answer(pipeline) == {"a": 100, "other": 7, "lost": 30}

        # Above the cut: the speed layer alone has counted what is gone. It begins anew, and what
        # came instead is counted.
        pipeline.stop_speed()
        broker = lose_end(home, broker, 0, 100)
        produce(pipeline, 40, "b")
        pipeline.catch_up()
        # Readers look for another generation once a second.
        until(lambda: answer(pipeline) == {"a": 100, "other": 7, "b": 40})
        assert [generation.anew for generation in Generations(store, STREAM).all()] == [False, True]
        pipeline.wait_for_tick()
        pipeline.batch()
        assert answer(pipeline) == {"a": 100, "other": 7, "b": 40}

        # Below the end of the master dataset: neither layer goes on before the loss is accepted.
        pipeline.stop_speed()
        broker = lose_end(home, broker, 0, 80)
        with pytest.raises(
            LogError, match=r"partition 0 .*ends at offset 80.*offset 140.*--accept-loss"
        ):
            pipeline.batch()
        produce(pipeline, 90, "c")
        pipeline.wait_for_tick()
        with pytest.raises(
            LogError, match=r"partition 0 .*offset 139.*ends at offset 170.*--accept-loss"
        ):
            pipeline.batch()
        with pytest.raises(LogError, match="--accept-loss"):
            pipeline.catch_up()
        pipeline.stop_speed()
        assert len(Master(store, STREAM).read_chain()) == 2

        accept_loss(pipeline.project, STREAM)
        assert dict(Origins(store, STREAM).present().start) == {0: 80, 1: 7}
        pipeline.batch()
        assert answer(pipeline) == {"a": 100, "other": 7, "b": 40, "c": 90}
        produce(pipeline, 5, "d", partition=1)
        pipeline.catch_up()
        expected = {"a": 100, "other": 7, "b": 40, "c": 90, "d": 5}
        until(lambda: answer(pipeline) == expected)
        pipeline.wait_for_tick()
        pipeline.batch(full=True)
        assert answer(pipeline) == expected
        pipeline.rollback(1)
        assert answer(pipeline)["a"] == 100


def test_what_spark_has_fetched_ahead_of_a_loss_is_not_counted(home, spark, store, monkeypatch):
    """Its consumers keep what came with a micro-batch's records, and would hand it on."""
    committed, go_on = threading.Event(), threading.Event()
    process = Reading.process

    def wait_and_process(*arguments):
        if committed.is_set():
            go_on.wait()
        made = process(*arguments)
        committed.set()
        return made

    broker = start(home)
    settings = quick(broker.bootstrap, speed={"max_events": 10})
    stream = dataclasses.replace(STREAM, topic="ahead", partitions=1)
    catalog = Catalog(views=[dataclasses.replace(CATALOG.views[0], source=stream)])
    with Pipeline(catalog, settings, store, spark) as pipeline:
        produce(pipeline, 10, "a")
        produce(pipeline, 30, "lost")
        pipeline.batch(until_ms=1000)
        monkeypatch.setattr(Reading, "process", wait_and_process)
        query = pipeline.start_speed()
        until(committed.is_set)
        lose_end(home, broker, 0, 10, stream.topic)
        produce(pipeline, 30, "b")
        go_on.set()
        until(lambda: query.failure())
        assert query.unsettled == "partition 0 has another leader"
        pipeline.stop_speed()
        pipeline.catch_up()
        assert answer(pipeline) == {"a": 10, "b": 30}


def test_a_record_is_found_below_the_markers_of_transactions(broker, new_topic):
    stream = Stream(
        "events", "k string, at timestamp", event_time="at", topic=new_topic(), partitions=1
    )
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=stream.topic, acks="all"
    )
    with Log(broker.bootstrap) as log:
        topic = log.ensure(stream)
        producer.init_transactions()
        for number in range(3):
            producer.begin_transaction()
            sent = producer.send(topic.name, b"v%d" % number, key=b"k", partition=0)
            producer.commit_transaction()
            last = sent.get(timeout=20)
        end = log.end(topic)[0]
        assert end == last.offset + 2, "a marker must follow the record"
        expected = Mark.of_record(last.offset, last.timestamp, b"k", b"v2")
        assert log.last_records(topic, {0: end}) == {0: expected}
        assert log.last_records(topic, {0: 0}) == {}
        assert log.last_records(Topic(topic.name, topic.id, ()), {}) == {}

        producer.begin_transaction()
        aborted = producer.send(topic.name, b"no", key=b"k", partition=0)
        producer.flush()
        producer.abort_transaction()
        offset = aborted.get(timeout=20).offset
        end = log.end(topic)[0]
        assert log.last_records(topic, {0: end})[0].offset == offset
    producer.close()
