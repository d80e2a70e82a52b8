"""Slots: a limited number of something, such as workers, of which one client has only a part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


def most_each(number: int) -> int:
    """How many of these one client may have: a quarter always remains for others."""
    return max(1, number - number // 4)


class Slots:
    """Gives out a number of slots in order of arrival, within each client's own limit."""

    def __init__(self, number: int) -> None:
        """Creates so many slots, all free."""
        self._all, self._each = asyncio.Semaphore(number), most_each(number)
        # Whoever waits for a slot or has one keeps the semaphore of its client.
        self._clients: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def take(self, client: str) -> Callable[[], None]:
        """Waits for a slot, and returns the function that gives it back, to be called once."""
        own = self._clients.setdefault(client, asyncio.Semaphore(self._each))
        await own.acquire()
        try:
            await self._all.acquire()
        except BaseException:
            own.release()
            raise

        def release() -> None:
            self._all.release()
            own.release()

        return release

    @asynccontextmanager
    async def slot(self, client: str) -> AsyncIterator[None]:
        """Waits for a slot, which the client has during the block."""
        release = await self.take(client)
        try:
            yield
        finally:
            release()
