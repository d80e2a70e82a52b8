"""Values and arrays that are NULL, beside a real PostgreSQL."""

import pytest

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


NULL_ARRAYS = [
    "1 = ANY($1::INTEGER[])",
    "1 <> ALL(CAST($1 AS INTEGER[]))",
    "1 > SOME((($1)::INTEGER[]))",
    "NOT 1 = ANY(/* $1 */ $1::INTEGER[])",
    "$1::INTEGER[] IS NULL OR 1 = ANY($1)",
    "coalesce(1 = ANY($1::INTEGER[]), true)",
    "(SELECT count(*) FROM (SELECT 1 AS n) AS t WHERE n = ANY($1::INTEGER[]))",
    "(SELECT count(*) FROM pg_class WHERE relname = ANY($1::VARCHAR[]) IS NULL) > 0",
    "'$1' = ANY($1::VARCHAR[])",
    "'x' = ANY($1)",
    "1 = ANY(ARRAY[$1::INTEGER, 1])",
    "1 = ANY(SELECT $1::INTEGER)",
]


def test_comparing_with_an_array_that_is_null_gives_what_it_gives_in_postgresql(client, postgresql):
    with postgresql.client() as theirs:
        for expression in NULL_ARRAYS:
            asked = f"SELECT {expression}".encode()
            both = [one.pgconn.exec_params(asked, [None]) for one in (client, theirs)]
            assert [one.error_message for one in both] == [b"", b""], expression
            assert both[0].get_value(0, 0) == both[1].get_value(0, 0), expression
