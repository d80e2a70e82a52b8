"""Merges and presents partials in DuckDB, and compares two tables key by key.

These functions generate SQL from definitions; they hold no data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from trilayer_core.compute.grouping import identifier, merge_sql, sql_type
from trilayer_core.definitions.view import CELL, Key, Measure, View


def open_duckdb(
    memory_mb: int = 1024, threads: int | None = None, *, alone: bool = False
) -> duckdb.DuckDBPyConnection:
    """A private in-memory DuckDB, in UTC, that can't read Python variables.

    Args:
        memory_mb: Its memory limit.
        threads: The number of threads; None for as many as there are processors.
        alone: Whether it uses the caller's thread alone and starts none, and writes no files for
            what does not fit in memory, which its forks would share.
    """
    # With replacements, a name in SQL that is no table could be a variable of the Python code
    # around it.
    config: dict[str, Any] = {"memory_limit": f"{memory_mb}MB", "python_enable_replacements": False}
    if threads:
        config["threads"] = threads
    if alone:
        config |= {"threads": 1, "async_threads": 0, "temp_directory": ""}
    connection = duckdb.connect(":memory:", config=config)
    # GLOBAL, because each cursor is a session of its own, with settings of its own.
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def create_table_sql(table: str, view: View, extra: Sequence[str] = ()) -> str:
    """A CREATE TABLE for partials of `view`, after the columns of `extra`, which are SQL."""
    columns = [
        *extra,
        *(f"{quoted_duckdb(c)} {sql_type(t, 'duckdb')}" for c, t in view.partial_columns.items()),
    ]
    return f"CREATE TABLE {table} ({', '.join(columns)})"


@cache
def quoted_duckdb(column: str) -> str:
    """A column's name, quoted for DuckDB."""
    return identifier(column).sql(dialect="duckdb")


def insert_rows(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    rows: pa.Table,
    order: Iterable[str] = (),
    computed: Sequence[str] = (),
) -> None:
    """Appends the rows of an Arrow table, by column name.

    Args:
        connection: The database.
        table: The table.
        rows: The rows.
        order: Columns by which the rows are sorted.
        computed: DuckDB SQL of further columns, each with its alias.
    """
    connection.register("arriving", rows)
    ordered = f" ORDER BY {', '.join(map(quoted_duckdb, order))}" if order else ""
    columns = ", ".join(["*", *computed])
    connection.execute(f"INSERT INTO {table} BY NAME SELECT {columns} FROM arriving{ordered}")
    # DuckDB refers to the rows as long as they are registered, which keeps them in memory.
    connection.unregister("arriving")


def merge_select(view: View, tables: Sequence[str], keep: Sequence[str] = ()) -> str:
    """A SELECT that merges the partials of all `tables` by key, and by the columns of `keep`."""
    return _merged_select(view, _union(view, tables, keep), keep)


def _merged_select(view: View, sources: str, keep: Sequence[str]) -> str:
    keys = [*keep, *(quoted_duckdb(key.name) for key in view.keys)]
    states = [
        f"{merge_sql(column, state, 'duckdb')} AS {quoted_duckdb(column)}"
        for column, state in view.states.items()
    ]
    return f"SELECT {', '.join([*keys, *states])} FROM {sources} GROUP BY {', '.join(keys)}"


Tables = Callable[[View], Sequence[str]]
"""The tables, or SELECTs in brackets, with the partials of a stored view."""


def present_select(
    view: View,
    tables: Tables | Sequence[str],
    keep: Sequence[str] = (),
    *,
    magnitudes: bool = False,
    now: str = "now()",
    single: Sequence[str] = (),
) -> str:
    """A SELECT of the view's answer, its `output` columns, from partials.

    It merges the partials of all `tables`, assembles windows from panes, and computes the final
    values of the aggregates.

    Args:
        view: The view.
        tables: The tables of each of its stored views; those of the view itself are enough if it is
            stored as it is.
        keep: Columns of the tables that precede the others in the answer and are grouped by as
            well.
        magnitudes: Whether to add a column NAME__magnitude, which `compare_answers` uses to compare
            floating-point sums.
        now: SQL of the moment as of which the view is queried, a TIMESTAMP WITH TIME ZONE. By
            default it is the beginning of the transaction in which the SELECT runs.
        single: Tables whose rows are the only ones of their keys, so that they need not be merged.
            Only for a view that is stored as it is and has no window of several panes.
    """
    if not callable(tables):
        own = tables
        tables = lambda _: own  # noqa: E731  # a function that is one expression
    whole, *by_cell = view.stored
    values = {m.name: _present_sql(m) for m in whole.measures if m.name in view.aggregates}
    if magnitudes:
        values |= {
            f"{m.name}__magnitude": _over_states(m.magnitude_sql, m)
            for m in whole.measures
            if m.magnitude_sql
        }
    keys = [*keep]
    for key in view.keys:
        if not key.shown:
            continue
        keys.append(quoted_duckdb(key.name))
        if key.window:
            end = key.window.end_sql(quoted_duckdb(key.name), _columns_of(key))
            keys.append(f"{end} AS {quoted_duckdb(key.name + '_end')}")
    assembled = {
        stored.name: _assembled_select(stored, tables(stored), keep, now) for stored in view.stored
    }
    presented = assembled[whole.name]
    for table in single:
        shown = ", ".join([*keep, *map(quoted_duckdb, view.partial_columns)])
        presented += f" UNION ALL SELECT {shown} FROM {table}"
    if by_cell:
        presented = _with_cells_select(view, values, assembled, keep)
        values = {name: quoted_duckdb(name) for name in (*view.aggregates, *values)}
    columns = [f"{sql} AS {quoted_duckdb(name)}" for name, sql in values.items()]
    return f"SELECT {', '.join([*keys, *columns])} FROM ({presented})"


def _assembled_select(view: View, tables: Sequence[str], keep: Sequence[str], now: str) -> str:
    """A SELECT of the merged partials of a stored view, with windows instead of panes."""
    panes = _union(view, tables, keep)
    return _merged_select(view, _windows_from_panes(view, panes, keep, now), keep)


def _with_cells_select(
    view: View, values: Mapping[str, str], assembled: Mapping[str, str], keep: Sequence[str]
) -> str:
    """A SELECT of the final values of all aggregates, with one row for the cells of a key.

    A row of each stored view is a row of the union, so that a condition on keys reaches every scan.

    Args:
        view: The view.
        values: SQL of the final values of the aggregates without cells, by column.
        assembled: A SELECT of the merged partials of each stored view, by name.
        keep: Columns that precede the keys.
    """
    keys = ", ".join([*keep, *(quoted_duckdb(key.name) for key in view.keys)])
    plain = [f"{sql} AS {quoted_duckdb(name)}" for name, sql in values.items()]
    rows = [f"SELECT {', '.join([keys, *plain])} FROM ({assembled[view.name]})"]
    for stored in view.stored[1:]:
        (measure,) = stored.measures
        assert measure.cell
        cells = f"({assembled[stored.name]})"
        if measure.cell.ordered:
            number = quoted_duckdb(f"{measure.name}__n")
            running = f"sum({number}) OVER (PARTITION BY {keys} ORDER BY {CELL})"
            total = f"sum({number}) OVER (PARTITION BY {keys})"
            cells = f"(SELECT *, {running} AS _running, {total} AS _total FROM {cells})"
        final = f"{_final_sql(measure)} AS {quoted_duckdb(measure.name)}"
        rows.append(f"SELECT {keys}, {final} FROM {cells} GROUP BY {keys}")
    # BY NAME makes NULL of the columns that a row does not have; any_value() passes NULL over.
    union = " UNION ALL BY NAME ".join(rows)
    one_row = [f"any_value({quoted_duckdb(name)}) AS {quoted_duckdb(name)}" for name in values]
    for measure in view.celled:
        assert measure.cell
        name = quoted_duckdb(measure.name)
        one_row.append(f"coalesce(any_value({name}), {measure.cell.empty}) AS {name}")
    return f"SELECT {', '.join([keys, *one_row])} FROM ({union}) GROUP BY {keys}"


def _final_sql(measure: Measure, prefix: str = "") -> str:
    """SQL of the final value of a measure, over a row of merged partials or the cells of a key."""
    final = _over_states(measure.present_sql, measure, prefix)
    return f"CAST({final} AS {sql_type(measure.type, 'duckdb')})"


def _present_sql(measure: Measure, prefix: str = "") -> str:
    """SQL of the final value of a measure, over a row of merged partials.

    Of a cell it is the cell's state. `prefix` precedes the names of the state columns.
    """
    if measure.cell:
        (column,) = measure.states
        return quoted_duckdb(f"{prefix}{column}")
    return _final_sql(measure, prefix)


def _over_states(sql: str, measure: Measure, prefix: str = "") -> str:
    """Rewrites SQL over the names of a measure's states to SQL over their columns."""
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    lambda_names = {
        name.name for function in tree.find_all(exp.Lambda) for name in function.expressions
    }

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            path = [part.name for part in node.parts]
            if measure.cell and path[0] in _OF_CELLS:
                return exp.column(identifier(f"_{path[0]}"))
            if path[0] in lambda_names:
                return node
            value: exp.Expr = exp.column(identifier(f"{prefix}{measure.name}__{path[0]}"))
            for field in path[1:]:
                value = exp.Dot(
                    this=exp.paren(value), expression=exp.to_identifier(field, quoted=True)
                )
            return value
        return node

    return tree.transform(replace).sql("duckdb")


_OF_CELLS = ("cell", "running", "total")
"""What `Aggregate.present` may refer to besides the names of states, if there are cells."""


def _union(view: View, tables: Sequence[str], keep: Sequence[str]) -> str:
    columns = ", ".join([*keep, *map(quoted_duckdb, view.partial_columns)])
    if len(tables) == 1:
        return tables[0]
    return "(" + " UNION ALL ".join(f"SELECT {columns} FROM {table}" for table in tables) + ")"


def _windows_from_panes(view: View, sources: str, keep: Sequence[str], now: str) -> str:
    """The partials, repeated for every window to which they belong.

    Their key is then the window's start. It is NULL for a window that the answer does not show, and
    of the partials only those in its range are left.
    """
    for key in view.keys:
        if not key.window:
            continue
        if key.window.as_of_query:
            name = quoted_duckdb(key.name)
            sources = (
                f"(SELECT * REPLACE (NULL::TIMESTAMPTZ AS {name}) FROM {sources}"
                f" WHERE {key.window.counts_sql(name, now)})"
            )
            continue
        others = [*keep, *(quoted_duckdb(other.name) for other in view.keys if other != key)]
        # A window with states of its own needs panes that are completely merged.
        panes = f"({_merged_select(view, sources, keep)})" if key.states else sources
        assembled = key.window.assemble_sql(
            panes, quoted_duckdb(key.name), _columns_of(key), others
        )
        sources = f"({assembled})" if assembled else sources
    return sources


def _columns_of(key: Key) -> dict[str, str]:
    """The quoted column of each of a window's own states."""
    return {column.removeprefix(f"{key.name}__"): quoted_duckdb(column) for column in key.states}


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two tables key by key.

    Attributes:
        match: The number of keys whose values are equal.
        differ: The number of keys whose values differ.
        missing: The number of keys that are only in the left table.
        extra: The number of keys that are only in the right table.
        keys: Some of the rows that do not match.
    """

    match: int
    differ: int
    missing: int
    extra: int
    keys: Sequence[dict[str, Any]]

    @property
    def same(self) -> bool:
        """Whether all keys match."""
        return not (self.differ or self.missing or self.extra)


def compare_answers(
    connection: duckdb.DuckDBPyConnection,
    view: View,
    left: str,
    right: str,
    *,
    magnitudes: bool = False,
) -> Comparison:
    """Compares two answers by the final values of their aggregates.

    Args:
        connection: The database.
        view: The view.
        left: The first answer, a table or a SELECT in brackets.
        right: The second answer.
        magnitudes: Whether the left answer has magnitudes. If not, floating-point sums are compared
            relative to themselves.
    """
    equal = {}
    for measure in view.measures:
        answer = quoted_duckdb(measure.name)
        magnitude = f"greatest(abs(l.{answer}), abs(r.{answer}))"
        if magnitudes:
            magnitude = f"l.{quoted_duckdb(measure.name + '__magnitude')}"
        relative = magnitude if measure.magnitude_sql else ""
        equal[measure.name] = _equal_sql(measure.name, measure.tolerance, relative)
    return _compare(connection, view.key_names, left, right, equal)


def compare_partials(
    connection: duckdb.DuckDBPyConnection,
    view: View,
    left: str,
    right: str,
    into: str = "",
    keep: Sequence[str] = (),
) -> Comparison:
    """Merges two tables of partials and compares their states.

    Comparing states includes sums that are too large for the type of the answer.

    Args:
        connection: The database.
        view: The view.
        left: The first table.
        right: The second table.
        into: The name of a table to create, with a row for each key: `_kind`, the keys, and
            `left_NAME` and `right_NAME` for each state.
        keep: Columns that identify a row in addition to the view's keys.
    """
    equal = {}
    for measure in view.measures:
        for name, state in measure.states.items():
            column = quoted_duckdb(f"{measure.name}__{state.relative_to}")
            magnitude = f"greatest(l.{column}, r.{column})" if state.relative_to else ""
            equal[name] = _equal_sql(name, state.tolerance, magnitude, state.close)
    keys = [*keep, *(key.name for key in view.keys)]
    left, right = (f"({merge_select(view, [table], keep)})" for table in (left, right))
    return _compare(connection, keys, left, right, equal, into)


def _compare(
    connection: duckdb.DuckDBPyConnection,
    keys: Sequence[str],
    left: str,
    right: str,
    equal: Mapping[str, str],
    into: str = "",
) -> Comparison:
    """Compares two tables, or queries in brackets, by their keys.

    Args:
        connection: The database.
        keys: The columns that identify a row.
        left: The first table.
        right: The second table.
        equal: The columns to compare, with SQL over the rows `l` and `r` that is true if the values
            of a column count as equal.
        into: The name of a table to create; see `compare_partials`.
    """
    compared = into or "_compared"
    names = list(map(quoted_duckdb, keys))
    kind = (
        "CASE WHEN r._side IS NULL THEN 'missing' WHEN l._side IS NULL THEN 'extra' WHEN"
        f" {' AND '.join(equal.values())} THEN 'match' ELSE 'differ' END"
    )
    columns = [
        f"{kind} AS _kind",
        *(f"coalesce(l.{name}, r.{name}) AS {name}" for name in names),
        *(
            f"{side}.{quoted_duckdb(name)} AS {quoted_duckdb(f'{label}_{name}')}"
            for name in equal
            for side, label in (("l", "left"), ("r", "right"))
        ),
    ]
    # NULL is a key, which USING would not match.
    same_key = " AND ".join(f"l.{name} IS NOT DISTINCT FROM r.{name}" for name in names)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {compared} AS SELECT {', '.join(columns)}"
        f" FROM (SELECT 1 AS _side, * FROM {left}) l"
        f" FULL JOIN (SELECT 1 AS _side, * FROM {right}) r ON {same_key}"
    )
    numbers = connection.sql(f"SELECT _kind, count(*) FROM {compared} GROUP BY 1").fetchall()
    shown = connection.sql(
        f"SELECT * FROM {compared} WHERE _kind <> 'match' ORDER BY ALL LIMIT {_MOST_SHOWN}"
    ).to_arrow_table()
    if not into:
        connection.execute(f"DROP TABLE {compared}")
    return Comparison(**_NONE | dict(numbers), keys=shown.to_pylist())


_MOST_SHOWN = 20
"""The number of rows that do not match which a comparison returns."""

_NONE = {"match": 0, "differ": 0, "missing": 0, "extra": 0}


def present_compared_select(view: View, compared: str, labels: tuple[str, str]) -> str:
    """A SELECT of the final values in a table that `compare_partials` created, ordered by key.

    Its columns are `_kind`, the keys (for a window, the start of a pane), and NAME__LABEL of each
    aggregate for the left and the right side. A value is NULL if that side does not have the key or
    if the total does not fit its type.
    """
    keys = [quoted_duckdb(key.name) for key in view.keys]
    values = [
        f"{_present_sql(measure, side)} AS {quoted_duckdb(f'{measure.name}__{label}')}"
        for measure in view.measures
        for side, label in zip(("left_", "right_"), labels, strict=True)
    ]
    return f"SELECT _kind, {', '.join([*keys, *values])} FROM {compared} ORDER BY {', '.join(keys)}"


def _equal_sql(name: str, tolerance: float, magnitude: str, close_sql: str = "") -> str:
    """SQL of whether the values of a column in the rows `l` and `r` count as equal.

    Args:
        name: The column.
        tolerance: The permitted difference of a floating-point sum, as a fraction of its magnitude.
        magnitude: SQL of the magnitude; empty if the values must be equal exactly. If it is
            infinite, the sum depends on the order of addition, and all sums count as equal.
        close_sql: For a column of several floating-point numbers, SQL that is true if the values
            `l` and `r` differ by rounding only; see `State.close`.
    """
    left, right = (f"{side}.{quoted_duckdb(name)}" for side in ("l", "r"))
    same = f"{left} IS NOT DISTINCT FROM {right}"
    if close_sql:
        of_states = re.sub(r"\b([lr])\.", lambda m: f"({m[1]}.{quoted_duckdb(name)}).", close_sql)
        return f"({same} OR coalesce({of_states}, false))"
    if not magnitude:
        return same
    within = f"{tolerance} * {magnitude}"
    close = f"abs({left} - {right}) <= {within}"
    beyond = f"isinf({within}) AND {left} IS NOT NULL AND {right} IS NOT NULL"
    return f"({same} OR coalesce({close} OR ({beyond}), false))"
