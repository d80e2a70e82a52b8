"""The server beside an in-process reader, and beside PostgreSQL with the same rows.

The store has a view of a million keys. The clients are the same for the server and PostgreSQL.
"""

from __future__ import annotations

import asyncio
import getpass
import itertools
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psutil
import psycopg

import serving_layer
from benchmarks import bystanders
from benchmarks.figure import Figure, Options, ratios, say, seconds
from benchmarks.query import (
    CATALOG,
    KEYS,
    SEGMENTS,
    VIEW,
    commit_segment,
    fill_store,
    point_query,
    some_users,
)
from benchmarks.workload import home
from trilayer_core.runtime import jars
from trilayer_core.runtime.java import java_executable
from trilayer_core.runtime.settings import Settings, default_jars
from trilayer_core.store.files import Store
from trilayer_core.store.segments import Generation
from trilayer_local.ports import free_port
from trilayer_server.serving import USERS
from trilayer_server.users import Users

POINTS, CLIENTS, IDLE, SUBSCRIBERS = 300, 16, 200, 50
ALL = "SELECT * FROM by_user"
TOTAL = "SELECT sum(sales) AS sales FROM by_user"
QUERIES = 5
"""How many different questions the subscribers ask at most."""

FETCH = 1_000
"""The rows that a client with a row limit fetches at once."""

TEXT, BINARY = 0, 1
PASSWORD = "pencil"
DRIVER = Path(__file__).parents[1] / "tests" / "clients" / "jdbc" / "driver.lock"
POSTGRES = Path("/usr/lib/postgresql/15/bin")
WAIT_S = 60.0


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    keys = options.events(KEYS)
    with home() as at:
        settings, store = Settings(home=at, store=str(at / "store")), Store(str(at / "store"))
        generation = fill_store(store, keys)
        commits = Commits(store, generation, keys)
        with (
            serving_layer.connect(CATALOG, settings, store) as connection,
            _served(at, at) as (port, http, server),
            _postgres(at, connection.sql(ALL).rows()) as beside,
        ):
            wire = f"host=127.0.0.1 port={port} dbname=trilayer user=bench"
            _check(connection, wire, beside)
            parts: Mapping[str, Callable[[], list[Figure]]] = {
                "points": lambda: _points(options, keys, connection, wire),
                "many": lambda: _many(options, keys, wire),
                "rows": lambda: _rows(options, wire, beside, server),
                "jdbc": lambda: _jdbc(options, wire, beside),
                "arrow": lambda: _arrow(options, connection, http),
                "killed": lambda: _killed(options, wire, server),
                "idle": lambda: _idle(wire, http, server),
                "fresh": lambda: _fresh(options, connection, commits, http),
                "bystanders": lambda: _bystanders(options, keys, at),
            }
            return [
                figure
                for name, part in parts.items()
                if not options.parts or name in options.parts
                for figure in part()
            ]


def _check(connection: serving_layer.Connection, wire: str, beside: str) -> None:
    query = f"{ALL} ORDER BY 1 LIMIT 1000"
    answers = [connection.sql(query).rows()]
    for address in (wire, beside):
        with psycopg.connect(address) as client:
            answers.append(client.execute(query).fetchall())
    if any(answer != answers[0] for answer in answers):
        raise AssertionError("the server and PostgreSQL must have the rows of the reader")


# -- figures ---------------------------------------------------------------------------------------


def _points(
    options: Options, keys: int, connection: serving_layer.Connection, wire: str
) -> list[Figure]:
    """Point queries on one connection, in turn with those of an in-process reader."""
    inside: list[float] = []
    served: list[float] = []
    with psycopg.connect(wire, autocommit=True) as client:
        for repeat in range(options.repeats + 1):
            queries = [point_query(user) for user in some_users(keys, POINTS, repeat)]
            asks = [lambda q: connection.sql(q).rows(), lambda q: client.execute(q).fetchall()]
            rates = [POINTS / seconds(partial(_each, ask, queries)) for ask in asks]
            if repeat:  # the first run warms both
                inside.append(rates[0])
                served.append(rates[1])
    return [
        Figure("point queries, in process", "/s", inside),
        Figure("point queries, by the wire", "/s", served),
        Figure("wire / in process, point queries", "", ratios(served, inside), at_least=0.7),
    ]


def _each(ask: Callable[[str], object], queries: Sequence[str]) -> None:
    for query in queries:
        ask(query)


def _many(options: Options, keys: int, wire: str) -> list[Figure]:
    """Point queries on sixteen connections, and on one."""
    one: list[float] = []
    many: list[float] = []
    slow: list[float] = []
    errors = 0
    for repeat in range(options.repeats):
        queries = [point_query(user) for user in some_users(keys, POINTS, repeat)]
        one.append(POINTS / max(asyncio.run(_ask_all(wire, [queries]))[1], 1e-9))
        latencies, took, failed = asyncio.run(_ask_all(wire, [queries] * CLIENTS))
        many.append(CLIENTS * POINTS / took)
        slow.append(1000 * statistics.quantiles(latencies, n=100)[98])
        errors += failed
    return [
        Figure(f"{CLIENTS} connections, point queries", "/s", many),
        Figure(f"{CLIENTS} connections / one", "", ratios(many, one)),
        Figure(f"{CLIENTS} connections, p99", "ms", slow),
        Figure(f"{CLIENTS} connections, errors", "", [errors], at_most=0),
    ]


async def _ask_all(wire: str, queries: Sequence[Sequence[str]]) -> tuple[list[float], float, int]:
    """The times of all answers, the time of the whole, and the number of failures."""
    times: list[float] = []
    failed = 0
    clients = [await psycopg.AsyncConnection.connect(wire, autocommit=True) for _ in queries]

    async def ask(client: psycopg.AsyncConnection[Any], mine: Sequence[str]) -> None:
        nonlocal failed
        for query in mine:
            began = time.perf_counter()
            try:
                await (await client.execute(query)).fetchall()
            except psycopg.Error:
                failed += 1
            times.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(ask(*pair) for pair in zip(clients, queries, strict=True)))
    took = time.perf_counter() - began
    for client in clients:
        await client.close()
    return times, took, failed


def _rows(options: Options, wire: str, beside: str, server: psutil.Process) -> list[Figure]:
    """All rows of the view, beside PostgreSQL, and the memory that the server takes meanwhile."""
    took: dict[tuple[str, str], list[float]] = {}
    before = _resident_mib(server)
    with _peak(server) as peak:
        for repeat in range(options.repeats + 1):
            for name, read in (
                ("binary", partial(_read, format_=BINARY)),
                ("text", partial(_read, format_=TEXT)),
                (f"by {FETCH:,}", _fetch_all),
            ):
                for whose, address in (("ours", wire), ("theirs", beside)):
                    spent = seconds(partial(read, address))
                    if repeat:
                        took.setdefault((name, whose), []).append(spent)
    figures = []
    for name, most in (("binary", 1.5), ("text", 2.0), (f"by {FETCH:,}", 2.0)):
        ours, theirs = took[name, "ours"], took[name, "theirs"]
        figures += [
            Figure(f"a million rows, {name}", "s", ours),
            Figure(f"a million rows, {name}, PostgreSQL", "s", theirs),
            Figure(f"server / PostgreSQL, {name}", "", ratios(ours, theirs), at_most=most),
        ]
    return [*figures, Figure("memory of the server meanwhile", "MiB more", [peak[0] - before])]


def _read(address: str, format_: int) -> None:
    """Reads all rows as libpq does, without making values of them."""
    with psycopg.connect(address, autocommit=True) as client:
        result = client.pgconn.exec_params(ALL.encode(), None, result_format=format_)
        if not result.ntuples:
            raise AssertionError(result.error_message.decode())


def _fetch_all(address: str) -> None:
    asyncio.run(_fetch(address))


async def _fetch(address: str) -> None:
    """Reads all rows so many at a time, as clients with a fetch size do."""
    options = dict(part.split("=") for part in address.split())
    client = await asyncpg.connect(
        host=options["host"],
        port=int(options["port"]),
        user=options["user"],
        database=options["dbname"],
    )
    rows = 0
    async with client.transaction(readonly=True):
        async for _ in client.cursor(ALL, prefetch=FETCH):
            rows += 1
    await client.close()
    if not rows:
        raise AssertionError("there must be rows")


def _jdbc(options: Options, wire: str, beside: str) -> list[Figure]:
    """All rows of the view by JDBC, so many at a time, beside PostgreSQL."""
    (driver,) = jars.fetch(DRIVER, default_jars() / "jdbc", echo=say)
    urls = [_jdbc_url(address) for address in [wire, beside] * (options.repeats + 1)]
    ended = subprocess.run(
        [java_executable(), "-cp", driver, Path(__file__).parent / "ReadAll.java",
         str(FETCH), ALL, *urls],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    took = [float(line) for line in ended.stdout.split()]
    ours, theirs = took[2::2], took[3::2]  # the first run warms both
    return [
        Figure(f"a million rows by {FETCH:,}, JDBC", "s", ours),
        Figure(f"a million rows by {FETCH:,}, JDBC, PostgreSQL", "s", theirs),
        Figure(f"server / PostgreSQL, JDBC by {FETCH:,}", "", ratios(ours, theirs), at_most=2.0),
    ]


def _jdbc_url(address: str) -> str:
    options = dict(part.split("=") for part in address.split())
    return (
        f"jdbc:postgresql://{options['host']}:{options['port']}/{options['dbname']}"
        f"?user={options['user']}"
    )


def _arrow(options: Options, connection: serving_layer.Connection, http: str) -> list[Figure]:
    """All rows of the view as Arrow, in process and by HTTP."""
    took: dict[str, list[float]] = {"in process": [], "by HTTP": []}
    with serving_layer.connect(http) as remote:
        reads = {
            "in process": lambda: connection.sql(ALL).arrow().num_rows,
            "by HTTP": lambda: remote.sql(ALL).arrow().num_rows,
        }
        if len({read() for read in reads.values()}) != 1:
            raise AssertionError("both must have the same number of rows")
        for _ in range(options.repeats):
            for name, read in reads.items():
                took[name].append(seconds(read))
    return [
        *(Figure(f"a million rows as Arrow, {name}", "s", times) for name, times in took.items()),
        Figure(
            "HTTP / in process, Arrow", "", ratios(took["by HTTP"], took["in process"]), at_most=3
        ),
    ]


def _killed(options: Options, wire: str, server: psutil.Process) -> list[Figure]:
    """How long the next answer takes after the workers were killed."""
    took = []
    with psycopg.connect(wire, autocommit=True) as client:
        for _ in range(options.repeats):
            client.execute("SELECT 1")
            for loader in server.children():
                workers = loader.children()
                for worker in workers:
                    worker.kill()
                psutil.wait_procs(workers, timeout=1)
            took.append(seconds(lambda: client.execute("SELECT 1")))
    return [Figure("an answer after the worker was killed", "s", took, at_most=3)]


def _idle(wire: str, http: str, server: psutil.Process) -> list[Figure]:
    """What connections and subscribers cost while nothing happens."""
    before = _resident_mib(server)
    clients = [psycopg.connect(wire, autocommit=True) for _ in range(IDLE)]
    with _subscribed(http, SUBSCRIBERS, QUERIES):
        more = _resident_mib(server) - before
        began = _processor_s(server)
        time.sleep(10)
        busy = _processor_s(server) - began
    for client in clients:
        client.close()
    what = f"{IDLE} idle connections and {SUBSCRIBERS} subscribers"
    return [
        Figure(what, "MiB more", [more], at_most=100),
        Figure(f"processor time of {what} in 10 s", "s", [busy]),
    ]


def _fresh(
    options: Options, connection: serving_layer.Connection, commits: Commits, http: str
) -> list[Figure]:
    """How long after a commit subscribers know of it, and a reader that asks all the time."""
    return [
        figure
        for queries in (1, QUERIES)
        for figure in _time_to_subscribers(options, connection, commits, http, queries)
    ]


def _time_to_subscribers(
    options: Options,
    connection: serving_layer.Connection,
    commits: Commits,
    http: str,
    queries: int,
) -> list[Figure]:
    inside: list[float] = []
    delays: list[float] = []
    with _subscribed(http, SUBSCRIBERS, queries) as seen:
        for _ in range(10 * options.repeats):
            former = connection.sql(TOTAL).rows()
            committed = commits.add()
            while connection.sql(TOTAL).rows() == former:
                pass
            inside.append(1000 * (time.time() - committed))
            _until(partial(_all_since, seen, committed))
            delays += [1000 * (at - committed) for at in seen]
    later = statistics.median(delays) - statistics.median(inside)
    return [
        Figure("commit to an in-process reader", "ms", inside),
        Figure(f"commit to {SUBSCRIBERS} subscribers of {queries} queries", "ms", delays),
        Figure(f"subscriber of {queries} - reader, medians", "ms", [later], at_most=100),
    ]


def _all_since(times: Sequence[float], since: float) -> bool:
    return all(at > since for at in times)


@contextmanager
def _subscribed(http: str, number: int, queries: int) -> Iterator[list[float]]:
    """Subscribers, all in one thread: the times at which they were last told of a change."""
    seen = [0.0] * number
    ends: list[Callable[[], object]] = []

    async def listen(client: httpx.AsyncClient, place: int) -> None:
        query = {"sql": f"{TOTAL} -- {place % queries}"}
        async with client.stream("GET", f"{http}v1/subscribe", params=query) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if line.startswith("event: ") and not line.endswith("progress"):
                    seen[place] = time.time()

    async def listen_all() -> None:
        limits = httpx.Limits(max_connections=number)
        async with httpx.AsyncClient(timeout=None, limits=limits) as client:
            everyone = asyncio.gather(*(listen(client, place) for place in range(number)))
            ends.append(partial(asyncio.get_running_loop().call_soon_threadsafe, everyone.cancel))
            with suppress(asyncio.CancelledError):
                await everyone

    thread = threading.Thread(target=lambda: asyncio.run(listen_all()), daemon=True)
    thread.start()
    try:
        _until(lambda: all(seen))
        yield seen
    finally:
        for end in ends:
            end()
        thread.join()


@dataclass
class Commits:
    """Adds segments to the store of the benchmark.

    Attributes:
        store: The store.
        generation: The generation of the speed layer that commits.
        keys: The number of keys.
        number: The number of the next micro-batch.
    """

    store: Store
    generation: Generation
    keys: int
    number: int = SEGMENTS

    def add(self) -> float:
        """Commits a micro-batch, and returns when it was done."""
        commit_segment(
            self.store, self.generation, self.number, self.keys, random.Random(self.number), 300
        )
        self.number += 1
        return time.time()


def _bystanders(options: Options, keys: int, at: Path) -> list[Figure]:
    """What others feel of attacks, on a server with a password."""
    home = at / "guarded"
    home.mkdir()
    for user in ("bench", "mallory"):
        Users(home / USERS).put(user, PASSWORD, "reader")
    users = itertools.cycle(some_users(keys, POINTS, seed=0))

    def ask(client: psycopg.Connection[Any]) -> None:
        user = next(users)
        ((name, *_),) = client.execute(point_query(user)).fetchall()
        if name != user:
            raise AssertionError(f"the row must be that of {user}; got that of {name}")

    with _served(at, home) as (port, *_):
        wire = f"host=127.0.0.1 port={port} dbname=trilayer password={PASSWORD} user="
        return list(bystanders.figures(f"{wire}bench", f"{wire}mallory", ask, options.repeats))


# -- the programs ----------------------------------------------------------------------------------


@contextmanager
def _served(at: Path, home: Path) -> Iterator[tuple[int, str, psutil.Process]]:
    """`trilayer serve` on the store of the benchmark: its port, its page and its process."""
    (home / "trilayer.toml").write_text(
        f'catalog = "benchmarks.query:CATALOG"\nstore = "{at / "store"}"\nhome = "{home}"\n'
    )
    port, web = free_port(), free_port()
    path = os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "trilayer.cli",
            "serve",
            "--port",
            str(port),
            "--http-port",
            str(web),
        ],
        cwd=home,
        env=os.environ | {"PYTHONPATH": path},
        stderr=(home / "serve.log").open("w"),
    )
    try:
        _wait(
            lambda: psycopg.connect(
                f"host=127.0.0.1 port={port} dbname=trilayer user=bench password={PASSWORD}"
            ).close()
        )
        yield port, f"http://127.0.0.1:{web}/", psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)


@contextmanager
def _postgres(at: Path, rows: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """PostgreSQL with the same rows, as its address."""
    if not (POSTGRES / "postgres").exists():
        raise AssertionError("PostgreSQL 15 must be installed; run: make tools")
    data, port = at / "postgres", free_port()
    data.mkdir()
    user = "nobody" if os.getuid() == 0 else None  # PostgreSQL does not run as root
    if user:
        at.chmod(0o755)
        shutil.chown(data, user)
    name = user or getpass.getuser()
    options: dict[str, Any] = {"user": user, "cwd": data, "stdout": subprocess.DEVNULL}
    subprocess.run(
        [POSTGRES / "initdb", "-D", data, "-A", "trust", "--no-sync", "-E", "UTF8"],
        check=True, **options,
    )  # fmt: skip
    process = subprocess.Popen(
        [POSTGRES / "postgres", "-D", data, "-p", str(port), "-k", data,
         "-c", "listen_addresses=127.0.0.1"],
        stderr=(at / "postgres.log").open("w"), **options,
    )  # fmt: skip
    address = f"host=127.0.0.1 port={port} dbname=postgres user={name}"
    try:
        _wait(lambda: psycopg.connect(address).close())
        with psycopg.connect(address, autocommit=True) as client:
            client.execute(
                f'CREATE TABLE by_user ("{VIEW.keys[0].name}" text, sales bigint, items bigint,'
                " mean_price double precision, dearest double precision)"
            )
            with client.cursor().copy("COPY by_user FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            client.execute("VACUUM ANALYZE by_user")
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(WAIT_S)


def _wait(connect: Callable[[], None]) -> None:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            connect()
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > until:
            raise AssertionError(f"what is waited for must come within {WAIT_S:g} s")
        time.sleep(0.001)


def _family(server: psutil.Process) -> list[psutil.Process]:
    return [server, *server.children(recursive=True)]


def _resident_mib(server: psutil.Process) -> float:
    """Memory of the server's processes; what several share counts once."""
    total = 0
    for process in _family(server):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total / (1 << 20)


def _processor_s(server: psutil.Process) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in _family(server))


@contextmanager
def _peak(server: psutil.Process) -> Iterator[list[float]]:
    """The most memory that the server takes during the block, in MiB."""
    peak, stop = [0.0], threading.Event()

    def look() -> None:
        while not stop.wait(0.2):
            peak[0] = max(peak[0], _resident_mib(server))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()
        say(f"memory of the server: {peak[0]:,.0f} MiB at most")
