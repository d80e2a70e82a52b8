"""Answers the queries of a client: measures them, sends rows, and stops if the client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trilayer_server.engine.worker_process import Done, Worker
from trilayer_server.metrics import Metrics
from trilayer_server.sql_error import CANCELLED, SqlError, StatementTimeout
from trilayer_server.wire.client import Client
from trilayer_server.wire.connection import Connection

CHECK_S = 1.0
"""Interval between checks whether a client has gone during its query, in seconds."""


class Answering:
    """Answers for one client."""

    def __init__(self, client: Client, metrics: Metrics, connection: Connection) -> None:
        """Prepares it; no query runs yet.

        Args:
            client: Has the worker.
            metrics: What is measured.
            connection: Takes the parts of answers.
        """
        self._client, self._metrics, self._connection = client, metrics, connection

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        """The client's worker, for one answer, which is measured."""
        with self._metrics.query("postgresql") as outcome:
            try:
                async with self.unmeasured() as worker:
                    yield worker
            except SqlError as error:
                if error.code == CANCELLED:
                    outcome.set("timeout" if isinstance(error, StatementTimeout) else "cancelled")
                raise

    @asynccontextmanager
    async def unmeasured(self) -> AsyncIterator[Worker]:
        """The client's worker, which ends if the client goes meanwhile."""
        self._watch = asyncio.get_running_loop().call_later(CHECK_S, self._check)
        try:
            async with self._client.worker() as worker:
                yield worker
        finally:
            self._watch.cancel()

    def _check(self) -> None:
        """Ends the answer that is computed if its client has gone."""
        if self._connection.has_gone():
            self._client.cancel()
            self._connection.abort()
        # The answer may not have begun: it waits for a worker.
        self._watch = asyncio.get_running_loop().call_later(CHECK_S, self._check)

    async def send_rows(self, worker: Worker) -> Done:
        """Sends the rows that come from the worker, and returns how many they were."""
        done = Done(0, more=False)
        async for part in worker.rows():
            if isinstance(part, Done):
                done = part
            else:
                await self._connection.send_part(part)
        return done
