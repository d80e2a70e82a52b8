"""One query that is followed: its answer, and the changes of it.

It runs once for all subscribers, whenever the store has a new state. A subscriber that comes back
gets the events that it has missed, as long as they are held.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from serving_layer.snapshot import Layer
from trilayer_core.errors import did_you_mean
from trilayer_server.engine.query import Query
from trilayer_server.engine.slots import Slots
from trilayer_server.engine.worker_process import chunks_of
from trilayer_server.http.columns import columns_json
from trilayer_server.http.faults import INTERNAL, INVALID, TOO_MUCH
from trilayer_server.http.subscriber import Event, Reason, Subscriber
from trilayer_server.http.watch import Watch, state_of
from trilayer_server.metrics import Metrics
from trilayer_server.sql_error import CANCELLED, SqlError

logger = logging.getLogger("trilayer_server")

Row = list[Any]

MOST_BYTES = 16 * 2**20
"""The length of the largest answer that is followed, as JSON."""

SUBSCRIPTIONS = "GET /v1/subscribe"
"""The client of queries that are followed: the server, once for all subscribers."""

CHANGES = 256
"""How many changes of an answer are held for those who resume."""


@dataclass(frozen=True)
class Followed:
    """What is followed.

    Attributes:
        sql: The statement.
        layer: The layer.
        key: The columns that identify a row; None for the key of a view, or else the whole row.
    """

    sql: str
    layer: Layer
    key: tuple[str, ...] | None


@dataclass(frozen=True)
class _Answer:
    """An answer, as it was at one time.

    Attributes:
        id: Its identifier.
        columns: Its columns.
        provenance: What it is based on.
        rows: Its rows by key. Of equal rows without a key each has a number.
        encoded: Its rows as JSON.
    """

    id: str
    columns: Sequence[Mapping[str, str]]
    provenance: Mapping[str, Any]
    rows: Mapping[tuple[str, int], Row]
    encoded: bytes


class Shared:
    """A query that is evaluated once for all who follow it."""

    def __init__(
        self,
        followed: Followed,
        who: str,
        watch: Watch,
        slots: Slots,
        metrics: Metrics,
    ) -> None:
        self.followed, self._who = followed, who
        self._key: Sequence[str] | None = followed.key
        self.subscribers: set[Subscriber] = set()
        self._engine, self._limits = watch.engine, watch.limits
        self._watch, self._slots, self._metrics = watch, slots, metrics
        self._answer: _Answer | None = None
        self._snapshots: dict[Reason, Event] = {}
        self._changes: deque[tuple[str, Event | None]] = deque(maxlen=CHANGES)
        self._number, self._nonce = 0, secrets.token_hex(4)
        self._unsent_progress = False
        self._sent_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None

    @property
    def has_answer(self) -> bool:
        """Whether it has been evaluated."""
        return self._answer is not None

    async def join(self, last_id: str | None) -> Subscriber:
        """Adds a subscriber that gets the changes from now on, or since the state that it has.

        Args:
            last_id: The identifier of the state that it has; None if it has none.

        Raises:
            SqlError: The query has no answer.
        """
        subscriber = Subscriber(self._limits.waiting)
        self.subscribers.add(subscriber)
        try:
            if self._task is None:
                self._first = asyncio.get_running_loop().create_future()
                self._task = asyncio.create_task(self._follow(self._first))
            if self._first is not None:
                await asyncio.shield(self._first)
            # Events that were put meanwhile are part of this answer.
            missed = self._since(last_id) if last_id else None
            if missed is None:
                subscriber.snapshot("resumed" if last_id else "first")
            else:
                subscriber.restart([*missed, self._progress()])
        except BaseException:
            self.leave(subscriber)
            raise
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Removes one. With the last the evaluation ends, and the answer is held."""
        self.subscribers.discard(subscriber)
        if not self.subscribers and self._task is not None:
            self._task.cancel()
            self._task = None

    def close(self) -> None:
        """Ends it, and all who follow it."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for subscriber in self.subscribers:
            subscriber.end()

    def snapshot(self, reason: Reason) -> Event | None:
        """An event of the whole answer; None while there is none."""
        if (answer := self._answer) is None:
            return None
        if (made := self._snapshots.get(reason)) is not None and made.id == answer.id:
            return made
        # A line of its own would end the event; inside of texts JSON escapes it.
        rows = answer.encoded.decode().replace("\n", "")
        head = {"columns": answer.columns, "key": self._key_of(answer), "reason": reason}
        data = f'{_compact(head)[:-1]},"rows":{rows},"provenance":{_compact(answer.provenance)}}}'
        self._snapshots[reason] = Event("snapshot", data, answer.id)
        return self._snapshots[reason]

    async def _follow(self, first: asyncio.Future[None]) -> None:
        try:
            if self._key is None:
                self._key = await self._own_key()
            seen = await state_of(self._engine, self._limits)
            while True:
                self._take(*await self._evaluated())
                if not first.done():
                    first.set_result(None)
                    self._first = None
                seen = await self._next(seen)
        except SqlError as error:
            self._fail(error, first)
        except Exception:  # subscribers must learn of any
            logger.exception("a query that is followed can't be answered any more")
            self._fail(SqlError(INTERNAL, "the query can't be answered any more"), first)
        finally:
            if not first.done():
                first.set_exception(SqlError("57P01", "the server is ending"))
                first.exception()  # nobody may be waiting for it

    def _fail(self, error: SqlError, first: asyncio.Future[None]) -> None:
        self._task, self._answer = None, None
        self._changes.clear()
        self._snapshots.clear()
        if not first.done():
            first.set_exception(error)
            first.exception()  # nobody may be waiting for it
            self._first = None
        failed = Event("failed", _compact({"error": error.to_json()}))
        for subscriber in self.subscribers:
            subscriber.end(failed)

    async def _next(self, seen: int) -> int:
        """Waits for the next state, and reports meanwhile that this one has changed nothing."""
        while True:
            wait = None
            if self._unsent_progress:
                wait = self._sent_at + self._limits.progress_s - time.monotonic()
                if wait <= 0:
                    self._send(self._progress())
                    wait = None
            try:
                async with asyncio.timeout(wait):
                    return await self._watch.next(seen)
            except TimeoutError:
                continue

    async def _own_key(self) -> Sequence[str] | None:
        """The key of the view whose rows are followed; None if it is another answer."""
        try:
            async with asyncio.timeout(self._limits.answer_s):
                return await self._engine.key(self.followed.sql, self._who)
        except TimeoutError:
            raise self._late() from None

    def _late(self) -> SqlError:
        return SqlError(
            CANCELLED, f"the answer must be complete within {self._limits.answer_s:g} s"
        )

    async def _evaluated(self) -> tuple[_Answer, list[Row], list[Row]]:
        """The present answer, the rows that are new or changed, and the keys that are gone."""
        most = self._limits.rows
        query = Query(self.followed.sql, self.followed.layer, output="json", most_rows=most + 1)
        with self._metrics.query("subscribe") as outcome:
            try:
                async with (
                    self._slots.slot(self._who),
                    asyncio.timeout(self._limits.answer_s),
                    self._engine.ask(query, SUBSCRIPTIONS) as answer,
                    chunks_of(answer) as chunks,
                ):
                    encoded = bytearray()
                    async for chunk in chunks:
                        encoded += chunk
                        if len(encoded) > MOST_BYTES:
                            break
                    columns, provenance = columns_json(answer.schema), answer.provenance
            except TimeoutError:
                outcome.set("timeout")
                raise self._late() from None
        if len(encoded) > MOST_BYTES:
            raise _too_much(f"{MOST_BYTES:,} bytes")
        # A large answer takes a while, in which others are answered.
        return await asyncio.to_thread(self._compared, bytes(encoded), columns, provenance)

    def _compared(
        self, encoded: bytes, columns: Sequence[Mapping[str, str]], provenance: Mapping[str, Any]
    ) -> tuple[_Answer, list[Row], list[Row]]:
        self._number += 1
        id_, before = _id(provenance, f"{self._nonce}-{self._number}"), self._answer
        if before is not None and (before.encoded, before.columns) == (encoded, columns):
            return replace(before, id=id_, provenance=provenance), [], []
        rows: list[Row] = json.loads(encoded)
        if len(rows) > self._limits.rows:
            raise _too_much(f"{self._limits.rows:,} rows")
        by_key = self._keyed(rows, [column["name"] for column in columns])
        answer = _Answer(id_, columns, provenance, by_key, encoded)
        if before is None or before.columns != columns:
            return answer, [], []
        upserts = [row for key, row in by_key.items() if before.rows.get(key) != row]
        deletes = [
            self._values(row, before) for key, row in before.rows.items() if key not in by_key
        ]
        return answer, upserts, deletes

    def _take(self, answer: _Answer, upserts: list[Row], deletes: list[Row]) -> None:
        """Makes an answer the present one, and sends its changes."""
        before, self._answer = self._answer, answer
        self._snapshots.clear()
        if before is None or before.columns != answer.columns:
            self._changes.clear()
            self._changes.append((answer.id, None))
            for subscriber in self.subscribers:
                subscriber.snapshot("first")
            return
        if not upserts and not deletes:
            self._unsent_progress = True
            self._changes.append((answer.id, None))
            return
        document = {"upserts": upserts, "deletes": deletes, "provenance": answer.provenance}
        change = Event("change", _compact(document), answer.id)
        self._changes.append((answer.id, change))
        while sum(len(c.data) for _, c in self._changes if c) > MOST_BYTES:
            self._changes.popleft()
        self._send(change)

    def _send(self, event: Event) -> None:
        self._sent_at, self._unsent_progress = time.monotonic(), False
        for subscriber in self.subscribers:
            subscriber.put(event)

    def _since(self, last_id: str) -> list[Event] | None:
        """The changes since a state; None if it is not held any more."""
        ids = [id_ for id_, _ in self._changes]
        if last_id not in ids:
            return None
        return [change for _, change in [*self._changes][ids.index(last_id) + 1 :] if change]

    def _progress(self) -> Event:
        answer = self._answer
        assert answer is not None  # there is no progress before there is one
        return Event("progress", _compact({"provenance": answer.provenance}), answer.id)

    def _key_of(self, answer: _Answer) -> list[str]:
        return [*(self._key or (column["name"] for column in answer.columns))]

    def _keyed(self, rows: list[Row], columns: list[str]) -> dict[tuple[str, int], Row]:
        """Rows by key."""
        key = self._key
        for name in key or ():
            if columns.count(name) != 1:
                raise SqlError(
                    INVALID,
                    f"key must name columns of the answer; got {name!r}"
                    f"{did_you_mean(name, columns)}",
                )
        places = [columns.index(name) for name in key] if key else None
        keyed: dict[tuple[str, int], Row] = {}
        copies: dict[str, int] = {}
        for row in rows:
            text = _compact(row if places is None else [row[place] for place in places])
            copy = copies[text] = copies.get(text, -1) + 1
            if copy and key:
                raise SqlError(
                    INVALID,
                    f"key must identify a row of the answer; several have {', '.join(key)} ="
                    f" {text}",
                    "Name more columns, or leave out key to compare whole rows",
                )
            keyed[text, copy] = row
        return keyed

    def _values(self, row: Row, answer: _Answer) -> Row:
        """The key of a row."""
        if self._key is None:
            return row
        columns = [column["name"] for column in answer.columns]
        return [row[columns.index(name)] for name in self._key]


def _too_much(limit: str) -> SqlError:
    return SqlError(
        TOO_MUCH,
        f"an answer that is followed must have at most {limit}; it has more",
        "Aggregate or filter in the statement, or ask for it by POST /v1/sql",
    )


def _id(provenance: Mapping[str, Any], suffix: str) -> str:
    """The publication, a digest of the heads, and what no other answer has.

    Time alone may change an answer, so that the first two are not enough.
    """
    heads = {name: stream["head"] for name, stream in provenance["streams"].items()}
    digest = hashlib.sha256(json.dumps(heads, sort_keys=True).encode()).hexdigest()[:16]
    return f"{provenance['version'] or 0}-{digest}-{suffix}"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
