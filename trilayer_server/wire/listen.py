"""Listens for clients, and gives each a session."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import Callable

from serving_layer.snapshot import Layer
from trilayer_core.errors import UsageError
from trilayer_server import accepting, introspection
from trilayer_server.engine.pool import Pool
from trilayer_server.metrics import Metrics
from trilayer_server.sql_error import SqlError
from trilayer_server.users import is_loopback
from trilayer_server.wire import messages
from trilayer_server.wire.authentication import Access, authenticate
from trilayer_server.wire.client import Client
from trilayer_server.wire.connection import Connection
from trilayer_server.wire.messages import ProtocolFault, Startup
from trilayer_server.wire.session import Session
from trilayer_server.wire.setting import layer_in

logger = logging.getLogger("trilayer_server")

DATABASE = "trilayer"
STARTUP_S = 10.0
"""How long a client may take for its startup message, in seconds."""

CLOSING_S = 10.0
"""How long a client may take for what is left to read when its connection ends, in seconds."""

SPARE, SPARE_EACH = 64, 16
"""How many more clients, and of one address, may send the first message, which may be a CANCEL."""

MOST_STARTUP_BYTES = 10_000
MOST_BEGINNINGS = 3
"""One for each kind of encryption that a client may ask for, and the startup message."""

KEY_BYTES = 4

_VERSION = re.compile(r"[0-9]{1,18}")
_OPTION = re.compile(r"-c\s*search_path=(\S+)|--search_path=(\S+)")


class Server:
    """Answers the clients of PostgreSQL from a pool of workers."""

    def __init__(
        self, pool: Pool, access: Access, host: str, metrics: Metrics | None = None
    ) -> None:
        """Prepares it; `run` listens.

        Args:
            pool: The workers.
            access: Who may connect.
            host: The address on which it listens.
            metrics: What is measured.
        """
        self._pool, self._access, self._host = pool, access, host
        self._metrics = metrics or Metrics()
        self._sessions: dict[int, Session] = {}
        self._clients: Counter[str] = Counter()
        self._meetings = accepting.Tasks()
        self._pids = itertools.count(1)

    async def run(self, port: int, stop: asyncio.Event, on_ready: Callable[[int], None]) -> None:
        """Answers clients until `stop` is set.

        Args:
            port: The port; 0 for any that is free.
            stop: Ends it.
            on_ready: Called with the port once clients can connect.

        Raises:
            EnvironmentFault: The port is taken.
        """
        try:
            async with accepting.listening(self._host, port, "--port") as sockets:
                with accepting.accepting(sockets, self._begin):
                    on_ready(sockets[0].getsockname()[1])
                    await stop.wait()
        finally:
            await self._meetings.end()

    def _begin(self, accepted: socket.socket) -> None:
        self._meetings.begin(self._greet(accepted))

    async def _greet(self, accepted: socket.socket) -> None:
        try:
            streams = await accepting.connected(accepted)
        except OSError as error:
            logger.debug("a client has left: %s", error)
        else:
            await self._meet(*streams)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one client, from its first message on."""
        address = str((writer.get_extra_info("peername") or ("",))[0])
        client = accepting.client_of(address)
        self._clients[client] += 1
        try:
            self._admit(client, SPARE, SPARE_EACH)
            async with asyncio.timeout(STARTUP_S):
                startup, encrypted = await _startup(reader, writer, self._access.tls)
            if startup.code == messages.CANCEL:
                if (session := self._sessions.get(startup.pid)) is not None:
                    session.cancel(startup.secret)
                return
            self._admit(client)
            if self._access.encrypted and not encrypted:
                raise SqlError("28000", "the connection must be encrypted", "Set sslmode=require")
            async with asyncio.timeout(STARTUP_S):
                user = startup.options.get("user", "")
                is_local = is_loopback(self._host) and is_loopback(address)
                users = self._access.users
                is_proven = await authenticate(reader, writer, users, user, is_local=is_local)
            session = self._session(startup, user if is_proven else address, reader, writer)
            self._sessions[session.pid] = session
            try:
                await session.run(startup)
            finally:
                del self._sessions[session.pid]
        except SqlError as error:
            writer.write(messages.error_response(error, "FATAL"))
        except ProtocolFault as error:
            writer.write(messages.fatal("08P01", str(error)))
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            logger.debug("a client has left: %s", error)
        except Exception:
            logger.exception("a connection has failed unexpectedly")
            writer.write(messages.fatal("XX000", "internal error", "The server's log has more"))
        finally:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]
            left_bytes = writer.transport.get_write_buffer_size()
            writer.close()
            if left_bytes:  # one that does not read it would keep a descriptor and no longer count
                asyncio.get_running_loop().call_later(CLOSING_S, writer.transport.abort)

    def _session(
        self,
        startup: Startup,
        who: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> Session:
        """The session of a client, which asks as `who`.

        Raises:
            SqlError: There is no such layer or database.
        """
        layer, version = _chosen(startup)
        secret = secrets.token_bytes(KEY_BYTES)
        client = Client(self._pool, who, version)
        info = introspection.SessionInfo(
            startup.options.get("database", DATABASE),
            startup.options.get("user", ""),
            layer,
            startup.options.get("application_name", ""),
            pid=next(self._pids),
        )
        return Session(Connection(reader, writer), client, info, self._metrics, secret)

    def _admit(self, client: str, spare: int = 0, spare_each: int = 0) -> None:
        """Raises SqlError if there are too many clients."""
        limits = self._pool.limits
        if self._clients.total() > limits.connections + spare:
            raise SqlError("53300", f"at most {limits.connections} clients may be connected")
        if self._clients[client] > limits.client_connections + spare_each:
            most = limits.client_connections
            raise SqlError("53300", f"at most {most} clients may be connected from one address")


def check_exposed(host: str, access: Access) -> None:
    """Checks that only this machine reaches an address, or else that clients must be known.

    Raises:
        UsageError: The address can be reached from elsewhere, without passwords or encryption.
    """
    if is_loopback(host):
        return
    steps = {}
    if not access.users.all():
        steps["users"] = "add them with `trilayer user add NAME`"
    if not (access.tls and access.encrypted):
        steps["a certificate"] = "set serve.certificate and serve.key"
    if steps:
        raise UsageError(
            "an address that others reach must have passwords and encryption; got"
            f" {host} without {' and without '.join(steps)}; {', and '.join(steps.values())}"
        )


async def _startup(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext | None
) -> tuple[Startup, bool]:
    """Reads the first message, and says whether it came encrypted.

    If encryption is declined, the client begins again.
    """
    encrypted = False
    for _ in range(MOST_BEGINNINGS):
        length = int.from_bytes(await reader.readexactly(4), "big")
        if not 8 <= length <= MOST_STARTUP_BYTES:
            raise ProtocolFault(
                f"a startup message must have 8 to {MOST_STARTUP_BYTES:,} bytes; got {length:,}"
            )
        startup = messages.startup(await reader.readexactly(length - 4))
        if startup.code not in (messages.TLS, messages.GSSAPI):
            return startup, encrypted
        if startup.code == messages.TLS and tls is not None and not encrypted:
            if reader._buffer:  # type: ignore[attr-defined]  # no other way to see it
                raise ProtocolFault("nothing may be sent before the connection is encrypted")
            writer.write(b"S")
            await writer.drain()
            await writer.start_tls(tls)
            encrypted = True
        else:
            writer.write(b"N")
            await writer.drain()
    raise ProtocolFault("encryption may be asked for once of each kind; it was asked for again")


def _chosen(startup: Startup) -> tuple[Layer, int | None]:
    """The layer and the version that a client asks for.

    Raises:
        SqlError: There is no such layer or database.
    """
    option = _OPTION.search(startup.options.get("options", ""))
    given = startup.options.get("search_path") or (option and (option[1] or option[2])) or ""
    layer = layer_in(given) or "merged"
    database, at, version = startup.options.get("database", DATABASE).partition("@")
    if database != DATABASE or (at and not _VERSION.fullmatch(version)):
        raise SqlError(
            "3D000",
            f"database must be {DATABASE} or {DATABASE}@VERSION; got {database}{at}{version}",
        )
    return layer, int(version) if at else None
