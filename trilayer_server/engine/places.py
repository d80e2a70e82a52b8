"""Places: which clients have something of which there is a limited number, such as workers.

No client has all places, and none waits behind the queue of another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable


class Places:
    """Gives out a number of places, of which one client may have only a part.

    A free place goes to the client that has the fewest, among these to the one that has waited for
    longest, and within a client to whoever came first.
    """

    def __init__(
        self, number: int, of_one: int, on_wait: Callable[[], None] = lambda: None
    ) -> None:
        """Has so many places, all of them free.

        Args:
            number: How many places there are.
            of_one: How many of them one client may have.
            on_wait: Called whenever somebody begins to wait.
        """
        self._free, self._of_one, self._on_wait = number, of_one, on_wait
        self._taken: Counter[str] = Counter()
        self._asked: dict[asyncio.Future[None], str] = {}

    def taken(self, who: str) -> int:
        """How many places a client has."""
        return self._taken[who]

    @property
    def waiting(self) -> list[str]:
        """The clients that wait, once for each place that they wait for, in order of arrival."""
        return [who for handed, who in self._asked.items() if not handed.done()]

    async def take(self, who: str) -> None:
        """Waits for a place, which the client has until it is given to `leave`."""
        if self._may_take(who):  # nobody waits then who might have it
            self._hand_to(who)
            return
        handed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked[handed] = who
        try:
            self._on_wait()
            await handed
        except BaseException:
            # It may have been handed over just before the wait was cancelled.
            if handed.done() and not handed.cancelled():
                self.leave(who)
            raise
        finally:
            del self._asked[handed]

    def leave(self, who: str) -> None:
        """Gives a place of a client back, and hands it to one that waits."""
        self._free += 1
        self._taken[who] -= 1
        if not self._taken[who]:
            del self._taken[who]
        while may := [
            (handed, other)
            for handed, other in self._asked.items()
            if not handed.done() and self._may_take(other)
        ]:
            handed, other = min(may, key=lambda one: self._taken[one[1]])  # the first of equals
            self._hand_to(other)
            handed.set_result(None)

    def is_due(self, who: str) -> bool:
        """Whether a place of a client is due to one that waits: itself, or one that has fewer."""
        return any(other == who or self._taken[other] < self._taken[who] for other in self.waiting)

    def _may_take(self, who: str) -> bool:
        return self._free > 0 and self._taken[who] < self._of_one

    def _hand_to(self, who: str) -> None:
        self._free -= 1
        self._taken[who] += 1
