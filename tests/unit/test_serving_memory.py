"""What a reader's memory holds after many publications: the rows of the newest, however its
questions overlap.
"""

import pyarrow as pa
import pytest

import serving_layer
from benchmarks.written import Written
from trilayer import Stream, View, count, sum_
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.errors import UsageError
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.publications import Publications

ROWS = 100_000
STREAM = Stream("sales", "user string, quantity bigint, sold_at timestamp", event_time="sold_at")
VIEW = View(
    "by_user", source=STREAM, key=["user"], aggregates={"n": count(), "items": sum_("quantity")}
)

SMALL = Settings(serving={"memory_mb": 64})


def partials(value, first=0, rows=ROWS):
    """`rows` keys from the number `first` on, each of which has the same partials."""
    keys = [f"u{key:08d}" for key in range(first, first + rows)]
    return pa.table(
        {"user": keys, "n__n": [1] * rows, "items__sum": [value] * rows}, partial_schema(VIEW)
    )


def held_mib(connection):
    sizes = connection._database.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()")
    return sizes.fetchone()[0] / 2**20


@pytest.fixture
def written(store):
    return Written(store, VIEW)


@pytest.fixture
def connection(written, store, tmp_path):
    settings = Settings(home=tmp_path, store=str(tmp_path / "store"))
    with serving_layer.connect(written.catalog, settings, store) as connection:
        yield connection


def total(snapshot):
    return snapshot.sql("SELECT sum(items), count(*) FROM by_user").rows()[0]


def test_memory_is_that_of_one_publication_however_many_there_were(written, connection):
    """Also of queries that overlap."""
    sizes = []
    written.publish(partials(1), 1, 60_000)
    before = connection.snapshot()
    seen, version = before.__enter__(), 1
    while version < 14:
        version += 1
        written.publish(partials(version), 1, version * 60_000)
        # Opened while the one before is in use: at no moment is there no read transaction.
        newer = connection.snapshot()
        newest = newer.__enter__()
        assert total(seen) == ((version - 1) * ROWS, ROWS)
        before.__exit__(None, None, None)
        before, seen = newer, newest
        sizes.append(held_mib(connection))
    before.__exit__(None, None, None)
    assert max(sizes[7:]) <= 1.3 * max(sizes[:4]), sizes


def test_a_snapshot_that_was_held_costs_only_while_it_is(written, connection):
    written.publish(partials(1), 1, 60_000)
    with connection.snapshot() as snapshot:
        assert total(snapshot) == (ROWS, ROWS)
        for version in range(2, 7):
            written.publish(partials(version), 1, version * 60_000)
            assert total_now(connection) == (version * ROWS, ROWS)
        assert total(snapshot) == (ROWS, ROWS)
    before = held_mib(connection)
    written.publish(partials(7), 1, 7 * 60_000)
    assert total_now(connection) == (7 * ROWS, ROWS)
    assert held_mib(connection) <= before


def total_now(connection):
    return connection.sql("SELECT sum(items), count(*) FROM by_user").rows()[0]


def test_files_that_stay_keep_their_rows_when_others_go(written, connection, store):
    """As incremental runs leave it: one large file, and small ones at its end that are merged now
    and then.
    """
    written.publish(partials(1), 1, 60_000)
    (large,) = Publications(store).in_force().views["by_user"].files
    small, sizes, expected = [], [], ROWS
    for version in range(2, 22):
        rows = ROWS // 20
        if len(small) == 4:
            small, expected = [], ROWS
        table = partials(version, first=(version % 5) * rows, rows=rows)
        small.append(
            store.write_table(f"batch/by_user/{version:08d}-added-000000/part.parquet", table)
        )
        expected += version * rows
        written.publish([large, *small], 1, version * 60_000)
        assert total_now(connection)[0] == expected
        sizes.append(held_mib(connection))
    assert max(sizes[10:]) <= 1.3 * max(sizes[:5]), sizes


def test_kept_answers_are_the_same_for_at_most_twice_the_memory(written, store, tmp_path):
    written.publish(partials(1), 1, 60_000)
    settings = Settings(home=tmp_path, store=str(tmp_path / "store"))
    found, sizes = [], []
    for keep in (True, False):
        with serving_layer.connect(written.catalog, settings, store, keep=keep) as connection:
            found.append(connection.sql("FROM by_user ORDER BY ALL").rows())
            sizes.append(held_mib(connection))
    assert found[0] == found[1]
    assert len(found[0]) == ROWS
    assert sizes[1] < sizes[0] <= 2 * sizes[1], sizes


LARGE = {
    "an aggregate": lambda c: c.sql("SELECT list(user || m) FROM by_user, range(100) AS a(m)"),
    "an order": lambda c: c.sql("FROM by_user AS a, range(50) ORDER BY random()"),
    "a table": lambda c: c.table("large", pa.table({"a": [str(n) * 30 for n in range(ROWS * 6)]})),
}


@pytest.mark.parametrize("ask", LARGE)
def test_too_little_memory_names_its_setting(written, store, ask):
    written.publish(partials(1), 1, 60_000)
    with serving_layer.connect(written.catalog, SMALL, store) as small:
        assert small.sql("SELECT count(*) FROM by_user").rows() == [(ROWS,)]
        with pytest.raises(UsageError, match=r"Out of Memory.*; increase `serving.memory_mb`"):
            LARGE[ask](small)
        assert small.sql("SELECT count(*) FROM by_user").rows() == [(ROWS,)]


def test_views_that_need_more_memory_name_the_setting(written, store):
    written.publish(partials(1, rows=ROWS * 10), 1, 60_000)
    with (
        serving_layer.connect(written.catalog, SMALL, store) as small,
        pytest.raises(UsageError, match=r"increase `serving.memory_mb`"),
    ):
        small.sql("SELECT count(*) FROM by_user")
