"""What is referred to is on the disk before what refers to it: a power cut leaves no manifest, run
record or version over missing bytes."""

import os
from pathlib import Path

import pytest

from tests.support.layers import Pipeline, quick
from tests.support.sales import catalog_on, fill
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.master import Master


@pytest.fixture
def synced(monkeypatch):
    """What has been forced to the disk, and what was put in its place, in order."""
    done = []
    real = {name: getattr(os, name) for name in ("fsync", "link", "replace")}

    def fsync(descriptor):
        done.append(("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        real["fsync"](descriptor)

    def link(source, target):
        done.append(("place", str(target)))
        real["link"](source, target)

    def replace(source, target):
        done.append(("place", str(target)))
        real["replace"](source, target)

    for name, work in (("fsync", fsync), ("link", link), ("replace", replace)):
        monkeypatch.setattr(os, name, work)
    return done


def test_a_new_folder_is_on_the_disk_with_those_above_it(tmp_path, synced):
    store = Store(str(tmp_path / "new" / "store"))
    store.create("streams/s/origin.json", b"1")
    folders = [
        path for what, path in synced if what == "sync" and not Path(path).name.startswith(".")
    ]
    above = [str(tmp_path / part) for part in ("new/store/streams", "new/store", "new", "")]
    assert [path.rstrip("/") for path in folders] == [
        *(p.rstrip("/") for p in above),
        f"{tmp_path}/new/store/streams/s",
    ]


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
def test_what_spark_has_written_is_on_the_disk_before_a_document_refers_to_it(
    broker, spark, store, new_topic, synced
):
    with Pipeline(catalog_on(new_topic()), quick(broker.bootstrap), store, spark) as pipeline:
        fill(pipeline)
        publication = pipeline.in_force()
    root = store.root
    referring = {f"{root}/publications/{publication.version:08d}.json": [
        file.path for view in publication.views.values() for file in view.files
    ]}  # fmt: skip

    for interval in Master(store, pipeline.stream).read_chain():
        chain = layout.chain(pipeline.stream, pipeline.stream.fingerprint)
        referring[f"{root}/{chain}/{interval.number:08d}.json"] = [
            file.path for file in interval.files
        ]
    assert sum(map(len, referring.values())) >= 2
    for document, files in referring.items():
        before = {
            path for what, path in synced[: synced.index(("place", document))] if what == "sync"
        }
        for file in files:
            path = f"{root}/{file}"
            assert path in before, f"{file} must be on the disk before {document}"
            while path != root:
                path = str(Path(path).parent)
                assert path in before, f"{path} must be on the disk before {document}"
