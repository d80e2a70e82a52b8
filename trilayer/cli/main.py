"""The command line. Exit codes: 0 good, 1 found something wrong, 2 used wrong, 3 overtaken by a newer run or a newer definition."""

from __future__ import annotations

import platform
import sys
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup
from typer.main import get_group

from trilayer.cli.context import err, out, set_up_logging
from trilayer_core.errors import TrilayerError

COMMANDS = {
    "up": "trilayer.cli.stack:up",
    "demo": "trilayer.cli.demo:demo",
    "replay": "trilayer.cli.replay:replay",
    "batch": "trilayer.cli.batch:app",
    "speed": "trilayer.cli.speed:app",
    "sql": "trilayer.cli.sql:sql",
    "status": "trilayer.cli.status:status",
    "doctor": "trilayer.cli.doctor:doctor",
    "quarantine": "trilayer.cli.quarantine:app",
    "verify": "trilayer.cli.verify:verify",
    "notebooks": "trilayer.cli.notebooks:notebooks",
}
"""Where each command is defined: a function, or an app with commands of its own."""


class _Commands(Mapping[str, Any]):
    """The commands by name. Each is imported when it is asked for: all of them take a second longer."""

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = COMMANDS[name].partition(":")
        found = getattr(import_module(module), attribute)
        alone = typer.Typer()
        alone.callback()(lambda: None)
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=name)
        else:
            alone.command(name)(found)
        return get_group(alone).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands()  # type: ignore[assignment]  # nothing is added to it


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
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="what is installed")
    ] = False,
) -> None:
    """Views over Kafka topics, written once: exact over all history, fresh to the second."""


def main() -> None:
    """Entry point of the `trilayer` command."""
    set_up_logging()
    try:
        app()
    except TrilayerError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:  # noqa: BLE001  # the last resort: whatever it is, it is told and the exit code says so
        traceback.print_exc()
        sys.exit(1)
