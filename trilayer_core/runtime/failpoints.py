"""Failpoints: named places at which a process can be made to die, fail or slow down, for tests.

The variable TRILAYER_FAILPOINT activates one of them:

- `NAME` or `NAME:N`: the process dies as if killed with SIGKILL, the Nth time that it reaches NAME.
- `NAME:error:N`: every Nth time an input/output error (EIO) is raised, as by a broken disk.
- `NAME:slow:N`: every Nth time the process waits for a second, as on an overloaded disk.

An inactive failpoint costs one dictionary look-up.
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
    "changelog.in-transaction",
    "changelog.after-commit",
    "collect.before-file",
    "collect.before-document",
    "collect.after-document",
    "collect.before-delete",
    "store.read",
    "store.write",
)

SLOW_S = 1.0
"""How long a slow failpoint waits."""

_reached: Counter[str] = Counter()


def failpoint(name: str, file: str = "") -> None:
    """Does what TRILAYER_FAILPOINT says for `name`, if anything.

    Args:
        name: One of FAILPOINTS.
        file: The file that is being worked on, which is named by an error raised here.

    Raises:
        OSError: The failpoint is active with `error`, and it is its turn.
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
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
