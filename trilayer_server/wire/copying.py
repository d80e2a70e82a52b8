"""`COPY ... TO STDOUT`, which DuckDB would write to the server's own standard output."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trilayer_server.engine.query import Output
from trilayer_server.sql_error import SqlError
from trilayer_server.wire.text import LEADING

_COPY = re.compile(
    LEADING + r"COPY\s+(?:\((?P<query>.*)\)|(?P<table>[^\s(]+)(?:\s*\((?P<columns>[^()]*)\))?)"
    r"\s+TO\s+STDOUT\b\s*(?:WITH\b)?(?P<options>.*)",
    re.IGNORECASE | re.DOTALL,
)
_IS_COPY = re.compile(LEADING + r"COPY\b", re.IGNORECASE | re.DOTALL)
_WORDS = re.compile(r"\w+|'[^']*'")
MOST_WORDS = 100
"""The most words of COPY's options."""


@dataclass(frozen=True)
class Copy:
    """What is copied, and how.

    Attributes:
        query: The SELECT whose rows are copied.
        output: Their encoding.
    """

    query: str
    output: Output

    @property
    def is_binary(self) -> bool:
        """Whether the rows are binary."""
        return self.output == "copy-binary"


def copy_of(sql: str) -> Copy | None:
    """What a statement copies; None if it is no COPY.

    Raises:
        SqlError: It copies elsewhere, or with an option that is not known.
    """
    if not _IS_COPY.match(sql):
        return None
    if (match := _COPY.fullmatch(sql)) is None:
        raise SqlError("42501", "COPY must be COPY ... TO STDOUT, since views are read-only")
    query = match["query"] or f"SELECT {match['columns'] or '*'} FROM {match['table']}"
    return Copy(query, _output(match["options"]))


def _output(options: str) -> Output:
    words = [word.upper() for word in _WORDS.findall(options)]
    if len(words) > MOST_WORDS:
        raise SqlError("54000", f"options of COPY must be at most {MOST_WORDS} words")
    format_, header = "TEXT", False
    while words:
        match words:
            case ["FORMAT", name, *words]:
                format_ = name
            case ["BINARY" | "CSV" as format_, *words]:
                pass
            case ["HEADER", "FALSE" | "OFF" | "0", *words]:
                header = False
            case ["HEADER", "TRUE" | "ON" | "1", *words]:
                header = True
            case ["HEADER", *words]:
                header = True
            case ["ENCODING", "'UTF8'" | "'UTF-8'", *words]:
                pass
            case [name, *_]:
                raise SqlError("0A000", f"COPY must have only FORMAT and HEADER; got {name}")
    match format_.strip("'"), header:
        case "TEXT", False:
            return "copy-text"
        case "CSV", False:
            return "copy-csv"
        case "CSV", True:
            return "copy-csv-header"
        case "BINARY", False:
            return "copy-binary"
    raise SqlError("0A000", f"COPY must be in text, csv or binary; got {format_} {header or ''}")
