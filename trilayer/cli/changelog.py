"""`trilayer changelog`: writes merged views to Kafka, in the foreground."""

from __future__ import annotations

import typer

from trilayer.cli.context import ReadyFile, ready, stop_on_signal
from trilayer.operations.changelog import run_changelogs
from trilayer_core.errors import UsageError
from trilayer_core.project import project

END_S = 3.0
"""The time limit for an orderly end after Ctrl-C, in seconds."""

app = typer.Typer(no_args_is_help=True, help="Writes merged views to Kafka topics.")


@app.callback()
def changelog() -> None:
    """Writes merged views to Kafka topics."""


@app.command()
def run(ready_file: ReadyFile = None) -> None:
    """Writes the catalog's changelogs until Ctrl-C or SIGTERM."""
    p = project()
    if not p.catalog.changelogs:
        raise UsageError(
            "the catalog must have changelogs, for them to be written; it has none; declare them:"
            " Catalog(changelogs=[Changelog(...)])"
        )
    stop = stop_on_signal("trilayer.changelog", END_S)
    run_changelogs(p, stop, ready("trilayer.changelog", p.catalog.changelogs, ready_file))
