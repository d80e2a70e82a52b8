"""`trilayer replay`: sends the rows of a file as events of a stream, at a given rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich import markup
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from trilayer.cli.context import err, out
from trilayer.operations.files.reading import read_events
from trilayer.operations.sending import Sent, send
from trilayer_core.definitions.stream import Stream
from trilayer_core.log.broker import Log
from trilayer_core.project import project


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            help=(
                "CSV (.csv, .tsv, .txt), JSON Lines (.jsonl, .ndjson, .json) or Parquet; text"
                " may be compressed (.gz, .bz2, .xz)"
            )
        ),
    ],
    stream: Annotated[str, typer.Option(help="the stream of the events")],
    rate: Annotated[float, typer.Option(min=0, help="events per second; 0: no limit")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="send at most this many")] = None,
    skip: Annotated[int, typer.Option(min=0, help="skip this many at the beginning")] = 0,
    delimiter: Annotated[
        str | None,
        typer.Option(help="delimiter of a CSV file; by default detected from its first line"),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="encoding of text, such as latin-1; by default UTF-8")
    ] = None,
    escape: Annotated[
        str | None,
        typer.Option(
            help=(
                "what stands before a quotation mark in a quoted cell of a CSV file: another one,"
                " or a backslash, as Spark writes; by default detected from the file"
            )
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="names of a CSV file's columns, separated by commas, if it has no header"
        ),
    ] = None,
) -> None:
    """Sends the rows of a file to a stream's topic, in order.

    JSON is sent unchanged. A row that does not fit the stream's schema is sent as well, and
    quarantined with its reason; `trilayer quarantine list --jsonl` has its position in the file.
    """
    p = project()
    target = p.catalog.stream(stream)
    names = [name.strip() for name in columns.split(",")] if columns else None
    events = read_events(
        file, target, delimiter=delimiter, encoding=encoding, columns=names, escape=escape
    )
    with Log(p.settings.bootstrap_servers) as log:
        log.ensure(target, p.settings.replication_factor)
    servers = p.settings.bootstrap_servers
    with _shown(stream) as report:
        sent = send(
            events, target, servers, file.name, rate=rate, skip=skip, limit=limit, report=report
        )
    for line in summary(sent, target, encoding):
        out.print(markup.escape(line))
    if events.left_out:
        err.print(markup.escape(f"{file.name}: {events.left_out}"))
    if sent.interrupted:
        raise typer.Exit(130)


def summary(sent: Sent, stream: Stream, encoding: str | None) -> Iterator[str]:
    """Yields the lines that are printed after a replay.

    Args:
        sent: What was sent.
        stream: To whose topic.
        encoding: The encoding that the user has named, if any.
    """
    yield f"{sent.events:,} event{'' if sent.events == 1 else 's'} sent to {stream.topic}"
    yield "those that do not fit its schema will be counted by `trilayer quarantine reasons`"
    if sent.first is not None:
        yield (
            f"{sent.faulty:,} of them go to quarantine because of the file: the first is"
            f" {sent.first.place}: {sent.first.fault}"
        )
    if sent.undecoded and encoding is None:
        yield (
            "If the file is not in UTF-8, --encoding names its encoding, such as --encoding"
            " latin-1. Events that fit are counted already: sent again, they count twice"
        )
    if sent.unknown:
        yield str(sent.unknown)


@contextmanager
def _shown(stream: str) -> Iterator[Callable[[Sent, float, float], None]]:
    """Shows the progress on a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[sent]:,} events"),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(f"replay {stream}", total=1.0, sent=0, speed="")

        def report(sent: Sent, done: float, elapsed_s: float) -> None:
            speed = f"{sent.events / max(elapsed_s, 1e-9):,.0f}/s"
            progress.update(task, completed=done, sent=sent.events, speed=speed)

        yield report
