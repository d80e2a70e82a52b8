"""Named points at which a process can be made to die, to fail or to dawdle.

For tests in real processes.

Armed by TRILAYER_FAILPOINT:

- `NAME` or `NAME:N`: the process dies as if by kill -9, the Nth time that it reaches NAME.
- `NAME:error:N`: every Nth time an input/output error (EIO) is raised, as a broken disk would.
- `NAME:slow:N`: every Nth time the process waits for a second, as on an overloaded disk.

Costs a dictionary look-up when not armed.
"""

import errno
import os
import signal
import threading
from collections import Counter

VARIABLE = "TRILAYER_FAILPOINT"
FAILPOINTS = (
    "ingest.before-write",
    "ingest.before-manifest",
    "ingest.after-manifest",
    "recompute.before-write",
    "recompute.before-record",
    "recompute.after-record",
    "reconcile.before-record",
    "publish.before-version",
    "publish.in-version",
    "publish.before-pointer",
    "publish.in-pointer",
    "publish.after-pointer",
    "publish.before-clean",
    "clean.in-versions",
    "clean.before-files",
    "clean.between-files",
    "rollback.before-pointer",
    "rollback.in-pointer",
    "rollback.after-pointer",
    "segment.before-write",
    "segment.before-commit",
    "segment.after-commit",
    "compaction.before-write",
    "compaction.before-commit",
    "compaction.before-delete",
    "refresh.before-load",
    "refresh.before-commit",
    "refresh.after-commit",
    "quarantine.before-send",
    "quarantine.after-send",
    "quarantine.after-marker",
    "store.read",
    "store.write",
)

SLOW_S = 1.0
"""How long a slow failpoint waits."""

_reached: Counter[str] = Counter()


def failpoint(name: str, file: str = "") -> None:
    """Does here what is armed for `name`, and nothing if it is not.

    Args:
        name: one of FAILPOINTS.
        file: the file that is being worked on, which an error raised here names.

    Raises:
        OSError: the failpoint is armed with `error` and due.
    """
    armed = os.environ.get(VARIABLE)
    if not armed:
        return
    assert name in FAILPOINTS, f"{name} must be listed in FAILPOINTS"
    wanted, *action = armed.split(":")
    if name != wanted:
        return
    _reached[name] += 1
    if action and action[0] in ("error", "slow"):
        if _reached[name] % int(action[1] if len(action) > 1 else 1):
            return
        if action[0] == "error":
            raise OSError(errno.EIO, f"{os.strerror(errno.EIO)} (failpoint {name})", file or None)
        threading.Event().wait(SLOW_S)
    elif _reached[name] == int(action[0] if action else 1):
        os.kill(os.getpid(), signal.SIGKILL)
