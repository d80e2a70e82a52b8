"""Notices new files in folders at once, by Linux's inotify.

Nothing may rely on it: other systems lack it, and it does not report what another machine writes.
Whoever waits for new files must poll as well; this only shortens the wait.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys

_CREATED, _MOVED_IN = 0x100, 0x80


class NewFiles:
    """Reports new files in the folders that `watch` was called with, perhaps by another process.

    Attributes:
        descriptor: What that process needs; None if the system has no inotify.
    """

    def __init__(self) -> None:
        """Opens it, within a running loop."""
        self._new = asyncio.Event()
        self.descriptor: int | None = None
        if sys.platform == "linux":
            opened = ctypes.CDLL(None).inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if opened >= 0:  # a user may have a limited number
                self.descriptor = opened
                asyncio.get_running_loop().add_reader(opened, self._on_readable)

    def _on_readable(self) -> None:
        assert self.descriptor is not None
        os.read(self.descriptor, 1 << 16)
        self._new.set()

    async def next(self) -> None:
        """Waits until there are new files since it has last returned."""
        await self._new.wait()
        self._new.clear()

    def close(self) -> None:
        """Ends it."""
        if self.descriptor is not None:
            asyncio.get_running_loop().remove_reader(self.descriptor)
            os.close(self.descriptor)
            self.descriptor = None


def watch(descriptor: int, folder: str) -> None:
    """Has new files in a folder reported, if the system can."""
    ctypes.CDLL(None).inotify_add_watch(descriptor, os.fsencode(folder), _CREATED | _MOVED_IN)
