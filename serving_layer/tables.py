"""A reader's native DuckDB tables, in which plans are carried out completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import duckdb
import pyarrow as pa

from serving_layer.alerts import AlertArrival, AlertChange, AlertTables, in_files
from serving_layer.kept import FOLD, FOLD_TYPE, KeptAnswers, can_keep, fold_sql
from serving_layer.plan import ViewPlan
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
    """The batch table and the speed table of each view, in one DuckDB.

    Attributes:
        kept: The answers of merged views that are kept.
        alerts: The tables of alerts.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, catalog: Catalog, *, keep: bool = False
    ) -> None:
        """Creates empty tables.

        Args:
            connection: The database.
            catalog: The definitions.
            keep: Whether the answers of merged views are kept.
        """
        views = [view for view in catalog.views if keep and can_keep(view)]
        self._connection = connection
        self._views = {view.name: view for view in catalog.stored}
        self._kept_for = {stored.name: view for view in views for stored in view.stored}
        # The columns that tables have beside those of partials, as SQL with their names.
        self._computed = {
            stored.name: [f"{fold_sql(view)} AS {FOLD}"] for view in views for stored in view.stored
        }
        connection.execute("CREATE SCHEMA _batch; CREATE SCHEMA _speed")
        for view in catalog.stored:
            self._create(batch_table(view), view, _BATCH_COLUMNS)
            self._create(speed_table(view), view, _SPEED_COLUMNS)
        self.kept = KeptAnswers(
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
            touched = self._touched(plans, batch, speed)
            for plan in plans:
                self._delete(plan)
                for file, number in plan.arriving.items():
                    self._insert_file(plan.view, batch[file], number)
                if plan.speed_anew:
                    table = speed_table(plan.view)
                    # A new table is created, because deleted rows would continue to cost time in
                    # every scan.
                    self._connection.execute(f"DROP TABLE {table}")
                    self._create(table, plan.view, _SPEED_COLUMNS)
                    self._insert_speed(plan.view, speed[plan.view.name])
            self._fold(touched)
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
            for view in self.kept.views:
                self.kept.fold_all(view)
            self.alerts.clear()

    def append(self, partials: Mapping[str, Sequence[pa.Table]]) -> None:
        """Inserts rows into the speed tables of views."""
        with self._transaction():
            for name, tables in partials.items():
                self._insert_speed(self._views[name], tables)
            self._fold(partials)
            failpoint("refresh.before-commit")

    def merge(self, view: View) -> int:
        """Merges the view's speed rows by tick and key.

        Returns the number of rows that are left.
        """
        table, columns = speed_table(view), [TICK, *([FOLD] if view.name in self._kept_for else [])]
        with self._transaction():
            self._connection.execute(
                f"CREATE TABLE _speed._next AS {merge_select(view, [table], columns)}; DROP TABLE"
                f" {table}; ALTER TABLE _speed._next RENAME TO {quoted_duckdb(view.name)}"
            )
        return self._count(table)

    def _touched(
        self,
        plans: Sequence[ViewPlan],
        batch: Mapping[StoredFile, pa.Table],
        speed: Mapping[str, Sequence[pa.Table]],
    ) -> dict[str, Sequence[pa.Table] | None]:
        """The rows that plans delete or add, by view; None if there are too many to look at each.

        To be called before the plans are carried out.
        """
        touched: dict[str, Sequence[pa.Table] | None] = {}
        for plan in plans:
            view = self._kept_for.get(plan.view.name)
            if view is None:
                continue
            table = speed_table(plan.view)
            deleted = [f"{batch_table(plan.view)} WHERE {in_files(plan.gone)}"] * bool(plan.gone)
            deleted += [table] * plan.speed_anew
            added = [batch[file] for file in plan.arriving]
            added += speed[plan.view.name] if plan.speed_anew else []
            if self.kept.is_much(view, sum(map(len, added)) + sum(map(self._count, deleted))):
                touched[plan.view.name] = None
            else:
                keys = ", ".join(quoted_duckdb(key.name) for key in view.keys)
                gone = [self._connection.sql(f"SELECT {keys} FROM {rows}") for rows in deleted]
                touched[plan.view.name] = [*added, *(rows.to_arrow_table() for rows in gone)]
        return touched

    def _fold(self, touched: Mapping[str, Sequence[pa.Table] | None]) -> None:
        """Folds the answers that depend on rows of partials, of which None stands for too many."""
        for view in self.kept.views:
            rows = [touched.get(stored.name, ()) for stored in view.stored]
            if any(tables is None for tables in rows):
                self.kept.fold_all(view)
            elif any(map(len, tables := [table for each in rows for table in each or ()])):
                self.kept.fold(view, tables)

    def _count(self, rows: str) -> int:
        # A result that is not read to its end would keep tables from being registered.
        ((count,),) = self._connection.execute(f"SELECT count(*) FROM {rows}").fetchall()
        return int(count)

    def _create(self, table: str, view: View, columns: Sequence[str]) -> None:
        extra = [*columns, *([f"{FOLD} {FOLD_TYPE}"] if view.name in self._kept_for else [])]
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
            with suppress(duckdb.TransactionException):
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
