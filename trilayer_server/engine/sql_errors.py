"""Why a query has no answer, as PostgreSQL says it: SQLSTATE, message, hint and position."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import duckdb

from trilayer_core.errors import CoverageError, IntegrityError, TrilayerError
from trilayer_server.encoding.tokens import TOKEN
from trilayer_server.sql_error import SqlError

_CODES: Mapping[str, tuple[str, Sequence[tuple[str, str]]]] = {
    "Parser": ("42601", ()),
    "Syntax": ("42601", ()),
    "Catalog": (
        "42P01",
        (
            (r"Function with name|Macro with name", "42883"),
            (r"Type with name|Collation with name|configuration parameter", "42704"),
        ),
    ),
    "Binder": (
        "42000",
        (
            (r"Referenced table .* not found", "42P01"),
            (r"Ambiguous reference to column", "42702"),
            (r"Ambiguous reference to table|Duplicate alias", "42712"),
            (r"Referenced column|not have a column|Column \".*\" does not exist", "42703"),
            (r"Could not find key|Cannot extract field", "42703"),
            (r"No function matches|does not support the supplied arguments", "42883"),
            (r"Could not choose a best candidate", "42725"),
            (r"GROUP BY clause|cannot be nested|cannot contain aggregates", "42803"),
            (r"cannot contain window functions", "42P20"),
            (r"term out of range", "42P10"),
            (r"LIMIT/OFFSET cannot be negative", "2201W"),
            (r"same number of result columns", "42601"),
            (r"Cannot (?:compare|mix|concatenate|cast)|explicit cast|only be applied to", "42804"),
        ),
    ),
    "Conversion": (
        "22P02",
        (
            (r"(?:date|time\w*) field value out of range", "22008"),
            (r"out of range", "22003"),
            (r"(?:date|time\w*) field format", "22007"),
        ),
    ),
    "Out of Range": ("22003", ()),
    "Invalid Input": (
        "22023",
        (
            (r"Division by zero", "22012"),
            (r"More than one row returned by a subquery", "21000"),
            (r"take logarithm of", "2201E"),
            (r"take square root of", "2201F"),
            (r"value is out of range", "22003"),
        ),
    ),
    "Mismatch Type": ("42804", ()),
    "Permission": ("42501", ()),
    "TransactionContext": ("25006", ()),
    "Out of Memory": ("53200", ()),
    "Not implemented": ("0A000", ()),
    "INTERNAL": ("XX000", ()),
}
"""The SQLSTATE of DuckDB's kinds of errors, and of those of their texts that have another."""

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

_KIND = re.compile(rf"\b({'|'.join(_CODES)}) Error: ")
_MARK = re.compile(r"\n*^LINE (\d+): (.*)\n( *)\^.*\Z", re.MULTILINE | re.DOTALL)


def sql_error_of(error: BaseException, query: str = "") -> SqlError:
    """The error that says what an error of the serving layer says.

    Args:
        error: The error.
        query: The statement in which DuckDB has marked a place.
    """
    text = str(error).strip()
    if isinstance(error, CoverageError | IntegrityError):
        return _of(error)
    if isinstance(error, MemoryError) and not text:
        text = "Out of Memory Error: the query needs more memory than a worker may have"
    cause = error.__context__ if isinstance(error, TrilayerError) else error
    # DuckDB marks the place of a mistake in its text, which the serving layer leaves out.
    said = str(cause).strip() if isinstance(cause, duckdb.Error) else text
    if (kind := _KIND.search(said)) is None:
        if isinstance(error, MemoryError):
            return SqlError("53200", text)
        return _of(error if isinstance(error, TrilayerError) else TrilayerError(text))
    code, special = _CODES[kind[1]]
    plain = _MARK.sub("", said[kind.end() :]).strip()
    code = next((special_ for what, special_ in special if re.search(what, plain)), code)
    place = _position(said, query) or _place_of_name(code, plain, query)
    message, hint = _parted(plain)
    if kind[1] in ("Parser", "Syntax"):
        hint = next((advice for what, advice in _ADVICE if re.search(what, query)), hint)
    hint = next((advice for what, advice in _OF_TYPES if re.search(what, plain)), hint)
    # The serving layer's own hint knows the views.
    own = re.search(r"; ((?:did you mean|there (?:is|are)|to ask|\w+ is an? ).*)", text, re.DOTALL)
    return SqlError(code, message, _sentence(own[1]) if own else hint, place)


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


_NAMED = re.compile(
    r"""(?:with\ name\ |named\ |[Cc]olumn\ (?:name\ |named\ )?|table\ |key\ |field\ |call\ |types\ )
    "?'?(?P<name>[^\s"'(!]+)""",
    re.VERBOSE,
)
_TOKEN = re.compile(
    rf"""(?P<qualified>\.\s*)?(?P<name>(?![eE]')\w+|"(?:[^"]|"")*")(?P<call>\s*\()?
    | {TOKEN.pattern}""",
    re.VERBOSE | re.DOTALL,
)


def _place_of_name(code: str, text: str, query: str) -> int:
    """Where a statement first has the name that an error is about; 0 if nowhere.

    DuckDB marks no place if it finds the error before the statement runs.
    """
    if code[:2] != "42" or (named := _NAMED.search(text)) is None:
        return 0
    *before, wanted = named["name"].lower().split(".")
    for place, name, is_qualified, is_call in _names(query):
        if name != wanted or is_call != (code in ("42883", "42725")):
            continue
        # What is qualified is not ambiguous, and may be a column of another table.
        if is_qualified and code in ("42702", "42703") and "not have a column" not in text:
            continue
        return place - len(".".join(before)) - 1 if before and is_qualified else place
    return 0


def _names(query: str) -> Iterator[tuple[int, str, bool, bool]]:
    """The names in a statement: place, name, and whether it is qualified, and called."""
    for token in _TOKEN.finditer(query):
        if token["name"]:
            name = token["name"].strip('"').replace('""', '"').lower()
            yield token.start("name") + 1, name, bool(token["qualified"]), bool(token["call"])
