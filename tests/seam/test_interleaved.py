"""The seam with live processes that are switched at every operation on the store, the broker and the clock.

A failure prints the smallest schedule that still fails, and the command that runs it again. `make soak` runs more of them.
"""

import logging

import pytest

from serving_layer import refresh as refresh_step
from speed_layer import compaction
from tests.seam import interleaved, schedules
from tests.seam.interleaved import World, Wrong
from tests.seam.schedules import FAULTS, plan, report, run, shrink

SCHEDULES, AT_ONCE = 240, 40


@pytest.fixture(autouse=True)
def model():
    logging.getLogger("trilayer").setLevel(logging.CRITICAL)
    with interleaved.installed():
        yield
    logging.getLogger("trilayer").setLevel(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, SCHEDULES, AT_ONCE))
def test_every_answer_is_right_or_refused_and_every_refusal_heals(first):
    for seed in range(first, first + AT_ONCE):
        try:
            run(seed)
        except Wrong as wrong:
            pytest.fail(report(seed, wrong))


def test_every_kind_of_fault_is_met():
    planned = {entry[1] for seed in range(SCHEDULES) for entry in plan(seed) if entry[0] == "fault"}
    assert planned == {kind for kind, fault in FAULTS.items() if not fault.off}


def test_a_schedule_follows_from_its_seed():
    first, second = [], []
    run(7, told=first)
    run(7, told=second)
    assert first == second


# -- the model itself: what is broken on purpose must be found ---------------------------------------------------------


def narrow_first(store, stream, views, generation, at_least, **more):
    """Compaction that deletes what it replaces before it writes the replacement."""
    commits = compaction.read_commits(store, stream, generation)
    if len(commits) > 2:
        store.delete(compaction.commit_path(stream, generation, commits[0].first, commits[0].last))


def below_the_cut(stream, cut, pieces):
    """As `cover`, without leaving anything out."""
    return [piece.name for piece in pieces], dict(cut)


DAMAGES = {
    "compaction loses a commit": (compaction, "compact", narrow_first),
    "a reader takes segments below the cut too": (refresh_step, "cover", below_the_cut),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_broken_on_purpose_is_found(damage, monkeypatch):
    monkeypatch.setattr(*DAMAGES[damage])
    for seed in range(200):
        try:
            run(seed)
        except Wrong:
            return
    pytest.fail(f"200 schedules did not notice that {damage}")


def test_a_schedule_that_fails_is_made_small_and_can_be_run_again(monkeypatch):
    monkeypatch.setattr(compaction, "compact", narrow_first)
    seed, wrong = next((seed, wrong) for seed in range(200) if (wrong := _fails(seed)))
    keep = shrink(seed, plan(seed))
    assert len(keep) < schedules.LENGTH / 3
    said = report(seed, wrong)
    places = said.rpartition(":")[2]
    assert f"--replay {seed}:" in said
    assert _fails(seed, [plan(seed)[i] for i in schedules.places(places)])


def _fails(seed, entries=None):
    try:
        run(seed, entries)
    except Wrong as wrong:
        return wrong
    return None


# -- schedules that once failed ----------------------------------------------------------------------------------------

FOUND = {
    "a reader lists segments that a publication has just cleared away": (72, [
        ("append", 396766135), ("go", "S", 200, 720606053), ("go", "S", 13, 156637750), ("go", "R2", 21, 88861836),
        ("advance", 1000), ("go", "S", 8, 65008833), ("append", 136280124), ("advance", 1000),
        ("append", 966416553), ("go", "S", 60, 640727241), ("append", 628031053), ("go", "S", 2, 911056932),
        ("go", "S", 60, 1054756800), ("advance", 3000), ("go", "S", 8, 102454631), ("go", "S", 5, 562111092),
        ("fault", "rebuild", 296448951), ("go", "S", 60, 825586756), ("go", "A", 5, 981615187),
        ("go", "R2", 13, 477382812),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("what", FOUND)
def test_schedules_that_once_failed(what):
    seed, entries = FOUND[what]
    run(seed, entries)


def test_a_world_begins_with_nothing_wrong():
    world = World(0)
    assert schedules._once(world, "") is None
    assert world.answers
