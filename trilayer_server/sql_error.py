"""The error of a statement: its SQLSTATE, message, hint and position, as clients get it."""

from __future__ import annotations

from collections.abc import Mapping

CANCELLED = "57014"
"""The SQLSTATE of an answer that was cancelled, or that took too long: query_canceled."""


class SqlError(Exception):
    """A query that has no answer.

    Attributes:
        code: The SQLSTATE.
        message: What went wrong.
        hint: What to do; empty if the message says it.
        position: The character of the statement that is wrong, from 1 on; 0 if unknown.
    """

    def __init__(self, code: str, message: str, hint: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.position = code, message, hint, position

    def to_json(self) -> Mapping[str, str | int]:
        """The error as a JSON document."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "position": self.position,
        }


def unsupported(message: str, hint: str) -> SqlError:
    """The error of a part of SQL that PostgreSQL has and this server lacks: feature_not_supported.

    Args:
        message: What is not supported.
        hint: What to write instead.
    """
    return SqlError("0A000", message, hint)


class StatementTimeout(SqlError):
    """An answer that took too long."""

    def __init__(self, seconds: float) -> None:
        """An answer, or the next part of it, did not come within so many seconds."""
        super().__init__(
            CANCELLED, f"canceling statement due to statement timeout: {seconds:g} s have passed"
        )


def cancelled_by_user() -> SqlError:
    """The error of an answer that its client has cancelled.

    Each answer needs a new one: an exception keeps the frames of every time it was raised.
    """
    return SqlError(CANCELLED, "canceling statement due to user request")
