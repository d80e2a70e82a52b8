"""Why a request fails, and with which status and JSON document a client is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from trilayer.server.engine.question import Refusal
from trilayer_core.errors import (
    ConflictError,
    CoverageError,
    IntegrityError,
    TrilayerError,
    UsageError,
)

CANCELLED = "57014"
TOO_MANY = "53300"
TOO_MUCH = "54000"
INVALID = "22023"
NOT_ALLOWED = "28000"
NOT_FOUND = "42704"
NOT_READY = "55000"
BROKEN = "58000"
DAMAGED = "XX001"
INTERNAL = "XX000"


class Failure(Exception):
    """A request that fails before the first byte of its answer.

    Attributes:
        status: The status of HTTP.
        code: The SQLSTATE.
        message: What went wrong.
        hint: What to do; empty if the message says it.
        position: The character of a statement at which it was found, from 1 on; 0 if unknown.
        headers: Headers of the answer.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        hint: str = "",
        *,
        position: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.hint = status, code, message, hint
        self.position, self.headers = position, headers

    def to_json(self) -> dict[str, Any]:
        """The failure as a JSON document."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "hint": self.hint,
                "position": self.position,
            }
        }

    def response(self) -> JSONResponse:
        """The answer that tells it."""
        return JSONResponse(self.to_json(), self.status, self.headers)


_STATUS = {
    CANCELLED: 409,
    NOT_READY: 409,
    TOO_MANY: 429,
    "53400": 429,
    "42501": 403,
    TOO_MUCH: 400,
    INTERNAL: 500,
}
_STATUS_OF_CLASS = {"08": 503, "28": 403, "53": 503, "57": 503, "58": 503, "XX": 503}


def of_refusal(refusal: Refusal) -> Failure:
    """The failure of a question that the engine refuses."""
    code = refusal.code
    status = _STATUS.get(code) or _STATUS_OF_CLASS.get(code[:2], 400)
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return Failure(
        status, code, refusal.message, refusal.hint, position=refusal.position, headers=headers
    )


def of_error(error: TrilayerError) -> Failure:
    """The failure of an operation that raised one of trilayer's errors."""
    message = str(error)
    if isinstance(error, UsageError):
        return Failure(400, INVALID, message)
    if isinstance(error, CoverageError | ConflictError):
        return Failure(409, NOT_READY, message)
    return Failure(503, DAMAGED if isinstance(error, IntegrityError) else BROKEN, message)
