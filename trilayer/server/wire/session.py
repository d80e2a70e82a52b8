"""One client's connection, which speaks PostgreSQL's protocol."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from trilayer.server.wire import messages, parameters, values
from trilayer.server.asking import Asking, Cancelled
from trilayer.server.wire.messages import Body, Fault, ProtocolFault, Startup
from trilayer_core.errors import CoverageError, TrilayerError, UsageError

logger = logging.getLogger("trilayer.server")

SERVER_VERSION = "15.0 (trilayer)"

_SAID = {
    "server_version": SERVER_VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "default_transaction_read_only": "on",
    "in_hot_standby": "off",
}
"""What a client is told about the server when it connects."""

_COMMAND = re.compile(r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*(\w+)", re.DOTALL)

ROWS_AT_ONCE = 65_536
"""The number of rows whose messages are made at once."""


@dataclass(frozen=True)
class _Statement:
    """A prepared statement. `columns` is None if it has no answer."""

    query: str
    oids: Sequence[int]
    columns: pa.Schema | None


@dataclass
class _Portal:
    """A statement with values for its parameters, and how far its answer was read."""

    query: str
    columns: pa.Schema | None
    formats: Sequence[int]
    answer: pa.Table | None = None
    sent: int = 0


@dataclass
class _State:
    """What a client has prepared, and the state of its transaction."""

    statements: dict[str, _Statement] = field(default_factory=dict)
    portals: dict[str, _Portal] = field(default_factory=dict)
    transaction: bytes = messages.IDLE
    skips: bool = False


class _Refused(Exception):
    """A statement that can't be run."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Session:
    """Answers one client until it leaves.

    Attributes:
        pid: What identifies the connection to its client.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asking: Asking,
        pid: int,
        secret: bytes,
    ) -> None:
        """Prepares it; `run` answers.

        Args:
            reader: What the client sends, after its startup message.
            writer: Where the answers go.
            asking: The questions of this client.
            pid: What identifies the connection.
            secret: What a client needs in order to cancel its query.
        """
        self.pid, self._secret = pid, secret
        self._reader, self._writer, self._asking = reader, writer, asking
        self._state = _State()

    def cancel(self, secret: bytes) -> None:
        """Interrupts the query that runs, if the client may do so."""
        if secret == self._secret:
            self._asking.cancel()

    async def run(self, startup: Startup) -> None:
        """Answers the client until it leaves."""
        refused = [name for name in startup.options if name.startswith("_pq_.")]
        if startup.minor or refused:
            self._send(messages.older_protocol(refused))
        self._send(messages.authenticated())
        said = _SAID | {"application_name": startup.options.get("application_name", "")}
        for name, value in said.items():
            self._send(messages.parameter(name, value))
        self._send(messages.cancel_key(self.pid, self._secret))
        self._send(messages.ready(self._state.transaction))
        await self._writer.drain()
        try:
            while (message := await self._receive()) is not None:
                await self._answer(*message)
        finally:
            self._asking.end()

    async def _receive(self) -> tuple[bytes, Body] | None:
        """The next message; None if the client has left."""
        try:
            kind = await self._reader.readexactly(1)
            length = int.from_bytes(await self._reader.readexactly(4), "big")
            if not 4 <= length <= messages.MOST_BYTES:
                raise ProtocolFault(
                    f"a message must have at most {messages.MOST_BYTES:,} bytes; got {length:,}"
                )
            body = Body(await self._reader.readexactly(length - 4))
        except asyncio.IncompleteReadError:
            return None
        return None if kind == b"X" else (kind, body)

    async def _answer(self, kind: bytes, body: Body) -> None:
        state = self._state
        if state.skips and kind != b"S":
            return
        try:
            match kind:
                case b"Q":
                    await self._simple(body.text())
                case b"S":
                    state.skips = False
                    self._send(messages.ready(state.transaction))
                case b"P":
                    await self._parse(body)
                case b"B":
                    self._bind(body)
                case b"D":
                    self._describe(body)
                case b"E":
                    await self._execute(body)
                case b"C":
                    self._close(body)
                case b"H":
                    pass
                case _:
                    raise ProtocolFault(f"a message must be of a known type; got {kind!r}")
        except (TrilayerError, _Refused, Cancelled) as error:
            self._failed(_fault(error))
            self._after_failure(kind)
        except ProtocolFault:
            raise
        except Exception as error:
            logger.exception("a statement has failed unexpectedly")
            self._failed(Fault("XX000", f"internal error: {error}", "The server's log has more"))
            self._after_failure(kind)
        if kind in (b"Q", b"S", b"H"):
            await self._writer.drain()

    def _after_failure(self, kind: bytes) -> None:
        if kind == b"Q":
            self._send(messages.ready(self._state.transaction))
        else:
            self._state.skips = True

    def _failed(self, fault: Fault) -> None:
        self._send(messages.error(fault))
        if self._state.transaction == messages.IN_TRANSACTION:
            self._state.transaction = messages.FAILED

    def _send(self, data: bytes) -> None:
        self._writer.write(data)

    # -- the simple protocol -----------------------------------------------------------------------

    async def _simple(self, text: str) -> None:
        statements = _statements(text)
        if not statements:
            self._send(messages.EMPTY_QUERY)
        for query in statements:
            if (tag := await self._command(query)) is not None:
                self._send(messages.command_complete(tag))
                continue
            answer = await self._ask(query)
            fields = [values.field_of(c.name, c.type) for c in answer.schema]
            self._send(messages.row_description(fields))
            await self._send_rows(answer, [messages.TEXT] * len(fields))
            self._send(messages.command_complete(f"SELECT {answer.num_rows}"))
        self._send(messages.ready(self._state.transaction))

    async def _ask(self, query: str) -> pa.Table:
        return await asyncio.to_thread(self._asking.answer, query)

    async def _command(self, query: str) -> str | None:
        """Carries out a statement that has no answer; None if it has one."""
        word = _first_word(query)
        if self._state.transaction == messages.FAILED and word not in _END:
            raise _Refused(
                Fault(
                    "25P02",
                    "current transaction is aborted, commands ignored until end of transaction"
                    " block",
                )
            )
        if word in _BEGIN:
            await asyncio.to_thread(self._asking.begin)
            self._state.transaction = messages.IN_TRANSACTION
            return "BEGIN" if word == "BEGIN" else "START TRANSACTION"
        if word in _END:
            failed = self._state.transaction == messages.FAILED
            self._state.transaction = messages.IDLE
            self._state.portals.clear()
            await asyncio.to_thread(self._asking.end)
            return "ROLLBACK" if failed or word in _UNDO else "COMMIT"
        if word in _IGNORED:
            return word
        return None

    async def _send_rows(self, answer: pa.Table, formats: Sequence[int]) -> None:
        for start in range(0, answer.num_rows, ROWS_AT_ONCE):
            part = answer.slice(start, ROWS_AT_ONCE)
            for buffer in await asyncio.to_thread(values.rows, part, formats):
                self._writer.write(memoryview(buffer))
                await self._writer.drain()

    # -- the extended protocol ---------------------------------------------------------------------

    async def _parse(self, body: Body) -> None:
        name, text, declared = body.text(), body.text(), body.int32s()
        statements = _statements(text)
        if len(statements) > 1:
            raise _Refused(
                Fault("42601", "cannot insert multiple commands into a prepared statement")
            )
        query = statements[0] if statements else ""
        number = parameters.number_of(query)
        oids = [*declared, *[parameters.UNKNOWN] * (number - len(declared))]
        columns = None
        if query and not _is_command(query):
            trial = parameters.on_trial(query, oids)
            columns = await asyncio.to_thread(self._asking.columns, trial)
        self._state.statements[name] = _Statement(query, oids, columns)
        self._send(messages.PARSE_COMPLETE)

    def _bind(self, body: Body) -> None:
        portal, name = body.text(), body.text()
        statement = self._statement(name)
        formats, given = body.int16s(), body.values()
        results = body.int16s()
        query = parameters.with_values(statement.query, given, formats, statement.oids)
        number = len(statement.columns) if statement.columns is not None else 0
        chosen = results if len(results) > 1 else (results or [messages.TEXT]) * number
        self._state.portals[portal] = _Portal(query, statement.columns, chosen)
        self._send(messages.BIND_COMPLETE)

    def _describe(self, body: Body) -> None:
        kind, name = body.take(1), body.text()
        if kind == b"S":
            statement = self._statement(name)
            oids = [oid or _TEXT_OID for oid in statement.oids]
            self._send(messages.parameter_description(oids))
            columns, formats = statement.columns, [messages.TEXT] * len(statement.columns or ())
        else:
            portal = self._portal(name)
            columns, formats = portal.columns, list(portal.formats)
        if columns is None:
            self._send(messages.NO_DATA)
            return
        described = [
            values.field_of(column.name, column.type, format_)
            for column, format_ in zip(columns, formats, strict=True)
        ]
        self._send(messages.row_description(described))

    async def _execute(self, body: Body) -> None:
        portal = self._portal(body.text())
        most = body.int32()
        if not portal.query:
            self._send(messages.EMPTY_QUERY)
            return
        if portal.columns is None:
            tag = await self._command(portal.query)
            self._send(messages.command_complete(tag or ""))
            return
        if self._state.transaction == messages.FAILED:
            await self._command(portal.query)  # which refuses it
        if portal.answer is None:
            answer = await self._ask(portal.query)
            # An unnamed column is named like its text, which contains the parameters.
            portal.answer = answer.rename_columns(portal.columns.names).cast(portal.columns)
        left = portal.answer.num_rows - portal.sent
        part = portal.answer.slice(portal.sent, most if most > 0 else left)
        await self._send_rows(part, portal.formats)
        portal.sent += part.num_rows
        if part.num_rows < left:
            self._send(messages.PORTAL_SUSPENDED)
        else:
            self._send(messages.command_complete(f"SELECT {part.num_rows}"))

    def _close(self, body: Body) -> None:
        kind, name = body.take(1), body.text()
        (self._state.statements if kind == b"S" else self._state.portals).pop(name, None)
        self._send(messages.CLOSE_COMPLETE)

    def _statement(self, name: str) -> _Statement:
        if name not in self._state.statements:
            raise _Refused(Fault("26000", f'prepared statement "{name}" does not exist'))
        return self._state.statements[name]

    def _portal(self, name: str) -> _Portal:
        if name not in self._state.portals:
            raise _Refused(Fault("34000", f'portal "{name}" does not exist'))
        return self._state.portals[name]


_TEXT_OID = 25
_BEGIN, _UNDO = ("BEGIN", "START"), ("ROLLBACK", "ABORT")
_END = ("COMMIT", "END", *_UNDO)
_IGNORED = frozenset({"SET", "RESET", "DISCARD", "DEALLOCATE"})
"""Statements about the session. Nothing that they could change changes an answer."""


def _is_command(query: str) -> bool:
    return _first_word(query) in (*_BEGIN, *_END, *_IGNORED)


def _first_word(query: str) -> str:
    found = _COMMAND.match(query)
    return found[1].upper() if found else ""


def _statements(text: str) -> list[str]:
    """The statements of a text. One that can't be parsed is reported when it is run."""
    if not text.strip().strip(";").strip():
        return []
    if _is_command(text) and ";" not in text.strip().rstrip(";"):
        return [text.strip().rstrip(";")]
    try:
        return [statement.query for statement in duckdb.extract_statements(text)]
    except duckdb.Error:
        return [text]


def _fault(error: BaseException) -> Fault:
    if isinstance(error, _Refused):
        return error.fault
    if isinstance(error, Cancelled):
        return Fault("57014", "canceling statement due to user request")
    message, _, hint = str(error).partition("; ")
    if isinstance(error, UsageError):
        return Fault("42000", message, hint)
    return Fault("55000" if isinstance(error, CoverageError) else "58000", message, hint)
