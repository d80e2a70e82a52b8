"""The queries that run: who asks them, since when, and how they are cancelled."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from trilayer_server.http.faults import NOT_FOUND, TOO_MANY, Failure
from trilayer_server.http.limits import Limits
from trilayer_server.http.security import Requester


@dataclass
class Running:
    """One query that runs.

    Attributes:
        id: Its identifier.
        layer: The layer that answers.
        who: Who asks.
        started: When it was asked.
        cancelled: Whether somebody has cancelled it.
        gone: Whether its client has left.
    """

    id: str
    layer: str
    who: str
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    cancelled: bool = False
    gone: bool = False
    _begun: float = field(default_factory=time.monotonic)
    _limit: asyncio.Timeout | None = None

    @property
    def seconds(self) -> float:
        """How long it has been running, in seconds."""
        return time.monotonic() - self._begun

    def limit(self, seconds: float) -> asyncio.Timeout:
        """The time limit of its work, a block that raises TimeoutError also when it is ended."""
        self._limit = asyncio.timeout(seconds)
        return self._limit

    def cancel(self) -> None:
        """Cancels it because somebody asks for that."""
        self.cancelled = True
        self._end()

    def leave(self) -> None:
        """Cancels it because its client has left."""
        self.gone = True
        self._end()

    def _end(self) -> None:
        if self._limit is not None:
            with suppress(RuntimeError):  # it has ended already
                self._limit.reschedule(asyncio.get_running_loop().time())

    def to_json(self) -> dict[str, Any]:
        """The query as a JSON document, without its SQL."""
        return {
            "id": self.id,
            "started": self.started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "elapsed_s": round(self.seconds, 3),
            "layer": self.layer,
            "who": self.who,
        }


class RunningQueries:
    """All queries that run."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: dict[str, Running] = {}
        self._numbers = itertools.count(1)

    def seconds(self, wanted: float | None) -> float:
        """How long a query may take whose client wants so many seconds, or does not say."""
        return min(wanted or self._limits.answer_s, self._limits.most_answer_s)

    @contextmanager
    def running(self, id_: str | None, layer: str, client: Requester) -> Iterator[Running]:
        """Lists a query while it runs, or waits for a place among those of all clients.

        Args:
            id_: Its identifier, if the client has chosen one.
            layer: The layer that answers.
            client: Who asks.

        Raises:
            Failure: The identifier is in use, or too many queries of this client run.
        """
        got = sum(query.who == client.who for query in self._running.values())
        if got >= (most := self._limits.queries_each):
            raise Failure(
                429,
                TOO_MANY,
                f"at most {most} queries of one client must run at once; {got} do",
                "Ask again when one has been answered",
                headers={"Retry-After": "1"},
            )
        id_ = id_ or f"q{next(self._numbers)}-{secrets.token_hex(4)}"
        if id_ in self._running:
            raise Failure(409, "42710", f"id must not be that of a query that runs; got {id_!r}")
        query = self._running[id_] = Running(id_, layer, client.who)
        try:
            yield query
        finally:
            del self._running[id_]

    def cancel(self, id_: str, client: Requester) -> Running:
        """Cancels a query. A reader may cancel its own, and an admin each.

        Raises:
            Failure: No such query of this client runs.
        """
        query = self._running.get(id_)
        if query is None or not (client.is_admin or query.who == client.who):
            raise Failure(
                404,
                NOT_FOUND,
                f"id must be that of a query of yours that runs; got {id_!r}",
                "GET /v1/sql lists the queries that run",
            )
        query.cancel()
        return query

    def close(self) -> None:
        """Cancels all."""
        for query in self._running.values():
            query.cancel()

    def list(self) -> list[Running]:
        """The queries that run, oldest first."""
        return sorted(self._running.values(), key=lambda query: query.started)
