"""A connection for analysts: SQL in, rows out, each answer with its provenance.

The schemas `merged` (the default), `batch` and `speed` contain each view, and the catalog's queries
as views. The schema `arrivals` contains the speed layer's share by tick of arrival, the schema
`alerts` the alerts, and the schema `tables` the catalog's reference tables and the analyst's own.
Each process has its own in-memory DuckDB, which it loads from the store, so that readers don't wait
for each other. An answer is computed entirely on one snapshot.
"""

from __future__ import annotations

import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, overload

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from serving_layer import history
from serving_layer.alerts import LAYER, OUTPUT
from serving_layer.arriving import ArrivingAlerts
from serving_layer.held import held
from serving_layer.kept import kept_table
from serving_layer.lookup import lookup_table
from serving_layer.refresh import Refresh
from serving_layer.result import (
    Provenance,
    Result,
    RowSet,
    StreamProvenance,
    without_hugeint,
)
from serving_layer.state import Loaded
from serving_layer.tables import Tables, batch_table, speed_table
from trilayer_core.compute.merging import open_duckdb, present_select, quoted_duckdb
from trilayer_core.definitions.catalog import Catalog, Query, load_catalog
from trilayer_core.definitions.expressions import check_name
from trilayer_core.definitions.tables import Table
from trilayer_core.definitions.view import View
from trilayer_core.errors import EnvironmentFault, UsageError, did_you_mean
from trilayer_core.log.lag import stream_lag
from trilayer_core.runtime.settings import Settings, broker_address, load_settings
from trilayer_core.seam import format_time
from trilayer_core.store.files import Store
from trilayer_core.store.segments import TICK
from trilayer_core.store.tables import table_content

if TYPE_CHECKING:
    from serving_layer.remote import RemoteConnection

Layer = Literal["merged", "batch", "speed"]
LAYERS: tuple[Layer, ...] = ("merged", "batch", "speed")

Relations = Callable[[Provenance], Mapping[tuple[str, str], pa.Table]]
"""Makes relations, by schema and name, for a snapshot of this provenance."""

IDLE_S = 1.0
"""How long a transaction is kept for the next snapshot: `now()` is the moment when it began."""


class Snapshot:
    """One state of all views, for any number of queries."""

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        provenance: Provenance,
        catalog: Catalog,
        loaded: Loaded,
    ) -> None:
        self._cursor, self._catalog, self._loaded = cursor, catalog, loaded
        self.provenance = provenance
        self.sound = True
        """Whether its transaction is still usable: an error during a query ends it."""
        self.layer: Layer = "merged"
        """The layer in which its transaction looks for views."""

    def sql(self, query: str, layer: Layer = "merged") -> Result:
        """The complete answer to one SELECT. A query that fails while it runs ends the snapshot.

        The columns of a view are its keys, where the start of a window is followed by its end as
        NAME_end, and its aggregates. Times are UTC. In the schema `arrivals` a view is the speed
        layer's share, with `_tick`, the start of the tick in which a row's events arrived, as the
        first column. In the schema `alerts` an alert has a row for each event that raised it in
        this layer: speed is what was sent, batch the exact set below the cut, and merged both.

        Raises:
            UsageError: The SQL is invalid, writes, or uses an unknown name.
            CoverageError: A view has no answer yet.
        """
        return Result(without_hugeint(self.table(query, layer)), self._provenance_of(query))

    def table(self, query: str, layer: Layer = "merged", rows: int | None = None) -> pa.Table:
        """The answer to one SELECT, with column types that don't depend on the values.

        `sql` makes a bigint of a sum of bigints if all values fit. Here it is a decimal(38,0).

        Args:
            query: The SELECT.
            layer: The layer.
            rows: How many rows to return at most; None for all. With 0, only the columns are found.

        Raises:
            UsageError, CoverageError: As `sql` does.
        """
        with self._answering(query, layer) as answer:
            limited = answer if rows is None else answer.limit(rows)
            return limited.to_arrow_table()

    def reader(
        self, query: str, layer: Layer = "merged", rows: int | None = None
    ) -> tuple[pa.RecordBatchReader, Provenance]:
        """The answer to one SELECT, computed while it is read, and its provenance.

        The snapshot can't be used again, unless the caller sets `sound` once all was read. DuckDB's
        errors meanwhile are not those of this package; Arrow reports some of them as OSError.

        Args:
            query: The SELECT.
            layer: The layer.
            rows: How many rows to return at most; None for all.

        Raises:
            UsageError, CoverageError: As `sql` does.
        """
        with self._answering(query, layer) as answer:
            limited = answer if rows is None else answer.limit(rows)
            reader = limited.to_arrow_reader()
        self.sound = False
        return reader, self._provenance_of(query)

    @contextmanager
    def _answering(self, query: str, layer: Layer) -> Iterator[duckdb.DuckDBPyRelation]:
        """The answer to a SELECT. An error, until the block is left, ends the snapshot."""
        if layer not in LAYERS:
            raise UsageError(f"layer must be one of {', '.join(LAYERS)}; got {layer!r}")
        self._check(query)
        if not self.sound:
            raise UsageError(
                "a snapshot must not be used after a query has failed in it; open another:"
                " connection.snapshot()"
            )
        self.sound = False
        if layer != self.layer:
            self._cursor.execute(_search_path(layer))
            if self._catalog.alerts:
                self._cursor.execute(f"SET VARIABLE {LAYER} = '{layer}'")
            self.layer = layer
        try:
            yield held(self._cursor.sql(query))
        except RuntimeError as error:
            if "interrupted" in str(error).lower():
                raise KeyboardInterrupt from None  # DuckDB ends a query so at Ctrl-C
            raise
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except duckdb.CatalogException as error:
            self._check_alerts(query)
            says = str(error)
            if "Table with name" not in says:
                raise UsageError(says.strip()) from None
            raise UsageError(f"{_first_line(error)}{self._names_hint(says)}") from None
        except duckdb.PermissionException as error:
            raise UsageError(
                f"{_first_line(error)}; to ask a file of your own, name it as a table:"
                " `trilayer sql --table NAME=FILE`, or `connection.table(NAME, FILE)`"
            ) from None
        except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
            raise UsageError(f"a value does not fit its column: {_first_line(error)}") from None
        except duckdb.TransactionException as error:
            raise UsageError(
                f"SQL must be one SELECT, since views are read-only; {_first_line(error)}"
            ) from None
        except duckdb.Error as error:
            raise UsageError(str(error).strip()) from None
        self.sound = True

    def _check(self, query: str) -> None:
        try:
            statements = self._cursor.extract_statements(query)
        except duckdb.Error as error:
            says = str(error).strip()
            raise UsageError(
                f"SQL must be one SELECT: {says}{_quotes_hint(says, self._columns())}"
            ) from None
        if [statement.type for statement in statements] == [duckdb.StatementType.EXPLAIN]:
            statements = self._explained(query)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            got = ", ".join(statement.type.name for statement in statements) or "nothing"
            raise UsageError(f"SQL must be one SELECT, since views are read-only; got {got}")
        self._check_views(statements[0].query)

    def _explained(self, query: str) -> list[duckdb.Statement]:
        """The statement inside an EXPLAIN, because EXPLAIN ANALYZE runs it.

        It is the text from the first word on that begins a statement.
        """
        text = query.encode()
        for place, _ in duckdb.tokenize(query):
            with suppress(duckdb.Error):
                statements = self._cursor.extract_statements(text[place:].decode())
                if statements and statements[0].type != duckdb.StatementType.EXPLAIN:
                    return statements
        return []

    def _check_views(self, query: str) -> None:
        if not self._loaded.missing_views:
            return
        for name in self._names_in(query):
            self._loaded.check_answered(name)

    def _provenance_of(self, query: str) -> Provenance:
        """The provenance of the answer to a query, with the approximate views that it uses."""
        known = self.provenance.approximate
        if not known:
            return self.provenance
        names = set(self._names_in(query))
        used = {name: columns for name, columns in known.items() if name in names}
        return replace(self.provenance, exact=not used, approximate=used)

    def _names_in(self, query: str) -> Iterator[str]:
        """The views and queries that a statement uses, those that its queries use among them."""
        queries = {q.name: q.sql for q in self._catalog.queries}
        # Not in the snapshot's transaction, which an error would end.
        aside = self._cursor.cursor()
        waiting, seen = [*_tables_in(query, aside)], set()
        while waiting:
            name = waiting.pop().split(".")[-1].strip('"').lower()
            if name in seen:
                continue
            seen.add(name)
            yield name
            if name in queries:
                waiting += _tables_in(queries[name], aside)

    def _check_alerts(self, query: str) -> None:
        """Raises UsageError if a query that failed names an alert that does not exist."""
        for name in re.findall(r'\balerts\."?(\w+)', query, re.IGNORECASE):
            if not self._catalog.alerts:
                raise UsageError(
                    f"alerts.{name} must be an alert of the catalog; it has none; declare them:"
                    " Catalog(alerts=[Alert(...)])"
                ) from None
            self._catalog.alert(name.lower())

    def _names_hint(self, says: str) -> str:
        for stream in self._catalog.streams:
            if f"Table with name {stream.name} does" in says:
                views = ", ".join(view.name for view in self._catalog.views_of(stream))
                return f"; {stream.name} is a stream, which is no table: ask its views, {views}"
        for alert in self._catalog.alerts:
            if f"Table with name {alert.name} does" in says:
                return f"; {alert.name} is an alert: ask alerts.{alert.name}"
        named = re.search(r'Table with name "?([\w.]+)"? does', says)
        return did_you_mean(
            named[1].split(".")[-1] if named else "",
            [v.name for v in self._catalog.views] + [q.name for q in self._catalog.queries],
        )

    def _columns(self) -> set[str]:
        views = self._catalog.views
        of_alerts = OUTPUT if self._catalog.alerts else ()
        return {*of_alerts, *(name for view in views for name in view.output)}


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
            keep: Whether the answers of merged views are kept.
            forks: Whether the process will fork itself to have questions answered in its forks,
                which call `detach` first.
        """
        self._detached = False
        self._install: Callable[[duckdb.DuckDBPyConnection, Catalog], None] | None = None
        self._catalog, self._settings, self._store = catalog, settings, store
        self._lock = threading.Lock()
        self._idle: list[_Transaction] = []
        self._tables: dict[str, pa.Table] = {}
        self._relations: dict[tuple[str, str], pa.Table] = {}
        self._arriving: weakref.WeakSet[ArrivingAlerts] = weakref.WeakSet()
        self._approximate = {v.name: v.approximate for v in catalog.views if v.approximate}
        self._database, self._refresh = _open(
            catalog, settings, store, self._close_idle, keep=keep, forks=forks
        )

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
        """Closes the connection, all its snapshots, and what it reads from topics."""
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

    def refresh(self) -> None:
        """Loads new data. `sql` and `snapshot` do so automatically."""
        with self._lock:
            self._refreshed()

    def _refreshed(self) -> Loaded:
        return self._refresh.loaded if self._detached else self._refresh.refresh()

    def may_have_more(self) -> bool:
        """Whether there may be something new, which a detached connection does not load."""
        return self._refresh.may_have_more()

    def has_nothing_more(self) -> None:
        """Takes from the process that loads, which has just looked, that there is nothing new."""
        self._refresh.has_nothing_more()

    @property
    def loaded(self) -> object:
        """What is loaded: another object whenever answers may have changed."""
        return self._refresh.loaded

    def detach(self, memory_mb: int, threads: int) -> None:
        """Keeps the state that is loaded, in a process that was forked from one with `forks`.

        From here on nothing is loaded any more, and SQL can't change a setting.

        Args:
            memory_mb: The memory limit of DuckDB, with what is loaded.
            threads: The number of threads that answer a question.
        """
        self._detached = True
        self._database.execute(f"SET memory_limit = '{memory_mb}MB'; SET threads = {threads}")
        _lock_down(self._database)

    @contextmanager
    def snapshot(
        self, version: int | None = None, relations: Relations | None = None
    ) -> Iterator[Snapshot]:
        """Opens one state of all views, which does not change while it is in use.

        Args:
            version: A kept publication, as listed by `history`; None for the newest state. All
                layers then answer as if it were in force: batch as it was published, speed from its
                cut to the present head, and merged both. It is loaded into a database of its own,
                of up to `serving_memory_mb`, which is discarded with the snapshot.
            relations: What the snapshot has beside the views, as made from its provenance; see
                `relation`.

        Raises:
            UsageError: The version is not kept.
            CoverageError: No segments cover the log from the version's cut on. A view whose
                definition has changed since has no answer, and raises this when it is queried.
                Without a speed layer for these definitions, answers end at the cut, and the
                provenance's `note` says so.
        """
        opened = self._newest(relations) if version is None else self._earlier(version, relations)
        with opened as snapshot:
            yield snapshot

    @contextmanager
    def _newest(self, relations: Relations | None) -> Iterator[Snapshot]:
        if relations is not None:
            with self._lock:
                provenance = self._provenance(self._refreshed())
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
            opened = [self._on(loaded) for _ in range(number)]
        provenance = self._provenance(loaded)
        snapshots = [Snapshot(t.cursor, provenance, self._catalog, loaded) for t in opened]
        try:
            yield snapshots
        finally:
            with self._lock:
                for snapshot, transaction in zip(snapshots, opened, strict=True):
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
        database, refresh = _open(
            self._catalog,
            self._settings,
            self._store,
            content=self._table_content,
            # Threads of a second database would take much of what a forked process may reserve.
            forks=self._detached,
        )
        with database:
            if self._detached:
                _lock_down(database)
            loaded = refresh.load(version)
            provenance = self._provenance(loaded)
            for name, rows in self._tables.items():
                _put_table(database, name, rows)
            added = {**self._relations, **(relations(provenance) if relations else {})}
            for (schema, name), rows in added.items():
                _put_table(database, name, rows, schema)
            if self._install is not None:
                self._install(database, self._catalog)
            database.execute("BEGIN TRANSACTION READ ONLY")
            database.execute(_search_path("merged"))
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
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        # DuckDB fixes a transaction's snapshot at its first read.
        cursor.execute("SELECT one FROM _batch._anchor").fetchall()
        cursor.execute(_search_path("merged"))
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
            UsageError: The name is not allowed, the file can't be read, or `serving_memory_mb` is
                too small for it.
        """
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
            _put_table(self._database, name, rows)
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
            with self._database.cursor() as cursor:  # loading may have left a result unread
                _put_table(cursor, name, rows, schema)
            self._relations[schema, name] = rows
            self._close_idle()

    def describe(self, install: Callable[[duckdb.DuckDBPyConnection, Catalog], None]) -> None:
        """Has relations made that describe the views, in each database that is opened."""
        with self._lock:
            self._install = install
            with self._database.cursor() as cursor:
                install(cursor, self._catalog)
            self._close_idle()

    def provenance(self) -> Provenance:
        """The provenance of the present answer.

        It includes the lag behind the broker if that can be reached.
        """
        with self._lock:
            loaded = self._refreshed()
        return self.with_lag(self._provenance(loaded))

    def with_lag(self, provenance: Provenance) -> Provenance:
        """Adds the present lag to an earlier answer's provenance.

        The lag is left out if no broker answers.
        """
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
        stored = {one.name: one for one in self._catalog.stored}
        found = stored.get(view) or self._catalog.view(view)
        return history.reconciliation(found, version, self._store)

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
        found = self._catalog.stream(stream)
        with self._lock:
            generation = self._refreshed().streams[stream].generation
        return history.segments(found, generation, self._store)

    def _provenance(self, loaded: Loaded) -> Provenance:
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


def _open(
    catalog: Catalog,
    settings: Settings,
    store: Store,
    before_swap: Callable[[], None] = lambda: None,
    *,
    keep: bool = False,
    forks: bool = False,
    content: Callable[[Table], pa.Table] | None = None,
) -> tuple[duckdb.DuckDBPyConnection, Refresh]:
    """A database with all schemas of a connection, and the `Refresh` that loads it.

    The reference tables have this content, or what the store or their files have.

    If the process `forks`, the database has no threads, which a fork would not have either, and is
    not locked down before `detach`.
    """
    database = open_duckdb(settings.serving_memory_mb, alone=forks)
    tables = Tables(database, catalog, keep=keep)
    refresh = Refresh(tables, catalog, store, before_swap=before_swap)
    database.execute(
        "CREATE TABLE _batch._anchor (one INTEGER); INSERT INTO _batch._anchor VALUES (1)"
    )
    for layer in LAYERS:
        _create_views(database, catalog, layer, tables.kept.views if layer == "merged" else ())
    database.execute("CREATE SCHEMA tables")
    for table in catalog.all_tables:
        rows = content(table) if content else table_content(store, table, settings.table_max_mb)
        _put_table(database, table.name, rows)
    database.execute("CREATE SCHEMA arrivals")
    for view in catalog.views:
        # No key can have this name, because a leading underscore is reserved for trilayer.
        arrived = f"make_timestamptz({TICK} * 1000) AS {TICK}, * EXCLUDE ({TICK})"
        select = present_select(view, lambda stored: [speed_table(stored)], [TICK])
        database.execute(
            f"CREATE VIEW arrivals.{quoted_duckdb(view.name)} AS SELECT {arrived} FROM ({select})"
        )
    _create_queries(database, catalog)
    if not forks:
        _lock_down(database)
    return database, refresh


def _lock_down(database: duckdb.DuckDBPyConnection) -> None:
    """Forbids files and settings, because SQL of analysts runs from here on."""
    database.execute("SET enable_external_access = false")
    database.execute("SET allowed_configs = ['search_path']; SET lock_configuration = true")


def _tables_in(query: str, aside: duckdb.DuckDBPyConnection) -> set[str]:
    """The tables that a SELECT names.

    DESCRIBE and SHOW name none. Errors are not reported here, but when the statement is run.
    """
    try:
        return aside.get_table_names(query)
    except duckdb.Error:
        # DuckDB does not know the columns here, and fails for JOIN ... USING and NATURAL JOIN.
        try:
            tree = sqlglot.parse_one(query, dialect="duckdb")
        except SqlglotError:
            return set()
        found = tree.find_all(exp.Table) if isinstance(tree, exp.Query) else ()
        return {table.name for table in found}


def _search_path(layer: Layer) -> str:
    return f"SET search_path = '{layer},tables'"


def _put_table(
    database: duckdb.DuckDBPyConnection, name: str, rows: pa.Table, schema: str = "tables"
) -> None:
    database.register("_arriving_table", rows)
    try:
        database.execute(
            f"CREATE SCHEMA IF NOT EXISTS {quoted_duckdb(schema)};"
            f" CREATE OR REPLACE TABLE {quoted_duckdb(schema)}.{quoted_duckdb(name)} AS"
            " SELECT * FROM _arriving_table"
        )
    except duckdb.Error as error:
        raise UsageError(
            f"table {name!r} must be one that DuckDB can hold: {str(error).strip()}"
        ) from None
    finally:
        database.unregister("_arriving_table")


def _create_views(
    database: duckdb.DuckDBPyConnection, catalog: Catalog, layer: Layer, kept: Sequence[View]
) -> None:
    """Creates the views of a layer. The answers of those in `kept` are selected, not merged."""
    database.execute(f"CREATE SCHEMA {layer}")
    for view in catalog.views:
        if view in kept:
            columns = ", ".join(map(quoted_duckdb, view.output))
            answer = f"SELECT {columns} FROM {kept_table(view)}"
        else:
            answer = present_select(view, lambda stored: _tables(stored, layer))
        database.execute(f"CREATE VIEW {layer}.{quoted_duckdb(view.name)} AS {answer}")


def _tables(stored: View, layer: Layer) -> list[str]:
    """The tables with the partials of a stored view in a layer."""
    by_layer = {"batch": batch_table(stored), "speed": speed_table(stored)}
    return list(by_layer.values()) if layer == "merged" else [by_layer[layer]]


def _create_queries(database: duckdb.DuckDBPyConnection, catalog: Catalog) -> None:
    """Creates the queries in each layer.

    Queries can refer to each other and to other layers, so those that do not wait for another one
    are created first.
    """
    waiting = [(layer, query) for layer in LAYERS for query in catalog.queries]
    while waiting:
        missing: dict[tuple[Layer, Query], str] = {}
        for layer, query in waiting:
            select = query.sql.strip().rstrip(";")
            try:
                database.execute(f"SET search_path = '{layer}'")
                database.execute(f"CREATE VIEW {layer}.{quoted_duckdb(query.name)} AS {select}")
            except duckdb.CatalogException as error:
                missing[layer, query] = _not_made(query, error)
            except duckdb.Error as error:
                raise UsageError(_not_made(query, error)) from None
        if len(missing) == len(waiting):
            # A query that refers to an invalid one, or indirectly to itself, can't be distinguished
            # from the invalid one.
            raise UsageError(
                "\n".join(why for (layer, _), why in missing.items() if layer == waiting[0][0])
            )
        waiting = list(missing)


def _not_made(query: Query, error: duckdb.Error) -> str:
    return f"query {query.name!r} must be a SELECT over the catalog's views: {str(error).strip()}"


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
) -> Connection | RemoteConnection:
    """Opens the serving layer on a store, by default that of the settings, or on a server.

    If the store's answer can't be proven, the first query raises IntegrityError or CoverageError.

    Args:
        catalog: The catalog, or `module:attribute`; by default that of the settings. The address of
            `trilayer serve`, such as http://127.0.0.1:8433, opens a connection to that server
            instead, see `RemoteConnection`; nothing else must then be given.
        settings: The settings; by default those of trilayer.toml and the environment.
        store: The store.
        keep: Whether to keep the answers of merged views in memory, and to fold again what a load
            touches. Queries then cost what they cost on a native table; opening takes longer and
            the connection needs about twice the memory. Otherwise each query merges what it reads,
            which is cheaper for a few queries. The answers are the same.
    """
    if isinstance(catalog, str) and catalog.startswith(("http://", "https://")):
        # Importing a client of HTTP takes a tenth of a second.
        from serving_layer.remote import RemoteConnection

        if settings is not None or store is not None:
            raise UsageError(
                "a connection to a server must be opened with its address alone, because the server"
                " has its own settings and store; got some; leave them out"
            )
        return RemoteConnection(catalog)
    settings = settings or load_settings()
    found = (
        load_catalog(catalog or settings.catalog) if not isinstance(catalog, Catalog) else catalog
    )
    return Connection(found, settings, store or Store(settings.store), keep=keep)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _quotes_hint(says: str, columns: set[str]) -> str:
    """What to do about a reserved word that is the name of a column; empty if there is none.

    The parser marks the word itself, or the one behind it.
    """
    marked = re.search(r"^(LINE \d+: )(.*)\n( *)\^", says, re.MULTILINE)
    if marked is None:
        return ""
    label, line, spaces = marked.groups()
    place = len(spaces) - len(label)
    near = [*re.findall(r"^\w+", line[place:]), *re.findall(r"\w+", line[:place])[-1:]]
    found = next((word for word in near if word.lower() in columns), None)
    return f'\nIf {found} is the column, write "{found}", in double quotes' if found else ""
