"""I3: a publication puts all views in force at once: no reader sees half of one."""

from itertools import count

from tests.support.seam.world import CATALOG, TICK_MS, Crash, arrive
from trilayer_core.store.publications import Publications

HELD_BY = [
    "unit/storage/test_orphans.py::"
    "test_i5_a_publication_killed_at_any_change_of_the_store_leaves_one_that_is_whole",
    "unit/storage/test_pointer.py::"
    "test_many_rollbacks_and_runs_at_once_leave_a_whole_publication_of_the_newest_token",
    "integration/serving/test_serving.py::test_a_snapshot_does_not_move_while_a_publication_does",
    "integration/recovery/test_batch_killed.py::test_i5_publish_killed_and_run_again",
]


def test_after_a_death_at_any_write_all_views_are_of_the_same_version(new_world):
    for fuse in count():
        world = new_world()
        arrive(world, 5)
        world.now += 2 * TICK_MS
        world.batch()
        arrive(world, 3)
        world.now += 2 * TICK_MS
        world.store.fuse = fuse
        try:
            world.batch()
        except Crash:
            pass
        else:
            assert fuse > 5, "a run must have writes"
            assert Publications(world.store).in_force().version == 2
            return
        world.store.fuse = None
        published = Publications(world.store).in_force()
        batch = {
            view.name: sum(
                sum(world.store.content(file.path).values())
                for file in published.views[view.name].files
            )
            for view in CATALOG.views
        }
        assert set(batch.values()) == {5 if published.version == 1 else 8}, (fuse, batch)
        assert sum(world.answer(CATALOG.views[0]).values()) == 8
