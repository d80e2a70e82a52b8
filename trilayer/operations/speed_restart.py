"""Restarts the speed layer of a running `trilayer up`, through files below the project's home."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from trilayer_core.errors import EnvironmentFault, UsageError
from trilayer_core.project import Project
from trilayer_core.runtime.file_lock import unless_held
from trilayer_core.runtime.progress import shown

LOCK = "up.lock"
"""The file below `home` that is locked as long as a stack runs there."""

SPEED_AGAIN = "speed.again"
"""The file below `home` through which `trilayer speed restart` asks `trilayer up` for a restart."""

SPEED_READY = "speed.ready"
"""The file below `home` that the speed layer writes once its queries run."""

SPEED_ENDED = "speed.ended"
"""The file below `home` with the end of the log of a speed layer that ended while it started."""


def restart_speed(p: Project) -> None:
    """Makes the stack that runs in the project's home restart its speed layer.

    Returns when the speed layer runs with the definitions in the project's files.

    Raises:
        UsageError: No stack is running.
        EnvironmentFault: The speed layer ended while it started, or the stack ended.
    """
    home = p.settings.home.resolve()
    with unless_held(home / LOCK) as free:
        if free:
            raise UsageError(
                f"`trilayer up` must run in {Path.cwd()}, for its speed layer to be started again;"
                " it does not; run `trilayer up`, or end and start `trilayer speed run` where"
                " that runs"
            )
    again, ready, ended = home / SPEED_AGAIN, home / SPEED_READY, home / SPEED_ENDED
    again.touch()
    pause = threading.Event()
    with shown("Starting the speed layer again", echo=logging.getLogger("trilayer.speed").info):
        while again.exists() or not ready.exists():
            if not again.exists() and ended.exists():
                raise EnvironmentFault(
                    f"the speed layer ended while it started; the end of {ended.read_text()}"
                )
            with unless_held(home / LOCK) as free:
                if free:
                    raise EnvironmentFault("`trilayer up` ended meanwhile; run it again")
            pause.wait(0.2)
