"""A storm of connections is accepted at a bounded rate, and keeps nobody from answers."""

import asyncio
import os
import resource
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress

from tests.support.served_http import ScriptedEngine, opened
from tests.support.waiting import until_in_loop
from trilayer.server import accepting
from trilayer.server.accepting import Bucket
from trilayer.server.http import serving
from trilayer.server.wire import listen

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
        (listening,) = await accepting.listening("127.0.0.1", 0)
        accepted = []
        with listening, accepting.accepting([listening], accepted.append), ExitStack() as stack:
            for number in range(10):
                stack.enter_context(socket.create_connection(listening.getsockname()))
                await until_in_loop(lambda number=number: len(accepted) > number)
        for one in accepted:
            one.close()

    asyncio.run(run())


def test_answers_go_on_in_a_storm_of_which_no_more_is_accepted_than_the_rate(served, monkeypatch):
    monkeypatch.setattr(accepting, "BURST", burst := 10)
    monkeypatch.setattr(accepting, "PER_S", per_s := 50.0)
    accepted, begin = [], listen.Server._begin

    def recorded(self, connection):
        accepted.append(time.monotonic())
        begin(self, connection)

    monkeypatch.setattr(listen.Server, "_begin", recorded)
    began = time.monotonic()
    with (
        type(served)(
            served._project.catalog, served._project.settings, served._project.store
        ) as server,
        server.client(autocommit=True) as client,
    ):
        over = threading.Event()
        storm = threading.Thread(target=_storm, args=(server.port, over))
        storm.start()
        try:
            answers = 0
            while len(accepted) < 3 * burst or answers < 20:
                answers += 1
                assert client.execute(f"SELECT {answers}").fetchone() == (answers,)
        finally:
            over.set()
            storm.join()
    assert all(
        number <= burst + per_s * (at - began) for number, at in enumerate(accepted, start=1)
    )


def test_requests_by_http_go_on_in_a_storm_of_which_no_more_is_accepted(tmp_path, monkeypatch):
    monkeypatch.setattr(accepting, "BURST", burst := 10)
    monkeypatch.setattr(accepting, "PER_S", per_s := 50.0)
    accepted, begin = [], serving._Server.begin

    def recorded(self, connection):
        accepted.append(time.monotonic())
        begin(self, connection)

    monkeypatch.setattr(serving._Server, "begin", recorded)
    began = time.monotonic()
    with opened(tmp_path, engine=ScriptedEngine()).served as server, server.client() as client:
        client.get("/healthz")
        over = threading.Event()
        storm = threading.Thread(target=_storm, args=(server.port, over))
        storm.start()
        try:
            answers = 0
            while len(accepted) < 3 * burst or answers < 20:
                answers += 1
                assert client.get("/healthz").status_code == 200
        finally:
            over.set()
            storm.join()
    assert all(
        number <= burst + per_s * (at - began) for number, at in enumerate(accepted, start=1)
    )


def _storm(port, over):
    while not over.is_set():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as one:
            one.sendall(CANCEL)


def test_connections_are_accepted_again_after_descriptors_ran_out(monkeypatch, caplog):
    monkeypatch.setattr(accepting, "REST_S", 0.05)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def run():
        (listening,) = await accepting.listening("127.0.0.1", 0)
        accepted = []
        with (
            listening,
            socket.create_connection(listening.getsockname()),
            accepting.accepting([listening], accepted.append),
        ):
            free = os.dup(listening.fileno())
            os.close(free)
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
                await until_in_loop(lambda: "can't be accepted" in caplog.text)
                assert not accepted
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await until_in_loop(lambda: accepted)
            accepted[0].close()

    asyncio.run(run())


def test_a_host_listens_on_one_port_of_all_its_addresses():
    async def run():
        sockets = await accepting.listening("localhost", 0)
        ports = {one.getsockname()[1] for one in sockets}
        for one in sockets:
            one.close()
        assert len(ports) == 1
        assert 0 not in ports

    asyncio.run(run())
