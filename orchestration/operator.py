"""The one operator of trilayer's DAGs: it runs the `trilayer` command that a person would, and shows in Airflow what that did."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from embedded.processes import trilayer_command, with_parent
from trilayer.errors import OvertakenError, UsageError
from trilayer.settings import load_settings

FINAL = (UsageError.exit_code, OvertakenError.exit_code)
"""Exit codes of a command that would fail again however often it is tried."""

TOOK = r"the command took (\d+\.\d+) s"
"""What the task's log says of each command, to tell its time from Airflow's."""

LOG_LINE = re.compile(r"\S+ \S+ (?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \S+: (?P<message>.*)")


class TrilayerOperator(BaseOperator):
    """Runs `trilayer ARGUMENTS`; its JSON answer is the task's returned value, its log lines are the task's log.

    arguments: templates; those that come out empty are left out. stream: added as `--stream NAME`, for a task that is mapped over streams.

    The task is skipped where the command says that a publication covers T already. It fails without a retry where the command was used
    wrong or a newer run has taken over, and is retried where something else was wrong. Killed, it takes the command with it.
    """

    template_fields: Sequence[str] = ("arguments",)
    ui_color = "#dcefe6"

    def __init__(self, *, arguments: Sequence[str], stream: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.arguments = list(arguments)
        self.stream = stream
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Mapping[str, Any]) -> Any:
        answer = self._run()
        if isinstance(answer, dict) and "covered_by" in answer:
            raise AirflowSkipException(
                f"nothing to do: version {answer['covered_by']} in force, T={answer['t']}, covers this run's interval"
            )
        return answer

    def on_kill(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def _run(self) -> Any:
        arguments = [argument for argument in self.arguments if argument]
        if self.stream:
            arguments += ["--stream", self.stream]
        self.log.info("trilayer %s", shlex.join(arguments))
        command = shlex.split(load_settings().batch_command) or trilayer_command()
        began = time.monotonic()
        tail: deque[str] = deque(maxlen=1)
        # The answer goes to a file: a second pipe, read after the first, would stop the command once it is full.
        with tempfile.TemporaryFile("w+") as file:
            self._process = subprocess.Popen(
                with_parent([*command, *arguments]),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"COLUMNS": "400", "NO_COLOR": "1"},
            )
            assert self._process.stderr
            for line in self._process.stderr:
                if line.strip():
                    tail.append(line.strip())
                    self._tell(line.rstrip())
            status = self._process.wait()
            file.seek(0)
            answer = file.read()
        self.log.info("the command took %.2f s", time.monotonic() - began)
        if status == 0:
            return json.loads(answer)
        last = tail[0].removeprefix("error: ") if tail else "it said nothing"
        said = f"trilayer {shlex.join(arguments)} ended with {status}: {last}"
        raise (AirflowFailException if status in FINAL else AirflowException)(said)

    def _tell(self, line: str) -> None:
        """A line of the command's log, at its own level and without a second time."""
        match = LOG_LINE.fullmatch(line)
        if match:
            self.log.log(logging.getLevelNamesMapping()[match["level"]], "%s", match["message"])
        elif not line.startswith("error: "):  # that is the exception's to say, once
            self.log.info("%s", line)


class PublishOperator(TrilayerOperator):
    """A command that puts a publication in force: each of its outlets, which are the views' assets, gets an event that says what it now is.

    The event's extra: version, t, reason (publish or rollback), rows, changed_keys (touched by events since the publication before),
    corrected_keys (in which a full recompute differs from what was published, else 0).
    """

    def execute(self, context: Mapping[str, Any]) -> Any:
        answer = super().execute(context)
        for asset in self.outlets:
            context["outlet_events"][asset].extra = {
                "version": answer["version"],
                "t": answer["t"],
                "reason": answer["reason"],
                "rows": answer["views"][asset.name],
                "changed_keys": answer["changed_keys"][asset.name],
                "corrected_keys": answer["corrected_keys"][asset.name],
            }
        return answer
