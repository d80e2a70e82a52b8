"""Polls for new states of the answers while somebody waits for one."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from trilayer_server.engine.pool import Pool
from trilayer_server.http.faults import BROKEN
from trilayer_server.http.limits import Limits
from trilayer_server.sql_error import SqlError

GAP_S = 0.01
"""The shortest time between two checks, in seconds, however many files are written."""


async def state_of(engine: Pool, limits: Limits) -> int:
    """The state of the engine's answers, in time.

    Raises:
        SqlError: The store's answer can't be proven, or it takes too long.
    """
    try:
        async with asyncio.timeout(limits.store_s):
            return await engine.state()
    except TimeoutError:
        raise SqlError(
            BROKEN, f"the store must answer within {limits.store_s:g} s; it has not"
        ) from None


class Watch:
    """Checks the engine's state once for all who wait for the next.

    Attributes:
        engine: The engine.
        limits: The limits of answers by HTTP.
    """

    def __init__(self, engine: Pool, limits: Limits) -> None:
        self.engine, self.limits = engine, limits
        self._waiting: dict[asyncio.Future[int], int] = {}
        self._polling: asyncio.Task[None] | None = None

    async def next(self, seen: int) -> int:
        """Waits until the state is another one than `seen`, and returns it.

        Raises:
            SqlError: The store's answer can't be proven.
        """
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = seen
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
        try:
            return await waiting
        finally:
            del self._waiting[waiting]

    async def _poll(self) -> None:
        """Polls until nobody has waited for a while; `next` then starts it again."""
        idle = 0
        try:
            while idle < 2:
                await asyncio.sleep(GAP_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.limits.poll_s):
                        await self.engine.news()
                idle = 0 if self._waiting else idle + 1
                if not self._waiting:
                    continue
                try:
                    state = await state_of(self.engine, self.limits)
                except SqlError as error:
                    self._fail(error)
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
            self._polling = None

    def _fail(self, error: SqlError) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(
                    SqlError(error.code, error.message, error.hint, error.position)
                )
