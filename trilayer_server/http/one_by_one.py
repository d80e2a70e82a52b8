"""Has questions asked one after the other, so that one worker answers all that are quick.

A worker with a new state has to be forked, which takes as long as several quick answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PATIENCE_S = 0.1
"""How long a question is waited for at most, in seconds.

That is somewhat longer than a fork and a quick answer take.
"""


class OneByOne:
    """Lets one in after the other. One that stays for long keeps the next out for a moment only."""

    def __init__(self) -> None:
        """Has let nobody in yet."""
        self._last: asyncio.Event | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until the one before has left the block, or has been in it for `PATIENCE_S`."""
        before, mine = self._last, asyncio.Event()
        self._last = mine
        try:
            if before is not None:
                await before.wait()
            patience = asyncio.get_running_loop().call_later(PATIENCE_S, mine.set)
            try:
                yield
            finally:
                patience.cancel()
        finally:
            mine.set()
