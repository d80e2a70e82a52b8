"""The cursors of a client: opens them, reads on in them, and closes them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from trilayer_server.engine import requests
from trilayer_server.engine.query import Query
from trilayer_server.sql_error import SqlError
from trilayer_server.wire.answering import Answering
from trilayer_server.wire.client import Client
from trilayer_server.wire.prepared import Portal, Prepared


class OpenCursors:
    """The cursors of one client, which are portals among those that it has prepared."""

    def __init__(self, client: Client, prepared: Prepared, answering: Answering) -> None:
        """Prepares it; there are no cursors yet.

        Args:
            client: Has the workers.
            prepared: What the client has prepared.
            answering: Sends the rows.
        """
        self._client, self._prepared, self._answering = client, prepared, answering

    async def open(self, name: str, query: Query) -> None:
        """Opens a cursor.

        Args:
            name: Its name.
            query: The SELECT that it reads.

        Raises:
            SqlError: It can't be opened.
        """
        cursor = Portal(query.sql, query, None, is_cursor=True)
        self._prepared.bind(name, cursor)
        try:
            async with self._answering.worker():
                _, opened = await self._client.open(query, name, None)
        except BaseException:
            del self._prepared.portals[name]
            raise
        self._prepared.opened(name, opened.schema, opened.bytes)
        cursor.open = True

    async def read(self, name: str, rows: int | None, formats: Sequence[int]) -> int:
        """Reads on in a cursor, sends the rows, and counts them.

        Args:
            name: The cursor's name.
            rows: How many rows; None for all that are left.
            formats: The format of each column, or one for all.

        Raises:
            SqlError: There is no such cursor, or it can't be read.
        """
        cursor = self._prepared.cursor(name)
        if not cursor.open:
            return 0
        try:
            async with self._answering.worker() as worker:
                await worker.fetch(requests.Fetch(name, rows or 0, formats))
                done = await self._answering.send_rows(worker)
        except BaseException:  # the worker has closed it, or has ended
            del self._prepared.portals[name]
            raise
        cursor.open = done.more
        return done.rows

    async def close(self, name: str) -> None:
        """Closes a cursor, or another portal; nothing if there is none of this name."""
        portal = self._prepared.portals.pop(name, None)
        if portal is None or not portal.open:
            return
        async with self._client.worker() as worker:
            with suppress(SqlError):  # a worker that has ended has closed everything
                await worker.close(name)

    async def close_all(self) -> None:
        """Closes all cursors, and no other portals."""
        for name in [n for n, portal in self._prepared.portals.items() if portal.is_cursor]:
            await self.close(name)
