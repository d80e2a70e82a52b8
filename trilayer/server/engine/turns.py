"""Turns: which workers compute, when more have something to compute than may do so at once."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

SLICE_S = 0.1
"""How much longer than one that waits a worker computes before it makes room, in seconds."""


class Computing(Protocol):
    """What takes turns.

    Attributes:
        computed_s: How long it has computed for its question, in seconds.
    """

    computed_s: float

    def pause(self) -> None:
        """Stops it, until `go_on`."""

    def go_on(self) -> None:
        """Lets it compute again."""


class _Turn:
    def __init__(self, of: Computing, number: int) -> None:
        self.of, self.number = of, number
        self.begun = asyncio.Event()
        self.paused = False
        self.since: float | None = None

    @property
    def computed_s(self) -> float:
        running = time.monotonic() - self.since if self.since is not None else 0.0
        return self.of.computed_s + running

    def begin(self) -> None:
        self.since = time.monotonic()
        self.begun.set()
        if self.paused:
            self.paused = False
            self.of.go_on()

    def pause(self) -> None:
        self.of.computed_s, self.since = self.computed_s, None
        self.paused = True
        self.of.pause()

    def end(self) -> None:
        self.of.computed_s, self.since = self.computed_s, None
        if self.paused:
            self.of.go_on()


class Turns:
    """Lets a number of workers compute at once: those that have computed least for their question.

    Others wait; if they have begun, they are paused. So a short question waits at most a moment,
    whatever others ask.
    """

    def __init__(self, number: int) -> None:
        """Lets so many compute at once."""
        self._most = number
        self._turns: list[_Turn] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, of: Computing) -> AsyncIterator[None]:
        """Waits until it may compute, which may be interrupted within the block."""
        mine = _Turn(of, next(self._numbers))
        self._turns.append(mine)
        try:
            self._share()
            await mine.begun.wait()
            yield
        finally:
            self._turns.remove(mine)
            mine.end()
            self._share()

    def _share(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = [turn for turn in self._turns if turn.since is None]
        if not waiting:
            return
        running = [turn for turn in self._turns if turn.since is not None]
        for turn in sorted(waiting, key=lambda turn: (turn.computed_s, turn.number)):
            if len(running) >= self._most:
                longest = max(running, key=lambda turn: turn.computed_s)
                if longest.computed_s - turn.computed_s < SLICE_S:
                    self._timer = asyncio.get_running_loop().call_later(SLICE_S / 4, self._share)
                    return
                running.remove(longest)
                longest.pause()
            running.append(turn)
            turn.begin()
        if any(turn.since is None for turn in self._turns):
            self._timer = asyncio.get_running_loop().call_later(SLICE_S / 4, self._share)
