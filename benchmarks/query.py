"""A point query on a merged view of a million keys, batch and speed.

The limit program asks one native DuckDB table with the same rows in the same way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import duckdb
import pyarrow as pa

import serving_layer
from benchmarks.figure import Figure, Options, ratios, say, seconds
from benchmarks.workload import home
from trilayer import Catalog, Stream, View, count, max_, mean, sum_
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.compute.merging import open_duckdb
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Range
from trilayer_core.store import layout
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.publication import Publication, PublishedStream, PublishedView
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import TICK, Commit, Generation, Segment

KEYS, SEGMENTS, SEGMENT_ROWS, QUERIES = 1_000_000, 100, 1_000, 300

STREAM = Stream(
    "sales", "user string, quantity int, price double, sold_at timestamp", event_time="sold_at"
)
VIEW = View(
    "by_user",
    source=STREAM,
    key=["user"],
    aggregates={
        "sales": count(),
        "items": sum_("quantity"),
        "mean_price": mean("price"),
        "dearest": max_("price"),
    },
)
CATALOG = Catalog(views=[VIEW])


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    keys = options.events(KEYS)
    merged: list[float] = []
    native: list[float] = []
    with home() as at:
        settings, store = Settings(home=at, store=str(at / "store")), Store(str(at / "store"))
        _fill(store, keys)
        with (
            serving_layer.connect(CATALOG, settings, store) as connection,
            _native(settings, connection) as table,
        ):
            ask: Callable[[str], pa.Table] = lambda query: connection.sql(query).arrow()  # noqa: E731
            beside: Callable[[str], pa.Table] = lambda query: _ask(table, query)  # noqa: E731
            for user in _users(keys, 50, seed=0):
                if not (one := ask(_query(user))).equals(beside(_query(user))) or one.num_rows != 1:
                    raise AssertionError(
                        f"{user} must be the same in both; got {one} and {beside(_query(user))}"
                    )
            for repeat in range(options.repeats):
                queries = [_query(user) for user in _users(keys, QUERIES, seed=repeat + 1)]
                merged.append(QUERIES / seconds(lambda: [ask(query) for query in queries]))  # noqa: B023
                native.append(QUERIES / seconds(lambda: [beside(query) for query in queries]))  # noqa: B023
                say(f"merged {merged[-1]:,.0f}/s, native {native[-1]:,.0f}/s")
    return [
        Figure("limit: point queries on one DuckDB table", "/s", native),
        Figure("merged point queries", "/s", merged),
        Figure("merged / native", "", ratios(merged, native), at_least=0.5),
    ]


def _query(user: str) -> str:
    return f"SELECT * FROM by_user WHERE \"user\" = '{user}'"


def _users(keys: int, number: int, seed: int) -> list[str]:
    return [_user(key) for key in random.Random(seed).sample(range(keys), number)]


def _user(key: int) -> str:
    return f"u{key * 7_919 % 1_000_003:07d}"


def _ask(database: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    with database.cursor() as cursor:
        return cursor.sql(query).to_arrow_table()


def _native(settings: Settings, connection: serving_layer.Connection) -> duckdb.DuckDBPyConnection:
    database = open_duckdb(settings.serving_memory_mb)
    database.register("answer", connection.sql("FROM by_user").arrow())
    database.execute("CREATE TABLE by_user AS FROM answer")
    database.unregister("answer")
    return database


def _fill(store: Store, keys: int) -> None:
    """A publication of `keys` keys, with segments above it.

    There are as many segments as two hours of a busy stream leave between compactions.
    """
    random_ = random.Random(42)
    every = random_.sample(range(keys), keys)
    batch = store.write_table("batch/by_user/00000001-full/part.parquet", _partials(every, random_))
    cut, topic_id = {0: keys}, "topic"
    store.create_document(
        "streams/sales/origin.json", {"topic": "sales", "topic_id": topic_id, "start": {0: 0}}
    )
    token = Fence(store).take("benchmark")
    stream = PublishedStream(topic_id, STREAM.fingerprint, cut, keys, 0, 0)
    view = PublishedView(VIEW.fingerprint, [batch])
    publication = Publication(
        1, 60_000, token, "full", None, now_ms(), {"sales": stream}, {"by_user": view}, {}
    )
    Publications(store).put_in_force(
        Publications(store).write(publication).version, token, "publish"
    )
    fingerprint = CATALOG.stream_fingerprint(STREAM)
    generation = Generation(
        "000001-000000", topic_id, fingerprint, {"by_user": VIEW.fingerprint}, cut, now_ms()
    )
    store.create_document(layout.generation_record(STREAM, generation.name), generation)
    for number in range(SEGMENTS):
        table = _partials(random_.sample(range(keys), min(keys, SEGMENT_ROWS)), random_)
        table = table.add_column(0, TICK, pa.array([60_000] * len(table), pa.int64()))
        file = store.write_table(
            f"{layout.generation(STREAM, generation.name)}/data/{number:012d}-by_user.parquet",
            table,
        )
        start = keys + number * SEGMENT_ROWS
        segment = Segment(60_000, {0: Range(start, start + SEGMENT_ROWS)}, SEGMENT_ROWS, 0)
        commit = Commit(number, number, [segment], {"by_user": file}, None, now_ms())
        store.create_document(layout.commit(STREAM, generation.name, number, number), commit)


def _partials(keys: Sequence[int], random_: random.Random) -> pa.Table:
    quantities = [random_.randrange(1, 9) for _ in keys]
    # Multiples of a quarter can be added exactly in any order, so that answers can be compared bit
    # by bit.
    prices = [random_.randrange(400) / 4 for _ in keys]
    columns = {
        "user": [_user(key) for key in keys],
        "sales__n": [1] * len(keys),
        "items__sum": quantities,
        "mean_price__sum": prices,
        "mean_price__magnitude": prices,
        "mean_price__count": [1] * len(keys),
        "dearest__max": prices,
    }
    return pa.table(columns, schema=partial_schema(VIEW))
