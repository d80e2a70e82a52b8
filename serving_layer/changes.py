"""The difference between the merged answer of a view and what somebody else holds of it.

A holder has rows as JSON. A follower says after each refresh which of them have changed and which
no longer exist. It compares the answers that the refresh has folded again; at first, and after a
refresh that has folded all answers, it compares all.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from serving_layer.connection import Connection
from serving_layer.json_text import json_object_sql
from serving_layer.kept import FOLD, FOLD_TYPE, MOST_WINDOWS, can_keep, kept_select
from serving_layer.result import Provenance
from serving_layer.state import Loaded
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError, UsageError

ROWS = pa.schema([("key", pa.string()), ("value", pa.string())])


@dataclass(frozen=True)
class Difference:
    """How an answer differs from what its holder had.

    Attributes:
        rows: New and changed rows: the JSON of a row's key columns, and that of the whole row.
        gone: The keys of rows that no longer exist, as JSON.
        provenance: What the answer is based on now.
    """

    rows: list[tuple[str, str]] = field(repr=False)
    gone: list[str] = field(repr=False)
    provenance: Provenance

    def __bool__(self) -> bool:
        return bool(self.rows or self.gone)


class Follower:
    """Follows a view for one holder. A connection may have several, also of one view.

    Close it, or use it as a context manager: what has changed is recorded for it until then.
    """

    def __init__(self, connection: Connection, view: View) -> None:
        """Begins with a holder that has no row.

        Args:
            connection: A connection that keeps answers.
            view: A view of its catalog.

        Raises:
            UsageError: The answers of this view can't be kept.
        """
        if not can_keep(view):
            raise UsageError(
                f"a view that is followed must have at most {MOST_WINDOWS} windows for each event,"
                " and an answer that does not depend on the moment at which it is asked for; got"
                f" {view.name!r}; use a longer slide"
            )
        self._connection, self._view = connection, view
        with connection.exclusively() as (database, refresh):
            self._heard = refresh.kept.listen(view)
            self._held = f"_held.{self._heard.name}"
            database.execute(
                "CREATE SCHEMA IF NOT EXISTS _held;"
                f" CREATE TABLE {self._held} (key VARCHAR, digest UHUGEINT, {FOLD} {FOLD_TYPE})"
            )
            answers = database.sql(kept_select(view))  # which is not run
            types = dict(zip(answers.columns, answers.types, strict=True))
        key = json_object_sql({name: types[name] for name in view.key_names})
        row = json_object_sql({name: types[name] for name in view.output})
        kept = kept_select(view, FOLD)
        self._rows_sql = f"SELECT {key} AS key, {row} AS value, {FOLD} FROM ({kept})"

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it. Nothing is recorded for it any more."""
        with (
            suppress(duckdb.ConnectionException),  # closed with all it had
            self._connection.exclusively() as (database, refresh),
        ):
            refresh.kept.unlisten(self._view, self._heard)
            database.execute(f"DROP TABLE {self._held}")

    def holds(self, rows: Iterable[tuple[str, str]]) -> None:
        """Says which rows the holder has: the JSON of each key and of each row."""
        keys, values = zip(*rows, strict=True) if (rows := list(rows)) else ((), ())
        held = pa.table([pa.array(keys, pa.string()), pa.array(values, pa.string())], schema=ROWS)
        with self._connection.exclusively() as (database, _):
            database.register("_arriving", held)
            # Their folds are not known, and not needed: all rows are compared next.
            database.execute(
                f"DELETE FROM {self._held}; INSERT INTO {self._held}"
                " SELECT key, md5_number(value), 0 FROM _arriving"
            )
            database.unregister("_arriving")
            self._heard.all = True

    def __len__(self) -> int:
        """The number of rows that the holder has."""
        with self._connection.exclusively() as (database, _):
            counted = database.execute(f"SELECT count(*) FROM {self._held}").fetchall()
        return int(counted[0][0])

    def look(self, *, refresh: bool = True) -> Difference:
        """Compares, and assumes that the holder then has the answer.

        Args:
            refresh: Whether new data is loaded first.

        Raises:
            IntegrityError: The store's answer can't be proven.
            CoverageError: The same, or the view has no answer. The holder keeps what it has.
        """
        with self._connection.exclusively() as (database, loading):
            now = loading.refresh() if refresh else loading.loaded
            self._check_answered(now)
            provenance = self._connection.provenance_of(now)
            if not self._heard.anything(database):
                return Difference([], [], provenance)
            database.execute("BEGIN TRANSACTION")
            try:
                rows, gone = self._compared(database)
            except BaseException:
                database.execute("ROLLBACK")
                self._heard.all = True
                raise
            database.execute("COMMIT")
            self._heard.all = False
        return Difference(rows, gone, provenance)

    def _check_answered(self, now: Loaded) -> None:
        name, stream = self._view.name, self._view.stream.name
        now.check_answered(name)
        state = now.streams.get(stream)
        if now.publication is None and (state is None or state.generation is None):
            raise CoverageError(
                f"view {name!r} has no answer: nothing is published, and no speed layer has run"
                " with its present definition"
            )

    def _compared(
        self, database: duckdb.DuckDBPyConnection
    ) -> tuple[list[tuple[str, str]], list[str]]:
        run, held, heard = database.execute, self._held, self._heard.table
        where = "" if self._heard.all else f" WHERE {FOLD} IN (FROM {heard})"
        run(
            "CREATE OR REPLACE TEMP TABLE _now AS SELECT *, md5_number(value) AS digest"
            f" FROM ({self._rows_sql}{where})"
        )
        rows = run(
            f"SELECT key, value FROM _now LEFT JOIN {held} AS held USING (key)"
            " WHERE held.digest IS DISTINCT FROM _now.digest ORDER BY key"
        ).fetchall()
        gone = run(
            f"SELECT key FROM (FROM {held}{where}) ANTI JOIN _now USING (key) ORDER BY key"
        ).fetchall()
        run(
            f"DELETE FROM {held}{where}; INSERT INTO {held} SELECT key, digest, {FOLD} FROM _now;"
            f" DELETE FROM {heard}; DROP TABLE _now"
        )
        return rows, [key for (key,) in gone]
