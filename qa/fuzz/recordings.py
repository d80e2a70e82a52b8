"""What real clients send: psycopg, asyncpg, pg8000 and httpx, recorded between them and the server.

A recording of PostgreSQL's protocol is a list of messages, the first of which has no type; one of
HTTP is a list of requests.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import asyncpg
import httpx
import pg8000.native
import psycopg

TLS_REQUEST = bytes.fromhex("0000000804d2162f")

QUERIES = [
    "SELECT count(*) FROM by_minute",
    "SELECT buyer, sum(revenue) AS r FROM by_minute GROUP BY buyer ORDER BY buyer",
    "SELECT i, 'x' || i FROM range(20000) t(i)",
]
PATHS = [
    "/v1/session",
    "/v1/catalog",
    "/v1/status",
    "/v1/provenance",
    "/v1/history",
    "/v1/reconciliation?view=by_minute&version=2&kind=differ&limit=10",
    "/v1/quarantine?stream=sales&limit=5&all=true",
    "/v1/sql",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/console/",
]


class Relay:
    """Passes connections on to a port, and keeps what their clients send."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.sent: list[bytearray] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accepts nobody any more."""
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                kept = bytearray()
                self.sent.append(kept)
                for source, to, keeps in ((client, server, kept), (server, client, None)):
                    threading.Thread(target=_pass, args=(source, to, keeps), daemon=True).start()


def _pass(source: socket.socket, to: socket.socket, keeps: bytearray | None) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            if keeps is not None:
                keeps += data
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)


@contextmanager
def _recorded(port: int) -> Iterator[Relay]:
    relay = Relay(port)
    try:
        yield relay
    finally:
        relay.close()


def wire(port: int) -> list[list[bytes]]:
    """Records conversations of clients of PostgreSQL."""
    conversations = []
    for talk in (_psycopg, _psycopg_copies, _psycopg_cancels, _pg8000, _asyncpg):
        with _recorded(port) as relay:
            talk(relay.port)
            conversations += [messages(bytes(sent)) for sent in relay.sent]
    return conversations


def messages(data: bytes) -> list[bytes]:
    """The messages of one connection's client."""
    split, at, begun = [], 0, False
    while at < len(data):
        head = 1 if begun else 0
        length = int.from_bytes(data[at + head : at + head + 4], "big")
        message = data[at : at + head + length]
        begun = begun or message[4:6] == b"\x00\x03"
        split.append(message)
        at += len(message)
    return split


def http(port: int) -> list[list[bytes]]:
    """Records requests of a client of HTTP."""
    with (
        _recorded(port) as relay,
        httpx.Client(
            base_url=f"http://localhost:{relay.port}", trust_env=False, timeout=60
        ) as client,
    ):
        for path in PATHS:
            client.get(path)
        for format_ in ("json", "csv", "arrow"):
            body = {"sql": QUERIES[1], "format": format_, "max_rows": 2, "id": f"one-{format_}"}
            client.post("/v1/sql", json=body)
        body = {"sql": "SELECT $1, $2", "params": [1, "a"], "layer": "batch", "version": 1}
        client.post("/v1/sql", json={**body, "timeout_s": 5.5})
        client.post("/v1/sql", content=_parts(), headers={"Content-Type": "application/json"})
        provenance = client.get("/v1/provenance").json()
        client.post("/v1/lag", json={"provenance": provenance})
        client.post("/v1/rollback", json={"version": 1, "hold": True, "why": "a try"})
        client.post("/v1/quarantine/replay", json={"records": [{"stream": "sales"}]})
        client.delete("/v1/sql/one-json")
        asked = {"sql": "by_minute", "key": "buyer,minute"}
        with client.stream(
            "GET", "/v1/subscribe", params=asked, headers={"Last-Event-ID": "2-abc"}
        ) as events:
            next(events.iter_lines())
        return [requests(bytes(sent)) for sent in relay.sent if sent]


def _parts() -> Iterator[bytes]:
    """A body that is sent in chunks."""
    yield b'{"sql": '
    yield b'"SELECT 1"}'


def requests(data: bytes) -> list[bytes]:
    """The requests of one connection: each begins at the line that names its method."""
    starts = [
        at
        for method in (b"GET /", b"POST /", b"DELETE /")
        for at in _places(data, method)
        if b" HTTP/1.1\r\n" in data[at : at + 1_000]
    ]
    ends = [*sorted(starts)[1:], len(data)]
    return [data[start:end] for start, end in zip(sorted(starts), ends, strict=True)]


def _places(data: bytes, sought: bytes) -> Iterator[int]:
    at = data.find(sought)
    while at >= 0:
        yield at
        at = data.find(sought, at + 1)


def _psycopg(port: int) -> None:
    address = f"host=127.0.0.1 port={port} dbname=trilayer user=fuzz"
    with psycopg.connect(address) as client:
        for binary in (False, True):
            cursor = client.cursor(binary=binary)
            cursor.execute(QUERIES[1])
            cursor.execute("SELECT %s::bigint + 1, %s", (41, "text"), prepare=True)
            cursor.execute("SELECT %s::bigint + 1, %s", (42, None), prepare=True)
        client.rollback()
        with suppress(psycopg.Error):
            client.execute("SELECT nothing")
        client.rollback()
    with psycopg.connect(address, autocommit=True, options="-csearch_path=batch") as client:
        client.execute("SET statement_timeout = '4s'")
        client.execute("SELECT 1; SELECT 2; BEGIN; SELECT 3; COMMIT")
        for row in client.cursor().stream(QUERIES[2]):
            assert row
        client.execute("SELECT relname FROM pg_catalog.pg_class")
        with client.pipeline():
            client.execute("SELECT 1")
            client.execute("SELECT 2")


def _psycopg_copies(port: int) -> None:
    with psycopg.connect(
        f"host=127.0.0.1 port={port} dbname=trilayer@1 user=fuzz", autocommit=True
    ) as client:
        for options in ("", "(FORMAT binary)", "(FORMAT csv, HEADER)"):
            with client.cursor().copy(f"COPY by_minute TO STDOUT {options}") as copy:
                for data in copy:
                    assert data


def _psycopg_cancels(port: int) -> None:
    with psycopg.connect(
        f"host=127.0.0.1 port={port} dbname=trilayer user=fuzz", autocommit=True
    ) as client:
        threading.Timer(0.5, client.cancel_safe).start()
        with suppress(psycopg.errors.QueryCanceled):
            client.execute("SELECT count(*) FROM range(100000000000)")


def _pg8000(port: int) -> None:
    client = pg8000.native.Connection("fuzz", host="127.0.0.1", port=port, database="trilayer")
    client.run(QUERIES[0])
    statement = client.prepare("SELECT :n")
    statement.run(n=1)
    statement.close()
    client.close()


def _asyncpg(port: int) -> None:
    asyncio.run(_asyncpg_talks(port))


async def _asyncpg_talks(port: int) -> None:
    client = await asyncpg.connect(f"postgresql://fuzz@127.0.0.1:{port}/trilayer", ssl=False)
    await client.fetch("SELECT $1::int[], $2::text", [1, None, 3], "a")
    async with client.transaction(readonly=True):
        async for _ in client.cursor(QUERIES[2], prefetch=5_000):
            pass
    await client.close()
