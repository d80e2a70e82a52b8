"""I6: if it can't be proven that an answer holds every event, there is an error that names stream,
partition and range. It is never a smaller answer.
"""

import pytest

from tests.support.seam.world import CATALOG, STREAM, TICK_MS, arrive, run_later
from trilayer_core.errors import CoverageError
from trilayer_core.store import layout
from trilayer_core.store.generations import Generations

HELD_BY = [
    "integration/serving/test_serving.py::"
    "test_a_missing_commit_in_the_middle_is_a_hole_that_is_named",
    "unit/seam/test_growth.py::"
    "test_a_manifest_that_is_missing_is_named_and_never_taken_for_the_end",
    "unit/seam/test_seam_rules.py::test_a_piece_that_is_lacking_or_there_twice_is_refused",
    "unit/seam/test_truncated_log.py::test_a_log_that_ends_below_what_was_ingested_is_refused",
    "integration/commands/test_events_that_go_wrong.py::"
    "test_retention_that_overtakes_ingest_names_the_lost_range",
    "system/verification/test_damages.py::test_found_and_located",
]


def test_each_commit_that_is_missing_below_the_head_is_named(new_world):
    """Whichever it is, and a rebuild from the log heals it."""
    for missing in range(4):
        world = new_world()
        arrive(world, 2)
        run_later(world)
        for _ in range(4):
            arrive(world, 3)
            world.now += TICK_MS
        generation = world.speed.generation.name
        names = Generations(world.store, STREAM).spans(generation)[-4:]
        whole = sum(world.answer(CATALOG.views[0]).values())
        assert whole == 14
        if missing == 3:  # the newest: the head is below it
            world.store.delete(layout.commit(STREAM, generation, *names[missing]))
            assert sum(world.answer(CATALOG.views[0]).values()) == 11
            continue
        world.store.delete(layout.commit(STREAM, generation, *names[missing]))
        begin = 2 + 3 * missing
        with pytest.raises(CoverageError, match=rf"events.*partition 0.*\[?{begin}, {begin + 3}\)"):
            world.answer(CATALOG.views[0])
        world.rebuild()
        world.micro_batch()
        assert sum(world.answer(CATALOG.views[0]).values()) == whole
