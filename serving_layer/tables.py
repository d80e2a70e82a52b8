"""A reader's database: its native DuckDB tables, and the views and queries over them.

Plans are carried out in the tables completely or not at all. SQL of analysts runs in the database
only once it is locked down, without files and settings.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

from serving_layer.alerts.tables import AlertArrival, AlertChange, AlertTables, in_files
from serving_layer.materialized import (
    HASH,
    HASH_TYPE,
    MaterializedAnswers,
    answers_select,
    can_materialize,
    hash_sql,
)
from serving_layer.result import interruptible
from serving_layer.state import ViewPlan
from trilayer_core.compute.merging import (
    create_table_sql,
    insert_rows,
    merge_select,
    open_duckdb,
    present_select,
    quoted_duckdb,
)
from trilayer_core.definitions.catalog import Catalog, Query
from trilayer_core.definitions.tables import Table
from trilayer_core.definitions.view import View
from trilayer_core.errors import UsageError
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import StoredFile
from trilayer_core.store.segments import TICK

Layer = Literal["merged", "batch", "speed"]
LAYERS: tuple[Layer, ...] = ("merged", "batch", "speed")

_BATCH_COLUMNS = ["_file INTEGER"]
_SPEED_COLUMNS = [f"{TICK} BIGINT"]


def batch_table(view: View) -> str:
    """The table of a view's batch partials."""
    return f"_batch.{quoted_duckdb(view.name)}"


def speed_table(view: View) -> str:
    """The table of a view's speed partials."""
    return f"_speed.{quoted_duckdb(view.name)}"


class Tables:
    """The batch table and the speed table of each view, in one DuckDB.

    Attributes:
        answers: The materialized answers of merged views.
        alerts: The tables of alerts.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, catalog: Catalog, *, keep: bool = False
    ) -> None:
        """Creates empty tables.

        Args:
            connection: The database.
            catalog: The definitions.
            keep: Whether the answers of merged views are materialized.
        """
        views = [view for view in catalog.views if keep and can_materialize(view)]
        self._connection = connection
        self._views = {view.name: view for view in catalog.stored}
        self._materialized_for = {stored.name: view for view in views for stored in view.stored}
        # The columns that tables have beside those of partials, as SQL with their names.
        self._computed = {
            stored.name: [f"{hash_sql(view)} AS {HASH}"] for view in views for stored in view.stored
        }
        connection.execute("CREATE SCHEMA _batch; CREATE SCHEMA _speed")
        for view in catalog.stored:
            self._create(batch_table(view), view, _BATCH_COLUMNS)
            self._create(speed_table(view), view, _SPEED_COLUMNS)
        self.answers = MaterializedAnswers(
            connection, views, lambda stored: [batch_table(stored), speed_table(stored)]
        )
        self.alerts = AlertTables(connection, catalog.alerts)

    def replace(
        self,
        plans: Sequence[ViewPlan],
        batch: Mapping[StoredFile, pa.Table],
        speed: Mapping[str, Sequence[pa.Table]],
        alerts: Sequence[AlertChange] = (),
    ) -> None:
        """Carries out the plans of all views.

        Args:
            plans: The plans.
            batch: The rows of the batch files to add.
            speed: The partials for each view whose speed table is reloaded.
            alerts: The changes to the batch layer's sets of alerts.
        """
        with self._transaction():
            dirty = self._dirty(plans, batch, speed)
            for plan in plans:
                self._delete(plan)
                for file, number in plan.arriving.items():
                    self._insert_file(plan.view, batch[file], number)
                if plan.reload_speed:
                    table = speed_table(plan.view)
                    # A new table is created, because deleted rows would continue to cost time in
                    # every scan.
                    self._connection.execute(f"DROP TABLE {table}")
                    self._create(table, plan.view, _SPEED_COLUMNS)
                    self._insert_speed(plan.view, speed[plan.view.name])
            self._recompute(dirty)
            for change in alerts:
                self.alerts.replace(change, batch)
            failpoint("refresh.before-commit")

    def insert_sent(self, arrivals: Sequence[AlertArrival]) -> None:
        """Adds alerts that were sent."""
        with self._transaction():
            for arrival in arrivals:
                self.alerts.insert(arrival)
            failpoint("refresh.before-commit")

    def clear(self) -> None:
        """Empties all tables, whatever has happened to the transaction before."""
        with suppress(duckdb.TransactionException):
            self._connection.execute("ROLLBACK")
        with self._transaction():
            for view in self._views.values():
                for table, columns in (
                    (batch_table(view), _BATCH_COLUMNS),
                    (speed_table(view), _SPEED_COLUMNS),
                ):
                    self._connection.execute(f"DROP TABLE {table}")
                    self._create(table, view, columns)
            for view in self.answers.views:
                self.answers.recompute_all(view)
            self.alerts.clear()

    def append(self, partials: Mapping[str, Sequence[pa.Table]]) -> None:
        """Inserts rows into the speed tables of views."""
        with self._transaction():
            for name, tables in partials.items():
                self._insert_speed(self._views[name], tables)
            self._recompute(partials)
            failpoint("refresh.before-commit")

    def merge(self, view: View) -> int:
        """Merges the view's speed rows by tick and key.

        Returns the number of rows that are left.
        """
        table = speed_table(view)
        columns = [TICK, HASH] if view.name in self._materialized_for else [TICK]
        with self._transaction():
            self._connection.execute(
                f"CREATE TABLE _speed._next AS {merge_select(view, [table], columns)}; DROP TABLE"
                f" {table}; ALTER TABLE _speed._next RENAME TO {quoted_duckdb(view.name)}"
            )
        return self._count(table)

    def _dirty(
        self,
        plans: Sequence[ViewPlan],
        batch: Mapping[StoredFile, pa.Table],
        speed: Mapping[str, Sequence[pa.Table]],
    ) -> dict[str, Sequence[pa.Table] | None]:
        """The rows that plans delete or add, by view; None if there are too many to list.

        To be called before the plans are carried out.
        """
        dirty: dict[str, Sequence[pa.Table] | None] = {}
        for plan in plans:
            view = self._materialized_for.get(plan.view.name)
            if view is None:
                continue
            table = speed_table(plan.view)
            deleted = [f"{batch_table(plan.view)} WHERE {in_files(plan.gone)}"] * bool(plan.gone)
            deleted += [table] * plan.reload_speed
            added = [batch[file] for file in plan.arriving]
            added += speed[plan.view.name] if plan.reload_speed else []
            if self.answers.is_much(view, sum(map(len, added)) + sum(map(self._count, deleted))):
                dirty[plan.view.name] = None
            else:
                keys = ", ".join(quoted_duckdb(key.name) for key in view.keys)
                gone = [self._connection.sql(f"SELECT {keys} FROM {rows}") for rows in deleted]
                dirty[plan.view.name] = [*added, *(rows.to_arrow_table() for rows in gone)]
        return dirty

    def _recompute(self, dirty: Mapping[str, Sequence[pa.Table] | None]) -> None:
        """Folds the answers that depend on rows of partials, of which None stands for too many."""
        for view in self.answers.views:
            rows = [dirty.get(stored.name, ()) for stored in view.stored]
            if any(tables is None for tables in rows):
                self.answers.recompute_all(view)
            elif any(map(len, tables := [table for each in rows for table in each or ()])):
                self.answers.recompute(view, tables)

    def _count(self, rows: str) -> int:
        # A result that is not read to its end would keep tables from being registered.
        ((count,),) = self._connection.execute(f"SELECT count(*) FROM {rows}").fetchall()
        return int(count)

    def _create(self, table: str, view: View, columns: Sequence[str]) -> None:
        extra = [
            *columns,
            *([f"{HASH} {HASH_TYPE}"] if view.name in self._materialized_for else []),
        ]
        self._connection.execute(create_table_sql(table, view, extra))

    def _insert_speed(self, view: View, tables: Sequence[pa.Table]) -> None:
        if tables:
            rows = pa.concat_tables(tables)
            insert_rows(
                self._connection,
                speed_table(view),
                rows,
                computed=self._computed.get(view.name, ()),
            )

    def _insert_file(self, view: View, rows: pa.Table, number: int) -> None:
        numbered = rows.append_column("_file", pa.array([number] * len(rows), pa.int32()))
        # Sorted by key, so that a query for a few keys skips most row groups through their minimum
        # and maximum.
        keys = [key.name for key in view.keys]
        insert_rows(
            self._connection, batch_table(view), numbered, keys, self._computed.get(view.name, ())
        )

    def _delete(self, plan: ViewPlan) -> None:
        """Deletes rows from the view's batch table, or rewrites it without them."""
        table = batch_table(plan.view)
        if plan.staying is None:
            if plan.gone:
                self._connection.execute(f"DELETE FROM {table} WHERE {in_files(plan.gone)}")
            return
        self._create("_batch._next", plan.view, _BATCH_COLUMNS)
        if plan.staying:
            self._connection.execute(
                f"INSERT INTO _batch._next BY NAME FROM {table} WHERE {in_files(plan.staying)}"
            )
        self._connection.execute(
            f"DROP TABLE {table};"
            f" ALTER TABLE _batch._next RENAME TO {quoted_duckdb(plan.view.name)}"
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN TRANSACTION")
            yield
        except BaseException:
            # There is no transaction if BEGIN itself was interrupted.
            with suppress(duckdb.TransactionException):
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def open_database(
    catalog: Catalog,
    settings: Settings,
    content: Callable[[Table], pa.Table],
    *,
    keep: bool = False,
    forks: bool = False,
) -> tuple[duckdb.DuckDBPyConnection, Tables]:
    """Opens a database with all schemas of a connection: its views and queries over empty tables.

    Args:
        catalog: The definitions.
        settings: The settings.
        content: Returns the rows of a reference table.
        keep: Whether the answers of merged views are materialized.
        forks: Whether the process forks. The database then has no threads, which a fork would not
            have either, and is not locked down before `detach`.
    """
    database = open_duckdb(settings.serving.memory_mb, alone=forks)
    tables = Tables(database, catalog, keep=keep)
    # A transaction reads this first, which fixes the state that it sees to its end.
    database.execute(
        "CREATE TABLE _batch._anchor (one INTEGER); INSERT INTO _batch._anchor VALUES (1)"
    )
    for layer in LAYERS:
        _create_views(database, catalog, layer, tables.answers.views if layer == "merged" else ())
    database.execute("CREATE SCHEMA tables")
    for table in catalog.all_tables:
        put_table(database, table.name, content(table))
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
        lock_down(database)
    return database, tables


def lock_down(database: duckdb.DuckDBPyConnection, *, json_errors: bool = False) -> None:
    """Forbids files, extensions and settings, because SQL of analysts runs from here on.

    What does not fit in memory is an error, because SQL could write to the folder to which DuckDB
    spills: a SELECT may contain a COPY.

    Args:
        database: The database.
        json_errors: Whether the texts of its errors are JSON, with their positions.
    """
    database.execute(
        f"SET GLOBAL errors_as_json = {json_errors};"
        "SET temp_directory = ''; SET autoinstall_known_extensions = false;"
        " SET autoload_known_extensions = false; SET enable_external_access = false;"
        " SET allowed_configs = ['search_path']; SET lock_configuration = true"
    )


def put_table(
    database: duckdb.DuckDBPyConnection, name: str, rows: pa.Table, schema: str = "tables"
) -> None:
    """Creates or replaces a table.

    Raises:
        UsageError: DuckDB can't hold it.
    """
    try:
        with interruptible():
            # DuckDB scans a registered table in place, so it is copied into a table of its own.
            database.register("_arriving_table", rows)
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
    database: duckdb.DuckDBPyConnection,
    catalog: Catalog,
    layer: Layer,
    materialized: Sequence[View],
) -> None:
    """Creates the views of a layer. Materialized answers are selected, not merged."""
    database.execute(f"CREATE SCHEMA {layer}")
    for view in catalog.views:
        if view in materialized:
            answer = answers_select(view)
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
    # DuckDB binds the names in a view when the view is created.
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


_READERS = {
    ".csv": "read_csv", ".tsv": "read_csv", ".txt": "read_csv",
    ".json": "read_json", ".jsonl": "read_json", ".ndjson": "read_json", ".parquet": "read_parquet",
}  # fmt: skip


def lookup_table(data: Any) -> pa.Table:
    """The rows of a lookup table.

    Args:
        data: The path of a CSV, JSON or Parquet file, whose kind follows from its ending (text
            files may be compressed, `.gz`); or a DataFrame of pandas or polars, an Arrow table, or
            a list of dicts.

    Raises:
        UsageError: The file does not exist or can't be read, or `data` has another type.
    """
    if isinstance(data, str | Path):
        return _read(Path(data))
    try:
        return pa.Table.from_pylist(data) if isinstance(data, list) else pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            "a lookup table must be a file's path, a DataFrame, an Arrow table or a list of"
            f" dicts; got {type(data).__name__}: {error}"
        ) from None


def _read(path: Path) -> pa.Table:
    reader = _READERS.get(Path(path.name.removesuffix(".gz")).suffix.lower())
    if reader is None:
        raise UsageError(
            f"a lookup table's file must end in {', '.join(_READERS)}; got {str(path)!r}"
        )
    if not path.is_file():
        raise UsageError(f"a lookup table must be a file; got {str(path)!r}, which is not there")
    try:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            # DuckDB interprets a path as a pattern.
            named = glob.escape(str(path))
            return connection.sql(f"SELECT * FROM {reader}(?)", params=[named]).to_arrow_table()
    except duckdb.Error as error:
        raise UsageError(f"{path} must be readable as a table: {str(error).strip()}") from None
