"""The measured events and views: sales of about 100 bytes of JSON.

Each event is derived from its number, so that DuckDB can compute the correct answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

import serving_layer
from trilayer import Catalog, Stream, View, count, max_, mean, min_, sum_, tumbling
from trilayer_core.compute.merging import compare_answers
from trilayer_core.log.broker import Log
from trilayer_core.runtime import jars
from trilayer_core.runtime.settings import Settings, default_jars
from trilayer_core.store.files import Store
from trilayer_local import kafka

PROJECT = Path(__file__).parents[1]
JARS = default_jars()
USERS, PRODUCTS = 10_000, 1_000

SCHEMA = "user string, product string, quantity int, price double, sold_at timestamp"
SALES = Stream("sales", SCHEMA, event_time="sold_at", partitions=4)


def views(stream: Stream) -> list[View]:
    """Five views with five different keys.

    The first two are used for the figures about two views.
    """
    return [
        View(
            "by_user",
            source=stream,
            key=["user"],
            aggregates={
                "sales": count(),
                "large": count(where="quantity > 5"),
                "items": sum_("quantity"),
                "mean_price": mean("price"),
            },
        ),
        View(
            "by_product_day",
            source=stream,
            key={"product": "product", "day": "to_date(sold_at)"},
            aggregates={
                "sales": count(),
                "items": sum_("quantity"),
                "cheapest": min_("price"),
                "dearest": max_("price"),
            },
        ),
        View(
            "by_hour",
            source=stream,
            key={"hour": tumbling("sold_at", "1 hour")},
            aggregates={"sales": count(), "mean_price": mean("price")},
        ),
        View(
            "by_product",
            source=stream,
            key=["product"],
            aggregates={"sales": count(), "items": sum_("quantity")},
        ),
        View(
            "by_quantity",
            source=stream,
            key=["quantity"],
            aggregates={"sales": count(), "dearest": max_("price")},
        ),
    ]


ONE, TWO, FIVE = (Catalog(views=views(SALES)[:number]) for number in (1, 2, 5))

EXPECTED = {
    "by_user": (
        "SELECT user, count(*) AS sales, count(*) FILTER (quantity > 5) AS large, sum(quantity) AS"
        " items, avg(price) AS mean_price FROM {events} GROUP BY user"
    ),
    "by_product_day": (
        "SELECT product, sold_at::DATE AS day, count(*) AS sales, sum(quantity) AS items,"
        " min(price) AS cheapest, max(price) AS dearest FROM {events} GROUP BY ALL"
    ),
    "by_hour": (
        "SELECT time_bucket(INTERVAL 1 HOUR, sold_at) AS hour, count(*) AS sales, avg(price) AS"
        " mean_price FROM {events} GROUP BY ALL"
    ),
    "by_product": (
        "SELECT product, count(*) AS sales, sum(quantity) AS items FROM {events} GROUP BY ALL"
    ),
    "by_quantity": (
        "SELECT quantity, count(*) AS sales, max(price) AS dearest FROM {events} GROUP BY ALL"
    ),
}
"""A DuckDB query for each view, over a table of events."""


def write_events(path: Path, number: int, first: int = 0) -> Path:
    """Writes `number` events as Parquet, numbered from `first`, one every 100 ms.

    The file has the events' columns, and `value`, the JSON.
    """
    columns = f"""
        'u' || lpad((hash(i * 3) % {USERS})::VARCHAR, 6, '0') AS user,
        'p' || lpad((hash(i * 5) % {PRODUCTS})::VARCHAR, 4, '0') AS product,
        (1 + hash(i * 7) % 9)::INTEGER AS quantity, (hash(i * 11) % 10000)::DOUBLE / 100 AS price,
        TIMESTAMPTZ '2026-03-01 00:00:00+00' + to_milliseconds(i * 100) AS sold_at"""
    value = """
        '{"user":"' || user || '","product":"' || product
        || '","quantity":' || quantity || ',"price":' || price
        || ',"sold_at":"' || strftime(sold_at::TIMESTAMP, '%Y-%m-%dT%H:%M:%S.%g') || 'Z"}'
        AS value"""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
        connection.execute(
            f"COPY (SELECT *, {value} FROM (SELECT {columns} FROM range({first}, {first + number})"
            f" r(i))) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 250000)"
        )
    return path


def produce(spark: SparkSession, events: Path, stream: Stream, settings: Settings) -> None:
    """Sends the events' JSON to the stream's topic, which is created if it does not exist."""
    with Log(settings.bootstrap_servers) as log:
        log.ensure(stream)
    sink = spark.read.parquet(str(events)).select("value").write.format("kafka")
    sink.option("kafka.bootstrap.servers", settings.bootstrap_servers).option(
        "topic", stream.topic
    ).save()


def check(catalog: Catalog, settings: Settings, store: Store, *events: Path) -> None:
    """Checks that the merged views equal the answers of DuckDB."""
    files = ", ".join(f"'{path}'" for path in events)
    with serving_layer.connect(catalog, settings, store) as connection, duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        for view in catalog.views:
            answer = connection.sql(f"FROM {view.name}").arrow()
            duck.register(
                "answer", answer.select([n for n in answer.column_names if not n.endswith("_end")])
            )
            expected = EXPECTED[view.name].format(events=f"read_parquet([{files}])")
            comparison = compare_answers(duck, view, f"({expected})", "answer")
            if not comparison.same or not comparison.match:
                raise AssertionError(f"{view.name} must be {EXPECTED[view.name]}; got {comparison}")


@contextmanager
def home() -> Iterator[Path]:
    """A folder for one benchmark, which is deleted at the end."""
    with TemporaryDirectory(prefix="trilayer-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def broker(folder: Path) -> Iterator[Settings]:
    """The settings of a project in `folder` with its own broker."""
    jars.fetch(jars.KAFKA_BROKER, JARS / "kafka", echo=lambda _: None)
    started = kafka.start(folder, jars=JARS / "kafka", echo=lambda _: None)
    try:
        yield Settings(
            home=folder, jars=JARS, store=str(folder / "store"), bootstrap_servers=started.bootstrap
        )
    finally:
        kafka.stop(folder)


def ask_native(database: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """The answer of a limit program, asked as `Connection.sql` asks: by a cursor of its own."""
    with database.cursor() as cursor:
        return cursor.sql(query).to_arrow_table()
