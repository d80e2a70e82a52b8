"""What identifies a definition: a digest of its parts, and the code of its functions."""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import inspect
import json
import logging
import re
import struct
import sys
import sysconfig
import threading
import types
import weakref
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath
from typing import Any
from uuid import UUID

from trilayer_core.definitions.source_code import source_of
from trilayer_core.definitions.tables import Table
from trilayer_core.errors import DefinitionError


def digest(*parts: Any) -> str:
    """The first 16 hexadecimal digits of a SHA-256 over the canonical JSON of `parts`.

    That many are enough to tell definitions apart.
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


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
        return _code(function, _root(function), {})
    except _OpaqueObject as error:
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


def _root(value: Any) -> types.FunctionType | None:
    """The function that runs when a value is called; its package is the author's."""
    while isinstance(value, functools.partial):
        value = value.func
    if not isinstance(value, types.FunctionType | types.MethodType | type):
        value = inspect.getattr_static(type(value), "__call__", None)
    value = value.__func__ if isinstance(value, types.MethodType) else value
    return value if isinstance(value, types.FunctionType) else None


class _OpaqueObject(Exception):
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
    weakref.WeakKeyDictionary,
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
        _OpaqueObject: The value is, or holds, an object that pickle can't describe.
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
        return (kind,) if any(_written(base, by) for base in own) else ()
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
    if _has_full_repr(value, by) or type(value).__module__ == "pyspark.sql.types":
        return repr(value)
    if isinstance(value, tuple):
        return [_code(v, by, seen) for v in value]
    if isinstance(value, set | frozenset):
        # Each element separately, because the order of a set differs from process to process.
        return sorted(digest(_code(v, by, dict(seen))) for v in value)
    if id(value) in seen:
        return ["seen", seen[id(value)][0]]
    seen[id(value)] = (len(seen), value)
    if isinstance(value, list):
        return ["list", *(_code(v, by, seen) for v in value)]
    if isinstance(value, dict | types.MappingProxyType):
        return ["dict", *(_code(item, by, seen) for item in value.items())]
    if isinstance(value, types.FunctionType):
        return _function(value, by, seen)
    if isinstance(value, types.ModuleType):
        names = sorted(n for n in vars(value) if not n.startswith("__") or n == "__getattr__")
        own = _is_own(value.__name__, by)
        return ["module", value.__name__, _named(names if own else (), vars(value), by, seen)]
    for kind, parts in _PARTS.items():
        if isinstance(value, kind):
            parts += tuple(part for part in ("fset", "fdel") if getattr(value, part, None))
            return [kind.__name__, *(_code(getattr(value, part), by, seen) for part in parts)]
    if isinstance(value, type):
        return ["class", value.__qualname__, _code(_body(value, by), by, seen)]
    return ["object", _code(type(value), by, seen), _code(_state(value, by), by, seen)]


def _has_full_repr(value: Any, by: types.FunctionType | None) -> bool:
    if not isinstance(value, _PLAIN):
        return False
    base = next(base for base in type(value).__mro__ if "__repr__" in vars(base))
    hidden = isinstance(value, tzinfo) and "(...)" in repr(value)
    return base is not object and not hidden and not _is_own(base.__module__, by)


def _function(
    value: types.FunctionType, by: types.FunctionType | None, seen: dict[Any, Any]
) -> list[Any]:
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    if by not in (None, value) and not _is_own(value.__module__, by):
        content = _code(tuple(cells), by, seen)
        return ["function", _home(value.__module__), value.__qualname__, content]
    inner = zip(value.__code__.co_freevars, cells, strict=True)
    given = [
        [_variable(name, cell, value, seen) for name, cell in inner],
        *(_code(v, value, seen) for v in (value.__defaults__, value.__kwdefaults__)),
    ]
    source = source_of(value.__code__) or _bytecode(value.__code__)
    named = _named(sorted(_names(value.__code__)), value.__globals__, value, seen)
    # What functools.wraps sets is in the closure.
    own = {name: v for name, v in vars(value).items() if name != "__wrapped__"}
    return ["function", source, given, named, *([_code(own, value, seen)] if own else [])]


def _named(
    names: Iterable[str],
    namespace: Mapping[str, Any],
    by: types.FunctionType | None,
    seen: dict[Any, Any],
) -> dict[str, Any]:
    """Those variables of a module that have the names."""
    variables = {}
    for name in names:
        if name in namespace:
            try:
                variables[name] = _variable(name, namespace[name], by, seen)
            except _OpaqueObject as error:
                error.path.append(name)
                raise
    return variables


def _variable(name: str, value: Any, by: types.FunctionType | None, seen: dict[Any, Any]) -> Any:
    """The meaning of a variable; of a module only what `by` names, if it hands it on nowhere."""
    if not isinstance(value, types.ModuleType) or by is None:
        return _code(value, by, seen)
    if "__getattr__" in vars(value) or _hands_on(by.__code__, name):
        return _code(value, by, seen)
    key = (id(value), id(by))
    if key in seen:
        return ["seen", seen[key][0]]
    seen[key] = (len(seen), value)
    names = sorted(_names(by.__code__)) if _is_own(value.__name__, by) else ()
    return ["module", value.__name__, _named(names, vars(value), by, seen)]


# Without those of a closure, and of local variables, whose names may be those of modules.
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_DEREF",
          "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS")  # fmt: skip


def _hands_on(code: types.CodeType, name: str) -> bool:
    """Whether code does more with a module than to load its attributes by name."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    return any(
        step.argval == name
        and step.opname in _LOADS
        and after.opname not in ("LOAD_ATTR", "LOAD_METHOD")
        for step, after in pairwise(steps)
    ) or any(_hands_on(c, name) for c in code.co_consts if isinstance(c, types.CodeType))


def _body(value: type, by: types.FunctionType | None) -> tuple[Any, ...]:
    if not _is_own(value.__module__, by):
        return (_home(value.__module__),)
    # The members that Python generates for an enumeration, a dataclass or a named tuple differ
    # between versions; the definitions they are generated from do not.
    made: tuple[Any, ...] = ()
    if issubclass(value, Enum):
        made = ([(name, member.value) for name, member in value.__members__.items()],)
    elif _is_named_tuple(value):
        made = (value._fields, getattr(value, "_field_defaults", {}))  # type: ignore[attr-defined]  # mypy sees a tuple
    elif _is_dataclass(value):
        options = {name: getattr(value.__dataclass_params__, name) for name in _DATACLASS_OPTIONS}  # type: ignore[attr-defined]  # typeshed has it not
        members = [
            (f.name, f.default, f.default_factory, *([f.metadata] if f.metadata else []), *_rare(f))
            for f in fields(value)  # type: ignore[arg-type]  # `_is_dataclass` narrows no type
            if f.name in value.__annotations__
        ]
        made = (options, members)
    meta = (type(value),) if _is_own(type(value).__module__, by) else ()
    return (value.__bases__, *made, *_written(value, by), *meta)


def _rare(field: Field[Any]) -> list[tuple[str, bool | None]]:
    """The options of a field that are not as they usually are."""
    usual = {"compare": True, "hash": None, "repr": True}
    return [(name, getattr(field, name)) for name in usual if getattr(field, name) != usual[name]]


_DATACLASS_OPTIONS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")

# What Python adds to every class, and to a named tuple.
_ADDED = ("__module__", "__qualname__", "__doc__", "__firstlineno__")
_ADDED_TO_TUPLES = ("_fields", "_field_defaults", "_make", "_replace", "_asdict")


def _is_named_tuple(value: type) -> bool:
    return issubclass(value, tuple) and any("_fields" in vars(base) for base in value.__mro__)


def _is_dataclass(value: type) -> bool:
    # Not by `is_dataclass`, to which a metaclass may answer anything.
    return any("__dataclass_fields__" in vars(base) for base in value.__mro__)


def _written(value: type, by: types.FunctionType | None) -> list[tuple[str, Any]]:
    """The members of a class that its author wrote, not Python."""
    enum, named = issubclass(value, Enum), _is_named_tuple(value)
    defaults = {f.name: f.default for f in fields(value)} if _is_dataclass(value) else {}
    plain = not (enum or named or _is_dataclass(value))
    members = value.__members__ if enum else {}  # type: ignore[attr-defined]  # mypy sees a type
    written = []
    for name, member in vars(value).items():
        if plain and callable(member):
            written.append((name, member))
        elif _is_reserved(name, enum) or (named and name in _ADDED_TO_TUPLES):
            if _is_own_member(name, member, by):
                written.append((name, member))
        elif plain or not (
            name in members
            or (name in defaults and defaults[name] is member)
            or isinstance(member, (*_WITHOUT_CONTENT, _TUPLEGETTER))
        ):
            written.append((name, member))
    for name, member in members.items():
        attributes = _without_caches(member, vars(member))
        more = {k: v for k, v in attributes if not _is_reserved(k, enum)}
        written += [(name, more)] if more else []
    return written


_TUPLEGETTER = type(vars(namedtuple("_", "field"))["field"])  # untyped on purpose


def _is_reserved(name: str, enum: bool) -> bool:
    """Whether a name is one of Python's: `__x__`, and in an enumeration `_x_`."""
    mark = "_" if enum else "__"
    return name.startswith(mark) and name.endswith(mark)


def _is_own_member(name: str, member: Any, by: types.FunctionType | None) -> bool:
    """Whether the author wrote a member whose name is one that Python also gives."""
    function = member.fget if isinstance(member, property) else member
    if isinstance(function, classmethod | staticmethod):
        function = function.__func__
    if isinstance(function, types.FunctionType | functools._lru_cache_wrapper):
        function = inspect.unwrap(function)
    if isinstance(function, types.FunctionType):
        own = _is_own(function.__globals__.get("__name__"), by)
        return own and source_of(function.__code__) is not None
    if isinstance(member, bool | None) or name in _ADDED:
        return False
    return name.startswith("__") and isinstance(member, _PLAIN)


def _state(value: Any, by: types.FunctionType | None) -> tuple[Any, ...]:
    """The content of an object: its attributes if its class is the author's, else its pickle."""
    own = _is_own(type(value).__module__, by)
    if _is_dataclass(type(value)):
        names = [field.name for field in fields(value)]
        state = dict(_attributes(value)) if own else {}
        rest = [(name, more) for name, more in state.items() if name not in names]
        return (*((name, getattr(value, name)) for name in names if hasattr(value, name)), *rest)
    if isinstance(value, _WITHOUT_CONTENT):
        return ()
    if isinstance(value, weakref.ref):
        return (value(),)
    if isinstance(value, weakref.WeakValueDictionary):
        return tuple(value.items())
    state = getattr(value, "__dict__", {})
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
    """The names and values of an object's attributes, with those in slots.

    Not those of a `cached_property`, which are there once somebody has read them.
    """
    names = copyreg._slotnames(type(value))  # type: ignore[attr-defined]  # typeshed has it not
    slots = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
    return (*_without_caches(value, getattr(value, "__dict__", {})), *slots)


def _without_caches(value: Any, attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, member in attributes.items():
        if not isinstance(inspect.getattr_static(type(value), name, None), cached_property):
            yield name, member


def _reduced(value: Any) -> tuple[Any, ...]:
    """What pickle would make an object from: a function, its arguments, state and items.

    The parts, not the bytes: those depend on the order of sets and on which objects are shared.

    Raises:
        _OpaqueObject: It can't be pickled.
    """
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        reduced = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  # its class may raise anything
        raise _OpaqueObject(value) from None
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
    file = PurePath(getattr(sys.modules.get(str(module)), "__file__", None) or "")
    # An own file may have the name of a module of Python, such as code.py.
    if package in sys.stdlib_module_names and (
        file == PurePath() or any(file.is_relative_to(folder) for folder in _PYTHON)
    ):
        return False
    return not {"site-packages", "dist-packages"} & {*file.parts}


_PYTHON = {sysconfig.get_path(part) for part in ("stdlib", "platstdlib")}


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
