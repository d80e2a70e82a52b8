"""A connection to `trilayer serve`, with the methods of a connection to a store.

    with serving_layer.connect("http://127.0.0.1:8433") as connection:
        connection.sql("select * from delays_by_carrier").rows()

Answers come as Arrow streams, which are decoded while they come. One that ended early is never
taken for a complete one.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pyarrow as pa
from pydantic import TypeAdapter

from serving_layer.history import Version
from serving_layer.result import Provenance, Result, closed, without_hugeint
from trilayer_core.errors import (
    CoverageError,
    EnvironmentFault,
    IntegrityError,
    TrilayerError,
    UsageError,
)

SCHEMES = ("http://", "https://")
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The end of a complete Arrow stream."""

CONNECT_S = 10.0
ANSWER_S = 3_600.0
"""How long an answer may take at most. The server may allow less."""

_VERSIONS = TypeAdapter(list[Version])
_OWN_MACHINE = ("localhost", "127.0.0.1", "::1")
CONNECTIONS = 8
"""How many connections are kept for threads that ask at the same time."""


@dataclass(frozen=True)
class RemoteView:
    """A view of a server's catalog.

    Attributes:
        name: Its name.
        output: The columns of an answer.
        key_names: Those that identify a row.
        approximate: Its approximate columns, with how far they may be off, in words.
    """

    name: str
    output: Sequence[str]
    key_names: Sequence[str]
    approximate: Mapping[str, str]


@dataclass(frozen=True)
class RemoteName:
    """A query, stream or alert of a server's catalog.

    Attributes:
        name: Its name.
    """

    name: str


@dataclass(frozen=True)
class RemoteCatalog:
    """What a server answers.

    Attributes:
        views: The views.
        queries: The named queries.
        streams: The streams.
        alerts: The alerts.
    """

    views: Sequence[RemoteView]
    queries: Sequence[RemoteName]
    streams: Sequence[RemoteName]
    alerts: Sequence[RemoteName]


class RemoteSnapshot:
    """Answers of a server, based on one publication.

    A server answers each statement on the newest state. Two statements of one snapshot may
    therefore differ in events that have arrived in between; only a version is fixed, if one was
    chosen. Ask one statement for what must agree.
    """

    def __init__(self, connection: RemoteConnection, version: int | None) -> None:
        self._connection, self._version = connection, version

    @property
    def provenance(self) -> Provenance:
        """What an answer would be based on now."""
        return self.sql("SELECT 1").provenance

    def sql(self, query: str, layer: str = "merged") -> Result:
        """The complete answer to one SELECT; see `Snapshot.sql`.

        Raises:
            UsageError: The SQL is invalid, writes, or uses an unknown name; or the login is not
                allowed to ask.
            CoverageError: A view has no answer yet.
            IntegrityError: The answer has ended early, or the server's store is damaged.
            EnvironmentFault: The server does not answer.
        """
        return self._connection.ask(query, layer, self._version)


class RemoteConnection:
    """A connection to a server. Close it, or use it as a context manager.

    It can be used from several threads. What `Connection` has beside it, such as lookup tables of
    your own, needs a connection to the store.
    """

    def __init__(self, url: str, *, timeout_s: float = ANSWER_S) -> None:
        """Prepares it, without asking anything.

        Args:
            url: The address, such as http://127.0.0.1:8433. It may have the name and the
                password of a user, as http://NAME:PASSWORD@HOST:PORT.
            timeout_s: How long an answer may take.

        Raises:
            UsageError: The address is not one of HTTP.
        """
        parts = urlsplit(url)
        if not url.startswith(SCHEMES) or not parts.hostname:
            raise UsageError(
                "the address of a server must be http://HOST:PORT or https://HOST:PORT; got"
                f" {_shown(url)!r}"
            )
        login = unquote(parts.username or ""), unquote(parts.password or "")
        place = parts.netloc.rpartition("@")[2]
        self._address = f"{parts.scheme}://{place}"
        self._base = f"{self._address}{parts.path.rstrip('/')}"
        self._timeout_s = timeout_s
        self._client = _client(parts.hostname, login if any(login) else None, timeout_s)

    def __enter__(self) -> RemoteConnection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Every later use raises UsageError."""
        self._client.close()

    def _check_open(self) -> None:
        """Raises UsageError if the connection was closed."""
        if self._client.is_closed:
            raise closed()

    @cached_property
    def catalog(self) -> RemoteCatalog:
        """The definitions that the server answers: `.views`, `.queries`, `.streams`, `.alerts`."""
        document = self._get("/v1/catalog")
        with self._read():
            return RemoteCatalog(
                [
                    RemoteView(view["name"], view["output"], view["key"], view["approximate"])
                    for view in document["views"]
                ],
                *(
                    [RemoteName(entry["name"]) for entry in document[kind]]
                    for kind in ("queries", "streams", "alerts")
                ),
            )

    @contextmanager
    def snapshot(self, version: int | None = None) -> Iterator[RemoteSnapshot]:
        """Fixes the publication of several answers; see `RemoteSnapshot` for what it does not fix.

        Args:
            version: A kept publication, as listed by `history`; None for the newest state.
        """
        self._check_open()
        yield RemoteSnapshot(self, version)

    def sql(self, query: str, layer: str = "merged") -> Result:
        """The answer to one SELECT on the newest state; see `RemoteSnapshot.sql`."""
        return self.ask(query, layer, None)

    def history(self) -> list[Version]:
        """The publications kept for rollback, oldest first; see `Version`."""
        document = self._get("/v1/history")
        with self._read():
            return _VERSIONS.validate_python(document["publications"])

    def provenance(self) -> Provenance:
        """The provenance of the present answer, with the lag if the server's broker answers."""
        document = self._get("/v1/provenance")
        with self._read():
            return Provenance.from_json(document)

    def with_lag(self, provenance: Provenance) -> Provenance:
        """Adds the present lag to an earlier answer's provenance, if the server knows it."""
        body = {"provenance": provenance.to_json()}
        document = self._json("POST", "/v1/lag", body)
        with self._read():
            return Provenance.from_json(document)

    def ask(self, query: str, layer: str, version: int | None) -> Result:
        """The answer to one SELECT, based on a publication; see `RemoteSnapshot.sql`."""
        body = {
            "sql": query,
            "layer": layer,
            "version": version,
            "format": "arrow",
            "timeout_s": self._timeout_s,
        }
        with self._sent("POST", "/v1/sql", body) as response:
            with self._read():
                provenance = Provenance.from_json(
                    _parsed(response.headers["x-trilayer-provenance"])
                )
            read = _Read(response)
            try:
                with pa.ipc.open_stream(read) as stream:
                    table = stream.read_all()
            except (pa.ArrowException, OSError):
                raise self._cut_off() from None
            if read.read(1) or read.last != END:
                raise self._cut_off()
        return Result(without_hugeint(table), provenance)

    def _get(self, path: str) -> Any:
        return self._json("GET", path)

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        with self._sent(method, path, body) as response, self._read():
            return json.loads(response.read())

    @contextmanager
    def _read(self) -> Iterator[None]:
        """Reads what a server has sent, in the block. What it can't be is no server's of ours."""
        try:
            yield
        except (ValueError, LookupError, TypeError, RecursionError):
            raise self._foreign() from None

    @contextmanager
    def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> Iterator[httpx.Response]:
        """The response to a request, which is read in the block."""
        self._check_open()
        try:
            with self._client.stream(method, f"{self._base}{path}", json=body) as response:
                if response.status_code != 200:
                    raise self._error_of(response)
                yield response
        except httpx.ReadTimeout:
            raise EnvironmentFault(
                f"the server {self._address} must answer in time; it has not; ask again, or for"
                " less"
            ) from None
        except (httpx.ProtocolError, httpx.ReadError, httpx.WriteError, httpx.DecodingError):
            raise self._cut_off() from None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise EnvironmentFault(
                f"the server {self._address} can't be reached: {error}; start it with"
                " `trilayer serve`"
            ) from None

    def _error_of(self, response: httpx.Response) -> TrilayerError:
        """The error that the server has sent."""
        try:
            error = json.loads(response.read())["error"]
            code, message, hint = error["code"], error["message"], error["hint"]
        except (ValueError, LookupError, TypeError, RecursionError):
            return self._foreign()
        text = f"{message}; {hint}" if hint else str(message)
        for kind in (CoverageError, IntegrityError):
            if code == kind.sqlstate:
                return kind(text)
        if response.status_code in (400, 401, 403, 404, 413):
            return UsageError(text)
        return EnvironmentFault(text)

    def _cut_off(self) -> IntegrityError:
        return IntegrityError(
            f"the answer of {self._address} must be complete; it has ended early, so that it can't"
            " be used; ask again"
        )

    def _foreign(self) -> EnvironmentFault:
        return EnvironmentFault(
            f"{self._address} must be the HTTP port of `trilayer serve`; something else answers"
        )


class _Read:
    """The body of a response, as a file that Arrow reads.

    Attributes:
        last: The last bytes that were read, as many as `END` has.
    """

    closed = False

    def __init__(self, response: httpx.Response) -> None:
        self._parts, self._ahead, self.last = response.iter_bytes(), bytearray(), b""

    def read(self, size: int) -> bytes:
        """Reads so many bytes, and fewer only at the end."""
        while len(self._ahead) < size and (part := next(self._parts, None)) is not None:
            self._ahead += part
        data = bytes(self._ahead[:size])
        del self._ahead[:size]
        self.last = (self.last + data[-len(END) :])[-len(END) :]
        return data

    def close(self) -> None:
        """Does nothing: whoever sent the request closes the response."""


def _client(host: str, login: tuple[str, str] | None, timeout_s: float) -> httpx.Client:
    """A client of a server, by the proxy of the environment if it has one for it.

    Raises:
        UsageError: That proxy is none of HTTP.
    """
    try:
        return httpx.Client(
            auth=login,
            trust_env=host not in _OWN_MACHINE,
            verify=ssl.create_default_context(),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=CONNECTIONS),
            timeout=httpx.Timeout(timeout_s + CONNECT_S, connect=CONNECT_S),
        )
    except (ValueError, ImportError) as error:
        raise UsageError(
            f"the proxy of the environment must be one of HTTP; got another: {error}; set"
            f" http_proxy, https_proxy or all_proxy to another, or no_proxy to {host}"
        ) from None


def _parsed(text: str) -> Any:
    return TypeAdapter(dict[str, Any]).validate_json(text)


def _shown(url: str) -> str:
    """An address without its password."""
    head, at, tail = url.rpartition("@")
    return f"{head.partition('//')[0]}//…@{tail}" if at else url
