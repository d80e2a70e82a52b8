"""Named points at which a process can be made to die as if by kill -9, for tests of recovery in real processes.

Armed by TRILAYER_FAILPOINT=NAME, or NAME:N to die the Nth time NAME is reached. Costs a dictionary look-up when not armed.
"""

import os
import signal
from collections import Counter

VARIABLE = "TRILAYER_FAILPOINT"
FAILPOINTS = (
    "ingest.before-write", "ingest.before-manifest", "ingest.after-manifest",
    "recompute.before-write", "recompute.before-record", "recompute.after-record",
    "reconcile.before-record",
    "publish.before-version", "publish.before-pointer", "publish.after-pointer", "publish.before-clean",
    "rollback.before-pointer", "rollback.after-pointer",
    "segment.before-write", "segment.before-commit", "segment.after-commit",
    "compaction.before-write", "compaction.before-commit", "compaction.before-delete",
    "refresh.before-load", "refresh.before-commit", "refresh.after-commit",
    "quarantine.before-send", "quarantine.after-send", "quarantine.after-marker",
)  # fmt: skip

_reached: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Kills this process if `name` is armed."""
    armed = os.environ.get(VARIABLE)
    if not armed:
        return
    assert name in FAILPOINTS, f"{name} must be listed in FAILPOINTS"
    wanted, _, nth = armed.partition(":")
    _reached[name] += 1
    if name == wanted and _reached[name] == int(nth or 1):
        os.kill(os.getpid(), signal.SIGKILL)
