"""Loads what is new from the store into native DuckDB tables.

Publications and segments are loaded a whole state at a time.

`Loaded` describes what the tables hold; a refresh works out what they should hold, and moves them
there in one transaction, so that no reader sees half. Coverage is proven before anything is loaded:
what can't be proven is an error, and the tables stay as they were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb
import pyarrow as pa

from trilayer_core.compute.grouping import partial_schema
from trilayer_core.compute.merging import create_table_sql, insert_rows, merge_select, quoted_duckdb
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError, IntegrityError
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.seam import Cut, cover
from trilayer_core.store.cover import Cover, best_cover, ticks_by_commit
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.generations import KnownCommits
from trilayer_core.store.origins import Origin, Origins
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publication import Publication, choose_version
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import TICK, Commit, Generation, read_partials

LOOK_AROUND_S = 1.0
"""How often the whole of a stream's folder is listed, for generations and compactions; the next
commit is looked for each time.
"""

MOST_DELETED = 0.25
"""A view's batch table is written anew once the rows deleted from it are more than this share of
those that stay.

DuckDB frees deleted rows only at a moment at which no read transaction is open, which may never
come; a table that is dropped is freed when the last transaction that saw it ends.
"""

MOST_AT_ONCE = 100
"""Commits that are loaded in one transaction, when a reader has not asked for a while."""

COMPACT_ROWS = 50_000
"""A view's speed rows are merged by tick when they have grown to twice what they were after the
last time, and to this many.
"""


@dataclass(frozen=True)
class StreamState:
    """What the tables hold of one stream's speed layer.

    `next_batch` is the micro-batch that would come next; `note` says why there is none.
    """

    cut: Cut
    generation: str | None = None
    head: Cut = field(default_factory=dict)
    next_batch: int = 0
    committed_ms: int | None = None
    events: int = 0
    quarantined: int = 0
    note: str = ""


@dataclass(frozen=True)
class Loaded:
    """What the tables hold.

    Attributes:
        pointer: The pointer's bytes that they were loaded by.
        publication: The publication; None before the first.
        streams: Stream to the state of its speed layer.
        files: Per view, the number of each batch file in the `_file` column.
        missing_views: Views without an answer, with the reason.
        speed_rows: Per view, rows in its speed table.
        deleted_rows: Per view, rows deleted from its batch table since that was written anew.
    """

    pointer: bytes | None = None
    publication: Publication | None = None
    files: Mapping[str, Mapping[StoredFile, int]] = field(default_factory=dict)
    streams: Mapping[str, StreamState] = field(default_factory=dict)
    missing_views: Mapping[str, str] = field(default_factory=dict)
    speed_rows: Mapping[str, int] = field(default_factory=dict)
    deleted_rows: Mapping[str, int] = field(default_factory=dict)


_BATCH_COLUMNS = ["_file INTEGER"]


def batch_table(view: View) -> str:
    """The table of a view's batch partials."""
    return f"_batch.{quoted_duckdb(view.name)}"


def speed_table(view: View) -> str:
    """The table of a view's speed partials."""
    return f"_speed.{quoted_duckdb(view.name)}"


class Refresh:
    """Keeps one DuckDB's tables at the newest provable state of a store."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        catalog: Catalog,
        store: Store,
        clock: Callable[[], float] = time.monotonic,
        before_swap: Callable[[], None] = lambda: None,
    ):
        """Opens what there is.

        `before_swap` is called before tables are replaced, to end the read transactions that nobody
        uses.
        """
        self._connection, self._catalog, self._store, self._clock = (
            connection,
            catalog,
            store,
            clock,
        )
        self._before_swap = before_swap
        self._commits = {stream.name: KnownCommits(store, stream) for stream in catalog.streams}
        self._looked_around = float("-inf")
        self._next_file = 0
        self.loaded = Loaded()
        connection.execute("CREATE SCHEMA _batch; CREATE SCHEMA _speed")
        for view in catalog.views:
            connection.execute(create_table_sql(batch_table(view), view, _BATCH_COLUMNS))
            connection.execute(create_table_sql(speed_table(view), view, [f"{TICK} BIGINT"]))

    def refresh(self) -> Loaded:
        """Loads what is new and returns what the tables hold now.

        Raises IntegrityError for a file that is missing, truncated or altered, CoverageError for
        offsets that no segment covers.
        """
        said = ""
        for attempt in range(10):
            seen = PointerFile(self._store).data()
            try:
                self._step(seen)
                return self.loaded
            except (IntegrityError, CoverageError) as error:
                # A file may have been cleared away or compacted while it was being read, or
                # segments below the cut of a publication that came meanwhile: then the pointer or
                # the listing has moved on, and the same is not missed twice.
                self._looked_around = float("-inf")
                if attempt == 9 or (seen == PointerFile(self._store).data() and str(error) == said):
                    raise
                said = str(error)
        raise AssertionError("unreachable")

    def load(self, version: int) -> Loaded:
        """Loads an earlier publication that is kept, as if it were in force.

        The segments from its cut on are loaded up to the present head.

        To be called once, and `refresh` not after it. Raises as `refresh`, and UsageError for a
        version that is not kept.
        """
        for attempt in range(5):
            publication = choose_version(Publications(self._store).versions(), version)
            try:
                self._reload(
                    None, publication, lambda: version in Publications(self._store).numbers()
                )
                return self.loaded
            except (IntegrityError, CoverageError):
                # Compacted or cleared away while it was being read: then it is listed otherwise
                # now.
                if attempt == 4:
                    raise
        raise AssertionError("unreachable")

    def _step(self, pointer: bytes | None) -> None:
        now = self._clock()
        if (
            pointer != self.loaded.pointer
            or not self.loaded.streams
            or now - self._looked_around >= LOOK_AROUND_S
        ):
            publication = (
                Publications(self._store).pointed_at(pointer) if pointer is not None else None
            )
            self._reload(pointer, publication, lambda: PointerFile(self._store).data() == pointer)
            self._looked_around = now
            return
        for stream in self._catalog.streams:
            self._load_next(stream)

    # -- the cheap way: the next commit of the generation that is loaded ---------------------------

    def _load_next(self, stream: Stream) -> None:
        state = self.loaded.streams[stream.name]
        while state.generation is not None:
            commits: list[Commit] = []
            batch, known = state.next_batch, self._commits[stream.name]
            while len(commits) < MOST_AT_ONCE and known.has_commit(state.generation, batch, batch):
                commits.append(known.commit(state.generation, batch, batch))
                batch += 1
            if not commits:
                return
            state = self._append(stream, state, commits)

    def _append(self, stream: Stream, state: StreamState, commits: list[Commit]) -> StreamState:
        """Loads commits that go on from the state's head, in one transaction."""
        used, head = cover(
            stream.name, state.head, (piece for commit in commits for piece in commit.pieces)
        )
        ticks = ticks_by_commit(used)
        tables = {
            view.name: self._partials(view, commits, ticks)
            for view in self._catalog.views_of(stream)
        }
        failpoint("refresh.before-load")
        rows = dict(self.loaded.speed_rows)
        with _transaction(self._connection):
            for view in self._catalog.views_of(stream):
                if tables[view.name]:
                    table = pa.concat_tables(tables[view.name])
                    insert_rows(self._connection, speed_table(view), table)
                    rows[view.name] = rows.get(view.name, 0) + table.num_rows
            failpoint("refresh.before-commit")
        events, quarantined = _count(commits, ticks)
        state = replace(
            state,
            head=head,
            next_batch=commits[-1].last + 1,
            committed_ms=commits[-1].committed_ms,
            events=state.events + events,
            quarantined=state.quarantined + quarantined,
        )
        self.loaded = replace(
            self.loaded, streams={**self.loaded.streams, stream.name: state}, speed_rows=rows
        )
        failpoint("refresh.after-commit")
        self._compact()
        return state

    def _partials(
        self, view: View, commits: list[Commit], ticks: Mapping[str, frozenset[int]]
    ) -> list[pa.Table]:
        found = [
            read_partials(self._store, commit, view, ticks[commit.name])
            for commit in commits
            if commit.name in ticks
        ]
        return [table for table in found if table is not None]

    def _compact(self) -> None:
        """Merges a view's speed rows by tick and key, once they have doubled."""
        for view in self._catalog.views:
            if self.loaded.speed_rows.get(view.name, 0) >= COMPACT_ROWS * 2:
                with _transaction(self._connection):
                    _replace_table(
                        self._connection, view, merge_select(view, [speed_table(view)], [TICK])
                    )
                left = _single(
                    self._connection.execute(f"SELECT count(*) FROM {speed_table(view)}")
                )
                self.loaded = replace(
                    self.loaded,
                    speed_rows={**self.loaded.speed_rows, view.name: min(left, COMPACT_ROWS)},
                )

    # -- the whole way: publication, generations, coverage -----------------------------------------

    def _reload(
        self, pointer: bytes | None, publication: Publication | None, stands: Callable[[], bool]
    ) -> None:
        """Moves the tables to the publication and the segments above its cut.

        Args:
            pointer: the pointer's bytes that named the publication.
            publication: None before the first one.
            stands: whether the publication is still kept for readers.

        Raises:
            IntegrityError: if it is not, since segments above its cut may have been cleared away
                before they were listed, which looks as if they had never been there.
        """
        before = self.loaded
        moved = pointer != before.pointer or not before.streams
        covers: dict[str, Cover | None] = {}
        states: dict[str, StreamState] = {}
        missing: dict[str, str] = {}
        for stream in self._catalog.streams:
            covers[stream.name], states[stream.name], absent = self._find(stream, publication)
            missing |= absent
        if not stands():
            raise IntegrityError(
                "the publication that is read must stay in force meanwhile; another took its"
                " place; ask again"
            )
        stale = {
            stream.name
            for stream in self._catalog.streams
            if moved or not _goes_on(before.streams[stream.name], states[stream.name])
        }
        for stream in self._catalog.streams:
            if stream.name not in stale:
                self._load_next(stream)
                # Short of the head although nothing is missing: what comes next was compacted
                # before it was loaded here.
                if _reach(self.loaded.streams[stream.name]) < _reach(states[stream.name]):
                    stale.add(stream.name)
        if not stale and not moved:
            return
        self._swap(pointer, publication, covers, states, missing, stale)

    def _find(
        self, stream: Stream, publication: Publication | None
    ) -> tuple[Cover | None, StreamState, dict[str, str]]:
        """The cover of the stream from the publication's cut on.

        With what is said of it, and the views that have no answer.
        """
        views = self._catalog.views_of(stream)
        of_stream = Origins(self._store, stream).all()
        # Before the first publication the answers are those of the first origin's segments: what
        # batch runs have ingested of it is not published yet, and a new origin goes on where that
        # ends.
        origin = of_stream[0] if of_stream else None
        if publication is None or stream.name not in publication.streams:
            why = "no layer has run on its stream yet" if origin is None else ""
            if (
                publication is not None
                and origin is not None
                and any(v.name in publication.views for v in self._catalog.views)
            ):
                why = (
                    f"it was added after version {publication.version}; it has an answer from the"
                    " next publication on"
                )
            if why or origin is None:
                return None, StreamState({}, note=why), {view.name: why for view in views}
            cut, topic_id, departed, fit = origin.start, origin.topic_id, 0, list(views)
        else:
            published = publication.streams[stream.name]
            cut, topic_id, departed = published.cut, published.topic_id, published.departed
            fit = [
                v
                for v in views
                if v.name in publication.views
                and publication.views[v.name].fingerprint == v.fingerprint
            ]
        missing = {v.name: _no_answer(v, publication) for v in views if v not in fit}
        fingerprints = {view.name: view.fingerprint for view in fit}
        known = self._commits[stream.name]
        found = best_cover(known, topic_id, fingerprints, cut, departed) if fit else None
        if found is None:
            why = _why_alone(of_stream, topic_id) or "the speed layer has not run these definitions"
            note = (
                f"{why}: answers stop at the cut of"
                f" {'T=' + publication.t if publication else 'no publication'}"
            )
            return None, StreamState(cut, head=cut, note=note), missing
        there = known.all()
        known.keep(generation.name for generation in there)
        # None is there if the speed layer's folder has been deleted meanwhile.
        newest = there[-1] if there else found.generation
        note = _why_alone(of_stream, topic_id) or _why_ended(found.generation, newest, cut)
        commits = found.commits
        events, quarantined = _count(commits, found.ticks)
        return found, StreamState(
            cut, found.generation.name, found.head, commits[-1].last + 1 if commits else 0,
            commits[-1].committed_ms if commits else None, events, quarantined, note,
        ), missing  # fmt: skip

    def _swap(
        self,
        pointer: bytes | None,
        publication: Publication | None,
        covers: Mapping[str, Cover | None],
        states: Mapping[str, StreamState],
        missing: Mapping[str, str],
        stale: set[str],
    ) -> None:
        """Moves the tables to the publication and to the covers, in one transaction.

        Batch tables go to the publication, the speed tables of stale streams to their covers.
        """
        before = self.loaded
        files: dict[str, Mapping[StoredFile, int]] = {}
        arriving: dict[str, list[tuple[int, pa.Table]]] = {}
        for view in self._catalog.views:
            wanted = (
                publication.views[view.name].files
                if publication and view.name in publication.views and view.name not in missing
                else []
            )
            held = before.files.get(view.name, {})
            numbers = {}
            for file in wanted:
                if file in held:
                    numbers[file] = held[file]
                else:
                    numbers[file] = self._next_file
                    self._next_file += 1
                    arriving.setdefault(view.name, []).append(
                        (numbers[file], self._store.read_table(file))
                    )
            files[view.name] = numbers
        speed: dict[str, list[pa.Table]] = {}
        for stream in self._catalog.streams:
            found = covers[stream.name]
            if stream.name in stale and found is not None:
                for view in self._catalog.views_of(stream):
                    if view.name not in missing:
                        speed[view.name] = self._partials(view, list(found.commits), found.ticks)
        failpoint("refresh.before-load")
        self._before_swap()
        rows, deleted = dict(before.speed_rows), dict(before.deleted_rows)
        with _transaction(self._connection):
            for view in self._catalog.views:
                held = before.files.get(view.name, {})
                deleted[view.name] = self._delete(
                    view, held, files[view.name], deleted.get(view.name, 0)
                )
                for number, table in arriving.get(view.name, []):
                    typed = table.select(list(view.partial_columns)).cast(partial_schema(view))
                    numbered = typed.append_column(
                        "_file", pa.array([number] * len(typed), pa.int32())
                    )
                    # Sorted by key: a query for a few keys then leaves most row groups out by their
                    # minimum and maximum.
                    insert_rows(
                        self._connection, batch_table(view), numbered, [k.name for k in view.keys]
                    )
                if view.stream.name in stale:
                    _replace_table(self._connection, view, None)
                    for table in speed.get(view.name, []):
                        insert_rows(self._connection, speed_table(view), table)
                    rows[view.name] = sum(table.num_rows for table in speed.get(view.name, []))
            failpoint("refresh.before-commit")
        kept = {
            name: (states[name] if name in stale else self.loaded.streams[name]) for name in states
        }
        self.loaded = Loaded(pointer, publication, files, kept, dict(missing), rows, deleted)
        failpoint("refresh.after-commit")
        self._compact()

    def _delete(
        self,
        view: View,
        held: Mapping[StoredFile, int],
        wanted: Mapping[StoredFile, int],
        deleted: int,
    ) -> int:
        """Deletes the rows of files that are no longer wanted from the view's batch table.

        Or writes the table anew without them.

        Args:
            view: The view.
            held: Number of each file that the table holds.
            wanted: The files that it is to hold.
            deleted: How many rows have been deleted since it was written anew.

        Returns:
            `deleted` as it is then; 0 if the table has been written anew.
        """
        gone = [file for file in held if file not in wanted]
        if not gone:
            return deleted
        staying = [file for file in held if file in wanted]
        table, deleted = batch_table(view), deleted + sum(file.rows for file in gone)
        if deleted <= MOST_DELETED * sum(file.rows for file in staying):
            self._connection.execute(f"DELETE FROM {table} WHERE {_in_files(held, gone)}")
            return deleted
        self._connection.execute(create_table_sql("_batch._next", view, _BATCH_COLUMNS))
        if staying:
            self._connection.execute(
                f"INSERT INTO _batch._next BY NAME FROM {table} WHERE {_in_files(held, staying)}"
            )
        self._connection.execute(
            f"DROP TABLE {table}; ALTER TABLE _batch._next RENAME TO {quoted_duckdb(view.name)}"
        )
        return 0


def _in_files(numbers: Mapping[StoredFile, int], files: Iterable[StoredFile]) -> str:
    """SQL for the rows of these files in a batch table."""
    return f"_file IN ({', '.join(str(numbers[file]) for file in files)})"


def _why_alone(known: Sequence[Origin], topic_id: str) -> str:
    """What to say if a newer origin has begun than that of the batch views.

    An empty text if none has.
    """
    if not known or known[-1].identity == topic_id:
        return ""
    return (
        "a loss was accepted since; what the log has had from there on is in the next publication"
    )


def _why_ended(used: Generation, newest: Generation, cut: Cut) -> str:
    """What to say if the generation that answers is an older one that will not grow.

    An empty text otherwise.
    """
    if newest.fingerprint != used.fingerprint:
        return "the speed layer runs other definitions since"
    if any(start > cut.get(partition, 0) for partition, start in newest.start.items()):
        return (
            "the speed layer has begun anew above the cut: answers stop at the head until the next"
            " publication"
        )
    return ""


def _reach(state: StreamState) -> int:
    return sum(state.head.values())


def _goes_on(before: StreamState, now: StreamState) -> bool:
    """Whether what is loaded can be grown to what is there: same cut, same generation."""
    return before.cut == now.cut and before.generation == now.generation and before.note == now.note


def _no_answer(view: View, publication: Publication | None) -> str:
    assert publication
    if view.name not in publication.views:
        return (
            f"it was added after version {publication.version}; it has an answer from the next"
            " publication on"
        )
    return (
        f"its definition has changed since version {publication.version}; it has an answer from"
        " the next publication on"
    )


def _count(commits: Iterable[Commit], ticks: Mapping[str, frozenset[int]]) -> tuple[int, int]:
    """Events, and quarantined ones, in these ticks of the commits."""
    events = quarantined = 0
    for commit in commits:
        used = ticks.get(commit.name, frozenset())
        for segment in commit.segments:
            if segment.tick in used:
                events += segment.events
                quarantined += segment.quarantined
    return events, quarantined


def _replace_table(connection: duckdb.DuckDBPyConnection, view: View, query: str | None) -> None:
    """The view's speed table with the rows of `query`, or none.

    A new table: deleted rows would go on costing every scan.
    """
    table = speed_table(view)
    if query is None:
        connection.execute(
            f"DROP TABLE {table}; {create_table_sql(table, view, [f'{TICK} BIGINT'])}"
        )
        return
    connection.execute(
        f"CREATE TABLE _speed._next AS {query}; DROP TABLE {table}; ALTER TABLE _speed._next"
        f" RENAME TO {quoted_duckdb(view.name)}"
    )


def _single(result: duckdb.DuckDBPyConnection) -> int:
    row = result.fetchone()
    assert row
    return int(row[0])


class _transaction:
    """A DuckDB transaction: all of it or none."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN TRANSACTION")

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
