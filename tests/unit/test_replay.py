"""Files as events: a file that was typed keeps its values, what does not fit is sent as it is, and
what can't be sent is named.
"""

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trilayer import Stream
from trilayer.operations.files.reading import read_events
from trilayer.operations.files.text import as_bytes
from trilayer_core.errors import UsageError

ORDERS = Stream(
    "orders", "shop string, n int, tags map<string,map<string,int>>, day date", event_time="day"
)
RIDES = Stream(
    "rides",
    "vendor int not null from 'VendorID', zone string from 'PU zone', fare decimal(6,2), at"
    " timestamp from 'meta.at'",
    event_time="at",
)


def fitting(path, stream=ORDERS, **options):
    """Places and values of events that are all rows and all of one day."""
    found = list(read_events(path, stream, **options))
    assert [event.fault for event in found] == [None] * len(found)
    decoded = [(event.place, json.loads(event.value)) for event in found]
    assert {event.pop("day") for _, event in decoded} == {"2026-01-01"}
    return decoded


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_text_in_quotes_is_no_null(tmp_path):
    rows = [
        '"NA",1',
        "NA,2",
        '"",3',
        ",NA",
        '"NULL",NULL',
        "NULL,",
        '"a ""b""",7',
        '"a, b",8',
        "é,9",
    ]
    path = write(tmp_path / "orders.csv", "day,shop,n", *(f"2026-01-01,{row}" for row in rows))
    assert [event for _, event in fitting(path)] == [
        {"shop": "NA", "n": 1},
        {"shop": "NA", "n": 2},
        {"shop": "", "n": 3},
        {},
        {"shop": "NULL"},
        {"shop": "NULL"},
        {"shop": 'a "b"', "n": 7},
        {"shop": "a, b", "n": 8},
        {"shop": "é", "n": 9},
    ]


def test_all_may_be_in_quotes(tmp_path):
    rows = ['"2026-01-01","","1"', '"2026-01-01","a",""', '"2026-01-01","NA","NA"']
    path = write(tmp_path / "orders.csv", '"day","shop","n"', *rows)
    assert [event for _, event in fitting(path)] == [
        {"shop": "", "n": 1},
        {"shop": "a"},
        {"shop": "NA"},
    ]


ODD = [
    ("2026-01-01,a,two", None, '{"shop": "a", "n": "two", "day": "2026-01-01"}'),
    ("2026-01-01,a,2.5", None, '{"shop": "a", "n": "2.5", "day": "2026-01-01"}'),
    ("2026-01-01,a,9999999999", None, '{"shop": "a", "n": 9999999999, "day": "2026-01-01"}'),
    ("01/02/2026,a,1", None, '{"shop": "a", "n": 1, "day": "01/02/2026"}'),
    (",a,1", None, '{"shop": "a", "n": 1}'),
    ("2026-01-01,a", "2 cells, where the header has 3", "2026-01-01,a"),
    ("2026-01-01,a,1,more", "4 cells, where the header has 3", "2026-01-01,a,1,more"),
    ('2026-01-01,"a"b,1', "quotes that do not end", '2026-01-01,"a"b,1'),
    ('2026-01-01,"a,1', "quotes that do not end", '2026-01-01,"a,1'),
    ('"2026-01-01","a, b"', "2 cells, where the header has 3", '"2026-01-01","a, b"'),
    ("2026-01-01,\udcff,1", None, b'{"shop": "\xff", "n": 1, "day": "2026-01-01"}'),
    ("2026-01-01,\udcff", "2 cells, where the header has 3", b"2026-01-01,\xff"),
]


@pytest.mark.parametrize(("row", "fault", "value"), ODD)
def test_an_odd_row_is_sent_as_it_is_and_those_around_it_too(row, fault, value, tmp_path):
    path = tmp_path / "orders.csv"
    path.write_bytes(as_bytes(f"day,shop,n\r\n2026-01-01,x,1\r\n{row}\r\n2026-01-01,y,2\r\n"))
    before, odd, after = read_events(path, ORDERS)
    assert [before.fault, odd.fault, after.fault] == [None, fault, None]
    assert [before.place, odd.place, after.place] == ["line 2", "line 3", "line 4"]
    assert odd.value == (value if isinstance(value, bytes) else value.encode())


def test_a_row_of_many_lines_counts_them(tmp_path):
    path = write(
        tmp_path / "orders.csv",
        "day,shop,n",
        '2026-01-01,"a',
        "",
        'b",1',
        "",
        "2026-01-01,c,2,,",
        ",,",
        "2026-01-01,d,3",
    )
    assert fitting(path) == [
        ("line 2", {"shop": "a\n\nb", "n": 1}),
        ("line 6", {"shop": "c", "n": 2}),
        ("line 8", {"shop": "d", "n": 3}),
    ]


def test_a_quote_that_does_not_end_takes_no_more_than_an_event_may_have(tmp_path):
    stream = Stream("orders", "shop string, day date", event_time="day", max_event_bytes=200_000)
    rows = [f"2026-01-01,x{n}" for n in range(30_000)]
    path = write(tmp_path / "orders.csv", "day,shop", '2026-01-01,"x', *rows, '2026-01-01,"y"')
    events = list(read_events(path, stream))
    assert [event.fault for event in events] == ["quotes that do not end", *[None] * 30_001]
    assert [event.place for event in (events[0], events[1], events[-1])] == [
        "line 2",
        "line 3",
        "line 30003",
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_told_by_the_header(delimiter, tmp_path):
    lines = [
        delimiter.join(cells)
        for cells in (["day", '"a, b; c"', "shop", "n"], ["2026-01-01", "x", "a", "1"])
    ]
    assert fitting(write(tmp_path / "orders.csv", *lines)) == [("line 2", {"shop": "a", "n": 1})]


def test_a_delimiter_an_encoding_and_columns_may_be_given(tmp_path):
    path = tmp_path / "orders.txt"
    path.write_bytes("2026-01-01#Käse#1\n".encode("latin-1"))
    options = {"delimiter": "#", "encoding": "latin-1", "columns": ["day", "shop", "n"]}
    assert fitting(path, **options) == [("line 1", {"shop": "Käse", "n": 1})]
    with pytest.raises(UsageError, match=r"encoding must be one that Python knows.*got 'latin-99'"):
        read_events(path, ORDERS, encoding="latin-99")


def test_a_delimiter_is_one_character(tmp_path):
    path = write(tmp_path / "orders.csv", '"day"\tshop\tn', "2026-01-01\ta\t1")
    assert (
        fitting(path, delimiter="\t")
        == fitting(path, delimiter=r"\t")
        == [("line 2", {"shop": "a", "n": 1})]
    )
    for wrong in ("ab", '"'):
        with pytest.raises(UsageError, match=f"delimiter must be one character, .*; got '{wrong}'"):
            read_events(path, ORDERS, delimiter=wrong)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_marks_of_an_encoding_are_no_text(encoding, tmp_path):
    path = tmp_path / "orders.csv"
    path.write_bytes("day,shop,n\n2026-01-01,é,1\n".encode(encoding))
    assert fitting(path) == [("line 2", {"shop": "é", "n": 1})]
    path = tmp_path / "orders.jsonl"
    path.write_bytes('\n{"day": "2026-01-01", "shop": "é"}\n'.encode(encoding))
    assert fitting(path) == [("line 2", {"shop": "é"})]


def test_text_may_be_compressed(tmp_path):
    for name, text in {
        "o.csv.gz": "day,shop\n2026-01-01,a\n",
        "o.jsonl.gz": '{"day": "2026-01-01", "shop": "a"}\n',
    }.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        assert [event for _, event in fitting(tmp_path / name)] == [{"shop": "a"}]
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(b"day,shop\n" + b"2026-01-01,a\n" * 9)[:-9])
    with pytest.raises(
        UsageError, match=r"cut.csv.gz must be readable to its end; after line \d+ it is not: "
    ):
        list(read_events(cut, ORDERS))


def test_times_without_a_zone_are_utc_and_cells_are_typed(tmp_path):
    stream = Stream(
        "all",
        "at timestamp, d double, b boolean, s struct<a:int>, l array<string>, m decimal(20,10), x"
        " binary",
        event_time="at",
    )
    path = write(
        tmp_path / "all.csv",
        "at,d,b,s,l,m,x",
        '2025-01-01T10:00:00,1e3,TRUE,"{""a"": 1}","[""x""]",12.3400000000,hi',
        '1767225600,nan,0,{},[], 1 ,""',
    )
    first, second = read_events(path, stream)
    assert first.value == (
        b'{"at": "2025-01-01T10:00:00", "d": 1000.0, "b": true, "s": {"a": 1}, "l": ["x"],'
        b' "m": "12.3400000000", "x": "aGk="}'
    )
    assert second.value == (
        b'{"at": 1767225600, "d": NaN, "b": false, "s": {}, "l": [], "m": "1", "x": ""}'
    )


def test_columns_are_found_by_the_names_of_their_fields(tmp_path):
    path = write(
        tmp_path / "rides.csv",
        "VendorID, PU zone,fare,meta.at,surchrage",
        "6,Soho,1.5,2026-01-01 10:00:00,1",
    )
    found = read_events(path, RIDES)
    (event,) = found
    assert json.loads(event.value) == {
        "VendorID": 6, "PU zone": "Soho", "fare": "1.5", "meta": {"at": "2026-01-01 10:00:00"},
    }  # fmt: skip
    assert found.left_out == "left out, since the schema has no such column: surchrage"
    stream = Stream("s", "surcharge double, at timestamp", event_time="at")
    path = write(tmp_path / "s.csv", "at,surchrage", "2026-01-01,1")
    assert read_events(path, stream).left_out.endswith(": surchrage; did you mean 'surcharge'?")


def test_a_required_column_that_is_missing_is_named(tmp_path):
    path = write(tmp_path / "rides.csv", "Vendor_ID,fare", "6,1.5")
    with pytest.raises(
        UsageError,
        match=(
            r"must have the column VendorID of .*; it has Vendor_ID, fare; did you mean"
            r" 'Vendor_ID'\?.*`vendor int from 'COLUMN'`"
        ),
    ):
        read_events(path, RIDES)


def test_what_is_no_file_of_events_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"FILE must end in .csv, .*; got 'orders.xlsx'"):
        read_events(write(tmp_path / "orders.xlsx", "PK"), ORDERS)
    with pytest.raises(
        UsageError,
        match="must begin with a header, or --columns must name its columns; got an empty line",
    ):
        read_events(write(tmp_path / "orders.csv", ""), ORDERS)
    with pytest.raises(UsageError, match=r"orders.parquet must be a Parquet file; "):
        read_events(write(tmp_path / "orders.parquet", "PK"), ORDERS)


def test_a_header_with_a_column_twice_is_refused(tmp_path):
    path = write(tmp_path / "orders.csv", "day,shop,n,other,other,n", "2026-01-01,a,1,x,y,2")
    with pytest.raises(UsageError, match=r"it has day, shop, n, other, other, n: rename one of n$"):
        read_events(path, ORDERS)
    path = write(tmp_path / "orders.csv", "day,shop,n,other,other", "2026-01-01,a,1,x,y")
    assert fitting(path) == [("line 2", {"shop": "a", "n": 1})]


def test_an_array_of_objects_is_events_as_they_are_written(tmp_path):
    path = tmp_path / "orders.json"
    path.write_text('\n[ {"day": "2026-01-01", "n": 1e0} ,\n {"day":"2026-01-01"}\n]\n')
    events = list(read_events(path, ORDERS))
    assert [event.value for event in events] == [
        b'{"day": "2026-01-01", "n": 1e0}',
        b'{"day":"2026-01-01"}',
    ]
    assert [event.place for event in events] == ["item 1", "item 2"]


def test_lines_of_json_are_sent_as_they_are(tmp_path):
    path = tmp_path / "orders.jsonl"
    good = '{"day":  "2026-01-01", "shop": "a\u2028b"}'.encode()
    path.write_bytes(good + b"\r\n\r\nnonsense\n\xff\n" + good)
    events = list(read_events(path, ORDERS))
    assert [(event.place, event.value) for event in events] == [
        ("line 1", good), ("line 3", b"nonsense"), ("line 4", b"\xff"), ("line 5", good),
    ]  # fmt: skip


def parquet(path, tags):
    type_ = pa.map_(pa.string(), pa.map_(pa.string(), pa.int32()))
    days = [date(2026, 1, 1)] * len(tags)
    pq.write_table(
        pa.table({"day": days, "shop": ["a"] * len(tags), "tags": pa.array(tags, type_)}), path
    )
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[{"n": 1}]\n[{"n": 2}]', r"followed by '\[\{"),
        ('[{"n": 1}] and more', "followed by 'and more'"),
        ('[{"n": 1}, {"n": 2}', "comes its end"),
        ('[{"n": 1},', "with an error"),
        ('[{"n": 1} {"n": 2}]', "comes '{"),
        ('[{"n": 1},, {"n": 2}]', "with an error"),
    ],
)
def test_an_array_that_is_not_whole_is_an_error_once_it_comes_to_it(text, says, tmp_path):
    path = tmp_path / "orders.json"
    path.write_text(text)
    events = iter(read_events(path, ORDERS))
    assert json.loads(next(events).value) == {"n": 1}
    with pytest.raises(UsageError, match=f"must be JSON Lines, or one JSON array; got .*{says}"):
        list(events)


def test_an_empty_array_has_no_events(tmp_path):
    path = tmp_path / "orders.json"
    path.write_text(" [ ]\n")
    assert list(read_events(path, ORDERS)) == []


def test_half_of_a_pair_of_surrogates_is_sent_as_an_escape(tmp_path):
    stream = Stream("s", "at date, tags array<string>, n int", event_time="at")
    rows = write(tmp_path / "s.csv", "at,tags", '2026-01-01,"[""\\ud800""]"')
    (event,) = read_events(rows, stream)
    assert event.value == b'{"at": "2026-01-01", "tags": ["\\ud800"]}'


@pytest.mark.parametrize("encoding", [None, "utf-8", "UTF-8", "utf8", "U8", "utf-8-sig"])
def test_utf_8_is_utf_8_however_it_is_spelled(encoding, tmp_path):
    path = tmp_path / "orders.csv"
    path.write_bytes(b"\xef\xbb\xbfday,shop\n2026-01-01,\xff\n")
    (event,) = read_events(path, ORDERS, encoding=encoding)
    assert event.value == b'{"shop": "\xff", "day": "2026-01-01"}'


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_a_file_that_is_not_compressed_as_its_name_says_is_refused(ending, tmp_path):
    path = write(tmp_path / f"orders.csv{ending}", "day,shop", "2026-01-01,a")
    with pytest.raises(UsageError, match="must be readable to its end; after line 0 it is not"):
        list(read_events(path, ORDERS))


def test_a_row_without_values_is_a_row_and_an_empty_line_is_none(tmp_path):
    path = write(tmp_path / "orders.csv", "day,shop,n", "NA,,NULL", "", ",,", "  ", "NA,,1")
    events = list(read_events(path, ORDERS))
    assert [(event.place, event.value) for event in events] == [
        ("line 2", b"{}"),
        ("line 6", b'{"n": 1}'),
    ]


def test_a_number_in_parquet_is_a_number_of_seconds_and_nothing_else(tmp_path):
    stream = Stream(
        "s", "at timestamp, n bigint, flag boolean, day date, price decimal(9,2)", event_time="at"
    )
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    table = pa.table(
        {
            "at": pa.array([1767225600, None], pa.int64()),
            "n": pa.array([moment, moment]),
            "flag": pa.array([1, 5], pa.int64()),
            "day": pa.array([20260101, 20260101], pa.int32()),
            "price": pa.array([1.005, 2.675], pa.float64()),
        }
    )
    pq.write_table(table, tmp_path / "s.parquet")
    first, second = (json.loads(e.value) for e in read_events(tmp_path / "s.parquet", stream))
    assert first["at"] == 1767225600
    assert first["n"] == "2026-01-01T00:00:00Z"
    assert (first["flag"], second["flag"]) == (True, 5)
    assert first["day"] == 20260101
    assert (first["price"], second["price"]) == ("1.005", "2.675")


def test_a_time_that_python_can_not_hold_refuses_no_file(tmp_path):
    stream = Stream("s", "id int, at timestamp, day date", event_time="at")
    far = pa.array([253402300800000000, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    days = pa.array([2932897, 0], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"id": [1, 2], "at": far, "day": days}), tmp_path / "s.parquet")
    first, second = read_events(tmp_path / "s.parquet", stream)
    assert "10000" in first.value.decode()
    assert b"1970-01-01" in second.value


def test_a_map_is_an_object(tmp_path):
    path = parquet(tmp_path / "orders.parquet", [[("x", [("y", 1)]), ("z", None)], [], None])
    assert fitting(path) == [
        ("row 1", {"shop": "a", "tags": {"x": {"y": 1}, "z": None}}),
        ("row 2", {"shop": "a", "tags": {}}),
        ("row 3", {"shop": "a"}),
    ]


def test_a_map_with_a_key_twice_is_refused_with_its_row(tmp_path):
    path = parquet(tmp_path / "orders.parquet", [[], [("x", None), ("x", None)]])
    with pytest.raises(
        UsageError, match="must have a key of a map once in a row; in one of the rows 1 to 2"
    ):
        list(read_events(path, ORDERS))


def test_parquet_is_taken_as_people_have_it(tmp_path):
    """Integers as pandas keeps them beside NULL, text for numbers, times of nanoseconds, and fields
    of structs.
    """
    table = pa.table(
        {
            "VendorID": [6.0, float("nan"), 7.5],
            "PU zone": ["Soho", None, "x"],
            "fare": pa.array([Decimal("1.50"), Decimal("99999.99"), None], pa.decimal128(10, 2)),
            "meta": pa.array(
                [{"at": datetime(2026, 1, 1, tzinfo=UTC)}] * 3,
                pa.struct([("at", pa.timestamp("us"))]),
            ),
        }
    )
    pq.write_table(table, tmp_path / "rides.parquet")
    events = list(read_events(tmp_path / "rides.parquet", RIDES))
    assert events[0].value == (
        b'{"VendorID": 6, "PU zone": "Soho", "fare": "1.50",'
        b' "meta": {"at": "2026-01-01T00:00:00Z"}}'
    )
    assert b'"fare": "99999.99"' in events[1].value
    assert b'"VendorID": 7.5' in events[2].value
    times = pa.array([1767225600000000001], pa.timestamp("ns", "Europe/Berlin"))
    pq.write_table(pa.table({"VendorID": ["6"], "meta.at": times}), tmp_path / "rides.parquet")
    (event,) = read_events(tmp_path / "rides.parquet", RIDES)
    assert json.loads(event.value) == {"VendorID": 6, "meta": {"at": "2026-01-01T00:00:00Z"}}


def test_a_parquet_file_with_a_damaged_page_says_after_which_row(tmp_path):
    path = tmp_path / "s.parquet"
    table = pa.table({"id": list(range(20_000)), "at": [date(2026, 1, 1)] * 20_000})
    pq.write_table(table, path, row_group_size=10_000, compression="snappy", use_dictionary=False)
    damaged = bytearray(path.read_bytes())
    place = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    damaged[place + 60 : place + 400] = b"\xff" * 340
    path.write_bytes(damaged)
    events = read_events(path, Stream("s", "id int, at date", event_time="at"))
    with pytest.raises(UsageError, match=r"after row 10,000 it is not: "):
        list(events)


def test_what_a_column_is_taken_from_is_not_left_out(tmp_path):
    table = pa.table({"client": [{"geo": {"country": "fr"}, "id": 1}], "at": [date(2026, 1, 1)]})
    pq.write_table(table, tmp_path / "s.parquet")
    stream = Stream("s", "country string from 'client.geo.country', at date", event_time="at")
    assert read_events(tmp_path / "s.parquet", stream).left_out.endswith("column: client.id")
