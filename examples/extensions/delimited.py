"""A custom format: columns separated by a character."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trilayer import Field, Format, Stream

_TEXT = "cast(_value AS string)"


@dataclass(frozen=True)
class Delimited(Format):
    """The schema's columns in order: text, whole numbers, and ISO 8601 times with a zone.

    An empty column is NULL.
    """

    separator: str = "|"
    name = "delimited"
    version = 1

    def stages(self, stream: Stream) -> Sequence[Mapping[str, str]]:
        """The parts of the text, as an array."""
        return [{"_parts": f"split({_TEXT}, '[{self.separator}]')"}]

    def column_sql(self, stream: Stream, field: Field) -> str:
        """A part in its column's type; NULL, never an error, if it does not fit the type."""
        part = self._part_sql(stream, field)
        if field.type == "timestamp":
            return f"try_to_timestamp({part}, 'yyyy-MM-dd\\'T\\'HH:mm:ssX')"
        return f"try_cast({part} AS {field.type})"

    def fits_sql(self, stream: Stream) -> str:
        """Whether there are as many parts as columns, and each fits its column's type."""
        return " AND ".join(
            [
                f"is_valid_utf8({_TEXT})",
                f"size(_parts) = {len(stream.fields)}",
                *(f"NOT {self._misfit_sql(stream, field)}" for field in stream.fields),
            ]
        )

    def reason_sql(self, stream: Stream) -> str:
        """The first problem."""
        wrong = " ".join(
            f"WHEN {self._misfit_sql(stream, field)} THEN 'wrong type: {field.name} must be"
            f" {field.type}'"
            for field in stream.fields
        )
        number = len(stream.fields)
        return f"""CASE
            WHEN NOT is_valid_utf8({_TEXT}) THEN 'invalid UTF-8'
            WHEN size(_parts) <> {number}
                THEN concat('wrong number: must have {number} parts, got ', size(_parts))
            {wrong} END"""

    def encode(self, stream: Stream, event: Mapping[str, Any]) -> bytes:
        """The columns as text, with times such as `2026-01-01T00:00:00Z`."""
        values = [event.get(field.name) for field in stream.fields]
        return self.separator.join(map(_text, values)).encode()

    def key_text(self, stream: Stream, value: bytes) -> str | None:
        """The part of the column `record_key`, for streams that have one."""
        parts = value.decode(errors="replace").split(self.separator)
        column = [field.name for field in stream.fields].index(stream.record_key or "")
        return parts[column] or None if column < len(parts) else None

    def _part_sql(self, stream: Stream, field: Field) -> str:
        return f"nullif(get(_parts, {stream.fields.index(field)}), '')"

    def _misfit_sql(self, stream: Stream, field: Field) -> str:
        given = "true" if field.required else f"{self._part_sql(stream, field)} IS NOT NULL"
        return f"({given} AND {self.column_sql(stream, field)} IS NULL)"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else str(value)
