"""Reads the rows of a file of any kind as events."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trilayer.operations.files.delimited import ESCAPES, read_delimited
from trilayer.operations.files.events import Events
from trilayer.operations.files.json_text import read_json
from trilayer.operations.files.parquet import read_parquet
from trilayer.operations.files.text import Text, opener
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import UsageError


def read_events(
    path: Path,
    stream: Stream,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
    escape: str | None = None,
) -> Events:
    """Reads a file's rows as events of a stream.

    Args:
        path: A CSV, JSON Lines or Parquet file, by its ending; text may be compressed.
        stream: The stream.
        delimiter: The delimiter of a CSV file; by default detected from its first line.
        encoding: The encoding of text; by default UTF-8, or UTF-16 if the file begins with its
            mark.
        columns: The names of a CSV file's columns, if it has no header.
        escape: What stands before a quotation mark in a quoted cell of a CSV file, another one or a
            backslash; by default detected from the whole file.

    Raises:
        UsageError: The file does not exist, is of an unknown kind, or lacks a required column.
    """
    if not path.is_file():
        raise UsageError(f"FILE must be a file; got {str(path)!r}, which is not there")
    open_, name = opener(path)
    kind = Path(name).suffix.lower()
    if kind == ".parquet":
        return read_parquet(path, stream)
    if kind not in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json"):
        raise UsageError(
            "FILE must end in .csv, .tsv, .txt, .jsonl, .ndjson, .json or .parquet, and all but"
            f" the last may be compressed (.gz, .bz2, .xz); got {path.name!r}"
        )
    text = Text(path, open_, encoding)
    if kind in (".csv", ".tsv", ".txt"):
        delimiter = "\t" if delimiter == r"\t" or (kind == ".tsv" and not delimiter) else delimiter
        if delimiter and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise UsageError(
                "delimiter must be one character, such as ; or \\t, and no quotation mark; got"
                f" {delimiter!r}"
            )
        if escape and escape not in ESCAPES:
            raise UsageError(f'escape must be " or \\; got {escape!r}')
        return read_delimited(text, stream, delimiter, columns, escape)
    return read_json(text, stream)
