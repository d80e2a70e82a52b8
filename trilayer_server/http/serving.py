"""Runs the application beside other servers, in an event loop that is there already."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from trilayer_server import accepting
from trilayer_server.engine.query import STATEMENT_BYTES

logger = logging.getLogger("trilayer_server")

CLOSING_S = 3
"""How long answers that are being sent may take when the server ends, in seconds."""


CONNECTIONS, CONNECTIONS_EACH = 1_024, 768
"""How many connections there may be at once, and of one client; others get status 503."""

HEAD_S, BODY_S = 10.0, 60.0
"""How long a client may take for the handshake of TLS or the head of a request, which begins when
it may send one, and how long for the body, in seconds.
"""

UNREAD_S = 60.0
"""How long a client may take to read the end of an answer, in seconds."""

_END = "end"
"""That a connection ends is awaited, and nothing more of its client."""

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 20\r\n\r\n"
    b"too many connections"
)
"""What a client gets for which there is no room. There is none for a handshake of TLS either."""

PART_BYTES = 2_048
"""How much of a client is read before others are answered: each byte may be a part of a body."""

MOST_HEAD_BYTES, MOST_LINES = 3 * STATEMENT_BYTES + 16_384, 200
"""The longest head of a request, whose address may have a statement, and its most lines."""

MOST_AHEAD_BYTES = 65_536
"""How much a client may send of further requests while one is answered."""

CUT_OFF = "ASGI callable returned without completing response"
"""What uvicorn reports as an error of the application. An answer is cut off so on purpose."""


LEFT = "'NoneType' object has no attribute '_write_appdata'"
"""What asyncio raises when an answer is sent by TLS to a client that has just left."""


def _is_unexpected(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    has_left = isinstance(error, AttributeError) and str(error) == LEFT
    # A client that sends what is no request while it is answered gets no answer.
    is_no_client = isinstance(error, h11.LocalProtocolError)
    return not has_left and not is_no_client and not record.getMessage().startswith(CUT_OFF)


class _Protocol(H11Protocol):
    """A connection that also ends if its client leaves, or sends what is no request, meanwhile.

    uvicorn does not read on while a further request waits, and so would not see its client leave.
    It has no time limit for what a client sends either.
    """

    def __init__(self, *given: Any, on_lost: Callable[[], None]) -> None:
        super().__init__(*given)
        self._on_lost, self.is_made = on_lost, False
        self._awaited: object = None
        self._limit: asyncio.TimerHandle | None = None
        self._unread, self._lines = b"", 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.is_made = True
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._limit_to(None)
        self._on_lost()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._awaited = None
        self._expect()

    def _expect(self) -> None:
        """Limits the time of what the client does next, if that is another part than before."""
        if self not in self.connections:  # it is lost
            return
        closing = self.transport.is_closing()  # once the end of the answer was read
        if (awaited := _END if closing else self.conn.their_state) is not self._awaited:
            self._awaited, self._lines = awaited, 0
            limits = {h11.IDLE: HEAD_S, h11.SEND_BODY: BODY_S, _END: UNREAD_S}
            self._limit_to(limits.get(awaited))
        if closing:
            # If its client has left meanwhile, asyncio closes an encrypted connection only while
            # it is read. One that is closed twice it forgets, and raises AttributeError.
            with suppress(AttributeError):
                self.transport.resume_reading()

    def _limit_to(self, seconds: float | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._limit = self.loop.call_later(seconds, self._late) if seconds else None

    def _late(self) -> None:
        if self.transport.get_write_buffer_size() and self._awaited is h11.IDLE:
            self._awaited = None  # it is not late again
            self._limit_to(UNREAD_S)
        else:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._unread:
            self._unread += data
            self.transport.pause_reading()
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        """Reads a part of what has come, and the rest once others were answered."""
        self._unread = data[PART_BYTES:]
        self._read_part(data[:PART_BYTES])
        if self._unread and not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_soon(self._read_on)
        elif not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self._read(self._unread)
        else:
            self._expect()

    def _read_part(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            self._lines += data.partition(b"\r\n\r\n")[0].count(b"\n")
            if self._lines > MOST_LINES:
                self.send_400_response("Too many headers.")
                self._expect()
                return
        super().data_received(data)
        if self.conn.their_state is h11.DONE:
            self.flow.resume_reading()
            if len(self.conn.trailing_data[0]) > MOST_AHEAD_BYTES:
                self.transport.close()
        self._expect()

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # an answer has begun, or the client has ended its part
            self.transport.close()


class _Server(uvicorn.Server):
    """A server that leaves signals, and accepting connections, to others."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._clients = accepting.Clients(CONNECTIONS, CONNECTIONS_EACH)
        self.beginnings = accepting.Tasks()
        """Connections that have not finished their handshake of TLS."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield

    def begin(self, accepted: socket.socket) -> None:
        """Answers the requests of a connection."""
        try:
            client = accepting.client_of(accepted.getpeername()[0])
        except OSError:  # it has left
            accepted.close()
            return
        if self._clients.enter(client):
            self.beginnings.begin(self._begin(accepted, partial(self._clients.leave, client)))
            return
        if not self.config.is_ssl:
            with suppress(OSError):
                accepted.send(BUSY)
        accepted.close()

    async def _begin(self, accepted: socket.socket, on_lost: Callable[[], None]) -> None:
        protocol = _Protocol(self.config, self.server_state, self.lifespan.state, on_lost=on_lost)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self.config.ssl,
                ssl_handshake_timeout=HEAD_S if self.config.is_ssl else None,
            )
        except OSError as error:  # such as a handshake of TLS that is none
            logger.debug("a client has left: %s", error)
            accepted.close()
        except BaseException:
            accepted.close()
            raise
        finally:
            if not protocol.is_made:  # it is not told then that it is lost
                on_lost()


async def serve(
    app: FastAPI,
    port: int,
    stop: asyncio.Event,
    on_ready: Callable[[int], None],
    host: str,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
) -> None:
    """Answers by HTTP until `stop` is set.

    Args:
        app: The application.
        port: The port; 0 for any that is free.
        stop: Ends it.
        on_ready: Called with the port once clients can connect.
        host: The address.
        certificate: The server's certificate chain; None for no encryption.
        key: Its private key.

    Raises:
        EnvironmentFault: The port is taken.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        # httptools, which is taken where it is installed, lets a client that has sent a further
        # request leave without telling the answer that is being sent: it would never end.
        http=_Protocol,
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
        timeout_graceful_shutdown=CLOSING_S,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_unexpected)
    async with accepting.listening(host, port, "--http-port") as sockets:
        server = _Server(config)
        running = asyncio.create_task(server.serve([]))
        stopping = asyncio.create_task(stop.wait())
        try:
            while not server.started and not running.done():
                await asyncio.sleep(0.01)
            if not running.done():
                with accepting.accepting(sockets, server.begin):
                    on_ready(sockets[0].getsockname()[1])
                    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await server.beginnings.end()
            # Clients that follow an answer would otherwise never leave.
            app.state.end()
            server.should_exit = True
            await running
