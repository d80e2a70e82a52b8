"""Compares two shares of a view's partials, key by key, in DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from trilayer_core.compute.grouping import partial_schema
from trilayer_core.compute.merging import (
    Comparison,
    compare_partials,
    create_table_sql,
    insert_rows,
    open_duckdb,
    present_compared_select,
)
from trilayer_core.definitions.view import View
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.segments import TICK


class Shares:
    """An in-memory DuckDB for one reconciliation."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._connection, self._store = open_duckdb(settings.serving.memory_mb), store

    def __enter__(self) -> Shares:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def load_speed(self, view: View, partials: Iterable[pa.Table]) -> None:
        """Loads the speed layer's share, replacing the previous one."""
        self._create("speed_share", view, [f"{TICK} BIGINT"])
        for table in partials:
            insert_rows(self._connection, "speed_share", table)

    def compare(
        self, view: View, batch: Sequence[StoredFile], path: str
    ) -> tuple[Comparison, StoredFile]:
        """Compares the batch layer's share with the loaded share of the speed layer.

        Returns the result, and the file at that path with both answers of every key.
        """
        self._load("batch_share", view, batch)
        compared = compare_partials(
            self._connection, view, "batch_share", "speed_share", into="compared"
        )
        every = self._connection.sql(present_compared_select(view, "compared", ("batch", "speed")))
        return compared, self._store.write_table(path, every.to_arrow_table())

    def differences(
        self, view: View, left: Sequence[StoredFile], right: Sequence[StoredFile]
    ) -> Comparison:
        """Compares two batch views."""
        self._load("left_share", view, left)
        self._load("right_share", view, right)
        return compare_partials(self._connection, view, "left_share", "right_share")

    def _load(self, table: str, view: View, files: Sequence[StoredFile]) -> None:
        self._create(table, view)
        for file in files:
            rows = self._store.read_table(file, schema=partial_schema(view))
            insert_rows(self._connection, table, rows)

    def _create(self, table: str, view: View, extra: Sequence[str] = ()) -> None:
        self._connection.execute(
            f"DROP TABLE IF EXISTS {table}; {create_table_sql(table, view, extra)}"
        )
