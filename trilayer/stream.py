"""Streams and row functions: what a view may be computed from.

A `Stream` is a declared topic. `Rows` is the escape from SQL: any stateless DataFrame function of a stream, run by both layers.
"""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

from trilayer.errors import DefinitionError, did_you_mean
from trilayer.expressions import Field, check_name, parse_schema

PARSER = 2
"""Raised when trilayer.events reads some bytes otherwise than before: what an older one read is then parsed anew, as after a change of schema."""


def digest(*parts: Any) -> str:
    """SHA-256 over the canonical JSON of `parts`, as 16 hexadecimal digits: enough to tell definitions apart."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Stream:
    """A topic of JSON events.

    schema: Spark DDL, `carrier string not null, dep_delay int`; an event that lacks a `not null` column is quarantined. A timestamp is ISO 8601
    text, UTC where it names no zone, or a number of seconds since 1970; dates and times are of the years 1 to 9999.
    event_time: the column (timestamp or date) that says when an event happened; events without it are quarantined.
    event_id: the column that names an event, where there is one. topic: the topic's name, the stream's own unless given.
    partitions: used only where trilayer creates the topic. max_event_bytes: a larger value is quarantined as oversized.
    """

    name: str
    schema: str
    _: KW_ONLY
    event_time: str
    event_id: str | None = None
    topic: str = ""
    partitions: int = 2
    max_event_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        check_name(self.name, "name of a stream")
        if not self.topic:
            object.__setattr__(self, "topic", self.name)
        columns = self.columns
        for role in ("event_time", "event_id"):
            name = getattr(self, role)
            if name is not None and name not in columns:
                raise DefinitionError(
                    f"{role} of stream {self.name!r} must be one of its columns; got {name!r}{did_you_mean(name, columns)}"
                )
        if columns[self.event_time] not in ("timestamp", "timestamp_ntz", "date"):
            raise DefinitionError(
                f"event_time of stream {self.name!r} must be a timestamp or a date; got {self.event_time!r},"
                f" which is {columns[self.event_time]}"
            )
        if self.partitions < 1 or self.max_event_bytes < 1:
            raise DefinitionError(f"partitions and max_event_bytes of stream {self.name!r} must be 1 or more")

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        always = (self.event_time, self.event_id)
        parsed = parse_schema(self.schema, f"stream {self.name!r}")
        return tuple(Field(f.name, f.type, f.required or f.name in always) for f in parsed)

    @property
    def columns(self) -> dict[str, str]:
        """Column name to Spark type."""
        return {field.name: field.type for field in self.fields}

    @property
    def stream(self) -> Stream:
        """Itself: every source has a stream at its root."""
        return self

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the same bytes may be read as other columns."""
        fields = [(f.name, f.type, f.required) for f in self.fields]
        return digest("stream", PARSER, self.name, self.topic, fields, self.max_event_bytes)


@dataclass(frozen=True)
class Rows:
    """Rows made from a stream's events by a stateless DataFrame function, run by both layers.

    rows: DataFrame of the stream's columns to DataFrame of `schema`'s columns. It sees one slice of the log at a time,
    so it may map, filter and explode, and must not aggregate, join events to each other or read a clock.
    schema: Spark DDL of what it returns, so that the views on it can be checked without starting Spark.
    """

    name: str
    _: KW_ONLY
    source: Stream
    rows: Callable[[Any], Any]
    schema: str

    def __post_init__(self) -> None:
        check_name(self.name, "name of rows")
        if not isinstance(self.source, Stream):
            raise DefinitionError(
                f"source of rows {self.name!r} must be a Stream; got {type(self.source).__name__}"
            )
        if not callable(self.rows):
            raise DefinitionError(
                f"rows of {self.name!r} must be a function of a DataFrame; got {self.rows!r}"
            )
        _ = self.columns

    @property
    def columns(self) -> dict[str, str]:
        """Column name to Spark type."""
        return {f.name: f.type for f in parse_schema(self.schema, f"rows {self.name!r}")}

    @property
    def stream(self) -> Stream:
        return self.source

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the schema, the source, and the function's code: bytecode, constants, closure and what it calls."""
        return digest("rows", self.name, self.columns, self.source.fingerprint, code_of(self.rows))


Source = Stream | Rows


def code_of(function: Any) -> list[Any]:
    """What a function does, as nested lists: its bytecode, constants, defaults, closure, and the functions and plain values
    that it refers to in its own module tree, followed once each. Libraries count by name.
    """
    return _code(function, set())


def _code(value: Any, seen: set[int]) -> Any:
    if id(value) in seen:
        return "seen"
    if isinstance(value, types.FunctionType):
        seen.add(id(value))
        code = value.__code__
        cells = [_code(cell.cell_contents, seen) for cell in value.__closure__ or ()]
        names = {
            name: _code(value.__globals__[name], seen) for name in _names(code) if name in value.__globals__
        }
        defaults = [_code(v, seen) for v in (value.__defaults__ or ())]
        kwdefaults = {k: _code(v, seen) for k, v in (value.__kwdefaults__ or {}).items()}
        return ["function", _bytecode(code), cells, names, defaults, kwdefaults]
    if isinstance(value, types.ModuleType):
        return ["module", value.__name__]
    if isinstance(value, bool | int | float | str | bytes | type(None)):
        return repr(value)
    if isinstance(value, list | tuple):
        return [_code(v, seen) for v in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(v) for v in value)
    if isinstance(value, dict):
        return {repr(k): _code(v, seen) for k, v in value.items()}
    wrapped = getattr(value, "__wrapped__", None) or getattr(value, "func", None)
    if wrapped is not None:
        extra = [getattr(value, "args", ()), getattr(value, "keywords", {})]
        return ["wrapped", _code(wrapped, seen), _code(extra, seen)]
    return [type(value).__module__, type(value).__qualname__, getattr(value, "__qualname__", "")]


def _names(code: types.CodeType) -> set[str]:
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _bytecode(code: types.CodeType) -> list[Any]:
    consts = [
        _bytecode(c)
        if isinstance(c, types.CodeType)
        else repr(sorted(map(repr, c)) if isinstance(c, frozenset) else c)
        for c in code.co_consts
    ]
    return [code.co_code.hex(), consts, list(code.co_names), list(code.co_varnames), code.co_flags]
