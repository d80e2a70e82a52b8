"""The events of a file, each judged by its stream's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trilayer_core.definitions.formats import Fitting


@dataclass(frozen=True)
class Event:
    """A row of a file.

    Attributes:
        place: Its position, such as `line 3`.
        value: The bytes to send.
        misfit: Why it will be quarantined, or None.
        unknown: Its fields that are not in the schema.
        beside: The schema's fields that it has beside them.
    """

    place: str
    value: bytes
    misfit: str | None = None
    unknown: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


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


def judged(place: str, value: bytes, fitting: Fitting) -> Event:
    """An event with these bytes, and the verdict of its schema."""
    verdict = fitting.judge(value)
    return Event(place, value, verdict.misfit, verdict.unknown, verdict.beside)
