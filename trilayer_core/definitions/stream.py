"""The sources of views: streams and rows.

A `Stream` is a declared topic. `Rows` are the way to go beyond SQL: rows that a stateless DataFrame
function makes from a stream, in both layers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from trilayer_core.definitions.expressions import INTEGERS, check_all, check_name, is_decimal
from trilayer_core.definitions.formats import Format
from trilayer_core.definitions.identity import code_of, digest
from trilayer_core.definitions.schemas import Field, parse_schema
from trilayer_core.definitions.tables import Table
from trilayer_core.errors import DefinitionError, did_you_mean, short_traceback

if TYPE_CHECKING:
    from trilayer_core.definitions.guards import Guard

PARSER = 7
"""The version of the JSON format. Increase it when the same bytes would be parsed differently.

What an older version has parsed is then parsed again, as after a change of the schema.
"""


@short_traceback
@dataclass(frozen=True)
class Stream:
    """A topic of events, and how they are parsed.

    A `timestamp` inside an array, struct or map must be text that begins with a date.

    Attributes:
        name: Its name for views and commands.
        schema: Spark DDL such as `carrier string not null, dep_delay int`. An event that lacks a
            `not null` column is quarantined. A column is read from the event's field of the same
            name, or from the field that it names: `vendor_id int from 'VendorID', city string from
            'address.city'`; a name that contains a dot is in backticks. A timestamp is ISO 8601
            text, in UTC unless it names a zone, or a number of seconds since 1970, with or without
            a fraction. Numbers of another unit need a declaration, as in `at timestamp from 'ts' in
            milliseconds`: `seconds`, `milliseconds`, `microseconds` or `nanoseconds` for a
            timestamp or timestamp_ntz, `days` for a date; the numbers may then also be text. Dates
            and times are in the years 1 to 9999. A decimal is a number, or a number as text without
            commas, with an exponent of at most three digits and at most 1,000 characters.
        event_time: The timestamp or date column that says when an event happened. Events without it
            are quarantined.
        event_id: The column that identifies an event, if there is one. Events without it are
            quarantined.
        topic: The topic's name; by default that of the stream.
        partitions: The number of partitions, if trilayer creates the topic.
        max_event_bytes: A larger value is quarantined as oversized.
        format: How the bytes of an event are parsed; by default as JSON.
        record_key: The column whose value is the key of each record, if producers send one, so that
            the events of a key are in one partition. It is a string, an integer or a decimal.
            `trilayer replay` sends it as text.
    """

    name: str
    schema: str
    _: KW_ONLY
    event_time: str
    event_id: str | None = None
    topic: str = ""
    partitions: int = 2
    max_event_bytes: int = 1_000_000
    format: Format | None = None
    record_key: str | None = None

    guards: ClassVar[tuple[Guard, ...]] = ()
    """The expressions of a catalog over the stream that may fail; `Catalog` sets them."""

    def __post_init__(self) -> None:
        check_name(self.name, "name of a stream")
        if not self.topic:
            object.__setattr__(self, "topic", self.name)
        columns = self.columns
        for role in ("event_time", "event_id", "record_key"):
            name = getattr(self, role)
            if name is not None and name not in columns:
                raise DefinitionError(
                    f"{role} of stream {self.name!r} must be one of its columns; got"
                    f" {name!r}{did_you_mean(name, columns)}"
                )
        if columns[self.event_time] not in ("timestamp", "timestamp_ntz", "date"):
            raise DefinitionError(
                f"event_time of stream {self.name!r} must be a timestamp or a date; got"
                f" {self.event_time!r}, which is {columns[self.event_time]}"
            )
        if self.format is not None and not isinstance(self.format, Format):
            raise DefinitionError(
                f"format of stream {self.name!r} must be a Format, or none for JSON; got"
                f" {self.format!r}"
            )
        numbers = [field.name for field in self.fields if field.unit]
        if numbers and self.format is not None and not self.format.units:
            raise DefinitionError(
                f"format of stream {self.name!r} must have `units = True` and read numbers in the"
                f" unit of a field, because {numbers[0]} has one; got {self.format!r}"
            )
        self._check_record_key()
        if self.partitions < 1 or self.max_event_bytes < 1:
            raise DefinitionError(
                f"partitions and max_event_bytes of stream {self.name!r} must be 1 or more"
            )

    def _check_record_key(self) -> None:
        if self.record_key is None:
            return
        type_ = self.columns[self.record_key]
        if type_ != "string" and type_ not in INTEGERS and not is_decimal(type_):
            raise DefinitionError(
                f"record_key of stream {self.name!r} must be a string, an integer or a decimal, of"
                f" which equal values have equal texts; got {self.record_key!r}, which is {type_}"
            )
        if self.format is not None and type(self.format).key_text is Format.key_text:
            raise DefinitionError(
                f"format of stream {self.name!r} must have a method `key_text`, because the stream"
                f" has a record_key; got {self.format!r}"
            )

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns, checked."""
        always = (self.event_time, self.event_id)
        parsed = parse_schema(self.schema, f"stream {self.name!r}", events=True)
        return tuple(replace(f, required=f.required or f.name in always) for f in parsed)

    @property
    def columns(self) -> dict[str, str]:
        """Column name to Spark type."""
        return {field.name: field.type for field in self.fields}

    @property
    def stream(self) -> Stream:
        """The stream itself, because every source has a stream at its root."""
        return self

    @cached_property
    def fingerprint(self) -> str:
        """Changes if the same bytes may be parsed into other columns."""
        # What has its default adds nothing. Streams that were declared before there were other
        # paths, units or guards thus keep their fingerprints, and nothing is computed again.
        own = [
            (*([f.path] if f.path != (f.name,) or f.unit else []), *([f.unit] if f.unit else []))
            for f in self.fields
        ]
        fields = [
            (f.name, f.type, f.required, *path) for f, path in zip(self.fields, own, strict=True)
        ]
        version = list(self.format.identity) if self.format else PARSER
        guards = [[guard.sql for guard in self.guards]] if self.guards else []
        return digest(
            "stream", version, self.name, self.topic, fields, self.max_event_bytes, *guards
        )

    def guarded_by(self, guards: Sequence[Guard]) -> Stream:
        """The same stream, of which events that one of the expressions can't take do not count."""
        if tuple(guards) == self.guards:
            return self
        other = replace(self)
        object.__setattr__(other, "guards", tuple(guards))
        return other


def fingerprint_with(stream: Stream, views: Mapping[str, str]) -> str:
    """Identifies a stream's parser together with views, given as their fingerprints by name."""
    return digest(stream.fingerprint, sorted(views.items()))


@short_traceback
@dataclass(frozen=True)
class Rows:
    """Rows that a stateless DataFrame function makes from a stream's events, in both layers.

    Attributes:
        name: Their name in messages.
        source: The stream.
        rows: A function from a DataFrame with the stream's columns to one with the columns of
            `schema`. It gets one slice of the log at a time, so it can map, filter and explode. It
            must not aggregate, join events with each other or read a clock. Its code is part of the
            definition, together with what it uses from your own modules that are imported at the
            top of a file.
        schema: Spark DDL of the columns that it returns, so that views over them can be checked
            without starting Spark.
        tables: Reference tables, which the function gets as further DataFrames, in this order.
            Spark sends them to all tasks when it joins them.
    """

    name: str
    _: KW_ONLY
    source: Stream
    rows: Callable[..., Any]
    schema: str
    tables: Sequence[Table] = ()

    def __post_init__(self) -> None:
        check_name(self.name, "name of rows")
        if not isinstance(self.source, Stream):
            raise DefinitionError(
                f"source of rows {self.name!r} must be a Stream; got {type(self.source).__name__}"
            )
        if not callable(self.rows):
            raise DefinitionError(
                f"rows of {self.name!r} must be a function of a DataFrame; got {self.rows!r}"
            )
        check_all(f"tables of rows {self.name!r}", self.tables, Table)
        try:
            inspect.signature(self.rows).bind(None, *self.tables)
        except TypeError as error:
            raise DefinitionError(
                f"rows of {self.name!r} must be a function of {self._arguments}; got"
                f" {getattr(self.rows, '__name__', self.rows)}{inspect.signature(self.rows)}:"
                f" {error}"
            ) from None
        except ValueError:
            pass  # a C function without a signature
        _ = self.columns

    @property
    def _arguments(self) -> str:
        if not self.tables:
            return "a DataFrame and nothing else"
        return f"a DataFrame and one for each of {', '.join(t.name for t in self.tables)}"

    @property
    def columns(self) -> dict[str, str]:
        """Column name to Spark type."""
        return {f.name: f.type for f in parse_schema(self.schema, f"rows {self.name!r}")}

    @property
    def stream(self) -> Stream:
        """The stream from which the rows are made."""
        return self.source

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the schema, the source, the content of tables, and the function's code.

        The code is what `code_of` returns.
        """
        code = code_of(self.rows)
        tables = [[(table.name, table.digest) for table in self.tables]] if self.tables else []
        return digest("rows", self.name, self.columns, self.source.fingerprint, code, *tables)


Source = Stream | Rows
