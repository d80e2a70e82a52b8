"""What a format of events says: how bytes are read, and why some can't be.

JSON is the format of a stream that names none. A format is a class, and a stream names an instance
of it; docs/extending.md shows one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from trilayer_core.definitions.expressions import Field

if TYPE_CHECKING:
    from trilayer_core.definitions.stream import Stream


@dataclass(frozen=True)
class Judgement:
    """What is said of one event before it is sent.

    Attributes:
        misfit: Why it will be quarantined; None if it fits.
        unknown: Its fields that the schema does not have, as paths: a misspelt one is NULL without
            a word.
    """

    misfit: str | None
    unknown: tuple[str, ...] = ()


class Fitting(Protocol):
    """Judges the events of one stream, without Spark."""

    def judge(self, value: bytes | None) -> Judgement:
        """What will become of an event with these bytes."""
        ...


class Format:
    """How the events of a stream are read, in Spark SQL over `_value`, their bytes.

    No expression of it may raise an error, whatever the bytes are: Spark would stop.

    Attributes:
        name: Its name.
        version: To be raised when the same bytes would be read differently: what was read before is
            then read anew.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    @property
    def identity(self) -> Sequence[Any]:
        """What tells it from other formats: name, version, and its fields if it is a dataclass."""
        fields = getattr(self, "__dataclass_fields__", ())
        return (self.name, self.version, *(getattr(self, field) for field in fields))

    def stages(self, stream: Stream) -> Sequence[Mapping[str, str]]:
        """Columns, and their SQL, that are added one stage after another.

        A stage sees `_value` and what the stages before have added.
        """
        raise NotImplementedError

    def column_sql(self, stream: Stream, field: Field) -> str:
        """SQL of a column of the stream, in its type; NULL if the event has no such value."""
        raise NotImplementedError

    def fits_sql(self, stream: Stream) -> str:
        """SQL of whether an event fits. NULL counts as false.

        An event without a value, or with too large a one, does not fit in any format.
        """
        raise NotImplementedError

    def reason_sql(self, stream: Stream) -> str:
        """SQL of why an event does not fit: `KIND: what is wrong`. Computed for those alone."""
        raise NotImplementedError

    def fitting(self, stream: Stream) -> Fitting:
        """Judges events beforehand, for `trilayer replay` and `trilayer quarantine replay`."""
        raise NotImplementedError

    def encode(self, stream: Stream, event: Mapping[str, Any]) -> bytes:
        """The bytes of an event, for rows of CSV and Parquet files.

        Args:
            stream: The event's.
            event: Field to value: None, or of the types that pyarrow hands out; a mapping for
                fields within a field.
        """
        raise NotImplementedError
