"""`trilayer speed`: runs the speed layer in the foreground."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from speed_layer.run import run_speed
from trilayer.cli.context import stop_on_signal
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
    ready_file: Annotated[
        Path | None, typer.Option(hidden=True, help="file to write once the queries run")
    ] = None,
) -> None:
    """Runs the speed layer until Ctrl-C or SIGTERM."""
    p = project()
    stop = stop_on_signal("trilayer.speed", END_S)

    def ready(_: object) -> None:
        logging.getLogger("trilayer.speed").info(
            "running: %s", ", ".join(stream.name for stream in p.catalog.streams)
        )
        if ready_file:
            ready_file.write_text("ready")

    run_speed(p, stop, rebuild=rebuild, on_ready=ready)


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
