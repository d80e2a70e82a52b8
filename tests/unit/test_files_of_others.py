"""Files of other programs arrive as declared: every type in every format; others are named."""

import base64
import json
import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.files_of_others import WRITERS, stream_of, wrong_cells
from tests.support.time_forms import PER_SECOND
from trilayer import Stream
from trilayer.operations.files.reading import read_events
from trilayer_core.errors import UsageError


@pytest.mark.parametrize("writer", WRITERS)
def test_every_type_is_read_back(writer, tmp_path):
    ending, write, types = WRITERS[writer]
    path = tmp_path / f"all.{ending}"
    write(path, types)
    events = list(read_events(path, stream_of(types)))
    assert not [event for event in events if event.fault]
    assert not wrong_cells([event.value for event in events], types)


def read(path, schema, **options):
    """The events of a file, decoded."""
    events = list(
        read_events(path, Stream("s", f"{schema}, day date", event_time="day"), **options)
    )
    assert not [event.fault for event in events if event.fault]
    return [json.loads(event.value) for event in events]


def test_bytes_for_text_that_are_no_text_are_named(tmp_path):
    table = pa.table({"a": [b"FR", b"\xff"], "day": [date(2026, 1, 1)] * 2})
    pq.write_table(table, tmp_path / "s.parquet")
    stream = Stream("s", "a string, day date", event_time="day")
    first, second = read_events(tmp_path / "s.parquet", stream)
    assert b'"FR"' in first.value
    assert b'"\xff"' in second.value


def test_hives_null_is_null_and_in_quotes_text(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text('day,a,n\n2026-01-01,\\N,\\N\n2026-01-01,"\\N",1\n')
    first, second = read(path, "a string, n int")
    assert ("a" in first, "n" in first, second["a"]) == (False, False, "\\N")


@pytest.mark.parametrize("between", [",", ";", "\t", "|"])
def test_an_empty_cell_beside_one_in_quotes_is_null(between, tmp_path):
    rows = ["day,b,c,n,a", '2026-01-01,,,7,"x"', '2026-01-01,"", ,7,""', '2026-01-01,\\N,"",,"\\N"']
    (tmp_path / "s.csv").write_text("\n".join(rows).replace(",", between) + "\n")
    found = read(tmp_path / "s.csv", "b string, c string, n int, a string")
    values = [[row.get(name) for name in "bcna"] for row in found]
    assert values == [[None, None, 7, "x"], ["", " ", 7, ""], [None, "", None, "\\N"]]


def test_a_quote_may_be_escaped_as_spark_does(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text('day,a,n\n2026-01-01,"a \\"b\\", c",1\n2026-01-01,"C:\\d \\"x\\"\\\\",2\n')
    assert [row["a"] for row in read(path, "a string, n int")] == ['a "b", c', 'C:\\d "x"\\']


TEXTS = [
    "a\\b",
    "a\\b,c",
    "C:\\d\\",
    "C:\\d\\,",
    'say "hi"',
    'C:\\n "x"',
    '"',
    "\\",
    '\\"',
    "a\nb \\",
    "NA",
]


def written(texts, escape, quote_all):
    """A CSV file as Spark writes it with this escape, or after RFC 4180."""

    def cell(text):
        if not quote_all and not set(text) & set(',"\n'):
            return text
        return (
            '"' + re.sub(r'["\\]' if escape == "\\" else '"', lambda m: escape + m[0], text) + '"'
        )

    return "day,a,b\n" + "".join(f"2026-01-01,{cell(t)},{cell('z')}\n" for t in texts)


@pytest.mark.parametrize("quote_all", [False, True])
@pytest.mark.parametrize("escape", ['"', "\\"])
def test_a_csv_file_has_one_escape(escape, quote_all, tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(written(TEXTS, escape, quote_all), newline="")
    for stated in (None, escape):
        assert [row["a"] for row in read(path, "a string, b string", escape=stated)] == TEXTS
    for text in TEXTS:
        path.write_text(written([text], escape, quote_all), newline="")
        (row,) = read(path, "a string, b string", escape=escape)
        assert row["a"] == text


@pytest.mark.parametrize("text", TEXTS)
def test_one_record_is_read_as_it_was_written_or_is_an_error(text, tmp_path):
    path = tmp_path / "s.csv"
    for escape, quote_all in product(['"', "\\"], [False, True]):
        path.write_text(written([text], escape, quote_all), newline="")
        with suppress(UsageError):
            (row,) = read(path, "a string, b string")
            assert row["a"] == text


@pytest.mark.parametrize("rows", [r'"a\\b,c",y', '"x\\"",y,z\n2026-01-02,u,",v",w'])
def test_a_csv_file_with_two_readings_is_an_error(rows, tmp_path):
    path = tmp_path / "s.csv"
    header = "day,a,b,c" if "z" in rows else "day,a,b"
    path.write_text(f"{header}\n2026-01-01,{rows}\n")
    with pytest.raises(UsageError, match=r"""got line 2.*--escape '"' if.*--escape '\\' if"""):
        read(path, "a string, b string, c string")
    assert read(path, "a string, b string, c string", escape='"')
    with pytest.raises(UsageError, match="escape must be"):
        read(path, "a string", escape="'")


@pytest.mark.parametrize("header", ["a", "A"])
def test_a_column_has_one_field(header, tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(f"day,{header}\n2026-01-01,v\n")
    (row,) = read(path, "a string from 'x.y', b string from 'a'")
    assert row == {"day": "2026-01-01", "a": "v"}


@pytest.mark.parametrize(
    ("type_", "key", "text"),
    [
        (pa.float64(), 1.0, "1.0"),
        (pa.bool_(), True, "true"),
        (pa.int32(), 1, "1"),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (pa.date32(), date(2026, 1, 1), "2026-01-01"),
        (pa.decimal128(5, 2), Decimal("1.50"), "1.50"),
        (pa.string(), 'a"', 'a"'),
        (pa.binary(), b"a", "a"),
    ],
)
def test_the_key_of_a_map_is_the_same_text_whatever_the_other_rows_are(type_, key, text, tmp_path):
    for odd in (1, 2**53 + 1):  # the second does not fit a double
        maps = pa.array([[(key, 1)], [(key, odd)]], pa.map_(type_, pa.int64()))
        pq.write_table(pa.table({"day": [date(2026, 1, 1)] * 2, "m": maps}), tmp_path / "s.parquet")
        rows = read(tmp_path / "s.parquet", "m map<string,double>")
        assert [row["m"] for row in rows] == [{text: 1}, {text: odd}]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_calendar_date_without_separators_is_no_number_of_seconds(ending, tmp_path):
    dates = ["2026", "202603", "20260301", "202603011200", "20260301120000"]
    seconds = ["0", "1234", "20269999", "2026030112", "1600000000", "1600000000.5", "-20260301"]
    path = tmp_path / f"s.{ending}"
    if ending == "csv":
        path.write_text("day,at\n" + "".join(f"2026-01-01,{a}\n" for a in dates + seconds))
    else:
        days = [date(2026, 1, 1)] * len(dates + seconds)
        pq.write_table(pa.table({"day": days, "at": dates + seconds}), path)
    rows = read(path, "at timestamp")
    assert [row["at"] for row in rows] == [*dates, *(float(a) for a in seconds)]


def test_doubles_for_text_are_text_also_if_they_are_no_number(tmp_path):
    doubles = pa.array([math.nan, math.inf, -math.inf, 1.5, None])
    pq.write_table(pa.table({"day": [date(2026, 1, 1)] * 5, "a": doubles}), tmp_path / "s.parquet")
    rows = read(tmp_path / "s.parquet", "a string")
    assert [row.get("a") for row in rows] == ["NaN", "Infinity", "-Infinity", 1.5, None]


@pytest.mark.parametrize("nested", [False, True])
def test_bytes_of_a_fixed_length_are_no_text_but_a_uuid_is(nested, tmp_path):
    value = b"FR" * 8
    for type_ in (pa.binary(16), pa.uuid()):
        one = pa.array([value], pa.binary(16))
        one = one if type_ == pa.binary(16) else pa.ExtensionArray.from_storage(type_, one)
        column = pa.ListArray.from_arrays([0, 1], one) if nested else one
        table = pa.table({"day": [date(2026, 1, 1)], "a": column})
        pq.write_table(table, tmp_path / "s.parquet")
        schema = "a array<string>" if nested else "a string"
        if type_ == pa.binary(16):
            with pytest.raises(UsageError, match=r"column a; got .*fixed_size_binary.* `binary`"):
                read(tmp_path / "s.parquet", schema)
            (row,) = read(tmp_path / "s.parquet", schema.replace("string", "binary"))
            assert base64.b64encode(value).decode() in row["a"]
        else:
            (row,) = read(tmp_path / "s.parquet", schema)
            assert "46524652-4652-4652-4652-465246524652" in row["a"]


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
    assert row == {"country": "NA", "day": "2026-01-01"}


def test_names_in_another_case_are_taken_once(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("DAY,VendorId,vendor\n2026-01-01,6,x\n")
    (row,) = read(path, "id int from 'VendorID', vendor string")
    assert row == {"day": "2026-01-01", "VendorID": 6, "vendor": "x"}


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
    if ending in ("csv", "jsonl"):
        assert float(rows[1]["at"]) == number + 0.5
        assert rows[2]["at"] == "x"


def test_seconds_with_a_fraction_are_seconds_in_a_csv_too(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(
        "day,at\n2026-01-01,1600000000.123456\n2026-01-01,1.6e9\n2026-01-01,2021-03-01T10:00Z\n"
    )
    times = [row["at"] for row in read(path, "at timestamp")]
    assert times == [1600000000.123456, 1.6e9, "2021-03-01T10:00Z"]


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
    assert null == {"day": "2026-01-01"}
    for schema in ("at timestamp_ntz", "inside array<struct<at:timestamp_ntz>>"):
        instant, _ = read(tmp_path / "s.parquet", schema)  # the parser rejects the zone
        assert re.search(r"T\d\d:00:00(Z|[+]09:00)", str(instant))


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
    assert row == {"day": "2026-01-01", "at": str(nanos)}
