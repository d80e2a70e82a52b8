"""The rules of alerts, in a form that never raises.

Sessions run in ANSI mode, in which `last[0]` of an empty array, a division by zero, an overflow or
a cast of the wrong text ends a query, and would end it again at every restart. Here a rule is
checked against a list of what is allowed, and rewritten so that each of these is NULL instead. What
is not in the list is refused. Types are derived as Spark derives them, because many functions and
operators are safe for some types only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import NoReturn

from sqlglot import exp

from trilayer_core.definitions.expressions import (
    CLOCK_TEXT,
    FLOATS,
    IDENTIFIER,
    INTEGERS,
    SCALARS,
    UNREPEATABLE,
    is_orderable,
    normal_type,
)
from trilayer_core.definitions.literals import TIME_OF_DAY, is_text
from trilayer_core.definitions.spark_types import INTERVALS as _INTERVALS
from trilayer_core.definitions.spark_types import TIME_KINDS as _TIMES
from trilayer_core.definitions.spark_types import SparkType, named_type
from trilayer_core.definitions.syntax import check_is_text, parse_over
from trilayer_core.errors import DefinitionError, did_you_mean

LAST, PROFILE = "last", "profile"
"""The names by which a rule refers to the events before an event, and to the row of the view."""

MOST_NESTED = 100
"""The most operators and calls around each other. Spark's analysis of deeper ones overflows its
stack.
"""

MOST_LAMBDAS = 2
"""The most lambdas around each other. An event takes time exponential in this number."""


# -- types -----------------------------------------------------------------------------------------


_NUMBERS = (*INTEGERS, *FLOATS, "decimal")
_BOOLEAN, _TEXT, _INT, _BIGINT, _DOUBLE, _DATE, _TIMESTAMP, _NULL, _DECIMAL = map(
    SparkType,
    ("boolean", "string", "int", "bigint", "double", "date", "timestamp", "null", "decimal"),
)
_DAYS, _INTERVAL, _MONTHS = map(SparkType, _INTERVALS)


def _digits(type_: SparkType) -> tuple[int, int] | None:
    """The digits of the decimal that Spark converts a number to, beside another decimal."""
    of_integers = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
    return (of_integers[type_.kind], 0) if type_.kind in INTEGERS else type_.digits


def _wider(types: Sequence[SparkType]) -> SparkType:
    """The type that Spark converts numbers to, in order to compare or choose them."""
    kinds = {type_.kind for type_ in types}
    if len(kinds) == 1 and kinds != {"decimal"}:
        return types[0]
    if kinds & {*FLOATS}:
        return _DOUBLE
    if "decimal" not in kinds:
        return SparkType(max(kinds, key=INTEGERS.index))
    every = [_digits(type_) for type_ in types]
    known = [digits for digits in every if digits]
    scale = max((digits[1] for digits in known), default=0)
    precision = scale + max((digits[0] - digits[1] for digits in known), default=0)
    fits = len(known) == len(every) and precision <= 38
    return SparkType("decimal", (precision, scale) if fits else None)


def _computed(operator: str, left: SparkType, right: SparkType) -> SparkType:
    """The type of the sum, difference, product, quotient or remainder of two numbers."""
    wider = _wider([left, right])
    if wider.kind != "decimal":
        return _DOUBLE if operator == "/" else wider
    one, two = _digits(left), _digits(right)
    if operator in "/%" or one is None or two is None:
        return _DECIMAL
    if operator == "*":
        precision, scale = one[0] + two[0] + 1, one[1] + two[1]
    else:
        scale = max(one[1], two[1])
        precision = max(one[0] - one[1], two[0] - two[1]) + scale + 1
    return SparkType("decimal", (precision, scale) if precision <= 38 else None)


# -- what is allowed -------------------------------------------------------------------------------

_MATHEMATICAL = (
    *("sqrt", "cbrt", "exp", "expm1", "ln", "log10", "log2", "log1p", "sign", "signum"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh"),
    *("atanh", "radians", "degrees"),
)
_PARTS_OF_DATES = (
    *("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekday"),
    "weekofyear",
)

# Functions that never raise for arguments of these types, with the type of their result. "integer"
# is converted to int; "time" is a date or a timestamp; "?" marks an argument that may be left out,
# and "*" one that may be repeated.
_FUNCTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("lower", "lcase", "upper", "ucase", "trim", "ltrim", "rtrim", "btrim"),
        ("string", "string"),
    ),
    **dict.fromkeys(("length", "len", "char_length", "character_length"), ("string", "int")),
    **dict.fromkeys(("substring", "substr"), ("string integer integer?", "string")),
    **dict.fromkeys(("left", "right"), ("string integer", "string")),
    **dict.fromkeys(("startswith", "endswith", "contains"), ("string string", "boolean")),
    "instr": ("string string", "int"),
    **dict.fromkeys(_MATHEMATICAL, ("number", "double")),
    **dict.fromkeys(("pow", "power", "atan2", "hypot"), ("number number", "double")),
    "log": ("number number?", "double"),
    **dict.fromkeys(("pi", "e"), ("", "double")),
    "isnan": ("number", "boolean"),
    **dict.fromkeys(_PARTS_OF_DATES, ("time", "int")),
    **dict.fromkeys(("hour", "minute", "second"), ("clock", "int")),
    **dict.fromkeys(("datediff", "date_diff"), ("time time", "int")),
    **dict.fromkeys(("unix_seconds", "unix_millis", "unix_micros"), ("timestamp", "bigint")),
    "unix_date": ("date", "int"),
    **dict.fromkeys(("isnull", "isnotnull"), ("any", "boolean")),
    "hash": ("scalar scalar*", "int"),
    "xxhash64": ("scalar scalar*", "bigint"),
    "array_size": ("array", "int"),
}
_ACCEPTED: dict[str, tuple[str, ...]] = {
    "number": _NUMBERS,
    "integer": INTEGERS,
    "time": _TIMES,
    "clock": ("timestamp", "timestamp_ntz"),
    "date or timestamp": ("date", "timestamp"),
    "scalar": (*SCALARS, "decimal"),
}

_ARITHMETIC = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide"} | {
    "%": "try_mod"
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)

# To which types a value can be cast. A cast to another type is refused by Spark.
_CASTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_NUMBERS, (*_NUMBERS, "string", "boolean", "timestamp")),
    "string": (*_NUMBERS, *_TIMES, "string", "boolean"),
    "boolean": (*_NUMBERS, "string", "boolean"),
    "date": (*_TIMES, "string"),
    "timestamp": (*_TIMES, *_NUMBERS, "string"),
    "timestamp_ntz": (*_TIMES, "string"),
    "null": (*_NUMBERS, *_TIMES, "string", "boolean"),
}

_DATE_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOW", "DOY")
_CLOCK_PARTS = ("HOUR", "MINUTE", "SECOND")
_TRUNCATED = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_DIFFERENCES = (*_TRUNCATED, "MILLISECOND")

# The units of intervals, in microseconds or months.
_MICROSECONDS = {"MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000}
_MICROSECONDS |= {"MINUTE": 60_000_000, "HOUR": 3_600_000_000}
_MICROSECONDS |= {"DAY": 86_400_000_000, "WEEK": 604_800_000_000}
_IN_MONTHS = {"MONTH": 1, "YEAR": 12}

# What to write instead of a function that is often wanted.
_INSTEAD = {
    **dict.fromkeys(
        ("rlike", "regexp", "regexp_like", "regexp_extract", "regexp_replace", "split", "ilike"),
        "startswith(), endswith(), contains() or LIKE",
    ),
    **dict.fromkeys(("to_timestamp", "timestamp"), "CAST(... AS TIMESTAMP)"),
    **dict.fromkeys(("unix_timestamp",), "unix_seconds(...) of a timestamp"),
    **dict.fromkeys(("date", "date_format"), "CAST(... AS DATE), or year() and the like"),
    **dict.fromkeys(("div", "pmod"), "floor(a / b) or a % b"),
    **dict.fromkeys(("int", "bigint", "double", "string", "to_number"), "CAST(... AS TYPE)"),
    "add_months": "... + INTERVAL 1 MONTH",
    "named_struct": "the fields one by one",
    "map_filter": "m['key']",
}


@dataclass(frozen=True)
class _Value:
    """A part of the total rule, with its type."""

    node: exp.Expr
    type: SparkType


def _fitted(value: _Value) -> SparkType:
    """The type of an operand beside a decimal: a literal integer has no more digits than needed."""
    node = value.node.this if isinstance(value.node, exp.Neg) else value.node
    if value.type.kind not in INTEGERS or not isinstance(node, exp.Literal):
        return value.type
    return SparkType("decimal", (len(node.this.lstrip("0")) or 1, 0))


# -- building blocks of the total form -------------------------------------------------------------


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _operand(node: exp.Expr) -> exp.Expr:
    """The node, in brackets if it is an operator."""
    plain = (exp.Column, exp.Dot, exp.Literal, exp.Boolean, exp.Null, exp.Anonymous, exp.Case)
    return node if isinstance(node, (*plain, exp.TryCast, exp.Interval)) else exp.Paren(this=node)


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def _try_cast(node: exp.Expr, type_: str) -> exp.Expr:
    kind = exp.DataType.build(type_, dialect="spark")
    return exp.TryCast(this=node, to=kind, safe=True)


def _within(node: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr:
    """The value, or NULL if it is outside of a range; NaN is above every range.

    A lambda is used, because a value that is written twice would be computed twice, or 2^n times if
    such calls are nested.
    """
    value = exp.column(_quoted(_GUARDED))
    inside = exp.Lambda(
        this=exp.Between(this=value, low=low, high=high), expressions=[_quoted(_GUARDED)]
    )
    return _call("get", _call("filter", _call("array", node), inside), _number(0))


_GUARDED = "_v"


def _as_timestamp(value: _Value, kind: str = "timestamp") -> exp.Expr:
    """A date as a timestamp. Spark's `try_cast` raises for dates that no timestamp can hold."""
    if value.type.kind != "date":
        return value.node
    days = (_call("date_from_unix_date", _number(sign * 106_751_990)) for sign in (-1, 1))
    return _try_cast(_within(value.node, *days), kind)


def parse_rule(
    sql: str,
    columns: Mapping[str, str],
    what: str,
    *,
    last: int,
    profile: Mapping[str, str] | None,
) -> str:
    """Checks the rule of an alert and makes it total.

    Args:
        sql: Spark SQL over the columns, `last` and `profile`.
        columns: The columns of the stream, with their Spark types.
        what: What the rule is, for messages.
        last: How many structs of all columns the array `last` has at most; 0 if there is no `last`.
        profile: The columns of the struct `profile`, with their Spark types; None if there is no
            `profile`.

    Returns:
        Spark SQL of a boolean that has the same value as the rule, and NULL for each part of it
        that would raise.

    Raises:
        DefinitionError: It is not one boolean expression, names something unknown, or contains a
            part that is not known never to raise.
    """
    rule = _Rule(sql, what, columns, last, profile)
    try:
        value = rule.value(rule.parsed())
    except RecursionError:
        rule.refuse(f"be at most {MOST_NESTED} levels deep", "nests deeper", "a shorter rule")
    if value.type != _BOOLEAN:
        rule.refuse("be boolean", f"is {value.type}", "a condition, such as `amount > 100`")
    return value.node.sql(dialect="spark")


class _Rule:
    """One walk over a rule: each node becomes a node of the total form, with its type."""

    def __init__(
        self,
        sql: str,
        what: str,
        columns: Mapping[str, str],
        last: int,
        profile: Mapping[str, str] | None,
    ) -> None:
        self.sql, self.what = sql, what
        self.scope = {name: named_type(type_) for name, type_ in columns.items()}
        self.columns = frozenset(columns)
        if last:
            event = SparkType("struct", fields=tuple(self.scope.items()))
            self.scope[LAST] = SparkType("array", element=event)
        if profile is not None:
            fields = ((name, named_type(type_)) for name, type_ in profile.items())
            self.scope[PROFILE] = SparkType("struct", fields=tuple(fields))
        self.last = last
        self.lambdas: list[str] = []
        self.depth = 0

    # -- messages ----------------------------------------------------------------------------------

    def refuse(self, must: str, but: str, write: str) -> NoReturn:
        raise DefinitionError(
            f"{self.what} must {must}; got {self.sql!r}, which {but}; write {write}"
        )

    def _refuse_node(self, node: exp.Expr, write: str) -> NoReturn:
        self.refuse(
            "consist of what never fails, whatever the values are",
            f"contains {node.sql('spark')!r}",
            write,
        )

    def _refuse_type(self, node: exp.Expr, must: str, type_: SparkType, write: str) -> NoReturn:
        self.refuse(
            "have operands of the right types, because conversions may fail",
            f"contains {node.sql('spark')!r}, where {must}, and not {type_}",
            write,
        )

    # -- parsing -----------------------------------------------------------------------------------

    def parsed(self) -> exp.Expr:
        sql, what = self.sql, self.what
        check_is_text(sql, what)
        if "\\" in sql or "${" in sql:
            self.refuse(
                "contain no backslash and no `${`, which Spark replaces",
                "contains one",
                "a shorter text and startswith(), endswith() or contains()",
            )
        return parse_over(sql, self.columns, what)

    # -- the walk ----------------------------------------------------------------------------------

    def value(self, node: exp.Expr) -> _Value:
        """The total form of a node."""
        walk = _NODES.get(type(node))
        if walk is None:
            if isinstance(node, exp.Window | exp.Query | exp.Subquery):
                self._refuse_set(node)
            name = type(node).__name__
            self._refuse_node(node, _NODE_INSTEAD.get(name, "it with what docs/reference.md lists"))
        unknown = {key for key, given in node.args.items() if given} - _ARGUMENTS
        if unknown:  # such as the `symmetric` of BETWEEN, which would be lost
            self._refuse_node(node, f"it without {', '.join(sorted(unknown)).upper()}")
        self.depth += 1
        if self.depth > MOST_NESTED:
            self.refuse(f"be at most {MOST_NESTED} levels deep", "is deeper", "a shorter rule")
        found = walk(self, node)
        self.depth -= 1
        return found

    def _refuse_set(self, node: exp.Expr) -> NoReturn:
        self.refuse(
            "be computed from one event, `last` and `profile`",
            f"contains {node.sql('spark')!r} (an aggregate, window function, subquery or"
            " generator)",
            "`aggregate(last, 0D, (s, e) -> s + e.amount)` for a sum over `last`,"
            " `array_max(last.amount)` for its maximum, `last[0].amount` for the value before, and"
            " `profile` for what a view has counted",
        )

    def _of_kinds(self, node: exp.Expr, kinds: Sequence[str], name: str) -> _Value:
        """The total form of an operand that must have one of some types."""
        found = self.value(node)
        if found.type.kind not in kinds:
            hint = f"TRY_CAST({node.sql('spark')} AS {_EXAMPLES.get(name, name).upper()})"
            self._refuse_type(
                node.parent or node, f"{node.sql('spark')!r} must be {name}", found.type, hint
            )
        return found

    def _boolean(self, node: exp.Expr) -> exp.Expr:
        return _operand(self._of_kinds(node, ("boolean",), "boolean").node)

    def _together(
        self, where: exp.Expr, nodes: Sequence[exp.Expr]
    ) -> tuple[list[exp.Expr], SparkType]:
        """Operands that are compared or chosen from, converted to one type.

        Spark converts numbers to each other without failing. It would convert text to anything,
        which fails.
        """
        values = [self.value(node) for node in nodes]
        types = [value.type for value in values if value.type != _NULL]
        if not types:
            return [value.node for value in values], _NULL
        kinds = {type_.kind for type_ in types}
        type_ = types[0]
        if kinds <= {*_NUMBERS}:
            type_ = _wider(types)
        elif kinds <= {"days", "time interval"}:
            type_ = _DAYS if kinds == {"days"} else _INTERVAL
        elif kinds in ({"date", "timestamp"}, {"date", "timestamp_ntz"}):
            (kind,) = kinds - {"date"}
            return [_operand(_as_timestamp(value, kind)) for value in values], SparkType(kind)
        else:
            for node, value in zip(nodes, values, strict=True):
                if value.type not in (type_, _NULL):
                    self._refuse_mixed(where, node, value.type, type_)
        return [_operand(value.node) for value in values], type_

    def _refuse_mixed(
        self, where: exp.Expr, node: exp.Expr, own: SparkType, others: SparkType
    ) -> NoReturn:
        castable = others.kind in _CASTS.get(own.kind, ())
        write = f"TRY_CAST({node.sql('spark')} AS {str(others).upper()})"
        if isinstance(where, exp.Predicate) and own.kind in _NUMBERS and others.kind == "string":
            # As text, numbers would be compared by their digits, where '10' comes before '5'.
            write = (
                f"TRY_CAST(... AS DOUBLE) around the text, or {node.sql('spark')} in quotes if it"
                " is text"
            )
        self.refuse(
            "compare and choose between operands of one type, because conversions may fail",
            f"contains {where.sql('spark')!r}, which mixes {others} and {own}",
            write if castable else "operands of one type",
        )

    # -- leaves ------------------------------------------------------------------------------------

    def _literal(self, node: exp.Literal, sign: int = 1) -> _Value:
        text = node.this
        if node.is_string:
            return _Value(exp.Literal.string(text), _TEXT)
        literal: exp.Expr = exp.Literal.number(text)
        literal = exp.Neg(this=literal) if sign < 0 else literal
        if "e" in text.lower():
            if float(text) in (float("inf"), 0.0) and text.strip("0.eE+-"):
                self._refuse_node(node, "a number that a double can hold")
            return _Value(literal, _DOUBLE)
        whole, _, fraction = text.partition(".")
        digits = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
        if digits > 38:
            self._refuse_node(node, "a number of at most 38 digits, or one such as 1e50")
        if "." not in text:
            for kind, bits in (("int", 31), ("bigint", 63)):
                if -(2**bits) <= sign * int(text) < 2**bits:
                    return _Value(literal, SparkType(kind))
        return _Value(literal, SparkType("decimal", (digits, len(fraction))))

    def _boolean_literal(self, node: exp.Boolean) -> _Value:
        return _Value(exp.Boolean(this=node.this), _BOOLEAN)

    def _null(self, node: exp.Null) -> _Value:
        return _Value(exp.Null(), _NULL)

    def _interval(self, node: exp.Interval) -> _Value:
        unit = str(node.args.get("unit") or "").upper().removesuffix("S")
        text = node.this.name if isinstance(node.this, exp.Literal) else ""
        size = _MICROSECONDS.get(unit) or _IN_MONTHS.get(unit)
        limit = 2**63 if unit in _MICROSECONDS else 2**31
        if size is None or not re.fullmatch(r"-?\d{1,18}", text) or abs(int(text)) * size >= limit:
            self._refuse_node(
                node, "a whole number of one unit in it, such as `INTERVAL 90 SECONDS`"
            )
        kind = _MONTHS if unit in _IN_MONTHS else _DAYS if unit in ("DAY", "WEEK") else _INTERVAL
        return _Value(exp.Interval(this=exp.Literal.string(text), unit=exp.Var(this=unit)), kind)

    def _named(self, name: str, node: exp.Expr) -> _Value:
        if name not in self.scope:
            if name in (LAST, PROFILE):
                self.refuse(
                    f"use `{name}` only if the alert has it",
                    f"names `{name}`",
                    f"`{name}=` in the alert: " + _GIVE[name],
                )
            if name.lower() in UNREPEATABLE:
                self._refuse_clock(name)
            raise DefinitionError(
                f"{self.what} must use columns of its source; got {name!r} in"
                f" {self.sql!r}{did_you_mean(name, self.scope)}"
            )
        return _Value(exp.column(_quoted(name)), self.scope[name])

    def _refuse_clock(self, name: str) -> NoReturn:
        self.refuse(
            "give the same answer in every run",
            f"calls {name}()",
            "the event's own columns",
        )

    def _column(self, node: exp.Column) -> _Value:
        first, *rest = node.parts
        if isinstance(node.this, exp.Star):
            self._refuse_node(node, "each column by its name")
        found = self._named(first.name, node)
        for part in rest:
            found = self._field(found, part.name, node)
        return found

    def _identifier(self, node: exp.Identifier) -> _Value:
        return self._named(node.name, node)

    def _dot(self, node: exp.Dot) -> _Value:
        if not isinstance(node.expression, exp.Identifier):
            self._refuse_node(node, "the name of a field after the dot")
        return self._field(self.value(node.this), node.expression.name, node)

    def _field(self, found: _Value, name: str, node: exp.Expr) -> _Value:
        of_array = found.type.kind == "array" and found.type.element is not None
        struct = found.type.element if of_array else found.type
        fields = dict(struct.fields) if struct else {}
        if not fields:
            self._refuse_type(
                node, f"what has a field {name!r} must be a struct", found.type, "it without a dot"
            )
        # Names of fields are compared without case, and written as the struct has them.
        declared = {field.lower(): field for field in fields}.get(name.lower())
        if declared is None:
            raise DefinitionError(
                f"{self.what} must use fields that there are; got {name!r} in"
                f" {node.sql('spark')!r}, in {self.sql!r}{did_you_mean(name, fields)}"
            )
        type_ = fields[declared]
        type_ = SparkType("array", element=type_) if of_array else type_
        return _Value(exp.Dot(this=_operand(found.node), expression=_quoted(declared)), type_)

    # -- operators ---------------------------------------------------------------------------------

    def _paren(self, node: exp.Paren) -> _Value:
        return self.value(node.this)

    def _connected(self, node: exp.Connector) -> _Value:
        sides = {side: self._boolean(node.args[side]) for side in ("this", "expression")}
        return _Value(type(node)(**sides), _BOOLEAN)

    def _not(self, node: exp.Not) -> _Value:
        return _Value(exp.Not(this=self._boolean(node.this)), _BOOLEAN)

    def _compared(self, node: exp.Binary) -> _Value:
        (left, right), type_ = self._together(node, [node.this, node.expression])
        self._check_comparable(node, type_)
        return _Value(type(node)(this=left, expression=right), _BOOLEAN)

    def _check_comparable(self, node: exp.Expr, type_: SparkType) -> None:
        if not type_.is_comparable:
            self._refuse_type(node, "what is compared must not contain a map", type_, "m['key']")

    def _between(self, node: exp.Between) -> _Value:
        parts = [node.this, node.args["low"], node.args["high"]]
        (this, low, high), type_ = self._together(node, parts)
        self._check_comparable(node, type_)
        return _Value(exp.Between(this=this, low=low, high=high), _BOOLEAN)

    def _in(self, node: exp.In) -> _Value:
        if not node.expressions:
            self._refuse_node(node, "IN with a list, or array_contains(array, value)")
        (this, *rest), type_ = self._together(node, [node.this, *node.expressions])
        self._check_comparable(node, type_)
        return _Value(exp.In(this=this, expressions=rest), _BOOLEAN)

    def _is(self, node: exp.Is) -> _Value:
        if isinstance(node.expression, exp.Null):
            return _Value(
                exp.Is(this=_operand(self.value(node.this).node), expression=exp.Null()), _BOOLEAN
            )
        if not isinstance(node.expression, exp.Boolean):
            self._refuse_node(node, "IS NULL, IS TRUE or IS FALSE")
        truth = exp.Boolean(this=node.expression.this)
        return _Value(exp.Is(this=self._boolean(node.this), expression=truth), _BOOLEAN)

    def _like(self, node: exp.Like) -> _Value:
        pattern = node.expression
        text = pattern.this if isinstance(pattern, exp.Literal) and pattern.is_string else None
        # Other patterns can take time polynomial in the length of a text, of a high degree.
        if text is None or not re.fullmatch(r"[^%]*%?[^%]*|%[^%]*%", text, re.DOTALL):
            self._refuse_node(
                node,
                "a text with one `%`, or one at its start and its end, after LIKE; or use"
                " startswith(), endswith() and contains()",
            )
        found = self._of_kinds(node.this, ("string",), "string").node
        like = exp.Like(this=_operand(found), expression=exp.Literal.string(text))
        return _Value(exp.Not(this=_operand(like)) if node.args.get("negate") else like, _BOOLEAN)

    def _negated(self, node: exp.Neg) -> _Value:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return self._literal(node.this, -1)
        found = self._of_kinds(node.this, (*_NUMBERS, *_INTERVALS), "number")
        kind = found.type.kind
        if kind in INTEGERS:
            zero = _try_cast(_number(0), kind)
            return _Value(_call("try_subtract", zero, found.node), found.type)
        if kind in _INTERVALS:
            minus_one = exp.Neg(this=_number(1))
            type_ = _MONTHS if kind == "months" else _INTERVAL
            return _Value(_call("try_multiply", found.node, minus_one), type_)
        self._check_rounding(node, found.type)
        return _Value(exp.Neg(this=_operand(found.node)), found.type)

    def _check_rounding(self, node: exp.Expr, type_: SparkType) -> None:
        """Refuses decimals that Spark rounds to 34 digits in `-x` and `abs(x)`, which may fail."""
        if type_.kind == "decimal" and (type_.digits is None or type_.digits[0] > 34):
            self._refuse_type(
                node,
                "a decimal must be known to have at most 34 digits",
                type_,
                "CAST(... AS DECIMAL(34, 2)) around the operand",
            )

    def _arithmetic(self, node: exp.Expr) -> _Value:
        operator = _OPERATORS[type(node)]
        return self._computed(node, operator, [node.this, node.expression])

    def _computed(self, node: exp.Expr, operator: str, nodes: Sequence[exp.Expr]) -> _Value:
        left, right = (self.value(side) for side in nodes)
        if operator in "+*" and left.type.kind in (*_INTERVALS, *INTEGERS):
            # Spark has `time + interval` in this order only for some types.
            swapped = right.type.kind in (_TIMES if operator == "+" else _INTERVALS)
            left, right = (right, left) if swapped else (left, right)
        one, two = left.type.kind, right.type.kind
        type_ = None
        if one in _NUMBERS and two in _NUMBERS:
            decimal = "decimal" in (one, two)
            sides = (_fitted(side) if decimal else side.type for side in (left, right))
            type_ = _computed(operator, *sides)
        elif one in _INTERVALS and two in _NUMBERS and operator in "*/":
            type_ = _MONTHS if one == "months" else _INTERVAL
        elif one in _INTERVALS and two in _INTERVALS and operator in "+-":
            if (one == "months") == (two == "months"):
                type_ = left.type if one == two else _INTERVAL
        elif one in _TIMES and two in _INTERVALS and operator in "+-":
            type_ = _TIMESTAMP if one == "date" and two == "time interval" else left.type
        elif one == "date" and two in INTEGERS and operator in "+-":
            type_, right = _DATE, _Value(self._as_int(right), _INT)
        elif operator == "-" and {one, two} <= {"date", "timestamp"}:
            type_ = _DAYS if one == two == "date" else _INTERVAL
        elif operator == "-" and one == two == "timestamp_ntz":
            type_ = _INTERVAL
        if one == "timestamp" or two in ("timestamp", "time interval"):
            # Spark converts a date on its own, and that may raise even inside of `try_subtract`.
            left, right = (_Value(_as_timestamp(side), side.type) for side in (left, right))
        if type_ is None:
            self._refuse_type(
                node,
                f"what is beside {left.type} and {operator} must be a number, or a time or interval"
                " that fits it",
                right.type,
                "TRY_CAST(... AS TYPE) around the operand of another type",
            )
        return _Value(_call(_ARITHMETIC[operator], left.node, right.node), type_)

    def _as_int(self, found: _Value) -> exp.Expr:
        """An integer as an int, which Spark would convert it to; NULL if it is too large."""
        return _try_cast(found.node, "int") if found.type.kind == "bigint" else found.node

    def _joined(self, node: exp.DPipe) -> _Value:
        return self._concat(node, [node.this, node.expression])

    def _bracket(self, node: exp.Bracket) -> _Value:
        if len(node.expressions) != 1:
            self._refuse_node(node, "one index in the brackets")
        return self._element(node, node.this, node.expressions[0], first=0)

    def _element(self, node: exp.Expr, of: exp.Expr, at: exp.Expr, first: int) -> _Value:
        """An element of an array, from 0 or 1 on, or the value of a key of a map."""
        found = self._of_kinds(of, ("array", "map"), "an array or a map")
        element = found.type.element or _NULL
        if found.type.kind == "map":
            key = self._of_kinds(at, ("string",), "string")
            return _Value(_call("try_element_at", found.node, key.node), element)
        index = self._as_int(self._of_kinds(at, INTEGERS, "integer"))
        self._check_reach(node, of, at, first)
        if not first:
            return _Value(_call("get", found.node, index), element)
        # Even `try_element_at` raises for the index 0.
        index = _call("nullif", index, _number(0))
        return _Value(_call("try_element_at", found.node, index), element)

    def _check_reach(self, node: exp.Expr, of: exp.Expr, at: exp.Expr, first: int) -> None:
        """Refuses an index of `last` itself at which there is never an event."""
        negative = isinstance(at, exp.Neg)
        number = at.this if isinstance(at, exp.Neg) else at
        if not (isinstance(of, exp.Column) and of.name == LAST and isinstance(number, exp.Literal)):
            return
        place = int(number.name)
        if first and negative and place <= self.last:
            return  # counted from the end
        if negative or not first <= place < self.last + first:
            self.refuse(
                f"look at the {self.last} events that `last` has",
                f"contains {node.sql('spark')!r}, which is always NULL",
                f"an index from {first}, the newest, to {self.last - 1 + first}, the oldest",
            )

    def _case(self, node: exp.Case) -> _Value:
        whens = [branch.this for branch in node.args["ifs"]]
        this = None
        if node.this:
            (this, *conditions), type_ = self._together(node, [node.this, *whens])
            self._check_comparable(node, type_)
        else:
            conditions = [self._boolean(when) for when in whens]
        chosen = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        results, type_ = self._together(node, [*chosen, *([default] if default else [])])
        otherwise = results.pop() if default else None
        branches = [
            exp.If(this=condition, true=result)
            for condition, result in zip(conditions, results, strict=True)
        ]
        return _Value(exp.Case(this=this, ifs=branches, default=otherwise), type_)

    def _cast(self, node: exp.Cast) -> _Value:
        to = normal_type(node.to, f"type in {self.what}")
        if not is_orderable(to):
            self._refuse_node(node, "a cast to a number, text, a boolean, a date or a time")
        type_ = named_type(to)
        if not isinstance(node, exp.TryCast):  # a literal such as DATE'2026-01-01'
            self._check_time_literal(node, type_)
        found = self._of_kinds(node.this, tuple(_CASTS), "a number, text, a boolean or a time")
        if type_.kind not in _CASTS[found.type.kind]:
            self._refuse_type(
                node,
                f"what is cast to {to} must be of a type that Spark casts to it",
                found.type,
                "another type",
            )
        if found.type == _TEXT and type_.kind in _TIMES:
            self._check_no_clock(node)
            if type_.kind == "timestamp" and not is_text(node.this):
                # Spark would add the current date to a time of day, which becomes no time here.
                day = exp.Literal.string(f"^(?={TIME_OF_DAY})")
                text = exp.Anonymous(
                    this="regexp_replace", expressions=[found.node, day, exp.Literal.string("?")]
                )
                found = _Value(text, found.type)
        if found.type.kind == "date" and type_.kind in ("timestamp", "timestamp_ntz"):
            return _Value(_as_timestamp(found, type_.kind), type_)
        cast = found.node
        if found.type == _BOOLEAN and type_.kind == "decimal":
            cast = _try_cast(cast, "int")  # Spark's `try_cast` raises for decimal(1,1)
        return _Value(_try_cast(cast, to), type_)

    def _check_time_literal(self, node: exp.Cast, type_: SparkType) -> None:
        text = node.this.name
        try:
            if not text.isascii():
                raise ValueError(text)
            (date if type_ == _DATE else datetime).fromisoformat(text)
        except ValueError:
            self._refuse_node(
                node, "DATE'2026-01-31' or TIMESTAMP'2026-01-31 12:00:00', a real one"
            )

    def _check_no_clock(self, node: exp.Cast) -> None:
        """Refuses text that Spark may read as a time by its clock, such as 'today'.

        Spark does that for text that is constant, even if it is computed.
        """
        literals = [literal.this for literal in node.this.find_all(exp.Literal)]
        constant = not isinstance(node.this, exp.Literal) and not any(
            node.this.find_all(exp.Column, exp.Identifier)
        )
        if constant or any(map(CLOCK_TEXT.match, literals)):
            self.refuse(
                "give the same answer in every run",
                f"contains {node.sql('spark')!r}, which Spark may take for a time of its clock",
                "a date such as DATE'2026-01-31', or the event's own columns",
            )

    def _extract(self, node: exp.Extract) -> _Value:
        return self._date_part(node, str(node.this).upper().strip("'"), node.expression)

    def _date_part(self, node: exp.Expr, part: str, of: exp.Expr) -> _Value:
        if part not in (*_DATE_PARTS, *_CLOCK_PARTS):
            self._refuse_node(node, f"one of {', '.join((*_DATE_PARTS, *_CLOCK_PARTS))}")
        name = "clock" if part in _CLOCK_PARTS else "time"
        found = self._of_kinds(of, _ACCEPTED[name], name)
        type_ = SparkType("decimal", (8, 6)) if part == "SECOND" else _INT
        return _Value(_call("date_part", exp.Literal.string(part), found.node), type_)

    # -- calls -------------------------------------------------------------------------------------

    def _called(self, node: exp.Anonymous) -> _Value:
        name = node.name.lower()
        if self.lambdas and name in ("transform", "concat_ws"):
            # Of 100 elements with 100 texts each, the text could be larger than any memory.
            self._refuse_node(node, f"{name}() outside of lambdas")
        special = _SPECIAL.get(name)
        if special is not None:
            numbers, walk = special
            if len(node.expressions) not in numbers:
                self._refuse_arguments(node)
            return walk(self, node, node.expressions)
        if name not in _FUNCTIONS:
            self._refuse_function(node, name)
        parameters, result = _FUNCTIONS[name]
        arguments = self._arguments(node, parameters.split())
        return _Value(_call(name, *arguments), SparkType(result))

    def _refuse_arguments(self, node: exp.Expr) -> NoReturn:
        self._refuse_node(node, "the call with the arguments that Spark's function has")

    def _refuse_function(self, node: exp.Anonymous, name: str) -> NoReturn:
        if name in UNREPEATABLE:
            self._refuse_clock(name)
        known = exp.FUNCTION_BY_NAME.get(name.upper())
        if known and issubclass(known, exp.AggFunc | exp.Explode):
            self._refuse_set(node)
        near = did_you_mean(name, (*_FUNCTIONS, *_SPECIAL))
        instead = _INSTEAD.get(name, "it with functions that docs/reference.md lists")
        self.refuse(
            "call only functions that are known never to fail",
            f"calls {name}(){near}",
            instead,
        )

    def _arguments(self, node: exp.Anonymous, parameters: list[str]) -> list[exp.Expr]:
        given = node.expressions
        least = sum(not parameter.endswith(("?", "*")) for parameter in parameters)
        if parameters and parameters[-1].endswith("*"):
            parameters = parameters + [parameters[-1]] * (len(given) - len(parameters))
        if not least <= len(given) <= len(parameters):
            self._refuse_arguments(node)
        return [
            self._argument(argument, parameter.rstrip("?*"))
            for argument, parameter in zip(given, parameters, strict=False)
        ]

    def _argument(self, node: exp.Expr, name: str) -> exp.Expr:
        if name == "any":
            return self.value(node).node
        found = self._of_kinds(node, _ACCEPTED.get(name, (name,)), name)
        return self._as_int(found) if name == "integer" else found.node

    def _tried(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        names = {name: operator for operator, name in _ARITHMETIC.items()} | {"mod": "%"}
        return self._computed(node, names[node.name.lower()], given)

    def _moved_date(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        moved = self._of_kinds(given[0], ("date",), "date").node
        days = self._argument(given[1], "integer")
        name = "try_subtract" if node.name.lower() == "date_sub" else "try_add"
        return _Value(_call(name, moved, days), _DATE)

    def _chosen(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        results, type_ = self._together(node, given)
        if node.name.lower() in ("greatest", "least", "nullif"):
            self._check_comparable(node, type_)
        return _Value(_call(node.name.lower(), *results), type_)

    def _nullif(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        (this, other), type_ = self._together(node, given)
        self._check_comparable(node, type_)
        own = self.value(given[0]).type
        return _Value(_call("nullif", this, other), own if own.kind in _NUMBERS else type_)

    def _if(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        results, type_ = self._together(node, given[1:])
        return _Value(_call("if", self._boolean(given[0]), *results), type_)

    def _nvl2(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        results, type_ = self._together(node, given[1:])
        return _Value(_call("nvl2", self.value(given[0]).node, *results), type_)

    def _nanvl(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        return _Value(
            _call("nanvl", *(_try_cast(self._argument(of, "number"), "double") for of in given)),
            _DOUBLE,
        )

    def _concat(self, node: exp.Expr, given: Sequence[exp.Expr]) -> _Value:
        parts, type_ = self._together(node, given)
        if type_.kind not in ("string", "array"):
            self._refuse_type(
                node, "each operand must be text", type_, "CAST(... AS STRING) around the operand"
            )
        return _Value(_call("concat", *parts), type_)

    def _concat_ws(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        if not is_text(given[0]):
            self._refuse_node(node, "a literal text as the separator")
        parts = []
        for part in given[1:]:
            found = self.value(part)
            if found.type not in (_TEXT, SparkType("array", element=_TEXT)):
                self._refuse_type(
                    node, "each operand must be text or an array of text", found.type,
                    "CAST(... AS STRING) around the operand",
                )  # fmt: skip
            parts.append(found.node)
        return _Value(_call("concat_ws", self.value(given[0]).node, *parts), _TEXT)

    def _replaced(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        texts = [of.this for of in given[1:] if is_text(of)]
        # A text could otherwise grow beyond what Spark can hold.
        if len(texts) != len(given) - 1 or len("".join(texts[1:]).encode()) > len(
            texts[0].encode()
        ):
            self._refuse_node(node, "two literal texts of which the second is not longer")
        of = self._argument(given[0], "string")
        return _Value(_call("replace", of, *(self.value(text).node for text in given[1:])), _TEXT)

    def _abs(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        found = self._of_kinds(given[0], _NUMBERS, "number")
        self._check_rounding(node, found.type)
        if found.type.kind not in INTEGERS:
            return _Value(_call("abs", found.node), found.type)
        positive = _call("abs", _try_cast(found.node, "decimal(20,0)"))
        return _Value(_try_cast(positive, found.type.kind), found.type)

    def _round(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        scale = given[1] if len(given) > 1 else exp.Literal.number(0)
        text = scale.name if isinstance(scale, exp.Literal) and not scale.is_string else ""
        if not re.fullmatch(r"\d{1,2}", text) or int(text) > 38:
            self._refuse_node(node, "a literal number of digits from 0 to 38")
        found = self._of_kinds(given[0], _NUMBERS, "number")
        type_ = _DECIMAL if found.type.kind == "decimal" else found.type
        return _Value(_call(node.name.lower(), found.node, _number(int(text))), type_)

    def _floor(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        found = self._of_kinds(given[0], _NUMBERS, "number")
        whole = found.node
        if found.type.kind in FLOATS:
            bounds = (exp.Literal.number("9.223372036854774e18") for _ in range(2))
            low, high = exp.Neg(this=next(bounds)), next(bounds)
            whole = _within(whole, low, high)
        type_ = _DECIMAL if found.type.kind == "decimal" else _BIGINT
        return _Value(_call(node.name.lower(), whole), type_)

    # -- times -------------------------------------------------------------------------------------

    def _unit(self, node: exp.Expr, of: exp.Expr, units: Sequence[str]) -> str:
        unit = of.name.upper() if isinstance(of, exp.Literal | exp.Column | exp.Var) else ""
        if unit not in units:
            self._refuse_node(node, f"one of {', '.join(units)} as the unit")
        return unit

    def _date_trunc(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        unit = self._unit(node, given[0] if is_text(given[0]) else node, _TRUNCATED)
        found = self._of_kinds(given[1], _ACCEPTED["date or timestamp"], "timestamp")
        bounds = (
            _call("timestamp_micros", _number(sign * 9_223_300_000_000_000_000)) for sign in (-1, 1)
        )
        inside = _within(_as_timestamp(found), *bounds)
        return _Value(_call("date_trunc", exp.Literal.string(unit), inside), _TIMESTAMP)

    def _trunc(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        unit = self._unit(node, given[1] if is_text(given[1]) else node, _TRUNCATED[:4])
        found = self._of_kinds(given[0], _TIMES, "date")
        return _Value(_call("trunc", found.node, exp.Literal.string(unit)), _DATE)

    def _date_part_call(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        part = given[0].name.upper() if is_text(given[0]) else ""
        return self._date_part(node, part, given[1])

    def _timestampdiff(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        unit = self._unit(node, given[0], _DIFFERENCES)
        sides = [
            _as_timestamp(self._of_kinds(side, _ACCEPTED["date or timestamp"], "timestamp"))
            for side in given[1:]
        ]
        return _Value(_call("timestampdiff", exp.Var(this=unit), *sides), _BIGINT)

    def _to_date(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        return _Value(_try_cast(self._argument(given[0], "time"), "date"), _DATE)

    # -- arrays ------------------------------------------------------------------------------------

    def _array_of(self, node: exp.Expr) -> tuple[exp.Expr, SparkType]:
        found = self._of_kinds(node, ("array",), "an array")
        return found.node, found.type.element or _NULL

    def _size(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        return _Value(
            _call("size", self._of_kinds(given[0], ("array", "map"), "an array").node), _INT
        )

    def _array(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        elements, type_ = self._together(node, given)
        if type_ == _NULL:
            self._refuse_node(node, "an array with at least one element that is not NULL")
        return _Value(_call("array", *elements), SparkType("array", element=type_))

    def _get(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        array, element = self._array_of(given[0])
        return _Value(_call("get", array, self._argument(given[1], "integer")), element)

    def _element_at(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        return self._element(node, given[0], given[1], first=1)

    def _searched(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        array, element = self._array_of(given[0])
        found = self.value(given[1])
        numbers = (element.kind in _NUMBERS) and (found.type.kind in _NUMBERS)
        if not numbers and found.type != element:
            self._refuse_type(
                node, f"the second argument must be {element}", found.type,
                f"TRY_CAST(... AS {str(element).upper()})",
            )  # fmt: skip
        self._check_comparable(node, element)
        name = node.name.lower()
        type_ = _BOOLEAN if name == "array_contains" else _BIGINT
        return _Value(_call(name, array, found.node), type_)

    def _of_array(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        array, element = self._array_of(given[0])
        name = node.name.lower()
        if name != "array_compact":
            self._check_comparable(node, element)
        chosen = name in ("array_min", "array_max")
        return _Value(
            _call(name, array), element if chosen else SparkType("array", element=element)
        )

    def _slice(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        start, length = (of.name if _is_count(of) else "" for of in given[1:])
        if not start or not length or int(start) == 0:
            self._refuse_node(node, "a literal start from 1 on and a literal length")
        array, element = self._array_of(given[0])
        numbers = (_number(int(start)), _number(int(length)))
        return _Value(_call("slice", array, *numbers), SparkType("array", element=element))

    # -- lambdas -----------------------------------------------------------------------------------

    def _applied(self, node: exp.Expr, types: Sequence[SparkType]) -> tuple[exp.Expr, SparkType]:
        """A lambda whose parameters have these types, and the type of its result."""
        if not isinstance(node, exp.Lambda) or not 1 <= len(node.expressions) <= len(types):
            self._refuse_node(node, "a lambda, such as `e -> e.amount > 100`")
        names = [parameter.name for parameter in node.expressions]
        for place, name in enumerate(names):
            if not IDENTIFIER.match(name) or name in self.scope or name in names[:place]:
                self.refuse(
                    "give the parameters of its lambdas names that nothing else has, in lower case",
                    f"contains {node.sql('spark')!r}",
                    "another name",
                )
        if len(self.lambdas) >= MOST_LAMBDAS:
            self._refuse_node(node, f"at most {MOST_LAMBDAS} lambdas inside each other")
        outside = self.scope
        self.scope = outside | dict(zip(names, types, strict=False))
        self.lambdas.append(names[0])
        found = self.value(node.this)
        self.lambdas.pop()
        self.scope = outside
        lambda_ = exp.Lambda(this=found.node, expressions=[_quoted(name) for name in names])
        return lambda_, found.type

    def _quantified(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        """`exists`, `forall` and `filter`."""
        name = node.name.lower()
        array, element = self._array_of(given[0])
        condition, type_ = self._applied(
            given[1], [element, _INT] if name == "filter" else [element]
        )
        if type_ != _BOOLEAN:
            self._refuse_type(
                node, "the lambda must be boolean", type_, "a condition, as in `e -> e.amount > 1`"
            )
        result = SparkType("array", element=element) if name == "filter" else _BOOLEAN
        return _Value(_call(name, array, condition), result)

    def _transform(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        array, element = self._array_of(given[0])
        lambda_, type_ = self._applied(given[1], [element, _INT])
        if type_ == _NULL:
            self._refuse_node(node, "a lambda whose value has a type")
        return _Value(_call("transform", array, lambda_), SparkType("array", element=type_))

    def _aggregate(self, node: exp.Anonymous, given: list[exp.Expr]) -> _Value:
        array, element = self._array_of(given[0])
        start = self.value(given[1])
        # Text or an array could double with each element.
        kinds = (*_NUMBERS, "boolean", *_TIMES)
        if start.type.kind not in kinds or start.type == _DECIMAL:
            self._refuse_type(
                node, "the start must be a number, a boolean or a time of a known type", start.type,
                "a start such as `0D` or `CAST(0 AS DECIMAL(38, 2))`",
            )  # fmt: skip
        lambda_, type_ = self._applied(given[2], [start.type, element])
        if type_ != start.type:
            self._refuse_type(
                node,
                f"the lambda must have the type of the start, {start.type}",
                type_,
                f"CAST(... AS {str(start.type).upper()}) in the lambda, or a start of its type,"
                " such as `0D` for a double",
            )
        finish = []
        if len(given) > 3:
            last, type_ = self._applied(given[3], [start.type])
            finish = [last]
        return _Value(_call("aggregate", array, start.node, lambda_, *finish), type_)


def _is_count(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(re.fullmatch(r"\d{1,9}", node.this))


_GIVE = {LAST: "how many events it should hold", PROFILE: "the view that it should be a row of"}
_EXAMPLES = {
    "number": "double",
    "integer": "int",
    "time": "timestamp",
    "clock": "timestamp",
    "scalar": "string",
    "an array": "array of something",
    "an array or a map": "array or map",
    "a number, text, a boolean or a time": "string",
}
_NODE_INSTEAD = {
    "RegexpLike": "startswith(), endswith(), contains() or LIKE",
    "ILike": "lower(...) LIKE",
    "IntDiv": "floor(a / b)",
    "RawString": "a text without a backslash",
    "Concat": "one text, or ||",
    "Array": "get(array(...), 0) for an element of a list",
    "Lambda": "a lambda only in exists(), forall(), filter(), transform() or aggregate()",
    "Tuple": "the comparisons one by one, connected by AND",
    "Star": "each column by its name",
}

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_NODES: dict[type[exp.Expr], Callable[..., _Value]] = {
    exp.Literal: _Rule._literal,
    exp.Boolean: _Rule._boolean_literal,
    exp.Null: _Rule._null,
    exp.Interval: _Rule._interval,
    exp.Column: _Rule._column,
    exp.Identifier: _Rule._identifier,
    exp.Dot: _Rule._dot,
    exp.Paren: _Rule._paren,
    exp.And: _Rule._connected,
    exp.Or: _Rule._connected,
    exp.Not: _Rule._not,
    **dict.fromkeys(_COMPARISONS, _Rule._compared),
    exp.Between: _Rule._between,
    exp.In: _Rule._in,
    exp.Is: _Rule._is,
    exp.Like: _Rule._like,
    exp.Neg: _Rule._negated,
    **dict.fromkeys(_OPERATORS, _Rule._arithmetic),
    exp.DPipe: _Rule._joined,
    exp.Bracket: _Rule._bracket,
    exp.Case: _Rule._case,
    exp.Cast: _Rule._cast,
    exp.TryCast: _Rule._cast,
    exp.Extract: _Rule._extract,
    exp.Anonymous: _Rule._called,
}
"""The nodes that are allowed, and what becomes of them."""

_ARGUMENTS = frozenset(
    [
        *("this", "expression", "expressions", "low", "high", "to", "safe", "typed", "unit", "ifs"),
        *("default", "table", "db", "catalog", "negate", "is_string", "quoted", "_type"),
    ]
)
"""The arguments of nodes that the walk knows of."""

_MANY = range(1, 1000)
_SPECIAL: dict[str, tuple[Sequence[int], Callable[..., _Value]]] = {
    **dict.fromkeys((*_ARITHMETIC.values(), "mod"), ((2,), _Rule._tried)),
    **dict.fromkeys(("date_add", "date_sub"), ((2,), _Rule._moved_date)),
    "coalesce": (_MANY, _Rule._chosen),
    **dict.fromkeys(("ifnull", "nvl"), ((2,), _Rule._chosen)),
    **dict.fromkeys(("greatest", "least"), (range(2, 1000), _Rule._chosen)),
    "nullif": ((2,), _Rule._nullif),
    "if": ((3,), _Rule._if),
    "nvl2": ((3,), _Rule._nvl2),
    "nanvl": ((2,), _Rule._nanvl),
    "concat": (_MANY, _Rule._concat),
    "concat_ws": (range(2, 1000), _Rule._concat_ws),
    "replace": ((2, 3), _Rule._replaced),
    "abs": ((1,), _Rule._abs),
    "round": ((1, 2), _Rule._round),
    **dict.fromkeys(("floor", "ceil", "ceiling"), ((1,), _Rule._floor)),
    "date_trunc": ((2,), _Rule._date_trunc),
    "trunc": ((2,), _Rule._trunc),
    **dict.fromkeys(("date_part", "datepart"), ((2,), _Rule._date_part_call)),
    "timestampdiff": ((3,), _Rule._timestampdiff),
    "to_date": ((1,), _Rule._to_date),
    **dict.fromkeys(("size", "cardinality"), ((1,), _Rule._size)),
    "array": (_MANY, _Rule._array),
    "get": ((2,), _Rule._get),
    **dict.fromkeys(("element_at", "try_element_at"), ((2,), _Rule._element_at)),
    **dict.fromkeys(("array_contains", "array_position"), ((2,), _Rule._searched)),
    **dict.fromkeys(
        ("array_distinct", "array_compact", "array_min", "array_max"), ((1,), _Rule._of_array)
    ),
    "slice": ((3,), _Rule._slice),
    **dict.fromkeys(("exists", "forall", "filter"), ((2,), _Rule._quantified)),
    "transform": ((2,), _Rule._transform),
    **dict.fromkeys(("aggregate", "reduce"), ((3, 4), _Rule._aggregate)),
}
"""Functions that need more than a check of their arguments' types: how many arguments they take,
and what becomes of them.
"""
