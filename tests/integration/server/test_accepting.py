"""A storm of connections is accepted at a bounded rate, and keeps nobody from answers."""

import asyncio
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress

from tests.support.served_http import ScriptedEngine, opened
from tests.support.waiting import until_in_loop
from trilayer_server import accepting
from trilayer_server.accepting import Bucket
from trilayer_server.http import serving
from trilayer_server.wire import listen

CANCEL = struct.pack(">iiii", 16, 80877102, 1, 0)


def test_a_bucket_gives_what_it_has_and_then_so_much_a_second():
    now = [0.0]
    bucket = Bucket(3, 2.0, lambda: now[0])

    def taken():
        number = 0
        while not bucket.wait_s():
            bucket.take()
            number += 1
        return number

    assert (taken(), bucket.wait_s()) == (3, 0.5)
    now[0] = 0.25
    assert (taken(), bucket.wait_s()) == (0, 0.25)
    now[0] = 0.5
    assert (taken(), bucket.wait_s()) == (1, 0.5)
    now[0] = 100.0
    assert (taken(), bucket.wait_s()) == (3, 0.5)


def test_each_connection_counts_once(monkeypatch):
    monkeypatch.setattr(accepting, "BURST", 10)
    monkeypatch.setattr(accepting, "PER_S", 1e-6)

    async def run():
        accepted = []
        async with accepting.listening("127.0.0.1", 0, "--port") as sockets:
            with accepting.accepting(sockets, accepted.append), ExitStack() as stack:
                for number in range(10):
                    stack.enter_context(socket.create_connection(sockets[0].getsockname()))
                    await until_in_loop(lambda number=number: len(accepted) > number)
        for one in accepted:
            one.close()

    asyncio.run(run())


def test_small_parts_are_sent_at_once():
    async def run():
        accepted = []
        async with accepting.listening("127.0.0.1", 0, "--port") as sockets:
            with (
                accepting.accepting(sockets, accepted.append),
                socket.create_connection(sockets[0].getsockname()),
            ):
                await until_in_loop(lambda: accepted)
                _, writer = await accepting.connected(accepted[0])
                connection = writer.get_extra_info("socket")
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                writer.close()

    asyncio.run(run())


class Storm:
    """Connections without end to a server that accepts few of them."""

    BURST, PER_S = 10, 50.0

    def __init__(self, monkeypatch, server, begins):
        monkeypatch.setattr(accepting, "BURST", self.BURST)
        monkeypatch.setattr(accepting, "PER_S", self.PER_S)
        self.accepted, begin = [], getattr(server, begins)

        def recorded(server, connection):
            self.accepted.append(time.monotonic())
            begin(server, connection)

        monkeypatch.setattr(server, begins, recorded)
        self._began, self._over = time.monotonic(), threading.Event()

    def beside(self, port, ask):
        """Asks beside the storm, until both have gone on for a while, and looks at the rate."""
        storm = threading.Thread(target=self._connect, args=(port,))
        storm.start()
        try:
            answers = 0
            while len(self.accepted) < 3 * self.BURST or answers < 20:
                answers += 1
                ask(answers)
        finally:
            self._over.set()
            storm.join()
        assert all(
            number <= self.BURST + self.PER_S * (at - self._began)
            for number, at in enumerate(self.accepted, start=1)
        )

    def _connect(self, port):
        while not self._over.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as one:
                one.sendall(CANCEL)


def test_answers_go_on_in_a_storm_of_which_no_more_is_accepted_than_the_rate(served, monkeypatch):
    storm = Storm(monkeypatch, listen.Server, "_begin")
    with (
        type(served)(
            served._project.catalog, served._project.settings, served._project.store
        ) as server,
        server.client(autocommit=True) as client,
    ):

        def ask(number):
            assert client.execute(f"SELECT {number}").fetchone() == (number,)

        storm.beside(server.port, ask)


def test_requests_by_http_go_on_in_a_storm_of_which_no_more_is_accepted(tmp_path, monkeypatch):
    storm = Storm(monkeypatch, serving._Server, "begin")
    with opened(tmp_path, engine=ScriptedEngine()).served as server, server.client() as client:
        client.get("/healthz")

        def ask(_):
            assert client.get("/healthz").status_code == 200

        storm.beside(server.port, ask)
