"""Files as events: CSV, JSON Lines and Parquet as people have them, row by row.

A row becomes the event that its stream's schema describes, as far as its cells allow. What does not
fit is kept as it is, so that it is sent, and quarantined with its reason, like an event of any
other producer: no row refuses a file.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trilayer_core.compute.formats import format_of
from trilayer_core.compute.grouping import arrow_type
from trilayer_core.definitions.expressions import FLOATS, INTEGERS, Field, is_decimal, path_text
from trilayer_core.definitions.formats import Fitting
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import UsageError, close_name, did_you_mean

NULLS = ("", "NA", "NULL")
"""Cells of a CSV that are NULL, unless they are text in quotes."""


@dataclass(frozen=True)
class Event:
    """A row of a file.

    Attributes:
        place: Such as `line 3`.
        value: What is sent.
        misfit: Why it will be quarantined, or None.
        unknown: Its fields that the schema does not have.
    """

    place: str
    value: bytes
    misfit: str | None = None
    unknown: tuple[str, ...] = ()


@dataclass
class Events:
    """A file's events, in order.

    `total`: how many, if that is known. `left_out`: what of the file is in none of them.
    """

    events: Iterator[Event]
    progress: Callable[[], float]
    total: int | None = None
    left_out: str = ""

    def __iter__(self) -> Iterator[Event]:
        return self.events


def read_events(
    path: Path,
    stream: Stream,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
) -> Events:
    """A file's rows as events of a stream.

    Args:
        path: CSV, JSON Lines or Parquet, told by its ending; text may be compressed.
        stream: What the events are of.
        delimiter: Between the cells of a CSV; told by its first line unless given.
        encoding: Of text; UTF-8 unless given, or UTF-16 where the file begins so.
        columns: Names of a CSV's columns, if it has no header.

    Raises:
        UsageError: There is no such file, it is of no known kind, or it lacks a required column.
    """
    if not path.is_file():
        raise UsageError(f"FILE must be a file; got {str(path)!r}, which is not there")
    open_, name = _opener(path)
    kind = Path(name).suffix.lower()
    if kind == ".parquet":
        return _read_parquet(path, stream)
    if kind not in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json"):
        raise UsageError(
            "FILE must end in .csv, .tsv, .txt, .jsonl, .ndjson, .json or .parquet, and all but"
            f" the last may be compressed (.gz, .bz2, .xz); got {path.name!r}"
        )
    text = _Text(path, open_, encoding)
    if kind in (".csv", ".tsv", ".txt"):
        delimiter = "\t" if delimiter == r"\t" or (kind == ".tsv" and not delimiter) else delimiter
        if delimiter and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise UsageError(
                "delimiter must be one character, such as ; or \\t, and no quotation mark; got"
                f" {delimiter!r}"
            )
        return _read_csv(text, stream, delimiter, columns)
    return _read_json(text, stream)


def _opener(path: Path) -> tuple[Callable[..., IO[bytes]], str]:
    """What opens the file, and its name without the ending of a compression."""
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    opener = openers.get(path.suffix.lower())
    return (opener, path.stem) if opener else (open, path.name)


class _Text:
    """A text file, which knows how far it has been read."""

    def __init__(self, path: Path, open_: Callable[..., Any], encoding: str | None) -> None:
        self.path = path
        self._file = path.open("rb")
        self._size = max(1, path.stat().st_size)
        self._read = 0
        if encoding is None:
            with self._readable():
                start = self.bytes_of(open_).read(2)
            encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
            self._file.seek(0)
        try:
            codec = codecs.lookup(encoding).name
        except LookupError:
            raise UsageError(
                "encoding must be one that Python knows, such as latin-1 or utf-16; got"
                f" {encoding!r}"
            ) from None
        # Bytes that are no UTF-8 are sent as they were.
        errors = "surrogateescape" if codec.startswith("utf-8") else "replace"
        codec = "utf-8-sig" if codec == "utf-8" else codec
        self._text = io.TextIOWrapper(self.bytes_of(open_), codec, errors, newline="")

    def bytes_of(self, open_: Callable[..., Any]) -> Any:
        return self._file if open_ is open else open_(self._file)

    def lines(self) -> Iterator[str]:
        """The lines, with their ends. Raises UsageError where the file can't be read on."""
        with self._readable():
            for line in self._text:
                self._read += 1
                yield line

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Raises UsageError if the file can't be read on."""
        try:
            yield
        except (OSError, EOFError, UnicodeError, lzma.LZMAError, zlib.error) as error:
            raise UsageError(
                f"{self.path} must be readable to its end; after line {self._read:,} it is not:"
                f" {error}"
            ) from None

    def progress(self) -> float:
        """How much of the file has been read, from 0 to 1."""
        return 1.0 if self._file.closed else self._file.tell() / self._size


def as_bytes(text: str) -> bytes:
    """UTF-8, with the bytes that were none as they were."""
    return text.encode("utf-8", "surrogateescape")


# -- JSON ------------------------------------------------------------------------------------------


def _read_json(text: _Text, stream: Stream) -> Events:
    fitting = format_of(stream).fitting(stream)
    lines = text.lines()
    blank = list(takewhile(lambda line: not line.strip(), feed := _Feed(lines)))
    first = feed.taken[-1] if len(feed.taken) > len(blank) else ""
    if first.lstrip().startswith("["):
        values = _items(first + "".join(lines), text.path)
        return Events(
            (_event(f"item {n}", v, fitting) for n, v in enumerate(values, 1)), text.progress
        )
    feed.give_back()

    def events() -> Iterator[Event]:
        # Lines of JSON end at \n alone: text may have a lone \r inside.
        number, held = 1, ""
        for part in chain(feed, [""]):
            held += part
            if part and not part.endswith("\n"):
                continue
            if line := held.rstrip("\r\n"):
                yield _event(f"line {number}", as_bytes(line), fitting)
            number, held = number + 1, ""

    return Events(events(), text.progress)


def _items(text: str, path: Path) -> Iterator[bytes]:
    """The items of a JSON array, as they are written.

    Raises UsageError, when it comes to it, if the text is not one array and nothing else.
    """

    def wrong(what: str) -> UsageError:
        return UsageError(f"{path} must be JSON Lines, or one JSON array; got {what}")

    def next_after(place: int) -> int:
        while text[place : place + 1].isspace():
            place += 1
        return place

    decoder, place = json.JSONDecoder(), next_after(text.index("[") + 1)
    ended = text.startswith("]", place)
    while not ended:
        try:
            _, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            raise wrong(f"an array with an error: {error}") from None
        yield as_bytes(text[place:end])
        place = next_after(end)
        ended = text.startswith("]", place)
        if not ended and not text.startswith(",", place):
            found = f"{text[place : place + 20]!r}" if place < len(text) else "its end"
            raise wrong(
                f"an array with an error: after item {text[end - 20 : end]!r} comes {found}"
            )
        place = next_after(place + 1) if not ended else place
    rest = next_after(place + 1)
    if rest < len(text):
        raise wrong(f"an array that is followed by {text[rest : rest + 20]!r}")


def _event(place: str, value: bytes, fitting: Fitting) -> Event:
    judged = fitting.judge(value)
    return Event(place, value, judged.misfit, judged.unknown)


# -- CSV -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """One record of a CSV.

    `line`: the first of its lines. `text`: as it is in the file. `cells`: None if its quotes can't
    be made out; a NULL is None.
    """

    line: int
    text: str
    cells: list[str | None] | None


def _read_csv(
    text: _Text, stream: Stream, delimiter: str | None, columns: Sequence[str] | None
) -> Events:
    lines = text.lines()
    first = next(lines, "")
    if not first.strip():
        raise UsageError(
            f"{text.path} must begin with a header, or --columns must name its columns; got an"
            " empty line"
        )
    between = delimiter or _delimiter_of(first)
    records = read_records(chain([first], lines), between, stream.max_event_bytes)
    if columns is None:
        header = [(cell or "").strip() for cell in next(records).cells or []]
    else:
        header = list(columns)
    chosen, left_out = _choose(header, stream, text.path)
    converters = [(place, field.path, _converter(field.type)) for place, field in chosen]
    fitting = format_of(stream).fitting(stream)

    def events() -> Iterator[Event]:
        for record in records:
            cells = record.cells
            if cells and len(cells) > len(header) and not any(cells[len(header) :]):
                cells = cells[: len(header)]  # what some spreadsheets add
            if not record.text.strip(f"{between} \t\r\n"):
                continue  # an empty line, or one of a spreadsheet
            place = f"line {record.line}"
            if cells is None or len(cells) != len(header):
                why = (
                    "quotes that do not end"
                    if cells is None
                    else f"{len(cells)} cells, where the header has {len(header)}"
                )
                yield Event(place, as_bytes(record.text), why)
                continue
            row: dict[str, Any] = {}
            for column, path, convert in converters:
                if (cell := cells[column]) is not None:
                    _put(row, path, convert(cell))
            yield _event(place, format_of(stream).encode(stream, row), fitting)

    return Events(events(), text.progress, left_out=left_out)


def _delimiter_of(line: str) -> str:
    """The likeliest of the usual delimiters, by a header."""
    outside = re.sub(r'"[^"]*"', "", line)
    return max(",;\t|", key=outside.count)


def read_records(lines: Iterator[str], delimiter: str, most: int) -> Iterator[Record]:
    """The records of a CSV; one in quotes may have several lines.

    A quote that does not end would take all that follows for one cell. So a record that the file
    ends in, or that has a cell of more than `most` characters, is its first line alone, and the
    next record begins with the second.
    """
    csv.field_size_limit(max(most, csv.field_size_limit()))
    feed = _Feed(lines)
    number = 1
    for line in feed:
        feed.taken = [line]
        if '"' not in line:
            cells = line.rstrip("\r\n").split(delimiter)
            nulls: list[str | None] = [None if cell in NULLS else cell for cell in cells]
            record = Record(number, line.rstrip("\r\n"), nulls)
        else:
            feed.taken = []
            try:
                cells = next(csv.reader(chain([line], feed), delimiter=delimiter, strict=True))
                text = line + "".join(feed.taken)
                record = Record(number, text.rstrip("\r\n"), _with_nulls(cells, text, delimiter))
            except (csv.Error, StopIteration):
                feed.give_back()
                record = Record(number, line.rstrip("\r\n"), None)
            feed.taken.insert(0, line)
        number += len(feed.taken)
        yield record


class _Feed:
    """Lines that can be given back. taken: those since it was last emptied."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._back = lines, list[str]()
        self.taken: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._back.pop() if self._back else next(self._lines)
        self.taken.append(line)
        return line

    def give_back(self) -> None:
        self._back += reversed(self.taken)
        self.taken = []


def _with_nulls(cells: list[str], text: str, delimiter: str) -> list[str | None]:
    """None for NULL: text in quotes is none, and a cell that is not in quotes may be."""
    if not any(cell in NULLS for cell in cells):
        return list(cells)
    parts = re.findall(
        rf'(?:\A|{re.escape(delimiter)})\s*("(?:[^"]|"")*"|[^{re.escape(delimiter)}]*)',
        text.rstrip("\r\n"),
    )
    quoted = (
        [part.startswith('"') for part in parts]
        if len(parts) == len(cells)
        else [True] * len(cells)
    )
    return [
        None if cell in NULLS and not q else _Quoted(cell) if q else cell
        for cell, q in zip(cells, quoted, strict=True)
    ]


class _Quoted(str):
    """A cell in quotes: NULL for a number, which some quote as well, and never for text."""

    __slots__ = ()


def _choose(
    header: Sequence[str], stream: Stream, path: Path
) -> tuple[list[tuple[int, Field]], str]:
    """The places of the stream's columns in a file's, and what to say of the others."""
    chosen: list[tuple[int, Field]] = []
    for field in stream.fields:
        for name in dict.fromkeys([path_text(field.path), ".".join(field.path), field.name]):
            if header.count(name) > 1:
                raise UsageError(
                    f"{path} must have each column once; it has {', '.join(header)}: rename one of"
                    f" {name}"
                )
            if name in header:
                chosen.append((header.index(name), field))
                break
        else:
            if field.required:
                raise UsageError(
                    f"{path} must have the column {path_text(field.path)} of stream"
                    f" {stream.name!r}; it has"
                    f" {', '.join(header)}{did_you_mean(path_text(field.path), header)}; name its"
                    f" column in the schema with `{field.name} {field.type} from 'COLUMN'`"
                )
    used = {place for place, _ in chosen}
    taken = [header[place] for place in used]
    unfound = [
        path_text(field.path) for field in stream.fields if field not in [f for _, f in chosen]
    ]
    rest = [
        name + (did_you_mean(name, unfound) if close_name(name, unfound) else "")
        for place, name in enumerate(header)
        if place not in used and name and not any(u.startswith(f"{name}.") for u in taken)
    ]
    return (
        chosen,
        f"left out, since the schema has no such column: {', '.join(rest)}" if rest else "",
    )


def _put(row: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for step in path[:-1]:
        row = row.setdefault(step, {})
    row[path[-1]] = value


_INTEGER = re.compile(r"[-+]?\d+\Z", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\Z|[-+]?(?:nan|inf(?:inity)?)\Z",
    re.IGNORECASE | re.ASCII,
)
_FLAGS = {"true": True, "false": False, "1": True, "0": False}


def _converter(type_: str) -> Callable[[str], Any]:
    """Of a cell: the value of a Spark type that it spells, else its text."""
    if type_ == "string":
        return str

    def convert(cell: str) -> Any:
        if isinstance(cell, _Quoted) and cell in NULLS:
            return None
        text = cell.strip()
        if type_ in INTEGERS or type_ == "timestamp":
            return int(text) if _INTEGER.match(text) and len(text) < 40 else text
        if type_ in FLOATS:
            return float(text) if _FLOAT.match(text) else text
        if type_ == "boolean":
            return _FLAGS.get(text.lower(), text)
        if type_ == "binary":
            return as_bytes(cell)
        if type_.startswith(("array<", "struct<", "map<")):
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                return text
        return text

    return convert


# -- Parquet ---------------------------------------------------------------------------------------


def _read_parquet(path: Path, stream: Stream) -> Events:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} must be a Parquet file; {error}") from None
    total, fitting, done = file.metadata.num_rows, format_of(stream).fitting(stream), [0]
    names = _leaves(file.schema_arrow)
    chosen, left_out = _choose(names, stream, path)

    def events() -> Iterator[Event]:
        for batch in _batches(file, path, done):
            columns = [
                (f.path, _values(_column(batch, names[place]), f, path, done[0]))
                for place, f in chosen
            ]
            for number in range(len(batch)):
                row: dict[str, Any] = {}
                for steps, values in columns:
                    if values[number] is not None:
                        _put(row, steps, values[number])
                done[0] += 1
                yield _event(f"row {done[0]}", format_of(stream).encode(stream, row), fitting)

    return Events(events(), lambda: done[0] / max(1, total), total, left_out)


def _batches(file: pq.ParquetFile, path: Path, done: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """A file's rows, some thousands at a time. Raises UsageError if it can't be read on."""
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
    """Names of the columns, and paths of what structs hold at any depth."""
    found: list[str] = []

    def add(field: pa.Field, prefix: tuple[str, ...]) -> None:
        path = (*prefix, field.name)
        found.append(path_text(path) if prefix else field.name)
        for inner in field.type if pa.types.is_struct(field.type) else []:
            add(inner, path)

    for field in schema:
        add(field, ())
    return found


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names:
        return batch.column(name)
    first, *steps = [a or b for a, b in re.findall(r"`([^`]+)`|([^.`]+)", name)]
    return pc.struct_field(batch.column(first), steps) if steps else batch.column(first)


def _values(column: pa.Array, field: Field, path: Path, before: int) -> list[Any]:
    """A column's values in the stream's type, or as they are where one of them does not have it."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    type_ = arrow_type(field.type)
    if _means_the_same(column.type, type_):
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return _python_values(column.cast(type_), path, before)
    convert = _converter(field.type)
    values = _python_values(column, path, before)
    return [_nearest(value, field.type, convert) for value in values]


def _python_values(column: pa.Array, path: Path, before: int) -> list[Any]:
    """A column's values; those that Python can't hold, such as the year 10000, as text."""
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
    """Whether Arrow's cast says what the value says.

    It would take a number for microseconds since 1970, or for a flag, and cut a double short.
    """
    t = pa.types
    if t.is_dictionary(from_):
        from_ = from_.value_type
    text = t.is_string(from_) or t.is_large_string(from_) or t.is_string_view(from_)
    number = t.is_integer(from_) or t.is_decimal(from_)
    if t.is_integer(to) or t.is_string(to):
        return t.is_integer(from_) or (t.is_string(to) and text)
    if t.is_floating(to):
        return number or t.is_floating(from_)
    if t.is_decimal(to):
        return number
    if t.is_temporal(to):
        return t.is_timestamp(from_) or t.is_date(from_)
    if t.is_struct(to):
        inside = {field.name: field.type for field in from_} if t.is_struct(from_) else {}
        return bool(inside) and all(
            _means_the_same(inside[field.name], field.type) for field in to if field.name in inside
        )
    if t.is_map(to):
        return t.is_map(from_) and _means_the_same(from_.item_type, to.item_type)
    if t.is_list(to):
        lists = t.is_list(from_) or t.is_large_list(from_) or t.is_fixed_size_list(from_)
        return lists and _means_the_same(from_.value_type, to.value_type)
    if t.is_boolean(to):
        return t.is_boolean(from_)
    return text or t.is_binary(from_) or t.is_large_binary(from_) or t.is_fixed_size_binary(from_)


def _nearest(value: Any, type_: str, convert: Callable[[str], Any]) -> Any:
    """A value of another type, in the stream's where it can be without loss."""
    if isinstance(value, str):
        return convert(value)
    if type_ == "boolean" and type(value) is int and value in (0, 1):
        return bool(value)
    if (
        isinstance(value, float) and type_ in INTEGERS and value.is_integer()
    ):  # as pandas keeps integers beside NULL
        return int(value)
    if isinstance(value, float) and value != value and type_ not in FLOATS:
        return None
    if isinstance(value, float) and is_decimal(type_):
        return repr(value)
    return value
