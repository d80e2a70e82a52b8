"""Why a question has no answer, as PostgreSQL says it: SQLSTATE, message, hint and position."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import duckdb

from trilayer.server.engine.question import Refusal
from trilayer_core.errors import CoverageError, IntegrityError, TrilayerError, UsageError

_BY_TYPE: Sequence[tuple[type[BaseException], str]] = (
    (duckdb.ParserException, "42601"),
    (duckdb.SyntaxException, "42601"),
    (duckdb.ConversionException, "22P02"),
    (duckdb.OutOfRangeException, "22003"),
    (duckdb.PermissionException, "42501"),
    (duckdb.TransactionException, "25006"),
    (duckdb.OutOfMemoryException, "53200"),
    (duckdb.TypeMismatchException, "42804"),
    (duckdb.InvalidInputException, "22023"),
    (duckdb.NotImplementedException, "0A000"),
    (duckdb.InternalException, "XX000"),
    (MemoryError, "53200"),
)

_BY_TEXT: Mapping[str, str] = {
    "Conversion Error": "22P02",
    "Out of Range Error": "22003",
    "Out of Memory Error": "53200",
    "Invalid Input Error": "22023",
    "Permission Error": "42501",
    "Parser Error": "42601",
    "Binder Error": "42703",
    "Catalog Error": "42P01",
}
"""By the first words of DuckDB, for errors that reach Python as those of Arrow."""

_MARK = re.compile(r"\n*^LINE (\d+): (.*)\n( *)\^.*\Z", re.MULTILINE | re.DOTALL)


def refusal_of(error: BaseException, query: str = "") -> Refusal:
    """The refusal that says what an error of the serving layer says.

    Args:
        error: The error.
        query: The statement in which DuckDB has marked a place.
    """
    text = str(error).strip()
    if isinstance(error, CoverageError):
        return _of("55000", text)
    if isinstance(error, IntegrityError):
        return _of("XX001", text)
    if isinstance(error, MemoryError) and not text:
        text = "Out of Memory Error: the question needs more memory than a worker may have"
    place = _position(text, query)
    return _of(_code(error, text), _MARK.sub("", text), place)


def _of(code: str, text: str, place: int = 0) -> Refusal:
    """A refusal whose hint is what a message of this project says last: "..., got Y; do Z"."""
    parts = text.split("\n\nPossible solutions:")[0].split("; ")
    number = 2 if len(parts) > 1 and parts[1].startswith("got ") else 1
    return Refusal(code, "; ".join(parts[:number]), "; ".join(parts[number:]), place)


def _code(error: BaseException, text: str) -> str:
    causes = [error.__context__, error] if isinstance(error, TrilayerError) else [error]
    for cause in causes:
        if isinstance(cause, duckdb.CatalogException):
            return "42883" if "Function with name" in str(cause) else "42P01"
        if isinstance(cause, duckdb.BinderException):
            return "42883" if "No function matches" in str(cause) else "42703"
        for kind, code in _BY_TYPE:
            if isinstance(cause, kind):
                return code
    if "must be one SELECT" in text:
        return "25006"
    for words, code in _BY_TEXT.items():
        if words in text:
            return code
    return "42000" if isinstance(error, UsageError) else "58000"


def _position(text: str, query: str) -> int:
    """The character of the statement that DuckDB has marked, from 1 on; 0 if none."""
    if (mark := _MARK.search(text)) is None:
        return 0
    number, line, spaces = int(mark[1]), mark[2], len(mark[3]) - len(f"LINE {mark[1]}: ")
    lines = query.split("\n")
    if not 0 < number <= len(lines) or spaces < 0:
        return 0
    whole = lines[number - 1]
    # DuckDB shows a part of a long line, between dots.
    shown = line.removeprefix("...").removesuffix("...")
    begins = whole.find(shown)
    if begins < 0:
        return 0
    column = begins + spaces - (3 if line.startswith("...") and not whole.startswith("...") else 0)
    return sum(len(each) + 1 for each in lines[: number - 1]) + column + 1
