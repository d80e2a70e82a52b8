"""The requests of the server to a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from trilayer_server.engine.query import Query


@dataclass(frozen=True)
class Open:
    """Begins the answer to a query.

    Attributes:
        portal: The name under which it is read.
        query: The query.
        most_rows: How many rows follow at once: 0 for all, None for none.
        columns: The columns that the client knows; None if it knows none.
        checks: Whether the worker checks for new data first. None if it need not; False if there
            was none a moment ago.
    """

    portal: str
    query: Query
    most_rows: int | None = 0
    columns: pa.Schema | None = None
    checks: bool | None = None


@dataclass(frozen=True)
class Fetch:
    """Reads on in an answer.

    Attributes:
        portal: The name under which it is read.
        most_rows: How many rows: 0 for all that are left.
        formats: The format of each column, or one for all; None if it is that of the query.
    """

    portal: str
    most_rows: int = 0
    formats: Sequence[int] | None = None


@dataclass(frozen=True)
class Describe:
    """Asks for the columns and parameters of a query, which does not run."""

    query: Query


@dataclass(frozen=True)
class Split:
    """Asks for the statements of a text."""

    text: str


@dataclass(frozen=True)
class Key:
    """Asks for the columns that identify a row of the answer to a statement."""

    sql: str


@dataclass(frozen=True)
class Close:
    """Ends an answer that was not read to its end. Nothing is replied."""

    portal: str


Request = Open | Fetch | Describe | Split | Key | Close
