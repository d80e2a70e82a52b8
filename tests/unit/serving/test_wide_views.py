"""A view may have more columns than DuckDB lets operators be nested."""

import json

import duckdb
import pyarrow as pa

import serving_layer
from benchmarks.written import Written
from serving_layer.changes import Follower, json_object_sql
from trilayer import Stream, View, max_
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

FOLLOWED = [f"c{number}" for number in range(1_010)]
DDL = f"region string, at timestamp, {', '.join(f'{name} bigint' for name in FOLLOWED)}"


def test_a_wide_view_can_be_followed(tmp_path):
    view = View(
        "wide",
        source=Stream("s", DDL, event_time="at"),
        key=["region"],
        aggregates={name: max_(name) for name in FOLLOWED},
    )
    written = Written(Store(str(tmp_path / "store")), view)
    rows = pa.table([["a"], *([number] for number, _ in enumerate(FOLLOWED))], partial_schema(view))
    written.publish(rows, 1, 60_000)
    with (
        serving_layer.connect(written.catalog, Settings(), written.store) as connection,
        Follower(connection, view) as follower,
    ):
        ((key, row),) = follower.poll().rows
    assert json.loads(key) == {"region": "a"}
    assert list(json.loads(row).values()) == ["a", *range(len(FOLLOWED))]


def test_a_wide_row_is_written_as_json():
    columns = [f"{number} AS c{number}" for number in range(1_600)]
    rows = duckdb.sql(f"SELECT {', '.join(columns)}")
    object_sql = json_object_sql(dict(zip(rows.columns, rows.types, strict=True)))
    ((text,),) = rows.query("rows", f"SELECT {object_sql} FROM rows").fetchall()
    assert list(json.loads(text).values()) == list(range(1_600))
