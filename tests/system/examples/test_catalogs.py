"""The catalogs: what importing them costs, and their answers from the pass and the merge that all
layers share, without a broker.
"""

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from examples.demo import compare
from examples.demo.steps import EXAMPLES
from examples.flights.__main__ import prepare
from examples.flights.truth import truth
from examples.retail.generate import generate, truth_path
from tests.support.answers import answers, parsed, partials, with_positions
from trilayer_core.compute.merging import quoted_duckdb
from trilayer_core.compute.parsing import REJECT
from trilayer_core.definitions.catalog import load_catalog

NAMES = [f"examples.{name}:catalog" for name in EXAMPLES]
START = datetime(2026, 1, 1, tzinfo=UTC)


def test_declaring_loads_neither_an_engine_nor_a_layer():
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
        "import sys; from trilayer_core.definitions.catalog import load_catalog\n"
        f"for name in {NAMES}: load_catalog(name)\n"
        f"print(*(name for name in {unwanted} if name in sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == []


def test_queries_are_select_over_the_views():
    for name in NAMES:
        catalog = load_catalog(name)
        answers(catalog, {})
        assert catalog.queries, name


@pytest.mark.spark
@pytest.mark.slow
def test_flights_end_to_end(spark, tmp_path):
    """The first 9,000 flights; `make demo` counts those of the whole year."""
    path = tmp_path / "flights.parquet"
    prepare(path)
    flights = pq.read_table(path).slice(0, 9_000)
    pq.write_table(flights, path)
    catalog = load_catalog("examples.flights:catalog")
    (stream,) = catalog.streams
    events = with_positions(spark.read.parquet(str(path)))
    connection = answers(catalog, partials(catalog, stream, events))

    def ask(sql: str) -> list[tuple]:
        """What is expected below was found by plain SQL over the file itself, without trilayer."""
        return connection.sql(sql).fetchall()

    assert ask("select count(*), sum(flights), sum(departed) from delays_by_carrier") == [
        (159, 9_000, 8_953)
    ]
    assert ask("select min(day), max(day) from delays_by_carrier") == [
        (date(2013, 1, 1), date(2013, 1, 11))
    ]
    assert ask("select sum(flights) from busy_routes") == [(4 * 9_000,)]
    assert ask("select count(*), sum(flights) from aircraft") == [(2_377, 8_953)]
    worst = ask("select carrier, flights, late_percent from worst_carriers")
    assert worst[:2] == [("HA", 10, 30.0), ("EV", 1_355, 28.0)]
    assert ask("select day, cancelled from worst_days")[0] == (date(2013, 1, 3), 10)
    assert ask("select tailnum, flights from most_flown")[0] == ("N725MQ", 26)
    # The newest flight is scheduled for 08:10 in New York; of the windows that hold it, the first
    # ends there at 08:15.
    (end,) = {row[2] for row in ask("select * from busiest_now")}
    assert end == datetime(2013, 1, 11, 13, 15, tzinfo=UTC)
    for expected in truth(flights.to_pylist()):
        rows = connection.sql(expected.sql)
        found = [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]
        assert compare(expected, found).wrong == [], expected.relation


@pytest.mark.spark
def test_retail_is_what_the_generator_says(spark, tmp_path):
    path = tmp_path / "purchases.jsonl"
    generate(path, events=3_000, seed=3, start=START, bad=0.1)
    right = json.loads(truth_path(path).read_text("utf-8"))
    catalog = load_catalog("examples.retail:catalog")
    (stream,) = catalog.streams
    events = parsed(spark, path, stream).cache()

    reasons = F.split(REJECT, ":")[0].alias("reason")
    rejected = events.where(F.col(REJECT).isNotNull()).groupBy(reasons).count().collect()
    assert {row["reason"]: row["count"] for row in rejected} == right["bad"]

    good = events.where(F.col(REJECT).isNull()).select(*stream.columns)
    connection = answers(catalog, partials(catalog, stream, with_positions(good)))
    for view in ("sales_by_product", "sales_by_customer", "sales_by_coupon"):
        columns = list(right[view][0])
        found = connection.sql(f"select {', '.join(columns)} from {view}").fetchall()
        expected = [(*list(row.values())[:-1], Decimal(row["revenue"])) for row in right[view]]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert connection.sql("select sum(purchases) from sales_by_minute").fetchall() == [
        (right["good"],)
    ]
    best = sorted((-Decimal(row["revenue"]), row["product"]) for row in right["sales_by_product"])[
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
