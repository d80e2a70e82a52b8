"""A version that a person holds in force: no run publishes on top of it, until it is released."""

import logging

import pytest

from batch_layer.ingest import ingest
from batch_layer.publish import publish, rollback
from batch_layer.recompute import recompute
from tests.support.seam.world import STREAM, TICK_MS, World, arrive, run_later
from trilayer_core.errors import HeldError, OvertakenError, UsageError
from trilayer_core.store import layout
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.pointer import Held, PointerFile
from trilayer_core.store.publications import Publications

ANN = Held("ann@laptop", "prices were wrong", 1_767_225_600_000)


@pytest.fixture
def world():
    world = World(0, 0)
    world.records = [[]]
    world.rng.random = lambda: 1.0
    world.start_speed()
    for _ in range(3):
        arrive(world)
        run_later(world)
    return world


def test_no_run_publishes_on_top_of_it_and_the_answers_stay_fresh(world):
    before = Publications(world.store).in_force()
    Publications(world.store).hold(ANN)
    arrive(world)
    said = (
        r"^held by ann@laptop: prices were wrong; release it with `trilayer batch release`, or the"
        r" DAG lambda_release; until then version 3 stays in force .* since 2026-01-01T00:00:00Z$"
    )
    with pytest.raises(HeldError, match=said):
        run_later(world)
    assert Publications(world.store).in_force() == before
    world.check()
    assert Publications(world.store).release() == ANN
    arrive(world)
    assert run_later(world).version > before.version
    world.check()


def test_a_run_under_way_does_not_publish_either(world):
    token = Fence(world.store).take("batch run")
    Publications(world.store).hold(ANN)
    with pytest.raises(HeldError):
        Publications(world.store).put_in_force(2, token, "publish")
    assert Publications(world.store).in_force().version == 3


def test_a_publish_repeated_under_a_hold_is_the_one_that_was(world):
    """A step that was killed after it had moved the pointer is repeated by Airflow."""
    arrive(world)
    world.now += 2 * TICK_MS
    run = world.cut(full=False)
    ingest(world.project, STREAM, run, world.engine, open_log=world.open_log)
    recomputed, asked = recompute(world.project, run, world.engine), []
    first = publish(world.project, run, recomputed, {}, lambda: asked.append("once"))
    Publications(world.store).hold(ANN)
    assert publish(world.project, run, recomputed, {}, lambda: asked.append("again")) == first
    assert asked == ["once"]
    later = world.cut(full=False)
    with pytest.raises(HeldError):
        publish(world.project, later, recomputed, {}, lambda: asked.append("held"))
    assert asked == ["once"], "a hook's error would hide the hold"


def test_a_rollback_moves_what_is_held_and_the_hold_stays(world):
    Publications(world.store).hold(ANN)
    assert rollback(2, world.store).version == 2
    assert PointerFile(world.store).held() == ANN
    bob = Held("bob@laptop", "", 1_767_225_660_000)
    assert rollback(3, world.store, bob).version == 3
    assert PointerFile(world.store).held() == bob
    assert str(bob) == "since 2026-01-01T00:01:00Z by bob@laptop, who gave no reason"
    world.check()


def test_a_rollback_with_a_hold_is_one_step(world):
    rollback(None, world.store, ANN)
    assert (Publications(world.store).in_force().version, PointerFile(world.store).held()) == (
        2,
        ANN,
    )
    with pytest.raises(HeldError):
        run_later(world)


def test_a_publication_ends_no_hold_that_was_not_there(world):
    rollback(2, world.store)
    assert PointerFile(world.store).held() is None
    run_later(world)
    assert PointerFile(world.store).held() is None
    assert Publications(world.store).release() is None


def test_there_must_be_something_to_hold(tmp_path):
    with pytest.raises(
        UsageError, match="a hold must have a publication to keep in force; there is none yet"
    ):
        Publications(Store(str(tmp_path))).hold(ANN)


@pytest.mark.parametrize("torn", ["", "{", '{"version": 3}'])
def test_a_torn_pointer_holds_nothing_up(torn, world, caplog):
    """`rollback N` is how one comes out of it."""
    Publications(world.store).hold(ANN)
    read = world.store.read
    world.store.read = lambda path: torn.encode() if path == layout.POINTER else read(path)
    logging.getLogger("trilayer").setLevel(logging.WARNING)
    target = Publications(world.store).versions()[0].version
    assert rollback(target, world.store, ANN).version == target
    assert rollback(target, world.store).version == target
    assert "whether the version in force was held is not known" in caplog.text


def test_who_has_taken_over_is_told(world):
    token = Fence(world.store).take("batch run until then")
    Fence(world.store).check(token)
    rollback(2, world.store)
    with pytest.raises(
        OvertakenError, match="a rollback to version 2 has taken over, and this one ends"
    ):
        Fence(world.store).check(token)
    Fence(world.store).take("batch run until later")
    with pytest.raises(OvertakenError, match="a later run has taken over"):
        Fence(world.store).check(token)
    world.store.write_document(f"fence/{Fence(world.store).newest():08d}.json", {})
    with pytest.raises(OvertakenError, match="a later run has taken over"):
        Fence(world.store).check(token)
