"""An analyst's own lookup tables, which are read here by the process and never by a query."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from trilayer_core.errors import UsageError

_READERS = {
    ".csv": "read_csv", ".tsv": "read_csv", ".txt": "read_csv",
    ".json": "read_json", ".jsonl": "read_json", ".ndjson": "read_json", ".parquet": "read_parquet",
}  # fmt: skip


def lookup_table(data: Any) -> pa.Table:
    """The rows of a lookup table.

    Args:
        data: The path of a CSV, JSON or Parquet file, whose kind follows from its ending (text
            files may be compressed, `.gz`); or a DataFrame of pandas or polars, an Arrow table, or
            a list of dicts.

    Raises:
        UsageError: The file does not exist or can't be read, or `data` has another type.
    """
    if isinstance(data, str | Path):
        return _read(Path(data))
    try:
        return pa.Table.from_pylist(data) if isinstance(data, list) else pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            "a lookup table must be a file's path, a DataFrame, an Arrow table or a list of"
            f" dicts; got {type(data).__name__}: {error}"
        ) from None


def _read(path: Path) -> pa.Table:
    reader = _READERS.get(Path(path.name.removesuffix(".gz")).suffix.lower())
    if reader is None:
        raise UsageError(
            f"a lookup table's file must end in {', '.join(_READERS)}; got {str(path)!r}"
        )
    if not path.is_file():
        raise UsageError(f"a lookup table must be a file; got {str(path)!r}, which is not there")
    try:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            # DuckDB interprets a path as a pattern.
            named = glob.escape(str(path))
            return connection.sql(f"SELECT * FROM {reader}(?)", params=[named]).to_arrow_table()
    except duckdb.Error as error:
        raise UsageError(f"{path} must be readable as a table: {str(error).strip()}") from None
