"""What every aggregate is made of: states, and for some of them cells."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, TypeVar

from trilayer_core.definitions.expressions import FLOATS, is_numeric
from trilayer_core.errors import DefinitionError

_Number = TypeVar("_Number", float, float | Decimal)

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
        close: For a state that holds several floating-point numbers: DuckDB SQL that is true if the
            states `l` and `r` differ by rounding only. Empty for all others.
    """

    type: str
    partial: str
    merge: str
    duckdb_merge: str = ""
    neutral: str = "NULL"
    relative_to: str = ""
    tolerance: float = TOLERANCE
    close: str = ""


def unsigned_zero(role: str, type_: str) -> str:
    """Spark SQL of a role's value in which -0.0, which equals 0.0 but has other bits, is 0.0."""
    return f"{role} + cast(0 as {type_})" if type_ in FLOATS else role


def check_numeric(types: Mapping[str, str], subject: str) -> None:
    """Raises DefinitionError unless the value is a number."""
    if not is_numeric(types["value"]):
        raise DefinitionError(f"{subject} must be over a number; got {types['value']}")


def check_number_of_values(k: int, most: int, subject: str) -> None:
    """Raises DefinitionError unless an aggregate may return `k` values."""
    if type(k) is not int or not 1 <= k <= most:
        raise DefinitionError(
            f"the number of values of {subject} must be from 1 to {most}; got {k!r}"
        )


def as_list(subject: str, values: Sequence[_Number]) -> tuple[_Number, ...]:
    """A list as a tuple.

    Raises:
        DefinitionError: It is a single number, or text.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DefinitionError(
            f"{subject} must be a list of numbers; got {values!r}; write [{values}]"
        )
    return tuple(values)


@dataclass(frozen=True)
class Cell:
    """What divides the events of one key further, for an aggregate that has no state of fixed size.

    The states of such an aggregate are stored for each key and cell, in a view of their own,
    so that they are merged as those of any view: the same events give the same cells, however they
    are divided. Serialised sketches do not have this property.

    Attributes:
        sql: Spark SQL of the cell over `value`. Events whose `value` is NULL are not counted.
        type: Its Spark type.
        ordered: Whether `present` also uses `running`, the sum of the state `n` over the cells of a
            key up to and including this one in the order of the cells, and `total`, its sum over
            all of them.
        empty: A DuckDB literal: the final value of a key without cells.
    """

    sql: str
    type: str
    ordered: bool = False
    empty: str = "NULL"


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

    def check(self, types: Mapping[str, str], subject: str) -> None:
        """Raises DefinitionError if this aggregate does not support the type of a role.

        Args:
            types: The roles' types.
            subject: The beginning of the message.
        """

    def states(self, types: Mapping[str, str], positioned: bool) -> dict[str, State]:
        """The states by name.

        Args:
            types: The roles' types.
            positioned: Whether the source has the columns `_partition` and `_offset`. A stream has
                them; rows that a function made do not.
        """
        raise NotImplementedError

    def cell(self, types: Mapping[str, str]) -> Cell | None:
        """What divides the events of a key further; None if the states are those of the key."""
        return None

    def present(self, types: Mapping[str, str]) -> tuple[str, str]:
        """The DuckDB SQL of the final value, over the names of the states, and its Spark type.

        With cells, it aggregates over the cells of a key: over `cell` and the names of the states.
        """
        raise NotImplementedError

    def bound(self, types: Mapping[str, str]) -> str:
        """How far the answer may be from the exact one, in words; empty if it is exact.

        Rounding in floating-point sums is not meant, for which there is `magnitude`.
        """
        return ""

    def magnitude(self, types: Mapping[str, str]) -> str:
        """DuckDB SQL of the quantity that the rounding error of the answer is relative to.

        It is over the names of the states, and empty if the answer is exact.
        """
        return ""
