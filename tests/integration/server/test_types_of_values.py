"""Values of types that PostgreSQL does not have are sent as a text that clients read."""

import json

import psycopg
import pyarrow as pa
import pytest

from trilayer_server.encoding.answers import encoder


def sent(client, value, binary):
    cursor = client.cursor(binary=binary)
    cursor.execute(f"SELECT {value} AS x".encode())
    return cursor.pgresult.ftype(0), cursor.pgresult.get_value(0, 0)


OWN = [
    ("340282366920938463463374607431768211455::UHUGEINT",
     "340282366920938463463374607431768211455"),
    ("-170141183460469231731687303715884105727::HUGEINT",
     "-170141183460469231731687303715884105727"),
    ("'10101'::BIT", "10101"),
    ("123456789012345678901234567890123456789012345678901234567890::BIGNUM",
     "123456789012345678901234567890123456789012345678901234567890"),
    ("'10:00:00.5-11:30'::TIMETZ", "10:00:00.5-11:30"),
    ("['101'::BIT, NULL]", "{101,NULL}"),
    ("[7::UHUGEINT]", "{7}"),
    ("{'n': 7::UHUGEINT, 'b': ['1'::BIT]}", '{"n": "7", "b": ["1"]}'),
    ("MAP {'n': 7::BIGNUM}", '[["n", "7"]]'),
    ("['1'::BIT]::BIT[1]", "{1}"),
    ("{'on': DATE '10000-01-01'}", '{"on": "10000-01-01"}'),
    ("{'at': [TIMESTAMP 'infinity']}", '{"at": ["infinity"]}'),
    ("[[DATE '10000-01-01'], NULL]", '[["10000-01-01"], null]'),
    ("MAP {'on': DATE '0044-03-15 (BC)'}", '[["on", "0044-03-15 BC"]]'),
    ("{'i': INTERVAL '14 months 40 days'}", '{"i": "1 year 2 mons 40 days"}'),
    ("[union_value(a := 1)]", "[1]"),
    ("['a'::ENUM ('a', 'b')]", "{a}"),
    ("['c0ffee00-0000-0000-0000-000000000000'::UUID]", "{c0ffee00-0000-0000-0000-000000000000}"),
    ("[{'a': NULL}, NULL]", '[{"a": null}, null]'),
    ("'10:00:00.123456789'::TIME_NS", "10:00:00.123456"),
]  # fmt: skip


def test_a_value_that_postgresql_lacks_is_text(client):
    assert {value: sent(client, value, False)[1].decode() for value, _ in OWN} == dict(OWN)
    for value, _ in OWN:
        with client.cursor(binary=True) as cursor:
            cursor.execute(f"SELECT {value} AS x".encode())  # a client can read it
            assert cursor.fetchone() != (None,)


def test_two_columns_of_a_name_stay_two(client):
    assert client.execute("SELECT '1'::BIT AS a, 2 AS a, '3' AS a").fetchall() == [("1", 2, "3")]
    assert client.execute(
        "SELECT range::UHUGEINT AS n FROM range(3) ORDER BY range DESC"
    ).fetchall() == [("2",), ("1",), ("0",)]


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (pa.array([[3_000_000], None], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
         [["10183-09-21"], None]),
        (pa.array([(1, 2, 3_000_000_000)], pa.month_day_nano_interval()),
         ["1 mon 2 days 00:00:03"]),
        (pa.array([[(1, 2, 0)]], pa.list_(pa.month_day_nano_interval())), [["1 mon 2 days"]]),
    ],
)  # fmt: skip
def test_json_has_text_for_what_it_lacks(array, found):
    batch = pa.record_batch({"x": array})
    made = encoder("json", batch.schema)
    text = made.begin() + made.batch(batch) + made.end()
    assert json.loads(text) == [[value] for value in found]


def test_psycopg_reads_an_interval(client):
    with psycopg.ClientCursor(client) as cursor:
        cursor.execute("SELECT INTERVAL '-1 days 02:00:00'")
        assert str(cursor.fetchone()[0]) == "-1 day, 2:00:00"
