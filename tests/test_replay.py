"""Files as events: a file that was typed keeps its values, and what can't be sent is named with its place."""

import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.replay import read_events, send
from trilayer import Stream
from trilayer.errors import EnvironmentFault, UsageError
from trilayer.log import Log

ORDERS = Stream("orders", "shop string, n int, tags map<string,map<string,int>>, day date", event_time="day")


def events(path, stream=ORDERS):
    total, found = read_events(path, stream)
    placed = list(found)
    assert len(placed) == total
    decoded = [(place, json.loads(value)) for place, value in placed]
    assert {event.pop("day") for _, event in decoded} == {"2026-01-01"}
    return decoded


def test_text_in_quotes_is_no_null(tmp_path):
    path = tmp_path / "orders.csv"
    rows = ['"NA",1', "NA,2", '"",3', ",NA", '"NULL",NULL', "NULL,", '"a ""b""",7']
    path.write_text("\n".join(["day,shop,n", *(f"2026-01-01,{row}" for row in rows)]))
    assert [event for _, event in events(path)] == [
        {"shop": "NA", "n": 1}, {"n": 2}, {"shop": "", "n": 3}, {}, {"shop": "NULL"}, {}, {"shop": 'a "b"', "n": 7},
    ]  # fmt: skip


def test_all_may_be_in_quotes(tmp_path):
    path = tmp_path / "orders.csv"
    path.write_text('"day","shop","n"\n"2026-01-01","","1"\n"2026-01-01","a",""\n"2026-01-01","NA","NA"\n')
    assert [event for _, event in events(path)] == [{"shop": "", "n": 1}, {"shop": "a"}, {"shop": "NA"}]


def parquet(path, tags):
    type_ = pa.map_(pa.string(), pa.map_(pa.string(), pa.int32()))
    days = [date(2026, 1, 1)] * len(tags)
    pq.write_table(pa.table({"day": days, "shop": ["a"] * len(tags), "tags": pa.array(tags, type_)}), path)
    return path


def test_a_map_is_an_object(tmp_path):
    path = parquet(tmp_path / "orders.parquet", [[("x", [("y", 1)]), ("z", None)], [], None])
    assert events(path) == [
        ("row 1", {"shop": "a", "tags": {"x": {"y": 1}, "z": None}}),
        ("row 2", {"shop": "a", "tags": {}}),
        ("row 3", {"shop": "a"}),
    ]


def test_a_map_with_a_key_twice_is_refused_with_its_row(tmp_path):
    path = parquet(tmp_path / "orders.parquet", [[], [("x", None), ("x", None)]])
    with pytest.raises(UsageError, match="must have a key of a map once in a row; in one of the rows 1 to 2"):
        events(path)


def test_a_header_with_a_column_twice_is_refused(tmp_path):
    path = tmp_path / "orders.csv"
    path.write_text("day,shop,n,other,other,n\n2026-01-01,a,1,x,y,2\n")
    with pytest.raises(UsageError, match=r"it has day, shop, n, other, other, n: rename one of n$"):
        read_events(path, ORDERS)
    path.write_text("day,shop,n,other,other\n2026-01-01,a,1,x,y\n")
    assert events(path) == [("row 1", {"shop": "a", "n": 1})]


@pytest.mark.kafka
@pytest.mark.slow
def test_an_event_too_large_to_be_sent_is_named_with_its_line(tmp_path, broker, new_topic):
    stream = Stream("orders", "shop string, at timestamp", event_time="at", topic=new_topic())
    path = tmp_path / "orders.jsonl"
    path.write_text('{"shop": "a"}\n\n{"shop": "b"}\n{"shop": "%s"}\n{"shop": "d"}\n' % ("c" * (1 << 20)))
    total, found = read_events(path, stream)
    with Log(broker.bootstrap) as log:
        topic = log.ensure(stream)
        with pytest.raises(
            EnvironmentFault,
            match=r"line 4 can't be sent: .*MessageSizeTooLarge.*; 2 were sent.*--skip 13 goes on after it",
        ):
            send(found, stream, broker.bootstrap, 0, total, skipped=10)
        assert sum(log.end(topic).values()) == 2
