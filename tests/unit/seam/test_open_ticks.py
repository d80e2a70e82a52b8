"""Commits of a tick that is still open are compacted, and never across a cut that is recorded or
will be.
"""

import logging

import pytest

from speed_layer.compaction import compact
from tests.support.seam.world import CATALOG, STREAM, World, merge_partials
from trilayer_core.seam import Range
from trilayer_core.store import layout
from trilayer_core.store.generations import Generations
from trilayer_core.store.segments import Commit, Segment

HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("trilayer").setLevel(logging.ERROR)
    yield
    logging.getLogger("trilayer").setLevel(logging.NOTSET)


@pytest.fixture
def world():
    """Ticks of an hour, one partition, a good clock that stands at the beginning of a tick."""
    world = World(0, 0, tick_s=3600)
    world.records = [[]]
    world.now -= world.now % HOUR_MS
    world.rng.random = lambda: 1.0  # micro-batches read up to the end of the log
    world.start_speed()
    return world


def micro_batch(world, after_ms=0, stamped=0):
    """One record, in a micro-batch of its own. stamped: how far off its stamp is."""
    world.now += after_ms
    world.records[0].append((world.now + stamped, world.now, 1))
    world.micro_batch()


def compacted(world, at_least=8, recent_ms=0, merge=merge_partials):
    while compact(
        Generations(world.store, STREAM),
        CATALOG.views,
        generation(world),
        at_least,
        recent_ms=recent_ms,
        merge=merge,
    ):
        pass


def generation(world):
    return world.speed.generation.name


def spans(world):
    return Generations(world.store, STREAM).spans(generation(world))


def answered(world, events):
    world.check()
    assert not world.refusals
    assert world.head == {0: events}


def test_an_open_tick_has_few_commits_each_written_a_few_times(world):
    written = []

    def count(view, run, path, store):
        written.append(sum(commit.last - commit.first + 1 for commit in run))
        return merge_partials(view, run, path, store)

    for number in range(1, 1001):
        micro_batch(world, after_ms=100)
        if number % 20 == 0:
            compacted(world, merge=count)
    assert (
        len(
            {
                s.tick
                for c in Generations(world.store, STREAM).commits(generation(world))
                for s in c.segments
            }
        )
        == 1
    )
    assert len(spans(world)) <= 4 * 8
    assert sum(written) / len(CATALOG.views) <= 4 * 1000
    answered(world, 1000)


def test_what_readers_may_not_have_seen_yet_is_left(world):
    for _ in range(100):
        micro_batch(world, after_ms=1000)
    compacted(world, recent_ms=60_000)
    assert [span for span in spans(world) if span[0] == span[1]][:1] == [(40, 40)]
    answered(world, 100)


def test_the_cut_of_the_next_tick_lies_between_commits(world):
    """Read up to just before the hour and just after it, compacted before and after the batch has
    recorded the cut.
    """
    world.now += HOUR_MS - 500
    for number in range(1, 41):
        micro_batch(world, after_ms=25)
        if number % 10 == 0:
            compacted(world, at_least=2)
            answered(world, number)
    world.now += 1000
    world.batch()
    compacted(world, at_least=2)
    answered(world, 40)
    micro_batch(world)
    compacted(world, at_least=2)
    answered(world, 41)


def before_and_after(world, choose):
    """Ten commits, a cut at the end of the log, ten more commits, all in one hour by the clock, and
    all of the tick before it by their stamps: the broker's clock is slow. Returns how far what was
    compacted reaches.
    """
    world.now += HOUR_MS + 1000
    for _ in range(10):
        micro_batch(world, after_ms=100, stamped=-HOUR_MS)
    choose()
    for _ in range(10):
        micro_batch(world, after_ms=100, stamped=-HOUR_MS)
    compacted(world, at_least=2)
    assert any(first < last for first, last in spans(world))
    return spans(world)


def test_a_recorded_cut_divides_what_is_of_one_tick(world):
    found = before_and_after(world, world.batch)
    assert all(last < 10 or first >= 10 for first, last in found), found
    answered(world, 20)


def test_a_cut_that_a_run_has_chosen_divides_before_it_is_recorded(world):
    def choose():
        t_ms = world.now - world.now % HOUR_MS
        assert world.cut_at(t_ms).cuts["events"] == {0: 10}

    found = before_and_after(world, choose)
    assert all(last < 10 or first >= 10 for first, last in found), found
    answered(world, 20)


def test_a_cut_whose_t_is_ahead_joins_nothing_across_a_moment_of_the_grid(world):
    """A run's clock was ahead.

    The next cut may still fall at the hour, between the tenth and the eleventh commit.
    """
    world.now += HOUR_MS + 1000
    ahead = {"token": 9, "t_ms": world.now + 100 * HOUR_MS, "full": False}
    cuts = {"cuts": {"events": {0: 0}}, "topic_ids": {"events": "id"}}
    world.store.write_document("runs/00000009/cut.json", ahead | cuts)
    for _ in range(10):
        micro_batch(world, after_ms=100, stamped=-HOUR_MS)
    world.now += HOUR_MS
    for _ in range(10):
        micro_batch(world, after_ms=100, stamped=-2 * HOUR_MS)
    compacted(world, at_least=2)
    assert any(first < last for first, last in spans(world))
    assert all(last < 10 or first >= 10 for first, last in spans(world)), spans(world)
    answered(world, 20)


def test_a_tick_that_stays_open_is_compacted_slot_by_slot_and_at_once_below_a_cut(world):
    """The broker's clock stands still: all is of one tick.

    Each hour's commits stay apart until a later cut is known.
    """
    began = world.now
    for _ in range(5):
        for _ in range(20):
            micro_batch(world, after_ms=100, stamped=began - world.now - 100)
        world.now += HOUR_MS
        compacted(world, at_least=4)
    answered(world, 100)
    found = spans(world)
    assert 5 <= len(found) <= 5 * 5
    assert all(first // 20 == last // 20 for first, last in found), found
    newest = world.now - world.now % HOUR_MS
    cuts = {
        "token": 9,
        "t_ms": newest,
        "full": False,
        "cuts": {"events": {0: 100}},
        "topic_ids": {"events": "id"},
    }
    world.store.write_document("runs/00000009/cut.json", cuts)
    compacted(world, at_least=4)
    assert len(spans(world)) < len(found)


def test_a_tick_with_offsets_on_both_sides_of_another_ticks_is_left_in_two(world):
    """Stamps that went back by more than a tick: [0, 4) and [6, 10) are of one tick, [4, 6) is of
    the next.
    """
    end = 0
    for number, (hour, events) in enumerate(
        [(0, 2), (0, 2), (1, 2), (0, 2), (0, 2), (2, 2), (2, 1)]
    ):
        ranges = {0: Range(end, end + events)}
        segment = Segment(hour * HOUR_MS, ranges, events, 0)
        commit = Commit(number, number, [segment], {}, None, world.now + number)
        path = layout.commit(STREAM, generation(world), number, number)
        world.store.create_document(path, commit)
        end += events
    compacted(world, at_least=2)
    found = [
        (segment.tick, segment.ranges[0])
        for commit in Generations(world.store, STREAM).commits(generation(world))
        for segment in commit.segments
        if segment.tick == 0
    ]
    assert found == [(0, Range(0, 4)), (0, Range(6, 10))]
