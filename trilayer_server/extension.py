"""The server as an extension: its commands, its process in `trilayer up`, and its client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trilayer_core.extension import Command, Companion, Extension, installed

if TYPE_CHECKING:
    from trilayer_core.runtime.settings import Settings
    from trilayer_server.client import RemoteConnection

EXTRA = ("fastapi", "httpx", "prometheus_client", "psutil", "uvicorn")
"""The packages of the extra `server`."""


def _complete(settings: Settings) -> Settings:
    from trilayer_server.settings import complete  # `trilayer --help` need not wait for pydantic

    return complete(settings)


COMPANION = Companion(
    "serve",
    "the server",
    ("views", "streams", "queries", "alerts", "tables"),
    ("serve", "--any-port"),
    _complete,
)
"""The server of `trilayer up`."""


class Server(Extension):
    """Answers SQL clients and browsers."""

    def commands(self) -> Mapping[str, Command]:
        """Returns `serve` and `user`."""
        return {
            "serve": Command(
                "trilayer_server.commands.serve:serve",
                "Answers SQL clients and browsers, until Ctrl-C.",
                "server",
            ),
            "user": Command(
                "trilayer_server.commands.user:app",
                "Users of `trilayer serve`, and their passwords.",
                "server",
            ),
        }

    def connect(self, address: str) -> RemoteConnection | None:
        """Opens a connection to the HTTP port of a server."""
        if not address.startswith(("http://", "https://")) or not installed(*EXTRA):
            return None
        # Importing a client of HTTP takes a tenth of a second.
        from trilayer_server.client import RemoteConnection

        return RemoteConnection(address)

    def companions(self) -> Sequence[Companion]:
        """Returns the server of `trilayer up`."""
        return (COMPANION,) if installed(*EXTRA) else ()
