"""The log and the seam when the world moves: retention, topics created again, partitions added,
schemas changed, quarantine.
"""

import json

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from batch_layer.cut import choose_t, cut
from batch_layer.publish import publish
from tests.support.in_process import ProjectInProcess
from tests.support.project import CATALOG, clean, wait_for_settled_tick
from trilayer_core.errors import ConflictError
from trilayer_core.project import Project
from trilayer_core.store.documents import encode
from trilayer_core.store.fence import Fence
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Recomputed

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def project(tmp_path, broker, new_topic, spark):
    project = ProjectInProcess(tmp_path, broker.bootstrap, new_topic(), spark, partitions=1)
    project.produce(100)
    return project


def _batch(project, *more, expect=0):
    wait_for_settled_tick(project)
    return project.run("batch", "run", *more, expect=expect)


def _admin(project):
    return KafkaAdminClient(bootstrap_servers=project.settings().bootstrap_servers)


def test_retention_that_overtakes_ingest_names_the_lost_range(project):
    _batch(project)
    project.produce(50)
    admin = _admin(project)
    admin.delete_records({TopicPartition(project.topic, 0): 120})
    _, err = _batch(project, expect=1)
    assert "retention took offsets [100, 120)" in err
    assert "--accept-loss" in err
    _batch(project, "--accept-loss")
    history = json.loads(project.run("batch", "history", "--json")[0])
    assert (history[-1]["events"], history[-1]["lost"]) == (130, 20)
    assert sum(row["n"] for row in project.answers()["by_user"]) == 130
    admin.close()


def test_topic_created_again_is_an_error_with_a_way_out(project):
    _batch(project)
    before = project.answers()
    admin = _admin(project)
    admin.delete_topics([project.topic])
    from tests.support.waiting import until

    def gone():
        return admin.describe_topics([project.topic])[0]["error_code"] == 3

    until(gone)
    project.produce(10)
    _, err = _batch(project, expect=1)
    assert "deleted and created again" in err
    assert "--accept-loss" in err
    assert project.answers() == before
    out, err = _batch(project, "--accept-loss", "--json")
    assert "the loss is accepted" in err
    (stream,) = json.loads(out)["streams"].values()
    assert (stream["origin"], stream["cut"], stream["events"]) == (2, {"0": 10}, 110)
    project.check_answers()
    assert clean(project.run("verify", "--json")[0])
    project.run("batch", "rollback")
    assert project.answers() == before
    project.produce(5)
    _batch(project, "--full")
    project.check_answers()
    assert clean(project.run("verify", "--json")[0])
    admin.close()


def test_partition_added_later_is_read_from_its_beginning(project):
    _batch(project)
    admin = _admin(project)
    admin.create_partitions({project.topic: 3})
    producer = KafkaProducer(bootstrap_servers=project.settings().bootstrap_servers)
    for partition in (1, 2):
        producer.send(
            project.topic,
            b'{"user": "u0", "amount": 0, "at": "2026-01-01T00:00:00Z"}',
            partition=partition,
        )
    producer.flush()
    producer.close()
    _batch(project)
    (first,) = (row for row in project.answers()["by_user"] if row["user"] == "u0")
    assert first["n"] == 15 + 2
    assert clean(project.run("verify", "--json")[0])
    admin.close()


def test_schema_change_parses_everything_anew_the_quarantined_too(project):
    producer = KafkaProducer(bootstrap_servers=project.settings().bootstrap_servers)
    producer.send(
        project.topic,
        b'{"user": "new", "amount": 1.5, "at": "2026-01-01T00:00:00Z",'
        b' "extra": "kept in the raw bytes"}',
    )
    producer.flush()
    producer.close()
    _batch(project)
    rows = [
        json.loads(line) for line in project.run("quarantine", "list", "--jsonl")[0].splitlines()
    ]
    assert [row["reason"] for row in rows] == ["wrong type: amount must be bigint, got 1.5"]
    changed = (
        CATALOG.replace("TOPIC", project.topic)
        .replace("PARTITIONS", "1")
        .replace("amount bigint", "amount double, extra string")
    )
    project.write_catalog(changed)
    _, err = project.run("sql", "from by_user", expect=1)
    assert "its definition has changed since version 1" in err
    _batch(project)
    answer = {row["user"]: row["n"] for row in project.answers()["by_user"]}
    assert answer["new"] == 1
    assert sum(answer.values()) == 101
    assert project.run("quarantine", "list", "--jsonl")[0] == ""
    assert clean(project.run("verify", "--json")[0])


def test_quarantine_listed_shown_and_replayed(project):
    project.produce(0, broken=2)
    _batch(project)
    lines = [
        json.loads(line) for line in project.run("quarantine", "list", "--jsonl")[0].splitlines()
    ]
    assert [line["reason"] for line in lines] == ["broken JSON: must be one JSON object"] * 2
    place = f"{lines[0]['partition']}:{lines[0]['offset']}"
    out, err = project.run("quarantine", "show", place)
    assert out == "{broken 0"
    assert "broken JSON" in err
    corrected = project.folder / "corrected.jsonl"
    corrected.write_text(json.dumps(lines[0]) + "\n")
    _, err = project.run("quarantine", "replay", str(corrected), expect=1)
    assert "`value` must be corrected" in err
    lines[0]["value"] = {"user": "mended", "amount": 3, "at": "2026-01-01T00:00:00Z"}
    corrected.write_text(json.dumps(lines[0]) + "\n")
    out, _ = project.run("quarantine", "replay", str(corrected))
    assert out == "1 corrected event sent\n"
    out, _ = project.run("quarantine", "replay", str(corrected))
    assert out == "0 corrected events sent; 1 had been sent before\n"
    other = lines[0] | {"value": lines[0]["value"] | {"amount": 4}}
    corrected.write_text(json.dumps(other) + "\n")
    _, err = project.run("quarantine", "replay", str(corrected), expect=1)
    assert "must not be replayed twice; another correction of it was sent before" in err
    _batch(project)
    assert {row["user"]: row["n"] for row in project.answers()["by_user"]}["mended"] == 1
    listed = [
        json.loads(line)
        for line in project.run("quarantine", "list", "--jsonl", "--all")[0].splitlines()
    ]
    assert [line["replayed"] for line in listed] == [True, False]
    assert clean(project.run("verify", "--json")[0])


def test_quarantine_counted_by_reason_and_discarded(project):
    project.produce(0, broken=3)
    producer = KafkaProducer(bootstrap_servers=project.settings().bootstrap_servers)
    for amount in (1.5, "6" * 80):
        value = {"user": 7, "amount": amount, "at": "2026-01-01T00:00:00Z"}
        producer.send(project.topic, json.dumps(value).encode())
    producer.close()
    _batch(project)

    def counted():
        found = json.loads(project.run("quarantine", "reasons", "--json")[0])
        return {row["reason"]: (row["events"], row["newest"]) for row in found}

    status = json.loads(project.run("status", "--json")[0])["streams"]["clicks"]
    assert (status["quarantined_in_all"], status["quarantined"]) == (5, 0)
    project.produce(3)
    _, err = project.run("sql", "from by_user")
    assert "clicks: the speed layer has not run these definitions: answers stop at the cut" in err
    assert "; 0 events since the cut; 3 more wait, the oldest for " in err
    broken = "broken JSON: must be one JSON object"
    wrong = "wrong type: amount must be bigint"
    assert counted() == {broken: (3, "0:102"), wrong: (2, "0:104")}
    table, _ = project.run("quarantine", "list")
    lines = table.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) == 2 + 3 + 1 + 2
    assert lines[-2].startswith(" clicks 0:104 │ wrong type: amount must be bigint, got ")
    assert '"66666' in lines[-1]
    for arguments, reason in (
        (("0:100",), "--why must say why the events are discarded"),
        (("0:100", "--reason", broken, "--why", "x"), "either PLACES or --reason must say which"),
        (("0:3", "0:100", "--why", "x"), "got 0:3, which is not"),
        (("100", "--why", "x"), "must be named PARTITION:OFFSET"),
        (("--reason", broken[:-3], "--why", "x"), f"did you mean {broken!r}?"),
    ):
        assert reason in project.run("quarantine", "discard", *arguments, expect=2)[1]
    project.run("quarantine", "discard", "0:104", "--why", "a test of [ours]")
    assert counted() == {broken: (3, "0:102"), wrong: (1, "0:103")}
    out, _ = project.run("quarantine", "discard", "--reason", broken, "--why", "no one has them")
    assert out.startswith("3 events discarded by ")
    assert counted() == {wrong: (1, "0:103")}
    (left,) = project.run("quarantine", "list", "--jsonl")[0].splitlines()
    assert json.loads(left)["offset"] == 103
    assert "0:104" not in project.run("quarantine", "list")[0]
    rows = [
        json.loads(line)
        for line in project.run("quarantine", "list", "--jsonl", "--all")[0].splitlines()
    ]
    assert [row["discarded"] for row in rows] == ["no one has them"] * 3 + [
        None,
        "a test of [ours]",
    ]
    assert clean(project.run("verify", "--json")[0])


def test_corrections_that_can_not_be_sent_are_listed_and_the_others_sent(project):
    project.produce(0, broken=5)
    _batch(project)
    lines = [
        json.loads(line) for line in project.run("quarantine", "list", "--jsonl")[0].splitlines()
    ]
    newest, err = project.run("quarantine", "list", "--jsonl", "--limit", "3")
    assert [json.loads(line) for line in newest.splitlines()] == lines[2:]
    assert "the newest 3 of 5" in err
    corrected = project.folder / "corrected.jsonl"

    def correction(line, user, amount=1):
        value = {"user": user, "amount": amount, "at": "2026-01-01T00:00:00Z"}
        return json.dumps(line | {"value": value}, ensure_ascii=False).encode()

    sent = [correction(lines[0], "a\u2028b\u0085c"), correction(lines[3], "last")]
    corrections = [
        sent[0],
        b"",
        correction(lines[0], "twice"),
        correction(lines[1], "Zo\u00eb").decode().encode("latin-1"),
        b"[1]",
        json.dumps(lines[1] | {"value": '{"user": "\ud800"}'}).encode(),
        correction(lines[4], "u", "6"),
        json.dumps(lines[1] | {"offset": 3, "value": "{}"}).encode(),
        correction(lines[2], "long" * (1 << 18)),
        sent[1],
    ]
    corrected.write_bytes(b"\n".join(corrections))
    out, err = project.run("quarantine", "replay", str(corrected), expect=1)
    assert out == "2 corrected events sent; 7 were not, see above\n"
    for reason in (
        "corrected.jsonl:3 must name an event of its own; got 0:100, which line 1 names too",
        "corrected.jsonl:4 must be a line as `quarantine list --jsonl` prints it",
        "codec can't decode byte",
        "corrected.jsonl:5 must be a line",
        "corrected.jsonl:6: `value` must fit the schema, or it comes back to quarantine; invalid"
        " UTF-8",
        "corrected.jsonl:7: `value` must fit the schema, or it comes back to quarantine; wrong"
        ' type: amount must be bigint, got "6"',
        "corrected.jsonl:8 must name an event in quarantine; got clicks 0:3",
        "corrected.jsonl:9: `value` must fit the schema, or it comes back to quarantine;"
        " oversized: 1048631 bytes",
    ):
        assert reason in err
    _batch(project)
    answers = {row["user"]: row["n"] for row in project.answers()["by_user"]}
    assert (answers["a\u2028b\u0085c"], answers["last"]) == (1, 1)
    listed = [
        json.loads(line)
        for line in project.run("quarantine", "list", "--jsonl", "--all")[0].splitlines()
    ]
    assert [line["replayed"] for line in listed] == [True, False, False, True, False]


def test_two_batch_runs_at_once(project):
    with project.store.lock("locks/batch", "a batch run"):
        _, err = _batch(project, expect=1)
    assert "a batch run must run once at a time; process" in err
    _batch(project)


def test_fencing_keeps_out_an_older_run(project):
    """A run that was thought dead and comes back finds a newer token, and changes nothing."""
    _batch(project)
    before = project.answers()
    project.produce(10)
    wait_for_settled_tick(project)
    of_run = Project(project.settings(), project.catalog(), project.store)
    old = cut(of_run, choose_t(of_run, None), False)
    Fence(project.store).take("a later run")
    with pytest.raises(ConflictError, match="a later run has taken over"):
        publish(of_run, old, Recomputed(1, {}, {}, {}, {}), {})
    assert project.answers() == before


def test_verify_finds_and_names_a_wrong_answer(project):
    """A batch view computed wrong, with digests that fit it, is what only a recompute can find."""
    _batch(project)
    store = project.store
    view = project.catalog().view("by_user")

    publication = Publications(store).in_force()
    document = encode(publication)
    (file,) = publication.views["by_user"].files[:1]
    table = store.read_table(file)
    wrong = table.set_column(
        table.column_names.index("n__n"), "n__n", [[n + 1 for n in table["n__n"].to_pylist()]]
    )
    document["views"]["by_user"]["files"][0] = vars(
        store.write_table("batch/by_user/99999999-wrong/part.parquet", wrong)
    )
    store.write_document(f"publications/{publication.version:08d}.json", document)
    Publications(store).put_in_force(publication.version, publication.token, "publish")
    out, _ = project.run("verify", "--json", expect=1)
    found = json.loads(out)
    assert found["views"][view.name]["differ"] == table.num_rows
    assert (
        found["views"][view.name]["keys"][0]["left_n"] + 1
        == found["views"][view.name]["keys"][0]["right_n"]
    )
    assert found["views"]["by_minute"]["differ"] == 0


def test_a_total_that_does_not_fit_stops_no_layer_and_no_other_answer(project):
    """It is NULL, and `verify` compares it as any other; a view that was added has no answer before
    the next publication.
    """
    _batch(project)
    text = (project.folder / f"{project.module}.py").read_text()
    added = 'View("newcomers", source=clicks, key=["user"], aggregates={"n": count()})'
    project.write_catalog(text.replace("views=[by_user,", f"views=[by_user, {added},"))
    found = json.loads(project.run("verify", "--json")[0])
    assert (found["clean"], found["failed"], list(found["unanswered"])) == (True, [], ["newcomers"])
    project.write_catalog(text)
    producer = KafkaProducer(bootstrap_servers=project.settings().bootstrap_servers)
    value = {"user": "rich", "amount": 2**63 - 1, "at": "2026-01-01T00:00:00Z"}
    for _ in range(2):
        producer.send(project.topic, json.dumps(value).encode())
    producer.close()
    _batch(project)
    found = json.loads(project.run("verify", "--json")[0])
    assert (found["clean"], found["failed"], found["unanswered"]) == (True, [], {})
    answers = {row["user"]: row for row in project.answers()["by_user"]}
    assert (
        answers.pop("rich")["total"],
        all(row["total"] is not None for row in answers.values()),
    ) == (
        None,
        True,
    )
