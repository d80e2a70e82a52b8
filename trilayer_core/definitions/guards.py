"""Which expressions of definitions can fail on an event, and what each of them reads.

Spark computes in ANSI mode, where a cast of text that is no number, an overflow, a division by zero
and the like raise an error. The parser sets an event aside for which an expression of a view over
its stream raises one: it counts in no view of the stream. Expressions that can't fail need no such
check: those that are `total`, and some that `is_total` knows beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from trilayer_core.definitions.expressions import (
    FLOATS,
    INTEGERS,
    Expression,
    decimal_precision,
    decimal_scale,
    is_decimal,
    normal_type,
)
from trilayer_core.definitions.stream import Source, Stream


@dataclass(frozen=True)
class Guard:
    """An expression that may fail on an event.

    Attributes:
        what: What it is, such as `where of aggregate 'ok' of view 'ok_by_host'`.
        written: What its author wrote.
        value: Spark SQL of it, over the stream's columns.
        condition: Spark SQL that selects the events for which it is computed; empty for all.
        columns: The columns that it reads, sorted.
    """

    what: str
    written: str
    value: str
    condition: str
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        """Spark SQL of a number, which raises an error exactly if the expression does."""
        number = f"hash({self.value})"
        return f"IF({self.condition}, {number}, 0)" if self.condition else number


@dataclass(frozen=True)
class Guarded(Expression):
    """An expression that may fail. Its `sql` is NULL for events that do not fit or do not count."""

    guard: Guard | None = field(default=None, compare=False)


def guarded(
    expression: Expression, what: str, stream: Source, under: Sequence[Expression | None] = ()
) -> Expression:
    """The expression, as one that is `Guarded` if it may fail.

    Args:
        expression: The expression.
        what: What it is, for reasons.
        stream: What it reads. Only a stream's events can be set aside.
        under: The filters that select the events for which it is computed.
    """
    if not isinstance(stream, Stream) or expression.total:
        return expression
    if is_total(expression.written, tuple(stream.columns.items())):
        return expression
    condition = " AND ".join(f"({e.sql})" for e in under if e is not None)
    # The columns of an event that does not fit are NULL, and some expressions fail on NULL.
    counts = f"`{stream.event_time}` IS NOT NULL" + (f" AND {condition}" if condition else "")
    columns = tuple(sorted(expression.columns))
    guard = Guard(what, expression.shown, expression.sql, condition, columns)
    return Guarded(
        f"IF({counts}, {expression.sql}, NULL)",
        expression.type,
        expression.columns,
        expression.written,
        guard=guard,
    )


def guards_of(expressions: Iterable[Expression | None]) -> list[Guard]:
    """The guards of those expressions that have one."""
    return [e.guard for e in expressions if isinstance(e, Guarded) and e.guard]


@lru_cache(maxsize=4096)
def is_total(sql: str, schema: tuple[tuple[str, str], ...]) -> bool:
    """Whether an expression over columns with these types can't fail, as far as is known."""
    try:
        node = sqlglot.parse_one(sql, dialect="spark")
    except SqlglotError:
        return False
    # sqlglot has one node for `try_cast(a as int)`, `cast(a as int)`, `int(a)` and `date'...'`.
    casts = [cast for cast in node.find_all(exp.Cast) if not _is_time_literal(cast)]
    tries = len(casts) == len(re.findall(r"\btry_cast\b", sql, re.IGNORECASE))
    return _type(node, dict(schema), tries=tries) is not None


def _is_time_literal(node: exp.Cast) -> bool:
    """Whether a cast is a constant such as `date'2020-01-01'`, or an equivalent one."""
    is_text = isinstance(node.this, exp.Literal) and node.this.is_string
    day = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])([ T]([01]\d|2[0-3]):[0-5]\d:[0-5]\d)?Z?"
    return is_text and bool(re.fullmatch(day, node.this.this)) and normal_type(node.to) in _TIMES


UNKNOWN = "unknown"
"""The type of an expression that can't fail, and that no other expression here may use."""

_TIMES = ("date", "timestamp", "timestamp_ntz")
_TEXT_FUNCTIONS = (exp.Lower, exp.Upper, exp.Trim, exp.Initcap)
_PARTS_OF_TIMES = (
    exp.Year,
    exp.Quarter,
    exp.Month,
    exp.Day,
    exp.DayOfMonth,
    exp.DayOfWeek,
    exp.DayOfYear,
    exp.WeekOfYear,
    exp.Hour,
    exp.Minute,
)
_IN_ZONE = (exp.AtTimeZone, exp.FromTimeZone)
_QUOTIENTS = {exp.Mod: "bigint", exp.Div: "double", exp.IntDiv: "bigint"}
_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.In,
    exp.Between,
)


def _type(node: exp.Expr, schema: Mapping[str, str], *, tries: bool) -> str | None:
    """The type of an expression that can't fail, or UNKNOWN; None if it may fail.

    Args:
        node: The expression.
        schema: Column name to Spark type.
        tries: Whether each cast is a `try_cast`.
    """
    if isinstance(node, exp.Column | exp.Dot):
        return _of_column(node, schema)
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else _number(node.this)
    if isinstance(node, exp.Boolean | exp.Null):
        return "boolean" if isinstance(node, exp.Boolean) else UNKNOWN
    parts = [
        child for child in node.iter_expressions() if not isinstance(child, exp.DataType | exp.Var)
    ]
    inner = [_type(part, schema, tries=tries) for part in parts]
    if isinstance(node, exp.Is):
        return "boolean" if inner[0] else None
    types = {type_ for type_ in inner if type_ is not None}
    if None in inner or not types:
        return None
    if isinstance(node, exp.Cast):
        to = normal_type(node.to)
        return to if tries or _is_time_literal(node) else _cast(types, to)
    return _of_operator(node, inner, types) or _of_text(node, types) or _of_time(node, inner)


def _of_column(node: exp.Expr, schema: Mapping[str, str]) -> str | None:
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        return schema.get(node.name, UNKNOWN)
    # A field of a struct can't fail; what it is a field of may.
    steps = exp.Column | exp.Dot | exp.Identifier
    return UNKNOWN if all(isinstance(step, steps) for step in node.walk()) else None


def _of_operator(node: exp.Expr, inner: list[str | None], types: set[str]) -> str | None:
    if isinstance(node, exp.Paren):
        return inner[0]
    if isinstance(node, exp.And | exp.Or | exp.Not):
        return "boolean" if types == {"boolean"} else None
    if isinstance(node, _COMPARISONS):
        return "boolean" if _comparable(types) and not node.args.get("query") else None
    if isinstance(node, exp.If | exp.Case):
        # Of a `Case`, each `If` is a part, and has the type of its value.
        values = {t for t in inner[isinstance(node, exp.If) :] if t != UNKNOWN}
        plain = isinstance(node, exp.If) or not node.args.get("this")
        return values.pop() if plain and len(values) == 1 else None
    if isinstance(node, exp.Coalesce | exp.Nullif):
        return inner[0] if len(types) == 1 and UNKNOWN not in types else None
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        return "double" if types <= set(FLOATS) else _decimal(node, inner)
    if isinstance(node, exp.Mod | exp.Div | exp.IntDiv):
        # By a constant that is neither 0 nor -1.
        by = node.expression
        constant = isinstance(by, exp.Literal) and not by.is_string and by.this.strip("0.") != ""
        return _QUOTIENTS[type(node)] if constant and types <= set(INTEGERS) else None
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return inner[0]
    return None


def _of_text(node: exp.Expr, types: set[str]) -> str | None:
    if isinstance(node, exp.DPipe | exp.Concat):
        return "string" if types <= {"string", *INTEGERS} else None
    if isinstance(node, exp.Length):
        return "int" if types == {"string"} else None
    if isinstance(node, exp.Substring):
        return "string" if types <= {"string", "int"} else None
    return "string" if isinstance(node, _TEXT_FUNCTIONS) and types == {"string"} else None


def _number(text: str) -> str | None:
    """The type of a number as it is written; None if it is a long one."""
    digits = text
    if not digits.replace(".", "", 1).isdigit() or len(digits) > 9:
        return None
    return "int" if digits.isdigit() else f"decimal({len(digits)},{len(digits.partition('.')[2])})"


_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_MOST_DIGITS = 38


def _digits(type_: str | None) -> tuple[int, int] | None:
    """The digits before and after the point of a number's type that is no floating-point type."""
    if type_ is not None and is_decimal(type_):
        scale = decimal_scale(type_)
        return decimal_precision(type_) - scale, scale
    return (_DIGITS[type_], 0) if type_ in _DIGITS else None


def _decimal(node: exp.Expr, inner: list[str | None]) -> str | None:
    """A type that holds every sum or product of decimals, if Spark's own type does.

    Spark's type of a product has a digit more than it needs.
    """
    one, two = (_digits(type_) for type_ in inner)
    if one is None or two is None or not any(is_decimal(str(type_)) for type_ in inner):
        return None
    if isinstance(node, exp.Mul):
        before, after = one[0] + two[0], one[1] + two[1]
    else:
        before, after = max(one[0], two[0]) + 1, max(one[1], two[1])
    return f"decimal({before + after},{after})" if before + after < _MOST_DIGITS else None


def _comparable(types: set[str]) -> bool:
    """Whether values of these types can be compared without a cast that fails."""
    if UNKNOWN in types:
        return False
    narrow = {t for t in types if t in (*INTEGERS, *FLOATS) or _is_narrow(t)}
    return len(types) == 1 or narrow == types


def _is_narrow(type_: str) -> bool:
    return is_decimal(type_) and decimal_precision(type_) <= _MOST_DIGITS - _DIGITS["bigint"]


def _cast(types: set[str], to: str) -> str | None:
    (type_,) = types if len(types) == 1 else (UNKNOWN,)
    if type_ == UNKNOWN:
        return None
    widened = type_ in INTEGERS and to in INTEGERS[INTEGERS.index(type_) :]
    have, fit = _digits(type_), _digits(to) if is_decimal(to) else None
    if have and fit:
        widened = fit[0] >= have[0] + (fit[1] < have[1])  # rounding may add a digit
    number = have is not None or type_ in FLOATS
    shown = to == "string" and (number or type_ in (*_TIMES, "boolean", "string"))
    same = to == type_ or (number and to in FLOATS) or {type_, to} <= set(_TIMES)
    return to if widened or shown or same else None


def _of_time(node: exp.Expr, inner: list[str | None]) -> str | None:
    """The type of a function of a time, which must not be text."""
    if not inner or inner[0] not in _TIMES:
        return None
    if isinstance(node, exp.TsOrDsToDate | exp.Date) and len(inner) == 1:
        return "date"
    if isinstance(node, exp.TimestampTrunc):
        return "timestamp"
    if isinstance(node, _IN_ZONE):
        return "timestamp" if isinstance(node.args.get("zone"), exp.Literal) else None
    return "int" if isinstance(node, _PARTS_OF_TIMES) and len(inner) == 1 else None
