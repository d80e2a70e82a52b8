"""Stamps and Ts that are later than now, on a real broker: the cut moves on, and every command says
what it met.
"""

import json

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

from tests.support.in_process import ProjectInProcess
from tests.support.layers import Pipeline
from tests.support.waiting import until
from trilayer_core.log.broker import Log
from trilayer_core.log.time_index import TimeIndex
from trilayer_core.runtime.clock import now_ms
from trilayer_core.seam import format_time, latest_tick

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

WITHIN_S = 1_000_000
"""`doctor` counts from the start of its process, which here is that of the tests."""

AHEAD_MS = 3_000_000


@pytest.fixture
def project(tmp_path, broker, new_topic, spark):
    """Its topic has two events, and one that its producer has stamped 50 minutes ahead; then the
    setting that `doctor` asks for.
    """
    made = ProjectInProcess(tmp_path, broker.bootstrap, new_topic(), spark, partitions=1)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics(
        [NewTopic(made.topic, 1, 1, topic_configs={"message.timestamp.type": "CreateTime"})]
    )
    made.stamped = now_ms() + AHEAD_MS
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for stamp in (now_ms() - 500, now_ms() - 400, made.stamped):
        producer.send(made.topic, _event("before"), partition=0, timestamp_ms=stamp).get(timeout=10)
    producer.close()
    topic = ConfigResource(
        ConfigResourceType.TOPIC, made.topic, {"message.timestamp.type": "LogAppendTime"}
    )
    admin.alter_configs([topic])
    admin.close()
    yield made
    made.end()


def _event(user):
    return json.dumps({"user": user, "amount": 1, "at": "2026-03-01T00:00:00Z"}).encode()


def _pipeline(project, spark):
    return Pipeline(project.catalog(), project.settings(), project.store, spark)


def _counts(pipeline):
    answers, provenance = pipeline.answers(views=["by_user"])
    found = {key[0]: row["n"] for key, row in answers["by_user"].items()}
    return found, provenance.streams["clicks"]


def test_a_record_stamped_ahead_does_not_hold_the_cut(project, spark):
    with _pipeline(project, spark) as pipeline:
        settings, expected, cuts = pipeline.settings, {"before": 3}, []
        for user in ("a", "b", "c"):
            for _ in range(2):
                pipeline.produce([(0, _event(user))] * 3)
                pipeline.catch_up()
            expected[user] = 6
            pipeline.wait_for_tick()
            t_ms = latest_tick(now_ms(), settings.tick_ms, settings.settle_ms)
            pipeline.produce([(0, _event(user))])
            expected[user] += 1
            pipeline.catch_up()
            cuts.append(pipeline.batch(until_ms=t_ms).streams["clicks"].cut[0])
            found, at = _counts(pipeline)
            assert found == expected
            assert at.head == {0: sum(expected.values())}
        assert cuts == [9, 16, 23]
        compared = pipeline.in_force().reconciliation["by_user"]
        assert compared.match == 2, "the speed layer has computed the same of the same events"
        pipeline.catch_up(rebuild=True)
        assert _counts(pipeline)[0] == expected


def test_every_command_says_which_record_it_is(project, spark):
    stamp = format_time(project.stamped)
    _, err = project.run("batch", "run")
    assert f"offset 2 is stamped {stamp}, which is later than now" in err
    rows = json.loads(project.run("doctor", "--json", "--within", str(WITHIN_S), expect=1)[0])
    (clocks,) = (row for row in rows if row["check"] == "clocks")
    assert not clocks["ok"]
    assert f"offset 2 of '{project.topic}' partition 0 is stamped {stamp}" in clocks["says"]
    status = json.loads(project.run("status", "--json")[0])
    assert status["streams"]["clicks"]["ahead"] == [[0, 2, stamp]]
    assert not status["publication"]["late"]
    out, _ = project.run("status")
    assert "offset 2 is stamped" in " ".join(out.split())


def test_a_t_later_than_now_is_told_and_gone_past(project, spark):
    with _pipeline(project, spark) as pipeline:
        pipeline.produce([(0, _event("a"))] * 3)
        pipeline.catch_up()
        pipeline.store.clock = lambda: now_ms() + 86_400_000
        ahead = pipeline.batch()
        pipeline.store.clock = now_ms
        _, err = project.run("batch", "run", expect=1)
        assert f"T={ahead.t}" in err
        assert "--accept-clock" in err
        project.run(
            "batch",
            "cut",
            "--at-least",
            "--until",
            format_time(now_ms() // 1000 * 1000 - 2000),
            expect=1,
        )
        status = json.loads(project.run("status", "--json")[0])["publication"]
        assert (status["late"], status["ahead"], status["lag_s"]) == (True, True, 0)
        rows = json.loads(project.run("doctor", "--json", "--within", str(WITHIN_S), expect=1)[0])
        assert any(ahead.t in row["says"] for row in rows if row["check"] == "clocks")
        pipeline.produce([(0, _event("b"))] * 3)
        pipeline.catch_up()
        pipeline.wait_for_tick()
        accepted = json.loads(project.run("batch", "run", "--accept-clock", "--json")[0])
        assert accepted["streams"]["clicks"]["cut"] == {"0": 9}
        pipeline.produce([(0, _event("c"))] * 3)
        pipeline.catch_up()
        pipeline.wait_for_tick()
        published = json.loads(project.run("batch", "run", "--json")[0])
        assert published["streams"]["clicks"]["cut"] == {"0": 12}
        assert _counts(pipeline)[0] == {"before": 3, "a": 3, "b": 3, "c": 3}


def test_a_cut_that_stands_still_is_late_though_its_t_is_new(project, spark, monkeypatch):
    with _pipeline(project, spark) as pipeline:
        pipeline.wait_for_tick()
        pipeline.batch()
        pipeline.produce([(0, _event("a"))])
        with Log(project.settings().bootstrap_servers) as log:
            (record,) = log.stamps(pipeline.topic, 0, 3, 4)
        with pipeline._connection.snapshot() as snapshot:
            cut = snapshot.provenance.streams["clicks"].cut
        assert cut == {0: 3}
        monkeypatch.setattr("trilayer_core.log.lag.now_ms", lambda: record[1] + 7_200_000)
        lag = pipeline._connection.provenance().streams["clicks"].lag
        assert lag is not None
        assert lag.since_cut == 7200


def test_a_log_that_ends_with_markers_of_a_transaction(broker, new_topic, project):
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=new_topic())
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.send(project.topic, _event("t"), partition=0)
        producer.flush()
        end()
    producer.close()
    with Log(broker.bootstrap) as log:
        (stream,) = project.catalog().streams
        topic = log.topic(stream)
        until(
            lambda: log.end(topic) == {0: 7}
        )  # a marker is written after the producer has its answer
        assert [offset for offset, _ in log.stamps(topic, 0, 0, 7)][:3] == [0, 1, 2]
        assert log.stamps(topic, 0, 6, 7) == []
        index = TimeIndex(log, topic, 1000, 200)
        before = now_ms()
        assert index.cut(before + 1000 - before % 1000, {}) == {0: 7}
        assert now_ms() - before < 5000
