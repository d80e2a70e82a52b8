"""Quantities that must not grow over time.

These are a reader's memory over many publications, the overhead of runs, ticks and readers after a
year, and the cost of an open tick of an hour.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any

import duckdb
import psutil
import pyarrow as pa

import serving_layer
from batch_layer.clean import clean
from batch_layer.engine import Engine
from batch_layer.run import BatchLayer
from benchmarks.figure import Figure, Options, say, seconds
from benchmarks.workload import home
from benchmarks.written import Written
from speed_layer.compaction import compact
from speed_layer.ticks import Ticks
from trilayer import Catalog, Rows, Stream, View, count, sum_
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.log.broker import Log, Mark, Topic
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Cut, Range, tick_of
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval
from trilayer_core.store.master import Master

KEYS, PUBLICATIONS, ASKING = 1_000_000, 300, 2
RUN_MS, DAY, YEAR = 600_000, 144, 52_560
WARM = 6  # unmeasured rounds, until the number of versions no longer grows
HOUR_MS, EVERY_MS, COMPACT_EVERY = 3_600_000, 100, 50

STREAM = Stream("sales", "user string, quantity bigint, sold_at timestamp", event_time="sold_at")
VIEW = View(
    "by_user", source=STREAM, key=["user"], aggregates={"sales": count(), "items": sum_("quantity")}
)


def measure(options: Options) -> Sequence[Figure]:
    """The figures of all three benchmarks."""
    return [*_publications(options), *_year(options), *_open_tick(options)]


def _partials(keys: int, value: int) -> pa.Table:
    with duckdb.connect() as connection:
        made = connection.sql(
            "SELECT 'u' || lpad((i * 7919 % 1000003)::VARCHAR, 7, '0') AS \"user\", 1::BIGINT AS"
            f" sales__n, {value}::BIGINT AS items__sum FROM range({keys}) r(i)"
        )
        table: pa.Table = made.to_arrow_table()
        return table.cast(partial_schema(VIEW))


# -- publications ----------------------------------------------------------------------------------


def _publications(options: Options) -> Iterator[Figure]:
    """A reader in this process, which several threads query continuously.

    Another process publishes what it reads.
    """
    keys, number = options.events(KEYS), max(20, options.events(PUBLICATIONS))
    context = multiprocessing.get_context("spawn")
    with home() as at:
        ours, theirs = context.Pipe()
        writer = context.Process(target=_publish_on_order, args=(str(at / "store"), keys, theirs))
        writer.start()
        try:
            sizes, answers = _read_while(at, keys, number, ours)
        finally:
            ours.close()
            writer.join()
    ten, end = max(sizes[5:10]), max(sizes[-5:])
    say(f"{number} publications of {keys:,} keys, {answers:,} answers meanwhile")
    yield Figure("reader's memory after 10 publications", "MiB", sizes[5:10])
    yield Figure(f"reader's memory after {number} publications", "MiB", sizes[-5:])
    yield Figure("reader's memory at the end / after 10", "", [end / ten], at_most=1.3)


def _publish_on_order(at: str, keys: int, orders: Pipe) -> None:
    store = Store(at)
    written = Written(store, VIEW)
    orders.send(0)
    while True:
        try:
            version = orders.recv()
        except EOFError:
            return
        publication = written.publish(_partials(keys, version), keys, version * RUN_MS)
        clean(Project(Settings(store=at), written.catalog, store))
        orders.send(publication.version)


def _read_while(at: Path, keys: int, number: int, orders: Pipe) -> tuple[list[float], int]:
    sizes: list[float] = []
    orders.recv()  # the store exists
    stop, asked, wrong = Event(), [0] * ASKING, []
    with serving_layer.connect(
        Catalog(views=[VIEW]), Settings(home=at), Store(str(at / "store"))
    ) as connection:

        def ask(place: int) -> None:
            try:
                while not stop.is_set():
                    with connection.snapshot() as snapshot:
                        items = snapshot.sql("SELECT coalesce(sum(items), 0) FROM by_user").rows()[
                            0
                        ][0]
                        if items != keys * (snapshot.provenance.version or 0):
                            raise AssertionError(
                                f"got {items} items of version {snapshot.provenance.version}"
                            )
                    asked[place] += 1
            except Exception as error:  # noqa: BLE001  # raised below, by the thread that measures
                wrong.append(error)

        threads = [Thread(target=ask, args=(place,)) for place in range(ASKING)]
        for thread in threads:
            thread.start()
        try:
            for version in range(1, number + 1):
                orders.send(version)
                orders.recv()
                while not wrong and _version(connection) < version:
                    stop.wait(0.05)
                if wrong:
                    raise wrong[0]
                sizes.append(psutil.Process().memory_info().rss / 2**20)
                if version % 25 == 0:
                    say(f"{version} publications: {sizes[-1]:,.0f} MiB")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    return sizes, sum(asked)


def _version(connection: serving_layer.Connection) -> int:
    with connection.snapshot() as snapshot:
        return snapshot.provenance.version or 0


# -- a year ----------------------------------------------------------------------------------------


class QuietLog(Log):
    """A simulated broker: `per_run` records in every ten minutes, none after the last run."""

    def __init__(self, start_ms: int, per_run: int, end: int) -> None:
        self.bootstrap_servers = "simulated"
        self._start_ms, self._every_ms, self._end = start_ms, RUN_MS / per_run, end

    def close(self) -> None:
        """Does nothing, because nothing is open."""

    def find(self, stream: Stream) -> Topic | None:
        """The topic, with one partition."""
        return Topic(stream.topic, "topic", (0,))

    def check_append_time(self, topic: Topic) -> None:
        """Does nothing, because the topic has append times."""

    def beginning(self, topic: Topic) -> dict[int, int]:
        """The beginning of the log: retention has deleted nothing."""
        return {0: 0}

    def end(self, topic: Topic) -> dict[int, int]:
        """The end of the last run."""
        return {0: self._end}

    def index(self, topic: Topic, t_ms: int) -> tuple[dict[int, int], dict[int, int]]:
        """H(T) and its stamp."""
        offset = max(0, -int(-(t_ms - self._start_ms) // self._every_ms))
        return ({0: offset}, {0: self._stamp(offset)}) if offset < self._end else ({}, {})

    def stamps(self, topic: Topic, partition: int, offset: int, end: int) -> list[tuple[int, int]]:
        """The stamps of the next records."""
        return [(place, self._stamp(place)) for place in range(offset, min(end, offset + 500))]

    def last_records(self, topic: Topic, below: Cut, *, committed: bool = True) -> dict[int, Mark]:
        """No records, so that nothing is compared with the log."""
        return {}

    def _stamp(self, offset: int) -> int:
        return self._start_ms + int(offset * self._every_ms)


PER_RUN = 1000


@dataclass
class Past:
    """A store with a number of intervals, and the times of the next operations on it."""

    store: Store
    runs: int
    start_ms: int
    now: int = field(init=False)

    def __post_init__(self) -> None:
        written = Written(self.store, VIEW)
        folder = layout.chain(STREAM, STREAM.fingerprint)
        part = self.store.write_table(f"{folder}/00000000-000000/part.parquet", _partials(10, 1))
        data = self.store.read(part.path)
        for number in range(self.runs):
            path = f"{folder}/{number:08d}-000000/part.parquet"
            self.store.write(path, data, durable=False)
            file = type(part)(path, part.rows, part.bytes, part.sha256)
            ranges = {0: Range(number * PER_RUN, (number + 1) * PER_RUN)}
            t_ms = self.start_ms + (number + 1) * RUN_MS
            interval = Interval(number, t_ms, "topic", ranges, {}, [file], PER_RUN, 0)
            self.store.create_document(f"{folder}/{number:08d}.json", interval, durable=False)
        self.now = self.start_ms + self.runs * RUN_MS + 1
        written.publish(_partials(1000, 1), self.runs * PER_RUN, self.now - 1)

    def log(self, further: int = 0) -> QuietLog:
        """The simulated broker, with `further` records after the last run's."""
        return QuietLog(self.start_ms, PER_RUN, self.runs * PER_RUN + further)

    def run(self) -> float:
        """The time of a batch run at the next T with nothing new: the cost of every run."""
        self.now += RUN_MS
        catalog = Catalog(views=[VIEW])
        settings = Settings(store=self.store.root, settle_s=0)

        self.store.clock = lambda: self.now
        layer = BatchLayer(
            Project(settings, catalog, self.store),
            open_log=lambda _: self.log(),
            open_engine=_idle_engine,
        )
        return seconds(layer.run)

    def tick(self) -> float:
        """The time of a micro-batch that crosses a tick boundary, without Spark."""
        log = self.log(further=PER_RUN)
        self.store.clock = lambda: self.now + RUN_MS
        begin = self.runs * PER_RUN
        ticks = Ticks(STREAM, log.topic(STREAM), log, self.store, 60_000, 0)
        first, middle = begin + PER_RUN // 20, begin + PER_RUN // 5
        ticks.split({0: Range(begin, first)}, {0: first})
        shares: dict[int, Any] = {}
        passed = seconds(lambda: shares.update(ticks.split({0: Range(first, middle)}, {0: middle})))
        if len(shares) < 2:
            raise AssertionError(f"a boundary must lie in [{first}, {middle}); got {shares}")
        return passed

    def leftovers(self) -> list[str]:
        """Files in the chain's folder that belong to no interval."""
        folder = layout.chain(STREAM, STREAM.fingerprint)
        used = {
            file.path.split("/")[-2]
            for i in Master(self.store, STREAM).read_chain()
            for file in i.files
        }
        return [n for n in self.store.names(folder) if not n.endswith(".json") and n not in used]

    def files(self) -> int:
        """The number of files and folders outside the master dataset, which is meant to grow."""
        return sum(
            len(names) + len(folders)
            for at, folders, names in os.walk(self.store.root)
            if "/master" not in at
        )


def _no_spark() -> Any:
    raise AssertionError("a run with nothing new must need no Spark")


def _idle_engine(
    settings: Settings, store: Store, rows: Sequence[Rows]
) -> AbstractContextManager[Engine]:
    return nullcontext(Engine(settings, store, _no_spark))


def _year(options: Options) -> Iterator[Figure]:
    """The same measurements, alternately on a store of a day and on one of a year."""
    runs = {"a day": DAY, "a year": max(DAY * 2, options.events(YEAR))}
    rounds = max(10, options.repeats * 10)
    # Ticks come first, because the runs with nothing new cut where the ticks' records will lie.
    what: dict[str, Callable[[Past], float]] = {
        "a tick boundary in the speed layer": Past.tick,
        "a run's own overhead": Past.run,
        "a reader's look around": _look_around,
    }
    with home() as at:
        pasts = {
            name: Past(Store(str(at / name.replace(" ", "-"))), number, _start(number))
            for name, number in runs.items()
        }
        say(f"{runs['a year']:,} intervals written")
        for title, work in what.items():
            times: Mapping[str, list[float]] = {name: [] for name in pasts}
            for turn in range(WARM + rounds):
                for name, past in pasts.items():
                    took = work(past) * 1000
                    if turn >= WARM:
                        times[name].append(took)
            for name, times_ms in times.items():
                yield Figure(f"{title}, after {name}", "ms", times_ms)
            ratio = median(times["a year"]) / median(times["a day"])
            yield Figure(f"{title}, a year / a day", "", [ratio], at_most=1.2)
        files = [past.files() for past in pasts.values()]
        yield Figure(
            "files outside the master dataset, a year / a day",
            "",
            [files[1] / files[0]],
            at_most=1.05,
        )
        left = sum(len(past.leftovers()) for past in pasts.values())
        yield Figure("folders of no interval", "", [left], at_most=0)


def _start(runs: int) -> int:
    return tick_of(now_ms(), 86_400_000) - runs * RUN_MS


def _look_around(past: Past) -> float:
    with serving_layer.connect(
        Catalog(views=[VIEW]), Settings(home=Path(past.store.root)), past.store
    ) as connection:
        connection.refresh()
        _look_around_at_once(connection)
        return seconds(connection.refresh)


def _look_around_at_once(connection: serving_layer.Connection) -> None:
    """Makes the next refresh list the streams' folders, which it otherwise does once per second."""
    connection._refresh._listed_at = float("-inf")


# -- an open tick ----------------------------------------------------------------------------------


def _open_tick(options: Options) -> Iterator[Figure]:
    """An hour in one tick, with a commit every 100 ms.

    Measured is the processor time of a reader that asks once per second, in each of the last
    minutes.
    """
    hour = max(2 * 60_000, options.events(HOUR_MS))
    began = tick_of(now_ms(), HOUR_MS)
    table = _partials(500, 1)
    costs: list[float] = []
    waits: list[float] = []
    with home() as at:
        store = Store(str(at / "store"))
        written = Written(store, VIEW, tick_ms=HOUR_MS)
        generations = Generations(store, STREAM)
        with serving_layer.connect(written.catalog, Settings(home=at), store) as connection:
            most = 0
            for number in range(hour // EVERY_MS):
                written.commit(table, 500, began + number * EVERY_MS)
                if number % COMPACT_EVERY == 0:
                    while compact(generations, [VIEW], written.generation.name, 24):
                        pass
                if number % (1000 // EVERY_MS) == 0:
                    _look_around_at_once(connection)
                    before = time.process_time()
                    wall = seconds(connection.refresh) * 1000
                    if number >= 0.9 * hour / EVERY_MS:
                        costs.append((time.process_time() - before) * 1000)
                        waits.append(wall)
                        most = max(
                            most, len(Generations(store, STREAM).spans(written.generation.name))
                        )
            answer = connection.sql("SELECT sum(sales) FROM by_user").rows()[0][0]
        if answer != hour // EVERY_MS * 500:
            raise AssertionError(f"{hour // EVERY_MS * 500} events were committed; got {answer}")
    yield Figure("commits that a reader lists, at most, in an open tick", "", [most])
    yield Figure("a reader in an open tick, processor time a second", "ms", costs, at_most=50)
    yield Figure("a reader in an open tick, time a second", "ms", waits)
