"""I4: a rollback gives back the earlier answer, plus what has arrived since."""

from tests.support.seam.world import CATALOG, TICK_MS, arrive, run_later
from trilayer_core.store.publications import Publications

HELD_BY = [
    "unit/storage/test_pointer.py::test_i4_a_rollback_that_comes_while_a_run_clears_away_holds",
    "unit/storage/test_pointer.py::"
    "test_i4_a_run_that_a_rollback_has_fenced_off_does_not_publish_over_it",
    "unit/seam/test_held.py::test_no_run_publishes_on_top_of_it_and_the_answers_stay_fresh",
    "integration/serving/test_damage.py::test_a_rollback_mends_a_damaged_publication",
    "system/scheduling/test_real_scheduler.py::test_a_rollback_holds_while_the_batch_is_paused",
]


def test_the_earlier_version_answers_with_all_that_has_arrived_since(new_world):
    world = new_world()
    arrive(world, 5)
    run_later(world)
    arrive(world, 3)
    run_later(world)
    arrive(world, 2)
    before = [world.answer(view) for view in CATALOG.views]
    world.rng.choice = min_version
    world.rollback()
    published = Publications(world.store).in_force()
    assert (published.version, published.streams["events"].cut) == (1, {0: 5})
    assert [world.answer(view) for view in CATALOG.views] == before
    arrive(world, 4)
    assert sum(world.answer(CATALOG.views[0]).values()) == 14


def test_the_next_run_goes_on_from_the_version_that_is_in_force(new_world):
    world = new_world()
    for _ in range(2):
        arrive(world, 5)
        run_later(world)
    world.rng.choice = min_version
    world.rollback()
    arrive(world, 1)
    world.now += 2 * TICK_MS
    world.batch()
    published = Publications(world.store).in_force()
    assert (published.version, published.streams["events"].events) == (3, 11)
    world.check()


def min_version(versions):
    return min(versions, key=lambda publication: publication.version)
