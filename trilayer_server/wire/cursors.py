"""`DECLARE`, `FETCH` and `CLOSE`: cursors, by which a client reads an answer in parts.

A cursor is a portal that SQL has named. Here it only moves forward, because an answer is computed
while it is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trilayer_server.sql_error import SqlError
from trilayer_server.wire.text import LEADING, first_word

_NUMBER = r"[-+]?[0-9]{1,18}+"
_NAME = r'(?P<name>"(?:[^"]|"")++"|\w++)'
_DECLARE = re.compile(
    rf"{LEADING}DECLARE\s++{_NAME}\s++(?P<options>(?:(?!CURSOR\s)\w++\s++)*+)CURSOR\s++"
    r"(?:(?P<hold>WITH|WITHOUT)\s++HOLD\s++)?FOR\s++(?P<query>.+)",
    re.IGNORECASE | re.DOTALL,
)
_FETCH = re.compile(
    rf"{LEADING}FETCH\s++"
    r"(?:(?P<direction>NEXT|PRIOR|FIRST|LAST|ALL"
    rf"|(?:FORWARD|BACKWARD)(?:\s++(?:ALL\b|{_NUMBER}))?|(?:(?:ABSOLUTE|RELATIVE)\s++)?{_NUMBER})"
    r"\s++)?"
    rf"(?:(?:FROM|IN)\s++)?{_NAME}",
    re.IGNORECASE | re.DOTALL,
)
_CLOSE = re.compile(rf"{LEADING}CLOSE\s++{_NAME}", re.IGNORECASE | re.DOTALL)

CURSOR_STATEMENTS = ("DECLARE", "FETCH", "MOVE", "CLOSE")
"""The first words of the statements about cursors."""

_OPTIONS = frozenset({"BINARY", "ASENSITIVE", "INSENSITIVE", "NO", "SCROLL"})


@dataclass(frozen=True)
class Declare:
    """Opens a cursor.

    Attributes:
        name: Its name.
        query: The SELECT that it reads.
        is_binary: Whether FETCH of the simple protocol has binary rows.
    """

    name: str
    query: str
    is_binary: bool


@dataclass(frozen=True)
class Fetch:
    """Reads on in a cursor.

    Attributes:
        name: The cursor's name.
        rows: How many rows; None for all that are left.
    """

    name: str
    rows: int | None


@dataclass(frozen=True)
class Close:
    """Closes a cursor; all of them if it has no name."""

    name: str | None


def cursor_statement(sql: str) -> Declare | Fetch | Close:
    """What a statement does with a cursor that begins with one of `CURSOR_STATEMENTS`.

    Raises:
        SqlError: A cursor can't do it here, or the statement is wrong.
    """
    if match := _DECLARE.fullmatch(sql):
        return _declare(match)
    if match := _FETCH.fullmatch(sql):
        return Fetch(_name(match["name"]), _rows(match["direction"] or "NEXT"))
    if match := _CLOSE.fullmatch(sql):
        return Close(None if match["name"].upper() == "ALL" else _name(match["name"]))
    if first_word(sql) == "MOVE":
        raise SqlError(
            "0A000",
            "rows of a cursor must be read with FETCH; got MOVE",
            "Leave the rows out with OFFSET in the cursor's SELECT, or read them with FETCH",
        )
    raise SqlError(
        "42601",
        "a statement about a cursor must be DECLARE NAME CURSOR FOR SELECT ..., FETCH [NUMBER]"
        " FROM NAME or CLOSE NAME",
    )


def declare_of(sql: str) -> Declare | None:
    """A DECLARE; None for another statement. Raises SqlError if it is wrong."""
    statement = cursor_statement(sql) if first_word(sql) == "DECLARE" else None
    return statement if isinstance(statement, Declare) else None


def fetch_of(sql: str) -> Fetch | None:
    """A FETCH; None for another statement. Raises SqlError if it is wrong."""
    statement = cursor_statement(sql) if first_word(sql) == "FETCH" else None
    return statement if isinstance(statement, Fetch) else None


def _declare(match: re.Match[str]) -> Declare:
    options = match["options"].upper().split()
    if unknown := set(options) - _OPTIONS:
        raise SqlError("42601", f'syntax error at or near "{unknown.pop()}"')
    if "SCROLL" in options and "NO" not in options:
        raise SqlError(
            "0A000",
            "a cursor must move forward only; got SCROLL",
            "Leave SCROLL out, and declare another cursor to read from the start again",
        )
    if (match["hold"] or "").upper() == "WITH":
        raise SqlError(
            "0A000",
            "a cursor must end with its transaction; got WITH HOLD",
            "Send BEGIN before it, leave WITH HOLD out, and send COMMIT when it was read",
        )
    return Declare(_name(match["name"]), match["query"], is_binary="BINARY" in options)


def _rows(direction: str) -> int | None:
    """How many rows a FETCH reads; None for all that are left."""
    match direction.upper().split():
        case ["NEXT"] | ["FORWARD"]:
            return 1
        case ["ALL"] | ["FORWARD", "ALL"]:
            return None
        case ["FORWARD", number] | [number] if number.lstrip("+").isdecimal() and int(number) > 0:
            return int(number)
        case ["FIRST" | "ABSOLUTE" | "RELATIVE" as place, *_]:
            raise SqlError(
                "0A000",
                f"FETCH must be NEXT, FORWARD, ALL or a number of rows; got {place}",
                "Leave rows out with OFFSET in the cursor's SELECT",
            )
    raise SqlError(
        "55000",
        "cursor can only scan forward",
        "Declare another cursor to read from the start again",
    )


def _name(given: str) -> str:
    return given[1:-1].replace('""', '"') if given.startswith('"') else given.lower()
