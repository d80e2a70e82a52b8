"""Queries on a merged view of a million keys, batch and speed.

The limit program asks one native DuckDB table with the same rows in the same way. What the answers
that a reader keeps cost is measured beside a reader that merges on demand: the time of a refresh
after 300 touched keys, that of opening, and the memory.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

import duckdb
import pyarrow as pa

import serving_layer
from benchmarks.figure import Figure, Options, ratios, say, seconds
from benchmarks.workload import ask_native, home
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
TOUCHED = 300

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


WHOLE = {
    "total of a column": "SELECT sum(items)::BIGINT, count(*) FROM by_user",
    "top 10": 'SELECT * FROM by_user ORDER BY items DESC, "user" LIMIT 10',
    "filter": "SELECT count(*) FROM by_user WHERE mean_price > 80",
    "group by prefix": 'SELECT left("user", 3) AS p, sum(items)::BIGINT FROM by_user GROUP BY p'
    " ORDER BY p",
    "range of keys": "SELECT sum(items)::BIGINT FROM by_user WHERE \"user\" BETWEEN 'u0300000'"
    " AND 'u0310000'",
}
AT_MOST = {"range of keys": 2.0}
TIMES = 10


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    keys = options.events(KEYS)
    merged: list[float] = []
    native: list[float] = []
    of_whole: dict[str, list[float]] = {name: [] for name in WHOLE}
    with home() as at:
        settings, store = Settings(home=at, store=str(at / "store")), Store(str(at / "store"))
        written = fill_store(store, keys)
        opening, memory = _opened(settings, store, options.repeats)
        with (
            serving_layer.connect(CATALOG, settings, store) as connection,
            serving_layer.connect(CATALOG, settings, store, keep=False) as on_demand,
            _native(settings, connection) as table,
        ):
            ask: Callable[[str], pa.Table] = lambda query: connection.sql(query).arrow()  # noqa: E731
            beside: Callable[[str], pa.Table] = lambda query: ask_native(table, query)  # noqa: E731
            points = [point_query(user) for user in some_users(keys, 50, seed=0)]
            for query in [*points, *WHOLE.values()]:
                answers = [ask(query), beside(query), on_demand.sql(query).arrow()]
                if answers[0].num_rows == 0 or len({str(one.to_pylist()) for one in answers}) > 1:
                    raise AssertionError(f"{query} must have one answer; got {answers}")
            for repeat in range(options.repeats):
                queries = [point_query(user) for user in some_users(keys, QUERIES, seed=repeat + 1)]
                merged.append(QUERIES / _seconds(ask, queries))
                native.append(QUERIES / _seconds(beside, queries))
                say(f"merged {merged[-1]:,.0f}/s, native {native[-1]:,.0f}/s")
                for name, query in WHOLE.items():
                    queries = [query] * TIMES
                    of_whole[name].append(_seconds(ask, queries) / _seconds(beside, queries))
            later = _refreshed(written, keys, connection, on_demand, options.repeats)
            point_later = [
                _seconds(beside, points) / _seconds(ask, points) for _ in range(options.repeats)
            ]
    return [
        Figure("limit: point queries on one DuckDB table", "/s", native),
        Figure("merged point queries", "/s", merged),
        Figure("merged / native", "", ratios(merged, native), at_least=0.7),
        *(
            Figure(f"merged / native, {name}", "", ratios, at_most=AT_MOST.get(name, 3.0))
            for name, ratios in of_whole.items()
        ),
        Figure(f"refresh of {TOUCHED} keys, kept - on demand", "ms", later, at_most=30),
        Figure(
            "merged / native, point queries after these refreshes", "", point_later, at_least=0.7
        ),
        Figure("opening, kept / on demand", "", opening, at_most=1.3),
        Figure("memory, kept / on demand", "", [memory], at_most=2),
    ]


def _opened(settings: Settings, store: Store, repeats: int) -> tuple[list[float], float]:
    """The ratio of the times to open a reader with and without kept answers, and of its memory."""
    times: dict[bool, list[float]] = {False: [], True: []}
    held: dict[bool, float] = {}
    for _ in range(repeats):
        for keep, times_s in times.items():
            started = time.perf_counter()
            with serving_layer.connect(CATALOG, settings, store, keep=keep) as connection:
                connection.sql("SELECT 1")
                times_s.append(time.perf_counter() - started)
                held[keep] = _held_mib(connection)
    say(f"memory {held[True]:,.0f} MiB kept, {held[False]:,.0f} MiB on demand")
    return ratios(times[True], times[False]), held[True] / held[False]


def _held_mib(connection: serving_layer.Connection) -> float:
    sizes = "SELECT sum(memory_usage_bytes) / 1048576 FROM duckdb_memory()"
    ((held,),) = connection._database.execute(sizes).fetchall()
    return float(held)


def _refreshed(
    written: Generation,
    keys: int,
    kept: serving_layer.Connection,
    on_demand: serving_layer.Connection,
    repeats: int,
) -> list[float]:
    """How much longer the refresh of a reader takes that keeps answers, in ms, by repeat."""
    random_, number, differences = random.Random(7), SEGMENTS, []
    for _ in range(repeats):
        times = {kept: 0.0, on_demand: 0.0}
        for _ in range(TIMES):
            commit_segment(kept._store, written, number, keys, random_, TOUCHED)
            number += 1
            for connection in times:
                times[connection] += seconds(connection.refresh)
        differences.append(1000 * (times[kept] - times[on_demand]) / TIMES)
        say(f"refresh {1000 * times[kept] / TIMES:.1f} ms kept, {differences[-1]:.1f} ms more")
    return differences


def _seconds(ask: Callable[[str], pa.Table], queries: Sequence[str]) -> float:
    return seconds(lambda: [ask(query) for query in queries])


def point_query(user: str) -> str:
    """The query for one key."""
    return f"SELECT * FROM by_user WHERE \"user\" = '{user}'"


def some_users(keys: int, number: int, seed: int) -> list[str]:
    """A number of keys at random."""
    return [_user(key) for key in random.Random(seed).sample(range(keys), number)]


def _user(key: int) -> str:
    return f"u{key * 7_919 % 1_000_003:07d}"


def _native(settings: Settings, connection: serving_layer.Connection) -> duckdb.DuckDBPyConnection:
    database = open_duckdb(settings.serving.memory_mb)
    database.register("answer", connection.sql("FROM by_user").arrow())
    database.execute("CREATE TABLE by_user AS FROM answer")
    database.unregister("answer")
    return database


def fill_store(store: Store, keys: int) -> Generation:
    """Writes a publication of `keys` keys, with segments above it, of the generation returned.

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
        commit_segment(store, generation, number, keys, random_, SEGMENT_ROWS)
    return generation


def commit_segment(
    store: Store, generation: Generation, number: int, keys: int, random_: random.Random, rows: int
) -> None:
    """Writes a micro-batch with `rows` keys."""
    table = _partials(random_.sample(range(keys), min(keys, rows)), random_)
    table = table.add_column(0, TICK, pa.array([60_000] * len(table), pa.int64()))
    file = store.write_table(
        f"{layout.generation(STREAM, generation.name)}/data/{number:012d}-by_user.parquet", table
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
