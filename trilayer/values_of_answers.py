"""Compares values of answers: their order, their form as keys, and whether they are the same."""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from trilayer_core.errors import UsageError

Value = Any


class NotANumber(Enum):
    """Stands for NaN in keys and answers, because NaN does not equal itself."""

    NAN = "NaN"


def order(value: Value) -> Any:
    """Returns a sort key: strings by their UTF-8 bytes, NaN above every number, -0.0 beside 0.0."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def canonical(value: Value) -> Hashable:
    """Returns the one form of a value as a key: -0.0 is 0.0, NaN is itself, moments are in UTC."""
    if isinstance(value, float):
        return NotANumber.NAN if math.isnan(value) else value + 0.0
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


def same(got: Value, expected: Value, tolerance: float = 0.0) -> bool:
    """Returns whether two values are the same: of one type, and bit for bit.

    Args:
        got: The value that was computed.
        expected: The value that it must be.
        tolerance: The relative difference that floating-point numbers may have.

    Raises:
        UsageError: There is no rule for values of this type.
    """
    if got is None or expected is None:
        return got is expected
    if expected is NotANumber.NAN:
        expected = math.nan
    if isinstance(expected, list):
        return len(got) == len(expected) and all(
            same(*pair, tolerance) for pair in zip(got, expected, strict=True)
        )
    if isinstance(expected, dict):
        return got.keys() == expected.keys() and all(
            same(got[name], expected[name], tolerance) for name in expected
        )
    if isinstance(expected, float):
        if not isinstance(got, float):
            return False
        if math.isnan(expected) or math.isnan(got):
            return math.isnan(expected) and math.isnan(got)
        if tolerance and math.isfinite(expected) and math.isfinite(got):
            return abs(got - expected) <= tolerance * max(abs(got), abs(expected))
        return struct.pack("<d", got) == struct.pack("<d", expected)
    if isinstance(expected, datetime) or isinstance(got, datetime):
        return isinstance(got, datetime) and isinstance(expected, datetime) and got == expected
    if isinstance(expected, bool) or isinstance(got, bool):
        return got is expected
    if isinstance(expected, Decimal):
        return isinstance(got, Decimal | int) and got == expected
    if isinstance(expected, int | date | str | bytes):
        return type(got) is type(expected) and got == expected
    raise UsageError(
        f"an expected value must be of a type that a view can have; got {expected!r}, of type"
        f" {type(expected).__name__}"
    )


def differences(
    got: Mapping[tuple[Hashable, ...], Mapping[str, Value]],
    expected: Mapping[tuple[Hashable, ...], Mapping[str, Value]],
    tolerances: Mapping[str, float] | None = None,
) -> list[str]:
    """Returns a line for each key and column in which two answers differ.

    Args:
        got: The answer that was computed.
        expected: The answer that it must be, such as that of `answers`.
        tolerances: The relative difference that columns of floating-point numbers may have.
    """
    lines = [f"missing key {key}: {dict(expected[key])}" for key in expected if key not in got]
    lines += [f"extra key {key}: {dict(got[key])}" for key in got if key not in expected]
    for key in expected.keys() & got.keys():
        for name, value in expected[key].items():
            if not same(got[key][name], value, (tolerances or {}).get(name, 0.0)):
                lines.append(f"{key} {name}: got {got[key][name]!r}, expected {value!r}")
    return lines
