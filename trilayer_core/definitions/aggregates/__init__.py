"""The aggregates. Each is a commutative monoid with states that can be merged in any order.

An aggregate stores one or more named states. A `State` defines in SQL how it is computed from
events (Spark), how two are merged (Spark and DuckDB), and its value without events. `present` is
DuckDB SQL that computes the final value from the states. No other code depends on what an aggregate
does. A state is canonical: the same events give the same bits, however they were divided, except
for rounding in floating-point sums; the layers are compared by their states.

An aggregate without a state of fixed size, such as the number of different values, divides the
events of a key into cells, each of which has a state; see `Cell`.

CONTRIBUTING.md lists the steps to add one here: a class, an entry in `AGGREGATES` for which the
laws in tests/integration/laws are then checked, a function, and more. A project can define
aggregates of its own; docs/extending.md shows an example.

The design follows Algebird's `MonoidAggregator` (prepare, plus with zero, present).
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TypeVar

from trilayer_core.definitions.aggregates.base import Aggregate, Cell, State
from trilayer_core.definitions.aggregates.cells import Distinct, Mode, Quantiles, Top
from trilayer_core.definitions.aggregates.chosen import (
    Any,
    Collect,
    Every,
    First,
    Latest,
    Max,
    Min,
)
from trilayer_core.definitions.aggregates.spread import Histogram, StdDev, Variance
from trilayer_core.definitions.aggregates.sums import Count, Mean, Sum
from trilayer_core.errors import DefinitionError

__all__ = [
    "AGGREGATES",
    "Aggregate",
    "Cell",
    "State",
    "any_",
    "arg_max",
    "arg_min",
    "collect",
    "count",
    "distinct",
    "every",
    "first",
    "histogram",
    "latest",
    "max_",
    "mean",
    "min_",
    "mode",
    "quantiles",
    "stddev",
    "sum_",
    "top",
    "variance",
]

_Number = TypeVar("_Number", float, float | Decimal)

AGGREGATES = (
    Count,
    Sum,
    Min,
    Max,
    Mean,
    Latest,
    First,
    Any,
    Every,
    Collect,
    Variance,
    StdDev,
    Histogram,
    Distinct,
    Quantiles,
    Top,
    Mode,
)
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


def arg_max(column: str, *, by: str, where: str | None = None) -> Aggregate:
    """The `column` of the event with the largest `by`: another name of `latest`."""
    return Latest(value=column, by=by, where=where)


def arg_min(column: str, *, by: str, where: str | None = None) -> Aggregate:
    """The `column` of the event with the smallest `by`: another name of `first`."""
    return First(value=column, by=by, where=where)


def any_(condition: str, *, where: str | None = None) -> Aggregate:
    """Whether `condition` is true of an event; see `Any`."""
    return Any(value=condition, where=where)


def every(condition: str, *, where: str | None = None) -> Aggregate:
    """Whether `condition` is true of all events; see `Every`."""
    return Every(value=condition, where=where)


def collect(column: str, k: int, *, by: str, where: str | None = None) -> Aggregate:
    """The `column` of the `k` events with the largest `by`; see `Collect`."""
    return Collect(value=column, by=by, where=where, k=k)


def variance(column: str, *, where: str | None = None) -> Aggregate:
    """The sample variance of `column`; see `Variance`."""
    return Variance(value=column, where=where)


def stddev(column: str, *, where: str | None = None) -> Aggregate:
    """The sample standard deviation of `column`; see `StdDev`."""
    return StdDev(value=column, where=where)


def histogram(
    column: str, bounds: Sequence[float | Decimal], *, where: str | None = None
) -> Aggregate:
    """The number of values of `column` in each bucket; see `Histogram`."""
    return Histogram(
        value=column, where=where, bounds=_listed(f"bounds of histogram({column!r})", bounds)
    )


def distinct(column: str, *, exact: bool = False, where: str | None = None) -> Aggregate:
    """The number of different values of `column`, by default estimated; see `Distinct`."""
    if not isinstance(exact, bool):
        raise DefinitionError(f"exact of distinct({column!r}) must be True or False; got {exact!r}")
    return Distinct(value=column, where=where, exact=exact)


def quantiles(column: str, quantiles: Sequence[float], *, where: str | None = None) -> Aggregate:
    """The values of `column` at some ranks, within 1 %; see `Quantiles`."""
    return Quantiles(
        value=column,
        where=where,
        # A float of NumPy is one of Python, too, but is written in another way.
        quantiles=[
            float(quantile) if isinstance(quantile, float) else quantile
            for quantile in _listed(f"quantiles of {column!r}", quantiles)
        ],
    )


def top(column: str, k: int = 10, *, where: str | None = None) -> Aggregate:
    """The `k` most frequent values of `column` with their numbers; see `Top`."""
    return Top(value=column, where=where, k=k)


def mode(column: str, *, where: str | None = None) -> Aggregate:
    """The most frequent value of `column`; see `Mode`."""
    return Mode(value=column, where=where)


def _listed(what: str, found: Sequence[_Number]) -> tuple[_Number, ...]:
    """A list as a tuple.

    Raises:
        DefinitionError: It is a single number, or text.
    """
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise DefinitionError(f"{what} must be a list of numbers; got {found!r}; write [{found}]")
    return tuple(found)
