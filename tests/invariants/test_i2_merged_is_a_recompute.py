"""I2: a merged view is what a recompute from all events would be.

For every view, key and aggregate, over the same offsets, at any instant, while a publication is
put in force too.
"""

from collections import Counter

from tests.support.seam.world import CATALOG, KEY_OF, TICK_MS, arrive
from trilayer_core.store.publications import Publications

HELD_BY = [
    "integration/parity/test_parity.py::test_a_layer_gives_what_the_oracle_gives",
    "integration/laws/test_laws.py::test_merging_is_a_commutative_monoid_whose_partials_merge_to_the_whole",
    "integration/serving/test_serving.py::test_a_snapshot_does_not_move_while_a_publication_does",
    "system/verification/test_damages.py::test_what_is_healthy_is_clean",
    "unit/seam/test_interleaved.py::test_every_answer_is_right_or_refused_and_every_refusal_heals",
]


def recomputed(world):
    """The views of all events of the log, worked out here."""
    keys = [key for records in world.records for _, _, key in records if key is not None]
    return {view.name: Counter(map(KEY_OF[view.name], keys)) for view in CATALOG.views}


def merged(world):
    return {view.name: world.answer(view) for view in CATALOG.views}


def test_merged_equals_a_recompute_after_every_step(new_world):
    world = new_world()
    for round_ in range(4):
        arrive(world, 7)
        assert merged(world) == recomputed(world)
        world.now += 2 * TICK_MS
        world.ingest_only()  # the cut is recorded, nothing is published
        assert merged(world) == recomputed(world)
        world.batch()
        assert merged(world) == recomputed(world), f"after publication {round_ + 1}"


def test_a_full_run_publishes_what_incremental_runs_have(new_world):
    world = new_world()
    for _ in range(3):
        arrive(world, 7)
        world.now += 2 * TICK_MS
        world.batch()
    incremental = merged(world)
    arrive(world, 1)
    world.now += 2 * TICK_MS
    world.rng.random = lambda: 0.0  # the world's batch run is then a full one
    world.batch()
    published = Publications(world.store).in_force()
    assert published.kind == "full"
    assert merged(world) == recomputed(world)
    assert sum(merged(world)["by_key"].values()) == sum(incremental["by_key"].values()) + 1
