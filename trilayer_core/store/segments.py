"""The speed layer's format: generations of committed segments.

A generation is the lifetime of one checkpoint. Its folder `speed/STREAM/000003-ab12cd/` contains:

- `generation.json`: the origin, fingerprints, and the offsets at which it starts.
- `commits/FIRST-LAST.json`: the commit of the micro-batches FIRST to LAST.
- `data/FIRST-LAST-VIEW.parquet`: `_tick`, keys and states.
- `data/FIRST-LAST-_quarantine.parquet`: `_tick`, the records, `_bytes` and `_reject`.
- `checkpoint/`: Spark's checkpoint.

A commit lists its segments: for each tick, the offset ranges that it covers. Neighbouring commits
are compacted into one that covers the same offsets. A reader uses the widest commits and ignores
those that they contain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc

from trilayer_core.compute.grouping import partial_schema
from trilayer_core.definitions.stream import Stream, fingerprint_with
from trilayer_core.definitions.view import View
from trilayer_core.log.broker import Marks
from trilayer_core.seam import Cut, Piece
from trilayer_core.store import layout
from trilayer_core.store.documents import ABSENT_IF_NONE, NO_OTHER_FIELDS, OriginId, StoredRange
from trilayer_core.store.files import Store, StoredFile

TICK = "_tick"
"""The column with the start of the tick, in ms since 1970, in which a partial's events arrived."""

BYTES = "_bytes"
"""The column with the length of a quarantined event's value in the log.

The commit's quarantine may only have the beginning of the value.
"""

SHORTEST_REASON = 64
"""The number of characters that each reason in a commit's quarantine keeps at least."""


@dataclass(frozen=True)
class Generation:
    """One lifetime of a stream's speed layer.

    Attributes:
        name: Its number and a random part.
        origin_id: The identity of the origin in which its offsets count, see `Origin`.
        fingerprint: The fingerprint of the stream and all its views.
        views: The fingerprint of each view.
        start: The offsets from which it reads.
        created_ms: When it began, in ms since 1970.
        anew: Whether the log had lost records that older generations had read, so that none of them
            is merged any more, however far it had come.
        tick_ms: The length of its ticks; None in older generations.
        tables: The digest of each reference table that its views use; None if there are none.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    name: str
    origin_id: OriginId
    fingerprint: str
    views: Mapping[str, str]
    start: Cut
    created_ms: int
    tick_ms: int | None = None
    anew: bool = False
    tables: Annotated[Mapping[str, str] | None, ABSENT_IF_NONE] = None

    @property
    def number(self) -> int:
        """Its number. A newer generation has a higher number."""
        return int(self.name.split("-")[0])

    def parses_as(self, stream: Stream) -> bool:
        """Whether its events were parsed as the stream is declared now."""
        return self.fingerprint == fingerprint_with(stream, self.views)


@dataclass(frozen=True)
class Segment:
    """The events of one tick in a commit.

    Attributes:
        tick: The start of the tick.
        ranges: Their offsets.
        events: Their number, including those that do not fit the schema.
        quarantined: The number of those that do not fit the schema.
        oldest_ms: Their first append time; None in older commits.
        newest_ms: Their last append time; None in older commits.
        waited_ms: The longest time from append to commit, by the clocks of the broker and the speed
            layer; None in older commits.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    tick: int
    ranges: Mapping[int, StoredRange]
    events: int
    quarantined: int
    oldest_ms: int | None = None
    newest_ms: int | None = None
    waited_ms: int | None = None


@dataclass(frozen=True)
class Commit:
    """The micro-batches `first` to `last`.

    Attributes:
        first: The first micro-batch.
        last: The last one.
        segments: A segment for each tick.
        files: The file of each view's partials.
        quarantine: The file of events that do not fit the schema; None if there are none.
        committed_ms: When the newest of the micro-batches was committed.
        marks: For each partition that was read, the last record below the offset at which they end,
            or None if none was found. Older commits have no marks.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    first: int
    last: int
    segments: Sequence[Segment]
    files: Mapping[str, StoredFile]
    quarantine: StoredFile | None
    committed_ms: int
    marks: Marks = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The beginning of the names of its files."""
        return layout.micro_batches(self.first, self.last)

    @property
    def stored(self) -> list[StoredFile]:
        """All its files."""
        return [*self.files.values(), *([self.quarantine] if self.quarantine else [])]

    @property
    def pieces(self) -> list[Piece]:
        """The offsets that its segments cover."""
        name = self.name
        return [Piece((name, segment.tick), segment.ranges) for segment in self.segments]


@dataclass(frozen=True)
class Fault:
    """A record of what fails at present: a stream's query, or the compaction of its commits.

    Attributes:
        since_ms: When it failed first, in ms since 1970.
        reason: What went wrong.
    """

    since_ms: int
    reason: str


def standing(generations: Sequence[Generation]) -> list[Generation]:
    """The generations, oldest first, whose records are still in the log as they were read.

    In each origin these are the newest generation that began anew, and all after it.
    """
    in_place: list[Generation] = []
    for generation in generations:
        if generation.anew:
            in_place = [other for other in in_place if other.origin_id != generation.origin_id]
        in_place.append(generation)
    return in_place


def with_bytes(quarantine: pa.Table) -> pa.Table:
    """A commit's quarantine with `_bytes`.

    Older files lack the column; their values are complete.
    """
    if BYTES in quarantine.schema.names:
        return quarantine
    return quarantine.append_column(
        BYTES, pc.cast(pc.binary_length(quarantine["_value"]), pa.int64())
    )


def read_partials(
    store: Store, commit: Commit, view: View, ticks: frozenset[int]
) -> pa.Table | None:
    """The view's partials of these ticks, with the digest checked; None if the commit has none."""
    if view.name not in commit.files:
        return None
    schema = partial_schema(view, {TICK: pa.int64()})
    table = store.read_table(commit.files[view.name], schema=schema)
    # Most commits are needed whole, and filtering copies the rows.
    if all(segment.tick in ticks for segment in commit.segments):
        return table
    return table.filter(pc.is_in(table[TICK], pa.array(sorted(ticks), pa.int64())))
