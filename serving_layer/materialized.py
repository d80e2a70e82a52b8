"""The materialized answers of merged views, in native tables.

A query on a merged view scans such a table instead of merging the partials of all keys. When
partials change, only the dirty answers, those that depend on them, are recomputed.

A column NAME of an answer is stored as NAME__, which no user may declare, because a name that users
give can be one of DuckDB's own: `rowid` would hide the place of a row.

Each row of an answer, and of the partials on which it depends, has a key hash, over the columns by
which partials are merged into answers. All rows of a hash are always replaced together, so that two
keys with the same hash cost a little time and nothing else. DuckDB compares a hash with `=` where
keys can be NULL or NaN, and finds the rows of a few hashes about three times as fast as those of a
few texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from trilayer_core.compute.grouping import sql_type
from trilayer_core.compute.merging import present_select, quoted_duckdb
from trilayer_core.definitions.view import View
from trilayer_core.definitions.windows import Window

HASH = "_hash"
"""The column of a row's key hash, in the tables of answers and of partials."""

HASH_TYPE = "UINTEGER"

MOST_WINDOWS = 24
"""Answers are materialized if a pane belongs to at most this many windows, over all window keys.

There can be as many rows of an answer for each row of partials.
"""

MOST_DIRTY = 0.25
"""If more than this fraction of a view's answers is dirty, all of them are recomputed."""

MOST_MOVED = 0.0625
"""A table is rewritten once the ratio of deleted and inserted rows to all exceeds this.

Inserted rows are at the end of the table and not in the order of the keys, so that a query for a
few keys can't skip them, and each deleted row costs time in a scan. It is also rewritten once as
many rows as it has were changed in their places, because DuckDB keeps long texts that a change has
replaced.
"""

FEW_ROWS = 10_000
"""The two ratios above do not matter for fewer rows, unless they are large."""

FEW_BYTES = 16 << 20
"""Rows that were changed are large if they have more bytes than this together, as text."""

Tables = Callable[[View], Sequence[str]]


def answers_table(view: View) -> str:
    """The table of a view's materialized answers."""
    return f"_materialized.{quoted_duckdb(view.name)}"


def answers_column(name: str) -> str:
    """The column of that table, quoted, for a column of the answer."""
    return quoted_duckdb(f"{name}__")


def answers_select(view: View, *more: str) -> str:
    """A SELECT of the answer from that table, and of more of its columns."""
    columns = [f"{answers_column(name)} AS {quoted_duckdb(name)}" for name in view.output]
    return f"SELECT {', '.join([*columns, *more])} FROM {answers_table(view)}"


def can_materialize(view: View) -> bool:
    """Whether the answers of a view can be materialized."""
    windows = math.prod(window.overlap or 1 for window in _windows(view).values())
    return not view.as_of_query and windows <= MOST_WINDOWS


def hash_sql(view: View) -> str:
    """DuckDB SQL of the key hash of a row of a view's partials or answers."""
    columns = [
        f"CAST({quoted_duckdb(key.name)} AS {sql_type(key.type, 'duckdb')})"
        for key in view.keys
        if not key.window or key.window.overlap is not None
    ]
    hashed = f"hash({', '.join(columns)}) & 4294967295" if columns else "0"
    return f"CAST({hashed} AS {HASH_TYPE})"


@dataclass
class Listener:
    """Records which answers of a view were recomputed since the last poll.

    Attributes:
        name: A name that no other of its kind has, quoted.
        all: Whether all of them were. Until a poll sets it to false, none is recorded.
    """

    name: str
    all: bool = True

    @property
    def table(self) -> str:
        """The table with their key hashes. A poll deletes its rows."""
        return f"_changed.{self.name}"

    def has_changes(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Whether any answer was recomputed."""
        return self.all or bool(connection.execute(f"FROM {self.table} LIMIT 1").fetchall())


class MaterializedAnswers:
    """The tables of the answers of views. They are changed in the caller's transaction.

    Attributes:
        views: The views whose answers are materialized.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, views: Sequence[View], tables: Tables
    ) -> None:
        """Creates empty tables.

        Args:
            connection: The database, which contains the tables of partials.
            views: The views whose answers are materialized.
            tables: The tables with the partials of a stored view. Their rows have a key hash.
        """
        self.views = views
        self._connection, self._tables = connection, tables
        self._hashes = {view.name: hash_sql(view) for view in views}
        self._all = {view.name: _answers_sql(view, tables) for view in views}
        self._quick = {
            view.name: (_repeated_sql(view, tables), _quick_sql(view, tables))
            for view in views
            if _is_plain(view)
        }
        self._dirty = {view.name: _changes_sql(view, tables) for view in views}
        self._moved = dict.fromkeys(self._all, 0)
        self._changed = dict.fromkeys(self._all, 0)
        self._large = {view.name: 0 for view in views if _may_be_large(view)}
        self._listeners: dict[str, list[Listener]] = {}
        self._listened = 0
        connection.execute("CREATE SCHEMA _materialized; CREATE SCHEMA _changed")
        for view in views:
            connection.execute(
                f"CREATE TABLE {answers_table(view)} AS {self._all[view.name]} LIMIT 0"
            )

    def listen(self, view: View) -> Listener:
        """Begins to record which answers of a view are recomputed; at first all of them count.

        What is recorded grows until it is read, or until `unlisten`.
        """
        self._listened += 1
        listener = Listener(quoted_duckdb(f"{view.name}_{self._listened}"))
        self._connection.execute(f"CREATE TABLE {listener.table} ({HASH} {HASH_TYPE})")
        self._listeners.setdefault(view.name, []).append(listener)
        return listener

    def unlisten(self, view: View, listener: Listener) -> None:
        """Ends what `listen` has begun."""
        self._listeners[view.name].remove(listener)
        self._connection.execute(f"DROP TABLE {listener.table}")

    def is_much(self, view: View, rows: int) -> bool:
        """Whether so many dirty rows are a reason to recompute all answers of a view."""
        return rows > FEW_ROWS and rows > MOST_DIRTY * self._count(answers_table(view))

    def recompute_all(self, view: View) -> None:
        """Recomputes all answers of a view.

        In the largest batch file each key has one row, so that only the keys of other partials have
        something to merge.
        """
        for listener in self._listeners.get(view.name, ()):
            listener.all = True  # even if the caller's transaction is rolled back
        if view.name in self._quick:
            repeated, answers = self._quick[view.name]
            rows = self._create("_repeated", repeated)
            # The rows of the largest file are in order already; a few others may precede them.
            few = rows <= MOST_MOVED * self._count(self._tables(view)[0])
            self._write(view, answers, in_order=few)
            self._moved[view.name] = rows if few else 0
            again = f"SELECT {HASH} = lag({HASH}) OVER () AS again FROM {answers_table(view)}"
            if not self._connection.execute(f"FROM ({again}) WHERE again LIMIT 1").fetchall():
                return
        self._write(view, self._all[view.name])

    def recompute(self, view: View, dirty: Sequence[pa.Table]) -> None:
        """Recomputes the answers that depend on changed partials.

        Args:
            view: The view.
            dirty: The keys of the partials that were added or deleted.
        """
        names = [f"_arrived_{number}" for number in range(len(dirty))]
        for name, rows in zip(names, dirty, strict=True):
            self._connection.register(name, rows)
        hashes = self._create("_dirty", _dirty_hashes_sql(view, names, self._hashes[view.name]))
        for name in names:
            self._connection.unregister(name)
        if self.is_much(view, hashes):
            self.recompute_all(view)
        else:
            for listener in self._listeners.get(view.name, ()):
                if not listener.all:
                    self._connection.execute(
                        f"INSERT INTO {listener.table} SELECT DISTINCT {HASH} FROM _dirty"
                    )
            self._change(view, self._create("_changes", self._dirty[view.name]))

    def _change(self, view: View, changes: int) -> None:
        """Changes the table of answers as `_changes` says.

        A row whose key stays is changed in its place: a scan of the table then stays nearly as
        fast, and the rows stay in the order of the keys. If a column is nested, DuckDB deletes and
        inserts the row nevertheless.
        """
        table, name = answers_table(view), view.name
        ((before, after),) = self._connection.execute(
            f"SELECT count(_row), count({HASH}) FROM _changes"
        ).fetchall()
        if stays := before + after - changes:
            columns = ", ".join(
                f"{column} = _changes.{column}"
                for name in view.output
                if name not in view.key_names and (column := answers_column(name))
            )
            self._connection.execute(
                f"UPDATE {table} SET {columns} FROM _changes"
                f" WHERE {table}.rowid = _row AND _changes.{HASH} IS NOT NULL"
            )
        if before > stays:
            gone = f"SELECT _row FROM _changes WHERE {HASH} IS NULL"
            self._connection.execute(f"DELETE FROM {table} WHERE rowid IN ({gone})")
        if after > stays:
            self._connection.execute(
                f"INSERT INTO {table} SELECT * EXCLUDE (_row) FROM _changes WHERE _row IS NULL"
                f" ORDER BY {_answer_keys(view)}"
            )
        self._moved[name] += changes if _is_nested(view) else changes - stays
        self._changed[name] += changes
        if name in self._large:
            ((size,),) = self._connection.execute(
                "SELECT coalesce(sum(strlen(CAST(_changes AS VARCHAR))), 0) FROM _changes"
            ).fetchall()
            self._large[name] += int(size)
        if self._changed[name] > FEW_ROWS or self._large.get(name, 0) > FEW_BYTES:
            rows = self._count(answers_table(view))
            if self._changed[name] > rows or self._moved[name] > max(FEW_ROWS, MOST_MOVED * rows):
                self._write(view, f"SELECT * FROM {table}")

    def _write(self, view: View, answers: str, *, in_order: bool = False) -> None:
        """Replaces a table. The rows are sorted by key, so that most can be skipped.

        DuckDB knows the minimum and maximum of each column in each 122,880 rows of a table.
        """
        order = "" if in_order else f" ORDER BY {_answer_keys(view)}"
        self._connection.execute(
            f"CREATE TABLE _materialized._next AS SELECT * FROM ({answers}){order};"
            f" DROP TABLE {answers_table(view)};"
            f" ALTER TABLE _materialized._next RENAME TO {quoted_duckdb(view.name)}"
        )
        self._moved[view.name] = self._changed[view.name] = 0
        if view.name in self._large:
            self._large[view.name] = 0

    def _create(self, name: str, select: str) -> int:
        """Creates a temporary table, and returns the number of its rows."""
        # The result of CREATE TABLE AS is the number of its rows.
        ((rows,),) = self._connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {name} AS {select}"
        ).fetchall()
        return int(rows)

    def _count(self, table: str) -> int:
        ((rows,),) = self._connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(rows)


def _answers_sql(view: View, tables: Tables, condition: str = "") -> str:
    """A SELECT of answers and their hashes, from the partials that fulfil a condition."""
    where = f" WHERE {condition}" if condition else ""
    select = present_select(
        view, lambda stored: [f"(SELECT * FROM {table}{where})" for table in tables(stored)]
    )
    return _with_hash(view, select)


def _repeated_sql(view: View, tables: Tables) -> str:
    """A SELECT of the hashes of all partials that are not in the largest batch file."""
    batch, speed = tables(view)
    largest = f"SELECT _file FROM {batch} GROUP BY _file ORDER BY count(*) DESC, _file LIMIT 1"
    others = f"SELECT {HASH} FROM {batch} WHERE _file <> ({largest})"
    return f"SELECT DISTINCT {HASH} FROM ({others} UNION ALL SELECT {HASH} FROM {speed})"


def _quick_sql(view: View, tables: Tables) -> str:
    """A SELECT of answers and their hashes, which merges only partials of keys in `_repeated`."""
    several = [f"(FROM {table} SEMI JOIN _repeated USING ({HASH}))" for table in tables(view)]
    single = [f"(FROM {table} ANTI JOIN _repeated USING ({HASH}))" for table in tables(view)[:1]]
    answers = present_select(view, several, single=single)
    return _with_hash(view, answers)


def _with_hash(view: View, answers: str) -> str:
    """A SELECT of the columns of the table of answers."""
    columns = [f"{quoted_duckdb(name)} AS {answers_column(name)}" for name in view.output]
    return f"SELECT {', '.join(columns)}, {hash_sql(view)} AS {HASH} FROM ({answers})"


def _dirty_hashes_sql(view: View, arrived: Sequence[str], hash_: str) -> str:
    """A SELECT of the hashes of the answers that depend on some partials.

    If windows overlap, it also has the keys of the answers.
    """
    windows = f"({' UNION ALL '.join(f'SELECT {_keys(view)} FROM {rows}' for rows in arrived)})"
    overlapping = _overlapping(view)
    for name, window in overlapping.items():
        starts = window.windows_sql(quoted_duckdb(name))
        windows = f"(SELECT * REPLACE (unnest({starts}) AS {quoted_duckdb(name)}) FROM {windows})"
    keys = f"{_keys(view)}, " if overlapping else ""
    return f"SELECT DISTINCT {keys}{hash_} AS {HASH} FROM {windows}"


def _changes_sql(view: View, tables: Tables) -> str:
    """A SELECT of the rows with a key hash in `_dirty`: the new answers, and where they are now.

    `_row` is the place of the row to be replaced; NULL if there is none. The key hash is NULL
    if nothing replaces that row.
    """
    dirty = f"{HASH} IN (SELECT {HASH} FROM _dirty)"
    # DuckDB's `rowid` is the place of a row, which does not change within a transaction.
    before = f"SELECT rowid AS _row, {_answer_keys(view)} FROM {answers_table(view)} WHERE {dirty}"
    if _overlapping(view):
        # Answers whose key hash is dirty by chance are replaced as well, and need all their panes.
        # They are all in `before`: those that do not exist yet have been dirty themselves.
        panes = (
            f"(SELECT {_keys(view)} FROM _dirty UNION SELECT {_answer_keys(view)} FROM ({before}))"
        )
        for name, window in _overlapping(view).items():
            starts = window.panes_sql(quoted_duckdb(name))
            panes = f"(SELECT * REPLACE (unnest({starts}) AS {quoted_duckdb(name)}) FROM {panes})"
        of_panes = f"{HASH} IN (SELECT {hash_sql(view)} FROM {panes})"
        after = f"SELECT * FROM ({_answers_sql(view, tables, of_panes)}) WHERE {dirty}"
    else:
        after = _answers_sql(view, tables, dirty)
    same_key = " AND ".join(
        f"a.{name} IS NOT DISTINCT FROM b.{name}"
        for key in view.keys
        if (name := answers_column(key.name))
    )
    return f"SELECT a.*, b._row FROM ({after}) a FULL JOIN ({before}) b ON {same_key}"


def _windows(view: View) -> dict[str, Window]:
    return {key.name: key.window for key in view.keys if key.window}


def _overlapping(view: View) -> dict[str, Window]:
    """The windows that a pane shares with others, by key."""
    return {name: w for name, w in _windows(view).items() if w.overlap and w.overlap > 1}


def _is_plain(view: View) -> bool:
    """Whether each row of partials is a part of one answer, which has no other parts."""
    return view.stored == (view,) and all(w.overlap == 1 for w in _windows(view).values())


def _is_nested(view: View) -> bool:
    return any(measure.type.startswith(("array", "map", "struct")) for measure in view.measures)


def _may_be_large(view: View) -> bool:
    """Whether an answer has values of any size: arrays, or text."""
    return _is_nested(view) or any(m.type in ("string", "binary") for m in view.measures)


def _keys(view: View) -> str:
    return ", ".join(quoted_duckdb(key.name) for key in view.keys)


def _answer_keys(view: View) -> str:
    return ", ".join(answers_column(key.name) for key in view.keys)
