"""The key of a record: the text of a column, the same however the event was written."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.extensions.delimited import Delimited
from trilayer import Format, Stream
from trilayer.operations.files.reading import read_events
from trilayer.operations.record_key import key_of, partition_of
from trilayer_core.errors import DefinitionError


def stream(type_, name="card", **more):
    return Stream(
        "s", f"{name} {type_}, day date", event_time="day", record_key=name.split()[0], **more
    )


@pytest.mark.parametrize(
    ("type_", "value", "key"),
    [
        ("string", '{"card": "c-1"}', b"c-1"),
        ("string", '{"card": "Zoë \\ud83d\\ude00"}', "Zoë \U0001f600".encode()),
        ("string", '{"card": ""}', b""),
        ("string", '{"card": 1.50}', b"1.50"),
        ("string", '{"card": true}', b"true"),
        ("string", '{"card": {"a": 1}}', b'{"a":"1"}'),
        ("string", '{"card": "\\ud800"}', b"?"),
        ("string", '{"card": null}', None),
        ("string", "{}", None),
        ("bigint", '{"card": 42}', b"42"),
        ("bigint", '{"card": -0}', b"0"),
        ("bigint", '{"card": "unfit"}', b"unfit"),
        ("bigint", '{"card": 4.5}', b"4.5"),
        ("decimal(10,2)", '{"card": 1.5}', b"1.50"),
        ("decimal(10,2)", '{"card": "1.50"}', b"1.50"),
        ("decimal(10,2)", '{"card": 15e-1}', b"1.50"),
        ("decimal(10,2)", '{"card": -0.001}', b"0.00"),
        ("decimal(38,0)", f'{{"card": {"9" * 38}}}', b"9" * 38),
        ("decimal(10,2)", '{"card": "1,50"}', b"1,50"),
        ("decimal(10,2)", '{"card": 1e999999999}', b"1e999999999"),
        # What does not fit the schema for another reason has its key all the same.
        ("string", '{"card": "c-1", "day": "never"}', b"c-1"),
        ("string", '{"card": "c-1"', None),
        ("string", '["c-1"]', None),
        ("string", "[" * 100_000, None),
        ("string", "\xff", None),
    ],
)
def test_the_key_is_the_text_of_the_column(type_, value, key):
    assert key_of(stream(type_), value.encode("latin-1" if value == "\xff" else "utf-8")) == key


def test_without_a_record_key_there_is_none():
    plain = Stream("s", "card string, day date", event_time="day")
    assert key_of(plain, b'{"card": "c-1"}') is None


def test_a_key_may_be_inside_of_the_event():
    inner = Stream("s", "card bigint from 'paid.by', day date", event_time="day", record_key="card")
    assert key_of(inner, b'{"paid": {"by": 7}}') == b"7"
    assert key_of(inner, b'{"paid": 7}') is None


def test_all_kinds_of_files_give_the_same_keys(tmp_path):
    keyed = stream("decimal(8,2)")
    values = [Decimal("1.50"), None, Decimal("20.00")]
    days = [date(2026, 1, 1)] * 3
    pq.write_table(
        pa.table({"card": pa.array(values, pa.decimal128(8, 2)), "day": days}),
        tmp_path / "a.parquet",
    )
    (tmp_path / "a.csv").write_text("card,day\n1.5,2026-01-01\n,2026-01-01\n20,2026-01-01\n")
    (tmp_path / "a.jsonl").write_text(
        '{"card": 1.5, "day": "2026-01-01"}\n{"day": "2026-01-01"}\n'
        '{"card": "20.0", "day": "2026-01-01"}\n'
    )
    for name in ("a.parquet", "a.csv", "a.jsonl"):
        events = list(read_events(tmp_path / name, keyed))
        assert [key_of(keyed, event.value) for event in events] == [b"1.50", None, b"20.00"]


def test_a_format_of_one_s_own_says_where_the_key_is(tmp_path):
    keyed = Stream(
        "s", "at timestamp, card string", event_time="at", record_key="card", format=Delimited()
    )
    assert key_of(keyed, b"2026-01-01T00:00:00Z|c-1") == b"c-1"
    assert key_of(keyed, b"2026-01-01T00:00:00Z|") is None
    assert key_of(keyed, b"broken") is None
    path = tmp_path / "a.csv"
    path.write_text("at,card\n2026-01-01T00:00:00Z,c-1\n")
    (event,) = read_events(path, keyed)
    assert key_of(keyed, event.value) == b"c-1"


class Mute(Format):
    name = "mute"
    version = 1


@pytest.mark.parametrize(
    ("type_", "more", "message"),
    [
        ("double", {}, "must be a string, an integer or a decimal.*got 'card', which is double"),
        ("timestamp", {}, "which is timestamp"),
        ("array<int>", {}, "which is array<int>"),
        ("string", {"format": Mute()}, "must have a method `key_text`"),
    ],
)
def test_a_record_key_that_has_no_text_is_refused(type_, more, message):
    with pytest.raises(DefinitionError, match=message):
        stream(type_, **more)


@pytest.mark.parametrize(
    ("key", "murmur2"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_partition_is_that_of_kafka_s_producers(key, murmur2):
    """The hashes are those in the tests of Kafka's own client."""
    for partitions in (1, 2, 7, 64):
        assert partition_of(key, partitions) == (murmur2 & 0x7FFFFFFF) % partitions
