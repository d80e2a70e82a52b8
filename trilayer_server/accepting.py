"""Accepts connections no faster than the server can begin them without keeping others waiting.

Each new connection costs the event loop time which those who are connected need for their answers.
Clients beyond the rate wait in the kernel's queue.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from trilayer_core.errors import EnvironmentFault

logger = logging.getLogger("trilayer_server")

BURST, PER_S = 300, 200.0
"""How many connections are accepted at once after a rest, and how many a second from then on."""

TOGETHER = 4
"""How many connections are accepted before others are answered again."""

WAITING = 128
"""How many connections may wait to be accepted."""

REST_S = 1.0
"""How long nothing is accepted after accepting has failed, in seconds.

It fails, for example, if the process has no descriptors left.
"""


def client_of(address: str) -> str:
    """Which client an address is counted for. A host of IPv6 has all addresses of its network."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address) or ip.is_loopback:
        return str(ip)
    return str(ip.ipv4_mapped or ipaddress.IPv6Network((ip, 64), strict=False))


class Clients:
    """Counts connections, so that one client leaves room for others."""

    def __init__(self, most: int, most_each: int) -> None:
        """Has none yet.

        Args:
            most: How many there may be.
            most_each: How many of one client.
        """
        self._most, self._most_each = most, most_each
        self._entered: Counter[str] = Counter()

    def enter(self, client: str) -> bool:
        """Counts a connection until `leave`; False if there is no room for it."""
        if self._entered.total() >= self._most or self._entered[client] >= self._most_each:
            return False
        self._entered[client] += 1
        return True

    def leave(self, client: str) -> None:
        """Counts one less."""
        self._entered[client] -= 1
        if not self._entered[client]:
            del self._entered[client]


class Bucket:
    """A token bucket, which limits a rate: so many at once, and later so many a second."""

    def __init__(self, most: float, per_s: float, clock: Callable[[], float]) -> None:
        """It is full at first.

        Args:
            most: How many may be taken at once.
            per_s: How many are added in a second.
            clock: Returns the time in seconds.
        """
        self._most, self._per_s, self._clock = most, per_s, clock
        self._left, self._at = most, clock()

    def wait_s(self) -> float:
        """How long it takes until there is one, in seconds; 0 if there is."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._per_s)
        self._at = now
        return max(0.0, 1 - self._left) / self._per_s

    def take(self) -> None:
        """Takes one."""
        self._left -= 1


@asynccontextmanager
async def listening(host: str, port: int, option: str) -> AsyncIterator[list[socket.socket]]:
    """Sockets that listen on each address of a host, on the same port, during the block.

    Args:
        host: The host.
        port: The port; 0 for any that is free.
        option: The option of the command line that chooses another port.

    Raises:
        EnvironmentFault: The port is taken, or there is no such host.
    """
    sockets: list[socket.socket] = []
    try:
        try:
            await _listen(host, port, sockets)
        except OSError as error:
            raise EnvironmentFault(
                f"the server can't listen on {host}:{port}: {error.strerror}; choose another port"
                f" with {option}, or any that is free with --any-port"
            ) from None
        yield sockets
    finally:
        for listener in sockets:
            listener.close()


async def _listen(host: str, port: int, sockets: list[socket.socket]) -> None:
    resolved = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    for family, address in dict.fromkeys((family, address) for family, *_, address in resolved):
        # asyncio sends small parts at once only if the protocol is named.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sockets.append(listener)
        listener.setblocking(False)
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address[0], sockets[0].getsockname()[1] or port, *address[2:]))
        listener.listen(WAITING)


@contextmanager
def accepting(
    sockets: Sequence[socket.socket], begin: Callable[[socket.socket], None]
) -> Iterator[None]:
    """Accepts connections during the block, at a bounded rate.

    Args:
        sockets: The sockets that listen.
        begin: Called with each connection that was accepted. It closes it in the end.
    """
    bucket = Bucket(BURST, PER_S, time.monotonic)
    acceptors = [_Acceptor(listener, begin, bucket) for listener in sockets]
    try:
        for acceptor in acceptors:
            acceptor.go_on()
        yield
    finally:
        for acceptor in acceptors:
            acceptor.rest()


class _Acceptor:
    """Accepts the connections of one socket. It has no task that could be left behind."""

    def __init__(
        self, listening: socket.socket, begin: Callable[[socket.socket], None], bucket: Bucket
    ) -> None:
        self._listening, self._begin, self._bucket = listening, begin, bucket
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def go_on(self) -> None:
        self._timer = None
        self._loop.add_reader(self._listening, self._accept)

    def rest(self, for_s: float | None = None) -> None:
        """Accepts nothing for a while, or nothing more at all."""
        self._loop.remove_reader(self._listening)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(for_s, self.go_on) if for_s is not None else None

    def _accept(self) -> None:
        for _ in range(TOGETHER):
            if wait_s := self._bucket.wait_s():
                self.rest(wait_s)
                return
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.error(
                    "a connection can't be accepted: %s; trying again in %g s", error, REST_S
                )
                self.rest(REST_S)
                return
            self._bucket.take()
            accepted.setblocking(False)
            self._begin(accepted)


class Tasks:
    """The tasks of connections that were accepted."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, coroutine: Coroutine[None, None, None]) -> None:
        """Begins the task of a connection, which closes it in the end, also if it is cancelled."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Ends those that have not ended."""
        await asyncio.sleep(0)  # a task that has not begun would not close its connection
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def connected(accepted: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The streams of a connection that was accepted. They can be encrypted as the server's side."""
    loop = asyncio.get_running_loop()
    streams = loop.create_future()

    def protocol() -> asyncio.StreamReaderProtocol:
        # One with a callback takes the server's part in `start_tls`.
        return asyncio.StreamReaderProtocol(
            asyncio.StreamReader(), lambda *both: streams.set_result(both)
        )

    try:
        await loop.connect_accepted_socket(protocol, accepted)
    except BaseException:
        accepted.close()
        raise
    both: tuple[asyncio.StreamReader, asyncio.StreamWriter] = await streams
    return both
