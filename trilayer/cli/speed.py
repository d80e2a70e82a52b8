"""`trilayer speed`: the speed layer in the foreground."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from speed_layer.run import run_speed
from trilayer.cli.stack import SPEED_AGAIN
from trilayer.local import processes
from trilayer.operations import definitions
from trilayer.operations.project import project
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.errors import EnvironmentFault, UsageError
from trilayer_core.runtime.file_lock import unless_held
from trilayer_core.runtime.progress import shown
from trilayer_core.runtime.settings import load_settings

END_S = 4.0
"""How long the speed layer may take to end in order after Ctrl-C."""

app = typer.Typer(no_args_is_help=True, help="The speed layer.")


@app.command()
def run(
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="begin anew from the cut of the oldest publication kept"),
    ] = False,
    ready_file: Annotated[
        Path | None, typer.Option(hidden=True, help="file to write once the queries run")
    ] = None,
) -> None:
    """Covers what arrives, until Ctrl-C or SIGTERM."""
    p = project()
    stop = threading.Event()

    def end(*_: object) -> None:
        if not stop.is_set():
            stop.set()
            logging.getLogger("trilayer.speed").info("stopping")
            # A session that is being started is not waited for: what is committed is committed.
            patience = threading.Timer(END_S, os._exit, (0,))
            patience.daemon = True
            patience.start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)

    def ready(_: object) -> None:
        logging.getLogger("trilayer.speed").info(
            "running: %s", ", ".join(stream.name for stream in p.catalog.streams)
        )
        if ready_file:
            ready_file.write_text("ready")

    run_speed(p.catalog, p.settings, p.store, stop, rebuild=rebuild, on_ready=ready)


@app.command()
def restart() -> None:
    """Has `trilayer up` start its speed layer again.

    With what the project's files hold now; all else runs on.
    """
    p = project()
    home = p.settings.home.resolve()
    with unless_held(home / "up.lock") as free:
        if free:
            raise UsageError(
                f"`trilayer up` must run in {Path.cwd()}, for its speed layer to be started again;"
                " it does not; run `trilayer up`, or end and start `trilayer speed run` where"
                " that runs"
            )
    again, ready = home / SPEED_AGAIN, home / "speed.ready"
    again.touch()
    pause = threading.Event()
    with shown("Starting the speed layer again", echo=logging.getLogger("trilayer.speed").info):
        while again.exists() or not ready.exists():
            last = processes.last_started(home, "speed")
            if not again.exists() and last is not None and not processes.is_alive(last):
                raise EnvironmentFault(
                    f"the speed layer ended while it started:\n{processes.log_tail(last)}"
                )
            with unless_held(home / "up.lock") as free:
                if free:
                    raise EnvironmentFault("`trilayer up` ended meanwhile; run it again")
            pause.wait(0.2)


@app.command("definitions", hidden=True)
def show_definitions() -> None:
    """The fingerprints of what the project's files define, for `trilayer up`."""
    catalog = load_catalog(load_settings().catalog)
    sys.stdout.write("\n" + definitions.as_line(definitions.loaded(catalog, Path.cwd())) + "\n")
