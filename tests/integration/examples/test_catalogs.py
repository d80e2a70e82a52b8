"""Both catalogs: what importing them costs, and their answers from the pass and the merge that all
layers share, without a broker.
"""

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import duckdb
import pytest

from examples.flights.__main__ import prepare
from examples.retail.generate import generate, truth_path
from trilayer import Catalog
from trilayer_core.compute.merging import (
    create_table_sql,
    open_duckdb,
    present_select,
    quoted_duckdb,
)
from trilayer_core.definitions.catalog import load_catalog

NAMES = ["examples.flights:catalog", "examples.retail:catalog"]
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", NAMES)
def test_declaring_loads_neither_an_engine_nor_a_layer(name):
    unwanted = [
        "pyspark",
        "py4j",
        "duckdb",
        "pandas",
        "kafka",
        "batch_layer",
        "speed_layer",
        "serving_layer",
    ]
    code = (
        "import sys; from trilayer_core.definitions.catalog import load_catalog;"
        " load_catalog(sys.argv[1]);print(*(name for name in sys.argv[2:] if name in sys.modules))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, name, *unwanted], check=True, capture_output=True, text=True
    )
    assert found.stdout.split() == []


@pytest.mark.parametrize("name", NAMES)
def test_queries_are_select_over_the_views(name):
    catalog = load_catalog(name)
    answers(catalog, {})
    assert catalog.queries


@pytest.mark.spark
@pytest.mark.slow
def test_flights_end_to_end(spark, tmp_path):
    path = tmp_path / "flights.parquet"
    prepare(path)
    catalog = load_catalog("examples.flights:catalog")
    connection = answers(catalog, partials(catalog, with_positions(spark.read.parquet(str(path)))))

    def ask(sql: str) -> list[tuple]:
        """What is expected below was found by plain SQL over the file itself, without trilayer."""
        return connection.sql(sql).fetchall()

    assert ask("select count(*), sum(flights), sum(departed) from delays_by_carrier") == [
        (5_432, 336_776, 328_521)
    ]
    assert ask("select min(day), max(day) from delays_by_carrier") == [
        (date(2013, 1, 1), date(2013, 12, 31))
    ]
    assert ask("select sum(flights) from busy_routes") == [(4 * 336_776,)]
    assert ask("select count(*), sum(flights) from aircraft") == [(4_037, 328_521)]
    assert ask("select carrier, flights, late_percent from worst_carriers")[0] == (
        "EV",
        54_173,
        30.5,
    )
    # The blizzard of February 2013.
    assert ask("select day, cancelled from worst_days")[0] == (date(2013, 2, 8), 472)
    assert ask("select tailnum, flights from most_flown")[0] == ("N725MQ", 546)
    # The newest flights are scheduled for 23:59 in New York; the window that ends at midnight there
    # holds them and what went before.
    (end,) = {row[2] for row in ask("select * from busiest_now")}
    assert end == datetime(2014, 1, 1, 5, tzinfo=UTC)


@pytest.mark.spark
def test_retail_is_what_the_generator_says(spark, tmp_path):
    from pyspark.sql import functions as F

    from trilayer_core.compute.parsing import REJECT, parse

    path = tmp_path / "purchases.jsonl"
    generate(path, events=3_000, seed=3, start=START, bad=0.1)
    truth = json.loads(truth_path(path).read_text("utf-8"))
    catalog = load_catalog("examples.retail:catalog")
    (stream,) = catalog.streams
    values = [(value.encode(),) for value in path.read_text("utf-8").splitlines()]
    events = parse(spark.createDataFrame(values, "_value binary"), stream).cache()

    reasons = F.split(REJECT, ":")[0].alias("reason")
    rejected = events.where(F.col(REJECT).isNotNull()).groupBy(reasons).count().collect()
    assert {row["reason"]: row["count"] for row in rejected} == truth["bad"]

    good = events.where(F.col(REJECT).isNull()).select(*stream.columns)
    connection = answers(catalog, partials(catalog, with_positions(good)))
    for view in ("sales_by_product", "sales_by_customer", "sales_by_coupon"):
        columns = list(truth[view][0])
        found = connection.sql(f"select {', '.join(columns)} from {view}").fetchall()
        expected = [(*list(row.values())[:-1], Decimal(row["revenue"])) for row in truth[view]]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert connection.sql("select sum(purchases) from sales_by_minute").fetchall() == [
        (truth["good"],)
    ]
    best = sorted((-Decimal(row["revenue"]), row["product"]) for row in truth["sales_by_product"])[
        :10
    ]
    assert connection.sql("select product from top_sellers").fetchall() == [
        (product,) for _, product in best
    ]


def test_last_hour_reads_the_clock(tmp_path):
    catalog = load_catalog("examples.retail:catalog")
    connection = answers(catalog, {})
    view = catalog.view("sales_by_minute")
    for product, age in (("tea", "5 minutes"), ("tea", "20 minutes"), ("jam", "2 hours")):
        connection.execute(
            f"insert into {quoted_duckdb(view.name + '_partials')} values ('{product}', now() -"
            f" interval {age}, 1, 2, 0, 6.40)"
        )
    assert connection.sql("from last_hour").fetchall() == [("tea", 2, 4, Decimal("12.80"))]


def with_positions(rows):
    from pyspark.sql import functions as F

    return rows.select(
        F.lit(0).alias("_partition"),
        F.monotonically_increasing_id().alias("_offset"),
        *rows.columns,
    )


def partials(catalog: Catalog, events) -> dict:
    """View name to its partials as an Arrow table, from the pass that both Spark layers run."""
    from trilayer_core.compute.grouping import plan
    from trilayer_core.definitions.stream import Rows

    tables = {}
    for pass_ in plan(catalog.views):
        rows = events
        if isinstance(pass_.source, Rows):
            rows = pass_.source.rows(events.select(*pass_.source.stream.columns))
        result = pass_.run(rows).toArrow()
        tables |= {view.name: pass_.arrow_slice_of(view, result) for view in pass_.views}
    return tables


def answers(catalog: Catalog, tables: dict) -> duckdb.DuckDBPyConnection:
    """The catalog's views and queries over partials, as the serving layer declares them."""
    connection = open_duckdb()
    for view in catalog.views:
        stored = f"{view.name}_partials"
        connection.execute(create_table_sql(quoted_duckdb(stored), view))
        if view.name in tables:
            connection.register("arrived", tables[view.name])
            connection.execute(f"insert into {quoted_duckdb(stored)} from arrived")
            connection.unregister("arrived")
        connection.execute(
            f"create view {quoted_duckdb(view.name)} as"
            f" {present_select(view, [quoted_duckdb(stored)])}"
        )
    for query in catalog.queries:
        connection.execute(f"create view {quoted_duckdb(query.name)} as {query.sql}")
    return connection
