"""The events in quarantine, which did not fit their schema, and what became of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trilayer_core.compute.formats.times import hints_of
from trilayer_core.compute.parsing import REJECT
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import UsageError, did_you_mean
from trilayer_core.runtime.clock import now_ms
from trilayer_core.seam import format_time
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import chain_end, of_origin
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins, origin_number
from trilayer_core.store.segments import BYTES, standing

SOURCE_HEADER = "trilayer-source"
"""The header of an event that `trilayer replay` has sent: its file, and the position in it."""

_VALUE = "_value"
_COLUMNS = ["_partition", "_offset", "_timestamp", "_headers", REJECT]
_AT_ONCE = 10_000
"""The number of rows that are converted to Python at a time."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One event in quarantine.

    Attributes:
        stream: The name of its stream.
        origin: The number of the origin in which its offset counts, see `Origin`.
        partition: Its partition.
        offset: Its offset.
        append_ms: Its append time, in ms since 1970.
        reason: Why it does not fit the schema.
        value: Its bytes. None if it has none, or if they were not requested.
        bytes: The length of its value in the log, if `value` may be truncated, else None. The speed
            layer only keeps the beginning of long events until the batch layer has them.
        source: The file and position from which `trilayer replay` sent it, else None.
        replayed: Whether a correction of it was sent.
        discarded: Why it will not be corrected, or None.
    """

    stream: str
    origin: int
    partition: int
    offset: int
    append_ms: int
    reason: str
    value: bytes | None
    bytes: int | None
    source: str | None
    replayed: bool
    discarded: str | None

    @property
    def place(self) -> str:
        """Its position as PARTITION:OFFSET."""
        return f"{self.partition}:{self.offset}"

    @property
    def key(self) -> tuple[str, int, int, int]:
        """What identifies the event among all streams and origins."""
        return self.stream, self.origin, self.partition, self.offset

    @property
    def is_open(self) -> bool:
        """Whether it was neither replayed nor discarded."""
        return not self.replayed and self.discarded is None

    @property
    def is_cut(self) -> bool:
        """Whether `value` is truncated."""
        return self.value is not None and len(self.value) < (self.bytes or 0)

    @property
    def text(self) -> str | None:
        r"""`value` as text, where bytes that are not UTF-8 are written as \xNN."""
        return None if self.value is None else self.value.decode(errors="backslashreplace")

    def to_json(self) -> dict[str, Any]:
        """Returns the event as `quarantine list --jsonl` prints it and `replay` accepts it."""
        return {
            "stream": self.stream,
            "origin": self.origin,
            "partition": self.partition,
            "offset": self.offset,
            "arrived": format_time(self.append_ms),
            "reason": self.reason,
            "value": self.text,
            "cut": self.is_cut,
            "source": self.source,
            "replayed": self.replayed,
            "discarded": self.discarded,
        }


@dataclass(frozen=True)
class Discarded:
    """The record that events were discarded.

    Attributes:
        by: Who discarded them.
        why: The reason.
        discarded_ms: The time, in ms since 1970.
        events: The origin's number, the partition and the offset of each event.
    """

    by: str
    why: str
    discarded_ms: int
    events: Sequence[tuple[int, int, int]]


def quarantined(store: Store, stream: Stream, *, values: bool = True) -> Iterator[Quarantined]:
    """Yields the quarantined events of a stream.

    First those of the master dataset, interval by interval, then those that only the speed layer
    has.

    Args:
        store: The store.
        stream: The stream.
        values: Whether to read their bytes as well, which is most of the work.
    """
    discarded = _discarded(store, stream)
    folder = layout.quarantine(stream.name)
    replayed = {f"{folder}/{name}" for name in store.names(folder)}
    for origin, row in _rows_of(store, stream, values):
        partition, offset = row["_partition"], row["_offset"]
        yield Quarantined(
            stream=stream.name,
            origin=origin,
            partition=partition,
            offset=offset,
            append_ms=row["_timestamp"],
            reason=row[REJECT],
            value=row.get(_VALUE),
            bytes=row.get(BYTES),
            source=_source(row),
            replayed=layout.replayed(stream, origin, partition, offset) in replayed,
            discarded=discarded.get((origin, partition, offset)),
        )


def of_streams(
    store: Store, streams: Sequence[Stream], *, values: bool, whole: bool = False
) -> Iterator[Quarantined]:
    """Yields the events of several streams; those replayed or discarded only if `whole`."""
    for stream in streams:
        for event in quarantined(store, stream, values=values):
            if whole or event.is_open:
                yield event


def reasons_of(text: str, stream: Stream) -> list[str]:
    """Returns the parts of a reason that are the same for similar events.

    There is one for each field that is wrong, without the value that the event had, and with the
    hint what to declare if there is one.

    Args:
        text: The reason, from the parser.
        stream: The event's stream.
    """
    kind, _, rest = text.partition(": ")
    parts: list[str] = []
    if kind == "wrong type":
        for field in stream.fields:
            rule = f"{field.label} must be {field.type}"
            if rest.startswith(f"{rule}, got ") or f"; {rule}, got " in rest:
                hints = (hint for _, hint in hints_of(field) if hint in rest)
                parts.append(f"{kind}: {rule}{next(hints, '')}")
    elif kind == "missing field":
        parts = [f"{kind}: {f.label}" for f in stream.fields if f", {f.label}, " in f", {rest}, "]
    elif kind == "oversized":
        parts = [kind]
    elif kind == "failed expression":
        parts = [text.rpartition(", from {")[0]]
    return parts or [text]


@dataclass
class ReasonCount:
    """How many events of a stream are in quarantine for a reason, and the place of the newest."""

    stream: str
    reason: str
    events: int = 0
    newest: str = ""


def count_reasons(store: Store, streams: Sequence[Stream]) -> tuple[list[ReasonCount], int]:
    """Counts the events in quarantine by reason.

    An event with two wrong fields is counted for both.

    Returns:
        The number of events for each reason, the most frequent first; and the number of events.
    """
    counts: dict[tuple[str, str], ReasonCount] = {}
    events = 0
    for stream in streams:
        for event in of_streams(store, [stream], values=False):
            events += 1
            for reason in reasons_of(event.reason, stream):
                key = stream.name, reason
                count = counts.setdefault(key, ReasonCount(*key))
                count.events += 1
                count.newest = event.place
    return sorted(counts.values(), key=lambda count: -count.events), events


def event_at(store: Store, streams: Sequence[Stream], partition: int, offset: int) -> Quarantined:
    """Returns the event at a place, with its bytes.

    Raises:
        UsageError: No event at this place is in quarantine.
    """
    there = [
        event
        for event in of_streams(store, streams, values=True, whole=True)
        if (event.partition, event.offset) == (partition, offset)
    ]
    for event in there:
        # If the topic was deleted and created again, the event of the newest origin is meant.
        if event.origin == max(e.origin for e in there if e.stream == event.stream):
            return event
    raise UsageError(
        f"the event must be in quarantine; got {partition}:{offset}, which is not;"
        " `trilayer quarantine list` shows what is"
    )


def choose(
    store: Store,
    streams: Sequence[Stream],
    places: Collection[tuple[int, int]],
    reason: str | None,
) -> list[Quarantined]:
    """Returns the events that a person chooses to discard: those at some places, or for a reason.

    Args:
        store: The store.
        streams: The streams whose events may be chosen.
        places: Partition and offset of each event.
        reason: One of those that `count_reasons` counts, in place of `places`.

    Raises:
        UsageError: An event is not there, no event has the reason, or a place is one of several
            streams.
    """
    chosen: list[Quarantined] = []
    all_reasons: set[str] = set()
    for stream in streams:
        for event in of_streams(store, [stream], values=False):
            reasons = reasons_of(event.reason, stream)
            all_reasons.update(reasons)
            if (event.partition, event.offset) in places or reason in reasons:
                chosen.append(event)
    left = set(places) - {(event.partition, event.offset) for event in chosen}
    if left:
        missing = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(left))
        raise UsageError(
            "the events must be in quarantine, and be neither replayed nor discarded yet; got"
            f" {missing}, which is not; `trilayer quarantine list` shows what is"
        )
    if not chosen:
        raise UsageError(
            "--reason must be one that `trilayer quarantine reasons` prints; got"
            f" {reason!r}{did_you_mean(str(reason), all_reasons)}"
        )
    having = sorted({event.stream for event in chosen})
    if places and len(having) > 1:
        raise UsageError(
            f"--stream must say which of {', '.join(having)} is meant; all have such an event"
        )
    return chosen


def discard(
    store: Store, events: Iterable[Quarantined], *, by: str, why: str, at_ms: int | None = None
) -> int:
    """Records that these events are discarded. Returns their number.

    Their bytes stay where they are.

    Args:
        store: The store, which gets one record for each stream.
        events: Events of any streams.
        by: Who discards them.
        why: The reason.
        at_ms: The time, in ms since 1970; by default now.
    """
    at_ms = now_ms() if at_ms is None else at_ms
    chosen: dict[str, list[tuple[int, int, int]]] = {}
    for event in events:
        chosen.setdefault(event.stream, []).append(event.key[1:])
    for stream, places in chosen.items():
        store.write_document(
            layout.discarded_record(stream, at_ms, uuid4().hex[:6]),
            Discarded(by, why, at_ms, places),
        )
    return sum(map(len, chosen.values()))


def _discarded(store: Store, stream: Stream) -> dict[tuple[int, int, int], str]:
    """Returns the reasons for which events were discarded, by origin, partition and offset."""
    folder = layout.discarded(stream.name)
    why: dict[tuple[int, int, int], str] = {}
    for name in store.names(folder):
        discarded = store.read_document(f"{folder}/{name}", Discarded)
        why |= dict.fromkeys(discarded.events, discarded.why)
    return why


def _source(row: Mapping[str, Any]) -> str | None:
    headers = row.get("_headers") or []
    source = next((h["value"] for h in headers if h["key"] == SOURCE_HEADER), None)
    return None if source is None else source.decode(errors="backslashreplace")


def _rows_of(store: Store, stream: Stream, values: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each event with the number of its origin."""
    columns = [*_COLUMNS, *([_VALUE] if values else [])]
    chain = Master(store, stream).read_chain()
    for interval in chain:
        number = origin_number(interval.origin_id)
        for file in interval.files if interval.quarantined else []:
            rejected = pc.field(REJECT).is_valid()
            path = store.path(file.path)
            table = pq.read_table(path, columns=columns, filters=rejected, filesystem=store.fs)
            ordered = table.sort_by([("_partition", "ascending"), ("_offset", "ascending")])
            yield from ((number, row) for row in _rows(ordered))
    origin = Origins(store, stream).present()
    if origin is None:
        return
    end = chain_end(of_origin(chain, origin.identity), origin.start)
    seen: set[tuple[int, int]] = set()
    generations = Generations(store, stream)
    for generation in reversed(standing(generations.all())):
        # After a change of the schema an older generation quarantined what counts now.
        if generation.origin_id != origin.identity or not generation.parses_as(stream):
            continue
        for commit in generations.commits(generation.name):
            if not commit.quarantine:
                continue
            table = store.read_table(commit.quarantine)
            kept = [name for name in (*columns, BYTES) if name in table.column_names]
            for row in _rows(table.select(kept)):
                place = (row["_partition"], row["_offset"])
                if row["_offset"] >= end.get(row["_partition"], 0) and place not in seen:
                    seen.add(place)
                    yield origin.number, row


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yields the rows. The append time is in ms: its year may be out of range for datetime."""
    place = table.schema.get_field_index("_timestamp")
    stamps = table["_timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    table = table.set_column(place, "_timestamp", stamps)
    for batch in table.to_batches(max_chunksize=_AT_ONCE):
        yield from batch.to_pylist()
