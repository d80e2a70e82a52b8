"""The command line. Exit codes: 0 good, 1 found something wrong, 2 used wrong, 3 overtaken by a newer run or a newer definition."""

from __future__ import annotations

import sys
import traceback

import typer

from cli import batch, demo, doctor, quarantine, replay, speed, sql, stack, status, verify
from cli.context import err, set_up_logging
from trilayer.errors import TrilayerError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Views over Kafka topics, written once: exact over all history, fresh to the second.",
)
app.command("up")(stack.up)
app.command("demo")(demo.demo)
app.command("replay")(replay.replay)
app.add_typer(batch.app, name="batch")
app.add_typer(speed.app, name="speed")
app.command("sql")(sql.sql)
app.command("status")(status.status)
app.command("doctor")(doctor.doctor)
app.add_typer(quarantine.app, name="quarantine")
app.command("verify")(verify.verify)


def main() -> None:
    """Entry point of the `trilayer` command."""
    set_up_logging()
    try:
        app()
    except TrilayerError as error:
        err.print(f"[bold red]error:[/] {_plain(error)}", soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:  # noqa: BLE001  # the last resort: whatever it is, it is told and the exit code says so
        traceback.print_exc()
        sys.exit(1)


def _plain(error: Exception) -> str:
    return str(error).replace("[", "\\[")
