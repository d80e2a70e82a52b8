"""Creates the archive of the classes that Spark loads, see `trilayer_core.runtime.class_archive`.

`python -m trilayer_local.class_archive` creates it, with the lowest priority.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType

from trilayer_core.errors import EnvironmentFault
from trilayer_core.runtime.class_archive import archive
from trilayer_core.runtime.file_lock import exclusive
from trilayer_core.runtime.progress import shown
from trilayer_core.runtime.settings import Settings, load_settings

RECORDING = "trilayer_local.class_recording"
"""The module that creates the archive, in a separate process."""

STEPS = ("starting Spark", "queries", "a stream", "a remote session", "writing the archive")
"""The steps of the process that creates the archive, as it prints them."""


def share(settings: Settings, *, echo: Callable[[str], None]) -> None:
    """Creates the archive if it does not exist, which takes half a minute.

    Raises:
        EnvironmentFault: It can't be created. The message has Spark's output.
    """
    path = archive(settings)
    if path.exists():
        return
    with exclusive(path.with_suffix(".lock")):
        if path.exists():
            return
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        try:
            with shown("Archiving Spark's classes", echo=echo) as reached:
                _make(unfinished, settings, reached)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def _make(unfinished: Path, settings: Settings, reached: Callable[[str], None]) -> None:
    """Creates the archive in a separate process, and reports its progress."""
    command = [sys.executable, "-P", "-m", RECORDING, str(unfinished)]
    steps = len(STEPS)
    with (
        TemporaryFile("w+", errors="replace") as errors,
        subprocess.Popen(
            command, env=os.environ | settings.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
        ) as making,
    ):  # fmt: skip
        try:
            assert making.stdout
            for line in making.stdout:
                if line.strip() in STEPS:
                    reached(f"{STEPS.index(line.strip()) + 1} of {steps}: {line.strip()}")
            status = making.wait()
        except BaseException:
            # Its JVM and the client that it starts belong to its process group.
            with suppress(ProcessLookupError):
                os.killpg(making.pid, signal.SIGKILL)
            raise
        errors.seek(0)
        output = errors.read()
    if status or not unfinished.exists():
        raise EnvironmentFault(
            f"Spark failed while building the class archive {unfinished}, with status {status};"
            f" `trilayer doctor` checks Java and memory; it said:\n{output[-2000:]}"
        )


def main() -> None:
    """Creates the archive beside other processes, which go first."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)  # so that what is unfinished is deleted

    signal.signal(signal.SIGTERM, end)
    os.nice(19)
    try:
        share(load_settings(), echo=print)
    except EnvironmentFault as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
