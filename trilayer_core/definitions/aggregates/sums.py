"""The number of events, sums and means."""

from collections.abc import Mapping
from decimal import Decimal

from trilayer_core.definitions.aggregates.base import Aggregate, State, check_numeric
from trilayer_core.definitions.expressions import (
    FLOATS,
    INTEGERS,
    decimal_precision,
    decimal_scale,
    is_decimal,
)


class Count(Aggregate):
    """The number of events, or of those whose column is not NULL."""

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


def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """The number of events, or of those whose `column` is not NULL."""
    return Count(value=column, where=where)


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


def _exact_total(type_: str) -> str:
    """DuckDB SQL of the final value of a sum; NULL if it does not fit."""
    result = _sum_type(type_)
    if not _is_split(type_):
        return f"try_cast(sum as {result})"
    unit = f"cast({_low_unit(type_)} as decimal(38,{max(decimal_scale(type_) - LOW_DIGITS, 0)}))"
    # High and low can have different signs. If the high part alone does not fit, one unit is moved
    # from it to the low part.
    moved = f"try(cast((high - sign(high)) * {unit} as {result}) + (low + sign(high) * {unit}))"
    return f"coalesce(try(cast(high * {unit} as {result}) + low), {moved})"


class Sum(Aggregate):
    """The sum of the values that are not NULL; NULL if there are none, or if it does not fit.

    It is exact for integers and decimals. The result is a bigint for integers, a decimal of 38
    digits for decimals, and a double for floating-point numbers. A total that does not fit is NULL;
    declare an integer column as `decimal(38,0)` to have more room.
    """

    kind = "sum_"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires a number."""
        check_numeric(types, subject)

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The sum in one part or in two."""
        return _sum_states(types["value"])

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The sum, or NULL if it does not fit."""
        type_ = types["value"]
        return _exact_total(type_), _sum_type(type_)

    def magnitude(self, types: Mapping[str, str]) -> str:
        """The sum of the absolute values, for floating-point numbers."""
        return "magnitude" if types["value"] in FLOATS else ""


def sum_(column: str, *, where: str | None = None) -> Aggregate:
    """The sum of `column`; see `Sum`."""
    return Sum(value=column, where=where)


class Mean(Aggregate):
    """The arithmetic mean of the values that are not NULL, as a double; NULL if there are none.

    It is stored as the states of their sum, and their number.
    """

    kind = "mean"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires a number."""
        check_numeric(types, subject)

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
            # Doubles would cancel out digits of which the total consists. They are only used for
            # a total that does not fit.
            total = (
                f"coalesce(cast({_exact_total(types['value'])} as double), cast(high as double) *"
                f" {_low_unit(types['value'])}::double + cast(low as double))"
            )
        return f"{total} / nullif(count, 0)", "double"

    def magnitude(self, types: Mapping[str, str]) -> str:
        """The mean of the absolute values, for floating-point numbers."""
        return "magnitude / nullif(count, 0)" if types["value"] in FLOATS else ""


def mean(column: str, *, where: str | None = None) -> Aggregate:
    """The arithmetic mean of `column`; see `Mean`."""
    return Mean(value=column, where=where)
