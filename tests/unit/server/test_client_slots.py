"""Which client gets a slot, when more are wanted than there are."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trilayer_server.engine.slots import Slots, most_each


async def settled():
    """All that can go on has done so: a task needs a few rounds of the loop for that."""
    for _ in range(5):
        await asyncio.sleep(0)


class Waits:
    """Requests for slots by clients, in order of arrival."""

    def __init__(self, number):
        self.slots, self.held, self.tasks = Slots(number), [], []

    async def ask(self, *clients):
        self.tasks += [(who, asyncio.create_task(self._take(who))) for who in clients]
        await settled()

    async def _take(self, who):
        release = await self.slots.take(who)
        self.held.append((who, release))

    async def release(self, who):
        held = next(one for one in self.held if one[0] == who)
        self.held.remove(held)
        held[1]()
        await settled()

    @property
    def holders(self):
        return [who for who, _ in self.held]


def test_slots_are_given_in_order_of_arrival_and_one_client_has_three_quarters():
    async def run():
        waits = Waits(4)
        await waits.ask(*"aaaaabcab")
        assert waits.holders == [*"aaab"]
        await waits.release("b")
        assert waits.holders == [*"aaac"]  # a has its share
        await waits.release("a")
        await waits.release("a")
        assert waits.holders == [*"acba"]

    asyncio.run(run())


def test_a_single_slot_is_for_any_client():
    async def run():
        waits = Waits(1)
        await waits.ask(*"ab")
        await waits.release("a")
        assert waits.holders == ["b"]
        await waits.release("b")
        waits.tasks.clear()
        assert not waits.slots._clients  # those that have no slot and want none are forgotten

    asyncio.run(run())


STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "release", "cancel", "settle"]), st.integers(0, 20)),
    max_size=60,
)


@given(STEPS, st.integers(1, 5))
def test_no_slot_is_lost_and_none_is_free_while_one_that_may_have_it_waits(steps, number):
    async def run():
        waits = Waits(number)
        for step, which in [*steps, ("settle", 0)]:
            under_way = [task for _, task in waits.tasks if not task.done()]
            if step == "ask":
                who = "abc"[which % 3]
                waits.tasks.append((who, asyncio.create_task(waits._take(who))))
            elif step == "cancel" and under_way:
                under_way[which % len(under_way)].cancel()
            elif step == "release" and waits.held:
                waits.held.pop(which % len(waits.held))[1]()
            elif step == "settle":
                await settled()
                counts = Counter(waits.holders)
                assert counts.total() <= number
                assert all(count <= most_each(number) for count in counts.values())
                waiting = {who for who, task in waits.tasks if not task.done()}
                assert counts.total() == number or all(
                    counts[who] == most_each(number) for who in waiting
                )
        for _, task in waits.tasks:
            task.cancel()
        await settled()
        while waits.held:
            waits.held.pop()[1]()
        await settled()
        assert waits.slots._all._value == number

    asyncio.run(run())
