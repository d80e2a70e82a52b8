"""`trilayer replay`: a file's rows as events, typed by the stream's schema, at a rate."""

from __future__ import annotations

import datetime as dt
import json
import logging
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import typer
from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cli.context import err, out, project
from trilayer.errors import EnvironmentFault, UsageError
from trilayer.log import Log
from trilayer.partials import arrow_type
from trilayer.stream import Stream

logger = logging.getLogger("trilayer.replay")

SLICE_S = 0.02
"""Events due within a slice of this length are sent together."""

Events = Iterator[tuple[str, bytes]]
"""Where in its file each event is, such as `line 3`, and its value."""


def replay(
    file: Annotated[
        Path, typer.Argument(help="CSV (with a header), JSON Lines or Parquet, told by its ending")
    ],
    stream: Annotated[str, typer.Option(help="the stream that the rows are events of")],
    rate: Annotated[float, typer.Option(min=0, help="events per second; 0: as fast as it goes")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="send at most this many")] = None,
    skip: Annotated[int, typer.Option(min=0, help="leave out this many at the beginning")] = 0,
) -> None:
    """Sends a file's rows to a stream's topic, in order. Lines of JSON are sent as they are."""
    p = project()
    target = p.catalog.stream(stream)
    total, events = read_events(file, target)
    with Log(p.settings.bootstrap_servers) as log:
        log.ensure(target, p.settings.replication_factor)
    wanted = max(0, total - skip) if limit is None else min(limit, max(0, total - skip))
    sent = send(_sliced(events, skip, limit), target, p.settings.bootstrap_servers, rate, wanted, skip)
    out.print(f"{sent:,} events sent to {target.topic}")


def _sliced(events: Events, skip: int, limit: int | None) -> Events:
    for number, event in enumerate(events):
        if limit is not None and number >= skip + limit:
            return
        if number >= skip:
            yield event


def send(
    events: Events, stream: Stream, bootstrap_servers: str, rate: float, total: int, skipped: int = 0
) -> int:
    """Sends values to the stream's topic, and returns how many the broker has acknowledged. Raises EnvironmentFault for the first that it has not.

    skipped: how many events of their file come before them.
    """
    try:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers.split(","), linger_ms=5, batch_size=1 << 17, acks="all"
        )
    except KafkaError as error:
        raise EnvironmentFault(
            f"a Kafka broker must answer at {bootstrap_servers}; got {error}; start `trilayer up`"
        ) from error
    failed: list[BaseException] = []
    refused = ""
    sent = 0
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    with progress:
        task = progress.add_task(f"replay {stream.name}", total=total, speed="")
        started = time.monotonic()
        try:
            for place, value in events:
                try:
                    producer.send(stream.topic, value).add_errback(failed.append)
                except KafkaError as error:
                    on = (1, "after") if isinstance(error, MessageSizeTooLargeError) else (0, "with")
                    refused = f"{place} can't be sent: {error}; {sent:,} were sent, those before it; --skip {skipped + sent + on[0]} goes on {on[1]} it"
                    break
                sent += 1
                if failed:
                    break
                if rate and sent >= (time.monotonic() - started + SLICE_S) * rate:
                    time.sleep(max(0.0, sent / rate - (time.monotonic() - started)))
                if sent % 500 == 0:
                    elapsed = max(time.monotonic() - started, 1e-9)
                    progress.update(task, completed=sent, speed=f"{sent / elapsed:,.0f}/s")
        except KeyboardInterrupt:
            logger.warning("interrupted after %s events", f"{sent:,}")
        finally:
            producer.flush()
            producer.close()
    if failed:
        raise EnvironmentFault(
            f"the broker must take every event; it refused one of the first {sent:,}: {failed[0]}"
        )
    if refused:
        raise EnvironmentFault(f"the broker must take every event; {refused}")
    return sent


def read_events(path: Path, stream: Stream) -> tuple[int, Events]:
    """Number of events in a file, and their places and values as JSON. Raises UsageError for a file that can't be read as the stream's schema."""
    if not path.is_file():
        raise UsageError(f"FILE must be a file; got {str(path)!r}, which is not there")
    readers = {
        ".csv": _read_csv,
        ".parquet": _read_parquet,
        ".jsonl": _read_lines,
        ".ndjson": _read_lines,
        ".json": _read_lines,
    }
    if path.suffix not in readers:
        raise UsageError(f"FILE must end in one of {', '.join(readers)}; got {path.name!r}")
    try:
        return readers[path.suffix](path, stream)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise UsageError(
            f"{path} must hold columns of stream {stream.name!r} ({stream.schema}); {error}"
        ) from None


def _read_lines(path: Path, stream: Stream) -> tuple[int, Events]:
    def lines() -> Events:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if line := raw.rstrip(b"\r\n"):
                    yield f"line {number}", line

    return sum(1 for _ in lines()), lines()


def _read_csv(path: Path, stream: Stream) -> tuple[int, Events]:
    def read(types: dict[str, pa.DataType], quoted: bool) -> pa.Table:
        convert = pyarrow.csv.ConvertOptions(
            column_types=types,
            null_values=["", "NA", "NULL"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=quoted,
        )
        return pyarrow.csv.read_csv(path, convert_options=convert)

    table = read({name: arrow_type(type_) for name, type_ in stream.columns.items()}, True)
    # Twice, since in quotes text is never NULL, and a number, which some quote as well, may be.
    texts = read(dict.fromkeys(table.column_names, pa.string()), False)
    for place, column in enumerate(table.schema):
        if column.type == pa.string():
            table = table.set_column(place, column, texts.column(place))
    return table.num_rows, _encode(_chosen(table, path, stream), path)


def _read_parquet(path: Path, stream: Stream) -> tuple[int, Events]:
    table = pq.read_table(path)
    return table.num_rows, _encode(_chosen(table, path, stream), path)


def _chosen(table: pa.Table, path: Path, stream: Stream) -> pa.Table:
    """The stream's columns of a table, in its types. A required one that is missing is an error, an optional one is left out."""
    missing = [f.name for f in stream.fields if f.required and f.name not in table.column_names]
    if missing:
        raise UsageError(
            f"{path} must have the columns {', '.join(missing)} of stream {stream.name!r}; it has {', '.join(table.column_names)}"
        )
    twice = [f.name for f in stream.fields if table.column_names.count(f.name) > 1]
    if twice:
        raise UsageError(
            f"{path} must have each column once; it has {', '.join(table.column_names)}: rename one of {', '.join(twice)}"
        )
    fields = [(f.name, arrow_type(f.type)) for f in stream.fields if f.name in table.column_names]
    return table.select([name for name, _ in fields]).cast(pa.schema(fields))


def _encode(table: pa.Table, path: Path) -> Events:
    number = 0
    for batch in table.to_batches(max_chunksize=5_000):
        try:
            rows = batch.to_pylist(maps_as_pydicts="strict")
        except KeyError as error:
            raise UsageError(
                f"{path} must have a key of a map once in a row; in one of the rows {number + 1:,} to {number + len(batch):,} it is there twice: {error}"
            ) from None
        for row in rows:
            number += 1
            yield f"row {number}", encode(row)


def encode(row: dict[str, Any]) -> bytes:
    """One event as JSON: NULLs left out, timestamps in UTC as ISO 8601, decimals with all their digits."""
    return json.dumps(
        {name: value for name, value in row.items() if value is not None},
        default=_jsonable,
        ensure_ascii=False,
    ).encode()


def _jsonable(value: object) -> object:
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode()
    raise TypeError(f"{value!r} can't be an event's value")
