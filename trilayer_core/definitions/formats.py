"""The interface of an event format: how bytes are parsed, and why some do not fit.

A stream without a format uses JSON. A format is a class, and a stream is given an instance of it;
docs/extending.md shows an example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from trilayer_core.definitions.schemas import Field

if TYPE_CHECKING:
    from trilayer_core.definitions.stream import Stream


class Format:
    """How the events of a stream are parsed, in Spark SQL over `_value`, the event's bytes.

    No expression may raise an error, whatever the bytes are, because an error stops the layer.

    Attributes:
        name: The format's name.
        version: Increase this when the same bytes would be parsed differently: everything is then
            parsed again.
        units: Whether it reads numbers as times in the unit of a field, see `Field.unit`. A stream
            of another format must not declare a unit.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    units: ClassVar[bool] = False

    @property
    def identity(self) -> Sequence[Any]:
        """What distinguishes it from other formats: name, version, and a dataclass's fields."""
        fields = getattr(self, "__dataclass_fields__", ())
        return (self.name, self.version, *(getattr(self, field) for field in fields))

    def unwrapping(self, stream: Stream) -> Sequence[Mapping[str, str]]:
        """Stages that take an event out of an envelope; empty if there is none.

        The last stage has the column `_content`: the bytes that all other methods see as `_value`,
        or NULL if the record contains no event. The SQL may also use `_key` and `_timestamp` of the
        record, and `_value` may be NULL.
        """
        return ()

    def stages(self, stream: Stream) -> Sequence[Mapping[str, str]]:
        """Columns and their SQL, added one stage after another.

        The SQL of a stage can use `_value` and the columns of the stages before it.
        """
        raise NotImplementedError

    def column_sql(self, stream: Stream, field: Field) -> str:
        """SQL of a column of the stream, in its type; NULL if the event has no such value."""
        raise NotImplementedError

    def fits_sql(self, stream: Stream) -> str:
        """SQL that says whether an event fits the schema. NULL counts as false.

        Events without a value, or with too large a value, are rejected for every format.
        """
        raise NotImplementedError

    def reason_sql(self, stream: Stream) -> str:
        """SQL of the reason why an event does not fit: `KIND: what is wrong`.

        It is only evaluated for events that do not fit.
        """
        raise NotImplementedError

    def content(self, value: bytes) -> Any:
        """The event as nested dictionaries and lists, by whose names unknown fields are counted.

        `trilayer replay` and `trilayer doctor` name fields that the schema does not have. None, as
        by default, has no such fields.
        """
        return None

    def encode(self, stream: Stream, event: Mapping[str, Any]) -> bytes:
        """The bytes of an event, for rows of CSV and Parquet files.

        Args:
            stream: The event's stream.
            event: The value of each field: None, or a value of a type that pyarrow returns; a
                mapping for fields within a field.
        """
        raise NotImplementedError

    def key_text(self, stream: Stream, value: bytes) -> str | None:
        """The text of the column `stream.record_key` in an event, which is the key of its record.

        Only a stream with a `record_key` needs it.

        Args:
            stream: The event's stream.
            value: The event's bytes, which need not fit the schema.

        Returns:
            The same text for equal values; None if the event has no value of the column.
        """
        raise NotImplementedError
