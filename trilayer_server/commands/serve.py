"""`trilayer serve`: answers SQL clients and browsers."""

from __future__ import annotations

import asyncio
import json
import signal
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from trilayer.cli.context import out
from trilayer_core.project import Project, project
from trilayer_server.serving import Addresses
from trilayer_server.serving import serve as run

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
    any_port: Annotated[
        bool, typer.Option("--any-port", help="use free ports if these are in use")
    ] = False,
    ready_file: Annotated[
        Path | None,
        typer.Option(hidden=True, help="file for the addresses, written once clients can connect"),
    ] = None,
) -> None:
    """Answers SQL clients and browsers, until Ctrl-C."""
    loaded = project()
    options = {"port": port, "http_port": http_port, "host": host}
    chosen = {name: value for name, value in options.items() if value is not None}
    settings = loaded.settings.model_copy(update={"serve": loaded.settings.serve | chosen})
    served = Project(settings, loaded.catalog, loaded.store)
    asyncio.run(_run(served, any_port=any_port, ready_file=ready_file))


async def _run(served: Project, *, any_port: bool, ready_file: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await run(served, stop, partial(_report, ready_file), any_port=any_port)


def _report(ready_file: Path | None, at: Addresses) -> None:
    if ready_file:
        next_ = ready_file.with_suffix(".next")
        document = {
            "console": at.console, "ports": [at.wire, at.http], "psql": at.psql, "notes": at.notes,
        }  # fmt: skip
        next_.write_text(json.dumps(document))
        next_.replace(ready_file)
    out.print(f"console       {at.console}", soft_wrap=True)
    out.print(f"SQL clients   {at.psql}", soft_wrap=True)
    for note in at.notes:
        out.print(note, soft_wrap=True)
