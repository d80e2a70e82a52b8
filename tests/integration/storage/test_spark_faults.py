"""A disk that is full where Spark writes: one line that names the folder, and nothing of it
left."""

import resource
from pathlib import Path

import pytest

from batch_layer.engine import write_files
from tests.support.published import run_once
from trilayer_core.errors import StoreError, TrilayerError

pytestmark = [pytest.mark.spark]


@pytest.fixture
def spark_without_room(spark, store):
    """Spark's JVM may write no file of more than 4 KB, as on a full disk."""
    # What it unpacks when it first writes must be there: it would not try again, in the session
    # that all tests share.
    write_files(store, spark.range(10), "batch/warm/00000001-full-a")
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    before = resource.prlimit(java, resource.RLIMIT_FSIZE)
    resource.prlimit(java, resource.RLIMIT_FSIZE, (4096, before[1]))
    yield spark
    resource.prlimit(java, resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_for_spark_is_one_line_that_names_the_folder(store, spark_without_room):
    run_once(store)
    rows = spark_without_room.range(200_000).selectExpr(
        "id", "sha2(cast(id as string), 256) AS text"
    )
    for attempt in ("a", "b"):
        folder = f"batch/by_key/00000009-full-{attempt}"
        with pytest.raises(StoreError) as raised:
            write_files(store, rows, folder)
        assert str(raised.value).startswith(
            f"could not have Spark write {store.path(folder)}: File too large; free space"
        )
        assert "\n" not in str(raised.value)
        assert not Path(store.path(folder)).exists()


def test_another_error_of_spark_is_raised_as_it_is_and_leaves_no_folder(store, spark):
    rows = spark.range(10).selectExpr("if(id = 7, raise_error('seven'), id) AS id")
    with pytest.raises(Exception, match="seven") as raised:
        write_files(store, rows, "batch/by_key/00000009-full-a")
    assert not isinstance(raised.value, TrilayerError)
    assert not store.names("batch/by_key")
