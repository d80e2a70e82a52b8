"""The aggregates. Each is a commutative monoid: partials, a way to merge two, and one to present.

An aggregate keeps one or more named states. A `State` says in SQL how it is computed from events
(Spark), how it is merged (Spark and DuckDB), and what it is if there were no events. `present` is
DuckDB SQL over the states' names. Nothing else in trilayer knows what an aggregate does: adding one
takes a class, and a line in `AGGREGATES`, which puts it under the laws in tests/integration/laws. A
project may have aggregates of its own; docs/extending.md shows one.

After Algebird's `MonoidAggregator` (prepare, plus with zero, present).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from trilayer_core.definitions.expressions import (
    FLOATS,
    INTEGERS,
    decimal_precision,
    decimal_scale,
    is_decimal,
    is_numeric,
    is_orderable,
)
from trilayer_core.errors import DefinitionError

POSITION = ("_partition", "_offset")
"""Columns that hold an event's place in the log, by which ties of `latest` and `first` are broken.
"""


TOLERANCE = 1e-9
"""Two floating-point sums count as equal up to this part of the sum of their numbers' magnitudes.

The layers add up in another order. The error of a sum of n doubles is at most n * 2^-53 of that,
whatever the order, also if large numbers cancel each other out.
"""


@dataclass(frozen=True)
class State:
    """One column of a partial.

    Attributes:
        type: Its Spark type.
        partial: Spark SQL: an aggregate over the aggregate's roles, such as `value` and `by`, and
            over the event's place, `_partition` and `_offset`.
        merge: SQL of both engines: an aggregate over `state`.
        duckdb_merge: DuckDB SQL, if DuckDB says `merge` in another way.
        neutral: SQL literal; merging a state with it changes nothing.
        relative_to: For a floating-point sum: the name of the state that says how large the numbers
            were that were added up. Two such sums of the same events differ by a small part of
            that. Empty for a state that is exact.
        tolerance: How small that part is.
    """

    type: str
    partial: str
    merge: str
    duckdb_merge: str = ""
    neutral: str = "NULL"
    relative_to: str = ""
    tolerance: float = TOLERANCE

    def merge_in(self, dialect: str) -> str:
        """How a dialect of sqlglot, `spark` or `duckdb`, says `merge`."""
        return self.duckdb_merge or self.merge if dialect == "duckdb" else self.merge


@dataclass(frozen=True)
class Aggregate:
    """What all aggregates share. `types`, below, maps the roles in use to Spark types.

    A subclass may have fields of its own; what they mean must show in its states.

    Attributes:
        value: Spark SQL of what is aggregated.
        by: Spark SQL of an order.
        where: Spark SQL filter; events for which it is false or NULL don't count.
        kind: Its name in messages and fingerprints.
    """

    value: str | None = None
    by: str | None = None
    where: str | None = None

    kind: ClassVar[str] = ""

    @property
    def roles(self) -> dict[str, str]:
        """Role to the author's SQL, for the roles in use."""
        return {
            role: sql for role, sql in (("value", self.value), ("by", self.by)) if sql is not None
        }

    def check(self, types: Mapping[str, str], what: str) -> None:
        """Raises DefinitionError if a role's type is not one that this aggregate can take."""

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """State name to state.

        Args:
            types: The roles' types.
            positioned: Whether the source has `_partition` and `_offset`: a stream has, rows that a
                function made have not.
        """
        raise NotImplementedError

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """(DuckDB SQL over the state names, Spark type of the result)."""
        raise NotImplementedError

    def magnitude(self, types: Mapping[str, str]) -> str:
        """DuckDB SQL over the state names: what the answer's rounding is relative to.

        Empty for an exact answer.
        """
        return ""


class Count(Aggregate):
    """Number of events; of events whose `value` is not NULL when there is one."""

    kind = "count"

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """One number."""
        return {
            "n": State(
                "bigint", "count(value)" if self.value else "count(1)", "sum(state)", neutral="0"
            )
        }

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The number."""
        return "n", "bigint"


SAFE_DIGITS = 19
"""Of decimals with up to so many digits 38 digits hold the sum of more events than a log has
offsets.
"""

LOW_DIGITS = 20
"""How many digits of a decimal with more than `SAFE_DIGITS` are added up by themselves."""


def _is_split(type_: str) -> bool:
    return is_decimal(type_) and decimal_precision(type_) > SAFE_DIGITS


def _low_unit(type_: str) -> str:
    """What the high part of a split decimal counts, as the text of a number."""
    return format(Decimal(1).scaleb(LOW_DIGITS - decimal_scale(type_)), "f")


def _sum_states(type_: str) -> dict[str, State]:
    """States of an exact sum, none of which can overflow.

    Of a sum that is rounded if the numbers are floating-point.

    Wide decimals are added up as multiples of a unit and as what remains: each is a number of the
    event alone, so that both sums are the same however the events were split, and either holds the
    sum of 10^18 events.
    """
    if type_ in FLOATS:
        value = "cast(value as double)"
        return {
            "sum": State("double", f"sum({value})", "sum(state)", relative_to="magnitude"),
            "magnitude": State(
                "double", f"sum(abs({value}))", "sum(state)", relative_to="magnitude"
            ),
        }
    if type_ in ("tinyint", "smallint"):
        return {"sum": State("bigint", "sum(cast(value as bigint))", "sum(state)")}
    if type_ == "int":
        # Added up in one pass as bigint, which takes 2^32 events of one key to overflow, and costs
        # less than decimals do.
        summed = "cast(sum(cast(value as bigint)) as decimal(38,0))"
        return {"sum": State("decimal(38,0)", summed, "sum(state)")}
    wide = "decimal(38,0)" if type_ == "bigint" else f"decimal(38,{decimal_scale(type_)})"
    if not _is_split(type_):
        return {"sum": State(wide, f"sum(cast(value as {wide}))", "sum(state)")}
    unit = _low_unit(type_)
    scale = len(unit.partition(".")[2])
    unit = (
        f"cast('{unit}' as decimal({max(len(unit.replace('.', '').lstrip('0')), scale)},{scale}))"
    )
    high = f"sum(cast(cast(value as {wide}) div {unit} as decimal(38,0)))"
    low = f"sum(cast(cast(value as {wide}) % {unit} as {wide}))"
    return {
        "high": State("decimal(38,0)", high, "sum(state)"),
        "low": State(wide, low, "sum(state)"),
    }


def _sum_type(type_: str) -> str:
    """The type that a sum is presented in."""
    if type_ in INTEGERS:
        return "bigint"
    return f"decimal(38,{decimal_scale(type_)})" if is_decimal(type_) else "double"


def _check_numeric(types: Mapping[str, str], what: str) -> None:
    if not is_numeric(types["value"]):
        raise DefinitionError(f"{what} must be over a number; got {types['value']}")


class Sum(Aggregate):
    """Sum of the values that are not NULL, NULL where there are none.

    Exact for integers and decimals.

    Integers are presented as bigint, decimals with 38 digits, floating point as double. A total
    that does not fit is NULL: for an integer column one of `decimal(38,0)` has room.
    """

    kind = "sum_"

    def check(self, types: Mapping[str, str], what: str) -> None:
        """Refuses what is no number."""
        _check_numeric(types, what)

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """An exact sum, in one part or two, or a rounded one."""
        return _sum_states(types["value"])

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The sum, or NULL if it does not fit."""
        type_ = types["value"]
        result = _sum_type(type_)
        if _is_split(type_):
            unit = (
                f"cast({_low_unit(type_)} as"
                f" decimal(38,{max(decimal_scale(type_) - LOW_DIGITS, 0)}))"
            )
            # High and low may have different signs; one unit is moved where the high part alone
            # does not fit.
            moved = (
                f"try(cast((high - sign(high)) * {unit} as {result}) + (low + sign(high) * {unit}))"
            )
            return f"coalesce(try(cast(high * {unit} as {result}) + low), {moved})", result
        return f"try_cast(sum as {result})", result

    def magnitude(self, types: Mapping[str, str]) -> str:
        """Of floating-point numbers, the sum of their sizes."""
        return "magnitude" if types["value"] in FLOATS else ""


class Mean(Aggregate):
    """Arithmetic mean of the values that are not NULL, as a double; kept as (sum, count)."""

    kind = "mean"

    def check(self, types: Mapping[str, str], what: str) -> None:
        """Refuses what is no number."""
        _check_numeric(types, what)

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The sum, and how many values there were."""
        return {
            **_sum_states(types["value"]),
            "count": State("bigint", "count(value)", "sum(state)", neutral="0"),
        }

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The one by the other."""
        total = "cast(sum as double)"
        if _is_split(types["value"]):
            total = (
                f"(cast(high as double) * {_low_unit(types['value'])}::double + cast(low as"
                " double))"
            )
        return f"{total} / nullif(count, 0)", "double"

    def magnitude(self, types: Mapping[str, str]) -> str:
        """Of floating-point numbers, the mean of their sizes."""
        return "magnitude / nullif(count, 0)" if types["value"] in FLOATS else ""


class _Extreme(Aggregate):
    function: ClassVar[str]

    def check(self, types: Mapping[str, str], what: str) -> None:
        if not is_orderable(types["value"]):
            raise DefinitionError(f"{what} must be over a type with an order; got {types['value']}")

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        type_ = types["value"]
        # -0.0 and 0.0 are equal and not the same: adding zero leaves one of them.
        value = f"value + cast(0 as {type_})" if type_ in FLOATS else "value"
        return {self.function: State(type_, f"{self.function}({value})", f"{self.function}(state)")}

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        return self.function, types["value"]


class Min(_Extreme):
    """Smallest value that is not NULL.

    Strings are ordered by their UTF-8 bytes; NaN is above every number.
    """

    kind, function = "min_", "min"


class Max(_Extreme):
    """Largest value that is not NULL.

    Strings are ordered by their UTF-8 bytes; NaN is above every number.
    """

    kind, function = "max_", "max"


class _Chosen(Aggregate):
    """The value, NULL or not, of one event.

    The event is at an end of the order (`by`, partition, offset).

    Kept as one struct that is compared from left to right, so that min or max finds it in either
    engine. -0.0 is answered as 0.0.
    """

    function: ClassVar[str]

    def check(self, types: Mapping[str, str], what: str) -> None:
        if not is_orderable(types["value"]):
            raise DefinitionError(
                f"{what} must choose a column of a plain type; got {types['value']}"
            )
        if not is_orderable(types["by"]):
            raise DefinitionError(f"{what} must be by a type with an order; got {types['by']}")

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        # DuckDB's min and max of a struct lose the sign of zero, so it is left out of both from the
        # start.
        by, value = (
            f"{r} + cast(0 as {types[r]})" if types[r] in FLOATS else r for r in ("by", "value")
        )
        place = (
            [("partition", "int", POSITION[0]), ("offset", "bigint", POSITION[1])]
            if positioned
            else []
        )
        # `known` comes before the value: the engines order NULL inside a struct differently.
        parts = [
            ("by", types["by"], by),
            *place,
            ("known", "boolean", "value IS NOT NULL"),
            ("value", types["value"], value),
        ]
        type_ = ",".join(f"{name}:{part}" for name, part, _ in parts)
        struct = ", ".join(f"'{name}', {sql}" for name, _, sql in parts)
        choose = f"{self.function}(IF(by IS NULL, NULL, named_struct({struct})))"
        return {"event": State(f"struct<{type_}>", choose, f"{self.function}(state)")}

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        return "event.value", types["value"]


class Latest(_Chosen):
    """The column's value in the event with the largest `by`; of several, the one latest in the log.

    `by` NULL doesn't count.
    """

    kind, function = "latest", "max"


class First(_Chosen):
    """The column's value in the event with the smallest `by`; of several, the one first in the log.

    `by` NULL doesn't count.
    """

    kind, function = "first", "min"


AGGREGATES = (Count, Sum, Min, Max, Mean, Latest, First)
"""Every aggregate there is; the laws run over this list."""


def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """Number of events, or of those whose `column` is not NULL."""
    return Count(value=column, where=where)


def sum_(column: str, *, where: str | None = None) -> Aggregate:
    """Sum of `column`, NULL where there is none; see `Sum`."""
    return Sum(value=column, where=where)


def min_(column: str, *, where: str | None = None) -> Aggregate:
    """Smallest `column`; see `Min`."""
    return Min(value=column, where=where)


def max_(column: str, *, where: str | None = None) -> Aggregate:
    """Largest `column`; see `Max`."""
    return Max(value=column, where=where)


def mean(column: str, *, where: str | None = None) -> Aggregate:
    """Arithmetic mean of `column`; see `Mean`."""
    return Mean(value=column, where=where)


def latest(column: str, *, by: str, where: str | None = None) -> Aggregate:
    """`column` of the event with the largest `by`; see `Latest`."""
    return Latest(value=column, by=by, where=where)


def first(column: str, *, by: str, where: str | None = None) -> Aggregate:
    """`column` of the event with the smallest `by`; see `First`."""
    return First(value=column, by=by, where=where)
