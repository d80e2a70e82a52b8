"""Keeps Spark's clock out of expressions, which would make the layers' answers different.

Spark takes texts such as 'today' for times if they are constant, and adds the current date to a
time of day that becomes a timestamp, in whatever way a text becomes one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from trilayer_core.definitions.literals import TIME_OF_DAY, is_text, shown
from trilayer_core.definitions.spark_types import (
    STRING,
    TIME_KINDS,
    UNKNOWN,
    SparkType,
    has_kind,
    parsed_type,
    result_kind,
)

if TYPE_CHECKING:
    from trilayer_core.definitions.inference import Inference

# Text that Spark interprets as a time by its clock when it is converted to a date or timestamp: a
# word, after which a time zone may follow, or a time of day.
CLOCK_TEXT = re.compile(
    rf"\s*(?:now|today|yesterday|tomorrow)\b\s*\S*\s*\Z|{TIME_OF_DAY}", re.IGNORECASE
)
# Nodes that return one of their operands, or text built from it; and nodes that consume an operand
# as text.
_PASSES_ON = (
    (exp.If, exp.Case, exp.Paren),
    (
        *("if", "coalesce", "ifnull", "nvl", "nullif", "greatest", "least"),
        *("lower", "lcase", "upper", "ucase", "replace"),
    ),
)
_OF_TEXT = (
    (exp.Predicate, exp.Cast, exp.Concat, exp.DPipe, exp.Bracket),
    ("concat", "startswith", "endswith", "contains"),
)


def refuse_clock_texts(inference: Inference, expression: exp.Expr) -> None:
    """Checks that no string literal is read as a time by Spark's clock, such as 'today'.

    A literal is harmless if no operand next to it, in a comparison or a choice, can be a time.

    Raises:
        DefinitionError: A literal could be read as a time.
    """
    for literal in expression.find_all(exp.Literal):
        if not literal.is_string or not CLOCK_TEXT.match(literal.this):
            continue
        node = literal.parent
        while not isinstance(node, exp.Select | None):
            if not _is_one_of(node, _PASSES_ON, _OF_TEXT) or any(
                _may_be_time(inference, operand) for operand in node.iter_expressions()
            ):
                inference.refuse(
                    "give the same answer in every run",
                    f"where Spark may take {literal.sql()} for a time of its clock",
                    f"`cast({literal.sql()} as string)` if it is meant as text, or else the event's"
                    " own columns",
                )
            node = node.parent if _is_one_of(node, _PASSES_ON) else None


def _may_be_time(inference: Inference, node: exp.Expr) -> bool:
    """Whether a part, or what it is cast to, may be a date or timestamp."""
    if isinstance(node, exp.DataType):
        return parsed_type(node).kind in TIME_KINDS
    return inference.type_of(node).kind in ("unknown", *TIME_KINDS)


def _is_one_of(node: exp.Expr, *of: tuple[tuple[type[exp.Expr], ...], tuple[str, ...]]) -> bool:
    """Whether a node is of one of some classes, or calls a function with one of some names."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return any(name in names or isinstance(node, classes) for classes, names in of)


def check_alike(inference: Inference, node: exp.Expr, types: Sequence[SparkType]) -> None:
    """Refuses what may be a text beside a timestamp, as Spark converts it by its clock."""
    times = [has_kind(type_, "timestamp") for type_ in types]
    if any(times) and any(
        not time and has_kind(type_, "string", "unknown", "variant")
        for time, type_ in zip(times, types, strict=True)
    ):
        _refuse_texts(inference, node, types)


def check_unknown(
    inference: Inference, node: exp.Expr, name: str, types: Sequence[SparkType]
) -> None:
    """Refuses an operand of no known type if it may be a text of which Spark makes a time."""
    as_time, as_text, as_number = (
        result_kind(name, [[kind] if type_ == UNKNOWN else [type_.kind] for type_ in types])
        for kind in ("timestamp", "string", "int")
    )
    if as_time and not (as_text or as_number):
        _refuse_texts(inference, node, types)


def keep_from_clock(inference: Inference, node: exp.Expr, of: SparkType, to: SparkType) -> None:
    """Makes a time of day a text that is no time; Spark would add the date of today to it.

    Raises:
        DefinitionError: The text is in an array, a struct or a map, or may be something else.
    """
    operand = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    computed = not is_text(operand) and not any(operand.find_all(exp.Column, exp.Identifier))
    if computed and of in (STRING, UNKNOWN) and has_kind(to, *TIME_KINDS):
        inference.refuse(  # such as 'today', which Spark takes if it is constant
            "give the same answer in every run",
            f"where Spark may take {shown(operand)} for a time of its clock",
            "a plain literal, such as '2026-01-31'",
        )
    zoned = has_kind(to, "timestamp")
    if of == to or is_text(operand) or not (zoned or has_kind(to, "timestamp_ntz")):
        return
    if of == STRING and zoned:
        names = [name.meta for name in operand.find_all(exp.Identifier)]  # of a parameter
        place = operand.meta.get("place") or node.args.get("to", operand).meta.get("place")
        first, last = place or (min(n["start"] for n in names), max(n["end"] for n in names))
        inference.edits[first, last + 1] = f"regexp_replace({{}}, r'^(?={TIME_OF_DAY})', '?')"
    elif has_kind(of, "unknown") or (zoned and has_kind(of, "string", "variant")):
        _refuse_texts(inference, node, [of])


def _refuse_texts(inference: Inference, node: exp.Expr, types: Sequence[SparkType]) -> NoReturn:
    inference.refuse(
        "convert single texts to timestamps, as Spark adds the current date to times of day",
        f"where {shown(node)} has {' and '.join(map(str, dict.fromkeys(types)))}",
        "`cast(cast(... as TYPE) as timestamp)` with the type that each has",
    )
