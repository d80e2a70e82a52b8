"""Questions that are followed are asked one after the other, but none waits for a long one."""

import asyncio

import pytest

from trilayer_server.http import one_by_one
from trilayer_server.http.one_by_one import OneByOne


@pytest.fixture
def patient(monkeypatch):
    """Whoever waits for more than a moment here waits for ever."""
    monkeypatch.setattr(one_by_one, "PATIENCE_S", 3_600)


@pytest.mark.usefixtures("patient")
def test_one_after_the_other():
    inside, order = [], []

    async def enter(turns, number):
        async with turns.turn():
            inside.append(number)
            await asyncio.sleep(0)
            assert inside == [number]
            inside.remove(number)
            order.append(number)

    async def run():
        turns = OneByOne()
        await asyncio.gather(*(enter(turns, number) for number in range(5)))

    asyncio.run(run())
    assert order == [0, 1, 2, 3, 4]


def test_one_that_stays_keeps_the_others_out_for_a_moment_only():
    async def stay(turns):
        async with turns.turn():
            await asyncio.Event().wait()

    async def run():
        turns = OneByOne()
        staying = [asyncio.create_task(stay(turns)) for _ in range(3)]
        async with asyncio.timeout(60), turns.turn():
            pass
        for task in staying:
            task.cancel()

    asyncio.run(run())


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("inside", [True, False])
def test_one_that_is_cancelled_makes_room(inside):
    async def stay(turns):
        async with turns.turn():
            await asyncio.Event().wait()

    async def run():
        turns = OneByOne()
        first, second = (asyncio.create_task(stay(turns)) for _ in range(2))
        await asyncio.sleep(0)
        (first if inside else second).cancel()
        if inside:
            second.cancel()
        async with asyncio.timeout(60), turns.turn():
            pass
        first.cancel()

    asyncio.run(run())
