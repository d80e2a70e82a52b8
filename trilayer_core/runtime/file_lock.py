"""File locks, which let one process at a time do a piece of work.

A lock belongs to the open file, so it ends with the process that holds it, even if that is killed
with SIGKILL. The file itself remains.
"""

import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from trilayer_core.errors import ConflictError

logger = logging.getLogger("trilayer.lock")

RETRY_S = 0.01
"""The time in seconds between two attempts to take a lock."""

GRACE_S = 0.2
"""The minimum time to wait for a lock before work is refused.

It allows for `unless_held`, which takes a free lock for a moment.
"""

TELL_AFTER_S = 2.0
"""The time after which the log says who holds the lock that is being waited for."""


@contextmanager
def exclusive(path: Path, *, once: str = "", wait_s: float = 0.0) -> Iterator[None]:
    """Holds the lock at `path`. It is not re-entrant.

    Args:
        path: The lock's file, which is created if it does not exist.
        once: A name for the work that the lock protects. If it is empty, there is no limit to the
            wait.
        wait_s: With `once`, how long to wait for the lock.

    Raises:
        ConflictError: With `once`, another process or thread still has the lock after `wait_s`. The
            message says which.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # For appending, because opening it for writing would erase the name of the holder.
    with path.open("a+") as lock:
        # `flock`, because a lock of `lockf` ends once the process closes any handle of the file.
        if once:
            _take_within(lock, path, once, wait_s)
        else:
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}")
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


@contextmanager
def unless_held(path: Path) -> Iterator[bool]:
    """Takes the lock at `path` if it is free.

    Yields:
        True while the lock is held; False at once if another process or thread has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _take_within(lock: TextIO, path: Path, once: str, wait_s: float) -> None:
    began, reported = time.monotonic(), False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - began
        else:
            return
        if waited >= max(wait_s, GRACE_S):
            break
        if waited >= TELL_AFTER_S and not reported:
            reported = True
            logger.warning("%s waits for %s, which holds %s", once, _holder(lock), path)
        threading.Event().wait(RETRY_S)
    holder = _holder(lock)
    if not wait_s:
        raise ConflictError(
            f"{once} must run once at a time; {holder} is at it; wait for it or end it"
        )
    raise ConflictError(
        f"{once} needs {path}, which {holder} has held for more than {wait_s:g} s instead of a"
        " few milliseconds: the process may be suspended; continue it (kill -CONT PID) or end it,"
        " then run this again"
    )


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    return lock.read().strip() or "another process"
