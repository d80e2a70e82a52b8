"""The aggregates. Each is a commutative monoid with states that can be merged in any order.

An aggregate stores one or more named states. A `State` defines in SQL how it is computed from
events (Spark), how two are merged (Spark and DuckDB), and its value without events. `present` is
DuckDB SQL that computes the final value from the states. No other code depends on what an aggregate
does. CONTRIBUTING.md lists the steps to add one here: a class, an entry in `AGGREGATES` for which
the laws in tests/integration/laws are then checked, a function, and more. A project can define
aggregates of its own; docs/extending.md shows an example.

The design follows Algebird's `MonoidAggregator` (prepare, plus with zero, present).
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
"""The columns of an event's position in the log, which breaks ties in `latest` and `first`."""


TOLERANCE = 1e-9
"""The relative tolerance within which two floating-point sums count as equal.

It is relative to the magnitude, the sum of the absolute values. The two layers add in different
orders; the rounding error of a sum of n doubles is at most n * 2^-53 of the magnitude in any order,
even if large numbers cancel each other out.
"""


@dataclass(frozen=True)
class State:
    """One column of a partial.

    Attributes:
        type: Its Spark type.
        partial: Spark SQL that aggregates over the aggregate's roles, such as `value` and `by`, and
            over the event's position, `_partition` and `_offset`.
        merge: SQL for both engines that aggregates over `state`.
        duckdb_merge: The same in DuckDB SQL, if DuckDB needs another expression than `merge`.
        neutral: A SQL literal. Merging a state with it does not change the state.
        relative_to: For a floating-point sum, the name of the state that holds the magnitude of the
            numbers. Two sums of the same events may differ by a small fraction of it. Empty if the
            state is exact.
        tolerance: That fraction.
    """

    type: str
    partial: str
    merge: str
    duckdb_merge: str = ""
    neutral: str = "NULL"
    relative_to: str = ""
    tolerance: float = TOLERANCE

    def merge_in(self, dialect: str) -> str:
        """The merge expression for a dialect of sqlglot, `spark` or `duckdb`."""
        return self.duckdb_merge or self.merge if dialect == "duckdb" else self.merge


@dataclass(frozen=True)
class Aggregate:
    """The base class of all aggregates.

    In its methods, `types` maps the roles in use to Spark types. A subclass can have further
    fields. If a field affects a state, it must show in the state's SQL, from which fingerprints are
    computed.

    Attributes:
        value: Spark SQL of what is aggregated.
        by: Spark SQL that orders the events.
        where: Spark SQL filter. Events for which it is false or NULL are not counted.
        kind: Its name in messages and fingerprints: that of the function that makes it.
    """

    value: str | None = None
    by: str | None = None
    where: str | None = None

    kind: ClassVar[str] = ""

    @property
    def roles(self) -> dict[str, str]:
        """The author's SQL for each role in use."""
        return {
            role: sql for role, sql in (("value", self.value), ("by", self.by)) if sql is not None
        }

    def check(self, types: Mapping[str, str], what: str) -> None:
        """Raises DefinitionError if this aggregate does not support the type of a role.

        Args:
            types: The roles' types.
            what: The beginning of the message.
        """

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The states by name.

        Args:
            types: The roles' types.
            positioned: Whether the source has the columns `_partition` and `_offset`. A stream has
                them; rows that a function made do not.
        """
        raise NotImplementedError

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The DuckDB SQL of the final value, over the names of the states, and its Spark type."""
        raise NotImplementedError

    def magnitude(self, types: Mapping[str, str]) -> str:
        """DuckDB SQL of the quantity that the rounding error of the answer is relative to.

        It is over the names of the states, and empty if the answer is exact.
        """
        return ""


class Count(Aggregate):
    """The number of events, or of those whose `value` is not NULL."""

    kind = "count"

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The number of events."""
        return {
            "n": State(
                "bigint", "count(value)" if self.value else "count(1)", "sum(state)", neutral="0"
            )
        }

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The number of events, unchanged."""
        return "n", "bigint"


SAFE_DIGITS = 19
"""The most digits for which 38 digits can hold the sum of a decimal.

Such a sum could have more events than a log has offsets.
"""

LOW_DIGITS = 20
"""The number of low digits that are summed separately if a decimal has more than `SAFE_DIGITS`."""


def _is_split(type_: str) -> bool:
    return is_decimal(type_) and decimal_precision(type_) > SAFE_DIGITS


def _low_unit(type_: str) -> str:
    """The unit of the high part of a split decimal, as text."""
    return format(Decimal(1).scaleb(LOW_DIGITS - decimal_scale(type_)), "f")


def _sum_states(type_: str) -> dict[str, State]:
    """The states of a sum, none of which can overflow.

    The sum is exact, except that a floating-point sum is rounded.

    A decimal with many digits is split into a multiple of a unit and a remainder, which are summed
    separately. Both depend on the event alone, so the two sums are the same however the events are
    divided, and each can hold the sum of 10^18 events.
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
        # Within one pass the sum is a bigint, which takes 2^32 events of one key to overflow and is
        # cheaper than a decimal.
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
    """The type of the final value of a sum."""
    if type_ in INTEGERS:
        return "bigint"
    return f"decimal(38,{decimal_scale(type_)})" if is_decimal(type_) else "double"


def _check_numeric(types: Mapping[str, str], what: str) -> None:
    if not is_numeric(types["value"]):
        raise DefinitionError(f"{what} must be over a number; got {types['value']}")


class Sum(Aggregate):
    """The sum of the values that are not NULL; NULL if there are none.

    It is exact for integers and decimals. The result is a bigint for integers, a decimal of 38
    digits for decimals, and a double for floating-point numbers. A total that does not fit is NULL;
    declare an integer column as `decimal(38,0)` to have more room.
    """

    kind = "sum_"

    def check(self, types: Mapping[str, str], what: str) -> None:
        """Requires a number."""
        _check_numeric(types, what)

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The sum in one part or in two."""
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
            # High and low can have different signs. If the high part alone does not fit, one unit
            # is moved from it to the low part.
            moved = (
                f"try(cast((high - sign(high)) * {unit} as {result}) + (low + sign(high) * {unit}))"
            )
            return f"coalesce(try(cast(high * {unit} as {result}) + low), {moved})", result
        return f"try_cast(sum as {result})", result

    def magnitude(self, types: Mapping[str, str]) -> str:
        """The sum of the absolute values, for floating-point numbers."""
        return "magnitude" if types["value"] in FLOATS else ""


class Mean(Aggregate):
    """The arithmetic mean of the values that are not NULL, as a double; NULL if there are none.

    It is stored as the states of their sum, and their number.
    """

    kind = "mean"

    def check(self, types: Mapping[str, str], what: str) -> None:
        """Requires a number."""
        _check_numeric(types, what)

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The sum and the number of values."""
        return {
            **_sum_states(types["value"]),
            "count": State("bigint", "count(value)", "sum(state)", neutral="0"),
        }

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The sum divided by the number."""
        total = "cast(sum as double)"
        if _is_split(types["value"]):
            total = (
                f"(cast(high as double) * {_low_unit(types['value'])}::double + cast(low as"
                " double))"
            )
        return f"{total} / nullif(count, 0)", "double"

    def magnitude(self, types: Mapping[str, str]) -> str:
        """The mean of the absolute values, for floating-point numbers."""
        return "magnitude / nullif(count, 0)" if types["value"] in FLOATS else ""


class _Extreme(Aggregate):
    function: ClassVar[str]

    def check(self, types: Mapping[str, str], what: str) -> None:
        if not is_orderable(types["value"]):
            raise DefinitionError(f"{what} must be over a type with an order; got {types['value']}")

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        type_ = types["value"]
        # -0.0 equals 0.0 but has other bits. Adding zero turns both into 0.0.
        value = f"value + cast(0 as {type_})" if type_ in FLOATS else "value"
        return {self.function: State(type_, f"{self.function}({value})", f"{self.function}(state)")}

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        return self.function, types["value"]


class Min(_Extreme):
    """The smallest value that is not NULL.

    Strings are ordered by their UTF-8 bytes. NaN is greater than every number.
    """

    kind, function = "min_", "min"


class Max(_Extreme):
    """The largest value that is not NULL.

    Strings are ordered by their UTF-8 bytes. NaN is greater than every number.
    """

    kind, function = "max_", "max"


class _Chosen(Aggregate):
    """The value, which may be NULL, of the first or last event in an order.

    The order is (`by`, partition, offset). The state is one struct, which both engines compare from
    left to right, so that min or max selects the event. -0.0 becomes 0.0.
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
        # DuckDB's min and max of a struct lose the sign of zero, so the sign is removed in both
        # engines from the beginning.
        by, value = (
            f"{r} + cast(0 as {types[r]})" if types[r] in FLOATS else r for r in ("by", "value")
        )
        place = (
            [("partition", "int", POSITION[0]), ("offset", "bigint", POSITION[1])]
            if positioned
            else []
        )
        # `known` precedes the value because the engines order NULL inside a struct differently.
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
    """The value of the event with the largest `by`; among equals, of the last one in the log.

    Events whose `by` is NULL are ignored.
    """

    kind, function = "latest", "max"


class First(_Chosen):
    """The value of the event with the smallest `by`; among equals, of the first one in the log.

    Events whose `by` is NULL are ignored.
    """

    kind, function = "first", "min"


AGGREGATES = (Count, Sum, Min, Max, Mean, Latest, First)
"""Every aggregate of trilayer. The tests of the laws run over this list."""


def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """The number of events, or of those whose `column` is not NULL."""
    return Count(value=column, where=where)


def sum_(column: str, *, where: str | None = None) -> Aggregate:
    """The sum of `column`; see `Sum`."""
    return Sum(value=column, where=where)


def min_(column: str, *, where: str | None = None) -> Aggregate:
    """The smallest `column`; see `Min`."""
    return Min(value=column, where=where)


def max_(column: str, *, where: str | None = None) -> Aggregate:
    """The largest `column`; see `Max`."""
    return Max(value=column, where=where)


def mean(column: str, *, where: str | None = None) -> Aggregate:
    """The arithmetic mean of `column`; see `Mean`."""
    return Mean(value=column, where=where)


def latest(column: str, *, by: str, where: str | None = None) -> Aggregate:
    """The `column` of the event with the largest `by`; see `Latest`."""
    return Latest(value=column, by=by, where=where)


def first(column: str, *, by: str, where: str | None = None) -> Aggregate:
    """The `column` of the event with the smallest `by`; see `First`."""
    return First(value=column, by=by, where=where)
