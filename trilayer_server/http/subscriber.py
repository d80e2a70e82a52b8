"""A subscriber: the events for it that it has not read yet.

A subscriber that does not read costs a bounded number of events: a snapshot replaces them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Reason = Literal["first", "slow", "resumed"]
"""Why a subscriber gets a snapshot: it is new, it did not read, or what it had is not known."""


@dataclass(frozen=True)
class Event:
    """An event for subscribers.

    Attributes:
        kind: snapshot, change, progress or failed.
        data: A JSON document.
        id: The state of the answer after it; empty if there is none.
    """

    kind: str
    data: str
    id: str = ""

    @cached_property
    def encoded(self) -> bytes:
        """The event as text/event-stream has it, once for all subscribers."""
        named = f"id: {self.id}\n" if self.id else ""
        return f"event: {self.kind}\n{named}data: {self.data}\n\n".encode()


class Ended(Exception):
    """A subscriber has got all events."""


class Subscriber:
    """The events of one subscriber. A snapshot replaces those that it does not read in time."""

    def __init__(self, most: int) -> None:
        self._events: deque[Event] = deque()
        self._most = most
        self._ready = asyncio.Event()
        self._reason: Reason | None = None
        self._ended = False

    def put(self, event: Event) -> None:
        """Adds an event to those that it has not read yet."""
        if event.kind == "progress" and self._events and self._events[-1].kind == "progress":
            self._events.pop()
        if self._reason is None and len(self._events) >= self._most:
            self.snapshot("slow")
        if self._reason is None:
            self._events.append(event)
        self._ready.set()

    def snapshot(self, reason: Reason) -> None:
        """Replaces all events that it has not read by a snapshot, made when it is read."""
        self._events.clear()
        self._reason = reason
        self._ready.set()

    def restart(self, events: Sequence[Event]) -> None:
        """Replaces all events that it has not read by others."""
        self._events.clear()
        self._events.extend(events)
        self._reason = None
        self._ready.set()

    def end(self, last: Event | None = None) -> None:
        """Ends it, after an event."""
        self._ended = True
        if last is not None:
            self._events.append(last)
        self._ready.set()

    async def next(
        self, snapshot: Callable[[Reason], Event | None], seconds: float
    ) -> Event | None:
        """The next event; None if there is none for a while.

        Args:
            snapshot: Makes an event of the whole answer; None while there is none.
            seconds: How long to wait, in seconds.

        Raises:
            Ended: There will be none any more.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            return None
        event = snapshot(self._reason) if self._reason is not None else None
        if event is not None:
            self._reason = None
        elif self._events:
            event = self._events.popleft()
        elif self._ended:
            raise Ended
        if not self._events and not self._ended:
            self._ready.clear()
        return event
