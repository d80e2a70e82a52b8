"""A server is asked as a store is: by `connect` and by `trilayer sql`."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from typer.testing import CliRunner

import serving_layer
from trilayer.cli.main import app
from trilayer_core.errors import CoverageError, EnvironmentFault, IntegrityError, UsageError
from trilayer_server.http.security import WebAccess

QUERIES = [
    "SELECT * FROM sold ORDER BY buyer",
    "SELECT sum(n) AS total, max(buyer) FROM sold",
    "SELECT 170141183460469231731687303715884105727::HUGEINT AS wide, 1.25::DECIMAL(9,2) AS d",
    "SELECT NULL AS a, [1, 2] AS b, {'c': 'd'} AS c, TIMESTAMPTZ '2026-01-01 00:00:00Z' AS t",
    "SELECT * FROM sold WHERE false",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("layer", ["merged", "batch"])
def test_answers_are_the_same(site, query, layer):
    with serving_layer.connect(site.served.url) as connection:
        told, known = connection.sql(query, layer), site.connection.sql(query, layer)
    assert told.arrow() == known.arrow()
    assert told.provenance == known.provenance


@pytest.mark.parametrize(
    "query", ["FROM nothing", "DROP TABLE sold", "selec", "SELECT 1; SELECT 2"]
)
def test_errors_are_the_same(site, query):
    said = []
    with serving_layer.connect(site.served.url) as connection:
        for asked in (connection, site.connection):
            with pytest.raises(UsageError) as error:
                asked.sql(query)
            said.append(str(error.value))
    assert said[0] == said[1]


def test_a_connection_that_was_closed_refuses_to_answer_as_one_to_a_store_does(site):
    said = []
    for connection in (
        serving_layer.connect(site.served.url),
        serving_layer.connect(site.connection.catalog, store=site.store),
    ):
        with connection.snapshot() as snapshot:
            known = snapshot.sql("SELECT 1").provenance
            connection.close()
            connection.close()
            for ask in (
                lambda c: c.sql("SELECT 1"),
                lambda c: c.snapshot().__enter__(),
                lambda c: c.snapshot(2).__enter__(),
                lambda c: c.history(),
                lambda c: c.provenance(),
                lambda c, known=known: c.with_lag(known),
                lambda _, snapshot=snapshot: snapshot.sql("SELECT 1"),
            ):
                with pytest.raises(UsageError) as error:
                    ask(connection)
                said.append(str(error.value))
    assert set(said) == {
        "a connection must be open when it is asked; this one was closed; open another:"
        " serving_layer.connect()"
    }


def test_a_connection_to_a_store_that_was_closed_refuses_everything(site):
    connection = serving_layer.connect(site.connection.catalog, store=site.store)
    connection.close()
    for ask in (
        connection.refresh,
        lambda: connection.segments("sales"),
        lambda: connection.reconciliation("sold"),
        lambda: connection.table("mine", [{"a": 1}]),
        lambda: connection.alerts("any"),
    ):
        with pytest.raises(UsageError, match="this one was closed"):
            ask()


def test_a_snapshot_fixes_the_version(site):
    with serving_layer.connect(site.served.url) as connection:
        with connection.snapshot(2) as snapshot:
            assert snapshot.sql("SELECT sum(n) AS n FROM sold").rows() == [(6,)]
            assert snapshot.provenance.version == 2
        with connection.snapshot(1) as snapshot, pytest.raises(CoverageError):
            snapshot.sql("FROM sold")
        with connection.snapshot(5) as snapshot, pytest.raises(UsageError, match="5"):
            snapshot.sql("FROM sold")


def test_the_catalog_of_a_server(site):
    with serving_layer.connect(site.served.url) as connection:
        (view,) = connection.catalog.views
        assert (view.name, view.output, view.key_names) == ("sold", ["buyer", "n"], ["buyer"])
        assert [stream.name for stream in connection.catalog.streams] == ["sales"]


def test_logins(serving):
    access = WebAccess(
        lambda name, password: "reader" if (name, password) == ("a b", "p@:") else None
    )
    served = serving(access=access)
    place = served.url.removeprefix("http://")
    with serving_layer.connect(f"http://a%20b:p%40%3A@{place}") as connection:
        assert connection._get("/v1/session")["user"] == "a b"
    for url in (served.url, f"http://:secret@{place}"):
        with (
            serving_layer.connect(url) as connection,
            pytest.raises(UsageError, match=r"login .*http://NAME:PASSWORD@HOST:PORT"),
        ):
            connection.sql("SELECT 1")


def test_an_address_must_be_one_of_a_server(site, tmp_path):
    with pytest.raises(UsageError, match="http://HOST:PORT") as error:
        serving_layer.connect("http://name:secret@")
    assert "secret" not in str(error.value)
    with pytest.raises(UsageError, match="with its address alone"):
        serving_layer.connect(site.served.url, store=site.store)


def test_something_else_answers(site):
    with (
        serving_layer.connect(f"{site.served.url}/console") as connection,
        pytest.raises(UsageError, match="Not Found"),
    ):
        connection.sql("SELECT 1")


def test_the_command_asks_a_server(site, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(app, ["sql", "--server", site.served.url, "sold", "--format", "csv"])
    assert run.output.splitlines()[0] == "buyer,n"
    assert sorted(run.output.splitlines()[1:]) == ["ann,2", "bob,3", "cy,1"]
    run = CliRunner().invoke(app, ["sql", "--server", site.served.url, "--table", "a=b", "sold"])
    assert isinstance(run.exception, UsageError)
    run = CliRunner().invoke(app, ["sql", "--server", "http://127.0.0.1:1", "sold"])
    assert isinstance(run.exception, EnvironmentFault)


class _Canned(BaseHTTPRequestHandler):
    """Answers whatever it is asked with the same bytes, and remembers what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.server.asked.append((self.path, self.headers["Host"]))
        self.server.proxy_logins.append(self.headers["Proxy-Authorization"])
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(self.server.says)
        self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def canned():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Canned) as server:
        server.asked, server.proxy_logins, server.says = [], [], b""
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def chunked(body):
    return b"%x\r\n%s\r\n" % (len(body), body)


def test_an_answer_that_ends_early_is_none(site, canned):
    answer = httpx.post(
        f"{site.served.url}/v1/sql", json={"sql": "FROM sold", "format": "arrow"}, trust_env=False
    )
    provenance = answer.headers["x-trilayer-provenance"].encode()
    head = b"HTTP/1.1 200 OK\r\nX-Trilayer-Provenance: %s\r\n" % provenance
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    whole = head + chunked(answer.content[:100]) + chunked(answer.content[100:]) + b"0\r\n\r\n"
    with serving_layer.connect(f"http://127.0.0.1:{canned.server_port}") as connection:
        canned.says = whole
        assert connection.sql("FROM sold").rows() == site.connection.sql("FROM sold").rows()
        cut = [whole[:place] for place in (*range(0, len(whole) - 5, 7), len(whole) - 5)]
        unfinished = [
            head + chunked(answer.content[:-size]) + b"0\r\n\r\n" for size in (1, 4, 8, 300)
        ]
        for canned.says in [
            *cut,
            *unfinished,
            head + chunked(answer.content + b"more") + b"0\r\n\r\n",
        ]:
            with pytest.raises((IntegrityError, EnvironmentFault)):
                connection.sql("FROM sold")


@pytest.mark.parametrize("document", [b"{}", b"[1]", b"{nope", b'"text"', b"[" * 50_000])
def test_something_else_that_answers_with_json(canned, document):
    head = b"HTTP/1.1 200 OK\r\nX-Trilayer-Provenance: %s\r\n" % document[:9]
    canned.says = head + b"Content-Length: %d\r\n\r\n" % len(document) + document
    with serving_layer.connect(f"http://127.0.0.1:{canned.server_port}") as connection:
        for ask in (
            lambda: connection.sql("SELECT 1"),
            lambda: connection.catalog,
            connection.history,
            connection.provenance,
        ):
            with pytest.raises(EnvironmentFault, match="something else answers"):
                ask()


def test_a_server_elsewhere_is_asked_by_the_proxy_of_the_environment(canned, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{canned.server_port}")
    canned.says = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
    with serving_layer.connect("http://elsewhere.invalid:8433") as connection:
        with pytest.raises(EnvironmentFault, match="something else answers"):
            connection.sql("SELECT 1")
        assert canned.asked == [("http://elsewhere.invalid:8433/v1/sql", "elsewhere.invalid:8433")]
        monkeypatch.setenv("no_proxy", "elsewhere.invalid")
    with (
        serving_layer.connect("http://elsewhere.invalid:8433") as connection,
        pytest.raises(EnvironmentFault, match="can't be reached"),
    ):
        connection.sql("SELECT 1")
    assert len(canned.asked) == 1


@pytest.mark.parametrize(
    ("variable", "proxy", "sent"),
    [
        ("http_proxy", "http://us%C3%A9r:p%40ss@127.0.0.1:{}", "Basic dXPDqXI6cEBzcw=="),
        ("http_proxy", "127.0.0.1:{}", None),
        ("all_proxy", "http://127.0.0.1:{}", None),
    ],
)
def test_proxies_are_written_in_several_ways(canned, monkeypatch, variable, proxy, sent):
    monkeypatch.setenv(variable, proxy.format(canned.server_port))
    canned.says = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
    with (
        serving_layer.connect("http://elsewhere.invalid:8433") as connection,
        pytest.raises(EnvironmentFault, match="something else answers"),
    ):
        connection.sql("SELECT 1")
    assert canned.proxy_logins == [sent]


def test_a_proxy_that_is_none_of_http_is_refused(monkeypatch):
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(UsageError, match="one of HTTP"):
        serving_layer.connect("http://elsewhere.invalid:8433")
