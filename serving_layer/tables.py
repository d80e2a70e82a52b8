"""A reader's native DuckDB tables, in which plans are carried out completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from serving_layer.plan import ViewPlan
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.compute.merging import create_table_sql, insert_rows, merge_select, quoted_duckdb
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.view import View
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.store.files import StoredFile
from trilayer_core.store.segments import TICK

_BATCH_COLUMNS = ["_file INTEGER"]
_SPEED_COLUMNS = [f"{TICK} BIGINT"]


def batch_table(view: View) -> str:
    """The table of a view's batch partials."""
    return f"_batch.{quoted_duckdb(view.name)}"


def speed_table(view: View) -> str:
    """The table of a view's speed partials."""
    return f"_speed.{quoted_duckdb(view.name)}"


class Tables:
    """The batch table and the speed table of each view, in one DuckDB."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, catalog: Catalog) -> None:
        """Creates empty tables."""
        self._connection = connection
        self._views = {view.name: view for view in catalog.stored}
        connection.execute("CREATE SCHEMA _batch; CREATE SCHEMA _speed")
        for view in catalog.stored:
            connection.execute(create_table_sql(batch_table(view), view, _BATCH_COLUMNS))
            connection.execute(create_table_sql(speed_table(view), view, _SPEED_COLUMNS))

    def replace(
        self,
        plans: Sequence[ViewPlan],
        batch: Mapping[StoredFile, pa.Table],
        speed: Mapping[str, Sequence[pa.Table]],
    ) -> None:
        """Carries out the plans of all views.

        Args:
            plans: The plans.
            batch: The rows of the batch files to add.
            speed: The partials for each view whose speed table is reloaded.
        """
        with self._transaction():
            for plan in plans:
                self._delete(plan)
                for file, number in plan.arriving.items():
                    self._insert_file(plan.view, batch[file], number)
                if plan.speed_anew:
                    table = speed_table(plan.view)
                    # A new table is created, because deleted rows would continue to cost time in
                    # every scan.
                    self._connection.execute(
                        f"DROP TABLE {table}; {create_table_sql(table, plan.view, _SPEED_COLUMNS)}"
                    )
                    self._insert_speed(plan.view, speed[plan.view.name])
            failpoint("refresh.before-commit")

    def append(self, partials: Mapping[str, Sequence[pa.Table]]) -> None:
        """Inserts rows into the speed tables of views."""
        with self._transaction():
            for name, tables in partials.items():
                self._insert_speed(self._views[name], tables)
            failpoint("refresh.before-commit")

    def merge(self, view: View) -> int:
        """Merges the view's speed rows by tick and key.

        Returns the number of rows that are left.
        """
        table = speed_table(view)
        with self._transaction():
            self._connection.execute(
                f"CREATE TABLE _speed._next AS {merge_select(view, [table], [TICK])}; DROP TABLE"
                f" {table}; ALTER TABLE _speed._next RENAME TO {quoted_duckdb(view.name)}"
            )
        row = self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert row
        return int(row[0])

    def _insert_speed(self, view: View, tables: Sequence[pa.Table]) -> None:
        if tables:
            insert_rows(self._connection, speed_table(view), pa.concat_tables(tables))

    def _insert_file(self, view: View, rows: pa.Table, number: int) -> None:
        typed = rows.select(list(view.partial_columns)).cast(partial_schema(view))
        numbered = typed.append_column("_file", pa.array([number] * len(typed), pa.int32()))
        # Sorted by key, so that a query for a few keys skips most row groups through their minimum
        # and maximum.
        keys = [key.name for key in view.keys]
        insert_rows(self._connection, batch_table(view), numbered, keys)

    def _delete(self, plan: ViewPlan) -> None:
        """Deletes rows from the view's batch table, or rewrites it without them."""
        table = batch_table(plan.view)
        if plan.staying is None:
            if plan.gone:
                self._connection.execute(f"DELETE FROM {table} WHERE {_in_files(plan.gone)}")
            return
        self._connection.execute(create_table_sql("_batch._next", plan.view, _BATCH_COLUMNS))
        if plan.staying:
            self._connection.execute(
                f"INSERT INTO _batch._next BY NAME FROM {table} WHERE {_in_files(plan.staying)}"
            )
        self._connection.execute(
            f"DROP TABLE {table};"
            f" ALTER TABLE _batch._next RENAME TO {quoted_duckdb(plan.view.name)}"
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def _in_files(numbers: Sequence[int]) -> str:
    """The SQL condition for the rows of these files in a batch table."""
    return f"_file IN ({', '.join(map(str, numbers))})"
