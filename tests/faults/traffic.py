"""What arrives while faults are injected: good events at a steady rate, and hostile bytes beside them.

Each good event has a serial number, so that it can be recognized wherever it is counted. No hostile event fits the
schema: each lacks the serial number, or is no JSON object at all.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

CATALOG = """
from trilayer import Catalog, Stream, View, count, latest, max_, sliding, sum_, tumbling

orders = Stream(
    "orders",
    schema="serial bigint not null, user string, amount decimal(10,2), ratio double, note string, at timestamp",
    event_time="at", topic="TOPIC", partitions=3,
)
by_user = View(
    "by_user", source=orders, key=["user"],
    aggregates={
        "n": count(), "serials": sum_("serial"), "spent": sum_("amount"), "highest": max_("ratio"),
        "last": latest("serial", by="at"),
    },
)
by_minute = View("by_minute", source=orders, key={"minute": tumbling("at", "1 minute")}, aggregates={"n": count()})
hourly = View(
    "hourly", source=orders, key={"hour": sliding("at", "1 hour", "15 minutes")},
    aggregates={"n": count(where="amount > 5")},
)
catalog = Catalog(views=[by_user, by_minute, hourly])
"""

_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
USERS = 41


def user_of(serial: int) -> str:
    """The user of a good event."""
    return f"u{serial % USERS}"


def amount_of(serial: int) -> Decimal:
    """The amount of a good event."""
    return Decimal(serial % 997) / 100


def good(serial: int) -> bytes:
    """A good event. Its time grows with its serial number, so that the latest has the greatest."""
    at = _FIRST + timedelta(milliseconds=100 * serial)
    row = {
        "serial": serial,
        "user": user_of(serial),
        "amount": float(amount_of(serial)),
        "ratio": serial / 7,
        "note": "as it should be",
        "at": at.isoformat(),
    }
    return json.dumps(row).encode()


def hostile(seed: int) -> Iterator[bytes]:
    """Records without end that no parser should meet, none of which fits the schema."""
    rng = random.Random(seed)
    forms: list[Callable[[random.Random], bytes]] = [
        _deep, _huge_number, _duplicate_keys, _broken_utf8, _nul, _wide, _long, _control, _cut_off, _two_objects,
        _wrong_types, _noise, _no_object, _odd_time,
    ]  # fmt: skip
    while True:
        yield rng.choice(forms)(rng)


def _size(rng: random.Random, *sizes: int) -> int:
    """One of the sizes, each an eighth as often as the one before it."""
    return rng.choices(sizes, [8.0**-place for place in range(len(sizes))])[0]


def _deep(rng: random.Random) -> bytes:
    depth = _size(rng, 10, 500, 5_000, 50_000)
    inside, outside = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return b'{"user": "x", "note": ' + inside * depth + b"1" + outside * depth + b"}"


def _huge_number(rng: random.Random) -> bytes:
    number = rng.choice(
        [
            "1e100000000",
            "-1e2147483648",
            "1e-100000000",
            "9" * 5_000,
            "0." + "3" * 5_000,
            "1e400",
            "-0",
            "1E+999999",
        ]
    )
    field = rng.choice(["amount", "ratio", "at", "note", "user"])
    return f'{{"user": "x", "{field}": {number}}}'.encode()


def _duplicate_keys(rng: random.Random) -> bytes:
    return b"{" + b", ".join(b'"user": "x%d"' % n for n in range(_size(rng, 2, 100, 3_000))) + b"}"


def _broken_utf8(rng: random.Random) -> bytes:
    broken = rng.choice(
        [b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"]
    )
    return b'{"serial": 1, "user": "' + broken + b'"}'


def _nul(rng: random.Random) -> bytes:
    return rng.choice([b"\0", b"\0" * 1000, b'{"user": "\0"}', b'{"serial": 1\0}', b'\0{"serial": 1}'])


def _wide(rng: random.Random) -> bytes:
    columns = _size(rng, 30, 300, 3_000)
    return json.dumps({f"c{n}": {"value": n, "unit": "metres"} for n in range(columns)}).encode()


def _long(rng: random.Random) -> bytes:
    return b'{"user": "' + b"long " * _size(rng, 100, 1_000, 20_000, 100_000) + b'"}'


def _control(rng: random.Random) -> bytes:
    return b'{"serial": 1, "user": "' + bytes(rng.choice([range(1, 32), range(127, 160)])) + b'"}'


def _cut_off(rng: random.Random) -> bytes:
    whole = good(rng.randrange(1000))
    return whole[: rng.randrange(1, len(whole) - 1)]


def _two_objects(rng: random.Random) -> bytes:
    return good(1) + rng.choice([b"", b" ", b"\n", b","]) + good(2)


def _wrong_types(rng: random.Random) -> bytes:
    wrong = rng.choice(["[1]", '{"a": 1}', '"one"', "true", "1.5", "1e3", "99999999999999999999", "null"])
    return f'{{"serial": {wrong}, "user": "x"}}'.encode()


def _noise(rng: random.Random) -> bytes:
    return b"\xff" + rng.randbytes(_size(rng, 1, 100, 10_000))


def _no_object(rng: random.Random) -> bytes:
    return rng.choice(
        [b"", b" ", b"null", b"[]", b"1", b'"text"', b"NaN", b"{", b"}", b"{]", b"\xef\xbb\xbf{}"]
    )


def _odd_time(rng: random.Random) -> bytes:
    time_ = rng.choice(
        ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "+294248-01-01", "-1", "24:00", "", "now"]
    )
    return json.dumps({"user": "x", "at": time_}).encode()


class Producer(threading.Thread):
    """Sends what `encode` makes of `items`, at `rate` a second until `stop`, and records what the broker acknowledges.

    Attributes:
        sent: how many were handed to the client.
        acknowledged: where each acknowledged record lies: (partition, offset) to its item.
        failed: how many the client gave up, which may be in the log all the same.
    """

    def __init__(
        self, bootstrap: str, topic: str, items: Iterator[Any], rate: float, encode: Callable[[Any], bytes]
    ) -> None:
        super().__init__(daemon=True, name="producer")
        self._servers, self._topic, self._items, self._rate = bootstrap, topic, items, rate
        self._encode = encode
        self._ending = threading.Event()
        self.sent = 0
        self.acknowledged: dict[tuple[int, int], Any] = {}
        self.failed = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Begins again with a new client where the broker has refused one."""
        try:
            while not self._ending.is_set():
                try:
                    self._produce()
                except KafkaError:
                    self._ending.wait(0.2)
        except BaseException as error:  # noqa: BLE001  # seen by the stack, which asks for it
            self.error = error

    def stop(self) -> None:
        """Returns when all is acknowledged or given up."""
        self._ending.set()
        self.join()

    def abandon(self) -> None:
        """Ends it without waiting for a broker that may be gone."""
        self._ending.set()

    def _produce(self) -> None:
        client = KafkaProducer(
            bootstrap_servers=self._servers,
            linger_ms=5,
            acks="all",
            delivery_timeout_ms=30_000,
            request_timeout_ms=10_000,
            max_request_size=2_000_000,
            max_block_ms=10_000,
        )
        try:
            began, before = time.monotonic(), self.sent
            while not self._ending.is_set():
                due = before + round((time.monotonic() - began) * self._rate)
                while self.sent < due and not self._ending.is_set():
                    item = next(self._items)
                    self.sent += 1
                    future = client.send(self._topic, self._encode(item))
                    future.add_callback(partial(self._record, item))
                    future.add_errback(self._give_up)
                self._ending.wait(0.01)
            client.flush(timeout=30)
        finally:
            client.close(timeout=5)

    def _record(self, item: Any, at: Any) -> None:
        self.acknowledged[at.partition, at.offset] = item

    def _give_up(self, _: BaseException) -> None:
        self.failed += 1
