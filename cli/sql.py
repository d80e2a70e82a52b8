"""`trilayer sql`: an answer on stdout, what it stands on on stderr."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

import serving_layer
from cli.context import err, out, project
from serving_layer.connection import LAYERS, Provenance, Result
from trilayer.errors import UsageError, did_you_mean


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


def sql(
    query: Annotated[
        str, typer.Argument(help="one SELECT in DuckDB's dialect, or the name of a view or query")
    ],
    layer: Annotated[str, typer.Option(help="merged, batch or speed")] = "merged",
    format_: Annotated[Format, typer.Option("--format", help="how to print the rows")] = Format.table,
) -> None:
    """Asks the views."""
    if layer not in LAYERS:
        raise UsageError(
            f"--layer must be one of {', '.join(LAYERS)}; got {layer!r}{did_you_mean(layer, LAYERS)}"
        )
    p = project()
    text = query.strip().rstrip(";")
    if text.replace("_", "").isalnum() and not text[0].isdigit():
        text = f"FROM {text}"
    with serving_layer.connect(p.catalog, p.settings, p.store) as connection:
        result = connection.sql(text, layer)
    _print(result, format_)
    if format_ is Format.table:
        err.print(f"[dim]{describe(result.provenance)}[/]")


def _print(result: Result, format_: Format) -> None:
    if format_ is Format.json:
        sys.stdout.write(
            json.dumps(
                [dict(zip(result.columns, map(_plain, row), strict=True)) for row in result.rows()], indent=1
            )
            + "\n"
        )
    elif format_ is Format.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows([["" if value is None else _plain(value) for value in row] for row in result.rows()])
    else:
        table = Table(*result.columns)
        for row in result.rows():
            table.add_row(*("[dim]NULL[/]" if value is None else _text(value) for value in row))
        out.print(table)


def _plain(value: object) -> object:
    """A value as JSON has it; NaN and the infinities, which it has not, as text."""
    if isinstance(value, bool | int | str | type(None)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    isoformat = getattr(value, "isoformat", None)
    if isoformat:
        return isoformat().replace("+00:00", "Z")
    text = str(value)
    return int(text) if text.lstrip("-").isdigit() else text


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return str(_plain(value)).replace("[", "\\[")


def describe(provenance: Provenance) -> str:
    """One line of what an answer stands on."""
    base = (
        f"publication {provenance.version}, T={provenance.t}" if provenance.version else "no publication yet"
    )
    parts = []
    for name, stream in provenance.streams.items():
        parts.append(
            f"{name}: {stream.speed_events:,} events since the cut"
            + (f" ({stream.note})" if stream.note else "")
        )
    return f"{base}; {'; '.join(parts)}; {'exact' if provenance.exact else 'approximate'}"
