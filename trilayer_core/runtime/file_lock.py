"""One process at a time through a piece of work on disk.

The lock belongs to the open file, so it ends with the process that holds it, kill -9 included; the
file itself stays.
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

LOOK_AGAIN_S = 0.01
"""How often a bounded wait tries for the lock."""

GRACE_S = 0.2
"""How long a lock is waited for at least before work is refused: `unless_held` takes one for a
moment, to see that it is free."""

TELL_AFTER_S = 2.0
"""After how long a bounded wait says in the log whom it waits for."""


@contextmanager
def exclusive(path: Path, *, once: str = "", wait_s: float = 0.0) -> Iterator[None]:
    """Holds the lock at `path`. Not re-entrant.

    Args:
        path: The lock's file, which is made where it is not there.
        once: What to call the work that the lock is for. Without it, the lock is waited for without
            end.
        wait_s: With `once`, for how long the lock is waited for.

    Raises:
        ConflictError: With `once`, another process or thread has the lock, and still has it after
            `wait_s`; says who.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
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
    """Gives True and holds the lock at `path`.

    Gives False at once if another process or thread holds it.
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
    began, told = time.monotonic(), False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - began
        else:
            return
        if waited >= max(wait_s, GRACE_S):
            break
        if waited >= TELL_AFTER_S and not told:
            told = True
            logger.warning("%s waits for %s, which holds %s", once, _holder(lock), path)
        threading.Event().wait(LOOK_AGAIN_S)
    holder = _holder(lock)
    if not wait_s:
        raise ConflictError(
            f"{once} must run once at a time; {holder} is at it; wait for it or end it"
        )
    raise ConflictError(
        f"{once} needs {path}, which {holder} has held for more than {wait_s:g} s, though that"
        " takes milliseconds: the process may be stopped; continue it (kill -CONT PID) or end it,"
        " then run this again"
    )


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    return lock.read().strip() or "another process"
