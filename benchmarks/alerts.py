"""Alerts: the time from the creation of an event until another process has read its alert.

The process that judges is the real one, `trilayer alerts run`. Each event raises an alert. All
alerts are compared with what the log of the stream demands: which events there are, and which came
before them. `python -m benchmarks alerts last-two kill` runs only some of the parts.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil

from benchmarks.alerts_flink import Unavailable, install
from benchmarks.alerts_load import (
    CARDS,
    CATALOGS,
    LAST,
    OUTPUT,
    RATE,
    STREAM,
    WITH_PROFILE,
    Outcome,
    burst,
    evaluate,
    producing,
    reading,
)
from benchmarks.figure import Figure, Options, ratios, say
from benchmarks.workload import PROJECT, broker, home
from trilayer_core.log.broker import Log
from trilayer_core.runtime.settings import Settings
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGeneration, alert_generations
from trilayer_core.store.files import Store
from trilayer_local import processes

WARM_UP_S, STEADY_S, MOST_WARM_UP_S = 30.0, 10.0, 150.0
STEADY_LAG_S = 0.05
"""A run is warm if the alerts have lagged by less for `STEADY_S`."""

WINDOW_S = 10.0
"""For how long each line of progress counts, in seconds."""

BURST, KILLED_BURST, MANY = 100_000, 20_000, 1_000_000
BOUNDARY_S, AROUND_S = 20, 10.0
"""The length of a real-time batch if its end is what is measured, and how far around the end is
looked, in seconds.
"""

SWAP_RATE = 500.0
"""Events per second while a batch run shares the processors with everything else."""

QUIET_S = 8.0
"""After this time without an alert no more is expected, in seconds."""

Alone = Callable[[Options], Sequence[Figure]]


@dataclass(frozen=True)
class Engine:
    """The process that judges, while it runs.

    Attributes:
        process: The process.
        home: The folder of its project.
    """

    process: processes.Process
    home: Path

    def cpu_s(self) -> float:
        """The processor time that it has used, in seconds."""
        return sum(sum(one.cpu_times()[:2]) for one in self.family())

    def family(self) -> list[psutil.Process]:
        """The process and its descendants, among which is the JVM."""
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        return []

    def rss_mib(self) -> float:
        """The resident memory of all of it."""
        return sum(one.memory_info().rss for one in self.family()) / 2**20

    def check(self) -> None:
        """Checks that it runs."""
        if processes.exit_status(self.process) is not None:
            raise AssertionError(processes.log_tail(self.process))


@contextmanager
def project(catalog: str, shorter: Mapping[str, object] = {}, **changed: int) -> Iterator[Settings]:
    """Yields a project with its own broker, in which the topics exist.

    Args:
        catalog: The catalog of `alerts_load`.
        shorter: Settings of shorter times.
        **changed: Settings of the group `alerts`.
    """
    named = {"catalog": f"benchmarks.alerts_load:{catalog}"}
    with home() as folder, broker(folder) as shared:
        alerts = shared.alerts.model_copy(update=changed)
        settings = shared.model_copy(update={**named, **shorter, "alerts": alerts})
        with Log(settings.bootstrap_servers) as log:
            for stream in CATALOGS[catalog].streams:
                log.ensure(stream)
            log.ensure_alerts(OUTPUT, STREAM.partitions)
        yield settings


def trilayer(settings: Settings, ready: Path) -> list[str]:
    """The command that judges."""
    return [sys.executable, "-m", "trilayer.cli", "alerts", "run", "--ready-file", str(ready)]


def flink(settings: Settings, ready: Path) -> list[str]:
    """The command that runs the same in Flink."""
    arguments = [str(_flink_folder(settings)), settings.bootstrap_servers, str(ready)]
    return [sys.executable, "-m", "benchmarks.alerts_flink", *arguments]


def _flink_folder(settings: Settings) -> Path:
    return settings.jars / "flink"


Command = Callable[[Settings, Path], list[str]]


def start(settings: Settings, command: Command = trilayer) -> Engine:
    """Starts the process that judges, and returns when it is ready."""
    ready = settings.home / "alerts.ready"
    ready.unlink(missing_ok=True)
    begun = time.monotonic()
    process = processes.start(
        "alerts",
        command(settings, ready),
        home=settings.home,
        env=settings.environment(),
        cwd=PROJECT,
    )
    engine = Engine(process, settings.home)
    wait_until(ready.exists, engine)
    say(f"ready after {time.monotonic() - begun:.1f} s, load {os.getloadavg()[0]:.1f}")
    return engine


@contextmanager
def judging(settings: Settings, command: Command = trilayer) -> Iterator[Engine]:
    """Runs the process that judges, and ends it afterwards."""
    engine = start(settings, command)
    try:
        yield engine
    finally:
        processes.terminate(engine.process, home=engine.home)


def wait_until(done: Callable[[], bool], engine: Engine, timeout_s: float = 600) -> None:
    """Waits until something has happened, while the engine runs."""
    until = time.monotonic() + timeout_s
    while not done():
        engine.check()
        if time.monotonic() > until:
            raise AssertionError(processes.log_tail(engine.process))
        time.sleep(0.05)


def wait_for_quiet(received: Callable[[], int], engine: Engine) -> None:
    """Waits until no more alerts come."""
    number, since = received(), time.monotonic()

    def quiet() -> bool:
        nonlocal number, since
        if (now := received()) != number:
            number, since = now, time.monotonic()
        return time.monotonic() - since > QUIET_S

    wait_until(quiet, engine)


def warm_up(lag: Callable[[], int], rate: float, engine: Engine) -> None:
    """Waits until alerts have followed their events closely for a while."""
    begun = steady = time.monotonic()
    while (now := time.monotonic()) - begun < MOST_WARM_UP_S:
        engine.check()
        if lag() > STEADY_LAG_S * rate:
            steady = now
        if now - begun >= WARM_UP_S and now - steady >= STEADY_S:
            break
        time.sleep(0.1)
    say(f"warm after {time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f}")


# -- a steady load ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A run at a steady rate.

    Attributes:
        outcome: What has become of all events, also of those of the warm-up.
        delays_ms: The delays of the events of the measured time, without those around the end of a
            real-time batch.
        pauses_s: The longest time without an alert around the end of each real-time batch.
    """

    outcome: Outcome
    delays_ms: np.ndarray
    pauses_s: Sequence[float]

    def at(self, percent: float) -> float:
        """A percentile of the delays, in ms."""
        return float(np.percentile(self.delays_ms, percent))


def measured(settings: Settings, last: int, for_s: float, command: Command = trilayer) -> Measured:
    """Measures the delays at a steady rate."""
    servers, noted = settings.bootstrap_servers, settings.home / "noted"
    with judging(settings, command) as engine, reading(servers, OUTPUT, noted) as received:
        with producing(servers) as sent:
            warm_up(lambda: sent() - received(), RATE, engine)
            begun, cpu_s, events = time.time(), engine.cpu_s(), sent()
            time.sleep(for_s)
            ended, cores, events = time.time(), (engine.cpu_s() - cpu_s) / for_s, sent() - events
            engine.check()
        wait_until(lambda: received() >= sent(), engine)
        memory_mib = engine.rss_mib()
    outcome = evaluate(servers, noted, last)
    outcome.check()
    for window in np.arange(begun, ended - WINDOW_S / 2, WINDOW_S):
        delays = outcome.delays_ms(window * 1e6, (window + WINDOW_S) * 1e6)
        say(f"{window - begun:4.0f} s: {percentiles(delays)}")
    delays = outcome.delays_ms(begun * 1e6, ended * 1e6)
    ends = _ends(settings, begun, ended)
    pauses = _pauses(outcome, ends)
    pause_s = "".join(f", a pause of {pause:.2f} s" for pause in pauses)
    apart = _apart(outcome, [begun - AROUND_S, *ends, ended + AROUND_S])
    say(
        f"{len(delays):,} events at {events / for_s:.0f} a second: {percentiles(delays)}{pause_s};"
        f" {cores:.2f} cores, {memory_mib:,.0f} MiB, load {os.getloadavg()[0]:.1f}"
    )
    if len(apart) < len(delays):
        say(f"without {AROUND_S:.0f} s before and after the end of a batch: {percentiles(apart)}")
    return Measured(outcome, apart, pauses)


def percentiles(delays_ms: np.ndarray) -> str:
    """The p50, p99, p99.9 and the largest, as text."""
    if not len(delays_ms):
        return "no events"
    p50, p99, p999, most = np.percentile(delays_ms, [50, 99, 99.9, 100])
    return f"p50 {p50:.1f}, p99 {p99:.0f}, p99.9 {p999:.0f}, most {most:.0f} ms"


def _pauses(outcome: Outcome, ends: Sequence[float]) -> list[float]:
    """The longest time without an alert around the end of each batch, in seconds."""
    return [outcome.longest_gap_s((end - AROUND_S) * 1e6, (end + AROUND_S) * 1e6) for end in ends]


def _apart(outcome: Outcome, ends: Sequence[float]) -> np.ndarray:
    """The delays between the ends of batches, in ms, without those around each end.

    If batches end so often that nothing would be left, all of them.
    """
    parts = [
        outcome.delays_ms((end + AROUND_S) * 1e6, (following - AROUND_S) * 1e6)
        for end, following in pairwise(ends)
    ]
    left = np.concatenate(parts)
    return left if len(left) else outcome.delays_ms(ends[0] * 1e6, ends[-1] * 1e6)


def _ends(settings: Settings, begun: float, ended: float) -> list[float]:
    """When real-time batches ended in a period, in seconds since 1970."""
    commits = (settings.home / "store").glob(f"{layout.ALERTS}/groups/*/checkpoints/*/commits/*")
    times = sorted(path.stat().st_mtime for path in commits if path.name.isdigit())
    return [end for end in times if begun < end < ended]


def _stateless(options: Options) -> Sequence[Figure]:
    return _steady("stateless", "STATELESS", 0, options, 5, 40)


def _last_two(options: Options) -> Sequence[Figure]:
    return _steady("over the last 2 events", "LAST_TWO", LAST, options, 10, 60)


def _steady(
    name: str, catalog: str, last: int, options: Options, p50_ms: float, p99_ms: float
) -> Sequence[Figure]:
    runs = []
    for _ in range(options.repeats):
        with project(catalog) as settings:
            runs.append(measured(settings, last, options.measured_s))
    pauses = [pause for run in runs for pause in run.pauses_s]
    return [
        Figure(f"alerts, {name}, p50", "ms", [run.at(50) for run in runs], at_most=p50_ms),
        Figure(f"alerts, {name}, p99", "ms", [run.at(99) for run in runs], at_most=p99_ms),
        Figure(f"alerts, {name}, p99.9", "ms", [run.at(99.9) for run in runs]),
        *([Figure(f"alerts, {name}, pauses", "s", pauses, at_most=1)] if pauses else []),
    ]


def _short_batches(options: Options) -> Sequence[Figure]:
    """Real-time batches that end often."""
    with project("LAST_TWO", boundary_s=BOUNDARY_S) as settings:
        run = measured(settings, LAST, max(options.measured_s, 3 * BOUNDARY_S))
    return [Figure("alerts, pauses at the end of batches", "s", run.pauses_s, at_most=1)]


def _beside_flink(options: Options) -> Sequence[Figure]:
    """Both engines one after the other, each with a broker of its own."""
    ours, theirs = [], []
    for _ in range(options.repeats):
        with project("LAST_TWO") as settings:
            try:
                install(_flink_folder(settings))
            except Unavailable as error:
                say(f"LEFT OUT, the comparison with Flink: {error}")
                return []
            theirs.append(measured(settings, LAST, options.measured_s, flink))
        with project("LAST_TWO") as settings:
            ours.append(measured(settings, LAST, options.measured_s))
    return [
        Figure("Flink SQL, over the last 2 events, p50", "ms", [run.at(50) for run in theirs]),
        Figure("Flink SQL, over the last 2 events, p99", "ms", [run.at(99) for run in theirs]),
        *(
            Figure(
                f"alerts / Flink SQL, p{percent}", "",
                ratios([run.at(percent) for run in ours], [run.at(percent) for run in theirs]),
                at_most=at_most,
            )
            for percent, at_most in ((50, 1.5), (99, 1))
        ),
    ]  # fmt: skip


# -- bursts ----------------------------------------------------------------------------------------


@contextmanager
def _bursting(settings: Settings, events: int, cards: int) -> Iterator[None]:
    """Another process sends a burst meanwhile, all of which was sent at the end."""
    spawn = multiprocessing.get_context("spawn")
    arguments = (settings.bootstrap_servers, events, cards)
    sender = spawn.Process(target=burst, args=arguments)
    sender.start()
    try:
        yield
        sender.join()
        if sender.exitcode:
            raise AssertionError(
                f"the burst must be sent; its process ended with {sender.exitcode}"
            )
    finally:
        if sender.is_alive():
            sender.kill()


def _burst(options: Options) -> Sequence[Figure]:
    """A burst into a warm query."""
    events = options.events(BURST)
    with project("LAST_TWO") as settings:
        servers, noted = settings.bootstrap_servers, settings.home / "noted"
        with judging(settings) as engine, reading(servers, OUTPUT, noted) as received:
            with producing(servers) as sent:
                warm_up(lambda: sent() - received(), RATE, engine)
            steady = sent()
            wait_until(lambda: received() >= steady, engine)
            begun = time.time()
            with _bursting(settings, events, CARDS):
                wait_until(lambda: received() >= steady + events, engine)
            wait_for_quiet(received, engine)
        outcome = evaluate(servers, noted, LAST)
    outcome.check()
    of_burst = outcome.created_us >= begun * 1e6
    created, seen = outcome.created_us[of_burst], outcome.seen_us[of_burst]
    sent_s, seen_s = (float(np.ptp(times)) / 1e6 for times in (created, seen))
    say(f"{events:,} events sent in {sent_s:.1f} s, alerts read in {seen_s:.1f} s, none missed")
    return [
        Figure("alerts, a burst, sent", "events/s", [events / sent_s]),
        Figure("alerts, a burst, from the last event to the last alert", "s",
               [float(seen.max() - created.max()) / 1e6]),
    ]  # fmt: skip


def _kill(options: Options) -> Sequence[Figure]:
    """The process and its JVM are killed in a burst, and started again."""
    back = [_killed(options.events(KILLED_BURST)) for _ in range(options.repeats)]
    return [Figure("alerts again after kill -9", "s", back, at_most=30)]


def _killed(events: int) -> float:
    """The time until an event that had no alert before the kill has one, in seconds."""
    with project("LAST_TWO") as settings:
        servers, noted = settings.bootstrap_servers, settings.home / "noted"
        with reading(servers, OUTPUT, noted) as received:
            engine = start(settings)
            try:
                with producing(servers) as sent:
                    warm_up(lambda: sent() - received(), RATE, engine)
                    with _bursting(settings, events, CARDS):
                        before = received()
                        wait_until(lambda: received() > before + events // 10, engine)
                        killed = time.time()
                        for one in engine.family():
                            one.kill()
                        processes.terminate(engine.process, home=settings.home)
                        engine = start(settings)
                    time.sleep(WINDOW_S)
                wait_for_quiet(received, engine)
            finally:
                processes.terminate(engine.process, home=settings.home)
        outcome = evaluate(servers, noted, LAST)
    outcome.check(repeats=True)
    back_s = outcome.longest_gap_s(killed * 1e6, float("inf"))
    say(
        f"killed in a burst of {events:,}: alerts again after {back_s:.1f} s, none of"
        f" {outcome.events:,} missed, {outcome.repeated:,} repeated"
    )
    return back_s


# -- a million keys --------------------------------------------------------------------------------


def _memory(options: Options) -> Sequence[Figure]:
    """A million keys in the state."""
    keys = options.events(MANY)
    with project("LAST_TWO", memory_mb=1024) as settings:
        servers, noted = settings.bootstrap_servers, settings.home / "noted"
        with judging(settings) as engine, reading(servers, OUTPUT, noted) as received:
            sizes = [engine.rss_mib()]

            def all_came() -> bool:
                sizes.append(engine.rss_mib())
                return received() >= keys

            with _bursting(settings, keys, keys):
                wait_until(all_came, engine)
            with producing(servers, cards=keys) as sent:
                warm_up(lambda: keys + sent() - received(), RATE, engine)
                sizes.append(engine.rss_mib())
            wait_for_quiet(received, engine)
        outcome = evaluate(servers, noted, LAST)
    outcome.check()
    newest = outcome.created_us.max() - 1e6 * STEADY_S
    say(f"{keys:,} keys: {percentiles(outcome.delays_ms(newest))}")
    return [Figure("alerts, memory with a million keys", "GiB", [max(sizes) / 1024], at_most=2)]


def _swap(options: Options) -> Sequence[Figure]:
    """A batch run publishes another profile of a million keys."""
    keys = options.events(MANY)
    shorter = {"tick_s": 1, "settle_s": 0.2}
    changed = {"boundary_s": 2 * BOUNDARY_S, "memory_mb": 1536}
    with project("WITH_PROFILE", shorter, **changed) as settings:
        servers, noted = settings.bootstrap_servers, settings.home / "noted"
        with _bursting(settings, keys, keys):
            pass
        _run_batch(settings)
        with judging(settings) as engine, reading(servers, OUTPUT, noted) as received:
            with producing(servers, SWAP_RATE, keys) as sent:
                warm_up(lambda: sent() - received(), SWAP_RATE, engine)
                begun = time.time()
                time.sleep(max(options.measured_s, 4 * BOUNDARY_S))
                # Another generation's files replace those that say so.
                ends = _ends(settings, begun, time.time())
                size_mib = engine.rss_mib()
                _run_batch(settings)
                wait_until(lambda: len(_generations(settings)) > 1, engine)
                time.sleep(2 * BOUNDARY_S)
                size_mib = max(size_mib, engine.rss_mib())
            wait_for_quiet(received, engine)
        first, second = _generations(settings)[:2]
        outcome = evaluate(servers, noted, LAST, first.alert_from)
    pauses = _pauses(outcome, ends)
    say(f"alerts by version: {dict(outcome.versions)}; changed: {outcome.changed}")
    # Alerts sent between the end of the batch and that of the query are judged again.
    outcome.check(repeats=True, changes=True)
    swapped = second.created_ms * 1000.0
    gap_s = outcome.longest_gap_s(swapped - AROUND_S * 1e6, swapped + 6 * AROUND_S * 1e6)
    return [
        Figure("alerts, pauses with a profile of a million keys", "s", pauses, at_most=2),
        Figure("alerts, a swap of the profile", "s", [gap_s], at_most=5),
        Figure("alerts, memory with a profile of a million keys", "GiB", [size_mib / 1024],
               at_most=3),
    ]  # fmt: skip


def _run_batch(settings: Settings) -> None:
    command = [sys.executable, "-m", "trilayer.cli", "batch", "run"]
    environment = os.environ | settings.environment()
    ended = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)
    if ended.returncode:
        raise AssertionError(f"the batch run must end well; it said:\n{ended.stderr[-3000:]}")


def _generations(settings: Settings) -> list[AlertGeneration]:
    (group,) = WITH_PROFILE.alert_groups
    return alert_generations(Store(settings.store), group.name)


PARTS: Mapping[str, Alone] = {
    "stateless": _stateless,
    "last-two": _last_two,
    "pauses": _short_batches,
    "burst": _burst,
    "kill": _kill,
    "swap": _swap,
    "memory": _memory,
    "flink": _beside_flink,
}


def measure(options: Options) -> Sequence[Figure]:
    """The figures of the parts that were asked for, by default of all."""
    figures: list[Figure] = []
    for name, part in PARTS.items():
        if not options.parts or name in options.parts:
            say(f"{name}: load {os.getloadavg()[0]:.1f}")
            figures += part(options)
    return figures
