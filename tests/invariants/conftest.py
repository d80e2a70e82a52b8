"""The model of the seam, for the promises: tests/support/seam/world.py says what it is."""

import logging

import pytest

from tests.support.seam.world import World, installed


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("trilayer").setLevel(logging.ERROR)
    yield
    logging.getLogger("trilayer").setLevel(logging.NOTSET)


@pytest.fixture
def new_world(monkeypatch):
    """A function that makes a world and has it take the place of Kafka, clock and Spark.

    Without a seed the world is still: one partition, a running speed layer, and no chance.
    """
    opened = []

    def make(seed=None, skew_ms=0):
        for one in opened:
            one.__exit__(None, None, None)
        world = World(seed or 0, skew_ms)
        opened[:] = [installed(world, monkeypatch)]
        opened[0].__enter__()
        if seed is None:
            world.records = [[]]
            world.rng.random = lambda: 1.0
            world.start_speed()
        return world

    yield make
    for one in opened:
        one.__exit__(None, None, None)
