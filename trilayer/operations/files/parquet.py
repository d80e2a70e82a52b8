"""Reads Parquet files as events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trilayer.operations.files.columns import choose_columns, converter, partitions_of, put
from trilayer.operations.files.events import Event, Events
from trilayer_core.compute.formats import format_of
from trilayer_core.compute.grouping import arrow_type
from trilayer_core.definitions.schemas import Field, path_text
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import UsageError


def read_parquet(path: Path, stream: Stream) -> Events:
    """Reads the rows of a Parquet file as events.

    Raises:
        UsageError: It is not a Parquet file, or lacks a required column.
    """
    try:
        # The years of Impala's and Spark's INT96 would overflow nanoseconds.
        file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} must be a Parquet file; {error}") from None
    total, done = file.metadata.num_rows, [0]
    names = _leaves(file.schema_arrow)
    folders = {n: v for n, v in partitions_of(path, stream).items() if n not in names}
    names += folders
    chosen, left_out = choose_columns(names, stream, path)

    def events() -> Iterator[Event]:
        for batch in _batches(file, path, done):
            columns = [
                (f.path, _values(_column(batch, names[place], folders), f, path, done[0]))
                for place, f in chosen
            ]
            for number in range(len(batch)):
                row: dict[str, Any] = {}
                for steps, values in columns:
                    if values[number] is not None:
                        put(row, steps, values[number])
                done[0] += 1
                yield Event(f"row {done[0]}", format_of(stream).encode(stream, row))

    return Events(events(), lambda: done[0] / max(1, total), total, left_out)


def _batches(file: pq.ParquetFile, path: Path, done: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Yields a file's rows, in batches. Raises UsageError if the file can't be read further."""
    batches = file.iter_batches(5_000)
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            raise UsageError(
                f"{path} must be readable to its end; after row {done[0]:,} it is not: {error}"
            ) from None
        if batch is None:
            return
        yield batch


def _leaves(schema: pa.Schema) -> list[str]:
    """Returns the names of the columns, and the paths of the fields of structs at any depth."""
    names: list[str] = []

    def add(field: pa.Field, prefix: tuple[str, ...]) -> None:
        path = (*prefix, field.name)
        names.append(path_text(path) if prefix else field.name)
        for inner in field.type if pa.types.is_struct(field.type) else []:
            add(inner, path)

    for field in schema:
        add(field, ())
    return names


def _column(batch: pa.RecordBatch, name: str, folders: Mapping[str, str | None]) -> pa.Array:
    if name in batch.schema.names:
        return batch.column(name)
    if name in folders:
        return pa.array([folders[name]] * len(batch), pa.string())
    first, *steps = [a or b for a, b in re.findall(r"`([^`]+)`|([^.`]+)", name)]
    return pc.struct_field(batch.column(first), steps) if steps else batch.column(first)


def _values(column: pa.Array, field: Field, path: Path, before: int) -> list[Any]:
    """Returns a column's values in the stream's type; all unchanged if one does not fit it."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = _in_micros(column)
    if "fixed_size_binary" in str(column.type) and "string" in field.type:
        raise UsageError(
            f"{path} must have text in column {path_text(field.path)}; got {column.type}, which may"
            " be UUIDs: declare it `binary`, or mark it in the file as text or as UUID"
        )
    type_ = arrow_type(field.type)
    if _means_the_same(column.type, type_):
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return _python_values(column.cast(type_), path, before)
    convert = converter(field.type, field.unit)
    return [convert(value) for value in _python_values(column, path, before)]


def _in_micros(column: pa.Array) -> pa.Array:
    """Timestamps in nanoseconds, cut off to microseconds.

    As numbers, because Arrow's own function takes the readings of a zone's clock, of which those of
    the hour that is there twice are an error, and wraps the first nanoseconds around.
    """
    nanos = column.cast(pa.int64())
    micros = pc.divide(nanos, 1000)
    below = pc.less(nanos, pc.multiply(micros, 1000))  # a negative number was rounded up
    return pc.subtract(micros, below.cast(pa.int64())).cast(pa.timestamp("us", column.type.tz))


def _python_values(column: pa.Array, path: Path, before: int) -> list[Any]:
    """Returns a column's values; those that Python lacks, such as the year 10000, as text."""
    try:
        return column.to_pylist(maps_as_pydicts="strict")
    except KeyError as error:
        raise UsageError(
            f"{path} must have a key of a map once in a row; in one of the rows {before + 1:,} to"
            f" {before + len(column):,} it is there twice: {error}"
        ) from None
    except (OverflowError, ValueError):
        return [_python_value(column.slice(place, 1)) for place in range(len(column))]


def _python_value(one: pa.Array) -> Any:
    try:
        return one[0].as_py()
    except (OverflowError, ValueError):
        with suppress(pa.ArrowNotImplementedError):
            return one.cast(pa.string())[0].as_py()
        return f"a {one.type} that can't be read"


def _means_the_same(from_: pa.DataType, to: pa.DataType) -> bool:
    """Returns whether Arrow's cast preserves the meaning of values.

    It would interpret a number as microseconds since 1970, or as a flag, and truncate a double.
    """
    t = pa.types
    if t.is_dictionary(from_):
        from_ = from_.value_type
    text = t.is_string(from_) or t.is_large_string(from_) or t.is_string_view(from_)
    # Old writers do not say that their text is text; a cast to it fails if it is not UTF-8.
    text = text or t.is_binary(from_) or t.is_large_binary(from_) or t.is_binary_view(from_)
    number = t.is_integer(from_) or t.is_decimal(from_)
    if t.is_integer(to) or t.is_string(to):
        return t.is_integer(from_) or (t.is_string(to) and text)
    if t.is_floating(to):
        return number or t.is_floating(from_)
    if t.is_decimal(to):
        return number
    if t.is_timestamp(to) and to.tz is None and t.is_timestamp(from_):
        return from_.tz is None  # an instant is no reading of a clock before a zone is chosen
    if t.is_temporal(to):
        return t.is_timestamp(from_) or t.is_date(from_)
    if t.is_struct(to):
        inside = {field.name: field.type for field in from_} if t.is_struct(from_) else {}
        # A cast would lose a field that only the file has.
        return inside.keys() == {field.name for field in to} and all(
            _means_the_same(inside[field.name], field.type) for field in to
        )
    if t.is_map(to):
        # A cast would write keys of other types in another form than `converter`.
        keys = t.is_map(from_) and _means_the_same(from_.key_type, to.key_type)
        return keys and _means_the_same(from_.item_type, to.item_type)
    if t.is_list(to):
        lists = t.is_list(from_) or t.is_large_list(from_) or t.is_fixed_size_list(from_)
        return lists and _means_the_same(from_.value_type, to.value_type)
    if t.is_boolean(to):
        return t.is_boolean(from_)
    return text
