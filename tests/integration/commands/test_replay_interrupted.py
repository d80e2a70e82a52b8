"""`quarantine replay` sends a corrected event once, wherever it is killed and however the broker
fails to answer.
"""

import json

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from tests.support.in_process import ProjectInProcess
from tests.support.project import wait_for_settled_tick

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def project(tmp_path_factory, broker, new_topic, spark):
    """Twelve events in quarantine, four for each of three tests."""
    folder = tmp_path_factory.mktemp("replay")
    project = ProjectInProcess(folder, broker.bootstrap, new_topic(), spark, partitions=1)
    project.produce(3, broken=12)
    wait_for_settled_tick(project)
    project.run("batch", "run")
    return project


def correct(project, name, numbers):
    """A file with the corrections of some of the quarantined events."""
    rows = [
        json.loads(line)
        for line in project.run("quarantine", "list", "--jsonl", "--all")[0].splitlines()
    ]
    value = {"user": name, "amount": 1, "at": "2026-01-01T00:00:00Z"}
    lines = [json.dumps(rows[n] | {"value": value | {"amount": n}}) for n in numbers]
    file = project.folder / f"{name}.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def in_log(project, name):
    """Amounts of the corrected events of that name in the log, in order."""
    consumer = KafkaConsumer(bootstrap_servers=project.settings().bootstrap_servers)
    place = TopicPartition(project.topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end, found = consumer.end_offsets([place])[place], []
    while consumer.position(place) < end:
        for records in consumer.poll(timeout_ms=500).values():
            found += [json.loads(r.value)["amount"] for r in records if name.encode() in r.value]
    consumer.close(autocommit=False)
    return found


@pytest.mark.parametrize(
    ("failpoint", "sent_again"),
    [
        ("quarantine.before-send:2", 3),
        ("quarantine.after-send:2", 2),
        ("quarantine.after-marker:2", 2),
    ],
)
def test_killed_anywhere_and_run_again_each_is_sent_once(project, failpoint, sent_again):
    name = failpoint.replace("quarantine.", "").replace(":", "")
    numbers = {
        "before-send2": range(0, 4),
        "after-send2": range(4, 8),
        "after-marker2": range(8, 12),
    }[name]
    file = correct(project, name, numbers)
    project.killed(failpoint, "quarantine", "replay", file)
    out, _ = project.run("quarantine", "replay", file)
    assert f"{sent_again} corrected events sent; {4 - sent_again} had been sent before" in out
    assert in_log(project, name) == list(numbers)
    assert [n for n in project.store.names("quarantine/clicks") if "sending" in n] == []
    out, _ = project.run("quarantine", "replay", file)
    assert out == "0 corrected events sent; 4 had been sent before\n"
    assert in_log(project, name) == list(numbers)


def test_what_retention_has_made_unknowable_is_said(project):
    project.produce(0, broken=1)
    wait_for_settled_tick(project)
    project.run("batch", "run")
    file = correct(project, "unknowable", [-1])
    project.killed("quarantine.before-send", "quarantine", "replay", file)
    admin = KafkaAdminClient(bootstrap_servers=project.settings().bootstrap_servers)
    project.produce(1)
    admin.delete_records({TopicPartition(project.topic, 0): -1})
    admin.close()
    _, err = project.run("quarantine", "replay", file, expect=1)
    assert "it is unknown whether" in err
    assert "--again sends it all the same" in err
    project.run("quarantine", "replay", file, "--again")
    assert len(in_log(project, "unknowable")) == 1
