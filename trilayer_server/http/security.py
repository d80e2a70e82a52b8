"""Who may do what: passwords, the names of the server, and the pages that may write.

A page of another site can send requests to a server on this machine. Such a request has another
Origin, or, if the site's name was made to point at this machine, another Host. Both are refused.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from fastapi import HTTPException, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trilayer_core.errors import SettingsError
from trilayer_server.accepting import client_of
from trilayer_server.engine.slots import Slots
from trilayer_server.http.faults import INVALID, NOT_ALLOWED, TOO_MUCH, Failure
from trilayer_server.http.limits import Limits
from trilayer_server.users import Role, is_loopback

logger = logging.getLogger("trilayer_server")

Authenticate = Callable[[str, str], Role | None]
"""The role of a name and a password; None if they are wrong."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
        " object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
OPEN = ("/healthz", "/readyz")
"""What needs no login: supervisors ask for it."""

LOGIN_HINT = (
    "Send a user's name and password: `curl -u NAME`, or the address http://NAME:PASSWORD@HOST:PORT"
)
SELF = ("localhost", "127.0.0.1", "::1")
REMEMBERED_S = 10.0
"""How long a login is not checked again: a good check of a password is slow on purpose."""
MOST_REMEMBERED = 1_000
WRONG_S = 0.5
"""How much later a wrong password is answered."""
MOST_FIELDS = 100
"""How many fields the query of an address may have: to read very many takes long."""
CHANGING = ("/v1/rollback", "/v1/quarantine/replay")
"""What only an admin may send, whose body is not read for others."""
CHECKS = 4
"""How many logins are checked at once."""


@dataclass(frozen=True)
class Requester:
    """Who sends a request.

    Attributes:
        name: The name of the login; None without one.
        role: What they may do.
        address: Where the request comes from.
    """

    name: str | None
    role: Role
    address: str

    @property
    def who(self) -> str:
        """The name, else the address."""
        return self.name or self.address

    @property
    def is_admin(self) -> bool:
        """Whether they may change something."""
        return self.role == "admin"


def _always() -> bool:
    return True


@dataclass(frozen=True)
class WebAccess:
    """Who may ask, and under which names the server is known.

    Attributes:
        authenticate: Checks a login. Without it, whoever is on this machine may read, and nobody
            may change anything.
        hosts: Names of the server beside localhost, 127.0.0.1 and [::1].
        has_users: Whether anybody has a login now.
        is_exposed: Whether the server's address can be reached from elsewhere.
    """

    authenticate: Authenticate | None = None
    hosts: Collection[str] = ()
    has_users: Callable[[], bool] = _always
    is_exposed: bool = False

    @property
    def checks(self) -> Authenticate | None:
        """Checks a login; None as long as nobody has one.

        Raises:
            Failure: The users can't be read.
        """
        try:
            return self.authenticate if self.has_users() else None
        except SettingsError as error:
            logger.error("a client is refused: %s", error)
            raise Failure(
                503,
                NOT_ALLOWED,
                "the users of this server can't be read",
                "The server's log has more",
            ) from None


class Guard:
    """Checks every request before the application sees it, and adds headers to each answer."""

    def __init__(self, app: ASGIApp, access: WebAccess, limits: Limits) -> None:
        self._app, self._access, self._limits = app, access, limits
        self._hosts = {*SELF, *(host.lower().strip("[]") for host in access.hosts)}
        self._remembered: dict[bytes, tuple[str, Role, float]] = {}
        self._checking = Slots(CHECKS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request as ASGI says."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent.setdefault(name, value)
                # A console that was upgraded must not be taken from the browser's cache.
                fresh = "no-store" if scope["path"].startswith("/v1/") else "no-cache"
                sent.setdefault("Cache-Control", fresh)
            await send(message)

        try:
            self._check_host(headers)
            self._check_origin(scope, headers)
            most = self._most_bytes(scope["path"])
            _check_length(headers.get("content-length"), most)
            _check_query(scope["query_string"])
            scope["trilayer.client"] = await self._client(scope, headers)
            if scope["method"] == "POST" and scope["path"] in CHANGING:
                admin_of(Request(scope), self._access)
        except Failure as failure:
            await failure.response()(scope, receive, secured)
            return
        await self._app(scope, _limited(receive, most), secured)

    def _most_bytes(self, path: str) -> int:
        replay = path == "/v1/quarantine/replay"
        return self._limits.replay_bytes if replay else self._limits.body_bytes

    def _check_host(self, headers: Headers) -> None:
        host = headers.get("host", "")
        if _name(host) not in self._hosts:
            raise Failure(
                403,
                NOT_ALLOWED,
                f"Host must be a name of this server, such as localhost; got {host!r}",
                "Add the name to the setting serve.names",
            )

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """Refuses what a page of another site sends. Other programs send no Origin."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS") and scope["path"] != "/v1/subscribe":
            return
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        host = headers.get("host", "")
        if origin is not None:
            foreign = origin.lower().partition("://")[2] != host.lower()
        else:
            foreign = site not in ("same-origin", "none")
        if foreign:
            raise Failure(
                403,
                NOT_ALLOWED,
                f"Origin must be this server, http://{host}; got {origin or site!r}",
                "Pages of other sites may not ask this server",
            )

    async def _client(self, scope: Scope, headers: Headers) -> Requester | None:
        address = scope["client"][0] if scope.get("client") else ""
        given = headers.get("authorization")
        if given and self._access.checks is not None:
            name, role = await self._login(given, self._access.checks, address)
            return Requester(name, role, address)
        if scope["path"] in OPEN:
            return None
        if self._access.checks is None:
            if is_loopback(address) and not self._access.is_exposed:
                return Requester(None, "reader", address)
            raise Failure(
                403,
                NOT_ALLOWED,
                "a server without users must be asked from its own machine, at an address that only"
                f" this machine reaches; got a request from {address}",
                "Add a user: `trilayer user add NAME`",
            )
        raise login_needed("a login must be sent with this request; it has none")

    async def _login(
        self, given: str, authenticate: Authenticate, address: str
    ) -> tuple[str, Role]:
        digest, now = hashlib.sha256(given.encode()).digest(), time.monotonic()
        login = self._remembered.get(digest)
        if login is not None and now < login[2]:
            return login[0], login[1]
        name, password = _credentials(given)
        async with self._checking.slot(client_of(address)):
            role = await asyncio.to_thread(authenticate, name, password)
            if role is None:
                await asyncio.sleep(WRONG_S)
        if role is None:
            raise login_needed("the login must be one that this server knows; it is not")
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[digest] = (name, role, now + REMEMBERED_S)
        return name, role


def login_needed(message: str) -> Failure:
    """The failure that makes a browser ask for a login."""
    challenge: Mapping[str, str] = {"WWW-Authenticate": 'Basic realm="trilayer", charset="UTF-8"'}
    return Failure(401, NOT_ALLOWED, message, LOGIN_HINT, headers=challenge)


def requester_of(request: Request) -> Requester:
    """Who sends a request."""
    client: Requester = request.scope["trilayer.client"]
    return client


def admin_of(request: Request, access: WebAccess) -> Requester:
    """Who sends a request that changes something.

    Raises:
        Failure: They may not.
    """
    client = requester_of(request)
    if client.is_admin:
        return client
    if access.checks is None:
        raise Failure(
            403,
            NOT_ALLOWED,
            "a request that changes something must come from an admin; this server has no users",
            "Add one with `trilayer user add NAME --role admin`, or use the command line",
        )
    if client.name is None:
        raise login_needed("a request that changes something must come from an admin; log in")
    raise Failure(
        403,
        NOT_ALLOWED,
        f"a request that changes something must come from an admin; {client.name} is a reader",
    )


def _credentials(given: str) -> tuple[str, str]:
    """The name and password of an Authorization header."""
    scheme, _, value = given.partition(" ")
    try:
        if scheme.lower() == "basic":
            name, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
            if colon:
                return name, password
    except ValueError:  # no base64, no ASCII or no UTF-8
        pass
    raise login_needed("Authorization must be `Basic` with NAME:PASSWORD in base64")


_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d+)?", re.IGNORECASE)


def _name(host: str) -> str:
    """The name in a Host header, without the port; empty if it is none."""
    match = _HOST.fullmatch(host)
    return (match[1] or match[2]).lower() if match else ""


def _check_length(length: str | None, most: int) -> None:
    if length is not None and (not length.isdecimal() or int(length) > most):
        raise _too_long(most)


def _check_query(query: bytes) -> None:
    if query.count(b"&") >= MOST_FIELDS:
        raise Failure(
            400, INVALID, f"the query of an address must have at most {MOST_FIELDS} fields"
        )


def _too_long(most: int) -> Failure:
    return Failure(413, TOO_MUCH, f"the body of a request must have at most {most:,} bytes")


def _limited(receive: Receive, most: int) -> Receive:
    """Receives the body of a request, up to a number of bytes."""
    got = 0

    async def limited() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        if got > most:
            raise HTTPException(413, _too_long(most).message)
        return message

    return limited
