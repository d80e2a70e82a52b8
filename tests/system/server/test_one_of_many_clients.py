"""One client that asks for everything at once makes no other client wait."""

import asyncio
import base64
import json
import socket
import threading
from contextlib import ExitStack, closing

import httpx
import psycopg
import pytest
from psycopg import errors, pq

from tests.support.in_thread import InThread
from tests.support.sales import catalog_on
from tests.support.waiting import until
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server.engine.pool import Pool
from trilayer_server.engine.query import EngineLimits
from trilayer_server.http import serving as web
from trilayer_server.http.application import app
from trilayer_server.http.security import WebAccess
from trilayer_server.http.store_reader import StoreReader
from trilayer_server.users import Users
from trilayer_server.wire.authentication import Access
from trilayer_server.wire.listen import Server

pytestmark = pytest.mark.slow

LIMITS = EngineLimits(workers=8, transactions=4, memory_mb=512, timeout_s=600)
EACH = 9
"""As many of these twelve slots as one client may have."""

ENDLESS = b"SELECT count(*) FROM range(1000000000000)"
UNREAD = b"SELECT repeat('x', 1000) FROM range(1000000000000)"
PASSWORD = "pencil"


class Both(InThread):
    """A server for both protocols that knows the users rude, other and good."""

    def __init__(self, folder):
        self._project = Project(
            Settings(home=folder), catalog_on("sales"), Store(str(folder / "store"))
        )
        self._users = Users(folder / "users.json")
        for name in ("rude", "other", "good"):
            self._users.put(name, PASSWORD, "reader")

    async def _serve(self):
        ports = {}

        def listens(name, port):
            ports[name] = port
            if len(ports) == 2:
                self.wire, self.http = ports["wire"], ports["http"]
                self._ready.set()

        async with Pool(self._project, LIMITS) as self.pool, asyncio.TaskGroup() as both:
            site = app(
                self.pool, StoreReader(self._project, self.pool), access=WebAccess(self._users.role)
            )
            wire = Server(self.pool, Access(self._users), "127.0.0.1")
            both.create_task(wire.run(0, self._stop, lambda port: listens("wire", port)))
            both.create_task(
                web.serve(site, 0, self._stop, lambda port: listens("http", port), "127.0.0.1")
            )

    def taken(self, who):
        return sum(worker.who == who and worker.release is not None for worker in self.workers)

    @property
    def workers(self):
        return list(self.pool._workers)

    def waiting(self, who):
        own = self.pool._slots._clients.get(who)
        return len(own._waiters or ()) if own is not None else 0

    def client(self, user, **options):
        return psycopg.connect(
            host="127.0.0.1", port=self.wire, dbname="trilayer", user=user, password=PASSWORD,
            **options,
        )  # fmt: skip

    def asking(self, user, sql):
        """A client whose question has been sent."""
        client = self.client(user, autocommit=True)
        client.pgconn.send_query(sql)
        client.pgconn.flush()
        return client

    def asking_by_http(self, user, sql):
        """A connection on which a question has been sent by HTTP."""
        body = json.dumps({"sql": sql, "format": "csv"}).encode()
        login = base64.b64encode(f"{user}:{PASSWORD}".encode())
        connection = socket.create_connection(("127.0.0.1", self.http))
        connection.sendall(
            b"POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Authorization: Basic %s\r\nContent-Length: %d\r\n\r\n%s" % (login, len(body), body)
        )
        return connection

    def ask_by_http(self, user, sql, **more):
        return httpx.post(
            f"http://127.0.0.1:{self.http}/v1/sql", json={"sql": sql, **more},
            auth=(user, PASSWORD), trust_env=False, timeout=120,
        )  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with Both(tmp_path_factory.mktemp("both")) as server:
        yield server


@pytest.fixture
def served(running):
    """The server, with all slots free before and afterwards."""
    until(lambda: not any(worker.release for worker in running.workers))
    yield running
    until(lambda: not any(worker.release for worker in running.workers))


@pytest.fixture
def clients():
    """Clients that leave at the end of the test."""
    with ExitStack() as stack:
        yield stack


def fill(served, clients, user, number, sql=ENDLESS):
    """Has a user ask so many questions, which get slots or wait."""
    begun = served.taken(user) + served.waiting(user)
    found = [clients.enter_context(closing(served.asking(user, sql))) for _ in range(number)]
    until(lambda: served.taken(user) + served.waiting(user) == begun + number)
    return found


def result(client):
    """What was sent for the question of a client, once it has come."""

    def has_come():
        client.pgconn.consume_input()
        return not client.pgconn.is_busy()

    until(has_come)  # libpq would keep this process, and so the server, from going on
    return client.pgconn.get_result()


def check_good_is_answered(served):
    with served.client("good", autocommit=True) as good:
        for number in range(20):
            assert good.execute(f"SELECT {number}").fetchone() == (number,)
    assert served.ask_by_http("good", "SELECT 1").json()["rows"] == [[1]]
    with served.client("good") as good:
        assert good.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("sql", [ENDLESS, UNREAD])
def test_the_queue_of_one_client_is_not_that_of_another(served, clients, sql):
    fill(served, clients, "rude", EACH + 3, sql)
    assert served.waiting("rude") == 3
    check_good_is_answered(served)
    assert served.waiting("rude") == 3  # no slot came free meanwhile


def test_questions_by_http_that_nobody_reads_leave_room_to_another_client(served, clients):
    for _ in range(EACH + 3):
        clients.enter_context(closing(served.asking_by_http("rude", UNREAD.decode())))
    until(lambda: served.waiting("rude") == 3)
    check_good_is_answered(served)


def test_both_protocols_have_one_queue_for_one_user(served, clients):
    fill(served, clients, "rude", EACH)
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(served.ask_by_http("rude", "SELECT 1", timeout_s=3))
    )
    asking.start()
    until(lambda: served.waiting("rude") == 1)
    asking.join()
    assert answers[0].status_code == 408
    until(lambda: served.waiting("rude") == 0)


def test_a_question_that_waits_is_cancelled_at_once(served, clients):
    fill(served, clients, "rude", EACH)
    waits, leaves = fill(served, clients, "rude", 2)
    leaves.close()
    until(lambda: served.waiting("rude") == 1)
    waits.cancel_safe()
    refused = result(waits)
    assert refused.error_field(pq.DiagnosticField.SQLSTATE) == b"57014"
    assert served.taken("rude") == EACH


def test_transactions_are_not_all_for_one_client(served, clients):
    keeps = [clients.enter_context(closing(served.client("rude"))) for _ in range(4)]
    for client in keeps[:3]:
        client.execute("SELECT 1")
    with pytest.raises(errors.TooManyConnections, match="at most 3 transactions of one client"):
        keeps[3].execute("SELECT 1")
    good = [clients.enter_context(closing(served.client("good"))) for _ in range(2)]
    assert good[0].execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(errors.TooManyConnections, match="at most 4 transactions may"):
        good[1].execute("SELECT 1")
    keeps[0].commit()
    assert keeps[3].execute("SELECT 1").fetchone() == (1,)
