"""A store with publications in it, made by the product's own functions from what a run would have
found, without Spark and Kafka."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from batch_layer.publish import publish
from benchmarks.written import Written
from trilayer import Catalog, Stream, View, count
from trilayer_core.compute.parsing import REJECT
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Range
from trilayer_core.store import layout
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.intervals import Interval
from trilayer_core.store.master import Master
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Recomputed, Run

STREAM = Stream("events", "k int, at timestamp", event_time="at")
VIEW = View("by_key", source=STREAM, key=["k"], aggregates={"n": count()})
CATALOG = Catalog(views=[VIEW])
SETTINGS = Settings(bootstrap_servers="none:1", keep_versions=2)


def begin(store: Store) -> tuple[Run, Recomputed]:
    """A run up to where `publish` comes: an interval of ten events, and the view's one file."""
    chain = Master(store, STREAM).read_chain()
    number = len(chain)
    run = Run(
        Fence(store).take("a run"),
        (number + 1) * 60_000,
        False,
        {"events": {0: number * 10 + 10}},
        {"events": "id"},
    )
    folder = layout.chain(STREAM, STREAM.fingerprint)
    rows = pa.table({"k": list(range(10))})
    data = store.write_table(f"{folder}/{number:08d}-{run.token:06x}/part.parquet", rows)
    interval = Interval(
        number, run.t_ms, "id", {0: Range(number * 10, number * 10 + 10)}, {}, [data], 10, 0
    )
    store.create_document(f"{folder}/{number:08d}.json", interval)
    file = store.write_table(
        f"batch/by_key/{run.token:08d}-full-abcdef/part.parquet",
        pa.table({"k": pa.array([1], pa.int32()), "n__n": [1]}),
    )
    base = Publications(store).in_force()
    definitions = {VIEW.name: VIEW.fingerprint}
    recomputed = Recomputed(
        base.version if base else None, definitions, {"events": "full"}, {VIEW.name: [file]}, {}
    )
    store.write_document(run.path("cut"), run)
    return run, recomputed


def run_once(store: Store, settings: Settings = SETTINGS) -> Publication:
    """A whole run."""
    run, recomputed = begin(store)
    return publish(Project(settings, CATALOG, store), run, recomputed, {})


def keeping(versions: int) -> Settings:
    return SETTINGS.model_copy(update={"keep_versions": versions})


def complete(store):
    """Whatever the pointer names is there, and so is all that it refers to; so it is with each
    version that is kept.
    """
    found = Publications(store).in_force()
    assert found
    for known in [found, *Publications(store).versions()]:
        store.check_all(file for view in known.views.values() for file in view.files)
    return found.version


def quarantine(written: Written, partials: pa.Table, reasons: list[str]) -> None:
    """Commits events that do not fit, as the speed layer does."""
    commit = written.commit(partials, len(reasons), now_ms())
    offsets = range(written.end - len(reasons), written.end)
    table = pa.table(
        {
            "_partition": pa.array([0] * len(reasons), pa.int32()),
            "_offset": list(offsets),
            "_timestamp": [datetime.now(UTC)] * len(reasons),
            REJECT: reasons,
        }
    )
    stream, generation = written.stream, written.generation.name
    place = layout.generation(stream, generation)
    file = written.store.write_table(f"{place}/data/{commit.first:012d}-q.parquet", table)
    (segment,) = commit.segments
    segments = [replace(segment, quarantined=len(reasons))]
    path = layout.commit(stream, generation, commit.first, commit.last)
    written.store.write_document(path, replace(commit, segments=segments, quarantine=file))
