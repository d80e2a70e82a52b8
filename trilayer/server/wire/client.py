"""The worker that answers one client of the wire: one a statement, or one for a transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from trilayer.server.engine.pool import CANCELLED, Opened, Pool, Worker
from trilayer.server.engine.question import Question, Refusal


class Client:
    """Which worker a client has.

    Outside of a transaction it has one until `settle`, which is called when the client has seen
    everything that it asked for.

    Attributes:
        version: The publication on which answers are based; None for the newest state.
        timeout_s: The client's own limit on the time of an answer, in seconds; None for none.
    """

    timeout_s: float | None = None

    def __init__(self, pool: Pool, version: int | None) -> None:
        """A client that has no worker yet.

        Args:
            pool: Where workers come from.
            version: The publication on which answers are based; None for the newest state.
        """
        self.version = version
        self._pool = pool
        self._worker: Worker | None = None
        self._transaction = self._at_work = False

    async def begin(self) -> None:
        """Keeps a worker, and with it the state on which it answers, until `end`."""
        if self._transaction:
            return
        self._pool.pin()
        try:
            if self._worker is None:
                self._worker = await self._pool.lease(self.version)
        except BaseException:
            self._pool.unpin()
            raise
        self._transaction = True

    def end(self, *, sound: bool = True) -> None:
        """Ends the transaction, if there is one.

        Args:
            sound: Whether all answers were read to their end.
        """
        if self._transaction:
            self._transaction = False
            self._pool.unpin()
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

    async def open(self, question: Question, *rest: Any) -> tuple[Worker, Opened]:
        """Begins an answer, in a block of `worker`.

        Args:
            question: The question.
            rest: The further arguments of `Worker.open`.

        Raises:
            Refusal: There is no answer.
        """
        assert self._worker is not None
        self._worker, opened = await self._pool.open(self._worker, question, *rest)
        return self._worker, opened

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        """The worker, for one request. `cancel` ends it meanwhile.

        The first request to a worker must be `open`, or not be about what is newest.
        """
        if self._worker is None or (self._worker.ended and not self._transaction):
            self._worker = await self._pool.lease(self.version, fresh=False)
        self._at_work = True
        self._worker.timeout_s = self.timeout_s
        try:
            yield self._worker
        except Refusal:
            raise
        except BaseException:
            # What the worker has yet to send would be taken for the next answer.
            if self._worker is not None:
                self._pool.drop(self._worker)
            raise
        finally:
            self._at_work = False

    def cancel(self) -> None:
        """Ends the answer that is computed, if one is."""
        if self._worker is not None and self._at_work:
            self._pool.drop(self._worker, CANCELLED)

    def leave(self) -> None:
        """Ends everything of this client."""
        if self._transaction:
            self._pool.unpin()
        if self._worker is not None:
            self._pool.drop(self._worker)
        self._worker, self._transaction = None, False
