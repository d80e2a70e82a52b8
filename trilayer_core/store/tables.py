"""The content of reference tables: `tables/NAME/DIGEST.parquet`.

Whichever layer needs a table first stores its content. From then on all layers read the same bytes,
whatever happens to the file that it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import pyarrow as pa

from trilayer_core.compute.tables import read_reference
from trilayer_core.definitions.stream import Rows
from trilayer_core.definitions.tables import Table
from trilayer_core.errors import DefinitionError
from trilayer_core.store import layout
from trilayer_core.store.documents import NO_OTHER_FIELDS
from trilayer_core.store.files import Store, StoredFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class StoredTable:
    """The content of a table: `tables/NAME/DIGEST.json`.

    Attributes:
        file: The Parquet file.
        memory_bytes: The size of the rows in memory.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    file: StoredFile
    memory_bytes: int


def stored_table(store: Store, table: Table) -> StoredTable:
    """The stored content of a table, which is stored now if it is not there yet.

    Raises:
        DefinitionError: The file can't be read, or has rows that do not fit the schema.
    """
    record = layout.table_record(table.name, table.digest)
    if not store.exists(record):
        rows = read_reference(table)
        path = layout.table(table.name, table.digest)
        # If another process has stored it in between, or was killed before it wrote the record, its
        # file is used.
        store.create_table(path, rows)
        store.create_document(record, StoredTable(store.describe(path), rows.nbytes))
    return store.read_document(record, StoredTable)


def table_content(store: Store, table: Table, most_mb: int) -> pa.Table:
    """The rows of a table: from the store if they are there, else from its file.

    Raises:
        DefinitionError: It is larger than `most_mb`, or does not fit its schema.
    """
    stored = store.find_document(layout.table_record(table.name, table.digest), StoredTable)
    if stored is not None:
        rows = store.read_table(stored.file)
    else:
        _check_size(table, table.file_bytes, most_mb)
        rows = read_reference(table)
    _check_size(table, rows.nbytes, most_mb)
    return rows


def check_tables(store: Store, sources: Iterable[Rows], most_mb: int) -> None:
    """Stores the tables of these sources, and checks that each is small enough to be broadcast.

    Raises:
        DefinitionError: One is too large, or does not fit its schema.
    """
    for table in {table.digest: table for rows in sources for table in rows.tables}.values():
        _check_size(table, table.file_bytes, most_mb)
        _check_size(table, stored_table(store, table).memory_bytes, most_mb)


def _check_size(table: Table, size: int, most_mb: int) -> None:
    """Raises DefinitionError if a table of `size` bytes is larger than `most_mb`."""
    if size > most_mb * 2**20:
        raise DefinitionError(
            f"table {table.name!r} ({table.path}) must be at most {most_mb} MB, in its file and in"
            f" memory, because each task and each reader holds it; it has {size / 2**20:,.1f} MB;"
            " leave out columns or rows, make a stream of it, or raise the setting table_max_mb"
        )


_kept: WeakKeyDictionary[Store, dict[tuple[str, str], DataFrame]] = WeakKeyDictionary()
"""What Spark keeps, by application and digest. Each micro-batch has a session object of its own."""

_keeping = Lock()


def table_frames(
    store: Store, rows: Rows, spark: SparkSession, *, keep: bool = False
) -> Sequence[DataFrame]:
    """The tables of a `Rows` source as DataFrames that are broadcast when they are joined.

    Args:
        store: The store.
        rows: The source.
        spark: The session, with a driver of its own or on a server.
        keep: Whether Spark keeps the rows in memory until its driver ends. The session must have a
            driver of its own.
    """
    if not keep:
        return [_frame(store, table, spark).hint("broadcast") for table in rows.tables]
    with _keeping:
        kept = _kept.setdefault(store, {})
        frames = []
        for table in rows.tables:
            place = (spark.sparkContext.applicationId, table.digest)
            if place not in kept:
                kept[place] = _frame(store, table, spark).persist()
            frames.append(kept[place].hint("broadcast"))
        return frames


def _frame(store: Store, table: Table, spark: SparkSession) -> DataFrame:
    file = stored_table(store, table).file
    store.check(file)
    schema = ", ".join(f"`{name}` {type_}" for name, type_ in table.columns.items())
    return spark.read.schema(schema).parquet(store.uri(file.path))


def digests(sources: Iterable[Rows]) -> Mapping[str, str] | None:
    """The digest of each table of these sources, by name; None if there are none."""
    return {table.name: table.digest for rows in sources for table in rows.tables} or None
