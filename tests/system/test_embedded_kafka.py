"""The embedded broker keeps its records and its port through kill -9, and keeps to itself."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from types import SimpleNamespace

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.support.places import JARS, PROJECT
from tests.support.waiting import until
from trilayer.operations import sending
from trilayer_core.errors import EnvironmentFault
from trilayer_local import kafka, processes

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def home(tmp_path_factory, kafka_jars):
    """A home whose broker the next test finds as the one before has left it."""
    home = tmp_path_factory.mktemp("one")
    yield home
    kafka.stop(home, timeout_s=5)


def start(home):
    return kafka.start(home, jars=JARS / "kafka", echo=lambda _: None)


def produce(broker, topic, values, **options):
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    sent = [producer.send(topic, value, partition=0, **options) for value in values]
    producer.flush()
    producer.close()
    return [future.get(timeout=10) for future in sent]


def create_topic(broker, topic):
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()


def consume(broker, topic, count):
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning()
    values = []
    until(
        lambda: (
            len(values.extend(r.value for b in consumer.poll(500).values() for r in b) or values)
            >= count
        )
    )
    consumer.close()
    return values


# What the client can't close in time is closed with it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_records_and_port_survive_a_kill_and_records_a_move(home, monkeypatch):
    broker = start(home)
    listening = {
        c.laddr.ip
        for c in psutil.Process(broker.pid).net_connections("inet")
        if c.status == "LISTEN"
    }
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    create_topic(broker, "t")
    sent = [b"%d" % number for number in range(1000)]
    assert [record.offset for record in produce(broker, "t", sent)] == list(range(1000))

    # Events that no broker answers for are an error, where the client itself may wait for ever.
    monkeypatch.setattr(sending, "FINISH_S", 2.0)
    create_topic(broker, "another")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, max_block_ms=10_000)
    producer.send("another", b"taken").get(timeout=60)
    os.kill(broker.pid, signal.SIGKILL)
    producer.send("another", b"not taken")
    assert "within 2 s" in str(sending.finish(producer))
    again = start(home)
    assert again.pid != broker.pid
    assert again.bootstrap == broker.bootstrap
    assert consume(again, "t", 1000) == sent
    (more,) = produce(again, "t", [b"more"], timestamp_ms=1000)
    assert more.offset == 1000
    assert more.timestamp > 1_500_000_000_000  # the broker's clock, not the 1000 sent

    kafka.stop(home)
    assert not psutil.pid_exists(again.pid)
    assert kafka.running(home) is None
    assert (home / "kafka" / "data" / ".kafka_cleanshutdown").exists()
    kafka.stop(home)  # nothing runs: nothing to do

    ports = {
        name: int(value)
        for name, value in kafka._read_properties(home).items()
        if name.endswith(".port")
    }
    assert len(ports) == 2
    with ExitStack() as others:
        for port in ports.values():
            others.enter_context(socket.create_server(("127.0.0.1", port)))  # sets SO_REUSEADDR
        moved = start_on_a_port_that_was_taken(home)
        assert moved.bootstrap != broker.bootstrap
        assert consume(moved, "t", 1001) == [*sent, b"more"]


def start_on_a_port_that_was_taken(home):
    """Another program takes the port that was chosen, as by an outgoing connection, in the second
    that Java needs to come up: another one is chosen.
    """
    choose = kafka.choose_port
    with socket.socket() as other, pytest.MonkeyPatch.context() as patch:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        choices = [taken, choose(None, None)]
        patch.setattr(
            kafka, "choose_port", lambda *a, **k: choices.pop(0) if choices else choose(*a, **k)
        )
        said = []
        broker = kafka.start(home, jars=JARS / "kafka", echo=said.append)
    assert broker.bootstrap != f"127.0.0.1:{taken}"
    begun = [line for line in said if ", for " not in line]  # without how long it takes
    assert begun[-2:] == ["Another program has taken the port meanwhile", "Starting Kafka"]
    return broker


STARTER = """
import os, signal, sys; from pathlib import Path; from trilayer_local import kafka
kafka.start(Path(sys.argv[1]), jars=Path(sys.argv[2]), echo=lambda _: None)
print("started", flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def other(tmp_path, kafka_jars):
    """The home of a broker whose starter is killed as soon as it reads the end of its input."""
    home = tmp_path / "other"
    command = [sys.executable, "-c", STARTER, str(home), str(kafka_jars)]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout.readline() == "started\n"
        yield SimpleNamespace(home=home, starter=starter)
    kafka.stop(home, timeout_s=5)


def test_two_homes_do_not_disturb_each_other(home, other):
    """The record of a process decides which one is the broker of a home."""
    broker, of_other = start(home), kafka.running(other.home)
    assert None not in (broker, of_other)
    assert broker.bootstrap != of_other.bootstrap
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        path = home / "processes" / "kafka.json"
        record = json.loads(path.read_text())
        kafka.stop(home)
        assert kafka.running(other.home) == of_other
        # as if the pid had been reused, with the very same creation time: only the command line
        # tells
        as_recorded = {
            **record,
            "pid": stranger.pid,
            "create_time": psutil.Process(stranger.pid).create_time(),
        }
        path.write_text(json.dumps(as_recorded))
        assert kafka.running(home) is None
        kafka.stop(home)
        assert stranger.poll() is None
        path.write_text(json.dumps({**as_recorded, "create_time": record["create_time"] - 60}))
        again = start(home)
        assert again.bootstrap == broker.bootstrap
        assert stranger.poll() is None
        stranger.kill()

    create_topic(of_other, "still-there")
    other.starter.communicate()
    assert other.starter.returncode == -signal.SIGKILL
    assert (other.home / "processes" / "kafka.json").exists()
    if sys.platform == "linux":  # only Linux tells a child that its parent died
        until(lambda: kafka.running(other.home) is None)
        assert (other.home / "kafka" / "data" / ".kafka_cleanshutdown").exists()
    assert kafka.running(home) == start(home) == again

    # A broker that has outlived its starter is ended and started again.
    left = json.loads(path.read_text())
    path.write_text(json.dumps({**left, "starter_create_time": left["starter_create_time"] - 60}))
    assert start(home).pid != again.pid
    assert not psutil.pid_exists(again.pid)
    kafka.stop(home)
    (home / "kafka" / "data" / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=7\n")
    with pytest.raises(
        EnvironmentFault,
        match=r"(?s)Kafka must come up on 127\.0\.0\.1.*status 1.*Stored node id 7",
    ):
        start(home)
    assert processes.list_running(home) == []


def test_missing_jars_are_named(tmp_path):
    with pytest.raises(
        EnvironmentFault, match=r"must hold the 46 jars of kafka-broker\.lock; got 46 missing"
    ):
        kafka.start(tmp_path / "home", jars=tmp_path, echo=lambda _: None)
