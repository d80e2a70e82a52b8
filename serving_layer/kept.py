"""The answers of merged views, kept in native tables.

A question about a merged view scans such a table, instead of merging the partials of all keys anew.
When partials change, only the answers that depend on them are folded again.

Each row of an answer, and of the partials on which it depends, has a fold: a hash of the columns by
which rows are folded together. What has a fold is always replaced completely, so that two keys with
the same fold cost a little time and nothing else. A fold can be compared with `=` where keys can be
NULL or NaN, and DuckDB finds the rows of a few folds about three times as fast as those of a few
texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
"""Answers are kept if a pane belongs to at most this many windows.

There can be as many rows of an answer for each row of partials.
"""

MOST_TOUCHED = 0.25
"""If more than this fraction of a view's answers is touched, all of them are folded."""

MOST_DELETED = 0.0625
"""A table is written anew once the ratio of deleted rows to all others exceeds this.

Rows that were folded again are at the end of the table. They are not in the order of the keys, so
that a question for a few keys can't skip them.
"""

FEW_ROWS = 10_000
"""The two ratios above do not matter for fewer touched or deleted rows."""

Tables = Callable[[View], Sequence[str]]


def kept_table(view: View) -> str:
    """The table of a view's answers."""
    return f"_kept.{quoted_duckdb(view.name)}"


def can_keep(view: View) -> bool:
    """Whether the answers of a view can be kept."""
    return not view.as_of_query and all(
        (window.overlap or 1) <= MOST_WINDOWS for window in _windows(view).values()
    )


def fold_sql(view: View) -> str:
    """DuckDB SQL of the fold of a row of a view's partials or answers."""
    columns = [
        f"CAST({quoted_duckdb(key.name)} AS {sql_type(key.type, 'duckdb')})"
        for key in view.keys
        if not key.window or key.window.overlap is not None
    ]
    folded = f"hash({', '.join(columns)}) & 4294967295" if columns else "0"
    return f"CAST({folded} AS {FOLD_TYPE})"


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
        self._deleted = dict.fromkeys((view.name for view in self.views), 0)
        connection.execute("CREATE SCHEMA _kept")
        for view in self.views:
            connection.execute(f"CREATE TABLE {kept_table(view)} AS {self._answers(view)} LIMIT 0")

    def is_much(self, view: View, rows: int) -> bool:
        """Whether so many touched rows are a reason to fold all answers of a view."""
        return rows > max(FEW_ROWS, MOST_TOUCHED * self._count(kept_table(view)))

    def fold_all(self, view: View) -> None:
        """Folds all answers of a view."""
        self._write(view, self._answers(view))

    def fold(self, view: View, touched: Sequence[pa.Table]) -> None:
        """Folds the answers that depend on touched partials.

        Args:
            view: The view.
            touched: The keys of the partials that were added or deleted.
        """
        if not any(map(len, touched)):
            return
        self._touch(view, touched)
        count = self._count("_touched")
        if self.is_much(view, count):
            self.fold_all(view)
            return
        table, is_touched = kept_table(view), _is_in("_touched")
        if _overlapping(view):
            self._find_panes(view)
            answers = self._answers(view, _is_in("_panes"))
            answers = f"SELECT * FROM ({answers}) WHERE {is_touched}"
        else:
            answers = self._answers(view, is_touched)
        deleted = self._deleted[view.name] + count
        if deleted > max(FEW_ROWS, MOST_DELETED * self._count(table)):
            same = f"SELECT * FROM {table} WHERE NOT ({is_touched})"
            self._write(view, f"{same} UNION ALL ({answers})")
            return
        self._connection.execute(f"DELETE FROM {table} WHERE {is_touched}")
        self._connection.execute(f"INSERT INTO {table} {_ordered(view, answers)}")
        self._deleted[view.name] = deleted

    def _touch(self, view: View, touched: Sequence[pa.Table]) -> None:
        """Creates `_touched` with the folds of the answers that depend on partials.

        If windows overlap, `_touched_windows` has their keys.
        """
        keys = ", ".join(quoted_duckdb(key.name) for key in view.keys)
        sources = []
        for number, rows in enumerate(touched):
            self._connection.register(f"_arrived_{number}", rows)
            sources.append(f"SELECT {keys} FROM _arrived_{number}")
        windows = f"({' UNION ALL '.join(sources)})"
        if overlapping := _overlapping(view):
            for name, window in overlapping.items():
                starts = window.windows_sql(quoted_duckdb(name))
                windows = (
                    f"(SELECT * REPLACE (unnest({starts}) AS {quoted_duckdb(name)}) FROM {windows})"
                )
            self._create_temporary("_touched_windows", f"SELECT DISTINCT * FROM {windows}")
            windows = "_touched_windows"
        self._create_temporary(
            "_touched", f"SELECT DISTINCT {fold_sql(view)} AS {FOLD} FROM {windows}"
        )
        for number in range(len(touched)):
            self._connection.unregister(f"_arrived_{number}")

    def _find_panes(self, view: View) -> None:
        """Creates `_panes` with the folds of the partials on which touched windows depend.

        Windows whose fold is touched by chance are replaced as well. They are all among the kept
        answers, because others would have been touched themselves.
        """
        keys = ", ".join(quoted_duckdb(key.name) for key in view.keys)
        by_chance = f"SELECT {keys} FROM {kept_table(view)} WHERE {_is_in('_touched')}"
        panes = f"({by_chance} UNION SELECT {keys} FROM _touched_windows)"
        for name, window in _overlapping(view).items():
            starts = window.panes_sql(quoted_duckdb(name))
            panes = f"(SELECT * REPLACE (unnest({starts}) AS {quoted_duckdb(name)}) FROM {panes})"
        self._create_temporary("_panes", f"SELECT DISTINCT {fold_sql(view)} AS {FOLD} FROM {panes}")

    def _answers(self, view: View, condition: str = "") -> str:
        """A SELECT of the answers, with their folds, from the partials that fulfil a condition."""
        where = f" WHERE {condition}" if condition else ""
        select = present_select(
            view,
            lambda stored: [f"(SELECT * FROM {table}{where})" for table in self._tables(stored)],
        )
        return f"SELECT *, {fold_sql(view)} AS {FOLD} FROM ({select})"

    def _write(self, view: View, answers: str) -> None:
        """Replaces a table. The rows are sorted by key, so that most can be skipped."""
        self._connection.execute(
            f"CREATE TABLE _kept._next AS {_ordered(view, answers)}; DROP TABLE {kept_table(view)};"
            f" ALTER TABLE _kept._next RENAME TO {quoted_duckdb(view.name)}"
        )
        self._deleted[view.name] = 0

    def _create_temporary(self, name: str, select: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}")

    def _count(self, table: str) -> int:
        ((count,),) = self._connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(count)


def _windows(view: View) -> dict[str, Window]:
    return {key.name: key.window for key in view.keys if key.window}


def _overlapping(view: View) -> dict[str, Window]:
    """The windows that a pane shares with others, by key."""
    return {name: w for name, w in _windows(view).items() if w.overlap and w.overlap > 1}


def _is_in(folds: str) -> str:
    return f"{FOLD} IN (SELECT {FOLD} FROM {folds})"


def _ordered(view: View, answers: str) -> str:
    keys = ", ".join(quoted_duckdb(key.name) for key in view.keys)
    return f"SELECT * FROM ({answers}) ORDER BY {keys}"
