"""The short form of `make faults`: the most telling fault, and the suite's own parts held to
account.
"""

import random

import pytest

from qa.faults.catalogue import FAULTS, cut_log
from qa.faults.ledger import Ledger
from qa.faults.run import run_fault
from qa.faults.stack import Command, Stack, advice, orphans
from qa.faults.traffic import good
from tests.support.hostile import hostile_events
from tests.support.places import JARS
from tests.support.waiting import until

SEED = 13


@pytest.fixture(scope="module")
def stack(tmp_path_factory, shared_classes, kafka_jars):
    with Stack(tmp_path_factory.mktemp("faults"), JARS, seed=SEED, rate=50) as stack:
        yield stack
    assert not orphans(stack.id)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.short], ids=lambda fault: fault.name
)
def test_fault(stack, fault):
    """Every answer right, `verify` clean, every event counted; or an error that advice heals."""
    seen = run_fault(stack, fault, random.Random(f"{SEED} {fault.name}"))
    assert seen.good, seen.wrong


# -- the suite's own parts: each must be able to find what it is there to find ---------------------


def _ledger():
    ledger = Ledger("orders", 2)
    for number, serials in {0: [0, 2, None, 4], 1: [1, 3]}.items():
        for serial in serials:
            ledger.now[number].append(serial)
    return ledger


@pytest.mark.parametrize(
    ("head", "n", "serials", "right"),
    [
        ({"0": 4, "1": 2}, 5, 10, True),
        ({"0": 3, "1": 1}, 3, 3, True),
        ({"0": 0, "1": 0}, 0, 0, True),
        ({"0": 4, "1": 2}, 4, 10, False),  # an event lost
        ({"0": 4, "1": 2}, 6, 14, False),  # an event twice
        ({"0": 4, "1": 2}, 5, 11, False),  # another event in its place
        ({"0": 3, "1": 1}, 5, 10, False),  # more than the head says
        ({"0": 5, "1": 2}, 5, 10, False),  # a head that the log does not reach
    ],
)
def test_an_answer_is_held_against_the_log(head, n, serials, right):
    assert (_ledger().wrong({"head": head, "n": n, "serials": serials}) == "") == right


def test_an_answer_may_be_of_the_log_before_its_tail_was_lost():
    ledger = _ledger()
    ledger.tail_lost({0: 2, 1: 2}, ingested={0: 2, 1: 1})
    ledger.now[0].append(7)
    assert ledger.wrong({"head": {"0": 4, "1": 2}, "n": 5, "serials": 10}) == ""
    assert ledger.wrong({"head": {"0": 3, "1": 2}, "n": 5, "serials": 13}) == ""
    assert ledger.wrong({"head": {"0": 3, "1": 2}, "n": 5, "serials": 14}) != ""
    assert (ledger.good(), ledger.hostile().total()) == (5, 0)


def test_what_was_ingested_and_then_lost_by_the_log_still_counts():
    ledger = _ledger()
    ledger.tail_lost({0: 1, 1: 2}, ingested={0: 4, 1: 1})
    ledger.now[0].append(7)
    assert ledger.wrong({"head": {"0": 2, "1": 2}, "n": 4, "serials": 0 + 7 + 1 + 3}) != ""
    assert ledger.wrong({"head": {"0": 2, "1": 2}, "n": 6, "serials": 0 + 7 + 2 + 4 + 1 + 3}) == ""
    assert ledger.hostile() == {(0, 2): 1}
    assert {row["user"]: row["n"] for row in ledger.by_user({0: 2, 1: 2})} == dict.fromkeys(
        ["u0", "u1", "u2", "u3", "u4", "u7"], 1
    )
    ledger.tail_lost({0: 1, 1: 2}, ingested={0: 2, 1: 2})
    assert ledger.wrong({"head": {"0": 1, "1": 2}, "n": 6, "serials": 17}) == ""


def test_what_a_user_has_is_added_up_from_the_log():
    by_user = _ledger().by_user({0: 4, 1: 1})
    assert [row["user"] for row in by_user] == ["u0", "u1", "u2", "u4"]
    assert by_user[2] == {
        "user": "u2",
        "n": 1,
        "serials": 2,
        "spent": by_user[2]["spent"],
        "highest": 2 / 7,
        "last": 2,
    }
    assert str(by_user[2]["spent"]) == "0.02"


def test_a_record_that_is_kept_may_have_had_the_place_of_another():
    ledger = _ledger()
    ledger.tail_lost({0: 2, 1: 2}, ingested={0: 3, 1: 2})
    ledger.take(0, b"{")
    assert ledger.hostile() == {(0, 2): 2}


def test_hostile_bytes_are_told_from_good_ones():
    ledger = Ledger("orders", 1)
    values = hostile_events(SEED)
    for _ in range(2_000):
        ledger.take(0, next(values))
    assert (ledger.good(), ledger.hostile().total()) == (0, 2_000)
    ledger.take(0, good(12))
    assert ledger.good() == 1


def test_the_commands_that_a_message_advises_are_found():
    text = (
        "the log must reach 5; got 3; run `trilayer batch run --accept-loss`, then `trilayer speed"
        " run` again"
    )
    assert advice(text) == ["trilayer batch run --accept-loss", "trilayer speed run"]
    assert advice("start the local stack with `trilayer up`, or wait") == []


def test_a_process_that_is_left_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("FAULTS_STACK", "one-that-is-left")
    command = Command(
        ["timeit", "-n", "1", "-r", "1", "-s", "import time", "time.sleep(600)"], tmp_path
    )
    try:
        until(lambda: [p.pid for p in orphans("one-that-is-left")] == [command.pid])
    finally:
        command.process.kill()
    until(command.ended)
    assert orphans("one-that-is-left") == []


@pytest.mark.parametrize(
    ("end", "within", "least"),
    [
        (3, True, {0: 0}),
        (3, False, {0: 62}),
        (10, True, {0: 62, 10: 0}),
        (25, True, {0: 62, 10: 82}),
        (25, False, {0: 62, 10: 154}),
        (39, True, {0: 62, 10: 154, 30: 0}),
        (30, False, {0: 62, 10: 154, 30: 0}),
        (40, False, {0: 62, 10: 154, 30: 62}),
    ],
)
def test_a_log_is_cut_in_the_midst_of_a_batch_of_records(tmp_path, end, within, least):
    def batch(base, length):
        return (
            base.to_bytes(8) + length.to_bytes(4) + bytes(11) + (9).to_bytes(4) + bytes(length - 15)
        )

    folder = tmp_path / "orders-0"
    folder.mkdir()
    (tmp_path / "recovery-point-offset-checkpoint").touch()
    for base, data in {
        0: batch(0, 50),
        10: batch(10, 70) + batch(20, 60),
        30: batch(30, 50),
    }.items():
        (folder / f"{base:020}.log").write_bytes(data)
        (folder / f"{base:020}.index").touch()
    cut_log(folder, end, random.Random(1), within=within)
    assert sorted(int(file.stem) for file in folder.glob("*.log")) == list(least)
    assert sorted(int(file.stem) for file in folder.glob("*.index")) == list(least)
    for base, size in least.items():
        there = (folder / f"{base:020}.log").stat().st_size
        whole = {0: 62, 10: 154, 30: 62}[base]
        assert there == size if size in (whole, 62) else size <= there < whole
    assert not (tmp_path / "recovery-point-offset-checkpoint").exists()
