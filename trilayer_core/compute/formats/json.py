"""The JSON format: one object per record, parsed by Spark's from_json.

from_json accepts more than JSON. Fields that are not in the schema are ignored and stay in the raw
bytes. Increase `PARSER` in trilayer_core.definitions.stream after every change that affects the
result.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from sqlglot import exp

from trilayer_core.compute.formats.times import (
    EPOCH,
    FIRST_SECOND,
    ISO,
    ISO_PARTS,
    LAST_SECOND,
    MICROS,
    hints_of,
)
from trilayer_core.definitions.expressions import (
    INTEGERS,
    RANGES,
    decimal_scale,
    has_decimal,
    is_decimal,
    normal_type,
)
from trilayer_core.definitions.formats import Format
from trilayer_core.definitions.schemas import Field
from trilayer_core.definitions.stream import PARSER, Stream

MAX_DECIMAL_CHARACTERS = 1000
"""The maximum length of a decimal given as text; Spark parses numbers of at most 1,000 characters.
"""

BROKEN = "broken JSON: must be one JSON object"

WHY_BROKEN = {
    b"\xef\xbb\xbf": ", without a byte order mark before it",
    b"{'": ", with double quotes in place of single ones",
}
"""What the reason adds for an event that begins with these bytes."""


class Json(Format):
    """One JSON object per record."""

    name = "json"
    version = PARSER
    units = True

    def stages(self, stream: Stream) -> Sequence[Mapping[str, str]]:
        """The parsed event, the numbers of times with a unit, then the times."""
        parsed = {"_is_whole": _is_whole_sql(stream), "_event": _from_json_sql(stream)}
        counted = [field for field in stream.fields if field.unit]
        times = [field for field in stream.fields if field.type == "timestamp" and not field.unit]
        return [
            parsed,
            {_number(field): _number_sql(field) for field in counted},
            {_typed(field): _timestamp_sql(field) for field in times}
            | {_typed(field): _counted_sql(field) for field in counted},
        ]

    def column_sql(self, stream: Stream, field: Field) -> str:
        """The value of a field in its type."""
        return _typed(field)

    def fits_sql(self, stream: Stream) -> str:
        """Whether the value is one JSON object with the schema's types and all required fields."""
        tests = [
            "_is_whole",
            "_event IS NOT NULL",
            "_event._corrupt IS NULL",
            *(_is_in_range_sql(field) for field in stream.fields if field.type in _RANGES),
            *(f"NOT {misread}" for misread in map(_misread_sql, stream.fields) if misread),
            *(f"{read_sql(field)} IS NOT NULL" for field in stream.fields if field.required),
        ]
        return " AND ".join(tests)

    def reason_sql(self, stream: Stream) -> str:
        """The first kind of fault that the event has, with all columns that have this fault."""
        missing = ", ".join(
            f"IF({read_sql(f)} IS NULL, {literal(f.label)}, NULL)"
            for f in stream.fields
            if f.required
        )
        misfits = _misfits_sql(stream)
        why = " ".join(
            f"WHEN startswith(_value, X'{start.hex()}') THEN {literal(BROKEN + why)}"
            for start, why in WHY_BROKEN.items()
        )
        return f"""CASE
            WHEN NOT is_valid_utf8({TEXT}) THEN 'invalid UTF-8'
            {why}
            WHEN try_parse_json({TEXT}) IS NULL
                    OR NOT coalesce(startswith(get_json_object({TEXT}, '$'), '{{'), false)
                THEN '{BROKEN}'
            WHEN NOT _is_whole THEN '{BROKEN}, with nothing after it'
            WHEN _event IS NULL
                THEN 'wrong type: a number must have an exponent of at most 3 digits,'
                    || ' at most {MAX_DECIMAL_CHARACTERS} characters, and no comma'
            WHEN _event._corrupt IS NOT NULL OR {misfits} <> ''
                THEN regexp_replace(concat('wrong type: ', {misfits}), '^wrong type: $',
                    'wrong type: inside of an array, struct or map')
            ELSE concat('missing field: ', concat_ws(', ', {missing})) END"""

    def encode(self, stream: Stream, event: Mapping[str, Any]) -> bytes:
        """An event without its NULLs; timestamps as ISO 8601 in UTC, decimals with all digits."""
        present = {name: value for name, value in event.items() if value is not None}
        text = json.dumps(present, default=jsonable, ensure_ascii=False)
        try:
            # Bytes of a file that are not valid UTF-8 are sent unchanged.
            return text.encode(errors="surrogateescape")
        except UnicodeEncodeError:  # half a surrogate pair, which only an escape can represent
            return json.dumps(present, default=jsonable).encode()

    def key_text(self, stream: Stream, value: bytes) -> str | None:
        """The text of a string, or of a number as its type writes it."""
        field = next(field for field in stream.fields if field.name == stream.record_key)
        content = self.content(value)
        for step in field.path:
            content = content.get(step) if isinstance(content, dict) else None
        return _key_text(content, field.type)

    def content(self, value: bytes) -> Any:
        """The event as Python reads it, with numbers as they are written; None if it is no JSON."""
        try:
            return json.loads(value.decode(errors="replace"), parse_int=str, parse_float=str)
        except (ValueError, RecursionError):
            return None


def _key_text(value: Any, type_: str) -> str | None:
    """The text of a value in which numbers are as they are written, the same for equal values."""
    if value is None:
        return None
    if not isinstance(value, str):  # true, false, or an array or object in place of text
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    with suppress(ValueError, ArithmeticError):  # what does not fit the type is as it is written
        if type_ in INTEGERS:
            return str(int(value))
        if is_decimal(type_) and len(value) <= MAX_DECIMAL_CHARACTERS:
            with localcontext(prec=MAX_DECIMAL_CHARACTERS + decimal_scale(type_)):
                unit = Decimal(1).scaleb(-decimal_scale(type_))
                return f"{Decimal(value).quantize(unit, ROUND_HALF_UP) + 0:f}"
    return value


def jsonable(value: object) -> object:
    """A value of a file that JSON has no type for, in the form in which the format reads it."""
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


TEXT = "cast(_value AS string)"

# from_json parses the first JSON value and ignores what follows, which may be another event. If an
# object contains no objects, nothing follows it exactly if its first closing brace is the last
# byte; this check costs next to nothing. Otherwise the value is parsed twice more. Inside an array
# of size 1 it can only be followed by `]` or the end, inside an object of size 1 only by `}` or the
# end; only the end satisfies both.
_ENDS_ONCE = (
    "(startswith(_value, X'7B') AND NOT contains(substring(_value, 1, octet_length(_value) - 1),"
    " X'7D'))"
)
NOTHING_FOLLOWS = f"""(size(from_json(concat('[', {TEXT}, ']'), 'array<struct<>>')) = 1
    AND size(from_json(concat('{{"_":', {TEXT}, '}}'), 'map<string, struct<>>')) = 1)"""


_RANGES = {**RANGES, "tinyint": "-128 AND 127"}
"""The range of a type's valid values, for types of which from_json also accepts others."""

_READ_AS = {"timestamp": "string", "tinyint": "smallint"}
"""The type that from_json parses instead of a type that it would misread.

A timestamp is parsed as text, see `_timestamp_sql`. A tinyint is parsed as a larger type, because
from_json turns 200 into the tinyint -56.
"""

_READ_OTHERWISE = re.compile(r"(?:^|(?<=[:<,]))(timestamp|tinyint)(?=[,>]|$)")


def _read_as(type_: str) -> str:
    """The type that from_json parses, also inside arrays, structs and maps.

    >>> _read_as("map<string,struct<timestamp:timestamp,local:timestamp_ntz>>")
    'map<string,struct<timestamp:string,local:timestamp_ntz>>'
    """
    return _READ_OTHERWISE.sub(lambda match: _READ_AS[match[1]], type_)


def _typed(field: Field) -> str:
    """The value of a field in its type."""
    if field.type == "timestamp" or field.unit:
        return f"`_typed_{field.name}`"
    return _converted_sql(read_sql(field), field.type)


def _number(field: Field) -> str:
    """The number of units of a field that has a unit."""
    return f"`_number_{field.name}`"


def read_sql(field: Field, within: str = "_event") -> str:
    """The value of a field as from_json returned it."""
    return ".".join([within, *(f"`{step}`" for step in field.path)])


def _schema_sql(types: Iterable[tuple[tuple[str, ...], str]]) -> str:
    """The DDL of an event with values of these types at these paths."""
    tree: dict[str, Any] = {}
    for path, type_ in types:
        inner = tree
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = type_

    def struct(of: dict[str, Any]) -> str:
        inside = (
            f"`{n}` {t if isinstance(t, str) else f'struct<{struct(t)}>'}" for n, t in of.items()
        )
        return ", ".join(inside)

    return struct(tree)


def _timestamp_sql(field: Field) -> str:
    """The timestamp of a field that from_json returned as text.

    from_json itself would interpret `10:00` as a time of the current day, and would let large
    numbers wrap around.

    Whether the text has a date is tested in the cheapest way: RLIKE takes three times as long, and
    a try_cast that fails twenty times. A text without a date is parsed again as a number, because a
    number stands for seconds while its digits as text do not.
    """
    text = read_sql(field)

    def as_number(type_: str) -> str:
        return _read_again_sql(field, type_)

    # A fraction makes the number a double, which holds microseconds until the year 2255.
    micros = f"cast(round({as_number('double')} * 1000000) AS bigint)"
    fraction = (
        f"CASE WHEN {as_number('double')} BETWEEN {FIRST_SECOND} AND {LAST_SECOND + 1}"
        f" THEN timestamp_micros({micros}) END"
    )
    return (
        f"coalesce({_time_sql(text)}, CASE WHEN {text} IS NOT NULL"
        f" THEN coalesce(cast({as_number('bigint')} AS timestamp), {fraction}) END)"
    )


def _time_sql(text: str) -> str:
    """The timestamp that a text names; NULL if it names none.

    Spark's cast comes first, because it is the cheaper one, and nearly every time is one for it.
    """
    parts = f"regexp_replace({text}, {literal(f'^{ISO}$')}, {literal(ISO_PARTS)})"
    plain = f"upper(replace(replace({parts}, ':#', ':00'), '#', ''))"
    return (
        f"coalesce(CASE WHEN {_has_day_sql(text)} THEN try_cast({text} AS timestamp) END,"
        f" CASE WHEN {text} RLIKE {literal(f'^{ISO}$')} THEN try_cast({plain} AS timestamp) END)"
    )


def _number_sql(field: Field) -> str:
    text = read_sql(field)
    return (
        f"CASE WHEN length({text}) <= {MAX_DECIMAL_CHARACTERS} AND {text} RLIKE"
        f" {literal(f'^{EPOCH}$')} THEN try_cast({text} AS decimal(38,9)) END"
    )


def _counted_sql(field: Field) -> str:
    """The time of a field with a unit: of a number, which may be text, or of text with a date."""
    number, micros = _number(field), MICROS[field.unit]
    first = FIRST_SECOND * MICROS["seconds"] / micros
    last = (LAST_SECOND + 1) * MICROS["seconds"] / micros
    if field.type == "date":
        day = f"date_from_unix_date(cast({number} AS int))"
        time = f"CASE WHEN {number} = floor({number}) THEN {day} END"
    else:
        # Nanoseconds are cut off as in text; the fraction of another unit may be a double's.
        whole = f"floor(floor({number}) / 1000)"
        if field.unit != "nanoseconds":
            whole = f"round({number} * {micros})"
        time = f"cast(timestamp_micros(cast({whole} AS bigint)) AS {field.type})"
    time = f"CASE WHEN {number} BETWEEN {first:f} AND {last:f} THEN {time} END"
    text = read_sql(field)
    text = _time_sql(text) if field.type == "timestamp" else _read_again_sql(field, field.type)
    return f"coalesce({time}, {text})"


def _read_again_sql(field: Field, type_: str) -> str:
    """The value of a field as from_json returns it in another type."""
    return read_sql(field, f"from_json({TEXT}, {literal(_schema_sql([(field.path, type_)]))})")


def _is_in_range_sql(field: Field) -> str:
    """Whether the value of a field with a range is in the range or missing.

    NULL if the field contains something else.
    """
    return f"({read_sql(field)} IS NULL OR {_typed(field)} BETWEEN {_RANGES[field.type]})"


def _misread_sql(field: Field) -> str | None:
    """Whether an array, struct or map contains a value that from_json misreads.

    A timestamp in it must be text with a date: from_json returns digits as text, whether they
    were a number of seconds or text. Returns None if the type contains no such values.
    """

    def misread(value: str, type_: str) -> str | None:
        if type_ not in _RANGES:
            return None
        fits = f"{_converted_sql(value, type_)} BETWEEN {_RANGES[type_]}"
        return f"({value} IS NOT NULL AND NOT coalesce({fits}, false))"

    return None if field.type in _RANGES else _any_within_sql(read_sql(field), field.type, misread)


def _has_day_sql(text: str) -> str:
    return f"substring({text}, 5, 1) = '-' AND try_cast({text} AS date) IS NOT NULL"


def _any_within_sql(
    value: str, type_: str, test: Callable[[str, str], str | None], depth: int = 0
) -> str | None:
    """SQL of whether a test is true for a value or for any value inside it.

    Args:
        value: The SQL of the value.
        type_: Its type.
        test: A function from the SQL of a scalar value and its type to the SQL of the test, which
            must never be NULL. It returns None if there is nothing to test.
        depth: The number of arrays and maps around the value.
    """
    parsed = exp.DataType.build(type_, dialect="spark")
    inner = parsed.expressions
    if parsed.is_type("struct"):
        parts = (
            _any_within_sql(f"{value}.`{field.name}`", normal_type(field.kind), test, depth)
            for field in inner
        )
        tests = [part for part in parts if part]
        return f"({' OR '.join(tests)})" if tests else None
    if not parsed.is_type("map", "array"):
        return test(value, type_)
    if parsed.is_type("map"):  # its keys are text
        value = f"map_values({value})"
    of_element = _any_within_sql(f"x{depth}", normal_type(inner[-1]), test, depth + 1)
    return f"coalesce(exists({value}, x{depth} -> {of_element}), false)" if of_element else None


def _converted_sql(value: str, type_: str, depth: int = 0) -> str:
    """A value that was read as `_read_as` of its type, in its type; NULL if it does not fit."""
    if _read_as(type_) == type_:
        return value
    parsed = exp.DataType.build(type_, dialect="spark")
    inner = parsed.expressions
    if parsed.is_type("struct"):
        parts = ", ".join(
            f"{literal(field.name)}, "
            + _converted_sql(f"{value}.`{field.name}`", normal_type(field.kind), depth)
            for field in inner
        )
        return f"IF({value} IS NULL, NULL, named_struct({parts}))"
    if not parsed.is_type("map", "array"):
        return _time_sql(value) if type_ == "timestamp" else f"try_cast({value} AS {type_})"
    of_element = _converted_sql(f"x{depth}", normal_type(inner[-1]), depth + 1)
    if parsed.is_type("map"):
        return f"transform_values({value}, (k{depth}, x{depth}) -> {of_element})"
    return f"transform({value}, x{depth} -> {of_element})"


def _from_json_sql(stream: Stream) -> str:
    types = [
        (field.path, "string" if field.unit else _read_as(field.type)) for field in stream.fields
    ]
    schema = _schema_sql([*types, (("_corrupt",), "string")])
    options = (
        "map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_corrupt', 'timeZone', 'UTC',"
        # The fallback would interpret `20260301` as a number of days since 1970.
        " 'enableDateTimeParsingFallback', 'false', 'allowSingleQuotes', 'false')"
    )
    read = [f"octet_length(_value) <= {stream.max_event_bytes}"]
    if any(has_decimal(field.type) for field in stream.fields):
        plain = (
            f"octet_length(_value) <= {MAX_DECIMAL_CHARACTERS} AND NOT {TEXT} RLIKE"
            f" {literal(_NOTABLE)}"
        )
        suspicious = f"{TEXT} RLIKE {literal(_SUSPICIOUS)}"
        read.append(f"({plain} OR NOT {suspicious} OR {_is_harmless_sql(stream)})")
    return f"from_json(IF({' AND '.join(read)}, {TEXT}, NULL), {literal(schema)}, {options})"


# Spark takes minutes to convert `1e100000000` to the scale of a decimal, and as long to parse a
# string with a million digits. If the stream has a decimal, such an event must not reach from_json.
# A cheap regular expression recognises ordinary short events: it finds neither an exponent of four
# digits nor an escape anywhere. A second one finds suspicious events among the others: a number, or
# the beginning of a text, with an exponent of four digits; an escape preceded only by parts of a
# number, since it may hide a digit (digits are those of every script, as in Java); or a text that
# begins with too many digits. Only single characters are repeated, because Java recurses for each
# repetition of a group.
_DIGIT = r"\p{Nd}"
_LONG_EXPONENT = rf"[eE][-+]?{_DIGIT}{{4}}"
# Spark ignores commas in the text of a decimal, so that `1,5` would be fifteen.
_COMMA = rf"\"[-+.]*+{_DIGIT}[-+.eE{_DIGIT}]*+,|[\s:,\[]\",[-+.,{_DIGIT}]"
_NOTABLE = rf"[eE\\](?:[-+]?{_DIGIT}{{4}}|u)|{_COMMA}"
_HIDDEN = r"\\u(?:00[2346]|0[6-9a-fA-F]|1|[aA]|[fF]{2})"
_SUSPICIOUS = (
    rf"[\s\":,\[](?:[-+.{_DIGIT}]*+{_LONG_EXPONENT}|[-+.eE{_DIGIT}]*+{_HIDDEN})"
    rf"|\"[-+.{_DIGIT}]{{{MAX_DECIMAL_CHARACTERS}}}|{_COMMA}"
)


def _is_harmless_sql(stream: Stream) -> str:
    """Whether from_json parses a suspicious event quickly and correctly.

    No number outside of strings may have a long exponent. A decimal in a string is checked by
    parsing it as text. Of several fields with the same name this only sees the last, so no name may
    occur twice, which try_parse_json also rejects. It would reject NaN and Infinity as well, which
    from_json accepts, and so these are replaced first.
    """
    strict = f"regexp_replace({TEXT}, {literal(_NO_NUMBER)}, '0')"
    unescaped = f"regexp_replace({TEXT}, {literal(_ESCAPE)}, '')"
    outside = f"regexp_replace({unescaped}, '\"[^\"]*+\"', '')"
    decimals = [f for f in stream.fields if has_decimal(f.type)]
    schema = _schema_sql((f.path, _DECIMAL.sub("string", f.type)) for f in decimals)
    read = f"from_json({TEXT}, {literal(schema)})"
    unread = [_any_within_sql(read_sql(f, read), f.type, _unreadable_sql) or "" for f in decimals]
    return (
        f"(startswith(ltrim({TEXT}), '{{') AND try_parse_json({strict}) IS NOT NULL"
        f" AND NOT {outside} RLIKE {literal(_LONG_EXPONENT)} AND NOT ({' OR '.join(unread)}))"
    )


_ESCAPE = r"\\."
_NO_NUMBER = r"(?<=[\s:,\[])[-+]?(?:NaN|INF|Infinity)(?=[\s,\]}])"
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")


def _unreadable_sql(value: str, type_: str) -> str | None:
    """Whether a decimal, parsed as text, takes long to convert or contains a comma."""
    if not is_decimal(type_):
        return None
    unreadable = (
        f"length({value}) > {MAX_DECIMAL_CHARACTERS} OR {value} RLIKE {literal(_LONG_EXPONENT)}"
        f" OR contains({value}, ',')"
    )
    return f"coalesce({unreadable}, false)"


def _is_whole_sql(stream: Stream) -> str:
    """Whether the value is UTF-8, not too long, and a single JSON value.

    This is computed in the same stage as from_json, so that no later stage needs the bytes.
    """
    return (
        f"_value IS NOT NULL AND octet_length(_value) <= {stream.max_event_bytes} AND"
        f" is_valid_utf8({TEXT}) AND ({_ENDS_ONCE} OR coalesce({NOTHING_FOLLOWS}, false))"
    )


def _misfits_sql(stream: Stream) -> str:
    """The fields with a wrong type and their values, as one text.

    For example `n must be int, got "six"; ...`.
    """
    misfits = (
        f"filter(array({', '.join(map(_misfit_sql, stream.fields))}),"
        " x -> x.instead IS NOT NULL OR NOT is_variant_null(x.got))"
    )
    text = """coalesce(x.instead, IF(schema_of_variant(x.got) = 'STRING',
        concat('"', substring(cast(x.got AS string), 1, 40), '"'),
        substring(to_json(x.got), 1, 40)))"""
    return f"concat_ws('; ', transform({misfits}, x -> concat(x.rule, {text})))"


def _misfit_sql(field: Field) -> str:
    got = _variant_sql(field.path)
    bad = f"{read_sql(field)} IS NULL"
    if field.type in _RANGES:
        bad = f"({bad} OR NOT coalesce({_is_in_range_sql(field)}, false))"
    elif misread := _misread_sql(field):
        bad = f"({bad} OR {misread})"
    rule = literal(f"{field.label} must be {field.type}, got ")
    # If a parent of the field is not an object, this names it.
    steps = [field.path[:end] for end in range(1, len(field.path))]
    instead = " ".join(
        f"WHEN NOT is_variant_null({_variant_sql(step)})"
        f" AND NOT startswith(schema_of_variant({_variant_sql(step)}), 'OBJECT')"
        f" THEN {literal(f'{step[-1]}, which is no object')}"
        for step in steps
    )
    number = f"try_variant_get({got}, '$', 'double')"
    least = (LAST_SECOND + 1) * MICROS["seconds"] / MICROS[field.unit or "seconds"]
    for most, hint in hints_of(field):
        instead += (
            f" WHEN schema_of_variant({got}) <> 'STRING' AND {number} > {least:f} AND {number} <="
            f" {most:f} THEN concat(substring(to_json({got}), 1, 40), {literal(hint)})"
        )
    instead = f"CASE {instead} END" if instead else "cast(NULL AS string)"
    return f"IF({bad}, named_struct('rule', {rule}, 'got', {got}, 'instead', {instead}), NULL)"


def _variant_sql(path: Sequence[str]) -> str:
    """The value at a path of an event; NULL if there is none."""
    steps = "".join(f'["{step}"]' for step in path)
    return f"variant_get(try_parse_json({TEXT}), {literal('$' + steps)}, 'variant')"


def literal(text: str) -> str:
    """A text as a SQL literal."""
    return exp.Literal.string(text).sql(dialect="spark")
