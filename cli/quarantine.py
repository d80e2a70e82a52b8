"""`trilayer quarantine`: events that did not fit their schema, seen and sent back corrected."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from kafka import KafkaProducer
from kafka.errors import KafkaError, RetriableError
from rich.table import Table

from cli.context import Project, err, out, project
from trilayer.cut import format_time
from trilayer.errors import EnvironmentFault, UsageError
from trilayer.events import REJECT
from trilayer.failpoints import failpoint
from trilayer.log import Log, now_ms, origin_number, origins, read_origin
from trilayer.master import chain_end, of_origin, read_chain
from trilayer.segment import BYTES, generations, read_commits, standing
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
            if _is_cut(row):
                err.print(f"{_cut_note(row)}; run `trilayer batch run` to have it whole")
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

    The quarantined events stay where they are and are never counted; the corrected ones count as new events. A replay that was
    interrupted is run again with the same file: what it had sent already is looked up in the log and not sent twice.
    """
    p = project()
    with p.store.lock("locks/quarantine-replay", "a quarantine replay"):
        sent, before = _replay(p, file, again)
    out.print(f"{sent} corrected events sent" + (f"; {before} had been sent before" if before else ""))


def _replay(p: Project, file: Path, again: bool) -> tuple[int, int]:
    """How many corrections were sent, and how many had been by the interrupted replay that this one goes on with."""
    corrections = [_Correction.of(p, line, f"{file}:{number}") for number, line in _corrections(file, p)]
    held = {
        (row["stream"], row["origin"], row["partition"], row["offset"]): row
        for stream in p.catalog.streams
        for row in quarantined(p, stream)
    }
    seen: dict[tuple[str, int, int, int], _Correction] = {}
    for one in corrections:
        if one.key not in held:
            raise UsageError(
                f"{one.where} must name an event in quarantine; got {one.stream.name} {one.place}"
            )
        if seen.setdefault(one.key, one) is not one:
            line = seen[one.key].where.rpartition(":")[2]
            raise UsageError(
                f"{one.where} must name an event of its own; got {one.place}, which line {line} names too"
            )
        if held[one.key]["cut"]:
            raise UsageError(
                f"{one.where} must name an event that is kept whole; of {one.place} only the beginning"
                " is until the next batch run; run `trilayer batch run` and list it again"
            )
        if held[one.key]["value"] == one.value:
            raise UsageError(
                f"{one.where}: `value` must be corrected; it is as it was: {held[one.key]['reason']}"
            )
    open_ = [one for one in corrections if p.store.exists(one.intent)]
    arrived = {one.key for one in open_ if _settle(p, one, again)}
    due = []
    for one in corrections:
        marker = p.store.read_document(one.marker) if p.store.exists(one.marker) else None
        if one.key in arrived or (open_ and not again and marker and marker.get("value") == one.digest):
            continue
        if marker and not again:
            raise UsageError(
                f"{one.where}: {one.place} must not be replayed twice; it was before; --again does so all the same"
            )
        due.append(one)
    if due:
        _send_all(p, due)
    return len(due), len(corrections) - len(due)


@dataclass(frozen=True)
class _Correction:
    """A corrected event. where: file and line. header: what it carries to say which event it replaces."""

    stream: Stream
    origin: int
    partition: int
    offset: int
    value: str
    where: str
    header: bytes

    @staticmethod
    def of(p: Project, line: dict[str, Any], where: str) -> _Correction:
        stream = p.catalog.stream(line["stream"])
        known = origins(p.store, stream)
        number, partition, offset = int(line["origin"]), int(line["partition"]), int(line["offset"])
        identity = known[number - 1].identity if 0 < number <= len(known) else ""
        header = f"{identity}/{partition}/{offset}".encode()
        return _Correction(stream, number, partition, offset, line["value"], where, header)

    @property
    def key(self) -> tuple[str, int, int, int]:
        return self.stream.name, self.origin, self.partition, self.offset

    @property
    def place(self) -> str:
        return f"{self.partition}:{self.offset}"

    @property
    def marker(self) -> str:
        """Path of the document that says that the event was sent, and to where."""
        return f"quarantine/{self.stream.name}/{_place(self.origin, self.partition, self.offset)}.json"

    @property
    def intent(self) -> str:
        """Path of the document that says that the event is about to be sent: from which offset on it would be found."""
        return (
            f"quarantine/{self.stream.name}/{_place(self.origin, self.partition, self.offset)}.sending.json"
        )

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.value.encode()).hexdigest()


def _settle(p: Project, one: _Correction, again: bool) -> bool:
    """Whether an event that an interrupted replay was about to send is in the log as it is in the file now; ends its intent."""
    intent = p.store.read_document(one.intent)
    with Log(p.settings.bootstrap_servers) as log:
        topic = log.topic(one.stream)
        offset = log.find_header(topic, one.partition, intent["from"], (ORIGIN_HEADER, one.header))
        beginning = log.beginning(topic).get(one.partition, 0)
    if offset is not None:
        _mark(p, one, f"{one.partition}:{offset}", intent["value"])
        return bool(intent["value"] == one.digest)
    if beginning > intent["from"] and not again:
        raise UsageError(
            f"{one.where}: it is unknown whether {one.place} was sent: a replay was interrupted, and retention took offsets"
            f" [{intent['from']}, {beginning}) of partition {one.partition} of topic {topic.name!r}, where it would be;"
            " --again sends it all the same"
        )
    p.store.delete(one.intent)
    return False


def _send_all(p: Project, due: Sequence[_Correction]) -> None:
    servers = p.settings.bootstrap_servers
    try:
        # Once the client has given up it sends no more: what a later look into the log does not find was not sent.
        producer = KafkaProducer(
            bootstrap_servers=servers.split(","), acks="all", delivery_timeout_ms=30_000, request_timeout_ms=20_000
        )  # fmt: skip
    except KafkaError as error:
        raise EnvironmentFault(f"a Kafka broker must answer at {servers}; got {error}") from error
    try:
        for sent, one in enumerate(due):
            _send(p, producer, one, f"{sent} of {len(due)} were sent, in the lines before it")
    finally:
        producer.close()


def _send(p: Project, producer: KafkaProducer, one: _Correction, progress: str) -> None:
    with Log(p.settings.bootstrap_servers) as log:
        end = log.end(log.topic(one.stream))[one.partition]
    intent = {"from": end, "value": one.digest, "began_ms": now_ms()}
    p.store.write_document(one.intent, intent)
    failpoint("quarantine.before-send")
    headers = [(ORIGIN_HEADER, one.header)]
    try:
        # To the partition of the event that it replaces, so that one partition is looked at when it is unknown whether it was sent.
        future = producer.send(one.stream.topic, one.value.encode(), headers=headers, partition=one.partition)
        sent = future.get(timeout=40)
    except KafkaError as error:
        if isinstance(error, RetriableError):  # after any of these it may be in the log all the same
            raise EnvironmentFault(
                f"{one.where}: it is unknown whether the event was sent: the broker has not acknowledged it; got"
                f" {type(error).__name__}: {error}; {progress}; run the same command again: it looks for the event in the log, and"
                " sends what is not there"
            ) from None
        p.store.delete(one.intent)
        raise EnvironmentFault(
            f"{one.where}: the broker must take the event; got {error}; {progress}: leave those out when you replay the rest"
        ) from None
    failpoint("quarantine.after-send")
    _mark(p, one, f"{sent.partition}:{sent.offset}", one.digest)


def _mark(p: Project, one: _Correction, to: str, value: str) -> None:
    p.store.write_document(one.marker, {"to": to, "sent_ms": now_ms(), "value": value})
    failpoint("quarantine.after-marker")
    p.store.delete(one.intent)


def quarantined(p: Project, stream: Stream) -> Iterator[dict[str, Any]]:
    """Quarantined events of a stream in log order: those below the master dataset's end, then the speed layer's.

    Keys: stream, origin (its number, see `Origin`), partition, offset, arrived, reason, value (text; bytes that are no UTF-8 as \\xNN),
    cut (whether `value` is only the beginning, as the speed layer keeps of long events until the batch layer has them), replayed.
    """
    replayed = set(p.store.names(f"quarantine/{stream.name}"))
    for row in _raw(p, stream):
        value = row["_value"]
        yield {
            "stream": stream.name,
            "origin": row[_ORIGIN],
            "partition": row["_partition"],
            "offset": row["_offset"],
            "arrived": format_time(row["_timestamp"]),
            "reason": row[REJECT],
            "value": None if value is None else value.decode(errors="backslashreplace"),
            "cut": _is_cut(row),
            "replayed": _place(row[_ORIGIN], row["_partition"], row["_offset"]) + ".json" in replayed,
        }


def _is_cut(row: dict[str, Any]) -> bool:
    """Whether the row has only the beginning of what the log has."""
    return row["_value"] is not None and len(row["_value"]) < (row.get(BYTES) or 0)


def _cut_note(row: dict[str, Any]) -> str:
    return f"of its {row[BYTES]:,} bytes these are the first {len(row['_value']):,}"


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
            yield from (row | {_ORIGIN: origin_number(interval.topic_id)} for row in _rows(ordered))
    origin = read_origin(p.store, stream)
    if origin is None:
        return
    end = chain_end(of_origin(chain, origin.identity), origin.start)
    seen: set[tuple[int, int]] = set()
    for generation in reversed(standing(generations(p.store, stream))):
        if generation.topic_id != origin.identity:
            continue
        for commit in read_commits(p.store, stream, generation.name):
            for row in _rows(p.store.read_table(commit.quarantine)) if commit.quarantine else []:
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


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows, with their append time in ms: it may be of a year that Python's datetime has not."""
    place = table.schema.get_field_index("_timestamp")
    stamps = table["_timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    return table.set_column(place, "_timestamp", stamps).to_pylist()
