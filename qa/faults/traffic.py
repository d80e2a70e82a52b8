"""What arrives while faults are injected: good events at a steady rate, and hostile bytes beside
them.

Each good event has a serial number, so that it can be recognized wherever it is counted. The
hostile ones are those of `tests.support.hostile`. None of them fits the schema here, since none has
a serial number; but all their columns are there, so that their values are parsed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from tests.support.hostile import MAX_EVENT_BYTES, SCHEMA

_CATALOG = """
from trilayer import Catalog, Stream, View, count, latest, max_, sliding, sum_, tumbling

orders = Stream(
    "orders",
    schema="serial bigint not null, user string, amount decimal(10,2), note string, MORE",
    event_time="at", topic="TOPIC", partitions=3, max_event_bytes=BYTES,
)
by_user = View(
    "by_user", source=orders, key=["user"],
    aggregates={
        "n": count(), "serials": sum_("serial"), "spent": sum_("amount"), "highest": max_("ratio"),
        "last": latest("serial", by="at"),
    },
)
by_minute = View(
    "by_minute",
    source=orders,
    key={"minute": tumbling("at", "1 minute")},
    aggregates={"n": count()},
)
hourly = View(
    "hourly", source=orders, key={"hour": sliding("at", "1 hour", "15 minutes")},
    aggregates={"n": count(where="amount > 5")},
)
catalog = Catalog(views=[by_user, by_minute, hourly])
"""


def catalog_on(topic: str) -> str:
    """The module of a catalog whose stream has `topic`."""
    more = SCHEMA.replace("id string not null", "id string")
    return (
        _CATALOG.replace("TOPIC", topic)
        .replace("MORE", more)
        .replace("BYTES", str(MAX_EVENT_BYTES))
    )


DELIVERY_S = 30.0
"""How long a client may take to deliver a record before it gives it up, in seconds."""

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


class Producer(threading.Thread):
    """Sends what `encode` makes of `items`, at `rate` a second until `stop`, and records what the
    broker acknowledges.

    Attributes:
        sent: how many were handed to the client.
        acknowledged: where each acknowledged record lies: (partition, offset) to its item.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        items: Iterator[Any],
        rate: float,
        encode: Callable[[Any], bytes],
    ) -> None:
        super().__init__(daemon=True, name="producer")
        self._servers, self._topic, self._items, self._rate = bootstrap, topic, items, rate
        self._encode = encode
        self._ending = threading.Event()
        self.sent = 0
        self.acknowledged: dict[tuple[int, int], Any] = {}
        self._heard = 0.0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Begins again with a new client where the broker has refused one, or one has stalled.

        A client has been seen to wait for ever after its broker had been killed: it took records,
        sent none, and gave none up.
        """
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
            delivery_timeout_ms=round(1_000 * DELIVERY_S),
            request_timeout_ms=10_000,
            max_request_size=2_000_000,
            max_block_ms=10_000,
        )
        try:
            began, before = time.monotonic(), self.sent
            self._heard = began
            while not self._ending.is_set():
                due = before + round((time.monotonic() - began) * self._rate)
                while self.sent < due and not self._ending.is_set():
                    item = next(self._items)
                    self.sent += 1
                    future = client.send(self._topic, self._encode(item))
                    future.add_callback(partial(self._record, item))
                if time.monotonic() > self._heard + 2 * DELIVERY_S:
                    raise KafkaTimeoutError(f"nothing acknowledged for {2 * DELIVERY_S:g} s")
                self._ending.wait(0.01)
            client.flush(timeout=30)
        finally:
            client.close(timeout=5)

    def _record(self, item: Any, at: Any) -> None:
        self.acknowledged[at.partition, at.offset] = item
        self._heard = time.monotonic()
