"""The pool: asks workers, which the loader forks, and ends those that take too long."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from trilayer.operations.project import Project
from trilayer.server.engine import frames, loader
from trilayer.server.engine.loader import Start
from trilayer.server.engine.new_files import NewFiles
from trilayer.server.engine.places import Places
from trilayer.server.engine.question import (
    CANCELLED,
    LOST,
    STATEMENT_BYTES,
    Question,
    Refusal,
)
from trilayer.server.engine.turns import Turns
from trilayer.server.engine.worker import Close, Describe, Fetch, Open, Request, Split

logger = logging.getLogger("trilayer.server")

IDLE_FOR_EACH = 8
"""How many workers are kept for each that may compute: as many clients ask in turn."""

UNREAD_S, ROOM_S = 5.0, 0.2
"""How long an answer may be left unread while others wait for a worker, and how often it is looked
for one, in seconds.
"""

SERVER = ""
"""Who asks what the server itself needs to know, such as its status."""

FEWER = "Ask for fewer rows or columns, or aggregate them"


def cancelled_by_user() -> Refusal:
    """Why there is no answer once its client has cancelled it.

    It is made anew for each answer: an exception keeps the frames of every time it was raised.
    """
    return Refusal(CANCELLED, "canceling statement due to user request")


@dataclass(frozen=True)
class EngineLimits:
    """What questions may take.

    Attributes:
        workers: How many questions are answered at once; further ones wait.
        threads: How many threads answer one question.
        memory_mb: How much memory a question may take, beside the views.
        timeout_s: How long a worker may take for the next part of an answer, in seconds.
        transactions: How many transactions may keep a worker to themselves.
        statement_bytes: The length of the longest statement, with its parameters.
        rows: The most rows of an answer; 0 for any number.
        bytes: The most bytes of an answer, as it is sent; 0 for any number.
        connections: How many clients may be connected.
        client_connections: How many clients may be connected from one address.
    """

    workers: int = max(2, os.cpu_count() or 1)
    threads: int = max(1, os.cpu_count() or 1)
    memory_mb: int = 1024
    timeout_s: float = 300.0
    transactions: int = 32
    statement_bytes: int = STATEMENT_BYTES
    rows: int = 0
    bytes: int = 0
    connections: int = 500
    client_connections: int = 300

    def check_statement(self, size: int) -> None:
        """Raises Refusal if so many bytes, with parameters, are too long for a statement."""
        if size > (most := self.statement_bytes):
            raise Refusal("54000", f"a statement must have at most {most:,} bytes; got {size:,}")


class Worker:
    """A worker process, which one client has for itself.

    Attributes:
        pid: The id of its process.
        state: The number of the state on which it answers.
        looks: Whether it has to look if that is still the newest; see `engine.worker.Open`.
        version: The publication on which it has answered; None for the newest state.
        who: The client whose place it has, or had last.
        timeout_s: Its client's own limit on the time of an answer, in seconds; None for none.
        computed_s: How long it has computed for its question, in seconds.
        kept: Whether its client is in a transaction.
        unread_since: Since when its client has not asked for more; infinite while it computes.
        ended: Whether it was killed.
    """

    def __init__(
        self,
        pid: int,
        state: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        turns: Turns,
        limits: EngineLimits,
    ) -> None:
        """Takes over a worker that the loader has forked."""
        self.state = state
        self._reader, self._writer = reader, writer
        self._turns, self._limits = turns, limits
        self._in = frames.In(reader)
        self.pid = pid
        # A pid is that of another process once the worker has ended; this is not.
        self._handle: int | None = None
        with suppress(AttributeError, OSError):  # only Linux has it
            self._handle = os.pidfd_open(pid)
        self._why: Refusal | None = None
        self.version: int | None = None
        self.ended = self.has_place = False
        self.who = SERVER
        self.looks: bool | None = None
        self.timeout_s: float | None = None
        self.computed_s = 0.0
        self.kept, self.unread_since = False, math.inf

    def pause(self) -> None:
        """Stops the process, until `go_on`."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets the process compute again."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.ended:
            return
        with suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, number)
            else:
                os.kill(self.pid, number)

    async def open(
        self,
        question: Question,
        portal: str = "",
        most_rows: int | None = 0,
        columns: pa.Schema | None = None,
    ) -> Opened | None:
        """Begins an answer; None if the worker may not have the newest state.

        Args:
            question: The question.
            portal: The name under which it is read.
            most_rows: How many rows follow at once: 0 for all, None for none.
            columns: What the client was told of its columns; None if nothing.

        Raises:
            Refusal: There is no answer.
        """
        self._check(question)
        looks, self.looks = self.looks, None
        request = Open(portal, question, most_rows, columns, looks)
        if (found := await self._asked_for_columns(request)) is None:
            return None
        document, schema = found
        return Opened(schema, document["provenance"])

    async def describe(self, question: Question) -> tuple[list[int], pa.Schema]:
        """The types of a question's parameters, and its columns. Raises Refusal."""
        self._check(question)
        found = await self._asked_for_columns(Describe(question))
        assert found is not None  # it does not look
        document, schema = found
        return document["oids"], schema

    def _check(self, question: Question) -> None:
        """Begins another question. Raises Refusal for a statement that is too long to be parsed."""
        self.computed_s = 0.0
        given = sum(len(value or b"") for value in question.parameters.values)
        self._limits.check_statement(len(question.sql.encode()) + given)
        self.version = question.version

    async def split(self, text: str) -> list[str]:
        """The statements of a text."""
        self._check(Question(text))
        await self._send(Split(text))
        _, body = await self._receive()
        found: list[str] = json.loads(body)
        return found

    async def fetch(self, request: Fetch) -> None:
        """Reads on in an answer; `rows` has what follows."""
        await self._send(request)

    async def close(self, portal: str) -> None:
        """Ends an answer that was not read to its end."""
        await self._send(Close(portal))

    async def rows(self) -> AsyncIterator[bytes | Done]:
        """Encoded rows, and last how many they were. Raises Refusal."""
        most = self._limits.bytes
        sent = 0
        while True:
            kind, body = await self._receive()
            if kind == frames.DONE:
                yield Done(**json.loads(body))
                return
            sent += len(body)
            if most and sent > most:
                self.end()
                raise Refusal("54000", f"an answer must have at most {most:,} bytes", FEWER)
            yield body

    @property
    def _limit_s(self) -> float:
        most = self._limits.timeout_s
        return most if self.timeout_s is None else min(self.timeout_s, most)

    def has_ended(self) -> bool:
        """Whether its process has ended."""
        if self.ended or self._handle is None:
            return self.ended or self._reader.at_eof()
        return bool(select.select([self._handle], [], [], 0)[0])

    def when_ended(self, tell: Callable[[], object]) -> None:
        """Has somebody told if its process ends by itself; on Linux alone."""
        if self._handle is not None:
            asyncio.get_running_loop().add_reader(self._handle, tell)

    def end(self, why: Refusal | None = None) -> None:
        """Kills it. Whoever waits for an answer gets the refusal `why`."""
        if self.ended:
            return
        self._signal(signal.SIGKILL)
        self.ended, self._why = True, why
        if self._handle is not None:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
        self._writer.close()

    async def _asked_for_columns(self, request: Request) -> tuple[dict[str, Any], pa.Schema] | None:
        await self._send(request)
        kind, body = await self._receive()
        if kind == frames.STALE:
            return None
        (size,) = struct.unpack(">I", body[:4])
        return json.loads(body[4 : 4 + size]), _schema(body[4 + size :])

    async def _send(self, request: Request) -> None:
        data = pickle.dumps(request)
        self._writer.write(frames.head(frames.REQUEST, len(data)) + data)
        try:
            await self._writer.drain()
        except ConnectionError:
            raise self._lost() from None

    async def _receive(self) -> tuple[bytes, bytes]:
        """The next frame. Raises Refusal for one that refuses, or if the worker has ended."""
        kind, body = self._in.ready() or await self._awaited()
        if kind == frames.REFUSED:
            raise Refusal(**json.loads(body))
        return kind, body

    async def _awaited(self) -> tuple[bytes, bytes]:
        try:
            # A client that reads slowly keeps its worker, but does not keep others from theirs.
            self.unread_since = math.inf
            async with self._turns.turn(self), asyncio.timeout(self._limit_s):
                return await self._in.next()
        except TimeoutError:
            self.end()
            raise Refusal(
                CANCELLED,
                f"canceling statement due to statement timeout: {self._limit_s:g} s have passed",
            ) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise self._lost() from None
        finally:
            self.unread_since = time.monotonic()

    def _lost(self) -> Refusal:
        why = self._why or Refusal(
            LOST,
            "the process that computed the answer has ended, probably for want of memory",
            "Ask for less at once, or raise serve_memory_mb",
        )
        self.end()
        return why


@lru_cache(maxsize=256)
def _schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


@dataclass(frozen=True)
class Opened:
    """An answer that has begun: its columns and its provenance."""

    schema: pa.Schema
    provenance: Mapping[str, Any]


@dataclass(frozen=True)
class Done:
    """How many rows were sent, whether there are more, and how many were passed over before."""

    rows: int
    more: bool
    passed: int = 0


class Answer:
    """A complete answer, as it is computed.

    Attributes:
        schema: Its columns.
        provenance: Its provenance, as JSON.
        rows: The number of its rows, once `chunks` has ended.
        ended: Whether the worker has sent everything, or refused to.
    """

    def __init__(self, worker: Worker, opened: Opened) -> None:
        self.schema, self.provenance, self.rows = opened.schema, opened.provenance, 0
        self._worker, self.ended = worker, False

    async def chunks(self) -> AsyncIterator[bytes]:
        """The answer's bytes. Raises Refusal if it can't be completed."""
        try:
            async for part in self._worker.rows():
                if isinstance(part, Done):
                    self.rows, self.ended = part.rows, True
                else:
                    yield part
        except Refusal:
            self.ended = True
            raise


def _of_one(number: int) -> int:
    """How many of these one client may have: a quarter always remains for others."""
    return max(1, number - number // 4)


class Pool:
    """Answers questions in processes that can be killed.

    Use it as an asynchronous context manager.

    Attributes:
        limits: What questions may take.
        turns: Taken while a worker is waited for, so that not too many compute at once.
    """

    def __init__(self, project: Project, limits: EngineLimits | None = None) -> None:
        """Prepares it, without starting anything.

        Args:
            project: The project whose store is asked.
            limits: What questions may take.
        """
        self.limits = limits or EngineLimits()
        self._project = project
        self.turns = Turns(self.limits.workers)
        # Those who compute take turns, so that there may be more of them than compute at once.
        places = IDLE_FOR_EACH * self.limits.workers + self.limits.transactions
        self._places = Places(places, _of_one(places), self._make_room)
        self._idle: list[Worker] = []
        self._workers: set[Worker] = set()
        self._pinned: Counter[str] = Counter()
        self._seen_state = 0
        self._room_timer: asyncio.TimerHandle | None = None
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

    # -- questions ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def ask(self, question: Question, who: str = SERVER) -> AsyncIterator[Answer]:
        """Answers a question on the newest state. Leaving the block early cancels it.

        Args:
            question: The question.
            who: The client that asks: a user, or an address.

        Raises:
            Refusal: There is no answer.
        """
        worker = await self.lease(who, question.version, fresh=False)
        with self.given_up_on_failure(worker):
            worker, opened = await self.open(worker, question)
        answer = Answer(worker, opened)
        try:
            yield answer
        finally:
            # What the caller raises, be it a refusal, says nothing of what the worker has yet to
            # send, which would be taken for the next answer.
            if answer.ended:
                self.give_back(worker)
            else:
                self.drop(worker)

    async def open(
        self,
        worker: Worker,
        question: Question,
        *rest: Any,
        instead: Callable[[Worker], None] | None = None,
    ) -> tuple[Worker, Opened]:
        """Begins an answer on the newest state, by another worker if this one does not have it.

        Args:
            worker: A worker, which is ended in that case.
            question: The question.
            rest: The further arguments of `Worker.open`.
            instead: Called with the other worker before it is asked.

        Raises:
            Refusal: There is no answer.
        """
        opened = await worker.open(question, *rest)
        if opened is None:
            if await self.state() == worker.state:
                worker.looks = False
                opened = await worker.open(question, *rest)
            else:
                self.drop(worker)
                worker = await self.lease(worker.who, question.version)
                with self.given_up_on_failure(worker):
                    if instead is not None:
                        instead(worker)
                    opened = await worker.open(question, *rest)
        assert opened is not None  # it did not look again
        return worker, opened

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.pid for worker in self._workers]

    async def state(self) -> int:
        """The number of the newest state, after looking for new data in the store.

        Whoever asks while it is looked for waits for the next look, and shares it with others.

        Raises:
            Refusal: What is new can't be proven, or the store can't be read.
        """
        if self._next_state is None:
            self._next_state = asyncio.create_task(self._look())
            # Whoever waits may leave before it fails.
            self._next_state.add_done_callback(lambda look: look.cancelled() or look.exception())
        return await asyncio.shield(self._next_state)

    async def news(self) -> None:
        """Waits until the store has new files, if the kernel tells; see `engine.new_files`."""
        assert self._new_files is not None
        await self._new_files.next()

    async def lease(self, who: str, version: int | None = None, *, fresh: bool = True) -> Worker:
        """A worker for the caller alone. Give it back, or end it.

        Args:
            who: The client that asks: a user, or an address.
            version: The publication on which it answers; None for the newest state.
            fresh: Whether its state must be the newest now. Otherwise it looks at its first answer,
                which is cheaper.
        """
        await self._places.take(who)
        try:
            worker = await self._leased(version, fresh=fresh)
        except BaseException:
            self._places.leave(who)
            raise
        worker.who, worker.has_place, worker.unread_since = who, True, time.monotonic()
        return worker

    def _make_room(self) -> None:
        """Ends an answer that was left unread for long if others wait; looks again later.

        It is one of the client that has the most places, and of these the one unread for longest.
        """
        if self._room_timer is not None or not self._places.waiting:
            return
        latest = time.monotonic() - UNREAD_S
        unread = [
            worker
            for worker in self._workers
            if worker.has_place
            and not worker.kept
            and worker.unread_since < latest
            and self._places.is_due(worker.who)
        ]
        if unread:
            taken = self._places.taken
            self.drop(
                min(unread, key=lambda one: (-taken(one.who), one.unread_since)),
                Refusal(
                    "53300",
                    "others wait for the worker of this answer, of which nothing was read for a"
                    " while",
                    "Read answers at once, or ask in a transaction",
                ),
            )
        if self._places.waiting:
            self._room_timer = asyncio.get_running_loop().call_later(ROOM_S, self._look_for_room)

    def _look_for_room(self) -> None:
        self._room_timer = None
        self._make_room()

    async def _leased(self, version: int | None, *, fresh: bool) -> Worker:
        newest = await self.state() if fresh else self._seen_state
        for worker in [w for w in self._idle if w.state != newest or w.has_ended()]:
            self.drop(worker)
        for worker in reversed(self._idle):  # the last one is warm, and others stay small
            if worker.version == version:
                self._idle.remove(worker)
                worker.looks = None if fresh else True
                return worker
        if not fresh:
            await self.state()
        return await self._forked()

    @contextmanager
    def given_up_on_failure(self, worker: Worker) -> Iterator[None]:
        """Gives a worker up if the block fails: back after a refusal, and otherwise by ending it.

        After another error it has yet to send what would be taken for the next answer.
        """
        try:
            yield
        except Refusal:
            self.give_back(worker)
            raise
        except BaseException:
            self.drop(worker)
            raise

    def give_back(self, worker: Worker) -> None:
        """Keeps a worker for the next question, if it may be used again."""
        self._leave_place(worker)
        worker.timeout_s, worker.kept = None, False
        if worker.ended or len(self._idle) >= IDLE_FOR_EACH * self.limits.workers:
            self.drop(worker)
        elif worker not in self._idle:
            self._idle.append(worker)

    def pin(self, who: str) -> None:
        """Counts a worker that a client keeps, for a transaction or for cursors WITH HOLD.

        Raises:
            Refusal: Too many are kept, by all clients or by this one.
        """
        most = self.limits.transactions
        for got, may, whose in (
            (self._pinned[who], _of_one(most), " of one client"),
            (self._pinned.total(), most, ""),
        ):
            if got >= may:
                raise Refusal(
                    "53300",
                    f"at most {may} transactions{whose} may be open",
                    "End one, close a cursor WITH HOLD, or ask without BEGIN",
                )
        self._pinned[who] += 1

    def unpin(self, who: str) -> None:
        """Counts one less of the workers that a client keeps."""
        self._pinned[who] -= 1
        if not self._pinned[who]:
            del self._pinned[who]

    def drop(self, worker: Worker, why: Refusal | None = None) -> None:
        """Ends a worker, which may be at work."""
        worker.end(why)
        self._leave_place(worker)
        self._workers.discard(worker)
        with suppress(ValueError):
            self._idle.remove(worker)

    def _leave_place(self, worker: Worker) -> None:
        if worker.has_place:
            worker.has_place = False
            self._places.leave(worker.who)

    # -- the loader --------------------------------------------------------------------------------

    async def _look(self) -> int:
        async with self._dialog:
            # Whoever asks from here on wants a look that begins later.
            self._next_state = None
            reply = await self._told(loader.REFRESH)
        if "refused" in reply:
            raise Refusal(**reply["refused"])
        self._seen_state = int(reply["state"])
        return self._seen_state

    async def _forked(self) -> Worker:
        # A dialog that is left half way would give the next one the wrong reply.
        forking = asyncio.create_task(self._fork())
        try:
            return await asyncio.shield(forking)
        except asyncio.CancelledError:
            forking.add_done_callback(self._drop_unwanted)
            raise

    def _drop_unwanted(self, forking: asyncio.Task[Worker]) -> None:
        if not forking.cancelled() and forking.exception() is None:
            self.drop(forking.result())

    async def _fork(self) -> Worker:
        ours, theirs = socket.socketpair()
        try:
            async with self._dialog:
                reply = await self._told(loader.FORK, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
        worker = Worker(reply["pid"], reply["state"], reader, writer, self.turns, self.limits)
        self._workers.add(worker)
        return worker

    async def _told(self, what: bytes, end: socket.socket | None = None) -> dict[str, Any]:
        """Tells the loader to do something, and returns its reply."""
        for _ in range(2):
            if self._left.is_set():
                raise Refusal("57P01", "the server is shutting down")
            if self._loader is None:
                self._loader = await LoaderProcess.started(
                    self._project,
                    self.limits,
                    self._seen_state + 1,
                    self._new_files.descriptor if self._new_files else None,
                )
            try:
                return await self._loader.tell(what, end)
            except (ConnectionError, asyncio.IncompleteReadError):
                if self._left.is_set():
                    continue
                logger.exception("the loader has ended, and is started again")
                await self._loader.end()
                self._loader = None
        raise Refusal("57P03", "the process that loads the store ends again and again")


class LoaderProcess:
    """The process that loads the store and forks workers, as the server sees it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        end: socket.socket,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Takes over what `started` has started."""
        self._process, self._end, self._writer = process, end, writer
        self._in = frames.In(reader)

    @staticmethod
    async def started(
        project: Project, limits: EngineLimits, first_state: int, new_files: int | None
    ) -> LoaderProcess:
        """Starts it, and tells it what to load.

        Args:
            project: The project whose store is loaded.
            limits: What questions may take.
            first_state: The number of the first state, which no earlier loader has had.
            new_files: The descriptor that tells of new files in the store; None if nothing tells.
        """
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-m", loader.__name__, str(theirs.fileno())],
            pass_fds=[theirs.fileno(), *([] if new_files is None else [new_files])],
            stdin=subprocess.DEVNULL,
            # Arrow's own pool reserves a gigabyte of address space, which a worker's limit counts.
            env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
        )
        theirs.close()
        # A second handle, because asyncio has none that sends descriptors.
        reader, writer = await asyncio.open_connection(sock=ours.dup())
        start = Start(
            project, limits.memory_mb, limits.threads, limits.rows, first_state, new_files
        )
        told = pickle.dumps((sys.path, start))
        writer.write(frames.head(frames.REQUEST, len(told)) + told)
        await writer.drain()
        return LoaderProcess(process, ours, reader, writer)

    async def tell(self, what: bytes, end: socket.socket | None) -> dict[str, Any]:
        """Has it do something, and returns its reply.

        Args:
            what: `loader.REFRESH` or `loader.FORK`.
            end: The end of a socket for the worker to fork; None without one.

        Raises:
            ConnectionError: It has ended.
            asyncio.IncompleteReadError: It has ended before it replied.
        """
        socket.send_fds(self._end, [what], [end.fileno()] if end else [])
        _, body = await self._in.next()
        found: dict[str, Any] = json.loads(body)
        return found

    async def end(self) -> None:
        """Ends it, and waits until it has ended."""
        self._writer.close()
        self._end.close()
        self._process.terminate()
        await asyncio.to_thread(self._process.wait)
