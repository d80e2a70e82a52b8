"""Generates the history of a table of products, as Debezium sends it from MySQL or PostgreSQL.

The same seed and start give the same bytes.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from examples.demo import Event
from examples.inventory import UNAVAILABLE

SOURCES = ("mysql", "postgresql")
NAMES = ["anvil", "rope", "bird seed", 'trap "XL"', "Käse", "glue, strong", "", "NULL"]


@dataclass(frozen=True)
class Record:
    """A record of the topic: its key, its value, which a tombstone lacks, and its append time."""

    key: bytes
    value: bytes | None
    appended: datetime


@dataclass
class Database:
    """A table, and the records that the connector has sent of it.

    Attributes:
        rows: The rows by their ids: what every answer must be in the end.
        records: The records, in order.
    """

    source: str
    schema: bool
    now: datetime
    rows: dict[int, Event] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    position: int = 1000

    def change(self, op: str, id_: int, row: Event | None, *, unchanged: bool = False) -> None:
        """Changes a row and sends the change, for a delete with its tombstone."""
        before = self.rows.get(id_)
        self.now += timedelta(milliseconds=137)
        self.position += 120
        if row is None:
            del self.rows[id_]
        else:
            self.rows[id_] = row
        after = row and _encoded(row)
        if after and unchanged:
            after["description"] = UNAVAILABLE
        # PostgreSQL only sends the key of the row as it was.
        old = before and (_encoded(before) if self.source == "mysql" else {"id": id_})
        milliseconds = _since_1970(self.now) // 1000
        value = {
            "before": old if op in "ud" else None,
            "after": after,
            "source": self._place()
            | {"ts_ms": milliseconds - 20, "db": "shop", "table": "products"},
            "op": op,
            "ts_ms": milliseconds,
            "transaction": None,
        }
        self._send(id_, value)
        if op == "d":
            self._send(id_, None)

    def send_again(self, number: int) -> None:
        """Sends the last records once more, as a connector does that was killed."""
        self.records += self.records[-number:]

    def _place(self) -> Event:
        if self.source == "postgresql":
            return {"connector": "postgresql", "lsn": self.position, "snapshot": "false"}
        file, pos = divmod(self.position, 1000)
        return {"connector": "mysql", "file": f"binlog.{file:06}", "pos": pos, "row": 0}

    def _send(self, id_: int, value: Event | None) -> None:
        texts = [None if part is None else self._text(part) for part in ({"id": id_}, value)]
        assert texts[0] is not None
        self.records.append(Record(texts[0], texts[1], self.now))

    def _text(self, payload: Event) -> bytes:
        schema = {"type": "struct", "fields": [{"type": "int32", "field": "id"}]}
        whole: Any = {"schema": schema, "payload": payload} if self.schema else payload
        return json.dumps(whole, ensure_ascii=False).encode()


def _since_1970(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def _encoded(row: Event) -> Event:
    """A row as Debezium writes it: decimals as Base64 of an integer, times as microseconds."""
    price, updated = row["price"], row["updated_at"]
    if price is not None:
        cents = int(price.scaleb(2))
        size = cents.bit_length() // 8 + 1
        price = base64.b64encode(cents.to_bytes(size, "big", signed=True)).decode()
    return row | {"price": price, "updated_at": _since_1970(updated)}


def generate(*, source: str, events: int, seed: int, start: datetime, schema: bool) -> Database:
    """A history of about so many changes, of which the first rows are read by a snapshot."""
    random = Random(seed)
    database = Database(source, schema, start)

    def row(id_: int, description: str | None) -> Event:
        cents = random.choice([random.randint(-10_000, 10_000), 0, 99_999_999_99, -128, 127, 128])
        return {
            "id": id_,
            "name": random.choice([*NAMES, None]),
            "price": random.choice([Decimal(cents) / 100, None]),
            "description": description,
            "updated_at": database.now + timedelta(microseconds=random.randint(0, 999_999)),
        }

    for id_ in range(10):
        database.change("r", id_, row(id_, f"number {id_}"))
    last = 10
    while len(database.records) < events:
        kind = random.random()
        if kind < 0.25 or not database.rows:
            # A row that was deleted may come back with the same id.
            id_ = random.choice([last, random.randrange(last)])
            last += id_ == last
            if id_ not in database.rows:
                database.change("c", id_, row(id_, f"made {len(database.records)}"))
        elif kind < 0.7:
            id_ = random.choice(sorted(database.rows))
            same = source == "postgresql" and random.random() < 0.5
            old = database.rows[id_]["description"]
            text = old if same else random.choice([None, f"changed {len(database.records)}"])
            database.change("u", id_, row(id_, text), unchanged=same)
        elif kind < 0.95:
            database.change("d", random.choice(sorted(database.rows)), None)
        else:
            database.send_again(random.randint(1, 5))
    return database
