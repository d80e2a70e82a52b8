"""A server that runs in an event loop of its own, in a thread of the test's process."""

import asyncio
import threading


class InThread:
    """Enters with the server running. `_serve` runs it, and calls `_begun` once it does."""

    def __enter__(self):
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="server")
        self._thread.start()
        assert self._ready.wait(120)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    async def _run(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await self._serve()
