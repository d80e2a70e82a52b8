"""An archive of the classes that Spark loads.

A session then starts, and plans its first query, in about half the time.

The JVM's own feature (JEP 350, dynamic class-data sharing). An archive that does not fit the JVM or
the jars is left aside by it without a word.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import pyspark

from trilayer_core.errors import EnvironmentFault
from trilayer_core.runtime.file_lock import exclusive
from trilayer_core.runtime.java import java_executable
from trilayer_core.runtime.progress import shown
from trilayer_core.runtime.settings import Settings

if TYPE_CHECKING:
    pass


RECORDING = "trilayer_core.runtime.class_recording"
"""The module that makes the archive, in a process of its own."""

STEPS = ("starting Spark", "queries", "a stream", "a remote session", "writing the archive")
"""What the process that makes the archive does, as its lines on stdout say."""


def archive(settings: Settings) -> Path:
    """Where the archive is for this Java, this pyspark, and what is done here to fill it."""
    work = files("trilayer_core.runtime").joinpath("class_recording.py").read_text()
    fits = (
        f"{Path(java_executable()).resolve()} {pyspark.__version__}"
        f" {Path(pyspark.__file__).parent} {work}"
    )
    return (
        settings.jars.resolve()
        / "spark"
        / f"classes-{hashlib.sha256(fits.encode()).hexdigest()[:12]}.jsa"
    )


def java_option(settings: Settings) -> str:
    """The JVM's option to use the archive, or nothing where none was made."""
    path = archive(settings)
    return f"-XX:SharedArchiveFile={path} -Xlog:cds*=off" if path.exists() else ""


def share(settings: Settings, *, echo: Callable[[str], None]) -> None:
    """Makes the archive, which takes half a minute, where there is none.

    Raises EnvironmentFault with what Spark said if it can't be made.
    """
    path = archive(settings)
    if path.exists():
        return
    with exclusive(path.with_suffix(".lock")):
        if path.exists():
            return
        echo(
            "An archive of the classes that Spark loads is made once for this user: sessions then"
            " start in half the time"
        )
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        with shown("Archiving Spark's classes", echo=echo) as reached:
            _make(unfinished, settings, reached)
        unfinished.replace(path)


def _make(unfinished: Path, settings: Settings, reached: Callable[[str], None]) -> None:
    """Has a process of its own make the archive, and tells `reached` how far that has come."""
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
            # Its JVM and the client that it starts are in its session.
            with suppress(ProcessLookupError):
                os.killpg(making.pid, signal.SIGKILL)
            raise
        errors.seek(0)
        said = errors.read()
    if status or not unfinished.exists():
        raise EnvironmentFault(
            f"Spark failed while building the class archive {unfinished}, with status {status};"
            f" `trilayer doctor` checks Java and memory; it said:\n{said[-2000:]}"
        )
