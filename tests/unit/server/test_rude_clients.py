"""What a client of PostgreSQL may keep from others, and for how long, if it is rude."""

import socket
import struct

import psycopg
import pytest
from psycopg import errors

from tests.support.waiting import until
from trilayer.server.wire import listen, prepared, session

BEGIN = b"BEGIN\0"
SELECT = b"SELECT i FROM range(100000) t(i)\0"


def framed(kind, body=b""):
    return kind + struct.pack(">i", len(body) + 4) + body


def connected(served, database=b"trilayer"):
    raw = socket.create_connection(("127.0.0.1", served.port), timeout=90)
    startup = b"\0\3\0\0user\0rude\0database\0" + database + b"\0\0"
    raw.sendall(struct.pack(">i", len(startup) + 4) + startup)
    return raw


def read_until(raw, end):
    """All that comes up to an end; `None` is the end of the connection."""
    found = b""
    while end is None or end not in found:
        data = raw.recv(1 << 16)
        if not data:
            assert end is None, found
            return found
        found += data
    return found


@pytest.mark.parametrize("half", [b"", b"Q", b"Q\0\0", b"Q\0\0\0\x10SELECT", b"P\0\0\0\x10\0\0"])
def test_half_a_message_keeps_no_transaction(served, monkeypatch, half):
    with connected(served) as raw:
        raw.sendall(framed(b"Q", BEGIN))
        read_until(raw, b"Z\0\0\0\x05T")
        monkeypatch.setattr(session, "IDLE_S", 0.3)
        raw.sendall(framed(b"Q", b"SELECT 1\0"))
        read_until(raw, b"Z\0\0\0\x05T")
        raw.sendall(half)
        assert b"25P03" in read_until(raw, None)


@pytest.mark.parametrize("half", [b"Q", b"Q\0\0", b"Q\0\0\0\x10SELECT"])
def test_half_a_message_outside_of_a_transaction_ends_the_connection(served, monkeypatch, half):
    monkeypatch.setattr(session, "IDLE_S", 0.3)
    with connected(served) as raw:
        raw.sendall(framed(b"Q", b"SELECT 1\0"))
        read_until(raw, b"Z\0\0\0\x05I")
        raw.sendall(half)
        assert b"C08P01" in read_until(raw, None)


def test_messages_may_come_byte_by_byte_and_many_at_once(served):
    asked = framed(b"Q", b"SELECT 1\0")
    with connected(served) as raw:
        read_until(raw, b"Z\0\0\0\x05I")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in asked:
            raw.sendall(bytes([byte]))
        read_until(raw, b"Z\0\0\0\x05I")
        raw.sendall(asked * 20 + framed(b"X"))
        assert read_until(raw, None).count(b"SELECT 1") == 20


def test_an_answer_that_is_not_read_on_keeps_no_worker(served, monkeypatch):
    """A portal is open until Sync, which never comes."""
    monkeypatch.setattr(session, "IDLE_S", 0.3)
    with connected(served) as raw:
        read_until(raw, b"Z\0\0\0\x05I")
        one_row = framed(b"E", b"\0" + struct.pack(">i", 1))
        bound = framed(b"B", b"\0\0" + b"\0\0" * 3)
        raw.sendall(framed(b"P", b"\0" + SELECT + b"\0\0") + bound + one_row + framed(b"H"))
        assert b"25P03" in read_until(raw, None)


def test_a_client_that_does_nothing_outside_of_a_transaction_stays(served, monkeypatch):
    monkeypatch.setattr(session, "IDLE_S", 0.0)
    with served.client(autocommit=True) as client:
        for _ in range(3):
            assert client.execute("SELECT 1").fetchone() == (1,)


def test_prepared_statements_are_bounded(served):
    with connected(served) as raw:
        read_until(raw, b"Z\0\0\0\x05I")
        text = b"SELECT '" + b"x" * 60_000 + b"'\0"
        for number in range(prepared.MOST_BYTES // 60_000 + 1):
            raw.sendall(framed(b"P", b"s%d\0" % number + text + b"\0\0"))
        raw.sendall(framed(b"S"))
        found = read_until(raw, b"Z\0\0\0\x05I")
        assert b"C53200\0" in found
        raw.sendall(framed(b"Q", b"SELECT 1\0"))
        assert b"SELECT 1" in read_until(raw, b"Z\0\0\0\x05I")


@pytest.mark.parametrize("ending", ["DEALLOCATE {}", "DEALLOCATE ALL", "DISCARD ALL"])
def test_prepared_statements_that_are_not_needed_are_forgotten(served, ending):
    with served.client(autocommit=True) as client:
        for number in range(prepared.MOST + 10):
            client.pgconn.prepare(b"s%d" % number, b"SELECT 1")
            if number % 100 == 0 or "{}" in ending:
                client.execute(ending.format(f'"s{number}"'), prepare=False)
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_settings_are_bounded(served):
    with served.client(autocommit=True) as client:
        for number in range(session.MOST_SETTINGS):
            client.execute(f"SET s{number} = 1")
        client.execute("SET s0 = 2")
        with pytest.raises(errors.ConfigurationLimitExceeded, match="200 settings"):
            client.execute("SET one_more = 1")
    with (
        served.client(autocommit=True) as client,
        pytest.raises(errors.ConfigurationLimitExceeded),
    ):
        client.execute(f"SET a = '{'x' * 2_000}'")


@pytest.mark.parametrize("sql", ["SET a = '{}'", "SELECT '{}'", "BEGIN; SELECT '{}'"])
def test_a_statement_that_is_too_long_is_not_looked_at(served, sql):
    with served.client(autocommit=True) as client:
        for ask in (client.execute, lambda text: client.execute(text, prepare=True)):
            with pytest.raises(errors.ProgramLimitExceeded):
                ask(sql.format("x" * 70_000))
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_client_that_asks_without_reading_is_not_read_from(served):
    """What it is to be told would otherwise pile up in the server."""
    with connected(served) as raw:
        raw.settimeout(2)
        asked = framed(b"P", b"\0\0\0\0") * 10_000_000
        with pytest.raises(TimeoutError):
            raw.sendall(asked)


def test_a_connection_that_has_ended_keeps_no_descriptor(served, monkeypatch):
    """Even if its client neither reads what is left nor leaves."""
    monkeypatch.setattr(listen, "CLOSING_S", 0.1)
    monkeypatch.setattr(session, "PATIENCE_S", 0.1)
    with connected(served) as raw:
        raw.sendall(framed(b"Q", b"SELECT repeat('x', 30000000)\0"))
        until(lambda: not served.pool._pinned and _is_reset(raw))


ENDLESS = b"SELECT count(*) FROM range(100000000000) t(i) WHERE i % 7 = 9\0"
BOUND = framed(b"P", b"\0" + ENDLESS + b"\0\0") + framed(b"B", b"\0\0" + b"\0\0" * 3)


@pytest.mark.parametrize(
    "asked",
    [
        BOUND + framed(b"E", b"\0\0\0\0\0"),
        BOUND + framed(b"D", b"P\0") + framed(b"E", b"\0\0\0\0\0") + framed(b"S"),
        framed(b"Q", ENDLESS) * 2,
        framed(b"Q", ENDLESS) + framed(b"P", b"\0" + b" " * 60_000 + b"\0\0\0") * 3,
    ],
    ids=["one question", "a portal that it has described", "two questions", "many messages"],
)
def test_a_client_that_leaves_ends_what_it_has_asked(served, asked):
    with connected(served) as raw:
        read_until(raw, b"Z\0\0\0\x05I")
        raw.sendall(asked)
        until(lambda: served.pool.turns._turns)
    until(lambda: not served.pool.turns._turns)


def test_without_users_a_client_is_its_address(served):
    with connected(served) as raw:
        read_until(raw, b"Z\0\0\0\x05I")
        raw.sendall(framed(b"Q", ENDLESS))
        until(lambda: served.pool._places.taken("127.0.0.1") == 1)
    until(lambda: not served.pool._places.taken("127.0.0.1"))


def _is_reset(raw):
    """Whether the server has given the connection up, without reading from it."""
    try:
        raw.send(framed(b"S"))
    except ConnectionError:
        return True
    return False


def test_a_version_that_is_no_number_is_refused(served):
    for version in ("9" * 5_000, "٣", "1x", "-1"):
        with pytest.raises(psycopg.OperationalError, match="database must be"):
            served.client(dbname=f"trilayer@{version}")


def test_a_wide_value_comes_in_parts_that_the_server_can_hold(served):
    with served.client(autocommit=True) as client:
        ((value,),) = client.execute("SELECT repeat('x', 5000000)").fetchall()
        assert value == "x" * 5_000_000
