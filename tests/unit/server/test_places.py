"""Which client gets a place, when more are asked for than there are."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilayer_server.engine.places import Places


class Waits:
    """Requests for places, by the names that a test gives them: `a1` is one of the client a."""

    def __init__(self, number, of_one):
        self.begun, self.served, self._tasks = 0, [], {}
        self.places = Places(number, of_one, self._begin)

    def _begin(self):
        self.begun += 1

    async def ask(self, *names):
        for name in names:
            self._tasks[name] = asyncio.create_task(self._take(name))
            await settled()

    async def _take(self, name):
        await self.places.take(name[0])
        self.served.append(name)

    async def leave(self, who):
        self.places.leave(who)
        await settled()

    def cancel(self, name):
        self._tasks[name].cancel()

    async def end(self):
        """Gives up all waits, and all places."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for who in {name[0] for name in self._tasks}:
            while self.places.taken(who):
                self.places.leave(who)
        assert self.places.waiting == []
        assert not self.places._asked
        assert not self.places._taken


async def settled():
    """All that can go on has done so: a task needs a few rounds of the loop for that."""
    for _ in range(5):
        await asyncio.sleep(0)


def check(number, of_one, steps):
    async def run():
        waits = Waits(number, of_one)
        await steps(waits)
        await waits.end()
        assert waits.places._free == number

    asyncio.run(run())


def test_a_free_place_is_taken_at_once():
    async def steps(waits):
        await waits.ask("a1", "b1")
        assert waits.served == ["a1", "b1"]
        assert waits.begun == 0
        assert (waits.places.taken("a"), waits.places.taken("c")) == (1, 0)

    check(3, 2, steps)


def test_a_client_leaves_some_places_to_others():
    async def steps(waits):
        await waits.ask("a1", "a2", "a3", "a4")
        assert waits.places.waiting == ["a", "a"]
        assert waits.begun == 2
        await waits.ask("b1")
        assert waits.served == ["a1", "a2", "b1"]
        await waits.leave("b")  # the place is not for a, which has its share
        assert waits.places.waiting == ["a", "a"]
        await waits.leave("a")
        assert waits.served[3:] == ["a3"]

    check(3, 2, steps)


def test_a_place_goes_to_the_client_that_has_the_fewest():
    async def steps(waits):
        await waits.ask("a1", "a2", "b1", "a3", "a4", "b2", "b3", "c1")
        assert waits.served == ["a1", "a2", "b1"]
        await waits.leave("a")  # a and b have one each now, and c none
        assert waits.served[3:] == ["c1"]
        await waits.leave("a")  # a has none now
        assert waits.served[4:] == ["a3"]
        await waits.leave("b")
        assert waits.served[5:] == ["b2"]
        await waits.leave("c")  # a and b have one each, and a has waited for longer
        assert waits.served[6:] == ["a4"]

    check(3, 3, steps)


def test_whoever_asks_in_short_turns_keeps_nobody_waiting():
    """Of clients that have as many, the one that has waited for longest is next."""

    async def steps(waits):
        await waits.ask("a1", "b1", "b2", "a2", "a3")
        await waits.leave("a")
        assert waits.served == ["a1", "b1", "a2"]  # a had none then
        await waits.leave("b")
        assert waits.served[3:] == ["b2"]

    check(2, 2, steps)


@pytest.mark.parametrize("clients", ["ab", "abc", "abcdef"])
def test_if_each_has_one_place_at_most_nobody_waits_for_the_queue_of_another(clients):
    """There are then as many places as clients, so that only one's own requests are waited for."""

    async def steps(waits):
        await waits.ask(*(f"a{number}" for number in range(9)))
        await waits.ask(*(f"{other}0" for other in clients[1:]))
        assert waits.served == [f"{who}0" for who in clients]
        await waits.leave("a")
        assert waits.served[len(clients) :] == ["a1"]

    check(len(clients), 1, steps)


def test_a_client_s_own_requests_are_served_in_order():
    async def steps(waits):
        await waits.ask(*(f"a{number}" for number in range(6)))
        for _ in range(5):
            await waits.leave("a")
        assert waits.served == [f"a{number}" for number in range(6)]

    check(1, 1, steps)


def test_a_wait_that_is_cancelled_leaves_nothing_behind():
    async def steps(waits):
        await waits.ask("a1", "b1", "c1")
        waits.cancel("b1")
        await settled()
        assert waits.places.waiting == ["c"]
        await waits.leave("a")
        assert waits.served == ["a1", "c1"]

    check(1, 1, steps)


@pytest.mark.parametrize("cancelled_first", [True, False])
def test_a_wait_may_be_cancelled_when_the_place_is_handed_over(cancelled_first):
    """Both before its task goes on: the place goes to the next one."""

    async def steps(waits):
        await waits.ask("a1", "b1", "c1")
        if cancelled_first:
            waits.cancel("b1")
            waits.places.leave("a")
        else:
            waits.places.leave("a")
            waits.cancel("b1")
        await settled()
        assert waits.served == ["a1", "c1"]
        assert waits.places.taken("b") == 0

    check(1, 1, steps)


def test_a_place_is_due_to_a_client_itself_and_to_one_with_fewer():
    async def steps(waits):
        def due():
            return [who for who in "ab" if waits.places.is_due(who)]

        await waits.ask("a1", "a2", "b1")
        assert due() == []  # nobody waits
        await waits.ask("b2")
        assert due() == ["a", "b"]  # a has more, and b gets its own
        await waits.leave("a")
        await waits.ask("a3")
        assert due() == ["a", "b"]  # b has more

    check(3, 3, steps)


def test_a_client_that_has_its_share_waits_for_its_own_places_only():
    async def steps(waits):
        await waits.ask("a1", "a2", "b1", "a3")
        assert waits.places.is_due("a")
        assert not waits.places.is_due("b")

    check(4, 2, steps)


def test_room_may_be_made_when_a_wait_begins():
    async def run():
        places = Places(1, 1, lambda: places.leave("a"))
        await places.take("a")
        await places.take("b")
        assert (places.taken("a"), places.taken("b")) == (0, 1)

    asyncio.run(run())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from("abc")),
        st.tuples(st.sampled_from(["leave", "cancel"]), st.integers(0, 20)),
        st.just(("settle", 0)),
    ),
    max_size=60,
)


@given(STEPS, st.integers(1, 5), st.integers(1, 5))
def test_no_place_is_lost_and_none_is_free_while_one_that_may_have_it_waits(steps, number, of_one):
    async def run():
        places, held, waits = Places(number, of_one), [], []

        async def take(who):
            await places.take(who)
            held.append(who)

        for step, what in [*steps, ("settle", 0)]:
            if step == "ask":
                waits.append((what, asyncio.create_task(take(what))))
            elif step == "cancel" and (under_way := [w for _, w in waits if not w.done()]):
                under_way[what % len(under_way)].cancel()
            elif step == "leave" and held:
                places.leave(held.pop(what % len(held)))
            elif step == "settle":
                await settled()
                counts = Counter(held)
                assert places._taken == counts
                assert places._free == number - counts.total() >= 0
                assert all(count <= of_one for count in counts.values())
                asked = [who for who, wait in waits if not wait.done()]
                assert sorted(places.waiting) == sorted(asked)
                assert not places._free or all(counts[who] == of_one for who in asked)
        for _, wait in waits:
            wait.cancel()
        await settled()
        assert not places._asked

    asyncio.run(run())
