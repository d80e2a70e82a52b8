"""Reads the files of reference tables, and checks that all rows fit the schema."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trilayer_core.compute.grouping import arrow_type
from trilayer_core.definitions.expressions import FLOATS, INTEGERS
from trilayer_core.definitions.tables import Table
from trilayer_core.errors import DefinitionError, did_you_mean

MOST_NAMED = 20
"""The number of rows that do not fit which an error names. It counts the others."""

_GREATEST = {"float": 3.4028235677973362e38, "double": sys.float_info.max}
"""What is greater than this is rounded to infinity."""

_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_FLOAT = re.compile(_NUMBER.pattern + r"|NaN|[+-]?Infinity")


def read_reference(table: Table) -> pa.Table:
    """The rows of a table's file, in the columns of its schema.

    Raises:
        DefinitionError: The file has changed since the table was declared, can't be read, lacks a
            column, or has rows that do not fit the schema; they are named.
    """
    data = table.read()
    names, rows = (_csv if table.file.suffix.lower() == ".csv" else _parquet)(table, data)
    twice = sorted({name for name in table.columns if names.count(name) > 1})
    if twice:
        raise DefinitionError(
            f"table {table.name!r} must have each column once; {table.path} has {twice[0]!r}"
            f" {names.count(twice[0])} times"
        )
    missing = [name for name in table.columns if name not in names]
    if missing:
        raise DefinitionError(
            f"table {table.name!r} must have the columns of its schema; {table.path} has no"
            f" {missing[0]!r}{did_you_mean(missing[0], names)}"
        )
    converters = [_converter(field.type) for field in table.fields]
    places = [names.index(field.name) for field in table.fields]
    columns: list[list[Any]] = [[] for _ in table.fields]
    misfits: list[str] = []
    for place, row in rows:
        if len(row) != len(names):
            misfits.append(f"{place} has {len(row)} fields, not {len(names)}")
            continue
        for field, convert, at, column in zip(
            table.fields, converters, places, columns, strict=True
        ):
            value = None
            if row[at] is None:
                if field.required:
                    misfits.append(f"{place}: {field.name} is missing")
            else:
                try:
                    value = convert(row[at])
                except (ValueError, ArithmeticError):
                    misfits.append(f"{place}: {field.name} must be {field.type}; got {row[at]!r}")
            column.append(value)
    if misfits:
        more = len(misfits) - MOST_NAMED
        raise DefinitionError(
            f"rows of table {table.name!r} must fit its schema; in {table.path},"
            f" {'; '.join(misfits[:MOST_NAMED])}{f'; and {more:,} more' if more > 0 else ''};"
            " correct the file or the schema"
        )
    types = [arrow_type(field.type) for field in table.fields]
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.table(arrays, names=list(table.columns))


PlacedRows = Iterator[tuple[str, Sequence[Any]]]
"""The place of each row, for messages, and its values; None for NULL."""


def _csv(table: Table, data: bytes) -> tuple[list[str], PlacedRows]:
    """The header and the rows of a CSV file. An empty field is NULL."""
    try:
        # Spreadsheets put a byte order mark first. Without `strict`, a quotation mark that nothing
        # closes would make one field of the rest of the file.
        lines = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        read = [(lines.line_num, line) for line in lines]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DefinitionError(
            f"table {table.name!r} must be a CSV file in UTF-8; {table.path}: {error}"
        ) from None
    names = read[0][1] if read else []
    return names, (
        (f"line {number}", [value or None for value in line]) for number, line in read[1:] if line
    )


def _parquet(table: Table, data: bytes) -> tuple[list[str], PlacedRows]:
    """The columns of the schema that a Parquet file has, and the rows."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        rows = file.read([name for name in table.columns if name in file.schema_arrow.names])
        values = [column.to_pylist() for column in rows.columns]
    except (pa.ArrowException, ValueError, OverflowError, OSError) as error:
        raise DefinitionError(
            f"table {table.name!r} must be a Parquet file; {table.path}: {error}"
        ) from None
    return rows.column_names, (
        (f"row {number}", row) for number, row in enumerate(zip(*values, strict=True), 1)
    )


def _converter(type_: str) -> Callable[[Any], Any]:
    """A function from a CSV file's text or a Parquet file's value to a value of a Spark type.

    It raises ValueError, or an error of arithmetic, if the value does not fit.
    """
    if type_ in INTEGERS:
        bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[type_]
        return lambda value: _integer(value, bits)
    if type_ in FLOATS:
        greatest = _GREATEST[type_]
        return lambda value: _float(value, greatest)
    if type_.startswith("decimal"):
        precision, scale = map(int, type_[len("decimal(") : -1].split(","))
        return lambda value: _decimal(value, precision, scale)
    return {
        "string": _string,
        "boolean": _boolean,
        "date": _date,
        "timestamp": _timestamp,
        "timestamp_ntz": _local_timestamp,
    }[type_]


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, str):
        value = int(_matching(_INTEGER, value))
    if type(value) is not int or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError
    return value


def _float(value: Any, greatest: float) -> float:
    infinite = value in ("Infinity", "+Infinity", "-Infinity", math.inf, -math.inf)
    if isinstance(value, str):
        value = float(_matching(_FLOAT, value))
    # In Python True is an int.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    value = float(value)
    if abs(value) > greatest and not infinite:
        raise ValueError
    return value


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if isinstance(value, str):
        value = Decimal(_matching(_NUMBER, value))
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError
    exact = Decimal(value)
    # Python computes with 28 digits by default, and a decimal can have 38.
    with localcontext(prec=200):
        scaled = exact.scaleb(scale)
        if scaled != scaled.to_integral_value() or abs(scaled) >= 10**precision:
            raise ValueError
    return exact


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower())
    if not isinstance(value, bool):
        raise ValueError
    return value


def _date(value: Any) -> date:
    day = date.fromisoformat(value.strip()) if isinstance(value, str) else value
    if type(day) is not date:
        raise ValueError
    return day


def _timestamp(value: Any) -> datetime:
    moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        raise ValueError
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _local_timestamp(value: Any) -> datetime:
    moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    if not isinstance(moment, datetime) or moment.tzinfo:
        raise ValueError
    return moment


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text.strip()):
        raise ValueError
    return text.strip()
