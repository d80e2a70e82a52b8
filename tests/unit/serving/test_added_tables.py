"""A table of one's own beside so many speed rows that loading has merged them."""

import pyarrow as pa
import pytest

import serving_layer
from benchmarks.written import Written
from serving_layer.state import MERGE_ROWS
from trilayer import Stream, View, count
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

VIEW = View(
    "v",
    source=Stream("sales", "buyer int, at timestamp", event_time="at"),
    key=["buyer"],
    aggregates={"n": count()},
)
JOINED = "SELECT name, n FROM v JOIN tables.names USING (buyer)"
NAMES = [{"buyer": 7, "name": "Ann"}]


def rows(number):
    return pa.table({"buyer": list(range(number)), "n__n": [1] * number}, partial_schema(VIEW))


@pytest.fixture
def connection(tmp_path):
    store = Store(str(tmp_path / "store"))
    settings = Settings(home=tmp_path, store=str(tmp_path / "store"))
    written = Written(store, VIEW)
    written.publish(rows(10), 10, 60_000)
    written.begin(2)
    written.commit(rows(MERGE_ROWS), MERGE_ROWS, 120_000)
    with serving_layer.connect(written.catalog, settings, store) as connection:
        yield connection


def test_a_table_can_be_added_after_rows_were_merged(connection):
    assert connection.sql("SELECT count(*) FROM v").rows() == [(MERGE_ROWS,)]
    connection.table("names", NAMES)
    assert connection.sql(JOINED).rows() == [("Ann", 2)]


def test_an_earlier_publication_has_it_too(connection):
    connection.table("names", NAMES)
    with connection.snapshot(1) as snapshot:
        assert snapshot.sql(JOINED).rows() == [("Ann", 2)]
