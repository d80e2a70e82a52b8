"""SQL errors for the errors of DuckDB and the serving layer: SQLSTATE, message, hint, position."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import duckdb

from trilayer_core.errors import CoverageError, IntegrityError, TrilayerError
from trilayer_server.sql_error import SqlError

_BY_TYPE: Mapping[str, str] = {
    "Parser": "42601",
    "Syntax": "42601",
    "Catalog": "42P01",
    "Binder": "42000",
    "Conversion": "22P02",
    "Out of Range": "22003",
    "Invalid Input": "22023",
    "Mismatch Type": "42804",
    "Permission": "42501",
    "TransactionContext": "25006",
    "Out of Memory": "53200",
    "Not implemented": "0A000",
    "INTERNAL": "XX000",
}
"""The SQLSTATE of each type of DuckDB's errors, unless one of the following tables has another."""

_BY_SUBTYPE: Mapping[str, str] = {"COLUMN_NOT_FOUND": "42703", "NO_MATCHING_FUNCTION": "42883"}

_BY_ENTRY: Mapping[str, str] = {
    "Function": "42883",
    "Macro": "42883",
    "Type": "42704",
    "Collation": "42704",
    "parameter": "42704",
}
"""The SQLSTATE of a missing entry of the catalog, by the last word of its kind."""

_BY_TEXT: Mapping[str, Sequence[tuple[str, str]]] = {
    "Catalog": (  # whose JSON lacks the kind of the entry
        (r"(?:Function|Macro) with name", "42883"),
        (r"(?:Type|Collation) with name|configuration parameter", "42704"),
    ),
    "Binder": (
        (r"Referenced table .* not found", "42P01"),
        (r"Ambiguous reference to column", "42702"),
        (r"Ambiguous reference to table|Duplicate alias", "42712"),
        (r"Referenced column|not have a column|Column \".*\" does not exist", "42703"),
        (r"Could not find key|Cannot extract field", "42703"),
        (r"does not support the supplied arguments", "42883"),
        (r"Could not choose a best candidate", "42725"),
        (r"GROUP BY clause|cannot be nested|cannot contain aggregates", "42803"),
        (r"cannot contain window functions", "42P20"),
        (r"term out of range", "42P10"),
        (r"LIMIT/OFFSET cannot be negative", "2201W"),
        (r"same number of result columns", "42601"),
        (r"Cannot (?:compare|mix|concatenate|cast)|explicit cast|only be applied to", "42804"),
    ),
    "Conversion": (
        (r"(?:date|time\w*) field value out of range", "22008"),
        (r"out of range", "22003"),
        (r"(?:date|time\w*) field format", "22007"),
    ),
    "Invalid Input": (
        (r"Division by zero", "22012"),
        (r"More than one row returned by a subquery", "21000"),
        (r"take logarithm of", "2201E"),
        (r"take square root of", "2201F"),
        (r"value is out of range", "22003"),
    ),
}
"""SQLSTATEs of errors that DuckDB tells apart by nothing but their texts: they have one type and no
subtype.
"""

_ADVICE = (
    (r"(?i)\bFOR\s+(?:NO\s+KEY\s+)?(?:UPDATE|SHARE)\b", "Leave out FOR UPDATE: nothing is locked"),
    (r"(?i)\bROWS\s+FROM\b", "Write unnest(a, b) or joins in place of ROWS FROM"),
    (r"(?i)\bOVERLAPS\b", "Write a < d AND c < b in place of (a, b) OVERLAPS (c, d)"),
    (r"(?i)\bSYMMETRIC\b", "Write BETWEEN least(a, b) AND greatest(a, b)"),
    (r"(?i)\bWITH\s+TIES\b", "Write LIMIT without WITH TIES, or a condition on rank() OVER (...)"),
    (r"(?i)\bjsonb?_to_record(set)?\b", "Write json_array_elements(x) ->> 'a' for each column"),
    (r"(?i)\)\s*WITHIN\s+GROUP\b", "Write count(*) FILTER (WHERE x < value) + 1 for a rank"),
    (r"\s\?[|&]?\s", "Write (x ->> 'a') IS NOT NULL in place of ?"),
    (r"\s#\s", "Write xor(a, b) in place of #"),
    (r"#>>?", "Write the path after #> as a literal, such as '{a,0}'"),
)
"""What to write in place of what DuckDB's parser does not know."""

_OF_TYPES = (
    (r"//\(INTERVAL", "To divide an interval, multiply it: write * 0.5 in place of / 2"),
    (r"\bsum\(INTERVAL|INTERVAL -> DOUBLE",
     "Write the aggregate of extract(epoch from x), times interval '1 second'"),
    (r"must be cast for \|\|", "Write x::text || y"),
    (r"Cannot concatenate types .*\[\]", "Write array_append(list, x) or array_prepend(x, list)"),
    (r"\bTIME\)'|\(TIME\b|type TIME\b(?! ZONE)",
     "Write an interval in place of a time: interval '10:00'"),
    (r"invalid date field format|invalid timestamp field format|field value out of range: \"",
     "Write a date as 2024-01-31, and a time as 2024-01-31 10:00:00"),
    (r"to INTERVAL\b", "Write an interval as '1 day 02:00:00'"),
)  # fmt: skip
"""What to write in place of operators that DuckDB lacks for a type."""

_HEAD = re.compile(rf"\b({'|'.join(_BY_TYPE)}) Error: ")


class _DuckdbError(NamedTuple):
    """An error of DuckDB.

    Attributes:
        type: Its type.
        message: What is wrong, with hints.
        code: The SQLSTATE.
        offset: The byte of the statement that is wrong; None if unknown.
    """

    type: str
    message: str
    code: str
    offset: int | None

    @staticmethod
    def parse(text: str) -> _DuckdbError | None:
        """Reads an error: JSON if DuckDB's `errors_as_json` is set, and plain text otherwise.

        What a relation finds wrong before it runs is plain text, whatever the setting is.
        """
        if (head := _HEAD.search(text)) is None:
            return None
        rest = text[head.end() :]
        document = {"exception_message": rest}
        if rest.startswith('{"exception_type"'):
            document, _ = json.JSONDecoder().raw_decode(rest)
        type_, message = head[1], document["exception_message"].strip()
        code = (
            _BY_SUBTYPE.get(document.get("error_subtype", ""))
            or _BY_ENTRY.get(document.get("type", "").split(" ")[-1])
            or next((c for p, c in _BY_TEXT.get(type_, ()) if re.search(p, message)), None)
            or _BY_TYPE[type_]
        )
        position = document.get("position")
        return _DuckdbError(type_, message, code, None if position is None else int(position))


def sql_error_of(error: BaseException, sql: str = "", *, before: str = "") -> SqlError:
    """The SQL error for an error of the serving layer.

    Args:
        error: The error.
        sql: The statement, of which the error's position is one.
        before: The text before the statement in what DuckDB was given.
    """
    text = str(error).strip()
    if isinstance(error, CoverageError | IntegrityError):
        return _of(error)
    if isinstance(error, MemoryError):
        return SqlError("53200", text or "the query needs more memory than a worker may have")
    cause = error.__context__ if isinstance(error, TrilayerError) else error
    # The serving layer leaves out a part of DuckDB's text.
    parsed = _DuckdbError.parse(str(cause).strip() if isinstance(cause, duckdb.Error) else text)
    if parsed is None:
        return _of(error if isinstance(error, TrilayerError) else TrilayerError(text))
    message, hint = _parted(parsed.message)
    if parsed.type in ("Parser", "Syntax"):
        hint = next((advice for what, advice in _ADVICE if re.search(what, sql)), hint)
    hint = next((advice for what, advice in _OF_TYPES if re.search(what, parsed.message)), hint)
    # The serving layer's own hint knows the views.
    own = re.search(r"; ((?:did you mean|there (?:is|are)|to ask|\w+ is an? ).*)", text, re.DOTALL)
    position = 0
    if sql and parsed.offset is not None and parsed.offset >= len(before):
        position = len(sql.encode()[: parsed.offset - len(before)].decode(errors="ignore")) + 1
    return SqlError(parsed.code, message, _sentence(own[1]) if own else hint, position)


def _of(error: TrilayerError) -> SqlError:
    # DuckDB's own advice is to change settings, which clients can't.
    message, hint = (part.split("\n\nPossible solutions:")[0] for part in error.parts())
    return SqlError(error.sqlstate, message, _sentence(hint))


_MOST_CANDIDATES = 8


def _parted(text: str) -> tuple[str, str]:
    """What DuckDB says first, and the rest as a hint."""
    message, _, rest = text.partition("\n")
    first, dot, more = message.partition(". ")
    if dot and re.match(r"You might need|In order to|Use TRY", more):
        message, rest = first, f"{more}\n{rest}"
    # Advice to change a setting is left out, because clients can't.
    rest = re.sub(r",? or SET \w.*|Use \"SET .*", "", rest, flags=re.DOTALL)
    lines = [line.strip() for line in rest.splitlines() if line.strip()]
    if "Candidate functions:" in lines:
        place = lines.index("Candidate functions:") + 1
        shown = lines[place : place + _MOST_CANDIDATES]
        lines[place - 1 :] = [f"{lines[place - 1]} {', '.join(shown)}"]
    hint = re.sub(
        r"Candidate (?:bindings|tables|Entries): (?:: )?", "Did you mean ", " ".join(lines)
    )
    hint = re.sub(r"(Did you mean [^?]*)(?<!\?)\Z", r"\1?", hint)
    return message.rstrip("!."), _sentence(hint)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
