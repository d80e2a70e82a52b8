"""Clients of other languages, and ADBC: they read what the engine has, in every way that they know,
and what docs/server.md says of them works.
"""

import re
import ssl

import pytest
from adbc_driver_postgresql import dbapi

import serving_layer
from benchmarks.written import Written
from tests.support.certificates import write_certificate
from tests.support.console import BY_MINUTE, MINUTE_MS, sold
from tests.support.places import PROJECT
from tests.support.served import Served
from tests.support.sql_clients import CLIENTS, NULL, Failed, same, values_of
from trilayer import Catalog
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server.users import Users
from trilayer_server.wire.authentication import Access

pytestmark = pytest.mark.slow

PASSWORD = "naïve secret"

VALUES = """\
true
CAST(-5 AS TINYINT)
CAST(32767 AS SMALLINT)
CAST(-2147483648 AS INTEGER)
9223372036854775807
CAST(18446744073709551615 AS UBIGINT)
CAST(0.1 AS DOUBLE)
CAST(1e-7 AS DOUBLE)
CAST(1e300 AS DOUBLE)
CAST(0.5 AS FLOAT)
CAST('nan' AS DOUBLE)
CAST('inf' AS DOUBLE)
CAST('-inf' AS DOUBLE)
CAST(12.30 AS DECIMAL(10,2))
CAST(-12345678.90 AS DECIMAL(12,2))
CAST(10000 AS DECIMAL(38,0))
CAST('0.00000000000000000000000000000000000012' AS DECIMAL(38,38))
CAST('-1234567890123456789.0123456789012345678' AS DECIMAL(38,19))
'naïve ''text'' 漢字 🙂 "quoted" \\ back'
''
'00000000-0000-0000-0000-00000000002a'::UUID
'\\x00ff'::BLOB
DATE '0001-01-01'
DATE '1969-12-31'
DATE '9999-12-31'
TIMESTAMP '0001-01-01 00:00:00'
TIMESTAMP '1969-12-31 23:59:59.5'
TIMESTAMP '9999-12-31 23:59:59.999'
TIMESTAMPTZ '2026-11-25 01:02:03.000004+00'
TIME '23:59:59.000001'
INTERVAL 0 DAY
INTERVAL 14 MONTH + INTERVAL 3 DAY + INTERVAL 4 HOUR + INTERVAL 5 MICROSECOND
-INTERVAL 90 MINUTE
[1, NULL, 3]
[9007199254740993, NULL]
[1.5::DOUBLE, NULL]
['a,b', 'NULL', '', '"q"\\', NULL, 'é']
[true, NULL, false]
[12.30, NULL]
[DATE '2026-11-25', NULL]
CAST([] AS INTEGER[])
[[1], [2, 3], NULL]
{'a': 1, 'b': ['x', NULL], 'c': {'d': DATE '2026-01-02'}}
MAP {'k': 1}
'b'::ENUM('a', 'b')
CAST(NULL AS BOOLEAN)
CAST(NULL AS INTEGER)
CAST(NULL AS DECIMAL(10,2))
CAST(NULL AS DOUBLE)
CAST(NULL AS DATE)
CAST(NULL AS TIMESTAMPTZ)
CAST(NULL AS INTERVAL)
CAST(NULL AS VARCHAR[])
CAST(NULL AS STRUCT(a INTEGER))
NULL
""".splitlines()


class Asked:
    """A client that has been started."""

    def __init__(self, name, at):
        self.name, self._client, self._at = name, CLIENTS[name], at
        self.modes = list(self._client.modes)
        self._program = self._client.start()

    def close(self):
        self._program.close()

    def connect(self, mode=None, at=None, **options):
        mode = mode or self.modes[0]
        url = self._client.url(at or self._at, **(self._client.modes[mode] | options))
        self._program.request("connect", url, mode)

    def ask(self, sql, *parameters):
        return self.request("ask", sql, *(part for each in parameters for part in each))

    def request(self, *fields):
        return self._program.request(*fields)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server on a store with two publications and a segment above the newest."""
    folder = tmp_path_factory.mktemp("clients")
    settings = Settings(home=folder, store=str(folder / "store"), keep_versions=5)
    store = Store(settings.store)
    written = Written(store, BY_MINUTE)
    written.publish(sold(1, ann=10, bob=20), 6, 2 * MINUTE_MS)
    written.publish(sold(1, ann=11, bob=22), 6, 3 * MINUTE_MS)
    written.begin(2)
    written.commit(sold(2, **{"zoë": 1_000}), 3, 4 * MINUTE_MS)
    catalog = Catalog(views=[BY_MINUTE])
    with (
        serving_layer.connect(catalog, settings, store) as connection,
        Served(catalog, settings, store) as served,
    ):
        served.connection = connection
        yield served


@pytest.fixture(scope="module", params=CLIENTS)
def client(site, request):
    asked = Asked(request.param, ("127.0.0.1", site.port))
    yield asked
    asked.close()


SERVER = (PROJECT / "docs" / "server.md").read_text()
DOCUMENTED = {
    "jdbc": "JDBC",
    "node": "node-postgres",
    "pgx": "Go, by pgx",
    "pq": "Go, by lib/pq",
    "adbc": "ADBC",
}
"""The name of each client in docs/server.md."""

NOT_READ = {
    ("node", "TIMESTAMPTZ '2026-11-25 01:02:03.000004+00'"),  # a Date has milliseconds
    ("node", "[12.30, NULL]"),  # it has floating-point numbers in an array of decimals
}


def test_every_value_is_the_one_that_the_engine_has(site, client):
    wrong = {}
    for mode in client.modes:
        client.connect(mode)
        for expression in VALUES:
            if (client.name, expression) in NOT_READ:
                continue
            sql = f"SELECT {expression} AS v"
            expected, found = values_of(site.connection.sql(sql)), client.ask(sql)
            if not same(expected, found):
                wrong[mode, expression] = (expected, found)
    assert not wrong


PARAMETERS = [
    ("SELECT $1::BIGINT + 1", [("int8", "41")], "42::BIGINT"),
    ("SELECT $1::INTEGER * 2", [("int4", "-21")], "-42::BIGINT"),
    ("SELECT $1::DOUBLE", [("float8", "0.1")], "0.1::DOUBLE"),
    ("SELECT $1::DECIMAL(12,4)", [("numeric", "-1234.5600")], "-1234.56::DECIMAL(12,4)"),
    ("SELECT $1::VARCHAR", [("text", "it's 漢字 \\ \"$1\"")], "'it''s 漢字 \\ \"$1\"'"),
    ("SELECT $1::BOOLEAN", [("bool", "true")], "true"),
    ("SELECT $1::BLOB", [("bytea", "00ff5c27")], r"'\x00\xff\x5c\x27'::BLOB"),
    ("SELECT $1::DATE", [("date", "2026-12-28")], "DATE '2026-12-28'"),
    ("SELECT $1::TIMESTAMP", [("timestamp", "2026-12-28T01:02:03.004")],
     "TIMESTAMP '2026-12-28 01:02:03.004'"),
    ("SELECT $1::TIMESTAMPTZ", [("timestamptz", "2026-12-28T01:02:03.004+01:00")],
     "TIMESTAMPTZ '2026-12-28 00:02:03.004+00'"),
    ("SELECT $1::TIMESTAMPTZ", [("date", "2026-12-28")], "TIMESTAMPTZ '2026-12-28 00:00:00+00'"),
    ("SELECT DATE '2026-12-28' = $1", [("date", "2026-12-28")], "true"),
    ("SELECT $1::UUID", [("uuid", "00000000-0000-0000-0000-00000000002a")],
     "'00000000-0000-0000-0000-00000000002a'"),
    ("SELECT $1::INTEGER IS NULL", [("int4", NULL)], "true"),
    ("SELECT count(*) FROM range(100) t(i) WHERE i < $1", [("int8", "7")], "7"),
    ("SELECT i FROM range(100) t(i) ORDER BY i LIMIT $1 OFFSET $2", [("int8", "1"), ("int8", "5")],
     "5"),
    ("SELECT sum(n) FROM by_minute WHERE buyer = $1 AND minute < $2",
     [("text", "ann"), ("timestamptz", "2026-12-28T00:00:00+00:00")], "3"),
    ("SELECT DATE '2026-06-01' BETWEEN $1 AND $2", [("date", "2026-05-31"), ("date", "2026-06-01")],
     "true"),
    ("SELECT list_sum($1::INTEGER[])", [("int4[]", "1,\\N,41")], "42::HUGEINT"),
    ("SELECT $1::VARCHAR[]", [("text[]", 'a b,\\N,"q"')], "['a b', NULL, '\"q\"']"),
]  # fmt: skip


WRITES_PARAMETERS = ("simple", "simple_protocol")
"""The modes in which the client itself writes parameters into the statement."""


def test_a_parameter_has_the_type_that_the_statement_needs(site, client):
    wrong = {}
    for mode in client.modes:
        client.connect(mode)
        for sql, given, like in PARAMETERS:
            if mode in WRITES_PARAMETERS and given[0][0] in ("bytea", "date", "int4[]", "text[]"):
                continue  # written as only PostgreSQL reads them
            expected = values_of(site.connection.sql(f"SELECT {like}"))
            found = client.ask(sql, *given)
            if not same(expected, found):
                wrong[mode, sql, *given] = (expected, found)
    assert not wrong


def test_a_statement_is_prepared_once_and_a_batch_is_sent_at_once(site, client):
    """The eighth time, JDBC has been reading in binary for three times."""
    sql = "SELECT $1::BIGINT AS n, 1.50::DECIMAL(9,2) AS d, DATE '2026-01-02' AS day, [1] AS l"
    expected = [
        row for n in range(8) for row in values_of(site.connection.sql(sql.replace("$1", str(n))))
    ]
    client.connect()
    for request in ("prepared", "batch"):
        assert same(expected, client.request(request, sql, "int8", *range(8)))


def test_many_rows_are_read_some_at_a_time(client):
    client.connect()
    found = client.request("portions", "SELECT range AS n FROM range(10_000)", 700)
    assert [int(n) for (n,) in found] == list(range(10_000))


def test_an_error_has_its_code_and_position_and_the_connection_goes_on(client):
    for mode in client.modes:
        client.connect(mode)
        for sql, code, position in (
            ("SELECT 1 FROM FROM", "42601", 15),
            ("SELECT * FROM nothing_of_this_name", "42P01", 15),
            ("SELECT 'x'::INTEGER", "22P02", 11),
            ("DROP TABLE merged.by_minute", "25006", 0),
        ):
            with pytest.raises(Failed) as failed:
                client.ask(sql)
            assert failed.value.code == code, (mode, sql)
            assert failed.value.position == (0 if client.name == "adbc" else position), (mode, sql)
        assert client.ask("SELECT 1") == [["1"]]


def test_a_question_that_takes_too_long_is_ended(client):
    client.connect()
    with pytest.raises(Failed) as failed:
        client.request("slow", "SELECT count(*) FROM range(1_000_000_000_000)", 300)
    if client.name == "pgx":  # which does not wait for the server's word
        assert "context deadline exceeded" in str(failed.value)
    else:
        assert failed.value.code == "57014"
    assert client.ask("SELECT 1") == [["1"]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with passwords and encryption, which has nothing to answer from."""
    folder = write_certificate(tmp_path_factory.mktemp("guarded"))
    users = Users(folder / "users.json")
    users.put("ann", PASSWORD, "reader")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    store, access = Store(str(folder / "store")), Access(users, tls, True)
    with Served(Catalog(views=[BY_MINUTE]), Settings(), store, access=access) as served:
        served.certificate = folder / "cert.pem"
        yield served


def test_a_password_over_tls(guarded, client):
    tls = {"sslmode": "verify-full", "sslrootcert": str(guarded.certificate)}
    at = ("localhost", guarded.port)
    client.connect(at=at, password=PASSWORD, **tls)
    assert client.ask("SELECT current_user") == [["ann"]]
    with pytest.raises(Failed) as failed:
        client.connect(at=at, password="wrong", **tls)
    assert "password authentication failed" in str(failed.value)
    assert failed.value.code == (None if client.name == "adbc" else "28P01")


def test_layers_and_versions(site, client):
    total = "SELECT sum(revenue) FROM by_minute"
    for layer in ("merged", "batch", "speed"):
        client.connect(options=f"-c search_path={layer}")
        expected = values_of(site.connection.sql(total, layer))
        assert same(expected, client.ask(total))
        assert same(expected, client.ask(f"SELECT sum(revenue) FROM {layer}.by_minute"))
    client.connect(database="trilayer@1", options="-c search_path=batch")
    assert client.ask(total) == [["30"]]
    # As in PostgreSQL, schemas of a search_path that do not exist are passed over.
    client.connect(options="-c search_path=quick,speed")
    assert same(values_of(site.connection.sql(total, "speed")), client.ask(total))


def test_windows_are_read_as_the_engine_has_them(site, client):
    sql = "SELECT * FROM by_minute ORDER BY ALL"
    expected = values_of(site.connection.sql(sql))
    assert len(expected) == 3
    for mode in client.modes:
        client.connect(mode)
        assert same(expected, client.ask(sql)), mode


def test_the_address_of_the_documentation(site, client):
    (text,) = re.findall(rf"(?s)^- \*\*{DOCUMENTED[client.name]}\*\*(.*?)(?=^- |^$)", SERVER, re.M)
    addresses = re.findall(r'(?:jdbc:)?postgresql://[^\s"`]+', text)
    place = f"127.0.0.1:{site.port}"
    for address in addresses:
        client.request("connect", address.replace("127.0.0.1:5433", place), client.modes[0])
        assert client.ask("SELECT current_user") == [["me"]]
    assert addresses


BY_JDBC = {
    "catalogs": [["trilayer"]],
    "tables": [["trilayer", "merged", "by_minute", "VIEW"]],
    "columns": [
        ["trilayer", "merged", "by_minute", name, type_]
        for name, type_ in (
            ("buyer", "text"), ("minute", "timestamptz"), ("minute_end", "timestamptz"),
            ("n", "int8"), ("revenue", "int8"),
        )
    ],
    "primary keys": [
        ["trilayer", "merged", "by_minute", "buyer", "1"],
        ["trilayer", "merged", "by_minute", "minute", "2"],
    ],
    "best row": [["2", "buyer"], ["2", "minute"]],
    "privileges": [["trilayer", "merged", "by_minute", "pg_database_owner", "PUBLIC", "SELECT"]],
    "imported keys": [],
    "exported keys": [],
    "column privileges": [],  # of tables alone
    "functions": [],
    "procedures": [],
}  # fmt: skip
"""What the driver's metadata says of a view, up to the columns that matter."""


@pytest.mark.parametrize("client", ["jdbc"], indirect=True)
def test_jdbc_describes_a_view(client):
    client.connect()
    for name, expected in BY_JDBC.items():
        found = client.request("metadata", name, "merged", "by_minute")
        if name == "columns":
            found = [[*row[:4], row[5]] for row in found]
        assert [row[: len(expected[0])] if expected else row for row in found] == expected, name
    schemas = [schema for schema, _ in client.request("metadata", "schemas")]
    assert {"merged", "batch", "speed", "trilayer"} <= set(schemas)
    known = [row[0] for row in client.request("metadata", "types")]
    assert {"text", "numeric", "timestamptz", "_int8"} <= set(known)
    for name in ("table types", "client properties", "indexes", "version columns", "user types"):
        assert client.request("metadata", name, "merged", "by_minute"), name


@pytest.mark.parametrize("client", ["jdbc"], indirect=True)
@pytest.mark.parametrize("mode", ["default", "binary", "simple"])
def test_jdbc_s_local_date_is_a_date(client, mode):
    client.connect(mode)
    day = ("local date", "2026-12-28")
    assert client.ask("SELECT $1::DATE, DATE '2026-12-28' = $2", day, day) == [["2026-12-28", True]]


@pytest.mark.parametrize("client", ["pq"], indirect=True)
def test_lib_pq_asks_for_encryption_unless_told_otherwise(site, client):
    address = f"postgresql://me@127.0.0.1:{site.port}/trilayer"
    with pytest.raises(Failed, match="SSL is not enabled"):
        client.request("connect", address)


def test_adbc_in_a_transaction(site):
    address = CLIENTS["adbc"].url(("127.0.0.1", site.port))
    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        for expected in (1, 2):
            cursor.execute("SELECT $1::INTEGER", [expected])
            assert cursor.fetchall() == [(expected,)]
        connection.commit()
        cursor.execute("SELECT 3::INTEGER")
        assert cursor.fetchall() == [(3,)]


def test_adbc_describes_a_view(site):
    address = CLIENTS["adbc"].url(("127.0.0.1", site.port))
    with dbapi.connect(address, autocommit=True) as connection:
        schema = connection.adbc_get_table_schema("by_minute", db_schema_filter="merged")
        (catalog,) = (
            connection.adbc_get_objects(
                db_schema_filter="merged", table_name_filter="by_minute", depth="all"
            )
            .read_all()
            .to_pylist()
        )
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM by_minute ORDER BY ALL")
            assert cursor.fetch_arrow_table().schema.equals(schema)
    (found,) = catalog["catalog_db_schemas"]
    (table,) = found["db_schema_tables"]
    columns = sorted(table["table_columns"], key=lambda column: column["ordinal_position"])
    assert (catalog["catalog_name"], found["db_schema_name"]) == ("trilayer", "merged")
    assert [column["column_name"] for column in columns] == schema.names
