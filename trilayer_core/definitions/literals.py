"""The constants of an expression, and its parts as text."""

import re
from datetime import date, datetime, time
from zoneinfo import available_timezones

from sqlglot import exp

from trilayer_core.definitions.spark_types import NUMBER_KINDS, TIME_KINDS


def shown(node: exp.Expr) -> str:
    """A part of an expression as Spark SQL."""
    return node.sql(dialect="spark", normalize_functions="lower")


def is_text(node: exp.Expr) -> bool:
    """Whether a part is a literal text."""
    return isinstance(node, exp.Literal) and node.is_string


def integer(node: exp.Expr) -> int | None:
    """The value of a literal integer; None for anything else."""
    sign, node = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    plain = isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit()
    return sign * int(node.this) if plain else None


def is_integer(node: exp.Expr) -> bool:
    """Whether a part is a literal integer."""
    return integer(node) is not None


def fitted_digits(node: exp.Expr) -> tuple[int, int]:
    """The digits of a literal integer beside a decimal, which are no more than it needs."""
    return len(str(abs(integer(node) or 0))), 0


_TIME = r"\d{4}(-\d\d?)?|\d{4}-\d\d?-\d\d?([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?"


TIME_OF_DAY = r"[\x00-\x20\x7f]*(?:T\d|\d\d?:)"
"""How a text begins to which Spark adds the current date where it becomes a timestamp."""

_MICROSECONDS = {"MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000}
_MICROSECONDS |= {"MINUTE": 60_000_000, "HOUR": 3_600_000_000}
_MICROSECONDS |= {"DAY": 86_400_000_000, "WEEK": 604_800_000_000}
_MONTHS = {"MONTH": 1, "YEAR": 12}
"""The units of intervals, in microseconds or months."""

_SHORT_ZONES = (
    "ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT EST HST IET IST JST MIT MST NET NST PLT"
    " PNT PRT PST SST VST Z UTC GMT UT"
)


def fits_interval(number: str, unit: str) -> bool | None:
    """Whether Spark can hold an interval of so many units; None if it is not of one whole number.

    Spark counts months in 32 bits, and everything shorter as microseconds in 64.
    """
    size = _MICROSECONDS.get(unit) or _MONTHS.get(unit)
    if size is None or not re.fullmatch(r"-?\d+", number, re.ASCII):
        return None
    limit = 2**63 if unit in _MICROSECONDS else 2**31
    return len(number.lstrip("-0")) < 20 and abs(int(number)) * size < limit


def is_zone(name: str) -> bool:
    """Whether Spark has a time zone of this name."""
    minutes = r"(:?[0-5]\d(:?[0-5]\d)?)?"
    hours = rf"(UTC|GMT|UT)?[+-](\d(:[0-5]\d)*|(0\d|1[0-7]){minutes}|18(:?00)?)"
    return (
        name in _SHORT_ZONES.split()
        or re.fullmatch(rf"{hours}|SystemV/\w+", name, re.ASCII) is not None
        or name in available_timezones() - {"ROC", "Factory", "localtime"}  # as Java has it
    )


def is_collation(name: str) -> bool:
    """Whether Spark has a collation of this name, of those without a language."""
    of_utf8, once = r"UTF8_(BINARY|LCASE)(_RTRIM)?", r"_(C[IS](?!.*_C)|A[IS](?!.*_A)|RTRIM(?!.*_R))"
    return re.fullmatch(rf"(?i){of_utf8}|UNICODE({once})*", name) is not None


def is_no_time(text: str) -> bool:
    """Whether Spark certainly fails to convert a literal text to a date or a time."""
    digits = r"\s*[+-]?(\d{4,6})(?:-(\d\d?)(?:-(\d\d?)(?!\d))?)?"
    clock = r"(?:[ T](\d\d?):(\d\d?)(?::(\d\d?))?)?"
    match = re.match(digits + clock, text, re.ASCII)
    if not match:
        return re.match(rf"(?i){TIME_OF_DAY}|\s*epoch\b", text) is None  # or 1970
    year, month, day = (int(part or 1) for part in match.groups()[:3])
    try:
        date(year % 400 or 400, month, day)  # a year of the same length
        hour, minute, second = (int(part or 0) for part in match.groups()[3:])
        time(hour, minute, second)
    except ValueError:
        return True
    return False


def stands_for(text: str, kind: str) -> bool:
    """Whether Spark certainly converts a literal text to a kind of value."""
    if kind in NUMBER_KINDS:
        digits = r"[+-]?\d{1,2}" if kind == "tinyint" else r"[+-]?\d{1,4}"
        fraction = r"(\.\d{1,6})?" if kind in ("decimal", "float", "double") else ""
        wide = r"[+-]?\d{1,9}" if kind not in ("tinyint", "smallint") else digits
        return re.fullmatch(wide + fraction, text, re.ASCII) is not None
    if kind == "boolean":
        return text.lower() in ("true", "false")
    if kind not in TIME_KINDS or not re.fullmatch(_TIME, text, re.ASCII):
        return kind == "binary"
    year, month, day = map(int, [*re.split(r"[ T]", text)[0].split("-"), "1", "1"][:3])
    clock = re.split(r"[ T]", text)[1:]
    try:
        date(year, month, day)
        if clock:
            datetime.fromisoformat(f"2000-01-01T{clock[0]}")
    except ValueError:
        return False
    return True
