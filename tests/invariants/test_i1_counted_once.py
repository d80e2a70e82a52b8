"""I1: every event is counted exactly once, by exactly one layer.

An event is one record of a topic: (topic id, partition, offset). Below the head of an answer each
is in the batch layer's share or in the speed layer's, never in both and never in neither; one that
does not fit its schema is counted there as quarantined.
"""

from collections import Counter

from tests.support.seam.world import SETTLE_MS

HELD_BY = [
    "unit/seam/test_model.py::test_good_clocks_every_event_once_and_never_an_error",
    "unit/seam/test_interleaved.py::test_every_answer_is_right_or_refused_and_every_refusal_heals",
    "integration/seam/test_real.py::test_a_random_schedule_of_real_parts",
    "integration/parity/test_parity.py::test_every_bad_event_is_counted_as_quarantined",
    "system/faults/test_faults.py::test_fault",
]


def counted(world):
    """How often each offset below the head is counted: by the batch, and by the speed layer."""
    publication, cut, found = world.standing()
    head = dict(found.head) if found else cut
    batch = Counter((p, o) for p, end in cut.items() for o in range(end)) if publication else {}
    speed = Counter(
        (p, o)
        for commit in (found.commits if found else [])
        for segment in commit.segments
        if segment.tick in found.ticks.get(commit.name, ())
        for p, r in segment.ranges.items()
        for o in range(r.start, r.end)
    )
    start = Counter() if publication else cut
    below = [(p, o) for p, end in head.items() for o in range(start.get(p, 0), end)]
    return below, Counter(batch) + speed


def test_each_offset_below_the_head_is_in_exactly_one_layer(new_world):
    for seed in range(20):
        world = new_world(seed or 99, skew_ms=0)
        world.append()
        world.start_speed()
        for _ in range(25):
            world.step()
            below, counts = counted(world)
            assert counts == Counter(below), (seed, world.steps)


def test_so_it_is_with_clocks_that_are_off_once_a_rebuild_has_healed_what_was_refused(new_world):
    for seed in range(1, 21):
        world = new_world(seed, skew_ms=2 * SETTLE_MS)
        world.append()
        world.start_speed()
        for _ in range(25):
            world.step()
        world.heal()
        below, counts = counted(world)
        assert counts == Counter(below), (seed, world.steps)
        assert len(below) == sum(map(len, world.records))
