"""Frames between the server and its workers: a kind, a length and a body.

Requests are pickled, because a worker trusts the server. Replies are JSON, Arrow and plain bytes,
because the server does not trust a worker, in which SQL of clients has run.
"""

from __future__ import annotations

import asyncio
import copyreg
import io
import pickle
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from trilayer_core.definitions.stream import Rows

COLUMNS: Final = b"T"
"""An answer begins: the length of a JSON document, the document, and an Arrow schema."""

ROWS: Final = b"D"
"""Encoded rows."""

DONE: Final = b"C"
"""A request is carried out: a JSON document."""

STALE: Final = b"S"
"""There may be something new, which the worker does not have."""

ERROR: Final = b"E"
"""A request has failed: the JSON document of a `SqlError`."""

REQUEST: Final = b"Q"
"""A pickled request."""

TOGETHER_BYTES = 1 << 16
"""Up to so many bytes are sent at once."""

_HEAD = struct.Struct(">cI")
HEAD_BYTES = _HEAD.size


def head(kind: bytes, size: int) -> bytes:
    """The head of a frame whose body has this size."""
    return _HEAD.pack(kind, size)


def pickled(message: object) -> bytes:
    """The bytes of an object, for another process of the server.

    `Rows` in it lack their function, which only the layers call: it may be a lambda, or of a
    notebook, which no other process could import.
    """
    to = io.BytesIO()
    _Pickler(to).dump(message)
    return to.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is not Rows:
            return NotImplemented
        state = vars(obj) | {"fingerprint": obj.fingerprint, "rows": None}
        return copyreg.__newobj__, (Rows,), state  # type: ignore[attr-defined]  # as pickle does


class Out:
    """Sends frames, small ones together."""

    def __init__(self, to: socket.socket) -> None:
        """Sends to `to`."""
        self._to, self._kept = to, bytearray()

    def send(self, kind: bytes, body: bytes | memoryview) -> None:
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


def receive(read: Callable[[int], bytes]) -> bytes | None:
    """The body of the next request; None at the end.

    Args:
        read: Reads at most so many bytes, and none at the end.
    """
    head = _exactly(read, HEAD_BYTES)
    return _exactly(read, _HEAD.unpack(head)[1]) if head else None


def _exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    parts = []
    while size:
        part = read(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class In:
    """Reads frames. Those that have come together are taken without waiting."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        """Reads from `reader`, from which nobody else may read."""
        self._reader, self._kept = reader, b""

    def ready(self) -> tuple[bytes, bytes] | None:
        """The next frame, if it has come whole."""
        kept = self._kept
        if len(kept) < HEAD_BYTES:
            return None
        kind, size = _HEAD.unpack_from(kept)
        end = HEAD_BYTES + size
        if len(kept) < end:
            return None
        self._kept = kept[end:]
        return kind, kept[HEAD_BYTES:end]

    async def next(self) -> tuple[bytes, bytes]:
        """The next frame. Raises IncompleteReadError at the end."""
        while (frame := self.ready()) is None:
            missing = HEAD_BYTES - len(self._kept)
            if missing <= 0:
                missing += _HEAD.unpack_from(self._kept)[1]
            if missing > TOGETHER_BYTES:  # nothing behind a large frame is waited for
                self._kept += await self._reader.readexactly(missing)
                continue
            data = await self._reader.read(TOGETHER_BYTES)
            if not data:
                raise asyncio.IncompleteReadError(self._kept, None)
            self._kept += data
        return frame
