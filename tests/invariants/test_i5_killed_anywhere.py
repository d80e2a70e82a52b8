"""I5: killed with kill -9 at any step and started again, the answers do not change."""

from itertools import count

import pytest

from tests.support.seam.world import CATALOG, TICK_MS, Crash, World, arrive

HELD_BY = [
    "unit/storage/test_orphans.py::"
    "test_i5_a_publication_killed_at_any_change_of_the_store_leaves_one_that_is_whole",
    "integration/recovery/test_batch_killed.py::test_i5_run_killed_and_run_again",
    "integration/recovery/test_batch_killed.py::test_i5_publish_killed_and_run_again",
    "integration/recovery/test_speed_killed.py::test_i5_segments_and_compaction_killed",
    "integration/recovery/test_speed_killed.py::test_i5_reader_killed_while_it_loads",
    "integration/commands/test_replay_interrupted.py::"
    "test_killed_anywhere_and_run_again_each_is_sent_once",
    "integration/processes/test_processes_killed.py::test_i5_batch_and_reader_killed_and_run_again",
    "integration/processes/test_processes_killed.py::test_i5_speed_layer_and_changelogs_killed_and_started_again",
    "system/recovery/test_stack_killed.py::test_without_up_its_processes_end",
]


@pytest.mark.parametrize("step", [World.batch, World.micro_batch, World.compact])
@pytest.mark.parametrize("written", [False, True], ids=["before the write", "after the write"])
def test_a_death_at_any_write_of_a_step_changes_no_answer(new_world, step, written):
    """And the step, done again, does what it would have done."""
    for fuse in count():
        world = new_world()
        for _ in range(5):
            arrive(world, 3)
            world.now += TICK_MS
        world.now += 2 * TICK_MS
        if step is World.micro_batch:
            world.records[0] += [(world.now, world.now, 1)] * 2
        before = sum(world.answer(CATALOG.views[0]).values())
        world.rng.random = lambda: 0.4 if written else 1.0
        world.store.fuse = fuse
        try:
            step(world)
            died = False
        except Crash:
            died = True
        world.store.fuse, world.rng.random = None, lambda: 1.0
        if died and step is World.micro_batch:
            assert sum(world.answer(CATALOG.views[0]).values()) in (before, before + 2)
            world.restart_speed()
            step(world)
        elif died:
            assert sum(world.answer(CATALOG.views[0]).values()) == before, fuse
            step(world)
        world.check()
        assert not world.refusals
        if not died:
            assert fuse > 1, "the step must have writes"
            return
