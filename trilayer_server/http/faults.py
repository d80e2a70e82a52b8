"""The failures of requests: status, SQLSTATE and JSON document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse

from trilayer_core.errors import CoverageError, TrilayerError, UsageError
from trilayer_server.sql_error import CANCELLED, SqlError

# SQLSTATEs of failures.
TOO_MANY = "53300"
TOO_MUCH = "54000"
INVALID = "22023"
NOT_ALLOWED = "28000"
NOT_FOUND = "42704"
NOT_READY = CoverageError.sqlstate
BROKEN = TrilayerError.sqlstate
INTERNAL = "XX000"


class Failure(Exception):
    """A request that fails before the first byte of its answer.

    Attributes:
        status: The status of HTTP.
        code: The SQLSTATE.
        message: What went wrong.
        hint: What to do; empty if the message says it.
        position: The character of a statement that is wrong, from 1 on; 0 if unknown.
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
        """The answer that reports it."""
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


def failure_of(error: SqlError) -> Failure:
    """The failure of a query that the engine refuses."""
    code = error.code
    status = _STATUS.get(code) or _STATUS_OF_CLASS.get(code[:2], 400)
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return Failure(
        status, code, error.message, error.hint, position=error.position, headers=headers
    )


def of_error(error: TrilayerError) -> Failure:
    """The failure of an operation that raised one of trilayer's errors."""
    code = INVALID if isinstance(error, UsageError) else error.sqlstate
    return Failure(error.http_status, code, str(error))


def of_validation(errors: Sequence[Mapping[str, Any]]) -> Failure:
    """The failure of a request whose body or parameters are not what they must be.

    Args:
        errors: The errors of pydantic. Text that was sent is repeated only if it is short.
    """
    messages: dict[str, str] = {}
    for error in errors:
        place, *names = error["loc"]
        if error["type"] == "json_invalid":
            messages["body"] = (
                f"the body must be JSON; got text that is none from character {names[0]}"
            )
            continue
        if names and names[-1] in _ALTERNATIVES:  # of a value that may have several types
            name = ".".join(map(str, names[:-1]))
            wanted = "true, false, a number, text or null"
        else:
            name = ".".join(map(str, names)) or f"the {place}"
            wanted = _wanted(error)
        messages.setdefault(name, f"{name} must be {wanted}; got {_got(error)}")
    return Failure(
        400, INVALID, "; ".join(messages.values()), "See /openapi.json for what a request may have"
    )


_ALTERNATIVES = frozenset({"bool", "int", "float", "str"})
_MOST_SHOWN = 40

_WANTED: Mapping[str, str | Callable[[Mapping[str, Any]], str]] = {
    "missing": "given",
    "extra_forbidden": "left out",
    "literal_error": lambda limits: str(limits["expected"]),
    "greater_than": lambda limits: f"more than {limits['gt']:g}",
    "greater_than_equal": lambda limits: f"at least {limits['ge']:,}",
    "less_than": lambda limits: f"less than {limits['lt']:,}",
    "less_than_equal": lambda limits: f"at most {limits['le']:,}",
    "string_too_long": lambda limits: f"text of at most {limits['max_length']:,} characters",
    "too_long": lambda limits: f"a list of at most {limits['max_length']:,}",
    "too_short": lambda limits: f"a list of at least {limits['min_length']:,}",
    "string_pattern_mismatch": "1 to 64 letters, digits, hyphens and underscores",
    "finite_number": "a finite number",
}
_WANTED_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "dict": "a JSON object",
    "model": "a JSON object",
}


def _wanted(error: Mapping[str, Any]) -> str:
    """What a value must be, by the type of pydantic's error."""
    wanted = _WANTED.get(error["type"])
    if wanted is None:
        kind = error["type"].partition("_")[0]
        return _WANTED_KINDS.get(kind, "as /openapi.json says")
    return wanted if isinstance(wanted, str) else wanted(error["ctx"])


def _got(error: Mapping[str, Any]) -> str:
    """What was sent: itself if it is short, else its kind."""
    value = error.get("input")
    if error["type"] == "missing" or value is None:
        return "nothing"
    if error["type"] == "extra_forbidden":
        return "a field that there is not"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"{len(value):,} elements"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, str):
        return repr(value) if len(value) <= _MOST_SHOWN else f"text of {len(value):,} characters"
    return str(value) if len(str(value)) <= _MOST_SHOWN else "a long number"
