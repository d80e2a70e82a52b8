"""Frames between the server and its workers: a kind, a length and a body.

Requests are pickled, because a worker trusts the server. Replies are JSON, Arrow and plain bytes,
because the server does not trust a worker, in which SQL of clients has run.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

import pyarrow as pa

COLUMNS: Final = b"T"
"""An answer begins: the length of a JSON document, the document, and an Arrow schema."""

ROWS: Final = b"D"
"""Encoded rows."""

DONE: Final = b"C"
"""A request is carried out: a JSON document."""

STALE: Final = b"S"
"""There may be something new, which the worker does not have."""

REFUSED: Final = b"E"
"""A request is refused: a JSON document of a `Refusal`."""

REQUEST: Final = b"Q"
"""A pickled request."""

TOGETHER_BYTES = 1 << 16
"""Up to so many bytes are sent at once."""

_HEAD = struct.Struct(">cI")
HEAD_BYTES = _HEAD.size


def head(kind: bytes, size: int) -> bytes:
    """The head of a frame whose body has this size."""
    return _HEAD.pack(kind, size)


def send(to: socket.socket, kind: bytes, body: bytes | pa.Buffer) -> None:
    """Sends a frame, and waits until there is room for it."""
    view = memoryview(body)
    to.sendall(head(kind, view.nbytes))
    to.sendall(view)


class Out:
    """Sends frames, small ones together."""

    def __init__(self, to: socket.socket) -> None:
        """Sends to `to`."""
        self._to, self._kept = to, bytearray()

    def send(self, kind: bytes, body: bytes | pa.Buffer) -> None:
        """Sends a frame, or keeps it until `flush`."""
        view = memoryview(body)
        self._kept += head(kind, view.nbytes)
        if view.nbytes < TOGETHER_BYTES:
            self._kept += view
        else:
            self.flush()
            self._to.sendall(view)
        if len(self._kept) >= TOGETHER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Sends what is kept, and waits until there is room for it."""
        if self._kept:
            self._to.sendall(self._kept)
            self._kept = bytearray()


def receive(source: socket.socket) -> bytes | None:
    """The body of the next request; None at the end."""
    found = _exactly(source, HEAD_BYTES)
    return _exactly(source, _HEAD.unpack(found)[1]) if found else None


def _exactly(source: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        part = source.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


async def read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The next frame. Raises IncompleteReadError at the end."""
    kind, size = _HEAD.unpack(await reader.readexactly(HEAD_BYTES))
    return kind, await reader.readexactly(size)
