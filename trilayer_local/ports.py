"""Choosing ports on this machine."""

import secrets
import socket

from trilayer_core.errors import ConflictError

FIRST, BEHIND_LAST = 20_000, 32_768
"""Where ports are chosen: below those that Linux, macOS and Windows give to connections."""


def choose_port(wanted: int | None, before: str | None, not_this: int | None = None) -> int:
    """Chooses a port.

    Args:
        wanted: The port to use, if not None.
        before: The port used before, which is used again if it is free.
        not_this: A port that must not be chosen although it may be free.

    Returns:
        `wanted`; else `before` if possible; else a free port.

    Raises:
        ConflictError: `wanted` is in use.
    """
    if wanted is not None:
        if not is_free(wanted):
            raise ConflictError(
                f"port {wanted} must be free on 127.0.0.1; got one in use; choose another or free"
                " it"
            )
        return wanted
    if before is not None and int(before) != not_this and is_free(int(before)):
        return int(before)
    return free_port()


def free_port() -> int:
    """Returns a port of 127.0.0.1 that was free at the time of the call.

    It is none that the system gives to outgoing connections. One of those would take it now and
    then before the server for which it was chosen has started.
    """
    while True:
        port = FIRST + secrets.randbelow(BEHIND_LAST - FIRST)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    """Returns whether a server could listen on this port of 127.0.0.1."""
    with socket.socket() as probe:
        # Connections of a previous server may still be closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
