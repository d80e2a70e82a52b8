"""A view: a keyed aggregation of a source, written once.

Both layers and the merge derive what they do from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

from trilayer_core.definitions.aggregates import Aggregate, State
from trilayer_core.definitions.expressions import (
    Expression,
    check_name,
    is_orderable,
    parse_expression,
)
from trilayer_core.definitions.stream import Rows, Source, Stream, digest
from trilayer_core.definitions.windows import Window
from trilayer_core.errors import DefinitionError


@dataclass(frozen=True)
class Key:
    """One key column, checked.

    Attributes:
        name: The column's name in the view.
        expression: What it is; the time of a window.
        window: The window, if it is one. The partials then hold the start of its pane.
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
        """Spark SQL of the column in a partial."""
        return self.window.pane_sql(self.time_sql) if self.window else self.expression.sql

    @property
    def time_sql(self) -> str:
        """Spark SQL of a window's time as a timestamp."""
        return f"cast({self.expression.sql} as timestamp)"

    @property
    def states(self) -> dict[str, State]:
        """What a window keeps with each pane, by column of a partial."""
        states = self.window.states if self.window else {}
        return {f"{self.name}__{name}": state for name, state in states.items()}


@dataclass(frozen=True)
class Measure:
    """One aggregate of a view, checked against its source.

    Attributes:
        name: The column's name in the view.
        aggregate: As it was declared.
        inputs: Role to expression.
        where: The aggregate's own filter.
        states: Column of a partial, `NAME__STATE`, to state.
        type: Spark type of the answer.
        present_sql: DuckDB SQL of the answer, over the state names without `NAME__`.
        magnitude_sql: As `present_sql`: what the rounding of a floating-point answer is relative
            to. Empty for an exact answer.
        tolerance: What part of that two answers may differ by.
    """

    name: str
    aggregate: Aggregate
    inputs: Mapping[str, Expression]
    where: Expression | None
    states: Mapping[str, State]
    type: str
    present_sql: str
    magnitude_sql: str = ""

    @property
    def tolerance(self) -> float:
        """What part of its magnitude two answers may differ by."""
        return max((s.tolerance for s in self.states.values() if s.relative_to), default=0.0)


@dataclass(frozen=True)
class Kept:
    """States that a view keeps of one population of its events, and what they are computed from.

    Attributes:
        inputs: Role to Spark SQL.
        where: Spark SQL of the filters on the events; None if all count.
        states: Column of a partial to state.
    """

    inputs: Mapping[str, str]
    where: str | None
    states: Mapping[str, State]


@dataclass(frozen=True)
class View:
    """Aggregates of a source's events by key. NULL is a key of its own, as in SQL's GROUP BY.

    Attributes:
        name: By which it is asked.
        source: A stream, or rows made of one.
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
        check_name(self.name, "name of a view")
        if not isinstance(self.source, Stream | Rows):
            raise DefinitionError(
                f"source of view {self.name!r} must be a Stream or Rows; got"
                f" {type(self.source).__name__}"
            )
        if isinstance(self.key, str) or not self.key:
            raise DefinitionError(
                f"key of view {self.name!r} must be a list of columns or a mapping of names to"
                " expressions, at least one;"
                f' got {self.key!r}; for one total over all events write key={{"all": "\'all\'"}}'
            )
        if not self.aggregates:
            raise DefinitionError(
                f"aggregates of view {self.name!r} must be at least one; got none"
            )
        _ = self.filter
        names = self.output
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DefinitionError(
                f"columns of view {self.name!r} must have different names; got {', '.join(twice)}"
                " twice"
            )

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The key columns, checked."""
        pairs = (
            self.key.items()
            if isinstance(self.key, Mapping)
            else [(name, name) for name in self.key]
        )
        return tuple(self._key(name, key) for name, key in pairs)

    def _key(self, name: str, key: str | Window) -> Key:
        what = f"key {name!r} of view {self.name!r}"
        check_name(name, what)
        window = key if isinstance(key, Window) else None
        expression = self._expression(window.time if window else key, what)  # type: ignore[arg-type]  # parse_expression refuses what is no text
        if window and expression.type not in ("timestamp", "timestamp_ntz", "date"):
            raise DefinitionError(
                f"{what} must be a window over a timestamp; got {window.time!r}, which is"
                f" {expression.type}"
            )
        if not is_orderable(expression.type):
            raise DefinitionError(f"{what} must have a plain type; got {expression.type}")
        return Key(name, expression, window)

    @cached_property
    def filter(self) -> Expression | None:
        """The filter on the events, checked; None if there is none."""
        if self.where is None:
            return None
        return self._expression(self.where, f"where of view {self.name!r}", expect="boolean")

    def _expression(self, sql: str, what: str, expect: str | None = None) -> Expression:
        parsed = isinstance(self.source, Stream)
        return parse_expression(sql, self.source.columns, what, expect, parsed=parsed)

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The aggregates, checked."""
        return tuple(self._measure(name, aggregate) for name, aggregate in self.aggregates.items())

    def _measure(self, name: str, aggregate: Aggregate) -> Measure:
        what = f"aggregate {name!r} of view {self.name!r}"
        check_name(name, what)
        if not isinstance(aggregate, Aggregate):
            raise DefinitionError(f"{what} must be an aggregate such as count(); got {aggregate!r}")
        inputs = {
            role: self._expression(sql, f"{role} of {what}")
            for role, sql in aggregate.roles.items()
        }
        where = aggregate.where
        filter_ = (
            None if where is None else self._expression(where, f"where of {what}", expect="boolean")
        )
        types = {role: expression.type for role, expression in inputs.items()}
        aggregate.check(types, f"{aggregate.kind}() in {what}")
        states = aggregate.states(types, positioned=isinstance(self.source, Stream))
        present_sql, type_ = aggregate.present(types)
        magnitude_sql = aggregate.magnitude(types)
        prefixed = {f"{name}__{state}": definition for state, definition in states.items()}
        return Measure(
            name, aggregate, inputs, filter_, prefixed, type_, present_sql, magnitude_sql
        )

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        """What a partial has beside its keys: states of the windows, then of the aggregates."""
        own = self.filter.sql if self.filter else None
        of_windows = [
            Kept({"value": key.time_sql}, own, key.states) for key in self.keys if key.states
        ]
        of_measures = [
            Kept(
                {role: expression.sql for role, expression in measure.inputs.items()},
                _both(own, measure.where.sql if measure.where else None),
                measure.states,
            )
            for measure in self.measures
        ]
        return (*of_windows, *of_measures)

    @property
    def states(self) -> dict[str, State]:
        """State columns of a partial: of the windows, then of the aggregates."""
        return {column: state for kept in self.kept for column, state in kept.states.items()}

    @property
    def partial_columns(self) -> dict[str, str]:
        """Column to Spark type in a partial: the keys, then the states."""
        return {k.name: k.type for k in self.keys} | {
            name: state.type for name, state in self.states.items()
        }

    @property
    def output(self) -> list[str]:
        """Column names of an answer: the keys, a window's `NAME_end` after it; the aggregates."""
        keys = [
            name
            for k in self.keys
            for name in ((k.name, f"{k.name}_end") if k.window else (k.name,))
        ]
        return [*keys, *(measure.name for measure in self.measures)]

    @property
    def key_names(self) -> list[str]:
        """The columns that tell the rows of an answer apart."""
        return [key.name for key in self.keys]

    @property
    def stream(self) -> Stream:
        """The stream at the root of its source."""
        return self.source.stream

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the view's meaning may have changed.

        Only the partials of one fingerprint may ever be merged.
        """
        keys = [
            (k.name, k.sql, k.type, k.window and tuple(k.window.identity), *_said(k.states))
            for k in self.keys
        ]
        measures = [
            (
                m.name,
                m.aggregate.kind,
                {r: (e.sql, e.type) for r, e in m.inputs.items()},
                m.where and m.where.sql,
                *_said(m.states),
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


def _said(states: Mapping[str, State]) -> list[dict[str, tuple[str, str, str]]]:
    """What states mean, for a fingerprint; nothing if there are none."""
    return [{c: (s.type, s.partial, s.merge) for c, s in states.items()}] if states else []


def _both(first: str | None, second: str | None) -> str | None:
    """Two filters as one."""
    filters = [sql for sql in (first, second) if sql is not None]
    return (
        " and ".join(f"({sql})" for sql in filters)
        if len(filters) > 1
        else next(iter(filters), None)
    )
