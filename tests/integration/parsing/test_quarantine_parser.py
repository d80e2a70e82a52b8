"""Every kind of event that doesn't fit its schema is put aside with a reason; no other is."""

import os
from pathlib import Path

import pytest

from tests.support.events_that_fit import BAD, GOOD, NAMED, STREAM
from tests.support.typed_values import CASES, TYPED, TYPES
from trilayer import Stream
from trilayer_core.compute.parsing import parse
from trilayer_core.definitions.stream import PARSER
from trilayer_core.store.generations import Generations
from trilayer_core.store.master import Master

pytestmark = pytest.mark.spark

TAKEN = Path(__file__).parent / "fits.txt"


@pytest.fixture(scope="module")
def parsed(spark):
    """Name to the parsed row of every event above, in one Spark job."""
    from trilayer_core.compute.parsing import parse

    values = {name: value for name, (value, _) in BAD.items()} | GOOD
    rows = [
        (name, bytearray(value) if value is not None else None) for name, value in values.items()
    ]
    records = spark.createDataFrame(rows, "name string, _value binary")
    rows = parse(records, STREAM).selectExpr("*", "cast(at AS string) AS _at").toArrow().to_pylist()
    return {row["name"]: row for row in rows}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_event_is_put_aside_with_its_reason(name, parsed):
    row = parsed[name]
    assert row["_fits"] is False
    assert row["_reject"] == BAD[name][1]
    assert [row[field.name] for field in STREAM.fields] == [None] * len(STREAM.fields), (
        "half an event must not be seen"
    )


@pytest.mark.parametrize("name", GOOD)
def test_a_good_event_is_not_put_aside(name, parsed):
    row = parsed[name]
    assert row["_fits"] is True
    assert row["_reject"] is None
    assert row["id"] is not None
    assert row["at"] is not None


def test_columns_come_from_the_fields_that_they_name(spark):
    from trilayer_core.compute.parsing import parse

    meta = b'"meta": {"at": "2026-01-01T00:00:00", "fare": "1.50", "it\'s": "x"}'
    values = [
        b'{"VendorID": 6, "PU zone": "Soho", '
        + meta
        + b', "a.b": {"c?": "2026-01-02"}, "plain": {"a": 1}}',
        b'{"VendorID": "6", "PU zone": "Soho", ' + meta + b', "a.b": {"c?": true}}',
        b'{"vendor_id": 6, "zone": "Soho", ' + meta + b"}",
        b'{"VendorID": 6, "meta": 7}',
        b'{"VendorID": 6, "meta": {"at": 1767225600, "fare": 1e100000000}, "a": {"b": {"c?": 1}}}',
        b'{"VendorID": 6, "meta": {"at": 1767225600, "it\'s": 12}, "day": "2026-13-01"}',
    ]
    records = spark.createDataFrame(
        [(i, bytearray(v)) for i, v in enumerate(values)], "n int, _value binary"
    )
    rows = (
        parse(records, NAMED)
        .selectExpr("*", "cast(at AS string) AS _at")
        .orderBy("n")
        .toArrow()
        .to_pylist()
    )
    first = rows[0]
    assert (first["vendor_id"], first["zone"], first["_at"], str(first["fare"])) == (
        6,
        "Soho",
        "2026-01-01 00:00:00",
        "1.50",
    )
    assert (first["who"], str(first["dotted"]), first["plain"]) == ("x", "2026-01-02", {"a": 1})
    assert [row["_reject"] for row in rows] == [
        None,
        (
            'wrong type: vendor_id (VendorID) must be int, got "6"; dotted (`a.b`.c?) must be date,'
            " got true"
        ),
        "missing field: vendor_id (VendorID)",
        (
            "wrong type: at (meta.at) must be timestamp, got meta, which is no object; fare"
            " (meta.fare) must be decimal(6,2), got meta, which is no object; who (meta.it's) must"
            " be string, got meta, which is no object"
        ),
        (
            "wrong type: a number must have an exponent of at most 3 digits, at most 1000"
            " characters, and no comma"
        ),
        'wrong type: day must be date, got "2026-13-01"',
    ]


def test_each_type_takes_the_values_that_were_reviewed(spark):
    """`GOLDEN=write` writes the file again.

    The file begins with the parser's version: a value that fits otherwise than before needs a new
    one, or the events that stores have of it are counted or left out as the older one decided.
    """
    events = [(number, event) for number, (*_, event) in enumerate(CASES)]
    rows = parse(spark.createDataFrame(events, "n int, _value binary"), TYPED)
    fits = {row["n"] for row in rows.where("_fits").select("n").collect()}
    taken = [(type_, value) for n, (type_, value, _) in enumerate(CASES) if n in fits]
    lines = [line for t in TYPES for line in [t, *(f"  {value}" for of, value in taken if of == t)]]
    text = "\n".join([f"parser {PARSER}", *lines]) + "\n"
    if os.environ.get("GOLDEN") == "write":
        TAKEN.write_text(text)
    assert text == TAKEN.read_text()


def test_times_are_read_in_utc(parsed):
    def at(name):
        return parsed[name]["_at"]

    assert at("seconds") == at("least") == at("a day as a time") == "2026-01-01 00:00:00"
    assert at("a time with a zone") == "2026-01-01 00:00:00.5"
    assert at("seconds with a fraction") == at("seconds with an exponent")
    assert at("seconds with a fraction") == "2026-11-03 19:41:39.461"
    assert at("seconds before 1970") == "1969-12-31 23:59:59"
    assert at("last times") == "9999-12-31 23:59:59.999999"


@pytest.mark.kafka
@pytest.mark.slow
def test_both_layers_give_the_same_reasons(parsed, broker, spark, store, new_topic):
    """From the log to the batch layer's master dataset and to the speed layer's quarantine, offset
    by offset.
    """
    from tests.support.layers import Pipeline, quick
    from trilayer import Catalog, View, count
    from trilayer_core.compute.parsing import REJECT

    stream = Stream(
        STREAM.name,
        STREAM.schema,
        event_time="at",
        max_event_bytes=200,
        topic=new_topic(),
        partitions=1,
    )
    catalog = Catalog(views=[View("by_id", source=stream, key=["id"], aggregates={"n": count()})])
    names = [*BAD, *GOOD]
    values = [BAD[name][0] if name in BAD else GOOD[name] for name in names]
    with Pipeline(catalog, quick(broker.bootstrap), store, spark) as pipeline:
        pipeline.produce([(0, value) for value in values])
        pipeline.catch_up()
        speed = {
            row["_offset"]: row[REJECT]
            for commit in Generations(store, stream).commits(pipeline.generation)
            if commit.quarantine
            for row in store.read_table(commit.quarantine).to_pylist()
        }
        pipeline.wait_for_tick()
        pipeline.batch()
    batch = {
        row["_offset"]: row[REJECT]
        for interval in Master(store, stream).read_chain()
        for file in interval.files
        for row in store.read_table(file, ["_offset", REJECT]).to_pylist()
        if row[REJECT] is not None
    }
    expected = {offset: BAD[name][1] for offset, name in enumerate(names) if name in BAD}
    assert speed == expected
    assert batch == expected
