"""One connection to a real broker, asked again and again about records here and there, as the speed layer asks while it runs."""

import random

import pytest
from kafka import KafkaProducer

from trilayer import Stream
from trilayer.log import Log

pytestmark = pytest.mark.kafka


def test_every_look_sees_the_records_that_are_there(broker, new_topic):
    rng = random.Random(0)
    stream = Stream("events", "k int, at timestamp", event_time="at", topic=new_topic(), partitions=3)
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
            below = {p: rng.choice([e, rng.randint(0, e)]) for p, e in end.items() if rng.random() < 0.7}
            found = log.last_records(topic, below, committed=rng.random() < 0.5)
            assert {p: mark.offset for p, mark in found.items()} == {p: o - 1 for p, o in below.items() if o}
            for partition, offset in below.items():
                if offset < end[partition]:
                    assert log.stamps(topic, partition, offset, end[partition])[0][0] == offset
        producer.close()
