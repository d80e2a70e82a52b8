"""The worker that answers one client of the wire: one a statement, or one for a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from trilayer_server.engine.pool import Pool
from trilayer_server.engine.query import Query
from trilayer_server.engine.worker_process import Opened, Worker
from trilayer_server.sql_error import SqlError, cancelled_by_user


class Client:
    """Which worker a client has.

    Outside of a transaction it has one until `settle`, which is called when the client has seen
    everything that it asked for.

    Attributes:
        version: The publication on which answers are based; None for the newest state.
        timeout_s: The client's own limit on the time of an answer, in seconds; None for none.
    """

    timeout_s: float | None = None

    def __init__(self, pool: Pool, who: str, version: int | None) -> None:
        """A client that has no worker yet.

        Args:
            pool: Where workers come from.
            who: The user, if it has proven to be one, and otherwise its address.
            version: The publication on which answers are based; None for the newest state.
        """
        self.version = version
        self._pool, self._who = pool, who
        self._worker: Worker | None = None
        self._transaction = False
        self._at_work: Worker | None = None
        self._cancelled = False
        self._wait: asyncio.Timeout | None = None

    @property
    def has_worker(self) -> bool:
        """Whether it keeps a worker, which nobody else has meanwhile."""
        return self._worker is not None

    @property
    def has_lost_state(self) -> bool:
        """Whether the worker of its transaction was ended, as when an answer took too long."""
        return self._transaction and self._worker is not None and self._worker.ended

    def check(self, text: str) -> None:
        """Raises SqlError for a statement that is too long to be parsed."""
        self._pool.limits.check_statement(len(text.encode()))

    async def begin(self) -> None:
        """Keeps a worker, and with it the state on which it answers, until `end`."""
        if self._transaction:
            return
        self._pool.pin(self._who)
        try:
            if self._worker is None:
                self._worker = await self._leased(fresh=True)
        except BaseException:
            self._pool.unpin(self._who)
            raise
        self._transaction = True

    def end(self, *, sound: bool = True) -> None:
        """Ends the transaction, if there is one.

        Args:
            sound: Whether all answers were read to their end.
        """
        if self._transaction:
            self._transaction = False
            self._pool.unpin(self._who)
        self.settle(sound=sound)

    def settle(self, *, sound: bool = True) -> None:
        """Gives the worker back, unless a transaction needs it.

        Args:
            sound: Whether all answers were read to their end.
        """
        if self._worker is None or self._transaction:
            return
        worker, self._worker = self._worker, None
        if sound:
            self._pool.give_back(worker)
        else:
            self._pool.drop(worker)

    async def open(self, query: Query, *rest: Any) -> tuple[Worker, Opened]:
        """Begins an answer, in a block of `worker`.

        Args:
            query: The query.
            rest: The further arguments of `Worker.open`.

        Raises:
            SqlError: There is no answer.
        """
        assert self._worker is not None
        self._worker, opened = await self._pool.open(self._worker, query, *rest, instead=self._take)
        self._at_work = self._worker
        return self._worker, opened

    def _take(self, worker: Worker) -> None:
        """Has another worker at work, in place of one whose state is no longer the newest."""
        if self._cancelled:
            raise cancelled_by_user()
        worker.timeout_s = self.timeout_s
        self._at_work = worker

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        """The worker, for one request. `cancel` ends it meanwhile.

        The first request to a worker must be `open`, or not be about what is newest.

        Raises:
            SqlError: The client has cancelled it while it waited for a worker.
        """
        self._cancelled = False
        if self._worker is None or (self._worker.ended and not self._transaction):
            self._worker = await self._leased(fresh=False)
            if self._cancelled:
                raise cancelled_by_user()
        worker = self._at_work = self._worker
        worker.timeout_s = self.timeout_s
        try:
            yield worker
        except SqlError:
            raise
        except BaseException:
            # What the worker has yet to send would be taken for the next answer.
            self._pool.drop(self._at_work)
            raise
        finally:
            self._at_work = None

    async def _leased(self, *, fresh: bool) -> Worker:
        """A worker from the pool; `cancel` ends the wait for it."""
        try:
            async with asyncio.timeout(None) as self._wait:
                return await self._pool.lease(self._who, self.version, fresh=fresh)
        except TimeoutError:
            raise cancelled_by_user() from None

    @asynccontextmanager
    async def any_worker(self) -> AsyncIterator[Worker]:
        """A worker for a request about no data: the client's, or another if that has ended."""
        if self._worker is None or not self._worker.ended:
            async with self.worker() as worker:
                yield worker
            return
        worker = await self._leased(fresh=False)
        with self._pool.given_up_on_failure(worker):
            yield worker
        self._pool.give_back(worker)

    def cancel(self) -> None:
        """Ends the answer that is computed or about to be, if one is, or the wait for a worker."""
        self._cancelled = True
        if self._wait is not None:
            with suppress(RuntimeError):  # it has ended already
                self._wait.reschedule(asyncio.get_running_loop().time())
        if self._at_work is not None:
            self._pool.drop(self._at_work, cancelled_by_user())

    def leave(self) -> None:
        """Ends everything of this client."""
        if self._transaction:
            self._pool.unpin(self._who)
        if self._worker is not None:
            self._pool.drop(self._worker)
        self._worker, self._transaction = None, False
