"""Values of all types: as PostgreSQL sends them, and what it does not have as a valid text."""

import json

import psycopg
import pyarrow as pa
import pytest

from trilayer_server.encoding.answers import encoder

ALIKE = [
    "INTERVAL '400 days'",
    "INTERVAL '-400 days'",
    "INTERVAL '1 year 2 mons 40 days 03:00:00.000001'",
    "INTERVAL '-1 mons -40 days'",
    "INTERVAL '-1 mons 3 days'",
    "INTERVAL '1 mons -3 days'",
    "INTERVAL '-1 days 02:00:00'",
    "INTERVAL '-1 days -02:00:00'",
    "INTERVAL '-13 mons 1 days'",
    "INTERVAL '1000000 hours'",
    "INTERVAL '1 day -00:00:00.5'",
    "INTERVAL '0 days'",
    "ARRAY[INTERVAL '400 days', NULL]",
    "DATE '10000-01-01'",
    "DATE 'infinity'",
    "TIMESTAMP '12000-01-01 10:00:00.5'",
    "TIMESTAMP '-infinity'",
    "TIMESTAMPTZ '2026-01-01 10:00:00+02'",
    "ARRAY[DATE '10000-01-01', DATE 'infinity', NULL]",
    "TIME '24:00:00'",
    "TIME '10:00:00.120'",
    "ARRAY['a\"b', 'NULL', '', NULL, 'x\\y', 'a b', 'a,b', '{}']",
    "ARRAY[true, false, NULL]",
    "ARRAY[1.50::DECIMAL(6,2), -0.01::DECIMAL(6,2)]",
    "ARRAY['\\x4100'::BYTEA]",
    "'\\x00ff'::BYTEA",
    "ARRAY['nan'::FLOAT8, 'inf'::FLOAT8, 1e300, 1e-7, 0.1]",
    "1.1::FLOAT4",
    "1e15::FLOAT8",
    "-0.00001::FLOAT8",
    "12345678901234567890123456789.5::DECIMAL(38,1)",
    "0.0000::DECIMAL(10,4)",
    "10000.0001::DECIMAL(10,4)",
    "ARRAY[1, NULL, 3]",
    "'ä\t\"'::TEXT",
]  # fmt: skip


def sent(client, value, binary):
    cursor = client.cursor(binary=binary)
    cursor.execute(f"SELECT {value} AS x".encode())
    return cursor.pgresult.ftype(0), cursor.pgresult.get_value(0, 0)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_a_value_is_sent_as_postgresql_sends_it(client, postgresql, binary):
    with postgresql.client(options="-c TimeZone=UTC") as theirs:
        found = {
            value: (sent(client, value, binary), sent(theirs, value, binary)) for value in ALIKE
        }
    assert {value: both for value, both in found.items() if both[0] != both[1]} == {}


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
