"""The sources of views: streams and rows.

A `Stream` is a declared topic. `Rows` are the way to go beyond SQL: rows that a stateless DataFrame
function makes from a stream, in both layers.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import inspect
import json
import logging
import re
import struct
import sys
import threading
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass, replace
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from trilayer_core.definitions.expressions import INTEGERS, check_name, is_decimal
from trilayer_core.definitions.formats import Format
from trilayer_core.definitions.schemas import Field, parse_schema
from trilayer_core.definitions.source_code import source_of
from trilayer_core.definitions.tables import Table
from trilayer_core.errors import DefinitionError, did_you_mean, short_traceback

if TYPE_CHECKING:
    from trilayer_core.definitions.guards import Guard

PARSER = 7
"""The version of the JSON format. Increase it when the same bytes would be parsed differently.

What an older version has parsed is then parsed again, as after a change of the schema.
"""


def digest(*parts: Any) -> str:
    """The first 16 hexadecimal digits of a SHA-256 over the canonical JSON of `parts`.

    That many are enough to tell definitions apart.
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


@short_traceback
@dataclass(frozen=True)
class Stream:
    """A topic of events, and how they are parsed.

    A `timestamp` inside an array, struct or map must be text that begins with a date.

    Attributes:
        name: Its name for views and commands.
        schema: Spark DDL such as `carrier string not null, dep_delay int`. An event that lacks a
            `not null` column is quarantined. A column is read from the event's field of the same
            name, or from the field that it names: `vendor_id int from 'VendorID', city string from
            'address.city'`; a name that contains a dot is in backticks. A timestamp is ISO 8601
            text, in UTC unless it names a zone, or a number of seconds since 1970, with or without
            a fraction. Numbers of another unit need a declaration, as in `at timestamp from 'ts' in
            milliseconds`: `seconds`, `milliseconds`, `microseconds` or `nanoseconds` for a
            timestamp or timestamp_ntz, `days` for a date; the numbers may then also be text. Dates
            and times are in the years 1 to 9999. A decimal is a number, or a number as text without
            commas, with an exponent of at most three digits and at most 1,000 characters.
        event_time: The timestamp or date column that says when an event happened. Events without it
            are quarantined.
        event_id: The column that identifies an event, if there is one. Events without it are
            quarantined.
        topic: The topic's name; by default that of the stream.
        partitions: The number of partitions, if trilayer creates the topic.
        max_event_bytes: A larger value is quarantined as oversized.
        format: How the bytes of an event are parsed; by default as JSON.
        record_key: The column whose value is the key of each record, if producers send one, so that
            the events of a key are in one partition. It is a string, an integer or a decimal.
            `trilayer replay` sends it as text.
    """

    name: str
    schema: str
    _: KW_ONLY
    event_time: str
    event_id: str | None = None
    topic: str = ""
    partitions: int = 2
    max_event_bytes: int = 1_000_000
    format: Format | None = None
    record_key: str | None = None

    guards: ClassVar[tuple[Guard, ...]] = ()
    """The expressions of a catalog over the stream that may fail; `Catalog` sets them."""

    def __post_init__(self) -> None:
        check_name(self.name, "name of a stream")
        if not self.topic:
            object.__setattr__(self, "topic", self.name)
        columns = self.columns
        for role in ("event_time", "event_id", "record_key"):
            name = getattr(self, role)
            if name is not None and name not in columns:
                raise DefinitionError(
                    f"{role} of stream {self.name!r} must be one of its columns; got"
                    f" {name!r}{did_you_mean(name, columns)}"
                )
        if columns[self.event_time] not in ("timestamp", "timestamp_ntz", "date"):
            raise DefinitionError(
                f"event_time of stream {self.name!r} must be a timestamp or a date; got"
                f" {self.event_time!r}, which is {columns[self.event_time]}"
            )
        if self.format is not None and not isinstance(self.format, Format):
            raise DefinitionError(
                f"format of stream {self.name!r} must be a Format, or none for JSON; got"
                f" {self.format!r}"
            )
        numbers = [field.name for field in self.fields if field.unit]
        if numbers and self.format is not None and not self.format.units:
            raise DefinitionError(
                f"format of stream {self.name!r} must have `units = True` and read numbers in the"
                f" unit of a field, because {numbers[0]} has one; got {self.format!r}"
            )
        self._check_record_key()
        if self.partitions < 1 or self.max_event_bytes < 1:
            raise DefinitionError(
                f"partitions and max_event_bytes of stream {self.name!r} must be 1 or more"
            )

    def _check_record_key(self) -> None:
        if self.record_key is None:
            return
        type_ = self.columns[self.record_key]
        if type_ != "string" and type_ not in INTEGERS and not is_decimal(type_):
            raise DefinitionError(
                f"record_key of stream {self.name!r} must be a string, an integer or a decimal, of"
                f" which equal values have equal texts; got {self.record_key!r}, which is {type_}"
            )
        if self.format is not None and type(self.format).key_text is Format.key_text:
            raise DefinitionError(
                f"format of stream {self.name!r} must have a method `key_text`, because the stream"
                f" has a record_key; got {self.format!r}"
            )

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns, checked."""
        always = (self.event_time, self.event_id)
        parsed = parse_schema(self.schema, f"stream {self.name!r}", events=True)
        return tuple(replace(f, required=f.required or f.name in always) for f in parsed)

    @property
    def columns(self) -> dict[str, str]:
        """Column name to Spark type."""
        return {field.name: field.type for field in self.fields}

    @property
    def stream(self) -> Stream:
        """The stream itself, because every source has a stream at its root."""
        return self

    @cached_property
    def fingerprint(self) -> str:
        """Changes if the same bytes may be parsed into other columns."""
        own = [
            (*([f.path] if f.path != (f.name,) or f.unit else []), *([f.unit] if f.unit else []))
            for f in self.fields
        ]
        fields = [
            (f.name, f.type, f.required, *path) for f, path in zip(self.fields, own, strict=True)
        ]
        version = list(self.format.identity) if self.format else PARSER
        guards = [[guard.sql for guard in self.guards]] if self.guards else []
        return digest(
            "stream", version, self.name, self.topic, fields, self.max_event_bytes, *guards
        )

    def guarded_by(self, guards: Sequence[Guard]) -> Stream:
        """The same stream, of which events that one of the expressions can't take do not count."""
        if tuple(guards) == self.guards:
            return self
        other = replace(self)
        object.__setattr__(other, "guards", tuple(guards))
        return other


def fingerprint_with(stream: Stream, views: Mapping[str, str]) -> str:
    """Identifies a stream's parser together with views, given as their fingerprints by name."""
    return digest(stream.fingerprint, sorted(views.items()))


@short_traceback
@dataclass(frozen=True)
class Rows:
    """Rows that a stateless DataFrame function makes from a stream's events, in both layers.

    Attributes:
        name: Their name in messages.
        source: The stream.
        rows: A function from a DataFrame with the stream's columns to one with the columns of
            `schema`. It gets one slice of the log at a time, so it can map, filter and explode. It
            must not aggregate, join events with each other or read a clock. Its code is part of the
            definition, together with what it uses from your own modules that are imported at the
            top of a file.
        schema: Spark DDL of the columns that it returns, so that views over them can be checked
            without starting Spark.
        tables: Reference tables, which the function gets as further DataFrames, in this order.
            Spark sends them to all tasks when it joins them.
    """

    name: str
    _: KW_ONLY
    source: Stream
    rows: Callable[..., Any]
    schema: str
    tables: Sequence[Table] = ()

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
        if isinstance(self.tables, Table) or not all(isinstance(t, Table) for t in self.tables):
            raise DefinitionError(
                f"tables of rows {self.name!r} must be a list of Table; got {self.tables!r}"
            )
        try:
            inspect.signature(self.rows).bind(None, *self.tables)
        except TypeError as error:
            raise DefinitionError(
                f"rows of {self.name!r} must be a function of {self._arguments}; got"
                f" {getattr(self.rows, '__name__', self.rows)}{inspect.signature(self.rows)}:"
                f" {error}"
            ) from None
        except ValueError:
            pass  # a C function without a signature
        _ = self.columns

    @property
    def _arguments(self) -> str:
        if not self.tables:
            return "a DataFrame and nothing else"
        return f"a DataFrame and one for each of {', '.join(t.name for t in self.tables)}"

    @property
    def columns(self) -> dict[str, str]:
        """Column name to Spark type."""
        return {f.name: f.type for f in parse_schema(self.schema, f"rows {self.name!r}")}

    @property
    def stream(self) -> Stream:
        """The stream from which the rows are made."""
        return self.source

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the schema, the source, the content of tables, and the function's code.

        The code is what `code_of` returns.
        """
        code = code_of(self.rows)
        tables = [[(table.name, table.digest) for table in self.tables]] if self.tables else []
        return digest("rows", self.name, self.columns, self.source.fingerprint, code, *tables)


Source = Stream | Rows


def code_of(function: Any) -> Any:
    """The code of a function, as nested lists.

    It contains the source, the defaults and the closure, and everything that the function refers to
    in the author's own modules, each followed once. Python itself and installed libraries are
    represented by name, together with the objects that they wrap.

    The result is the same in every process and under every minor version of Python. The exception
    is a function without source, such as one typed into an interpreter: it is represented by its
    bytecode, which differs between minor versions.
    """
    try:
        return _code(function, None, {})
    except _UnknownContent as error:
        place = ".".join(reversed(error.path)) or "itself"
        raise DefinitionError(
            f"what {getattr(function, '__qualname__', function)} uses must be objects that pickle"
            f" can describe, so that a change of them is noticed; got {place}, {error}; create it"
            " inside the function, or give its class a method __reduce__ that returns its content"
        ) from None
    except RecursionError:
        raise DefinitionError(
            f"what {getattr(function, '__qualname__', function)} uses must be nested less deeply"
            " than Python's recursion limit allows; create it inside the function"
        ) from None


class _UnknownContent(Exception):
    """An object whose content can't be read; `path` is where it is, innermost name first."""

    def __init__(self, value: Any) -> None:
        super().__init__(f"which is a {type(value).__module__}.{type(value).__qualname__}")
        self.path: list[str] = []


# Types whose repr contains their whole value.
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    date,
    time,
    timedelta,
    tzinfo,
    Decimal,
    UUID,
    PurePath,
    range,
)

_PARTS: dict[type, tuple[str, ...]] = {
    functools.partial: ("func", "args", "keywords"),
    types.MethodType: ("__func__", "__self__"),
    types.BuiltinFunctionType: ("__qualname__", "__self__"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget",),
    functools.partialmethod: ("func", "args", "keywords"),
    struct.Struct: ("format",),
}

# Objects that mean nothing to a function's result: what logs, guards or caches, and what Python
# adds to a class.
_WITHOUT_CONTENT = (
    logging.Logger,
    type(threading.Lock()),
    type(threading.RLock()),
    weakref.ref,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    type(vars(Mapping)["_abc_impl"]),
)


def _code(value: Any, by: types.FunctionType | None, seen: dict[Any, Any]) -> Any:
    """The meaning of a value, as nested lists.

    Args:
        value: The value.
        by: The function that refers to it.
        seen: The values followed so far, numbered. They are stored because their ids are the keys.

    Raises:
        _UnknownContent: The value is, or holds, an object that pickle can't describe.
    """
    content = _content(value, by, seen)
    more = _beyond_content(value, by)
    return ["with", content, _code(more, by, seen)] if more else content


def _beyond_content(value: Any, by: types.FunctionType | None) -> tuple[Any, ...]:
    """What `_content` omits of a value whose class derives from one that it knows.

    The class itself is among it if the author wrote it.
    """
    kind = type(value)
    if isinstance(value, Enum):
        own = [base for base in kind.__mro__ if _is_own(base.__module__, by)]
        return (kind,) if any(map(_written, own)) else ()
    if not isinstance(value, (*_PLAIN, tuple, list, dict, set, frozenset)):
        return ()
    if _is_own(kind.__module__, by):
        return (kind, *_attributes(value))
    factory = getattr(value, "default_factory", None)  # of a defaultdict
    return () if factory is None else (factory,)


def _content(value: Any, by: types.FunctionType | None, seen: dict[Any, Any]) -> Any:
    if isinstance(value, Enum):
        return ["enum", type(value).__qualname__, value.name, _code(value.value, by, seen)]
    if isinstance(value, Table):
        return ["table", value.name, value.digest]  # its path may differ between machines
    if isinstance(value, re.Pattern):
        return ["pattern", repr(value.pattern), value.flags]  # its repr ends after 200 characters
    if isinstance(value, memoryview):
        return ["memoryview", value.format, value.shape, repr(value.tobytes())]
    by_repr = isinstance(value, _PLAIN) and type(value).__repr__ is not object.__repr__
    if by_repr or type(value).__module__ == "pyspark.sql.types":
        return repr(value)
    if isinstance(value, tuple):
        return [_code(v, by, seen) for v in value]
    if isinstance(value, set | frozenset):
        # Each element separately, because the order of a set differs from process to process.
        return sorted(digest(_code(v, by, dict(seen))) for v in value)
    key = (id(value), id(by) if isinstance(value, types.ModuleType) else None)
    if key in seen:
        return ["seen", seen[key][0]]
    seen[key] = (len(seen), value)
    if isinstance(value, list):
        return ["list", *(_code(v, by, seen) for v in value)]
    if isinstance(value, dict | types.MappingProxyType):
        return ["dict", *(_code(item, by, seen) for item in value.items())]
    if isinstance(value, types.FunctionType):
        return _function(value, by, seen)
    if isinstance(value, types.ModuleType):
        named = _named(vars(value), by, seen) if _is_own(value.__name__, by) else {}
        return ["module", value.__name__, named]
    for kind, parts in _PARTS.items():
        if isinstance(value, kind):
            return [kind.__name__, *(_code(getattr(value, part), by, seen) for part in parts)]
    if isinstance(value, type):
        return ["class", value.__qualname__, _code(_body(value, by), by, seen)]
    return ["object", _code(type(value), by, seen), _code(_state(value, by), by, seen)]


def _function(
    value: types.FunctionType, by: types.FunctionType | None, seen: dict[Any, Any]
) -> list[Any]:
    cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
    if by is not None and not _is_own(value.__module__, by):
        return ["function", _home(value.__module__), value.__qualname__, _code(cells, by, seen)]
    given = _code((cells, value.__defaults__, value.__kwdefaults__), value, seen)
    said = source_of(value.__code__) or _bytecode(value.__code__)
    named = _named(value.__globals__, value, seen)
    # What functools.wraps sets is in the closure.
    own = {name: v for name, v in vars(value).items() if name != "__wrapped__"}
    return ["function", said, given, named, *([_code(own, value, seen)] if own else [])]


def _named(
    namespace: Mapping[str, Any], by: types.FunctionType | None, seen: dict[Any, Any]
) -> dict[str, Any]:
    """The variables of a module that the code of `by` names."""
    names = _names(by.__code__) if by else ()
    found = {}
    for name in sorted(names):
        if name in namespace:
            try:
                found[name] = _code(namespace[name], by, seen)
            except _UnknownContent as error:
                error.path.append(name)
                raise
    return found


def _body(value: type, by: types.FunctionType | None) -> tuple[Any, ...]:
    if not _is_own(value.__module__, by):
        return (_home(value.__module__),)
    # The members that Python generates for an enumeration, a dataclass or a named tuple differ
    # between versions; the definitions they are generated from do not.
    if issubclass(value, Enum):
        values = [(name, member.value) for name, member in value.__members__.items()]
        return (value.__bases__, values, *_written(value))
    if issubclass(value, tuple) and hasattr(value, "_fields"):
        defaults = getattr(value, "_field_defaults", {})
        return (value.__bases__, value._fields, defaults, *_written(value))
    if is_dataclass(value):
        options = {name: getattr(value.__dataclass_params__, name) for name in _DATACLASS_OPTIONS}  # type: ignore[attr-defined]  # typeshed has it not
        members = [
            (f.name, f.default, f.default_factory)
            for f in fields(value)
            if f.name in value.__annotations__
        ]
        return (value.__bases__, options, members, *_written(value))
    # The other attributes that Python adds carry no meaning, or contain line numbers.
    own = [(k, v) for k, v in vars(value).items() if callable(v) or not k.startswith("__")]
    return (value.__bases__, *own)


_DATACLASS_OPTIONS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")


def _written(value: type) -> list[tuple[str, Any]]:
    """The methods and properties of a class that its author wrote."""
    found = []
    for name, member in vars(value).items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not isinstance(function, types.FunctionType):
            continue
        if function.__globals__.get("__name__") != value.__module__:
            continue
        if source_of(function.__code__) is not None:
            found.append((name, member))
    return found


def _state(value: Any, by: types.FunctionType | None) -> tuple[Any, ...]:
    """The content of an object: its attributes if its class is the author's, else its pickle."""
    if is_dataclass(value):
        return tuple((field.name, getattr(value, field.name)) for field in fields(value))
    if isinstance(value, _WITHOUT_CONTENT):
        return ()
    state = getattr(value, "__dict__", {})
    own = _is_own(type(value).__module__, by)
    # The functions and types that functools and Spark's UDFs wrap.
    wrapped = [state[name] for name in ("__wrapped__", "func", "_returnType") if name in state]
    if type(value) is types.SimpleNamespace:
        return tuple(state.items())
    if wrapped and not own:
        return tuple(wrapped)
    make, given, state, *items = _reduced(value)
    new = copyreg.__newobj__  # type: ignore[attr-defined]  # typeshed has it not
    plain = make is new and given == (type(value),) and not any(items)
    if plain and (own or state is None):
        return _attributes(value)
    return (*(_attributes(value) if own else ()), make, given, state, *items)


def _attributes(value: Any) -> tuple[Any, ...]:
    """The names and values of an object's attributes, with those in slots."""
    names = copyreg._slotnames(type(value))  # type: ignore[attr-defined]  # typeshed has it not
    slots = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
    return (*getattr(value, "__dict__", {}).items(), *slots)


def _reduced(value: Any) -> tuple[Any, ...]:
    """What pickle would make an object from: a function, its arguments, state and items.

    The parts, not the bytes: those depend on the order of sets and on which objects are shared.

    Raises:
        _UnknownContent: It can't be pickled.
    """
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        reduced = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  # its class may raise anything
        raise _UnknownContent(value) from None
    if isinstance(reduced, str):  # the name of a variable of its module
        return (reduced, (getattr(value, "__module__", None),), None, None, None)
    make, given, state, items, pairs = (*reduced, None, None, None)[:5]
    return (make, given, state, *(None if i is None else [*i] for i in (items, pairs)))


def _is_own(module: str | None, by: types.FunctionType | None) -> bool:
    """Whether a module belongs to the author.

    It does if it is in the same package as the function that refers to it, or if it is neither part
    of Python nor installed.
    """
    package = str(module).partition(".")[0]
    # Regardless of where they are installed: spark-submit brings its own pyspark.
    if package in ("pyspark", "py4j", "trilayer", "trilayer_core"):
        return False
    if by is not None and package == str(by.__module__).partition(".")[0]:
        return True
    if package in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(str(module)), "__file__", None) or ""
    return not {"site-packages", "dist-packages"} & {*PurePath(file).parts}


def _home(module: str) -> str:
    """The name that represents a module which does not belong to the author.

    The definitions have moved from `trilayer` to `trilayer_core`. Their former names are used, so
    that the fingerprints in existing stores stay valid.
    """
    return module.replace("trilayer_core.definitions.", "trilayer.")


def _names(code: types.CodeType) -> set[str]:
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    # A module has another name when it is run than when it is imported, and the name is in the code
    # of every class.
    return (set(code.co_names) - {"__name__"}).union(*map(_names, inner))


def _bytecode(code: types.CodeType) -> list[Any]:
    consts = [
        _bytecode(c)
        if isinstance(c, types.CodeType)
        else repr(sorted(map(repr, c)) if isinstance(c, frozenset) else c)
        for c in code.co_consts
    ]
    return [code.co_code.hex(), consts, list(code.co_names), list(code.co_varnames), code.co_flags]
