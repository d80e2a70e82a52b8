"""Reads again what another process has replaced or deleted meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trilayer_core.errors import IntegrityError

Result = TypeVar("Result")
Name = TypeVar("Name")


def retried(
    read: Callable[[], Result],
    errors: tuple[type[Exception], ...],
    attempts: int,
    state: Callable[[Exception], object] | None = None,
    before: object = None,
) -> Result:
    """Returns the result of `read`, which is called again after errors.

    Args:
        read: Reads what others may change at the same time.
        errors: The errors that such a change may cause.
        attempts: How often `read` is called at most.
        state: Returns, after an error, a value that changes with what is read. If it is the same
            after two errors in a row, the error has another cause and is raised.
        before: That value before the first attempt. Without it a first error never is the last.
    """
    while True:
        attempts -= 1
        try:
            return read()
        except errors as error:
            now = object() if state is None else state(error)
            if not attempts or now == before:
                raise
            before = now


def read_listed(listing: Callable[[], list[Name]], read: Callable[[Name], Result]) -> list[Result]:
    """Lists and reads files, and starts again if that fails because the listing has changed.

    Raises:
        IntegrityError: A file can't be read although the listing has not changed.
    """
    while True:
        names = listing()
        try:
            return [read(name) for name in names]
        except IntegrityError:
            if names == listing():
                raise
