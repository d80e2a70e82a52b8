"""A connection for analysts: SQL in, rows out, each answer with what it stands on.

Schemas `merged` (the default), `batch` and `speed` hold each view; the catalog's queries are views
beside them. Schema `arrivals` holds the speed layer's share by the tick that the events arrived in,
schema `tables` the analyst's own lookup tables. Every process has its own in-memory DuckDB, fed
from the store, so that readers don't wait for each other; an answer is computed on one snapshot
from beginning to end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Literal

import duckdb
import pyarrow as pa

from serving_layer import history
from serving_layer.lookup import lookup_table
from serving_layer.plan import Loaded
from serving_layer.refresh import Refresh
from serving_layer.result import Provenance, Result, StreamProvenance, Table
from serving_layer.tables import Tables, batch_table, speed_table
from trilayer_core.compute.merging import open_duckdb, present_select, quoted_duckdb
from trilayer_core.definitions.catalog import Catalog, Query, load_catalog
from trilayer_core.definitions.expressions import check_name
from trilayer_core.errors import CoverageError, EnvironmentFault, UsageError, did_you_mean
from trilayer_core.log.lag import stream_lag
from trilayer_core.runtime.settings import Settings, load_settings
from trilayer_core.seam import format_time
from trilayer_core.store.files import Store
from trilayer_core.store.segments import TICK

Layer = Literal["merged", "batch", "speed"]
LAYERS: tuple[Layer, ...] = ("merged", "batch", "speed")


class Snapshot:
    """One state of all views, for as many queries as are asked of it."""

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
        """Whether its transaction can go on: an error in the middle of a query ends it."""

    def sql(self, query: str, layer: Layer = "merged") -> Result:
        """The answer to one SELECT, whole. A query that fails on the way ends the snapshot.

        Columns of a view: its keys, after a window's start its end as NAME_end, then its
        aggregates. Times are UTC. In schema `arrivals` a view is the speed layer's share with
        `_tick` before that, the start of the tick in which a row's events arrived.

        Raises UsageError for SQL that is broken, writes, or names what isn't there; CoverageError
        for a view that has no answer yet.
        """
        if layer not in LAYERS:
            raise UsageError(f"layer must be one of {', '.join(LAYERS)}; got {layer!r}")
        self._check(query)
        if not self.sound:
            raise UsageError(
                "a snapshot must not be used after a query has failed in it; open another:"
                " connection.snapshot()"
            )
        self.sound = False
        self._cursor.execute(f"SET search_path = '{layer},tables'")
        try:
            table = _without_hugeint(self._cursor.sql(query).to_arrow_table())
        except duckdb.CatalogException as error:
            raise UsageError(f"{_first_line(error)}{self._names_hint()}") from None
        except duckdb.ConversionException as error:
            raise UsageError(f"a value does not fit its column: {_first_line(error)}") from None
        except duckdb.OutOfRangeException as error:
            raise UsageError(f"a value does not fit its column: {_first_line(error)}") from None
        except duckdb.TransactionException as error:
            raise UsageError(
                f"SQL must be one SELECT, since views are read-only; {_first_line(error)}"
            ) from None
        except duckdb.Error as error:
            raise UsageError(str(error).strip()) from None
        self.sound = True
        return Result(table, self.provenance)

    def _check(self, query: str) -> None:
        try:
            statements = self._cursor.extract_statements(query)
        except duckdb.Error as error:
            raise UsageError(f"SQL must be one SELECT: {str(error).strip()}") from None
        if [statement.type for statement in statements] == [duckdb.StatementType.EXPLAIN]:
            statements = self._explained(query)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            got = ", ".join(statement.type.name for statement in statements) or "nothing"
            raise UsageError(f"SQL must be one SELECT, since views are read-only; got {got}")
        self._check_views(statements[0].query)

    def _explained(self, query: str) -> list[duckdb.Statement]:
        """What an EXPLAIN is of, since with ANALYZE it is run.

        That is the text from its first word on that begins a statement.
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
        queries = {q.name: q.sql for q in self._catalog.queries}
        # Beside the snapshot's transaction, which an error would end.
        aside = self._cursor.cursor()
        try:
            waiting, seen = list(aside.get_table_names(query)), set()
        except duckdb.Error:
            # DESCRIBE and SHOW name no tables; what is wrong otherwise is said when it is run.
            return
        while waiting:
            name = waiting.pop().split(".")[-1].strip('"').lower()
            if name in seen:
                continue
            seen.add(name)
            if name in self._loaded.missing_views:
                raise CoverageError(
                    f"view {name!r} has no answer: {self._loaded.missing_views[name]}"
                )
            if name in queries:
                waiting += aside.get_table_names(queries[name])

    def _names_hint(self) -> str:
        return did_you_mean(
            "", [v.name for v in self._catalog.views] + [q.name for q in self._catalog.queries]
        )


class Connection:
    """See `connect`. Safe to use from several threads; close it, or use it as a context manager."""

    def __init__(self, catalog: Catalog, settings: Settings, store: Store) -> None:
        self._catalog, self._settings, self._store = catalog, settings, store
        self._lock = threading.Lock()
        self._idle: list[tuple[Loaded, duckdb.DuckDBPyConnection]] = []
        self._tables: dict[str, pa.Table] = {}
        self._database, self._refresh = _open(catalog, settings, store, self._close_idle)

    @property
    def catalog(self) -> Catalog:
        """The definitions that this connection answers.

        `.views` have their keys and aggregates; there are `.queries` and `.streams`.
        """
        return self._catalog

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it, and all snapshots of it."""
        self._close_idle()
        self._database.close()

    def _close_idle(self) -> None:
        """Ends the transactions that earlier snapshots have left.

        An open one keeps what it sees in memory.
        """
        while self._idle:
            self._idle.pop()[1].close()

    def refresh(self) -> None:
        """Loads what is new. `sql` and `snapshot` do so by themselves."""
        with self._lock:
            self._refresh.refresh()

    @contextmanager
    def snapshot(self, version: int | None = None) -> Iterator[Snapshot]:
        """One state of all views, which does not move while it is in use.

        Args:
            version: A publication that is kept, as `history` lists them; the newest state unless
                given. All layers then answer as they would if it were in force: batch as it was
                published, speed from its cut on up to the present head, merged both of them. It is
                loaded into a database of its own, of up to `serving_memory_mb`, that ends with the
                snapshot.

        Raises:
            UsageError: The version is not kept.
            CoverageError: No segments cover the log from the version's cut on. A view whose
                definition has changed since has no answer, and raises this when it is asked.
                Without a speed layer of these definitions answers stop at the cut, and the
                provenance's `note` says so.
        """
        opened = self._newest() if version is None else self._earlier(version)
        with opened as snapshot:
            yield snapshot

    @contextmanager
    def _newest(self) -> Iterator[Snapshot]:
        with self.snapshots(1) as (snapshot,):
            yield snapshot

    @contextmanager
    def snapshots(self, number: int) -> Iterator[list[Snapshot]]:
        """As many snapshots as asked for, all of the newest state.

        A query that fails in one ends none of the others.
        """
        with self._lock:
            loaded = self._refresh.refresh()
            cursors = [self._on(loaded) for _ in range(number)]
        provenance = self._provenance(loaded)
        snapshots = [Snapshot(cursor, provenance, self._catalog, loaded) for cursor in cursors]
        try:
            yield snapshots
        finally:
            with self._lock:
                for snapshot, cursor in zip(snapshots, cursors, strict=True):
                    if snapshot.sound and loaded is self._refresh.loaded:
                        self._idle.append((loaded, cursor))
                    else:
                        cursor.close()

    @contextmanager
    def _earlier(self, version: int) -> Iterator[Snapshot]:
        database, refresh = _open(self._catalog, self._settings, self._store)
        with database:
            loaded = refresh.load(version)
            for name, rows in self._tables.items():
                _put_table(database, name, rows)
            database.execute("BEGIN TRANSACTION READ ONLY")
            yield Snapshot(database, self._provenance(loaded), self._catalog, loaded)

    def _on(self, loaded: Loaded) -> duckdb.DuckDBPyConnection:
        """A cursor whose transaction sees the tables as `loaded` says.

        It is one that an earlier snapshot has left, or a new one.
        """
        idle, self._idle = self._idle, []
        for before, cursor in idle:
            if before is loaded:
                self._idle.append((before, cursor))
            else:
                cursor.close()
        if self._idle:
            return self._idle.pop()[1]
        cursor = self._database.cursor()
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        # DuckDB fixes a transaction's snapshot at its first read.
        cursor.execute("SELECT one FROM _batch._anchor").fetchall()
        return cursor

    def table(self, name: str, data: Any) -> None:
        """A lookup table of your own, for queries to join: `tables.NAME`, or NAME alone.

        It is read now, into the connection's memory, and is in every snapshot that is opened from
        now on. A second one of the same name takes its place.

        Args:
            name: Lower-case letters, digits and single underscores, and no view's or query's name.
            data: Path of a CSV, JSON or Parquet file; a DataFrame of pandas or polars, an Arrow
                table, or a list of dicts.

        Raises:
            UsageError: The name can't be taken, the file can't be read, or `serving_memory_mb` is
                too little for it.
        """
        check_name(name, "name of a table")
        taken = [v.name for v in self._catalog.views] + [q.name for q in self._catalog.queries]
        if name in taken:
            raise UsageError(
                f"name of a table must not be that of a view or query; got {name!r}; take another"
            )
        rows = lookup_table(data)
        with self._lock:
            _put_table(self._database, name, rows)
            self._tables[name] = rows
            self._close_idle()  # their transactions began before it

    def sql(self, query: str, layer: Layer = "merged") -> Result:
        """The answer to one SELECT, on the newest state; see `Snapshot.sql`."""
        with self.snapshot() as snapshot:
            return snapshot.sql(query, layer)

    def provenance(self) -> Provenance:
        """What an answer asked now stands on.

        It has the lag behind the broker if that can be reached.
        """
        with self._lock:
            loaded = self._refresh.refresh()
        return self.with_lag(self._provenance(loaded))

    def with_lag(self, provenance: Provenance) -> Provenance:
        """What an answer stood on, with how much of the log lies behind it by now.

        Without the lag if no broker answers.
        """
        heads = {name: s.head for name, s in provenance.streams.items()}
        cuts = {name: s.cut for name, s in provenance.streams.items()}
        try:
            lags = stream_lag(self._catalog, self._settings, heads, cuts)
        except EnvironmentFault:
            return provenance
        streams = {name: replace(s, lag=lags.get(name)) for name, s in provenance.streams.items()}
        return replace(provenance, streams=streams)

    # -- what the store remembers ------------------------------------------------------------------

    def history(self) -> list[history.Version]:
        """The publications kept for rollback, oldest first.

        As `trilayer batch history --json` has them; see `Version`.

        `pandas.DataFrame(connection.history())` is a table of them. Empty before the first
        publication.
        """
        return history.history(self._store)

    def reconciliation(self, view: str, version: int | None = None) -> Table:
        """Every key of `view` that was compared for a publication, in order.

        Those are the keys that batch and speed layer both have to have computed. The publication is
        the one in force unless given.

        Columns: `_kind` (match, differ, missing: batch alone, extra: speed alone; see
            `Reconciled`), the view's keys (a window's is the start
        of its pane, `slide` long), then of each aggregate AGGREGATE__batch and AGGREGATE__speed:
        what the layer makes of the events between the cut of the publication's base and its own,
        NULL where it has no such key, and where a total does not fit its column.

        Raises UsageError for a view or version that is not there, CoverageError, with the reason,
        where the two were not compared.
        """
        return history.reconciliation(self._catalog.view(view), version, self._store)

    def segments(self, stream: str) -> Table:
        """What the speed layer has committed of `stream`, a row for each segment, in order.

        It begins at the cut of the oldest publication kept.

        A segment is the events of one tick in one micro-batch; micro-batches of closed ticks are
        compacted, and a segment is then those of a tick in several. Columns:

        - `generation`: the speed layer's life that answers stand on. After a rebuild it has read
          everything again, at that time.
        - `first`, `last`: the micro-batches that it was committed with, the same number twice until
          they are compacted.
        - `tick`: the start of the tick that its events arrived in, by the broker's clock; UTC as
          all times here.
        - `events`: records, `quarantined` ones included.
        - `oldest`, `newest`: their first and last append time, by the broker's clock; NULL in
          commits from before trilayer kept them.
        - `committed_at`: when the newest of the micro-batches was committed.
        - `waited_s`: the longest time, in seconds, from an event's append to its commit, by the
          clocks of broker and speed layer.
        - `ranges`: a list of {partition, start, end}, offsets [start, end).
        - `batch_version`: the oldest version kept whose batch share has them; NULL while they are
          the speed layer's alone.

        Empty if the speed layer has not run these definitions. Raises UsageError for a stream
        that is not the catalog's.
        """
        found = self._catalog.stream(stream)
        with self._lock:
            generation = self._refresh.refresh().streams[stream].generation
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
            True,
            streams,
        )


def _open(
    catalog: Catalog,
    settings: Settings,
    store: Store,
    before_swap: Callable[[], None] = lambda: None,
) -> tuple[duckdb.DuckDBPyConnection, Refresh]:
    """A database with every schema of an analyst's, and what loads it from the store."""
    database = open_duckdb(settings.serving_memory_mb)
    refresh = Refresh(Tables(database, catalog), catalog, store, before_swap=before_swap)
    database.execute(
        "CREATE TABLE _batch._anchor (one INTEGER); INSERT INTO _batch._anchor VALUES (1)"
    )
    for layer in LAYERS:
        _create_views(database, catalog, layer)
    database.execute("CREATE SCHEMA tables")
    database.execute("CREATE SCHEMA arrivals")
    for view in catalog.views:
        # Its keys can't be named so: a leading underscore is trilayer's.
        arrived = f"make_timestamptz({TICK} * 1000) AS {TICK}, * EXCLUDE ({TICK})"
        select = present_select(view, [speed_table(view)], [TICK])
        database.execute(
            f"CREATE VIEW arrivals.{quoted_duckdb(view.name)} AS SELECT {arrived} FROM ({select})"
        )
    _create_queries(database, catalog)
    # What follows is the analyst's: no files, no settings, nothing but the views.
    database.execute("SET enable_external_access = false")
    database.execute("SET allowed_configs = ['search_path']; SET lock_configuration = true")
    return database, refresh


def _put_table(database: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    database.register("_arriving_table", rows)
    try:
        database.execute(
            f"CREATE OR REPLACE TABLE tables.{quoted_duckdb(name)} AS SELECT * FROM _arriving_table"
        )
    except duckdb.Error as error:
        raise UsageError(
            f"table {name!r} must be one that DuckDB can hold: {str(error).strip()}"
        ) from None
    finally:
        database.unregister("_arriving_table")


def _create_views(database: duckdb.DuckDBPyConnection, catalog: Catalog, layer: Layer) -> None:
    database.execute(f"CREATE SCHEMA {layer}")
    for view in catalog.views:
        tables = [
            t
            for t, member in ((batch_table(view), "batch"), (speed_table(view), "speed"))
            if layer in ("merged", member)
        ]
        database.execute(
            f"CREATE VIEW {layer}.{quoted_duckdb(view.name)} AS {present_select(view, tables)}"
        )


def _create_queries(database: duckdb.DuckDBPyConnection, catalog: Catalog) -> None:
    """Creates the queries in each layer.

    They may be over one another and over other layers: first come those that wait for none of the
    others.
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
            # A query that is over a wrong one, or over itself by way of others, can't be told from
            # the wrong one itself.
            raise UsageError(
                "\n".join(why for (layer, _), why in missing.items() if layer == waiting[0][0])
            )
        waiting = list(missing)


def _not_made(query: Query, error: duckdb.Error) -> str:
    return f"query {query.name!r} must be a SELECT over the catalog's views: {str(error).strip()}"


def connect(
    catalog: Catalog | str | None = None,
    settings: Settings | None = None,
    store: Store | None = None,
) -> Connection:
    """Opens the serving layer on a store. Without arguments: on what the settings name.

    Raises IntegrityError or CoverageError, at the first question, for a store whose answer can't be
    proven.
    """
    settings = settings or load_settings()
    found = (
        load_catalog(catalog or settings.catalog) if not isinstance(catalog, Catalog) else catalog
    )
    return Connection(found, settings, store or Store(settings.store))


def _without_hugeint(table: pa.Table) -> pa.Table:
    """The table with sums of bigints as bigint again, if all values fit.

    DuckDB adds bigints up as HUGEINT, which Arrow has only as decimal(38,0).
    """
    for place, field in enumerate(table.schema):
        if field.type == pa.decimal128(38, 0):
            with suppress(pa.ArrowInvalid):
                table = table.set_column(place, field.name, table.column(place).cast(pa.int64()))
    return table


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
