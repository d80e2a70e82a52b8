"""Decides in Python, without Spark, whether a JSON event fits its stream, before it is sent.

What the layers do with an event is decided by `trilayer_core.compute.parsing` and the SQL of
`trilayer_core.compute.formats.json`; this module only predicts it, with the same reasons.
tests/unit/test_fitting.py compares both.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any
from zoneinfo import ZoneInfo

from sqlglot import exp

from trilayer_core.definitions.expressions import (
    FLOATS,
    INTEGERS,
    decimal_precision,
    decimal_scale,
    has_decimal,
    is_decimal,
    normal_type,
)
from trilayer_core.definitions.formats import Judgement
from trilayer_core.definitions.schemas import Field, path_text
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import close_name

Fits = Callable[[Any], bool]
"""Whether a value, as Python reads it from JSON, fits a type. The value is never None."""


MOST_DIGITS = 1_000
"""The most digits of a number; Spark does not take an event with a longer one for JSON."""

Known = dict[str | None, "Known"]
"""The fields inside values of a type; None is each element of an array, or each value of a map."""


class JsonFitting:
    """Judges the JSON events of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._most_bytes = stream.max_event_bytes
        self._fields = [(field, _of_field(field)) for field in stream.fields]
        decimals = any(has_decimal(field.type) for field in stream.fields)
        self._number = _short_number if decimals else _number
        self._known: Known = {}
        for field in stream.fields:
            inner: Any = self._known
            for step in field.path[:-1]:
                inner = inner.setdefault(step, {})
            inner[field.path[-1]] = _inner_fields(exp.DataType.build(field.type, dialect="spark"))

    def paths(self) -> Iterator[str]:
        """The paths of the schema's fields, such as `user.id` or `lines[].sku`."""
        return _all_paths(self._known)

    def judge(self, value: bytes | None) -> Judgement:
        """Decides whether an event with these bytes will be quarantined, and why."""
        if value is None:
            return Judgement("tombstone")
        if len(value) > self._most_bytes:
            return Judgement(f"oversized: {len(value)} bytes, at most {self._most_bytes}")
        try:
            event = self._loaded(value.decode())
        except UnicodeDecodeError:
            return Judgement("invalid UTF-8")
        except LongExponentError:
            return Judgement(
                "wrong type: a number must have an exponent of at most 3 digits, at most 1000"
                " characters, and no comma"
            )
        except (ValueError, RecursionError):
            event = None
        event = self._unwrapped(event)
        if isinstance(event, Judgement):
            return event
        if not isinstance(event, dict):
            return Judgement(f"{BROKEN}{_why_broken(value)}")
        misfit = self._misfit(event)
        # Elements of an array can have the same field, which is one of the event.
        unknown = tuple({_printable(path): None for path in _paths(event, self._known, False)})
        beside = tuple(set(_paths(event, self._known, True))) if unknown else ()
        return Judgement(misfit and _printable(misfit), unknown, beside)

    def _loaded(self, text: str) -> Any:
        try:
            return json.loads(text, parse_float=self._number, parse_int=_integer)
        except ValueError:
            if (plain := _SIGNED.sub(_as_python_has_it, text)) == text:
                raise
            return json.loads(plain, parse_float=self._number, parse_int=_integer)

    def _unwrapped(self, event: Any) -> Any:
        """What an object contains as an event, or the verdict on one that contains none."""
        return event

    def _misfit(self, event: dict[str, Any]) -> str | None:
        wrong, missing = [], []
        for field, fits in self._fields:
            found = _find(event, field)
            if found is None:
                missing += [field.label] if field.required else []
            elif not fits(found):
                hint = _hint(field, found)
                wrong.append(f"{field.label} must be {field.type}, got {_said(found)}{hint}")
        if wrong:
            return f"wrong type: {'; '.join(wrong)}"
        return f"missing field: {', '.join(missing)}" if missing else None


_SIGNED = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|(?<![-+])([-+])(?:INF|Infinity)\b', re.DOTALL)
"""A text, or an infinity, of which Spark takes more forms than Python."""


def _as_python_has_it(match: re.Match[str]) -> str:
    return match[0] if match[1] is None else f"{match[1]}Infinity".removeprefix("+")


def _integer(text: str) -> int:
    """A number without a fraction or an exponent."""
    _check_length(text)
    return int(text)


def _number(text: str) -> Decimal:
    """A number with a fraction or an exponent. Only a stream without decimals has any exponent."""
    _check_length(text)
    try:
        return Decimal(text)
    except InvalidOperation:  # its exponent is too long for Python
        return Decimal("Infinity")


def _short_number(text: str) -> Decimal:
    """A number of an event of a stream that has decimals, even in a field that is none."""
    _check_length(text)
    if _LONG_EXPONENT.search(text):
        raise LongExponentError
    return Decimal(text)


def _check_length(text: str) -> None:
    if len(text) > MOST_DIGITS and sum(map(str.isdigit, text)) > MOST_DIGITS:
        raise ValueError(text)


BROKEN = "broken JSON: must be one JSON object"

WHY_BROKEN = {
    b"\xef\xbb\xbf": ", without a byte order mark before it",
    b"{'": ", with double quotes in place of single ones",
}
"""What the reason adds for an event that begins with these bytes."""


def _why_broken(value: bytes) -> str:
    return next((why for start, why in WHY_BROKEN.items() if value.startswith(start)), "")


class LongExponentError(Exception):
    """A number that Spark would take long to make a decimal of, so that the parser does not try."""


_LONG_EXPONENT = re.compile(r"[eE][-+]?\d{4}")


def _printable(text: str) -> str:
    """The text without unpaired surrogates, which JSON can escape but no output can encode."""
    return text.encode(errors="backslashreplace").decode()


def reasons_of(text: str, stream: Stream) -> list[str]:
    """The parts of a reason that are the same for similar events.

    There is one for each field that is wrong, without the value that the event had, and with the
    hint what to declare if there is one.

    Args:
        text: The reason, from the parser or from `JsonFitting`.
        stream: The event's stream.
    """
    kind, _, rest = text.partition(": ")
    found: list[str] = []
    if kind == "wrong type":
        for field in stream.fields:
            said = f"{field.label} must be {field.type}"
            if rest.startswith(f"{said}, got ") or f"; {said}, got " in rest:
                hints = (hint for _, hint in hints_of(field) if hint in rest)
                found.append(f"{kind}: {said}{next(hints, '')}")
    elif kind == "missing field":
        found = [f"{kind}: {f.label}" for f in stream.fields if f", {f.label}, " in f", {rest}, "]
    elif kind == "oversized":
        found = [kind]
    elif kind == "failed expression":
        found = [text.rpartition(", from {")[0]]
    return found or [text]


class UnknownFields(Counter[str]):
    """Counts, by path, the events that have a field which a stream's schema does not have.

    Attributes:
        beside: By path, the schema's fields that at least one of these events has as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self.beside: dict[str, set[str]] = {}

    def count(self, unknown: Iterable[str], beside: Iterable[str]) -> None:
        """Counts what one event has, as its `Judgement` says."""
        for name in unknown:
            self[name] += 1
            self.beside.setdefault(name, set()).update(beside)


def said_unknown(unknown: UnknownFields, stream: Stream) -> str:
    """A message about fields that are not in a stream's schema.

    It names the ten most frequent, the number of events that have each, and the field of the schema
    that was possibly meant.
    """
    known = set(JsonFitting(stream).paths())
    said = []
    for name, number in unknown.most_common(10):
        near = close_name(name, known - unknown.beside[name])
        hint = f"; did you mean {near!r}?" if near else ""
        said.append(f"{name} ({number:,}{hint})")
    more = f" and {len(unknown) - 10} more" if len(unknown) > 10 else ""
    return f"fields that the schema of {stream.name} does not have: {', '.join(said)}{more}"


def _inner_fields(type_: exp.DataType) -> Known:
    """The fields inside values of a type."""
    if type_.is_type("struct"):
        return {field.name: _inner_fields(field.kind) for field in type_.expressions}
    if type_.is_type("array", "map"):
        inner = _inner_fields(type_.expressions[-1])
        return {None: inner} if inner else {}
    return {}


def _paths(value: Any, known: Known, in_schema: bool, path: str = "") -> Iterator[str]:
    """The paths of fields inside a value, such as `lines[].sku`.

    Args:
        value: A value as Python reads it from JSON.
        known: The fields inside it that the schema has.
        in_schema: Whether to return the fields that the schema has and that are not NULL, or those
            that it does not have.
        path: The path of the value.
    """
    if None in known:
        values = value.values() if isinstance(value, dict) else value
        for inner in values if isinstance(value, dict | list) else ():
            yield from _paths(inner, known[None], in_schema, f"{path}[]")
        return
    for name, inner in value.items() if known and isinstance(value, dict) else ():
        at = _joined(path, name)
        if (name in known) is in_schema and not (in_schema and inner is None):
            yield at
        if name in known:
            yield from _paths(inner, known[name], in_schema, at)


def _joined(path: str, name: str | None) -> str:
    if name is None:
        return f"{path}[]"
    return f"{path}.{path_text((name,))}" if path else path_text((name,))


def _all_paths(known: Known, path: str = "") -> Iterator[str]:
    """The paths of all fields that have no others inside."""
    for name, inner in known.items():
        at = _joined(path, name)
        yield from _all_paths(inner, at) if inner else [at]


def _said(value: Any) -> str:
    """A value as it is written in the event, or its beginning."""
    if isinstance(value, str):
        return f'"{value[:40]}"'
    if isinstance(value, Decimal | NotAnObject):
        return str(value)[:40]
    return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))[:40]


def _find(event: dict[str, Any], field: Field) -> Any:
    """The value of a field; None if there is none.

    If a parent of the field is not an object, the result is a `NotAnObject`, which fits no type.
    """
    found: Any = event
    for place, step in enumerate(field.path):
        if not isinstance(found, dict):
            return NotAnObject(field.path[place - 1])
        found = found.get(step)
        if found is None:
            return None
    return found


class NotAnObject:
    """A value in place of an object that should contain a field."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"{self.name}, which is no object"


def _of_field(field: Field) -> Fits:
    if not field.unit:
        return _of_type(field.type)
    number, text = _epoch(field.unit), _of_type(field.type)
    return lambda value: (
        not isinstance(value, NotAnObject)
        and (number(value) or (type(value) is str and text(value)))
    )


def _of_type(type_: str) -> Fits:
    """The test of whether a value belongs to a Spark type, as from_json reads it."""
    test = _scalar(type_) or _nested(type_)
    return lambda value: not isinstance(value, NotAnObject) and test(value)


def _inside(type_: str) -> Fits:
    """The same test for a value inside an array, struct or map, where a timestamp must be text."""
    fits = _of_type(type_)
    return (lambda value: type(value) is str and fits(value)) if type_ == "timestamp" else fits


def _scalar(type_: str) -> Fits | None:
    if type_ in INTEGERS:
        most = 1 << {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[type_]
        return lambda value: type(value) is int and -most <= value < most
    if is_decimal(type_):
        precision, scale = decimal_precision(type_), decimal_scale(type_)
        return lambda value: _is_decimal(value, precision, scale)
    return _SCALARS.get(type_) or (_is_float if type_ in FLOATS else None)


def _nested(type_: str) -> Fits:
    parsed = exp.DataType.build(type_, dialect="spark")
    inner = parsed.expressions
    if parsed.is_type("struct"):
        fields = {field.name: _inside(normal_type(field.kind)) for field in inner}

        def fits_struct(value: Any) -> bool:
            return isinstance(value, dict) and all(
                value.get(name) is None or fits(value[name]) for name, fits in fields.items()
            )

        return fits_struct
    of_one = _inside(normal_type(inner[-1]))
    if parsed.is_type("map"):
        return lambda value: (
            isinstance(value, dict) and all(v is None or of_one(v) for v in value.values())
        )
    return lambda value: isinstance(value, list) and all(v is None or of_one(v) for v in value)


_NOT_FINITE = {"NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF"}


def _is_float(value: Any) -> bool:
    return type(value) in (int, float, Decimal) or (type(value) is str and value in _NOT_FINITE)


_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?\Z")


def _is_decimal(value: Any, precision: int, scale: int) -> bool:
    if type(value) is str:
        if len(value) > 1000 or not _NUMBER.match(value):
            return False
        value = Decimal(value)
    if type(value) not in (int, Decimal):
        return False
    with localcontext(prec=2100) as context:
        context.rounding = ROUND_HALF_UP
        number = Decimal(value)
        if abs(number.adjusted()) > 1000:
            return not number
        return abs(number.quantize(Decimal(1).scaleb(-scale))) < Decimal(10) ** (precision - scale)


_DATE = re.compile(r"\s*\+?(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?\s*\Z", re.DOTALL)
_TIME = re.compile(
    r"\s*(?P<sign>\+?)(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:\s*\Z|[ T](\d{1,2})(?::(\d{1,2})"
    r"(?::(\d{1,2})(?:\.\d*)?\s*(?P<zone>\S+(?: \S+)?)?)?)?)?)?)?\s*\Z"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?:([-+])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?)?\Z")


def _is_date(value: Any) -> bool:
    match = _DATE.match(value) if type(value) is str else None
    return match is not None and _day(match) is not None


def _day(match: re.Match[str], first: int = 1) -> date | None:
    """The date of a match, whose groups of year, month and day begin at number `first`."""
    year, month, day = (match[first + place] for place in range(3))
    try:
        return date(int(year), int(month or 1), int(day or 1))
    except ValueError:
        return None


FIRST_SECOND = -62_135_596_800
"""The first second of the year 1, in seconds since 1970."""

LAST_SECOND = 253_402_300_799
"""The last second of the year 9999, in seconds since 1970."""

MICROS = {
    "seconds": Decimal(1_000_000),
    "milliseconds": Decimal(1_000),
    "microseconds": Decimal(1),
    "nanoseconds": Decimal("0.001"),
    "days": Decimal(86_400_000_000),
}
"""The number of microseconds in each unit."""

EPOCH = r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?"
"""A number of a unit since 1970, in JSON or as text. The pattern is one of Java, too."""


def hints_of(field: Field) -> list[tuple[Decimal, str]]:
    """What a schema could declare of a timestamp whose numbers are too large for its unit.

    Returns:
        For each smaller unit, the number up to which this unit is the likeliest, and an addition to
        the reason.
    """
    if field.type not in ("timestamp", "timestamp_ntz"):
        return []
    now = field.unit or "seconds"
    from_ = "" if field.path == (field.name,) else f" from '{path_text(field.path)}'"
    return [
        (
            (LAST_SECOND + 1) * MICROS["seconds"] / micros,
            f", and a number is in {now}: declare `{field.name} {field.type}{from_} in {unit}` if"
            f" these are {unit}",
        )
        for unit, micros in MICROS.items()
        if micros < MICROS[now]
    ]


def _hint(field: Field, value: Any) -> str:
    if type(value) not in (int, Decimal) or not _is_too_late(field, value):
        return ""
    return next((hint for most, hint in hints_of(field) if value <= most), "")


def _is_too_late(field: Field, value: Any) -> bool:
    return value > (LAST_SECOND + 1) * MICROS["seconds"] / MICROS[field.unit or "seconds"]


def _epoch(unit: str) -> Fits:
    """The test of whether a value is a number of this unit, in the years 1 to 9999."""
    whole = Decimal(1)
    first, last = FIRST_SECOND * MICROS["seconds"], (LAST_SECOND + 1) * MICROS["seconds"]

    def fits(value: Any) -> bool:
        if type(value) not in (int, str, Decimal):
            return False
        text = str(value)
        if len(text) > MOST_DIGITS or not re.fullmatch(EPOCH, text):
            return False
        with localcontext(prec=2100):
            number = Decimal(text)
            if abs(number.adjusted()) > 40:
                return number.adjusted() < 0 or not number
            number = number.quantize(Decimal("1e-9"), ROUND_HALF_UP)
            if unit == "days" and number % 1:
                return False
            micros = (number * MICROS[unit]).quantize(
                whole, ROUND_FLOOR if unit == "nanoseconds" else ROUND_HALF_UP
            )
            return first <= micros < last

    return fits


def _is_timestamp(value: Any) -> bool:
    if type(value) is int:
        return FIRST_SECOND <= value <= LAST_SECOND
    if type(value) is Decimal:  # a number with a fraction or an exponent
        return FIRST_SECOND <= float(value) < LAST_SECOND + 1
    if type(value) is not str:
        return False
    return (value[4:5] == "-" and _moment(value) is not None) or _iso_moment(value) is not None


def _iso_moment(text: str) -> datetime | None:
    """The moment of a text in a form of ISO 8601 that Spark's cast does not know."""
    if not (match := _ISO.fullmatch(text)):
        return None
    return _moment(_plain_iso(match.expand(_ISO_PARTS)))


ISO = (
    # A date and a time with separators, or both without
    r"(?:(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?"
    r"|(\d{4})(\d\d)(\d\d)[Tt](\d\d)(?:(\d\d)(?:(\d\d)(?:[.,](\d+))?)?)?)"
    # An offset, and its zone in Java's words or, with the reading of a clock, in Go's
    r"(?: ?([Zz]|[-+]\d\d(?::?\d\d(?::?\d\d)?)?)"
    r"(?:\[[A-Za-z0-9_+/:-]+\]|(?: [A-Z]{3,5}| [-+]\d\d(?:\d\d)?)?(?: m=[-+][0-9.]+)?))?"
)
"""The forms of ISO 8601 and RFC 3339 in which programs write times, also as a pattern of Java.

What follows an offset names its zone once more: `[Europe/Berlin]` after Java's ZonedDateTime, `CET
m=+0.1` after Go's Time.
"""

_ISO = re.compile(ISO, re.ASCII)

ISO_PARTS = "$1$8-$2$9-$3$10T$4$11:$5$12#:$6$13#.$7$14$15"
"""The parts of `ISO` as Spark's cast takes them, but for a missing minute or second."""

_ISO_PARTS = re.sub(r"\$(\d+)", r"\\g<\1>", ISO_PARTS)


def _plain_iso(parts: str) -> str:
    return parts.replace(":#", ":00").replace("#", "").upper()


def _is_local(value: Any) -> bool:
    match = _TIME.match(value) if type(value) is str else None
    return match is not None and not match["zone"] and _moment(value) is not None


def _moment(text: str) -> datetime | None:
    """The moment of a text, in UTC; None if it is not a moment in the years 1 to 9999."""
    match = _TIME.match(text)
    day = _day(match, 2) if match else None
    if match is None or day is None:
        return None
    try:
        zone = _zone(match["zone"]) if match["zone"] else UTC
        hour, minute, second = (int(match[part] or 0) for part in (5, 6, 7))
        return datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=zone).astimezone(
            UTC
        )
    except (ValueError, OverflowError, KeyError, OSError):
        return None


_JAVA_ZONES = frozenset(
    [
        "ACT",
        "AET",
        "AGT",
        "ART",
        "AST",
        "BET",
        "BST",
        "CAT",
        "CNT",
        "CST",
        "CTT",
        "EAT",
        "ECT",
        "IET",
        "IST",
        "JST",
        "MIT",
        "NET",
        "NST",
        "PLT",
        "PNT",
        "PRT",
        "PST",
        "SST",
        "VST",
    ]
)
"""Zone names that Java knows in addition to those of the tz database."""


def _zone(text: str) -> tzinfo:
    if text == "Z" or text in _JAVA_ZONES:
        return UTC
    match = _OFFSET.match(text)
    if match is None:
        return ZoneInfo(text)
    hours, minutes, seconds = (int(match[part] or 0) for part in (2, 3, 4))
    if hours > 18 or minutes > 59 or (hours == 18 and (minutes or seconds)):
        raise ValueError(text)
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-offset if match[1] == "-" else offset)


_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\Z")

_SCALARS: dict[str, Fits] = {
    "string": lambda value: True,
    "boolean": lambda value: type(value) is bool,
    "date": _is_date,
    "timestamp": _is_timestamp,
    "timestamp_ntz": _is_local,
    "binary": lambda value: type(value) is str and _BASE64.match(value) is not None,
}
