"""A run that has nothing new to publish: what is in force stays, and how far the run has looked is
known.
"""

import logging

import pytest

from batch_layer.cut import choose_t
from batch_layer.publish import rollback
from serving_layer.history import history
from tests.support.seam.world import STREAM, TICK_MS, World, arrive, run_later
from trilayer_core.seam import format_time
from trilayer_core.store import layout
from trilayer_core.store.documents import digest_in
from trilayer_core.store.files import Store
from trilayer_core.store.last_check import LastChecks
from trilayer_core.store.publications import Publications

FOREVER = 1 << 62


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("trilayer").setLevel(logging.ERROR)
    yield
    logging.getLogger("trilayer").setLevel(logging.NOTSET)


@pytest.fixture
def world():
    world = World(0, 0)
    world.records = [[]]
    world.rng.random = lambda: 1.0
    world.start_speed()
    return world


def test_it_publishes_no_version_and_says_how_far_it_has_looked(world):
    arrive(world)
    first = run_later(world)
    for _ in range(20):
        assert run_later(world) == first
    assert [p.version for p in Publications(world.store).versions()] == [first.version]
    look = LastChecks(world.store).last(first)
    assert look.t_ms == choose_t(world.project, None)
    (kept,) = history(world.store)
    assert (kept.t, kept.looked_t) == (first.t, format_time(look.t_ms))
    world.check()


def test_versions_kept_are_different_states(world):
    for _ in range(4):
        arrive(world)
        run_later(world)
        for _ in range(10):
            run_later(world)
    events = [
        sum(s.events for s in p.streams.values()) for p in Publications(world.store).versions()
    ]
    assert events == [30, 40]  # this store keeps two


def test_what_a_run_leaves_is_cleared_away_by_the_next(world):
    arrive(world)
    run_later(world)
    for _ in range(5):
        run_later(world)
    before = {path.split("/")[0] for path in world.store.files}, len(world.store.names("runs"))
    for _ in range(30):
        run_later(world)
    after = {path.split("/")[0] for path in world.store.files}, len(world.store.names("runs"))
    assert after == before


def test_a_new_event_is_published_on_top(world):
    arrive(world)
    first = run_later(world)
    run_later(world)
    arrive(world, 1)
    second = run_later(world)
    assert second.version == first.version + 1
    assert LastChecks(world.store).last(second) is None
    assert second.streams[STREAM.name].events == 11
    world.check()


def test_a_full_run_publishes_all_the_same(world):
    arrive(world)
    first = run_later(world)
    world.rng.random = lambda: 0.0
    assert run_later(world).version == first.version + 1


def test_a_look_counts_for_the_version_that_it_was_at_alone(world):
    arrive(world)
    first = run_later(world)
    arrive(world)
    second = run_later(world)
    run_later(world)
    assert LastChecks(world.store).last(second)
    rollback(first.version, world.store)
    assert LastChecks(world.store).last(first) is None
    assert run_later(world).version > second.version  # what came after the first is published anew
    world.check()


def test_what_a_look_covers_needs_no_run(world):
    arrive(world)
    run_later(world)
    published = run_later(world)
    t_ms = LastChecks(world.store).complete_to_ms(published, FOREVER)
    assert t_ms > published.t_ms
    # a clock that was ahead has looked at nothing yet
    assert LastChecks(world.store).complete_to_ms(published, t_ms - 1) == published.t_ms


def test_a_version_by_a_clock_that_was_ahead_is_replaced(world):
    arrive(world)
    first = run_later(world)
    path = f"publications/{first.version:08d}.json"
    ahead = world.store.read_document(path, dict) | {"t_ms": first.t_ms + 100 * TICK_MS}
    world.store.write_document(path, ahead)
    pointer = world.store.read_document("publications/current.json", dict)
    world.store.write_document(
        "publications/current.json",
        pointer | {"version_digest": digest_in(world.store.read(path))},
    )
    world.accept_clock = True
    assert run_later(world).version == first.version + 1


def test_a_look_that_cannot_be_read_is_none(tmp_path, world):
    store = Store(str(tmp_path))
    store.write(layout.LOOKED, b"{ torn")
    arrive(world)
    assert LastChecks(store).last(run_later(world)) is None
    assert (
        LastChecks(store).complete_to_ms(Publications(world.store).in_force(), FOREVER)
        == Publications(world.store).in_force().t_ms
    )
