"""The latest state of a table is right for every order in which a database sends its changes."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F

from tests.support.answers import answers, partials
from tests.support.database_histories import histories
from trilayer import Catalog, Debezium, Query, Stream, View, latest
from trilayer_core.compute.parsing import REJECT, parse

pytestmark = pytest.mark.spark

changes = Stream(
    "changes",
    "id int not null, name string, deleted boolean from '__deleted',"
    " position string not null from '__position', at timestamp from '__ts_ms' in milliseconds",
    event_time="at",
    format=Debezium(),
)
states = View(
    "states",
    source=changes,
    key=["id"],
    aggregates={
        "name": latest("name", by="position"),
        "deleted": latest("deleted", by="position"),
    },
)
catalog = Catalog(
    views=[states],
    queries=[Query("rows_now", "select id, name from states where not deleted")],
)


def test_the_latest_state_is_the_table_after_every_history(spark):
    made = histories(seed=30)
    values = [value for history in made for value in history.values]
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [(0, n, None, bytearray(value), at) for n, value in enumerate(values)]
    schema = "_partition int, _offset bigint, _key binary, _value binary, _timestamp timestamp"
    events = parse(spark.createDataFrame(rows, schema), changes).cache()
    assert [row[0] for row in events.where(F.col(REJECT).isNotNull()).select(REJECT).take(3)] == []
    found = dict(
        answers(catalog, partials(catalog, changes, events))
        .sql("select id, name from rows_now")
        .fetchall()
    )
    wrong = {
        f"{type(history).__name__} {history.ids.start}"
        for history in made
        if {id_: found[id_] for id_ in history.ids if id_ in found}
        != {id_: row["name"] for id_, row in history.rows.items()}
    }
    assert wrong == set()
    assert len(found) > 300
