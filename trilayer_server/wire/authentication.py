"""Who a client is: nobody in particular, or a user who proves a password by SCRAM-SHA-256."""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass

from trilayer_core.errors import SettingsError
from trilayer_server.sql_error import SqlError
from trilayer_server.users import Users
from trilayer_server.wire import messages, scram
from trilayer_server.wire.messages import Body, ProtocolFault

logger = logging.getLogger("trilayer_server")

MOST_BYTES = 10_000
"""The length of the longest message that a client may send before it is known."""


@dataclass(frozen=True)
class Access:
    """Who may connect, and how.

    Attributes:
        users: The users; if there are any, every client must prove to be one.
        tls: The server's certificate and key; None for no encryption.
        encrypted: Whether a client must encrypt.
    """

    users: Users
    tls: ssl.SSLContext | None = None
    encrypted: bool = False


async def authenticate(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    users: Users,
    name: str,
    *,
    is_local: bool,
) -> bool:
    """Has a client prove that it is the user with a name.

    Args:
        reader: What the client sends.
        writer: Where the server's part of the exchange goes.
        users: The users.
        name: The user's name.
        is_local: Whether the client needs no password as long as there are no users.

    Returns:
        Whether it has; False if there are no users.

    Raises:
        SqlError: It is not, or the users can't be read.
        ProtocolFault: It sends something else.
    """
    try:
        accounts = users.all()
    except SettingsError as error:
        logger.error("a client is refused: %s", error)
        raise SqlError(
            "28000", "the users of this server can't be read", "The server's log has more"
        ) from None
    if not accounts:
        if is_local:
            return False
        raise SqlError(
            "28000",
            "a server that others reach must have users; it has none",
            "Add one on its machine: `trilayer user add NAME`",
        )
    user = accounts.get(name)
    exchange = scram.Exchange(user.verifier if user else users.pretended(name))
    writer.write(messages.sasl([scram.MECHANISM]))
    body = await _answer(reader, writer)
    mechanism, size = body.text(), body.int32()
    if mechanism != scram.MECHANISM:
        raise ProtocolFault(f"the mechanism must be {scram.MECHANISM}; got {mechanism}")
    writer.write(messages.sasl_continue(exchange.first(body.take(size))))
    proven = exchange.final((await _answer(reader, writer)).rest)
    if proven is None or user is None:
        raise SqlError("28P01", f'password authentication failed for user "{name}"')
    writer.write(messages.sasl_final(proven))
    return True


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Body:
    await writer.drain()
    kind = await reader.readexactly(1)
    length = int.from_bytes(await reader.readexactly(4), "big")
    if kind != b"p" or not 4 <= length <= MOST_BYTES:
        raise ProtocolFault(f"a password message must come; got {kind!r} of {length} bytes")
    return Body(await reader.readexactly(length - 4))
