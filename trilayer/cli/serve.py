"""`trilayer serve`: answers SQL clients and browsers."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from trilayer.cli.context import err
from trilayer.operations.project import Project, project
from trilayer.server.serving import Addresses
from trilayer.server.serving import serve as run

Port = Annotated[
    int | None, typer.Option(help="port for clients of PostgreSQL; 0 for any that is free")
]

HttpPort = Annotated[
    int | None, typer.Option(help="port of HTTP and the console; 0 for any that is free")
]


def serve(
    port: Port = None,
    http_port: HttpPort = None,
    host: Annotated[str | None, typer.Option(help="address on which to listen")] = None,
) -> None:
    """Answers SQL clients and browsers, until Ctrl-C."""
    found = project()
    given = {"serve_port": port, "serve_http_port": http_port, "serve_host": host}
    changed = {name: value for name, value in given.items() if value is not None}
    settings = found.settings.model_copy(update=changed)
    asyncio.run(_run(Project(settings, found.catalog, found.store)))


async def _run(asked: Project) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await run(asked, stop, _say)


def _say(at: Addresses) -> None:
    err.print(f"console       {at.console}", soft_wrap=True)
    err.print(f"SQL clients   {at.psql}", soft_wrap=True)
