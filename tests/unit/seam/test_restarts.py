"""The speed layer started again with other settings, or after retention: it goes on, or begins a
new generation by itself.
"""

import logging

import pytest

from speed_layer.compaction import compact
from tests.support.seam.world import CATALOG, STREAM, TICK_MS, World, merge_partials
from trilayer_core.errors import CoverageError
from trilayer_core.seam import Range
from trilayer_core.store import layout
from trilayer_core.store.cover import best_cover
from trilayer_core.store.generations import Generations
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import Commit, Segment

FINGERPRINTS = {view.name: view.fingerprint for view in CATALOG.views}


@pytest.fixture
def world():
    """One partition, a good clock, and a clock that stands at the beginning of a tick."""
    world = World(0, 0)
    world.records = [[]]
    world.now -= world.now % TICK_MS
    world.start_speed()
    return world


def arrive(world, number, after_ms=0):
    world.now += after_ms
    for _ in range(number):
        world.records[0].append((world.now, world.now, 1))


def catch_up(world):
    """Micro-batches until there is nothing left to read."""
    for _ in range(100):
        before = len(world.store.files)
        world.rng.random = lambda: 1.0  # reads up to the end of the log
        world.micro_batch()
        if len(world.store.files) == before and world._caught_up():
            return


def numbers(world):
    return [generation.number for generation in Generations(world.store, STREAM).all()]


def with_settings(world, speed=(), **changed):
    changed["speed"] = world.settings.speed.model_copy(update=dict(speed))
    world.settings = world.settings.model_copy(update=changed)


@pytest.mark.parametrize("tick_s", [5, 2])
def test_another_length_of_ticks_begins_a_generation(tick_s, world, caplog):
    for _ in range(5):
        arrive(world, 3, after_ms=500)
        catch_up(world)
    with_settings(world, tick_s=tick_s)
    with caplog.at_level("WARNING", "trilayer.speed"):
        world.restart_speed()
    assert numbers(world) == [1, 2]
    assert f"ticks are {tick_s} s now; they were 1 s" in caplog.text
    for _ in range(30):
        arrive(world, 3, after_ms=500)
        catch_up(world)
        world.compact()
        world.check()
        assert not world.refusals
    assert world.head == {0: 105}


def test_a_generation_from_before_the_length_was_kept_is_known_by_its_ticks(world):
    for _ in range(5):
        arrive(world, 3, after_ms=500)
        catch_up(world)
    path = f"speed/events/{Generations(world.store, STREAM).all()[0].name}/generation.json"
    del world.store.files[path]["tick_ms"]
    world.restart_speed()
    assert numbers(world) == [1]
    with_settings(world, tick_s=5)
    world.restart_speed()
    assert numbers(world) == [1, 2]


def test_settings_that_change_nothing_of_the_segments_go_on(world):
    arrive(world, 3)
    catch_up(world)
    with_settings(world, {"memory_mb": 2048, "max_events": 10, "trigger_s": 1.0}, compact_after=5)
    world.restart_speed()
    assert numbers(world) == [1]


def test_ranges_that_do_not_follow_each_other_are_not_joined(world):
    arrive(world, 10)
    generation = world.speed.generation.name
    for batch, (start, end) in enumerate([(0, 3), (2, 5), (5, 7), (7, 8)]):
        tick = world.now if batch < 3 else world.now + TICK_MS
        file = world.store.write_rows(
            f"speed/events/{generation}/data/{batch}", {(tick, 1): end - start}
        )
        segment = Segment(tick, {0: Range(start, end)}, end - start, 0)
        commit = Commit(
            batch, batch, [segment], {"by_key": file, "by_parity": file}, None, world.now
        )
        world.store.create_document(layout.commit(STREAM, generation, batch, batch), commit)
    generations = Generations(world.store, STREAM)
    while compact(generations, CATALOG.views, generation, at_least=2, merge=merge_partials):
        pass
    assert generations.spans(generation) == [(0, 0), (1, 2), (3, 3)]


# -- intake ----------------------------------------------------------------------------------------


def test_a_micro_batch_larger_than_may_be_now_is_not_replayed(world, caplog):
    arrive(world, 100)

    def out_of_memory(*_):
        raise MemoryError

    world.write_segments = out_of_memory
    with pytest.raises(MemoryError):
        catch_up(world)
    world.restart_speed()
    assert numbers(world) == [1], "with the settings as they were it is replayed"
    with_settings(world, {"max_events": 40})
    with caplog.at_level("WARNING", "trilayer.speed"):
        world.restart_speed()
    assert numbers(world) == [1, 2]
    assert "micro-batch 0 was planned with 100 events; speed.max_events is 40 now" in caplog.text


def test_a_large_micro_batch_that_was_committed_is_no_reason_to_begin_anew(world):
    arrive(world, 100)
    catch_up(world)
    with_settings(world, {"max_events": 40})
    world.restart_speed()
    assert numbers(world) == [1]


def test_a_torn_checkpoint_begins_a_generation(world):
    arrive(world, 10)
    catch_up(world)
    arrive(world, 10)
    generation = world.speed.generation.name
    world.store.write(f"speed/events/{generation}/checkpoint/offsets/1", b"")
    world.restart_speed()
    catch_up(world)
    assert numbers(world) == [1, 2]
    world.check()
    assert world.head == {0: 20}


# -- retention -------------------------------------------------------------------------------------


@pytest.fixture
def retention(world):
    """What is taken is set here: the first offset that the log still holds."""
    first = {0: 0}
    world.begins = first
    return first


def rounds(world, number):
    """So many batch runs, ten events before each; cuts are at 10, 20, ..."""
    for _ in range(number):
        arrive(world, 10, after_ms=TICK_MS)
        catch_up(world)
        world.now += 2 * TICK_MS
        world.batch()


def test_a_rebuild_after_a_rollback_begins_where_the_cut_in_force_is_still_in_the_log(
    world, retention
):
    rounds(world, 2)
    _rollback(world)
    retention[0] = 10
    world.rebuild()
    catch_up(world)
    world.check()
    assert not world.refusals
    assert world.head == {0: 20}


def _rollback(world):
    from batch_layer.publish import rollback

    rollback(Publications(world.store).versions()[0].version, world.store)


def test_a_rebuild_that_can_not_reach_the_cut_in_force_leaves_the_old_answers(
    world, retention, caplog
):
    rounds(world, 2)
    _rollback(world)
    arrive(world, 5)
    catch_up(world)
    world.check()
    assert world.head == {0: 25}
    retention[0] = 15
    with caplog.at_level("WARNING", "trilayer.speed"):
        world.rebuild()
    assert (
        "the log no longer holds offsets [10, 15), which follow the batch views in force"
        in caplog.text
    )
    arrive(world, 5)
    catch_up(world)
    world.check()
    assert not world.refusals
    assert world.head == {0: 25}, "the generation before answers as it did"
    world.now += 2 * TICK_MS
    world.batch()
    world.check()
    assert not world.refusals
    assert world.head == {0: 30}, "the new one answers from the publication on"


def test_without_an_older_generation_the_refusal_says_what_heals(world, retention):
    rounds(world, 2)
    _rollback(world)
    world.wipe_speed()
    retention[0] = 15
    world.start_speed()
    catch_up(world)
    says = r"partition 0: nothing covers offsets \[10, 15\).*run `trilayer batch run`"
    with pytest.raises(CoverageError, match=says):
        best_cover(Generations(world.store, STREAM), "id", FINGERPRINTS, {0: 10})
    arrive(world, 5, after_ms=TICK_MS)
    catch_up(world)
    world.now += 2 * TICK_MS
    world.batch()
    world.check()
    assert not world.refusals
    assert world.head == {0: 25}


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("trilayer.batch").setLevel(logging.ERROR)
    yield
    logging.getLogger("trilayer.batch").setLevel(logging.NOTSET)
