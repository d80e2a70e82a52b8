"""The operator of trilayer's DAGs.

It runs the `trilayer` command and shows the result in Airflow.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import Asset, AssetAlias, BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
)

from trilayer.airflow.links import ConsoleLink, PublicationLink
from trilayer.airflow.notifications import HeldException, forget_causes
from trilayer.command_lines import trilayer_command, with_parent
from trilayer_core.errors import HeldError, OvertakenError, UsageError, did_you_mean
from trilayer_core.runtime.settings import load_settings
from trilayer_core.store.files import Store
from trilayer_core.store.pointer import PointerFile

FINAL = UsageError.exit_code
"""The exit code of a command that would fail again if it was repeated."""

OVERTAKEN = OvertakenError.exit_code
"""The exit code of a command whose work is no longer wanted.

Something newer has taken over, or a person holds the version in force.
"""

TOOK = r"the command took (\d+\.\d+) s"
"""The line in a task's log with the time of its command, which separates it from Airflow's own."""

DEFERRED_S = 5.0
"""A shorter wait of `cut` is spent in the task, in seconds: deferring it would take longer."""

LOG_LINE = re.compile(r"\S+ \S+ (?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \S+: (?P<message>.*)")


class TrilayerOperator(BaseOperator):
    """Runs `trilayer ARGUMENTS`.

    The command's JSON answer is the task's return value, and its log lines are the task's log.
    Numbers in the answer are also pushed as separate XComs, such as `version`, `rows` and
    `changed_keys`, and logged in one line.

    The task is skipped if there is nothing to do, because a publication covers T already, or if its
    work is no longer wanted: a rollback, a newer run or other definitions have taken over. It fails
    without a retry if a person holds the version in force, if the run was given an unknown
    parameter, or if the command was used incorrectly. It is retried after any other error. If the
    task is killed, so is the command.

    Attributes:
        arguments: Templates; arguments that are empty after rendering are left out.
        stream: Added as `--stream NAME`, for a task that is mapped over streams.
        sink: Added as `--sink NAME`, for a task that is mapped over sinks.
    """

    template_fields: Sequence[str] = ("arguments",)
    ui_color = "#dcefe6"
    operator_extra_links = (PublicationLink(), ConsoleLink())

    def __init__(
        self,
        *,
        arguments: Sequence[str],
        stream: str | None = None,
        sink: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.arguments = list(arguments)
        self.stream = stream
        self.sink = sink
        self.version: int | None = None
        self._process: subprocess.Popen[str] | None = None
        self._killed = False

    def execute(self, context: Mapping[str, Any]) -> Any:
        """Runs the command and shows its result."""
        check_parameters(context)
        answer = self._run()
        if isinstance(answer, dict):
            self.version = answer.get("version") or answer.get("covered_by")
        if isinstance(answer, dict) and "covered_by" in answer:
            self._skip(
                f"nothing to do: version {answer['covered_by']} in force, T={answer['t']}, covers"
                " this run's interval"
            )
        if isinstance(answer, dict) and "nothing" in answer:
            self._skip(f"nothing to report: {answer['nothing']}")
        numbers = numbers_of(answer)
        if numbers:
            self.log.info(
                "%s",
                "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in numbers.items()),
            )
        instance = context.get("ti")
        for name, value in numbers.items():
            if instance is not None:
                instance.xcom_push(key=name, value=value)
        return answer

    def on_kill(self) -> None:
        """Ends the command."""
        self._killed = True
        if self._process is not None:
            self._process.terminate()

    def _run(self) -> Any:
        arguments = [argument for argument in self.arguments if argument]
        if self.stream:
            arguments += ["--stream", self.stream]
        if self.sink:
            arguments += ["--sink", self.sink]
        self.log.info("trilayer %s", shlex.join(arguments))
        command = shlex.split(load_settings().batch.command) or trilayer_command()
        began = time.monotonic()
        tail: deque[str] = deque(maxlen=1)
        # The answer goes to a file. With a second pipe that is read after the first, the command
        # would block once the pipe is full.
        with tempfile.TemporaryFile("w+") as file:
            self._process = subprocess.Popen(
                with_parent([*command, *arguments]),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                text=True,
                # Without rich, an error's last line is its text and not the frame around it.
                env=os.environ | {"COLUMNS": "400", "NO_COLOR": "1", "TYPER_USE_RICH": "0"},
            )
            assert self._process.stderr
            try:
                for line in self._process.stderr:
                    if line.strip():
                        tail.append(line.strip())
                        self._report(line.rstrip())
                status = self._process.wait()
            except AirflowTaskTimeout:
                raise AirflowTaskTimeout(
                    f"trilayer {shlex.join(arguments)} took longer than {self.execution_timeout},"
                    " and was ended, which changes no answer; increase batch.task_timeout_s if it"
                    " needs more time"
                ) from None
            file.seek(0)
            answer = file.read()
        self.log.info("the command took %.2f s", time.monotonic() - began)
        if status == 0:
            return json.loads(answer)
        command_line = f"trilayer {shlex.join(arguments)}"
        if status < 0:
            raise AirflowException(f"{command_line} {self._ended_by(signal.Signals(-status))}")
        last = tail[0] if tail else "it wrote no message; run it in a terminal to see more"
        last = last.removeprefix("error: ").removeprefix("Error: ")
        if status == OVERTAKEN:
            self._fail_if_held()
            self._skip(last + ("; clear `cut` as well" if "--run" in arguments else ""))
        raise (AirflowFailException if status == FINAL else AirflowException)(
            f"{command_line} ended with {status}: {last}"
        )

    def _ended_by(self, number: signal.Signals) -> str:
        """Returns why a command that a signal has ended did so, and what to do."""
        if self._killed:
            return (
                "was stopped with the task, because that was marked or deleted in Airflow or its"
                " worker ended; this changes no answer; clear the task to run it again"
            )
        why = (
            "Linux does this if memory runs out (`dmesg` shows it), or a person did"
            if number == signal.SIGKILL
            else "a person or another program did this"
        )
        return (
            f"was ended by {number.name}: {why}; this changes no answer, and repeating the task"
            " is safe"
        )

    def _fail_if_held(self) -> None:
        """Ends the task as failed if a person holds the version in force, so that it is seen."""
        try:
            PointerFile(Store(load_settings().store)).check_not_held()
        except HeldError as error:
            raise HeldException(str(error)) from None

    def _skip(self, why: str) -> NoReturn:
        """Ends the task as skipped.

        The reason is also logged, because the page shows an exception's reason folded away.
        """
        self.log.info("skipped: %s", why)
        raise AirflowSkipException(why)

    def _report(self, line: str) -> None:
        """Logs a line of the command's log at its own level, without a second timestamp."""
        match = LOG_LINE.fullmatch(line)
        if match:
            self.log.log(logging.getLevelNamesMapping()[match["level"]], "%s", match["message"])
        elif not line.startswith("error: "):  # which the exception reports
            self.log.info("%s", line)


def check_parameters(context: Mapping[str, Any]) -> None:
    """Fails the task if its run was given a parameter that the DAG does not have.

    Airflow checks the values of parameters, and ignores unknown ones.
    """
    run, dag = context.get("dag_run"), context.get("dag")
    # OpenLineage adds its own to a run that another DAG triggers.
    if run is None or dag is None:
        return
    for name in {*(run.conf or {})} - {*dag.params, "openlineage"}:
        expected = f"one of {', '.join(dag.params)}" if dag.params else "left out: there are none"
        raise AirflowFailException(
            f"a parameter of {dag.dag_id} must be {expected}; got"
            f" {name!r}{did_you_mean(name, dag.params)}; nothing was changed; trigger a new run"
        )


class CutOperator(TrilayerOperator):
    """Runs the first step of a batch run. While T is not settled, the task waits in the triggerer.

    It then occupies no slot of a worker or of the pool.
    """

    def execute(self, context: Mapping[str, Any]) -> Any:
        """Waits until T is settled, and runs the command."""
        settle_s = load_settings().settle_s
        end: datetime | None = getattr(context.get("dag_run"), "data_interval_end", None)
        moment = (end or datetime.min.replace(tzinfo=UTC)) + timedelta(seconds=settle_s)
        # The command refuses a T that has not come yet.
        if DEFERRED_S < (moment - datetime.now(UTC)).total_seconds() <= settle_s:
            check_parameters(context)
            self.log.info("waiting until %s, when T=%s is settled", moment, end)
            self.defer(trigger=DateTimeTrigger(moment=moment), method_name="settled")
        return super().execute(context)

    def settled(self, context: Mapping[str, Any], event: object = None) -> Any:
        """Runs the command after the wait."""
        return super().execute(context)


NUMBERS = (
    "version",
    "t",
    "reason",
    "token",
    "cuts",
    "events",
    "quarantined",
    "lost",
    "kind",
    "kinds",
    "rows",
    "views",
    "changed_keys",
    "corrected_keys",
    "differing_keys",
)
"""The parts of a command's answer that become separate XComs, in this order.

For a publication, `views` becomes the rows of each view.
"""


def numbers_of(answer: Any) -> dict[str, Any]:
    """Returns the numbers in an answer, by name, each as a number or a short text.

    Airflow's pages show these without unfolding them.

    >>> views = {"by_user": 12, "hourly": 3}
    >>> numbers_of({"version": 7, "t": "2026-01-01T00:00:00Z", "views": views, "base": 6})
    {'version': 7, 't': '2026-01-01T00:00:00Z', 'rows': 'by_user 12, hourly 3'}

    The answer of the step `reconcile` has an entry for each view; their numbers of differing keys
    are added:

    >>> by_user = {"match": 10, "differ": 1, "missing": 0, "extra": 2}
    >>> numbers_of({"by_user": by_user, "hourly": {"not_compared": "no base"}})
    {'compared_keys': 'by_user 13', 'differing_keys': 3, 'not_compared': 'hourly'}
    """
    if not isinstance(answer, dict):
        return {}
    entries = list(answer.values())
    if isinstance(answer.get("views"), dict) and any(
        isinstance(v, dict) for v in answer["views"].values()
    ):
        return numbers_of(
            {k: answer[k] for k in NUMBERS if k != "views" and k in answer}
        ) | numbers_of(answer["views"])
    if entries and all(isinstance(entry, dict) for entry in entries):
        if all("match" in entry or "not_compared" in entry for entry in entries):
            return _of_reconciliation(answer)
        if all("events" in entry for entry in entries):
            return {
                f"{name}_of_each": _short({stream: entry[name] for stream, entry in answer.items()})
                for name in ("events", "quarantined")
            }
    return {
        "rows" if name == "views" else name: _short(answer[name])
        for name in NUMBERS
        if answer.get(name) is not None
    }


def _of_reconciliation(views: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    kinds = ("match", "differ", "missing", "extra")
    compared = {name: counts for name, counts in views.items() if "not_compared" not in counts}
    numbers: dict[str, Any] = {}
    if compared:
        keys = {
            name: sum(counts.get(kind, 0) for kind in kinds) for name, counts in compared.items()
        }
        numbers["compared_keys"] = _short(keys)
        numbers["differing_keys"] = sum(
            counts.get(kind, 0) for counts in compared.values() for kind in kinds[1:]
        )
    corrected = {name: counts["changed"] for name, counts in views.items() if counts.get("changed")}
    if corrected:
        numbers["corrected_keys"] = _short(corrected)
    if left := [name for name in views if name not in compared]:
        numbers["not_compared"] = ", ".join(left)
    return numbers


def _short(value: Any) -> Any:
    """Returns a value in a form that fits into one line of a page."""
    if not isinstance(value, dict):
        return value
    if all(str(name).isdigit() for name in value):  # the offsets of partitions
        return " ".join(f"{partition}:{offset}" for partition, offset in value.items())
    return ", ".join(f"{name} {_short(inner)}" for name, inner in value.items())


class PublishOperator(TrilayerOperator):
    """Runs a command that puts a publication in force.

    Each outlet, which is the Asset of a view, gets an event. An outlet that is an AssetAlias, as
    of a DAG that must not depend on the catalog, gets the event of each view that the answer
    names. The event's extra has version, t,
    reason (publish or rollback), rows, changed_keys (the number of keys touched by events since the
    previous publication) and corrected_keys (the number of keys in which a full recompute differs
    from what was published, else 0). After a rollback to a version from before a view was added,
    the last three are None in that view's event.
    """

    def execute(self, context: Mapping[str, Any]) -> Any:
        """Runs the command, and adds an event to each outlet."""
        answer = super().execute(context)
        forget_causes(load_settings())
        if answer["reason"] == "nothing new":
            self._skip(
                f"nothing new up to T={answer['looked_t'] or answer['t']}: version"
                f" {answer['version']}, T={answer['t']}, stays in force"
            )
        for outlet in self.outlets:
            events = context["outlet_events"][outlet]
            if isinstance(outlet, AssetAlias):
                for name in dict.fromkeys([*answer["views"], *(answer.get("unanswered") or ())]):
                    events.add(Asset(name), extra=_extra(answer, name))
            else:
                events.extra = _extra(answer, outlet.name)
        return answer


def _extra(answer: Mapping[str, Any], view: str) -> dict[str, Any]:
    """Returns the extra of the event of a view's Asset."""
    counts = {
        "rows": answer["views"],
        "changed_keys": answer["changed_keys"],
        "corrected_keys": answer["corrected_keys"],
    }
    return {name: answer[name] for name in ("version", "t", "reason")} | {
        name: of_views.get(view) for name, of_views in counts.items()
    }
