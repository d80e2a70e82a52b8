"""One process at a time through a piece of work on disk.

The lock belongs to the open file, so it ends with the process that holds it, kill -9 included; the file itself stays.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trilayer.errors import ConflictError


@contextmanager
def exclusive(path: Path, *, once: str = "") -> Iterator[None]:
    """Hold the lock at `path`. Not re-entrant.

    Waits for another process or thread that holds it; with `once`, what to call the work, raises ConflictError
    instead, which says who holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if once else 0))
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            raise ConflictError(
                f"{once} must run once at a time; {holder} is at it; wait for it or end it"
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}")
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)
