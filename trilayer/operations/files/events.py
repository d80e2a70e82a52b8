"""What a file becomes: events, each judged by its stream's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trilayer_core.definitions.formats import Fitting


@dataclass(frozen=True)
class Event:
    """A row of a file.

    Attributes:
        place: Such as `line 3`.
        value: What is sent.
        misfit: Why it will be quarantined, or None.
        unknown: Its fields that the schema does not have.
    """

    place: str
    value: bytes
    misfit: str | None = None
    unknown: tuple[str, ...] = ()


@dataclass
class Events:
    """A file's events, in order.

    `total`: how many, if that is known. `left_out`: what of the file is in none of them.
    """

    events: Iterator[Event]
    progress: Callable[[], float]
    total: int | None = None
    left_out: str = ""

    def __iter__(self) -> Iterator[Event]:
        return self.events


def judged(place: str, value: bytes, fitting: Fitting) -> Event:
    """The event with these bytes, and what the schema says of it."""
    verdict = fitting.judge(value)
    return Event(place, value, verdict.misfit, verdict.unknown)
