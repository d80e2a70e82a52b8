"""Which workers compute, when more have something to compute than may do so at once."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.support.waiting import until_in_loop
from trilayer_server.engine import turns
from trilayer_server.engine.turns import Turns


class Computing:
    """Records what it is told."""

    def __init__(self, who="ann"):
        self.who, self.computed_s, self.told = who, 0.0, []

    def pause(self):
        self.told.append("pause")

    def go_on(self):
        self.told.append("go on")


@pytest.mark.parametrize("number", [1, 3])
def test_long_questions_make_room_for_a_short_one_and_go_on(number):
    async def run():
        shared = Turns(number)
        async with AsyncExitStack() as stack:
            long = [Computing() for _ in range(number)]
            for one in long:
                await stack.enter_async_context(shared.turn(one))
            await until_in_loop(
                lambda: all(turn.computed_s > turns.SLICE_S for turn in shared._turns)
            )
            short = Computing()
            async with shared.turn(short):
                assert [one.told for one in long] == [["pause"]] * number
            assert short.told == []
            assert [one.told for one in long] == [["pause", "go on"]] * number
            assert all(turns.SLICE_S < one.computed_s < 60 for one in long)

    asyncio.run(run())


def test_a_short_question_beside_short_ones_pauses_none():
    async def run():
        shared, first, second = Turns(2), Computing(), Computing()
        async with shared.turn(first), shared.turn(second):
            pass
        assert first.told == second.told == []

    asyncio.run(run())


def test_one_that_waits_for_its_first_turn_is_paused_meanwhile():
    async def run():
        shared, first, second = Turns(1), Computing(), Computing()

        async def answer_second():
            async with shared.turn(second):
                assert second.told == ["pause", "go on"]

        async with shared.turn(first):
            waits = asyncio.create_task(answer_second())
            await until_in_loop(lambda: second.told)
            assert second.told == ["pause"]
        await waits
        assert second.told == ["pause", "go on"]

    asyncio.run(run())


def test_a_long_question_goes_on_among_short_ones_without_end(monkeypatch):
    monkeypatch.setattr(turns, "ASIDE_S", 0.05)

    async def run():
        shared, long, stop = Turns(2), Computing(), asyncio.Event()
        long.computed_s = 100.0

        async def ask_short_questions():
            while not stop.is_set():
                async with shared.turn(Computing()):
                    await asyncio.sleep(0.001)

        async with asyncio.TaskGroup() as others, shared.turn(long):
            for _ in range(2):
                others.create_task(ask_short_questions())
            await until_in_loop(lambda: long.told.count("go on") > 2)
            stop.set()

    asyncio.run(run())


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("whose", ["ann", "another {}"])
def test_a_long_question_has_its_slices_though_short_ones_always_wait(monkeypatch, number, whose):
    monkeypatch.setattr(turns, "ASIDE_S", 0.05)
    monkeypatch.setattr(turns, "SLICE_S", 0.01)

    async def run():
        shared, long, stop = Turns(number), Computing(), asyncio.Event()
        long.computed_s = 100.0

        async def ask_short_questions(who):
            while not stop.is_set():
                async with shared.turn(Computing(who)):
                    await asyncio.sleep(0.001)

        async with asyncio.TaskGroup() as others, shared.turn(long):
            for each in range(3 * number):
                others.create_task(ask_short_questions(whose.format(each)))
            await until_in_loop(lambda: long.computed_s > 100 + 10 * turns.SLICE_S)
            stop.set()

    asyncio.run(run())


def test_a_client_that_has_computed_much_lately_makes_room_for_another():
    async def run():
        shared = Turns(2)
        async with shared.turn(Computing("mallory")):
            await until_in_loop(lambda: shared._turns[0].computed_s > 2 * turns.SLICE_S)
        again, other, one_more = Computing("mallory"), Computing("ann"), Computing("mallory")
        async with shared.turn(again):
            async with shared.turn(other):
                assert again.told == ["pause"]
            assert again.told == ["pause", "go on"]
            async with shared.turn(one_more):
                assert again.told == ["pause", "go on"]
        assert other.told == one_more.told == []

    asyncio.run(run())


def test_clients_of_long_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr(turns, "MOST_CLIENTS", 3)

    async def run():
        shared = Turns(1)
        for number in (*range(10), 8):
            async with shared.turn(Computing(f"client {number}")):
                pass
        assert list(shared._lately) == ["client 7", "client 9", "client 8"]

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
            await until_in_loop(
                lambda: min(first.told.count("pause"), second.told.count("pause")) > 2
            )
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
