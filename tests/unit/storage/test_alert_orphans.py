"""What is kept of alerts, and what is cleared away: profiles, memories and checkpoints."""

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.published import SETTINGS, STREAM, begin, run_once
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGeneration, Profile
from trilayer_core.store.documents import digest_in
from trilayer_core.store.files import Store
from trilayer_core.store.orphans import ATTEMPT, CHECKPOINT, PROFILE, clear, find_orphans
from trilayer_core.store.pointer import Pointer
from trilayer_core.store.publication import Publication, PublishedAlert, PublishedMemory
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import JudgedFrom

GROUP = f"{STREAM.name}-k-1a2b"
KINDS = (PROFILE, CHECKPOINT, ATTEMPT)


def old(store: Store, path: str) -> None:
    then = Path(store.path(path)).stat().st_mtime - 600
    os.utime(store.path(path), (then, then))


def profile(store: Store, version: int) -> Profile:
    path = layout.profile("by_key", version, store.unique())
    return Profile(version, {0: 0}, "id", store.write_table(path, pa.table({"k": [version]})))


def generation(store, number, alert_from, *, fingerprint="f", origin_id="id", memory=()):
    one = AlertGeneration(
        number, "g", {"velocity": fingerprint}, origin_id, None, alert_from, alert_from, memory,
        {"by_key": profile(store, number)}, "a test", 1,
    )  # fmt: skip
    store.write_document(layout.alert_generation(GROUP, number), one)
    return one.profiles["by_key"].file.path


def with_alert(store: Store, version: Publication, fingerprint: str = "f") -> Publication:
    """Has a version say that it has the alert, and what is remembered for it."""
    alert = store.write_table(
        f"batch/{layout.alert_files('velocity')}/{version.token:08d}-full-abcdef/part.parquet",
        pa.table({"alert": ["velocity"]}),
    )
    memory = store.write_table(
        f"batch/{layout.memory_files(GROUP)}/{version.token:08d}-full-abcdef/part.parquet",
        pa.table({"k": [1]}),
    )
    changed = replace(
        version,
        alerts={"velocity": PublishedAlert(fingerprint, [alert], [JudgedFrom(1, {0: 0})])},
        memories={GROUP: PublishedMemory("m", [memory])},
    )
    store.write_document(layout.version(version.version), changed)
    pointer = store.read_document(layout.POINTER, Pointer)
    if pointer.version == version.version:
        digest = digest_in(store.read(layout.version(version.version)))
        store.write_document(layout.POINTER, replace(pointer, version_digest=digest))
    return changed


@pytest.fixture
def versions(store):
    """Two versions with the alert, cut at offsets 10 and 20."""
    return [with_alert(store, run_once(store)) for _ in range(2)]


def found(store):
    return sorted((left.kind, left.path) for left in find_orphans(store) if left.kind in KINDS)


def test_what_a_version_has_is_kept(store, versions):
    begin(store)  # a later run has taken over, so what nobody needs may go
    assert found(store) == []
    store.check_all(file for version in versions for file in version.files)


def test_what_no_version_has_is_cleared_away(store, versions):
    for name in (layout.alert_files("velocity"), layout.memory_files(GROUP)):
        store.write(f"batch/{name}/00000001-full-dead00/part.parquet", b"rows")
    begin(store)
    assert [path for _, path in found(store)] == [
        "batch/alert.velocity/00000001-full-dead00",
        f"batch/memory.{GROUP}/00000001-full-dead00",
    ]


def test_a_profile_is_kept_while_a_version_could_judge_by_it(store, versions):
    first = generation(store, 1, {0: 5})
    second = generation(store, 2, {0: 11})
    third = generation(store, 3, {0: 20})
    assert found(store) == [], "a run after a rollback to offset 10 judges by the first"
    generation(store, 4, {0: 25})
    store.delete(layout.version(1))
    # From offset 20 on none but the last two judge.
    profiles = [path for what, path in found(store) if what == PROFILE]
    assert profiles == sorted([first, second])
    clear(store, find_orphans(store))
    assert not store.exists(first)
    assert store.exists(third)
    assert found(store) == []


def test_it_is_kept_if_a_version_does_not_have_the_alert(store, versions):
    generation(store, 1, {0: 0})
    generation(store, 2, {0: 1})
    generation(store, 3, {0: 2})
    first = found(store)
    assert len(first) == 2
    with_alert(store, versions[0], "another definition")
    assert found(store) == [], "a run that begins there judges all events"


def test_one_of_another_definition_is_not_kept(store, versions):
    old_one = generation(store, 1, {0: 0}, fingerprint="another")
    generation(store, 2, {0: 15})
    assert found(store) == [(PROFILE, old_one)]


def test_one_of_an_earlier_origin_is_not_kept(store, versions):
    before = generation(store, 1, {0: 0}, origin_id="before")
    generation(store, 2, {0: 0})
    assert found(store) == [(PROFILE, before)]
    generation(store, 3, {0: 0}, origin_id="later")
    assert found(store) == [(PROFILE, before)], "the second judges what is above the cut"


def test_one_that_no_generation_names_is_left_while_the_process_runs(store, versions):
    path = profile(store, 9).file.path
    assert found(store) == [], "it is new"
    old(store, path)
    assert found(store) == [(PROFILE, path)]
    with store.lock(layout.ALERTS_LOCK, "the alerts"):
        clear(store, find_orphans(store))
        assert store.exists(path)
    clear(store, find_orphans(store))
    assert not store.exists(path)


def test_what_the_newest_generation_remembers_is_kept(store, versions):
    memory = versions[0].memories[GROUP].files
    generation(store, 1, {0: 0}, memory=memory)
    store.delete(layout.version(1))
    begin(store)
    assert (ATTEMPT, memory[0].path.rsplit("/", 1)[0]) not in found(store)
    generation(store, 2, {0: 0})
    assert (ATTEMPT, memory[0].path.rsplit("/", 1)[0]) in found(store)


def test_an_earlier_checkpoint_goes_once_it_is_not_used(store, versions):
    for number in (1, 2):
        generation(store, number, {0: 0})
        store.write(f"{layout.alert_checkpoint(GROUP, number)}/offsets/0", b"{}")
    first = layout.alert_checkpoint(GROUP, 1)
    assert (CHECKPOINT, first) in found(store)
    with store.lock(layout.ALERTS_LOCK, "the alerts"):
        clear(store, find_orphans(store))
        assert store.exists(first)
        store.write(f"{layout.alert_checkpoint(GROUP, 2)}/commits/0", b"{}")
        clear(store, find_orphans(store))
    assert not store.exists(first)
    assert store.exists(layout.alert_checkpoint(GROUP, 2))


def test_nothing_is_cleared_away_if_a_generation_cannot_be_read(store, versions):
    generation(store, 1, {0: 0})
    generation(store, 2, {0: 0})
    assert found(store) != []
    store.write(layout.alert_generation(GROUP, 2), b"{}")
    assert found(store) == []


def test_versions_that_are_retired_take_their_alerts_with_them(store):
    one = with_alert(store, run_once(store))
    for _ in range(SETTINGS.keep_versions):
        with_alert(store, run_once(store))
    run_once(store)
    assert one.version not in Publications(store).numbers()
    assert not any(store.exists(file.path) for file in one.files)
