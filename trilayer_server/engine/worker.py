"""A worker: a forked process that answers one client's queries on the state it was forked with.

It holds a copy-on-write view of the loader's memory. Nothing of it is kept: a worker whose query
is cancelled, or whose state is no longer the newest, is killed.
"""

from __future__ import annotations

import json
import logging
import pickle
import resource
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from serving_layer.connection import Connection
from serving_layer.result import Provenance
from serving_layer.snapshot import Snapshot
from trilayer.operations.system_relations import relations_of
from trilayer.operations.values import plain
from trilayer_core.errors import TrilayerError
from trilayer_core.project import Project
from trilayer_server import introspection
from trilayer_server.encoding import parameters
from trilayer_server.encoding.answers import Wire, encoder
from trilayer_server.engine import frames
from trilayer_server.engine.keys import key_of
from trilayer_server.engine.open_answer import OpenAnswer
from trilayer_server.engine.query import Query
from trilayer_server.engine.requests import Close, Describe, Fetch, Key, Open, Request, Split
from trilayer_server.engine.sql_errors import sql_error_of
from trilayer_server.engine.statements import parser, statements
from trilayer_server.sql_error import SqlError

logger = logging.getLogger("trilayer_server")

MOST_COLUMNS = 1_664
"""The most columns of an answer, as PostgreSQL has it."""

MOST_SCHEMA_BYTES = 1 << 19
"""The most bytes of the names and types of an answer's columns, which the server keeps.

A short statement can make a type that is twice as large as another, again and again.
"""

MOST_FRAMES = 20_000
"""The most calls within each other. Each level of a statement, of DuckDB's 1,000, takes a few."""

MOST_CHARACTERS = 10_000
"""The most characters of an error, which may quote a value: the server reads it at once."""

MOST_BYTES = 1 << 20
"""How much is sent in one frame, of which the server holds one for each client."""


class Executor:
    """Carries out the requests of one client at a time."""

    def __init__(
        self, to: socket.socket, project: Project, connection: Connection, most_rows: int
    ) -> None:
        """Prepares it; `run` answers.

        Args:
            to: The server.
            project: The project whose store answers.
            connection: The loader's connection, detached.
            most_rows: The most rows of an answer; 0 for any number.
        """
        self._to, self._project, self._most_rows = to, project, most_rows
        self._out = frames.Out(to)
        self._connection = connection
        self._portals: dict[str, OpenAnswer] = {}

    def run(self) -> None:
        """Answers requests until the server closes the connection."""
        sys.setrecursionlimit(MOST_FRAMES)
        read = self._to.makefile("rb").read  # which takes head and body at once
        while (data := frames.receive(read)) is not None:
            request: Request = pickle.loads(data)  # from the server, not from a client
            try:
                self._answer(request)
            except SqlError as error:
                self._send_error(error)
            except (TrilayerError, duckdb.Error, OSError, pa.ArrowException, MemoryError) as error:
                self._send_error(self._explained(request, error))
            except Exception as error:
                logger.exception("a query has failed unexpectedly")
                internal = SqlError("XX000", f"internal error: {error}", "See the server's log")
                self._send_error(internal)
            self._out.flush()

    def _explained(self, request: Request, error: Exception) -> SqlError:
        """The SQL error of an error, with its position in the statement as the client wrote it.

        DuckDB knows the position, and the subtype, only of an error of the statement that it was
        given, which is a translation with values. So it is given the client's own.
        """
        if not isinstance(request, Open | Describe):
            return sql_error_of(error)
        query = request.query
        sql_error = sql_error_of(error, query.sql)
        if _is_postgresqls(query) or query.parameters.values or introspection.mentions(query.sql):
            sql_error.position = 0  # it is that of the translation
        if sql_error.position or sql_error.code[:2] not in ("42", "22"):
            return sql_error  # others than those of statements and of literals have no position
        # An error of a literal comes when the statement runs, and one of its syntax before EXPLAIN.
        explain = "" if sql_error.code[:2] == "22" or sql_error.code == "42601" else "EXPLAIN "
        sql = parameters.with_blanks(query.sql)
        try:
            with ExitStack() as stack:
                self._snapshot(query, stack).reader(f"{explain}{sql}", query.layer)
        except (TrilayerError, duckdb.Error) as again:
            placed = sql_error_of(again, query.sql, before=explain)
            if placed.message == sql_error.message:
                sql_error.code, sql_error.position = placed.code, placed.position
                sql_error.hint = sql_error.hint or placed.hint
        return sql_error

    def _send_error(self, error: SqlError) -> None:
        document = {
            name: value[:MOST_CHARACTERS] if isinstance(value, str) else value
            for name, value in error.to_json().items()
        }
        self._out.send(frames.ERROR, _json(document))

    def _answer(self, request: Request) -> None:
        match request:
            case Open():
                self._open(request)
            case Fetch():
                self._fetch(request)
            case Describe():
                self._describe(request.query)
            case Split():
                self._out.send(frames.DONE, _json(statements(request.text)))
            case Key():
                self._out.send(frames.DONE, _json(key_of(request.sql, self._project.catalog)))
            case Close():
                self._close(request.portal)

    def _open(self, request: Open) -> None:
        if request.checks and self._connection.may_have_more():
            self._out.send(frames.STALE, b"")
            return
        if request.checks is False:
            self._connection.mark_current()
        self._close(request.portal)
        query = self._with_types(request.query)
        with ExitStack() as stack:
            snapshot = self._snapshot(query, stack)
            reader, provenance = _reader(snapshot, query, _with_values(query))
            columns = request.columns or reader.schema
            schema = _serialized(columns)
            encode = encoder(query.output, columns, query.formats)
            portal = OpenAnswer(stack.pop_all(), snapshot, reader, encode, columns)
        self._portals[request.portal] = portal
        # PostgreSQL's protocol has no place for it.
        sent = {} if _is_postgresqls(query) else plain(provenance.to_json())
        self._send_columns({"provenance": sent}, schema)
        if request.most_rows is not None:
            self._fetch(Fetch(request.portal, request.most_rows))

    def _fetch(self, request: Fetch) -> None:
        name = request.portal
        if (portal := self._portals.get(name)) is None:
            raise SqlError("34000", f'portal "{name}" does not exist')
        try:
            if not portal.begun:
                self._send_rows(portal.encode.begin())
                portal.begun = True
            if request.formats is not None:
                portal.encode_as(Wire(len(portal.columns), request.formats))
            rows = 0
            for number, data in portal.take(request.most_rows):
                self._count(portal, number)
                self._send_rows(data)
                rows += number
            over = portal.is_over()
            if over:
                self._send_rows(portal.encode.end())
        except BaseException:
            self._close(name)
            raise
        if over:
            self._close(name)
        self._out.send(frames.DONE, _json({"rows": rows, "more": not over}))

    def _count(self, answer: OpenAnswer, rows: int) -> None:
        """Counts rows that were computed. Raises SqlError if they are too many."""
        answer.rows += rows
        if self._most_rows and answer.rows > self._most_rows:
            raise SqlError("54000", f"an answer must have at most {self._most_rows:,} rows")

    def _send_rows(self, data: bytes | pa.Buffer) -> None:
        for at in range(0, len(data), MOST_BYTES):
            self._out.send(frames.ROWS, memoryview(data)[at : at + MOST_BYTES])

    def _send_columns(self, document: Mapping[str, Any], schema: bytes) -> None:
        text = _json(document)
        self._out.send(frames.COLUMNS, struct.pack(">I", len(text)) + text + schema)

    def _with_types(self, query: Query) -> Query:
        """The query with types for parameters that have none, if their values need them."""
        given = query.parameters
        needed = parameters.need_types(given.values, given.formats, given.oids)
        if not needed or introspection.mentions(query.sql):
            return query
        # One that the statement gives no type stays a literal without a type.
        declared = _declared(query)
        oids = [
            oid or (inferred if inferred != parameters.TEXT_OID else parameters.UNKNOWN)
            for oid, inferred in zip_longest(declared, self._inferred(query), fillvalue=0)
        ]
        return replace(query, parameters=replace(given, oids=oids))

    def _inferred(self, query: Query) -> list[int]:
        def columns_of(sql: str) -> pa.Schema:
            with ExitStack() as stack:  # one that fails ends its snapshot
                snapshot = self._snapshot(query, stack)
                return snapshot.table(_translated(sql, query), query.layer, rows=0).schema

        return parameters.inferred(query.sql, _declared(query), columns_of)

    def _describe(self, query: Query) -> None:
        oids = self._inferred(query)
        with ExitStack() as stack:
            snapshot = self._snapshot(query, stack)
            trial = parameters.on_trial(query.sql, oids)
            columns = _reader(snapshot, replace(query, most_rows=0), trial)[0].schema
        self._send_columns({"oids": oids}, _serialized(columns))

    def _snapshot(self, query: Query, stack: ExitStack) -> Snapshot:
        relations = relations_of(query.sql, self._project, self._connection)
        return stack.enter_context(self._connection.snapshot(query.version, relations))

    def _close(self, name: str) -> None:
        if (portal := self._portals.pop(name, None)) is not None:
            portal.stack.close()


def _reader(snapshot: Snapshot, query: Query, sql: str) -> tuple[pa.RecordBatchReader, Provenance]:
    """The answer to a statement whose parameters have values."""
    layer, most_rows, json = query.layer, query.most_rows, _is_postgresqls(query)
    if not introspection.mentions(sql):
        return snapshot.reader(_translated(sql, query), layer, most_rows, json=json)
    rewritten = introspection.rewrite(sql, query.session, parser())
    reader, provenance = snapshot.reader(
        rewritten.sql, layer, most_rows, json=_is_postgresqls(query)
    )
    # An answer from the catalog is small.
    return introspection.declared(reader.read_all(), rewritten.oids).to_reader(), provenance


def _serialized(columns: pa.Schema) -> bytes:
    """The columns of an answer, as they are sent. Raises SqlError if they are too many or long."""
    if (got := len(columns)) > MOST_COLUMNS:
        raise SqlError(
            "54011", f"an answer must have at most {MOST_COLUMNS:,} columns; got {got:,}"
        )
    schema: bytes = columns.serialize().to_pybytes()
    if (got := len(schema)) > MOST_SCHEMA_BYTES:
        raise SqlError(
            "54011",
            f"the names and types of columns must have at most {MOST_SCHEMA_BYTES:,} bytes;"
            f" got {got:,}",
        )
    return schema


def _translated(sql: str, query: Query) -> str:
    """A statement as a client of PostgreSQL means it; DuckDB's own SQL by HTTP."""
    if not _is_postgresqls(query):
        return sql
    return introspection.translated(sql, query.session.database, parser())


def _is_postgresqls(query: Query) -> bool:
    """Whether a client of PostgreSQL asks, and not one of HTTP."""
    return query.output not in ("arrow", "json", "csv")


def _declared(query: Query) -> list[int]:
    """The types of parameters that the client, or the statement itself, has declared."""
    in_statement = introspection.parameter_types(query.sql, parser())
    given = query.parameters.oids
    number = max([len(given), *in_statement])
    return [
        (given[place] if place < len(given) else 0) or in_statement.get(place + 1, 0)
        for place in range(number)
    ]


def _with_values(query: Query) -> str:
    given = query.parameters
    return parameters.with_values(query.sql, given.values, given.formats, given.oids)


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


def limit_memory(more_mb: int) -> None:
    """Lets this process have so much more address space than it has now, and no more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (more_mb << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
