"""Each kind of event that doesn't fit its schema is put aside with a reason, and none that fits is."""

import pytest

from trilayer import Stream

pytestmark = pytest.mark.spark

STREAM = Stream(
    "orders",
    "id string not null, n int, at timestamp, d date, price decimal(6,2), ratio double, nested struct<a:int>",
    event_time="at",
    max_event_bytes=200,
)
AT = b'"at": "2026-01-01T00:00:00Z"'

BAD = {
    "tombstone": (None, "tombstone"),
    "oversized": (b'{"id": "x", ' + AT + b', "more": "' + b"y" * 200 + b'"}', "oversized: 253 bytes, at most 200"),
    "invalid UTF-8": (b"\xff\xfe\x00", "invalid UTF-8"),
    "invalid UTF-8 in a string": (b'{"id": "\xc3", ' + AT + b"}", "invalid UTF-8"),
    "empty": (b"", "broken JSON: must be one JSON object"),
    "blank": (b"  ", "broken JSON: must be one JSON object"),
    "cut short": (b'{"id": "x", ' + AT, "broken JSON: must be one JSON object"),
    "text": (b"hello", "broken JSON: must be one JSON object"),
    "array": (b'[{"id": "x", ' + AT + b"}]", "broken JSON: must be one JSON object"),
    "empty array": (b"[]", "broken JSON: must be one JSON object"),
    "null": (b"null", "broken JSON: must be one JSON object"),
    "number": (b"7", "broken JSON: must be one JSON object"),
    "string": (b'"x"', "broken JSON: must be one JSON object"),
    **{
        f"{what} after the object": (
            b'{"id": "x", ' + AT + b"}" + after,
            "broken JSON: must be one JSON object, with nothing after it",
        )
        for what, after in {
            "text": b" more",
            "another": b'{"id": "y", ' + AT + b"}",
            "another on a line of its own": b'\n{"id": "y", ' + AT + b"}",
            "a comma and another": b', {"id": "y", ' + AT + b"}",
            "a field": b', "n": 1',
            "a brace": b"}",
            "a bracket": b"]",
            "what closes an array and opens one": b'], [{"id": "y"}',
            "what closes an object and opens a field": b'}, "_": {"id": "y"',
            "a comma": b",",
            "a comment": b"// more",
            "NUL": b"\0",
        }.items()
    },
    "wrong type": (b'{"id": "x", "n": "seven", ' + AT + b"}", "wrong type: n must be int, got seven"),
    "too large for its type": (b'{"id": "x", "n": 2147483648, ' + AT + b"}", "wrong type: n must be int, got 2147483648"),
    "no such day": (b'{"id": "x", "d": "2026-02-30", ' + AT + b"}", "wrong type: d must be date, got 2026-02-30"),
    "no time": (b'{"id": "x", "at": "soon"}', "wrong type: at must be timestamp, got soon"),
    "several": (
        b'{"id": "x", "n": true, "d": "x", ' + AT + b"}",
        "wrong type: n must be int, got true; d must be date, got x",
    ),
    "missing required": (b"{" + AT + b"}", "missing field: id"),
    "null required": (b'{"id": null, ' + AT + b"}", "missing field: id"),
    "missing event time": (b'{"id": "x"}', "missing field: at"),
    "empty object": (b"{}", "missing field: id, at"),
}  # fmt: skip
GOOD = {
    "least": b'{"id": "", ' + AT + b"}",
    "unknown field": b'{"id": "x", "later": [1, {"a": null}], ' + AT + b"}",
    "nulls": b'{"id": "x", "n": null, "d": null, "price": null, "nested": null, ' + AT + b"}",
    "objects within": b'{"id": "x", "nested": {"a": 1}, "later": [{}, {"b": {}}], ' + AT + b"}",
    "NaN beside an object": b'{"id": "x", "nested": {}, "ratio": NaN, ' + AT + b"}",
    "braces within": b'{"id": "}{ \\"}", "later": "}", ' + AT + b"}",
    "not ASCII": '{"id": "日本 \U0001f600", '.encode() + AT + b"}",
    "white space": b' \n{"id": "x",\t' + AT + b"}\n ",
    "as large as allowed": b'{"id": "' + b"x" * (200 - 11 - len(AT) - 1) + b'", ' + AT + b"}",
}


@pytest.fixture(scope="module")
def parsed(spark):
    """Name to the parsed row of every event above, in one Spark job."""
    from trilayer.events import parse

    values = {name: value for name, (value, _) in BAD.items()} | GOOD
    rows = [(name, bytearray(value) if value is not None else None) for name, value in values.items()]
    records = spark.createDataFrame(rows, "name string, _value binary")
    return {row["name"]: row for row in parse(records, STREAM).collect()}


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


@pytest.mark.kafka
@pytest.mark.slow
def test_both_layers_give_the_same_reasons(parsed, broker, spark, store, new_topic):
    """From the log to the batch layer's master dataset and to the speed layer's quarantine, offset by offset."""
    from tests.layers import Pipeline, quick
    from trilayer import Catalog, View, count
    from trilayer.events import REJECT
    from trilayer.master import read_chain
    from trilayer.segment import read_commits

    stream = Stream(
        STREAM.name, STREAM.schema, event_time="at", max_event_bytes=200, topic=new_topic(), partitions=1
    )
    catalog = Catalog(views=[View("by_id", source=stream, key=["id"], aggregates={"n": count()})])
    names = [*BAD, *GOOD]
    values = [BAD[name][0] if name in BAD else GOOD[name] for name in names]
    with Pipeline(catalog, quick(broker.bootstrap), store, spark) as pipeline:
        pipeline.produce([(0, value) for value in values])
        pipeline.catch_up()
        speed = {
            row["_offset"]: row[REJECT]
            for commit in read_commits(store, stream, pipeline.generation)
            if commit.quarantine
            for row in store.read_table(commit.quarantine).to_pylist()
        }
        pipeline.wait_for_tick()
        pipeline.batch()
    batch = {
        row["_offset"]: row[REJECT]
        for interval in read_chain(store, stream)
        for file in interval.files
        for row in store.read_table(file, ["_offset", REJECT]).to_pylist()
        if row[REJECT] is not None
    }
    expected = {offset: BAD[name][1] for offset, name in enumerate(names) if name in BAD}
    assert speed == expected
    assert batch == expected
