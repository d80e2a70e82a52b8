"""A worker's process as the server sees it: its requests, its replies, and how it is stopped.

`engine.worker` is what runs in it.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import select
import signal
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from trilayer_server.engine import frames
from trilayer_server.engine.query import LOST, SERVER, EngineLimits, Query
from trilayer_server.engine.requests import Close, Describe, Fetch, Key, Open, Request, Split
from trilayer_server.sql_error import SqlError, StatementTimeout

FEWER = "Ask for fewer rows or columns, or aggregate them"


class Worker:
    """A worker process, which one client has for itself.

    Attributes:
        pid: The id of its process.
        state: The number of the state on which it answers.
        checks: Whether it checks that this is the newest; see `engine.requests.Open`.
        version: The publication on which it has answered; None for the newest state.
        who: The client that has it, or had it last.
        release: Gives back that client's slot in the pool; None if it has none.
        timeout_s: Its client's own limit on the time of an answer, in seconds; None for none.
        ended: Whether it was killed.
    """

    def __init__(
        self,
        pid: int,
        state: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: EngineLimits,
    ) -> None:
        """Takes over a worker that the loader has forked."""
        self.state = state
        self._reader, self._writer = reader, writer
        self._limits = limits
        self._in = frames.In(reader)
        self.pid = pid
        # A pid is that of another process once the worker has ended; this is not.
        self._handle: int | None = None
        with suppress(AttributeError, OSError):  # only Linux has it
            self._handle = os.pidfd_open(pid)
        self._why: SqlError | None = None
        self.version: int | None = None
        self.ended = False
        self.who = SERVER
        self.release: Callable[[], None] | None = None
        self.checks: bool | None = None
        self.timeout_s: float | None = None

    def leave(self) -> None:
        """Gives back the slot of its client, if it has one."""
        if self.release is not None:
            release, self.release = self.release, None
            release()

    async def open(
        self,
        query: Query,
        portal: str = "",
        most_rows: int | None = 0,
        columns: pa.Schema | None = None,
    ) -> Opened | None:
        """Begins an answer; None if the worker may not have the newest state.

        Args:
            query: The query.
            portal: The name under which it is read.
            most_rows: How many rows follow at once: 0 for all, None for none.
            columns: The columns that the client knows; None if it knows none.

        Raises:
            SqlError: There is no answer.
        """
        self._check(query)
        checks, self.checks = self.checks, None
        request = Open(portal, query, most_rows, columns, checks)
        if (columns_reply := await self._columns(request)) is None:
            return None
        document, schema, size = columns_reply
        return Opened(schema, document["provenance"], size)

    async def describe(self, query: Query) -> tuple[list[int], pa.Schema]:
        """The types of a query's parameters, and its columns. Raises SqlError."""
        self._check(query)
        reply = await self._columns(Describe(query))
        assert reply is not None  # it does not check
        document, schema, _ = reply
        return document["oids"], schema

    def _check(self, query: Query) -> None:
        """Raises SqlError for a statement that is too long to be parsed."""
        given = sum(len(value or b"") for value in query.parameters.values)
        self._limits.check_statement(len(query.sql.encode()) + given)
        self.version = query.version

    async def split(self, text: str) -> list[str]:
        """The statements of a text."""
        statements: list[str] = await self._parsed(text, Split(text))
        return statements

    async def key(self, sql: str) -> list[str] | None:
        """The key of the view of which a statement selects all columns; None if it is another."""
        key: list[str] | None = await self._parsed(sql, Key(sql))
        return key

    async def _parsed(self, text: str, request: Split | Key) -> Any:
        self._check(Query(text))
        await self._send(request)
        _, body = await self._receive()
        return json.loads(body)

    async def fetch(self, request: Fetch) -> None:
        """Reads on in an answer; `rows` has what follows."""
        await self._send(request)

    async def close(self, portal: str) -> None:
        """Ends an answer that was not read to its end."""
        await self._send(Close(portal))

    async def rows(self) -> AsyncIterator[bytes | Done]:
        """Encoded rows, and last how many they were. Raises SqlError."""
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
                raise SqlError("54000", f"an answer must have at most {most:,} bytes", FEWER)
            yield body

    @property
    def _limit_s(self) -> float:
        most = self._limits.timeout_s
        return most if self.timeout_s is None else min(self.timeout_s, most)

    def has_ended(self) -> bool:
        """Whether its process has ended."""
        if self.ended or self._handle is None:
            return self.ended or self._reader.at_eof()
        poll = select.poll()  # `select` knows no descriptor from 1,024 on
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(0))

    def end(self, why: SqlError | None = None) -> None:
        """Kills it. Whoever waits for an answer gets the error `why`."""
        if self.ended:
            return
        self.ended, self._why = True, why
        with suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)
        if self._handle is not None:
            os.close(self._handle)
        self._writer.close()

    async def _columns(self, request: Request) -> tuple[dict[str, Any], pa.Schema, int] | None:
        await self._send(request)
        kind, body = await self._receive()
        if kind == frames.STALE:
            return None
        (size,) = struct.unpack(">I", body[:4])
        columns = body[4 + size :]
        return json.loads(body[4 : 4 + size]), _schema(columns), len(columns)

    async def _send(self, request: Request) -> None:
        data = pickle.dumps(request)
        self._writer.write(frames.head(frames.REQUEST, len(data)) + data)
        try:
            await self._writer.drain()
        except ConnectionError:
            raise self._lost() from None

    async def _receive(self) -> tuple[bytes, bytes]:
        """The next frame. Raises SqlError if that is one, or if the worker has ended."""
        kind, body = self._in.ready() or await self._awaited()
        if kind == frames.ERROR:
            raise SqlError(**json.loads(body))
        return kind, body

    async def _awaited(self) -> tuple[bytes, bytes]:
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._in.next()
        except TimeoutError:
            self.end()
            raise StatementTimeout(self._limit_s) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise self._lost() from None

    def _lost(self) -> SqlError:
        why = self._why or SqlError(
            LOST,
            "the process that computed the answer has ended, probably for want of memory",
            "Ask for less at once, or raise serve.memory_mb",
        )
        self.end()
        return why


@lru_cache(maxsize=256)
def _schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


@dataclass(frozen=True)
class Opened:
    """An answer that has begun: its columns, its provenance, and the bytes of the columns."""

    schema: pa.Schema
    provenance: Mapping[str, Any]
    bytes: int


@dataclass(frozen=True)
class Done:
    """How many rows were sent, and whether there are more."""

    rows: int
    more: bool


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

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The answer's bytes. Raises SqlError if it can't be completed."""
        try:
            async for part in self._worker.rows():
                if isinstance(part, Done):
                    self.rows, self.ended = part.rows, True
                else:
                    yield part
        except SqlError:
            self.ended = True
            raise


@asynccontextmanager
async def chunks_of(answer: Answer) -> AsyncIterator[AsyncIterator[bytes]]:
    """The chunks of an answer, which end with the block, before the query does."""
    chunks = answer.chunks()
    try:
        yield chunks
    finally:
        await chunks.aclose()
