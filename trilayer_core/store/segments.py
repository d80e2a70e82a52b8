"""The speed layer's format: generations, each one checkpoint's life, of committed segments.

Below `speed/STREAM/000003-ab12cd/`, the folder of a generation:

- `generation.json`: the topic's id, fingerprints, and where it starts.
- `commits/FIRST-LAST.json`: micro-batches FIRST to LAST; its writing is the commit.
- `data/FIRST-LAST-VIEW.parquet`: `_tick`, keys and states.
- `data/FIRST-LAST-_quarantine.parquet`: `_tick`, the records, `_bytes` and `_reject`.
- `checkpoint/`: Spark's own.

A commit lists its segments: for each tick, the offset ranges that it covers. Neighbouring commits
are compacted into one that covers the same; a reader takes the widest commits and leaves out those
inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from trilayer_core.compute.grouping import partial_schema
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError, IntegrityError, TrilayerError
from trilayer_core.log.broker import Marks
from trilayer_core.seam import (
    Cut,
    Piece,
    cover,
)
from trilayer_core.store import layout
from trilayer_core.store.documents import NO_OTHER_FIELDS, StoredRange
from trilayer_core.store.files import Store, StoredFile, read_listed

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
    def pieces(self) -> list[Piece]:
        """What its segments cover."""
        name = self.name
        return [Piece(f"{name}#{segment.tick}", segment.ranges) for segment in self.segments]


def generations(store: Store, stream: Stream) -> list[Generation]:
    """Every generation of the stream, oldest first."""

    def listing() -> list[str]:
        names = [name for name in store.names(layout.generations(stream)) if name[:6].isdigit()]
        paths = [layout.generation_record(stream, name) for name in names]
        return [path for path in paths if store.exists(path)]

    # Read again if a batch run has just cleared one away.
    return read_listed(listing, lambda path: store.read_document(path, Generation))


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


def commit_names(store: Store, stream: Stream, generation: str) -> list[tuple[int, int]]:
    """(first, last) of the widest commits, in order; those inside a wider one are left out."""
    names = [name.removesuffix(".json") for name in store.names(layout.commits(stream, generation))]
    spans = sorted((int(name[:12]), -int(name[13:])) for name in names)
    widest: list[tuple[int, int]] = []
    for first, negative_last in spans:
        if not widest or -negative_last > widest[-1][1]:
            widest.append((first, -negative_last))
    return widest


def read_commit(store: Store, stream: Stream, generation: str, first: int, last: int) -> Commit:
    """One commit. Raises IntegrityError if it is missing or altered."""
    return store.read_document(layout.commit(stream, generation, first, last), Commit)


@dataclass(frozen=True)
class CompactionFault:
    """That a generation's commits have not been compacted for a while, and add up.

    Attributes:
        since_ms: When it failed first, in ms since 1970.
        reason: What went wrong.
    """

    since_ms: int
    reason: str


def compaction_fault(store: Store, stream: Stream) -> CompactionFault | None:
    """What keeps the commits of the stream's newest generation from being compacted.

    None if nothing does.
    """
    known = generations(store, stream)
    path = layout.compaction_fault(stream, known[-1].name) if known else ""
    if not path or not store.exists(path):
        return None
    return store.read_document(path, CompactionFault)


@dataclass(frozen=True)
class Cover:
    """A generation's segments that cover the log from a cut on, proven.

    `ticks`: commit name to the ticks of it that are above the cut.
    """

    generation: Generation
    commits: Sequence[Commit]
    ticks: Mapping[str, frozenset[int]]
    head: Cut


def cover_from(
    stream: Stream, generation: Generation, commits: Sequence[Commit], cut: Cut
) -> Cover:
    """Proves that the commits cover the log from `cut` to their head.

    Raises CoverageError that names stream, partition and range.
    """
    used, head = cover(stream.name, cut, (piece for commit in commits for piece in commit.pieces))
    return Cover(generation, commits, ticks_by_commit(used), head)


def ticks_by_commit(pieces: Sequence[str]) -> dict[str, frozenset[int]]:
    """Commit name to ticks, of the names of pieces."""
    ticks: dict[str, set[int]] = {}
    for piece in pieces:
        commit, tick = piece.split("#")
        ticks.setdefault(commit, set()).add(int(tick))
    return {commit: frozenset(found) for commit, found in ticks.items()}


def read_commits(store: Store, stream: Stream, generation: str) -> list[Commit]:
    """All commits of a generation, the widest ones, in order.

    Read again where compaction has just replaced some.
    """
    return read_listed(
        lambda: commit_names(store, stream, generation),
        lambda span: read_commit(store, stream, generation, *span),
    )


class KnownCommits:
    """Commits of one stream's generations, each read once: a commit never changes."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[int, int], Commit]] = {}

    def read_all(self, store: Store, stream: Stream, generation: str) -> list[Commit]:
        """As `read_commits`."""
        commits = read_listed(
            lambda: commit_names(store, stream, generation),
            lambda span: self.read(store, stream, generation, *span),
        )
        self._known[generation] = {(commit.first, commit.last): commit for commit in commits}
        return commits

    def read(self, store: Store, stream: Stream, generation: str, first: int, last: int) -> Commit:
        """As `read_commit`."""
        known = self._known.setdefault(generation, {})
        if (first, last) not in known:
            known[first, last] = read_commit(store, stream, generation, first, last)
        return known[first, last]

    def keep(self, names: Iterable[str]) -> None:
        """Forgets all generations but these."""
        self._known = {name: self._known[name] for name in names if name in self._known}


def best_cover(
    store: Store,
    stream: Stream,
    topic_id: str,
    view_fingerprints: Mapping[str, str],
    cut: Cut,
    read: Callable[[Store, Stream, str], list[Commit]] = read_commits,
    departed: int = 0,
) -> Cover | None:
    """The cover of the newest generation whose head is at or past every older generation's head.

    A generation that is being rebuilt takes over once it is ahead in every partition, so that no
    partition's head goes back. It does go back where the log has lost records that the older
    generations had read: these are not looked at any more. One that begins above the cut, since the
    log held no more when it began, waits for the publication that reaches it; until then an older
    one answers.

    Args:
        store: The store.
        stream: The stream.
        topic_id: Identity of the origin in which the cut counts.
        view_fingerprints: Only generations that compute these views by these definitions are looked
            at.
        cut: From where the log must be covered.
        read: Reads the commits of a generation.
        departed: Generations up to this number are not looked at, see `PublishedStream`.

    Returns:
        The cover; None if no generation computes these views.

    Raises:
        CoverageError: The newest generation does not cover the log from the cut. An older one,
            which has ended, would hide that the answer will never grow again.
        IntegrityError: The newest generation can't be read.
    """
    best: Cover | None = None
    error: TrilayerError | None = None
    for generation in standing(generations(store, stream)):
        if generation.number <= departed or not computes(generation, topic_id, view_fingerprints):
            continue
        late = _begins_late(stream, generation, cut)
        if late is not None:
            error = error or (None if best else late)
            continue
        error = None
        try:
            found = cover_from(stream, generation, read(store, stream, generation.name), cut)
        except (CoverageError, IntegrityError) as problem:
            error = problem
            continue
        if best is None or all(found.head.get(p, 0) >= offset for p, offset in best.head.items()):
            best = found
    if error:
        raise error
    return best


def _begins_late(stream: Stream, generation: Generation, cut: Cut) -> CoverageError | None:
    """What to say of a generation that begins above the cut.

    That happens only if retention took the rest.
    """
    for partition, start in sorted(generation.start.items()):
        if start > cut.get(partition, 0):
            return CoverageError(
                f"stream {stream.name!r} partition {partition}: nothing covers offsets"
                f" [{cut.get(partition, 0)}, {start}): the log no longer held them when generation"
                f" {generation.number} of the speed layer began; run `trilayer batch run`"
            )
    return None


def computes(generation: Generation, topic_id: str, view_fingerprints: Mapping[str, str]) -> bool:
    """Whether the generation is of this origin and computes these views by these definitions."""
    return generation.topic_id == topic_id and all(
        generation.views.get(name) == fingerprint for name, fingerprint in view_fingerprints.items()
    )


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
