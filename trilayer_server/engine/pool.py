"""The pool: asks workers, which the loader forks, and ends those that take too long."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from trilayer_core.project import Project
from trilayer_server.engine import loader
from trilayer_server.engine.loader_process import LoaderProcess
from trilayer_server.engine.new_files import NewFiles
from trilayer_server.engine.query import SERVER, EngineLimits, Query
from trilayer_server.engine.slots import Slots, most_each
from trilayer_server.engine.worker_process import Answer, Opened, Worker
from trilayer_server.sql_error import SqlError

logger = logging.getLogger("trilayer_server")

STARTS = 3
"""How many loaders may end before they have replied to anything, for one request to the loader.

One or two may have been killed while they started.
"""


class Pool:
    """Answers queries in processes that can be killed.

    Use it as an asynchronous context manager.

    Attributes:
        limits: What queries may take.
    """

    def __init__(self, project: Project, limits: EngineLimits | None = None) -> None:
        """Prepares it, without starting anything.

        Args:
            project: The project whose store answers.
            limits: What queries may take.
        """
        self.limits = limits or EngineLimits()
        self._project = project
        # A client in a transaction keeps its worker's slot; the others remain for single queries.
        self._slots = Slots(self.limits.workers + self.limits.transactions)
        self._idle: list[Worker] = []
        self._workers: set[Worker] = set()
        self._pinned: Counter[str] = Counter()
        self._seen_state = 0
        self._dialog = asyncio.Lock()
        self._loader: LoaderProcess | None = None
        self._new_files: NewFiles | None = None
        self._next_state: asyncio.Task[int] | None = None
        self._left = asyncio.Event()

    async def __aenter__(self) -> Pool:
        self._new_files = NewFiles()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._left.set()
        for worker in list(self._workers):
            self.drop(worker)
        if self._loader is not None:
            await self._loader.end()
        if self._new_files is not None:
            self._new_files.close()

    # -- queries ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def ask(self, query: Query, who: str = SERVER) -> AsyncIterator[Answer]:
        """Answers a query on the newest state. Leaving the block early cancels it.

        Args:
            query: The query.
            who: The client that asks: a user, or an address.

        Raises:
            SqlError: There is no answer.
        """
        worker = await self.lease(who, query.version, fresh=False)
        with self.given_up_on_failure(worker):
            worker, opened = await self.open(worker, query)
        answer = Answer(worker, opened)
        try:
            yield answer
        finally:
            # What the caller raises, be it an error, does not show what the worker has yet to
            # send, which would be taken for the next answer.
            if answer.ended:
                self.give_back(worker)
            else:
                self.drop(worker)

    async def key(self, sql: str, who: str) -> Sequence[str] | None:
        """The key of the view of which a statement selects all columns; None if it is another one.

        Raises:
            SqlError: It takes too long, or is too long.
        """
        worker = await self.lease(who, fresh=False)
        with self.given_up_on_failure(worker):
            key = await worker.key(sql)
        self.give_back(worker)
        return key

    async def open(
        self,
        worker: Worker,
        query: Query,
        *rest: Any,
        instead: Callable[[Worker], None] | None = None,
    ) -> tuple[Worker, Opened]:
        """Begins an answer on the newest state, by another worker if this one does not have it.

        Args:
            worker: A worker, which is ended in that case.
            query: The query.
            rest: The further arguments of `Worker.open`.
            instead: Called with the other worker before it gets the query.

        Raises:
            SqlError: There is no answer.
        """
        opened = await worker.open(query, *rest)
        if opened is None:
            if await self.state() == worker.state:
                worker.checks = False
                opened = await worker.open(query, *rest)
            else:
                self.drop(worker)
                worker = await self.lease(worker.who, query.version)
                with self.given_up_on_failure(worker):
                    if instead is not None:
                        instead(worker)
                    opened = await worker.open(query, *rest)
        assert opened is not None  # it did not check again
        return worker, opened

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.pid for worker in self._workers]

    async def state(self) -> int:
        """The number of the newest state, after a check for new data in the store.

        A caller who comes during a check waits for the next one, and shares it with others.

        Raises:
            SqlError: What is new can't be proven, or the store can't be read.
        """
        if self._next_state is None:
            self._next_state = asyncio.create_task(self._check_for_news())
            # Whoever waits may leave before it fails.
            self._next_state.add_done_callback(lambda check: check.cancelled() or check.exception())
        return await asyncio.shield(self._next_state)

    async def news(self) -> None:
        """Waits until the store has new files, if the kernel reports them."""
        assert self._new_files is not None
        await self._new_files.next()

    async def lease(self, who: str, version: int | None = None, *, fresh: bool = True) -> Worker:
        """A worker for the caller alone. Give it back, or end it.

        Args:
            who: The client that asks: a user, or an address.
            version: The publication on which it answers; None for the newest state.
            fresh: Whether its state must be the newest now. Otherwise it checks at its first
                answer, which is cheaper.
        """
        release = await self._slots.take(who)
        # It goes on if the client leaves: a dialog with the loader that is left half way would give
        # the next one the wrong reply. Until it ends, it has the client's slot.
        leasing = asyncio.create_task(self._leased(who, version, release, fresh=fresh))
        try:
            return await asyncio.shield(leasing)
        except asyncio.CancelledError:
            leasing.add_done_callback(self._drop_unwanted)
            raise

    async def _leased(
        self, who: str, version: int | None, release: Callable[[], None], *, fresh: bool
    ) -> Worker:
        try:
            if fresh:
                await self.state()
            if (worker := self._taken_from_idle(version)) is not None:
                worker.checks = None if fresh else True
            else:
                if not fresh:
                    await self.state()
                worker = await self._forked(version)
        except BaseException:
            release()
            raise
        worker.who, worker.release = who, release
        return worker

    def _drop_unwanted(self, leasing: asyncio.Task[Worker]) -> None:
        if not leasing.cancelled() and leasing.exception() is None:
            self.drop(leasing.result())

    def _taken_from_idle(self, version: int | None) -> Worker | None:
        for worker in [w for w in self._idle if w.state != self._seen_state or w.has_ended()]:
            self.drop(worker)
        for worker in reversed(self._idle):  # the last one is warm, and others stay small
            if worker.version == version:
                self._idle.remove(worker)
                return worker
        return None

    @contextmanager
    def given_up_on_failure(self, worker: Worker) -> Iterator[None]:
        """Gives a worker up if the block fails: back after an error, and otherwise by ending it.

        After another error it has yet to send what would be taken for the next answer.
        """
        try:
            yield
        except SqlError:
            self.give_back(worker)
            raise
        except BaseException:
            self.drop(worker)
            raise

    def give_back(self, worker: Worker) -> None:
        """Keeps a worker for the next query, if it may be used again."""
        worker.leave()
        worker.timeout_s = worker.checks = None
        if worker.ended:
            self.drop(worker)
        elif worker not in self._idle:
            self._idle.append(worker)
            if len(self._idle) > self.limits.workers:
                self.drop(self._idle[0])

    def pin(self, who: str) -> None:
        """Counts a worker that a client keeps for a transaction.

        Raises:
            SqlError: Too many are kept, by all clients or by this one.
        """
        most = self.limits.transactions
        for got, may, whose in (
            (self._pinned[who], most_each(most), " of one client"),
            (self._pinned.total(), most, ""),
        ):
            if got >= may:
                raise SqlError(
                    "53300",
                    f"at most {may} transactions{whose} may be open",
                    "End one, or ask without BEGIN",
                )
        self._pinned[who] += 1

    def unpin(self, who: str) -> None:
        """Counts one less of the workers that a client keeps."""
        self._pinned[who] -= 1
        if not self._pinned[who]:
            del self._pinned[who]

    def drop(self, worker: Worker, why: SqlError | None = None) -> None:
        """Ends a worker, which may be at work."""
        worker.end(why)
        worker.leave()
        self._workers.discard(worker)
        with suppress(ValueError):
            self._idle.remove(worker)

    # -- the loader --------------------------------------------------------------------------------

    async def reload(self) -> None:
        """Has everything loaded again, because what is loaded is wrong.

        Raises:
            SqlError: The store can't be read.
        """
        async with self._dialog:
            if self._loader is not None:
                await self._loader.end()
                self._loader = None
        await self.state()

    async def _check_for_news(self) -> int:
        async with self._dialog:
            # Whoever asks from here on wants a check that begins later.
            self._next_state = None
            reply = await self._request(loader.REFRESH)
        if "error" in reply:
            raise SqlError(**reply["error"])
        self._seen_state = int(reply["state"])
        return self._seen_state

    async def _forked(self, version: int | None) -> Worker:
        """A new worker, or one that has become idle before the loader has forked those before."""
        async with self._dialog:
            if (worker := self._taken_from_idle(version)) is not None:
                return worker
            ours, theirs = socket.socketpair()
            try:
                reply = await self._request(loader.FORK, theirs)
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
        worker = Worker(reply["pid"], reply["state"], reader, writer, self.limits)
        self._workers.add(worker)
        return worker

    async def _request(self, kind: bytes, end: socket.socket | None = None) -> dict[str, Any]:
        """Sends the loader a request, and returns its reply.

        One that has ended is started again. If several in a row end before they have replied to
        anything, none can start.
        """
        failed_starts = 0
        while failed_starts < STARTS:
            if self._left.is_set():
                raise SqlError("57P01", "the server is shutting down")
            if self._loader is None:
                self._loader = await LoaderProcess.started(
                    self._project,
                    self.limits,
                    self._seen_state + 1,
                    self._new_files.descriptor if self._new_files else None,
                )
            try:
                return await self._loader.request(kind, end)
            except (ConnectionError, asyncio.IncompleteReadError):
                if self._left.is_set():
                    continue
                logger.exception("the loader has ended")
                failed_starts += not self._loader.has_replied
                await self._loader.end()
                self._loader = None
        raise SqlError(
            "57P03",
            "the process that loads the store ends again and again",
            "See the server's log",
        )
