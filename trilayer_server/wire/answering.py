"""Has a client's worker answer: measures it, ends it if the client has gone, and sends the rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trilayer_server.engine.question import CANCELLED, Refusal
from trilayer_server.engine.worker_process import Done, Worker
from trilayer_server.metrics import Metrics
from trilayer_server.wire.client import Client
from trilayer_server.wire.connection import Connection

LOOK_S = 1.0
"""How often it is looked for a client that has gone while its answer is computed, in seconds."""


class Answering:
    """Answers for one client."""

    def __init__(self, client: Client, metrics: Metrics, connection: Connection) -> None:
        """Prepares it; nothing is asked yet.

        Args:
            client: Has the worker.
            metrics: What is measured.
            connection: Takes the parts of answers.
        """
        self._client, self._metrics, self._connection = client, metrics, connection

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        """The client's worker, for one answer, which is measured."""
        with self._metrics.question("postgresql") as outcome:
            try:
                async with self.unmeasured() as worker:
                    yield worker
            except Refusal as refusal:
                if refusal.code == CANCELLED:
                    outcome.set("timeout" if "timeout" in refusal.message else "cancelled")
                raise

    @asynccontextmanager
    async def unmeasured(self) -> AsyncIterator[Worker]:
        """The client's worker, which ends if the client goes meanwhile."""
        self._watch = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        try:
            async with self._client.worker() as worker:
                yield worker
        finally:
            self._watch.cancel()

    def _look(self) -> None:
        """Ends the answer that is computed if its client has gone."""
        if self._connection.has_gone():
            self._client.cancel()
            self._connection.abort()
        # The answer may not have begun: it waits for a worker.
        self._watch = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    async def send_rows(self, worker: Worker) -> Done:
        """Sends the rows that the worker has been asked for, and says how many they were."""
        done = Done(0, more=False)
        async for part in worker.rows():
            if isinstance(part, Done):
                done = part
            else:
                await self._connection.send_part(part)
        return done
