"""`trilayer quarantine`: events that did not fit their schema, seen and sent back corrected."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from kafka import KafkaProducer
from kafka.errors import KafkaError
from rich.table import Table

from cli.context import Project, err, out, project
from trilayer.cut import format_time
from trilayer.errors import EnvironmentFault, UsageError
from trilayer.events import REJECT
from trilayer.log import now_ms, origin_number, origins, read_origin
from trilayer.master import chain_end, of_origin, read_chain
from trilayer.segment import generations, read_commits, standing
from trilayer.stream import Stream

app = typer.Typer(no_args_is_help=True, help="Events that did not fit their schema.")

ORIGIN_HEADER = "trilayer-origin"
"""Header of an event that replaces a quarantined one: TOPIC_ID/PARTITION/OFFSET."""

_ORIGIN = "_origin"
"""Number of the origin in which a row's offset counts."""

_COLUMNS = ["_partition", "_offset", "_timestamp", "_key", "_value", REJECT]


@app.command("list")
def list_(
    stream: Annotated[str | None, typer.Option(help="one stream; all unless given")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="at most this many, the newest; all with --jsonl, else 100, unless given"),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="a JSON object a line, as `quarantine replay` takes it")
    ] = False,
) -> None:
    """What is in quarantine, and why."""
    p = project()
    found = [row for one in _streams(p, stream) for row in quarantined(p, one)]
    rows = found[-(limit or (len(found) if jsonl else 100)) :]
    if len(rows) < len(found):
        err.print(f"the newest {len(rows)} of {len(found)}; --limit shows more")
    if jsonl:
        for row in rows:
            sys.stdout.write(json.dumps(row) + "\n")
        return
    table = Table("stream", "partition:offset", "arrived", "reason", "value", "replayed")
    for row in rows:
        value = "" if row["value"] is None else row["value"][:60]
        place = f"{row['partition']}:{row['offset']}"
        table.add_row(
            row["stream"],
            place,
            row["arrived"],
            _escape(row["reason"]),
            _escape(value),
            "yes" if row["replayed"] else "",
        )
    out.print(table if rows else "nothing in quarantine")


@app.command()
def show(
    place: Annotated[str, typer.Argument(help="PARTITION:OFFSET, as `list` prints it")],
    stream: Annotated[str | None, typer.Option(help="which stream, where there are several")] = None,
) -> None:
    """One event: its reason on stderr, its bytes, as they are, on stdout."""
    p = project()
    match = re.fullmatch(r"(\d+):(\d+)", place)
    if not match:
        raise UsageError(f"the event must be named PARTITION:OFFSET; got {place!r}")
    partition, offset = int(match[1]), int(match[2])
    for one in _streams(p, stream):
        found = [row for row in _raw(p, one) if (row["_partition"], row["_offset"]) == (partition, offset)]
        if found:
            row = max(found, key=lambda row: int(row[_ORIGIN]))
            err.print(f"{one.name} {place}: {_escape(row[REJECT])}")
            sys.stdout.buffer.write(row["_value"] or b"")
            return
    raise UsageError(
        f"the event must be in quarantine; got {place}, which is not; `trilayer quarantine list` shows what is"
    )


@app.command()
def replay(
    file: Annotated[
        Path, typer.Argument(help="JSON Lines as `list --jsonl` prints them, with `value` corrected")
    ],
    again: Annotated[bool, typer.Option("--again", help="also those that have been replayed before")] = False,
) -> None:
    """Sends corrected events back to their topics, with where they came from in the header trilayer-origin.

    The quarantined events stay where they are and are never counted; the corrected ones count as new events.
    """
    p = project()
    corrections = list(_corrections(file, p))
    held = {
        (row["stream"], row["origin"], row["partition"], row["offset"]): row
        for stream in p.catalog.streams
        for row in quarantined(p, stream)
    }
    seen: dict[tuple[str, int, int, int], int] = {}
    for number, line in corrections:
        key = (line["stream"], line["origin"], line["partition"], line["offset"])
        where = f"{file}:{number}"
        if key not in held:
            raise UsageError(
                f"{where} must name an event in quarantine; got {line['stream']} {line['partition']}:{line['offset']}"
            )
        if seen.setdefault(key, number) != number:
            raise UsageError(
                f"{where} must name an event of its own; got {line['partition']}:{line['offset']}, which line {seen[key]} names too"
            )
        if held[key]["value"] == line["value"]:
            raise UsageError(f"{where}: `value` must be corrected; it is as it was: {held[key]['reason']}")
        if held[key]["replayed"] and not again:
            raise UsageError(
                f"{where}: {line['partition']}:{line['offset']} must not be replayed twice; it was before; --again does so all the same"
            )
    try:
        producer = KafkaProducer(bootstrap_servers=p.settings.bootstrap_servers.split(","), acks="all")
    except KafkaError as error:
        raise EnvironmentFault(
            f"a Kafka broker must answer at {p.settings.bootstrap_servers}; got {error}"
        ) from error
    try:
        for sent, (number, line) in enumerate(corrections):
            try:
                _send(p, producer, line)
            except KafkaError as error:
                raise EnvironmentFault(
                    f"{file}:{number}: the broker must take the event; got {error}; {sent} of {len(corrections)} were sent, in the lines before it:"
                    " leave those out when you replay the rest"
                ) from None
    finally:
        producer.close()
    out.print(f"{len(corrections)} corrected events sent")


def _send(p: Project, producer: KafkaProducer, line: dict[str, Any]) -> None:
    stream = p.catalog.stream(line["stream"])
    origin = origins(p.store, stream)[line["origin"] - 1]
    place = _place(origin.number, line["partition"], line["offset"])
    header = f"{origin.identity}/{line['partition']}/{line['offset']}".encode()
    sent = producer.send(stream.topic, line["value"].encode(), headers=[(ORIGIN_HEADER, header)]).get(
        timeout=30
    )
    p.store.write_document(
        f"quarantine/{stream.name}/{place}.json",
        {"to": f"{sent.partition}:{sent.offset}", "sent_ms": now_ms()},
    )


def quarantined(p: Project, stream: Stream) -> Iterator[dict[str, Any]]:
    """Quarantined events of a stream in log order: those below the master dataset's end, then the speed layer's.

    Keys: stream, origin (its number, see `Origin`), partition, offset, arrived, reason, value (text; bytes that are no UTF-8 as \\xNN), replayed.
    """
    replayed = set(p.store.names(f"quarantine/{stream.name}"))
    for row in _raw(p, stream):
        value = row["_value"]
        yield {
            "stream": stream.name,
            "origin": row[_ORIGIN],
            "partition": row["_partition"],
            "offset": row["_offset"],
            "arrived": format_time(int(row["_timestamp"].timestamp() * 1000)),
            "reason": row[REJECT],
            "value": None if value is None else value.decode(errors="backslashreplace"),
            "replayed": _place(row[_ORIGIN], row["_partition"], row["_offset"]) + ".json" in replayed,
        }


def _place(origin: int, partition: int, offset: int) -> str:
    """What the record that an event was replayed is called; as before there were later origins for those of the first."""
    return f"{partition}-{offset}" + (f"-{origin}" if origin > 1 else "")


def _raw(p: Project, stream: Stream) -> Iterator[dict[str, Any]]:
    chain = read_chain(p.store, stream)
    for interval in chain:
        for file in interval.files if interval.quarantined else []:
            rejected = pc.field(REJECT).is_valid()
            path = p.store.path(file.path)
            rows = pq.read_table(path, columns=_COLUMNS, filters=rejected, filesystem=p.store.fs)
            ordered = rows.sort_by([("_partition", "ascending"), ("_offset", "ascending")])
            yield from (row | {_ORIGIN: origin_number(interval.topic_id)} for row in ordered.to_pylist())
    origin = read_origin(p.store, stream)
    if origin is None:
        return
    end = chain_end(of_origin(chain, origin.identity), origin.start)
    seen: set[tuple[int, int]] = set()
    for generation in reversed(standing(generations(p.store, stream))):
        if generation.topic_id != origin.identity:
            continue
        for commit in read_commits(p.store, stream, generation.name):
            for row in (
                p.store.read_table(commit.quarantine, _COLUMNS).to_pylist() if commit.quarantine else []
            ):
                place = (row["_partition"], row["_offset"])
                if row["_offset"] >= end.get(row["_partition"], 0) and place not in seen:
                    seen.add(place)
                    yield row | {_ORIGIN: origin.number}


def _streams(p: Project, name: str | None) -> list[Stream]:
    return [p.catalog.stream(name)] if name else p.catalog.streams


def _corrections(file: Path, p: Project) -> Iterator[tuple[int, dict[str, Any]]]:
    if not file.is_file():
        raise UsageError(f"FILE must be a file; got {str(file)!r}, which is not there")
    # Lines of JSON end at \n alone: text may have U+2028 and other ends of lines inside.
    for number, raw in enumerate(file.read_bytes().split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw.decode())
            value = line["value"]
            line["value"] = value if isinstance(value, str) else json.dumps(value)
            p.catalog.stream(line["stream"])
            line.setdefault("origin", 1)  # lines from before there were later origins
            int(line["partition"]), int(line["offset"]), int(line["origin"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{file}:{number} must be a line as `quarantine list --jsonl` prints it; got {raw[:80].decode(errors='replace')!r}: {type(error).__name__}: {error}"
            ) from None
        yield number, line


def _escape(text: str) -> str:
    return text.replace("[", "\\[")
