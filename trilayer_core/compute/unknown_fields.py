"""Counts the fields of events that their stream's schema does not have.

They are ignored. A field whose name is misspelt would silently be NULL, so users are told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from trilayer_core.compute.formats import format_of
from trilayer_core.definitions.schemas import path_text
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import close_name

Inner = dict[str | None, "Inner"]
"""The fields inside values of a type; None is each element of an array, or each value of a map."""


class UnknownFields(Counter[str]):
    """Counts, by path, the events that have a field which a stream's schema does not have."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream, self._format = stream, format_of(stream)
        self._known: Inner = {}
        self._beside: dict[str, set[str]] = {}
        for field in stream.fields:
            inner: Any = self._known
            for step in field.path[:-1]:
                inner = inner.setdefault(step, {})
            inner[field.path[-1]] = _inner_fields(exp.DataType.build(field.type, dialect="spark"))

    def count(self, value: bytes | None) -> None:
        """Counts the unknown fields of an event with these bytes."""
        event = None if value is None else self._format.content(value)
        # Elements of an array can have the same field, which is one of the event.
        unknown = dict.fromkeys(map(_printable, _paths(event, self._known, False)))
        beside = set(_paths(event, self._known, True)) if unknown else set()
        for name in unknown:
            if not name.startswith("__"):  # of the format or of a tool, as Debezium's __op
                self[name] += 1
                self._beside.setdefault(name, set()).update(beside)

    def __str__(self) -> str:
        """A message that names the ten most frequent, with the number of events that have each.

        It adds the field of the schema that was possibly meant, which is none that one of these
        events has beside the unknown one.
        """
        known = set(_all_paths(self._known))
        parts = []
        for name, number in self.most_common(10):
            near = close_name(name, known - self._beside[name])
            hint = f"; did you mean {near!r}?" if near else ""
            parts.append(f"{name} ({number:,}{hint})")
        more = f" and {len(self) - 10} more" if len(self) > 10 else ""
        return (
            f"fields that the schema of {self._stream.name} does not have: {', '.join(parts)}{more}"
        )


def _printable(text: str) -> str:
    """The text without unpaired surrogates, which JSON can escape but no output can encode."""
    return text.encode(errors="backslashreplace").decode()


def _inner_fields(type_: exp.DataType) -> Inner:
    """The fields inside values of a type."""
    if type_.is_type("struct"):
        return {field.name: _inner_fields(field.kind) for field in type_.expressions}
    if type_.is_type("array", "map"):
        inner = _inner_fields(type_.expressions[-1])
        return {None: inner} if inner else {}
    return {}


def _paths(value: Any, known: Inner, in_schema: bool, path: str = "") -> Iterator[str]:
    """The paths of fields inside a value, such as `lines[].sku`.

    Args:
        value: A value as Python reads it from JSON.
        known: The fields inside it that the schema has.
        in_schema: Whether to return the fields that the schema has and that are not NULL, or those
            that it does not have.
        path: The path of the value.
    """
    if None in known:
        values = value.values() if isinstance(value, dict) else value
        for inner in values if isinstance(value, dict | list) else ():
            yield from _paths(inner, known[None], in_schema, f"{path}[]")
        return
    for name, inner in value.items() if known and isinstance(value, dict) else ():
        at = _joined(path, name)
        if (name in known) is in_schema and not (in_schema and inner is None):
            yield at
        if name in known:
            yield from _paths(inner, known[name], in_schema, at)


def _joined(path: str, name: str | None) -> str:
    if name is None:
        return f"{path}[]"
    return f"{path}.{path_text((name,))}" if path else path_text((name,))


def _all_paths(known: Inner, path: str = "") -> Iterator[str]:
    """The paths of all fields that have no others inside."""
    for name, inner in known.items():
        at = _joined(path, name)
        yield from _all_paths(inner, at) if inner else [at]
