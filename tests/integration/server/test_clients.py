"""What a client of PostgreSQL sees: values in both formats, parameters, portals, transactions,
errors and cancelling.
"""

import math
import socket
import threading
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import psycopg
import pytest
from psycopg import errors

VALUES = {
    "true": True,
    "CAST(-5 AS TINYINT)": -5,
    "CAST(32767 AS SMALLINT)": 32767,
    "CAST(-2147483648 AS INTEGER)": -2147483648,
    "9223372036854775807": 9223372036854775807,
    "CAST(18446744073709551615 AS UBIGINT)": Decimal(18446744073709551615),
    "CAST(0.1 AS DOUBLE)": 0.1,
    "CAST(1e-7 AS DOUBLE)": 1e-7,
    "CAST(123456789012 AS DOUBLE)": 123456789012.0,
    "CAST(1e300 AS DOUBLE)": 1e300,
    "CAST('inf' AS DOUBLE)": math.inf,
    "CAST('-inf' AS DOUBLE)": -math.inf,
    "CAST(0.5 AS FLOAT)": 0.5,
    "CAST(0 AS DECIMAL(10,2))": Decimal("0.00"),
    "CAST(-12345678.90 AS DECIMAL(12,2))": Decimal("-12345678.90"),
    "CAST(0.00012 AS DECIMAL(12,5))": Decimal("0.00012"),
    "CAST(10000 AS DECIMAL(38,0))": Decimal(10000),
    "'naïve ''text'''": "naïve 'text'",
    "''": "",
    "'\\x00ff'::BLOB": b"\x00ff",
    "DATE '0001-01-01'": date(1, 1, 1),
    "DATE '9999-12-31'": date(9999, 12, 31),
    "TIMESTAMP '1969-12-31 23:59:59.5'": datetime.fromisoformat("1969-12-31T23:59:59.5"),
    "TIMESTAMPTZ '2026-11-25 01:02:03.000004+00'": datetime(2026, 11, 25, 1, 2, 3, 4, UTC),
    "TIME '23:59:59.000001'": time(23, 59, 59, 1),
    "INTERVAL 3 DAY + INTERVAL 4 HOUR": timedelta(days=3, hours=4),
    "[1, NULL, 3]": [1, None, 3],
    "['a,b', 'NULL', '', '\"q\"\\', NULL]": ["a,b", "NULL", "", '"q"\\', None],
    "CAST([] AS INTEGER[])": [],
    "{'a': 1, 'b': ['x']}": {"a": 1, "b": ["x"]},
    "{'a': CAST('nan' AS DOUBLE), 'b': 1.5}": {"a": "nan", "b": "1.5"},
    "CAST(NULL AS INTEGER)": None,
    "CAST(NULL AS DECIMAL(10,2))": None,
    "CAST(NULL AS DOUBLE)": None,
    "CAST(NULL AS TIMESTAMPTZ)": None,
    "CAST(NULL AS VARCHAR[])": None,
    "'b'::ENUM('a', 'b')": "b",
}


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_a_value_is_read_as_what_it_is(client, binary):
    wrong = {}
    for sql, value in VALUES.items():
        (found,) = client.cursor(binary=binary).execute(f"SELECT {sql} AS v").fetchone()
        if (found, type(found)) != (value, type(value)):
            wrong[sql] = found
    assert not wrong
    (found,) = client.cursor(binary=binary).execute("SELECT CAST('nan' AS DOUBLE)").fetchone()
    assert math.isnan(found)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_rows_of_many_columns_and_batches_keep_their_order(client, binary):
    cursor = client.cursor(binary=binary).execute(
        "SELECT i, CASE WHEN i % 3 > 0 THEN 'v' || i END, i / 4.0 FROM range(200000) t(i)"
        " ORDER BY i"
    )
    assert cursor.fetchall() == [(i, f"v{i}" if i % 3 else None, i / 4) for i in range(200000)]


def test_a_parameter_has_the_type_that_the_statement_needs(client):
    assert client.execute("SELECT i FROM range(5) t(i) WHERE i = %s", ["3"]).fetchall() == [(3,)]
    assert client.execute("SELECT i FROM range(5) t(i) WHERE i > %s", [3]).fetchall() == [(4,)]
    assert client.execute("SELECT '%%', %s, '$1'", ["it's"]).fetchone() == ("%", "it's", "$1")
    found = client.execute("SELECT %b + INTERVAL 1 DAY", [datetime(2026, 1, 1, tzinfo=UTC)])
    assert found.fetchone() == (datetime(2026, 1, 2, tzinfo=UTC),)
    assert client.execute("SELECT %s::INTEGER", [None]).fetchone() == (None,)


def test_a_statement_that_is_asked_repeatedly_is_prepared(client):
    for number in range(8):  # psycopg prepares what it is asked repeatedly
        assert client.execute("SELECT %s::INTEGER * 2", [number]).fetchone() == (number * 2,)


def test_an_answer_without_rows_has_columns(client):
    cursor = client.execute("SELECT 1 AS one, 'x' AS two WHERE false")
    assert [column.name for column in cursor.description] == ["one", "two"]
    assert cursor.fetchall() == []


def test_an_error_says_what_was_wrong_and_the_connection_goes_on(client):
    with pytest.raises(errors.UndefinedTable, match="nothing_of_this_name"):
        client.execute("SELECT * FROM nothing_of_this_name")
    with pytest.raises(errors.ReadOnlySqlTransaction, match="must be one SELECT"):
        client.execute("DROP TABLE merged.totals")
    assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_transaction_that_failed_waits_for_its_end(served):
    with served.client() as client:
        with pytest.raises(errors.UndefinedColumn):
            client.execute("SELECT nothing")
        with pytest.raises(errors.InFailedSqlTransaction):
            client.execute("SELECT 1")
        client.rollback()
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_query_is_cancelled(client):
    stop = threading.Event()

    def cancel():
        while not stop.wait(0.1):  # until it comes while the query runs
            client.cancel_safe()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(errors.QueryCanceled):
        client.execute("SELECT sum(sin(i)) FROM range(100000000000) t(i)")
    stop.set()
    thread.join()
    assert client.execute("SELECT 1").fetchone() == (1,)


NO_MESSAGES = {
    b"\x00\x00\x00\x04": b"startup message",
    b"\xff\xff\xff\xff": b"startup message",
    b"\x00\x00\x00\x08\x00\x02\x00\x00": b"version 3",
    b"\x00\x00\x00\x0b\x00\x03\x00\x00abc": b"zero byte",
}


def test_what_is_no_message_ends_the_connection(served):
    for given, says in NO_MESSAGES.items():
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
            raw.sendall(given)
            found = b""
            while data := raw.recv(1024):
                found += data
        assert b"08P01" in found
        assert says in found


def test_a_search_path_without_a_layer_changes_nothing(served):
    for path in ("pg_catalog", "public", '"$user",public', "quick"):
        with (
            served.client(options=f"-c search_path={path}", autocommit=True) as one,
            served.client(options="-c search_path=speed", autocommit=True) as other,
        ):
            assert one.execute("SELECT current_schema()").fetchone() == ("merged",)
            other.execute(f"SET search_path = {path}")
            assert other.execute("SHOW search_path").fetchone() == (path,)
            assert other.execute("SELECT current_schema()").fetchone() == ("speed",)
            other.execute("SET search_path = public, batch")
            assert other.execute("SELECT current_schema()").fetchone() == ("batch",)


def test_pg_dump_begins(served):
    with served.client(autocommit=True) as client:
        client.execute("SELECT pg_catalog.set_config('search_path', '', false);")
        for setting in (
            "DATESTYLE = ISO", "INTERVALSTYLE = POSTGRES", "extra_float_digits TO 3",
            "synchronize_seqscans TO off", "statement_timeout = 0", "lock_timeout = 0",
            "idle_in_transaction_session_timeout = 0", "row_security = off",
        ):  # fmt: skip
            client.execute(f"SET {setting}")
        client.execute("BEGIN")
        client.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        assert client.execute("SELECT pg_catalog.pg_is_in_recovery()").fetchone() == (False,)
        client.execute("ROLLBACK")


def test_a_client_chooses_layer_and_time_limit(served):
    with served.client(autocommit=True) as client:
        client.execute("SET search_path TO speed")
        assert client.execute("SHOW search_path").fetchone() == ("speed, tables",)
        assert client.execute("SELECT current_schema()").fetchone() == ("speed",)
        client.execute("SET statement_timeout = '300ms'")
        with pytest.raises(errors.QueryCanceled, match=r"0\.3 s have passed"):
            client.execute("SELECT count(*) FROM range(1000000000000)")
        client.execute("RESET statement_timeout")
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_savepoint_saves_the_transaction(served):
    with served.client() as client:
        client.execute("SELECT 1")
        with pytest.raises(errors.UndefinedColumn), client.transaction():
            client.execute("SELECT nothing")
        assert client.execute("SELECT 2").fetchone() == (2,)


def test_what_is_not_there_is_refused_by_name(served):
    with pytest.raises(psycopg.OperationalError, match="trilayer@VERSION; got shop"):
        served.client("shop")
    with served.client(autocommit=True) as client:
        with pytest.raises(errors.UndefinedTable) as raised:
            client.execute("SELECT * FROM totls")
        assert raised.value.diag.message_hint == "Did you mean 'totals'?"
