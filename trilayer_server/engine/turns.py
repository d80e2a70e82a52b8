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

LOOK_S = SLICE_S / 4
"""How often it is looked who makes room while others wait, in seconds."""

ASIDE_S = 0.5
"""After how long without a whole slice a worker is owed one, whatever others ask, in seconds."""

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
    """A worker's turn.

    Attributes:
        of: The worker.
        number: Its place in the order of arrival.
        begun: Whether it has begun to compute.
        paused: Whether it was paused since.
        since: Since when it computes; None while it does not.
        waits_since: When it came, or has last had a whole slice.
    """

    def __init__(self, of: Computing, number: int) -> None:
        self.of, self.number = of, number
        self.begun = asyncio.Event()
        self.paused = False
        self.since: float | None = None
        self.waits_since = time.monotonic()
        self._slice_ends_s = of.computed_s + SLICE_S

    @property
    def running_s(self) -> float:
        """How long it has computed since it was begun or went on."""
        return time.monotonic() - self.since if self.since is not None else 0.0

    @property
    def computed_s(self) -> float:
        return self.of.computed_s + self.running_s

    @property
    def is_owed(self) -> bool:
        """Whether it has waited for so long that it computes for a slice, whatever others ask."""
        return time.monotonic() - self.waits_since >= ASIDE_S

    @property
    def computes_before_its_turn(self) -> bool:
        """Whether it has not begun for a while, though it has its question already.

        One that only waits for a moment is not worth being paused.
        """
        waits = not self.begun.is_set() and not self.paused
        return waits and time.monotonic() - self.waits_since >= LOOK_S

    def has_had_slice(self) -> bool:
        """Whether it has computed for a slice since it was last asked; it then waits anew."""
        if (computed_s := self.computed_s) < self._slice_ends_s:
            return False
        self.waits_since, self._slice_ends_s = time.monotonic(), computed_s + SLICE_S
        return True

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


class Turns:
    """Lets a number of workers compute at once: those that have computed least.

    What counts is what a worker has computed for its question, and what all questions of its client
    have lately. The others wait; if they have begun, they are paused. While a short question is
    answered, those that have computed for longer are paused even if there is room, because they
    would take the processors from it. So a short question waits at most a moment, whatever others
    ask.

    Short questions without end would keep a long one from its end. So one at a time, that which has
    waited for longest without a whole slice, computes for a slice before all others; and as long
    again passes before the next one does.
    """

    def __init__(self, number: int) -> None:
        """Lets so many compute at once."""
        self._most = number
        self._turns: list[_Turn] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._owed: _Turn | None = None
        self._next_owed = 0.0
        """When another turn that is owed a slice may have it."""
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
            self._pay(mine)
            if mine.paused:
                of.go_on()
            self._share()

    def _share(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for turn in self._turns:
            if turn.has_had_slice():
                self._pay(turn)
        owed = self._owed = self._owed or self._next_that_is_owed()
        weight_s = self._weights_s()
        lightest_s = min(
            (weight_s[turn] for turn in self._turns if turn.computed_s < SLICE_S),
            default=math.inf,
        )
        running, waiting = [], []
        for turn in self._turns:
            makes_room = weight_s[turn] - lightest_s >= SLICE_S and turn is not owed
            if makes_room and turn.since is not None:
                self._pause(turn)
            if turn.since is not None:
                running.append(turn)
            elif not makes_room:
                waiting.append(turn)
        for turn in sorted(waiting, key=lambda t: (t is not owed, weight_s[t], t.number)):
            if len(running) >= self._most:
                longest = max(
                    (one for one in running if one is not owed),
                    key=weight_s.__getitem__,
                    default=None,
                )
                if longest is None or (
                    turn is not owed and weight_s[longest] - weight_s[turn] < SLICE_S
                ):
                    break
                running.remove(longest)
                self._pause(longest)
            running.append(turn)
            turn.begin()
        for turn in self._turns:
            if turn.computes_before_its_turn:
                turn.pause()
        if len(running) < len(self._turns):
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._share)

    def _next_that_is_owed(self) -> _Turn | None:
        """The turn that is owed a slice for longest, if one may have it now."""
        if time.monotonic() < self._next_owed:
            return None
        owed = (turn for turn in self._turns if turn.is_owed)
        return min(owed, key=lambda turn: turn.waits_since, default=None)

    def _pay(self, turn: _Turn) -> None:
        """Lets another have the slice that it is owed, if this one had its own or ended."""
        if turn is self._owed:
            self._owed, self._next_owed = None, time.monotonic() + SLICE_S

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
