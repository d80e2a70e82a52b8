"""Matches the columns of a file with those of a stream, and converts cells to values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sqlglot import exp

from trilayer.operations.files.text import as_bytes
from trilayer_core.compute.formats.json import jsonable
from trilayer_core.definitions.expressions import FLOATS, INTEGERS, is_decimal, normal_type
from trilayer_core.definitions.schemas import Field, path_text
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import UsageError, close_name, did_you_mean

TEXT_NULLS = ("", r"\N")
"""The cells that are NULL in a column of text, unless they are quoted. Hive writes `\\N`."""

NULLS = (*TEXT_NULLS, "NA", "NULL")
"""The cells that are NULL in a column of another type, of which they can't be values."""

Convert = Callable[[Any], Any]


class Quoted(str):
    """A quoted cell, which is never NULL in a column of text."""

    __slots__ = ()


def choose_columns(
    header: Sequence[str], stream: Stream, path: Path
) -> tuple[list[tuple[int, Field]], str]:
    """Returns the positions of the stream's columns, and a message about the other columns."""
    places: dict[Field, int] = {}
    paths = {name for field in stream.fields for name in _path_names(field)}
    for same in (str, str.lower):  # Hive writes all names in lower case
        for field in stream.fields:
            if field not in places:
                names = [*_path_names(field), field.name]
                if same(field.name) in map(same, paths.difference(_path_names(field))):
                    names.remove(field.name)  # the column is another field's
                place = _place(header, names, same, set(places.values()), path)
                places |= {field: place} if place is not None else {}
    for field in stream.fields:
        if field.required and field not in places:
            raise UsageError(
                f"{path} must have the column {path_text(field.path)} of stream {stream.name!r};"
                f" it has {', '.join(header)}{did_you_mean(path_text(field.path), header)}; name"
                f" its column in the schema with `{field.name} {field.type} from 'COLUMN'`, or"
                " name the file's columns with --columns if it has no header"
            )
    chosen = [(places[field], field) for field in stream.fields if field in places]
    used = {place for place, _ in chosen}
    taken = [header[place] for place in used]
    unfound = [
        path_text(field.path) for field in stream.fields if field not in [f for _, f in chosen]
    ]
    rest = [
        name + (did_you_mean(name, unfound) if close_name(name, unfound) else "")
        for place, name in enumerate(header)
        if place not in used and name and not any(u.startswith(f"{name}.") for u in taken)
    ]
    return (
        chosen,
        f"left out, since the schema has no such column: {', '.join(rest)}" if rest else "",
    )


def _path_names(field: Field) -> list[str]:
    """Returns the names of a column that has a field's path."""
    return [path_text(field.path), ".".join(field.path)]


def _place(
    header: Sequence[str],
    names: Sequence[str],
    same: Callable[[str], str],
    used: set[int],
    path: Path,
) -> int | None:
    """Returns the position of a column with one of these names, compared after `same`."""
    for name in dict.fromkeys(names):
        places = [n for n, other in enumerate(header) if same(other) == same(name)]
        if len(places) > 1:
            raise UsageError(
                f"{path} must have each column once; it has {', '.join(header)}: rename one of"
                f" {name}"
            )
        if places and places[0] not in used:
            return places[0]
    return None


def partitions_of(path: Path, stream: Stream) -> dict[str, str | None]:
    """Returns the columns that a file's folders name, as in `day=2026-01-01/a.parquet`.

    Hive and Spark write them so, and not into the file.
    """
    names = {name.lower() for field in stream.fields for name in (field.name, field.path[-1])}
    pairs = (part.split("=", 1) for part in path.absolute().parent.parts if "=" in part)
    return {
        unquote(name): None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
        for name, value in pairs
        if unquote(name).lower() in names
    }


def put(row: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Puts a value into nested dictionaries, which are created as needed."""
    for step in path[:-1]:
        row = row.setdefault(step, {})
    row[path[-1]] = value


_INTEGER = re.compile(r"[-+]?\d+\Z", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\Z|[-+]?(?:nan|inf(?:inity)?)\Z",
    re.IGNORECASE | re.ASCII,
)
_CALENDAR = re.compile(
    r"(?:19|20|21)\d\d(?:(?:0[1-9]|1[0-2])"  # a year, or with a month, a day, a minute, a second
    r"(?:(?:0[1-9]|[12]\d|3[01])(?:(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?)?)?)?\Z",
    re.ASCII,
)
_FLAGS = {"true": True, "false": False, "1": True, "0": False}


def of_cell(field: Field) -> Convert:
    """Returns a function from a cell of a CSV file to its value in a column."""
    convert = converter(field.type, field.unit)
    if field.type in ("string", "binary"):
        return lambda cell: (
            None if cell in TEXT_NULLS and not isinstance(cell, Quoted) else convert(str(cell))
        )
    return lambda cell: None if cell.strip() in NULLS else convert(cell)


def converter(type_: str, unit: str = "") -> Convert:
    """Returns a function that converts a value to a Spark type, if that loses nothing.

    Args:
        type_: The type.
        unit: The unit of a time, see `Field.unit`.
    """
    inside = _inside(type_)

    def convert(value: Any) -> Any:
        if isinstance(value, bytes) and type_ != "binary":
            # Text of Impala and old Hive. Bytes that are not UTF-8 are quarantined as such.
            value = value.decode("utf-8", "surrogateescape")
        if isinstance(value, str):
            value = _of_text(value, type_, unit)
        elif isinstance(value, int | float | Decimal):
            value = _of_number(value, type_, unit)
        return inside(value) if inside and isinstance(value, list | Mapping) else value

    return convert


def _of_text(text: str, type_: str, unit: str) -> Any:
    plain = text.strip()
    if type_ == "binary":
        return as_bytes(text)
    if type_ == "timestamp" and not unit and _CALENDAR.match(plain):
        return plain  # which the parser rejects; as a number of seconds it would be in 1970
    if type_ in INTEGERS or type_ == "timestamp" or unit:
        if _INTEGER.match(plain) and len(plain) < 40:
            return int(plain)
        # A number with a fraction; beside a unit it may be text, which keeps all digits.
        seconds = type_ == "timestamp" and not unit and _FLOAT.match(plain)
        return float(plain) if seconds and plain[-1].isdigit() else plain
    if type_ in FLOATS:
        return float(plain) if _FLOAT.match(plain) else plain
    if type_ == "boolean":
        return _FLAGS.get(plain.lower(), plain)
    if type_.startswith(("array<", "struct<", "map<")):
        try:
            return json.loads(plain, parse_float=Decimal)
        except (ValueError, RecursionError):
            return plain
    return text if type_ == "string" else plain


def _of_number(value: float | Decimal, type_: str, unit: str) -> Any:
    if type_ == "string" and isinstance(value, float) and not math.isfinite(value):
        return _key(value)
    if value != value and type_ not in FLOATS:
        return None  # as pandas stores NULL among numbers
    if type_ == "boolean" and type(value) is int and value in (0, 1):
        return bool(value)
    if type_ in INTEGERS and not isinstance(value, int) and _is_whole(value):
        return int(value)
    if isinstance(value, float) and is_decimal(type_):
        return repr(value)
    # A number of a unit may be text, which keeps all digits.
    if isinstance(value, Decimal) and type_ in (*FLOATS, "timestamp") and not unit:
        return float(value)
    return value


def _is_whole(value: float | Decimal) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return value == value.to_integral_value()


def _inside(type_: str) -> Convert | None:
    """Returns the function for the values inside an array, struct or map; None for another type."""
    if not type_.startswith(("array<", "struct<", "map<")):
        return None
    inner = exp.DataType.build(type_, dialect="spark").expressions
    if not type_.startswith("struct<"):
        of_one = converter(normal_type(inner[-1]))
        return lambda value: (
            {_key(name): of_one(one) for name, one in value.items()}
            if isinstance(value, Mapping)
            else [of_one(one) for one in value]
        )
    fields = {field.name: converter(normal_type(field.kind)) for field in inner}
    written = {name.lower(): name for name in fields}

    def of_struct(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        row = {
            name
            if name in fields or (own := written.get(name.lower(), name)) in value
            else own: one
            for name, one in value.items()
        }
        return {name: fields[name](one) if name in fields else one for name, one in row.items()}

    return of_struct


def _key(name: Any) -> str:
    """Returns the text of a map's key, as JSON writes such a value."""
    if isinstance(name, bytes):
        return name.decode("utf-8", "surrogateescape")
    return name if isinstance(name, str) else json.dumps(name, default=jsonable).strip('"')
