"""Spark's types, and the types of results that Spark has for its functions and operators.

The results are in spark_types.json, which `python -m tests.support.spark_types` writes from Spark's
answers. Only those of decimals, which depend on their digits, are formulas here: they are those of
Spark's DecimalPrecisionTypeCoercion, and of the expressions Round, Floor and Ceil.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sqlglot import exp

ANY = (
    *("tinyint", "smallint", "int", "bigint", "decimal", "float", "double"),
    *("string", "binary", "boolean", "date", "timestamp", "timestamp_ntz"),
)
"""The kinds of scalars: their types without the digits of decimals."""

INTEGER_KINDS, NUMBER_KINDS, FLOAT_KINDS, TIME_KINDS = ANY[:4], ANY[:7], ANY[5:7], ANY[10:]
TYPES = (*ANY, "array", "struct", "map")
"""The types of columns, without digits and what is inside."""

INTERVALS = ("days", "time interval", "months")
"""The kinds of intervals: of days, of days and less than days, and of months."""

MOST_DIGITS, LEAST_SCALE = 38, 6
CHOSEN = "chosen"
"""The name in the table of the common type of two values of which one is chosen."""

ARGUMENTS = "arguments"
"""The name in the table of the functions by the numbers of their arguments."""


@dataclass(frozen=True)
class SparkType:
    """The type of a part of an expression.

    Attributes:
        kind: Spark's name of a scalar type without its digits; "array", "struct", "map", "null" or
            "unknown"; or one of `INTERVALS`.
        digits: Precision and scale of a decimal; None if they are not known.
        element: The type of the elements of an array, or of the values of a map.
        fields: The fields of a struct, with their spelling.
    """

    kind: str
    digits: tuple[int, int] | None = None
    element: SparkType | None = None
    fields: tuple[tuple[str, SparkType], ...] = ()

    def __str__(self) -> str:
        if self.kind == "decimal":
            return "decimal({},{})".format(*self.digits) if self.digits else "decimal"
        if self.kind == "array":
            return f"array<{self.element}>"
        if self.kind == "map":
            return f"map<string,{self.element}>"
        if self.kind == "struct":
            return f"struct<{','.join(f'{name}:{type_}' for name, type_ in self.fields)}>"
        return {"days": "interval day", "months": "interval month"}.get(self.kind, self.kind)

    @property
    def is_comparable(self) -> bool:
        """Whether Spark compares values of the type, which it does not if they contain a map."""
        inside = [type_ for _, type_ in self.fields] + ([self.element] if self.element else [])
        return self.kind != "map" and all(type_.is_comparable for type_ in inside)

    def field(self, name: str) -> str | None:
        """The spelling of a field of a struct, whose name is compared without case."""
        return {own.lower(): own for own, _ in self.fields}.get(name.lower())


UNKNOWN, NULL, STRING, BOOLEAN, INT = map(
    SparkType, ("unknown", "null", "string", "boolean", "int")
)


def parsed_type(type_: exp.DataType) -> SparkType:
    """The type that sqlglot has parsed."""
    if type_.is_type("array"):
        return SparkType("array", element=parsed_type(type_.expressions[0]))
    if type_.is_type("map"):
        return SparkType("map", element=parsed_type(type_.expressions[1]))
    if type_.is_type("struct"):
        fields = ((field.name, parsed_type(field.args["kind"])) for field in type_.expressions)
        return SparkType("struct", fields=tuple(fields))
    if type_.is_type("decimal"):
        digits = [int(part.name) for part in type_.expressions] or [10]
        return SparkType("decimal", (digits[0], digits[1] if len(digits) > 1 else 0))
    return SparkType(type_.sql("spark").lower().replace("timestamp_ltz", "timestamp"))


@cache
def named_type(name: str) -> SparkType:
    """The type with a name, such as `struct<zipCode:decimal(10,2)>`."""
    return parsed_type(exp.DataType.build(name, dialect="spark"))


def has_kind(type_: SparkType, *kinds: str) -> bool:
    """Whether a type is of one of some kinds, or contains a type of them."""
    inside = [type_.element, *(field for _, field in type_.fields)]
    return type_.kind in kinds or any(part and has_kind(part, *kinds) for part in inside)


def literal_type(text: str, sign: int = 1) -> SparkType:
    """The type of a number in an expression; unknown if Spark does not take it."""
    if "e" in text.lower():
        return SparkType("double") if float(text) != float("inf") else UNKNOWN
    whole, _, fraction = text.partition(".")
    if "." not in text:
        for kind, bits in (("int", 31), ("bigint", 63)):
            if -(2**bits) <= sign * int(text) < 2**bits:
                return SparkType(kind)
    digits = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
    return SparkType("decimal", (digits, len(fraction))) if digits <= MOST_DIGITS else UNKNOWN


# -- digits of decimals ----------------------------------------------------------------------------

Digits = tuple[int, int]
"""Precision and scale."""

_DIGITS_OF_INTEGERS = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (20, 0)}


def digits_of(type_: SparkType) -> Digits | None:
    """The digits of the decimal that Spark converts a number to, beside another decimal."""
    return _DIGITS_OF_INTEGERS.get(type_.kind, type_.digits)


def _adjusted(precision: int, scale: int) -> Digits:
    """A decimal with too many digits loses those after the point, down to six."""
    if precision <= MOST_DIGITS:
        return precision, scale
    return MOST_DIGITS, max(MOST_DIGITS - (precision - scale), min(scale, LEAST_SCALE))


def _sum(left: Digits, right: Digits) -> Digits:
    scale = max(left[1], right[1])
    return _adjusted(max(left[0] - left[1], right[0] - right[1]) + scale + 1, scale)


def _product(left: Digits, right: Digits) -> Digits:
    return _adjusted(left[0] + right[0] + 1, left[1] + right[1])


def _quotient(left: Digits, right: Digits) -> Digits:
    scale = max(LEAST_SCALE, left[1] + right[0] + 1)
    return _adjusted(left[0] - left[1] + right[1] + scale, scale)


def _remainder(left: Digits, right: Digits) -> Digits:
    scale = max(left[1], right[1])
    return _adjusted(min(left[0] - left[1], right[0] - right[1]) + scale, scale)


def _common(left: Digits, right: Digits) -> Digits:
    scale = max(left[1], right[1])
    return _adjusted_integral(max(left[0] - left[1], right[0] - right[1]) + scale, scale)


def _adjusted_integral(precision: int, scale: int) -> Digits:
    """A common type with too many digits keeps those before the point."""
    if precision <= MOST_DIGITS:
        return precision, scale
    return MOST_DIGITS, max(0, scale - (precision - MOST_DIGITS))


def _rounded(of: Digits, to: int) -> Digits:
    whole = of[0] - of[1] + 1
    if to < 0:
        return min(max(whole, -to + 1), MOST_DIGITS), 0
    scale = min(of[1], to)
    return min(whole + scale, MOST_DIGITS), scale


_OF_TWO: dict[str, Callable[[Digits, Digits], Digits]] = {
    **dict.fromkeys(("+", "-", "try_add", "try_subtract"), _sum),
    **dict.fromkeys(("*", "try_multiply"), _product),
    **dict.fromkeys(("/", "try_divide"), _quotient),
    **dict.fromkeys(("%", "mod", "pmod", "try_mod"), _remainder),
    CHOSEN: _common,
}
_OF_ONE: dict[str, Callable[[Digits], Digits]] = {
    **dict.fromkeys(("- _", "abs", "negative", "positive"), lambda of: of),
    **dict.fromkeys(("ceil", "ceiling", "floor"), lambda of: _rounded(of, 0) if of[1] else of),
    **dict.fromkeys(("round", "bround"), lambda of: _rounded(of, 0)),
}
_TO_SCALE = ("round", "bround", "ceil", "ceiling", "floor")


def decimal_result(name: str, digits: Sequence[Digits | None], scale: int | None) -> SparkType:
    """The decimal that a function or operator returns; unknown if there is no formula for it.

    Args:
        name: The function or operator.
        digits: The digits of its operands.
        scale: Its second argument, if that is a literal number of digits.
    """
    operands = [of for of in digits if of is not None]
    if name in _TO_SCALE and len(digits) == 2 and scale is not None and digits[0]:
        return SparkType("decimal", _rounded(digits[0], scale))
    if len(operands) != len(digits):
        return UNKNOWN
    if name in _OF_TWO and len(operands) == 2:
        return SparkType("decimal", _OF_TWO[name](*operands))
    if name in _OF_ONE and len(operands) == 1:
        return SparkType("decimal", _OF_ONE[name](*operands))
    return UNKNOWN


# -- the table -------------------------------------------------------------------------------------


@cache
def table() -> dict[str, list[str]]:
    """The lines of spark_types.json by function or operator."""
    text = files("trilayer_core.definitions").joinpath("spark_types.json").read_text("utf-8")
    return dict(json.loads(text))


@cache
def functions() -> dict[str, list[int]]:
    """Spark's functions of one event, with the numbers of arguments up to 9 that they take."""
    lines = (line.partition(": ") for line in table()[ARGUMENTS])
    return {name: [*map(int, n.split())] for n, _, names in lines for name in names.split()}


def takes(function: str, arguments: int) -> bool:
    """Whether a function takes a number of arguments."""
    alike = min(arguments, 8 + arguments % 2)  # functions of more take any number, or any even one
    return alike in functions()[function]


@cache
def _lines(name: str) -> list[tuple[list[frozenset[str]], str]]:
    parsed = []
    for line in table().get(name, ()):
        arguments, _, result = line.partition(" -> ")
        kinds = [frozenset(kinds.split("|")) for kinds in arguments.split(", ") if kinds]
        parsed.append((kinds, result))
    return parsed


def result_kind(name: str, arguments: Sequence[Sequence[str]]) -> str | None:
    """The kind of a result that the table has; None if it has none.

    Args:
        name: The function or operator.
        arguments: For each argument the kinds that it may be taken for, the likeliest first.
    """
    if len(arguments) > MOST:
        return _result_of_many(name, arguments)
    for kinds in itertools.product(*arguments):
        for accepted, result in _lines(name):
            if len(accepted) == len(kinds) and all(
                kind in some for kind, some in zip(kinds, accepted, strict=True)
            ):
                return result
    return None


MOST = 3
"""The largest number of arguments of which the table has all combinations."""


def _result_of_many(name: str, arguments: Sequence[Sequence[str]]) -> str | None:
    """The kind of the result of a longer list, whose places were tried one at a time."""
    lines = [line for line in _lines(name) if len(line[0]) == len(arguments)]
    for place, kinds in enumerate(arguments):
        if not any(kind in accepted[place] for accepted, _ in lines for kind in kinds):
            return None
    return lines[0][1] if lines else None


_WIDER = ANY[:7]


def is_total_cast(before: str, after: str) -> bool:
    """Whether a conversion from one kind to another never fails."""
    if before in (after, "null") or after == "string" or (before, after) == ("string", "binary"):
        return True
    if before in TIME_KINDS and after in TIME_KINDS:
        return True
    both = before in _WIDER and after in _WIDER
    return both and _WIDER.index(before) <= _WIDER.index(after)
