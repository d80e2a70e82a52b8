"""Reads CSV files, as spreadsheets and people write them, as events."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from trilayer.operations.files.columns import (
    NULLS,
    Quoted,
    choose_columns,
    of_cell,
    partitions_of,
    put,
)
from trilayer.operations.files.events import Event, Events, judged
from trilayer.operations.files.text import Lines, Text, as_bytes
from trilayer_core.compute.formats import format_of
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import UsageError


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
    text: Text, stream: Stream, delimiter: str | None, columns: Sequence[str] | None
) -> Events:
    """Reads the rows of a CSV file as events.

    Args:
        text: The file.
        stream: The stream.
        delimiter: The delimiter; by default detected from the first line.
        columns: The names of the columns, if the file has no header.

    Raises:
        UsageError: The file has no header, or lacks a required column.
    """
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
        header = [cell.strip() for cell in next(records).cells or []]
    else:
        header = list(columns)
    folders = {n: v for n, v in partitions_of(text.path, stream).items() if n not in header}
    chosen, left_out = choose_columns([*header, *folders], stream, text.path)
    converters = [(place, field.path, of_cell(field)) for place, field in chosen]
    constants = list(folders.values())
    fitting = format_of(stream).fitting(stream)

    def events() -> Iterator[Event]:
        for record in records:
            cells = record.cells
            if cells and len(cells) > len(header) and not any(cells[len(header) :]):
                cells = cells[: len(header)]  # empty cells that some spreadsheets add
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
            yield judged(place, format_of(stream).encode(stream, row), fitting)

    return Events(events(), text.progress, left_out=left_out)


def _delimiter_of(line: str) -> str:
    """The likeliest of the usual delimiters, judging by a header."""
    outside = re.sub(r'"[^"]*"', "", line)
    return max(",;\t|", key=outside.count)


def read_records(lines: Iterator[str], delimiter: str, most: int) -> Iterator[Record]:
    """The records of a CSV file; a quoted cell may span several lines.

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
                cells = _cells(line, feed, delimiter)
                text = line + "".join(feed.taken)
                record = Record(number, text.rstrip("\r\n"), _with_quotes(cells, text, delimiter))
            except (csv.Error, StopIteration):
                feed.give_back()
                record = Record(number, line.rstrip("\r\n"), None)
            feed.taken.insert(0, line)
        number += len(feed.taken)
        yield record


def _cells(line: str, feed: Lines, delimiter: str) -> list[str]:
    """The cells of a record. A quote in a quoted cell is doubled or, as Spark writes, escaped."""
    try:
        return next(csv.reader(chain([line], feed), delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration):
        if '\\"' not in line:
            raise
    feed.give_back()
    lines = chain([line], feed)
    return next(
        csv.reader(lines, delimiter=delimiter, strict=True, escapechar="\\", doublequote=False)
    )


def _with_quotes(cells: list[str], text: str, delimiter: str) -> list[str]:
    """Marks the cells that are quoted, of those that would be NULL otherwise."""
    if not any(cell in NULLS for cell in cells):
        return cells
    parts = re.findall(
        rf'(?:\A|{re.escape(delimiter)})\s*("(?:[^"]|"")*"|[^{re.escape(delimiter)}]*)',
        text.rstrip("\r\n"),
    )
    quoted = (
        [part.startswith('"') for part in parts]
        if len(parts) == len(cells)
        else [True] * len(cells)
    )
    return [Quoted(cell) if q else cell for cell, q in zip(cells, quoted, strict=True)]
