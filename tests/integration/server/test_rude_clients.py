"""What a client of PostgreSQL may keep from others, and for how long, if it is rude."""

import asyncio
import random
import socket
import struct
from contextlib import ExitStack

import psycopg
import pyarrow as pa
import pytest
from psycopg import errors

from tests.support.sales import catalog_on
from tests.support.served import Served
from tests.support.waiting import until
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server.engine.pool import Pool
from trilayer_server.engine.query import EngineLimits, Query
from trilayer_server.introspection import SessionInfo
from trilayer_server.metrics import Metrics
from trilayer_server.wire import connection, listen, prepared, session, setting
from trilayer_server.wire.client import Client
from trilayer_server.wire.messages import PROTOCOL, Startup

BEGIN = b"BEGIN\0"
SELECT = b"SELECT i FROM range(100000) t(i)\0"


def framed(kind, body=b""):
    return kind + struct.pack(">i", len(body) + 4) + body


def connected(served, database=b"trilayer"):
    raw = socket.create_connection(("127.0.0.1", served.port), timeout=90)
    raw.sendall(startup_message(database))
    return raw


def startup_message(database=b"trilayer"):
    startup = b"\0\3\0\0user\0rude\0database\0" + database + b"\0\0"
    return struct.pack(">i", len(startup) + 4) + startup


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


HALVES = [b"Q", b"Q\0\0", b"Q\0\0\0\x10SELECT", b"P\0\0\0\x10\0\0"]


@pytest.mark.parametrize(
    ("begins", "state", "halves", "code"),
    [(BEGIN, b"T", [b"", *HALVES], b"C25P03"), (b"SELECT 1\0", b"I", HALVES, b"C08P01")],
)
def test_half_a_message_keeps_no_connection(served, monkeypatch, begins, state, halves, code):
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(served)) for _ in halves]
        for raw in clients:
            raw.sendall(framed(b"Q", begins))
            read_until(raw, b"Z\0\0\0\x05" + state)
        monkeypatch.setattr(connection, "IDLE_S", 0.3)
        for raw, half in zip(clients, halves, strict=True):
            raw.sendall(framed(b"Q", b"SELECT 1\0") + half)
        for raw in clients:
            assert code in read_until(raw, None)


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
    monkeypatch.setattr(connection, "IDLE_S", 0.3)
    with connected(served) as raw:
        read_until(raw, b"Z\0\0\0\x05I")
        one_row = framed(b"E", b"\0" + struct.pack(">i", 1))
        bound = framed(b"B", b"\0\0" + b"\0\0" * 3)
        raw.sendall(framed(b"P", b"\0" + SELECT + b"\0\0") + bound + one_row + framed(b"H"))
        assert b"25P03" in read_until(raw, None)


def test_a_client_that_does_nothing_outside_of_a_transaction_stays(served, monkeypatch):
    monkeypatch.setattr(connection, "IDLE_S", 0.0)
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


@pytest.mark.parametrize("kind", ["statement", "portal"])
def test_names_of_what_is_prepared_are_bounded(served, kind):
    with connected(served) as raw:
        read_until(raw, b"Z\0\0\0\x05I")
        raw.sendall(framed(b"P", b"\0SELECT 1\0\0\0"))
        for number in range(5):
            name = b"%d" % number + b"n" * 1_000_000 + b"\0"
            one = framed(b"P", name + b"SELECT 1\0\0\0")
            raw.sendall(one if kind == "statement" else framed(b"B", name + b"\0" + b"\0\0" * 3))
        raw.sendall(framed(b"S"))
        assert b"C53200\0" in read_until(raw, b"Z\0\0\0\x05I")


def test_room_for_a_statement_is_found_without_looking_at_the_others():
    """Nobody is answered meanwhile, and a client may send many that are short."""
    looks = []

    class Looked(prepared.Statement):
        @property
        def size(self):
            looks.append(self)
            return super().size

    kept = prepared.Prepared()
    for number in range(prepared.MOST - 1):
        kept.prepare(str(number), Looked("SELECT 1", ()))
    looks.clear()
    for _ in range(10):
        kept.prepare("", Looked("", ()))
    assert len(looks) <= 2 * 10


def test_the_bytes_of_what_is_prepared_are_summed_up():
    chosen, kept = random.Random(30), prepared.Prepared()
    columns = pa.schema([("n", pa.int64())])
    for _ in range(2_000):
        name = str(chosen.randrange(9))
        sql = "x" * chosen.randrange(50)
        match chosen.randrange(7):
            case 0:
                kept.prepare(name, prepared.Statement(sql, [1], columns))
            case 1:
                kept.bind(name, prepared.Portal(sql, Query(sql), None))
            case 2 if name in kept.portals:
                kept.opened(name, columns, 100)
            case 3:
                kept.statements.pop(name, None)
            case 4:
                kept.portals.pop(name, None)
            case 5 if chosen.random() < 0.1:
                kept.statements.clear()
            case 6 if chosen.random() < 0.1:
                kept.end_transaction()
        for all_ in (kept.statements, kept.portals):
            assert all_.size == sum(len(name) + one.size for name, one in all_.items())


@pytest.mark.parametrize(
    "message",
    [
        framed(b"P", b"\0\0\0\0"),
        framed(b"S"),
        framed(b"H"),
        framed(b"C", b"S\0"),
        framed(b"Q", b"\0"),
        framed(b"Q", b"SET a = 1\0"),
        framed(b"D", b"Snone\0"),
    ],
)
def test_others_go_on_between_the_messages_of_one_client(tmp_path, monkeypatch, message):
    monkeypatch.setattr(connection, "WITHOUT_OTHERS_S", 0.0)
    project = Project(Settings(), catalog_on("sales"), Store(str(tmp_path / "store")))
    turns = 0

    async def others():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def run():
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.sendall(message * 1_000 + framed(b"X"))
            reader, writer = await asyncio.open_connection(sock=ours)
            client = Client(Pool(project), "rude", None)
            connected = connection.Connection(reader, writer)
            one = session.Session(connected, client, SessionInfo(), Metrics(), b"1234")
            other = asyncio.create_task(others())
            await one.run(Startup(PROTOCOL, 0, {}))
            other.cancel()
            writer.close()

    asyncio.run(run())
    assert turns >= 1_000


def test_connections_that_have_not_begun_leave_room_for_others(tmp_path):
    limits = EngineLimits(connections=500, client_connections=2)
    store = Store(str(tmp_path / "store"))
    with Served(catalog_on("sales"), Settings(), store, limits) as served, ExitStack() as stack:
        for _ in range(2 + listen.SPARE_EACH):
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=90))
        with socket.create_connection(("127.0.0.1", served.port), timeout=90) as raw:
            assert b"C53300\0" in read_until(raw, None)
        other = ("127.0.0.2", 0)
        with socket.create_connection(("127.0.0.1", served.port), 90, source_address=other) as raw:
            raw.sendall(startup_message())
            assert read_until(raw, b"Z\0\0\0\x05I")


def test_encryption_is_not_asked_for_again_and_again(served):
    with socket.create_connection(("127.0.0.1", served.port), timeout=90) as raw:
        raw.sendall(struct.pack(">iii", 8, (1234 << 16) + 5680, 8)[:8] * 1_000)
        assert b"C08P01\0" in read_until(raw, None)


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
        for number in range(setting.MOST_SETTINGS):
            client.execute(f"SET s{number} = 1")
        client.execute("SET s0 = 2")
        with pytest.raises(errors.ConfigurationLimitExceeded, match="200 settings"):
            client.execute("SET one_more = 1")
    with (
        served.client(autocommit=True) as client,
        pytest.raises(errors.ConfigurationLimitExceeded),
    ):
        client.execute(f"SET a = '{'x' * 2_000}'")
    with (
        served.client(autocommit=True) as client,
        pytest.raises(errors.ConfigurationLimitExceeded),
    ):
        client.execute(f"SET {'a' * 2_000} = 1")


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
    monkeypatch.setattr(connection, "PATIENCE_S", 0.1)
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
    ids=["one query", "a portal that it has described", "two queries", "many messages"],
)
def test_a_client_that_leaves_ends_what_it_has_asked(served, asked):
    with connected(served) as raw:
        read_until(raw, b"Z\0\0\0\x05I")
        raw.sendall(asked)
        until(lambda: busy(served) == ["127.0.0.1"])  # without users a client is its address
    until(lambda: not busy(served))


def busy(served):
    """The clients that have a worker."""
    return [worker.who for worker in list(served.pool._workers) if worker.release]


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
