"""The command line.

Exit codes: 0 success, 1 something is wrong, 2 invalid usage, 3 overtaken by a newer run or
definition, or stopped by a hold.
"""

from __future__ import annotations

import platform
import sys
import traceback
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from trilayer.cli.context import err, out, set_up_logging
from trilayer_core.errors import TrilayerError
from trilayer_core.runtime.terminal import visible


@dataclass(frozen=True)
class Entry:
    """A command in the list of `trilayer --help`, without importing its module.

    Attributes:
        at: Its definition, as `module:attribute`: a function, or an app with commands of its own.
        help: The first paragraph of its own help.
    """

    at: str
    help: str


COMMANDS = {
    "up": Entry("trilayer.cli.up:up", "Runs the local stack until Ctrl-C."),
    "demo": Entry(
        "trilayer.cli.demo:demo",
        "Sends an example's events through the whole system and proves the answer.",
    ),
    "replay": Entry(
        "trilayer.cli.replay:replay",
        "Sends the rows of a file to a stream's topic, in order.",
    ),
    "batch": Entry(
        "trilayer.cli.batch:app", "Runs the batch layer: runs, single steps, history, rollback."
    ),
    "speed": Entry("trilayer.cli.speed:app", "Runs the speed layer."),
    "alerts": Entry("trilayer.cli.alerts:app", "Judges events as they arrive, and shows alerts."),
    "changelog": Entry("trilayer.cli.changelog:app", "Writes merged views to Kafka topics."),
    "sql": Entry("trilayer.cli.sql:sql", "Queries the views in SQL."),
    "serve": Entry("trilayer.cli.serve:serve", "Answers SQL clients and browsers, until Ctrl-C."),
    "user": Entry("trilayer.cli.user:app", "Users of `trilayer serve`, and their passwords."),
    "status": Entry(
        "trilayer.cli.status:status", "Shows the status of streams, views and processes."
    ),
    "doctor": Entry(
        "trilayer.cli.doctor:doctor",
        "Checks this machine, the settings, the catalog, the broker, the topics and the store.",
    ),
    "quarantine": Entry(
        "trilayer.cli.quarantine:app", "Shows, corrects or discards quarantined events."
    ),
    "verify": Entry(
        "trilayer.cli.verify:verify", "Verifies all answers against the log and the master dataset."
    ),
    "notebooks": Entry(
        "trilayer.cli.notebooks:notebooks",
        "Copies the notebooks into a folder, for your own catalog and store.",
    ),
}


def load(name: str) -> TyperGroup | TyperCommand:
    """Loads the command with this name from its module.

    Loading all modules with their engines would take seconds.
    """
    module, _, attribute = COMMANDS[name].at.partition(":")
    defined = getattr(import_module(module), attribute)
    alone = typer.Typer()
    alone.callback()(lambda: None)
    if isinstance(defined, typer.Typer):
        alone.add_typer(defined, name=name)
    else:
        alone.command(name)(defined)
    command = get_group(alone).commands[name]
    assert isinstance(command, TyperGroup | TyperCommand)
    return command


class _Group(TyperGroup):
    """The commands of COMMANDS, which are listed by their entries and loaded when they run."""

    def __init__(self, **options: Any) -> None:
        listed = {name: TyperCommand(name, help=entry.help) for name, entry in COMMANDS.items()}
        super().__init__(**{**options, "commands": listed})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else None, rest


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _tell_version(asked: bool) -> None:
    if asked:
        out.print(f"trilayer {version('trilayer')}, Python {platform.python_version()}")
        raise typer.Exit


@app.callback()
def _trilayer(
    version_: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="print the installed version"
        ),
    ] = False,
) -> None:
    """Views over Kafka topics, written once: exact over all history, fresh to the second."""


def main() -> None:
    """The entry point of the `trilayer` command."""
    set_up_logging()
    try:
        app()
    except TrilayerError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:  # noqa: BLE001  # the last resort: any error is reported and sets the exit code
        sys.stderr.write(visible(traceback.format_exc()))
        sys.exit(1)
