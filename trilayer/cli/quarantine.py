"""`trilayer quarantine`: shows quarantined events, and sends corrections or discards them."""

from __future__ import annotations

import json
import re
import sys
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from trilayer.cli.context import err, out, print_json
from trilayer.operations.corrections import send_corrections
from trilayer.operations.quarantine import (
    Quarantined,
    choose,
    count_reasons,
    event_at,
    of_streams,
)
from trilayer.operations.quarantine import discard as discard_events
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import UsageError
from trilayer_core.project import Project, project, who
from trilayer_core.runtime.progress import shown
from trilayer_core.runtime.terminal import write

app = typer.Typer(no_args_is_help=True, help="Shows, corrects or discards quarantined events.")

_WIDE = 120
"""The width of a terminal from which on `list` shows values.

It is also the most characters of a reason that are shown.
"""


@app.command("list")
def list_(
    stream: Annotated[str | None, typer.Option(help="one stream; by default all")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="show this many of the newest; by default 100, or all with --jsonl"
        ),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="one JSON object per line, for `quarantine replay`")
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="include events that were replayed or discarded")
    ] = False,
) -> None:
    """Lists the events in quarantine, with the reasons."""
    p = project()
    wide = out.width >= _WIDE
    events = of_streams(p.store, _streams(p, stream), values=jsonl or wide, whole=all_)
    if jsonl and limit is None:
        for event in events:
            write(json.dumps(event.to_json()) + "\n")
        return
    newest: deque[Quarantined] = deque(maxlen=limit or 100)
    number = 0
    for number, event in enumerate(events, 1):  # noqa: B007  # all of them, counted
        newest.append(event)
    if len(newest) < number:
        err.print(
            f"the newest {len(newest)} of {number}; --limit shows more, `trilayer quarantine"
            " reasons` counts them"
        )
    if jsonl:
        for event in newest:
            write(json.dumps(event.to_json()) + "\n")
        return
    table = Table(show_edge=False, expand=True)
    table.add_column("event", no_wrap=True)
    table.add_column("reason", overflow="fold", ratio=3)
    if wide:
        table.add_column("value", no_wrap=True, overflow="ellipsis", ratio=2)
    for event in newest:
        done = "replayed: " if event.replayed else "discarded: " if event.discarded else ""
        source = f" ({event.source})" if event.source else ""
        value = (event.text or "")[:_WIDE].replace("\n", " ")
        cells = [
            f"{event.stream} {event.place}",
            f"{done}{_shortened(event.reason)}{source}",
            *([value] if wide else []),
        ]
        table.add_row(*map(escape, cells))
    out.print(table if newest else "nothing in quarantine")


@app.command()
def reasons(
    stream: Annotated[str | None, typer.Option(help="one stream; by default all")] = None,
    json_: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Counts the events in quarantine by reason.

    An event with two wrong fields counts for both. Discarded and replayed events are not counted.
    """
    p = project()
    counts, events = count_reasons(p.store, _streams(p, stream))
    if json_:
        print_json([asdict(count) for count in counts])
        return
    table = Table(show_edge=False)
    table.add_column("stream", no_wrap=True)
    table.add_column("reason")
    table.add_column("events", justify="right", no_wrap=True)
    table.add_column("the newest", no_wrap=True)
    for count in counts:
        table.add_row(escape(count.stream), escape(count.reason), f"{count.events:,}", count.newest)
    out.print(table if counts else "nothing in quarantine")
    if counts:
        err.print(
            f"{events:,} events in quarantine; an event with several faults is counted for each."
            " `trilayer status` says how many events no layer has read yet"
        )


def _shortened(reason: str) -> str:
    return reason if len(reason) <= _WIDE else f"{reason[:_WIDE]}…"


@app.command()
def discard(
    places: Annotated[
        list[str] | None, typer.Argument(help="PARTITION:OFFSET of each, as `list` prints it")
    ] = None,
    why: Annotated[str, typer.Option(help="the reason, which is stored with your name")] = "",
    reason: Annotated[
        str | None,
        typer.Option(help="discard all with this reason of `reasons`, instead of PLACES"),
    ] = None,
    stream: Annotated[str | None, typer.Option(help="the stream, if there are several")] = None,
) -> None:
    """Discards events that nobody will correct: `list` and `reasons` omit them.

    Their bytes stay in the master dataset.
    """
    p = project()
    if not why.strip():
        raise UsageError("--why must say why the events are discarded; got nothing")
    if bool(places) == bool(reason):
        raise UsageError(
            "either PLACES or --reason must say which events are discarded; got both or none"
        )
    wanted = {_parse_place(place) for place in places or []}
    chosen = choose(p.store, _streams(p, stream), wanted, reason)
    by = who()
    number = discard_events(p.store, chosen, by=by, why=why)
    out.print(f"{number:,} events discarded by {by}: {escape(why)}")


def _parse_place(place: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+):(\d+)", place)
    if not match:
        raise UsageError(f"the event must be named PARTITION:OFFSET; got {place!r}")
    return int(match[1]), int(match[2])


@app.command()
def show(
    place: Annotated[str, typer.Argument(help="PARTITION:OFFSET, as `list` prints it")],
    stream: Annotated[str | None, typer.Option(help="the stream, if there are several")] = None,
) -> None:
    """Shows one event: its reason on stderr, its unchanged bytes on stdout."""
    p = project()
    event = event_at(p.store, _streams(p, stream), *_parse_place(place))
    err.print(f"{event.stream} {place}: {escape(event.reason)}")
    if event.is_cut:
        err.print(
            f"of its {event.bytes:,} bytes these are the first {len(event.value or b''):,};"
            " run `trilayer batch run` to have it whole"
        )
    value = event.value or b""
    if sys.stdout.isatty():
        write(value.decode(errors="backslashreplace") + "\n")
    else:
        sys.stdout.buffer.write(value)


@app.command()
def replay(
    file: Annotated[
        Path,
        typer.Argument(help="JSON Lines as `list --jsonl` prints them, with `value` corrected"),
    ],
    again: Annotated[
        bool, typer.Option("--again", help="also send corrections that were sent before")
    ] = False,
) -> None:
    """Sends corrected events back to their topics.

    The header trilayer-origin says which event each one replaces. The quarantined events stay where
    they are and are never counted; the corrected ones count as new events. Lines that can't be sent
    are listed with the reason, and the others are sent. If a replay was interrupted, run it again
    with the same file: what it had sent is found in the log and not sent twice.
    """
    p = project()
    with shown("Sending corrected events", echo=err.print, console=err, after_s=2.0) as report:
        sent = send_corrections(p, file, again=again, report=report)
    for line in sent.rejected:
        err.print(f"[red]not sent:[/] {escape(line)}", soft_wrap=True)
    before = f"; {sent.before} had been sent before" if sent.before else ""
    rejected = f"; {len(sent.rejected)} were not, see above" if sent.rejected else ""
    events = "event" if sent.now == 1 else "events"
    out.print(f"{sent.now} corrected {events} sent{before}{rejected}")
    if sent.rejected:
        raise typer.Exit(1)


def _streams(p: Project, name: str | None) -> list[Stream]:
    return [p.catalog.stream(name)] if name else p.catalog.streams
