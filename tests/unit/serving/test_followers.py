"""What is recorded for those who follow a view ends with them, and is bounded before they look."""

import pyarrow as pa
import pytest

import serving_layer
from benchmarks.written import Written
from serving_layer.changes import Follower
from trilayer import Stream, View, count
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

VIEW = View(
    "by_key",
    source=Stream("s", "k int, at timestamp", event_time="at"),
    key=["k"],
    aggregates={"n": count()},
)
KEYS = 100


@pytest.fixture
def written(tmp_path):
    found = Written(Store(str(tmp_path / "store")), VIEW)
    found.publish(rows(), KEYS, 60_000)
    return found


@pytest.fixture
def connection(written):
    with serving_layer.connect(written.catalog, Settings(), written.store) as connection:
        yield connection


def rows():
    return pa.table({"k": range(KEYS), "n__n": [1] * KEYS}, partial_schema(VIEW))


def recorded(connection):
    """The number of rows in each table that exists for a follower."""
    tables = connection._database.execute(
        "SELECT schema_name || '.' || '\"' || table_name || '\"', estimated_size"
        " FROM duckdb_tables() WHERE schema_name IN ('_changed', '_held')"
    ).fetchall()
    return dict(tables)


def grow(written, connection, times=3):
    for number in range(times):
        written.commit(rows(), KEYS, 90_000 + number)
        connection.refresh()


def test_what_is_recorded_ends_with_the_follower(written, connection):
    connection.refresh()
    one, other = Follower(connection, VIEW), Follower(connection, VIEW)
    one.poll()
    other.poll()
    grow(written, connection)
    assert sorted(recorded(connection).values()) == [KEYS, KEYS, 3 * KEYS, 3 * KEYS]
    one.close()
    assert len(other.poll().rows) == KEYS
    with Follower(connection, VIEW) as third:
        assert len(third.poll().rows) == KEYS
    other.close()
    grow(written, connection)
    assert recorded(connection) == {}


def test_nothing_is_recorded_before_a_follower_looks(written, connection):
    connection.refresh()
    follower = Follower(connection, VIEW)
    grow(written, connection)
    assert set(recorded(connection).values()) == {0}
    assert len(follower.poll().rows) == KEYS


def test_a_follower_may_end_after_its_connection(written, connection):
    follower = Follower(connection, VIEW)
    connection.close()
    follower.close()
