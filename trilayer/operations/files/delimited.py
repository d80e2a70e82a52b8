"""Reads CSV files, as spreadsheets and people write them, as events."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from trilayer.operations.files.columns import (
    NULLS,
    Quoted,
    choose_columns,
    of_cell,
    partitions_of,
    put,
)
from trilayer.operations.files.events import Event, Events
from trilayer.operations.files.text import Lines, Text, as_bytes
from trilayer_core.compute.formats import format_of
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import UsageError

ESCAPES = ('"', "\\")
"""What stands before a quotation mark in a quoted cell: another one (RFC 4180), or a backslash."""


@dataclass(frozen=True)
class Record:
    """One record of a CSV file.

    `line` is the first of its lines, and `text` the record as it is in the file. `cells` is None if
    its quotes are malformed; those that look like NULL are `Quoted` if they are.
    """

    line: int
    text: str
    cells: list[str] | None


def read_delimited(
    text: Text,
    stream: Stream,
    delimiter: str | None,
    columns: Sequence[str] | None,
    escape: str | None = None,
) -> Events:
    """Reads the rows of a CSV file as events.

    Args:
        text: The file.
        stream: The stream.
        delimiter: The delimiter; by default detected from the first line.
        columns: The names of the columns, if the file has no header.
        escape: What stands before a quotation mark in a quoted cell, see `ESCAPES`; by default
            detected from the whole file.

    Raises:
        UsageError: The file has no header, lacks a required column, or has two readings.
    """
    lines = text.lines()
    first = next(lines, "")
    if not first.strip():
        raise UsageError(
            f"{text.path} must begin with a header, or --columns must name its columns; got an"
            " empty line"
        )
    between = delimiter or _delimiter_of(first)
    most = stream.max_event_bytes
    escape = escape or _escape_of(text, between, most, columns)
    records = read_records(chain([first], lines), between, most, escape)
    if columns is None:
        header = [cell.strip() for cell in next(records).cells or []]
    else:
        header = list(columns)
    folders = {n: v for n, v in partitions_of(text.path, stream).items() if n not in header}
    chosen, left_out = choose_columns([*header, *folders], stream, text.path)
    converters = [(place, field.path, of_cell(field)) for place, field in chosen]
    constants = list(folders.values())

    def events() -> Iterator[Event]:
        for record in records:
            cells = _row(record, len(header))
            if not record.text.strip(f"{between} \t\r\n"):
                continue  # an empty line, or an empty row of a spreadsheet
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
                cell = cells[column] if column < len(header) else constants[column - len(header)]
                if cell is not None and (value := convert(cell)) is not None:
                    put(row, path, value)
            yield Event(place, format_of(stream).encode(stream, row))

    return Events(events(), text.progress, left_out=left_out)


def _delimiter_of(line: str) -> str:
    """Returns the usual delimiter that occurs most often in a header, outside of quotes."""
    outside = re.sub(r'"[^"]*"', "", line)
    return max(",;\t|", key=outside.count)


def _row(record: Record, width: int) -> list[str] | None:
    """Returns a record's cells, without the empty ones that some spreadsheets add at the end."""
    cells = record.cells
    return cells[:width] if cells and not any(cells[width:]) else cells


def _escape_of(text: Text, delimiter: str, most: int, columns: Sequence[str] | None) -> str:
    """Returns the one of `ESCAPES` with which fewer records of the whole file are malformed.

    Raises UsageError if that is the same for both, and they differ in a value.
    """

    def lines() -> Iterator[str]:
        with suppress(UsageError):  # who reads the events gets this error, after those before it
            yield from text.again().lines()

    if not any('\\"' in line or r"\\" in line for line in lines()):
        return '"'
    malformed, differ = [0, 0], 0
    width = len(columns or [])
    for pair in zip_longest(*(read_records(lines(), delimiter, most, e) for e in ESCAPES)):
        cells = [record and record.cells for record in pair]
        width = width or len(cells[0] or [])
        for place, record in enumerate(pair):
            malformed[place] += record is not None and len(_row(record, width) or []) != width
        if not differ and cells[0] != cells[1]:
            differ = next(record.line for record in pair if record)
    if differ and malformed[0] == malformed[1]:
        raise UsageError(
            f"{text.path} must be read in one way; got line {differ}, in which a backslash may be"
            " text or escape what follows it: add --escape '\"' if it is text (RFC 4180), or"
            " --escape '\\' if it escapes, as Spark writes"
        )
    return ESCAPES[malformed[1] < malformed[0]]


def read_records(
    lines: Iterator[str], delimiter: str, most: int, escape: str = '"'
) -> Iterator[Record]:
    """Yields the records of a CSV file; a quoted cell may span several lines.

    A quote that is never closed would turn the rest of the file into one cell. Therefore, if the
    file ends inside a record, or a cell has more than `most` characters, the record is its first
    line alone, and the next record begins at the second line.
    """
    csv.field_size_limit(max(most, csv.field_size_limit()))
    feed = Lines(lines)
    number = 1
    for line in feed:
        feed.taken = [line]
        if '"' not in line:
            text = line.rstrip("\r\n")
            record = Record(number, text, text.split(delimiter))
        else:
            feed.taken = []
            try:
                cells = _cells(line, feed, delimiter, escape)
                text = line + "".join(feed.taken)
                record = Record(
                    number, text.rstrip("\r\n"), _with_quotes(cells, text, delimiter, escape)
                )
            except (csv.Error, StopIteration):
                feed.give_back()
                record = Record(number, line.rstrip("\r\n"), None)
            feed.taken.insert(0, line)
        number += len(feed.taken)
        yield record


def _cells(line: str, feed: Lines, delimiter: str, escape: str) -> list[str]:
    """Returns the cells of a record."""
    lines: Iterator[str] = chain([line], feed)
    if escape != '"':
        lines = _with_doubled_quotes(lines, delimiter)
    return next(csv.reader(lines, delimiter=delimiter, strict=True))


def _with_doubled_quotes(lines: Iterator[str], delimiter: str) -> Iterator[str]:
    """Yields the lines of a record with doubled quotes (RFC 4180) in place of backslashes.

    A backslash before anything but a quotation mark or a backslash is text, as it is in a cell
    without quotes. Raises csv.Error if a quotation mark is doubled.
    """
    quoted = closed = False
    for line in lines:
        parts, before = [], delimiter
        for part in _PARTS.findall(line):
            if part == '"':
                if closed:
                    raise csv.Error("a quotation mark after the end of a cell")
                quoted, closed = not quoted and before[-1] == delimiter, quoted
            else:
                closed = False
            escapes = quoted and len(part) == 2 and part[0] == "\\"
            parts.append({'"': '""', "\\": "\\"}[part[1]] if escapes else part)
            before = part
        yield "".join(parts)


_PARTS = re.compile(r"""[^"\\]+|\\["\\]|["\\]""")


def _with_quotes(cells: list[str], text: str, delimiter: str, escape: str) -> list[str]:
    """Marks the cells that are quoted, of those that would be NULL otherwise."""
    if not any(cell in NULLS for cell in cells):
        return cells
    inside = r"[^\"\\]|\\[\s\S]" if escape == "\\" else '[^"]|""'
    parts = re.findall(
        rf'(?:\A|{re.escape(delimiter)})("(?:{inside})*"|[^{re.escape(delimiter)}]*)',
        text.rstrip("\r\n"),
    )
    quoted = (
        [part.startswith('"') for part in parts]
        if len(parts) == len(cells)
        else [True] * len(cells)
    )
    return [Quoted(cell) if q else cell for cell, q in zip(cells, quoted, strict=True)]
