"""The events of a key are in one partition and in order, also those that are corrected later."""

import json
from collections import defaultdict

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.support.in_process import ProjectInProcess
from tests.support.project import CATALOG, clean, wait_for_settled_tick
from trilayer.operations.record_key import partition_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

PARTITIONS = 4
KEYED = CATALOG.replace("partitions=PARTITIONS,", f'partitions={PARTITIONS}, record_key="user",')


@pytest.fixture
def project(tmp_path, broker, new_topic, spark):
    project = ProjectInProcess(tmp_path, broker.bootstrap, new_topic(), spark)
    project.write_catalog(KEYED.replace("TOPIC", project.topic))
    return project


def in_log(project):
    """The records of each partition, in order, as (key, value)."""
    consumer = KafkaConsumer(bootstrap_servers=project.settings().bootstrap_servers)
    places = [TopicPartition(project.topic, partition) for partition in range(PARTITIONS)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends, found = consumer.end_offsets(places), defaultdict(list)
    while any(consumer.position(place) < ends[place] for place in places):
        for place, records in consumer.poll(timeout_ms=500).items():
            found[place.partition] += [(record.key, record.value) for record in records]
    consumer.close(autocommit=False)
    return found


def test_replay_sends_the_key_of_each_row(project):
    rows = [f"u{number % 13},{number},2026-01-01T00:00:00Z" for number in range(400)]
    rows[5], rows[6] = "u5,many,2026-01-01T00:00:00Z", ",6,2026-01-01T00:00:00Z"
    rows[7] = "u7,7"  # too short to be a row with columns
    file = project.folder / "clicks.csv"
    file.write_text("\n".join(["user,amount,at", *rows]) + "\n")
    project.run("replay", str(file), "--stream", "clicks")
    log = in_log(project)
    assert sum(map(len, log.values())) == 400
    assert len(log) > 1
    amounts = defaultdict(list)
    without = []
    for partition, records in log.items():
        for key, value in records:
            if key is None:
                without.append(value)
                continue
            assert partition_of(key, PARTITIONS) == partition
            event = json.loads(value)
            assert event["user"].encode() == key
            amounts[key].append(event["amount"])
    assert sorted(without) == [b"u7,7", b'{"amount": 6, "at": "2026-01-01T00:00:00Z"}']
    for user in range(13):
        expected = [n for n in range(user, 400, 13) if n not in (5, 6, 7)]
        found = [amount for amount in amounts[f"u{user}".encode()] if amount != "many"]
        assert found == expected
    assert amounts[b"u5"][0] == "many"


def test_a_correction_goes_to_the_partition_of_its_key(project):
    file = project.folder / "clicks.jsonl"
    good = [{"user": f"u{n}", "amount": n, "at": "2026-01-01T00:00:00Z"} for n in range(8)]
    bad = [{"user": f"u{n}", "amount": "?", "at": "2026-01-01T00:00:00Z"} for n in range(8)]
    lines = [json.dumps(event) for event in good + bad] + ["{broken" for _ in range(8)]
    file.write_text("\n".join(lines) + "\n")
    project.run("replay", str(file), "--stream", "clicks")
    wait_for_settled_tick(project)
    project.run("batch", "run")
    rows = [
        json.loads(line) for line in project.run("quarantine", "list", "--jsonl")[0].splitlines()
    ]
    assert len(rows) == 16
    corrected = []
    for number, row in enumerate(rows):
        broken = row["value"].startswith("{broken")
        user = f"mended{number}" if broken else json.loads(row["value"])["user"]
        value = {"user": user, "amount": 1000 + number, "at": "2026-01-01T00:00:00Z"}
        corrected.append(json.dumps(row | {"value": value}))
    path = project.folder / "corrected.jsonl"
    path.write_text("\n".join(corrected) + "\n")
    # Killed at several corrections, of which some go to another partition than what they replace.
    for failpoint in ("before-send:3", "after-send:4", "after-send:1", "after-marker:2"):
        project.killed(f"quarantine.{failpoint}", "quarantine", "replay", str(path))
    project.run("quarantine", "replay", str(path))
    sent = []
    for partition, records in in_log(project).items():
        for key, value in records:
            if b'"amount": 10' in value:
                event = json.loads(value)
                assert key == event["user"].encode()
                assert partition == partition_of(key, PARTITIONS)
                sent.append(event["amount"])
    assert sorted(sent) == [*range(1000, 1016)]
    wait_for_settled_tick(project)
    project.run("batch", "run")
    assert clean(project.run("verify", "--json")[0])
    answer = {row["user"]: row["n"] for row in project.answers()["by_user"]}
    assert sum(answer.values()) == 24
