"""Everything that `trilayer serve` runs, as the settings have it."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from trilayer.operations.project import Project
from trilayer.server.engine.pool import Limits, Pool
from trilayer.server.users import Users
from trilayer.server.wire.authentication import Access
from trilayer.server.wire.listen import Server
from trilayer_core.errors import SettingsError
from trilayer_core.runtime.settings import Settings

USERS = "server-users.json"
"""The file of users, in the folder `home`."""


@dataclass(frozen=True)
class Addresses:
    """Where the server listens: the ports of one host."""

    host: str
    wire: int


async def serve(project: Project, stop: asyncio.Event, ready: Callable[[Addresses], None]) -> None:
    """Answers clients until `stop` is set.

    Args:
        project: The project whose store is asked.
        stop: Ends it.
        ready: Called once clients can connect.

    Raises:
        SettingsError: The certificate can't be read.
        UsageError: Others could reach the address, without passwords or encryption.
        EnvironmentFault: A port is taken.
    """
    settings = project.settings
    async with Pool(project, limits(settings)) as pool:
        server = Server(pool, access(settings), settings.serve_host)
        await server.run(
            settings.serve_port, stop, lambda port: ready(Addresses(settings.serve_host, port))
        )


def users(settings: Settings) -> Users:
    """The users of a project's server."""
    return Users(settings.home / USERS)


def limits(settings: Settings) -> Limits:
    """What questions may take."""
    return Limits(
        workers=settings.serve_workers or max(2, os.cpu_count() or 1),
        memory_mb=settings.serve_memory_mb,
        timeout_s=settings.serve_timeout_s,
        rows=settings.serve_rows,
        bytes=settings.serve_bytes,
        connections=settings.serve_connections,
        client_connections=settings.serve_connections,
    )


def access(settings: Settings) -> Access:
    """Who may connect. Where there is a certificate, every client must encrypt.

    Raises:
        SettingsError: The certificate or its key can't be read, or one of both is missing.
    """
    certificate, key = settings.serve_certificate, settings.serve_key
    if certificate is None or key is None:
        if certificate is not key:
            raise SettingsError("serve_certificate and serve_key must be set together; got one")
        return Access(users(settings))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        tls.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"serve_certificate and serve_key must be a certificate and its key in PEM; got"
            f" {certificate} and {key}: {error}"
        ) from None
    return Access(users(settings), tls, encrypted=True)
