"""Queries by HTTP, and their cancellation.

An error before the first byte of an answer is sent as a status and a JSON document. After
the first byte neither is possible any more: the connection is then closed without the last chunk
of the body, by which every client of HTTP/1.1 knows that it does not have the whole answer. An
Arrow stream also lacks its end-of-stream marker, and a JSON document its end.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from typing import Annotated, Any, Literal, NoReturn

from fastapi import FastAPI, Path, Request
from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from serving_layer.snapshot import Layer
from trilayer_server.engine.pool import Pool
from trilayer_server.engine.query import Parameters, Query
from trilayer_server.engine.worker_process import Answer, chunks_of
from trilayer_server.http.columns import columns_json
from trilayer_server.http.faults import INVALID, TOO_MUCH, Failure, failure_of
from trilayer_server.http.limits import Limits
from trilayer_server.http.running import Running, RunningQueries
from trilayer_server.http.security import Requester, requester_of
from trilayer_server.metrics import Metrics
from trilayer_server.sql_error import CANCELLED, SqlError

logger = logging.getLogger("trilayer_server")

Format = Literal["json", "csv", "arrow"]

MEDIA: Mapping[Format, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.stream",
}

MOST_ACCEPT = 1_000
"""The length of the longest header Accept."""

MOST_NAMES = 100
"""How many fields the body of a query may have, of which each that is unknown is reported."""

ID = r"^[A-Za-z0-9_-]{1,64}$"


class Asked(BaseModel):
    """The body of a query.

    Attributes:
        sql: One SELECT.
        layer: The layer in which names without a schema are looked up.
        version: The publication on which the answer is based; null for the newest state.
        params: Values for the statement's parameters $1, $2 and so on.
        max_rows: How many rows are returned at most; null for all.
        timeout_s: How long it may take, until the last byte.
        id: An identifier by which it can be cancelled; the server chooses one otherwise.
        format: The form of the answer; by default what the header Accept asks for.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    sql: str
    layer: Layer = "merged"
    version: Annotated[int | None, Field(ge=1, lt=2**63)] = None
    params: Annotated[
        list[bool | int | float | str | None], Field(max_length=1_000), FailFast()
    ] = []
    max_rows: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    timeout_s: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    id: Annotated[str | None, Field(pattern=ID)] = None
    format: Format | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _few(cls, given: Any, validate: ModelWrapValidatorHandler[Asked]) -> Asked:
        """Validates no more fields than a person would read errors of."""
        if isinstance(given, dict) and len(given) > MOST_NAMES:
            given = dict(itertools.islice(given.items(), MOST_NAMES))
        return validate(given)


def add(
    app: FastAPI, engine: Pool, queries: RunningQueries, limits: Limits, metrics: Metrics
) -> None:
    """Adds the endpoints to an application."""

    @app.post("/v1/sql", tags=["queries"], response_class=Response)
    async def ask(asked: Asked, request: Request) -> Response:
        """Answers one SELECT as JSON, CSV or an Arrow stream, with its provenance."""
        check_length(asked.sql, limits)
        format_ = asked.format or _accepted(request.headers.get("accept", ""))
        if format_ == "csv" and request.scope["http_version"] == "1.0":
            raise Failure(
                400,
                "08P01",
                "CSV must be asked for by HTTP/1.1, because in HTTP/1.0 an answer that is cut off"
                " can't be told from a complete one",
                "Configure the proxy, if there is one, to use HTTP/1.1",
            )
        return _Answering(engine, queries, metrics, asked, format_, requester_of(request))

    @app.get("/v1/sql", tags=["queries"])
    async def running(request: Request) -> dict[str, Any]:
        """Lists the queries that run: a reader's own, and all for an admin."""
        client = requester_of(request)
        listed = [q for q in queries.list() if client.is_admin or q.who == client.who]
        return {"questions": [query.to_json() for query in listed]}

    @app.delete("/v1/sql/{id}", tags=["queries"])
    async def cancel(
        id_: Annotated[
            str, Path(alias="id", pattern=ID, description="The identifier of the query.")
        ],
        request: Request,
    ) -> dict[str, Any]:
        """Cancels a query that runs."""
        queries.cancel(id_, requester_of(request))
        return {"id": id_, "cancelled": True}


def check_length(sql: str, limits: Limits) -> None:
    """Checks the length of a statement.

    Raises:
        Failure: It is too long, or can't be encoded.
    """
    try:
        got = len(sql.encode())
    except UnicodeEncodeError:
        raise Failure(400, "22021", "sql must be text that UTF-8 can encode") from None
    if got > limits.statement_bytes:
        raise Failure(
            413,
            TOO_MUCH,
            f"sql must have at most {limits.statement_bytes:,} bytes; got {got:,}",
        )


def _accepted(accept: str) -> Format:
    """The form that a header Accept asks for: the first one that is known, by quality."""
    if len(accept) > MOST_ACCEPT:
        raise Failure(
            400,
            INVALID,
            f"Accept must have at most {MOST_ACCEPT:,} characters; got {len(accept):,}",
        )
    accepted: list[tuple[float, Format]] = []
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                with suppress(ValueError):
                    quality = float(parameter[2:])
        for format_, type_ in MEDIA.items():
            if media in (type_.partition(";")[0], "*/*") and quality > 0:
                accepted.append((quality, format_))
                break
    if not accepted and accept.strip():
        raise Failure(
            400,
            INVALID,
            f"Accept must be one of {', '.join(m.partition(';')[0] for m in MEDIA.values())};"
            f" got {accept!r}",
        )
    return max(accepted, key=lambda pair: pair[0], default=(0.0, "json"))[1]


def _oid(value: bool | int | float | str | None) -> int:
    """The type of a parameter, as PostgreSQL numbers it; 0 if the statement decides."""
    match value:
        case bool():
            return 16  # bool
        case int():
            return 20 if -(2**63) <= value < 2**63 else 1700  # int8 or numeric
        case float():
            return 701  # float8
    return 0


def _parameters(values: list[bool | int | float | str | None]) -> Parameters:
    """Values as PostgreSQL's clients send them, as text. The statement decides what a text is."""
    return Parameters(
        values=[None if value is None else _text(value).encode() for value in values],
        oids=[_oid(value) for value in values],
    )


def _text(value: bool | int | float | str) -> str:
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


class _Answering(Response):
    """The response to a query: it asks, and sends the answer as it comes."""

    def __init__(
        self,
        engine: Pool,
        queries: RunningQueries,
        metrics: Metrics,
        asked: Asked,
        format_: Format,
        client: Requester,
    ) -> None:
        super().__init__()
        self._engine, self._queries, self._metrics = engine, queries, metrics
        self._asked, self._format, self._client = asked, format_, client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers as ASGI says."""
        asked, query, begun = self._asked, self._query(), False
        seconds = self._queries.seconds(asked.timeout_s)
        try:
            with (
                self._queries.running(asked.id, asked.layer, self._client) as running,
                self._metrics.query("http") as outcome,
            ):
                leaving = asyncio.create_task(_leave(receive, running))
                try:
                    async with (
                        running.limit(seconds),
                        self._engine.ask(query, self._client.who) as answer,
                        chunks_of(answer) as chunks,
                        aclosing(self._body(answer, chunks, running)) as body,
                    ):
                        # An error of the first chunk can still be sent as a status.
                        chunk = await anext(body, b"")
                        await send(self._start(answer, running))
                        begun = True
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                        async for chunk in body:
                            await send(
                                {"type": "http.response.body", "body": chunk, "more_body": True}
                            )
                    await send({"type": "http.response.body", "body": b""})
                except TimeoutError:
                    outcome.set("cancelled" if running.cancelled or running.gone else "timeout")
                    _raise_ended(running, seconds)
                except SqlError as error:
                    outcome.set("error")
                    raise failure_of(error) from None
                finally:
                    leaving.cancel()
        except Failure as failure:
            if not begun:
                await failure.response()(scope, receive, send)
                return
            # Returning without the last chunk closes the connection.
            logger.info("an answer was cut off: %s", failure.code)

    def _query(self) -> Query:
        asked = self._asked
        return Query(
            asked.sql,
            asked.layer,
            asked.version,
            self._format,
            _parameters(asked.params),
            most_rows=asked.max_rows,
        )

    def _start(self, answer: Answer, running: Running) -> dict[str, Any]:
        headers = {
            "content-type": MEDIA[self._format],
            "x-trilayer-id": running.id,
            "x-trilayer-provenance": compact(answer.provenance, ascii_=True),
        }
        return {
            "type": "http.response.start",
            "status": 200,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }

    async def _body(
        self, answer: Answer, chunks: AsyncIterator[bytes], running: Running
    ) -> AsyncGenerator[bytes, None]:
        if self._format != "json":
            async for chunk in chunks:
                yield chunk
            return
        head = {"id": running.id, "columns": columns_json(answer.schema)}
        before = f'{compact(head)[:-1]},"provenance":{compact(answer.provenance)},"rows":'.encode()
        async for chunk in chunks:
            yield before + chunk
            before = b""
        tail = {
            "row_count": answer.rows,
            "truncated": answer.rows == self._asked.max_rows,
            "elapsed_ms": round(running.seconds * 1_000, 3),
        }
        rest = f",{compact(tail)[1:]}".encode()
        yield before + b"[]" + rest if before else rest


def compact(value: Any, *, ascii_: bool = False) -> str:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=ascii_, separators=(",", ":"), allow_nan=False)


def _raise_ended(running: Running, seconds: float) -> NoReturn:
    if running.cancelled:
        raise Failure(409, CANCELLED, "the query was cancelled")
    if running.gone:
        raise Failure(400, CANCELLED, "the client has left")
    raise Failure(
        408,
        CANCELLED,
        f"the answer must be complete within {seconds:g} s; it is not",
        "Ask for less, or send a larger timeout_s",
    )


async def _leave(receive: Receive, running: Running) -> None:
    """Cancels a query when its client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
    running.leave()
