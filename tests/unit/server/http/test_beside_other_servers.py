"""HTTP is served in an event loop that is there already, beside other servers."""

import asyncio
import signal
import socket
import ssl

import httpx
import pytest

from tests.support.certificates import write_certificate
from tests.support.served_http import ScriptedEngine, opened
from trilayer_core.errors import EnvironmentFault
from trilayer_server.http.serving import serve


def test_signals_are_left_to_the_process(tmp_path):
    made = opened(tmp_path, engine=ScriptedEngine())

    def handlers():
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async def run():
        before, stop, ports = handlers(), asyncio.Event(), asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(serve(made.served._app, 0, stop, ports.put_nowait, "127.0.0.1"))
            port = await ports.get()
            assert handlers() == before
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.get(f"http://127.0.0.1:{port}/healthz")
            stop.set()
        return answer.status_code

    assert asyncio.run(run()) == 200


def test_a_port_that_is_taken(tmp_path):
    made = opened(tmp_path, engine=ScriptedEngine())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentFault, match=f"can't listen on 127.0.0.1:{port}"):
            asyncio.run(
                serve(made.served._app, port, asyncio.Event(), lambda port: None, "127.0.0.1")
            )


def test_a_server_ends_though_a_client_has_not_begun_to_encrypt(tmp_path):
    made, at = opened(tmp_path, engine=ScriptedEngine()), write_certificate(tmp_path)

    async def run():
        stop, ports = asyncio.Event(), asyncio.Queue()
        serving = asyncio.create_task(
            serve(
                made.served._app,
                0,
                stop,
                ports.put_nowait,
                "127.0.0.1",
                certificate=at / "cert.pem",
                key=at / "key.pem",
            )
        )
        port = await ports.get()
        silent, writer = await asyncio.open_connection("127.0.0.1", port)
        known = ssl.create_default_context(cafile=str(at / "cert.pem"))
        async with httpx.AsyncClient(trust_env=False, verify=known) as client:
            answer = await client.get(f"https://localhost:{port}/healthz")
        stop.set()
        await serving
        async with asyncio.timeout(20):  # asyncio would end the handshake after a minute
            assert await silent.read() == b""
        writer.close()
        return answer.status_code

    assert asyncio.run(run()) == 200
