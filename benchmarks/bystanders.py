"""What other clients feel of an attack: the latency of point queries without and with it.

Attackers are processes of their own, and another user than the others. Each attack is measured in
turn with nothing, so that what else the machine does meanwhile is in both.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import statistics
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.synchronize import Event

import psycopg

from benchmarks.figure import Figure, ratios, say

ASKED, PAUSE_S = 300, 0.005
"""How often the others ask in one measurement, and how long they wait in between."""

BOMBS = (
    "SELECT repeat('x', 3000000000)",
    "SELECT len(list_transform(range(100000000), lambda x: x + 1))",
    "SELECT string_agg(i::VARCHAR, ',') FROM range(1000000000) t(i)",
)
ENDLESS = "SELECT count(*) FROM range(1000000000000)"
LONGEST = f"""SELECT * FROM by_user WHERE "user" IN ({", ".join(["'1234567'"] * 5_900)})"""
NESTED = "SELECT " + "(" * 32_000 + "1" + ")" * 32_000
TOO_LONG = "SELECT " + "(" * 100_000 + "1" + ")" * 100_000


def figures(
    wire: str, attacked_by: str, ask: Callable[[psycopg.Connection], None], repeats: int
) -> Sequence[Figure]:
    """Measures each attack.

    Args:
        wire: The server's address, with a user and a password.
        attacked_by: The same with another user, who attacks.
        ask: Asks one question, and checks its answer.
        repeats: How often each is measured.
    """
    figures = []
    for name in ATTACKS:
        without: list[list[float]] = []
        beside: list[list[float]] = []
        with psycopg.connect(wire, autocommit=True) as client:
            _times(client, ask)
            for _ in range(repeats):
                without.append(_times(client, ask))
                beside.append(_attacked(name, attacked_by, lambda: _times(client, ask)))
        p99 = [[_p99(times) for times in side] for side in (without, beside)]
        figures += [
            Figure(f"{name}: p50 of others without", "ms", list(map(statistics.median, without))),
            Figure(f"{name}: p50 of others with", "ms", list(map(statistics.median, beside))),
            Figure(f"{name}: p99 of others without", "ms", p99[0]),
            Figure(f"{name}: p99 of others with", "ms", p99[1]),
            Figure(f"{name}: p99 with / without", "", ratios(p99[1], p99[0])),
        ]
        say(f"{name}: p99 {p99[0]} ms without, {p99[1]} ms with")
    return figures


def _times(client: psycopg.Connection, ask: Callable[[psycopg.Connection], None]) -> list[float]:
    """The latencies of point queries, in ms."""
    times_ms = []
    for _ in range(ASKED):
        began = time.perf_counter()
        ask(client)
        times_ms.append(1000 * (time.perf_counter() - began))
        time.sleep(PAUSE_S)
    return times_ms


def _p99(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def _attacked(name: str, wire: str, measure: Callable[[], list[float]]) -> list[float]:
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    attacker = context.Process(target=_attack, args=(name, wire, begun), daemon=True)
    attacker.start()
    try:
        if not begun.wait(60):
            raise AssertionError(f"{name} must begin")
        measured = measure()
        if not attacker.is_alive():
            raise AssertionError(f"{name} must last")
        return measured
    finally:
        attacker.kill()
        attacker.join()


# -- attacks ---------------------------------------------------------------------------------------


def _attack(name: str, wire: str, begun: Event) -> None:
    """Attacks until the process is killed. A refusal is what an attacker gets."""
    while True:
        with suppress(psycopg.Error, OSError):
            ATTACKS[name](wire, begun)


def _statements(wire: str, begun: Event, statements: Sequence[str]) -> None:
    with psycopg.connect(wire, autocommit=True) as client:
        begun.set()
        while True:
            for sql in statements:
                with suppress(psycopg.DatabaseError):
                    client.execute(sql.encode())


def _connections(wire: str, begun: Event) -> None:
    """Hundreds of connections, again and again."""
    clients = []
    try:
        for _ in range(200):
            clients.append(psycopg.connect(wire))
            begun.set()
    finally:
        for client in clients:
            client.close()


def _slow_readers(wire: str, begun: Event) -> None:
    """Clients that ask for rows without end, and read none."""
    clients = [psycopg.connect(wire, autocommit=True) for _ in range(24)]
    for client in clients:
        client.pgconn.send_query(b"SELECT i, repeat('y', 1000) FROM range(1000000000000) t(i)")
        client.pgconn.flush()
    begun.set()
    while True:
        time.sleep(1)


def _cancels(wire: str, begun: Event) -> None:
    """Statements that are cancelled at once, by hundreds of requests."""
    with psycopg.connect(wire, autocommit=True) as client:
        pid = client.info.backend_pid
        host, port = client.info.host, client.info.port
        client.pgconn.send_query(ENDLESS.encode())
        client.pgconn.flush()
        begun.set()
        for number in range(500):
            secret = random.randbytes(4)
            with socket.create_connection((host, port)) as other:
                other.sendall(struct.pack(">iii", 16, 80877102, pid) + secret)
            if number % 100 == 99:
                client.cancel_safe()


def _copies(wire: str, begun: Event) -> None:
    """All rows, again and again. The attacker does not look at them: that costs it a processor."""
    ready = b"Z\0\0\0\5I"
    copy = b"COPY by_user TO STDOUT\0"
    with (
        psycopg.connect(wire, autocommit=True) as client,
        socket.socket(fileno=os.dup(client.fileno())) as there,
    ):
        there.setblocking(True)
        while True:
            there.sendall(b"Q" + struct.pack(">i", len(copy) + 4) + copy)
            last = b""
            while not last.endswith(ready):
                data = there.recv(1 << 20)
                if not data:
                    return
                last = (last + data[-len(ready) :])[-len(ready) :]
                begun.set()


def _logins(wire: str, begun: Event) -> None:
    """Wrong passwords, whose proofs the attacker does not compute: these cost nothing to send."""
    address = dict(part.split("=") for part in wire.split())
    startup = f"\0\3\0\0user\0{address['user']}\0database\0trilayer\0\0".encode()
    first = b"n,,n=,r=abcdefgh"
    begun_scram = b"SCRAM-SHA-256\0" + struct.pack(">i", len(first)) + first
    while True:
        with socket.create_connection((address["host"], int(address["port"]))) as client:
            client.sendall(struct.pack(">i", len(startup) + 4) + startup)
            client.recv(1 << 12)
            client.sendall(b"p" + struct.pack(">i", len(begun_scram) + 4) + begun_scram)
            nonce = client.recv(1 << 12).split(b"r=")[1].split(b",")[0]
            last = b"c=biws,r=" + nonce + b",p=" + b"A" * 43 + b"="
            client.sendall(b"p" + struct.pack(">i", len(last) + 4) + last)
            client.recv(1 << 12)
        begun.set()


ATTACKS: Mapping[str, Callable[[str, Event], None]] = {
    "memory bomb": lambda wire, begun: _statements(wire, begun, BOMBS),
    "endless scan": lambda wire, begun: _statements(wire, begun, [ENDLESS]),
    "many connections": _connections,
    "slow readers": _slow_readers,
    "longest statement": lambda wire, begun: _statements(wire, begun, [LONGEST]),
    "cancel storm": _cancels,
    "100,000 parentheses": lambda wire, begun: _statements(wire, begun, [TOO_LONG, NESTED]),
    "COPY of all rows": _copies,
    "login storm": _logins,
}
