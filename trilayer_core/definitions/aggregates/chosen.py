"""Aggregates that choose: extremes, and the values of chosen events."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from trilayer_core.definitions.aggregates.base import (
    POSITION,
    Aggregate,
    State,
    check_number_of_values,
    unsigned_zero,
)
from trilayer_core.definitions.expressions import A_SCALAR, is_orderable
from trilayer_core.errors import DefinitionError


class _Extreme(Aggregate):
    function: ClassVar[str]

    def check(self, types: Mapping[str, str], subject: str) -> None:
        if not is_orderable(types["value"]):
            raise DefinitionError(
                f"{subject} must be over a type with an order; got {types['value']}"
            )

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        type_ = types["value"]
        value = unsigned_zero("value", type_)
        return {self.function: State(type_, f"{self.function}({value})", f"{self.function}(state)")}

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        return self.function, types["value"]


class Min(_Extreme):
    """The smallest value that is not NULL.

    Strings are ordered by their UTF-8 bytes. NaN is greater than every number.
    """

    kind, function = "min_", "min"


def min_(column: str, *, where: str | None = None) -> Aggregate:
    """The smallest `column`; see `Min`."""
    return Min(value=column, where=where)


class Max(_Extreme):
    """The largest value that is not NULL.

    Strings are ordered by their UTF-8 bytes. NaN is greater than every number.
    """

    kind, function = "max_", "max"


def max_(column: str, *, where: str | None = None) -> Aggregate:
    """The largest `column`; see `Max`."""
    return Max(value=column, where=where)


class Any(_Extreme):
    """Whether the condition is true of at least one event; NULL if it is NULL for all."""

    kind, function = "any_", "max"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires a boolean."""
        _check_boolean(types, subject)


def any_(condition: str, *, where: str | None = None) -> Aggregate:
    """Whether `condition` is true of an event; see `Any`."""
    return Any(value=condition, where=where)


class Every(_Extreme):
    """Whether the condition is false of no event; NULL if it is NULL for all."""

    kind, function = "every", "min"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires a boolean."""
        _check_boolean(types, subject)


def every(condition: str, *, where: str | None = None) -> Aggregate:
    """Whether `condition` is true of all events; see `Every`."""
    return Every(value=condition, where=where)


def _check_boolean(types: Mapping[str, str], subject: str) -> None:
    if types["value"] != "boolean":
        raise DefinitionError(f"{subject} must be over a boolean; got {types['value']}")


class _Chosen(Aggregate):
    """The value, which may be NULL, of the first or last event in an order.

    The order is (`by`, partition, offset). The state is one struct, which both engines compare from
    left to right, so that min or max selects the event. -0.0 becomes 0.0.
    """

    function: ClassVar[str]

    def check(self, types: Mapping[str, str], subject: str) -> None:
        if not is_orderable(types["value"]):
            raise DefinitionError(f"{subject} must choose {A_SCALAR}; got {types['value']}")
        if not is_orderable(types["by"]):
            raise DefinitionError(f"{subject} must be by a type with an order; got {types['by']}")

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        type_, struct = _event_struct(types, positioned)
        choose = f"{self.function}(IF(by IS NULL, NULL, {struct}))"
        return {"event": State(type_, choose, f"{self.function}(state)")}

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        return "event.value", types["value"]


class Latest(_Chosen):
    """The value of the event with the largest `by`; among equals, of the last one of a partition.

    Events whose `by` is NULL are ignored.
    """

    kind, function = "latest", "max"


def latest(column: str, *, by: str, where: str | None = None) -> Aggregate:
    """The `column` of the event with the largest `by`; see `Latest`."""
    return Latest(value=column, by=by, where=where)


def arg_max(column: str, *, by: str, where: str | None = None) -> Aggregate:
    """The `column` of the event with the largest `by`: another name of `latest`."""
    return Latest(value=column, by=by, where=where)


class First(_Chosen):
    """The value of the event with the smallest `by`; among equals, of the first one of a partition.

    Events whose `by` is NULL are ignored.
    """

    kind, function = "first", "min"


def first(column: str, *, by: str, where: str | None = None) -> Aggregate:
    """The `column` of the event with the smallest `by`; see `First`."""
    return First(value=column, by=by, where=where)


def arg_min(column: str, *, by: str, where: str | None = None) -> Aggregate:
    """The `column` of the event with the smallest `by`: another name of `first`."""
    return First(value=column, by=by, where=where)


def _event_struct(types: Mapping[str, str], positioned: bool) -> tuple[str, str]:
    """The Spark type and SQL of a struct that orders events, and holds the value of one."""
    # DuckDB's min and max of a struct lose the sign of zero, so the sign is removed in both engines
    # from the beginning.
    by, value = (unsigned_zero(role, types[role]) for role in ("by", "value"))
    place = (
        [("partition", "int", POSITION[0]), ("offset", "bigint", POSITION[1])] if positioned else []
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
    return f"struct<{type_}>", f"named_struct({struct})"


MOST_COLLECTED = 1000
"""The most values that `collect` keeps of each key."""


@dataclass(frozen=True)
class Collect(_Chosen):
    """The values of the `k` events with the largest `by`, largest first, as an array.

    The order is that of `latest`: equal `by` are ordered by the position in the log. Values may be
    NULL; events whose `by` is NULL are ignored.

    Attributes:
        k: The most values to collect.
    """

    k: int = 1
    kind = "collect"

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Requires what `latest` does, and a number of values."""
        super().check(types, subject)
        check_number_of_values(self.k, MOST_COLLECTED, subject)

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The events, newest first; an empty array without any."""
        type_, struct = _event_struct(types, positioned)
        kind = f"array<{type_}>"
        key = f"IF(by IS NULL, NULL, {struct})"
        newest = f"coalesce(max_by({key}, {key}, {self.k}), cast(array() as {kind}))"
        merged = f"slice(sort_array(flatten(collect_list(state)), false), 1, {self.k})"
        in_duckdb = f"list_slice(list_reverse_sort(flatten(list(state))), 1, {self.k})"
        return {"events": State(kind, newest, merged, in_duckdb, neutral="[]")}

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The values alone."""
        return "list_transform(events, lambda e: e.value)", f"array<{types['value']}>"


def collect(column: str, k: int, *, by: str, where: str | None = None) -> Aggregate:
    """The `column` of the `k` events with the largest `by`; see `Collect`."""
    return Collect(value=column, by=by, where=where, k=k)
