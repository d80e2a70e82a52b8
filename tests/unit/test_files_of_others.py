"""Files of other programs arrive as declared: every type in every format; others are named."""

import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.files_of_others import WRITERS, stream_of, wrong_cells
from tests.support.time_forms import PER_SECOND
from trilayer import Stream
from trilayer.operations.files.reading import read_events


@pytest.mark.parametrize("writer", WRITERS)
def test_every_type_is_read_back(writer, tmp_path):
    ending, write, types = WRITERS[writer]
    path = tmp_path / f"all.{ending}"
    write(path, types)
    events = list(read_events(path, stream_of(types)))
    assert not [event for event in events if event.misfit]
    assert not wrong_cells([event.value for event in events], types)


def read(path, schema, **options):
    """The events of a file, decoded, and the reasons against them."""
    events = list(
        read_events(path, Stream("s", f"{schema}, day date", event_time="day"), **options)
    )
    return [json.loads(event.value) | {"misfit": event.misfit} for event in events]


def test_bytes_for_text_that_are_no_text_are_named(tmp_path):
    table = pa.table({"a": [b"FR", b"\xff"], "day": [date(2026, 1, 1)] * 2})
    pq.write_table(table, tmp_path / "s.parquet")
    stream = Stream("s", "a string, day date", event_time="day")
    first, second = read_events(tmp_path / "s.parquet", stream)
    assert (first.misfit, second.misfit) == (None, "invalid UTF-8")
    assert b'"FR"' in first.value
    assert b'"\xff"' in second.value


def test_hives_null_is_null_and_in_quotes_text(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text('day,a,n\n2026-01-01,\\N,\\N\n2026-01-01,"\\N",1\n')
    first, second = read(path, "a string, n int")
    assert ("a" in first, "n" in first, second["a"]) == (False, False, "\\N")


def test_a_quote_may_be_escaped_as_spark_does(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text('day,a,n\n2026-01-01,"a \\"b\\", c",1\n2026-01-01,"x ""y""",2\n')
    assert [row["a"] for row in read(path, "a string, n int")] == ['a "b", c', 'x "y"']


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_folder_names_a_column(ending, tmp_path):
    folder = tmp_path / "country=N%41" / "City=__HIVE_DEFAULT_PARTITION__" / "other=1"
    folder.mkdir(parents=True)
    path = folder / f"part-0.{ending}"
    if ending == "csv":
        path.write_text("day\n2026-01-01\n")
    else:
        pq.write_table(pa.table({"day": [date(2026, 1, 1)]}), path)
    (row,) = read(path, "country string not null, city string")
    assert row == {"country": "NA", "day": "2026-01-01", "misfit": None}


def test_names_in_another_case_are_taken_once(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("DAY,VendorId,vendor\n2026-01-01,6,x\n")
    (row,) = read(path, "id int from 'VendorID', vendor string")
    assert row == {"day": "2026-01-01", "VendorID": 6, "vendor": "x", "misfit": None}


def test_names_inside_a_struct_are_taken_in_another_case_and_others_are_reported(tmp_path):
    value = {"ZIP": b"NA", "lines": [{"N": 1, "more": 2}], "else": 3}
    table = pa.table({"a": [value], "day": [date(2026, 1, 1)]})
    pq.write_table(table, tmp_path / "s.parquet")
    (row,) = read(tmp_path / "s.parquet", "a struct<zip:string,lines:array<struct<n:int>>>")
    assert row["a"] == {"zip": "NA", "lines": [{"n": 1, "more": 2}], "else": 3}


@pytest.mark.parametrize("unit", PER_SECOND)
@pytest.mark.parametrize("ending", ["csv", "parquet", "double", "jsonl"])
def test_a_number_is_in_the_declared_unit_in_each_file(unit, ending, tmp_path):
    number = 1_614_592_800 * PER_SECOND[unit]
    path = tmp_path / f"s.{ending.replace('double', 'parquet')}"
    if ending == "csv":
        path.write_text(f"day,at\n2026-01-01,{number}\n2026-01-01,{number}.5\n2026-01-01,x\n")
    elif ending == "jsonl":
        lines = (
            f'{{"day": "2026-01-01", "at": {value}}}' for value in (number, f"{number}.5", '"x"')
        )
        path.write_text("\n".join(lines))
    else:
        numbers = pa.array([number if ending == "parquet" else float(number), None])
        pq.write_table(pa.table({"day": [date(2026, 1, 1)] * 2, "at": numbers}), path)
    rows = read(path, f"at timestamp in {unit}")
    assert float(rows[0]["at"]) == number
    assert rows[0]["misfit"] is rows[1]["misfit"] is None
    if ending in ("csv", "jsonl"):
        assert float(rows[1]["at"]) == number + 0.5
        assert rows[2]["misfit"] == 'wrong type: at must be timestamp, got "x"'


def test_seconds_with_a_fraction_are_seconds_in_a_csv_too(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(
        "day,at\n2026-01-01,1600000000.123456\n2026-01-01,1.6e9\n2026-01-01,2021-03-01T10:00Z\n"
    )
    assert [row["misfit"] for row in read(path, "at timestamp")] == [None] * 3
    assert read(path, "at timestamp")[0]["at"] == 1600000000.123456


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_an_instant_is_no_reading_of_a_clock(unit, zone, tmp_path):
    """As in JSON, where such a column must be text without a zone."""
    instants = pa.array([1_614_592_800, None]).cast(pa.timestamp("s"))
    columns = {"day": [date(2026, 1, 1)] * 2}
    for name, type_ in (("at", pa.timestamp(unit, zone)), ("local", pa.timestamp(unit))):
        columns[name] = instants.cast(type_)
    columns["inside"] = pa.array([[{"at": value}] for value in columns["at"].to_pylist()])
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    same, null = read(tmp_path / "s.parquet", "at timestamp, local timestamp_ntz")
    assert (same["at"], same["local"]) == ("2021-03-01T10:00:00Z", "2021-03-01T10:00:00")
    assert same["misfit"] is null["misfit"] is None
    for schema in ("at timestamp_ntz", "inside array<struct<at:timestamp_ntz>>"):
        wrong, null = read(tmp_path / "s.parquet", schema)
        assert "timestamp_ntz" in wrong["misfit"]
        assert null["misfit"] is None


def test_nanoseconds_are_cut_off_in_any_zone_and_at_any_time(tmp_path):
    # 2:30 twice on a clock in Berlin, the first nanosecond there is, and one before 1970
    nanos = [1_635_640_200 * 10**9, 1_635_643_800 * 10**9 + 999, -(2**63), -1]
    for zone in (None, "Europe/Berlin"):
        at = pa.array(nanos, pa.timestamp("ns", zone))
        pq.write_table(pa.table({"day": [date(2026, 1, 1)] * 4, "at": at}), tmp_path / "s.parquet")
        assert [row["at"] for row in read(tmp_path / "s.parquet", "at timestamp")] == [
            "2021-10-31T00:30:00Z",
            "2021-10-31T01:30:00Z",
            "1677-09-21T00:12:43.145224Z",
            "1969-12-31T23:59:59.999999Z",
        ]


def test_a_decimal_of_a_unit_keeps_all_digits(tmp_path):
    nanos = Decimal("1600000000123455999")
    table = pa.table({"day": [date(2026, 1, 1)], "at": pa.array([nanos])})
    pq.write_table(table, tmp_path / "s.parquet")
    (row,) = read(tmp_path / "s.parquet", "at timestamp in nanoseconds")
    assert row == {"day": "2026-01-01", "at": str(nanos), "misfit": None}
