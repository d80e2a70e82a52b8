"""Who may connect: passwords by SCRAM, encryption, and addresses that others reach."""

import asyncio
import base64
import socket
import ssl
import struct

import asyncpg
import pg8000.native
import psycopg
import pytest

from tests.support.certificates import write_certificate
from tests.support.sales import catalog_on
from tests.support.served import Served
from trilayer_core.errors import SettingsError, UsageError
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server import serving
from trilayer_server.settings import ServeSettings
from trilayer_server.users import Users, Verifier
from trilayer_server.wire import scram
from trilayer_server.wire.authentication import Access
from trilayer_server.wire.listen import check_exposed
from trilayer_server.wire.messages import ProtocolFault

PASSWORD = "pencil ①"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return write_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    users = Users(tmp_path_factory.mktemp("users") / "users.json")
    users.put("ann", PASSWORD, "reader")
    users.put("bob", "other", "admin")
    return users


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, certificate, users):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    store = Store(str(tmp_path_factory.mktemp("guarded") / "store"))
    with Served(catalog_on("sales"), Settings(), store, access=Access(users, tls, True)) as served:
        yield served


def connect(served, certificate, **options):
    given = {
        "host": "localhost",
        "port": served.port,
        "user": "ann",
        "password": PASSWORD,
        "dbname": "trilayer",
        "sslmode": "verify-full",
        "sslrootcert": str(certificate / "cert.pem"),
    }
    return psycopg.connect(**(given | options))


def test_a_password_over_tls(guarded, certificate):
    with connect(guarded, certificate) as client:
        assert client.execute("SELECT 1").fetchone() == (1,)
        assert client.pgconn.used_password
        assert client.pgconn.ssl_in_use


def test_pg8000_and_asyncpg_prove_a_password(guarded, certificate):
    tls = ssl.create_default_context(cafile=certificate / "cert.pem")
    with pg8000.native.Connection(
        "ann", host="localhost", port=guarded.port, password=PASSWORD, ssl_context=tls
    ) as client:
        assert client.run("SELECT 1") == [[1]]

    async def ask():
        client = await asyncpg.connect(
            host="localhost", port=guarded.port, user="ann", password=PASSWORD, ssl=tls,
            database="trilayer",
        )  # fmt: skip
        found = await client.fetchval("SELECT 41 + 1")
        await client.close()
        return found

    assert asyncio.run(ask()) == 42


@pytest.mark.parametrize(
    "options",
    [{"password": "wrong"}, {"user": "nobody"}, {"user": "bob"}, {"password": PASSWORD + "x"}],
)
def test_whoever_proves_nothing_is_refused(guarded, certificate, options):
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(guarded, certificate, **options)


def test_without_encryption_no_password_is_asked_for(guarded, certificate):
    with pytest.raises(psycopg.OperationalError, match="must be encrypted"):
        connect(guarded, certificate, sslmode="disable")


def test_the_users_of_a_file_are_read_again(tmp_path):
    path = tmp_path / "users.json"
    users = Users(path)
    assert users.role("ann", "a") is None
    Users(path).put("ann", "a", "admin")
    assert users.role("ann", "a") == "admin"
    assert users.role("ann", "b") is None
    assert "a" not in path.read_text().split('"verifier"')[1].split("$")[0]
    Users(path).remove("ann")
    assert users.role("ann", "a") is None
    with pytest.raises(UsageError, match="no user 'ann'"):
        users.remove("ann")
    path.write_text('{"ann": {"role": "king", "verifier": ""}}')
    with pytest.raises(SettingsError, match="role must be one of reader, admin"):
        users.all()


def test_a_verifier_is_that_of_postgresql():
    """RFC 7677 has an example, whose proof fits the verifier of its password."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    verifier = Verifier.of("pencil", salt, 4096)
    assert Verifier.parse(str(verifier)) == verifier
    exchange = scram.Exchange(verifier, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert exchange.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert (
        exchange.final(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        )
        == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (b"p=tls-unique,,n=,r=abc", b""),
        (b"n,,n=", b""),
        (b"\xff", b""),
        (b"n,,n=,r=abc", b"c=biws,r=abc,p=AAAA"),
        (b"n,,n=,r=abc", b"c=eSws,r=abcxyz,p=AAAA"),
        (b"n,,n=,r=abc", b"c=biws,r=abcxyz,p=*"),
        (b"n,,n=,r=abc", "c=biws,r=abcxyz,p=ä".encode()),
    ],
)
def test_what_is_no_proof(first, last):
    with pytest.raises(ProtocolFault):
        _prove(first, last)


def _prove(first, last):
    exchange = scram.Exchange(Verifier.of("x"), "xyz")
    exchange.first(first)
    exchange.final(last)


def test_an_address_that_others_reach_needs_passwords_and_encryption(users, tmp_path):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    nobody = Users(tmp_path / "none.json")
    for host in ("127.0.0.1", "localhost", "::1", "127.0.0.2"):
        check_exposed(host, Access(nobody))
    for access in (Access(nobody), Access(users), Access(nobody, tls, True), Access(users, tls)):
        for host in ("0.0.0.0", "::", "10.1.2.3", "some.host"):
            with pytest.raises(UsageError, match="passwords and encryption"):
                check_exposed(host, access)
    check_exposed("0.0.0.0", Access(users, tls, True))


def test_a_server_that_others_reach_does_not_start_without_them(tmp_path):
    settings = Settings(serve={"host": "0.0.0.0"}, home=tmp_path)
    project = Project(settings, catalog_on("sales"), Store(str(tmp_path / "store")))
    with pytest.raises(UsageError, match="passwords and encryption"):
        asyncio.run(serving.serve(project, asyncio.Event(), lambda at: None))


def test_clients_of_one_address_leave_room_for_others(tmp_path):
    limits = serving.limits(ServeSettings(connections=10, connections_each=2))
    store = Store(str(tmp_path / "store"))
    with Served(catalog_on("sales"), Settings(), store, limits) as served:
        with served.client(), served.client():
            with pytest.raises(psycopg.OperationalError, match=r"at most 2 .* from one address"):
                served.client()
            with _connected(served.port, "127.0.0.2") as other:
                assert other.recv(1) == b"R"
        served.client().close()


def test_clients_of_all_addresses_are_limited(tmp_path):
    limits = serving.limits(ServeSettings(connections=2))
    store = Store(str(tmp_path / "store"))
    with (
        Served(catalog_on("sales"), Settings(), store, limits) as served,
        _connected(served.port, "127.0.0.2") as first,
        _connected(served.port, "127.0.0.3") as second,
    ):
        assert (first.recv(1), second.recv(1)) == (b"R", b"R")
        with _connected(served.port, "127.0.0.4") as third:
            assert b"at most 2 clients may be connected\0" in third.recv(1_000)


def _connected(port, address):
    """A client of an address of its own, which has sent its startup message."""
    made = socket.create_connection(("127.0.0.1", port), source_address=(address, 0), timeout=30)
    body = struct.pack(">i", 3 << 16) + b"user\0a\0database\0trilayer\0\0"
    made.sendall(struct.pack(">i", len(body) + 4) + body)
    return made
