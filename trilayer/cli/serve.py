"""`trilayer serve`: answers the clients of PostgreSQL."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from trilayer.cli.context import err
from trilayer.operations.project import Project, project
from trilayer.server.engine.pool import Pool
from trilayer.server.wire.listen import DATABASE, HOST, Server

PORT = 5433
"""PostgreSQL's own is 5432, and may be in use."""


def serve(
    port: Annotated[int, typer.Option(help="port of 127.0.0.1; 0 for any that is free")] = PORT,
) -> None:
    """Answers clients of PostgreSQL on this machine, until Ctrl-C."""
    asyncio.run(_run(project(), port))


async def _run(asked: Project, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Pool(asked) as pool:
        await Server(pool).run(port, stop, _say)


def _say(port: int) -> None:
    err.print(f"Connect with: psql -h {HOST} -p {port} {DATABASE}", soft_wrap=True)
