"""Everything that `trilayer serve` runs, as the settings have it."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from trilayer_core.errors import SettingsError
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_server.engine.pool import Pool
from trilayer_server.engine.query import EngineLimits
from trilayer_server.engine.slots import most_each
from trilayer_server.http import serving as web
from trilayer_server.http.application import app
from trilayer_server.http.security import WebAccess
from trilayer_server.http.store_reader import StoreReader
from trilayer_server.metrics import Metrics
from trilayer_server.settings import ServeSettings, serve_settings
from trilayer_server.sql_error import SqlError
from trilayer_server.users import Users, is_loopback
from trilayer_server.verifying import ReaderVerification
from trilayer_server.wire.authentication import Access
from trilayer_server.wire.listen import DATABASE, Server, check_exposed

logger = logging.getLogger("trilayer_server")

USERS = "server-users.json"
"""The file of users, in the folder `home`."""

CONSOLE = Path(__file__).with_name("console")
"""The folder of the console's built pages."""


MOST_DESCRIPTORS = 8_192
"""How many descriptors the server asks the system for: several for each connection."""

_WHO = {"wire": "SQL clients use", "http": "the console uses"}
"""Who uses a port, in messages."""


@dataclass(frozen=True)
class Addresses:
    """Where the server listens.

    Attributes:
        host: The host by which clients reach it.
        wire: The port for clients of PostgreSQL.
        http: The port of HTTP.
        encrypted: Whether clients must encrypt.
        has_users: Whether clients must be one of the users.
        notes: A sentence for each port that was taken, with the one that is used instead.
    """

    host: str
    wire: int
    http: int
    encrypted: bool
    has_users: bool
    notes: Sequence[str] = ()

    @property
    def psql(self) -> str:
        """The command that connects psql."""
        user = "-U NAME " if self.has_users else ""
        return f"psql -h {self.host} -p {self.wire} {user}{DATABASE}"

    @property
    def console(self) -> str:
        """The address of the console."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.encrypted else ''}://{host}:{self.http}/"


async def serve(
    project: Project,
    stop: asyncio.Event,
    ready: Callable[[Addresses], None],
    *,
    any_port: bool = False,
) -> None:
    """Answers clients until `stop` is set.

    Args:
        project: The project whose store answers.
        stop: Ends it.
        ready: Called once clients can connect.
        any_port: Whether a port that is taken is replaced by a free one.

    Raises:
        SettingsError: The certificate can't be read.
        UsageError: Others could reach the address, without passwords or encryption.
        EnvironmentFault: A port is taken.
    """
    settings = project.settings
    given = serve_settings(settings)
    may = access(users(settings), given)
    check_exposed(given.host, may)
    _raise_descriptors()
    ports: dict[str, int] = {}
    taken: dict[str, int] = {}

    def listens(name: str, port: int) -> None:
        ports[name] = port
        if ports.keys() == _WHO.keys():
            has_users = bool(may.users.all())
            host, encrypted = _reached_by(given), may.encrypted
            notes = [
                f"Port {taken[name]} is taken, so {who} port {ports[name]} instead."
                for name, who in _WHO.items()
                if name in taken
            ]
            ready(Addresses(host, **ports, encrypted=encrypted, has_users=has_users, notes=notes))

    def port_of(name: str, wanted: int) -> int:
        if any_port and _is_taken(given.host, wanted):
            taken[name] = wanted
            return 0
        return wanted

    async with Pool(project, limits(given)) as pool, _in_background(_load(pool)):
        metrics = _metrics(pool)
        wire = Server(pool, may, given.host, metrics)
        verification = ReaderVerification(pool, project, metrics)
        store = StoreReader(project, pool)
        store.differences = verification.differences
        site = app(
            pool,
            store,
            access=_web_access(may.users, given),
            metrics=metrics,
            console=CONSOLE,
        )
        with _quick_garbage_collection(), _first_error():
            async with _in_background(verification.run()), asyncio.TaskGroup() as both:
                both.create_task(
                    wire.run(port_of("wire", given.port), stop, partial(listens, "wire"))
                )
                both.create_task(
                    web.serve(
                        site,
                        port_of("http", given.http_port),
                        stop,
                        partial(listens, "http"),
                        given.host,
                        certificate=given.certificate,
                        key=given.key,
                    )
                )


def _metrics(pool: Pool) -> Metrics:
    """The metrics, with what the server's processes and its event loop have under way."""
    metrics = Metrics()
    metrics.processes.workers = lambda: pool.pids
    loop = asyncio.get_running_loop()
    metrics.gauge(
        "trilayer_tasks",
        "What the server has under way, such as connections.",
        lambda: len(asyncio.all_tasks(loop)),
    )
    return metrics


@contextmanager
def _first_error() -> Iterator[None]:
    """Raises the first error of a group alone, as callers handle it: a port that is taken, say."""
    try:
        yield
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


def _raise_descriptors() -> None:
    """Lets this process have as many descriptors as the system allows.

    The usual 1,024 are fewer than the connections of both protocols need.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextmanager
def _quick_garbage_collection() -> Iterator[None]:
    """Leaves what is there now out of garbage collection during the block.

    Python looks for old garbage, such as TLS connections that have failed, only once there are a
    quarter as many new objects as its last look has found. The fewer it finds, the sooner.
    """
    gc.freeze()
    gc.collect()
    try:
        yield
    finally:
        gc.unfreeze()  # DuckDB's module prints what is not collected at the end


async def _load(pool: Pool) -> None:
    """Has the store loaded now, and not when the first query comes.

    A store that has no answer yet, or can't be read, is no reason not to serve: it may be mended.
    """
    try:
        await pool.state()
    except SqlError as error:
        logger.warning("the store has no answer yet: %s; %s", error.message, error.hint)


@asynccontextmanager
async def _in_background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Does something during the block, at whose end it is cancelled."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _reached_by(settings: ServeSettings) -> str:
    """A host by which clients reach the server, also if it listens on all addresses."""
    with suppress(ValueError):
        if ip_address(settings.host).is_unspecified:
            return next(iter(settings.names), "localhost")
    return settings.host


def _is_taken(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family):
            return False
    except OSError:
        return True


def _web_access(accounts: Users, settings: ServeSettings) -> WebAccess:
    """Who may ask by HTTP. Without users, whoever is on this machine may read."""
    return WebAccess(
        accounts.role,
        hosts=[settings.host, *settings.names],
        has_users=lambda: bool(accounts.all()),
        is_exposed=not is_loopback(settings.host),
    )


def users(settings: Settings) -> Users:
    """The users of a project's server."""
    return Users(settings.home / USERS)


def limits(settings: ServeSettings) -> EngineLimits:
    """What queries may take. The connections of one address always leave a quarter for others."""
    most = settings.connections
    return EngineLimits(
        workers=settings.workers or EngineLimits.workers,
        memory_mb=settings.memory_mb,
        timeout_s=settings.timeout_s,
        rows=settings.rows,
        bytes=settings.bytes,
        connections=most,
        client_connections=min(settings.connections_each, most_each(most)),
    )


def access(users: Users, settings: ServeSettings) -> Access:
    """Who may connect. Where there is a certificate, every client must encrypt.

    Raises:
        SettingsError: The certificate or its key can't be read, or one of both is missing.
    """
    certificate, key = settings.certificate, settings.key
    if certificate is None or key is None:
        if certificate is not key:
            raise SettingsError("serve.certificate and serve.key must be set together; got one")
        return Access(users)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        tls.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"serve.certificate and serve.key must be a certificate and its key in PEM; got"
            f" {certificate} and {key}: {error}"
        ) from None
    return Access(users, tls, encrypted=True)
