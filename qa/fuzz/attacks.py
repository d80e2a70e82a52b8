"""Attackers: threads that send mutated conversations in every manner, and look at the replies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import re
import socket
import ssl
import struct
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from qa.fuzz import mutations
from qa.fuzz.recordings import TLS_REQUEST

QUIET_S = 0.15
"""How long nothing comes before a reply is taken to be complete."""

MOST_READ = 1 << 21
MOST_HELD = 20
TRICKLED = 300

_FAULT = re.compile(rb"E....S[A-Z]+\0V[A-Z]+\0C(\w{5})\0M([^\0]*)\0", re.DOTALL)
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
KINDS = b"RSKZTtDC12nsIEHdcv3"
"""The types of the messages that the server sends."""


@dataclass
class Target:
    """A server that is attacked.

    Attributes:
        wire: Its port for clients of PostgreSQL.
        http: Its port of HTTP.
        address: Where attackers come from.
        password: That of the user fuzz; None if it knows no users and does not encrypt.
        recorded_wire: Conversations with a server that knows no users.
        recorded_http: The same by HTTP.
    """

    wire: int
    http: int
    address: str
    password: str | None
    recorded_wire: Sequence[Sequence[bytes]] = ()
    recorded_http: Sequence[Sequence[bytes]] = ()


@dataclass
class Seen:
    """What attackers have done and seen.

    Attributes:
        counts: Connections, bytes and messages.
        faults: Replies by SQLSTATE and by status of HTTP.
        wrong: What no server may reply, with what was sent before.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Attacker(threading.Thread):
    """Attacks one target after another until it is stopped."""

    def __init__(
        self,
        seed: str,
        targets: Sequence[Target],
        seen: Seen,
        stop: threading.Event,
        canary: bytes,
    ) -> None:
        super().__init__(daemon=True, name=f"attacker {seed}")
        self._rng, self._targets, self._seen = random.Random(seed), targets, seen
        self._stopped, self._canary = stop, canary
        self._held: list[socket.socket] = []
        self._replies = bytearray()
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def run(self) -> None:
        """Attacks; what the server does to a connection is no error here."""
        attacks = (self._talk, self._talk, self._ask, self._ask, self._abort, self._cancel)
        while not self._stopped.is_set():
            attack, target = self._rng.choice(attacks), self._rng.choice(self._targets)
            try:
                attack(target)
            except OSError:
                pass
            except Exception:  # noqa: BLE001  # one that attacks no more would go unseen
                with self._seen.lock:
                    self._seen.wrong.append(f"an attacker has failed: {traceback.format_exc()}")
            if len(self._held) > MOST_HELD or (self._held and self._rng.random() < 0.1):
                self._held.pop(self._rng.randrange(len(self._held))).close()
        for held in self._held:
            held.close()

    # -- attacks -----------------------------------------------------------------------------------

    def _talk(self, target: Target) -> None:
        """A conversation of PostgreSQL's protocol."""
        rng = self._rng
        parts = mutations.conversation(rng, target.recorded_wire, rng.choice((0, 1, 1, 2, 4)))
        client = self._connected(target, target.wire)
        if target.password is not None and rng.random() < 0.9:
            client.sendall(TLS_REQUEST)
            client.recv(1)
            client = self._context.wrap_socket(client)
            parts = [part for part in parts if part != TLS_REQUEST]
            if rng.random() < 0.8 and parts:
                client.sendall(parts.pop(0))
                self._prove(client, target.password)
        self._count("wire", parts)
        self._send(client, parts, self._check_wire)

    def _ask(self, target: Target) -> None:
        """Requests of HTTP."""
        rng = self._rng
        parts = mutations.exchange(rng, target.recorded_http, rng.choice((0, 1, 1, 2, 4)))
        client = self._http(target)
        if target.password is not None and rng.random() < 0.8:
            parts = [self._logged_in(part, target.password) for part in parts]
        self._count("http", parts)
        self._send(client, parts, self._check_http)

    def _abort(self, target: Target) -> None:
        """A download or a subscription whose client leaves in the midst of it."""
        rng = self._rng
        sql = "SELECT i, repeat('y', 1000) AS y FROM range(1000000) t(i)"
        head = rng.choice((b"GET /v1/subscribe?sql=by_minute HTTP/1.1\r\n", b""))
        body = b'{"sql": "%s", "format": "%s"}' % (
            sql.encode(),
            rng.choice((b"json", b"csv", b"arrow")),
        )
        request = b"Host: localhost\r\n\r\n"
        if not head:
            head = b"POST /v1/sql HTTP/1.1\r\nContent-Type: application/json\r\n"
            request = b"Content-Length: %d\r\nHost: localhost\r\n\r\n%s" % (len(body), body)
        request = head + request
        if target.password is not None:
            request = self._logged_in(request, target.password)
        client = self._http(target)
        self._count("aborted", [request])
        client.sendall(request)
        self._read(client, most=rng.choice((0, 100, 1 << 16, 1 << 20)))
        self._leave(client)
        self._judge(self._check_http, [request])

    def _cancel(self, target: Target) -> None:
        """Requests to cancel a query, some with a wrong secret, and from the wrong connection."""
        if target.password is not None:
            return
        rng = self._rng
        startup = b"\0\3\0\0user\0fuzz\0database\0trilayer\0\0"
        client = self._connected(target, target.wire)
        client.sendall(struct.pack(">i", len(startup) + 4) + startup)
        self._read(client)
        replies = bytes(self._replies)
        place = replies.rfind(b"K\0\0\0\x0c")
        if place < 0:
            return
        pid, secret = replies[place + 5 : place + 9], replies[place + 9 : place + 13]
        asked = mutations.framed(b"Q", b"SELECT sum(sin(i)) FROM range(1000000000) t(i)\0")
        client.sendall(asked)
        for _ in range(rng.choice((1, 3, 30))):
            wrong = rng.random() < 0.5
            code = b"\x04\xd2\x16\x2e" + pid + (rng.randbytes(4) if wrong else secret)
            cancel = b"\0\0\0\x10" + code
            with suppress(OSError), _connected(target, target.wire) as other:
                other.sendall(cancel if rng.random() < 0.8 else mutations.flipped(rng, cancel))
                self._count("cancels", [cancel])
        self._read(client)
        self._leave(client)
        self._judge(self._check_wire, [asked])

    # -- sending -----------------------------------------------------------------------------------

    def _send(
        self, client: socket.socket, parts: Sequence[bytes], check: Callable[[bytes], str]
    ) -> None:
        """Sends parts in some manner, and looks at what comes back."""
        rng, whole = self._rng, b"".join(parts)
        if rng.random() < 0.25:
            whole = mutations.truncated(rng, whole)
        manner = rng.randrange(9)
        if manner <= 2:
            client.sendall(whole)
        elif manner == 3:
            for at in range(0, min(len(whole), TRICKLED)):
                client.sendall(whole[at : at + 1])
                time.sleep(rng.choice((0, 0, 0.001)))
            client.sendall(whole[TRICKLED:])
        elif manner == 4:
            for part in parts:
                client.sendall(part)
                self._read(client, quiet_s=0.02)
        elif manner == 5:  # half a message, and nothing more for a while
            client.sendall(mutations.truncated(rng, whole))
            self._held.append(client)
            return
        elif manner == 6:
            client.sendall(whole)
            socket.socket.shutdown(client, socket.SHUT_WR)  # that of TLS would end the encryption
        elif manner == 7:  # all of it, and nothing is read for a while
            client.settimeout(1)
            with suppress(TimeoutError):
                client.sendall(whole)
            self._held.append(client)
            return
        else:
            client.sendall(whole)
            self._leave(client)
            return
        self._read(client)
        self._leave(client)
        self._judge(check, parts)

    def _connected(self, target: Target, port: int) -> socket.socket:
        """A new connection, on which nothing has been replied yet."""
        self._replies.clear()
        with self._seen.lock:
            self._seen.counts["connections"] += 1
        return _connected(target, port)

    def _http(self, target: Target) -> socket.socket:
        client = self._connected(target, target.http)
        if target.password is not None and self._rng.random() < 0.95:
            return self._context.wrap_socket(client)
        return client

    def _logged_in(self, request: bytes, password: str) -> bytes:
        right = password if self._rng.random() < 0.97 else "wrong"
        login = base64.b64encode(f"fuzz:{right}".encode())
        first, rest = request.partition(b"\r\n")[::2]
        return first + b"\r\nAuthorization: Basic " + login + b"\r\n" + rest

    def _leave(self, client: socket.socket) -> None:
        if self._rng.random() < 0.3:  # a reset in place of an orderly end
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    def _prove(self, client: socket.socket, password: str) -> None:
        """Proves a password by SCRAM-SHA-256, or almost."""
        rng = self._rng
        if rng.random() < 0.15:
            password = "wrong"

        def changed(message: bytes) -> bytes:
            change = rng.choice((mutations.flipped, mutations.spliced, mutations.truncated))
            return change(rng, message) if rng.random() < 0.1 else message

        _message(client)
        nonce = base64.b64encode(rng.randbytes(18)).decode()
        first = f"n=,r={nonce}"
        begun = f"n,,{first}".encode()
        head = b"SCRAM-SHA-256\0" + struct.pack(">i", len(begun))
        client.sendall(changed(mutations.framed(b"p", head + begun)))
        first_message = _message(client)[4:].decode()
        given = dict(part.split("=", 1) for part in first_message.split(","))
        salted = hashlib.pbkdf2_hmac(
            "sha256", password.encode(), base64.b64decode(given["s"]), int(given["i"])
        )
        key = hmac.digest(salted, b"Client Key", "sha256")
        last = f"c=biws,r={given['r']}"
        signature = hmac.digest(
            hashlib.sha256(key).digest(), f"{first},{first_message},{last}".encode(), "sha256"
        )
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))
        client.sendall(changed(mutations.framed(b"p", f"{last},p=".encode() + proof)))

    # -- replies -----------------------------------------------------------------------------------

    def _read(self, client: socket.socket, quiet_s: float = QUIET_S, most: int = MOST_READ) -> None:
        """Reads until nothing comes for a moment."""
        client.settimeout(quiet_s)
        with suppress(OSError):
            while len(self._replies) < most and (data := client.recv(1 << 16)):
                self._replies += data
        client.settimeout(5)

    def _judge(self, check: Callable[[bytes], str], sent: Sequence[bytes]) -> None:
        """Looks at all that has come on a connection."""
        data = bytes(self._replies)
        wrong = "the canary is in a reply" if self._canary in data else check(data)
        with self._seen.lock:
            self._seen.counts["bytes received"] += len(data)
            if wrong:
                self._seen.wrong.append(f"{wrong}; sent {b''.join(sent)[-2_000:]!r}")

    def _check_wire(self, data: bytes) -> str:
        """What is wrong with replies of PostgreSQL's protocol; empty if nothing is."""
        internal = ""
        for code, message in _FAULT.findall(data):
            with self._seen.lock:
                self._seen.faults[code.decode()] += 1
            if code.startswith(b"XX"):
                internal = f"an internal error: {message.decode(errors='replace')}"
        return internal or ill_formed(data)

    def _check_http(self, data: bytes) -> str:
        """What is wrong with replies of HTTP; empty if nothing is."""
        statuses = _STATUS.findall(data)
        with self._seen.lock:
            self._seen.faults.update(f"HTTP {status.decode()}" for status in statuses)
        return "HTTP status 500" if b"500" in statuses else ""

    def _count(self, what: str, parts: Sequence[bytes]) -> None:
        with self._seen.lock:
            self._seen.counts[what] += 1
            self._seen.counts["bytes sent"] += sum(map(len, parts))


def _connected(target: Target, port: int) -> socket.socket:
    client = socket.create_connection(
        ("127.0.0.1", port), timeout=5, source_address=(target.address, 0)
    )
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _message(client: socket.socket) -> bytes:
    """The body of the server's next message. Raises OSError if it is no other part of a login."""
    head = b""
    while len(head) < 5:
        head += client.recv(5 - len(head)) or _left()
    length = int.from_bytes(head[1:], "big") - 4
    if head[:1] != b"R" or not 4 < length < 10_000:
        raise ConnectionError("the server does not go on with the login")
    body = b""
    while len(body) < length:
        body += client.recv(length - len(body)) or _left()
    return body


def _left() -> bytes:
    raise ConnectionError("the server has closed the connection")


def ill_formed(data: bytes) -> str:
    """What is wrong with the frames of a server's messages; empty if nothing is.

    The last one may be cut off.
    """
    at = len(data) - len(data.lstrip(b"N")) if data[:1] == b"N" else 0  # encryption is declined
    while at + 5 <= len(data):
        length = int.from_bytes(data[at + 1 : at + 5], "big")
        if data[at] not in KINDS or length < 4:
            return f"no message at byte {at} of a reply: {data[at : at + 40]!r}"
        at += 1 + length
    return ""
