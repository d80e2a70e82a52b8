"""The cursors of a client: opens them, reads on in them, and closes them.

A cursor is read by the worker that has opened it. One that is held when its transaction ends keeps
that worker until it is closed or read to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from trilayer_server.engine import requests
from trilayer_server.engine.question import Question, Refusal
from trilayer_server.wire.answering import Answering
from trilayer_server.wire.client import Client
from trilayer_server.wire.cursors import Fetch
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

    async def open(self, name: str, question: Question, *, holds: bool, alone: bool) -> None:
        """Opens a cursor.

        Args:
            name: Its name.
            question: The SELECT that it reads.
            holds: Whether it stays when its transaction is committed.
            alone: Whether the client is in no transaction; the cursor then has one of its own.

        Raises:
            Refusal: It can't be opened.
        """
        if alone:
            await self._client.begin()
        try:
            cursor = Portal(question.sql, question, None, is_cursor=True, holds=holds)
            self._prepared.bind(name, cursor)
            try:
                async with self._answering.worker():
                    _, opened = await self._client.open(question, name, None)
            except BaseException:
                del self._prepared.portals[name]
                raise
            self._prepared.opened(name, opened.schema, opened.bytes)
            cursor.open = True
        finally:
            if alone:
                self.end_transaction(commits=True)

    def end_transaction(self, *, commits: bool) -> None:
        """Ends the client's transaction. The worker stays with the cursors that are held."""
        sound, holding = self._prepared.end_transaction(commits=commits)
        worker = self._client.end(sound=sound, holds=bool(holding))
        for cursor in holding:
            cursor.held_by = worker

    async def read(
        self, fetch: Fetch, rows: int | None, formats: Sequence[int] | None = None
    ) -> int:
        """Reads on in a cursor, sends the rows unless they are passed over, and counts them.

        Args:
            fetch: What is read.
            rows: How many rows; None for all that are left.
            formats: The format of each column, or one for all; None if it is the cursor's.

        Raises:
            Refusal: There is no such cursor, or it can't be read.
        """
        cursor = self._prepared.cursor(fetch.name)
        passes = fetch.passed(cursor.read)
        if not cursor.open:
            return 0
        shown = fetch.verb == "FETCH"
        try:
            async with self._answering.worker(cursor.held_by) as worker:
                await worker.fetch(requests.Fetch(fetch.name, rows or 0, passes, shown, formats))
                done = await self._answering.send_rows(worker)
        except BaseException:  # the worker has closed it, or has ended
            self._prepared.portals.pop(fetch.name)
            self._release(cursor)
            raise
        cursor.read += done.passed + done.rows
        cursor.open = done.more
        self._release(cursor)
        return done.rows

    async def close(self, name: str) -> None:
        """Closes a cursor, or another portal; nothing if there is none of this name."""
        portal = self._prepared.portals.pop(name, None)
        if portal is None or not portal.open:
            return
        if portal.held_by is None or self._prepared.held(portal.held_by):
            async with self._client.worker(portal.held_by) as worker:
                with suppress(Refusal):  # a worker that has ended has closed everything
                    await worker.close(name)
        self._release(portal)

    async def close_all(self) -> None:
        """Closes all cursors, and no other portals."""
        for name in [name for name, one in self._prepared.portals.items() if one.is_cursor]:
            await self.close(name)

    def _release(self, cursor: Portal) -> None:
        """Gives up the worker that holds a cursor once it holds none."""
        if cursor.held_by is not None and not self._prepared.held(cursor.held_by):
            self._client.release(cursor.held_by)
            cursor.held_by = None
