"""The unit of a time that is a number is declared in the schema."""

import pytest

from trilayer import Format, Stream
from trilayer_core.errors import DefinitionError


def units(schema):
    return {f.name: (f.type, f.unit, f.path) for f in Stream("s", schema, event_time="at").fields}


def test_a_unit_follows_the_type_or_the_field():
    assert units(
        "at timestamp from 'ts' in milliseconds, b timestamp not null IN Microseconds, c date in"
        " days, d timestamp_ntz in nanoseconds from 'x.y', e decimal(4,2), `in` int, f timestamp"
    ) == {
        "at": ("timestamp", "milliseconds", ("ts",)),
        "b": ("timestamp", "microseconds", ("b",)),
        "c": ("date", "days", ("c",)),
        "d": ("timestamp_ntz", "nanoseconds", ("x", "y")),
        "e": ("decimal(4,2)", "", ("e",)),
        "in": ("int", "", ("in",)),
        "f": ("timestamp", "", ("f",)),
    }


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (
            "at timestamp in minutes",
            r"must be one that its type can have \(timestamp in seconds, .*",
        ),
        ("at timestamp, n int in seconds", "got int in seconds"),
        ("at timestamp in", "must name a unit once, after `in`"),
        ("at timestamp in seconds in seconds", "must name a unit once, after `in`"),
        ("at date in seconds", "got date in seconds"),
        ("at array<timestamp> in seconds", "got array<timestamp> in seconds"),
    ],
)
def test_what_is_no_unit_is_an_error(schema, says):
    with pytest.raises(DefinitionError, match=says):
        units(schema)


def test_a_unit_needs_a_format_that_reads_it():
    class Own(Format):
        name, version = "own", 1

    with pytest.raises(DefinitionError, match=r"must have `units = True`.*because at has one"):
        Stream("s", "at timestamp in milliseconds", event_time="at", format=Own())


def test_a_unit_is_part_of_the_fingerprint():
    prints = [
        Stream("s", f"at timestamp{unit}", event_time="at").fingerprint
        for unit in ("", " in seconds", " in milliseconds", " from 'ts' in milliseconds")
    ]
    assert len(set(prints)) == 4
