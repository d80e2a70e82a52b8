"""One process at a time through a piece of work on disk.

The lock belongs to the open file, so it ends with the process that holds it, kill -9 included; the file itself stays.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, waiting for another process or thread that holds it. Not re-entrant."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
