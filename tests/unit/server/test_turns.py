"""Which workers compute, when more have something to compute than may do so at once."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from trilayer.server.engine import turns
from trilayer.server.engine.turns import Turns


class Computing:
    """Records what it is told."""

    def __init__(self):
        self.computed_s, self.told = 0.0, []

    def pause(self):
        self.told.append("pause")

    def go_on(self):
        self.told.append("go on")


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("number", [1, 3])
def test_a_question_that_has_computed_makes_room_and_goes_on(number):
    async def run():
        shared = Turns(number)
        async with AsyncExitStack() as stack:
            long = [Computing() for _ in range(number)]
            for one in long:
                await stack.enter_async_context(shared.turn(one))
            short = Computing()
            async with shared.turn(short):
                assert [one.told for one in long].count(["pause"]) == 1
            assert short.told == []
            assert [one.told for one in long if one.told] == [["pause", "go on"]]
            assert all(one.computed_s < 60 for one in long)

    asyncio.run(run())


def test_one_that_has_computed_for_long_makes_room_at_once():
    async def run():
        shared, long, short = Turns(1), Computing(), Computing()
        long.computed_s = 100.0
        async with shared.turn(long), shared.turn(short):
            assert long.told == ["pause"]
        assert long.told == ["pause", "go on"]

    asyncio.run(run())


async def _enter(shared, of):
    async with shared.turn(of):
        pass


def test_long_ones_take_turns(monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", 0.01)

    async def run():
        shared, first, second = Turns(1), Computing(), Computing()
        async with shared.turn(first), shared.turn(second):
            await until(lambda: min(first.told.count("pause"), second.told.count("pause")) > 2)
        assert first.told.count("pause") == first.told.count("go on")
        assert second.told.count("pause") == second.told.count("go on")

    asyncio.run(run())


def test_one_that_does_not_wait_any_more_takes_no_turn():
    async def run():
        shared, first = Turns(1), Computing()
        async with shared.turn(first):
            gone = asyncio.create_task(_enter(shared, Computing()))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        async with shared.turn(Computing()):
            pass
        assert shared._turns == []

    asyncio.run(run())
