"""The values of an alert in SQL and in Python are those of the event that was sent."""

import base64
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import serving_layer
from serving_layer.alerts.content import CONTENT, content_sql
from tests.support.sent_alerts import AlertStore, Raised
from tests.support.typed_values import CASES, TYPED, TYPES
from trilayer import Alert, Catalog, Stream, View, count
from trilayer_core.compute.alerts import alerts_of, streamed_sql
from trilayer_core.compute.merging import open_duckdb
from trilayer_core.compute.parsing import parse
from trilayer_core.runtime.settings import Settings


@pytest.mark.spark
def test_every_type_comes_out_as_the_event_has_it(spark):
    """What Spark writes as JSON is read by DuckDB, and compared with what Spark itself has."""
    from pyspark.sql import functions as F

    alert = Alert("all", source=TYPED, key=["at"], rule="at IS NOT NULL")
    (group,) = Catalog(
        views=[View("v", source=TYPED, key=["at"], aggregates={"n": count()})], alerts=[alert]
    ).alert_groups
    records = spark.createDataFrame(
        [(0, n, datetime(2026, 1, 1, tzinfo=UTC), value) for n, (_, _, value) in enumerate(CASES)],
        "_partition int, _offset bigint, _timestamp timestamp, _value binary",
    )
    records.createOrReplaceTempView("typed_records")
    judged = alerts_of(
        group, spark.sql(streamed_sql(group, "typed_records", "t")), may_not_fit=True
    )
    sent = judged.select("offset", "payload").orderBy("offset").toArrow()
    assert len(sent) > 1000
    columns = [f"x{n}" for n in range(len(TYPES))]
    events = (
        parse(records, TYPED)
        .where(F.col("_reject").isNull())
        .select("_offset", "at", *columns)
        .orderBy("_offset")
        .toArrow()
    )
    with open_duckdb(512, 1) as duck:
        duck.register("sent", sent)
        duck.register("events", events)
        found = duck.sql(
            f'SELECT event.* FROM ({content_sql(alert, "sent")}) ORDER BY "offset"'
        ).fetchall()
        expected = duck.sql("SELECT * EXCLUDE (_offset) FROM events ORDER BY _offset").fetchall()
        names = duck.sql("SELECT * EXCLUDE (_offset) FROM events").columns
    assert len(found) == len(expected)
    for place, (row, other) in enumerate(zip(found, expected, strict=True)):
        for name, value, wanted in zip(names, row, other, strict=True):
            assert repr(value) == repr(wanted), (CASES[place], name)


STREAM = Stream(
    "kinds",
    "card string, n decimal(38,10), x double, f float, b binary, at timestamp, local timestamp_ntz,"
    " day date, m map<string,array<binary>>, s struct<end:int,b:binary>",
    event_time="at",
)
BY_CARD = View("by_card", source=STREAM, key=["card"], aggregates={"n": count()})
ALERT = Alert("any", source=STREAM, key=["card"], rule="true", last=1, profile=BY_CARD)
EVENT = (
    '{"card":"a\\u0000\\"ü","n":1234567890123456789012345678.0123456789,"x":"NaN","f":0.1,'
    '"b":"aGk=","at":"0001-01-01T00:00:00.000001Z","local":"9999-12-31T23:59:59.999999",'
    '"day":"2026-02-28","m":{"k":["aGk=",null],"none":null},"s":{"end":1,"b":null}}'
)
VALUES = {
    "card": 'a\x00"ü',
    "n": Decimal("1234567890123456789012345678.0123456789"),
    "x": math.nan,
    "f": 0.10000000149011612,
    "b": b"hi",
    "at": datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    "local": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC).replace(tzinfo=None),
    "day": date(2026, 2, 28),
    "m": {"k": [b"hi", None], "none": None},
    "s": {"end": 1, "b": None},
}


def payload(event=EVENT, **changed):
    document = {
        "key": '{"card":"a"}', "last": f"[{event}]", "profile": '{"card":"a","n":7}',
        "profile_version": "3",
    } | changed  # fmt: skip
    return "{" + ",".join(f'"{k}":{v}' for k, v in {**document, "event": event}.items()) + "}"


def contents(*payloads):
    with open_duckdb(128, 1) as duck:
        rows = pa.table({"place": range(len(payloads)), "payload": list(payloads)})
        duck.register("rows", rows)
        listed = ", ".join(CONTENT)
        return duck.sql(
            f"SELECT {listed} FROM ({content_sql(ALERT, 'rows')}) ORDER BY place"
        ).fetchall()


def test_decimals_times_binary_and_nested_values():
    ((key, event, last, profile, version),) = contents(payload())
    assert key == {"card": "a"}
    assert repr({k: v for k, v in event.items() if k != "at"}) == repr(
        {k: v for k, v in VALUES.items() if k != "at"}
    )
    assert event["at"] == VALUES["at"]
    assert repr(last) == repr([event])
    assert (profile, version) == ({"card": "a", "n": 7}, 3)


def test_what_is_null_or_no_json_has_no_content():
    nothing = payload(last="[]", profile="null", profile_version="null")
    first, damaged, base64_damaged = contents(
        nothing, "{", payload(EVENT.replace("aGk=", "not base64"))
    )
    assert first[2:] == ([], None, None)
    assert damaged == (None,) * 5
    assert base64_damaged[1]["b"] is None
    assert base64.b64encode(VALUES["b"]) == b"aGk="


def test_a_payload_that_duckdb_can_not_read_fails_no_question(store, tmp_path):
    stream = Stream("payments", "card string, amount int, note string, at timestamp",
                    event_time="at")  # fmt: skip
    view = View("by_card", source=stream, key=["card"], aggregates={"n": count()})
    alert = Alert("large", source=stream, key=["card"], rule="amount > 5")
    written = AlertStore(store, Catalog(views=[view], alerts=[alert]))
    one = Raised(alert, 1)
    written.send(one)
    settings = Settings(home=tmp_path, store=store.root)
    broken = type("Broken", (Raised,), {"payload": "{"})(alert, 2)
    with serving_layer.connect(written.catalog, settings, store) as connection:
        written.send(broken)
        asked = 'SELECT "offset", event.amount FROM alerts.large ORDER BY ALL'
        assert connection.sql(asked).rows() == [(1, 1), (2, None)]
