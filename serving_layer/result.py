"""What a question is answered with: tables, and what they stand on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from trilayer_core.log.lag import Lag
from trilayer_core.seam import Cut

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Table:
    """Rows and columns, whole, in the form that is asked for."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.table.column_names)

    def arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self.table

    def pandas(self) -> pandas.DataFrame:
        """As a pandas DataFrame."""
        return self.table.to_pandas()

    def rows(self) -> list[tuple[Any, ...]]:
        """Rows as tuples; timestamps are aware and in UTC.

        A value that Python cannot hold, such as the year 10000, is its text.
        """
        return list(zip(*map(_values, self.table.columns), strict=True))

    def dicts(self) -> list[dict[str, Any]]:
        """As `rows`, each a dictionary by column; of columns of one name the last."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows()]


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):  # ArrowInvalid is a ValueError
        return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    """The value as Python has it, else its text; of nested values those inside by themselves."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        if isinstance(scalar, pa.StructScalar):
            return {name: _value(value) for name, value in scalar.items()}
        if isinstance(scalar, pa.MapScalar):
            return [(_value(pair["key"]), _value(pair["value"])) for pair in scalar.values]
        if isinstance(scalar, pa.ListScalar):
            return [_value(value) for value in scalar.values]
        return str(scalar.cast(pa.string()).as_py()).replace(" ", "T")


@dataclass(frozen=True)
class StreamProvenance:
    """What an answer stands on, of one stream.

    Attributes:
        cut: Below it is the batch layer's share.
        head: Up to it the answer reaches.
        generation: The speed layer's generation that covers what lies between; None where none
            does.
        speed_events: Events between the two.
        quarantined: Those of them that do not fit the schema.
        note: Why the head is where it is, where that needs saying.
        lag: How much of the log lies behind the head; None unless asked for.
        quarantined_in_all: Events below the head that do not fit the schema.
    """

    cut: Cut
    head: Cut
    generation: str | None
    speed_events: int
    quarantined: int
    note: str
    lag: Lag | None = None
    quarantined_in_all: int = 0


@dataclass(frozen=True)
class Provenance:
    """What an answer stands on.

    `version`, `t` and `kind` are the publication's, None before the first. `exact`: no aggregate is
    approximate.
    """

    version: int | None
    t: str | None
    kind: str | None
    exact: bool
    streams: Mapping[str, StreamProvenance]

    def to_json(self) -> dict[str, Any]:
        """As a JSON document."""
        return asdict(self)


@dataclass(frozen=True)
class Result(Table):
    """An answer, and its provenance."""

    provenance: Provenance
