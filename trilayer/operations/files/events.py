"""The events of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """A row of a file.

    Attributes:
        place: Its position, such as `line 3`.
        value: The bytes to send.
        fault: Why it is no row of its file, so that it will be quarantined; None if it is one.
    """

    place: str
    value: bytes
    fault: str | None = None


@dataclass
class Events:
    """A file's events, in order.

    `total` is their number if it is known, and `left_out` describes what is in none of them.
    """

    events: Iterator[Event]
    progress: Callable[[], float]
    total: int | None = None
    left_out: str = ""

    def __iter__(self) -> Iterator[Event]:
        return self.events
