"""The format of Debezium's change events in JSON: each change of a row is an event.

The fields of an event are the row's columns, and beside them, as Debezium's own transformation
names them:

- `__op`: c (created), u (updated), d (deleted) or r (read by a snapshot); NULL for a tombstone
- `__deleted`: whether the row was deleted, by a delete or a tombstone
- `__tombstone`: whether the record is a tombstone, which has a key and no value
- `__ts_ms`, `__ts_us`, `__ts_ns`: when the connector processed the change; for a tombstone
  `__ts_ms` is the append time of its record
- `__source`: the source's block, such as `__source.ts_ms`, `__source.lsn`, `__source.file`
- `__position`: the position of the change in its source, as text whose order is that of the
  changes of a row; NULL for a tombstone and for sources other than MySQL, PostgreSQL and SQL Server
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from typing import Any

from trilayer_core.compute.formats.json import (
    NOTHING_FOLLOWS,
    TEXT,
    Json,
    jsonable,
    literal,
    read_sql,
)
from trilayer_core.definitions.expressions import decimal_scale, is_decimal
from trilayer_core.definitions.schemas import Field
from trilayer_core.definitions.stream import PARSER, Stream
from trilayer_core.errors import DefinitionError

NO_CHANGE = "no change: must be Debezium's envelope with `op` and the row `after`, or `before`"
_CHANGE = (
    "op string, before string, after string, source string, ts_ms bigint, ts_us bigint,"
    " ts_ns bigint"
)
_POSITION = (
    "file string, pos bigint, row bigint, lsn bigint, sequence string, snapshot string,"
    " commit_lsn string, change_lsn string, event_serial_no bigint"
)


@dataclass(frozen=True)
class Debezium(Json):
    """Debezium's envelope in JSON, with or without its schema.

    Attributes:
        decimals: The connector's `decimal.handling.mode`: with `precise`, decimals are the Base64
            of an integer, whose scale must be that of the declared type; with `string` or `double`
            they are text or numbers.
    """

    decimals: str = "precise"
    name = "debezium"
    version = PARSER

    def __post_init__(self) -> None:
        if self.decimals not in ("precise", "string", "double"):
            raise DefinitionError(
                "decimals of Debezium must be the connector's decimal.handling.mode, which is"
                f" precise, string or double; got {self.decimals!r}"
            )

    def unwrapping(self, stream: Stream) -> Sequence[Mapping[str, str]]:
        """The envelope, the change in it, the row, and the row with the change's own fields."""
        schema = literal(f"{_CHANGE}, payload struct<{_CHANGE}>")
        names = [column.split()[0] for column in _CHANGE.split(", ")]
        change = ", ".join(f"'{name}', _envelope.{name}" for name in names)
        key = "cast(_key AS string)"
        payload = f"from_json({key}, 'payload string').payload"
        of_key = (
            f"CASE WHEN {payload} LIKE '{{%' THEN {payload} WHEN {key} LIKE '{{%' THEN {key} END"
        )
        return [
            {
                "_envelope": f"CASE WHEN octet_length(_value) <= {stream.max_event_bytes} AND"
                f" is_valid_utf8({TEXT}) AND {NOTHING_FOLLOWS} THEN"
                f" from_json({TEXT}, {schema}, map('allowSingleQuotes', 'false')) END"
            },
            {"_change": f"coalesce(_envelope.payload, named_struct({change}))"},
            {
                "_row": f"trim(CASE WHEN _value IS NULL THEN {of_key} WHEN _change.op = 'd'"
                f" THEN coalesce(_change.before, {of_key}) ELSE _change.after END)",
                "_source": f"from_json(_change.source, '{_POSITION}')",
            },
            {"_fields": _fields_sql()},
            {
                # What is no JSON object is left to JSON's own reasons.
                "_content": "CASE WHEN _value IS NOT NULL AND _envelope IS NULL THEN _value"
                " WHEN (_value IS NULL OR _change.op IS NOT NULL) AND startswith(_row, '{')"
                " THEN cast(concat(substring(_fields, 1, length(_fields) - 1), ', \"__source\": ',"
                " coalesce(_change.source, 'null'), IF(_row RLIKE '^[{]\\\\s*[}]$', '', ', '),"
                " substring(_row, 2)) AS binary) END"
            },
        ]

    def stages(self, stream: Stream) -> Sequence[Mapping[str, str]]:
        """JSON's, and then the decimals."""
        binary = {
            _hex(field): f"hex(try_to_binary({read_sql(field)}, 'base64'))"
            for field in self._precise(stream)
        }
        decimals = {_decimal(field): _decimal_sql(field) for field in self._precise(stream)}
        return [*super().stages(self._as_read(stream)), binary, decimals]

    def column_sql(self, stream: Stream, field: Field) -> str:
        """The value of a field in its type."""
        return (
            _decimal(field) if field in self._precise(stream) else super().column_sql(stream, field)
        )

    def fits_sql(self, stream: Stream) -> str:
        """Whether the row has the schema's types and all required fields."""
        decimals = (f"NOT {self._misfit_sql(field)}" for field in self._precise(stream))
        return " AND ".join([super().fits_sql(self._as_read(stream)), *decimals])

    def reason_sql(self, stream: Stream) -> str:
        """The first kind of fault that the event has."""
        read = self._as_read(stream)
        misfits = ", ".join(
            f"IF({self._misfit_sql(f)}, concat({literal(f'{f.label} must be {f.type}, got ')},"
            f" '\"', substring({read_sql(f)}, 1, 40), '\"'), NULL)"
            for f in self._precise(stream)
        )
        wrong = (
            f"WHEN {super().fits_sql(read)} THEN concat('wrong type: ', concat_ws('; ', {misfits}))"
            if misfits
            else ""
        )
        return f"""CASE WHEN _value IS NULL THEN {literal(NO_CHANGE)} {wrong}
            ELSE {super().reason_sql(read)} END"""

    def encode(self, stream: Stream, event: Mapping[str, Any]) -> bytes:
        """The envelope of a created row, or of a deleted one if the event has `__deleted`."""
        row = {name: value for name, value in event.items() if not name.startswith("__")}
        for field in self._precise(stream):
            if len(field.path) == 1 and (value := row.get(field.path[0])) is not None:
                row[field.path[0]] = _encoded(value, field.type)
        deleted = bool(event.get("__deleted"))
        envelope = {
            "before": row if deleted else None,
            "after": None if deleted else row,
            "source": event.get("__source"),
            "op": event.get("__op") or ("d" if deleted else "c"),
            "ts_ms": event.get("__ts_ms"),
        }
        return json.dumps(envelope, default=jsonable).encode()

    def content(self, value: bytes) -> Any:
        """The row in the envelope, and beside it the change's own fields."""
        change = _change_of(super().content(value))
        row = _row_of(change) if isinstance(change, dict) else None
        return {**_fields_of(change), **row} if isinstance(row, dict) else None

    def _precise(self, stream: Stream) -> list[Field]:
        """The columns that are the Base64 of an integer."""
        if self.decimals != "precise":
            return []
        return [field for field in stream.fields if is_decimal(field.type)]

    def _as_read(self, stream: Stream) -> Stream:
        """The stream with these columns as text."""
        precise = self._precise(stream)
        read = copy.copy(stream)
        fields = (replace(f, type="string") if f in precise else f for f in stream.fields)
        read.__dict__["fields"] = tuple(fields)
        return read

    def _misfit_sql(self, field: Field) -> str:
        return f"({read_sql(field)} IS NOT NULL AND {_decimal(field)} IS NULL)"


def _fields_sql() -> str:
    """The fields of a change beside its row, as a JSON object."""
    fields = {
        "op": "_change.op",
        "deleted": "_value IS NULL OR _change.op = 'd'",
        "tombstone": "_value IS NULL",
        "ts_ms": "IF(_value IS NULL, unix_millis(_timestamp), _change.ts_ms)",
        "ts_us": "_change.ts_us",
        "ts_ns": "_change.ts_ns",
        "position": f"CASE {_position_sql()} END",
    }
    named = ", ".join(f"'__{name}', {sql}" for name, sql in fields.items())
    return f"to_json(named_struct({named}))"


def _position_sql() -> str:
    """The position of a change, as text whose order is that of the changes of a row."""
    number = "lpad(cast({} AS string), {}, '0')".format
    # The number of a binary log has six digits, and more of them after 999999.
    file = f"""concat(regexp_replace(_source.file, '[0-9]+$', ''),
        {number("regexp_extract(_source.file, '[0-9]+$', 0)", 10)})"""
    # PostgreSQL's transactions are sent in the order of their commits, each after the commit that
    # is the first of `sequence`. Their changes may have been written before a snapshot that does
    # not contain them. Without `sequence` there is only the order in which they were written.
    committed = """coalesce(
        IF(_source.sequence IS NULL, _source.lsn,
            from_json(_source.sequence, 'array<string>')[0]), 0)"""
    streamed = "IF(coalesce(_source.snapshot, 'false') IN ('false', 'incremental'), 1, 0)"
    # A snapshot of SQL Server is at a commit and at none of its changes.
    return f"""
        WHEN _source.file IS NOT NULL THEN concat_ws(':', {file},
            {number("_source.pos", 20)}, {number("coalesce(_source.row, 0)", 10)})
        WHEN _source.lsn IS NOT NULL THEN concat_ws(':',
            {number(committed, 20)}, {streamed}, {number("_source.lsn", 20)})
        WHEN coalesce(_source.commit_lsn, _source.change_lsn) IS NOT NULL
            THEN concat_ws(':', _source.commit_lsn, _source.change_lsn,
            {number("coalesce(_source.event_serial_no, 0)", 10)})"""


def _hex(field: Field) -> str:
    return f"`_hex_{field.name}`"


def _decimal(field: Field) -> str:
    return f"`_decimal_{field.name}`"


def _decimal_sql(field: Field) -> str:
    """The decimal of an integer in two's complement, given as hexadecimal digits."""
    digits, most = _hex(field), 32
    negative = f"{digits} >= '8'"
    inverted = f"translate({digits}, '0123456789ABCDEF', 'FEDCBA9876543210')"
    plain = f"lpad(IF({negative}, {inverted}, {digits}), {most}, '0')"

    def part(place: int) -> str:
        return f"cast(conv(substring({plain}, {place * 8 + 1}, 8), 16, 10) AS decimal(10,0))"

    high, low = (f"({part(n)} * 4294967296 + {part(n + 1)})" for n in (0, 2))
    # 16 bytes can be more than 38 digits, which must not raise an error.
    high, low = (f"cast({half} AS decimal(20,0))" for half in (high, low))
    high = f"try_multiply({high}, cast(18446744073709551616 AS decimal(20,0)))"
    number = f"try_add({high}, {low})"
    number = f"IF({negative}, try_subtract(try_multiply({number}, -1), 1), {number})"
    scaled = f"concat(cast({number} AS string), 'E-{decimal_scale(field.type)}')"
    return (
        f"CASE WHEN length({digits}) BETWEEN 2 AND {most}"
        f" THEN try_cast({scaled} AS {field.type}) END"
    )


def _encoded(value: Any, type_: str) -> Any:
    """The Base64 of a decimal without its point; another value unchanged."""
    try:
        with localcontext(Context(prec=100, traps=[InvalidOperation, Inexact])):
            number = int(Decimal(str(value)).scaleb(decimal_scale(type_)).to_integral_exact())
    except (ArithmeticError, ValueError):
        return value  # quarantined, because it is no Base64 of a number in the column's range
    length = number.bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


def _change_of(value: Any) -> Any:
    """The change in a parsed envelope, which may be beside its schema."""
    payload = value.get("payload") if isinstance(value, dict) else None
    return payload if isinstance(payload, dict) else value


def _row_of(change: Mapping[str, Any]) -> Any:
    return change.get("before") if change.get("op") == "d" else change.get("after")


def _fields_of(change: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a change beside its row."""
    source = change.get("source")
    places = source if isinstance(source, dict) else {}
    named = (places.get(name) for name in ("file", "lsn", "commit_lsn", "change_lsn"))
    position = next((place for place in named if place is not None), None)
    return {
        "__op": change.get("op"),
        "__deleted": change.get("op") == "d",
        "__tombstone": False,
        **{f"__{name}": change.get(name) for name in ("ts_ms", "ts_us", "ts_ns")},
        "__source": source,
        "__position": None if position is None else str(position),
    }
