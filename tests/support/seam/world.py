"""The seam without Spark, Kafka and disk: everything that decides what is counted where is the
product's own code, run thousands of times.

Real: cuts, ticks, coverage, ingest, recompute, publish, rollback, clearing away, generations,
    micro-batch bookkeeping, compaction.
Stood in for: the broker (lists), the store (a dictionary that can crash before or after any of its
writes), the clock, and what Spark and DuckDB compute, which here is a Counter of keys. What those
compute is for the other tests; here only the schedule matters.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from batch_layer.cut import choose_t, cut
from batch_layer.engine import Ingested
from batch_layer.ingest import ingest
from batch_layer.publish import publish, rollback
from batch_layer.recompute import is_continued, recompute
from batch_layer.reconcile import NotCompared, speed_share
from batch_layer.run import BatchLayer
from speed_layer.compaction import compact
from speed_layer.reading import Reading, Written
from speed_layer.succession import Succession
from trilayer import Catalog, Stream, View, count
from trilayer_core.compute.grouping import Pass
from trilayer_core.errors import ClockError, CoverageError
from trilayer_core.log.broker import Log, Mark, Topic
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Ranges, RangesByTick, size
from trilayer_core.store import layout
from trilayer_core.store.cover import Cover, best_cover
from trilayer_core.store.documents import decode, document_bytes, encode
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval
from trilayer_core.store.origins import Origins
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Run
from trilayer_core.store.segments import Commit, Segment

STREAM = Stream("events", "k int, at timestamp", event_time="at")
CATALOG = Catalog(
    views=[
        View("by_key", source=STREAM, key=["k"], aggregates={"n": count()}),
        View("by_parity", source=STREAM, key={"odd": "k % 2"}, aggregates={"n": count()}),
    ]
)
KEY_OF: Mapping[str, Callable[[int], int]] = {"by_key": lambda k: k, "by_parity": lambda k: k % 2}
TICK_MS, SETTLE_MS = 1000, 200
SETTINGS = Settings(
    bootstrap_servers="model:1", tick_s=1, settle_s=SETTLE_MS / 1000, keep_versions=2
)


Standing = tuple[Publication | None, dict[int, int], Cover | None]


class Crash(BaseException):
    """kill -9: no code that handles errors may see it."""


class DictStore(Store):
    """A store in a dictionary. `fuse` counts writes until the process dies; None is never."""

    def __init__(self, rng: random.Random, clock: Callable[[], int]) -> None:
        self._rng, self.clock = rng, clock
        self._names = 0
        self.files: dict[str, Any] = {}
        self.folders: dict[str, dict[str, None]] = {}
        self.fuse: int | None = None
        self.root, self.local = "model", True

    def _mutate(self, change: Callable[[], None]) -> None:
        if self.fuse is None:
            return change()
        self.fuse -= 1
        if self.fuse < 0:
            if self._rng.random() < 0.5:
                change()
            raise Crash
        change()

    def _put(self, path: str, content: Any) -> None:
        self.files[path] = content
        while "/" in path:
            path, name = path.rsplit("/", 1)
            self.folders.setdefault(path, {})[name] = None

    def _drop(self, path: str) -> None:
        for name in list(self.folders.pop(path, {})):
            self._drop(f"{path}/{name}")
        self.files.pop(path, None)
        parent, name = path.rsplit("/", 1)
        self.folders.get(parent, {}).pop(name, None)

    def unique(self) -> str:
        self._names += 1
        return f"{self._names:06x}"

    def exists(self, relative: str) -> bool:
        return relative in self.files or bool(self.folders.get(relative))

    def names(self, relative: str) -> list[str]:
        return sorted(self.folders.get(relative, ()))

    def read(self, relative: str) -> bytes:
        content = self.content(relative)
        return content if isinstance(content, bytes) else document_bytes(content)

    def write(self, relative: str, data: bytes, *, durable: bool = True) -> None:
        self._mutate(lambda: self._put(relative, data))

    def delete(self, relative: str) -> None:
        self._mutate(lambda: self._drop(relative))

    def content(self, relative: str) -> Any:
        """Bytes, a document's JSON, or rows."""
        if relative not in self.files:
            super_read_error(relative)
        return self.files[relative]

    def read_document(self, relative: str, kind: Any) -> Any:
        return decode(kind, self.content(relative), relative)

    def write_document(self, relative: str, document: object) -> None:
        self._mutate(lambda: self._put(relative, encode(document)))

    def create_document(self, relative: str, document: object, *, durable: bool = True) -> bool:
        if relative in self.files:
            return False
        self.write_document(relative, document)
        return True

    def write_rows(self, relative: str, rows: Any) -> StoredFile:
        self._mutate(lambda: self._put(relative, rows))
        return StoredFile(relative, len(rows), 0, "")

    def check_all(self, files: Any) -> None:
        for file in files:
            self.content(file.path)

    @contextmanager
    def lock(self, relative: str, what: str, wait_s: float = 0.0) -> Iterator[None]:
        """One step at a time: nobody else can hold it."""
        yield


def super_read_error(relative: str) -> None:
    from trilayer_core.errors import IntegrityError

    raise IntegrityError(f"{relative} is missing in the store")


def merge_partials(
    view: View, run: Sequence[Commit], path: str, store: DictStore
) -> StoredFile | None:
    """Compaction's merge of a view's partials."""
    rows: Counter[tuple[int, int]] = Counter()
    for commit in run:
        if view.name in commit.files:
            rows.update(store.content(commit.files[view.name].path))
    return store.write_rows(path, rows) if rows else None


class ModelLog(Log):
    """The broker, as `Log` asks it: what is visible now, and the time index over it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.bootstrap_servers = "model:1"

    def close(self) -> None:
        pass

    def find(self, stream: Stream) -> Topic | None:
        return Topic(stream.topic, "id", tuple(range(len(self._world.records))))

    def check_append_time(self, topic: Topic) -> None:
        pass

    def beginning(self, topic: Topic) -> dict[int, int]:
        return {p: self._world.begins.get(p, 0) for p in topic.partitions}

    def end(self, topic: Topic) -> dict[int, int]:
        return {p: self._world.visible(p) for p in topic.partitions}

    def last_records(self, topic: Topic, below: Mapping[int, int]) -> dict[int, Mark]:
        beginning = self.beginning(topic)
        return {p: self._world.mark(p, o - 1) for p, o in below.items() if o > beginning.get(p, 0)}

    def index(self, topic: Topic, t_ms: int) -> tuple[dict[int, int], dict[int, int]]:
        offsets, stamps = {}, {}
        for p in topic.partitions:
            for offset in range(self._world.visible(p)):
                if self._world.records[p][offset][0] >= t_ms:
                    offsets[p], stamps[p] = offset, self._world.records[p][offset][0]
                    break
        return offsets, stamps

    def stamps(self, topic: Topic, partition: int, offset: int, end: int) -> list[tuple[int, int]]:
        records = self._world.records[partition]
        return [
            (o, records[o][0]) for o in range(offset, min(end, self._world.visible(partition)))
        ][:3]


class Counting:
    """What Spark computes for a batch run, as an `Engine` does it: here a count of keys."""

    def __init__(self, world: World) -> None:
        self.world = world

    def ingest(self, stream: Stream, number: int, ranges: Ranges) -> Ingested:
        keys = self.world.keys(ranges)
        folder = f"{number:08d}-{self.world.rng.randrange(1 << 24):06x}"
        path = f"master/{stream.name}/{stream.fingerprint}/{folder}/part.parquet"
        files = [self.world.store.write_rows(path, keys)]
        return Ingested(files, len(keys), keys.count(None))

    def compute(
        self, pass_: Pass, intervals: Sequence[Interval], token: int, kind: str
    ) -> dict[str, Sequence[StoredFile]]:
        files = [file for interval in intervals for file in interval.files]
        keys = [key for file in files for key in self.world.store.content(file.path)]
        made = {}
        for view in pass_.views:
            rows = Counter(KEY_OF[view.name](key) for key in keys if key is not None)
            made[view.name] = self._write(rows, view, token, kind) if rows else []
        return made

    def merge(
        self, views: Sequence[View], files: Mapping[str, Sequence[StoredFile]], token: int
    ) -> dict[str, Sequence[StoredFile]]:
        made = {}
        for view in views:
            self.world.store.check_all(files[view.name])
            rows: Counter[int] = Counter()
            for file in files[view.name]:
                rows.update(self.world.store.content(file.path))
            made[view.name] = self._write(rows, view, token, "merged")
        return made

    def _write(self, rows: Any, view: View, token: int, kind: str) -> list[StoredFile]:
        path = f"batch/{view.name}/{token:08d}-{kind}/part.parquet"
        return [self.world.store.write_rows(path, rows)]


class World:
    """One schedule's state: broker, clock, store, and the two layers on it.

    skew_ms: 0 for a good clock, by which stamps never go back and a record is visible within the
        settle delay of its stamp. Else stamps are off by
    up to so much, either way, record by record.
    """

    def __init__(self, seed: int, skew_ms: int, tick_s: int = 1) -> None:
        self.rng = random.Random(seed)
        self.skew_ms, self.good = skew_ms, skew_ms == 0
        self.settings = SETTINGS.model_copy(update={"tick_s": tick_s})
        self.now = 1_700_000_000_000 + self.rng.randrange(self.settings.tick_ms)
        # Per partition (append time, visible from, key), key None for an event that goes to
        # quarantine.
        self.records: list[list[tuple[int, int, int | None]]] = [
            [] for _ in range(self.rng.randint(1, 3))
        ]
        self.store = DictStore(self.rng, self.clock)
        self.engine: Any = Counting(self)
        self.speed: Reading | None = None
        self.begins: dict[int, int] = {}
        self.head: dict[int, int] = {}
        self.refusals: list[str] = []
        self.accept_clock = False
        self.steps: list[str] = []

    def clock(self) -> int:
        return self.now

    @property
    def project(self) -> Project:
        return Project(self.settings, CATALOG, self.store)

    # -- broker ------------------------------------------------------------------------------------

    @property
    def layer(self) -> BatchLayer:
        return BatchLayer(self.project, open_log=self.open_log)

    def open_log(self, servers: str = "") -> Log:
        return ModelLog(self)

    def visible(self, partition: int) -> int:
        records = self.records[partition]
        offset = len(records)
        while offset and records[offset - 1][1] > self.now:
            offset -= 1
        return offset

    def mark(self, partition: int, offset: int) -> Mark:
        stamp, _, key = self.records[partition][offset]
        return Mark.of_record(offset, stamp, None, repr(key).encode())

    def append(self) -> None:
        for _ in range(self.rng.randint(1, 5)):
            p = self.rng.randrange(len(self.records))
            off = self.rng.randint(-self.skew_ms, self.skew_ms)
            delay = self.rng.randrange(SETTLE_MS) if self.rng.random() < 0.5 else 0
            before = self.records[p][-1][1] if self.records[p] else 0
            key = None if self.rng.random() < 0.1 else self.rng.randrange(4)
            self.records[p].append((self.now + off, max(before, self.now + delay), key))

    def advance(self) -> None:
        tick_ms = self.settings.tick_ms
        self.now += self.rng.choice((1, 20, 150, 400, tick_ms, tick_ms, 3 * tick_ms))

    def add_partition(self) -> None:
        if len(self.records) < 4:
            self.records.append([])

    def keys(self, ranges: Mapping[int, Any]) -> list[int | None]:
        return [self.records[p][o][2] for p, r in ranges.items() for o in range(r.start, r.end)]

    # -- speed layer -------------------------------------------------------------------------------

    def start_speed(self, rebuild: bool = False) -> None:
        log = self.open_log()
        topic = log.topic(STREAM)
        project = Project(self.settings, CATALOG, self.store)
        succession = Succession(project, STREAM, topic, log)
        generation, read = succession.choose(rebuild=rebuild)
        self.speed = Reading(
            project, STREAM, generation, read, topic, log,
            elapsed=lambda: self.now / 1000,
        )  # fmt: skip

    def micro_batch(self) -> None:
        """One trigger as Spark does it: offsets first, then the batch, then Spark's own commit; a
        batch without that is replayed.
        """
        if self.speed is None:
            return self.start_speed()
        checkpoint = layout.checkpoint(STREAM, self.speed.generation.name)
        planned = [int(name) for name in self.store.names(f"{checkpoint}/offsets")]
        batch = max(planned, default=-1)
        if batch < 0 or self.store.exists(f"{checkpoint}/commits/{batch}"):
            before = (
                self._planned(checkpoint, batch)
                if batch >= 0
                else dict(self.speed.generation.start)
            )
            behind = self.rng.random() < 0.3
            end = {}
            for p in range(len(self.records)):
                low, high = before.get(p, 0), self.visible(p)
                end[p] = self.rng.randint(low, high) if behind and low < high else max(low, high)
            if end == before or not any(end[p] > before.get(p, 0) for p in end):
                return
            batch += 1
            text = "\n".join(
                ["v1", "{}", json.dumps({STREAM.topic: {str(p): o for p, o in end.items()}})]
            )
            self.store.write(f"{checkpoint}/offsets/{batch}", text.encode())
        self.speed.process(batch, partial(self.write_segments, batch))
        self.store.write(f"{checkpoint}/commits/{batch}", b"v1")

    def _planned(self, checkpoint: str, batch: int) -> dict[int, int]:
        text = self.store.read(f"{checkpoint}/offsets/{batch}").decode().splitlines()[2]
        return {int(p): o for p, o in json.loads(text)[STREAM.topic].items()}

    def write_segments(self, batch_id: int, parts: RangesByTick) -> Written:
        assert self.speed
        store, generation = self.store, self.speed.generation.name
        data = f"{layout.generation(STREAM, generation)}/data/{batch_id:012d}-{batch_id:012d}"
        rows: dict[str, Counter[tuple[int, int]]] = {view.name: Counter() for view in CATALOG.views}
        segments = []
        for tick, ranges in parts.items():
            keys = self.keys(ranges)
            for view, found in rows.items():
                found.update((tick, KEY_OF[view](key)) for key in keys if key is not None)
            segments.append(self.segment(tick, ranges, size(ranges), keys.count(None)))
        files = {
            view: store.write_rows(f"{data}-{view}.parquet", found)
            for view, found in rows.items()
            if found
        }
        return Written(segments, files, None)

    def segment(self, tick: int, ranges: Ranges, events: int, quarantined: int) -> Segment:
        return Segment(tick, ranges, events, quarantined)

    def compact(self) -> None:
        if self.speed is not None:
            compact(
                Generations(self.store, STREAM),
                CATALOG.views,
                self.speed.generation.name,
                at_least=2,
                recent_ms=0,
                merge=merge_partials,
            )

    def rebuild(self) -> None:
        self.start_speed(rebuild=True)

    def restart_speed(self) -> None:
        self.speed = None
        self.start_speed()

    def wipe_speed(self) -> None:
        self.speed = None
        self.store.delete(f"speed/{STREAM.name}")

    # -- batch layer -------------------------------------------------------------------------------

    def batch(self) -> None:
        full = self.rng.random() < 0.15
        run = self.cut(full)
        published = Publications(self.store).in_force()
        if (
            published
            and published.t_ms == run.t_ms
            and not full
            and is_continued(CATALOG, STREAM, published)
        ):
            return
        ingest(self.project, STREAM, run, self.engine, open_log=self.open_log)
        recomputed = recompute(self.project, run, self.engine)
        self._reconcile(run, recomputed)
        publish(self.project, run, recomputed, {})

    def cut(self, full: bool) -> Run:
        """As an operator has it who knows of the broker's clock."""
        accept = self.accept_clock
        t_ms = choose_t(self.project, None, accept_clock=accept)
        try:
            return self.cut_at(t_ms, full, accept_clock=accept)
        except ClockError:
            assert not self.good
            return self.cut_at(t_ms, full, accept_clock=True)

    def cut_at(self, t_ms: int, full: bool = False, *, accept_clock: bool = False) -> Run:
        return cut(self.project, t_ms, full, accept_clock=accept_clock, open_log=self.open_log)

    def _reconcile(self, run: Any, recomputed: Any) -> None:
        """What both layers have of the same ticks must be the same, where the product says that it
        can be compared.
        """
        base = Publications(self.store).in_force()
        share = speed_share(CATALOG, STREAM, run, base, self.store)
        if isinstance(share, NotCompared):
            return
        for view in CATALOG.views:
            speed = self._rows(view.name, share.cover.commits, share.ticks)
            batch: Counter[int] = Counter()
            for file in (recomputed.added if base else recomputed.views)[view.name]:
                batch.update(self.store.content(file.path))
            assert speed == batch, (
                f"{view.name}: batch and speed differ over the same ticks: {batch} and {speed}"
            )

    def ingest_only(self) -> None:
        """A run that died after its ingest."""
        run = self.cut(False)
        ingest(self.project, STREAM, run, self.engine, open_log=self.open_log)

    def rollback(self) -> None:
        if Publications(self.store).in_force():
            versions = Publications(self.store).versions()
            rollback(self.rng.choice(versions).version, self.store)

    # -- answers -----------------------------------------------------------------------------------

    def standing(self) -> Standing:
        """What an answer stands on: the publication in force, its cut, and the segments above it.

        Raises CoverageError if they are not proven to be all.
        """
        pointer = self.store.files.get(layout.POINTER)
        publication = Publications(self.store).read(pointer["version"]) if pointer else None
        origin = Origins(self.store, STREAM).present()
        assert origin, "something must have looked at the log"
        cut = dict(publication.streams[STREAM.name].cut) if publication else dict(origin.start)
        fingerprints = {view.name: view.fingerprint for view in CATALOG.views}
        return (
            publication,
            cut,
            best_cover(Generations(self.store, STREAM), "id", fingerprints, cut),
        )

    def answer(self, view: View, standing: Standing | None = None) -> Counter[int]:
        """The merged view: events by key. Raises CoverageError."""
        publication, _, found = standing or self.standing()
        answer: Counter[int] = Counter()
        for file in publication.views[view.name].files if publication else []:
            answer.update(self.store.content(file.path))
        if found:
            answer.update(self._rows(view.name, found.commits, found.ticks))
        return answer

    # -- what must hold ----------------------------------------------------------------------------

    def check(self) -> None:
        """I1, I2, I6: the merged answer is exactly the events below its head, or a refusal.

        With good clocks the head never goes back (I4, I5).
        """
        if Origins(self.store, STREAM).present() is None:
            return
        try:
            standing = self.standing()
        except CoverageError as refusal:
            self.refusals.append(str(refusal))
            return
        publication, cut, found = standing
        head = dict(found.head) if found else cut
        below = [record for p, end in head.items() for record in self.records[p][:end]]
        for view in CATALOG.views:
            answer = self.answer(view, standing)
            expected = Counter(KEY_OF[view.name](key) for _, _, key in below if key is not None)
            assert answer == expected, (
                f"{view.name} up to {head} from {cut}: got {answer}, expected {expected}"
            )
        segments = (
            [s for c in found.commits for s in c.segments if s.tick in found.ticks.get(c.name, ())]
            if found
            else []
        )
        published = publication.streams[STREAM.name] if publication else None
        assert sum(s.events for s in segments) + (published.events if published else 0) == len(
            below
        )
        quarantined = sum(s.quarantined for s in segments) + (
            published.quarantined if published else 0
        )
        assert quarantined == sum(key is None for _, _, key in below)
        self.head = head

    def _rows(
        self, view: str, commits: Sequence[Commit], ticks: Mapping[str, frozenset[int]]
    ) -> Counter[int]:
        rows: Counter[int] = Counter()
        for commit in commits:
            if commit.name in ticks and view in commit.files:
                for (tick, key), n in self.store.content(commit.files[view].path).items():
                    if tick in ticks[commit.name]:
                        rows[key] += n
        return rows

    # -- schedules ---------------------------------------------------------------------------------

    def step(self) -> None:
        """One random step, which may die at any of its writes, then everything that must hold."""
        actions: list[tuple[Callable[[], None], int]] = [
            (self.advance, 25),
            (self.append, 30),
            (self.micro_batch, 30),
            (self.batch, 12),
            (self.ingest_only, 2),
            (self.compact, 5),
            (self.rollback, 2),
            (self.restart_speed, 2),
            (self.rebuild, 1),
            (self.wipe_speed, 1),
            (self.add_partition, 1),
        ]
        action = self.rng.choices([a for a, _ in actions], [w for _, w in actions])[0]
        self.store.fuse = self.rng.randrange(12) if self.rng.random() < 0.1 else None
        before = dict(self.head)
        try:
            action()
            died = False
        except Crash:
            died = True
            if action in (self.micro_batch, self.restart_speed, self.rebuild, self.compact):
                self.speed = None
        finally:
            self.store.fuse = None
        self.steps.append(f"{self.now % 100_000}: {action.__name__}{' (died)' if died else ''}")
        self.check()
        assert not (self.good and self.refusals), f"refused with good clocks: {self.refusals}"
        # A wiped speed layer, and one that was behind the publication that a rollback took away,
        # have to catch up first.
        if self.good and action not in (self.wipe_speed, self.rollback):
            assert all(self.head.get(p, 0) >= offset for p, offset in before.items()), (
                f"head went back from {before} to {self.head}"
            )

    def heal(self) -> None:
        """With good clocks the speed layer just goes on, and with bad ones a rebuild mends every
        refusal, until all that arrived is counted.
        """
        self.now += 10 * self.settings.tick_ms
        if self.good:
            self.restart_speed()
        else:
            self.rebuild()
        for _ in range(1000):
            self.micro_batch()
            if self._caught_up():
                break
        self.refusals.clear()
        self.check()
        assert not self.refusals, f"a rebuild must heal; got {self.refusals[0]}"
        everything = {p: len(records) for p, records in enumerate(self.records) if records}
        assert {p: self.head.get(p, 0) for p in everything} == everything

    def _caught_up(self) -> bool:
        assert self.speed
        checkpoint = layout.checkpoint(STREAM, self.speed.generation.name)
        planned = [int(name) for name in self.store.names(f"{checkpoint}/offsets")]
        end = (
            self._planned(checkpoint, max(planned))
            if planned
            else dict(self.speed.generation.start)
        )
        done = not planned or self.store.exists(f"{checkpoint}/commits/{max(planned)}")
        return done and all(end.get(p, 0) >= self.visible(p) for p in range(len(self.records)))


def arrive(world, number=10):
    for _ in range(number):
        world.records[0].append((world.now, world.now, 1))
    world.micro_batch()


def run_later(world):
    """A batch run two ticks from now. Returns the version in force after it."""
    world.now += 2 * TICK_MS
    world.batch()
    return Publications(world.store).in_force()
