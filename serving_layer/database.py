"""The database of a connection: its schemas, with the views and queries over tables yet empty.

SQL of analysts runs in it only once it is locked down, without files and settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb
import pyarrow as pa

from serving_layer.interrupts import interruptible
from serving_layer.kept import kept_select
from serving_layer.refresh import Refresh
from serving_layer.snapshot import LAYERS, Layer
from serving_layer.tables import Tables, batch_table, speed_table
from trilayer_core.compute.merging import open_duckdb, present_select, quoted_duckdb
from trilayer_core.definitions.catalog import Catalog, Query
from trilayer_core.definitions.tables import Table
from trilayer_core.definitions.view import View
from trilayer_core.errors import UsageError
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_core.store.segments import TICK
from trilayer_core.store.tables import table_content


def open_database(
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
        put_table(database, table.name, rows)
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
    return database, refresh


def lock_down(database: duckdb.DuckDBPyConnection) -> None:
    """Forbids files, extensions and settings, because SQL of analysts runs from here on.

    What does not fit in memory is an error, because SQL could write to the folder to which DuckDB
    spills: a SELECT may contain a COPY.
    """
    database.execute(
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
    database: duckdb.DuckDBPyConnection, catalog: Catalog, layer: Layer, kept: Sequence[View]
) -> None:
    """Creates the views of a layer. The answers of those in `kept` are selected, not merged."""
    database.execute(f"CREATE SCHEMA {layer}")
    for view in catalog.views:
        if view in kept:
            answer = kept_select(view)
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
