"""Cursors: named ones of psycopg, psql's FETCH_COUNT, and what PostgreSQL says of a statement."""

import os
import signal

import pandas as pd
import psycopg
import psycopg2
import pytest
import sqlalchemy
from psycopg import errors

from tests.support.waiting import until

ROWS = "SELECT range AS i, 'v' || range AS v FROM range(5000)"


@pytest.fixture
def transaction(served):
    """A client in a transaction."""
    with served.client() as client:
        yield client


def declared(client, name="c", query=ROWS):
    client.execute(f"DECLARE {name} NO SCROLL CURSOR FOR {query}")


def fetched(client, what):
    return [row[0] for row in client.execute(what).fetchall()]


def test_a_cursor_is_read_in_parts_to_its_end(transaction):
    declared(transaction)
    assert fetched(transaction, "FETCH c") == [0]
    assert fetched(transaction, "FETCH NEXT FROM c") == [1]
    assert fetched(transaction, "FETCH 3 IN c") == [2, 3, 4]
    assert fetched(transaction, "FETCH FORWARD 1000 FROM c") == list(range(5, 1005))
    assert fetched(transaction, "FETCH ALL FROM c") == list(range(1005, 5000))
    assert fetched(transaction, "FETCH c") == []
    assert transaction.execute("CLOSE c").statusmessage == "CLOSE CURSOR"


def test_formats_are_those_of_each_fetch(transaction):
    declared(transaction)
    for binary in (False, True, False, True):
        cursor = transaction.cursor(binary=binary)
        expected = cursor.execute("SELECT 1").pgresult.fformat(0)
        cursor.execute("FETCH 7 FROM c")
        assert cursor.pgresult.fformat(0) == expected
        assert cursor.fetchone()[1].startswith("v")
    assert fetched(transaction, "FETCH c") == [28]


def test_several_cursors_are_read_in_turn_on_one_snapshot(transaction):
    declared(transaction, "a")
    declared(transaction, '"B b"', "SELECT range FROM range(3)")
    assert fetched(transaction, "FETCH 2 FROM a") == [0, 1]
    assert fetched(transaction, 'FETCH 2 FROM "B b"') == [0, 1]
    assert transaction.execute("SELECT 1").fetchone() == (1,)
    assert fetched(transaction, "FETCH 2 FROM a") == [2, 3]
    transaction.execute("CLOSE ALL")
    with pytest.raises(errors.InvalidCursorName, match='cursor "a" does not exist'):
        transaction.execute("FETCH a")


REFUSED = [
    ("FETCH PRIOR FROM c", "55000", "cursor can only scan forward"),
    ("FETCH BACKWARD 3 FROM c", "55000", "cursor can only scan forward"),
    ("FETCH -1 FROM c", "55000", "cursor can only scan forward"),
    ("FETCH LAST FROM c", "55000", "cursor can only scan forward"),
    ("FETCH ABSOLUTE 9 FROM c", "0A000", "must be NEXT, FORWARD, ALL or a number of rows"),
    ("FETCH 1 FROM d", "34000", 'cursor "d" does not exist'),
    ("MOVE 1 FROM c", "0A000", "must be read with FETCH; got MOVE"),
    ("DECLARE d CURSOR WITH HOLD FOR SELECT 1", "0A000", "must end with its transaction"),
    ("CLOSE d", "34000", 'cursor "d" does not exist'),
    ("FETCH sideways 3 FROM c", "42601", "must be DECLARE NAME CURSOR FOR SELECT"),
    ("DECLARE c CURSOR FOR SELECT 1", "42P03", 'cursor "c" already exists'),
    ("DECLARE d SCROLL CURSOR FOR SELECT 1", "0A000", "must move forward only; got SCROLL"),
    ("DECLARE d CURSOR FOR DELETE FROM totals", "25006", "must be one SELECT"),
    ("DECLARE d CURSOR FOR SELECT nothing", "42703", "nothing"),
]


def test_a_statement_that_a_cursor_cannot_carry_out_is_refused(transaction):
    for statement, error, part in REFUSED:
        declared(transaction)
        fetched(transaction, "FETCH 2 FROM c")
        with pytest.raises(psycopg.Error, match=part) as raised:
            transaction.execute(statement)
        assert raised.value.sqlstate == error, statement
        transaction.rollback()
        assert transaction.execute("SELECT 1").fetchone() == (1,)


def test_a_cursor_ends_with_its_transaction(served):
    with served.client(autocommit=True) as client:
        with pytest.raises(errors.NoActiveSqlTransaction):
            declared(client)
        for ends in ("COMMIT", "ROLLBACK"):
            client.execute("BEGIN")
            declared(client)
            client.execute(ends)
            with pytest.raises(errors.InvalidCursorName):
                client.execute("FETCH c")


def test_a_transaction_whose_worker_was_ended_goes_back_to_no_savepoint(served):
    with served.client(autocommit=True) as client:
        client.execute("BEGIN")
        declared(client)
        client.execute("SAVEPOINT s")
        client.execute("SET statement_timeout = 200")
        with pytest.raises(errors.QueryCanceled):
            client.execute("SELECT count(*) FROM range(1000000000000)")
        with pytest.raises(errors.InFailedSqlTransaction, match="state has ended"):
            client.execute("ROLLBACK TO SAVEPOINT s")
        assert client.execute("COMMIT").statusmessage == "ROLLBACK"
        assert client.execute("SELECT 1").fetchone() == (1,)
    until(lambda: not served.pool._pinned)


def test_semicolons_in_texts_and_comments_beside_a_cursor_end_no_statement(transaction):
    for text in ("/* it's ; */ 'a'", "$$a;b$$", r"E'a\';b'", "$x$;$$;$x$"):
        expected = transaction.execute(f"SELECT {text}").fetchall()
        client = transaction.execute(f"DECLARE c CURSOR FOR SELECT {text}; FETCH c")
        assert client.nextset()
        assert client.fetchall() == expected
        transaction.execute("CLOSE c")


def test_a_mistake_is_marked_in_its_own_statement(served):
    text = "SELECT ' SELECT nope'; SELECT nope"
    with served.client(autocommit=True) as client:
        with pytest.raises(errors.UndefinedColumn) as failed:
            client.execute(text)
        assert int(failed.value.diag.statement_position) == text.rindex("nope") + 1


@pytest.mark.parametrize("closes", ["CLOSE ALL", "DISCARD ALL"])
def test_all_cursors_are_closed_at_once(transaction, closes):
    declared(transaction, "a")
    declared(transaction, "b", "SELECT 1")
    transaction.execute(closes)
    for name in ("a", "b"):
        transaction.execute("SAVEPOINT s")
        with pytest.raises(errors.InvalidCursorName):
            transaction.execute(f"FETCH {name}")
        transaction.execute("ROLLBACK TO s")


def test_psycopg_reads_named_cursors(served):
    with served.client() as client, client.cursor("named") as cursor:
        cursor.itersize = 700
        cursor.execute("SELECT range AS i FROM range(%s)", [2500])
        assert [column.name for column in cursor.description] == ["i"]
        assert [i for (i,) in cursor] == list(range(2500))
    old = psycopg2.connect(host="127.0.0.1", port=served.port, user="ann", dbname="trilayer")
    with old, old.cursor("named") as cursor:
        cursor.execute("SELECT range FROM range(%s)", (5000,))
        assert [i for (i,) in cursor] == list(range(5000))
    old.close()


def test_pandas_reads_an_answer_by_chunks(served):
    address = f"postgresql+psycopg2://ann@127.0.0.1:{served.port}/trilayer"
    engine = sqlalchemy.create_engine(address)
    with engine.connect().execution_options(stream_results=True) as client:
        chunks = list(pd.read_sql(sqlalchemy.text(ROWS), client, chunksize=2000))
    assert [len(chunk) for chunk in chunks] == [2000, 2000, 1000]
    engine.dispose()


def test_a_prepared_statement_is_forgotten(served):
    with served.client(autocommit=True) as client:
        client.pgconn.prepare(b"one", b"SELECT 1")
        assert client.pgconn.exec_prepared(b"one", []).status == psycopg.pq.ExecStatus.TUPLES_OK
        client.execute("DEALLOCATE one")
        found = client.pgconn.exec_prepared(b"one", [])
        assert found.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"26000"
        client.execute("DISCARD TEMP")
        found = client.pgconn.exec_(b"DEALLOCATE one")
        assert found.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"26000"


def test_reset_goes_back_to_what_the_client_began_with(served):
    with served.client(options="-c search_path=batch", autocommit=True) as client:
        client.execute("SET search_path = speed")
        client.execute("RESET ALL")
        assert client.execute("SHOW search_path").fetchone()[0].startswith("batch")


def test_a_text_without_a_statement_is_an_empty_query(served):
    with served.client(autocommit=True) as client:
        for nothing in (b"", b";", b"-- hi", b"/* a */ ; -- b\n;", b"  "):
            assert client.pgconn.exec_(nothing).status == psycopg.pq.ExecStatus.EMPTY_QUERY


def test_a_failed_transaction_ends_in_a_message_with_more(served):
    with served.client(autocommit=True) as client:
        client.execute("BEGIN")
        client.execute("SELECT 1")
        for pid in served.pool.pids:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(psycopg.Error):
            client.execute("SELECT 1")
        assert client.execute("ROLLBACK; SELECT 2").nextset()
