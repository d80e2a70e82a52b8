"""What killed processes leave: all of it is found, and only what is proven to be nobody's is
deleted."""

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from batch_layer.clean import clean
from batch_layer.publish import publish
from tests.support.published import CATALOG, SETTINGS, STREAM, begin, complete, run_once
from trilayer import Catalog, Rows, Table, View, count
from trilayer_core.project import Project
from trilayer_core.store import layout
from trilayer_core.store import orphans as orphans_module
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.orphans import (
    ATTEMPT,
    GENERATION,
    INTERVAL,
    RUN,
    SEGMENT,
    TABLE,
    TEMPORARY,
    Orphan,
    clear,
    find_orphans,
)
from trilayer_core.store.segments import Generation
from trilayer_core.store.tables import stored_table
from trilayer_local.commands import doctor as doctor_command

CHAIN = layout.chain(STREAM, STREAM.fingerprint)
GENERATION_1 = "speed/events/000001-abcdef"


def old(store, *paths):
    """As if it had been written ten minutes ago."""
    for path in paths:
        then = Path(store.path(path)).stat().st_mtime - 600
        os.utime(store.path(path), (then, then))


def found(store, **how):
    return sorted((left.kind, left.path) for left in find_orphans(store, **how))


def speed(store, *, commits=(), files=(), tables=None):
    """A generation by the names of what is in it."""
    generation = Generation("000001-abcdef", "id", "f", {"by_key": "f"}, {0: 0}, 1, tables=tables)
    store.write_document(f"{GENERATION_1}/generation.json", generation)
    for name in commits:
        store.write(f"{GENERATION_1}/commits/{name}.json", b"{}")
    for name in files:
        store.write(f"{GENERATION_1}/data/{name}-by_key.parquet", b"rows")


def span(first, last):
    return f"{first:012d}-{last:012d}"


def test_a_healthy_store_has_none(store):
    for _ in range(3):
        run_once(store)
    speed(store, commits=[span(0, 3), span(4, 4)], files=[span(0, 3), span(4, 4)])
    assert find_orphans(store) == []


@pytest.fixture
def killed_writer(store, monkeypatch):
    """The temporary file of a process that was killed while it wrote: what is there before a file
    is synchronised, and would stay if nothing came after that.
    """
    folder, sync, left = Path(store.path("publications")), os.fsync, {}
    folder.mkdir(parents=True)

    def synchronise(descriptor):
        if not left:  # the file itself, before its folder
            left.update({path: path.read_bytes() for path in folder.iterdir()})
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", synchronise)
        store.write("publications/00000009.json", b"x" * 1000)
    store.delete("publications/00000009.json")
    ((path, content),) = left.items()
    path.write_bytes(content)
    return f"publications/{path.name}"


def test_a_temporary_file_of_a_killed_writer_is_found_and_one_that_is_being_written_is_not(
    store, killed_writer
):
    assert found(store) == [], "it is new"
    old(store, killed_writer)
    with Path(store.path(killed_writer)).open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert found(store) == [], "its writer works"
    assert found(store) == [(TEMPORARY, killed_writer)]
    assert clear(store, find_orphans(store)) == 1
    assert not list(Path(store.path("publications")).iterdir())


def test_temporary_files_are_found_wherever_trilayer_writes(store):
    run_once(store)
    folders = [
        "",
        "publications/",
        "fence/",
        "streams/events/",
        f"{CHAIN}/",
        "runs/00000001/",
        "quarantine/events/",
    ]
    folders += [f"{GENERATION_1}/{inside}" for inside in ("", "commits/", "data/")]
    speed(store)
    paths = [f"{folder}.name.0123abcd" for folder in folders]
    for path in paths:
        Path(store.path(path)).parent.mkdir(parents=True, exist_ok=True)
        Path(store.path(path)).write_bytes(b"half")
        old(store, path)
    assert found(store) == [(TEMPORARY, path) for path in sorted(paths)]
    run_once(store)
    assert found(store) == []


def test_the_content_of_a_table_is_left_while_anything_may_need_it(store, tmp_path):
    (tmp_path / "names.csv").write_text("k\n1\n")
    table = Table("names", path=tmp_path / "names.csv", schema="k int")
    paths = [layout.table_record("names", table.digest), layout.table("names", table.digest)]
    stored_table(store, table)
    old(store, *paths)
    assert found(store) == [], "nothing was published yet"
    run_once(store)
    assert not any(map(store.exists, paths)), "no version was computed with it"
    stored_table(store, table)
    assert found(store) == [], "it is new"
    old(store, *paths)
    assert find_orphans(store) == [Orphan(TABLE, path) for path in paths], "the record first"
    speed(store, tables={"names": table.digest})
    assert found(store) == [], "a generation computes with it"
    speed(store, tables={"names": "another", "others": table.digest})
    assert found(store) == [(TABLE, path) for path in paths]
    run, recomputed = begin(store)
    assert found(store) == [], "a run may have stored it"
    rows = Rows("r", source=STREAM, rows=lambda a, b: a, schema="k int", tables=[table])
    using = View("by_row", source=rows, key=["k"], aggregates={"n": count()})
    catalog = Catalog(views=[*CATALOG.views, using])
    recomputed = replace(
        recomputed,
        definitions={view.name: view.fingerprint for view in catalog.views},
        views=recomputed.views | {"by_row": []},
    )
    assert publish(Project(SETTINGS, catalog, store), run, recomputed, {}).tables == {
        "names": table.digest
    }
    assert all(map(store.exists, paths))
    run_once(store)
    assert all(map(store.exists, paths)), "a version that is kept was computed with it"
    run_once(store)
    assert not any(map(store.exists, paths))


def test_an_interval_without_manifest_is_left_while_an_ingest_works(store):
    run_once(store)
    store.write(f"{CHAIN}/00000000-dead00/part.parquet", b"rows")
    store.write(f"{CHAIN}/00000001-dead01/part.parquet", b"rows")
    old(store, f"{CHAIN}/00000001-dead01")
    with store.lock("locks/ingest-events", "an ingest"):
        assert found(store) == [(INTERVAL, f"{CHAIN}/00000000-dead00")], (
            "its number was ingested by another"
        )
    assert found(store) == [(INTERVAL, f"{CHAIN}/0000000{n}-dead0{n}") for n in (0, 1)]
    run_once(store)
    assert found(store) == []


def test_an_ingest_that_begins_anew_is_left_alone_even_without_its_lock(store):
    run_once(store)
    store.write(f"{CHAIN}/00000001-cafe01/part.parquet", b"rows")
    assert found(store) == []


def test_a_run_that_was_overtaken_leaves_its_views_and_its_folder(store):
    run_once(store)
    run, _ = begin(store)
    assert found(store) == [], "it may go on"
    Fence(store).take("a later run")
    assert found(store) == [
        (ATTEMPT, f"batch/by_key/{run.token:08d}-full-abcdef"),
        (RUN, f"runs/{run.token:08d}"),
    ]
    clean(Project(SETTINGS, CATALOG, store))
    assert found(store) == []


def test_nothing_of_a_run_goes_while_a_version_can_not_be_read(store):
    run_once(store)
    begin(store)
    Fence(store).take("a later run")
    store.write("publications/00000001.json", b"{")
    assert found(store) == []


def test_files_of_segments_go_when_no_commit_can_come_to_have_them(store):
    names = [span(3, 3), span(4, 6), span(7, 7), span(9, 9), span(5, 8), span(4, 9)]
    speed(store, commits=[span(2, 6), span(7, 7), span(8, 8)], files=[*names, span(2, 6)])
    dead = [span(3, 3), span(4, 6)]
    assert found(store) == [
        (SEGMENT, f"{GENERATION_1}/data/{name}-by_key.parquet") for name in dead
    ]
    old(store, *(f"{GENERATION_1}/data/{name}-by_key.parquet" for name in names))
    with store.lock("locks/speed", "the speed layer"):
        assert len(found(store)) == 2, "compaction may be about to commit what it has written"
    dead = sorted([*dead, span(5, 8), span(4, 9)])
    left = find_orphans(store)
    assert sorted(path.path for path in left) == [
        f"{GENERATION_1}/data/{name}-by_key.parquet" for name in dead
    ]
    # The speed layer starts, and commits one of them after all.
    store.write(f"{GENERATION_1}/commits/{span(5, 8)}.json", b"{}")
    assert clear(store, left) == 3
    assert store.exists(f"{GENERATION_1}/data/{span(5, 8)}-by_key.parquet")
    assert store.exists(f"{GENERATION_1}/data/{span(9, 9)}-by_key.parquet"), (
        "the micro-batch under way"
    )


def test_a_generation_that_never_began_or_was_half_deleted(store):
    store.write(f"{GENERATION_1}/data/{span(0, 0)}-by_key.parquet", b"rows")
    assert found(store) == []
    old(store, GENERATION_1)
    assert found(store) == [(GENERATION, GENERATION_1)]


def test_doctor_reports_them(store, killed_writer, monkeypatch, capsys):
    old(store, killed_writer)
    monkeypatch.setenv("TRILAYER_STORE", store.root)
    orphans = [check for check in doctor_command.CHECKS if check.name == "leftovers"]
    monkeypatch.setattr(doctor_command, "CHECKS", orphans)
    # It would end this process if a check of another test were still waiting.
    monkeypatch.setattr(doctor_command, "unfinished", lambda: False)
    doctor_command.doctor(as_json=True)
    says = [row["says"] for row in json.loads(capsys.readouterr().out)]
    assert says[0] == f"1 x temporary file, 1,000 bytes, such as {killed_writer}"
    assert says[1] == "the next batch run deletes them"
    clear(store, find_orphans(store))
    doctor_command.doctor(as_json=True)
    assert [row["says"] for row in json.loads(capsys.readouterr().out)] == [
        "no killed process has left anything in the store"
    ]


# -- killed anywhere -------------------------------------------------------------------------------


class Killed(BaseException):
    """kill -9: no code that handles errors may see it."""


class Dying(Store):
    """A store whose process dies at its Nth change, before it or after it."""

    left, after = None, False

    def _change(self, change):
        if self.left is None:
            return change()
        self.left -= 1
        if self.left >= 0:
            return change()
        if self.after:
            change()
        raise Killed

    def write(self, *args, **more):
        return self._change(lambda: super(Dying, self).write(*args, **more))

    def create(self, *args, **more):
        return self._change(lambda: super(Dying, self).create(*args, **more))

    def delete(self, *args):
        return self._change(lambda: super(Dying, self).delete(*args))


@pytest.mark.parametrize("after", [False, True])
def test_i5_a_publication_killed_at_any_change_of_the_store_leaves_one_that_is_whole(
    tmp_path, after
):
    """Publishing and clearing away, killed at each change in turn and run again: what is in force
    is whole, and then nothing is left over."""
    for position in range(40):
        store = Dying(str(tmp_path / f"store{position}"))
        for _ in range(2):
            run_once(store)
        begin(store)  # overtaken by the next run
        run, recomputed = begin(store)
        store.after, store.left = after, position
        try:
            publish(Project(SETTINGS, CATALOG, store), run, recomputed, {})
        except Killed:
            survived = False
        else:
            survived = True
        store.left = None
        assert complete(store) in (2, 3)
        assert publish(Project(SETTINGS, CATALOG, store), run, recomputed, {}).version == 3
        assert complete(store) == 3
        assert orphans_module.find_orphans(store) == []
        if survived:
            assert position > 5
            return
    raise AssertionError("it must end")
