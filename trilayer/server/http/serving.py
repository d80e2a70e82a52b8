"""Runs the application beside other servers, in an event loop that is there already."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from trilayer.server import accepting
from trilayer_core.errors import EnvironmentFault

logger = logging.getLogger("trilayer.server")

CLOSING_S = 3
"""How long answers that are being sent may take when the server ends, in seconds."""


CONNECTIONS = 1_024
"""How many connections there may be at once; others get status 503."""

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
    """

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.DONE:
            self.flow.resume_reading()
            if len(self.conn.trailing_data[0]) > MOST_AHEAD_BYTES:
                self.transport.close()

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # an answer has begun, or the client has ended its part
            self.transport.close()


class _Server(uvicorn.Server):
    """A server that leaves signals, and accepting connections, to others."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.beginnings = accepting.Tasks()
        """Connections that have not finished their handshake of TLS."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield

    def begin(self, accepted: socket.socket) -> None:
        """Answers the requests of a connection."""
        self.beginnings.begin(self._begin(accepted))

    async def _begin(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol, accepted, ssl=self.config.ssl
            )
        except OSError as error:  # such as a handshake of TLS that is none
            logger.debug("a client has left: %s", error)
            accepted.close()
        except BaseException:
            accepted.close()
            raise

    def _protocol(self) -> _Protocol:
        return _Protocol(self.config, self.server_state, self.lifespan.state)


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
    listening = _listening(host, port)
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
        timeout_graceful_shutdown=CLOSING_S,
        limit_concurrency=CONNECTIONS,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_unexpected)
    server = _Server(config)
    running = asyncio.create_task(server.serve([]))
    stopping = asyncio.create_task(stop.wait())
    try:
        while not server.started and not running.done():
            await asyncio.sleep(0.01)
        if not running.done():
            listening.listen(accepting.WAITING)
            with accepting.accepting([listening], server.begin):
                on_ready(listening.getsockname()[1])
                await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        await server.beginnings.end()
        # Clients that follow an answer would otherwise never leave.
        app.state.end()
        server.should_exit = True
        await running
        listening.close()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small parts at once only if the protocol is named.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise EnvironmentFault(
            f"the server can't listen on {host}:{port}: {error.strerror}; choose another port with"
            " --http-port, or any that is free with --any-port"
        ) from None
    listening.setblocking(False)
    return listening
