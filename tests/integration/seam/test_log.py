"""One connection to a real broker, asked again and again about records here and there, as the speed
layer asks while it runs.
"""

import random

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from trilayer import Catalog, Stream, View, count
from trilayer_core.errors import LogError, TrilayerError
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_local.commands.doctor import CHECKS

pytestmark = pytest.mark.kafka


def test_every_look_sees_the_records_that_are_there(broker, new_topic):
    rng = random.Random(0)
    stream = Stream(
        "events", "k int, at timestamp", event_time="at", topic=new_topic(), partitions=3
    )
    with Log(broker.bootstrap) as log:
        topic = log.ensure(stream)
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0)
        for number in range(3_000):  # more than a poll returns
            producer.send(topic.name, b"{}", partition=number % 3)
        for _ in range(50):
            for _ in range(rng.randint(0, 3)):
                producer.send(topic.name, b"{}", partition=rng.randrange(3))
            producer.flush()
            end = log.end(topic)
            below = {
                p: rng.choice([e, rng.randint(0, e)]) for p, e in end.items() if rng.random() < 0.7
            }
            found = log.last_records(topic, below)
            assert {p: mark.offset for p, mark in found.items()} == {
                p: o - 1 for p, o in below.items() if o
            }
            for partition, offset in below.items():
                if offset < end[partition]:
                    assert log.stamps(topic, partition, offset, end[partition])[0][0] == offset
        producer.close()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_are_seen_whatever_codec_their_producer_has_chosen(codec, broker, new_topic):
    stream = Stream(
        "events", "k int, at timestamp", event_time="at", topic=new_topic(), partitions=1
    )
    with Log(broker.bootstrap) as log:
        topic = log.ensure(stream)
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap, compression_type=codec, linger_ms=50
        )
        for _ in range(20):
            producer.send(topic.name, b'{"k": 1}')
        producer.close()
        assert log.last_records(topic, {0: 20})[0].offset == 19
        assert [offset for offset, _ in log.stamps(topic, 0, 0, 20)] == list(range(20))


APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


@pytest.mark.parametrize(
    ("configs", "error", "said"),
    [
        ({"message.timestamp.type": "CreateTime"},
             LogError, "must be LogAppendTime.* got CreateTime; .*kafka-configs"),
        (APPEND_TIME | {"cleanup.policy": "compact"},
             TrilayerError, "must be delete; got compact.*kafka-configs"),
        (APPEND_TIME | {"cleanup.policy": "compact,delete"},
             TrilayerError, "must be delete; got compact"),
    ],
)  # fmt: skip
def test_a_topic_with_another_setting_is_refused(configs, error, said, broker, new_topic, store):
    topic = new_topic()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1, "configs": configs}})
    admin.wait_for_topics([topic])
    admin.close()
    stream = Stream("events", "k int, at timestamp", event_time="at", topic=topic)
    catalog = Catalog(views=[View("by_k", source=stream, key=["k"], aggregates={"n": count()})])
    project = Project(Settings(bootstrap_servers=broker.bootstrap), catalog, store)
    with pytest.raises(error, match=said):
        list(next(check for check in CHECKS if check.name == "topics").run(project))
    if error is LogError:  # so do both layers, each before it reads anything
        with Log(broker.bootstrap) as log, pytest.raises(error, match=said):
            log.check_append_time(log.topic(stream))


def test_many_partitions_may_take_longer_than_the_client_waits(broker, new_topic, monkeypatch):
    """As 200 do on a busy machine. On this one the client waits less."""
    wait = KafkaAdminClient.wait_for_topics
    monkeypatch.setattr(
        KafkaAdminClient, "wait_for_topics", lambda admin, names: wait(admin, names, timeout_ms=0)
    )
    stream = Stream(
        "events", "k int, at timestamp", event_time="at", topic=new_topic(), partitions=200
    )
    with Log(broker.bootstrap) as log:
        assert len(log.ensure(stream).partitions) == 200
