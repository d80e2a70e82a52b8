"""Clocks that are ahead: of a producer, a broker, a batch host.

The cut moves on, and no answer is wrong.
"""

from __future__ import annotations

import logging

import pytest

from batch_layer.cut import choose_t
from tests.support.seam.world import STREAM, TICK_MS, World
from trilayer_core.errors import ClockError
from trilayer_core.store.generations import Generations
from trilayer_core.store.master import Master
from trilayer_core.store.publications import Publications

MINUTES_50 = 3_000_000
YEARS_3 = 3 * 365 * 86_400_000


@pytest.fixture
def world():
    made = World(7, 0)
    made.records = [[]]
    made.rng.random = lambda: 0.9  # type: ignore[method-assign]  # no full runs, no micro-batch that stays behind
    made.start_speed()
    return made


def arrive(world, n=3, ahead_ms=0, partition=0):
    for _ in range(n):
        world.records[partition].append(
            (world.now + ahead_ms, world.now, len(world.records[partition]) % 4)
        )


def live(world, ticks, ahead_ms=0, partitions=(0,)):
    """That many ticks of traffic, which the speed layer reads at once."""
    for _ in range(4 * ticks):
        for partition in partitions:
            arrive(world, 2, ahead_ms, partition)
        world.micro_batch()
        world.check()
        world.now += TICK_MS // 4


def published(world):
    found = Publications(world.store).in_force()
    assert found
    return found


def cut_of(world):
    return dict(published(world).streams[STREAM.name].cut)


def batch(world):
    world.batch()
    world.check()
    return cut_of(world)


def behind(world):
    """Records that arrived a tick and the settle delay ago, or earlier: what a cut may leave out is
    only newer.
    """
    return {
        p: sum(1 for _, visible, _ in records if visible < world.now - TICK_MS - 1000)
        for p, records in enumerate(world.records)
    }


def passes(world):
    """Every batch run of the next ticks moves the cut up to what has settled, and no answer is
    refused.
    """
    for _ in range(4):
        before = cut_of(world) if Publications(world.store).in_force() else {}
        live(world, 3, partitions=range(len(world.records)))
        after = batch(world)
        assert all(after[p] > before.get(p, -1) for p in after)
        assert all(after[p] >= n for p, n in behind(world).items())
    assert not world.refusals


def test_one_record_stamped_ahead_does_not_hold_the_cut(world):
    live(world, 2)
    batch(world)
    arrive(world, 1, MINUTES_50)
    world.micro_batch()
    passes(world)


def test_nor_when_it_came_before_anything_else(world):
    arrive(world, 1, MINUTES_50)
    passes(world)


def test_nor_when_its_time_comes(world):
    arrive(world, 1, 20 * TICK_MS)
    for _ in range(10):
        passes(world)


def test_nor_in_a_speed_layer_that_is_begun_anew(world):
    live(world, 2)
    arrive(world, 1, 20 * TICK_MS)
    for _ in range(8):
        passes(world)
        world.rebuild()
        while not world._caught_up():
            world.micro_batch()
        world.check()


def test_nor_when_only_one_partition_has_it(world):
    world.records.append([])
    live(world, 2, partitions=(0, 1))
    arrive(world, 1, MINUTES_50, partition=1)
    passes(world)


def test_ticks_are_closed_and_compacted_behind_it(world):
    live(world, 2)
    arrive(world, 1, MINUTES_50)
    for _ in range(6):
        live(world, 2)
        world.compact()
    assert world.speed
    commits = Generations(world.store, STREAM).commits(world.speed.generation.name)
    assert len(commits) <= 10, "those of the newest tick, and few wide ones"
    batch(world)
    assert not world.refusals


def test_a_topic_that_had_producers_stamps_before(world):
    """Stamps all over the place, ahead and behind, then those of the broker."""
    for i in range(200):
        arrive(world, 1, (i * 7919 % 101 - 50) * MINUTES_50)
    world.micro_batch()
    world.now += 2 * TICK_MS
    passes(world)


def test_a_broker_whose_clock_jumps_for_a_while(world):
    """While it lasts nothing tells where T lies: runs fail, answers go on.

    When it is over, all is as before.
    """
    live(world, 3)
    before = batch(world)
    live(world, 3, MINUTES_50)
    t_ms = choose_t(world.project, None)
    with pytest.raises(
        ClockError, match=r"partition 0: .* the newest records, offsets 24 to 47, .* --accept-clock"
    ):
        world.cut_at(t_ms)
    world.check()
    assert cut_of(world) == before
    live(world, 2)
    passes(world)


def test_a_jump_that_is_accepted_may_be_refused_and_a_rebuild_heals(world):
    live(world, 3)
    live(world, 3, MINUTES_50)
    world.good = False
    batch(world)
    assert cut_of(world) == {0: len(world.records[0])}
    world.heal()


def test_a_record_ahead_is_told_by_the_run(world, caplog):
    live(world, 2)
    arrive(world, 1, MINUTES_50)
    offset = len(world.records[0]) - 1
    live(world, 2)
    with caplog.at_level(logging.WARNING, "trilayer.batch"):
        world.batch()
    (line,) = [r.getMessage() for r in caplog.records if "later than now" in r.getMessage()]
    assert f"offset {offset} is stamped 20" in line


# -- a batch host whose clock was ahead ------------------------------------------------------------


@pytest.fixture
def after_a_jump(world):
    """A cut of a T in three years, and all clocks right again."""
    live(world, 3)
    batch(world)
    live(world, 2)
    world.now += YEARS_3
    batch(world)
    world.now -= YEARS_3
    return world


def test_a_t_later_than_now_is_an_error_that_names_it(after_a_jump):
    world = after_a_jump
    t = published(world).t
    live(world, 2)
    for until in (None, world.now - world.now % TICK_MS - TICK_MS):
        with pytest.raises(ClockError, match=rf"is of T={t}: .* --accept-clock") as error:
            choose_t(world.project, until, at_least=until is not None)
        assert "version 2" in str(error.value) or "interval 1 of stream 'events'" in str(
            error.value
        )


def accept(world):
    t_ms = choose_t(world.project, None, accept_clock=True)
    assert t_ms <= world.now
    assert world.layer.covered_by(t_ms) is None
    world.accept_clock = True
    world.batch()
    world.accept_clock = False
    world.check()
    return t_ms


def test_the_way_out_goes_on_from_its_cut(after_a_jump):
    world = after_a_jump
    at = cut_of(world)
    live(world, 2)
    t_ms = accept(world)
    assert published(world).t_ms == t_ms
    assert cut_of(world)[0] > at[0]
    passes(world)


def test_a_speed_layer_goes_on_and_begins_anew_before_the_way_out_and_after(after_a_jump):
    world = after_a_jump
    world.restart_speed()
    live(world, 3)
    accept(world)
    assert not world.refusals
    world.rebuild()
    passes(world)


def test_the_way_out_within_the_tick_of_the_last_cut(world):
    live(world, 3)
    batch(world)
    world.now += YEARS_3
    batch(world)
    world.now -= YEARS_3
    accept(world)
    passes(world)


def test_a_rollback_to_a_version_of_a_t_later_than_now(after_a_jump):
    world = after_a_jump
    live(world, 2)
    accept(world)
    world.rng.choice = lambda found: found[0]  # type: ignore[method-assign]
    world.rollback()
    assert published(world).t_ms > world.now
    world.check()
    passes(world)


def test_recorded_cuts_go_by_ts_that_rise(after_a_jump):
    world = after_a_jump
    before = Master(world.store, STREAM).recorded_cuts(world.now)
    live(world, 2)
    accept(world)
    found = Master(world.store, STREAM).recorded_cuts(world.now)
    ends = [interval.end for interval in Master(world.store, STREAM).read_chain()]
    assert [found[t] for t in sorted(found)] == ends
    assert before.items() <= found.items()
    assert max(found) <= world.now


# -- any of these, at any moment -------------------------------------------------------------------


class Jumpy(World):
    """Records ahead one by one, a broker whose clock is ahead for a while, a batch host whose clock
    is for one run.
    """

    def __init__(self, seed):
        super().__init__(seed, 0)
        self.good, self.accept_clock = False, True
        self.broker_ms = self.batch_ms = 0

    def append(self):
        dice = self.rng.random()
        if dice < 0.05:
            self.broker_ms = 0 if self.broker_ms else self.rng.randrange(100 * TICK_MS)
        ahead = self.rng.randrange(100 * TICK_MS) if dice > 0.9 else 0
        for _ in range(self.rng.randint(1, 5)):
            p = self.rng.randrange(len(self.records))
            arrive(self, 1, self.broker_ms + ahead, p)

    def batch(self):
        self.batch_ms = self.rng.randrange(YEARS_3) if self.rng.random() < 0.1 else 0
        try:
            super().batch()
        finally:
            self.batch_ms = 0

    def clock(self):
        return self.now + self.batch_ms


def test_every_event_once_or_a_refusal_that_a_rebuild_heals():
    logging.getLogger("trilayer").setLevel(logging.ERROR)
    for seed in range(100):
        made = Jumpy(seed)
        try:
            for _ in range(30):
                made.step()
            made.heal()
        except Exception as error:
            error.add_note(f"seed {seed}, steps: {'; '.join(made.steps)}")
            raise
    logging.getLogger("trilayer").setLevel(logging.NOTSET)
