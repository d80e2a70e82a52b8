"""Every kind of event that doesn't fit its schema is put aside with a reason; no other is."""

import pytest

from trilayer import Stream
from trilayer_core.compute.formats import format_of
from trilayer_core.compute.parsing import parse

pytestmark = pytest.mark.spark

STREAM = Stream(
    "orders",
    "id string not null, n int, tiny tinyint, at timestamp, d date, local timestamp_ntz, price"
    " decimal(6,2), ratio double, nested struct<a:int>",
    event_time="at",
    max_event_bytes=200,
)
AT = b'"at": "2026-01-01T00:00:00Z"'

BAD = {
    "tombstone": (None, "tombstone"),
    "oversized": (
        b'{"id": "x", ' + AT + b', "more": "' + b"y" * 200 + b'"}',
        "oversized: 253 bytes, at most 200",
    ),
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
    "wrong type": (
        b'{"id": "x", "n": "seven", ' + AT + b"}",
        'wrong type: n must be int, got "seven"',
    ),
    "too large for its type": (
        b'{"id": "x", "n": 2147483648, ' + AT + b"}",
        "wrong type: n must be int, got 2147483648",
    ),
    "just too large for a byte": (
        b'{"id": "x", "tiny": 200, ' + AT + b"}",
        "wrong type: tiny must be tinyint, got 200",
    ),
    "just too small for a byte": (
        b'{"id": "x", "tiny": -129, ' + AT + b"}",
        "wrong type: tiny must be tinyint, got -129",
    ),
    "no such day": (
        b'{"id": "x", "d": "2026-02-30", ' + AT + b"}",
        'wrong type: d must be date, got "2026-02-30"',
    ),
    "no time": (b'{"id": "x", "at": "soon"}', 'wrong type: at must be timestamp, got "soon"'),
    **{
        f"{what}, for a {type_}": (
            b'{"id": "x", "%s": %s%s}'
            % (name.encode(), value, b"" if name == "at" else b", " + AT),
            f"wrong type: {name} must be {type_}, got {value.decode()}",
        )
        for name, type_, values in (
            (
                "at",
                "timestamp",
                {
                    "a time of no day": b'"10:00"',
                    "a time of no day with a T": b'"T10:00"',
                    "a time with a zone": b'"1:00-08:00"',
                    "milliseconds": b"1767225600000",
                    "microseconds": b"1767225600000000",
                    "too many for a bigint": b"17672256000000000000000",
                    "a fraction": b"1.5",
                    "seconds as text": b'"1767225600"',
                    "compact": b'"20260301"',
                    "a year": b'"2026"',
                    "a word": b'"now"',
                    "a flag": b"true",
                    "an object": b'{"a":1}',
                    "nothing": b'""',
                    "before year 1": b'"0000-12-31T23:59:59Z"',
                    "before year 1 in UTC": b'"0001-01-01T00:00:00+09:00"',
                    "after year 9999": b'"+10000-01-01T00:00:00Z"',
                    "after year 9999 in UTC": b'"9999-12-31T23:59:59-09:00"',
                },
            ),
            (
                "d",
                "date",
                {
                    "compact": b'"20260301"',
                    "a number": b"20260301",
                    "days": b'"1"',
                    "before year 1": b'"0000-12-31"',
                    "after year 9999": b'"+10000-01-01"',
                },
            ),
            (
                "local",
                "timestamp_ntz",
                {
                    "a time of no day": b'"10:00"',
                    "a number": b"1767225600",
                    "before year 1": b'"0000-12-31T23:59:59"',
                    "after year 9999": b'"+10000-01-01T00:00:00"',
                },
            ),
        )
        for what, value in values.items()
    },
    "several": (
        b'{"id": "x", "n": true, "d": "x", ' + AT + b"}",
        'wrong type: n must be int, got true; d must be date, got "x"',
    ),
    "missing required": (b"{" + AT + b"}", "missing field: id"),
    "null required": (b'{"id": null, ' + AT + b"}", "missing field: id"),
    "missing event time": (b'{"id": "x"}', "missing field: at"),
    "empty object": (b"{}", "missing field: id, at"),
}
GOOD = {
    "least": b'{"id": "", ' + AT + b"}",
    "unknown field": b'{"id": "x", "later": [1, {"a": null}], ' + AT + b"}",
    "nulls": b'{"id": "x", "n": null, "d": null, "price": null, "nested": null, ' + AT + b"}",
    "objects within": b'{"id": "x", "nested": {"a": 1}, "later": [{}, {"b": {}}], ' + AT + b"}",
    "NaN beside an object": b'{"id": "x", "nested": {}, "ratio": NaN, ' + AT + b"}",
    "braces within": b'{"id": "}{ \\"}", "later": "}", ' + AT + b"}",
    "seconds": b'{"id": "x", "at": 1767225600}',
    "the least byte": b'{"id": "x", "tiny": -128, ' + AT + b"}",
    "the largest byte": b'{"id": "x", "tiny": 127, ' + AT + b"}",
    "first times": (
        b'{"id": "x", "d": "0001-01-01", "local": "0001-01-01T00:00:00",'
        b' "at": "0001-01-01T00:00:00Z"}'
    ),
    "last times": (
        b'{"id": "x", "d": "9999-12-31", "local": "9999-12-31T23:59:59.999999",'
        b' "at": "9999-12-31T23:59:59.999999Z"}'
    ),
    "a day as a time": b'{"id": "x", "at": "2026-01-01"}',
    "a time with a zone": b'{"id": "x", "at": "2026-01-01 09:00:00.5+09:00"}',
    "a time before 1970": b'{"id": "x", "at": "1900-02-28T23:59:59.999999Z"}',
    "seconds before 1970": b'{"id": "x", "at": -1}',
    "not ASCII": '{"id": "日本 \U0001f600", '.encode() + AT + b"}",
    "white space": b' \n{"id": "x",\t' + AT + b"}\n ",
    "as large as allowed": b'{"id": "' + b"x" * (200 - 11 - len(AT) - 1) + b'", ' + AT + b"}",
}


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


NAMED = Stream(
    "rides",
    "vendor_id int not null from 'VendorID', zone string from 'PU zone', at timestamp from"
    " 'meta.at', fare decimal(6,2) from 'meta.fare', who string from \"meta.it's\", dotted date"
    " from '`a.b`.c?', day date, plain struct<a:int>",
    event_time="at",
)


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


def test_what_stands_in_an_objects_place_is_told_in_the_same_words_before_it_is_sent(spark):
    values = [b'{"VendorID": 6, "meta": "x"}', b'{"VendorID": "7", "meta": [{"at": 1}]}']
    rows = spark.createDataFrame(list(enumerate(values)), "n int, _value binary")
    found = [row["_reject"] for row in parse(rows, NAMED).orderBy("n").collect()]
    fitting = format_of(NAMED).fitting(NAMED)
    assert found == [fitting.judge(value).misfit for value in values]


def test_times_are_read_in_utc(parsed):
    def at(name):
        return parsed[name]["_at"]

    assert at("seconds") == at("least") == at("a day as a time") == "2026-01-01 00:00:00"
    assert at("a time with a zone") == "2026-01-01 00:00:00.5"
    assert at("seconds before 1970") == "1969-12-31 23:59:59"
    assert at("last times") == "9999-12-31 23:59:59.999999"


@pytest.mark.kafka
@pytest.mark.slow
def test_both_layers_give_the_same_reasons(parsed, broker, spark, store, new_topic):
    """From the log to the batch layer's master dataset and to the speed layer's quarantine, offset
    by offset.
    """
    from tests.layers import Pipeline, quick
    from trilayer import Catalog, View, count
    from trilayer_core.compute.parsing import REJECT
    from trilayer_core.store.master import read_chain
    from trilayer_core.store.segments import read_commits

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
