"""What changes in the merged answer of a view, row by row, as JSON.

A receiver has rows; after each refresh it is told which of them are others now, and which are gone.
Only the rows that a refresh has folded again are compared with what the receiver has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from serving_layer.connection import Connection
from serving_layer.json_text import json_object_sql
from serving_layer.kept import FOLD, FOLD_TYPE, can_keep, kept_table
from serving_layer.result import Provenance
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError, UsageError

ROWS = pa.schema([("key", pa.string()), ("value", pa.string())])


@dataclass(frozen=True)
class Changed:
    """What has changed since the last look.

    Attributes:
        rows: The rows that are new or others: the JSON of a row's key and of the whole row.
        gone: The keys of rows that no longer exist, as JSON.
        provenance: What the answer is based on now.
    """

    rows: list[tuple[str, str]] = field(repr=False)
    gone: list[str] = field(repr=False)
    provenance: Provenance

    def __bool__(self) -> bool:
        return bool(self.rows or self.gone)


class Changes:
    """Follows one view for one receiver. A connection may have several, one for each view."""

    def __init__(self, connection: Connection, view: View) -> None:
        """Begins with a receiver that has no row.

        Args:
            connection: A connection that keeps answers.
            view: A view of its catalog.

        Raises:
            UsageError: The answers of this view can't be kept.
        """
        if not can_keep(view):
            raise UsageError(
                f"view {view.name!r} must be one whose answers can be kept, for its changes to be"
                " known; its windows overlap too often; use a longer slide"
            )
        self._connection, self._view = connection, view
        self._database = connection._database
        with connection._lock:
            self._heard = connection._refresh.kept.listen(view)
            self._has = f"_has.{self._heard.name}"
            self._database.execute(
                "CREATE SCHEMA IF NOT EXISTS _has;"
                f" CREATE TABLE {self._has} (key VARCHAR, digest UHUGEINT, {FOLD} {FOLD_TYPE})"
            )
            answers = self._database.table(kept_table(view))
            types = dict(zip(answers.columns, answers.types, strict=True))
        key = json_object_sql({name: types[name] for name in view.key_names})
        row = json_object_sql({name: types[name] for name in view.output})
        self._rows = f"SELECT {key} AS key, {row} AS value, {FOLD} FROM {kept_table(view)}"

    def restore(self, rows: Iterable[tuple[str, str]]) -> None:
        """Says which rows the receiver has: the JSON of each key and row."""
        keys, values = zip(*rows, strict=True) if (rows := list(rows)) else ((), ())
        known = pa.table([pa.array(keys, pa.string()), pa.array(values, pa.string())], schema=ROWS)
        with self._connection._lock:
            self._database.register("_known", known)
            # Which fold they have is not known, and not needed: all rows are compared next.
            self._database.execute(
                f"DELETE FROM {self._has}; INSERT INTO {self._has} SELECT key, md5_number(value), 0"
                " FROM _known"
            )
            self._database.unregister("_known")
            self._heard.all = True

    def next(self) -> Changed:
        """Refreshes, and says what has changed for the receiver since it was asked last.

        Raises:
            IntegrityError: The store's answer can't be proven.
            CoverageError: The same, or the view has no answer. The receiver keeps what it has.
        """
        name = self._view.name
        with self._connection._lock:
            loaded = self._connection._refresh.refresh()
            provenance = self._connection._provenance(loaded)
            if name in loaded.missing_views:
                raise CoverageError(f"view {name!r} has no answer: {loaded.missing_views[name]}")
            if not self._heard.anything(self._database):
                return Changed([], [], provenance)
            self._database.execute("BEGIN TRANSACTION")
            try:
                rows, gone = self._compared()
            except BaseException:
                self._database.execute("ROLLBACK")
                self._heard.all = True
                raise
            self._database.execute("COMMIT")
            self._heard.all = False
        return Changed(rows, gone, provenance)

    def _compared(self) -> tuple[list[tuple[str, str]], list[str]]:
        run, has, heard = self._database.execute, self._has, self._heard.table
        where = "" if self._heard.all else f" WHERE {FOLD} IN (FROM {heard})"
        run(
            "CREATE OR REPLACE TEMP TABLE _now AS SELECT *, md5_number(value) AS digest"
            f" FROM ({self._rows}{where})"
        )
        rows = run(
            f"SELECT key, value FROM _now LEFT JOIN {has} AS has USING (key)"
            " WHERE has.digest IS DISTINCT FROM _now.digest ORDER BY key"
        ).fetchall()
        gone = run(
            f"SELECT key FROM (FROM {has}{where}) ANTI JOIN _now USING (key) ORDER BY key"
        ).fetchall()
        run(
            f"DELETE FROM {has}{where}; INSERT INTO {has} SELECT key, digest, {FOLD} FROM _now;"
            f" DELETE FROM {heard}"
        )
        return rows, [key for (key,) in gone]
