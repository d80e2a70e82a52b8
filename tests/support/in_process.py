"""Projects whose commands run in the process of the tests, with the tests' Spark session.

A command as a process costs two to six seconds of imports and JVMs; here it costs what it does.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project
from trilayer.cli.main import main
from trilayer_core.runtime import failpoints
from trilayer_core.runtime.session import batch_session
from trilayer_core.runtime.settings import Settings


class Killed(BaseException):
    """What a failpoint that kills raises here: nothing after it is done, and nobody handles it."""


class ProjectInProcess(Project):
    """A project whose `run` and `killed` start no process."""

    def __init__(
        self, folder: Path, servers: str, topic: str, spark: SparkSession, **settings: Any
    ):
        super().__init__(folder, servers, topic, **settings)
        self._spark = spark

    def run(
        self, *arguments: str, failpoint: str = "", expect: int = 0, timeout_s: float = 0
    ) -> tuple[str, str]:
        """(stdout, stderr) of a command that must end with the exit code `expect`."""
        with self._as_a_command(arguments, failpoint) as (out, err):
            try:
                main()
                code: Any = 0
            except SystemExit as ended:
                code = ended.code or 0
        said, told = out.buffer.getvalue().decode(), err.buffer.getvalue().decode()
        assert code == expect, (
            f"trilayer {' '.join(arguments)} ended with {code}, not {expect}:\n{said}\n{told}"
        )
        return said, told

    def killed(self, failpoint: str, *arguments: str) -> None:
        """Runs a command that must be killed at the failpoint."""
        with pytest.raises(Killed):
            self.run(*arguments, failpoint=failpoint)

    def _session(self, settings: Settings) -> SparkSession:
        """What a batch run computes with."""
        return batch_session(settings) if settings.spark_remote else self._spark

    @contextlib.contextmanager
    def _as_a_command(
        self, arguments: tuple[str, ...], failpoint: str
    ) -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
        """Has this process look as a command's own would: folder, arguments, what it says."""
        out, err = (
            io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)
        )
        signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        root = logging.getLogger()
        handlers, levels = (
            root.handlers,
            {
                logger: logger.level
                for name in ("", "trilayer", "kafka", "py4j", "pyspark")
                for logger in [logging.getLogger(name)]
            },
        )
        root.handlers = []  # the command puts its own there, and would close pytest's
        sys.modules.pop(self.module, None)
        importlib.invalidate_caches()
        try:
            with (
                contextlib.chdir(self.folder),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                Path(os.devnull).open() as nothing,
                patch.object(sys, "stdin", nothing),
                patch.object(sys, "argv", ["trilayer", *arguments]),
                # A catalog written twice in one second may have the size of the one before it.
                patch.object(sys, "dont_write_bytecode", True),
                patch.dict(os.environ, {failpoints.VARIABLE: failpoint} if failpoint else {}),
                patch.object(failpoints, "_reached", failpoints.Counter()),
                patch.object(failpoints, "_die", _killed),
                patch("batch_layer.engine.batch_session", self._session),
                patch("speed_layer.run.session", lambda *arguments, **more: self._spark),
                patch.object(type(self._spark), "stop", lambda session: None),
            ):
                yield out, err
        finally:
            root.handlers = handlers
            for number, handler in signals.items():
                signal.signal(number, handler)
            for logger, level in levels.items():
                logger.setLevel(level)


class ProjectOfBoth(ProjectInProcess):
    """A project whose commands are processes, with its `spark_remote`, if they are started or
    killed; those that are run need none, and have the tests' session.
    """

    def killed(self, failpoint: str, *arguments: str) -> None:
        """Starts a command that must be killed at the failpoint."""
        Project.run(self, *arguments, failpoint=failpoint, expect=-signal.SIGKILL)

    def _session(self, settings: Settings) -> SparkSession:
        return self._spark


def _killed() -> None:
    raise Killed
