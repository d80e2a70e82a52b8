"""Parameters of every type that clients send, in text and binary, mean their value."""

import datetime
import uuid
from decimal import Decimal

import psycopg
import pytest
from psycopg import errors, generators

from trilayer_server.encoding.parameters import number_of

VALUES = [
    Decimal("1.5"), Decimal("-0.001"), Decimal("12345678901234567890.5"), Decimal(0),
    Decimal("10000"), Decimal("0.00012"), b"abc\x00\xff", uuid.UUID(int=5),
    datetime.time(23, 59, 59, 1), datetime.timedelta(days=-3, hours=4), True, 2**40, 0.1, "it's",
    datetime.date(2026, 1, 2), [1, 2, None],
]  # fmt: skip


WITHOUT_TYPE = [
    ("SELECT $1::DATE", "2026-12-28 +01", "2026-12-28"),  # as JDBC sends a date
    ("SELECT $1::TIMESTAMP", "2026-12-28 +01", "2026-12-28 00:00:00"),
    ("SELECT $1::TIMESTAMPTZ", "2026-12-28 +01", "2026-12-27 23:00:00+00"),
    ("SELECT TIMESTAMPTZ '2026-12-27 23:30:00+00' > $1", "2026-12-28 +01:00", "t"),
    ("SELECT d FROM (SELECT DATE '2026-12-28' AS d) WHERE d = $1", "2026-12-28 +00", "2026-12-28"),
    ("SELECT 'on 2026-12-28 +01' = 'on ' || $1", "2026-12-28 +01", "t"),
    ("SELECT $1::INTEGER[]", "{1,NULL,3}", "{1,NULL,3}"),
    ("SELECT $1", "{1,NULL,3}", "{1,NULL,3}"),
    ("SELECT $1::VARCHAR[]", '{ a b , null,"null", ""}', '{"a b",NULL,"null",""}'),
    ("SELECT $1::VARCHAR[]", '{"{","a\\\n"}', '{"{","a\n"}'),
    ("SELECT 2 = ANY($1)", "{1,2}", "t"),
    ("SELECT 2 <> ALL(($1))", "{1,2}", "f"),
    ("SELECT 'b' = ANY($1)", "{a,b}", "t"),
    ("SELECT 2.125 = ANY($1)", "{1.5,2.1250000000001}", "f"),
    ("SELECT 2.125 = ANY($1)", "{1.5,2.125,-2e3,NaN}", "t"),
    ("SELECT DATE '2026-12-28' = ANY($1)", "{2026-12-28}", "t"),
    ("SELECT 2 = ANY($1)", "{}", "f"),
    ("SELECT $1 = ANY(ARRAY[1, 2])", "2", "t"),
    ("SELECT $1 <> ALL(ARRAY[1.5, 2])", "2.0", "f"),
    ("SELECT $1 = ANY(SELECT 1)", "1", "t"),
    ("SELECT coalesce($1, 5) + 1", "7", "8"),
    ("SELECT greatest(1, 1.5, $1)", "2.25", "2.25"),
    ("SELECT CASE WHEN true THEN $1 WHEN false THEN 1 ELSE 2.5 END", "2.25", "2.25"),
    ("SELECT $1::BLOB", r"\x00ff41", r"\x00ff41"),
    ("SELECT $1::VARCHAR", r"\x00ff41", r"\x00ff41"),
]


def test_a_text_without_a_type_is_read_as_postgresql_reads_it(client):
    for sql, given, expected in WITHOUT_TYPE:
        answer = client.pgconn.exec_params(sql.encode(), [given.encode()])
        assert answer.error_message == b"", sql
        assert answer.get_value(0, 0) == expected.encode(), sql


def test_bytes_without_a_type_have_that_of_the_statement(client):
    answer = client.pgconn.exec_params(b"SELECT $1::BLOB", [b"\x00\xff"], param_formats=[1])
    assert answer.get_value(0, 0) == rb"\x00ff"


@pytest.mark.parametrize("format_", ["t", "b"])
def test_a_value_comes_back(client, format_):
    for value in VALUES:
        (found,) = client.execute(f"SELECT %{format_} AS v", (value,)).fetchone()
        assert found == (str(value) if isinstance(value, uuid.UUID) else value)


@pytest.mark.parametrize("format_", ["t", "b"])
def test_an_array_is_searched(client, format_):
    sql = f"SELECT %{format_} = ANY(%{format_}), 1 = ALL(%{format_}), coalesce(%{format_}, 5)"
    assert client.execute(sql, ("b", ["a", "b"], [1, 2], None)).fetchone() == (True, False, 5)
    decimals = [Decimal("1.5"), Decimal("1e-12")]
    sql = f"SELECT 0.000000000001 = ANY(%{format_})"
    assert client.execute(sql, (decimals,)).fetchone() == (True,)


def test_some_takes_an_array_as_any_does(client):
    answer = client.pgconn.exec_params(b"SELECT 2 = SOME($1)", [b"{1,2}"])
    assert answer.get_value(0, 0) == b"t"


def test_an_array_of_texts_comes_back(client):
    texts = ["a,b", 'q"', None, "NULL", ""]
    assert client.execute("SELECT %b", (texts,)).fetchone() == (texts,)


@pytest.mark.parametrize("format_", ["t", "b"])
def test_a_decimal_is_compared_as_what_it_is(client, format_):
    assert client.execute(f"SELECT 2 = %{format_}", (Decimal("1.5"),)).fetchone() == (False,)
    assert client.execute(f"SELECT %{format_} + 1", (Decimal("1.5"),)).fetchone() == (
        Decimal("2.5"),
    )


@pytest.mark.parametrize("format_", ["t", "b"])
def test_an_array_of_arrays_is_refused(client, format_):
    with pytest.raises(errors.InvalidTextRepresentation, match="one dimension"):
        client.execute(f"SELECT %{format_}", ([[1, 2], [3, 4]],))
    assert client.execute("SELECT 1").fetchone() == (1,)


def test_an_array_of_arrays_of_quoted_texts_is_refused(client):
    given = b'{{"a b",c},{d,"e"}}'
    found = client.pgconn.exec_params(b"SELECT $1::VARCHAR[]", [given])
    assert b"one dimension" in found.error_message


def test_what_is_compared_with_an_array_has_the_type_of_its_elements(client):
    two = (2).to_bytes(4, "big")
    for expression in ("$1 = ANY(ARRAY[1, 2])", "$1 = ALL(ARRAY[2])", "$1 = ANY(SELECT 2)"):
        answer = client.pgconn.exec_params(
            f"SELECT {expression}".encode(), [two], param_formats=[1]
        )
        assert answer.get_value(0, 0) == b"t", expression


@pytest.mark.parametrize("binary", [False, True])
def test_infinite_times(client, binary):
    row = client.cursor(binary=binary)
    for text in ("infinity", "-infinity"):
        row.execute(f"SELECT '{text}'::DATE::VARCHAR")
        assert row.fetchone() == (text,)
    for type_ in ("DATE", "TIMESTAMP"):
        with pytest.raises(psycopg.DataError, match=r"large|small"):
            client.cursor(binary=binary).execute(f"SELECT 'infinity'::{type_}").fetchone()


TYPES = {
    "CASE n WHEN $1 THEN 'a' ELSE 'b' END": 20,
    "CASE $1 WHEN 1.5 THEN 'a' WHEN n THEN 'b' END": 1700,
    "CASE $1 WHEN d THEN 1 ELSE 2 END = 3": 1082,
    "CASE $1 WHEN $2 THEN 1 ELSE 2 END = 3": 25,
    "CASE n WHEN 1 THEN $1 ELSE d END": 1082,
    "CASE WHEN $1 THEN 1 ELSE 2 END": 16,
    "NOT ($1)": 16,
    "$1 OR $2": 16,
}


def test_the_type_of_a_parameter_follows_from_its_place(client):
    of = "FROM (SELECT 1::BIGINT AS n, DATE '2026-01-01' AS d)"
    assert {one: inferred_types(client, f"SELECT {one} {of}")[0] for one in TYPES} == TYPES


@pytest.mark.parametrize("end", ["''", "'' -- ''"])
def test_a_parameter_before_an_empty_text_at_the_end_has_its_type(client, end):
    assert inferred_types(client, f"SELECT 1 FROM range(3) t(n) WHERE n = $1 AND 'a' <> {end}") == [
        20
    ]
    assert inferred_types(client, f"SELECT 1 FROM pg_class WHERE oid = $1 AND 'a' <> {end}") == [26]


def test_a_condition_may_be_a_parameter(client):
    assert inferred_types(client, "SELECT 1 WHERE $1") == [16]
    found = client.pgconn.exec_params(b"SELECT 1 WHERE $1", [b"\x01"], param_formats=[1])
    assert found.ntuples == 1


def inferred_types(client, sql):
    client.pgconn.prepare(b"inferred", sql.encode())
    client.pgconn.send_describe_prepared(b"inferred")  # which lets the server's thread run
    (described,) = client.wait(generators.execute(client.pgconn))
    assert described.error_message == b""
    return [described.param_type(place) for place in range(described.nparams)]


@pytest.mark.parametrize(
    ("type_", "oid", "size"), [("DATE", 1082, 4), ("TIMESTAMP", 1114, 8), ("TIMESTAMPTZ", 1184, 8)]
)
def test_infinite_times_as_parameters(client, type_, oid, size):
    """Clients that have them, as asyncpg does, send them as the extreme integers."""
    most = 2 ** (8 * size - 1)
    sql = f"SELECT $1::VARCHAR, '2026-01-01'::{type_} < $1".encode()
    for text, extreme, later in ((b"infinity", most - 1, b"t"), (b"-infinity", -most, b"f")):
        for value, format_ in ((extreme.to_bytes(size, "big", signed=True), 1), (text, 0)):
            found = client.pgconn.exec_params(sql, [value], [oid], [format_])
            assert (found.get_value(0, 0), found.get_value(0, 1)) == (text, later)


@pytest.mark.parametrize("binary", [False, True])
def test_a_date_beside_the_session_s_user(client, binary):
    query = "SELECT DATE '2020-01-02', TIME '01:02:03', current_user"
    found = client.cursor(binary=binary).execute(query).fetchone()
    assert found == (datetime.date(2020, 1, 2), datetime.time(1, 2, 3), "analyst")


@pytest.mark.parametrize("oids", [(), (20,)])
def test_a_fraction_beside_an_integer_is_refused(client, oids):
    """DuckDB would round it, so that a comparison would have a wrong answer."""
    sql = b"SELECT 1::BIGINT > $1"
    for value, code in ((b"0.5", b"22P02"), (b"0", None)):
        found = client.pgconn.exec_params(sql, [value], param_types=oids or None)
        assert found.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == code
    for number in ("1.0", "1::DOUBLE", "1::FLOAT"):
        found = client.pgconn.exec_params(f"SELECT {number} > $1".encode(), [b"0.5"])
        assert found.get_value(0, 0) == b"t"


@pytest.mark.parametrize(
    "sql",
    ["SELECT '$1", "SELECT 'it''s $1', $$ $1 $$", "SELECT E'\\'$1'", 'SELECT 1 AS "$1""$1"',
     "SELECT 1 -- $1", "SELECT /* $1", "SELECT $a$ $b$ $1 $b$ $a$", "SELECT a$b$c"],
)  # fmt: skip
def test_texts_comments_and_names_have_no_parameters(sql):
    assert number_of(sql) == 0
    assert number_of(f"SELECT $3, {sql}") == 3


@pytest.mark.parametrize("part", ["'", '"', "$$", "/* ", "E'", "$a{} ", "$a{}$ "])
def test_many_texts_without_an_end_are_read_once(part):
    """A pattern that looks for each end by itself does not end within the life of a test run."""
    assert number_of("SELECT $2, " + "".join(map(part.format, range(500_000)))) == 2


NUMBERS = ("0", "65536", "99999999999999999999", "9" * 5_000)


@pytest.mark.parametrize(
    "sql", ["SELECT 1, ${}", "SELECT ${}::INT", "SELECT relname FROM pg_class WHERE oid = ${}"]
)
def test_a_parameter_that_no_client_can_bind_is_refused(client, sql):
    connection = client.pgconn
    for asked in (sql.format(number).encode() for number in NUMBERS):
        assert connection.prepare(b"s", asked).status == psycopg.pq.ExecStatus.COMMAND_OK
        connection.send_describe_prepared(b"s")  # which lets the server's thread run
        (described,) = client.wait(generators.execute(connection))
        for found in (described, connection.exec_params(asked, [b"1"])):
            assert found.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"42P02"
            assert b"must be $1 to $65535" in found.error_message
