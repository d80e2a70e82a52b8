"""`trilayer speed`: the speed layer in the foreground."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from cli.context import project
from speed_layer.run import run_speed

app = typer.Typer(no_args_is_help=True, help="The speed layer.")


@app.callback()
def _group() -> None:
    """Keeps `speed run` a command of its own."""


@app.command()
def run(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="begin anew from the cut of the oldest publication kept")
    ] = False,
    ready_file: Annotated[
        Path | None, typer.Option(hidden=True, help="file to write once the queries run")
    ] = None,
) -> None:
    """Covers what arrives, until Ctrl-C or SIGTERM."""
    p = project()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def ready(_: object) -> None:
        logging.getLogger("trilayer.speed").info(
            "running: %s", ", ".join(stream.name for stream in p.catalog.streams)
        )
        if ready_file:
            ready_file.write_text("ready")

    run_speed(p.catalog, p.settings, p.store, stop, rebuild=rebuild, on_ready=ready)
