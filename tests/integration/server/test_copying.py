"""COPY TO STDOUT in each format, as clients read it."""

import io

import psycopg
import pytest
from psycopg import errors

ROWS = (
    "SELECT * FROM (VALUES (1, 'a\tb\\c\nd', 1.5, DATE '2026-11-26'), (2, NULL, NULL, NULL),"
    " (3, '', 2.0, NULL)) AS v(i, s, d, day)"
)


def copied(client, statement):
    with client.cursor() as cursor, cursor.copy(statement) as copy:
        return b"".join(copy)


def test_text_is_that_of_postgresql(client):
    assert copied(client, f"COPY ({ROWS}) TO STDOUT") == (
        b"1\ta\\tb\\\\c\\nd\t1.5\t2026-11-26\n2\t\\N\t\\N\t\\N\n3\t\t2.0\t\\N\n"
    )


def test_small_decimals_have_no_exponent(client):
    numbers = ("0", "0.00000012", "-0.00000012", "1.00000012", "NULL")
    rows = ", ".join(f"({number}::DECIMAL(18,8))" for number in numbers)
    expected = b"0.00000000\n0.00000012\n-0.00000012\n1.00000012\n\\N\n"
    assert copied(client, f"COPY (FROM (VALUES {rows})) TO STDOUT") == expected


def test_csv_tells_null_from_an_empty_text(client):
    assert copied(client, f"COPY ({ROWS}) TO STDOUT WITH (FORMAT csv, HEADER)") == (
        b'i,s,d,day\n1,"a\tb\\c\nd",1.5,2026-11-26\n2,,,\n3,"",2.0,\n'
    )
    assert copied(client, f"COPY ({ROWS}) TO STDOUT CSV").startswith(b'1,"a')


def test_binary_rows_are_read_as_their_values(client):
    with (
        client.cursor() as cursor,
        cursor.copy(f"COPY ({ROWS}) TO STDOUT (FORMAT binary)") as copy,
    ):
        copy.set_types(["int4", "text", "numeric", "date"])
        found = list(copy.rows())
    assert found == client.execute(ROWS).fetchall()


def test_a_view_and_some_columns_of_it(client):
    assert copied(client, "COPY trilayer.history (version, kind) TO STDOUT") == b""
    assert copied(client, "COPY trilayer.history TO STDOUT (FORMAT csv, HEADER true)").startswith(
        b"version,stream,"
    )


REFUSED = [
    "COPY trilayer.history FROM STDIN",
    "COPY trilayer.history TO '/tmp/x'",
    "COPY trilayer.history TO PROGRAM 'id'",
    "COPY (SELECT 1) TO STDOUT (DELIMITER ';')",
    "COPY (SELECT 1) TO STDOUT (FORMAT parquet)",
    "COPY (SELECT nothing) TO STDOUT",
    "COPY (DELETE FROM trilayer.history) TO STDOUT",
]


def test_everything_else_is_refused_and_the_connection_goes_on(client):
    for statement in REFUSED:
        with pytest.raises((errors.Error, psycopg.Error)):
            copied(client, statement)
        assert client.execute("SELECT 1").fetchone() == (1,), statement


def test_psycopg2_reads_it_too(served):
    import psycopg2

    client = psycopg2.connect(host="127.0.0.1", port=served.port, user="ann", dbname="trilayer")
    client.autocommit = True
    out = io.StringIO()
    client.cursor().copy_expert("COPY (SELECT 1 AS a, 'x' AS b) TO STDOUT CSV HEADER", out)
    client.close()
    assert out.getvalue() == "a,b\n1,x\n"
