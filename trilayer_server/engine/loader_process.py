"""The loader's process as the server sees it: it checks for new data, and forks.

`engine.loader` is what runs in it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

from trilayer_core.project import Project
from trilayer_server.engine import frames, loader
from trilayer_server.engine.loader import Start
from trilayer_server.engine.query import EngineLimits


class LoaderProcess:
    """The process that loads the store and forks workers, as the server sees it.

    Attributes:
        has_replied: Whether it has ever replied. If not, it may be unable to start.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        end: socket.socket,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Takes over what `started` has started."""
        self._process, self._end, self._writer = process, end, writer
        self._in = frames.In(reader)
        self.has_replied = False

    @staticmethod
    async def started(
        project: Project, limits: EngineLimits, first_state: int, new_files: int | None
    ) -> LoaderProcess:
        """Starts it, and has it load a project.

        Args:
            project: The project whose store is loaded.
            limits: What queries may take.
            first_state: The number of the first state, which no earlier loader has had.
            new_files: The descriptor that reports new files in the store; None without one.
        """
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-m", loader.__name__, str(theirs.fileno())],
            pass_fds=[theirs.fileno(), *([] if new_files is None else [new_files])],
            stdin=subprocess.DEVNULL,
            # Arrow's own pool reserves a gigabyte of address space, which a worker's limit counts.
            env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
        )
        theirs.close()
        # A second handle, because asyncio has none that sends descriptors.
        reader, writer = await asyncio.open_connection(sock=ours.dup())
        start = Start(
            project, limits.memory_mb, limits.threads, limits.rows, first_state, new_files
        )
        message = frames.pickled((sys.path, start))
        writer.write(frames.head(frames.REQUEST, len(message)) + message)
        with suppress(ConnectionError):  # one that has ended by now does not reply either
            await writer.drain()
        return LoaderProcess(process, ours, reader, writer)

    async def request(self, kind: bytes, end: socket.socket | None) -> dict[str, Any]:
        """Sends a request, and returns the reply.

        Args:
            kind: `loader.REFRESH` or `loader.FORK`.
            end: The end of a socket for the worker to fork; None without one.

        Raises:
            ConnectionError: It has ended.
            asyncio.IncompleteReadError: It has ended before it replied.
        """
        socket.send_fds(self._end, [kind], [end.fileno()] if end else [])
        _, body = await self._in.next()
        self.has_replied = True
        reply: dict[str, Any] = json.loads(body)
        return reply

    async def end(self) -> None:
        """Ends it, and waits until it has ended."""
        self._writer.close()
        self._end.close()
        self._process.terminate()
        await asyncio.to_thread(self._process.wait)
