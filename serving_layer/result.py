"""The results of queries: tables and their provenance, and errors in place of DuckDB's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType
from pydantic import TypeAdapter

from trilayer_core.compute.merging import quoted_duckdb
from trilayer_core.errors import UsageError
from trilayer_core.log.lag import Lag
from trilayer_core.seam import Cut

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class RowSet:
    """A complete table, in the form that the caller asks for."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.table.column_names)

    def arrow(self) -> pa.Table:
        """The table as an Arrow table."""
        return self.table

    def pandas(self) -> pandas.DataFrame:
        """The table as a pandas DataFrame."""
        return self.table.to_pandas()

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples; timestamps are aware and in UTC.

        A value that Python can't represent, such as the year 10000, is returned as text.
        """
        return list(zip(*map(_values, self.table.columns), strict=True))

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries by column.

        Of several columns with the same name only the last is included.
        """
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows()]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_interval(column.type):
        return [_interval(value) for value in column.to_pylist()]
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):  # ArrowInvalid is a ValueError
        return [_value(scalar) for scalar in column]


def _interval(value: pa.MonthDayNano | None) -> timedelta | str | None:
    """An interval, as text if it has months, whose lengths differ."""
    if value is None:
        return None
    months, days, ns = value
    rest = timedelta(days=days, microseconds=ns // 1000)
    return f"{months} months {rest}" if months else rest


def _value(scalar: pa.Scalar) -> Any:
    """The value as a Python value, else as text.

    This applies to the parts of a nested value separately.
    """
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
    """The provenance of an answer, for one stream.

    Attributes:
        cut: The batch layer's share lies below it.
        head: The offset up to which the answer reaches.
        generation: The generation of the speed layer that covers what lies in between; None if
            there is none.
        speed_events: The number of events in between.
        quarantined: The number of those that do not fit the schema.
        note: An explanation of the head, if one is needed.
        lag: How far the log extends beyond the head; None unless requested.
        quarantined_in_all: The number of events below the head that do not fit the schema.
        batch_events: The number of events below the cut, without those that were lost. It is not
            the sum of the cut's offsets if the log did not begin at 0.
    """

    cut: Cut
    head: Cut
    generation: str | None
    speed_events: int
    quarantined: int
    note: str
    lag: Lag | None = None
    quarantined_in_all: int = 0
    batch_events: int = 0


@dataclass(frozen=True)
class Provenance:
    """The provenance of an answer.

    Attributes:
        version: The number of the publication; None before the first.
        t: Its T, as ISO 8601 in UTC; None before the first.
        kind: incremental or full; None before the first.
        exact: Whether no view that was asked has an approximate column.
        streams: The details of each stream.
        approximate: The approximate columns of the views that were asked, by view, with how far
            they may be off, in words.
    """

    version: int | None
    t: str | None
    kind: str | None
    exact: bool
    streams: Mapping[str, StreamProvenance]
    approximate: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The provenance as a JSON document."""
        return asdict(self)

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Provenance:
        """The provenance in a JSON document that `to_json` has made."""
        return _PROVENANCE.validate_python(document)


_PROVENANCE = TypeAdapter(Provenance)


@dataclass(frozen=True)
class Result(RowSet):
    """An answer and its provenance."""

    provenance: Provenance


def without_hugeint(table: pa.Table) -> pa.Table:
    """Converts sums of bigints back to bigint, if all values fit.

    DuckDB computes sums of bigints as HUGEINT, for which Arrow only has decimal(38,0).
    """
    for place, column in enumerate(table.schema):
        if column.type == pa.decimal128(38, 0):
            with suppress(pa.ArrowInvalid):
                table = table.set_column(place, column.name, table.column(place).cast(pa.int64()))
    return table


_NOT_HELD = frozenset({"uhugeint", "bignum", "bit", "time with time zone", "variant"})


def held(answer: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """An answer in which values of types that Arrow does not have are text, also inside others."""
    casts = [_cast(type_) for type_ in answer.types]
    if not any(casts):
        return answer
    columns = ", ".join(
        f"{f'CAST(#{place} AS {cast})' if cast else f'#{place}'} AS {quoted_duckdb(name)}"
        for place, (name, cast) in enumerate(zip(answer.columns, casts, strict=True), start=1)
    )
    return answer.project(columns)


def _cast(type_: DuckDBPyType) -> str | None:
    """The type to which a type must be cast; None if Arrow has it."""
    kind = type_.id
    if kind in _NOT_HELD:
        return "VARCHAR"
    if kind not in ("list", "array", "struct", "map"):
        return None
    parts = [(name, part) for name, part in type_.children if isinstance(part, DuckDBPyType)]
    casts = [_cast(part) for _, part in parts]
    if not any(casts):
        return None
    inner = [cast or str(part) for cast, (_, part) in zip(casts, parts, strict=True)]
    if kind == "map":
        return f"MAP({', '.join(inner)})"
    if kind == "struct":
        fields = zip(parts, inner, strict=True)
        return f"STRUCT({', '.join(f'{quoted_duckdb(name)} {sql}' for (name, _), sql in fields)})"
    size = dict(type_.children).get("size", "") if kind == "array" else ""
    return f"{inner[0]}[{size}]"


def closed() -> UsageError:
    """The error of a connection that is asked after it was closed."""
    return UsageError(
        "a connection must be open when it is asked; this one was closed; open another:"
        " serving_layer.connect()"
    )


_IN_PYTHON = re.compile(r"KeyboardInterrupt:?\s*$")
"""The end of DuckDB's message if Ctrl-C came while it called Python, to read a registered table."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises KeyboardInterrupt in place of the errors that DuckDB makes of Ctrl-C.

    Raises:
        UsageError: `serving.memory_mb` is too small.
    """
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        # DuckDB's own advice names settings that only it has.
        raise UsageError(
            f"{str(error).strip().splitlines()[0]}; increase `serving.memory_mb`, which is for the"
            " views and for what a query needs beside them, or ask for less at once"
        ) from None
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (RuntimeError, duckdb.InvalidInputException) as error:
        if str(error) == "Query interrupted" or _IN_PYTHON.search(str(error)):
            raise KeyboardInterrupt from None
        raise
