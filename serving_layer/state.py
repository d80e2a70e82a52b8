"""What a reader's tables contain, what they should contain, and how they change, without DuckDB.

A view whose definition is not that of the publication has no answer; neither has any view of a
stream that the publication does not have. What is loaded of a stream can be extended by the next
commits as long as the cut, the generation and the note stay the same.

From what is loaded, the publication in force, and what the speed layer has above its cut,
`replacing` makes a `Plan`, which `Tables` carries out in one transaction:

- A batch file is read once. If both publications have it, its rows stay where they are.
- The rows of unwanted files are deleted, or the table is rewritten without them once too many of
  its rows would be deleted ones.
- The speed tables of a stream are reloaded if they can't be extended to the present state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from trilayer_core.definitions.alerts import Alert
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError
from trilayer_core.seam import Cut, cover
from trilayer_core.store import layout
from trilayer_core.store.alerts import writes_in
from trilayer_core.store.cover import Cover, ticks_by_commit
from trilayer_core.store.files import StoredFile
from trilayer_core.store.origins import Origin
from trilayer_core.store.publication import Publication
from trilayer_core.store.segments import Commit, Generation

MERGE_ROWS = 100_000
"""The minimum number of speed rows of a view to be merged by tick and key.

They are merged when there are this many, and twice as many as after the last merge. A row is thus
merged a few times at most, however many keys there are, because the rows that have arrived since
the last merge pay for the next one.
"""


@dataclass(frozen=True)
class StreamState:
    """What the tables contain of one stream's speed layer.

    `next_batch` is the next micro-batch to come; `note` explains why there is none.
    """

    cut: Cut
    generation: str | None = None
    head: Cut = field(default_factory=dict)
    next_batch: int = 0
    committed_ms: int | None = None
    events: int = 0
    quarantined: int = 0
    note: str = ""

    @property
    def reach(self) -> int:
        """A number that grows with the head."""
        return sum(self.head.values())


@dataclass(frozen=True)
class SentState:
    """What the tables contain of one topic of alerts.

    Attributes:
        document: The bytes of the document with its files; None if there is none.
        paths: The files.
        last: The number of the last write that they contain; see `sent_part`.
    """

    document: bytes | None = None
    paths: Set[str] = frozenset()
    last: int = 0

    def unread(self, files: Sequence[StoredFile]) -> list[StoredFile] | None:
        """The files of which not all rows are loaded; None if what is loaded is of other files.

        Args:
            files: The files that the present document names.
        """
        writes = {file: writes_in(file) for file in files}
        if self.last > max((w[1] for w in writes.values() if w), default=0):
            return None
        return [
            file
            for file, w in writes.items()
            if file.path not in self.paths and (w is None or w[1] > self.last)
        ]

    @staticmethod
    def of(document: bytes | None, files: Sequence[StoredFile]) -> SentState:
        """The state once the files of a document are loaded."""
        last = max((w[1] for file in files if (w := writes_in(file))), default=0)
        return SentState(document, frozenset(file.path for file in files), last)


@dataclass(frozen=True)
class Loaded:
    """What the tables contain.

    Attributes:
        pointer: The bytes of the pointer from which they were loaded.
        publication: The publication; None before the first.
        streams: The state of each stream's speed layer.
        files: The number of each batch file of a view in the `_file` column.
        missing_views: Views without an answer, with the reason.
        speed_rows: The number of rows in each view's speed table.
        merged_rows: The number of rows that the last merge of each view's speed table left.
        deleted_rows: The number of rows deleted from each view's batch table since it was
            rewritten.
        next_file: A number that no batch file has had.
        sent: What is loaded of each topic of alerts.
    """

    pointer: bytes | None = None
    publication: Publication | None = None
    files: Mapping[str, Mapping[StoredFile, int]] = field(default_factory=dict)
    streams: Mapping[str, StreamState] = field(default_factory=dict)
    missing_views: Mapping[str, str] = field(default_factory=dict)
    speed_rows: Mapping[str, int] = field(default_factory=dict)
    merged_rows: Mapping[str, int] = field(default_factory=dict)
    deleted_rows: Mapping[str, int] = field(default_factory=dict)
    next_file: int = 0
    sent: Mapping[str, SentState] = field(default_factory=dict)

    def check_answered(self, view: str) -> None:
        """Raises CoverageError with the reason if the view has no answer."""
        if view in self.missing_views:
            raise CoverageError(f"view {view!r} has no answer: {self.missing_views[view]}")

    def grown(self, stream: Stream, state: StreamState, arrived: Mapping[str, int]) -> Loaded:
        """This with a stream's new state, after rows of each view were inserted."""
        rows = {name: self.speed_rows.get(name, 0) + count for name, count in arrived.items()}
        return replace(
            self,
            streams={**self.streams, stream.name: state},
            speed_rows={**self.speed_rows, **rows},
        )

    def merged(self, view: View, left: int) -> Loaded:
        """This after the view's speed table was merged, with the number of rows that are left."""
        return replace(
            self,
            speed_rows={**self.speed_rows, view.name: left},
            merged_rows={**self.merged_rows, view.name: left},
        )

    def due(self, view: View) -> bool:
        """Whether the view's speed table should be merged now."""
        rows = self.speed_rows.get(view.name, 0)
        return rows >= max(MERGE_ROWS, 2 * self.merged_rows.get(view.name, 0))


# -- what the speed layer has above the cut --------------------------------------------------------


@dataclass(frozen=True)
class Basis:
    """Where a stream's speed layer begins to answer, and which views have an answer.

    Attributes:
        cut: The cut from which on segments are merged.
        origin_id: The identity of the origin in which the cut counts.
        newest_ruled_out: Generations up to this number are not merged.
        fit: What is stored of the views that have an answer.
        missing: The other views, with the reason.
        note: Why the stream has no answer at all; else empty.
    """

    cut: Cut
    origin_id: str = ""
    newest_ruled_out: int = 0
    fit: Sequence[View] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class StreamTarget:
    """What a stream's tables should contain.

    Attributes:
        cover: The segments above the cut; None if there are none.
        state: The state of the tables once they are loaded.
        missing: Views without an answer, with the reason.
    """

    cover: Cover | None
    state: StreamState
    missing: Mapping[str, str]


def basis(
    catalog: Catalog, stream: Stream, publication: Publication | None, origins: Sequence[Origin]
) -> Basis:
    """The basis of a stream's answers.

    Before the first publication, answers consist of the segments of the first origin. What batch
    runs have ingested is not published yet, and a new origin continues where that ends.

    Args:
        catalog: The definitions.
        stream: The stream.
        publication: The publication in force; None before the first.
        origins: The stream's origins, oldest first.
    """
    views = catalog.views_of(stream)
    published = publication.streams.get(stream.name) if publication else None
    if publication is None or published is None:
        if not origins:
            why = "no layer has run on its stream yet"
        elif publication and any(view.name in publication.views for view in catalog.views):
            why = _added_since(publication)
        else:
            return Basis(origins[0].start, origins[0].identity, fit=catalog.stored_of(stream))
        return Basis({}, missing={view.name: why for view in views}, note=why)
    missing = {view.name: because for view in views if (because := _why_missing(view, publication))}
    fit = [stored for view in views if view.name not in missing for stored in view.stored]
    return Basis(published.cut, published.origin_id, published.newest_ruled_out, fit, missing)


def stream_target(
    on: Basis,
    publication: Publication | None,
    origins: Sequence[Origin],
    cover: Cover | None,
    newest: Generation | None,
) -> StreamTarget:
    """Determines what the tables of a stream should contain.

    Args:
        on: The basis of the stream's answers.
        publication: The publication in force; None before the first.
        origins: The stream's origins, oldest first.
        cover: The segments above the cut; None if there are none.
        newest: The newest generation; None if the speed layer's folder has been deleted meanwhile.
    """
    if on.note:
        return StreamTarget(None, StreamState({}, note=on.note), on.missing)
    alone = _why_alone(origins, on.origin_id)
    if cover is None:
        why = alone or "the speed layer has not run these definitions"
        at = f"T={publication.t}" if publication else "no publication"
        note = f"{why}: answers stop at the cut of {at}"
        return StreamTarget(None, StreamState(on.cut, head=on.cut, note=note), on.missing)
    events, quarantined = _count(cover.commits, cover.ticks)
    last = cover.commits[-1] if cover.commits else None
    state = StreamState(
        on.cut,
        cover.generation.name,
        cover.head,
        last.last + 1 if last else 0,
        last.committed_ms if last else None,
        events,
        quarantined,
        alone or _why_ended(cover.generation, newest or cover.generation, on.cut),
    )
    return StreamTarget(cover, state, on.missing)


def grown(
    stream: Stream, state: StreamState, commits: Sequence[Commit]
) -> tuple[StreamState, Mapping[str, frozenset[int]]]:
    """The state after these commits are loaded, and the ticks that are loaded, by commit name.

    Raises:
        CoverageError: They do not continue from the state's head.
    """
    used, head = cover(
        stream.name, state.head, (piece for commit in commits for piece in commit.pieces)
    )
    ticks = ticks_by_commit(used)
    events, quarantined = _count(commits, ticks)
    return replace(
        state,
        head=head,
        next_batch=commits[-1].last + 1,
        committed_ms=commits[-1].committed_ms,
        events=state.events + events,
        quarantined=state.quarantined + quarantined,
    ), ticks  # fmt: skip


def goes_on(before: StreamState, now: StreamState) -> bool:
    """Whether the loaded state can be extended to the present one: same cut, same generation."""
    return before.cut == now.cut and before.generation == now.generation and before.note == now.note


# -- in words --------------------------------------------------------------------------------------


def _why_alone(origins: Sequence[Origin], origin_id: str) -> str:
    """A message if an origin newer than that of the batch views has begun, else empty."""
    if not origins or origins[-1].identity == origin_id:
        return ""
    return (
        "a loss was accepted since; what the log has had from there on is in the next publication"
    )


def _why_ended(used: Generation, newest: Generation, cut: Cut) -> str:
    """A message if the generation that answers is an older one that will not grow, else empty."""
    if newest.fingerprint != used.fingerprint:
        return "the speed layer runs other definitions since"
    if any(start > cut.get(partition, 0) for partition, start in newest.start.items()):
        return (
            "the speed layer has begun anew above the cut: answers stop at the head until the next"
            " publication"
        )
    return ""


def _why_missing(view: View, publication: Publication) -> str | None:
    """The reason why a view has no answer; None if it has one."""
    if view.name not in publication.views:
        return _added_since(publication)
    if publication.has(view):
        return None
    return (
        f"its definition has changed since version {publication.version}; it has an answer from"
        " the next publication on"
    )


def _added_since(publication: Publication) -> str:
    return (
        f"it was added after version {publication.version}; it has an answer from the next"
        " publication on"
    )


def _count(commits: Iterable[Commit], ticks: Mapping[str, frozenset[int]]) -> tuple[int, int]:
    """The numbers of events and quarantined events in these ticks of the commits."""
    events = quarantined = 0
    for commit in commits:
        used = ticks.get(commit.name, frozenset())
        for segment in commit.segments:
            if segment.tick in used:
                events += segment.events
                quarantined += segment.quarantined
    return events, quarantined


MOST_DELETED = 0.25
"""A view's batch table is rewritten once the ratio of deleted to remaining rows exceeds this.

DuckDB frees deleted rows only at a moment when no read transaction is open, which may never come. A
table that is dropped is freed when the last transaction that saw it ends.
"""


@dataclass(frozen=True)
class FilesPlan:
    """The changes to a table that holds the rows of batch files.

    Attributes:
        gone: The numbers of the batch files whose rows are removed.
        staying: The numbers of the batch files whose rows stay, if the table is rewritten without
            the others; None if the others are deleted from it.
        arriving: The batch files whose rows are added, with their numbers.
    """

    gone: Sequence[int]
    staying: Sequence[int] | None
    arriving: Mapping[StoredFile, int]


@dataclass(frozen=True)
class ViewPlan(FilesPlan):
    """The changes to the tables of one view.

    Attributes:
        view: The view.
        reload_speed: Whether its speed table is reloaded; otherwise it stays as it is.
        cover: The segments from which it is reloaded; None if it becomes empty.
    """

    view: View
    reload_speed: bool
    cover: Cover | None


@dataclass(frozen=True)
class Plan:
    """The changes to all tables, to be made in one transaction.

    Attributes:
        views: The changes to each view's tables.
        alerts: The changes to the batch layer's set of each alert; empty if the publication stays
            the same.
        loaded: What the tables contain afterwards, except for the numbers of rows in speed tables.
    """

    views: Sequence[ViewPlan]
    loaded: Loaded
    alerts: Sequence[tuple[Alert, FilesPlan]] = ()


def replacing(
    before: Loaded,
    catalog: Catalog,
    pointer: bytes | None,
    publication: Publication | None,
    streams: Mapping[str, StreamTarget],
    stale: Set[str],
) -> Plan:
    """Plans the change to a publication, and of stale streams to their present segments.

    Args:
        before: What the tables contain.
        catalog: The definitions.
        pointer: The bytes of the pointer that named the publication.
        publication: The publication; None before the first.
        streams: What the tables of each stream should contain.
        stale: The streams whose speed tables are reloaded.
    """
    missing = {name: why for each in streams.values() for name, why in each.missing.items()}
    plans, next_file = [], before.next_file
    files: dict[str, Mapping[StoredFile, int]] = {}
    deleted: dict[str, int] = {}

    def change(name: str, wanted: Sequence[StoredFile]) -> FilesPlan:
        nonlocal next_file
        held = before.files.get(name, {})
        new = [file for file in wanted if file not in held]
        arriving = {file: next_file + place for place, file in enumerate(new)}
        next_file += len(new)
        files[name] = {file: arriving.get(file, held.get(file, 0)) for file in wanted}
        gone = [file for file in held if file not in files[name]]
        staying = [file for file in held if file in files[name]]
        rows = sum(file.rows for file in gone) + before.deleted_rows.get(name, 0)
        rewrite = bool(gone) and rows > MOST_DELETED * sum(file.rows for file in staying)
        deleted[name] = 0 if rewrite else rows
        return FilesPlan(
            [held[file] for file in gone],
            [held[file] for file in staying] if rewrite else None,
            arriving,
        )

    for view in catalog.stored:
        answered = view.declared_name not in missing
        answers = publication and view.name in publication.views and answered
        changed = change(
            view.name, publication.views[view.name].files if publication and answers else []
        )
        plans.append(
            ViewPlan(
                changed.gone,
                changed.staying,
                changed.arriving,
                view,
                view.stream.name in stale,
                streams[view.stream.name].cover if answered else None,
            )
        )
    alerts = []
    for alert in catalog.alerts:
        published = publication.alert(alert) if publication else None
        changed = change(layout.alert_files(alert.name), published.files if published else [])
        alerts.append((alert, changed))
    # The batch layer's alerts change only with the publication, unlike the segments of a stream.
    moved = pointer != before.pointer or not before.streams
    of_stale = {view.name for view in catalog.stored if view.stream.name in stale}
    return Plan(
        plans,
        Loaded(
            pointer,
            publication,
            files,
            {
                name: each.state if name in stale else before.streams[name]
                for name, each in streams.items()
            },
            missing,
            {name: rows for name, rows in before.speed_rows.items() if name not in of_stale},
            {name: rows for name, rows in before.merged_rows.items() if name not in of_stale},
            deleted,
            next_file,
            before.sent,
        ),
        alerts if moved else (),
    )
