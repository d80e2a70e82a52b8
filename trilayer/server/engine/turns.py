"""Turns: which workers compute, when more have something to compute than may do so at once."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

SLICE_S = 0.1
"""How much longer than one that waits a worker computes before it makes room, in seconds; and how
long a question is taken to be a short one.
"""

ASIDE_S = 0.5
"""How long a worker makes room for short questions before it computes for a slice, in seconds."""

LATELY_S = 2.0
"""How long what a client's questions have computed counts, in seconds.

It fades exponentially: after so many seconds about a third of it still counts.
"""

MOST_CLIENTS = 1_000
"""How many clients are remembered with what they have computed lately."""


class Computing(Protocol):
    """What takes turns.

    Attributes:
        who: Its client.
        computed_s: How long it has computed for its question, in seconds.
    """

    who: str
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
        self._waits_since = time.monotonic()

    @property
    def running_s(self) -> float:
        """How long it has computed since it was begun or went on."""
        return time.monotonic() - self.since if self.since is not None else 0.0

    @property
    def computed_s(self) -> float:
        return self.of.computed_s + self.running_s

    @property
    def is_owed(self) -> bool:
        """Whether it has waited for so long that it computes for a slice beside short questions."""
        if self.since is None:
            return time.monotonic() - self._waits_since >= ASIDE_S
        return self.since - self._waits_since >= ASIDE_S and self.running_s < SLICE_S

    def begin(self) -> None:
        self.since = time.monotonic()
        self.begun.set()
        if self.paused:
            self.paused = False
            self.of.go_on()

    def pause(self) -> None:
        self.stop()
        self.paused = True
        self.of.pause()

    def stop(self) -> None:
        self.of.computed_s, self.since = self.computed_s, None
        self._waits_since = time.monotonic()


class Turns:
    """Lets a number of workers compute at once: those that have computed least.

    What counts is what a worker has computed for its question, and what all questions of its client
    have lately. The others wait; if they have begun, they are paused. While a short question is
    answered, those that have computed for longer are paused even if there is room, because they
    would take the processors from it. So a short question waits at most a moment, whatever others
    ask.
    """

    def __init__(self, number: int) -> None:
        """Lets so many compute at once."""
        self._most = number
        self._turns: list[_Turn] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._lately: dict[str, tuple[float, float]] = {}
        """What a client's questions had computed at a time, as much as still counted then."""

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
            self._stop(mine)
            if mine.paused:
                of.go_on()
            self._share()

    def _share(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        weight_s = self._weights_s()
        lightest_s = min(
            (weight_s[turn] for turn in self._turns if turn.computed_s < SLICE_S),
            default=math.inf,
        )
        running, waiting = [], []
        for turn in self._turns:
            makes_room = weight_s[turn] - lightest_s >= SLICE_S and not turn.is_owed
            if makes_room and turn.since is not None:
                self._pause(turn)
            if turn.since is not None:
                running.append(turn)
            elif not makes_room:
                waiting.append(turn)
        for turn in sorted(waiting, key=lambda turn: (weight_s[turn], turn.number)):
            if len(running) >= self._most:
                longest = max(running, key=weight_s.__getitem__)
                if weight_s[longest] - weight_s[turn] < SLICE_S:
                    break
                running.remove(longest)
                self._pause(longest)
            running.append(turn)
            turn.begin()
        if len(running) < len(self._turns):
            self._timer = asyncio.get_running_loop().call_later(SLICE_S / 4, self._share)

    def _weights_s(self) -> dict[_Turn, float]:
        """What counts for each turn, in seconds."""
        of_client: dict[str, float] = {}
        for turn in self._turns:
            who = turn.of.who
            of_client[who] = of_client.get(who, self._lately_s(who)) + turn.running_s
        return {turn: of_client[turn.of.who] + turn.computed_s for turn in self._turns}

    def _pause(self, turn: _Turn) -> None:
        self._count(turn)
        turn.pause()

    def _stop(self, turn: _Turn) -> None:
        self._count(turn)
        turn.stop()

    def _count(self, turn: _Turn) -> None:
        """Adds to what a client has computed lately what this turn has since it went on."""
        who = turn.of.who
        computed_s = self._lately_s(who) + turn.running_s
        self._lately.pop(who, None)
        self._lately[who] = computed_s, time.monotonic()
        if len(self._lately) > MOST_CLIENTS:
            del self._lately[next(iter(self._lately))]  # the one that has asked nothing for longest

    def _lately_s(self, who: str) -> float:
        """What still counts of what a client's questions have computed, in seconds."""
        computed_s, at = self._lately.get(who, (0.0, 0.0))
        return computed_s * math.exp((at - time.monotonic()) / LATELY_S)
