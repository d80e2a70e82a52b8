"""`trilayer speed`: runs the speed layer in the foreground."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from speed_layer.run import run_speed
from trilayer.cli.context import ReadyFile, ready, stop_on_signal
from trilayer.operations import definitions
from trilayer.operations.speed_restart import restart_speed
from trilayer_core.project import project

END_S = 4.0
"""The time limit for an orderly end after Ctrl-C, in seconds."""

app = typer.Typer(no_args_is_help=True, help="Runs the speed layer.")


@app.command()
def run(
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="rebuild from the cut of the oldest publication kept"),
    ] = False,
    ready_file: ReadyFile = None,
) -> None:
    """Runs the speed layer until Ctrl-C or SIGTERM."""
    p = project()
    stop = stop_on_signal("trilayer.speed", END_S)
    on_ready = ready("trilayer.speed", p.catalog.streams, ready_file)
    run_speed(p, stop, rebuild=rebuild, on_ready=on_ready)


@app.command()
def restart() -> None:
    """Makes `trilayer up` restart its speed layer with the definitions in the project's files.

    Everything else keeps running.
    """
    restart_speed(project())


@app.command("definitions", hidden=True)
def show_definitions(
    former: Annotated[
        str, typer.Option(help="fingerprints of `Rows` that need not be tried, as JSON by name")
    ] = "{}",
) -> None:
    """Prints the fingerprints of the definitions in the project's files, for `trilayer up`."""
    p = project()
    definitions.try_rows(p, json.loads(former))
    line = definitions.as_line(definitions.loaded(p.catalog, Path.cwd()))
    sys.stdout.write(f"\n{line}\n")
