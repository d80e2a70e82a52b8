"""One client's connection, which speaks PostgreSQL's protocol."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from trilayer_server import introspection
from trilayer_server.encoding.values import BINARY, TEXT, type_of
from trilayer_server.engine import requests
from trilayer_server.engine.query import NO_PARAMETERS, Output, Parameters, Query
from trilayer_server.engine.worker_process import Done
from trilayer_server.metrics import Metrics
from trilayer_server.sql_error import SqlError
from trilayer_server.wire import messages
from trilayer_server.wire.answering import Answering
from trilayer_server.wire.client import Client
from trilayer_server.wire.connection import Connection
from trilayer_server.wire.copying import Copy, copy_of
from trilayer_server.wire.cursors import (
    CURSOR_STATEMENTS,
    Close,
    Declare,
    Fetch,
    cursor_statement,
    declare_of,
    fetch_of,
)
from trilayer_server.wire.messages import Body, Field, ProtocolFault, Startup
from trilayer_server.wire.open_cursors import OpenCursors
from trilayer_server.wire.prepared import Portal, Prepared, Statement
from trilayer_server.wire.setting import Setting, Settings, setting_of
from trilayer_server.wire.text import first_word, is_nothing

logger = logging.getLogger("trilayer_server")


class Session:
    """Answers one client until it leaves.

    Attributes:
        pid: What identifies the connection to its client.
    """

    def __init__(
        self,
        connection: Connection,
        client: Client,
        info: introspection.SessionInfo,
        metrics: Metrics,
        secret: bytes,
    ) -> None:
        """Prepares it; `run` answers.

        Args:
            connection: What the client sends, and where the answers go.
            client: Its worker.
            info: What statements about the session return.
            metrics: What is measured.
            secret: What a client needs in order to cancel its query.
        """
        self.pid, self._secret = info.pid, secret
        self._connection, self._client = connection, client
        self._send, self._drain = connection.send, connection.drain
        self._settings = Settings(info)
        self._prepared = Prepared()
        self._answering = Answering(client, metrics, connection)
        self._cursors = OpenCursors(client, self._prepared, self._answering)
        self._transaction = messages.IDLE
        # Whether messages are skipped until the next Sync, after an error.
        self._skips = False

    def cancel(self, secret: bytes) -> None:
        """Interrupts the query that runs, if the client may do so."""
        if secret == self._secret:
            self._client.cancel()

    async def run(self, startup: Startup) -> None:
        """Answers the client until it leaves."""
        refused = [name for name in startup.options if name.startswith("_pq_.")]
        if startup.minor or refused:
            self._send(messages.older_protocol(refused))
        self._send(messages.authenticated())
        for name, value in self._settings.info.reported().items():
            self._send(messages.parameter(name, value))
        self._send(messages.cancel_key(self.pid, self._secret))
        self._send(messages.ready(self._transaction))
        await self._drain()
        try:
            while message := await self._connection.receive(self._client.has_worker):
                await self._answer(*message)
        finally:
            self._client.leave()

    async def _answer(self, kind: bytes, body: Body) -> None:
        if self._skips and kind != b"S":
            return
        try:
            match kind:
                case b"Q":
                    await self._simple(body.text())
                case b"S":
                    self._skips = False
                    self._settle()
                case b"P":
                    self._parse(body)
                case b"B":
                    self._bind(body)
                case b"D":
                    await self._describe(body)
                case b"E":
                    await self._execute(body)
                case b"C":
                    await self._close(body)
                case b"H":
                    pass
                case _:
                    raise ProtocolFault(f"a message must be of a known type; got {kind!r}")
        except SqlError as error:
            self._failed(error)
            self._after_failure(kind)
        except (ProtocolFault, ConnectionError):
            raise
        except Exception as error:
            logger.exception("a statement has failed unexpectedly")
            self._failed(SqlError("XX000", f"internal error: {error}", "The server's log has more"))
            self._after_failure(kind)
        # A client may wait for an error; and one that asks without reading must wait.
        if kind in (b"Q", b"S", b"H") or self._skips or not self._connection.keeps:
            await self._drain()

    def _after_failure(self, kind: bytes) -> None:
        if kind == b"Q":
            self._settle()
        else:
            self._skips = True

    def _settle(self) -> None:
        """The client has seen all that it has asked for. Outside of a transaction portals end."""
        if self._transaction == messages.IDLE:
            self._client.settle(sound=self._prepared.end_transaction())
        self._send(messages.ready(self._transaction))

    def _failed(self, error: SqlError) -> None:
        self._send(messages.error_response(error))
        if self._transaction == messages.IN_TRANSACTION:
            self._transaction = messages.FAILED

    # -- the simple protocol -----------------------------------------------------------------------

    async def _simple(self, text: str) -> None:
        self._client.check(text)
        statements = await self._statements(text)
        if not statements:
            self._send(messages.EMPTY_QUERY)
        at = 0
        for sql in statements:
            await self._connection.let_others()
            start = text.find(sql, at)
            with _placed(max(start, at)):
                await self._answer_simply(sql)
            if start >= 0:
                at = start + len(sql)
        self._settle()

    async def _answer_simply(self, sql: str) -> None:
        """Answers one statement of the simple protocol."""
        if (tag := await self._command(sql)) is not None:
            self._send(messages.command_complete(tag))
        elif (copied := copy_of(sql)) is not None:
            await self._copy(sql, copied, NO_PARAMETERS)
        elif (fetch := fetch_of(sql)) is not None:
            cursor = self._prepared.cursor(fetch.name)
            assert cursor.columns is not None  # it is opened when it is declared
            formats = cursor.query.formats
            self._send(messages.row_description(_fields(cursor.columns, formats)))
            await self._fetch(fetch, formats)
        else:
            query = self._query(sql)
            async with self._answering.worker():
                worker, opened = await self._client.open(query)
                self._send(messages.row_description(_fields(opened.schema, ())))
                self._send_end(await self._answering.send_rows(worker))

    async def _statements(self, text: str) -> list[str]:
        """The statements of a text. Only a worker parses it, if it may be several."""
        whole = text.rstrip().rstrip(";").rstrip()
        if is_nothing(whole):
            return []
        if ";" not in whole:
            return [whole]
        async with self._client.any_worker() as worker:
            return await worker.split(text)

    async def _command(self, sql: str, parameters: Parameters = NO_PARAMETERS) -> str | None:
        """Carries out a statement that has no answer; None if it has one."""
        word = first_word(sql)
        if _TO_SAVEPOINT.match(sql):  # no statement has changed anything
            if self._client.has_lost_state:
                raise SqlError(
                    "25P02",
                    "the transaction can't go on, because its state has ended with the process that"
                    " answered it",
                    "Send ROLLBACK, and begin another transaction",
                )
            if self._transaction == messages.FAILED:
                self._transaction = messages.IN_TRANSACTION
            return "ROLLBACK"
        if self._transaction == messages.FAILED and word not in _END:
            raise SqlError(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )
        if word in _BEGIN:
            await self._client.begin()
            self._transaction = messages.IN_TRANSACTION
            return "BEGIN" if word == "BEGIN" else "START TRANSACTION"
        if word in _END:
            commits = self._transaction != messages.FAILED and word not in _UNDO
            self._transaction = messages.IDLE
            self._client.end(sound=self._prepared.end_transaction())
            return "COMMIT" if commits else "ROLLBACK"
        if word in CURSOR_STATEMENTS:
            return await self._cursor_command(sql, parameters)
        if word in ("DEALLOCATE", "DISCARD"):
            return word + await self._forget(sql)
        if word in _IGNORED:
            if (chosen := setting_of(sql)) is not None:
                self._choose(chosen)
            return word
        return None

    async def _forget(self, sql: str) -> str:
        """Carries out DEALLOCATE or DISCARD, and returns the second part of its tag."""
        command, name = first_word(sql), sql.split()[-1]
        if name.upper() != "ALL":
            if command == "DEALLOCATE":
                self._prepared.deallocate(name.strip('"'))
            return ""
        self._prepared.statements.clear()
        if command == "DISCARD":
            await self._cursors.close_all()
            self._choose(Setting("all", ""))
        return " ALL"  # by which clients know that they have to prepare again

    def _choose(self, chosen: Setting) -> None:
        self._settings.choose(chosen)
        self._client.timeout_s = self._settings.timeout_s

    async def _copy(self, sql: str, copied: Copy, parameters: Parameters) -> None:
        await self._command("")  # which refuses it if the transaction has failed
        query = self._query(copied.query, copied.output, parameters)
        async with self._answering.worker():
            with _placed(max(sql.find(copied.query), 0)):
                worker, opened = await self._client.open(query)
            self._send(messages.copy_out(int(copied.is_binary), len(opened.schema)))
            done = await self._answering.send_rows(worker)
            self._send(messages.COPY_DONE + messages.command_complete(f"COPY {done.rows}"))

    def _send_end(self, done: Done) -> None:
        self._send(
            messages.PORTAL_SUSPENDED
            if done.more
            else messages.command_complete(f"SELECT {done.rows}")
        )

    # -- cursors -----------------------------------------------------------------------------------

    async def _cursor_command(self, sql: str, parameters: Parameters) -> str | None:
        """Carries out a statement about a cursor; None for a FETCH, which has an answer."""
        match statement := cursor_statement(sql):
            case Declare():
                await self._declare(sql, statement, parameters)
                return "DECLARE CURSOR"
            case Close(name=None):
                await self._cursors.close_all()
                return "CLOSE CURSOR ALL"
            case Close(name=str(name)):
                self._prepared.cursor(name)
                await self._cursors.close(name)
                return "CLOSE CURSOR"
        return None

    async def _declare(self, sql: str, declare: Declare, parameters: Parameters) -> None:
        if self._transaction == messages.IDLE:
            raise SqlError(
                "25P01",
                "DECLARE CURSOR can only be used in transaction blocks",
                "Send BEGIN before it",
            )
        formats = (BINARY,) if declare.is_binary else ()
        query = self._query(declare.query, "wire", parameters, formats)
        with _placed(max(sql.find(declare.query), 0)):
            await self._cursors.open(declare.name, query)

    async def _fetch(self, fetch: Fetch, formats: Sequence[int], most: int = 0) -> Fetch | None:
        """Sends the rows of a FETCH, but no more than `most` unless it is 0; what is left of it."""
        whole = not most or (fetch.rows is not None and fetch.rows <= most)
        rows = await self._cursors.read(fetch.name, fetch.rows if whole else most, formats)
        if whole or not self._prepared.cursor(fetch.name).open:
            self._send(messages.command_complete(f"FETCH {rows}"))
            return None
        self._send(messages.PORTAL_SUSPENDED)
        left = None if fetch.rows is None else fetch.rows - rows
        return Fetch(fetch.name, left)

    # -- the extended protocol ---------------------------------------------------------------------

    def _parse(self, body: Body) -> None:
        name, text, declared = body.text(), body.text(), body.int32s()
        self._client.check(text)
        sql = "" if is_nothing(text) else text.rstrip().rstrip(";").rstrip()
        self._prepared.prepare(name, Statement(sql, declared))
        self._send(messages.PARSE_COMPLETE)

    def _bind(self, body: Body) -> None:
        name, statement = body.text(), self._prepared.statement(body.text())
        formats, given, results = body.int16s(), body.values(), body.int16s()
        parameters = Parameters(given, formats, statement.oids)
        query = self._query(statement.sql, "wire", parameters, results)
        self._prepared.bind(name, Portal(statement.sql, query, statement.columns))
        self._send(messages.BIND_COMPLETE)

    async def _describe(self, body: Body) -> None:
        kind, name = body.take(1), body.text()
        if kind == b"P":
            await self._describe_portal(name)
            return
        statement = self._prepared.statement(name)
        sql, oids, columns = statement.sql, statement.oids, statement.columns
        if (declare := declare_of(sql)) is not None:
            sql = declare.query
        if not sql or _has_no_columns(sql):
            pass
        elif (fetch := fetch_of(sql)) is not None:
            columns = self._prepared.cursor(fetch.name).columns
        else:
            query = self._query(sql, "wire", Parameters(oids=oids))
            async with self._answering.unmeasured() as worker:
                oids, columns = await worker.describe(query)
            self._prepared.prepare(name, Statement(statement.sql, oids, columns))
        self._send(messages.parameter_description(oids))
        if columns is None or declare is not None:
            self._send(messages.NO_DATA)
        else:
            self._send(messages.row_description(_fields(columns, ())))

    async def _describe_portal(self, name: str) -> None:
        portal = self._prepared.portal(name)
        if not portal.sql or _has_no_columns(portal.sql) or declare_of(portal.sql):
            self._send(messages.NO_DATA)
            return
        if (fetch := fetch_of(portal.sql)) is not None:
            portal.columns = self._prepared.cursor(fetch.name).columns
        if portal.columns is None:
            most = self._asked_for_next(name)
            async with self._answering.unmeasured():
                _, opened = await self._client.open(portal.query, name, most)
            self._prepared.opened(name, opened.schema, opened.bytes)
            portal.open = True
            portal.coming = most is not None
        assert portal.columns is not None
        self._send(messages.row_description(_fields(portal.columns, portal.query.formats)))

    def _asked_for_next(self, portal: str) -> int | None:
        """How many rows of a portal the next message asks for: 0 for all, None if for none yet.

        Most clients send it together with what it follows. The worker is then asked only once.
        """
        message = self._connection.next_message()
        if message is None or message[0] != b"E" or self._transaction == messages.FAILED:
            return None
        body = message[1]
        name, most = body.text(), max(body.int32(), 0)
        return most if name == portal else None

    async def _execute(self, body: Body) -> None:
        name, most = body.text(), max(body.int32(), 0)
        portal = self._prepared.portal(name)
        if not portal.sql:
            self._send(messages.EMPTY_QUERY)
            return
        if portal.is_cursor:
            raise SqlError("0A000", f'cursor "{name}" must be read with FETCH')
        given = portal.query.parameters
        if (tag := await self._command(portal.sql, given)) is not None:
            self._send(messages.command_complete(tag))
            return
        if (copied := copy_of(portal.sql)) is not None:
            await self._copy(portal.sql, copied, given)
            return
        if (fetch := portal.rest or fetch_of(portal.sql)) is not None:
            portal.rest = await self._fetch(fetch, portal.query.formats, most)
            return
        async with self._answering.worker() as worker:
            if portal.coming:
                portal.coming = False
            elif portal.open:
                await worker.fetch(requests.Fetch(name, most))
            else:
                worker, opened = await self._client.open(portal.query, name, most, portal.columns)
                self._prepared.opened(name, opened.schema, opened.bytes)
            done = await self._answering.send_rows(worker)
        portal.open = done.more
        self._send_end(done)

    async def _close(self, body: Body) -> None:
        kind, name = body.take(1), body.text()
        if kind == b"S":
            self._prepared.statements.pop(name, None)
        else:
            await self._cursors.close(name)
        self._send(messages.CLOSE_COMPLETE)

    def _query(
        self,
        sql: str,
        output: Output = "wire",
        parameters: Parameters = NO_PARAMETERS,
        formats: Sequence[int] = (),
    ) -> Query:
        return Query(
            sql,
            self._settings.info.layer,
            self._client.version,
            output,
            parameters,
            formats,
            session=self._settings.info,
        )


_BEGIN, _UNDO = ("BEGIN", "START"), ("ROLLBACK", "ABORT")
_END = ("COMMIT", "END", *_UNDO)
_IGNORED = frozenset({"SET", "RESET", "DISCARD", "DEALLOCATE", "SAVEPOINT", "RELEASE", "UNLISTEN"})
"""Statements about the session, which have no answer."""


_TO_SAVEPOINT = re.compile(r"\s*ROLLBACK\s+(?:WORK\s+|TRANSACTION\s+)?TO\b", re.IGNORECASE)


@contextmanager
def _placed(at: int) -> Iterator[None]:
    """Counts the position of a mistake from the start of a text, of which a part is run."""
    try:
        yield
    except SqlError as error:
        if error.position:
            error.position += at
        raise


def _fields(columns: pa.Schema, formats: Sequence[int]) -> list[Field]:
    """The descriptions of columns, with a format for each, or one for all."""
    fields = []
    for place, column in enumerate(columns):
        kind = type_of(column.type)
        format_ = formats[place if len(formats) > 1 else 0] if formats else TEXT
        fields.append(Field(column.name, kind.oid, kind.size, kind.modifier, format_))
    return fields


def _has_no_columns(sql: str) -> bool:
    return first_word(sql) in (*_BEGIN, *_END, *_IGNORED, "COPY", "CLOSE")
