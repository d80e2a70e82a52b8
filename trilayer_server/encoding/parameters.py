"""The parameters of a statement, which are written into it as literals.

A literal in quotes has no type until it is compared or cast, in DuckDB as in PostgreSQL. So a
parameter without a declared type gets the type that the statement needs there.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from itertools import count
from typing import TypeGuard

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from trilayer.operations.values import clock_text
from trilayer_core.errors import TrilayerError
from trilayer_server.encoding.tokens import MOST_PARAMETERS, TOKEN, parameter_number
from trilayer_server.encoding.values import BINARY, type_of
from trilayer_server.sql_error import SqlError

INVALID_VALUE = "22P02"
"""The SQLSTATE of a value that can't be read: invalid_text_representation."""


UNKNOWN = 0
"""The type of a parameter that the client has not declared."""

TEXT_OID, NUMERIC_OID, _BIGINT_OID, _BYTEA_OID, _TIMESTAMPTZ_OID = 25, 1700, 20, 17, 1184
_BOOLEAN_OID = 16
_TEXTS_OID, _NUMERICS_OID = 1009, 1231


@dataclass(frozen=True)
class _DuckdbType:
    """A type that clients declare: its name in DuckDB, and how its binary values are read."""

    name: str
    text: Callable[[bytes], str]


def _number(layout: str) -> Callable[[bytes], str]:
    return lambda data: repr(struct.unpack(layout, data)[0])


def _boolean(data: bytes) -> str:
    return "true" if data == b"\x01" else "false"


def _date(data: bytes) -> str:
    days = struct.unpack(">i", data)[0]
    return _infinite(days, 32) or str(date(2000, 1, 1) + timedelta(days=days))


def _timestamp(data: bytes) -> str:
    us = struct.unpack(">q", data)[0]
    epoch = datetime(2000, 1, 1, tzinfo=UTC)
    return _infinite(us, 64) or (epoch + timedelta(microseconds=us)).isoformat()


def _infinite(number: int, bits: int) -> str:
    """The text of a date or time that is infinite, as the extreme integers are; else none.

    asyncpg sends Python's first and last date and time so.
    """
    if number == 2 ** (bits - 1) - 1:
        return "infinity"
    return "-infinity" if number == -(2 ** (bits - 1)) else ""


def _uuid(data: bytes) -> str:
    return str(uuid.UUID(bytes=data))


def _time(data: bytes) -> str:
    return clock_text(struct.unpack(">q", data)[0])


def _interval(data: bytes) -> str:
    us, days, months = struct.unpack(">qii", data)
    return f"{months} months {days} days {us} microseconds"


def _bytes_text(data: bytes) -> str:
    """Bytes as DuckDB writes them in a text that it casts to BLOB."""
    return "".join(f"\\x{byte:02X}" for byte in data)


def _bytea(text: bytes) -> bytes:
    """Bytes from their text: hexadecimal, or as they are."""
    return bytes.fromhex(text[2:].decode()) if text.startswith(b"\\x") else text


def _decimal(data: bytes) -> str:
    """A number from groups of four digits, with the place of the first before the point."""
    number, weight, sign, scale = struct.unpack_from(">hhHH", data)
    if sign not in (0, _NEGATIVE):
        return "nan"
    groups = struct.unpack_from(f">{number}h", data, 8)
    whole = sum(group * 10_000 ** (number - 1 - place) for place, group in enumerate(groups))
    value = Decimal(whole).scaleb(4 * (weight - number + 1), _WIDE)
    return f"{-value if sign else value:.{scale}f}"


_NEGATIVE = 0x4000
_WIDE = Context(prec=2_000)


def _naive(data: bytes) -> str:
    return _timestamp(data).removesuffix("+00:00")


_TYPES: Mapping[int, _DuckdbType] = {
    16: _DuckdbType("BOOLEAN", _boolean),
    20: _DuckdbType("BIGINT", _number(">q")),
    21: _DuckdbType("SMALLINT", _number(">h")),
    23: _DuckdbType("INTEGER", _number(">i")),
    25: _DuckdbType("VARCHAR", bytes.decode),
    700: _DuckdbType("FLOAT", _number(">f")),
    701: _DuckdbType("DOUBLE", _number(">d")),
    18: _DuckdbType("VARCHAR", bytes.decode),
    19: _DuckdbType("VARCHAR", bytes.decode),
    26: _DuckdbType("BIGINT", _number(">I")),
    1042: _DuckdbType("VARCHAR", bytes.decode),
    1043: _DuckdbType("VARCHAR", bytes.decode),
    17: _DuckdbType("BLOB", _bytes_text),
    1083: _DuckdbType("TIME", _time),
    1186: _DuckdbType("INTERVAL", _interval),
    NUMERIC_OID: _DuckdbType("DECIMAL(38, 9)", _decimal),
    2950: _DuckdbType("UUID", _uuid),
    1082: _DuckdbType("DATE", _date),
    1114: _DuckdbType("TIMESTAMP", _naive),
    1184: _DuckdbType("TIMESTAMPTZ", _timestamp),
}


_ELEMENTS = {1000: 16, 1002: 18, 1003: 19, 1005: 21, 1007: 23, 1009: 25, 1015: 1043, 1016: 20,
             1021: 700, 1022: 701, 1028: 26, 1182: 1082, 1115: 1114, 1185: 1184, 1183: 1083,
             1187: 1186, 1231: NUMERIC_OID, 2951: 2950}  # fmt: skip
"""The types of the elements of arrays that clients declare."""


ONE_DIMENSION = "an array must have one dimension"


def _list(value: bytes, format_: int, oid: int) -> str:
    """An array of one dimension, as a list of DuckDB."""
    element = _TYPES[_ELEMENTS[oid]]
    texts: list[str | None] = []
    if format_ == BINARY:
        dimensions, _, _ = struct.unpack_from(">iiI", value)
        if dimensions > 1:
            raise SqlError(INVALID_VALUE, ONE_DIMENSION)
        number = struct.unpack_from(">i", value, 12)[0] if dimensions else 0
        at = 20
        for _ in range(number):
            length = struct.unpack_from(">i", value, at)[0]
            at += 4
            texts.append(None if length < 0 else element.text(value[at : at + length]))
            at += max(length, 0)
    else:
        text = value.decode()
        if "{" in _IN_QUOTES.sub("", text)[1:]:
            raise SqlError(INVALID_VALUE, ONE_DIMENSION)
        elements = re.findall(rf"\s*({_IN_QUOTES.pattern})\s*|([^,{{}}]+)", text, re.DOTALL)
        texts = [
            re.sub(r"\\(.)", r"\1", a[1:-1], flags=re.DOTALL) if a else _unquoted(b)
            for a, b in elements
        ]
    quoted = ["NULL" if t is None else "'" + t.replace("'", "''") + "'" for t in texts]
    type_ = _of_numbers(texts) if oid == _NUMERICS_OID else element.name
    return f"CAST(ARRAY[{', '.join(quoted)}] AS {type_}[])"


_IN_QUOTES = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def _unquoted(text: str) -> str | None:
    """An element of an array that is written without quotes, as PostgreSQL reads it."""
    text = text.strip(" \t\n\r\v\f")
    return None if text.upper() == "NULL" else text


def _of_numbers(texts: Sequence[str | None]) -> str:
    """The type that keeps all digits of each number: a DECIMAL if one is wide enough."""
    given = [text.lstrip("+-").partition(".") for text in texts if text is not None]
    scale = max((len(fraction) for *_, fraction in given), default=0)
    digits = max((len(whole) for whole, *_ in given), default=1) + scale
    is_decimal = all(_NUMBER.fullmatch(text) for text in texts if text is not None)
    return f"DECIMAL({digits}, {scale})" if is_decimal and digits <= _MOST_DIGITS else "DOUBLE"


def number_of(query: str) -> int:
    """The number of parameters that a statement has.

    Raises:
        SqlError: One has a number that none can have.
    """
    numbers = [_place(m["number"]) for m in TOKEN.finditer(query) if m["number"]]
    return max(numbers, default=0)


def _place(digits: str) -> int:
    """The place of a parameter among those of a statement, from 1 on."""
    place = parameter_number(digits)
    if not place:
        shown = digits if len(digits) <= 20 else f"{digits[:20]}…"
        raise SqlError("42P02", f"a parameter must be $1 to ${MOST_PARAMETERS}; got ${shown}")
    return place


_READ_BY_TYPE = re.compile(
    rb"\{.*\} | \\x(?:[0-9a-fA-F]{2})* | \d{4,}-\d\d-\d\d\ [+-]\d\d(?::\d\d)?"
    rb" | [+-]?\d*\.\d*",
    re.DOTALL | re.VERBOSE,
)
"""Texts that PostgreSQL reads otherwise than DuckDB.

Such are arrays, bytes, dates with a time zone, and fractions, which DuckDB rounds to integers.
"""


def need_types(values: Sequence[bytes | None], formats: Sequence[int], oids: Sequence[int]) -> bool:
    """Whether a value without a declared type can only be read with the type that it has here.

    Such are binary values, arrays, bytes, fractions, and the dates of JDBC with their time zone.
    """
    return any(
        value is not None
        and (oids[place] if place < len(oids) else UNKNOWN) == UNKNOWN
        and (_format(formats, place) == BINARY or _READ_BY_TYPE.fullmatch(value) is not None)
        for place, value in enumerate(values)
    )


def _format(formats: Sequence[int], place: int) -> int:
    return formats[place if len(formats) > 1 else 0] if formats else 0


def inferred(query: str, declared: Sequence[int], columns: Callable[[str], pa.Schema]) -> list[int]:
    """The type of each parameter: what was declared, else what the statement compares it with.

    A parameter is of the type that it is cast to, or of that of the expression that it is compared
    with, added to or assigned from, or that it stands for in COALESCE, CASE and their like. That of
    ANY and ALL is an array, and a condition a boolean. LIMIT and OFFSET take a bigint. What is left
    is text.

    Args:
        query: The statement.
        declared: The types that the client has declared; 0 for others.
        columns: Finds the columns of a SELECT.

    Raises:
        SqlError: There can't be such a parameter.
    """
    number = max(number_of(query), len(declared))
    oids = [*declared, *[UNKNOWN] * (number - len(declared))]
    if UNKNOWN not in oids:
        return oids
    for digits, parameter in _parsed(query):
        place = _place(digits)
        if place <= number and oids[place - 1] == UNKNOWN:
            oids[place - 1] = _needed(parameter, columns)
    return [oid or TEXT_OID for oid in oids]


def _parsed(query: str) -> Iterator[tuple[str, exp.Expr]]:
    """The parameters of a statement that sqlglot can parse, with the digits of their numbers."""
    try:
        # sqlglot reads no $1 before '' at the very end.
        tree = sqlglot.parse_one(f"{query}\n", dialect="duckdb")
    except SqlglotError:
        return
    for parameter in tree.find_all(*_PARAMETERS):
        name = parameter.this
        digits = str(name.name if isinstance(name, exp.Expression) else name)
        if digits.isdecimal():
            yield digits, parameter


def _needed(node: exp.Expr, columns: Callable[[str], pa.Schema]) -> int:
    """The type that the statement needs where a parameter stands; UNKNOWN if it needs none."""
    operand, is_array = _operand(node)
    if isinstance(operand.parent, exp.Limit | exp.Offset):
        return _BIGINT_OID
    if isinstance(operand.parent, exp.Cast):
        return _type_in(f"SELECT CAST(NULL AS {operand.parent.to.sql('duckdb')})", columns)
    if _is_condition(operand):
        return _BOOLEAN_OID
    if isinstance(operand.parent, exp.If) and operand.arg_key == "true":
        operand = operand.parent
    if (counterpart := _counterpart(operand)) is not None:
        wanted = counterpart.sql("duckdb")
        return _type_beside(operand, f"ARRAY[{wanted}]" if is_array else wanted, columns)
    if operand.parent is not None and _is_returned(operand):
        return _needed(operand.parent, columns)
    return _TEXTS_OID if is_array else UNKNOWN


def _operand(parameter: exp.Expr) -> tuple[exp.Expr, bool]:
    """A parameter with the parentheses, sign, ANY or ALL around it, and whether it is an array."""
    operand, is_array = parameter, False
    while isinstance(parent := operand.parent, exp.Paren | exp.Neg) or _takes_array(parent):
        operand = parent
        is_array = is_array or _takes_array(operand)
    return operand, is_array


def _counterpart(operand: exp.Expr) -> exp.Expr | None:
    """An expression that has the type which an operand must have; None if there is none."""
    typed = [each for each in _beside(operand, operand.parent) if not each.find(*_PARAMETERS)]
    if len(typed) > 1 and _is_returned(operand):
        first, *others = (each.copy() for each in typed)
        return exp.Coalesce(this=first, expressions=others)
    return typed[0] if typed else None


def _type_beside(operand: exp.Expr, wanted: str, columns: Callable[[str], pa.Schema]) -> int:
    """The type of what stands beside an operand; UNKNOWN if that is in no SELECT.

    DuckDB finds it in a SELECT of that alone from the same tables.
    """
    select = operand.find_ancestor(exp.Select)
    if select is None:
        return UNKNOWN
    ctes = [cte.sql("duckdb") for each in _with_outermost(select) for cte in each.ctes]
    source = select.args.get("from_") or select.args.get("from")
    joins = " ".join(join.sql("duckdb") for join in select.args.get("joins") or ())
    text = f"SELECT {wanted} {source.sql('duckdb') if source else ''} {joins}"
    return _type_in((f"WITH {', '.join(ctes)} " if ctes else "") + text, columns)


def _with_outermost(select: exp.Select) -> list[exp.Select]:
    """A SELECT, and the outermost one that it is part of, if that is another."""
    outermost = select
    while (above := outermost.find_ancestor(exp.Select)) is not None:
        outermost = above
    return [select] if outermost is select else [select, outermost]


_PARAMETERS = (exp.Parameter, exp.Placeholder)
_ONE_OF_SEVERAL = (exp.Coalesce, exp.Greatest, exp.Least, exp.Case)
"""Expressions that return one of their operands, and so have the type of all of them."""

_ALIKE = (exp.Binary, exp.Between, exp.In, exp.Nullif, *_ONE_OF_SEVERAL)
"""Expressions whose operands must have one type."""


def _is_condition(operand: exp.Expr) -> bool:
    """Whether an operand is true or false."""
    if isinstance(parent := operand.parent, exp.If) and operand.arg_key == "this":
        case = parent.parent
        return not isinstance(case, exp.Case) or case.args.get("this") is None
    return isinstance(parent, exp.Not | exp.Connector | exp.Where | exp.Having)


def _is_returned(operand: exp.Expr) -> bool:
    """Whether an operand may be what the expression around it returns."""
    is_subject = isinstance(operand.parent, exp.Case) and operand.arg_key == "this"
    return isinstance(operand.parent, _ONE_OF_SEVERAL) and not is_subject


def _takes_array(node: exp.Expr | None) -> TypeGuard[exp.Any | exp.Anonymous]:
    """Whether a node compares with the elements of an array."""
    return isinstance(node, exp.Any) or _is_all(node)


def _is_all(node: exp.Expr | None) -> TypeGuard[exp.Anonymous]:
    """Whether a node is `ALL` or `SOME`, which sqlglot parses as the call of a function."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in ("ALL", "SOME")


def _beside(place: exp.Expr, parent: exp.Expr | None) -> Iterator[exp.Expr]:
    """The operands that have the type which is needed at a place among them."""
    case = parent.parent if isinstance(parent, exp.If) else parent
    if isinstance(case, exp.Case):
        operand, ifs = case.args.get("this"), case.args["ifs"]
        if place.arg_key == "this":
            yield from (each for each in (operand, *(if_.this for if_ in ifs)) if each is not place)
        else:
            yield from (each.args["true"] for each in ifs)
            if (otherwise := case.args.get("default")) is not None:
                yield otherwise
    elif isinstance(parent, _ALIKE):
        yield from map(_compared, parent.iter_expressions())


def _compared(operand: exp.Expr) -> exp.Expr:
    """What an operand is compared as: an element of the array of ANY or ALL, or else itself."""
    if isinstance(operand, exp.Any):
        within = operand.this
        return within if isinstance(within, exp.Subquery) else _first_of(within)
    return _first_of(operand.expressions[0]) if _is_all(operand) else operand


def _first_of(array: exp.Expr) -> exp.Expr:
    return exp.Bracket(this=exp.paren(array.copy()), expressions=[exp.Literal.number(1)])


def _type_in(query: str, columns: Callable[[str], pa.Schema]) -> int:
    trial = _replaced(query, ["NULL"] * number_of(query))
    try:
        (column,) = columns(trial)
    except TrilayerError:
        return UNKNOWN
    return type_of(column.type).oid


def on_trial(query: str, oids: Sequence[int]) -> str:
    """The statement with literals of which only the types count, to find its columns.

    A literal of unknown type that nothing else gives a type is text, as in PostgreSQL.
    """
    return _replaced(
        query,
        ["'0'" if oid == UNKNOWN else _typed("NULL", oid) for oid in oids],
    )


def with_blanks(query: str) -> str:
    """The statement with blank texts for its parameters, which are as long as these."""
    return TOKEN.sub(
        lambda m: f"'{' ' * (len(m[0]) - 2)}'" if m["number"] else m[0],
        query,
    )


def with_values(
    query: str, values: Sequence[bytes | None], formats: Sequence[int], oids: Sequence[int]
) -> str:
    """The statement with literals for its parameters.

    Raises:
        SqlError: A value can't be read, or the statement has more parameters.
    """
    literals = []
    for place, value in enumerate(values):
        format_ = _format(formats, place)
        literals.append(_literal(value, format_, oids[place] if place < len(oids) else UNKNOWN))
    return _replaced(_with_null_arrays(query, values), literals)


def _with_null_arrays(query: str, values: Sequence[bytes | None]) -> str:
    """The statement with a list of one NULL for each array of ANY, SOME or ALL that is NULL.

    Comparing with either is NULL in PostgreSQL. In DuckDB comparing with NULL is false, or true
    with ALL, and only comparing with the list is NULL.
    """
    nulls = {number for number, value in enumerate(values, 1) if value is None}
    if not nulls or not _OF_ARRAY.search(query):
        return query
    # The same parameter may stand at several places, such as `$1 IS NULL OR x = ANY($1)`. With a
    # number for each place it is known which of them are arrays.
    by_place = _rewritten(query, lambda place, _: f"${place}")
    arrays = {int(place) for place, parameter in _parsed(by_place) if _is_array(parameter)}
    return _rewritten(
        query,
        lambda place, digits: (
            "[NULL]" if place in arrays and _place(digits) in nulls else f"${digits}"
        ),
    )


_OF_ARRAY = re.compile(r"\b(?:ANY|SOME|ALL)\b", re.IGNORECASE)


def _rewritten(query: str, written: Callable[[int, str], str]) -> str:
    """The statement with other text for its parameters, made from place and digits of each."""
    places = count(1)
    return TOKEN.sub(lambda m: written(next(places), m["number"]) if m["number"] else m[0], query)


def _is_array(parameter: exp.Expr) -> bool:
    """Whether a parameter, as it is or cast, is the array of ANY, SOME or ALL."""
    parent = parameter.parent
    while isinstance(parent, exp.Paren | exp.Cast):
        parent = parent.parent
    return _takes_array(parent)


def _replaced(query: str, literals: Sequence[str]) -> str:
    if "$" not in query:
        return query

    def replaced(match: re.Match[str]) -> str:
        if not match["number"]:
            return match[0]
        number = _place(match["number"])
        if number > len(literals):
            raise SqlError(
                INVALID_VALUE, f"a value for ${number} must be bound; got {len(literals)} values"
            )
        return literals[number - 1]

    return TOKEN.sub(replaced, query)


def _typed(literal: str, oid: int) -> str:
    if oid in _ELEMENTS:
        return f"CAST({literal} AS {_TYPES[_ELEMENTS[oid]].name}[])"
    type_ = _TYPES.get(oid)
    return f"CAST({literal} AS {type_.name})" if type_ else literal


def _literal(value: bytes | None, format_: int, oid: int) -> str:
    if value is None:
        return "NULL"
    type_ = _TYPES.get(oid)
    try:
        if oid in _ELEMENTS:
            return _list(value, format_, oid)
        if oid == _BYTEA_OID and format_ != BINARY:
            text = _bytes_text(_bytea(value))
        elif format_ != BINARY:
            text = value.decode()
            if oid in _INTEGERS and "." in text:
                raise SqlError(INVALID_VALUE, f"a parameter must be an integer; got {text}")
            if (zoned := _ZONED_DATE.fullmatch(text)) and oid in _DATED:
                text = f"{zoned[1]} 00:00{zoned[2]}" if oid == _TIMESTAMPTZ_OID else zoned[1]
        elif type_:
            text = type_.text(value)
        elif oid == UNKNOWN:  # which was described as text
            text = value.decode()
        else:
            raise SqlError(INVALID_VALUE, f"a parameter of type {oid} must be sent as text")
        if oid == NUMERIC_OID:
            return _number_literal(text)
    except (struct.error, ValueError, OverflowError) as error:
        raise SqlError(
            INVALID_VALUE, f"a parameter must be a value of type {oid}: {error}"
        ) from None
    quoted = "'" + text.replace("'", "''") + "'"
    return _typed(quoted, oid)


_INTEGERS = (20, 21, 23, 26)

_ZONED_DATE = re.compile(r"(\d{4,}-\d\d-\d\d) ([+-]\d\d(?::\d\d)?)")
_DATED = (1082, 1114, _TIMESTAMPTZ_OID)
"""The types that read a date with a time zone, which only matters to the last."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)")


def _number_literal(text: str) -> str:
    """A number with as many digits as it has."""
    if not _NUMBER.fullmatch(text):
        return f"CAST('{float(text)!r}' AS DOUBLE)"  # raises ValueError for what is no number
    scale = len(text.partition(".")[2])
    if scale > _MOST_DIGITS or len(text) - 2 > _MOST_DIGITS:
        return f"CAST('{text}' AS DOUBLE)"
    return f"CAST('{text}' AS DECIMAL({_MOST_DIGITS}, {scale}))"


_MOST_DIGITS = 38
