"""Looks for new states of the answers while somebody waits for one."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from trilayer_server.engine.pool import Pool
from trilayer_server.engine.question import Refusal
from trilayer_server.http.faults import BROKEN
from trilayer_server.http.limits import Limits

GAP_S = 0.01
"""The shortest time between two looks, in seconds, however many files are written."""


async def state_of(engine: Pool, limits: Limits) -> int:
    """The state of the engine's answers, in time.

    Raises:
        Refusal: The store's answer can't be proven, or it takes too long.
    """
    try:
        async with asyncio.timeout(limits.store_s):
            return await engine.state()
    except TimeoutError:
        raise Refusal(
            BROKEN, f"the store must answer within {limits.store_s:g} s; it has not"
        ) from None


class Watch:
    """One look at the engine's state for all who wait for the next."""

    def __init__(self, engine: Pool, limits: Limits) -> None:
        self._engine, self._limits = engine, limits
        self._waiting: dict[asyncio.Future[int], int] = {}
        self._looking: asyncio.Task[None] | None = None

    async def next(self, seen: int) -> int:
        """Waits until the state is another one than `seen`, and returns it.

        Raises:
            Refusal: The store's answer can't be proven.
        """
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = seen
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            return await waiting
        finally:
            del self._waiting[waiting]

    async def _look(self) -> None:
        """Looks until nobody has waited for a while; then `next` begins anew."""
        idle = 0
        try:
            while idle < 2:
                await asyncio.sleep(GAP_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._limits.poll_s):
                        await self._engine.news()
                idle = 0 if self._waiting else idle + 1
                if not self._waiting:
                    continue
                try:
                    state = await state_of(self._engine, self._limits)
                except Refusal as refusal:
                    self._refuse(refusal)
                    continue
                for waiting, seen in list(self._waiting.items()):
                    if state != seen and not waiting.done():
                        waiting.set_result(state)
        except Exception as error:
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(error)
            raise
        finally:
            self._looking = None

    def _refuse(self, refusal: Refusal) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(
                    Refusal(refusal.code, refusal.message, refusal.hint, refusal.position)
                )
