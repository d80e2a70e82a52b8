"""`trilayer replay`: a file's rows as events of a stream, at a rate."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from trilayer.cli.context import err, out
from trilayer.operations.files import Event, Events, read_events
from trilayer.operations.project import project
from trilayer.operations.quarantine import SOURCE_HEADER
from trilayer_core.compute.fitting import reasons_of, said_unknown
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import EnvironmentFault, UsageError
from trilayer_core.log.broker import Log

logger = logging.getLogger("trilayer.replay")

SLICE_S = 0.02
"""Events due within a slice of this length are sent together."""


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            help=(
                "CSV (.csv, .tsv, .txt), JSON Lines (.jsonl, .ndjson, .json) or Parquet, told by"
                " its ending; text may be compressed (.gz, .bz2, .xz)"
            )
        ),
    ],
    stream: Annotated[str, typer.Option(help="the stream that the rows are events of")],
    rate: Annotated[
        float, typer.Option(min=0, help="events per second; 0: as fast as it goes")
    ] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="send at most this many")] = None,
    skip: Annotated[int, typer.Option(min=0, help="leave out this many at the beginning")] = 0,
    delimiter: Annotated[
        str | None,
        typer.Option(help="between the cells of a CSV; told by its first line unless given"),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="of text, such as latin-1; UTF-8 unless given")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="names of a CSV's columns, with commas between them, if it has no header"
        ),
    ] = None,
) -> None:
    """Sends a file's rows to a stream's topic, in order. Lines of JSON are sent as they are.

    A row that does not fit the stream's schema is sent too, and goes to quarantine with its reason
    and its place in the file.
    """
    p = project()
    target = p.catalog.stream(stream)
    names = [name.strip() for name in columns.split(",")] if columns else None
    events = read_events(file, target, delimiter=delimiter, encoding=encoding, columns=names)
    with Log(p.settings.bootstrap_servers) as log:
        log.ensure(target, p.settings.replication_factor)
    sent = send(events, target, p.settings.bootstrap_servers, file.name, rate, skip, limit)
    out.print(f"{sent.events:,} events sent to {target.topic}")
    if sent.first is not None:
        out.print(
            f"{sent.unfit:,} of them do not fit the schema of {target.name}, and go to quarantine"
            " (`trilayer quarantine list`):"
        )
        for reason, number in sent.misfits.most_common(10):
            out.print(f"  {number:,}  {escape(reason)}")
        out.print(f"the first is {sent.first.place}: {escape(sent.first.misfit or '')}")
    if sent.unknown:
        out.print(escape(said_unknown(sent.unknown, target)))
    if events.left_out:
        err.print(escape(f"{file.name}: {events.left_out}"))
    if sent.interrupted:
        raise typer.Exit(130)


@dataclass
class Sent:
    """What was sent.

    Attributes:
        events: How many.
        unfit: How many of them do not fit.
        misfits: How many have each reason; one event may have several.
        first: The first that does not fit.
        unknown: How many have each of the fields that the schema does not have.
        interrupted: Whether Ctrl-C ended it.
    """

    events: int = 0
    unfit: int = 0
    misfits: Counter[str] = field(default_factory=Counter)
    first: Event | None = None
    unknown: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False

    def count(self, event: Event, stream: Stream) -> None:
        """Counts an event that is about to be sent."""
        self.events += 1
        self.unknown.update(event.unknown)
        if event.misfit is not None:
            self.first = self.first or event
            self.unfit += 1
            self.misfits.update(reasons_of(event.misfit, stream))


def send(
    events: Events,
    stream: Stream,
    bootstrap_servers: str,
    source: str,
    rate: float = 0,
    skip: int = 0,
    limit: int | None = None,
) -> Sent:
    """Sends events to the stream's topic, all that the broker acknowledges.

    Args:
        events: A file's events.
        stream: The stream.
        bootstrap_servers: The brokers.
        source: The file's name, which events that do not fit carry in a header, with their place in
            it.
        rate: Events a second; 0 for as fast as it goes.
        skip: How many events at the beginning are left out.
        limit: Most events that are sent.

    Raises:
        EnvironmentFault: The broker has not taken one; it is named by its place in the file.
    """
    try:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers.split(","),
            linger_ms=5,
            batch_size=1 << 17,
            acks="all",
        )
    except KafkaError as error:
        raise EnvironmentFault(
            f"a Kafka broker must answer at {bootstrap_servers}; got {error}; start `trilayer up`"
        ) from error
    failed: list[BaseException] = []
    refused = ""
    sent = Sent()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[sent]:,} events"),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    with progress:
        task = progress.add_task(f"replay {stream.name}", total=1.0, sent=0, speed="")
        started = time.monotonic()
        try:
            for event in islice(events, skip, None if limit is None else skip + limit):
                headers = (
                    [(SOURCE_HEADER, f"{source} {event.place}".encode())] if event.misfit else None
                )
                try:
                    producer.send(stream.topic, event.value, headers=headers).add_errback(
                        failed.append
                    )
                except KafkaError as error:
                    on = (
                        (1, "after") if isinstance(error, MessageSizeTooLargeError) else (0, "with")
                    )
                    refused = (
                        f"{event.place} can't be sent: {error}; {sent.events:,} were sent, those"
                        f" before it; --skip {skip + sent.events + on[0]} goes on {on[1]} it"
                    )
                    break
                sent.count(event, stream)
                if failed:
                    break
                elapsed = time.monotonic() - started
                if rate and sent.events >= (elapsed + SLICE_S) * rate:
                    time.sleep(max(0.0, sent.events / rate - elapsed))
                if sent.events % 500 == 0:
                    done = (
                        events.progress()
                        if limit is None
                        else max(events.progress(), sent.events / limit)
                    )
                    speed = f"{sent.events / max(elapsed, 1e-9):,.0f}/s"
                    progress.update(task, completed=done, sent=sent.events, speed=speed)
        except UsageError as error:
            raise UsageError(
                f"{error}; {sent.events:,} events were sent, those before it"
            ) from None
        except KeyboardInterrupt:
            sent.interrupted = True
            logger.warning(
                "interrupted after %s events; --skip %d goes on after them",
                f"{sent.events:,}",
                skip + sent.events,
            )
        finally:
            producer.flush()
            producer.close()
    if failed:
        raise EnvironmentFault(
            f"the broker must take every event; it refused one of the first {sent.events:,}:"
            f" {failed[0]}"
        )
    if refused:
        raise EnvironmentFault(f"the broker must take every event; {refused}")
    return sent
