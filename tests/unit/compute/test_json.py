"""How rows of files are written as JSON events, and what a parser leaves out if asked to."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest

from trilayer import Stream
from trilayer_core.compute.formats import JSON, format_of
from trilayer_core.compute.parsing import REJECT, parse_sql

STREAM = Stream("s", "k string, at timestamp", event_time="at")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC), '"2026-01-01T12:00:00.000005Z"'),
        (datetime(2026, 1, 1, 12), '"2026-01-01T12:00:00"'),  # noqa: DTZ001  # a timestamp_ntz
        (date(2026, 1, 1), '"2026-01-01"'),
        (time(12, 30), '"12:30:00"'),
        (Decimal("1.500"), '"1.500"'),
        (b"hi", '"aGk="'),
        (UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        ({"a": [Decimal("0.10"), None]}, '{"a": ["0.10", null]}'),
        ("né", '"né"'),
    ],
)
def test_a_value_of_a_file_is_written_as_the_parser_reads_it(value, text):
    assert JSON.encode(STREAM, {"k": value, "n": None}) == b'{"k": ' + text.encode() + b"}"


def test_bytes_that_are_no_utf_8_are_written_as_they_were():
    text = b"a\xff".decode(errors="surrogateescape")
    assert JSON.encode(STREAM, {"k": text}) == b'{"k": "a\xff"}'


def test_half_of_a_pair_of_surrogates_is_escaped():
    event = {"k": "\ud83d", "d": Decimal("1.5")}
    assert JSON.encode(STREAM, event) == b'{"k": "\\ud83d", "d": "1.5"}'
    assert json.loads(JSON.encode(STREAM, event))["k"] == "\ud83d"


def test_json_is_the_format_of_a_stream_without_one():
    assert format_of(STREAM) is JSON


def test_a_parser_without_reasons_computes_all_columns_but_the_reason():
    with_reasons = parse_sql(STREAM, "records", ["_offset"])
    without = parse_sql(STREAM, "records", ["_offset"], reasons=False)
    assert REJECT in with_reasons
    assert REJECT not in without
    before, _, after = with_reasons.partition(", IF(_fits, NULL, regexp_replace(")
    assert without == f"{before}, {after.partition(f' AS {REJECT}, ')[2]}"
