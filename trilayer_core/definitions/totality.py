"""Decides which functions, operators and casts of Spark never fail on values of their types.

Spark computes in ANSI mode, where a cast of text that is no number, an overflow, a division by zero
and the like raise an error. What is here has been tried with hostile values of each type; all else
counts as what may fail.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from trilayer_core.definitions.literals import is_text
from trilayer_core.definitions.spark_types import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    MOST_DIGITS,
    TIME_KINDS,
    UNKNOWN,
    SparkType,
    digits_of,
    is_total_cast,
)


def _names(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_ALWAYS = _names(
    # text and bytes
    "|| concat concat_ws lower lcase upper ucase trim ltrim rtrim btrim initcap reverse replace",
    "translate length len char_length character_length bit_length octet_length substring substr",
    "left right startswith endswith contains instr locate position ascii levenshtein soundex",
    "md5 crc32 sha sha1 hex base64 hash xxhash64 to_json typeof",
    # a choice, and NULL
    "coalesce ifnull nvl nvl2 nullif if greatest least equal_null isnull isnotnull",
    # numbers
    "isnan nanvl sign signum sqrt cbrt exp expm1 ln log log10 log2 log1p sin cos tan sec csc cot",
    "asin acos atan atan2 sinh cosh tanh degrees radians hypot pow power rint e pi & | ^ ~ << >>",
    "bit_count try_add try_subtract try_multiply try_divide try_mod",
    # arrays, maps and structs
    "array struct named_struct size cardinality array_size array_contains array_distinct",
    "array_compact array_min array_max sort_array array_sort map_keys map_values",
) | {"~ _"}
_OF_TIMES = _names(
    "year quarter month day dayofmonth dayofweek dayofyear weekday weekofyear hour minute second",
    "dayname monthname last_day datediff date_diff timestampdiff months_between date_trunc trunc",
    "unix_seconds unix_millis unix_micros unix_date date_part datepart",
)
_CONVERSIONS = ("to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz")
_IN_ZONE = ("from_utc_timestamp", "to_utc_timestamp")
_SUMS = ("+", "-", "*", "- _", "abs", "negative", "positive", "ceil", "ceiling", "floor")
_ROUNDED = ("round", "bround")
_QUOTIENTS = ("/", "%", "mod", "pmod", "div")


def is_total(
    name: str, operands: Sequence[exp.Expr], types: Sequence[SparkType], result: SparkType
) -> bool:
    """Whether a function or operator never fails on values of its operands' types.

    Args:
        name: The function in lower case, or the operator as in the table of types.
        operands: Its operands.
        types: Their types.
        result: The type of the result.
    """
    if UNKNOWN in types:
        return False
    kinds = [type_.kind for type_ in types]
    if name.upper() in ("LIKE", "ILIKE"):  # a pattern may end within an escape
        return len(operands) == 2 and is_text(operands[1]) and "\\" not in operands[1].this
    if name in _OF_TIMES:
        return all(k in TIME_KINDS or is_text(o) for k, o in zip(kinds, operands, strict=True))
    if name in _CONVERSIONS:
        return len(kinds) == 1 and kinds[0] in TIME_KINDS
    if name in _IN_ZONE:
        return kinds[0] in TIME_KINDS and is_text(operands[1])
    if name == "get":
        return len(kinds) == 2 and kinds[1] in INTEGER_KINDS[:3]
    if name in _QUOTIENTS:
        return _is_total_quotient(name, operands, kinds, result)
    return (
        name in _ALWAYS
        or (name in _SUMS and (result.kind in FLOAT_KINDS or _holds(result)))
        or (name in _ROUNDED and (kinds[0] in FLOAT_KINDS or _holds(result)))
    )


def _holds(result: SparkType) -> bool:
    """Whether a result is a decimal with digits for each value, because it has none cut off."""
    return result.digits is not None and result.digits[0] < MOST_DIGITS


def _is_total_quotient(
    name: str, operands: Sequence[exp.Expr], kinds: Sequence[str], result: SparkType
) -> bool:
    """Whether a number is divided by a constant that is neither 0 nor -1, without an overflow."""
    by = operands[1] if len(operands) == 2 else None
    if not isinstance(by, exp.Literal) or by.is_string or float(by.this) == 0:
        return False
    if name == "div":
        return set(kinds) <= {*INTEGER_KINDS}
    return result.kind in (*FLOAT_KINDS, *INTEGER_KINDS) or _holds(result)


def is_total_conversion(of: SparkType, to: SparkType) -> bool:
    """Whether a cast never fails."""
    if of == to or to.kind == "string" or of.kind == "null":
        return True
    if "boolean" in (of.kind, to.kind):
        return {of.kind, to.kind} <= {"boolean", *INTEGER_KINDS, *FLOAT_KINDS}
    if to.kind != "decimal":
        scalar = of.element is None and not of.fields
        return scalar and is_total_cast(of.kind, to.kind)
    have, fit = digits_of(of), digits_of(to)
    if not have or not fit:
        return False
    rounds = fit[1] < have[1]  # which may add a digit
    return fit[0] - fit[1] >= have[0] - have[1] + rounds
