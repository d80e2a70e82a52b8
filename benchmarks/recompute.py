"""A full recompute of two views from the master dataset.

The limit program is DuckDB with the same two GROUP BYs over the same files. Spark's session is
started before. Checking digests and writing results is part of the time, as in a batch run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from batch_layer.engine import Engine, batch_spark
from batch_layer.recompute import recompute
from benchmarks.figure import Figure, Options, ratios, say, timed
from benchmarks.workload import EXPECTED, SALES, TWO, home, write_events
from trilayer_core.compute.merging import compare_answers, create_table_sql, present_select
from trilayer_core.compute.parsing import FITS, parse
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Range
from trilayer_core.store import layout
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.intervals import Interval
from trilayer_core.store.runs import Recomputed, Run

EVENTS = 10_000_000


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    number = options.events(EVENTS)
    product: list[float] = []
    limit: list[float] = []
    with home() as folder:
        settings, store = Settings(home=folder), Store(str(folder / "store"))
        with batch_spark(settings) as spark:
            events = write_events(folder / "events.parquet", number)
            files = write_master(spark(), store, events, number)
            say(f"{number:,} events in {len(files)} files of the master dataset")
            for repeat in range(options.repeats + 1):
                run = Run(
                    Fence(store).take("benchmark"),
                    1,
                    True,
                    {SALES.name: {0: number}},
                    {SALES.name: "t"},
                )
                took, recomputed = timed(
                    partial(
                        recompute,
                        Project(settings, TWO, store),
                        run,
                        Engine(settings, store, spark),
                    )
                )
                with duckdb.connect(config={"threads": 2}) as duck:
                    duck.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
                    best, _ = timed(partial(_group, duck, files))
                    if not repeat:
                        _check(duck, recomputed, store)
                say(f"trilayer {took:.2f} s, DuckDB {best:.2f} s")
                if repeat:
                    product.append(took)
                    limit.append(best)
    return [
        Figure("limit: two group-bys in DuckDB", "s", limit),
        Figure("full recompute of two views", "s", product),
        Figure("full recompute / DuckDB", "", ratios(product, limit), at_most=8),
    ]


def write_master(spark: SparkSession, store: Store, events: Path, number: int) -> list[str]:
    """One ingested interval with the events, parsed and written as ingest does it.

    Returns the paths of its files.
    """
    records = spark.read.parquet(str(events)).select(
        F.lit(0).alias("_partition"),
        F.monotonically_increasing_id().alias("_offset"),
        F.current_timestamp().alias("_timestamp"),
        F.lit(None).cast("binary").alias("_key"),
        F.col("value").cast("binary").alias("_value"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("_headers"),
    )
    folder = f"{layout.chain(SALES, SALES.fingerprint)}/00000000-000000"
    parse(records, SALES).drop(FITS).coalesce(4).write.parquet(store.uri(folder))
    files = store.describe_folder(folder)
    interval = Interval(0, 1, "t", {0: Range(0, number)}, {}, files, number, 0)
    store.create_document(f"{layout.chain(SALES, SALES.fingerprint)}/00000000.json", interval)
    return [store.path(file.path) for file in files]


def _group(duck: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
    listed = ", ".join(f"'{file}'" for file in files)
    for view in TWO.views:
        duck.execute(
            f"CREATE TABLE {view.name} AS"
            f" {EXPECTED[view.name].format(events=f'read_parquet([{listed}])')}"
        )


def _check(duck: duckdb.DuckDBPyConnection, recomputed: Recomputed, store: Store) -> None:
    for view in TWO.views:
        duck.execute(create_table_sql("partials", view))
        for file in recomputed.views[view.name]:
            duck.register("arriving", store.read_table(file))
            duck.execute("INSERT INTO partials SELECT * FROM arriving")
        same = compare_answers(duck, view, view.name, f"({present_select(view, ['partials'])})")
        duck.execute("DROP TABLE partials")
        if not same.same or not same.match:
            raise AssertionError(f"{view.name} must be what DuckDB says; got {same}")
