"""Aggregates of how values are spread: variance, standard deviation and histograms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext

from trilayer_core.definitions.aggregates.base import (
    TOLERANCE,
    Aggregate,
    State,
    as_list,
    check_numeric,
)
from trilayer_core.definitions.expressions import (
    FLOATS,
    INTEGERS,
    decimal_precision,
    decimal_scale,
    is_decimal,
)
from trilayer_core.errors import DefinitionError

MOST_DIGITS = 18
"""The most digits of a decimal whose sums of powers are exact; as an integer it is a bigint."""

_MOMENTS = "struct<count:bigint,mean:double,m2:double>"


def _is_split(type_: str) -> bool:
    """Whether the squares of a type's values need more room than a bigint has."""
    return type_ == "bigint" or is_decimal(type_)


class Variance(Aggregate):
    """The sample variance of the values that are not NULL, as a double; NULL for fewer than two.

    For integers and decimals it is computed from exact sums of powers, so that it does not depend
    on how events are divided; only the last steps are rounded. For floating-point numbers, counts,
    means and sums of squared deviations are merged (Chan, Golub, LeVeque, "Updating formulae and a
    pairwise algorithm for computing sample variances", 1979), which does not cancel out digits as a
    sum of squares would. It is NaN if a value is NaN or infinite.
    """

    kind = "variance"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires a number, and of a decimal at most 18 digits."""
        check_numeric(types, subject)
        type_ = types["value"]
        if is_decimal(type_) and decimal_precision(type_) > MOST_DIGITS:
            raise DefinitionError(
                f"{subject} must be over a decimal of at most {MOST_DIGITS} digits; got {type_};"
                " cast it to a double"
            )

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """Moments of floating-point numbers, or sums of powers."""
        type_ = types["value"]
        if type_ in FLOATS:
            return {"moments": _moments()}
        wide = "decimal(38,0)"
        count = State("bigint", "count(value)", "sum(state)", neutral="0")

        def summed(sql: str) -> State:
            return State(wide, f"cast(sum(cast({sql} as {wide})) as {wide})", "sum(state)")

        if not _is_split(type_):
            value = "cast(value as bigint)"
            return {"count": count, "sum": summed(value), "squares": summed(f"{value} * {value}")}
        # A value is high * 2^32 + low, so that each product fits a bigint or a decimal.
        whole = "value"
        if is_decimal(type_):
            scale = decimal_scale(type_)
            whole = f"cast(value * cast({10**scale} as decimal({scale + 1},0)) as bigint)"
        high, low = f"shiftright({whole}, 32)", f"({whole} & 4294967295)"
        wide_low = f"cast({low} as decimal(10,0))"
        return {
            "count": count,
            "high": summed(high),
            "low": summed(low),
            "high_high": summed(f"{high} * {high}"),
            "high_low": summed(f"{high} * {low}"),
            "low_low": summed(f"{wide_low} * {wide_low}"),
        }

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The sum of squared deviations divided by one less than the number of values."""
        return self._variance_sql(types["value"]), "double"

    def magnitude(self, types: Mapping[str, str]) -> str:
        """The variance, and what an error of the mean adds to it."""
        if types["value"] not in FLOATS:
            return ""
        variance = self._variance_sql(types["value"])
        return f"{variance} + sqrt({variance}) * abs(moments.mean) + 1e-9 * pow(moments.mean, 2)"

    def _variance_sql(self, type_: str) -> str:
        if type_ in FLOATS:
            return (
                "CASE WHEN moments.count > 1 THEN CASE WHEN isfinite(moments.m2) THEN moments.m2 /"
                " (moments.count - 1) ELSE 'NaN'::DOUBLE END END"
            )
        n = "cast(count as HUGEINT)"
        # n times the sum of squared deviations, which is an integer.
        if not _is_split(type_):
            total, squares = "cast(sum as HUGEINT)", "cast(squares as HUGEINT)"
            exact = f"{n} * {squares} - {total} * {total}"
            rough = "count * cast(squares as double) - pow(cast(sum as double), 2)"
            unit = "1"
        else:
            exact, rough = _split_deviations(n)
            unit = str(10 ** (2 * decimal_scale(type_))) if is_decimal(type_) else "1"
        scaled = f"coalesce(cast(try({exact}) as double), {rough})"
        return (
            f"CASE WHEN count > 1 THEN greatest({scaled}, 0) / count / (count - 1) /"
            f" cast({unit} as double) END"
        )


def variance(column: str, *, where: str | None = None) -> Aggregate:
    """The sample variance of `column`; see `Variance`."""
    return Variance(value=column, where=where)


def _split_deviations(n: str) -> tuple[str, str]:
    """DuckDB SQL of n times the sum of squared deviations of split values, exact and as a double.

    The deviations are from an integer next to the mean, `high` and `low` parts apart, so that no
    digits are cancelled out. The exact one is an error if it has more than 38 digits.
    """
    names = ("high", "low", "high_high", "high_low", "low_low")
    h, low, hh, hl, ll = (f"cast({name} as HUGEINT)" for name in names)
    unit = "4294967296"
    total = f"({h} * {unit} + {low})"
    mean = f"({total} // {n})"
    a = f"({mean} // {unit})"
    b = f"({mean} - {a} * {unit})"
    rest = f"({total} - {n} * {mean})"
    p = f"({hh} - 2 * {a} * {h} + {n} * {a} * {a})"
    q = f"({hl} - {a} * {low} - {b} * {h} + {n} * {a} * {b})"
    r = f"({ll} - 2 * {b} * {low} + {n} * {b} * {b})"
    exact = f"{n} * ({p} * {unit} * {unit} + 2 * {q} * {unit} + {r}) - {rest} * {rest}"
    rough = (
        f"(cast({p} as double) * {unit}::double * {unit} + 2.0::double * cast({q} as double) *"
        f" {unit} + cast({r} as double)) * count - pow(cast({rest} as double), 2)"
    )
    return exact, rough


def _moments() -> State:
    """The number, the mean and the sum of squared deviations of floating-point numbers."""
    value = "cast(value as double)"
    count, mean = f"count({value})", f"avg({value})"
    m2 = f"var_pop({value}) * {count}"
    nan = "cast('NaN' as double)"
    partial = (
        f"CASE WHEN {count} = 0 THEN NULL WHEN isnan(0 * {mean} + 0 * {m2})"
        f" THEN named_struct('count', {count}, 'mean', {nan}, 'm2', {nan})"
        f" ELSE named_struct('count', {count}, 'mean', {mean}, 'm2', {m2}) END"
    )
    share = "(b.count / (a.count + b.count))"
    parts = {
        "count": "a.count + b.count",
        "mean": f"a.mean + (b.mean - a.mean) * {share}",
        "m2": f"a.m2 + b.m2 + (b.mean - a.mean) * (b.mean - a.mean) * a.count * {share}",
    }
    spark = ", ".join(f"'{name}', {sql}" for name, sql in parts.items())
    duckdb = ", ".join(f"'{name}': {sql}" for name, sql in parts.items())
    scale = "(abs(l.mean) + sqrt(greatest(l.m2, r.m2) / l.count))"
    close = (
        f"l.count = r.count AND (NOT isfinite(l.m2) AND NOT isfinite(r.m2) OR"
        f" abs(l.mean - r.mean) <= {TOLERANCE} * {scale} AND abs(l.m2 - r.m2) <= {TOLERANCE} *"
        f" (greatest(l.m2, r.m2) + sqrt(greatest(l.m2, r.m2) * l.count) * abs(l.mean)"
        f" + {TOLERANCE} * l.count * pow(l.mean, 2)))"
    )
    return State(
        _MOMENTS,
        partial,
        f"aggregate(collect_list(state), cast(NULL as {_MOMENTS}),"
        f" (a, b) -> CASE WHEN a IS NULL THEN b ELSE named_struct({spark}) END)",
        f"list_reduce(list(state) FILTER (state IS NOT NULL), lambda a, b: {{{duckdb}}})",
        close=close,
    )


class StdDev(Variance):
    """The sample standard deviation: the square root of the variance."""

    kind = "stddev"

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The square root of the variance."""
        return f"sqrt({self._variance_sql(types['value'])})", "double"

    def magnitude(self, types: Mapping[str, str]) -> str:
        """The deviation, and what an error of the mean adds to it."""
        if types["value"] not in FLOATS:
            return ""
        return f"sqrt({self._variance_sql(types['value'])}) + abs(moments.mean)"


def stddev(column: str, *, where: str | None = None) -> Aggregate:
    """The sample standard deviation of `column`; see `StdDev`."""
    return StdDev(value=column, where=where)


@dataclass(frozen=True)
class Histogram(Aggregate):
    """The number of values in each bucket, as an array of bigint, one longer than `bounds`.

    The first bucket holds the values below the first bound, each other one those from its bound up
    to the next one, which it does not hold. NaN is in the last. NULL is in none.

    Attributes:
        bounds: The bounds, rising.
    """

    bounds: Sequence[float | Decimal] = (0,)
    kind = "histogram"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires a number, and at least one bound, rising."""
        check_numeric(types, subject)
        numbers = all(
            isinstance(bound, int | float | Decimal)
            and not isinstance(bound, bool)
            and math.isfinite(bound)
            for bound in self.bounds
        )
        if not self.bounds or not numbers:
            raise DefinitionError(
                f"bounds of {subject} must be finite numbers, at least one; got {list(self.bounds)}"
            )
        if any(high <= low for low, high in itertools.pairwise(self.bounds)):
            raise DefinitionError(f"bounds of {subject} must rise; got {list(self.bounds)}")
        for bound in self.bounds if types["value"] not in FLOATS else ():
            if abs(Decimal(str(bound))) >= Decimal(10) ** (38 - _scale(types["value"])):
                raise DefinitionError(
                    f"bounds of {subject} must fit into 38 digits, of which"
                    f" {_scale(types['value'])} are after the decimal point, as in its values; got"
                    f" {bound!r}"
                )

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The number of values in each bucket."""
        bounds = [_literal(bound, types["value"]) for bound in self.bounds]
        value = "cast(value as double)" if types["value"] in FLOATS else "value"
        conditions = [f"{value} < {bounds[0]}"]
        conditions += [
            f"{value} >= {low} AND {value} < {high}" for low, high in itertools.pairwise(bounds)
        ]
        conditions.append(f"{value} >= {bounds[-1]}")
        return {
            f"b{number}": State("bigint", f"count_if({condition})", "sum(state)", neutral="0")
            for number, condition in enumerate(conditions)
        }

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The numbers, in the order of the buckets."""
        buckets = ", ".join(f"b{number}" for number in range(len(self.bounds) + 1))
        return f"[{buckets}]", "array<bigint>"


def histogram(
    column: str, bounds: Sequence[float | Decimal], *, where: str | None = None
) -> Aggregate:
    """The number of values of `column` in each bucket; see `Histogram`."""
    return Histogram(
        value=column, where=where, bounds=as_list(f"bounds of histogram({column!r})", bounds)
    )


def _scale(type_: str) -> int:
    """The number of digits after the decimal point of an exact number."""
    return decimal_scale(type_) if is_decimal(type_) else 0


def _literal(bound: float | Decimal, type_: str) -> str:
    """Spark SQL of a bound, exactly, in a type that can be compared with the values' type."""
    if type_ in FLOATS:
        return f"cast('{float(bound)!r}' as double)"
    digits = Decimal(str(bound))
    most = _scale(type_)
    if -int(digits.as_tuple().exponent) > most:
        # No value lies between the bound and the next number with the values' digits, and Spark
        # would round a bound that has more of them.
        with localcontext(prec=1_000):
            digits = digits.quantize(Decimal(1).scaleb(-most), ROUND_CEILING)
    text = format(digits, "f")
    scale = len(text.partition(".")[2])
    whole = len(text.partition(".")[0].lstrip("-0")) or 1
    kind = f"decimal({min(whole + scale, 38)},{scale})"
    if type_ in INTEGERS and scale == 0:
        return f"cast('{text}' as decimal({max(whole, 1)},0))"
    return f"cast('{text}' as {kind})"
