"""What a run and a tick boundary read does not grow with the history, and a killed ingest leaves
nothing behind.
"""

import logging
from collections import Counter

import pytest

from speed_layer.ticks import MOST_WAITING, Ticks
from tests.support.seam.world import STREAM, TICK_MS, Crash, World
from trilayer_core.errors import CoverageError, IntegrityError
from trilayer_core.log.broker import Topic
from trilayer_core.seam import Range
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.intervals import Interval
from trilayer_core.store.master import Master

FOLDER = layout.chain(STREAM, STREAM.fingerprint)


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("trilayer").setLevel(logging.ERROR)
    yield
    logging.getLogger("trilayer").setLevel(logging.NOTSET)


@pytest.fixture
def world():
    world = World(0, 0)
    world.records = [[]]
    world.rng.random = lambda: 1.0
    world.start_speed()
    return world


@pytest.fixture
def asked(world):
    """What the store was asked below the chain's folder."""
    found = Counter()
    for name in ("read_document", "exists", "names"):
        ask = getattr(world.store, name)

        def counted(path, *kind, name=name, ask=ask):
            found[name] += path.startswith(FOLDER)
            return ask(path, *kind)

        setattr(world.store, name, counted)
    return found


def interval_of_time(world):
    """Ten records, a micro-batch, and a batch run at the next tick."""
    for _ in range(10):
        world.records[0].append((world.now, world.now, 1))
    world.micro_batch()
    world.now += 2 * TICK_MS
    world.batch()


def test_a_run_and_a_tick_read_as_much_after_many_runs_as_after_few(world, asked):
    for _ in range(10):
        interval_of_time(world)
    asked.clear()
    interval_of_time(world)
    few = Counter(asked)
    for _ in range(100):
        interval_of_time(world)
    asked.clear()
    interval_of_time(world)
    assert asked["read_document"] <= few["read_document"]
    assert asked["exists"] <= few["exists"]
    assert asked["names"] == 0
    world.check()
    assert world.head == {0: 1120}
    assert not world.refusals


def test_a_new_process_finds_the_end_in_few_looks(world, asked):
    for number in range(3000):
        interval = Interval(
            number, number * 1000, "id", {0: Range(number, number + 1)}, {}, [], 1, 0
        )
        world.store.write_document(f"{FOLDER}/{number:08d}.json", interval)
    asked.clear()
    chain = Master(world.store, STREAM).chain()
    assert (len(chain), chain[-1].number) == (3000, 2999)
    assert asked["exists"] <= 50
    assert asked["read_document"] == 1
    tail = Master(world.store, STREAM).recorded_cuts(
        back_to=lambda interval: interval.t_ms <= 2_995_000
    )
    assert tail == {t_ms: {0: t_ms // 1000 + 1} for t_ms in range(2_994_000, 3_000_000, 1000)}


def test_files_of_an_ingest_that_was_killed_go_with_the_next_run(world):
    for _ in range(3):
        interval_of_time(world)
    for fuse in range(1, 40):
        world.records[0].append((world.now, world.now, 1))
        world.micro_batch()
        world.now += 2 * TICK_MS
        world.store.fuse = fuse % 13
        try:
            world.batch()
        except Crash:
            pass
        finally:
            world.store.fuse = None
    interval_of_time(world)
    interval_of_time(world)
    used = {
        f.path.split("/")[-2] for i in Master(world.store, STREAM).read_chain() for f in i.files
    }
    folders = {name for name in world.store.names(FOLDER) if not name.endswith(".json")}
    assert folders == used


# -- chains read in part ---------------------------------------------------------------------------


@pytest.fixture
def chain(tmp_path):
    store = Store(str(tmp_path))
    for number in range(40):
        interval = Interval(
            number, number * 1000, "id", {0: Range(number, number + 1)}, {}, [], 1, 0
        )
        store.write_document(f"{FOLDER}/{number:08d}.json", interval)
    return store


def test_a_chain_that_grows_and_shrinks_is_as_long_as_it_is(chain):
    assert len(Master(chain, STREAM).chain()) == 40
    chain.write_document(f"{FOLDER}/00000040.json", {})
    assert len(Master(chain, STREAM).chain()) == 41
    for number in range(40, 4, -1):
        chain.delete(f"{FOLDER}/{number:08d}.json")
    assert len(Master(chain, STREAM).chain()) == 5
    chain.delete(FOLDER)
    assert len(Master(chain, STREAM).chain()) == 0


@pytest.mark.parametrize("number", range(39))
def test_a_manifest_that_is_missing_is_named_and_never_taken_for_the_end(number, chain):
    chain.delete(f"{FOLDER}/{number:08d}.json")
    with pytest.raises(IntegrityError, match=f"{number:08d}.json is missing in the store"):
        list(Master(Store(chain.root), STREAM).chain())


def test_neighbours_that_do_not_follow_each_other_are_named(chain):
    wrong = Interval(38, 38_000, "id", {0: Range(37, 39)}, {}, [], 1, 0)
    chain.write_document(f"{FOLDER}/00000038.json", wrong)
    with pytest.raises(
        CoverageError,
        match="interval 38 of the master dataset begins at offset 37 instead of 38",
    ):
        Master(chain, STREAM).chain().tail(lambda interval: interval.t_ms < 30_000)


def test_a_partition_without_records_keeps_no_boundary_for_each_tick(store):
    class TwoPartitions:
        """A record a tick in partition 0, and none in partition 1 until there is one more."""

        ticks, late = 0, []

        def index(self, topic, t_ms):
            records = {0: range(0, self.ticks * TICK_MS, TICK_MS), 1: self.late}
            found = {
                p: next(((o, s) for o, s in enumerate(r) if s >= t_ms), None)
                for p, r in records.items()
            }
            return tuple({p: f[i] for p, f in found.items() if f} for i in (0, 1))

        def end(self, topic):
            return {0: self.ticks, 1: len(self.late)}

        def stamps(self, topic, partition, offset, end):
            return [(o, self.late[0] if partition else o * TICK_MS) for o in range(offset, end)]

    log, number = TwoPartitions(), 3 * MOST_WAITING
    store.clock = lambda: (log.ticks + 1) * TICK_MS
    ticks = Ticks(
        STREAM,
        Topic("events", "id", (0, 1)),
        log,
        store,
        TICK_MS,
        200,
    )
    for tick in range(number):
        log.ticks = tick + 1
        assert ticks.split({0: Range(tick, tick + 1)}, {0: tick + 1, 1: 0}) == {
            tick * TICK_MS: {0: Range(tick, tick + 1)}
        }
    assert len(ticks._boundaries) <= MOST_WAITING + 2
    log.late = [(number - 2) * TICK_MS]
    assert ticks.split({1: Range(0, 1)}, {0: number, 1: 1}) == {
        (number - 2) * TICK_MS: {1: Range(0, 1)}
    }
