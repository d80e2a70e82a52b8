"""Queries that are followed: their subscribers, and their events, which the server sends."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from typing import Annotated

from fastapi import FastAPI, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from serving_layer.snapshot import Layer
from trilayer_server.engine.pool import Pool
from trilayer_server.engine.slots import Slots
from trilayer_server.http.faults import TOO_MANY, Failure, failure_of
from trilayer_server.http.limits import Limits
from trilayer_server.http.security import Requester, requester_of
from trilayer_server.http.shared import Followed, Shared
from trilayer_server.http.sql import check_length
from trilayer_server.http.subscriber import Ended, Subscriber
from trilayer_server.http.watch import Watch
from trilayer_server.metrics import Metrics
from trilayer_server.sql_error import SqlError

logger = logging.getLogger("trilayer_server")

RETRY_MS = 2_000
"""How long a client waits before it connects again, in ms."""

AT_ONCE = 4
"""How many followed queries are evaluated at once, each by a worker that has to be forked."""

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


class Subscriptions:
    """All queries that are followed, and who follows them."""

    def __init__(self, engine: Pool, limits: Limits, metrics: Metrics) -> None:
        self._limits, self._metrics = limits, metrics
        self._watch, self._slots = Watch(engine, limits), Slots(AT_ONCE)
        self._shared: dict[Followed, Shared] = {}
        self._drops: dict[Followed, asyncio.TimerHandle] = {}
        # How many subscribers of a query a client is.
        self._clients: Counter[tuple[Followed, str]] = Counter()
        self._closed = False

    def __len__(self) -> int:
        """The number of subscribers."""
        return self._clients.total()

    @property
    def queries(self) -> int:
        """The number of different queries that they ask."""
        return sum(bool(shared.subscribers) for shared in self._shared.values())

    async def join(
        self, followed: Followed, client: Requester, last_id: str | None
    ) -> tuple[Shared, Subscriber]:
        """Adds a subscriber.

        Args:
            followed: What it follows.
            client: Who it is, for the limits of one client.
            last_id: The identifier of the last event that it has received; None if it has none.

        Returns:
            The query, which it shares with others, and the subscriber.

        Raises:
            Failure: There are too many.
            SqlError: The query has no answer.
        """
        self._check(followed, client.who)
        shared = self._shared.get(followed)
        if shared is None:
            self._make_room()
            shared = self._shared[followed] = Shared(
                followed, client.who, self._watch, self._slots, self._metrics
            )
        if (drop := self._drops.pop(followed, None)) is not None:
            drop.cancel()
        self._clients[followed, client.who] += 1
        try:
            return shared, await shared.join(last_id)
        except BaseException:
            self._left(shared, client)
            raise

    def leave(self, shared: Shared, subscriber: Subscriber, client: Requester) -> None:
        """Removes a subscriber."""
        shared.leave(subscriber)
        self._left(shared, client)

    def close(self) -> None:
        """Ends all, and takes no more."""
        self._closed = True
        for drop in self._drops.values():
            drop.cancel()
        for shared in self._shared.values():
            shared.close()

    def _left(self, shared: Shared, client: Requester) -> None:
        followed = shared.followed
        self._clients[followed, client.who] -= 1
        if not self._clients[followed, client.who]:
            del self._clients[followed, client.who]
        if not shared.subscribers and followed not in self._drops and not self._closed:
            held_s = self._limits.held_s if shared.has_answer else 0
            loop = asyncio.get_running_loop()
            self._drops[followed] = loop.call_later(held_s, self._drop, followed)

    def _drop(self, followed: Followed) -> None:
        del self._drops[followed]
        self._shared.pop(followed).close()

    def _check(self, followed: Followed, who: str) -> None:
        if self._closed:
            raise Failure(503, "57P01", "the server is ending", headers={"Retry-After": "2"})
        limits = self._limits
        mine = {asked: number for (asked, by), number in self._clients.items() if by == who}
        for got, most, condition in (
            (
                sum(mine.values()),
                limits.subscribers_each,
                "subscribers of one client must be there",
            ),
            (len(self), limits.subscribers, "subscribers must be there"),
            (
                len(mine) if followed not in mine else 0,
                limits.shared_each,
                "different queries of one client must be followed",
            ),
        ):
            if got >= most:
                raise _too_many(f"at most {most} {condition} at once")

    def _make_room(self) -> None:
        """Drops an answer that is only held, if there are too many queries."""
        if len(self._shared) < self._limits.shared:
            return
        if not self._drops:
            raise _too_many(
                f"at most {self._limits.shared} different queries must be followed at once"
            )
        followed, drop = next(iter(self._drops.items()))
        drop.cancel()
        self._drop(followed)


def _too_many(message: str) -> Failure:
    return Failure(
        429,
        TOO_MANY,
        f"{message}; there are as many",
        "End another subscription first",
        headers={"Retry-After": "5"},
    )


def whole_sql(sql: str) -> str:
    """The statement, where a name alone stands for all rows of that view or query."""
    text = sql.strip().rstrip(";").strip()
    parts = text.split(".")
    return f"FROM {text}" if len(parts) <= 2 and all(p.isidentifier() for p in parts) else sql


def add(app: FastAPI, subscriptions: Subscriptions, limits: Limits) -> None:
    """Adds the endpoint to an application."""

    @app.get("/v1/subscribe", tags=["queries"], response_class=Response)
    async def subscribe(
        request: Request,
        sql: Annotated[str, Query(description="One SELECT, or the name of a view or query.")],
        layer: Annotated[
            Layer, Query(description="The layer in which names without a schema are looked up.")
        ] = "merged",
        key: Annotated[
            str | None,
            Query(
                max_length=4_096,
                description="The columns that identify a row, separated by commas; by default the"
                " keys of a view.",
            ),
        ] = None,
        last_id: Annotated[
            str | None,
            Header(
                alias="Last-Event-ID",
                max_length=128,
                description="The `id` of the last event that was received; those after it follow.",
            ),
        ] = None,
    ) -> Response:
        """Follows the answer to one SELECT: a snapshot, then each change, as server-sent events."""
        check_length(sql, limits)
        columns = tuple(dict.fromkeys(name.strip() for name in key.split(","))) if key else None
        followed = Followed(whole_sql(sql), layer, columns)
        return _Stream(subscriptions, followed, requester_of(request), last_id, limits)


class _Stream(Response):
    """The events of one subscriber."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        followed: Followed,
        client: Requester,
        last_id: str | None,
        limits: Limits,
    ) -> None:
        super().__init__()
        self._subscriptions, self._followed, self._client = subscriptions, followed, client
        self._last_id, self._limits = last_id, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers as ASGI says."""
        try:
            shared, subscriber = await self._subscriptions.join(
                self._followed, self._client, self._last_id
            )
        except SqlError as error:
            await failure_of(error).response()(scope, receive, send)
            return
        except Failure as failure:
            await failure.response()(scope, receive, send)
            return
        sending = asyncio.create_task(self._send(shared, subscriber, send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._subscriptions.leave(shared, subscriber, self._client)
            for task in (sending, leaving):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    async def _send(self, shared: Shared, subscriber: Subscriber, send: Send) -> None:
        headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _part(send, f"retry: {RETRY_MS}\n\n".encode())
        while True:
            try:
                event = await subscriber.next(shared.snapshot, self._limits.beat_s)
            except Ended:
                break
            try:
                async with asyncio.timeout(self._limits.stuck_s):
                    await _part(send, b": beat\n\n" if event is None else event.encoded)
            except TimeoutError:
                logger.info("a subscriber that takes nothing is let go")
                return
        await send({"type": "http.response.body", "body": b""})


async def _part(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
