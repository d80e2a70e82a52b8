"""The model of the seam, for the promises: tests/support/seam/world.py says what it is."""

import logging

import pytest

from tests.support.seam.world import World


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("trilayer").setLevel(logging.ERROR)
    yield
    logging.getLogger("trilayer").setLevel(logging.NOTSET)


@pytest.fixture
def new_world():
    """A function that makes a world.

    Without a seed the world is still: one partition, a running speed layer, and no chance.
    """

    def make(seed=None, skew_ms=0):
        world = World(seed or 0, skew_ms)
        if seed is None:
            world.records = [[]]
            world.rng.random = lambda: 1.0
            world.start_speed()
        return world

    return make
