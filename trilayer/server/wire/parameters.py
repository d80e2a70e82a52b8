"""The parameters of a statement, which are written into it as literals.

A literal in quotes has no type until it is compared or cast, in DuckDB as in PostgreSQL. So a
parameter without a declared type gets the type that the statement needs there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from trilayer.server.wire.messages import BINARY, ProtocolFault

_TOKEN = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
    | --[^\n]* | /\*.*?\*/ | \$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$ | \$(?P<number>\d+)""",
    re.VERBOSE | re.DOTALL,
)
"""What may contain a `$1` that is no parameter, and parameters."""

UNKNOWN = 0
"""The type of a parameter that the client has not declared."""


@dataclass(frozen=True)
class _Known:
    """A type that clients declare: its name in DuckDB, and how its binary values are read."""

    name: str
    text: Callable[[bytes], str]


def _number(layout: str) -> Callable[[bytes], str]:
    return lambda data: repr(struct.unpack(layout, data)[0])


def _boolean(data: bytes) -> str:
    return "true" if data == b"\x01" else "false"


def _date(data: bytes) -> str:
    return str(date(2000, 1, 1) + timedelta(days=struct.unpack(">i", data)[0]))


def _timestamp(data: bytes) -> str:
    us = struct.unpack(">q", data)[0]
    return (datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat()


def _naive(data: bytes) -> str:
    return _timestamp(data).removesuffix("+00:00")


_KNOWN: Mapping[int, _Known] = {
    16: _Known("BOOLEAN", _boolean),
    20: _Known("BIGINT", _number(">q")),
    21: _Known("SMALLINT", _number(">h")),
    23: _Known("INTEGER", _number(">i")),
    25: _Known("VARCHAR", bytes.decode),
    700: _Known("FLOAT", _number(">f")),
    701: _Known("DOUBLE", _number(">d")),
    1043: _Known("VARCHAR", bytes.decode),
    1082: _Known("DATE", _date),
    1114: _Known("TIMESTAMP", _naive),
    1184: _Known("TIMESTAMPTZ", _timestamp),
}


def number_of(query: str) -> int:
    """The number of parameters that a statement has."""
    numbers = [int(m["number"]) for m in _TOKEN.finditer(query) if m["number"]]
    return max(numbers, default=0)


def on_trial(query: str, oids: Sequence[int]) -> str:
    """The statement with literals of which only the types count, to find its columns.

    A literal of unknown type that nothing else gives a type is text, as in PostgreSQL.
    """
    return _replaced(
        query,
        ["'0'" if oid == UNKNOWN else _typed("NULL", oid) for oid in oids],
    )


def with_values(
    query: str, values: Sequence[bytes | None], formats: Sequence[int], oids: Sequence[int]
) -> str:
    """The statement with literals for its parameters.

    Raises:
        ProtocolFault: A value can't be read, or the statement has more parameters.
    """
    literals = []
    for place, value in enumerate(values):
        format_ = formats[place if len(formats) > 1 else 0] if formats else 0
        literals.append(_literal(value, format_, oids[place] if place < len(oids) else UNKNOWN))

    return _replaced(query, literals)


def _replaced(query: str, literals: Sequence[str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        if not match["number"]:
            return match[0]
        number = int(match["number"])
        if not 0 < number <= len(literals):
            raise ProtocolFault(f"a value for ${number} must be bound; got {len(literals)} values")
        return literals[number - 1]

    return _TOKEN.sub(replaced, query)


def _typed(literal: str, oid: int) -> str:
    known = _KNOWN.get(oid)
    return f"CAST({literal} AS {known.name})" if known else literal


def _literal(value: bytes | None, format_: int, oid: int) -> str:
    if value is None:
        return "NULL"
    known = _KNOWN.get(oid)
    try:
        if format_ != BINARY:
            text = value.decode()
        elif known:
            text = known.text(value)
        else:
            raise ProtocolFault(f"a parameter of type {oid} must be sent as text")
    except (struct.error, UnicodeDecodeError, OverflowError) as error:
        raise ProtocolFault(f"a parameter must be a value of type {oid}: {error}") from None
    quoted = "'" + text.replace("'", "''") + "'"
    return _typed(quoted, oid)
