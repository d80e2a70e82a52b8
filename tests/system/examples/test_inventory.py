"""Changes of a table, as Debezium sends them, give the table as it is in the end."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from examples.demo import compare
from examples.inventory import catalog, changes
from examples.inventory.generate import SOURCES, generate
from examples.inventory.truth import truth
from tests.support.answers import answers, partials
from trilayer import Debezium, Stream
from trilayer_core.compute.parsing import REJECT, parse

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)


def parsed(spark, stream, records):
    """The events of records, which are a key, a value and an append time."""
    rows = [
        (0, n, key and bytearray(key), value and bytearray(value), at)
        for n, (key, value, at) in enumerate(records)
    ]
    schema = "_partition int, _offset bigint, _key binary, _value binary, _timestamp timestamp"
    return parse(spark.createDataFrame(rows, schema), stream)


@pytest.mark.parametrize("source", SOURCES)
def test_the_latest_state_is_the_table_without_deleted_rows(spark, source):
    schema = source == "mysql"
    database = generate(source=source, events=600, seed=3, start=START, schema=schema)
    records = [(r.key, r.value, r.appended) for r in database.records]
    events = parsed(spark, changes, records).cache()
    assert events.where(F.col(REJECT).isNotNull()).count() == 0
    connection = answers(catalog, partials(catalog, changes, events))
    for expected in truth(database):
        rows = connection.sql(expected.sql)
        found = [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]
        assert compare(expected, found).wrong == []
        assert 5 < len(found) < 100
    tombstones = sum(record.value is None for record in database.records)
    count = "SELECT sum(tombstones), sum(deleted::int) FROM products_ever"
    assert connection.execute(count).fetchone()[0] == tombstones > 50
    assert (
        events.where("tombstone AND NOT deleted OR position IS NULL AND NOT tombstone").count() == 0
    )


STREAM = Stream(
    "s",
    "id bigint not null, small decimal(3,1), large decimal(38,0), day date in days, text string,"
    " op string from '__op', deleted boolean from '__deleted', tombstone"
    " boolean from '__tombstone', at timestamp from '__ts_ms' in milliseconds, exact timestamp from"
    " '__ts_ns' in nanoseconds, lsn bigint from '__source.lsn', position string from '__position'",
    event_time="at",
    format=Debezium(),
)
AT = datetime(2026, 1, 1, tzinfo=UTC)
LARGEST = Decimal(10**38 - 1)


def envelope(row, op="c", **more):
    whole = {"before": None, "after": row, "op": op, "ts_ms": 1_614_592_800_000, "source": None}
    return json.dumps(whole | more).encode()


def encoded(stream, **row):
    return stream.format.encode(stream, row | {"__ts_ms": 1_614_592_800_000})


FITS = {
    "spaces": b' {"op":"c" , "after": { "id" : 1 } ,"ts_ms":1614592800000} ',
    "an empty row beside a key": envelope({"id": 1, "text": "} , {"}),
    "braces": envelope({"id": 2**62, "text": '{"id": 2}'}),
    "nanoseconds": envelope({"id": 1}, ts_ns=1_614_592_800_000_000_001),
    "largest": encoded(STREAM, id=1, large=LARGEST, small=Decimal("-99.9")),
    "smallest": encoded(STREAM, id=1, large=LARGEST.copy_negate(), small=Decimal("0.1")),
    "days": envelope({"id": 1, "day": 18_687}),
    "lsn": envelope({"id": 1}, source={"lsn": 7, "connector": "postgresql"}),
    "binlog": envelope({"id": 1}, source={"file": "b.9", "pos": 7, "row": 1}),
    "a long binlog": envelope({"id": 1}, source={"file": "b.999999", "pos": 7, "row": 0}),
    "a longer binlog": envelope({"id": 1}, source={"file": "b.1000000", "pos": 4, "row": 0}),
    "SQL Server's snapshot": envelope(
        {"id": 1}, "r", source={"commit_lsn": "00:0a:02", "change_lsn": None}
    ),
    "SQL Server": envelope(
        {"id": 1},
        source={"commit_lsn": "00:0a:03", "change_lsn": "00:0a:01", "event_serial_no": 2},
    ),
    "a delete": envelope(None, "d", before={"id": 1}),
    "a delete with nothing but its key": envelope(None, "d"),
    "a schema": json.dumps({"schema": {}, "payload": json.loads(envelope({"id": 1}))}).encode(),
}
REJECTED = {
    "a truncate": (envelope(None, "t"), "no change"),
    "a row alone": (b'{"id": 1}', "no change"),
    "a schema change": (b'{"ddl": "CREATE TABLE t (id int)", "source": {}}', "no change"),
    "an empty row": (envelope({}), "missing field: id"),
    "a required value that is null": (envelope({"id": None}), "missing field: id"),
    "another type": (envelope({"id": "x"}), 'wrong type: id must be bigint, got "x"'),
    "no Base64": (
        envelope({"id": 1, "small": "1.5"}),
        'wrong type: small must be decimal(3,1), got "1.5"',
    ),
    "too large a decimal": (
        envelope({"id": 1, "small": "A+g="}),
        'wrong type: small must be decimal(3,1), got "A+g="',
    ),
    **{
        f"{name} than 38 digits": (
            envelope({"id": 1, "large": base64.b64encode(number).decode()}),
            "wrong type: large must be decimal(38,0), got",
        )
        for name, number in {
            "more": b"\x7f" + b"\xff" * 15,
            "less": b"\x80" + b"\0" * 15,
            "far more": b"\1" * 17,
        }.items()
    },
    "broken JSON": (envelope({"id": 1})[:-1], "broken JSON"),
    "more after it": (envelope({"id": 1}) + b"{}", "broken JSON"),
    "invalid UTF-8": (b'{"op":"c","after":{"id":1,"text":"\xff"}}', "invalid UTF-8"),
    "an array": (b"[]", "broken JSON"),
    "text": (b'"x"', "broken JSON"),
}


def test_each_kind_of_change_is_an_event_or_named(spark):
    key = b'{"id": 1}'
    records = [(key, value, AT) for value in FITS.values()]
    records += [(key, value, AT) for value, _ in REJECTED.values()]
    keys = [key, b'{"schema": {}, "payload": {"id": 1}}', None, b"1"]
    records += [(key, None, AT) for key in keys]
    rows = parsed(spark, STREAM, records).orderBy("_offset").toArrow().to_pylist()
    good = dict(zip(FITS, rows, strict=False))
    assert {name: row["_reject"] for name, row in good.items() if row["_reject"]} == {}
    assert good["braces"]["text"] == '{"id": 2}'
    assert good["braces"]["id"] == 2**62
    assert good["largest"]["large"] == good["smallest"]["large"].copy_negate() == LARGEST
    assert (good["largest"]["small"], good["smallest"]["small"]) == (
        Decimal("-99.9"),
        Decimal("0.1"),
    )
    assert good["days"]["day"].isoformat() == "2021-03-01"
    assert good["nanoseconds"]["exact"] == datetime(2021, 3, 1, 10, tzinfo=UTC)
    assert (good["lsn"]["lsn"], good["lsn"]["position"]) == (7, f"{7:020}:1:{7:020}")
    assert good["binlog"]["position"] == f"b.{9:010}:{7:020}:{1:010}"
    assert good["SQL Server"]["position"] == f"00:0a:03:00:0a:01:{2:010}"
    assert good["a long binlog"]["position"] < good["a longer binlog"]["position"]
    assert good["SQL Server's snapshot"]["position"] < good["SQL Server"]["position"]
    assert {row["id"] for name, row in good.items() if "delete" in name} == {1}
    assert [row["deleted"] for row in good.values()] == ["delete" in name for name in good]
    bad = dict(zip(REJECTED, rows[len(FITS) :], strict=False))
    wrong = {
        n: row["_reject"] for n, row in bad.items() if not row["_reject"].startswith(REJECTED[n][1])
    }
    assert wrong == {}
    assert all(bytes(row["_value"]) == REJECTED[name][0] for name, row in bad.items())
    tombstones = rows[-len(keys) :]
    assert [row["_reject"] for row in tombstones] == [None, None, "tombstone", "tombstone"]
    assert [(row["id"], row["tombstone"], row["deleted"], row["at"]) for row in tombstones[:2]] == [
        (1, True, True, AT)
    ] * 2


@pytest.mark.parametrize("decimals", ["string", "double"])
def test_decimals_may_be_text_or_numbers(spark, decimals):
    stream = replace(STREAM, format=Debezium(decimals))
    value = "1.5" if decimals == "string" else 1.5
    (row,) = parsed(spark, stream, [(None, envelope({"id": 1, "small": value}), AT)]).collect()
    assert (row["_reject"], row["small"]) == (None, Decimal("1.5"))
