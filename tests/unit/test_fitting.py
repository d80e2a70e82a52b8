"""What is said of an event before it is sent is what the parser says of it once it has arrived."""

import json
import os
from pathlib import Path

import pytest

from tests.support.events_that_fit import BAD, GOOD, NAMED, STREAM
from tests.support.typed_values import CASES, TYPED, TYPES
from trilayer import Stream
from trilayer_core.compute.fitting import (
    JsonFitting,
    UnknownFields,
    reasons_of,
    said_unknown,
)
from trilayer_core.definitions.stream import PARSER

HINT = (
    ", and a number is in seconds: declare `at timestamp in milliseconds` if these are milliseconds"
)
FITS = Path(__file__).parent / "golden" / "fits.txt"


def test_fields_that_the_schema_does_not_have_are_named():
    stream = Stream(
        "s",
        "a int, id string from 'user.id', whole string from 'raw', at timestamp",
        event_time="at",
    )
    fitting = JsonFitting(stream)
    event = {
        "a": "x",
        "b": 1,
        "user": {"id": 1, "x.y": {"z": 2}},
        "raw": {"any": 3},
        "At": "2026-01-01",
    }
    judged = fitting.judge(json.dumps(event).encode())
    assert judged.unknown == ("b", "user.`x.y`", "At")
    assert judged.misfit == 'wrong type: a must be int, got "x"'
    assert fitting.judge(b'{"user": 7, "at": "2026-01-01"}').unknown == ()
    assert fitting.judge(b"[1]").unknown == ()
    unknown = UnknownFields()
    for number in range(1_000):
        unknown.count(("At", "b") if number < 2 else ("At",), ("a",))
    said = said_unknown(unknown, stream)
    assert (
        said == "fields that the schema of s does not have: At (1,000; did you mean 'at'?), b (2)"
    )


def test_a_field_that_the_same_event_has_is_not_what_was_meant():
    stream = Stream(
        "s", "path string from 'request.path', way string, at timestamp", event_time="at"
    )
    fitting, unknown = JsonFitting(stream), UnknownFields()
    judged = fitting.judge(b'{"request": {"method": "GET", "path": "/"}, "wey": 1}')
    unknown.count(judged.unknown, judged.beside)
    assert said_unknown(unknown, stream).endswith(
        "request.method (1), wey (1; did you mean 'way'?)"
    )


def test_the_ten_most_frequent_of_the_fields_that_the_schema_does_not_have_are_named():
    stream = Stream("s", "a int, at timestamp", event_time="at")
    unknown = UnknownFields()
    for n in range(12):
        for _ in range(20 - n):
            unknown.count([f"field{n:02}"], ())
    said = said_unknown(unknown, stream)
    assert said.endswith("field08 (12), field09 (11) and 2 more")
    del unknown["field11"]
    assert said_unknown(unknown, stream).endswith("field09 (11) and 1 more")
    del unknown["field10"]
    assert said_unknown(unknown, stream).endswith("field09 (11)")


def test_a_reason_is_counted_for_each_of_its_fields():
    stream = Stream("s", "a int, b string from 'B', c int, at timestamp", event_time="at")
    said = JsonFitting(stream).judge(b'{"a": "z: w, got x", "c": 1.5, "at": "2026-01-01"}').misfit
    assert reasons_of(said, stream) == ["wrong type: a must be int", "wrong type: c must be int"]
    assert reasons_of("missing field: at", stream) == ["missing field: at"]
    stream = Stream(
        "s", "a int not null, b string not null from 'B', at timestamp", event_time="at"
    )
    assert reasons_of(JsonFitting(stream).judge(b"{}").misfit, stream) == [
        "missing field: a", "missing field: b (B)", "missing field: at",
    ]  # fmt: skip
    stream = Stream("s", "a int, at timestamp from 'ts' in milliseconds", event_time="at")
    said = JsonFitting(stream).judge(b'{"a": "x", "ts": 1767225600000000}').misfit
    assert reasons_of(said, stream) == [
        "wrong type: a must be int",
        "wrong type: at (ts) must be timestamp, and a number is in milliseconds: declare `at"
        " timestamp from 'ts' in microseconds` if these are microseconds",
    ]
    assert reasons_of("oversized: 7 bytes, at most 5", stream) == ["oversized"]
    assert reasons_of("tombstone", stream) == ["tombstone"]


def test_what_fits_each_type_is_what_was_reviewed():
    """`GOLDEN=write` writes the file anew, as it does with the SQL beside it.

    The file begins with the parser's version: a value that fits otherwise than before needs a new
    one, or the events that stores have of it are counted or left out as the older one said.
    """
    fitting = JsonFitting(TYPED)
    fits = [(t, value) for t, value, event in CASES if fitting.judge(event).misfit is None]
    lines = [line for t in TYPES for line in [t, *(f"  {value}" for of, value in fits if of == t)]]
    now = "\n".join([f"parser {PARSER}", *lines]) + "\n"
    if os.environ.get("GOLDEN") == "write":
        FITS.write_text(now)
    assert now == FITS.read_text()


def test_what_parser_5_quarantined_for_a_fraction_of_a_second_is_parsed_again():
    stream = Stream("s", "id string, at timestamp", event_time="at")
    assert JsonFitting(stream).judge(b'{"id": "a", "at": 1793734899.461}').misfit is None
    assert not stream.fingerprint.startswith("1c5d9961160cbe38")


@pytest.mark.parametrize("name", [*BAD, *GOOD])
def test_an_event_is_told_as_the_parser_does(name):
    """The parser's own tests hold it against the same tables."""
    value, reason = BAD[name] if name in BAD else (GOOD[name], None)
    said = JsonFitting(STREAM).judge(value).misfit
    if reason is None or reason.startswith("broken JSON"):
        assert (said or "").partition(":")[0] == (reason or "").partition(":")[0]
    else:
        assert said == reason


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b'{"VendorID": 6, "meta": {"at": 1767225600}}', None),
        (
            b'{"VendorID": "6", "meta": {"at": 1767225600}}',
            'wrong type: vendor_id (VendorID) must be int, got "6"',
        ),
        (
            b'{"VendorID": 6, "meta": 7}',
            "wrong type: at (meta.at) must be timestamp, got meta, which is no object; fare"
            " (meta.fare) must be decimal(6,2), got meta, which is no object; who (meta.it's) must"
            " be string, got meta, which is no object",
        ),
        (b'{"meta": {"at": 1767225600}}', "missing field: vendor_id (VendorID)"),
        (b'{"VendorID": 6}', "missing field: at (meta.at)"),
        (b"[" * 100_000, "broken JSON: must be one JSON object"),
    ],
)
def test_fields_are_looked_for_where_the_columns_come_from(value, says):
    assert JsonFitting(NAMED).judge(value).misfit == says


def test_what_is_no_object_is_named_however_deep_it_is():
    stream = Stream("s", "n int from 'a.b.c', at timestamp", event_time="at")
    judge = JsonFitting(stream).judge
    for event, name in ((b'{"a": 1, "at": 0}', "a"), (b'{"a": {"b": []}, "at": 0}', "b")):
        said = f"wrong type: n (a.b.c) must be int, got {name}, which is no object"
        assert judge(event).misfit == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (f'"{"x" * 50}"', f'"{"x" * 40}"'),
        ("1." + "2" * 50, "1." + "2" * 38),
        ('["é", {"a": 1.50}]', '["é",{"a":"1.50"}]'),
        (json.dumps(["x" * 50]), '["' + "x" * 38),
        ('"\\ud83d"', '"\\ud83d"'),
    ],
)
def test_the_beginning_of_what_does_not_fit_is_shown(value, said):
    stream = Stream("s", "n int, at timestamp", event_time="at")
    judged = JsonFitting(stream).judge(f'{{"n": {value}, "at": 0}}'.encode())
    assert judged.misfit == f"wrong type: n must be int, got {said}"


@pytest.mark.parametrize(("seconds", "hint"), [(253402300800, ""), (253402300801, HINT)])
def test_milliseconds_are_suspected_beyond_the_first_second_that_is_too_late(seconds, hint):
    stream = Stream("s", "at timestamp", event_time="at")
    said = JsonFitting(stream).judge(b'{"at": %d}' % seconds).misfit
    assert said == f"wrong type: at must be timestamp, got {seconds}{hint}"


def test_an_exponent_of_four_digits_fits_only_a_stream_without_decimals():
    event = b'{"x": %s, "at": 0}'
    for exponent in (b"1000", b"+1000", b"-1000", b"9" * 30, b"-" + b"9" * 30):
        for e in (b"e", b"E"):
            value = event % (b"1" + e + exponent)
            for type_, said in (
                ("double", None),
                ("int", "wrong type: x must be int, got "),
                ("array<decimal(3,1)>", "wrong type: a number must have an exponent of at most 3"),
            ):
                stream = Stream("s", f"x {type_}, at timestamp", event_time="at")
                misfit = JsonFitting(stream).judge(value).misfit
                assert misfit is said or misfit.startswith(said)
    plain = Stream("s", "x double, d decimal(3,1), at timestamp", event_time="at")
    assert JsonFitting(plain).judge(event % b"1e999").misfit is None
    assert JsonFitting(plain).judge(event % b"1e1000").misfit == (
        "wrong type: a number must have an exponent of at most 3 digits, at most 1000 characters,"
        " and no comma"
    )
