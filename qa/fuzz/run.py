"""Servers under attack, their well-behaved clients, and the verdict.

Two `trilayer serve` answer from one filled store: one that knows no users, and one with a password
and encryption. Nothing is changed in them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg

import serving_layer
from benchmarks.written import Written
from qa.fuzz import recordings
from qa.fuzz.attacks import Attacker, Seen, Target
from tests.support.certificates import write_certificate
from tests.support.console import BY_MINUTE, MINUTE_MS, sold
from tests.support.places import PROJECT
from tests.support.waiting import until
from trilayer import Catalog
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server.engine import loader
from trilayer_server.serving import USERS
from trilayer_server.users import Users

CANARY = "canary-4b1f0e77"
"""In a file beside the store and in the server's environment; it may be in no reply."""

GOOD_USER, USER, PASSWORD = "good", "fuzz", "pencil"
"""The well-behaved user, and the one as which attackers log in; both have the same password."""

ELSEWHERE = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
"""Where attackers of the open server come from: there a client is its address. Only Linux has more
than one address for this machine; elsewhere the well-behaved clients share the attackers' places.
"""

ATTACKERS = 8
WORKERS = 16
MEMORY_MB = 512
TIMEOUT_S = 10

GOOD = "SELECT buyer, sum(revenue)::BIGINT AS r, count(*) AS n FROM by_minute GROUP BY 1 ORDER BY 1"
"""What the well-behaved clients ask."""

MOST_UNANSWERED_S = 30.0
"""How long a well-behaved client may be without an answer. It waits for no place, since attackers
are other clients, but for processors, which they keep busy, and for new workers while theirs are
replaced. On two processors that had other work as well, it was 10 s.
"""

SERVER_MIB = 256
"""How much more memory the server's process may take than at the start: half a MiB for each of 500
clients, which is what a message, its answer on the way, and what the socket has not taken need.
"""

LOADER_MIB = 64
"""How much more the loader may take: nothing that clients send reaches it."""

_TROUBLE = re.compile(r"Traceback|internal error|unexpectedly|never retrieved|has ended")


@dataclass
class Memory:
    """Resident memory in MiB: of the server, its loader, and its largest worker."""

    server: float
    loader: float
    worker: float
    workers: int


@dataclass
class Good:
    """What a well-behaved client has seen."""

    name: str
    answers: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    longest_s: float = 0.0


class Served:
    """A `trilayer serve`, and what is measured of it."""

    def __init__(self, name: str, folder: Path, store: Path, certificate: Path | None) -> None:
        self.name, self.folder, self._certificate = name, folder, certificate
        folder.mkdir()
        (folder / "canary.txt").write_text(CANARY)
        (folder / "definitions.py").write_text(
            "from tests.support.console import BY_MINUTE\nfrom trilayer import Catalog\n"
            "catalog = Catalog(views=[BY_MINUTE])\n"
        )
        tls = certificate and {
            "serve.certificate": str(certificate / "cert.pem"),
            "serve.key": str(certificate / "key.pem"),
        }
        settings = {
            "catalog": "definitions:catalog",
            "store": str(store),
            "home": str(folder / "home"),
            "serve.workers": WORKERS,
            "serve.memory_mb": MEMORY_MB,
            "serve.timeout_s": TIMEOUT_S,
            **(tls or {}),
        }
        (folder / "trilayer.toml").write_text(
            "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        )
        if certificate:
            for user in (GOOD_USER, USER):
                Users(folder / "home" / USERS).put(user, PASSWORD, "reader")

    @contextmanager
    def running(self) -> Iterator[Served]:
        """The server runs until the block is left; `wrong` says then how it has ended."""
        ready, self._log = self.folder / "ready.json", self.folder / "serve.log"
        path = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trilayer.cli", "serve", "--port", "0", "--http-port", "0",
                 "--ready-file", str(ready)],
                cwd=self.folder,
                env=os.environ | {"PYTHONPATH": path, "FUZZ_CANARY": CANARY},
                stdout=subprocess.DEVNULL,
                stderr=log,
            )  # fmt: skip
        try:
            until(lambda: ready.exists() or self.process.poll() is not None, timeout_s=60)
            assert ready.exists(), self._log.read_text()
            addresses = json.loads(ready.read_text())
            self.wire = int(addresses["psql"].split()[4])
            self.http = int(addresses["console"].rsplit(":", 1)[1].strip("/"))
            yield self
        finally:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def target(self) -> Target:
        """The server, for attackers."""
        if self._certificate:
            return Target(self.wire, self.http, "127.0.0.1", PASSWORD)
        return Target(self.wire, self.http, ELSEWHERE, None)

    def connect(self) -> psycopg.Connection[Any]:
        """A well-behaved client of PostgreSQL."""
        return psycopg.connect(
            host="127.0.0.1", port=self.wire, dbname="trilayer", user=GOOD_USER, password=PASSWORD,
            sslmode="require" if self._certificate else "disable", autocommit=True,
            connect_timeout=60,
        )  # fmt: skip

    def client(self) -> httpx.Client:
        """A well-behaved client of HTTP."""
        if self._certificate is None:
            return httpx.Client(
                base_url=f"http://localhost:{self.http}", trust_env=False, timeout=60
            )
        return httpx.Client(
            base_url=f"https://localhost:{self.http}", trust_env=False, timeout=60,
            auth=(GOOD_USER, PASSWORD),
            verify=ssl.create_default_context(cafile=self._certificate / "cert.pem"),
        )  # fmt: skip

    def memory(self) -> Memory:
        """The memory that its processes take now."""
        server = psutil.Process(self.process.pid)
        # Its other child compares answers with fresh ones.
        (process,) = (c for c in server.children() if loader.__name__ in c.cmdline())
        sizes = []
        for worker in process.children():
            with suppress(psutil.Error):
                if worker.status() != psutil.STATUS_ZOMBIE:
                    sizes.append(_mib(worker))
        return Memory(_mib(server), _mib(process), max(sizes, default=0.0), len(sizes))

    def has_verified(self) -> bool:
        """Whether it has compared an answer with a fresh one; the process for that stays."""
        with self.client() as client:
            return 'trilayer_reader_verified_total{result="match"}' in client.get("/metrics").text

    def held(self) -> tuple[int, int]:
        """The descriptors that it has open, without those of its workers, and its tasks."""
        with self.client() as client:
            metrics = client.get("/metrics").text
        tasks = re.search(r"^trilayer_tasks (\d+)", metrics, re.MULTILINE)
        workers = re.search(r"^trilayer_workers (\d+)", metrics, re.MULTILINE)
        assert tasks
        assert workers
        return psutil.Process(self.process.pid).num_fds() - 2 * int(workers[1]), int(tasks[1])

    def trouble(self) -> list[str]:
        """Lines of its log that none may have."""
        if self.process.poll() is not None:
            return [f"{self.name} has ended with {self.process.returncode}"]
        return [line for line in self._log.read_text().splitlines() if _TROUBLE.search(line)]


@dataclass
class Report:
    """What a run has seen.

    Attributes:
        seconds: How long it attacked.
        seen: What the attackers have seen.
        good: What the well-behaved clients have seen.
        start: The memory of each server before.
        most: The most memory of each.
        end: The memory of each afterwards.
        held: Descriptors and tasks of each, before and afterwards.
        wrong: What was not as promised.
    """

    seconds: float
    seen: Seen
    good: list[Good]
    start: dict[str, Memory]
    most: dict[str, Memory]
    end: dict[str, Memory]
    held: dict[str, tuple[tuple[int, int], tuple[int, int]]]
    wrong: list[str]

    def __str__(self) -> str:
        counts, faults = self.seen.counts, self.seen.faults
        lines = [
            f"{counts['connections']:,} connections in {self.seconds / 60:.1f} min:"
            f" {counts['wire']:,} conversations, {counts['http']:,} exchanges of HTTP,"
            f" {counts['aborted']:,} aborted answers, {counts['cancels']:,} requests to cancel;"
            f" {counts['bytes sent'] / 1e6:,.0f} MB sent, {counts['bytes received'] / 1e6:,.0f} MB"
            " received",
            "replies: " + ", ".join(f"{code} {n:,}" for code, n in faults.most_common()),
        ]
        lines += [
            f"{good.name}: {good.answers:,} answers right, {len(good.wrong)} wrong,"
            f" {good.refused.total()} refused, at most {good.longest_s:.1f} s without one"
            + "".join(f"; {text}: {n}" for text, n in good.errors.most_common(3))
            for good in self.good
        ]
        for name, before in self.start.items():
            most, after = self.most[name], self.end[name]
            (fds, tasks), (fds_after, tasks_after) = self.held[name]
            lines.append(
                f"{name}: MiB at start, at most, at end: server {before.server:.0f},"
                f" {most.server:.0f}, {after.server:.0f}; loader {before.loader:.0f},"
                f" {most.loader:.0f}, {after.loader:.0f}; largest worker {before.worker:.0f},"
                f" {most.worker:.0f}, {after.worker:.0f}; workers {before.workers},"
                f" {most.workers}, {after.workers}; descriptors {fds}, then {fds_after}; tasks"
                f" {tasks}, then {tasks_after}"
            )
        return "\n".join([*lines, *(f"NOT AS PROMISED: {text}" for text in self.wrong)])


def fuzz(
    folder: Path,
    seconds: float,
    seed: int,
    echo: Callable[[str], None] = lambda _: None,
    attackers: int = ATTACKERS,
) -> Report:
    """Attacks two servers for some seconds.

    Args:
        folder: Where the store and the servers' files are put.
        seconds: How long.
        seed: Determines what is sent.
        echo: Told how it goes, once a minute.
        attackers: How many attack at once.
    """
    store = folder / "store"
    _fill(Store(str(store)))
    certificate = folder / "tls"
    certificate.mkdir()
    write_certificate(certificate)
    expected = _answer(folder, store)
    stop, stop_attacks, seen = threading.Event(), threading.Event(), Seen()
    with ExitStack() as stack:
        servers = [
            stack.enter_context(Served(name, folder / name, store, where).running())
            for name, where in (("open", None), ("guarded", certificate))
        ]
        targets = [server.target() for server in servers]
        recorded = recordings.wire(targets[0].wire), recordings.http(targets[0].http)
        for target in targets:
            target.recorded_wire, target.recorded_http = recorded
        until(lambda: all(server.has_verified() for server in servers), timeout_s=60)
        good = []
        for server in servers:
            for ask, protocol in ((_ask_by_wire, "PostgreSQL"), (_ask_by_http, "HTTP")):
                client = Good(f"{server.name}, {protocol}")
                good.append(client)
                thread = threading.Thread(target=ask, args=(server, expected, client, stop))
                thread.start()
                stack.callback(thread.join)
        stack.callback(stop.set)
        stack.callback(stop_attacks.set)
        until(lambda: all(client.answers for client in good), timeout_s=60)
        start = {server.name: server.memory() for server in servers}
        held = {server.name: server.held() for server in servers}
        threads = [
            Attacker(f"{seed} {number}", targets, seen, stop_attacks, CANARY.encode())
            for number in range(attackers)
        ]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        most = _watch(servers, seconds, seen, good, echo)
        stop_attacks.set()
        for thread in threads:
            thread.join()
        report = Report(time.monotonic() - began, seen, good, start, most, {}, {}, [])
        _settle(servers, held, report)
        report.wrong += _verdict(servers, report)
    return report


def _fill(store: Store) -> None:
    """Writes two publications, and segments above the cut of the second."""
    written = Written(store, BY_MINUTE)
    written.publish(sold(1, ann=10, bob=20), 6, 2 * MINUTE_MS)
    written.begin(2)
    written.commit(sold(1, ann=1, bob=2), 3, 2 * MINUTE_MS)
    written.publish(sold(1, ann=11, bob=22), 0, 3 * MINUTE_MS)
    written.commit(sold(2, cy=1_000), 3, 4 * MINUTE_MS)
    written.commit(sold(1, ann=5, dee=7), 6, 5 * MINUTE_MS)


def _answer(folder: Path, store: Path) -> list[tuple[Any, ...]]:
    settings = Settings(home=folder, store=str(store))
    catalog = Catalog(views=[BY_MINUTE])
    with serving_layer.connect(catalog, settings, Store(str(store))) as connection:
        return connection.sql(GOOD).rows()


def _ask_by_wire(
    server: Served, expected: list[tuple[Any, ...]], seen: Good, stop: threading.Event
) -> None:
    """Asks on one connection, and on a new one if that has ended."""
    client: psycopg.Connection[Any] | None = None

    def ask() -> list[tuple[Any, ...]]:
        nonlocal client
        if client is None or client.closed:
            client = server.connect()
        return client.execute(GOOD).fetchall()

    _ask(ask, expected, seen, stop)
    if client is not None:
        client.close()


def _ask_by_http(
    server: Served, expected: list[tuple[Any, ...]], seen: Good, stop: threading.Event
) -> None:
    with server.client() as client:

        def ask() -> list[tuple[Any, ...]]:
            response = client.post("/v1/sql", json={"sql": GOOD})
            response.raise_for_status()
            return [tuple(row) for row in response.json()["rows"]]

        _ask(ask, expected, seen, stop)


def _ask(
    ask: Callable[[], list[tuple[Any, ...]]],
    expected: list[tuple[Any, ...]],
    seen: Good,
    stop: threading.Event,
) -> None:
    """Asks twenty times a second at most, and holds each answer against what is known."""
    answered = time.monotonic()
    while not stop.wait(0.05):
        try:
            rows = ask()
        except (psycopg.Error, httpx.HTTPError) as error:
            seen.errors[str(error).splitlines()[0][-120:]] += 1
            seen.longest_s = max(seen.longest_s, time.monotonic() - answered)
            continue
        seen.longest_s = max(seen.longest_s, time.monotonic() - answered)
        answered = time.monotonic()
        seen.answers += 1
        if rows != expected:
            seen.wrong.append(f"{rows} instead of {expected}")


def _watch(
    servers: list[Served],
    seconds: float,
    seen: Seen,
    good: list[Good],
    echo: Callable[[str], None],
) -> dict[str, Memory]:
    """Measures until the time is up, or until something has ended; returns the most memory."""
    most = {server.name: Memory(0, 0, 0, 0) for server in servers}
    until_, reported = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < until_ and not any(s.process.poll() for s in servers):
        time.sleep(1)
        for server in servers:
            with suppress(psutil.Error, ValueError):  # its loader is being started again
                now, before = server.memory(), most[server.name]
                most[server.name] = Memory(
                    max(now.server, before.server),
                    max(now.loader, before.loader),
                    max(now.worker, before.worker),
                    max(now.workers, before.workers),
                )
        if time.monotonic() - reported > 60:
            reported = time.monotonic()
            echo(
                f"{seen.counts['connections']:,} connections, {len(seen.wrong)} wrong replies;"
                f" {sum(client.answers for client in good):,} good answers; "
                + "; ".join(f"{name} {memory}" for name, memory in most.items())
            )
    return most


def _settle(servers: list[Served], held: dict[str, tuple[int, int]], report: Report) -> None:
    """Waits until what attackers have left behind is gone, as long as that may take."""
    for server in servers:
        if server.process.poll() is not None:
            continue
        before = held[server.name]

        def has_settled(server: Served = server, before: tuple[int, int] = before) -> bool:
            now = server.held()
            report.held[server.name] = before, now
            return now[0] <= before[0] and now[1] <= before[1]

        try:
            until(has_settled, timeout_s=60)
        except AssertionError:
            fds, tasks = report.held[server.name][1]
            report.wrong.append(
                f"{server.name} must have {before[0]} descriptors and {before[1]} tasks again; it"
                f" has {fds} and {tasks}"
            )
        report.end[server.name] = server.memory()


def _verdict(servers: list[Served], report: Report) -> list[str]:
    """What was not as promised."""
    wrong = [text for server in servers for text in server.trouble()]
    wrong += report.seen.wrong
    for good in report.good:
        wrong += [f"{good.name}: {text}" for text in good.wrong]
        if good.longest_s > MOST_UNANSWERED_S:
            wrong.append(f"{good.name} was {good.longest_s:.0f} s without an answer")
    for server in servers:
        start, most = report.start[server.name], report.most[server.name]
        for what, value, bound in (
            ("server", most.server, start.server + SERVER_MIB),
            ("loader", most.loader, start.loader + LOADER_MIB),
            ("largest worker", most.worker, start.loader + MEMORY_MB),
        ):
            if value > bound:
                wrong.append(
                    f"{server.name}: {what} may take {bound:.0f} MiB; it took {value:.0f} MiB"
                )
        if server.name in report.end and report.end[server.name].workers > WORKERS:
            wrong.append(f"{server.name} still has {report.end[server.name].workers} workers")
        if list(server.folder.rglob("written*")):
            wrong.append(f"{server.name}: a statement has written a file")
    return wrong


def _mib(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / (1 << 20)
