"""A connection for analysts: SQL in, rows out, each answer with its provenance.

The schemas `merged` (the default), `batch` and `speed` contain each view, and the catalog's queries
as views. The schema `arrivals` contains the speed layer's share by tick of arrival, the schema
`alerts` the alerts, and the schema `tables` the catalog's reference tables and the analyst's own.
Each process has its own in-memory DuckDB, which it loads from the store, so that readers don't wait
for each other. An answer is computed entirely on one snapshot.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, overload
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa

from serving_layer import history
from serving_layer.alerts.tail import ArrivingAlerts
from serving_layer.digests import compared, digest_sql
from serving_layer.refresh import Refresh
from serving_layer.result import Provenance, Result, RowSet, StreamProvenance, closed, interruptible
from serving_layer.snapshot import Snapshot, search_path
from serving_layer.state import Loaded
from serving_layer.tables import Layer, lock_down, lookup_table, open_database, put_table
from trilayer_core.compute.merging import quoted_duckdb
from trilayer_core.definitions.catalog import Catalog, load_catalog
from trilayer_core.definitions.expressions import check_name
from trilayer_core.definitions.tables import Table
from trilayer_core.errors import EnvironmentFault, UsageError
from trilayer_core.extension import extensions
from trilayer_core.log.lag import stream_lag
from trilayer_core.runtime.settings import Settings, broker_address, load_settings
from trilayer_core.seam import format_time
from trilayer_core.store.files import Store
from trilayer_core.store.tables import table_content

Relations = Callable[[Provenance], Mapping[tuple[str, str], pa.Table]]
"""Makes relations, by schema and name, for a snapshot of this provenance."""

IDLE_S = 1.0
"""How long a transaction is kept for the next snapshot: `now()` is the moment when it began."""


@dataclass(frozen=True)
class _Transaction:
    """A cursor in a transaction that sees the state `loaded`, to be used again `until` then."""

    cursor: duckdb.DuckDBPyConnection
    loaded: Loaded
    until: float


class Connection:
    """See `connect`.

    It can be used from several threads; close it, or use it as a context manager.
    """

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        store: Store,
        *,
        keep: bool = True,
        forks: bool = False,
    ) -> None:
        """Opens a store; see `connect`.

        Args:
            catalog: The catalog.
            settings: The settings.
            store: The store.
            keep: Whether the answers of merged views are materialized.
            forks: Whether the process will fork itself to have queries answered in its forks,
                which call `detach` first.
        """
        self._detached = self._closed = False
        self._install: Callable[[duckdb.DuckDBPyConnection, Catalog], None] | None = None
        self._catalog, self._settings, self._store = catalog, settings, store
        self._lock = threading.Lock()
        self._idle: list[_Transaction] = []
        self._tables: dict[str, pa.Table] = {}
        self._relations: dict[tuple[str, str], pa.Table] = {}
        self._arriving: weakref.WeakSet[ArrivingAlerts] = weakref.WeakSet()
        self._approximate = {v.name: v.approximate for v in catalog.views if v.approximate}
        with interruptible():
            self._database, tables = open_database(
                catalog,
                settings,
                lambda table: table_content(store, table, settings.table_max_mb),
                keep=keep,
                forks=forks,
            )
            self._refresh = Refresh(tables, catalog, store, before_swap=self._close_idle)

    @property
    def catalog(self) -> Catalog:
        """The definitions that this connection answers: `.views`, `.queries` and `.streams`.

        A view has its keys and aggregates.
        """
        return self._catalog

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection, all its snapshots, and what it reads from topics.

        Whatever is asked of it afterwards raises UsageError.
        """
        self._closed = True
        for arriving in list(self._arriving):
            arriving.close()
        self._close_idle()
        self._database.close()

    def _close_idle(self) -> None:
        """Ends the transactions that earlier snapshots have left.

        An open transaction keeps the data that it sees in memory.
        """
        while self._idle:
            self._idle.pop().cursor.close()

    def _check_open(self) -> None:
        """Raises UsageError if the connection was closed."""
        if self._closed:
            raise closed()

    def refresh(self) -> None:
        """Loads new data. `sql` and `snapshot` do so automatically."""
        with self._lock:
            self._refreshed()

    def load_earlier(self) -> None:
        """Loads an earlier state than the newest, which the next refresh changes in place.

        The connection is then one that has been open while data arrived, for checks of it. To be
        called before anything else is loaded.
        """
        with self._lock, interruptible():
            self._refresh.load_earlier()

    def _refreshed(self) -> Loaded:
        self._check_open()
        with interruptible():
            return self._refresh.loaded if self._detached else self._refresh.refresh()

    @contextmanager
    def exclusively(self) -> Iterator[tuple[duckdb.DuckDBPyConnection, Refresh]]:
        """Provides the database and what loads it, and keeps others from them meanwhile."""
        with self._lock, interruptible():
            yield self._database, self._refresh

    def may_have_more(self) -> bool:
        """Whether there may be something new, which a detached connection does not load."""
        return self._refresh.may_have_more()

    def mark_current(self) -> None:
        """Marks the state as current: the process that loads has just checked."""
        self._refresh.mark_current()

    @property
    def folders(self) -> list[str]:
        """The folders on this machine's disk in which `refresh` finds new files; else none."""
        return self._refresh.folders

    @property
    def loaded(self) -> object:
        """What is loaded: another object whenever answers may have changed."""
        return self._refresh.loaded

    def detach(self, memory_mb: int, threads: int) -> None:
        """Keeps the state that is loaded, in a process that was forked from one with `forks`.

        From here on nothing is loaded any more, and SQL can't change a setting.

        Args:
            memory_mb: The memory limit of DuckDB, with what is loaded.
            threads: The number of threads that answer a query.
        """
        self._detached = True
        # DuckDB starts its threads here: a fork has only the one that called it.
        self._database.execute(f"SET memory_limit = '{memory_mb}MB'; SET threads = {threads}")
        lock_down(self._database, json_errors=True)

    @contextmanager
    def snapshot(
        self, version: int | None = None, relations: Relations | None = None
    ) -> Iterator[Snapshot]:
        """Opens one state of all views, which does not change while it is in use.

        Args:
            version: A kept publication, as listed by `history`; None for the newest state. All
                layers then answer as if it were in force: batch as it was published, speed from its
                cut to the present head, and merged both. It is loaded into a database of its own,
                of up to `serving.memory_mb`, which is discarded with the snapshot.
            relations: What the snapshot has beside the views, as made from its provenance; see
                `relation`.

        Raises:
            UsageError: The version is not kept.
            CoverageError: No segments cover the log from the version's cut on. A view whose
                definition has changed since has no answer, and raises this when it is queried.
                Without a speed layer for these definitions, answers end at the cut, and the
                provenance's `note` says so.
        """
        self._check_open()
        opened = self._newest(relations) if version is None else self._earlier(version, relations)
        with opened as snapshot:
            yield snapshot

    @contextmanager
    def _newest(self, relations: Relations | None) -> Iterator[Snapshot]:
        if relations is not None:
            with self._lock:
                provenance = self.provenance_of(self._refreshed())
            for (schema, name), rows in relations(provenance).items():
                self.relation(schema, name, rows)
        with self.snapshots(1) as (snapshot,):
            yield snapshot

    @contextmanager
    def snapshots(self, number: int) -> Iterator[list[Snapshot]]:
        """Opens several snapshots of the newest state.

        A query that fails in one of them does not end the others.
        """
        with self._lock:
            loaded = self._refreshed()
            with interruptible():
                opened = [self._on(loaded) for _ in range(number)]
        provenance = self.provenance_of(loaded)
        snapshots = [Snapshot(t.cursor, provenance, self._catalog, loaded) for t in opened]
        try:
            yield snapshots
        finally:
            with self._lock:
                for snapshot, transaction in zip(snapshots, opened, strict=True):
                    # DuckDB aborts a transaction at its first error.
                    if (
                        snapshot.sound
                        and snapshot.layer == "merged"
                        and loaded is self._refresh.loaded
                    ):
                        self._idle.append(transaction)
                    else:
                        transaction.cursor.close()

    @contextmanager
    def _earlier(self, version: int, relations: Relations | None) -> Iterator[Snapshot]:
        # Threads of a second database would take much of what a forked process may reserve.
        database, tables = open_database(
            self._catalog, self._settings, self._table_content, forks=self._detached
        )
        with database, interruptible():
            if self._detached:
                lock_down(database, json_errors=self._detached)
            loaded = Refresh(tables, self._catalog, self._store).load(version)
            provenance = self.provenance_of(loaded)
            for name, rows in self._tables.items():
                put_table(database, name, rows)
            added = {**self._relations, **(relations(provenance) if relations else {})}
            for (schema, name), rows in added.items():
                put_table(database, name, rows, schema)
            if self._install is not None:
                self._install(database, self._catalog)
            database.execute("BEGIN TRANSACTION READ ONLY")
            database.execute(search_path("merged"))
            yield Snapshot(database, provenance, self._catalog, loaded)

    def _table_content(self, table: Table) -> pa.Table:
        """The rows of a reference table as they were when this connection was opened."""
        with self._database.cursor() as cursor:
            name = quoted_duckdb(table.name)
            return cursor.sql(f"FROM tables.{name}").to_arrow_table()

    def _on(self, loaded: Loaded) -> _Transaction:
        """A transaction that sees the tables in the state of `loaded`.

        It is one that an earlier snapshot has left less than a second ago, or a new one.
        """
        idle, self._idle = self._idle, []
        for transaction in idle:
            if transaction.loaded is loaded and time.monotonic() < transaction.until:
                self._idle.append(transaction)
            else:
                transaction.cursor.close()
        if self._idle:
            return self._idle.pop()
        cursor = self._database.cursor()
        # DuckDB rejects writes to its tables in such a transaction.
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        # DuckDB fixes a transaction's snapshot at its first read.
        cursor.execute("SELECT one FROM _batch._anchor").fetchall()
        cursor.execute(search_path("merged"))
        return _Transaction(cursor, loaded, time.monotonic() + IDLE_S)

    def table(self, name: str, data: Any) -> None:
        """Adds a lookup table of your own for queries to join: `tables.NAME`, or just NAME.

        It is read now, into the connection's memory, and is part of every snapshot that is opened
        from now on. Another table with the same name replaces it.

        Args:
            name: Lower-case letters, digits and single underscores; not the name of a view, query
                or table of the catalog.
            data: The path of a CSV, JSON or Parquet file; a DataFrame of pandas or polars, an Arrow
                table, or a list of dicts.

        Raises:
            UsageError: The name is not allowed, the file can't be read, or `serving.memory_mb` is
                too small for it.
        """
        self._check_open()
        check_name(name, "name of a table")
        taken = [v.name for v in self._catalog.views] + [q.name for q in self._catalog.queries]
        if name in taken:
            raise UsageError(
                f"name of a table must not be that of a view or query; got {name!r}; take another"
            )
        if name in [table.name for table in self._catalog.all_tables]:
            raise UsageError(
                f"name of a table must not be that of a table of the catalog; got {name!r}; take"
                " another"
            )
        rows = lookup_table(data)
        with self._lock:
            put_table(self._database, name, rows)
            self._tables[name] = rows
            self._close_idle()  # their transactions began before the table was added

    def sql(self, query: str, layer: Layer = "merged") -> Result:
        """The answer to one SELECT on the newest state; see `Snapshot.sql`."""
        with self.snapshot() as snapshot:
            return snapshot.sql(query, layer)

    def alerts(self, name: str, *, from_beginning: bool = False) -> ArrivingAlerts:
        """The alerts of a definition as they are sent, read from their topic.

        An alert that is sent again shortly afterwards is left out. While no broker answers, it is
        waited for.

            with connection.alerts("velocity") as alerts:
                for alert in alerts:
                    print(alert.created_at, alert.key, alert.event)

        Args:
            name: The name of the alert.
            from_beginning: Whether to begin with the oldest alert that the topic still has, and not
                with the next one.

        Returns:
            An iterator of `RaisedAlert`, which ends when it or the connection is closed.

        Raises:
            UsageError: The catalog has no such alert.
        """
        self._check_open()
        arriving = ArrivingAlerts(
            self._catalog.alert(name),
            lambda: broker_address(self._settings),
            from_beginning=from_beginning,
        )
        self._arriving.add(arriving)
        return arriving

    def relation(self, schema: str, name: str, rows: pa.Table) -> None:
        """Creates or replaces a table that snapshots see from now on, in a schema of its own."""
        with self._lock:
            put_table(self._database, name, rows, schema)
            self._relations[schema, name] = rows
            self._close_idle()

    def describe(self, install: Callable[[duckdb.DuckDBPyConnection, Catalog], None]) -> None:
        """Has relations made that describe the views, in each database that is opened."""
        with self._lock:
            self._install = install
            with self._database.cursor() as cursor:
                install(cursor, self._catalog)
            self._close_idle()

    def verify(self) -> dict[str, str]:
        """Compares each view's merged answer with a fresh computation from the store's files.

        A connection that stays open changes its answers in place while data arrives. Here each is
        compared, by a digest of all rows, with an answer that is computed at once at the same
        publication and heads. It loads one view after the other a second time.

        Returns:
            What differs, by view: empty if all is right. A view without an answer is left out.

        Raises:
            IntegrityError: The store's answer can't be proven.
            CoverageError: The same.
            ConflictError: The store changes faster than it can be read.
        """
        with self.snapshot() as snapshot:
            missing = snapshot.missing_views
        differences = {}
        for view in self._catalog.views:
            if view.name in missing:
                continue
            ask = partial(self.sql, digest_sql(view))
            if difference := compared(view, ask, self._settings.serving.memory_mb, self._store):
                differences[view.name] = difference
        return differences

    def provenance(self) -> Provenance:
        """The provenance of the present answer.

        It includes the lag behind the broker if that can be reached.
        """
        with self._lock:
            loaded = self._refreshed()
        return self.with_lag(self.provenance_of(loaded))

    def with_lag(self, provenance: Provenance) -> Provenance:
        """Adds the present lag to an earlier answer's provenance.

        The lag is left out if no broker answers.
        """
        self._check_open()
        try:
            return lagging(provenance, self._catalog, self._settings)
        except EnvironmentFault:
            return provenance

    # -- what the store remembers ------------------------------------------------------------------

    def history(self) -> list[history.Version]:
        """The publications kept for rollback, oldest first; see `Version`.

        They are those of `trilayer batch history --json`. `pandas.DataFrame(connection.history())`
        makes a table of them. Empty before the first publication.
        """
        self._check_open()
        return history.history(self._store)

    def reconciliation(self, view: str, version: int | None = None) -> RowSet:
        """All keys of `view` that were compared for a publication, in order.

        These are the keys that the batch and speed layers both had to compute. The publication is
        by default the one in force.

        The columns are `_kind` (match, differ, missing: only in batch, extra: only in speed; see
        `Reconciled`), the view's keys (for a window, the start of a pane of length `slide`), and
        AGGREGATE__batch and AGGREGATE__speed for each aggregate: the layer's result for the events
        between the cut of the publication's base and its own. It is NULL if the layer does not have
        the key, or if a total does not fit its column.

        Raises:
            UsageError: The view or version does not exist.
            CoverageError: The layers were not compared; the message has the reason.
        """
        self._check_open()
        stored = {one.name: one for one in self._catalog.stored}
        compared_view = stored.get(view) or self._catalog.view(view)
        return history.reconciliation(compared_view, version, self._store)

    def segments(self, stream: str) -> RowSet:
        """What the speed layer has committed of `stream`, one row per segment, in order.

        It begins at the cut of the oldest publication kept. A segment is the events of one tick in
        one micro-batch; after compaction, those of one tick in several micro-batches. The columns
        are:

        - `generation`: the generation of the speed layer that answers are based on. After a rebuild
          a new generation has read everything again, at that time.
        - `first`, `last`: the first and last micro-batch of its commit; they are the same until
          commits are compacted.
        - `tick`: the start of the tick in which its events arrived, by the broker's clock; in UTC,
          as all times here.
        - `events`: the number of records, including `quarantined` ones.
        - `oldest`, `newest`: their first and last append time, by the broker's clock; NULL in older
          commits.
        - `committed_at`: when the newest of the micro-batches was committed.
        - `waited_s`: the longest time, in seconds, from an event's append to its commit, by the
          clocks of broker and speed layer.
        - `ranges`: a list of {partition, start, end}, offsets [start, end).
        - `batch_version`: the oldest version kept whose batch share contains them; NULL while only
          the speed layer has them.

        Empty if the speed layer has not run these definitions.

        Raises:
            UsageError: The catalog does not have the stream.
        """
        declared = self._catalog.stream(stream)
        with self._lock:
            generation = self._refreshed().streams[stream].generation
        return history.segments(declared, generation, self._store)

    def provenance_of(self, loaded: Loaded) -> Provenance:
        """The provenance of answers that are based on a loaded state, without the lag."""
        publication = loaded.publication
        below = publication.streams if publication else {}
        streams = {
            name: StreamProvenance(
                s.cut,
                s.head,
                s.generation,
                s.events,
                s.quarantined,
                s.note,
                quarantined_in_all=s.quarantined
                + (below[name].quarantined if name in below else 0),
                batch_events=below[name].events if name in below else 0,
            )
            for name, s in loaded.streams.items()
        }
        return Provenance(
            publication.version if publication else None,
            format_time(publication.t_ms) if publication else None,
            publication.kind if publication else None,
            not self._approximate,
            streams,
            self._approximate,
        )


def lagging(provenance: Provenance, catalog: Catalog, settings: Settings) -> Provenance:
    """Adds the present lag to an answer's provenance.

    Raises:
        EnvironmentFault: No broker answers.
    """
    heads = {name: s.head for name, s in provenance.streams.items()}
    cuts = {name: s.cut for name, s in provenance.streams.items()}
    lags = stream_lag(catalog, settings, heads, cuts)
    streams = {name: replace(s, lag=lags.get(name)) for name, s in provenance.streams.items()}
    return replace(provenance, streams=streams)


@overload
def connect(
    catalog: Catalog | None = None,
    settings: Settings | None = None,
    store: Store | None = None,
    *,
    keep: bool = True,
) -> Connection: ...


@overload
def connect(
    catalog: str,
    settings: Settings | None = None,
    store: Store | None = None,
    *,
    keep: bool = True,
) -> Any: ...


def connect(
    catalog: Catalog | str | None = None,
    settings: Settings | None = None,
    store: Store | None = None,
    *,
    keep: bool = True,
) -> Any:
    """Opens the serving layer on a store, by default that of the settings, or on a server.

    If the store's answer can't be proven, the first query raises IntegrityError or CoverageError.

    Args:
        catalog: The catalog, or `module:attribute`; by default that of the settings. The address of
            `trilayer serve`, such as http://127.0.0.1:8433, opens a connection to that server
            instead, if the server's client is installed; nothing else must then be given.
        settings: The settings; by default those of trilayer.toml and the environment.
        store: The store.
        keep: Whether to materialize the answers of merged views in memory, and to recompute what a
            load changes. Queries then cost what they cost on a native table; opening takes longer
            and the connection needs about twice the memory. Otherwise each query merges what it
            reads, which is cheaper for a few queries. The answers are the same.
    """
    if isinstance(catalog, str) and "://" in catalog:
        if settings is not None or store is not None:
            raise UsageError(
                "a connection to a server must be opened with its address alone, because the server"
                " has its own settings and store; got some; leave them out"
            )
        return _opened(catalog)
    settings = settings or load_settings()
    if not isinstance(catalog, Catalog):
        catalog = load_catalog(catalog or settings.catalog)
    return Connection(catalog, settings, store or Store(settings.store), keep=keep)


def _opened(address: str) -> Any:
    """Opens the address by the extension whose address it is."""
    for extension in extensions().values():
        if (connection := extension.connect(address)) is not None:
            return connection
    raise UsageError(
        f"the address of a server must begin with a scheme of an installed extension; got"
        f" {urlsplit(address).scheme}://; for http:// install trilayer[server]"
    )
