"""`trilayer alerts`: evaluates events as they arrive, in the foreground, and shows alerts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

import typer

import serving_layer
from trilayer.cli.context import ReadyFile, err, ready, stop_on_signal
from trilayer.operations.values import plain
from trilayer_core.errors import UsageError
from trilayer_core.project import project
from trilayer_core.runtime.terminal import visible, write

END_S = 4.0
"""The time limit for an orderly end after Ctrl-C, in seconds."""

app = typer.Typer(no_args_is_help=True, help="Evaluates alerts as events arrive, and shows them.")


@app.callback()
def alerts() -> None:
    """Evaluates alerts as events arrive, and shows them."""


@app.command()
def run(ready_file: ReadyFile = None) -> None:
    """Evaluates the catalog's alerts for each event until Ctrl-C or SIGTERM."""
    from speed_layer.alerts.run import run_alerts  # so that `tail` starts without Spark

    p = project()
    if not p.catalog.alerts:
        raise UsageError(
            "the catalog must have alerts, for events to be judged; it has none; declare them:"
            " Catalog(alerts=[Alert(...)])"
        )
    stop = stop_on_signal("trilayer.alerts", END_S)
    on_ready = ready("trilayer.alerts", p.catalog.alerts, ready_file)
    run_alerts(p, stop, on_ready=on_ready)


@app.command()
def tail(
    name: Annotated[str, typer.Argument(help="the alert")],
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="begin with the oldest alert that the topic has"),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="print each alert as a JSON object with all columns")
    ] = False,
) -> None:
    """Prints alerts as they arrive, until Ctrl-C.

    A line has the time at which the event was appended to its topic, the delay until the alert was
    appended, both by the broker's clock, the key, and the other columns of the event.
    """
    p = project()
    line = json_line if as_json else text_line
    with (
        serving_layer.connect(p.catalog, p.settings, p.store, keep=False) as connection,
        connection.alerts(name, from_beginning=from_beginning) as alerts,
    ):
        err.print(
            f"[dim]alerts of {name} {'from the beginning on' if from_beginning else 'from now on'};"
            " Ctrl-C ends it[/]"
        )
        try:
            for alert in alerts:
                write(line(alert) + "\n")
                sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def latency_ms(alert: serving_layer.RaisedAlert) -> int:
    """Returns the time from the event's append to that of the alert, in ms."""
    return (alert.seen_at - alert.created_at) // timedelta(milliseconds=1)


def text_line(alert: serving_layer.RaisedAlert) -> str:
    """Returns an alert for people."""
    key, event = alert.key or {}, alert.event or {}
    others = {name: value for name, value in event.items() if name not in key}
    created = plain(alert.created_at)
    text = f"{created}  {latency_ms(alert)} ms  {_pairs(key)}  {_pairs(others)}".rstrip()
    return visible(text)


def json_line(alert: serving_layer.RaisedAlert) -> str:
    """Returns an alert as a JSON object."""
    return json.dumps(
        {
            "id": alert.id,
            "alert": alert.alert,
            "partition": alert.partition,
            "offset": alert.offset,
            "created_at": plain(alert.created_at),
            "seen_at": plain(alert.seen_at),
            "latency_ms": latency_ms(alert),
            "key": plain(alert.key),
            "event": plain(alert.event),
            "last": plain(alert.last),
            "profile": plain(alert.profile),
            "profile_version": alert.profile_version,
        },
        ensure_ascii=False,
    )


def _pairs(columns: Mapping[str, object]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in columns.items())


def _value(value: object) -> str:
    """Returns a value in one word, or in JSON."""
    printed = plain(value)
    if (
        isinstance(printed, str)
        and printed.isprintable()
        and not set(printed) & set(' "=')
        and printed
    ):
        return printed
    return "NULL" if printed is None else json.dumps(printed, ensure_ascii=False)
