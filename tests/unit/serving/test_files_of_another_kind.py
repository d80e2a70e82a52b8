"""A file that was written for something else is an error that names it, in every reader."""

import hashlib
from dataclasses import replace

import pyarrow as pa
import pytest

import serving_layer
from benchmarks.written import Written
from trilayer import Stream, View, count, max_
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.errors import IntegrityError
from trilayer_core.runtime.settings import Settings
from trilayer_core.store import layout
from trilayer_core.store.files import Store, StoredFile

STREAM = Stream("s", "k int, at timestamp", event_time="at")
VIEW = View("ours", source=STREAM, key=["k"], aggregates={"n": count(), "most": max_("at")})
ROWS = pa.table({"k": [1], "n__n": [1], "most__max": [0]}, partial_schema(VIEW))

OTHERS = {
    "of another view": pa.table({"k": [1], "tb__n": [1]}),
    "with a column too few": ROWS.drop_columns(["n__n"]),
    "without columns": pa.table({}),
    "with text for a number": ROWS.set_column(1, "n__n", pa.array(["many"])),
    "with a list for a number": ROWS.set_column(1, "n__n", pa.array([[1]])),
    "with a number that is too large": ROWS.set_column(0, "k", pa.array([1 << 40])),
}


@pytest.fixture
def written(tmp_path):
    return Written(Store(str(tmp_path / "store")), VIEW)


def exchanged(store, file, other):
    """Another file, with a digest of its own."""
    path = f"{file.path}.other"
    if other is not None:
        return store.write_table(path, OTHERS[other])
    data = b"no Parquet"
    store.write(path, data)
    digest = hashlib.sha256(data).hexdigest()
    return StoredFile(path, 1, len(data), digest)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("other", [*OTHERS, None])
@pytest.mark.parametrize("layer", ["batch", "speed"])
def test_a_file_of_another_kind_is_named(written, layer, other, keep):
    store = written.store
    if layer == "batch":
        path = f"batch/{VIEW.name}/00000001-full-000000/part.parquet"
        file = store.write_table(path, ROWS)
        written.publish([exchanged(store, file, other)], 1, 60_000)
    else:
        written.publish(ROWS, 1, 60_000)
        commit = written.commit(ROWS, 1, 90_000)
        file = exchanged(store, commit.files[VIEW.name], other)
        place = layout.commit(STREAM, written.generation.name, commit.first, commit.last)
        store.write_document(place, replace(commit, files={VIEW.name: file}))
    with (
        serving_layer.connect(written.catalog, Settings(), store, keep=keep) as connection,
        pytest.raises(IntegrityError, match=r"\.other must (have the columns|be a Parquet)"),
    ):
        connection.sql("FROM ours")
