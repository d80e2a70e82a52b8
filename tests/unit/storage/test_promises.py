"""What is said of stores that are not a local disk, and of versions that were never in force."""

import pyarrow.fs
import pytest

from serving_layer.history import history
from tests.support.published import CATALOG, SETTINGS, begin, run_once
from trilayer.cli import batch
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.store.files import Store
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_local.doctor.store import check_store


def test_of_a_local_disk_nothing_is_said(store):
    assert store.limits() == []


@pytest.mark.parametrize(("kind", "lines"), [("object store", 1), ("hdfs", 2)])
def test_doctor_says_what_a_store_does_not_promise(store, monkeypatch, kind, lines):
    """A folder stands in for the remote one; what is said goes by the kind of the file system."""
    store.local = False
    if kind == "hdfs":
        monkeypatch.setattr(pyarrow.fs, "HadoopFileSystem", pyarrow.fs.LocalFileSystem)
    _, *said = check_store(Project(SETTINGS, CATALOG, store))
    assert len(said) == lines
    assert (
        "two batch runs or rollbacks at the same moment can put a wrong answer in force" in said[0]
    )
    assert "one at a time" in said[0]
    assert all("leaves a part of it" in line for line in said[1:])


def test_history_tells_a_version_that_was_never_in_force(store, monkeypatch, capsys):
    published = run_once(store)
    run, _ = begin(store)
    Publications(store).write(
        Publication(
            Publications(store).next_number(),
            run.t_ms,
            run.token,
            "full",
            1,
            now_ms(),
            published.streams,
            published.views,
            {},
        ),
    )
    assert [(v.version, v.in_force, v.published) for v in history(store)] == [
        (1, True, True),
        (2, False, False),
    ]
    monkeypatch.setattr(batch, "project_store", lambda: store)
    batch.history()
    said = capsys.readouterr().out
    assert "1 *" in said
    assert "2 -" in said
    assert "- never in force" in said


def test_a_store_without_locks_still_works(tmp_path):
    store = Store(str(tmp_path))
    store.local = False
    for _ in range(3):
        run_once(store)
    assert [(v.version, v.in_force) for v in history(store)] == [(2, False), (3, True)]
