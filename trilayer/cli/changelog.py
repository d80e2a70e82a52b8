"""`trilayer changelog`: writes merged views to Kafka, in the foreground."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from trilayer.operations.changelog import run_changelogs
from trilayer.operations.project import project
from trilayer_core.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Writes merged views to Kafka topics.")


@app.callback()
def changelog() -> None:
    """Writes merged views to Kafka topics."""


@app.command()
def run(
    ready_file: Annotated[
        Path | None, typer.Option(hidden=True, help="file to write once the topics are followed")
    ] = None,
) -> None:
    """Writes the catalog's changelogs until Ctrl-C or SIGTERM."""
    p = project()
    if not p.catalog.changelogs:
        raise UsageError(
            "the catalog must have changelogs, for them to be written; it has none; declare them:"
            " Catalog(changelogs=[Changelog(...)])"
        )
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def ready(_: object) -> None:
        logging.getLogger("trilayer.changelog").info(
            "running: %s", ", ".join(one.name for one in p.catalog.changelogs)
        )
        if ready_file:
            ready_file.write_text("ready")

    run_changelogs(p, stop, ready)
