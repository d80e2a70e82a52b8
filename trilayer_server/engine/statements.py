"""The statements of a text that may have several, as the simple protocol sends it."""

from __future__ import annotations

import re
from functools import cache

import duckdb

from trilayer_core.compute.merging import open_duckdb
from trilayer_server.encoding.tokens import TOKEN


@cache
def parser() -> duckdb.DuckDBPyConnection:
    """A database that only parses.

    That of the module would start threads, and what they reserve counts for the worker's limit.
    """
    database = open_duckdb(alone=True)
    database.execute("PRAGMA disable_optimizer")  # it takes longer than what it is for
    return database


def statements(text: str) -> list[str]:
    """The statements of a text. One that can't be parsed is reported when it is run."""
    try:
        return [statement.query for statement in parser().extract_statements(text)]
    except duckdb.Error:  # such as CLOSE ALL, which only PostgreSQL has
        return _between_semicolons(text)


_PIECE = re.compile(rf"{TOKEN.pattern} | ; | \w+ | .", re.VERBOSE | re.DOTALL)


def _between_semicolons(text: str) -> list[str]:
    parts = [""]
    for piece in _PIECE.finditer(text):
        if piece[0] == ";":
            parts.append("")
        else:
            parts[-1] += piece[0]
    return [part.strip() for part in parts if part.strip()]
