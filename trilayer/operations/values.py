"""How values of answers are printed."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
from rich.markup import escape


def plain(value: object) -> object:
    """Returns a value for JSON; NaN and the infinities, which JSON lacks, as text."""
    if isinstance(value, bool | int | str | type(None)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, pa.MonthDayNano):
        return interval_text(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    isoformat = getattr(value, "isoformat", None)
    if isoformat:
        return isoformat().replace("+00:00", "Z")
    text = decimal_text(value) if isinstance(value, Decimal) else str(value)
    return int(text) if text.lstrip("-").isdigit() else text


EXACT = 2**53 - 1
"""The largest integer that a number of JavaScript can hold like all smaller ones."""


def exact(value: object) -> object:
    """Returns a value for JavaScript's JSON: what its numbers can't hold exactly is text."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -EXACT <= value <= EXACT else str(value)
    if isinstance(value, Decimal):
        # A sum of bigints is a decimal without a fraction.
        text = decimal_text(value)
        return exact(int(text)) if text.lstrip("-").isdigit() else text
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, pa.MonthDayNano):
        return interval_text(value)
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return {name: exact(item) for name, item in value.items()}
    return plain(value)


def decimal_text(value: Decimal) -> str:
    """Returns a decimal with all its digits: Python writes a small one as `1E-8`."""
    return format(value, "f")


def interval_text(value: pa.MonthDayNano) -> str:
    """Returns an interval in PostgreSQL's style: `1 year 2 mons -3 days +04:05:06`.

    Source: EncodeInterval in PostgreSQL's src/backend/utils/adt/datetime.c
    """
    months, days, ns = value
    us = ns // 1000
    years = int(months / 12)
    parts: list[str] = []
    is_behind_negative = False
    for number, name in ((years, "year"), (months - 12 * years, "mon"), (days, "day")):
        if number:
            sign = "+" if is_behind_negative and number > 0 else ""
            parts.append(f"{sign}{number} {name if number == 1 else name + 's'}")
            is_behind_negative = number < 0
    if us or not parts:
        sign = "-" if us < 0 else "+" if is_behind_negative else ""
        parts.append(sign + clock_text(abs(us)))
    return " ".join(parts)


def clock_text(us: int) -> str:
    """Returns a time of day in microseconds, with as many digits of the second as it has."""
    seconds, fraction = divmod(us, 1_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def as_text(value: object) -> str:
    """Returns a value for people, for rich."""
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return escape(str(plain(value)))


def as_json(value: object) -> str:
    """Returns a value as JSON; numbers that JSON can't hold are text."""
    return json.dumps(plain(value), ensure_ascii=False)
