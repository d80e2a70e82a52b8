"""The speed layer's format: generations, each one checkpoint's life, of committed segments.

Below `speed/STREAM/000003-ab12cd/`, the folder of a generation:

- `generation.json`: the topic's id, fingerprints, and where it starts.
- `commits/FIRST-LAST.json`: micro-batches FIRST to LAST; its writing is the commit.
- `data/FIRST-LAST-VIEW.parquet`: `_tick`, keys and states.
- `data/FIRST-LAST-_quarantine.parquet`: `_tick`, the records, `_bytes` and `_reject`.
- `checkpoint/`: Spark's own.

A commit lists its segments: for each tick, the offset ranges that it covers. Neighbouring commits
are compacted into one that covers the same; a reader takes the widest commits and leaves out those
inside them. generations.py reads and writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from trilayer_core.compute.grouping import partial_schema
from trilayer_core.definitions.view import View
from trilayer_core.errors import IntegrityError
from trilayer_core.log.broker import Marks
from trilayer_core.seam import Cut, Piece
from trilayer_core.store import layout
from trilayer_core.store.documents import NO_OTHER_FIELDS, StoredRange
from trilayer_core.store.files import Store, StoredFile

TICK = "_tick"
"""Start, in ms since 1970, of the tick that a partial's events arrived in."""

BYTES = "_bytes"
"""Length of a quarantined event's value in the log, of which a commit's quarantine may keep only
the beginning."""

SHORTEST_REASON = 64
"""How many characters of its reason each event in a commit's quarantine keeps at least."""


@dataclass(frozen=True)
class Generation:
    """One life of a stream's speed layer.

    Attributes:
        name: Its number and a random part.
        topic_id: Identity of the origin in which its offsets count, see `Origin`.
        fingerprint: Of the stream and all views on it.
        views: View to fingerprint.
        start: Offsets from which it reads.
        created_ms: When it began, in ms since 1970.
        anew: Whether the log had lost what the generations before had read, so that none of them is
            merged any more, however far it had come.
        tick_ms: Length of the ticks that its segments are of; None in generations from before it
            was kept.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    name: str
    topic_id: str
    fingerprint: str
    views: Mapping[str, str]
    start: Cut
    created_ms: int
    tick_ms: int | None = None
    anew: bool = False

    @property
    def number(self) -> int:
        """Its number; a newer one has a higher one."""
        return int(self.name.split("-")[0])


@dataclass(frozen=True)
class Segment:
    """The events of one tick in a commit.

    Attributes:
        tick: The tick, by its T.
        ranges: Their offsets.
        events: How many, those that don't fit included.
        quarantined: How many of them don't fit.
        oldest_ms: The first append time of them; None in commits written before it was kept.
        newest_ms: The last append time of them, likewise.
        waited_ms: From append to commit, the longest time of one of them, by the clocks of the
            broker and the speed layer, likewise.
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
    """Micro-batches first to last, whole.

    Attributes:
        first: The first micro-batch.
        last: The last one.
        segments: A segment for each tick.
        files: View to the file of its partials.
        quarantine: The file of events that don't fit; None if there is none.
        committed_ms: When the newest of them was committed.
        marks: For each partition that they have read, the last record below the offset at which
            they end, or None if none was found. Commits from before marks were kept have none.
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
        """What its files are called."""
        return layout.micro_batches(self.first, self.last)

    @property
    def stored(self) -> list[StoredFile]:
        """All files that it names."""
        return [*self.files.values(), *([self.quarantine] if self.quarantine else [])]

    @property
    def pieces(self) -> list[Piece]:
        """What its segments cover."""
        name = self.name
        return [Piece(f"{name}#{segment.tick}", segment.ranges) for segment in self.segments]


@dataclass(frozen=True)
class CompactionFault:
    """That a generation's commits have not been compacted for a while, and add up.

    Attributes:
        since_ms: When it failed first, in ms since 1970.
        reason: What went wrong.
    """

    since_ms: int
    reason: str


def standing(known: Sequence[Generation]) -> list[Generation]:
    """The generations, oldest first, whose records the log still holds as they were read.

    In each origin these are the newest generation that began anew and all after it.
    """
    kept: list[Generation] = []
    for generation in known:
        if generation.anew:
            kept = [other for other in kept if other.topic_id != generation.topic_id]
        kept.append(generation)
    return kept


def with_bytes(quarantine: pa.Table) -> pa.Table:
    """A commit's quarantine with `_bytes`.

    Files from before it was kept lack it: their values are whole.
    """
    if BYTES in quarantine.schema.names:
        return quarantine
    return quarantine.append_column(
        BYTES, pc.cast(pc.binary_length(quarantine["_value"]), pa.int64())
    )


def read_partials(
    store: Store, commit: Commit, view: View, ticks: frozenset[int]
) -> pa.Table | None:
    """The view's partials of those ticks, digest checked; None where the commit has none."""
    if view.name not in commit.files:
        return None
    table = store.read_table(commit.files[view.name])
    schema = partial_schema(view, {TICK: pa.int64()})
    if table.schema.names != schema.names:
        raise IntegrityError(
            f"{commit.files[view.name].path} must have columns {schema.names}; got"
            f" {table.schema.names}"
        )
    table = table.cast(schema)
    if all(segment.tick in ticks for segment in commit.segments):
        return table
    return table.filter(pc.is_in(table[TICK], pa.array(sorted(ticks), pa.int64())))
