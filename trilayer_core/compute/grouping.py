"""The pass that computes partials, in both Spark layers.

One reading of a source's rows computes the partials of all its views. The keys of all views become
grouping sets of one query, equal inputs are computed once, and the partials of each view are a
slice of the result. A `Pass` is planned from definitions alone, so that it computes the same from
the log and from the master dataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlglot
from sqlglot import exp

from trilayer_core.definitions.aggregates.base import POSITION, State
from trilayer_core.definitions.expressions import decimal_scale, is_decimal, normal_type
from trilayer_core.definitions.stream import Source, Stream
from trilayer_core.definitions.view import StateGroup, View
from trilayer_core.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SET = "_set"
GROUP = "_group"
EVENTS = "_events"
"""The number of source rows behind each row of a pass."""
OLDEST, NEWEST = "_oldest", "_newest"
"""The lowest and the highest stamp of the source rows behind each row of a pass, if requested."""


def identifier(column: str) -> exp.Identifier:
    """A column's name as a quoted identifier."""
    return exp.to_identifier(column, quoted=True)


def _parse_template(template: str) -> exp.Expr:
    """The template as a tree, with the third argument of `max_by`, which sqlglot would drop."""

    def whole(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.ArgMax | exp.ArgMin) and node.args.get("count"):
            name = "max_by" if isinstance(node, exp.ArgMax) else "min_by"
            arguments = [node.this, node.expression, node.args["count"]]
            return exp.Anonymous(this=name, expressions=arguments)
        return node

    return sqlglot.parse_one(template, dialect="spark").transform(whole)


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) or (
        isinstance(node, exp.Anonymous) and node.name in ("max_by", "min_by")
    )


def aggregate_sql(
    template: str, columns: Mapping[str, str], dialect: str, where: str | None = None
) -> str:
    """A state's SQL template, with role names replaced by columns, in a dialect.

    If `where` is given, the aggregates only count rows for which that boolean column is true.
    """
    tree = _parse_template(template)
    for node in list(tree.find_all(exp.Column)):
        if node.name in columns and not node.table:
            node.replace(exp.column(identifier(columns[node.name])))
    if where is not None:
        if not any(_is_aggregate(node) for node in tree.walk()):
            raise DefinitionError(
                f"a state with a filter must be made by an aggregate function that sqlglot knows;"
                f" got {template}; put the filter into its value"
            )

        def filtered(node: exp.Expr) -> exp.Expr:
            if _is_aggregate(node):
                return exp.Filter(
                    this=node, expression=exp.Where(this=exp.column(identifier(where)))
                )
            return node

        tree = tree.transform(filtered)
    return tree.sql(dialect=dialect)


def merge_sql(column: str, state: State, dialect: str) -> str:
    """SQL that merges a state's column over a group of partials."""
    if dialect == "duckdb" and state.duckdb_merge:
        name = identifier(column).sql(dialect="duckdb")
        merged = re.sub(r"\bstate\b", lambda _: name, state.duckdb_merge)
    else:
        merged = aggregate_sql(state.merge, {"state": column}, dialect)
    return f"CAST({merged} AS {sql_type(state.type, dialect)})"


def sql_type(type_: str, dialect: str) -> str:
    """A Spark type in the spelling of a dialect."""
    return exp.DataType.build(type_, dialect="spark").sql(dialect=dialect)


def quoted(column: str) -> str:
    """An identifier for either engine's SQL."""
    return identifier(column).sql(dialect="spark")


@dataclass(frozen=True)
class Pass:
    """What one pass over the rows of `source` computes for `views`.

    An example: one view counts clicks by user, as n, and another one by user and page, where it
    also has the sum of ms, as total. Both need the same count. The pass therefore has the key
    columns _k0 (user) and _k1 (page), the input _i0 (ms), the states _s0 (the count) and _s1 (the
    sum), and the sets (_k0,) and (_k0, _k1). Of three clicks of Ann, 5 and 7 ms on page x and 9 ms
    on page y, it makes

        _set  _k0   _k1   _events  _s0  _s1
        0     Ann   NULL  3        3    21
        1     Ann   x     2        2    12
        1     Ann   y     1        1    9

    The partials of the first view are the rows of set 0, with _k0 as user and _s0 as n__n. Those of
    the second are the rows of set 1, with _k1 as page and _s1 as total__sum in addition.
    """

    source: Source
    views: tuple[View, ...]

    @cached_property
    def keys(self) -> dict[str, str]:
        """The column of the pass for the SQL of each key."""
        return _numbered("_k", (key.sql for view in self.views for key in view.keys))

    @cached_property
    def inputs(self) -> dict[str, str]:
        """The column of the pass for the SQL of each input: values, orders and filters."""
        filters = [view.filter.sql for view in self.views if view.filter]
        groups = [group for view in self.views for group in view.state_groups]
        return _numbered("_i", [*filters, *(sql for group in groups for sql in _input_sql(group))])

    @cached_property
    def states(self) -> dict[str, str]:
        """The column of the pass for the SQL of each state."""
        populations = [self._population_sql(view) for view in self.views if view.filter]
        states = [
            self._state_sql(group, state)
            for view in self.views
            for group in view.state_groups
            for state in group.states.values()
        ]
        return _numbered("_s", populations + states)

    @cached_property
    def state_types(self) -> dict[str, str]:
        """The Spark type of each column that holds a state or a view's number of rows."""
        types = dict.fromkeys(self.states.values(), "bigint")
        for view in self.views:
            types |= {
                column: view.partial_columns[name]
                for name, column in self.columns_of(view).items()
                if column in types
            }
        return types

    @cached_property
    def sets(self) -> list[tuple[str, ...]]:
        """The grouping sets, as tuples of key columns. Views with the same keys share one."""
        return list(dict.fromkeys(self._set_of(view) for view in self.views))

    def _set_of(self, view: View) -> tuple[str, ...]:
        members = {self.keys[key.sql] for key in view.keys}
        return tuple(key for key in self.keys.values() if key in members)

    def _state_sql(self, group: StateGroup, state: State) -> str:
        columns = {role: self.inputs[sql] for role, sql in group.inputs.items()}
        where = self.inputs[group.where] if group.where else None
        return aggregate_sql(state.partial, columns, "spark", where)

    def _population_sql(self, view: View) -> str:
        assert view.filter
        return aggregate_sql("count(1)", {}, "spark", self.inputs[view.filter.sql])

    def run(self, rows: DataFrame, slot: str = "") -> DataFrame:
        """Runs the pass over `rows`.

        Args:
            rows: The rows of the source.
            slot: An integer column of `rows`, 0 or greater, such as the tick's number. The rows of
                each slot are grouped separately. Without it all rows are in one slot.

        Returns:
            The column of slots if there is one; `_set`, the index of the grouping set; the key
            columns, which are NULL if they are not in the set; `_events`; the states.
        """
        # Readers use this module as well, and do not need Spark.
        from trilayer_core.runtime.session import select_from

        return select_from(rows, lambda name: self.sql(name, slot))

    def sql(self, rows: str, slot: str = "", stamp: str = "") -> str:
        """The SELECT that `run` executes.

        Args:
            rows: A table name, or a SELECT in brackets.
            slot: As for `run`.
            stamp: A column of `rows`. If given, the result has its `_oldest` and `_newest` after
                `_events`.
        """
        raw = [*(POSITION if isinstance(self.source, Stream) else ()), *([stamp] if stamp else [])]
        keys = list(self.keys.values())
        named = [
            f"{sql} AS {column}"
            for columns in (self.keys, self.inputs)
            for sql, column in columns.items()
        ]
        source = f"(SELECT {', '.join([*([slot] if slot else []), *raw, *named])} FROM {rows})"
        sets = len(self.sets)
        if sets > 1:
            # Equivalent to GROUPING SETS. Spark shuffles the output of its own GROUPING SETS even
            # if one task holds all rows, which takes a tenth of a small micro-batch's time.
            numbers = ", ".join(str(number) for number in range(sets))
            source = f"(SELECT *, explode(array({numbers})) AS {SET} FROM {source})"
            of_sets = [
                f"IF({SET} IN ({self._sets_with(key)}), {key}, NULL) AS {key}" for key in keys
            ]
        else:
            source = f"(SELECT *, 0 AS {SET} FROM {source})"
            of_sets = keys
        # Slot and set are combined into one number, because every column of a group's key is hashed
        # and compared for every row. Measured: 2 to 5 % more rows per second.
        group = f"{slot or 0} * {sets} + {SET} AS {GROUP}"
        source = (
            f"(SELECT {', '.join([group, *raw, *self.inputs.values(), *of_sets])} FROM {source})"
        )
        slots = [f"cast({GROUP} DIV {sets} AS int) AS {slot}"] if slot else []
        stamps = {OLDEST: f"min({stamp})", NEWEST: f"max({stamp})"} if stamp else {}
        aggregates = [
            f"count(1) AS {EVENTS}",
            *(f"{sql} AS {column}" for column, sql in stamps.items()),
        ]
        aggregates += [f"{sql} AS {column}" for sql, column in self.states.items()]
        # The cast makes the fields of structs nullable, as they are in merged partials.
        states = [
            f"cast({column} AS {type_}) AS {column}" for column, type_ in self.state_types.items()
        ]
        columns = [*slots, f"{GROUP} % {sets} AS {SET}", *keys, EVENTS, *stamps, *states]
        grouped = ", ".join([GROUP, *keys])
        return f"""
            SELECT {", ".join(columns)} FROM (
                SELECT {", ".join([grouped, *aggregates])} FROM {source} GROUP BY {grouped})"""

    def _sets_with(self, key: str) -> str:
        return ", ".join(str(number) for number, members in enumerate(self.sets) if key in members)

    def columns_of(self, view: View) -> dict[str, str]:
        """The column of the pass for each column of the view's partial."""
        return self._columns[view.name]

    @cached_property
    def _columns(self) -> dict[str, dict[str, str]]:
        """The columns by view; cached, because micro-batches use them many times a second."""
        return {
            view.name: {key.name: self.keys[key.sql] for key in view.keys}
            | {
                column: self.states[self._state_sql(group, state)]
                for group in view.state_groups
                for column, state in group.states.items()
            }
            for view in self.views
        }

    def slice_of(self, view: View, result: DataFrame, extra: Sequence[str] = ()) -> DataFrame:
        """The view's partials in the result of `run`, after the columns of `extra`."""
        from pyspark.sql import functions as F

        rows = result.where(F.col(SET) == self.sets.index(self._set_of(view)))
        if view.filter:
            rows = rows.where(F.col(self.states[self._population_sql(view)]) > 0)
        columns = (F.col(column).alias(name) for name, column in self.columns_of(view).items())
        return rows.select(*extra, *columns)

    def arrow_slice_of(self, view: View, result: pa.Table, extra: Sequence[str] = ()) -> pa.Table:
        """As `slice_of`, for a result that was collected as Arrow."""
        import pyarrow.compute as pc

        wanted = pc.equal(result[SET], self.sets.index(self._set_of(view)))
        if view.filter:
            population = result[self.states[self._population_sql(view)]]
            wanted = pc.and_(wanted, pc.greater(population, 0))
        columns = {name: result[name] for name in extra} | {
            name: result[column] for name, column in self.columns_of(view).items()
        }
        schema = partial_schema(view, {name: result.schema.field(name).type for name in extra})
        return pa.table(columns).filter(wanted).cast(schema)


def plan(views: Sequence[View]) -> list[Pass]:
    """One pass for each source of the views."""
    by_source: dict[str, list[View]] = {}
    for view in views:
        by_source.setdefault(view.source.name, []).append(view)
    return [Pass(of_source[0].source, tuple(of_source)) for of_source in by_source.values()]


def partial_schema(view: View, extra: Mapping[str, pa.DataType] | None = None) -> pa.Schema:
    """The Arrow schema of a view's partials, after the extra columns."""
    columns = dict(extra or {}) | {
        column: arrow_type(type_) for column, type_ in view.partial_columns.items()
    }
    return pa.schema(list(columns.items()))


_ARROW = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type(type_: str) -> pa.DataType:
    """The Arrow type of a Spark type."""
    if type_ in _ARROW:
        return _ARROW[type_]
    if is_decimal(type_):
        return pa.decimal128(int(type_[8 : type_.index(",")]), decimal_scale(type_))
    parsed = exp.DataType.build(type_, dialect="spark")
    inner = parsed.expressions
    if parsed.is_type("struct"):
        return pa.struct([(field.name, arrow_type(normal_type(field.kind))) for field in inner])
    if parsed.is_type("map"):
        return pa.map_(*(arrow_type(normal_type(type_)) for type_ in inner))
    return pa.list_(arrow_type(normal_type(inner[0])))


def _input_sql(group: StateGroup) -> list[str]:
    return [*group.inputs.values(), *([group.where] if group.where else [])]


def _numbered(prefix: str, texts: Iterable[str]) -> dict[str, str]:
    return {text: f"{prefix}{number}" for number, text in enumerate(dict.fromkeys(texts))}
