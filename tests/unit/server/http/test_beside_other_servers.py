"""HTTP is served in an event loop that is there already, beside other servers."""

import asyncio
import signal
import socket

import httpx
import pytest

from tests.support.served_http import ScriptedEngine, opened
from trilayer.server.http.serving import serve
from trilayer_core.errors import EnvironmentFault


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
