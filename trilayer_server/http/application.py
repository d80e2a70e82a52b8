"""The application: all endpoints, behind the guard."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from trilayer_server.engine.pool import Pool
from trilayer_server.http import changing, reading, sql, subscribe
from trilayer_server.http.faults import (
    INTERNAL,
    INVALID,
    NOT_ALLOWED,
    NOT_FOUND,
    TOO_MUCH,
    Failure,
    of_validation,
)
from trilayer_server.http.limits import USUAL, Limits
from trilayer_server.http.running import RunningQueries
from trilayer_server.http.security import Guard, WebAccess
from trilayer_server.http.store_reader import StoreReader
from trilayer_server.http.subscribe import Subscriptions
from trilayer_server.metrics import Metrics

OPEN_TO_THIS_MACHINE = WebAccess()


def app(
    engine: Pool,
    store: StoreReader,
    *,
    access: WebAccess = OPEN_TO_THIS_MACHINE,
    limits: Limits = USUAL,
    metrics: Metrics | None = None,
    console: Path | None = None,
) -> FastAPI:
    """The application that answers by HTTP.

    Args:
        engine: Answers queries.
        store: Reads the store.
        access: Who may do what.
        limits: How much is done at once.
        metrics: What is measured; by default in a registry of its own.
        console: The folder of the browser's console, if it is served at /console.
    """
    made = FastAPI(
        title="trilayer",
        docs_url=None,
        redoc_url=None,
        exception_handlers={
            Failure: _failed,
            RequestValidationError: _invalid,
            StarletteHTTPException: _http_error,
            Exception: _crashed,
        },
    )
    measured = metrics or Metrics()
    queries, subscriptions = RunningQueries(limits), Subscriptions(engine, limits, measured)
    measured.gauge(
        "trilayer_subscribers", "Clients that follow an answer.", lambda: len(subscriptions)
    )
    measured.gauge(
        "trilayer_followed_questions",
        "Different queries whose answers are followed.",
        lambda: subscriptions.queries,
    )
    sql.add(made, engine, queries, limits, measured)
    subscribe.add(made, subscriptions, limits)
    reading.add(made, engine, store, access, limits, measured)
    changing.add(made, store, access)
    if console is not None:
        made.mount("/console", StaticFiles(directory=console, html=True), name="console")

        @made.get("/", include_in_schema=False)
        async def root() -> Response:
            return RedirectResponse("/console/")

    made.add_middleware(Guard, access=access, limits=limits)

    def end() -> None:
        subscriptions.close()
        queries.close()
        store.close()

    made.state.end = end
    return made


async def _failed(_request: Request, failure: Exception) -> Response:
    assert isinstance(failure, Failure)
    return failure.response()


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return of_validation(error.errors()).response()


_CODES = {401: NOT_ALLOWED, 403: NOT_ALLOWED, 404: NOT_FOUND, 413: TOO_MUCH}


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    code = _CODES.get(error.status_code, INVALID)
    return Failure(error.status_code, code, message, headers=error.headers).response()


async def _crashed(_request: Request, _error: Exception) -> Response:
    return Failure(
        500, INTERNAL, "the server has failed to answer", "The server's log has more"
    ).response()
