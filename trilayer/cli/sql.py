"""`trilayer sql`: prints answers to stdout and their provenance to stderr."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol

import duckdb
import typer
from rich.markup import escape
from rich.table import Table

import serving_layer
from serving_layer.connection import Connection, Relations
from serving_layer.result import Provenance, Result
from serving_layer.tables import LAYERS, Layer
from trilayer.cli.context import err, out
from trilayer.operations.values import as_text, plain
from trilayer_core.errors import TrilayerError, UsageError, did_you_mean
from trilayer_core.project import project
from trilayer_core.runtime.progress import shown
from trilayer_core.runtime.settings import Settings, load_settings
from trilayer_core.runtime.terminal import write

logger = logging.getLogger("trilayer.sql")


class AnySnapshot(Protocol):
    """A snapshot of a connection to the store or, by an extension, to a server."""

    def sql(self, query: str, layer: Layer = ...) -> Result:
        """Answers a query."""
        ...


class AnyConnection(Protocol):
    """A connection to the store or, by an extension, to a server."""

    @property
    def catalog(self) -> Any:
        """The catalog, or what a server reports of it."""
        ...

    def snapshot(self) -> AbstractContextManager[AnySnapshot]:
        """Opens a snapshot."""
        ...

    def with_lag(self, provenance: Provenance) -> Provenance:
        """Returns the provenance with the lag of each stream."""
        ...


Relate = Callable[[str], Relations | None]
"""Returns what SQL names beside the views, such as `trilayer.quarantine`."""


def _nothing_beside(text: str) -> None:
    pass


class Format(StrEnum):
    """The output format."""

    table = "table"
    json = "json"
    csv = "csv"


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help=(
                "SELECTs in DuckDB's dialect, separated by `;`, or the name of a view or query;"
                " if missing, a prompt, or the input of a pipe"
            )
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="file with the query; - for standard input"),
    ] = None,
    layer: Annotated[str, typer.Option(help="merged, batch or speed")] = "merged",
    format_: Annotated[Format, typer.Option("--format", help="output format")] = Format.table,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            help="NAME=FILE: a lookup table to join, from a CSV, JSON or Parquet file",
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            help=(
                "query the HTTP port of `trilayer serve`, such as http://127.0.0.1:8433, instead of"
                " the store; with a password http://NAME:PASSWORD@HOST:PORT"
            )
        ),
    ] = None,
) -> None:
    """Queries the views in SQL."""
    if query is not None and file is not None:
        raise UsageError("either QUERY or --file must say what is asked; got both")
    chosen = _layer(layer)
    if server is not None:
        if table:
            raise UsageError(
                "--table must be asked of the store, because a server has no file of yours; got it"
                " with --server; leave one of them out"
            )
        settings, text = load_settings(), query if query is not None else _read(file)
        with serving_layer.connect(server) as remote:
            _answer(remote, text, settings, chosen, format_)
        return
    p = project()
    text = query if query is not None else _read(file)
    # One question does not pay for the answers to all.
    keep = text is None
    with serving_layer.connect(p.catalog, p.settings, p.store, keep=keep) as connection:
        for given in table or []:
            name, equals, path = given.partition("=")
            if not (name and equals and path):
                raise UsageError(
                    f"--table must be NAME=FILE, such as zones=zones.csv; got {given!r}"
                )
            connection.table(name, path)
        from trilayer.operations.system_relations import relations_of  # imports take a moment

        relate = partial(relations_of, project=p, connection=connection)
        _answer(connection, text, p.settings, chosen, format_, relate)


def _answer(
    connection: AnyConnection,
    text: str | None,
    settings: Settings,
    layer: Layer,
    format_: Format,
    relate: Relate = _nothing_beside,
) -> None:
    """Answers the statements of a text; without one, those of a prompt.

    `relate` returns what a text names beside the views; a server has that itself.
    """
    if text is None:
        Prompt(connection, settings.home / "sql_history", layer, format_, relate).run()
        return
    asked = statements(text)
    if format_ is Format.json and len(asked) > 1:
        raise UsageError(f"--format json must be of one SELECT; got {len(asked)}")
    with loaded(connection, relate(text)) as snapshot:
        for statement in asked:
            ask(connection, snapshot, statement, layer, format_)


@contextmanager
def loaded(connection: AnyConnection, relations: Relations | None = None) -> Iterator[AnySnapshot]:
    """Opens a snapshot, and shows progress if loading new data takes long."""
    with ExitStack() as stack:
        with shown("Loading the views", echo=logger.info, after_s=2):
            snapshot: AnySnapshot
            if isinstance(connection, Connection):
                snapshot = stack.enter_context(connection.snapshot(relations=relations))
            else:
                snapshot = stack.enter_context(connection.snapshot())
        yield snapshot


def _layer(name: str) -> Layer:
    for layer in LAYERS:
        if name == layer:
            return layer
    raise UsageError(
        f"layer must be one of {', '.join(LAYERS)}; got {name!r}{did_you_mean(name, LAYERS)}"
    )


def _read(file: Path | None) -> str | None:
    """Returns the query in a file or from a pipe; None if there is a terminal for a prompt."""
    if file is None and sys.stdin.isatty():
        return None
    if file is None or str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--file must be a file of text; got {str(file)!r}: {error}") from None


def statements(text: str) -> list[str]:
    """Returns the statements of a text.

    A name alone stands for all rows of that view, query or alert.
    """
    name = text.strip().rstrip(";").strip()
    if not name:
        raise UsageError("QUERY must be a SELECT, or the name of a view or query; got nothing")
    if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)?", name):
        return [f"FROM {name}"]
    try:
        return [statement.query for statement in duckdb.extract_statements(text)] or [text]
    except duckdb.Error:
        return [text]  # the error is reported when it is run


def ask(
    connection: AnyConnection,
    snapshot: AnySnapshot,
    query: str,
    layer: Layer,
    format_: Format,
) -> None:
    """Prints the answer to one query, and below a table its provenance."""
    result = snapshot.sql(query, layer)
    _print(result, format_)
    if format_ is Format.table:
        provenance = describe(connection.with_lag(result.provenance), layer)
        err.print(f"[dim]{escape(provenance)}[/]", soft_wrap=True)


HELP = """A question ends with `;`, or is the name of a view or query.
.views         the views, and the queries and alerts of the catalog
.layer LAYER   merged, batch or speed
.quit          or Ctrl-D"""


class Prompt:
    """An interactive prompt with a persistent history and completion of names."""

    def __init__(
        self,
        connection: AnyConnection,
        history: Path,
        layer: Layer,
        format_: Format,
        relate: Relate = _nothing_beside,
    ) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory

        history.parent.mkdir(parents=True, exist_ok=True)
        self._connection, self._layer, self._format = connection, layer, format_
        self._relate = relate
        words = sorted({*self._names(), *self._columns(), *_WORDS})
        self._session: Any = PromptSession(
            history=FileHistory(str(history)),
            completer=WordCompleter(words, ignore_case=True),
            complete_while_typing=False,
        )

    def _names(self) -> list[str]:
        catalog = self._connection.catalog
        return [
            *(view.name for view in catalog.views),
            *(query.name for query in catalog.queries),
            *(f"alerts.{alert.name}" for alert in catalog.alerts),
        ]

    def _columns(self) -> list[str]:
        views = self._connection.catalog.views
        return [name for view in views for name in view.output]

    def run(self) -> None:
        """Runs until the user leaves."""
        err.print("[dim].help says what there is besides SQL[/]")
        held: list[str] = []
        while True:
            try:
                line = self._session.prompt("...> " if held else f"{self._layer}> ")
            except KeyboardInterrupt:
                held = []
                continue
            except EOFError:
                return
            if not held and line.strip() in (".quit", ".exit", "quit", "exit", r"\q"):
                return
            held.append(line)
            text = "\n".join(held).strip()
            named = text in self._names()
            if text and not (text.endswith(";") or text.startswith(".") or named):
                continue
            held = []
            try:
                self._answer(text)
            except KeyboardInterrupt:
                err.print("interrupted")
            except TrilayerError as error:
                err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)

    def _answer(self, text: str) -> None:
        command, _, rest = text.partition(" ")
        if command == ".layer":
            self._layer = _layer(rest.strip())
        elif command == ".views":
            out.print("\n".join(self._names()))
        elif text.startswith("."):
            out.print(HELP)
        elif text:
            with loaded(self._connection, self._relate(text)) as snapshot:
                for statement in statements(text):
                    ask(self._connection, snapshot, statement, self._layer, self._format)


_WORDS = [
    "select", "from", "where", "group", "by", "order", "having", "limit", "join", "left",
    "using", "on", "and", "or", "not", "in", "is", "null", "as", "distinct", "count", "sum",
    "avg", "min", "max", "desc", "asc", "between", "case", "when", "then", "else", "end",
    "cast", "interval", "with", "qualify", "over", "partition", "explain", "describe",
]  # fmt: skip


def _print(result: Result, format_: Format) -> None:
    if format_ is Format.json:
        write(
            json.dumps(
                [dict(zip(result.columns, map(plain, row), strict=True)) for row in result.rows()],
                indent=1,
            )
            + "\n"
        )
    elif format_ is Format.csv:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(
            [["" if value is None else plain(value) for value in row] for row in result.rows()]
        )
        write(text.getvalue())
    else:
        table = Table(*map(escape, result.columns))
        for row in result.rows():
            table.add_row(*("[dim]NULL[/]" if value is None else as_text(value) for value in row))
        out.print(table)


def describe(provenance: Provenance, layer: str = "merged") -> str:
    """Returns the provenance of an answer: a line for the publication, each stream, and each bound.

    A stream's answer is exact in that each event up to the head or cut counts once. A column that
    is approximate nevertheless has a line of its own.

    Args:
        provenance: The provenance, with the lag if it is known.
        layer: The layer that answered. An answer of the batch layer ends at the cut.
    """
    lines = [
        f"publication {provenance.version}, T={provenance.t}"
        if provenance.version
        else "no publication yet"
    ]
    for name, stream in provenance.streams.items():
        since = f"{stream.speed_events:,} events since the cut"
        if layer == "batch":
            state = f"exact up to the cut; {since} are not in it"
        elif stream.note:
            state = f"{stream.note}; {since}"
        elif stream.lag is not None and not stream.lag.events:
            state = f"exact, with {since}; none waits"
        else:
            state = f"exact up to the head, with {since}"
        if stream.lag is None:
            state += "; how many wait is unknown, since no broker answers"
        elif stream.lag.events:
            state += (
                f"; {stream.lag.events:,} more wait, the oldest for {stream.lag.seconds:,.1f} s"
            )
        lines.append(f"{name}: {state}")
    lines += [
        f"approximate: {view}.{column}, {bound}"
        for view, columns in provenance.approximate.items()
        for column, bound in columns.items()
    ]
    return "\n".join(lines)
