"""`trilayer quarantine`: events that did not fit their schema, seen and sent back corrected."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from kafka import KafkaProducer
from kafka.errors import KafkaError, RetriableError
from rich.markup import escape
from rich.table import Table

from trilayer.cli.context import err, out, print_json
from trilayer.operations.project import Project, project, who
from trilayer_core.compute.fitting import reasons_of
from trilayer_core.compute.formats import format_of
from trilayer_core.compute.parsing import REJECT
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import EnvironmentFault, UsageError, did_you_mean
from trilayer_core.log.broker import Log
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.seam import format_time
from trilayer_core.store.master import chain_end, of_origin, read_chain
from trilayer_core.store.origins import origin_number, origins, read_origin
from trilayer_core.store.segments import BYTES, generations, read_commits, standing

app = typer.Typer(no_args_is_help=True, help="Events that did not fit their schema.")

ORIGIN_HEADER = "trilayer-origin"
"""Header of an event that replaces a quarantined one: TOPIC_ID/PARTITION/OFFSET."""

SOURCE_HEADER = "trilayer-source"
"""Header of an event that `trilayer replay` has sent although it does not fit: the file, and the
place in it.
"""

_ORIGIN = "_origin"
"""Number of the origin in which a row's offset counts."""

_WIDE = 120
"""Columns of a terminal from which on `list` shows the events' values; and characters of a reason
that it shows.
"""

_COLUMNS = ["_partition", "_offset", "_timestamp", "_key", "_value", "_headers", REJECT]


@app.command("list")
def list_(
    stream: Annotated[str | None, typer.Option(help="one stream; all unless given")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="at most this many, the newest; all with --jsonl, else 100, unless given"
        ),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="a JSON object a line, as `quarantine replay` takes it")
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="those that were replayed or discarded, too")
    ] = False,
) -> None:
    """What is in quarantine, and why."""
    p = project()
    found = [
        row
        for one in _streams(p, stream)
        for row in quarantined(p, one)
        if all_ or not (row["discarded"] or row["replayed"])
    ]
    rows = found[-(limit or (len(found) if jsonl else 100)) :]
    if len(rows) < len(found):
        err.print(
            f"the newest {len(rows)} of {len(found)}; --limit shows more, `trilayer quarantine"
            " reasons` counts them"
        )
    if jsonl:
        for row in rows:
            sys.stdout.write(json.dumps(row) + "\n")
        return
    table = Table(show_edge=False, expand=True)
    table.add_column("event", no_wrap=True)
    table.add_column("reason", overflow="fold", ratio=3)
    wide = out.width >= _WIDE
    if wide:
        table.add_column("value", no_wrap=True, overflow="ellipsis", ratio=2)
    for row in rows:
        done = "replayed: " if row["replayed"] else "discarded: " if row["discarded"] else ""
        source = f" ({row['source']})" if row["source"] else ""
        value = (row["value"] or "")[:_WIDE].replace("\n", " ")
        cells = [
            f"{row['stream']} {_place_of(row)}",
            f"{done}{_shortened(row['reason'])}{source}",
            *([value] if wide else []),
        ]
        table.add_row(*map(escape, cells))
    out.print(table if rows else "nothing in quarantine")


@app.command()
def reasons(
    stream: Annotated[str | None, typer.Option(help="one stream; all unless given")] = None,
    json_: Annotated[bool, typer.Option("--json", help="as JSON")] = False,
) -> None:
    """How many events are in quarantine for each reason.

    One with two wrong fields counts for both; those discarded or replayed count no more.
    """
    p = project()
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in _streams(p, stream):
        for row in quarantined(p, one):
            if not (row["discarded"] or row["replayed"]):
                for reason in reasons_of(row["reason"], one):
                    found.setdefault((one.name, reason), []).append(row)
    counts = sorted(found.items(), key=lambda item: -len(item[1]))
    if json_:
        print_json(
            [
                {
                    "stream": name,
                    "reason": reason,
                    "events": len(rows),
                    "newest": _place_of(rows[-1]),
                }
                for (name, reason), rows in counts
            ]
        )
        return
    table = Table(show_edge=False)
    table.add_column("stream", no_wrap=True)
    table.add_column("reason")
    table.add_column("events", justify="right", no_wrap=True)
    table.add_column("the newest", no_wrap=True)
    for (name, reason), rows in counts:
        table.add_row(escape(name), escape(reason), f"{len(rows):,}", _place_of(rows[-1]))
    out.print(table if counts else "nothing in quarantine")


def _shortened(reason: str) -> str:
    return reason if len(reason) <= _WIDE else f"{reason[:_WIDE]}…"


def _place_of(row: dict[str, Any]) -> str:
    return f"{row['partition']}:{row['offset']}"


@app.command()
def discard(
    places: Annotated[
        list[str] | None, typer.Argument(help="PARTITION:OFFSET of each, as `list` prints it")
    ] = None,
    why: Annotated[str, typer.Option(help="the reason, which is kept with your name")] = "",
    reason: Annotated[
        str | None,
        typer.Option(help="all with this reason, as `reasons` prints it, in place of PLACES"),
    ] = None,
    stream: Annotated[
        str | None, typer.Option(help="which stream, where there are several")
    ] = None,
) -> None:
    """Says of events that nobody will correct them: `list` and `reasons` leave them out.

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
    chosen: dict[str, list[list[int]]] = {}
    left = set(wanted)
    known: set[str] = set()
    for one in _streams(p, stream):
        for row in quarantined(p, one):
            place = (row["partition"], row["offset"])
            if row["discarded"] or row["replayed"]:
                continue
            reasons = reasons_of(row["reason"], one)
            known.update(reasons)
            if not (place in wanted or reason in reasons):
                continue
            chosen.setdefault(one.name, []).append([row["origin"], *place])
            left.discard(place)
    if left:
        missing = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(left))
        raise UsageError(
            "the events must be in quarantine, and be neither replayed nor discarded yet; got"
            f" {missing}, which is not; `trilayer quarantine list` shows what is"
        )
    if not chosen:
        raise UsageError(
            "--reason must be one that `trilayer quarantine reasons` prints; got"
            f" {reason!r}{did_you_mean(str(reason), known)}"
        )
    if wanted and len(chosen) > 1:
        raise UsageError(
            f"--stream must say which of {', '.join(chosen)} is meant; all have such an event"
        )
    by = who()
    for name, events in chosen.items():
        document = {"by": by, "why": why, "discarded_ms": now_ms(), "events": events}
        p.store.write_document(
            f"quarantine/{name}/discarded/{now_ms()}-{uuid4().hex[:6]}.json", document
        )
    out.print(f"{sum(map(len, chosen.values())):,} events discarded by {by}: {escape(why)}")


def _parse_place(place: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+):(\d+)", place)
    if not match:
        raise UsageError(f"the event must be named PARTITION:OFFSET; got {place!r}")
    return int(match[1]), int(match[2])


@app.command()
def show(
    place: Annotated[str, typer.Argument(help="PARTITION:OFFSET, as `list` prints it")],
    stream: Annotated[
        str | None, typer.Option(help="which stream, where there are several")
    ] = None,
) -> None:
    """One event: its reason on stderr, its bytes, as they are, on stdout."""
    p = project()
    partition, offset = _parse_place(place)
    for one in _streams(p, stream):
        found = [
            row
            for row in _raw(p, one)
            if (row["_partition"], row["_offset"]) == (partition, offset)
        ]
        if found:
            row = max(found, key=lambda row: int(row[_ORIGIN]))
            err.print(f"{one.name} {place}: {escape(row[REJECT])}")
            if _is_cut(row):
                err.print(f"{_cut_note(row)}; run `trilayer batch run` to have it whole")
            sys.stdout.buffer.write(row["_value"] or b"")
            return
    raise UsageError(
        f"the event must be in quarantine; got {place}, which is not; `trilayer quarantine list`"
        " shows what is"
    )


@app.command()
def replay(
    file: Annotated[
        Path,
        typer.Argument(help="JSON Lines as `list --jsonl` prints them, with `value` corrected"),
    ],
    again: Annotated[
        bool, typer.Option("--again", help="also those that have been replayed before")
    ] = False,
) -> None:
    """Sends corrected events back to their topics.

    With where they came from in the header trilayer-origin.

    The quarantined events stay where they are and are never counted; the corrected ones count as
    new events. Lines that can't be sent are listed, with the reason, and the others are sent. A
    replay that was interrupted is run again with the same file: what it had sent already is looked
    up in the log and not sent twice.
    """
    p = project()
    with p.store.lock("locks/quarantine-replay", "a quarantine replay"):
        found = _replay(p, file, again)
    for line in found.refused:
        err.print(f"[red]not sent:[/] {escape(line)}", soft_wrap=True)
    before = f"; {found.before} had been sent before" if found.before else ""
    refused = f"; {len(found.refused)} were not, see above" if found.refused else ""
    out.print(f"{found.sent} corrected events sent{before}{refused}")
    if found.refused:
        raise typer.Exit(1)


@dataclass
class _Replayed:
    """What came of a file of corrections.

    `before`: those that the interrupted replay had sent, which this one goes on with. `refused`: a
    line for each that was not sent, with where it is and why.
    """

    sent: int = 0
    before: int = 0
    refused: list[str] = field(default_factory=list)


def _replay(p: Project, file: Path, again: bool) -> _Replayed:
    found = _Replayed()
    held = {
        (row["stream"], row["origin"], row["partition"], row["offset"]): row
        for stream in p.catalog.streams
        for row in quarantined(p, stream)
    }
    seen: dict[tuple[str, int, int, int], _Correction] = {}
    due = []
    for where, raw in _lines(file):
        try:
            one = _Correction.of(p, raw, where)
            _check(one, held, seen)
            if _is_sent(p, one, again):
                found.before += 1
            else:
                due.append(one)
        except UsageError as error:
            found.refused.append(str(error))
    if due:
        _send_all(p, due, found)
    return found


def _check(
    one: _Correction,
    held: Mapping[tuple[str, int, int, int], dict[str, Any]],
    seen: dict[tuple[str, int, int, int], _Correction],
) -> None:
    """Raises UsageError unless the line corrects an event in quarantine.

    It must be the first one that does; `seen` has those that did.
    """
    if one.key not in held:
        raise UsageError(
            f"{one.where} must name an event in quarantine; got {one.stream.name} {one.place}"
        )
    if one.key in seen:
        line = seen[one.key].where.rpartition(":")[2]
        raise UsageError(
            f"{one.where} must name an event of its own; got {one.place}, which line {line} names"
            " too"
        )
    row = held[one.key]
    if row["cut"]:
        raise UsageError(
            f"{one.where} must name an event that is kept whole; of {one.place} only the beginning"
            " is until the next batch run; run `trilayer batch run` and list it again"
        )
    if row["value"] == one.value:
        raise UsageError(
            f"{one.where}: `value` must be corrected; it is as it was: {row['reason']}"
        )
    fitting = format_of(one.stream).fitting(one.stream)
    misfit = fitting.judge(one.value.encode(errors="surrogatepass")).misfit
    if misfit is not None:
        raise UsageError(
            f"{one.where}: `value` must fit the schema, or it comes back to quarantine; {misfit}"
        )
    seen[one.key] = one


def _is_sent(p: Project, one: _Correction, again: bool) -> bool:
    """Whether an earlier replay has sent this correction, unless it is to be sent `again`.

    Raises:
        UsageError: It has sent another correction of the event, or it is unknown whether it has
            sent this one.
    """
    if p.store.exists(one.intent) and _settle(p, one, again):
        return True
    if again or not p.store.exists(one.marker):
        return False
    if p.store.read_document(one.marker).get("value") == one.digest:
        return True
    raise UsageError(
        f"{one.where}: {one.place} must not be replayed twice; another correction of it was sent"
        " before; --again sends this one, too"
    )


@dataclass(frozen=True)
class _Correction:
    """A corrected event.

    `where`: file and line. `header`: what it carries to say which event it replaces.
    """

    stream: Stream
    origin: int
    partition: int
    offset: int
    value: str
    where: str
    header: bytes

    @staticmethod
    def of(p: Project, raw: bytes, where: str) -> _Correction:
        """Of a line as `quarantine list --jsonl` prints it. Raises UsageError if it is none."""
        try:
            line = json.loads(raw.decode())
            value = line["value"]
            value = value if isinstance(value, str) else json.dumps(value)
            name = line["stream"]
            # Lines from before there were later origins name none.
            number, partition, offset = (
                int(line.get(name, 1)) for name in ("origin", "partition", "offset")
            )
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise UsageError(
                f"{where} must be a line as `quarantine list --jsonl` prints it; got"
                f" {raw[:80].decode(errors='replace')!r}: {type(error).__name__}: {error}"
            ) from None
        try:
            stream = p.catalog.stream(name)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        known = origins(p.store, stream)
        identity = known[number - 1].identity if 0 < number <= len(known) else ""
        header = f"{identity}/{partition}/{offset}".encode()
        return _Correction(stream, number, partition, offset, value, where, header)

    @property
    def key(self) -> tuple[str, int, int, int]:
        return self.stream.name, self.origin, self.partition, self.offset

    @property
    def place(self) -> str:
        return f"{self.partition}:{self.offset}"

    @property
    def marker(self) -> str:
        """Path of the document that says that the event was sent, and to where."""
        return (
            f"quarantine/{self.stream.name}/{_place(self.origin, self.partition, self.offset)}.json"
        )

    @property
    def intent(self) -> str:
        """Path of the document that says that the event is about to be sent.

        It says from which offset on the event would be found.
        """
        place = _place(self.origin, self.partition, self.offset)
        return f"quarantine/{self.stream.name}/{place}.sending.json"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.value.encode()).hexdigest()


def _settle(p: Project, one: _Correction, again: bool) -> bool:
    """Whether an event that an interrupted replay was about to send is in the log.

    It must be there as it is in the file now. Ends its intent.
    """
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
            f"{one.where}: it is unknown whether {one.place} was sent: a replay was interrupted,"
            f" and retention took offsets [{intent['from']}, {beginning}) of partition"
            f" {one.partition} of topic {topic.name!r}, where it would be; --again sends it all"
            " the same"
        )
    p.store.delete(one.intent)
    return False


def _send_all(p: Project, due: Sequence[_Correction], found: _Replayed) -> None:
    """Sends them in order, and counts in `found` what was sent, and what the broker has refused."""
    servers = p.settings.bootstrap_servers
    try:
        # Once the client has given up it sends no more: what a later look into the log does not
        # find was not sent.
        producer = KafkaProducer(
            bootstrap_servers=servers.split(","),
            acks="all",
            delivery_timeout_ms=30_000,
            request_timeout_ms=20_000,
        )
    except KafkaError as error:
        raise EnvironmentFault(f"a Kafka broker must answer at {servers}; got {error}") from error
    try:
        for one in due:
            try:
                _send(p, producer, one)
                found.sent += 1
            except UsageError as error:
                found.refused.append(str(error))
            except EnvironmentFault as error:
                refused = "".join(f"\nnot sent: {line}" for line in found.refused)
                raise EnvironmentFault(
                    f"{error}; {found.sent} of {len(due)} were sent, in the lines before"
                    f" it{refused}"
                ) from None
    finally:
        producer.close()


def _send(p: Project, producer: KafkaProducer, one: _Correction) -> None:
    """Sends the event.

    Raises UsageError if the broker refuses it, and EnvironmentFault if it does not answer.
    """
    with Log(p.settings.bootstrap_servers) as log:
        end = log.end(log.topic(one.stream))[one.partition]
    intent = {"from": end, "value": one.digest, "began_ms": now_ms()}
    p.store.write_document(one.intent, intent)
    failpoint("quarantine.before-send")
    headers = [(ORIGIN_HEADER, one.header)]
    try:
        # To the partition of the event that it replaces, so that one partition is looked at when it
        # is unknown whether it was sent.
        future = producer.send(
            one.stream.topic, one.value.encode(), headers=headers, partition=one.partition
        )
        sent = future.get(timeout=40)
    except KafkaError as error:
        if isinstance(
            error, RetriableError
        ):  # after any of these it may be in the log all the same
            raise EnvironmentFault(
                f"{one.where}: it is unknown whether the event was sent: the broker has not"
                f" acknowledged it; got {type(error).__name__}: {error}; run the same command"
                " again: it looks for the event in the log, and sends what is not there"
            ) from None
        p.store.delete(one.intent)
        raise UsageError(f"{one.where}: the broker must take the event; got {error}") from None
    failpoint("quarantine.after-send")
    _mark(p, one, f"{sent.partition}:{sent.offset}", one.digest)


def _mark(p: Project, one: _Correction, to: str, value: str) -> None:
    p.store.write_document(one.marker, {"to": to, "sent_ms": now_ms(), "value": value})
    failpoint("quarantine.after-marker")
    p.store.delete(one.intent)


def quarantined(p: Project, stream: Stream) -> Iterator[dict[str, Any]]:
    r"""Quarantined events of a stream in log order.

    Those below the master dataset's end, then the speed layer's.

    Returns:
        Rows with: stream; origin, its number, see `Origin`; partition; offset; arrived; reason;
        value, as text, with bytes that are no UTF-8 as \xNN; cut, whether `value` is only the
        beginning, as the speed layer keeps of long events until the batch layer has them; source,
        where `trilayer replay` has it from, or None; replayed; discarded, why, or None.
    """
    given_up = _discarded(p, stream)
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
            "source": _source(row),
            "replayed": _place(row[_ORIGIN], row["_partition"], row["_offset"]) + ".json"
            in replayed,
            "discarded": given_up.get((row[_ORIGIN], row["_partition"], row["_offset"])),
        }


def _discarded(p: Project, stream: Stream) -> dict[tuple[int, int, int], str]:
    """Why the events at these places, each with the number of its origin, were discarded."""
    folder = f"quarantine/{stream.name}/discarded"
    found: dict[tuple[int, int, int], str] = {}
    for name in p.store.names(folder):
        document = p.store.read_document(f"{folder}/{name}")
        for origin, partition, offset in document["events"]:
            found[origin, partition, offset] = document["why"]
    return found


def _source(row: dict[str, Any]) -> str | None:
    headers = row.get("_headers") or []
    found = [header["value"] for header in headers if header["key"] == SOURCE_HEADER]
    return found[0].decode(errors="backslashreplace") if found and found[0] is not None else None


def _is_cut(row: dict[str, Any]) -> bool:
    """Whether the row has only the beginning of what the log has."""
    return row["_value"] is not None and len(row["_value"]) < (row.get(BYTES) or 0)


def _cut_note(row: dict[str, Any]) -> str:
    return f"of its {row[BYTES]:,} bytes these are the first {len(row['_value']):,}"


def _place(origin: int, partition: int, offset: int) -> str:
    """What the record that an event was replayed is called.

    Those of the first origin are called as before there were later origins.
    """
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


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    """The lines that are not empty, each with the file and its number."""
    if not file.is_file():
        raise UsageError(f"FILE must be a file; got {str(file)!r}, which is not there")
    # Lines of JSON end at \n alone: text may have U+2028 and other ends of lines inside.
    for number, raw in enumerate(file.read_bytes().split(b"\n"), 1):
        if raw.strip():
            yield f"{file}:{number}", raw


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows, with their append time in ms, since its year may be one that datetime lacks."""
    place = table.schema.get_field_index("_timestamp")
    stamps = table["_timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    return table.set_column(place, "_timestamp", stamps).to_pylist()
