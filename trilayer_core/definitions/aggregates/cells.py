"""Aggregates over the cells of a key: distinct values, quantiles and the most frequent values."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilayer_core.definitions.aggregates.base import (
    Aggregate,
    Cell,
    State,
    as_list,
    check_number_of_values,
    check_numeric,
    unsigned_zero,
)
from trilayer_core.definitions.expressions import A_SCALAR, is_orderable
from trilayer_core.errors import DefinitionError

REGISTERS = 1024
"""The number of registers of an approximate `distinct`."""

MOST_VALUES = 1000
"""The most values that `top` returns."""

RELATIVE_ERROR = 0.01
"""The largest error of a quantile, relative to the value."""

_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_ZERO = 100_000
"""What is added to the number of a quantile's cell, so that it has the sign of its values."""
_INFINITE, _NAN = 999_999, 1_000_000

_NUMBER = State("bigint", "count(1)", "sum(state)", neutral="0")


def _check_plain(types: Mapping[str, str], subject: str) -> None:
    if not is_orderable(types["value"]):
        raise DefinitionError(f"{subject} must be over {A_SCALAR}; got {types['value']}")


@dataclass(frozen=True)
class Distinct(Aggregate):
    """The number of different values that are not NULL; 0 if there are none.

    It is estimated from 1,024 registers: by linear counting for few values, and by HyperLogLog for
    many (Flajolet, Fusy, Gandouet, Meunier, 2007; Heule, Nunkesser, Hall, 2013). The standard error
    is 1.04 / sqrt(1024) = 3.25 %. A register is a cell, so each key has at most 1,024 of them.

    Attributes:
        exact: Whether each value is stored as a cell of its own, and counted exactly.
    """

    exact: bool = False
    kind = "distinct"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires a scalar."""
        _check_plain(types, subject)

    def cell(self, types: Mapping[str, str]) -> Cell:
        """The value, or the register that its hash selects."""
        value = unsigned_zero("value", types["value"])
        if self.exact:
            return Cell(value, types["value"], empty="0")
        return Cell(f"cast(pmod(xxhash64({value}), {REGISTERS}) as int)", "int", empty="0")

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The number of events, or the largest rank of a register."""
        if self.exact:
            return {"n": _NUMBER}
        # The rank is the place of the lowest 1, from 1, in the 54 bits of the hash that do not
        # select the register, and 55 if all are 0. The bits below the lowest 1 are counted.
        bits = f"shiftrightunsigned(xxhash64({unsigned_zero('value', types['value'])}), 10)"
        rank = f"least(bit_count(~{bits} & ({bits} - 1)) + 1, 55)"
        return {"rank": State("int", f"max({rank})", "max(state)", neutral="0")}

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The number of cells, or the estimate from the registers."""
        if self.exact:
            return "count(*)", "bigint"
        alpha = 0.7213 / (1 + 1.079 / REGISTERS)
        estimate = (
            f"({alpha * REGISTERS**2!r} / (sum(pow(2.0::double, -rank)) +"
            f" ({REGISTERS} - count(*))))"
        )
        few = f"{REGISTERS} * ln({REGISTERS}.0::double / ({REGISTERS} - count(*)))"
        small = f"{estimate} <= {5 * REGISTERS // 2} AND count(*) < {REGISTERS}"
        return f"round(CASE WHEN {small} THEN {few} ELSE {estimate} END)", "bigint"

    def bound(self, types: Mapping[str, str]) -> str:
        """The standard error."""
        return "" if self.exact else "standard error 3.25 %"


def distinct(column: str, *, exact: bool = False, where: str | None = None) -> Aggregate:
    """The number of different values of `column`, by default estimated; see `Distinct`."""
    if not isinstance(exact, bool):
        raise DefinitionError(f"exact of distinct({column!r}) must be True or False; got {exact!r}")
    return Distinct(value=column, where=where, exact=exact)


@dataclass(frozen=True)
class Quantiles(Aggregate):
    """The values at some ranks, as an array of doubles; NULL if there are no values.

    The quantile q of n values is the value of rank ceil(q * n), from 1, in their order. It is
    returned with an error of at most 1 % of its size: values are counted in cells whose bounds rise
    by a constant factor (DDSketch; Masson, Rim, Lee, 2019). NaN is greater than every number.

    Attributes:
        quantiles: Numbers from 0 to 1.
    """

    quantiles: Sequence[float] = (0.5,)
    kind = "quantiles"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires a number, and quantiles from 0 to 1."""
        check_numeric(types, subject)
        fit = all(
            isinstance(q, int | float) and not isinstance(q, bool) and 0 <= q <= 1
            for q in self.quantiles
        )
        if not self.quantiles or not fit:
            raise DefinitionError(
                f"quantiles of {subject} must be numbers from 0 to 1, at least one;"
                f" got {self.quantiles!r}"
            )

    def cell(self, types: Mapping[str, str]) -> Cell:
        """The number of the interval that holds the value."""
        value = "cast(value as double)"
        place = f"cast(ceil(ln(abs({value})) / {math.log(_GAMMA)!r}D) as int) + {_ZERO}"
        return Cell(
            f"CASE WHEN isnan({value}) THEN {_NAN} WHEN {value} = 0 THEN 0"
            f" WHEN abs({value}) = cast('Infinity' as double) THEN"
            f" IF({value} > 0, {_INFINITE}, -{_INFINITE})"
            f" WHEN {value} > 0 THEN {place} ELSE -({place}) END",
            "int",
            ordered=True,
        )

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The number of values in a cell."""
        return {"n": _NUMBER}

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The middle of the first cell up to which there are enough values."""
        return f"[{', '.join(map(self._value_sql, self.quantiles))}]", "array<double>"

    def bound(self, types: Mapping[str, str]) -> str:
        """The relative error."""
        return "within 1 % of the value"

    def _value_sql(self, quantile: float) -> str:
        cell = f"min(cell) FILTER (WHERE running >= greatest(1, ceil({quantile!r} * total)))"
        size = f"{2 / (1 + _GAMMA)!r} * pow({_GAMMA!r}::double, abs({cell}) - {_ZERO})"
        # The middle of the last cell is beyond the largest double.
        size = f"least({size}, {sys.float_info.max!r}::double)"
        return (
            f"CASE {cell} WHEN 0 THEN 0 WHEN {_NAN} THEN 'NaN'::double"
            f" WHEN {_INFINITE} THEN 'Infinity'::double WHEN -{_INFINITE} THEN '-Infinity'::double"
            f" ELSE sign({cell}) * {size} END"
        )


def quantiles(column: str, quantiles: Sequence[float], *, where: str | None = None) -> Aggregate:
    """The values of `column` at some ranks, within 1 %; see `Quantiles`."""
    return Quantiles(
        value=column,
        where=where,
        # A float of NumPy is one of Python, too, but is written in another way.
        quantiles=[
            float(quantile) if isinstance(quantile, float) else quantile
            for quantile in as_list(f"quantiles of {column!r}", quantiles)
        ],
    )


class _Frequent(Aggregate):
    """Values by their number of events. A value is a cell, and each key has one for each value."""

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires a scalar."""
        _check_plain(types, subject)

    def cell(self, types: Mapping[str, str]) -> Cell:
        """The value."""
        return Cell(unsigned_zero("value", types["value"]), types["value"])

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The number of events with the value."""
        return {"n": _NUMBER}


@dataclass(frozen=True)
class Top(_Frequent):
    """The most frequent values with their numbers, exactly: an array of struct(value, n).

    The most frequent one is first; among equals, the smallest value. It is NULL if there are none.

    Attributes:
        k: The most values to return.
    """

    k: int = 10
    kind = "top"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires a scalar, and a number of values."""
        super().check(types, subject)
        check_number_of_values(self.k, MOST_VALUES, subject)

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The first values in order."""
        values = "list({'value': cell, 'n': n} ORDER BY n DESC, cell)"
        return (
            f"list_slice({values}, 1, {self.k})",
            f"array<struct<value:{types['value']},n:bigint>>",
        )


def top(column: str, k: int = 10, *, where: str | None = None) -> Aggregate:
    """The `k` most frequent values of `column` with their numbers; see `Top`."""
    return Top(value=column, where=where, k=k)


class Mode(_Frequent):
    """The most frequent value, exactly; among equals, the smallest one. NULL if there are none."""

    kind = "mode"

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The first value in order."""
        return "first(cell ORDER BY n DESC, cell)", types["value"]


def mode(column: str, *, where: str | None = None) -> Aggregate:
    """The most frequent value of `column`; see `Mode`."""
    return Mode(value=column, where=where)
