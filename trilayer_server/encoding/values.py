"""The types and values of an Arrow table, as PostgreSQL has them.

`type_of` says which type of PostgreSQL a column has, and `rows` makes the messages of all rows.
They are built column by column: the lengths and values of all columns are joined for each row, so
that the data of the joined array is the stream of bytes that is sent.

Source: https://www.postgresql.org/docs/current/protocol-message-formats.html (DataRow), and the
`*_send` functions of PostgreSQL for the binary formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trilayer.operations.values import clock_text, interval_text, plain

TEXT, BINARY = 0, 1
"""The formats of values."""

# Days and microseconds from 1970 to 2000, from where PostgreSQL counts.
_DAYS_TO_2000 = (date(2000, 1, 1) - date(1970, 1, 1)).days
_US_A_DAY = 86_400_000_000

Encode = Callable[[pa.Array], pa.Array]
"""Makes the bytes of all values of an array. NULL stays NULL."""


@dataclass(frozen=True)
class Type:
    """A type of PostgreSQL.

    Attributes:
        oid: Its number.
        size: The number of bytes of a value; -1 if it varies.
        text: Encodes values as text.
        binary: Encodes values in the type's binary format.
        modifier: Precision and scale, if it is numeric; else -1.
    """

    oid: int
    size: int
    text: Encode
    binary: Encode
    modifier: int = -1


def type_of(arrow: pa.DataType) -> Type:
    """The type of PostgreSQL for one of Arrow. A struct or map is json."""
    declared: Type | None = getattr(arrow, "wire", None)  # see introspection/declared_types.py
    if declared:
        return declared
    if pa.types.is_dictionary(arrow):
        value = type_of(arrow.value_type)
        return Type(
            value.oid,
            value.size,
            lambda array: value.text(array.dictionary_decode()),
            lambda array: value.binary(array.dictionary_decode()),
            value.modifier,
        )
    if pa.types.is_decimal(arrow):
        return Type(1700, -1, _decimal_text, _numeric, ((arrow.precision << 16) | arrow.scale) + 4)
    if pa.types.is_timestamp(arrow):
        oid = 1184 if arrow.tz else 1114
        return Type(oid, 8, _timestamps_text(bool(arrow.tz)), _timestamp)
    if _is_list(arrow):
        return _array_type(arrow)
    if isinstance(arrow, pa.JsonType):  # which is a text that is JSON already
        return Type(_JSON.oid, -1, lambda a: _text(a.storage), lambda a: _text(a.storage))
    return _TYPES.get(arrow) or _JSON


def rows(batch: pa.RecordBatch, formats: Sequence[int], kind: bytes = b"D") -> pa.Buffer:
    """The messages of all rows, with a format for each column.

    Args:
        batch: The rows.
        formats: The formats.
        kind: The type of the messages. The body of DataRow is also that of a row which is copied.
    """
    if batch.num_rows <= FEW_ROWS:
        return pa.py_buffer(b"".join(_few_messages(batch, formats, kind)))
    return _many_messages(batch, formats, kind).buffers()[2]


def messages(batch: pa.RecordBatch, formats: Sequence[int]) -> pa.LargeBinaryArray:
    """The DataRow message of each row, with a format for each column."""
    if batch.num_rows <= FEW_ROWS:
        return pa.array(_few_messages(batch, formats, b"D"), pa.large_binary())
    return _many_messages(batch, formats, b"D")


def _many_messages(
    batch: pa.RecordBatch, formats: Sequence[int], kind: bytes
) -> pa.LargeBinaryArray:
    parts: list[pa.Array] = []
    sizes = np.full(batch.num_rows, 6 + 4 * batch.num_columns, np.int64)
    for column, format_ in zip(batch.columns, formats, strict=True):
        type_ = type_of(column.type)
        encoded = (type_.binary if format_ == BINARY else type_.text)(column)
        length = pc.fill_null(pc.binary_length(encoded), -1).to_numpy(zero_copy_only=False)
        sizes += np.maximum(length, 0)
        parts += [_fixed(length.astype(">i4")), pc.fill_null(encoded, b"")]
    number = batch.num_columns.to_bytes(2, "big")
    return pc.binary_join_element_wise(
        pa.scalar(kind, pa.large_binary()),
        _large(_fixed(sizes.astype(">i4"))),
        pa.scalar(number, pa.large_binary()),
        *map(_large, parts),
        pa.scalar(b"", pa.large_binary()),
    )


def framed(bodies: pa.Array, kind: bytes) -> pa.Buffer:
    """A message of this type for each body."""
    length = pc.binary_length(bodies).to_numpy(zero_copy_only=False) + 4
    joined = pc.binary_join_element_wise(
        pa.scalar(kind, pa.large_binary()),
        _large(_fixed(length.astype(">i4"))),
        bodies,
        pa.scalar(b"", pa.large_binary()),
    )
    return joined.buffers()[2]


FEW_ROWS = 16
"""Up to so many rows are put together one by one, which takes less time for them."""


def _few_messages(batch: pa.RecordBatch, formats: Sequence[int], kind: bytes) -> list[bytes]:
    columns = [
        _encoded(column, format_) for column, format_ in zip(batch.columns, formats, strict=True)
    ]
    number = batch.num_columns.to_bytes(2, "big")
    encoded = []
    for row in zip(*columns, strict=True) if columns else [()] * batch.num_rows:
        body = number + b"".join(
            b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value
            for value in row
        )
        encoded.append(kind + (len(body) + 4).to_bytes(4, "big") + body)
    return encoded


def _encoded(column: pa.Array, format_: int) -> list[bytes | None]:
    is_plain = format_ == TEXT and not isinstance(column.type, pa.BaseExtensionType)
    if is_plain and (encode := _ONE_BY_ONE.get(column.type)) is not None:
        return [None if value is None else encode(value) for value in column.to_pylist()]
    type_ = type_of(column.type)
    encoded: list[bytes | None] = (type_.binary if format_ == BINARY else type_.text)(
        column
    ).to_pylist()
    return encoded


def _double(value: float) -> bytes:
    if 1e-4 <= abs(value) < 1e15:
        return repr(value).removesuffix(".0").encode()
    return str(_float_text(1e15)(pa.array([value]))[0].as_py(), "ascii").encode()


def _large(array: pa.Array) -> pa.Array:
    return array.cast(pa.large_binary())


def _fixed(values: np.ndarray) -> pa.Array:
    """The bytes of each number, in the order in which the processor would have them."""
    width = values.dtype.itemsize
    data = pa.py_buffer(np.ascontiguousarray(values))
    offsets = pa.py_buffer(np.arange(len(values) + 1, dtype=np.int32) * width)
    return pa.Array.from_buffers(pa.binary(), len(values), [None, offsets, data])


def _masked(encoded: pa.Array, array: pa.Array) -> pa.Array:
    """NULL where the array has NULL."""
    return pc.if_else(array.is_valid(), encoded, None) if array.null_count else encoded


# -- encoders --------------------------------------------------------------------------------------


def _number(big_endian: str) -> Encode:
    def encode(array: pa.Array) -> pa.Array:
        values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
        return _masked(_fixed(values.astype(big_endian)), array)

    return encode


def _each(one: Callable[[Any], str | bytes]) -> Encode:
    """Encodes the values one at a time."""

    def encode(array: pa.Array) -> pa.Array:
        made = [None if not value.is_valid else _as_bytes(one(value)) for value in array]
        return pa.array(made, pa.binary())

    return encode


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _text(array: pa.Array) -> pa.Array:
    return array.cast(pa.string()).cast(pa.binary())


def _decimal_text(array: pa.Array) -> pa.Array:
    """Numbers without an exponent, which PostgreSQL never writes and some clients do not read."""
    text, scale = array.cast(pa.string()), array.type.scale
    small = pc.fill_null(pc.match_substring(text, "E-"), False)
    if pc.any(small).as_py():
        whole = pa.decimal128(array.type.precision, 0)
        digits = pa.Array.from_buffers(whole, len(array), array.buffers(), offset=array.offset)
        signed = digits.cast(pa.string())
        sign = pc.if_else(pc.starts_with(signed, "-"), "-0.", "0.")
        padded = pc.utf8_lpad(pc.utf8_ltrim(signed, "-"), scale, "0")
        text = pc.if_else(small, pc.binary_join_element_wise(sign, padded, ""), text)
    return text.cast(pa.binary())


def _boolean_text(array: pa.Array) -> pa.Array:
    return pc.if_else(array, b"t", b"f").cast(pa.binary())


def _float_text(scientific_from: float) -> Encode:
    """As PostgreSQL writes them: the shortest text that is read as the same number.

    It has an exponent if the number is below 1e-4, or not below `scientific_from`.
    """

    def one(value: np.floating[Any]) -> str:
        if 1e-4 <= abs(value) < scientific_from:
            return np.format_float_positional(value, unique=True, trim="-")
        return np.format_float_scientific(value, unique=True, trim="-", exp_digits=2)

    def encode(array: pa.Array) -> pa.Array:
        text = array.cast(pa.string())
        numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
        size = np.abs(numbers)
        finite = np.isfinite(numbers)
        if not finite.all():
            text = pc.replace_substring_regex(text, "^nan$", "NaN")
            text = pc.replace_substring_regex(text, "inf$", "Infinity")
        # Arrow uses an exponent for others.
        ours = finite & (size != 0) & ((size < 1e-4) | (size >= _ARROW_POSITIONAL))
        if ours.any():
            made = pa.array([one(number) for number in numbers[ours]], pa.string())
            text = pc.replace_with_mask(text, pa.array(ours), made)
        return _masked(text.cast(pa.binary()), array)

    return encode


_ARROW_POSITIONAL = 1e6
"""Up to this number Arrow writes what PostgreSQL writes, for both sizes of floating point."""


def _boolean(array: pa.Array) -> pa.Array:
    return pc.if_else(array, b"\x01", b"\x00").cast(pa.binary())


def _bytea_text(array: pa.Array) -> pa.Array:
    return pa.array(
        [None if v is None else b"\\x" + v.hex().encode() for v in array.to_pylist()], pa.binary()
    )


_MOST_DAYS, _MOST_US = 2**31 - 1, 2**63 - 1
"""Infinity, as DuckDB stores it; its opposite is minus infinity."""


def _since_2000(array: pa.Array, shift: int, most: int, big_endian: str) -> pa.Array:
    """Numbers counted from 2000, of which the extremes are infinite; others stay within these."""
    given = pc.fill_null(array, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    moved = np.maximum(given, shift - most) - shift
    moved[given == most] = most
    moved[given == -most] = -most - 1
    return _masked(_fixed(moved.astype(big_endian)), array)


def _date(array: pa.Array) -> pa.Array:
    return _since_2000(array.cast(pa.int32()), _DAYS_TO_2000, _MOST_DAYS, ">i4")


def _date_text(array: pa.Array) -> pa.Array:
    return _usual(array, array, _each(lambda value: _day(value.value)))


def _usual(
    array: pa.Array, days: pa.Array, others: Encode, usual: Encode | None = None
) -> pa.Array:
    """Encodes dates of the years 1 to 9999 at once, and others one at a time.

    Args:
        array: The values.
        days: Their dates.
        others: Encodes any value.
        usual: Encodes those of these years; by default as Arrow writes them.
    """
    number = pc.fill_null(days.cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
    if ((number < _FIRST_DAY) | (number > _LAST_DAY)).any():
        return others(array)
    return (usual or _text)(array)


_FIRST_DAY = (date(1, 1, 1) - date(1970, 1, 1)).days
_LAST_DAY = (date(9999, 12, 31) - date(1970, 1, 1)).days


def _timestamp(array: pa.Array) -> pa.Array:
    return _since_2000(_us(array), _DAYS_TO_2000 * _US_A_DAY, _MOST_US, ">i8")


def _us(array: pa.Array) -> pa.Array:
    return array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())


def _timestamps_text(zoned: bool) -> Encode:
    others = _each(_timestamp_text(zoned))

    def usual(array: pa.Array) -> pa.Array:
        us = _us(array).cast(pa.timestamp("us"))
        # Arrow writes six digits behind the second.
        text = pc.utf8_rtrim(pc.utf8_rtrim(us.cast(pa.string()), "0"), ".")
        return (pc.binary_join_element_wise(text, "+00", "") if zoned else text).cast(pa.binary())

    def encode(array: pa.Array) -> pa.Array:
        us = pc.fill_null(_us(array), 0).to_numpy(zero_copy_only=False)
        days = pa.array(np.floor_divide(us, _US_A_DAY).astype(np.int32))
        return _usual(array, days, others, usual)

    return encode


def _timestamp_text(zoned: bool) -> Callable[[pa.Scalar], str]:
    def one(value: pa.Scalar) -> str:
        us = value.cast(pa.timestamp("us", value.type.tz), safe=False).value
        if abs(us) == _MOST_US:
            return "infinity" if us > 0 else "-infinity"
        days, rest = divmod(us, _US_A_DAY)
        day = _day(days)
        era = " BC" if day.endswith(" BC") else ""
        return f"{day.removesuffix(' BC')} {clock_text(rest)}{'+00' if zoned else ''}{era}"

    return one


def _day(days: int) -> str:
    """A date as PostgreSQL writes it, of any year."""
    if abs(days) == _MOST_DAYS:
        return "infinity" if days > 0 else "-infinity"
    # Any 400 years have the same days, so that a date can be moved into the years that Python has.
    cycles, within = divmod(days + _DAYS_TO_YEAR_1, _DAYS_A_CYCLE)
    day = date(1, 1, 1) + timedelta(days=within)
    year = day.year + 400 * cycles
    shown, era = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown:04d}-{day.month:02d}-{day.day:02d}{era}"


_DAYS_A_CYCLE = 146_097
_DAYS_TO_YEAR_1 = (date(1970, 1, 1) - date(1, 1, 1)).days


def _time(array: pa.Array) -> pa.Array:
    return _number(">i8")(array.cast(pa.time64("us"), safe=False).cast(pa.int64()))


def _time_text(array: pa.Array) -> pa.Array:
    us = array.cast(pa.time64("us"), safe=False).cast(pa.int64())
    return _each(lambda value: clock_text(value.as_py()))(us)


def _interval(value: pa.Scalar) -> bytes:
    months, days, ns = value.as_py()
    return b"".join(
        part.to_bytes(size, "big", signed=True)
        for part, size in ((ns // 1000, 8), (days, 4), (months, 4))
    )


def _numeric(array: pa.Array) -> pa.Array:
    precision, scale = array.type.precision, array.type.scale
    places = -(-scale // 4)
    if scale >= 0 and precision + 4 * places - scale <= _INT64_DIGITS:
        return _small_numeric(array, scale, places)
    return pa.array(
        [None if v is None else numeric_binary(v) for v in array.to_pylist()], pa.binary()
    )


_INT64_DIGITS = 18


def _small_numeric(array: pa.Array, scale: int, places: int) -> pa.Array:
    """The binary format of decimals whose digits fit 64 bits, `places` groups behind the point."""
    # The lower half of 128 bits has them.
    halves = np.frombuffer(array.buffers()[1], "<i8")[2 * array.offset :][: 2 * len(array)]
    whole = np.where(_valid(array), halves[::2], 0) * 10 ** (4 * places - scale)
    size, number = np.abs(whole), -(-(_INT64_DIGITS + 1) // 4)
    groups = np.empty((len(array), number), np.int64)
    for place in reversed(range(number)):
        size, groups[:, place] = np.divmod(size, 10_000)
    used = groups != 0
    any_ = used.any(axis=1)
    first = np.where(any_, used.argmax(axis=1), 0)
    last = np.where(any_, number - used[:, ::-1].argmax(axis=1), 0)
    fields = np.empty((len(array), 4 + number), ">i2")
    fields[:, 0] = last - first
    fields[:, 1] = np.where(any_, number - places - 1 - first, 0)
    fields[:, 2] = np.where(whole < 0, 0x4000, 0)
    fields[:, 3] = scale
    fields[:, 4:] = groups
    column = np.arange(number)
    sent = np.ones(fields.shape, bool)
    sent[:, 4:] = (column >= first[:, None]) & (column < last[:, None])
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(2 * sent.sum(axis=1), out=offsets[1:])
    data = pa.py_buffer(fields[sent].tobytes())
    made = pa.Array.from_buffers(pa.binary(), len(array), [None, pa.py_buffer(offsets), data])
    return _masked(made, array)


def _valid(array: pa.Array) -> np.ndarray:
    valid: np.ndarray = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def numeric_binary(value: Decimal) -> bytes:
    """A decimal in PostgreSQL's binary format: digits of base 10,000 with a weight."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    whole = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    # As a whole number of 10,000ths to some power.
    places = -(-scale // 4)
    whole *= 10 ** (4 * places - scale)
    groups: list[int] = []
    while whole:
        whole, group = divmod(whole, 10_000)
        groups.insert(0, group)
    weight = len(groups) - places - 1
    while groups and not groups[-1]:
        groups.pop()
    head = (len(groups), weight if groups else 0, 0x4000 if sign and groups else 0, scale)
    return np.array([*head, *groups], ">i2").tobytes()


def _json_text(array: pa.Array) -> pa.Array:
    return pa.array(
        [
            None if value is None else json.dumps(plain(value), ensure_ascii=False).encode()
            for value in python(array)
        ],
        pa.binary(),
    )


def python(array: pa.Array) -> list[Any]:
    """The values of an array; those that Python lacks, such as the year 10000, as text."""
    try:
        values: list[Any] = array.to_pylist()
    except (ValueError, OverflowError):
        values = [_python(value) for value in array]
    return values


def _python(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    if isinstance(value, pa.StructScalar):
        return {name: _python(inner) for name, inner in value.items()}
    if isinstance(value, pa.MapScalar):
        pairs = zip(value.values.field(0), value.values.field(1), strict=True)
        return [(_python(key), _python(inner)) for key, inner in pairs]
    if isinstance(value, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [_python(inner) for inner in value.values]
    if isinstance(value, pa.UnionScalar):
        return _python(value.value)
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        made: bytes = type_of(value.type).text(pa.array([value], value.type))[0].as_py()
        return made.decode()


# -- arrays ----------------------------------------------------------------------------------------

_ARRAYS = {16: 1000, 17: 1001, 20: 1016, 21: 1005, 23: 1007, 25: 1009, 114: 199, 700: 1021,
           701: 1022, 1082: 1182, 1083: 1183, 1114: 1115, 1184: 1185, 1186: 1187,
           1700: 1231}  # fmt: skip
"""The type of an array by the type of its elements."""

_QUOTED = frozenset('{}",\\ \t\n\r\v\f')


def _is_list(arrow: pa.DataType) -> bool:
    return any(
        test(arrow)
        for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )


def _array_type(arrow: pa.DataType) -> Type:
    depth, element = 0, arrow
    while _is_list(element):
        depth, element = depth + 1, element.value_type
    kind = type_of(element)
    # Arrays of PostgreSQL are rectangular, lists need not be. An array of json, which a list of
    # structs could be, ends clients such as connectorx.
    if depth > 1 or kind.oid == _JSON.oid:
        return _JSON

    def parts(value: pa.Scalar, encode: Encode) -> list[bytes | None]:
        encoded: list[bytes | None] = encode(value.values).to_pylist()
        return encoded

    def text(value: pa.Scalar) -> str:
        return "{" + ",".join(map(_element_text, parts(value, kind.text))) + "}"

    def binary(value: pa.Scalar) -> bytes:
        elements = parts(value, kind.binary)
        has_null = None in elements
        head = np.array([1 if elements else 0, has_null, kind.oid], ">i4").tobytes()
        dimension = np.array([len(elements), 1], ">i4").tobytes() if elements else b""
        return (
            head
            + dimension
            + b"".join(
                b"\xff\xff\xff\xff" if part is None else len(part).to_bytes(4, "big") + part
                for part in elements
            )
        )

    return Type(_ARRAYS[kind.oid], -1, _each(text), _each(binary))


def _element_text(part: bytes | None) -> str:
    if part is None:
        return "NULL"
    text = part.decode()
    if text and text.upper() != "NULL" and not _QUOTED.intersection(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_ONE_BY_ONE: Mapping[pa.DataType, Callable[[Any], bytes]] = {
    **dict.fromkeys((pa.int16(), pa.int32(), pa.int64()), lambda value: str(value).encode()),
    pa.string(): lambda value: value.encode(),
    pa.bool_(): lambda value: b"t" if value else b"f",
    pa.float64(): _double,
}
"""How the values of frequent types are encoded as text, if they are few."""

_JSON = Type(114, -1, _json_text, _json_text)
_TYPES: Mapping[pa.DataType, Type] = {
    pa.bool_(): Type(16, 1, _boolean_text, _boolean),
    **dict.fromkeys((pa.int8(), pa.uint8(), pa.int16()), Type(21, 2, _text, _number(">i2"))),
    **dict.fromkeys((pa.uint16(), pa.int32()), Type(23, 4, _text, _number(">i4"))),
    **dict.fromkeys((pa.uint32(), pa.int64()), Type(20, 8, _text, _number(">i8"))),
    pa.uint64(): Type(1700, -1, _text, lambda array: _numeric(array.cast(pa.decimal128(20, 0)))),
    pa.float32(): Type(700, 4, _float_text(1e6), _number(">f4")),
    pa.float64(): Type(701, 8, _float_text(1e15), _number(">f8")),
    **dict.fromkeys(
        (pa.string(), pa.large_string(), pa.string_view(), pa.null()), Type(25, -1, _text, _text)
    ),
    pa.binary(): Type(17, -1, _bytea_text, lambda array: array),
    pa.large_binary(): Type(17, -1, _bytea_text, lambda array: array.cast(pa.binary())),
    pa.date32(): Type(1082, 4, _date_text, _date),
    **dict.fromkeys((pa.time64("us"), pa.time64("ns")), Type(1083, 8, _time_text, _time)),
    pa.month_day_nano_interval(): Type(
        1186, 16, _each(lambda value: interval_text(value.as_py())), _each(_interval)
    ),
}
