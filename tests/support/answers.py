"""A catalog's answers to a file of events, from the parser, the pass and the merge that all layers
share, without a broker and a store.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from trilayer import Catalog, Rows, Stream
from trilayer_core.compute.grouping import plan
from trilayer_core.compute.merging import (
    create_table_sql,
    open_duckdb,
    present_select,
    quoted_duckdb,
)
from trilayer_core.compute.parsing import REJECT, parse
from trilayer_core.compute.rows import rows_made
from trilayer_core.compute.tables import read_reference


def parsed(spark: SparkSession, path: Path, stream: Stream) -> DataFrame:
    """The lines of a file as events of a stream, with the reasons of those that do not fit."""
    values = [(value.encode(),) for value in path.read_text("utf-8").splitlines()]
    return parse(spark.createDataFrame(values, "_value binary"), stream)


def with_positions(rows: DataFrame) -> DataFrame:
    return rows.select(
        F.lit(0).alias("_partition"),
        F.monotonically_increasing_id().alias("_offset"),
        *rows.columns,
    )


def partials(catalog: Catalog, stream: Stream, events: DataFrame) -> dict[str, pa.Table]:
    """The partials of what is stored for a stream, from the pass that both Spark layers run."""
    tables = {}
    for pass_ in plan(catalog.stored_of(stream)):
        rows = events
        if isinstance(pass_.source, Rows):
            joined = [
                events.sparkSession.createDataFrame(
                    read_reference(table).to_pylist(),
                    ", ".join(f"`{name}` {type_}" for name, type_ in table.columns.items()),
                )
                for table in pass_.source.tables
            ]
            rows = rows_made(pass_.source, events, joined)
        result = pass_.run(rows).toArrow()
        tables |= {view.name: pass_.arrow_slice_of(view, result) for view in pass_.views}
    return tables


def answers(
    catalog: Catalog, tables: dict[str, pa.Table], now: str = "now()"
) -> duckdb.DuckDBPyConnection:
    """The catalog's views and queries over partials, as the serving layer declares them."""
    connection = open_duckdb()
    connection.execute("create schema tables")
    for table in catalog.all_tables:
        connection.register("content", read_reference(table))
        connection.execute(f"create table tables.{table.name} as from content")
        connection.unregister("content")
    for stored in catalog.stored:
        connection.execute(create_table_sql(_table(stored), stored))
        if stored.name in tables:
            connection.register("arrived", tables[stored.name])
            connection.execute(f"insert into {_table(stored)} from arrived")
            connection.unregister("arrived")
    for view in catalog.views:
        select = present_select(view, lambda stored: [_table(stored)], now=now)
        connection.execute(f"create view {quoted_duckdb(view.name)} as {select}")
    # What the broker's topics would hold; queries about alerts find none.
    connection.execute("create schema alerts")
    for alert in catalog.alerts:
        connection.execute(
            f"create table alerts.{alert.name} (state varchar, why varchar, id varchar)"
        )
    for query in catalog.queries:
        connection.execute(f"create view {quoted_duckdb(query.name)} as {query.sql}")
    return connection


def answers_to_files(
    spark: SparkSession, catalog: Catalog, files: dict[str, Path], now: str
) -> duckdb.DuckDBPyConnection:
    """The catalog's answers to a file of events for each stream; those that do not fit are not
    counted.
    """
    tables = {}
    for name, path in files.items():
        stream = catalog.stream(name)
        events = parsed(spark, path, stream).where(F.col(REJECT).isNull())
        tables |= partials(catalog, stream, with_positions(events.select(*stream.columns)).cache())
    return answers(catalog, tables, now)


def _table(stored: object) -> str:
    return quoted_duckdb(f"{stored.name}_partials")  # type: ignore[attr-defined]
