"""What there is, and how it is: catalog, status, history, quarantine, health and metrics."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse, Response

from serving_layer.result import Provenance
from trilayer_server.engine.pool import Pool
from trilayer_server.http import catalog
from trilayer_server.http.faults import BROKEN, INVALID, Failure
from trilayer_server.http.limits import Limits
from trilayer_server.http.security import WebAccess, requester_of
from trilayer_server.http.sql import MOST_ACCEPT
from trilayer_server.http.store_reader import Kind, Remembered, StoreReader
from trilayer_server.http.watch import state_of
from trilayer_server.metrics import Metrics
from trilayer_server.sql_error import SqlError

logger = logging.getLogger("trilayer_server")

FACTS_S = 2.0
"""How long a scrape waits for the store, in seconds."""

Limit = Annotated[int, Query(ge=1, le=10_000, description="How many are returned at most.")]


class Answered(BaseModel):
    """The body of a request for the lag.

    Attributes:
        provenance: The provenance of an answer.
    """

    provenance: dict[str, Any]


def add(
    app: FastAPI,
    engine: Pool,
    store: StoreReader,
    access: WebAccess,
    limits: Limits,
    metrics: Metrics,
) -> None:
    """Adds the endpoints to an application."""
    _add_state(app, store, access)
    _add_publications(app, store)
    _add_health(app, engine, limits)
    _add_metrics(app, store, limits, metrics)


def _add_state(app: FastAPI, store: StoreReader, access: WebAccess) -> None:
    @app.get("/v1/session", tags=["state"])
    async def session(request: Request) -> dict[str, Any]:
        """Who asks, and what they may do."""
        client = requester_of(request)
        return {
            "user": client.name,
            "role": client.role,
            "login": access.checks is not None,
            "version": version("trilayer"),
        }

    @app.get("/v1/catalog", tags=["state"])
    async def catalog_() -> dict[str, Any]:
        """The definitions: views, queries, streams, tables and alerts."""
        return await catalog.document(store)

    @app.get("/v1/status", tags=["state"])
    async def status() -> Response:
        """The status of streams, views and processes, as `trilayer status --json` prints it."""
        return JSONResponse(asdict(await store.status()))

    @app.get("/v1/provenance", tags=["state"])
    async def provenance(request: Request) -> Response:
        """What the present answers are based on, with the lag if a broker answers."""
        who = requester_of(request).who
        return JSONResponse((await store.with_lag(await store.provenance(), who)).to_json())

    @app.post("/v1/lag", tags=["state"])
    async def lag(answered: Answered, request: Request) -> Response:
        """Adds the present lag to the provenance of an earlier answer."""
        try:
            given = Provenance.from_json(answered.provenance)
        except ValidationError:
            raise Failure(
                400, INVALID, "provenance must be that of an answer; send it as it came"
            ) from None
        who = requester_of(request).who
        return JSONResponse((await store.with_lag(given, who)).to_json())


def _add_publications(app: FastAPI, store: StoreReader) -> None:
    """Adds what has happened to events: publications, reconciliation and quarantine."""

    @app.get("/v1/history", tags=["state"])
    async def history(request: Request) -> Response:
        """The publications that are kept, oldest first."""
        kept = await store.history(requester_of(request).who)
        return JSONResponse({"publications": [asdict(publication) for publication in kept]})

    @app.get("/v1/reconciliation", tags=["state"])
    async def reconciliation(
        request: Request,
        view: Annotated[
            str | None, Query(description="The view; without one, the counts of all views.")
        ] = None,
        version: Annotated[
            int | None, Query(ge=1, description="The publication; null for the one in force.")
        ] = None,
        kind: Annotated[Kind | None, Query(description="Only the keys of this kind.")] = None,
        limit: Limit = 1_000,
    ) -> Response:
        """What both layers have computed for a publication, compared."""
        who = requester_of(request).who
        if view is None:
            return JSONResponse(await store.reconciled_views(version, who))
        return JSONResponse(await store.reconciled(view, version, kind, limit, who))

    @app.get("/v1/quarantine", tags=["state"])
    async def quarantine(
        request: Request,
        stream: Annotated[str | None, Query(description="Only the events of this stream.")] = None,
        limit: Limit = 100,
        whole: Annotated[
            bool,
            Query(alias="all", description="Whether those replayed or discarded are returned too."),
        ] = False,
    ) -> Response:
        """The events that do not fit their schema: how many, why, and the newest of them."""
        who = requester_of(request).who
        return JSONResponse(await store.quarantine(stream, limit, whole, who))


def _add_health(app: FastAPI, engine: Pool, limits: Limits) -> None:
    @app.get("/healthz", tags=["health"])
    async def alive() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "alive"}

    @app.get("/readyz", tags=["health"])
    async def ready(request: Request) -> dict[str, Any]:
        """Whether the store's answer can be proven."""
        try:
            return {"status": "ready", "state": await state_of(engine, limits)}
        except SqlError as error:
            # Messages contain names of files, which only users may see.
            is_user = request.scope["trilayer.client"] is not None
            raise Failure(
                503,
                error.code if is_user else BROKEN,
                error.message if is_user else "the store's answer can't be proven",
                error.hint if is_user else "The server's log has more",
            ) from None


def _add_metrics(app: FastAPI, store: StoreReader, limits: Limits, metrics: Metrics) -> None:
    async def read() -> None:
        metrics.facts.take(*await store.facts())

    facts = Remembered(read, max(limits.facts_s, 1.0))

    @app.get("/metrics", tags=["health"], response_class=Response)
    async def measured(request: Request) -> Response:
        """The metrics, as Prometheus reads them."""
        try:
            async with asyncio.timeout(FACTS_S):
                await facts.get()
        except (TimeoutError, Failure, SqlError) as error:
            logger.debug("metrics are those that were read before: %r", error)
        # To read a very long one takes long.
        accept = request.headers.get("accept", "")[:MOST_ACCEPT]
        encode, content_type = choose_encoder(accept)
        body = await asyncio.to_thread(encode, metrics.registry)
        return Response(body, headers={"content-type": content_type})
