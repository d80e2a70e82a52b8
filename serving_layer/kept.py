"""The answers of merged views, kept in native tables.

A question about a merged view scans such a table, instead of merging the partials of all keys anew.
When partials change, only the answers that depend on them are folded again.

A column NAME of an answer is stored as NAME__, which no user may declare, because a name that users
give can be one of DuckDB's own: `rowid` would hide the place of a row.

Each row of an answer, and of the partials on which it depends, has a fold: a hash of the columns by
which rows are folded together. What has a fold is always replaced completely, so that two keys with
the same fold cost a little time and nothing else. A fold can be compared with `=` where keys can be
NULL or NaN, and DuckDB finds the rows of a few folds about three times as fast as those of a few
texts.
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

FOLD = "_fold"
"""The column of a row's fold, in the tables of answers and of partials."""

FOLD_TYPE = "UINTEGER"

MOST_WINDOWS = 24
"""Answers are kept if a pane belongs to at most this many windows, over all window keys together.

There can be as many rows of an answer for each row of partials.
"""

MOST_TOUCHED = 0.25
"""If more than this fraction of a view's answers is touched, all of them are folded."""

MOST_MOVED = 0.0625
"""A table is written anew once the ratio of deleted and inserted rows to all exceeds this.

Inserted rows are at the end of the table and not in the order of the keys, so that a question for a
few keys can't skip them, and each deleted row costs time in a scan. It is also written anew once as
many rows as it has were changed in their places, because DuckDB keeps long texts that a change has
replaced.
"""

FEW_ROWS = 10_000
"""The two ratios above do not matter for fewer rows, unless they are large."""

FEW_BYTES = 16 << 20
"""Rows that were changed are large if they have more bytes than this together, as text."""

Tables = Callable[[View], Sequence[str]]


def kept_table(view: View) -> str:
    """The table of a view's answers."""
    return f"_kept.{quoted_duckdb(view.name)}"


def kept_column(name: str) -> str:
    """The column of that table, quoted, for a column of the answer."""
    return quoted_duckdb(f"{name}__")


def kept_select(view: View, *more: str) -> str:
    """A SELECT of the answer from that table, and of more of its columns."""
    columns = [f"{kept_column(name)} AS {quoted_duckdb(name)}" for name in view.output]
    return f"SELECT {', '.join([*columns, *more])} FROM {kept_table(view)}"


def can_keep(view: View) -> bool:
    """Whether the answers of a view can be kept."""
    windows = math.prod(window.overlap or 1 for window in _windows(view).values())
    return not view.as_of_query and windows <= MOST_WINDOWS


def fold_sql(view: View) -> str:
    """DuckDB SQL of the fold of a row of a view's partials or answers."""
    columns = [
        f"CAST({quoted_duckdb(key.name)} AS {sql_type(key.type, 'duckdb')})"
        for key in view.keys
        if not key.window or key.window.overlap is not None
    ]
    folded = f"hash({', '.join(columns)}) & 4294967295" if columns else "0"
    return f"CAST({folded} AS {FOLD_TYPE})"


@dataclass
class Heard:
    """Which answers of a view were folded again since somebody has looked.

    Attributes:
        name: A name that no other of its kind has, quoted.
        all: Whether all of them were; whoever looks sets it to false. Until then none is recorded.
    """

    name: str
    all: bool = True

    @property
    def table(self) -> str:
        """The table with their folds. Whoever looks deletes its rows."""
        return f"_heard.{self.name}"

    def anything(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Whether any were."""
        return self.all or bool(connection.execute(f"FROM {self.table} LIMIT 1").fetchall())


class KeptAnswers:
    """The tables of the answers of views. They are changed in the caller's transaction.

    Attributes:
        views: The views whose answers are kept.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, views: Sequence[View], tables: Tables
    ) -> None:
        """Creates empty tables.

        Args:
            connection: The database, which contains the tables of partials.
            views: The views whose answers are kept.
            tables: The tables with the partials of a stored view. Their rows have a fold.
        """
        self.views = views
        self._connection, self._tables = connection, tables
        self._folds = {view.name: fold_sql(view) for view in views}
        self._all = {view.name: _answers_sql(view, tables) for view in views}
        self._quick = {
            view.name: (_repeated_sql(view, tables), _quick_sql(view, tables))
            for view in views
            if _is_plain(view)
        }
        self._touched = {view.name: _touched_sql(view, tables) for view in views}
        self._moved = dict.fromkeys(self._all, 0)
        self._changed = dict.fromkeys(self._all, 0)
        self._large = {view.name: 0 for view in views if _may_be_large(view)}
        self._heard: dict[str, list[Heard]] = {}
        self._listened = 0
        connection.execute("CREATE SCHEMA _kept; CREATE SCHEMA _heard")
        for view in views:
            connection.execute(f"CREATE TABLE {kept_table(view)} AS {self._all[view.name]} LIMIT 0")

    def listen(self, view: View) -> Heard:
        """Begins to record which answers of a view are folded again; at first all of them are.

        What is recorded grows until it is read, or until `unlisten`.
        """
        self._listened += 1
        heard = Heard(quoted_duckdb(f"{view.name}_{self._listened}"))
        self._connection.execute(f"CREATE TABLE {heard.table} ({FOLD} {FOLD_TYPE})")
        self._heard.setdefault(view.name, []).append(heard)
        return heard

    def unlisten(self, view: View, heard: Heard) -> None:
        """Ends what `listen` has begun."""
        self._heard[view.name].remove(heard)
        self._connection.execute(f"DROP TABLE {heard.table}")

    def is_much(self, view: View, rows: int) -> bool:
        """Whether so many touched rows are a reason to fold all answers of a view."""
        return rows > FEW_ROWS and rows > MOST_TOUCHED * self._count(kept_table(view))

    def fold_all(self, view: View) -> None:
        """Folds all answers of a view.

        In the largest batch file each key has one row, so that only the keys of other partials have
        something to merge.
        """
        for heard in self._heard.get(view.name, ()):
            heard.all = True  # even if the caller's transaction is rolled back
        if view.name in self._quick:
            repeated, answers = self._quick[view.name]
            rows = self._create("_repeated", repeated)
            # The rows of the largest file are in order already; a few others may precede them.
            few = rows <= MOST_MOVED * self._count(self._tables(view)[0])
            self._write(view, answers, in_order=few)
            self._moved[view.name] = rows if few else 0
            again = f"SELECT {FOLD} = lag({FOLD}) OVER () AS again FROM {kept_table(view)}"
            if not self._connection.execute(f"FROM ({again}) WHERE again LIMIT 1").fetchall():
                return
        self._write(view, self._all[view.name])

    def fold(self, view: View, touched: Sequence[pa.Table]) -> None:
        """Folds the answers that depend on touched partials.

        Args:
            view: The view.
            touched: The keys of the partials that were added or deleted.
        """
        names = [f"_arrived_{number}" for number in range(len(touched))]
        for name, rows in zip(names, touched, strict=True):
            self._connection.register(name, rows)
        folds = self._create("_touched", _touched_folds_sql(view, names, self._folds[view.name]))
        for name in names:
            self._connection.unregister(name)
        if self.is_much(view, folds):
            self.fold_all(view)
        else:
            for heard in self._heard.get(view.name, ()):
                if not heard.all:
                    self._connection.execute(
                        f"INSERT INTO {heard.table} SELECT DISTINCT {FOLD} FROM _touched"
                    )
            self._change(view, self._create("_changes", self._touched[view.name]))

    def _change(self, view: View, changes: int) -> None:
        """Changes the table of answers as `_changes` says.

        A row whose key stays is changed in its place: a scan of the table then stays nearly as
        fast, and the rows stay in the order of the keys. If a column is nested, DuckDB deletes and
        inserts the row nevertheless.
        """
        table, name = kept_table(view), view.name
        ((before, after),) = self._connection.execute(
            f"SELECT count(_row), count({FOLD}) FROM _changes"
        ).fetchall()
        if stays := before + after - changes:
            columns = ", ".join(
                f"{column} = _changes.{column}"
                for name in view.output
                if name not in view.key_names and (column := kept_column(name))
            )
            self._connection.execute(
                f"UPDATE {table} SET {columns} FROM _changes"
                f" WHERE {table}.rowid = _row AND _changes.{FOLD} IS NOT NULL"
            )
        if before > stays:
            gone = f"SELECT _row FROM _changes WHERE {FOLD} IS NULL"
            self._connection.execute(f"DELETE FROM {table} WHERE rowid IN ({gone})")
        if after > stays:
            self._connection.execute(
                f"INSERT INTO {table} SELECT * EXCLUDE (_row) FROM _changes WHERE _row IS NULL"
                f" ORDER BY {_kept_keys(view)}"
            )
        self._moved[name] += changes if _is_nested(view) else changes - stays
        self._changed[name] += changes
        if name in self._large:
            ((size,),) = self._connection.execute(
                "SELECT coalesce(sum(strlen(CAST(_changes AS VARCHAR))), 0) FROM _changes"
            ).fetchall()
            self._large[name] += int(size)
        if self._changed[name] > FEW_ROWS or self._large.get(name, 0) > FEW_BYTES:
            rows = self._count(kept_table(view))
            if self._changed[name] > rows or self._moved[name] > max(FEW_ROWS, MOST_MOVED * rows):
                self._write(view, f"SELECT * FROM {table}")

    def _write(self, view: View, answers: str, *, in_order: bool = False) -> None:
        """Replaces a table. The rows are sorted by key, so that most can be skipped."""
        order = "" if in_order else f" ORDER BY {_kept_keys(view)}"
        self._connection.execute(
            f"CREATE TABLE _kept._next AS SELECT * FROM ({answers}){order};"
            f" DROP TABLE {kept_table(view)};"
            f" ALTER TABLE _kept._next RENAME TO {quoted_duckdb(view.name)}"
        )
        self._moved[view.name] = self._changed[view.name] = 0
        if view.name in self._large:
            self._large[view.name] = 0

    def _create(self, name: str, select: str) -> int:
        """Creates a temporary table, and returns the number of its rows."""
        ((rows,),) = self._connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {name} AS {select}"
        ).fetchall()
        return int(rows)

    def _count(self, table: str) -> int:
        ((rows,),) = self._connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(rows)


def _answers_sql(view: View, tables: Tables, condition: str = "") -> str:
    """A SELECT of answers and their folds, from the partials that fulfil a condition."""
    where = f" WHERE {condition}" if condition else ""
    select = present_select(
        view, lambda stored: [f"(SELECT * FROM {table}{where})" for table in tables(stored)]
    )
    return _with_fold(view, select)


def _repeated_sql(view: View, tables: Tables) -> str:
    """A SELECT of the folds of all partials that are not in the largest batch file."""
    batch, speed = tables(view)
    largest = f"SELECT _file FROM {batch} GROUP BY _file ORDER BY count(*) DESC, _file LIMIT 1"
    others = f"SELECT {FOLD} FROM {batch} WHERE _file <> ({largest})"
    return f"SELECT DISTINCT {FOLD} FROM ({others} UNION ALL SELECT {FOLD} FROM {speed})"


def _quick_sql(view: View, tables: Tables) -> str:
    """A SELECT of answers and their folds, which merges only partials with folds in `_repeated`."""
    several = [f"(FROM {table} SEMI JOIN _repeated USING ({FOLD}))" for table in tables(view)]
    single = [f"(FROM {table} ANTI JOIN _repeated USING ({FOLD}))" for table in tables(view)[:1]]
    answers = present_select(view, several, single=single)
    return _with_fold(view, answers)


def _with_fold(view: View, answers: str) -> str:
    """A SELECT of the columns of the table of answers."""
    columns = [f"{quoted_duckdb(name)} AS {kept_column(name)}" for name in view.output]
    return f"SELECT {', '.join(columns)}, {fold_sql(view)} AS {FOLD} FROM ({answers})"


def _touched_folds_sql(view: View, arrived: Sequence[str], fold: str) -> str:
    """A SELECT of the folds of the answers that depend on some partials.

    If windows overlap, it also has the keys of the answers.
    """
    windows = f"({' UNION ALL '.join(f'SELECT {_keys(view)} FROM {rows}' for rows in arrived)})"
    overlapping = _overlapping(view)
    for name, window in overlapping.items():
        starts = window.windows_sql(quoted_duckdb(name))
        windows = f"(SELECT * REPLACE (unnest({starts}) AS {quoted_duckdb(name)}) FROM {windows})"
    keys = f"{_keys(view)}, " if overlapping else ""
    return f"SELECT DISTINCT {keys}{fold} AS {FOLD} FROM {windows}"


def _touched_sql(view: View, tables: Tables) -> str:
    """A SELECT of the rows with a fold in `_touched`: the new answers, and where they are now.

    `_row` is the place of the row to be replaced; NULL if there is none. The fold is NULL if
    nothing replaces that row.
    """
    touched = f"{FOLD} IN (SELECT {FOLD} FROM _touched)"
    before = f"SELECT rowid AS _row, {_kept_keys(view)} FROM {kept_table(view)} WHERE {touched}"
    if _overlapping(view):
        # Answers whose fold is touched by chance are replaced as well, and need all their panes.
        # They are all in `before`: those that do not exist yet have been touched themselves.
        panes = (
            f"(SELECT {_keys(view)} FROM _touched UNION SELECT {_kept_keys(view)} FROM ({before}))"
        )
        for name, window in _overlapping(view).items():
            starts = window.panes_sql(quoted_duckdb(name))
            panes = f"(SELECT * REPLACE (unnest({starts}) AS {quoted_duckdb(name)}) FROM {panes})"
        of_panes = f"{FOLD} IN (SELECT {fold_sql(view)} FROM {panes})"
        after = f"SELECT * FROM ({_answers_sql(view, tables, of_panes)}) WHERE {touched}"
    else:
        after = _answers_sql(view, tables, touched)
    same_key = " AND ".join(
        f"a.{name} IS NOT DISTINCT FROM b.{name}"
        for key in view.keys
        if (name := kept_column(key.name))
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


def _kept_keys(view: View) -> str:
    return ", ".join(kept_column(key.name) for key in view.keys)
