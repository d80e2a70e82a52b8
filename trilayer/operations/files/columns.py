"""Matches the columns of a file with those of a stream, and converts cells to values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trilayer.operations.files.text import as_bytes
from trilayer_core.definitions.expressions import FLOATS, INTEGERS, Field, path_text
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import UsageError, close_name, did_you_mean

NULLS = ("", "NA", "NULL")
"""The cells of a CSV file that are NULL, unless they are quoted text."""


class Quoted(str):
    """A quoted cell.

    It may be NULL in a column of numbers, which some files quote, but never in text.
    """

    __slots__ = ()


def choose_columns(
    header: Sequence[str], stream: Stream, path: Path
) -> tuple[list[tuple[int, Field]], str]:
    """The positions of the stream's columns in the file, and a message about the other columns."""
    chosen: list[tuple[int, Field]] = []
    for field in stream.fields:
        for name in dict.fromkeys([path_text(field.path), ".".join(field.path), field.name]):
            if header.count(name) > 1:
                raise UsageError(
                    f"{path} must have each column once; it has {', '.join(header)}: rename one of"
                    f" {name}"
                )
            if name in header:
                chosen.append((header.index(name), field))
                break
        else:
            if field.required:
                raise UsageError(
                    f"{path} must have the column {path_text(field.path)} of stream"
                    f" {stream.name!r}; it has"
                    f" {', '.join(header)}{did_you_mean(path_text(field.path), header)}; name its"
                    f" column in the schema with `{field.name} {field.type} from 'COLUMN'`, or name"
                    " the file's columns with --columns if it has no header"
                )
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
_FLAGS = {"true": True, "false": False, "1": True, "0": False}


def converter(type_: str) -> Callable[[str], Any]:
    """A function from a cell to the value of a Spark type that it represents, else to its text."""
    if type_ == "string":
        return str

    def convert(cell: str) -> Any:
        if isinstance(cell, Quoted) and cell in NULLS:
            return None
        text = cell.strip()
        if type_ in INTEGERS or type_ == "timestamp":
            return int(text) if _INTEGER.match(text) and len(text) < 40 else text
        if type_ in FLOATS:
            return float(text) if _FLOAT.match(text) else text
        if type_ == "boolean":
            return _FLAGS.get(text.lower(), text)
        if type_ == "binary":
            return as_bytes(cell)
        if type_.startswith(("array<", "struct<", "map<")):
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                return text
        return text

    return convert
