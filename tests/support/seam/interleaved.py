"""The seam with everything alive at once: two batch hosts, an operator, the speed layer and its
compaction, and three readers.

What decides what is counted is the product's own code: whole batch runs and single steps as the
command line has them, rollback, generations, micro-batches, ticks, compaction, clearing away, and
`Refresh` as readers run it. Stood in for: the machine (see `machine`), and what Spark and DuckDB
compute, which here is a count by key.

A schedule is a list of entries such as ("go", "A", 5, 17): let batch host A do five operations;
what it begins when it is idle follows from 17. The list follows from its seed alone, so that it
stays the same when the product changes.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from batch_layer.engine import Ingested
from batch_layer.publish import rollback as roll_back
from batch_layer.run import BatchLayer
from serving_layer.refresh import Refresh
from serving_layer.state import ViewPlan
from speed_layer import compaction
from speed_layer import run as speed_run
from speed_layer.query import StreamQuery
from speed_layer.reading import Written
from speed_layer.supervisor import Supervisor
from tests.support.seam.machine import (
    Machine,
    ModelStore,
    Partition,
    Process,
    Slot,
    SparkError,
    Thread,
    away,
)
from trilayer import Catalog, Stream, View, count
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.compute.merging import Comparison
from trilayer_core.errors import (
    ConflictError,
    CoverageError,
    IntegrityError,
    LogError,
    OvertakenError,
    TrilayerError,
    UsageError,
)
from trilayer_core.log.broker import Log, Mark, Topic
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Range
from trilayer_core.store.files import StoredFile
from trilayer_core.store.generations import Generations
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import TICK, Commit, Segment, read_partials

TICK_MS, SETTLE_MS = 1000, 200
START_MS = 1_700_000_000_000

# -- what is computed ------------------------------------------------------------------------------

STREAMS = [
    Stream("events", "id int, k int, at timestamp", event_time="at"),
    Stream("events", "id int, k int, at timestamp, more int", event_time="at"),
]
"""The same topic under two schemas: some events fit only the second."""

ID, KEY, PARITY = (lambda e, k: e), (lambda e, k: k), (lambda e, k: k % 2)
FUNCTIONS: dict[str, Callable[[int, int], int]] = {}
"""By a view's fingerprint, the key of an event."""

VIEWS: dict[str, View] = {}


def _view(
    stream: Stream, name: str, key: dict[str, str], function: Callable[[int, int], int]
) -> View:
    made = View(name, source=stream, key=key, aggregates={"n": count()})
    FUNCTIONS[made.fingerprint], VIEWS[made.fingerprint] = function, made
    return made


def _catalogs(stream: Stream) -> list[Catalog]:
    by_id = _view(stream, "by_id", {"id": "id"}, ID)
    by_key = _view(stream, "by_key", {"k": "k"}, KEY)
    changed = _view(stream, "by_key", {"k": "k % 2"}, PARITY)
    added = _view(stream, "by_parity", {"odd": "k % 2"}, PARITY)
    return [
        Catalog(views=views)
        for views in ([by_id, by_key], [by_id, changed], [by_id, by_key, added], [by_id, added])
    ]


CATALOGS = [_catalogs(stream) for stream in STREAMS]


def fits(stream: Stream, kind: str) -> bool:
    return kind == "good" or (kind == "new" and "more" in stream.columns)


def counted(view: View, rows: Counter[tuple[int, ...]], extra: Sequence[str] = ()) -> pa.Table:
    """An Arrow table of the view's partials: of keys, after one value for each of the extra
    columns.
    """
    schema = _schema(view.fingerprint, tuple(extra))
    columns = (
        [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in schema][1:]
    )
    return pa.table([*columns, list(rows.values())], schema=schema)


def rows_of(tables: Sequence[pa.Table], view: View) -> Counter[int]:
    """Counts by key of tables of partials."""
    key, n = view.partial_columns
    rows: Counter[int] = Counter()
    for table in tables:
        for value, number in zip(table[key].to_pylist(), table[n].to_pylist(), strict=True):
            rows[value] += number
    return rows


# -- the broker ------------------------------------------------------------------------------------


class ModelLog(Log):
    """The broker, as `Log` asks it.

    What is asked of it takes a turn; while it is away it is an error.
    """

    def __init__(self, servers: str = "") -> None:
        self.bootstrap_servers = servers
        self._ask("connect")

    def _ask(self, what: str) -> World:
        world = World.current
        world.machine.point(f"log {what}")
        if world.machine.current is not None and world.broker_away > 0:
            world.broker_away -= 1
            raise away()
        return world

    def close(self) -> None:
        pass

    def find(self, stream: Stream) -> Topic | None:
        return Topic(stream.topic, "id", tuple(range(len(self._ask("topic").log))))

    def setting(self, topic: Topic, name: str) -> str:
        self._ask("setting")
        return "LogAppendTime"

    def beginning(self, topic: Topic) -> dict[int, int]:
        world = self._ask("beginning")
        return {p: world.log[p].begins for p in topic.partitions}

    def end(self, topic: Topic) -> dict[int, int]:
        world = self._ask("end")
        return {p: world.log[p].visible(world.now) for p in topic.partitions}

    def index(self, topic: Topic, t_ms: int) -> tuple[dict[int, int], dict[int, int]]:
        world = self._ask("index")
        offsets, stamps = {}, {}
        for p in topic.partitions:
            partition = world.log[p]
            for offset in range(partition.begins, partition.visible(world.now)):
                if partition.slots[offset].stamp >= t_ms:
                    offsets[p], stamps[p] = offset, partition.slots[offset].stamp
                    break
        return offsets, stamps

    def stamps(self, topic: Topic, partition: int, offset: int, end: int) -> list[tuple[int, int]]:
        world = self._ask("stamps")
        found = world.log[partition]
        some = range(max(offset, found.begins), min(end, found.visible(world.now)))
        return [(o, found.slots[o].stamp) for o in some if found.slots[o].event is not None][:3]

    def last_records(self, topic: Topic, below: Mapping[int, int]) -> dict[int, Mark]:
        world = self._ask("last records")
        found = {}
        for p, end in below.items():
            slots = world.log[p].slots
            for offset in range(min(end, len(slots)) - 1, world.log[p].begins - 1, -1):
                if slots[offset].event is not None:
                    found[p] = mark_of(
                        offset, slots[offset].stamp, slots[offset].event, slots[offset].epoch
                    )
                    break
        return found


def mark_of(offset: int, stamp: int, event: int | None, epoch: int = -1) -> Mark:
    return Mark.of_record(offset, stamp, None, str(event).encode(), epoch)


class Records:
    """The records of intervals, as `accept_loss` reads them in the master dataset."""

    def __init__(self, store: ModelStore) -> None:
        self._store = store

    def offsets(self, interval: Any, partition: int, r: Any) -> list[int]:
        self._store.check_all(interval.files)
        rows = self._rows(interval)
        return sorted(row[1] for row in rows if row[0] == partition and r.start <= row[1] < r.end)

    def mark(self, interval: Any, partition: int, offset: int) -> Mark:
        (row,) = [row for row in self._rows(interval) if row[:2] == (partition, offset)]
        return mark_of(offset, row[5], row[2])

    def _rows(self, interval: Any) -> list[Any]:
        return [row for file in interval.files for row in _content(self._store, file.path)]


def read_slots(world: World, ranges: Mapping[int, Any]) -> list[tuple[int, int, Slot]]:
    """(partition, offset, slot) of ranges, as Spark reads them: with an error for what is not in
    the log.
    """
    world.machine.point("spark reads the log")
    found = []
    for p, r in ranges.items():
        partition = world.log[p]
        if len(r) and (r.start < partition.begins or r.end > partition.visible(world.now)):
            raise SparkError(
                f"Some data may have been lost: partition {p}, offsets [{r.start}, {r.end})"
            )
        found += [
            (p, o, partition.slots[o])
            for o in range(r.start, r.end)
            if partition.slots[o].event is not None
        ]
    return found


def fetch(
    world: World, ranges: Mapping[int, Any], ahead: dict[int, tuple[int, list[Slot]]]
) -> dict[int, dict[int, Slot]]:
    """Partition to offset to slot, as a streaming query reads them: first what was fetched with the
    micro-batch before.

    ahead: per partition the next offset, and the slots from there on that were fetched and not yet
        read.
    """
    found = {}
    for p, r in ranges.items():
        place, slots = ahead.get(p, (r.start, []))
        slots = slots if place == r.start else []
        if len(slots) < len(r):
            there = r.start + len(slots)
            read_slots(world, {p: Range(there, r.end)})
            partition = world.log[p]
            slots = [
                *slots,
                *partition.slots[there : min(partition.visible(world.now), r.end + MOST_AHEAD)],
            ]
        ahead[p] = r.end, slots[len(r) :]
        found[p] = dict(zip(range(r.start, r.end), slots, strict=False))
    return found


MOST_AHEAD = 5
"""How many offsets beyond a micro-batch's end are fetched with it."""

# -- Spark -----------------------------------------------------------------------------------------


class Anything:
    """A builder that takes every option and hands itself on."""

    def __init__(self) -> None:
        self.options_set: dict[str, str] = {}
        self.batch: Callable[[Any, int], None] | None = None

    def option(self, name: str, value: str) -> Anything:
        self.options_set[name] = value
        return self

    def options(self, **values: str) -> Anything:
        self.options_set |= values
        return self

    def foreachBatch(self, batch: Callable[[Any, int], None]) -> Anything:  # Spark's name
        self.batch = batch
        return self

    def load(self) -> Anything:
        return self

    def format(self, name: str) -> Anything:
        return self

    def queryName(self, name: str) -> Anything:  # Spark's name
        return self

    def trigger(self, **when: str) -> Anything:
        return self

    @property
    def writeStream(self) -> Anything:  # Spark's name
        return self

    def start(self) -> SparkQuery:
        return SparkQuery(self)


class SparkQuery:
    """A streaming query: offsets first, then the batch, then its commit; a batch without that is
    replayed.
    """

    isActive = True

    def __init__(self, built: Anything) -> None:
        self.ahead: dict[int, tuple[int, list[Slot]]] = {}
        self.checkpoint = built.options_set["checkpointLocation"]
        (self.topic, start), *_ = json.loads(built.options_set["startingOffsets"]).items()
        self.start = {int(p): o for p, o in start.items()}
        self.batch = built.batch

    def stop(self) -> None:
        pass

    def trigger(self, world: World, store: ModelStore, rng: random.Random) -> None:
        planned = sorted(int(name) for name in store.names(f"{self.checkpoint}/offsets"))
        batch = planned[-1] if planned else -1
        if batch < 0 or store.exists(f"{self.checkpoint}/commits/{batch}"):
            before = self.planned(store, batch) if batch >= 0 else self.start
            world.machine.point("spark asks for the end")
            behind, end = rng.random() < 0.3, {}
            for p, partition in enumerate(world.log):
                low, high = before.get(p, 0), partition.visible(world.now)
                end[p] = rng.randint(low, high) if behind and low < high else high
            if all(end[p] == before.get(p, 0) for p in end):
                return
            batch += 1
            text = "\n".join(
                ["v1", "{}", json.dumps({self.topic: {str(p): o for p, o in end.items()}})]
            )
            store.write(f"{self.checkpoint}/offsets/{batch}", text.encode(), durable=False)
        assert self.batch
        self.batch(SimpleNamespace(ahead=self.ahead), batch)
        store.write(f"{self.checkpoint}/commits/{batch}", b"v1", durable=False)
        for kind in ("offsets", "commits"):
            if batch - 10 in planned:
                store.delete(f"{self.checkpoint}/{kind}/{batch - 10}")

    def planned(self, store: ModelStore, batch: int) -> dict[int, int]:
        lines = store.read(f"{self.checkpoint}/offsets/{batch}").decode().splitlines()
        if len(lines) < 3:
            raise SparkError(f"the offset log of batch {batch} is incomplete")
        return {int(p): o for p, o in json.loads(lines[2])[self.topic].items()}


def _content(store: ModelStore, path: str) -> Any:
    store.machine.point(f"read {path}")
    if path not in store.machine.files:
        raise SparkError(f"{path} does not exist")
    return store.machine.files[path].content


class Counting:
    """What Spark computes for a batch run, as an `Engine` does it: here a count by key."""

    def __init__(self, store: ModelStore) -> None:
        self._store = store

    def ingest(self, stream: Stream, number: int, ranges: Mapping[int, Any]) -> Ingested:
        found = read_slots(World.current, ranges)
        rows = [(p, o, slot.event, slot.key, slot.kind, slot.stamp) for p, o, slot in found]
        return self._write_interval(stream, number, rows)

    def parse_again(self, stream: Stream, interval: Any) -> Ingested:
        self._store.check_all(interval.files)
        rows = [row for file in interval.files for row in _content(self._store, file.path)]
        return self._write_interval(stream, interval.number, rows)

    def compute(
        self, pass_: Any, intervals: Sequence[Any], token: int, kind: str
    ) -> dict[str, Sequence[StoredFile]]:
        files = [file for interval in intervals for file in interval.files]
        self._store.check_all(files)
        rows = [row for file in files for row in _content(self._store, file.path)]
        made: dict[str, Sequence[StoredFile]] = {}
        for view in pass_.views:
            function = FUNCTIONS[view.fingerprint]
            found = Counter(
                (function(e, k),) for _, _, e, k, kind_, _ in rows if fits(view.stream, kind_)
            )
            made[view.name] = self._write(found, view, token, kind) if files else []
        return made

    def merge(
        self, views: Sequence[View], files: Mapping[str, Sequence[StoredFile]], token: int
    ) -> dict[str, Sequence[StoredFile]]:
        made: dict[str, Sequence[StoredFile]] = {}
        for view in views:
            self._store.check_all(files[view.name])
            tables = [_content(self._store, file.path) for file in files[view.name]]
            rows = Counter({(key,): n for key, n in rows_of(tables, view).items()})
            made[view.name] = self._write(rows, view, token, "merged")
        return made

    def _write_interval(self, stream: Stream, number: int, rows: list[Any]) -> Ingested:
        folder = f"{number:08d}-{self._store.unique()}"
        where = f"master/{stream.name}/{stream.fingerprint}/{folder}"
        half = len(rows) // 2
        parts = [part for part in (rows[:half], rows[half:]) if part]
        files = [
            self._store.write_rows(f"{where}/part-{i}.parquet", part, part, len(part))
            for i, part in enumerate(parts)
        ]
        return Ingested(files, len(rows), sum(not fits(stream, row[4]) for row in rows))

    def _write(
        self, rows: Counter[tuple[int, ...]], view: View, token: int, kind: str
    ) -> list[StoredFile]:
        where = f"batch/{view.name}/{token:08d}-{kind}-{self._store.unique()}"
        if not rows:
            return []
        return [self._store.write_table(f"{where}/part-0.parquet", counted(view, rows))]


def write_segments(
    records: Any,
    parts: Any,
    stream: Stream,
    passes: Any,
    path_of: Callable[[str], str],
    store: ModelStore,
) -> Written:
    """As the product's, with a count in the place of Spark's jobs."""
    world = World.current
    census, quarantined = {}, []
    tables: dict[str, Counter[tuple[int, ...]]] = {
        v.name: Counter() for p in passes for v in p.views
    }
    whole: dict[int, Range] = {}
    for ranges in parts.values():
        for p, r in ranges.items():
            known = whole.get(p, r)
            whole[p] = Range(min(known.start, r.start), max(known.end, r.end))
    fetched = fetch(world, whole, records.ahead)
    for tick, ranges in parts.items():
        there = [(p, o, fetched[p][o]) for p, r in ranges.items() for o in range(r.start, r.end)]
        slots = [(p, o, slot) for p, o, slot in there if slot.event is not None]
        bad = [(tick, p, o, slot.event) for p, o, slot in slots if not fits(stream, slot.kind)]
        quarantined += bad
        for pass_ in passes:
            for view in pass_.views:
                function = FUNCTIONS[view.fingerprint]
                tables[view.name].update(
                    (tick, function(s.event, s.key)) for _, _, s in slots if fits(stream, s.kind)
                )
        if slots:
            stamps = [slot.stamp for _, _, slot in slots]
            census[tick] = (len(slots), len(bad), min(stamps), max(stamps))
    views = {view.name: view for pass_ in passes for view in pass_.views}
    files = {
        name: store.write_table(path_of(name), counted(views[name], rows, [TICK]))
        for name, rows in tables.items()
        if rows
    }
    quarantine = None
    if quarantined:
        columns = dict(
            zip((TICK, "_partition", "_offset", "id"), zip(*quarantined, strict=True), strict=True)
        )
        table = pa.table({name: list(column) for name, column in columns.items()})
        records = pa.nulls(table.num_rows, pa.binary())
        table = table.append_column("_key", records).append_column("_value", records)
        quarantine = store.write_table(path_of("_quarantine"), table)
    counted_by_tick = [
        Segment(tick, ranges, *census.get(tick, (0, 0, None, None)))
        for tick, ranges in parts.items()
    ]
    return Written(counted_by_tick, files, quarantine)


def merged(view: View, run: Sequence[Commit], path: str, store: ModelStore) -> StoredFile | None:
    """Compaction's merge of a view's partials."""
    rows: Counter[tuple[int, ...]] = Counter()
    for commit in run:
        table = read_partials(store, commit, view, frozenset(s.tick for s in commit.segments))
        if table is not None:
            tick, key, n = (table[name].to_pylist() for name in table.schema.names)
            for t, k, number in zip(tick, key, n, strict=True):
                rows[t, k] += number
    return store.write_table(path, counted(view, rows, [TICK])) if rows else None


class Shares:
    """Reconcile's comparison of what both layers have made of the same events."""

    def __init__(self, settings: Settings, store: ModelStore) -> None:
        self._store, self._speed = store, Counter[int]()

    def __enter__(self) -> Shares:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def load_speed(self, view: View, partials: Iterable[pa.Table]) -> None:
        self._speed = rows_of(list(partials), view)

    def compare(
        self, view: View, batch: Sequence[StoredFile], path: str
    ) -> tuple[Comparison, StoredFile | None]:
        rows = self._rows(view, batch)
        World.current.compared(view, rows, self._speed)
        return Comparison(len(rows), 0, 0, 0, []), None

    def differences(
        self, view: View, left: Sequence[StoredFile], right: Sequence[StoredFile]
    ) -> Comparison:
        mine, theirs = self._rows(view, left), self._rows(view, right)
        World.current.compared(view, mine, theirs)
        return Comparison(len(mine), 0, 0, 0, [])

    def _rows(self, view: View, files: Sequence[StoredFile]) -> Counter[int]:
        return rows_of([self._store.read_table(file) for file in files], view)


# -- in the product's place ------------------------------------------------------------------------


def wait(seconds: float) -> None:
    world = World.current
    due = world.now + int(seconds * 1000)
    world.machine.wait("sleep", lambda: world.now >= due)


def batch_layer(host: Any) -> BatchLayer:
    """The product's, on a host of the model."""
    return BatchLayer(
        Project(host.settings, host.catalog, host.store),
        open_log=ModelLog,
        open_engine=lambda settings, store, rows: nullcontext(Counting(store)),  # type: ignore[arg-type, return-value]
        open_shares=Shares,  # type: ignore[arg-type]
        read_records=Records,  # type: ignore[arg-type]
        wait=wait,
    )


@cache
def _schema(view: str, extra: tuple[str, ...]) -> pa.Schema:
    return partial_schema(VIEWS[view], {name: pa.int64() for name in extra})


class Tables:
    """A reader's tables, as the product's `Tables`: by view, batch rows by file, and speed rows."""

    def __init__(self, catalog: Catalog) -> None:
        self.batch: dict[str, dict[int, pa.Table]] = {view.name: {} for view in catalog.views}
        self.speed: dict[str, list[pa.Table]] = {view.name: [] for view in catalog.views}

    def replace(
        self,
        plans: Sequence[ViewPlan],
        batch: Mapping[StoredFile, pa.Table],
        speed: Mapping[str, Sequence[pa.Table]],
        alerts: Sequence[object] = (),
    ) -> None:
        assert not alerts, "the model has none"
        for plan in plans:
            held = self.batch[plan.view.name]
            for number in plan.gone:
                del held[number]
            assert plan.staying is None or held.keys() == set(plan.staying)
            for file, number in plan.arriving.items():
                assert number not in held
                held[number] = batch[file]
            if plan.reload_speed:
                self.speed[plan.view.name] = list(speed[plan.view.name])

    def append(self, partials: Mapping[str, Sequence[pa.Table]]) -> None:
        for name, tables in partials.items():
            self.speed[name] += tables

    def rows(self, view: View) -> tuple[Counter[int], Counter[int]]:
        """Counts by key of the batch share and of the speed share."""
        return (
            rows_of(list(self.batch[view.name].values()), view),
            rows_of(self.speed[view.name], view),
        )


# -- the world -------------------------------------------------------------------------------------


class Wrong(AssertionError):
    """An answer, or an end of a process, that must not be."""


class Actor:
    """Who does one thing after another: `choose` gives the next from a number."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.thread: Thread | None = None
        self.asleep = 0
        self.task = ""


class World:
    """One schedule's state."""

    current: World

    def __init__(self, seed: int, calm: bool = False) -> None:
        rng = random.Random(seed)
        World.current = self
        self.machine = Machine()
        self.machine.now = lambda: self.now
        self.calm = calm
        self.now = START_MS + rng.randrange(TICK_MS)
        self.log = [Partition() for _ in range(rng.randint(1, 3))]
        self.events = 0
        self.broker_ahead = 0
        self.broker_away = 0
        self.tick_s, self.keep_versions, self.schema, self.catalog = 1, 2, 0, 0
        self.look = ModelStore(self.machine)
        self.actors = {name: Actor(name) for name in ACTORS}
        self.speed: Any = None
        self.speed_query: StreamQuery | None = None
        self.rebuild = False
        self.readers: dict[str, Reader | None] = dict.fromkeys(READERS)
        self.setbacks = self.wipes = 0
        self.refused: Counter[str] = Counter()
        self.healed: Counter[tuple[str, str]] = Counter()
        self.open: dict[tuple[str, str], int] = {}
        self.deeds: list[str] = []
        self.answers = 0
        self.rollback_asked = False
        self.unadvised: Counter[str] = Counter()
        self.lossy = self.clocks = False
        self.states: dict[int, list[list[Slot]]] = {}
        self.begun: dict[int, set[int]] = {}
        self.jitter_ms = 0
        self.kill_in_clean = 0
        self.told: list[str] = []

    # -- processes ---------------------------------------------------------------------------------

    def settings(self) -> Settings:
        return settings_of(self.tick_s, self.keep_versions)

    def process(self, name: str, host: str) -> Any:
        made: Any = Process(name, self.machine, host)
        made.settings, made.catalog = self.settings(), CATALOGS[self.schema][self.catalog]
        return made

    @property
    def stream(self) -> Stream:
        return STREAMS[self.schema]

    def go(self, name: str, operations: int, choice: int) -> None:
        """Lets an actor do operations; where it is idle it begins what `choice` says."""
        actor = self.actors[name]
        if actor.asleep > 0:
            actor.asleep -= 1
            return
        while operations > 0:
            if actor.thread is None:
                rng = random.Random(choice)
                choice = rng.randrange(1 << 30)
                task, process, work = TASKS[name](self, rng)
                if work is None:
                    return
                actor.task, actor.thread = task, Thread(process, work)
                self.tell(f"    {name} begins: {task}")
            thread = actor.thread
            did = self.machine.go(thread, 1 if self.kill_in_clean else operations)
            operations -= max(did, 1)
            if self.kill_in_clean and thread.process.cleaning and not thread.done:
                self.kill_in_clean -= 1
                if not self.kill_in_clean:
                    self.told.append(
                        f"    {name} is killed while it clears away, before: {thread.at}"
                    )
                    self.kill(name)
                    return
            if actor.thread.done:
                self._ended(actor)
            elif not did:
                return

    def tell(self, what: str) -> None:
        """Says what happens, once where the same happens again and again."""
        if self.told and self.told[-1].startswith(what):
            times = re.search(r" \(x(\d+)\)$", self.told[-1])
            what = f"{what} (x{int(times[1]) + 1 if times else 2})"
            self.told.pop()
        self.told.append(what)

    def _ended(self, actor: Actor) -> None:
        thread, actor.thread = actor.thread, None
        assert thread is not None
        error = thread.error
        if error is not None and actor.name == "S" and not isinstance(error, Wrong):
            error = self._as_told(error)
        thread.error = error
        if error is None:
            return
        said = f"{type(error).__name__}: {error}"
        self.tell(f"    {actor.name}: {actor.task} ended with {said[:300]}")
        if isinstance(error, Wrong):
            raise error
        # A conflict and a thing asked wrongly are answers; the rest ends the process that it is in.
        expected = (TrilayerError, SparkError, OSError)
        if not isinstance(error, expected):
            raise Wrong(f"{actor.name}: {actor.task} ended with {said}") from error
        if actor.name == "C":
            if not isinstance(error, (TrilayerError, OSError)):
                raise Wrong(f"compaction ended with {said}") from error
        elif actor.name in ("S",):
            self.kill_process(thread.process)
        else:
            thread.process.end()
        if not isinstance(error, (ConflictError, UsageError)):
            self.refusal(actor.name, error)

    def _as_told(self, error: BaseException) -> BaseException:
        """What the speed layer's process ends with after its query ended with a Spark error."""
        if not isinstance(error, SparkError):
            return error
        ended: Any = SimpleNamespace(
            stream=self.stream,
            stop=lambda: None,
            start=lambda: None,
            loss=None,
            unsettled=None,
            has_lost=lambda: False,
        )
        try:
            supervisor = Supervisor([], self.settings(), self.look, threading.Event(), "memory")
            speed_run._restart(ended, error, supervisor)
        except TrilayerError as told:
            return told
        return error

    def kill_process(self, process: Process) -> None:
        """Ends a process with all its threads; those who were at work there are idle again."""
        there = [
            a for a in self.actors.values() if a.thread is not None and a.thread.process is process
        ]
        self.machine.kill(process, [a.thread for a in there if a.thread is not None])
        for actor in there:
            actor.thread = None
        if process is self.speed:
            self.speed = self.speed_query = None

    def kill(self, name: str) -> bool:
        actor = self.actors[name]
        if name in READERS:
            self.readers[name] = None
        process = actor.thread.process if actor.thread is not None else None
        if name in ("S", "C"):
            process = self.speed or process
        if process is None:
            return False
        self.kill_process(process)
        actor.asleep = 0
        return True

    # -- refusals ----------------------------------------------------------------------------------

    def refusal(self, who: str, error: BaseException) -> None:
        kind = f"{KINDS[who]}: {type(error).__name__}: {plain(str(error))}"
        self.refused[kind] += 1
        self.open.setdefault((who if who in READERS else KINDS[who], kind), len(self.deeds))
        if (
            self.calm
            and isinstance(error, (CoverageError, IntegrityError, LogError, SparkError))
            and who != "C"
        ):
            raise Wrong(
                f"{who} was refused where nothing is wrong: {type(error).__name__}: {error}"
            ) from error

    def well(self, who: str) -> None:
        """What was refused before is healed, by what has been done since."""
        for (whose, kind), since in list(self.open.items()):
            if whose == who:
                del self.open[whose, kind]
                deeds = self.deeds[since:]
                how = next((deed for deed in HEALERS if deed in deeds), "asked again")
                self.healed[kind, how] += 1

    # -- what must hold ----------------------------------------------------------------------------

    def compared(self, view: View, left: Counter[int], right: Counter[int]) -> None:
        if left != right and not self.lossy:
            raise Wrong(f"reconcile {view.name}: {dict(left)} and {dict(right)} of the same events")

    def lost(self, below: Mapping[int, int], origin: str | None = None) -> set[tuple[int, int]]:
        """Offsets below a cut that an operator has given up, in one origin or in any."""
        found = set()
        with self.unseen():
            for schema in Master(self.look, self.stream).schemas():
                for interval in Master(self.look, self.stream).read_chain(schema):
                    for p, r in (
                        interval.lost.items() if origin in (None, interval.origin_id) else ()
                    ):
                        found |= {(p, o) for o in range(r.start, min(r.end, below.get(p, 0)))}
        return found

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """The model itself looks: no turn is taken."""
        thread, self.machine.current = self.machine.current, None
        try:
            yield
        finally:
            self.machine.current = thread

    def truncated(self, p: int, keep: int) -> None:
        """The log's end goes back: what it was before stays a state that answers may be of."""
        self.states.setdefault(p, []).append(list(self.log[p].slots))
        del self.log[p].slots[keep:]
        self.log[p].epoch += 1
        self.lossy = True

    def retained(self, p: int, begins: int) -> None:
        """Retention leaves a partition from an offset on."""
        self.log[p].begins = begins
        if p in self.states:
            self.begun.setdefault(p, set()).add(begins)

    def check_after_loss(self, reader: Reader) -> None:
        """The answer's events of the present origin are those of one state that the log was in,
        each once, and no mixture of two.

        Of the origins before it they are those that the master dataset has.
        """
        loaded = reader.refresh.loaded
        stream = reader.catalog.streams[0]
        state = loaded.streams.get(stream.name)
        by_id = next(view for view in reader.catalog.views if view.name == "by_id")
        if (
            state is None
            or by_id.name in loaded.missing_views
            or not (state.generation or state.cut)
        ):
            return
        with self.unseen():
            known = Origins(self.look, stream).all()
            published = loaded.publication.streams.get(stream.name) if loaded.publication else None
            identity = published.origin_id if published else known[0].identity
            of = next(o for o in known if o.identity == identity)
            earlier = {o.identity for o in known[: known.index(of)]}
            rows = [
                row
                for interval in Master(self.look, stream).read_chain()
                if published and interval.origin_id in earlier
                for file in interval.files
                for row in self.machine.files[file.path].content
            ]
        before = Counter(row[2] for row in rows if fits(stream, row[4]))
        batch, speed = reader.tables.rows(by_id)
        got = batch + speed
        got.subtract(before)
        cut = dict(published.cut) if published else dict(of.start)
        lost = self.lost(cut, identity)
        self.answers += 1
        explained: Counter[int] = Counter()
        for p, end in state.head.items():
            start = of.start.get(p, 0)
            fitting = []
            for slots in self.possible(p):
                expected = Counter(
                    slot.event
                    for o, slot in enumerate(slots[:end])
                    if o >= start
                    and (p, o) not in lost
                    and slot.event is not None
                    and fits(stream, slot.kind)
                )
                if len(slots) >= end and not expected - got:
                    fitting.append(expected)
            if not fitting:
                raise Wrong(
                    f"partition {p} at {reader.name}: no state of the log has what [{start},"
                    f" {end}) holds: {dict(got)}"
                )
            explained.update(max(fitting, key=len))  # type: ignore[arg-type]
        got.subtract(explained)
        if wrong := {event: n for event, n in got.items() if n}:
            raise Wrong(f"{reader.name} has events that are not below its head: {wrong}")

    def possible(self, p: int) -> list[list[Slot]]:
        """What a partition may have held, for all that can be known of it.

        Its states; and one below an offset with a later one from there on, if retention left that
        offset as the log's beginning, and it is where a layer had come to. Then the last that this
        layer had read is gone, and nothing shows that what followed it is gone too. The same goes
        for a beginning above that place, once it was accepted that retention took what lies
        between.
        """
        states = [*self.states.get(p, []), self.log[p].slots]
        if p not in self.begun:
            return states
        with self.unseen():
            ends = {i.end[p] for i in Master(self.look, self.stream).read_chain() if p in i.end}
            for generation in Generations(self.look, self.stream).all():
                for span in Generations(self.look, self.stream).spans(generation.name):
                    with suppress(IntegrityError):  # a power cut may have left half of it
                        commit = Generations(self.look, self.stream).commit(generation.name, *span)
                        ends |= {s.ranges[p].end for s in commit.segments if p in s.ranges}

        lost = {
            offset for partition, offset in self.lost({p: max(self.begun[p])}) if partition == p
        }

        def hidden(b: int, older: list[Slot], newer: list[Slot]) -> bool:
            """Whether only markers, or what was given up as lost, lie between the beginning and
            where a layer had come to.
            """
            return any(
                all(slot.event is None for slot in [*older[b:end], *newer[b:end]])
                if b <= end
                else lost.issuperset(range(end, b))
                for end in ends
            )

        return states + [
            older[:b] + newer[len(older[:b]) :]
            for place, older in enumerate(states)
            for newer in states[place + 1 :]
            for b in self.begun[p]
            if len(newer) >= b and lost.issuperset(range(len(older), b)) and hidden(b, older, newer)
        ]

    def slots(
        self, start: Mapping[int, int], end: Mapping[int, int], but: set[tuple[int, int]]
    ) -> list[Slot]:
        return [
            self.log[p].slots[o]
            for p, bound in end.items()
            for o in range(start.get(p, 0), min(bound, len(self.log[p].slots)))
            if (p, o) not in but and self.log[p].slots[o].event is not None
        ]

    def check(self, reader: Reader) -> None:
        """What a reader holds is exactly the events below its head, batch and speed each their own
        share.
        """
        loaded = reader.refresh.loaded
        stream = reader.catalog.streams[0]
        if self.states:
            return self.check_after_loss(reader)
        state = loaded.streams.get(stream.name)
        if state is None or (state.generation is None and not state.cut and not state.head):
            return
        with self.unseen():
            first = Origins(self.look, stream).all()[0]
        published = loaded.publication.streams.get(stream.name) if loaded.publication else None
        cut = dict(published.cut) if published else dict(first.start)
        lost = self.lost(cut) if self.lossy else set()
        batch, speed = self.slots(first.start, cut, lost), self.slots(cut, state.head, set())
        for view in reader.catalog.views:
            if view.name in loaded.missing_views:
                continue
            self.answers += 1
            function = FUNCTIONS[view.fingerprint]
            shares = reader.tables.rows(view)
            for what, got, slots in (("batch", shares[0], batch), ("speed", shares[1], speed)):
                expected = Counter(function(s.event, s.key) for s in slots if fits(stream, s.kind))  # type: ignore[arg-type]
                if got != expected:
                    raise Wrong(
                        f"{view.name} at {reader.name}, {what} share, from {dict(first.start)} by"
                        f" {cut} to {dict(state.head)}: too many {dict(got - expected)}, too few"
                        f" {dict(expected - got)}"
                    )
        if published and published.events != len(batch):
            raise Wrong(
                f"version {loaded.publication.version} has {published.events} events; {len(batch)}"
                " are"
            )
        if state.events != len(speed):
            raise Wrong(
                f"the speed layer has {state.events} events in [{cut}, {dict(state.head)});"
                f" {len(speed)} are"
            )
        bad = sum(not fits(stream, s.kind) for s in speed)
        if state.quarantined != bad:
            raise Wrong(f"the speed layer has {state.quarantined} events in quarantine; {bad} are")
        if published and published.fingerprint == stream.fingerprint:
            bad = sum(not fits(stream, s.kind) for s in batch)
            if published.quarantined != bad:
                raise Wrong(
                    f"version {loaded.publication.version} has {published.quarantined} in"
                    f" quarantine; {bad} are"
                )
        before, reader.head = reader.head, dict(state.head)
        if self.calm and reader.setbacks == self.setbacks:
            back = [p for p, o in before.items() if reader.head.get(p, 0) < o]
            if back and reader.wipes < self.wipes:
                reader.wipes = self.wipes  # it does not look for generations in each refresh
            elif back:
                raise Wrong(f"the head went back from {before} to {reader.head} at {reader.name}")


def settings_of(
    tick_s: int,
    keep_versions: int,
    known: dict[tuple[int, int], Settings] = {},  # noqa: B006  # kept from call to call
) -> Settings:
    if (tick_s, keep_versions) not in known:
        made = Settings(bootstrap_servers="model:1", tick_s=tick_s, settle_s=SETTLE_MS / 1000)
        known[tick_s, keep_versions] = made.model_copy(update={"keep_versions": keep_versions})
    return known[tick_s, keep_versions]


def plain(text: str) -> str:
    """A message without its numbers and names."""
    text = re.sub(r"(speed|batch|master|publications|runs|fence|streams|locks)/\S*", "FILE", text)
    text = re.sub(r"\d[\d,.:TZ-]*", "#", text)
    return re.sub(r"(\{[^}]*\}|#-\w+|'[^']*')", "~", text).split(";")[0][:110]


# -- who does what ---------------------------------------------------------------------------------

Task = tuple[str, Any, Callable[[], Any] | None]

RETRIES = 3


def _batch(world: World, rng: random.Random) -> Task:
    kind = rng.choices(["run", "full", "steps", "late steps"], [60, 8, 30, 4])[0]
    host = world.process("batch", "batch")
    late_ms = rng.randrange(1, 8) * 1000 * world.tick_s
    full = kind == "full" or (kind == "steps" and rng.random() < 0.1)
    accept_loss = world.lossy and rng.random() < 0.5
    accept_clock = world.clocks and rng.random() < 0.3

    def run() -> None:
        batch_layer(host).run(full=full, accept_loss=accept_loss, accept_clock=accept_clock)
        world.deeds.append("a batch run")
        world.well("batch")

    def steps() -> None:
        """As Airflow does: each step is a process of its own, tried again if that may help."""
        layer, until_ms = batch_layer(host), None
        if kind == "late steps":
            t_ms = world.now - late_ms
            until_ms = t_ms - t_ms % (1000 * world.tick_s)
        begun = _try(
            partial(layer.cut, until_ms, full=full, at_least=True, accept_clock=accept_clock)
        )
        if isinstance(begun, Publication):
            return
        streams, token = host.catalog.streams, begun.token
        _try(partial(layer.ingest, streams, token, accept_loss=accept_loss))
        _try(partial(layer.recompute, token))
        _try(partial(layer.reconcile, token))
        _try(partial(layer.publish, token))
        world.deeds.append("a batch run")
        world.well("batch")

    return (
        kind + (" accepting loss" if accept_loss else ""),
        host,
        steps if "steps" in kind else run,
    )


def whole_run(world: World, *, accept_loss: bool = False, accept_clock: bool = False) -> Task:
    """A batch run as a person starts it, with nothing else in the way."""
    host = world.process("batch", "batch")

    def run() -> None:
        batch_layer(host).run(accept_loss=accept_loss, accept_clock=accept_clock)
        world.deeds.append("a batch run")

    return "run" + (" --accept-loss" if accept_loss else ""), host, run


def caught_up(world: World) -> bool:
    """Whether the speed layer has done all that is in the log."""
    if world.speed_query is None:
        return False
    with world.unseen():
        spark: Any = world.speed_query._query
        done = [int(name) for name in world.look.names(f"{spark.checkpoint}/commits")]
        planned = [int(name) for name in world.look.names(f"{spark.checkpoint}/offsets")]
        if planned and max(done, default=-1) < max(planned):
            return False
        try:
            end = spark.planned(world.look, max(planned)) if planned else spark.start
        except SparkError:
            return False
    return all(
        end.get(p, 0) >= partition.visible(world.now) for p, partition in enumerate(world.log)
    )


def _try(step: Callable[[], Any]) -> Any:
    for attempt in range(RETRIES):
        try:
            return step()
        except (UsageError, OvertakenError):
            raise
        except (TrilayerError, SparkError, OSError):
            if attempt == RETRIES - 1:
                raise
    raise AssertionError("unreachable")


def _operator(world: World, rng: random.Random) -> Task:
    if not world.rollback_asked:
        return "", None, None
    world.rollback_asked = False
    host = world.process("operator", "batch")
    named = rng.random() < 0.5

    def rollback() -> None:
        there = Publications(host.store).numbers()
        if not there:
            return
        world.setbacks += 1
        version = rng.choice(there) if named else None
        roll_back(version, host.store)
        world.setbacks += 1
        world.deeds.append("a rollback")

    return "rollback", host, rollback


def _speed(world: World, rng: random.Random) -> Task:
    if world.speed is None:
        world.speed = world.process("speed", "speed")
    process = world.speed
    if world.speed_query is not None:
        running = world.speed_query
        if rng.random() < 0.2:

            def look() -> None:
                if running.overtaken():
                    running.start()
                    return
                running.check_log()
                if running.loss:
                    running.start()

            return "look for a new origin", process, look
        return "micro-batch", process, lambda: _trigger(world, running, process, rng)
    rebuild, world.rebuild = world.rebuild, False

    def start() -> None:
        # Held until the process ends.
        process.stack = ExitStack()
        process.stack.enter_context(process.store.lock("locks/speed", "the speed layer"))
        made = StreamQuery(
            Project(process.settings, process.catalog, process.store),
            process.catalog.streams[0],
            SimpleNamespace(readStream=Anything()),  # type: ignore[arg-type]
            open_log=ModelLog,
            write=write_segments,
            elapsed=lambda: world.now / 1000,
        )
        made.start(rebuild)
        world.speed_query = made
        world.deeds.append("a rebuild" if rebuild else "a restart of the speed layer")

    return "start" + (" --rebuild" if rebuild else ""), process, start


def _trigger(world: World, running: StreamQuery, process: Any, rng: random.Random) -> None:
    spark: Any = running._query
    spark.trigger(world, process.store, rng)
    world.well("speed")


def _compaction(world: World, rng: random.Random) -> Task:
    running, process = world.speed_query, world.speed
    if running is None or running.generation is None:
        return "", None, None

    def compact() -> None:
        assert running.generation
        stream = process.catalog.streams[0]
        compaction.compact(
            Generations(process.store, stream),
            process.catalog.views_of(stream),
            running.generation.name,
            at_least=2,
            recent_ms=0,
            merge=merged,
        )
        world.well("compaction")

    return "compact", process, compact


class Reader:
    """A reader's process: its tables, and what it has seen."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.process: Any = world.process(name, "reader")
        self.catalog: Catalog = self.process.catalog
        self.tables = Tables(self.catalog)
        self.refresh = Refresh(
            self.tables,  # type: ignore[arg-type]
            self.catalog,
            self.process.store,
            clock=lambda: world.now / 1000,  # type: ignore[arg-type]
        )
        self.head: dict[int, int] = {}
        self.setbacks, self.wipes = -1, world.wipes


def ask(world: World, reader: Reader) -> Callable[[], None]:
    def refresh() -> None:
        began = world.setbacks
        try:
            reader.refresh.refresh()
        except (TrilayerError, OSError) as error:
            world.told.append(f"    {reader.name} was refused: {error}")
            world.refusal(reader.name, error)
            return
        world.check(reader)
        reader.setbacks = began
        world.well(reader.name)

    return refresh


def _reader(name: str) -> Callable[[World, random.Random], Task]:
    def choose(world: World, rng: random.Random) -> Task:
        reader = world.readers[name]
        if reader is None or rng.random() < 0.03:
            reader = world.readers[name] = Reader(name, world)

        return "refresh", reader.process, ask(world, reader)

    return choose


READERS = ("R1", "R2", "R3")
TASKS: dict[str, Callable[[World, random.Random], Task]] = {
    "A": _batch,
    "B": _batch,
    "O": _operator,
    "S": _speed,
    "C": _compaction,
    **{name: _reader(name) for name in READERS},
}
ACTORS = tuple(TASKS)
KINDS = {
    "A": "batch",
    "B": "batch",
    "O": "operator",
    "S": "speed",
    "C": "compaction",
} | dict.fromkeys(READERS, "reader")
HEALERS = ("a rebuild", "a batch run", "a rollback", "a restart of the speed layer")
"""What may have healed a refusal, the strongest first."""
