"""A view: a keyed aggregation of a source, defined once.

Both layers and the merge derive what they do from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import TypeVar

from trilayer_core.definitions.aggregates.base import Aggregate, Cell, State
from trilayer_core.definitions.aggregates.sums import Count
from trilayer_core.definitions.expressions import (
    A_SCALAR,
    Expression,
    check_different,
    check_name,
    is_orderable,
    parse_expression,
)
from trilayer_core.definitions.guards import Guard, guarded, guards_of
from trilayer_core.definitions.identity import digest
from trilayer_core.definitions.stream import Rows, Source, Stream
from trilayer_core.definitions.syntax import column_sql
from trilayer_core.definitions.windows import Window
from trilayer_core.errors import DefinitionError, short_traceback

_Sql = TypeVar("_Sql", str, str | Window)


@dataclass(frozen=True)
class Key:
    """One key column, checked.

    Attributes:
        name: The column's name in the view.
        expression: The value; for a window, its time.
        window: The window, if the key is one. Partials then contain the start of its pane.
    """

    name: str
    expression: Expression
    window: Window | None = None

    @property
    def type(self) -> str:
        """Its Spark type."""
        return "timestamp" if self.window else self.expression.type

    @property
    def sql(self) -> str:
        """The Spark SQL of the column in a partial."""
        return self.window.pane_sql(self.time_sql) if self.window else self.expression.sql

    @property
    def time_sql(self) -> str:
        """The Spark SQL of a window's time, as a timestamp."""
        return f"cast({self.expression.sql} as timestamp)"

    @property
    def shown(self) -> bool:
        """Whether answers have a column for it."""
        return not (self.window and self.window.as_of_query)

    @property
    def states(self) -> dict[str, State]:
        """The window's own states, by column of a partial."""
        states = self.window.states if self.window else {}
        return {f"{self.name}__{name}": state for name, state in states.items()}


def check_key(key: object, subject: str) -> None:
    """Raises DefinitionError unless a key is a list or a mapping that is not empty."""
    if isinstance(key, str) or not key:
        raise DefinitionError(
            f"key of {subject} must be a list of columns or a mapping of names to expressions, at"
            f' least one; got {key!r}; for one total over all events write key={{"all": "\'all\'"}}'
        )


def key_expressions(key: Mapping[str, _Sql] | Sequence[str]) -> Iterable[tuple[str, _Sql | str]]:
    """The name and the expression of each key column."""
    return key.items() if isinstance(key, Mapping) else ((name, column_sql(name)) for name in key)


@dataclass(frozen=True)
class Measure:
    """One aggregate of a view, checked against its source.

    Attributes:
        name: The column's name in the view.
        aggregate: The aggregate as it was declared.
        inputs: The expression of each role.
        where: The aggregate's own filter.
        states: The states by column of a partial, `NAME__STATE`.
        type: The Spark type of the answer.
        present_sql: DuckDB SQL of the answer, over the names of the states without `NAME__`.
        magnitude_sql: DuckDB SQL, over the same names, of the quantity that the rounding error of a
            floating-point answer is relative to. Empty if the answer is exact.
        cell: What divides the events of a key further. The states are then those of a cell, and
            `present_sql` aggregates over cells.
        bound: How far the answer may be from the exact one, in words; empty if it is exact.
    """

    name: str
    aggregate: Aggregate
    inputs: Mapping[str, Expression]
    where: Expression | None
    states: Mapping[str, State]
    type: str
    present_sql: str
    magnitude_sql: str = ""
    cell: Cell | None = None
    bound: str = ""

    @property
    def tolerance(self) -> float:
        """The fraction of the magnitude by which two answers may differ."""
        rounded = (s for s in self.states.values() if s.relative_to or s.close)
        return max((state.tolerance for state in rounded), default=0.0)


@dataclass(frozen=True)
class StateGroup:
    """States of a view that are computed from the same events.

    Attributes:
        inputs: Spark SQL by role.
        where: Spark SQL that selects the events; None if all count.
        states: The states by column of a partial.
    """

    inputs: Mapping[str, str]
    where: str | None
    states: Mapping[str, State]


@short_traceback
@dataclass(frozen=True)
class View:
    """Aggregates of a source's events by key. NULL is a key like any other, as in SQL's GROUP BY.

    The layers compute and store what `stored` returns, and answers are presented from that.

    Attributes:
        name: Its name in queries.
        source: A stream, or rows made from one.
        key: Column name to Spark SQL expression or window; or a list of plain columns.
        aggregates: Column name to aggregate.
        where: Spark SQL filter on the events.
    """

    name: str
    _: KW_ONLY
    source: Source
    key: Mapping[str, str | Window] | Sequence[str]
    aggregates: Mapping[str, Aggregate]
    where: str | None = None

    def __post_init__(self) -> None:
        self._check_names()
        if not isinstance(self.source, Stream | Rows):
            raise DefinitionError(
                f"source of view {self.name!r} must be a Stream or Rows; got"
                f" {type(self.source).__name__}"
            )
        check_key(self.key, f"view {self.name!r}")
        if not self.aggregates:
            raise DefinitionError(
                f"aggregates of view {self.name!r} must be at least one; got none"
            )
        # Parsed now, so that an error is raised where the view is declared.
        _ = self.filter
        check_different(f"columns of view {self.name!r}", self.output)
        self._check_windows()
        if self.celled:
            # The expressions of cells are parsed for the same reason.
            _ = [view.fingerprint for view in self.stored]

    def _check_names(self) -> None:
        check_name(self.name, "name of a view")
        for name in self.aggregates:
            check_name(name, f"aggregate {name!r} of view {self.name!r}")

    def _check_windows(self) -> None:
        windows = {key.name: key.window for key in self.keys if key.window}
        for name, window in windows.items():
            subject = f"window {name!r} of view {self.name!r}"
            others = [other for other in windows if other != name]
            if window.alone and others:
                raise DefinitionError(
                    f"{subject} must be the view's only window, because it is assembled from all"
                    f" panes of the other keys; got also {', '.join(others)}; declare a view for"
                    " each"
                )
            if window.alone and self.celled:
                raise DefinitionError(
                    f"{subject} must be without aggregates that are stored by cell, because a cell"
                    " does not have all events of a window; got"
                    f" {', '.join(f'{m.aggregate.kind}() in {m.name!r}' for m in self.celled)};"
                    " use a tumbling or sliding window for these"
                )
        if all(key.window and key.window.as_of_query for key in self.keys):
            raise DefinitionError(
                f"key of view {self.name!r} must have a column beside {', '.join(windows)}, which"
                f' an answer does not show; got none; for one total write "all": "\'all\'"'
            )

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The key columns, checked."""
        return tuple(self._key(name, key) for name, key in key_expressions(self.key))

    def _key(self, name: str, key: str | Window) -> Key:
        subject = f"key {name!r} of view {self.name!r}"
        check_name(name, subject)
        window = key if isinstance(key, Window) else None
        if window:
            _check_complete(window, Window, ("identity", "pane_sql", "end_sql"), subject)
        time = window.time if window else key
        expression = self._expression(time, subject, [self._declared_filter])  # type: ignore[arg-type]  # parse_expression rejects anything but text
        if window and expression.type not in ("timestamp", "timestamp_ntz", "date"):
            raise DefinitionError(
                f"{subject} must be a window over a timestamp or a date; got {window.time!r}, which"
                f" is {expression.type}"
            )
        if not is_orderable(expression.type):
            raise DefinitionError(f"{subject} must be {A_SCALAR}; got {expression.type}")
        return Key(name, expression, window)

    @cached_property
    def filter(self) -> Expression | None:
        """The filter on the events, checked; None if there is none."""
        return self._declared_filter

    @cached_property
    def _declared_filter(self) -> Expression | None:
        # Apart from `filter`, which for a view by cell depends on its measure: to check the
        # expressions of that measure needs the declared filter.
        if self.where is None:
            return None
        return self._expression(self.where, f"where of view {self.name!r}", [], expect="boolean")

    def _expression(
        self, sql: str, subject: str, under: Sequence[Expression | None], expect: str | None = None
    ) -> Expression:
        parsed = isinstance(self.source, Stream)
        expression = parse_expression(sql, self.source.columns, subject, expect, parsed=parsed)
        return guarded(expression, subject, self.source, under)

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """The expressions that may fail on an event of the stream."""
        of_measures = [e for m in self.measures for e in (m.where, *m.inputs.values())]
        expressions = [self.filter, *(key.expression for key in self.keys), *of_measures]
        return tuple(guards_of(expressions))

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The aggregates, checked."""
        return tuple(self._measure(name, aggregate) for name, aggregate in self.aggregates.items())

    def _measure(self, name: str, aggregate: Aggregate) -> Measure:
        subject = f"aggregate {name!r} of view {self.name!r}"
        if not isinstance(aggregate, Aggregate):
            raise DefinitionError(
                f"{subject} must be an aggregate such as count(); got {aggregate!r}"
            )
        _check_complete(aggregate, Aggregate, ("states", "present"), subject)
        where = aggregate.where
        filter_ = (
            None
            if where is None
            else self._expression(
                where, f"where of {subject}", [self._declared_filter], expect="boolean"
            )
        )
        inputs = {
            role: self._expression(sql, f"{role} of {subject}", [self._declared_filter, filter_])
            for role, sql in aggregate.roles.items()
        }
        types = {role: expression.type for role, expression in inputs.items()}
        aggregate.check(types, f"{aggregate.kind}() in {subject}")
        states = aggregate.states(types, positioned=isinstance(self.source, Stream))
        presented = aggregate.present(types)
        if not isinstance(presented, tuple) or len(presented) != 2:
            raise DefinitionError(
                f"{subject} must have a method present that returns a tuple of SQL and its type;"
                f" got {presented!r} of {type(aggregate).__name__}; return both"
            )
        present_sql, type_ = presented
        magnitude_sql = aggregate.magnitude(types)
        prefixed = {f"{name}__{state}": definition for state, definition in states.items()}
        return Measure(
            name,
            aggregate,
            inputs,
            filter_,
            prefixed,
            type_,
            present_sql,
            magnitude_sql,
            aggregate.cell(types),
            aggregate.bound(types),
        )

    @property
    def celled(self) -> tuple[Measure, ...]:
        """The aggregates whose states are stored by cell."""
        return tuple(measure for measure in self.measures if measure.cell)

    @cached_property
    def stored(self) -> tuple[View, ...]:
        """The views that the layers compute and store for this one.

        These are the view without the aggregates that have cells, under its name; and for each of
        those a view VIEW__AGGREGATE, whose keys are followed by the cell, `_cell`. A view without
        such aggregates is stored as it is.
        """
        if not self.celled:
            return (self,)
        names = {measure.name for measure in self.celled}
        plain = {name: a for name, a in self.aggregates.items() if name not in names}
        same = {f.name: getattr(self, f.name) for f in fields(View) if f.name != "_"}
        whole = _Stored(**same | {"aggregates": plain or {EVENTS: Count()}})
        by_cell = [
            _ByCell(
                **same | {"name": f"{self.name}__{m.name}", "aggregates": {m.name: m.aggregate}}
            )
            for m in self.celled
        ]
        return (whole, *by_cell)

    @property
    def declared_name(self) -> str:
        """The name of the declared view of which this is, or is a part of, what is stored."""
        return declared_name(self.name)

    @property
    def approximate(self) -> dict[str, str]:
        """The columns whose answers are not exact, with how far they may be off, in words."""
        return {measure.name: measure.bound for measure in self.measures if measure.bound}

    @cached_property
    def state_groups(self) -> tuple[StateGroup, ...]:
        """The states of a partial: first those of the windows, then those of the aggregates."""
        own = self.filter.sql if self.filter else None
        of_windows = [
            StateGroup({"value": key.time_sql}, own, key.states) for key in self.keys if key.states
        ]
        of_measures = [
            StateGroup(
                {role: expression.sql for role, expression in measure.inputs.items()},
                _all([f.sql for f in (self.filter, measure.where) if f]),
                measure.states,
            )
            for measure in self.measures
        ]
        return (*of_windows, *of_measures)

    @property
    def states(self) -> dict[str, State]:
        """The states by column of a partial: those of the windows, then those of the aggregates."""
        return {name: state for group in self.state_groups for name, state in group.states.items()}

    @property
    def partial_columns(self) -> dict[str, str]:
        """The Spark types of a partial's columns: the keys, then the states."""
        return {k.name: k.type for k in self.keys} | {
            name: state.type for name, state in self.states.items()
        }

    @property
    def output(self) -> list[str]:
        """The columns of an answer: keys, windows followed by their `NAME_end`, and aggregates."""
        keys = [
            name
            for k in self.keys
            if k.shown
            for name in ((k.name, f"{k.name}_end") if k.window else (k.name,))
        ]
        return [*keys, *(measure.name for measure in self.measures)]

    @property
    def key_names(self) -> list[str]:
        """The columns that identify a row of an answer."""
        return [key.name for key in self.keys if key.shown]

    @property
    def as_of_query(self) -> bool:
        """Whether an answer depends on the moment of the query, so that it can't be stored."""
        return not all(key.shown for key in self.keys)

    @property
    def stream(self) -> Stream:
        """The stream at the root of the source."""
        return self.source.stream

    @cached_property
    def fingerprint(self) -> str:
        """Changes if the view's meaning may have changed.

        Partials with different fingerprints must never be merged.
        """
        keys = [
            (k.name, k.sql, k.type, k.window and tuple(k.window.identity), *_meaning(k.states))
            for k in self.keys
        ]
        measures = [
            (
                m.name,
                m.aggregate.kind,
                {r: (e.sql, e.type) for r, e in m.inputs.items()},
                m.where and m.where.sql,
                *_meaning(m.states),
            )
            for m in self.measures
        ]
        return digest(
            "view",
            self.name,
            self.source.fingerprint,
            keys,
            measures,
            self.filter and self.filter.sql,
        )


EVENTS = "_events"
"""The aggregate of a stored view whose declared aggregates all have cells: it has the keys."""

CELL = "_cell"
"""The last key of a stored view by cell."""


def declared_name(stored: str) -> str:
    """The name of the declared view to which a stored view belongs."""
    return stored.partition("__")[0]


class _Stored(View):
    """A stored view that is a part of a declared one, where its names were checked."""

    def _check_names(self) -> None:
        """Names with underscores are reserved for these."""

    @property
    def celled(self) -> tuple[Measure, ...]:
        """None: the states are those of this view's own keys."""
        return ()


class _ByCell(_Stored):
    """One aggregate of a view, by key and cell."""

    @cached_property
    def _declared(self) -> Measure:
        ((name, aggregate),) = self.aggregates.items()
        return self._measure(name, aggregate)

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the view, and the cell."""
        value, cell = self._declared.inputs["value"], self._declared.cell
        assert cell
        sql = re.sub(r"\bvalue\b", lambda _: f"({value.sql})", cell.sql)
        return (*super().keys, Key(CELL, Expression(sql, cell.type, value.columns)))

    @cached_property
    def filter(self) -> Expression | None:
        """The filters of the view and of the aggregate; events without a value have no cell."""
        declared = self._declared
        value = declared.inputs["value"]
        filters = [super().filter, declared.where]
        sql = _all([f"({value.sql}) IS NOT NULL", *(f.sql for f in filters if f)])
        assert sql
        columns = value.columns.union(*(f.columns for f in filters if f))
        return Expression(sql, "boolean", columns)

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The aggregate. Its filter is that of the view."""
        return (replace(self._declared, where=None),)


def _check_complete(declared: object, base: type, required: Sequence[str], subject: str) -> None:
    """Raises DefinitionError unless the class of an object overrides these names of its base."""
    kind = type(declared)
    missing = [name for name in required if getattr(kind, name) is getattr(base, name)]
    if missing:
        raise DefinitionError(
            f"{subject} must be of a class that defines {', '.join(required)}; got {kind.__name__}"
            f" without {', '.join(missing)}; define what is missing, as in docs/extending.md"
        )


def _meaning(states: Mapping[str, State]) -> list[dict[str, tuple[str, str, str]]]:
    """The meaning of states, for a fingerprint; empty if there are none."""
    return [{c: (s.type, s.partial, s.merge) for c, s in states.items()}] if states else []


def _all(filters: Sequence[str]) -> str | None:
    """The conjunction of filters; None without any."""
    if len(filters) > 1:
        return " and ".join(f"({sql})" for sql in filters)
    return filters[0] if filters else None
