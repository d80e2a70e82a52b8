"""A query, its limits, and the error in place of an answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from serving_layer.snapshot import Layer
from trilayer_server.introspection import SessionInfo
from trilayer_server.sql_error import SqlError

Output = Literal[
    "arrow", "json", "csv", "wire",
    "copy-text", "copy-csv", "copy-csv-header", "copy-binary"]  # fmt: skip
"""How an answer is encoded.

- `arrow`: an Arrow IPC stream.
- `json`: an array of arrays, one per row, as UTF-8. Numbers that JSON can't hold are text.
- `csv`: a line of names, then a line for each row. NULL is an empty field, and '' a quoted one.
- `wire`: the DataRow messages of PostgreSQL.
- `copy-text`, `copy-csv`, `copy-csv-header`, `copy-binary`: the CopyData messages of PostgreSQL, in
  these formats.
"""


@dataclass(frozen=True)
class Parameters:
    """Values for the parameters `$1`, `$2` and so on of a statement, as PostgreSQL sends them.

    Attributes:
        values: The bytes of each value; None for NULL.
        formats: The format of each value, or one for all; none if all are text.
        oids: The declared type of each; 0 if the statement decides.
    """

    values: Sequence[bytes | None] = ()
    formats: Sequence[int] = ()
    oids: Sequence[int] = ()


NO_PARAMETERS = Parameters()
NOBODY = SessionInfo()

SERVER = ""
"""The client that the server itself is, which needs its status, for example."""


@dataclass(frozen=True)
class Query:
    """One SELECT, and in which form its answer is wanted.

    Attributes:
        sql: The statement.
        layer: The layer in which names without a schema are looked up.
        version: The publication on which the answer is based; None for the newest state.
        output: How the answer is encoded.
        parameters: Values for the statement's parameters.
        formats: The format of each column, or one for all, if the output is `wire`.
        most_rows: How many rows are returned at most; None for all.
        session: The session, for statements about it or the catalog.
    """

    sql: str
    layer: Layer = "merged"
    version: int | None = None
    output: Output = "arrow"
    parameters: Parameters = NO_PARAMETERS
    formats: Sequence[int] = ()
    most_rows: int | None = None
    session: SessionInfo = NOBODY


STATEMENT_BYTES = 65_536
"""The length of the longest statement: one that is much longer takes seconds to parse."""

LOST = "58030"
"""The SQLSTATE of an answer whose process has ended by itself: io_error."""


@dataclass(frozen=True)
class EngineLimits:
    """What queries may take.

    Attributes:
        workers: How many queries are answered at once, beside transactions; further ones wait.
        threads: How many threads answer one query.
        memory_mb: How much memory a query may take, beside the views.
        timeout_s: How long a worker may take for the next part of an answer, in seconds.
        transactions: How many transactions may keep a worker to themselves.
        statement_bytes: The length of the longest statement, with its parameters.
        rows: The most rows of an answer; 0 for any number.
        bytes: The most bytes of an answer, as it is sent; 0 for any number.
        connections: How many clients may be connected.
        client_connections: How many clients may be connected from one address.
    """

    workers: int = 8 * max(2, os.cpu_count() or 1)
    threads: int = max(1, os.cpu_count() or 1)
    memory_mb: int = 1024
    timeout_s: float = 300.0
    transactions: int = 32
    statement_bytes: int = STATEMENT_BYTES
    rows: int = 0
    bytes: int = 0
    connections: int = 500
    client_connections: int = 300

    def check_statement(self, size: int) -> None:
        """Raises SqlError if so many bytes, with parameters, are too long for a statement."""
        if size > (most := self.statement_bytes):
            raise SqlError("54000", f"a statement must have at most {most:,} bytes; got {size:,}")
