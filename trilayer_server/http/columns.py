"""Columns and values of answers, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from trilayer.operations.values import exact

_NAMES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "halffloat": "FLOAT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "string_view": "VARCHAR",
    "binary": "BLOB",
    "large_binary": "BLOB",
    "binary_view": "BLOB",
    "date32[day]": "DATE",
    "date64[ms]": "DATE",
    "month_day_nano_interval": "INTERVAL",
    "null": "NULL",
}


def columns_json(schema: pa.Schema) -> list[dict[str, str]]:
    """The columns of an answer: the name, and the type as DuckDB names it."""
    return [{"name": field.name, "type": type_name(field.type)} for field in schema]


def type_name(type_: pa.DataType) -> str:
    """The name that DuckDB has for an Arrow type."""
    if (name := _NAMES.get(str(type_))) is not None:
        return name
    if kinds.is_timestamp(type_):
        return "TIMESTAMP WITH TIME ZONE" if type_.tz else "TIMESTAMP"
    if kinds.is_time(type_):
        return "TIME"
    if kinds.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if kinds.is_map(type_):
        return f"MAP({type_name(type_.key_type)}, {type_name(type_.item_type)})"
    if kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_list_view(type_):
        return f"{type_name(type_.value_type)}[]"
    if kinds.is_fixed_size_list(type_):
        return f"{type_name(type_.value_type)}[{type_.list_size}]"
    if kinds.is_struct(type_):
        fields = (f'"{field.name}" {type_name(field.type)}' for field in type_)
        return f"STRUCT({', '.join(fields)})"
    if kinds.is_dictionary(type_):
        return type_name(type_.value_type)
    return str(type_).upper()


def rows_json(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows for JSON, in which whatever a number of JSON may not hold exactly is text."""
    return [[exact(value) for value in row] for row in rows]
