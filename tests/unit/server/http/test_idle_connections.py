"""Connections that send nothing, or half of something: nobody else notices, and they end."""

import asyncio
import socket
import ssl
from contextlib import ExitStack, suppress

import pytest

from tests.support.certificates import write_certificate
from tests.support.served_http import ScriptedEngine, opened
from tests.support.waiting import until
from trilayer_server import accepting
from trilayer_server.http import serving as web
from trilayer_server.http.serving import serve

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
BODY = b"POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def connected(port, address="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", port), 20, source_address=(address, 0))


def read_all(client):
    """What comes until the server ends the connection."""
    parts = []
    try:
        while part := client.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def test_one_client_leaves_connections_to_others(serving, monkeypatch):
    monkeypatch.setattr(web, "CONNECTIONS", 4)
    monkeypatch.setattr(web, "CONNECTIONS_EACH", 3)
    served = serving()
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(served.port))
        with connected(served.port) as refused:
            assert read_all(refused).startswith(b"HTTP/1.1 503 ")
        with connected(served.port, "127.0.0.2") as other:
            other.sendall(HEAD + b"Connection: close\r\n\r\n")
            assert read_all(other).startswith(b"HTTP/1.1 200 ")

    def is_free():
        with connected(served.port) as client:
            client.sendall(HEAD + b"Connection: close\r\n\r\n")
            return read_all(client).startswith(b"HTTP/1.1 200 ")

    until(is_free)


LATE = [
    b"",
    b"G",
    HEAD,
    HEAD + b"\r\n" + HEAD,
    HEAD + b"\r\nG",
    BODY + b"Content-Length: 100\r\n\r\n",
    BODY + b'Content-Length: 100\r\n\r\n{"sql": ',
    BODY + b"Transfer-Encoding: chunked\r\n\r\n5\r\n",
    HEAD + b"Content-Length: 100\r\n\r\n",
]


def test_what_is_not_sent_in_time_ends_the_connection(serving, monkeypatch):
    monkeypatch.setattr(web, "HEAD_S", 0.2)
    monkeypatch.setattr(web, "BODY_S", 0.3)
    served = serving()
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(served.port)) for _ in LATE]
        for client, sent in zip(clients, LATE, strict=True):
            with suppress(ConnectionError):  # so late that the connection has ended already
                client.sendall(sent)
        for client, sent in zip(clients, LATE, strict=True):
            assert read_all(client).count(b"HTTP/1.1 ") <= sent.count(b"\r\n\r\n")


@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n"])
def test_an_end_of_an_answer_that_is_not_read_ends_the_connection(serving, monkeypatch, more):
    monkeypatch.setattr(web, "HEAD_S", 0.2)
    monkeypatch.setattr(web, "UNREAD_S", 0.2)
    lost = []
    monkeypatch.setattr(
        web._Protocol, "connection_lost", _recorded(web._Protocol.connection_lost, lost)
    )
    served = serving(a=[b'"' + b"x" * 1_000_000 + b'"'])
    with connected(served.port) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_024)
        body = b'{"sql": "a"}'
        client.sendall(BODY + more + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: lost)


def _recorded(method, calls):
    def recorded(self, *given):
        calls.append(given)
        return method(self, *given)

    return recorded


def test_a_handshake_of_tls_is_ended_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(web, "HEAD_S", 0.2)
    monkeypatch.setattr(web, "CONNECTIONS_EACH", 1)

    def wait(port):
        for _ in range(3):  # the next one finds room once the one before has ended
            with connected(port) as client:
                assert read_all(client) == b""

    _encrypted(tmp_path, wait)


def test_an_encrypted_connection_ends_whose_client_leaves_while_more_is_unread(
    tmp_path, monkeypatch
):
    """asyncio closes no encrypted connection whose client has left while it is not read."""
    monkeypatch.setattr(web, "HEAD_S", 60.0)
    lost = []
    monkeypatch.setattr(
        web._Protocol, "connection_lost", _recorded(web._Protocol.connection_lost, lost)
    )
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    chunked = BODY + b"Transfer-Encoding: chunked\r\n\r\n"
    many = b"a: b\r\n" * 1_000
    kinds = {
        "no request": b"no request\r\n\r\n",
        "many headers": HEAD + many,
        "a wrong length": BODY + b"Content-Length: -1\r\n\r\n",
        "a wrong chunk": chunked + b"xyz\r\n",
        "a wrong chunk after a long one": chunked + b"1f40\r\n%8000d\r\nxyz\r\n" % 0,
        "no request after one": HEAD + b"\r\nno request\r\n\r\n",
        "requests ahead": (HEAD + b"\r\n") * 5_000,
        "a last one, and more": HEAD + b"Connection: close\r\n\r\n",
    }

    def leave(port):
        with ExitStack() as stack:
            for sent in kinds.values():
                for more in (0, 3_000, 10_000, 100_000):
                    client = stack.enter_context(trust.wrap_socket(connected(port)))
                    client.settimeout(1)
                    with suppress(OSError):
                        client.sendall(sent + b"x" * more)
                        # Not that of TLS, which would end the encryption in an orderly way.
                        socket.socket.shutdown(client, socket.SHUT_WR)
            until(lambda: len(lost) == 4 * len(kinds))

    _encrypted(tmp_path, leave)


def _encrypted(folder, use):
    """Calls `use` with the port of an encrypted server, in another thread."""
    made, at = opened(folder, engine=ScriptedEngine()), write_certificate(folder)

    async def run():
        stop, ports = asyncio.Event(), asyncio.Queue()
        running = asyncio.create_task(
            serve(
                made.served._app,
                0,
                stop,
                ports.put_nowait,
                "127.0.0.1",
                certificate=at / "cert.pem",
                key=at / "key.pem",
            )
        )
        try:
            await asyncio.to_thread(use, await ports.get())
        finally:
            stop.set()
            await running

    asyncio.run(run())


@pytest.mark.parametrize(
    ("addresses", "client"),
    [
        (["192.0.2.1", "::ffff:192.0.2.1"], "192.0.2.1"),
        (["2001:db8::1", "2001:db8::ffff:1", "2001:db8::2%eth0"], "2001:db8::/64"),
        (["::1", "0:0::1"], "::1"),
        (["", "somewhere"], None),
    ],
)
def test_the_addresses_of_one_client(addresses, client):
    assert {accepting.client_of(address) for address in addresses} == (
        {client} if client else {*addresses}
    )
