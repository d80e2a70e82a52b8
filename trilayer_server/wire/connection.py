"""The bytes of one client's connection: messages in, answers out, and their limits of time."""

from __future__ import annotations

import asyncio
import select
import time

from trilayer_server.wire import messages
from trilayer_server.wire.messages import Body, ProtocolFault

TOGETHER_BYTES = 1 << 16
"""Up to so many bytes are kept to be sent at once."""

READ_BYTES = 1 << 16
"""How many bytes of a client are read at once."""

_HEAD_BYTES = 5
"""The kind of a message, and its length without that."""

PATIENCE_S = 60.0
"""How long a client may leave an answer unread before its connection ends, in seconds."""

IDLE_S = 600.0
"""How long a client that keeps a worker may take for its next message, in seconds.

A client that keeps none may wait for as long as it likes, but not within a message.
"""

WITHOUT_OTHERS_S = 0.005
"""How long a client's messages are answered before those of others are, in seconds."""


class Connection:
    """Reads the messages of a client, and sends what answers them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes over the streams of a connection, after its startup message."""
        self._reader, self._writer = reader, writer
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._unread = bytearray()
        self._others_at = 0.0

    @property
    def keeps(self) -> bool:
        """Whether data is kept that was not sent yet."""
        return bool(self._kept)

    async def receive(self, keeps_worker: bool) -> tuple[bytes, Body] | None:
        """The kind and the body of the next message; None if the client has left.

        Args:
            keeps_worker: Whether the client keeps a worker, so that it must send in time.

        Raises:
            ProtocolFault: It is no message.
        """
        if (size := self._size_of_next()) is None:
            try:
                # Half a message keeps the worker as well as none.
                limit_s = IDLE_S if keeps_worker or self._unread else None
                async with asyncio.timeout(limit_s) as limit:
                    while (size := self._size_of_next()) is None:
                        if self._unread and limit.when() is None:
                            limit.reschedule(asyncio.get_running_loop().time() + IDLE_S)
                        if not (data := await self._reader.read(READ_BYTES)):
                            return None
                        self._unread += data
                        self._others_at = time.monotonic() + WITHOUT_OTHERS_S
            except TimeoutError:
                code, why = "25P03", "terminating connection due to idle-in-transaction timeout"
                if not keeps_worker:
                    code, why = "08P01", f"a message must be whole within {IDLE_S:g} s; it was not"
                self.send(messages.fatal(code, why))
                self._flush()
                return None
        else:
            await self.let_others()
        kind, body = self._message(size)
        del self._unread[:size]
        return None if kind == b"X" else (kind, body)

    def next_message(self) -> tuple[bytes, Body] | None:
        """The message that `receive` returns next, if it has come already."""
        size = self._size_of_next()
        return None if size is None else self._message(size)

    def _message(self, size: int) -> tuple[bytes, Body]:
        return bytes(self._unread[:1]), Body(bytes(self._unread[_HEAD_BYTES:size]))

    async def let_others(self) -> None:
        """Lets the clients go on that wait, if this one has kept them waiting for long enough.

        What has arrived would otherwise all be answered first, because nothing else waits.
        """
        if time.monotonic() >= self._others_at:
            await asyncio.sleep(0)
            self._others_at = time.monotonic() + WITHOUT_OTHERS_S

    def _size_of_next(self) -> int | None:
        """The size of the next message; None until all of it was read. Raises ProtocolFault."""
        if len(self._unread) < _HEAD_BYTES:
            return None
        length = int.from_bytes(self._unread[1:_HEAD_BYTES], "big")
        if not 4 <= length <= messages.MOST_BYTES:
            raise ProtocolFault(
                f"a message must have at most {messages.MOST_BYTES:,} bytes; got {length:,}"
            )
        return 1 + length if len(self._unread) > length else None

    def send(self, data: bytes) -> None:
        """Keeps data for the client until it is enough, or until `drain`."""
        self._kept.append(data)
        self._kept_bytes += len(data)
        if self._kept_bytes >= TOGETHER_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._writer.write(b"".join(self._kept))
        self._kept, self._kept_bytes = [], 0

    async def send_part(self, part: bytes) -> None:
        """Sends a part of an answer, and waits for a client that does not read the others."""
        self.send(part)
        if not self._kept:
            await self.drain()

    async def drain(self) -> None:
        """Sends what is kept, and waits until the client has taken most of it."""
        self._flush()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._writer.drain()
        except TimeoutError:
            raise ConnectionAbortedError(f"it has read nothing for {PATIENCE_S:g} s") from None

    def has_gone(self) -> bool:
        """Whether the client has closed the connection, even if it has left messages behind."""
        if self._reader.at_eof() or self._writer.is_closing():
            return True
        if not hasattr(select, "POLLRDHUP"):  # only Linux has it
            return False
        poll = select.poll()
        poll.register(self._writer.get_extra_info("socket"), select.POLLRDHUP)
        return bool(poll.poll(0))

    def abort(self) -> None:
        """Ends the connection, with all that was not sent."""
        self._writer.transport.abort()
