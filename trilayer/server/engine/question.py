"""What is asked of the engine, what comes back, and why it may refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from serving_layer.snapshot import Layer
from trilayer.server.introspection import SessionInfo

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


@dataclass(frozen=True)
class Question:
    """One SELECT, and in which form its answer is wanted.

    Attributes:
        sql: The statement.
        layer: The layer in which names without a schema are looked up.
        version: The publication on which the answer is based; None for the newest state.
        output: How the answer is encoded.
        parameters: Values for the statement's parameters.
        formats: The format of each column, or one for all, if the output is `wire`.
        most_rows: How many rows are returned at most; None for all.
        session: What a statement about the catalog or the session may ask.
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

CANCELLED = "57014"
"""The SQLSTATE of an answer that was cancelled, or that took too long: query_canceled."""

LOST = "58030"
"""The SQLSTATE of an answer whose process has ended by itself: io_error."""


class Refusal(Exception):
    """A question that has no answer.

    Attributes:
        code: The SQLSTATE.
        message: What went wrong.
        hint: What to do; empty if the message says it.
        position: The character of the statement at which it was found, from 1 on; 0 if unknown.
    """

    def __init__(self, code: str, message: str, hint: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.position = code, message, hint, position

    def to_json(self) -> Mapping[str, str | int]:
        """The refusal as a JSON document."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "position": self.position,
        }
