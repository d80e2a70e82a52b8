"""Answers as bytes: Arrow, JSON, CSV, or the row messages of PostgreSQL, one batch at a time."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from trilayer.operations.values import exact
from trilayer_server.encoding import values


class Encoder(Protocol):
    """Makes the bytes of one answer."""

    def begin(self) -> bytes:
        """What comes before the rows."""
        ...

    def batch(self, rows: pa.RecordBatch) -> bytes | pa.Buffer:
        """The bytes of some rows."""
        ...

    def end(self) -> bytes:
        """What comes after the rows; without it the answer is not complete."""
        ...


def encoder(output: str, schema: pa.Schema, formats: Sequence[int] = ()) -> Encoder:
    """The encoder for an output; see `engine.query.Output`.

    Args:
        output: The output.
        schema: The columns of the answer.
        formats: The format of each column, or one for all, if the output is `wire`.
    """
    match output:
        case "arrow":
            return _Arrow(schema)
        case "json":
            return _Json()
        case "csv":
            return _Csv(schema)
        case "copy-text":
            return _Copied(_Text())
        case "copy-csv":
            return _Copied(_Csv(schema, header=False))
        case "copy-csv-header":
            return _Copied(_Csv(schema))
        case "copy-binary":
            return _CopiedBinary()
    return Wire(len(schema), formats)


class Wire:
    """The row messages of PostgreSQL, which can also be sent in parts.

    Attributes:
        formats: The format of each column.
    """

    def __init__(self, columns: int, formats: Sequence[int] = ()) -> None:
        """Encodes so many columns, with a format for each, or one for all; else all as text."""
        each = len(formats) > 1
        self.formats = list(formats) if each else list(formats or [values.TEXT]) * columns

    def begin(self) -> bytes:
        """Nothing comes before the rows."""
        return b""

    def batch(self, rows: pa.RecordBatch) -> pa.Buffer:
        """The messages of some rows."""
        return values.rows(rows, self.formats)

    def messages(self, rows: pa.RecordBatch) -> pa.LargeBinaryArray:
        """The message of each row."""
        return values.messages(rows, self.formats)

    def end(self) -> bytes:
        """Nothing comes after the rows."""
        return b""


class _Arrow:
    def __init__(self, schema: pa.Schema) -> None:
        self._sink = io.BytesIO()
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def _taken(self) -> bytes:
        taken = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return taken

    def begin(self) -> bytes:
        return self._taken()

    def batch(self, rows: pa.RecordBatch) -> bytes:
        self._writer.write_batch(rows)
        return self._taken()

    def end(self) -> bytes:
        self._writer.close()
        return self._taken()


class _Json:
    def __init__(self) -> None:
        self._separator = ""

    def begin(self) -> bytes:
        return b"["

    def batch(self, rows: pa.RecordBatch) -> bytes:
        columns = [values.python(column) for column in rows.columns]
        lines = ",\n".join(
            json.dumps([exact(value) for value in row], ensure_ascii=False)
            for row in zip(*columns, strict=True)
        )
        text, self._separator = self._separator + lines, ",\n"
        return text.encode("utf-8", "replace")

    def end(self) -> bytes:
        return b"]"


def _text(column: pa.Array) -> pa.Array:
    """The values as text, as PostgreSQL writes them."""
    return values.type_of(column.type).text(column).cast(pa.large_string())


class _Csv:
    def __init__(self, schema: pa.Schema, *, header: bool = True) -> None:
        self._names = schema.names if header else None

    def begin(self) -> bytes:
        names = self._names
        return b"" if names is None else (",".join(map(_quoted, names)) + "\n").encode()

    def batch(self, rows: pa.RecordBatch) -> pa.Buffer:
        return _joined(self.lines(rows))

    def lines(self, rows: pa.RecordBatch) -> pa.Array:
        """A line for each row."""
        return _lines([pc.fill_null(_field(column), "") for column in rows.columns], ",")

    def end(self) -> bytes:
        return b""


class _Lines(Protocol):
    """Makes lines of text."""

    def begin(self) -> bytes:
        """What comes before the rows."""
        ...

    def lines(self, rows: pa.RecordBatch) -> pa.Array:
        """A line for each row."""
        ...


class _Text:
    """Lines of values between tabs, as COPY writes them by default."""

    def begin(self) -> bytes:
        return b""

    def lines(self, rows: pa.RecordBatch) -> pa.Array:
        return _lines([_escaped(column) for column in rows.columns], "\t")


class _Copied:
    """Lines in CopyData messages, one for each, as some clients expect that."""

    def __init__(self, inner: _Lines) -> None:
        self._inner = inner

    def begin(self) -> bytes:
        return _copy_data(self._inner.begin())

    def batch(self, rows: pa.RecordBatch) -> pa.Buffer:
        return values.framed(self._inner.lines(rows).cast(pa.large_binary()), b"d")

    def end(self) -> bytes:
        return b""


class _CopiedBinary:
    """The first message has the header, too, as some clients expect that."""

    _HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)

    def __init__(self) -> None:
        self._header = self._HEADER

    def begin(self) -> bytes:
        return b""

    def batch(self, rows: pa.RecordBatch) -> bytes | pa.Buffer:
        data = values.rows(rows, [values.BINARY] * rows.num_columns, b"d")
        if not (header := self._header):
            return data
        self._header = b""
        view = memoryview(data)
        size = int.from_bytes(view[1:5], "big") + len(header)
        return b"d" + size.to_bytes(4, "big") + header + view[5:]

    def end(self) -> bytes:
        return _copy_data(self._header + b"\xff\xff")


def _copy_data(data: bytes | pa.Buffer) -> bytes:
    view = memoryview(data)
    return b"d" + (view.nbytes + 4).to_bytes(4, "big") + view if view.nbytes else b""


def _lines(fields: Sequence[pa.Array], separator: str) -> pa.Array:
    lines = pc.binary_join_element_wise(*fields, _large(separator))
    return pc.binary_join_element_wise(lines, _large("\n"), _large(""))


def _joined(lines: pa.Array) -> pa.Buffer:
    data: pa.Buffer = lines.buffers()[2]
    return data


_ESCAPES = {
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def _escaped(column: pa.Array) -> pa.Array:
    text = _text(column)
    for plain_, escape in _ESCAPES.items():
        text = pc.replace_substring(text, plain_, escape)
    return pc.fill_null(text, "\\N")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set('",\r\n') or not name else name


_BARE = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)


def _field(column: pa.Array) -> pa.Array:
    """The fields of a column as CSV. NULL stays NULL, which becomes an empty field."""
    text = _text(column)
    if any(test(column.type) for test in _BARE):
        return text
    special = pc.or_(pc.match_substring_regex(text, '[",\r\n]'), pc.equal(text, ""))
    inner = pc.replace_substring(text, '"', '""')
    escaped = pc.binary_join_element_wise(_large('"'), inner, _large('"'), _large(""))
    return pc.if_else(special, escaped, text)


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def batches(reader: Iterator[pa.RecordBatch], most_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most so many rows."""
    for batch in reader:
        for start in range(0, batch.num_rows, most_rows):
            yield batch.slice(start, most_rows)
