"""A producer of single small events at regular moments, which takes little of a shared processor.

kafka-python needs half a millisecond of processor time for a record that is sent on its own, which
is more than what is to be measured. Here all requests are made before. What is left to be done for
an event is to write 16 digits and the checksum into one of them, and to send it. No answer is
waited for: that every event has arrived is checked in the log.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from functools import reduce
from operator import xor

from kafka.partitioner.default import murmur2
from kafka.record._crc32c import crc
from kafka.record.default_records import DefaultRecordBatchBuilder

DIGITS = 16
"""The number of digits of a moment in us since 1970, until the year 2286."""

_MARK = b"%016d" % 0
_PRODUCE, _VERSION, _TIMEOUT_MS = 0, 3, 30_000
_CHECKSUM, _CHECKED = 17, 21
"""The offset of the checksum in a batch, and of what it covers."""


class SteadyProducer:
    """Sends events of which only the moment of creation is not known before.

    Args:
        bootstrap_servers: host:port of the only broker.
        topic: The topic's name.
        partitions: Its number of partitions.
        events: The keys of the records, and their values around the moment of creation.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        events: Sequence[tuple[bytes, bytes, bytes]],
    ) -> None:
        self._requests = [
            _Request(topic, murmur2(key) % (1 << 31) % partitions, key, head, tail)
            for key, head, tail in events
        ]
        host, _, port = bootstrap_servers.rpartition(":")
        self._connection = socket.create_connection((host, int(port)))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, number: int) -> None:
        """Sends the event with this number, which is created now."""
        self._connection.sendall(self._requests[number].made(time.time_ns() // 1000))

    def close(self) -> None:
        """Returns when the broker has read everything."""
        self._connection.shutdown(socket.SHUT_WR)
        while self._connection.recv(1024):
            pass
        self._connection.close()


class _Request:
    """A request with one record, as bytes that are changed for each event."""

    def __init__(self, topic: str, partition: int, key: bytes, head: bytes, tail: bytes) -> None:
        builder = DefaultRecordBatchBuilder(
            magic=2, compression_type=0, is_transactional=False, producer_id=-1,
            producer_epoch=-1, base_sequence=-1, batch_size=1 << 20,
        )  # fmt: skip
        builder.append(0, time.time_ns() // 1_000_000, key, head + _MARK + tail, [])
        batch = bytes(builder.build())
        header = struct.pack(">hhih", _PRODUCE, _VERSION, 0, -1)
        body = struct.pack(">hhii", -1, 0, _TIMEOUT_MS, 1) + _text(topic)
        body += struct.pack(">iii", 1, partition, len(batch))
        size = struct.pack(">i", len(header) + len(body) + len(batch))
        self._bytes = bytearray(size + header + body + batch)
        start = len(self._bytes) - len(batch)
        self._checksum = start + _CHECKSUM
        self._digits = start + batch.index(_MARK)
        covered = batch[_CHECKED:]
        self._sum = crc(covered)
        self._changes = _changes(len(covered), self._digits - start - _CHECKED)

    def made(self, moment_us: int) -> bytearray:
        """The request with a moment of creation."""
        digits = b"%016d" % moment_us
        self._bytes[self._digits : self._digits + DIGITS] = digits
        changed = (row[digit] for row, digit in zip(self._changes, digits, strict=True))
        struct.pack_into(">I", self._bytes, self._checksum, reduce(xor, changed, self._sum))
        return self._bytes


_known: dict[int, list[dict[int, int]]] = {}


def _changes(size: int, at: int) -> list[dict[int, int]]:
    """By what each digit at each place changes the checksum, compared with a 0 there.

    A checksum is linear: it is changed by the sum of what each changed byte alone would change. How
    much that is depends on the number of bytes that follow.
    """
    after = size - at
    if after not in _known:
        nothing = crc(bytes(after))
        _known[after] = [
            {
                ord("0") + digit: nothing
                ^ crc(
                    bytes(place) + bytes([ord("0") ^ (ord("0") + digit)]) + bytes(after - place - 1)
                )
                for digit in range(10)
            }
            for place in range(DIGITS)
        ]
    return _known[after]


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
