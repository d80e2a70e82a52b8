"""The seam under thousands of random schedules: arrivals, micro-batches, batch runs, rollbacks,
rebuilds, compactions, and a death at any write.

A failure names its seed; `World(seed, good)` replays it, and `world.steps` says what happened.
"""

import logging

import pytest

import batch_layer.cut as cut
from tests.support.seam.world import SETTLE_MS, TICK_MS, World, installed

STEPS = 30
BAD_MS, BROKEN_MS = 2 * SETTLE_MS, 5 * TICK_MS


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("trilayer").setLevel(logging.ERROR)
    yield
    logging.getLogger("trilayer").setLevel(logging.NOTSET)


def test_a_world_leaves_nothing_in_the_products_place(monkeypatch):
    product = cut.now_ms
    with installed(World(0, 0), monkeypatch):
        monkeypatch.setattr(cut, "now_ms", lambda: 0)
    monkeypatch.undo()
    assert cut.now_ms is product


def run(seed, skew_ms, monkeypatch):
    """Whether the schedule met a refusal."""
    world = World(seed, skew_ms)
    with installed(world, monkeypatch):
        try:
            for _ in range(STEPS):
                world.step()
            refused = bool(world.refusals)
            world.heal()
        except Exception as error:
            error.add_note(f"seed {seed}, skew {skew_ms} ms, steps: {'; '.join(world.steps)}")
            raise
    return refused


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_good_clocks_every_event_once_and_never_a_refusal(first, monkeypatch):
    assert not any(run(seed, 0, monkeypatch) for seed in range(first, first + 100))


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_bad_clocks_every_event_once_or_a_refusal_that_a_rebuild_heals(first, monkeypatch):
    for seed in range(first, first + 100):
        run(seed, BAD_MS, monkeypatch)


def test_broken_clocks_are_refused_and_a_rebuild_heals(monkeypatch):
    refused = [seed for seed in range(200) if run(seed, BROKEN_MS, monkeypatch)]
    assert refused, "schedules this bad must meet refusals, or healing one is not tested"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2500, 500))
@pytest.mark.parametrize("skew_ms", [0, BAD_MS, BROKEN_MS])
def test_many_more_schedules(first, skew_ms, monkeypatch):
    refused = [seed for seed in range(first, first + 500) if run(seed, skew_ms, monkeypatch)]
    assert skew_ms or not refused
