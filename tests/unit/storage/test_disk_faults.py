"""A disk that is full or fails: an error that names the file, nothing left behind, and a retry that
works."""

import errno
import os
import resource
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from batch_layer.publish import publish
from speed_layer import compaction
from tests.support.published import CATALOG, SETTINGS, STREAM, begin, run_once
from trilayer_core.errors import IntegrityError, StoreError
from trilayer_core.project import Project
from trilayer_core.store import layout
from trilayer_core.store.generations import Generations
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import Commit, Generation, Segment


@pytest.fixture
def small_files():
    """The system refuses to let a file grow beyond so many bytes, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def everything(store):
    """Every file of the store, the hidden ones too, without locks."""
    return sorted(
        str(path.relative_to(store.root))
        for path in Path(store.root).rglob("*")
        if path.is_file() and path.parent.name != "locks"
    )


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("how", ["write", "create"])
def test_a_write_that_fails_names_the_file_and_leaves_nothing(store, small_files, how, durable):
    store.write("folder/before", b"as it was")
    small_files(1000)
    for _ in range(3):
        with pytest.raises(StoreError) as raised:
            getattr(store, how)("folder/new", b"x" * 5000, durable=durable)
    with pytest.raises(StoreError):
        store.write("folder/before", b"y" * 5000, durable=durable)
    small_files(resource.RLIM_INFINITY)
    assert f"could not write {store.root}/folder/new: File too large; free space" in str(
        raised.value
    )
    assert everything(store) == ["folder/before"]
    assert store.read("folder/before") == b"as it was"
    assert getattr(store, how)("folder/new", b"x" * 5000, durable=durable) in (None, True)


@pytest.mark.parametrize(
    ("what", "advice"),
    [
        (errno.EIO, "dmesg"),
        (errno.EROFS, "writable"),
        (errno.EACCES, "the right"),
        (errno.ENOSPC, "free space"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_whatever_the_system_says_the_error_has_it_and_nothing_is_left(
    store, monkeypatch, call, what, advice
):
    def refuse(*_):
        raise OSError(what, os.strerror(what))

    store.write("folder/before", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(StoreError, match=f"folder/new: {os.strerror(what)}; .*{advice}"):
            store.write("folder/new", b"2")
    assert everything(store) == ["folder/before"]


def test_what_can_not_be_read_is_named_and_is_not_taken_for_missing(store):
    """A loop of links stands in for a disk that fails: the system refuses, although there is
    something."""
    Path(store.root).mkdir()
    for name in ("loop", "folder"):
        Path(store.path(name)).symlink_to(store.path(name))
    for work in (store.read, store.exists, store.names):
        with pytest.raises(
            StoreError,
            match=r"store/loop: Too many levels of symbolic links; the file system refused",
        ):
            work("loop")
    with pytest.raises(StoreError, match=r"could not write .*/folder/x: Too many levels"):
        store.write("folder/x", b"1")
    with pytest.raises(IntegrityError, match=r"nothing is missing in the store"):
        store.read("nothing")
    assert not store.exists("nothing")


def test_a_pointer_that_can_not_be_read_is_no_store_without_publications(store):
    run_once(store)
    current = Path(store.path("publications/current.json"))
    current.unlink()
    current.symlink_to(current)
    with pytest.raises(StoreError, match=r"publications/current\.json"):
        Publications(store).in_force()


def test_a_run_that_finds_the_disk_full_changes_nothing_and_is_run_again(store, small_files):
    run_once(store)
    run, recomputed = begin(store)
    before = everything(store)
    small_files(100)
    for _ in range(3):
        with pytest.raises(StoreError, match=r"publications/00000002\.json: File too large"):
            publish(Project(SETTINGS, CATALOG, store), run, recomputed, {})
    small_files(resource.RLIM_INFINITY)
    assert everything(store) == before
    assert publish(Project(SETTINGS, CATALOG, store), run, recomputed, {}).version == 2


def test_compaction_that_finds_the_disk_full_leaves_nothing_however_often_it_tries(
    store, monkeypatch
):
    """It is tried every few seconds, over more micro-batches each time."""
    from trilayer_core.seam import Range

    generation = Generation("000001-abcdef", "id", "f", {"by_key": "f"}, {0: 0}, 1)
    store.create_document(layout.generation_record(STREAM, generation.name), generation)
    view = CATALOG.view("by_key")

    def micro_batch(number):
        rows = pa.table(
            {
                "_tick": pa.array([number], pa.int64()),
                "k": pa.array([1], pa.int32()),
                "n__n": pa.array([1], pa.int64()),
            }
        )
        path = layout.segment(STREAM, generation.name, number, number, "by_key")
        file = store.write_table(path, rows)
        unfit = rows.select(["_tick"]).append_column("_key", pa.array([b"1"]))
        unfit = unfit.append_column("_value", pa.array([b"no event"]))
        bad = store.write_table(path.replace("by_key", "_quarantine"), unfit)
        segment = Segment(number, {0: Range(number, number + 1)}, 1, 0)
        commit = Commit(number, number, [segment], {"by_key": file}, bad, 1)
        store.create_document(layout.commit(STREAM, generation.name, number, number), commit)

    for number in range(3):
        micro_batch(number)
    failing, write = [errno.ENOSPC], store.write_table

    def write_table(relative, table, **more):
        if "_quarantine" in relative and failing:
            raise store.fault(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "write", relative)
        return write(relative, table, **more)

    monkeypatch.setattr(store, "write_table", write_table)
    for number in range(3, 6):
        before = everything(store)
        with pytest.raises(StoreError, match="No space left"):
            compaction.compact(Generations(store, STREAM), [view], generation.name, 2)
        assert everything(store) == before
        failing.clear()
        micro_batch(number)
        failing.append(errno.ENOSPC)
    failing.clear()
    wide = compaction.compact(Generations(store, STREAM), [view], generation.name, 2)
    assert wide
    assert wide.first < wide.last
