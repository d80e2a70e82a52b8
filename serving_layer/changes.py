"""The difference between the merged answer of a view and what somebody else holds of it.

A holder has rows as JSON. After each refresh a follower returns which of them have changed and
which no longer exist. It compares the answers that the refresh has recomputed; at first, and after
a refresh that has recomputed all answers, it compares all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from serving_layer.connection import Connection
from serving_layer.materialized import (
    HASH,
    HASH_TYPE,
    MOST_WINDOWS,
    answers_select,
    can_materialize,
)
from serving_layer.result import Provenance
from serving_layer.state import Loaded
from trilayer_core.compute.merging import quoted_duckdb
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
            UsageError: The answers of this view can't be materialized.
        """
        if not can_materialize(view):
            raise UsageError(
                f"a view that is followed must have at most {MOST_WINDOWS} windows for each event,"
                " and an answer that does not depend on the moment at which it is asked for; got"
                f" {view.name!r}; use a longer slide"
            )
        self._connection, self._view = connection, view
        with connection.exclusively() as (database, refresh):
            self._listener = refresh.answers.listen(view)
            self._held = f"_held.{self._listener.name}"
            database.execute(
                "CREATE SCHEMA IF NOT EXISTS _held;"
                f" CREATE TABLE {self._held} (key VARCHAR, digest UHUGEINT, {HASH} {HASH_TYPE})"
            )
            answers = database.sql(answers_select(view))  # which is not run
            types = dict(zip(answers.columns, answers.types, strict=True))
        key = json_object_sql({name: types[name] for name in view.key_names})
        row = json_object_sql({name: types[name] for name in view.output})
        answers_sql = answers_select(view, HASH)
        self._rows_sql = f"SELECT {key} AS key, {row} AS value, {HASH} FROM ({answers_sql})"

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the recording of changes."""
        with (
            suppress(duckdb.ConnectionException),  # closed with all it had
            self._connection.exclusively() as (database, refresh),
        ):
            refresh.answers.unlisten(self._view, self._listener)
            database.execute(f"DROP TABLE {self._held}")

    def holds(self, rows: Iterable[tuple[str, str]]) -> None:
        """Records which rows the holder has: the JSON of each key and of each row."""
        keys, values = zip(*rows, strict=True) if (rows := list(rows)) else ((), ())
        held = pa.table([pa.array(keys, pa.string()), pa.array(values, pa.string())], schema=ROWS)
        with self._connection.exclusively() as (database, _):
            database.register("_arriving", held)
            # Their hashes are not needed: all rows are compared next.
            database.execute(
                f"DELETE FROM {self._held}; INSERT INTO {self._held}"
                " SELECT key, md5_number(value), 0 FROM _arriving"
            )
            database.unregister("_arriving")
            self._listener.all = True

    def __len__(self) -> int:
        """The number of rows that the holder has."""
        with self._connection.exclusively() as (database, _):
            counted = database.execute(f"SELECT count(*) FROM {self._held}").fetchall()
        return int(counted[0][0])

    def poll(self, *, refresh: bool = True) -> Difference:
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
            if not self._listener.has_changes(database):
                return Difference([], [], provenance)
            database.execute("BEGIN TRANSACTION")
            try:
                rows, gone = self._compared(database)
            except BaseException:
                database.execute("ROLLBACK")
                self._listener.all = True
                raise
            database.execute("COMMIT")
            self._listener.all = False
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
        run, held, listener = database.execute, self._held, self._listener.table
        where = "" if self._listener.all else f" WHERE {HASH} IN (FROM {listener})"
        # Digests are compared, because rows would take as much memory as the answer.
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
            f"DELETE FROM {held}{where}; INSERT INTO {held} SELECT key, digest, {HASH} FROM _now;"
            f" DELETE FROM {listener}; DROP TABLE _now"
        )
        return rows, [key for (key,) in gone]


# -- rows as JSON ----------------------------------------------------------------------------------

# DuckDB's own `to_json` writes decimals as doubles, and NaN as something that is not JSON. Here a
# decimal keeps its digits, and values that JSON does not have are text: NaN, infinity, and times,
# which are ISO 8601, in UTC if they have a zone. A stream of trilayer reads all of these.
_PLAIN = {
    "boolean", "tinyint", "smallint", "integer", "bigint", "hugeint",
    "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint", "decimal",
}  # fmt: skip
_TIME = "%Y-%m-%dT%H:%M:%S.%f"


def json_object_sql(columns: Mapping[str, DuckDBPyType]) -> str:
    """SQL of a JSON object of some columns, as text; each name maps to its type."""
    return _object({name: (quoted_duckdb(name), type_) for name, type_ in columns.items()}, 0)


def _object(members: Mapping[str, tuple[str, DuckDBPyType]], depth: int) -> str:
    parts = []
    for place, (name, (value, type_)) in enumerate(members.items()):
        escaped = name.replace("'", "''").replace('"', '\\"')
        parts.append(f"""'{"," if place else "{"}"{escaped}":', {_json(value, type_, depth)}""")
    # One call, because DuckDB limits how deep operators are nested, and with them the columns.
    return f"concat({', '.join(parts)}, '}}')" if parts else "'{}'"


def _json(value: str, type_: DuckDBPyType, depth: int) -> str:
    """SQL of the JSON of a value, as text that is never NULL."""
    kind = type_.id
    if kind in _PLAIN:
        text = f"CAST({value} AS VARCHAR)"
    elif kind in ("float", "double"):
        text = (
            f"CASE WHEN isnan({value}) THEN '\"NaN\"' WHEN isinf({value}) THEN"
            f" if({value} > 0, '\"Infinity\"', '\"-Infinity\"')"
            f" ELSE CAST(to_json({value}) AS VARCHAR) END"
        )
    elif kind in ("timestamp with time zone", "timestamp"):
        zone = "Z" if kind != "timestamp" else ""
        at = f"({value} AT TIME ZONE 'UTC')" if zone else value
        text = f"'\"' || strftime({at}, '{_TIME}{zone}') || '\"'"
    elif kind == "list":
        item = f"_item_{depth}"
        items = f"list_transform({value}, lambda {item}: {_json(item, type_.child, depth + 1)})"
        text = f"'[' || array_to_string({items}, ',') || ']'"
    elif kind == "struct":
        members = {
            name: (f"struct_extract({value}, {_text(name)})", child)
            for name, child in type_.children
            if isinstance(child, DuckDBPyType)
        }
        text = f"CASE WHEN {value} IS NOT NULL THEN {_object(members, depth)} END"
    elif kind == "blob":
        text = f"'\"' || to_base64({value}) || '\"'"
    else:
        text = f"CAST(to_json(CAST({value} AS VARCHAR)) AS VARCHAR)"
    return f"coalesce({text}, 'null')"


def _text(name: str) -> str:
    quoted = name.replace("'", "''")
    return f"'{quoted}'"
