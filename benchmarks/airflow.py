"""The cost of Airflow.

Measured are the start-up of the whole stack, Airflow's idle memory and processor time, and its
overhead in a scheduled run of the demo catalog. The commands of a run log how long they took; the
rest of the run's wall time is Airflow's.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.figure import Figure, Options, say, seconds
from benchmarks.workload import JARS, PROJECT, home
from examples.flights.__main__ import prepare
from trilayer.airflow.operator import TOOK
from trilayer_local import airflow, processes

EVENTS = 100_000
IDLE_S = 15.0
SETTINGS = """
tick_s = 5
batch.every_s = 60
[spark_conf]
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    number = options.events(EVENTS)
    with home() as folder:
        (folder / "trilayer.toml").write_text(SETTINGS)
        total = prepare(folder / "flights.parquet")
        environment = os.environ | {"TRILAYER_JARS": str(JARS), "PYTHONPATH": str(PROJECT)}
        with (folder / "up.log").open("wb") as log:
            up = subprocess.Popen(
                [sys.executable, "-m", "trilayer.cli", "up"],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
            )
            try:
                return _measure(folder, up, environment, number, total, options.repeats)
            finally:
                up.send_signal(signal.SIGTERM)
                up.wait(timeout=90)


def _measure(
    folder: Path,
    up: subprocess.Popen[bytes],
    environment: dict[str, str],
    number: int,
    total: int,
    repeats: int,
) -> list[Figure]:
    def announced() -> bool:
        if up.poll() is not None:
            raise AssertionError(
                f"`trilayer up` must run; it ended:\n{(folder / 'up.log').read_text()}"
            )
        return "Ctrl-C ends it" in (folder / "up.log").read_text()

    start_s = seconds(lambda: _until(announced))
    running = airflow.running(folder / ".trilayer")
    assert running
    walls: list[float] = []
    own: list[float] = []
    memory: list[float] = []
    cpu: list[float] = []
    with running.client() as api:
        sent = 0
        while len(walls) < repeats:
            _until(lambda: not airflow.runs(api, "lambda_batch", "running", "queued"))
            if len(memory) < repeats:
                memory.append(_memory_gib(folder))
                cpu.append(_busy_percent(folder))
            if sent + number > total:
                sent = 0
            command = [
                "replay",
                "flights.parquet",
                "--stream",
                "flights",
                "--skip",
                str(sent),
                "--limit",
                str(number),
            ]
            subprocess.run(
                [sys.executable, "-m", "trilayer.cli", *command],
                cwd=folder,
                env=environment,
                check=True,
                capture_output=True,
            )
            sent += number
            before = len(_ended(api))
            _until(lambda before=before: len(_ended(api)) > before)  # type: ignore[misc]  # mypy can't type a lambda's default
            run = _ended(api)[-1]
            events, commands = _of(api, run["dag_run_id"])
            wall = run["duration"]
            say(f"{events:,} events: run {wall:.1f} s, commands {commands:.1f} s")
            if events >= number:
                walls.append(wall)
                own.append(wall - commands)
    return [
        Figure("start-up of the whole stack", "s", [start_s], at_most=60),
        Figure(f"lambda_batch of the demo catalog, {number:,} new events", "s", walls, at_most=25),
        Figure("of it Airflow's own", "s", own),
        Figure("Airflow idle, PSS of its processes", "GiB", memory),
        Figure("Airflow idle, processor time", "% of a core", cpu),
    ]


def _ended(api: httpx.Client) -> list[dict[str, Any]]:
    answer = api.get(
        "/dags/lambda_batch/dagRuns",
        params={"state": ["success", "failed"], "order_by": "run_after", "limit": 100},
    )
    runs: list[dict[str, Any]] = answer.json()["dag_runs"]
    if any(run["state"] == "failed" for run in runs):
        raise AssertionError(f"no run must fail; got {runs}")
    return runs


def _of(api: httpx.Client, run: str) -> tuple[int, float]:
    """The number of events that a run has ingested, and the seconds that its commands took."""
    tasks = f"/dags/lambda_batch/dagRuns/{run}/taskInstances"
    events = commands = 0.0
    for task in api.get(tasks).json()["task_instances"]:
        if task["state"] != "success":
            continue
        index = {"map_index": task["map_index"]}
        lines = api.get(
            f"{tasks}/{task['task_id']}/logs/{task['try_number']}", params=index
        ).json()["content"]
        commands += sum(float(match[1]) for line in lines for match in re.finditer(TOOK, str(line)))
        if task["task_id"] == "ingest":
            value = api.get(
                f"{tasks}/ingest/xcomEntries/return_value", params=index | {"deserialize": True}
            ).json()["value"]
            events += sum(stream["events"] for stream in value.values())
    return int(events), commands


def _processes(folder: Path) -> list[psutil.Process]:
    roots = [
        r.pid for r in processes.list_running(folder / ".trilayer") if r.name in airflow.PROCESSES
    ]
    return [
        p
        for pid in roots
        for p in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    ]


def _memory_gib(folder: Path) -> float:
    return sum(p.memory_full_info().pss for p in _processes(folder)) / 2**30


def _busy_percent(folder: Path) -> float:
    def used_s() -> float:
        total = 0.0
        for process in _processes(folder):
            with suppress(psutil.NoSuchProcess):
                total += process.cpu_times().user + process.cpu_times().system
        return total

    before = used_s()
    time.sleep(IDLE_S)
    return 100 * (used_s() - before) / IDLE_S


def _until(condition: Callable[[], bool], timeout_s: float = 300) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"it must come true within {timeout_s:g} s")
        time.sleep(0.1)
