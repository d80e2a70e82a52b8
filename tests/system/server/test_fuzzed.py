"""Fuzzed, truncated and slow messages: the short form of `make faults FAULTS=fuzz-server`."""

import random
import socket

import psutil
import pytest

from qa.fuzz import mutations, recordings
from qa.fuzz.attacks import Attacker, Seen, ill_formed
from qa.fuzz.run import CANARY, Served, fuzz
from tests.support.certificates import write_certificate

SECONDS = 5
SEED = 5


@pytest.mark.slow
def test_a_server_outlives_what_is_no_protocol(tmp_path):
    """No crash, bounded memory, nothing left behind, and right answers for everybody else."""
    report = fuzz(tmp_path, SECONDS, SEED)
    assert report.wrong == [], str(report)
    assert report.seen.counts["connections"] > 20
    assert all(good.answers for good in report.good)


@pytest.mark.slow
def test_connections_that_fail_to_encrypt_leave_no_memory_behind(tmp_path):
    """Each leaves some KiB of garbage in cycles, which must be collected in time."""
    write_certificate(tmp_path)
    rng = random.Random(SEED)
    with Served("served", tmp_path / "served", tmp_path / "store", tmp_path).running() as served:
        server = psutil.Process(served.process.pid)

        def fail(times):
            for _ in range(times):
                with socket.create_connection(("127.0.0.1", served.wire)) as client:
                    client.sendall(recordings.TLS_REQUEST)
                    client.recv(1)
                    client.sendall(rng.randbytes(50))
            return server.memory_info().rss

        before = fail(1_000)
        assert fail(2_000) - before < 4 << 20


# -- the fuzzing's own parts: each must be able to find what it is there to find -------------------


def test_messages_and_requests_are_told_apart():
    startup = bytes.fromhex("0000000900030000") + b"\0"
    sent = [recordings.TLS_REQUEST, startup, b"Q\0\0\0\x06x\0", b"X\0\0\0\4"]
    assert recordings.messages(b"".join(sent)) == sent
    asked = [b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n", b"POST / HTTP/1.1\r\n\r\nGET /"]
    assert recordings.requests(b"".join(asked)) == asked


def test_a_seed_determines_what_is_sent():
    recorded = [[b"start", *(mutations.framed(b"Q", bytes([n, 0])) for n in range(5))]]
    requests = [[b"POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\n{}"]]
    for make, of in ((mutations.conversation, recorded), (mutations.exchange, requests)):
        first, second, other = (
            [make(random.Random(seed), of, 3) for _ in range(40)] for seed in (1, 1, 2)
        )
        assert first == second
        assert first != other


@pytest.mark.parametrize(
    ("reply", "is_wrong"),
    [
        (b"", False),
        (b"NR\0\0\0\x08\0\0\0\0Z\0\0\0\5I", False),
        (b"Z\0\0\0\5ID\0\0\1", False),
        (b"Z\0\0\0\5I\0", False),
        (b"Z\0\0\0\5II\0\0\0\3", True),
        (b"?\0\0\0\5I", True),
    ],
)
def test_a_reply_that_is_no_message_is_found(reply, is_wrong):
    assert bool(ill_formed(reply)) == is_wrong


@pytest.mark.parametrize(
    "reply",
    [
        b"E\0\0\0\x20SERROR\0VERROR\0CXX000\0Minternal\0\0",
        b"E\0\0\0\x20SERROR\0VERROR\0C08P01\0M" + CANARY.encode() + b"\0\0",
        b"x\0\0\0\4",
    ],
)
def test_what_no_server_may_reply_is_found(reply):
    seen = Seen()
    attacker = Attacker("0", [], seen, None, CANARY.encode())
    attacker._replies += reply
    attacker._judge(attacker._check_wire, [b"sent"])
    assert len(seen.wrong) == 1
    assert "sent b'sent'" in seen.wrong[0]
