"""Portals of the extended protocol: messages that come together are answered like single ones."""

import socket
import struct

import pytest

READY = b"Z\0\0\0\x05"
END = b"C\0\0\0\x10SELECT 5000\0" + READY + b"I"
FLUSH = b"H\0\0\0\x04"
MANY = b"SELECT i, 'v' || i FROM range(5000) t(i)"
FAILS = b"SELECT CASE WHEN i = 4500 THEN error('too far')::BIGINT ELSE i END FROM range(5000) t(i)"
SYNC = [(b"S", b"")]


def bound(name, sql):
    return [
        (b"P", b"\0" + sql + b"\0\0\0"),
        (b"B", name + b"\0\0" + b"\0\0" * 3),
    ]


def described(name):
    return (b"D", b"P" + name + b"\0")


def executed(name, rows=0):
    return (b"E", name + b"\0" + struct.pack(">i", rows))


PLAIN = [*bound(b"", MANY), described(b""), executed(b""), *SYNC]
CASES = {
    "all at once": PLAIN,
    "in parts": [
        *bound(b"", MANY),
        described(b""),
        *(executed(b"", rows) for rows in (3, 1, 2000, 0)),
        *SYNC,
    ],
    "described twice": [
        *bound(b"p", MANY),
        described(b"p"),
        executed(b"p", 2),
        described(b"p"),
        executed(b"p", 2),
        *SYNC,
    ],
    "two of them": [
        *bound(b"p", MANY),
        *bound(b"q", b"SELECT 7"),
        described(b"p"),
        described(b"q"),
        executed(b"q"),
        executed(b"p", 5),
        executed(b"p", 5),
        *SYNC,
    ],
    "another follows": [
        *bound(b"p", MANY),
        *bound(b"q", b"SELECT 7"),
        described(b"p"),
        executed(b"q"),
        executed(b"p"),
        *SYNC,
    ],
    "one that is not there follows": [
        *bound(b"p", MANY),
        described(b"p"),
        executed(b"nothing"),
        executed(b"p"),
        *SYNC,
        *PLAIN,
    ],
    "never executed": [*bound(b"p", MANY), described(b"p"), *SYNC, *PLAIN],
    "closed before its end": [
        *bound(b"p", MANY),
        described(b"p"),
        executed(b"p", 5),
        (b"C", b"Pp\0"),
        *bound(b"p", b"SELECT 8"),
        described(b"p"),
        executed(b"p"),
        *SYNC,
    ],
    "fails when it is read": [*bound(b"", FAILS), described(b""), executed(b""), *SYNC, *PLAIN],
    "fails at once": [
        *bound(b"", b"SELECT nothing"),
        described(b""),
        executed(b""),
        *SYNC,
        *PLAIN,
    ],
    "in a transaction that fails": [
        (b"Q", b"BEGIN\0"),
        *bound(b"", b"SELECT nothing"),
        described(b""),
        executed(b""),
        *SYNC,
        *bound(b"", MANY),
        described(b""),
        executed(b""),
        *SYNC,
        (b"Q", b"ROLLBACK\0"),
        *PLAIN,
    ],
}


@pytest.mark.parametrize("messages", CASES.values(), ids=CASES)
def test_messages_that_come_together_are_answered_like_single_ones(served, messages):
    """A Flush between two messages has no answer, but the first is answered before the second."""
    framed = [kind + struct.pack(">i", len(body) + 4) + body for kind, body in messages]
    syncs = sum(kind in b"SQ" for kind, _ in messages)
    together = _answers(served, b"".join(framed), syncs)
    assert together == _answers(served, FLUSH.join(framed), syncs)
    if messages[-len(PLAIN) :] == PLAIN:
        _, rows, end = together.rpartition(b"v0")
        assert (rows + end).endswith(b"v4999" + END)
        assert (rows + end).count(b"v4") == 1111


def _answers(served, asked, syncs):
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as raw:
        startup = b"\0\3\0\0user\0u\0database\0trilayer\0\0"
        raw.sendall(struct.pack(">i", len(startup) + 4) + startup)
        _read(raw, 1)
        raw.sendall(asked)
        return _read(raw, syncs)


def _read(raw, syncs):
    """All that comes, up to the end of so many answers."""
    found = b""
    while found.count(READY) < syncs:
        data = raw.recv(1 << 16)
        assert data, found
        found += data
    return found
