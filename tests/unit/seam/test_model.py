"""The seam under random schedules: arrivals, micro-batches, batch runs, rollbacks,
rebuilds, compactions, and a death at any write.

A failure names its seed; `World(seed, good)` replays it, and `world.steps` says what happened.
"""

import logging

import pytest

from tests.support.seam.world import SETTLE_MS, TICK_MS, World

STEPS = 30
BAD_MS, BROKEN_MS = 2 * SETTLE_MS, 5 * TICK_MS


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("trilayer").setLevel(logging.ERROR)
    yield
    logging.getLogger("trilayer").setLevel(logging.NOTSET)


def run(seed, skew_ms):
    """Whether the schedule met a refusal."""
    world = World(seed, skew_ms)
    try:
        for _ in range(STEPS):
            world.step()
        refused = bool(world.refusals)
        world.heal()
    except Exception as error:
        error.add_note(f"seed {seed}, skew {skew_ms} ms, steps: {'; '.join(world.steps)}")
        raise
    return refused


def test_good_clocks_every_event_once_and_never_an_error():
    assert not any(run(seed, 0) for seed in range(200))


def test_bad_clocks_every_event_once_or_an_error_that_a_rebuild_heals():
    for seed in range(200):
        run(seed, BAD_MS)


def test_broken_clocks_are_refused_and_a_rebuild_heals():
    refused = [seed for seed in range(100) if run(seed, BROKEN_MS)]
    assert refused, "schedules this bad must meet refusals, or healing one is not tested"
