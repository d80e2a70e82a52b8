"""Fields that a schema does not have are named, with the field that was possibly meant."""

import json

from trilayer import Stream
from trilayer_core.compute.formats.debezium import Debezium
from trilayer_core.compute.unknown_fields import UnknownFields


def unknown_of(stream, *events):
    unknown = UnknownFields(stream)
    for event in events:
        unknown.count(json.dumps(event).encode() if isinstance(event, dict) else event)
    return unknown


def test_fields_that_the_schema_does_not_have_are_named():
    stream = Stream(
        "s",
        "a int, id string from 'user.id', whole string from 'raw', at timestamp",
        event_time="at",
    )
    event = {
        "a": "x",
        "b": 1,
        "user": {"id": 1, "x.y": {"z": 2}},
        "raw": {"any": 3},
        "At": "2026-01-01",
    }
    assert unknown_of(stream, event) == {"b": 1, "user.`x.y`": 1, "At": 1}
    nothing = [None, b"", b"[1]", b"\xff", b"[" * 100_000, b'{"user": 7, "__tool": 1}']
    assert not unknown_of(stream, *nothing)
    assert str(unknown_of(stream, {"\ud83d": 1})).encode()
    said = str(unknown_of(stream, *[{"a": 1, "At": 1}] * 998, *[{"a": 1, "At": 1, "b": 2}] * 2))
    assert (
        said == "fields that the schema of s does not have: At (1,000; did you mean 'at'?), b (2)"
    )


def test_a_field_that_the_same_event_has_is_not_what_was_meant():
    stream = Stream(
        "s", "path string from 'request.path', way string, at timestamp", event_time="at"
    )
    unknown = unknown_of(stream, {"request": {"method": "GET", "path": "/"}, "wey": 1})
    assert str(unknown).endswith("request.method (1), wey (1; did you mean 'way'?)")


def test_the_ten_most_frequent_are_named():
    stream = Stream("s", "a int, at timestamp", event_time="at")
    for fields, end in (
        (12, "field08 (12), field09 (11) and 2 more"),
        (11, "field09 (11) and 1 more"),
        (10, "field09 (11)"),
    ):
        events = [{f"field{n:02}": 1 for n in range(fields) if time < 20 - n} for time in range(20)]
        assert str(unknown_of(stream, *events)).endswith(end)


def test_fields_of_a_change_are_those_of_its_row():
    stream = Stream(
        "s", "id int, at timestamp from '__ts_ms' in milliseconds", event_time="at",
        format=Debezium(),
    )  # fmt: skip
    change = {"op": "u", "ts_ms": 1, "source": {"db": "x"}, "after": {"id": 1, "nmae": 2}}
    assert unknown_of(stream, change, {"payload": change}) == {"nmae": 2}
