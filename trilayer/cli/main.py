"""The command line.

Exit codes: 0 success, 1 something is wrong, 2 invalid usage, 3 overtaken by a newer run or
definition, or stopped by a hold.
"""

from __future__ import annotations

import platform
import re
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from trilayer.cli.context import err, out, set_up_logging
from trilayer_core.errors import EnvironmentFault, TrilayerError, UsageError
from trilayer_core.extension import Command, extensions
from trilayer_core.runtime.terminal import visible

COMMANDS = {
    "replay": Command(
        "trilayer.cli.replay:replay",
        "Sends the rows of a file to a stream's topic, in order.",
    ),
    "batch": Command(
        "trilayer.cli.batch:app", "Runs the batch layer: runs, single steps, history, rollback."
    ),
    "speed": Command("trilayer.cli.speed:app", "Runs the speed layer."),
    "sql": Command("trilayer.cli.sql:sql", "Queries the views in SQL."),
    "status": Command(
        "trilayer.cli.status:status", "Shows the status of streams, views and processes."
    ),
    "quarantine": Command(
        "trilayer.cli.quarantine:app", "Shows, corrects or discards quarantined events."
    ),
    "verify": Command(
        "trilayer.cli.verify:verify", "Verifies all answers against the log and the master dataset."
    ),
    "notebooks": Command(
        "trilayer.cli.notebooks:notebooks",
        "Copies the notebooks into a folder, for your own catalog and store.",
    ),
}
"""The commands that need no extension."""

FIRST = ("up", "demo", "doctor", "replay", "batch", "speed", "alerts", "changelog", "sql", "serve")
"""The order of the first commands in the help; all others follow by name."""


def commands() -> dict[str, Command]:
    """Returns all commands by name, those of extensions among them.

    Raises:
        UsageError: An extension has a command of the name of another one.
        EnvironmentFault: An extension does not say where one of its commands is.
    """
    named = dict(COMMANDS)
    for extension, adding in extensions().items():
        for name, command in adding.commands().items():
            if name in named:
                raise UsageError(
                    f"the command {name!r} of the extension {extension!r} must have a name of its"
                    " own; another command has it; rename it or remove the extension"
                )
            entry = getattr(command, "at", command)
            if not (isinstance(command, Command) and isinstance(entry, str) and _AT.match(entry)):
                raise _unusable(name, extension, f"{entry!r}")
            named[name] = command
    ordered = [name for name in FIRST if name in named]
    return {name: named[name] for name in (*ordered, *sorted({*named} - {*ordered}))}


_AT = re.compile(r"[\w.]+:\w+\Z")


def _unusable(name: str, extension: str, got: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"the command {name!r} of the extension {extension!r} must be a Command that names a"
        f" function or a typer app as 'module:attribute'; got {got}; correct it, or remove the"
        " extension"
    )


def load(name: str) -> TyperGroup | TyperCommand:
    """Loads the command with this name from its module.

    Loading all modules with their engines would take seconds.

    Raises:
        EnvironmentFault: There is no such module, or it has no such function or app.
    """
    command = COMMANDS.get(name) or commands()[name]
    module, _, attribute = command.at.partition(":")
    try:
        defined = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:  # of the module itself, not of what it imports
        if command.extra or not f"{module}.".startswith(f"{error.name}."):
            raise
        defined = None
    if not callable(defined):
        of = next(of for of, adding in extensions().items() if name in adding.commands())
        what = "which is no function" if defined is not None else "which does not exist"
        raise _unusable(name, of, f"{command.at!r}, {what}")
    alone = typer.Typer()
    alone.callback()(lambda: None)
    if isinstance(defined, typer.Typer):
        alone.add_typer(defined, name=name)
    else:
        alone.command(name)(defined)
    loaded = get_group(alone).commands[name]
    assert isinstance(loaded, TyperGroup | TyperCommand)
    return loaded


def _listed(named: Mapping[str, Command]) -> dict[str, Any]:
    return {name: TyperCommand(name, help=entry.help) for name, entry in named.items()}


class _Group(TyperGroup):
    """The commands, which are listed by their descriptions and loaded when they run.

    Those of extensions are added for the help, and for a name that is not built in: to search the
    installed packages for extensions takes a tenth of a second.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": _listed(COMMANDS)})

    def list_commands(self, ctx: Any) -> list[str]:
        self.commands = _listed(commands())
        return [*self.commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self.list_commands(ctx)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        ctx.invoked_subcommand = name
        return name, load(name) if name else None, rest

    def invoke(self, ctx: Any) -> Any:
        """Runs a command.

        Raises:
            EnvironmentFault: A package of the extra that the command needs is not installed,
                whether its module imports it or what runs later.
        """
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            command = commands().get(ctx.invoked_subcommand or "")
            if command is None or not command.extra:
                raise
            raise EnvironmentFault(
                f"`trilayer {ctx.invoked_subcommand}` needs the package {error.name}, which is not"
                f" installed; run: pip install 'trilayer[{command.extra}]'"
            ) from None


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
