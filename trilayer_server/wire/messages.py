"""The messages of PostgreSQL's protocol, version 3, as bytes.

A client's message is a type, a length and a body; its fields are read with `Body`. The server's
messages are made by the functions below. Nothing here knows what the messages are about.

Source: https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilayer_server.sql_error import SqlError

PROTOCOL = 3 << 16
"""Version 3.0, as the first number of a startup message."""

CANCEL, TLS, GSSAPI = ((1234 << 16) + minor for minor in (5678, 5679, 5680))
"""Codes that stand in place of a version in a startup message."""

MOST_BYTES = 1 << 20
"""The length of the longest message that a client may send."""

IDLE, IN_TRANSACTION, FAILED = b"I", b"T", b"E"
"""The states of a session's transaction, as `ready` sends them."""


class ProtocolFault(Exception):
    """A client has sent something that is not a message. Its connection ends."""


class Body:
    """Reads the fields of one message.

    Every method raises ProtocolFault if the message is too short.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, number: int) -> bytes:
        """The next bytes."""
        if number < 0 or self._at + number > len(self._data):
            raise ProtocolFault(f"a message must have {number} more bytes; it has fewer")
        data = self._data[self._at : self._at + number]
        self._at += number
        return data

    def text(self) -> str:
        """The next text, which ends with a zero byte."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolFault("a text in a message must end with a zero byte")
        text = self._data[self._at : end]
        self._at = end + 1
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise ProtocolFault("a text in a message must be UTF-8") from None

    def int16(self) -> int:
        """The next integer of two bytes."""
        return int(struct.unpack(">h", self.take(2))[0])

    def int32(self) -> int:
        """The next integer of four bytes."""
        return int(struct.unpack(">i", self.take(4))[0])

    def int16s(self) -> list[int]:
        """The next integers, preceded by their number."""
        return self._numbers("h", 2)

    def int32s(self) -> list[int]:
        """The next integers, preceded by their number."""
        return self._numbers("i", 4)

    def _numbers(self, kind: str, size: int) -> list[int]:
        number = self._number()
        return [*struct.unpack(f">{number}{kind}", self.take(number * size))]

    def values(self) -> list[bytes | None]:
        """The next values, preceded by their number. NULL is None."""
        values: list[bytes | None] = []
        for _ in range(self._number()):
            length = self.int32()
            values.append(None if length == -1 else self.take(length))
        return values

    def _number(self) -> int:
        return self.int16() & 0xFFFF

    @property
    def rest(self) -> bytes:
        """What was not read yet."""
        return self._data[self._at :]


@dataclass(frozen=True)
class Startup:
    """The first message of a connection.

    Attributes:
        code: `PROTOCOL`, or `CANCEL`, `TLS` or `GSSAPI`.
        minor: The minor version of the protocol that the client asks for.
        options: The client's parameters, such as user and database.
        pid: The connection whose query is to be cancelled.
        secret: What proves that the client may do so.
    """

    code: int
    minor: int
    options: Mapping[str, str]
    pid: int = 0
    secret: bytes = b""


def startup(data: bytes) -> Startup:
    """Reads the first message, without its length.

    Raises:
        ProtocolFault: It is no startup message, or of another version.
    """
    body = Body(data)
    code = body.int32()
    if code == CANCEL:
        return Startup(code, 0, {}, body.int32(), body.rest)
    if code in (TLS, GSSAPI):
        return Startup(code, 0, {})
    if code >> 16 != PROTOCOL >> 16:
        raise ProtocolFault(f"the protocol must be of version 3; got {code >> 16}.{code & 0xFFFF}")
    options = {}
    while name := body.text():
        options[name] = body.text()
    return Startup(PROTOCOL, code & 0xFFFF, options)


# -- what the server sends -------------------------------------------------------------------------


def _message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


def _text(text: str) -> bytes:
    return text.replace("\0", "").encode("utf-8", "replace") + b"\0"


def authenticated() -> bytes:
    """The client is accepted: it needs no password, or has proven it."""
    return _message(b"R", struct.pack(">i", 0))


def sasl(mechanisms: Sequence[str]) -> bytes:
    """The client must prove a password by one of these mechanisms."""
    return _message(b"R", struct.pack(">i", 10) + b"".join(map(_text, mechanisms)) + b"\0")


def sasl_continue(data: bytes) -> bytes:
    """The mechanism goes on."""
    return _message(b"R", struct.pack(">i", 11) + data)


def sasl_final(data: bytes) -> bytes:
    """The mechanism has ended well."""
    return _message(b"R", struct.pack(">i", 12) + data)


def parameter(name: str, value: str) -> bytes:
    """A setting of the server."""
    return _message(b"S", _text(name) + _text(value))


def cancel_key(pid: int, secret: bytes) -> bytes:
    """What a client needs in order to cancel a query of this connection."""
    return _message(b"K", struct.pack(">i", pid) + secret)


def older_protocol(refused: Sequence[str]) -> bytes:
    """The server speaks 3.0 only, and does not know these options of the protocol."""
    names = b"".join(map(_text, refused))
    return _message(b"v", struct.pack(">ii", PROTOCOL, len(refused)) + names)


def ready(state: bytes) -> bytes:
    """The server waits for a query."""
    return _message(b"Z", state)


@dataclass(frozen=True)
class Field:
    """A column of an answer.

    Attributes:
        name: Its name.
        oid: The type's number in PostgreSQL.
        size: The number of bytes of a value; -1 if it varies.
        modifier: The type's modifier, such as precision and scale; -1 for none.
        format: 0 for text, 1 for binary.
    """

    name: str
    oid: int
    size: int
    modifier: int = -1
    format: int = 0


def row_description(fields: Sequence[Field]) -> bytes:
    """The columns of the rows that follow."""
    return _message(
        b"T",
        struct.pack(">h", len(fields))
        + b"".join(
            _text(field.name)
            + struct.pack(">ihihih", 0, 0, field.oid, field.size, field.modifier, field.format)
            for field in fields
        ),
    )


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return _message(b"t", struct.pack(f">H{len(oids)}i", len(oids), *oids))


def command_complete(tag: str) -> bytes:
    """A statement has ended; the tag has its kind and the number of its rows."""
    return _message(b"C", _text(tag))


def copy_out(format_: int, columns: int) -> bytes:
    """Copied rows follow, in text or binary."""
    return _message(b"H", struct.pack(f">bh{columns}h", format_, columns, *[format_] * columns))


COPY_DONE = _message(b"c")
PARSE_COMPLETE = _message(b"1")
BIND_COMPLETE = _message(b"2")
CLOSE_COMPLETE = _message(b"3")
NO_DATA = _message(b"n")
EMPTY_QUERY = _message(b"I")
PORTAL_SUSPENDED = _message(b"s")


def error_response(error: SqlError, severity: str = "ERROR") -> bytes:
    """The statement has failed; so has the connection if `severity` is FATAL."""
    fields = {
        b"S": severity,
        b"V": severity,
        b"C": error.code,
        b"M": error.message,
        b"H": error.hint,
        b"P": str(error.position) if error.position else "",
    }
    return _message(
        b"E", b"".join(kind + _text(text) for kind, text in fields.items() if text) + b"\0"
    )


def fatal(code: str, message: str, hint: str = "") -> bytes:
    """The connection ends."""
    return error_response(SqlError(code, message, hint), "FATAL")
