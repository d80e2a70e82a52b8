"""Pages for people and for Prometheus: the endpoints, and the metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from html import escape
from typing import Any

from fastapi import FastAPI, Request
from prometheus_client.exposition import choose_encoder
from starlette.responses import HTMLResponse, Response

from trilayer.server.engine.question import Refusal
from trilayer.server.http.faults import Failure
from trilayer.server.http.limits import Limits
from trilayer.server.http.state import Remembered, State
from trilayer.server.metrics import Metrics

logger = logging.getLogger("trilayer.server")

FACTS_S = 2.0
"""How long a scrape waits for the store."""


def add(app: FastAPI, state: State, metrics: Metrics, limits: Limits) -> None:
    """Adds the pages to an application."""

    async def read() -> None:
        metrics.facts.take(*await state.facts())

    facts = Remembered(read, max(limits.facts_s, 1.0))

    @app.get("/metrics", tags=["health"], response_class=Response)
    async def measured(request: Request) -> Response:
        """The metrics, as Prometheus reads them."""
        try:
            async with asyncio.timeout(FACTS_S):
                await facts.get()
        except (TimeoutError, Failure, Refusal) as error:
            logger.debug("metrics are those that were read before: %r", error)
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        body = await asyncio.to_thread(encode, metrics.registry)
        return Response(body, headers={"content-type": content_type})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """All endpoints, as a page without scripts."""
        return HTMLResponse(page(app.openapi()))


def page(openapi: Mapping[str, Any]) -> str:
    """The endpoints of an OpenAPI document as a page that needs nothing else."""
    info = openapi["info"]
    return "".join(
        [
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            f"<title>{escape(info['title'])}</title><h1>{escape(info['title'])}</h1>",
            '<p>The same as <a href="/openapi.json">OpenAPI</a>.</p>',
            *(
                part
                for path, methods in openapi["paths"].items()
                for method, operation in methods.items()
                for part in _operation(path, method, operation, openapi)
            ),
            "</html>",
        ]
    )


def _operation(
    path: str, method: str, operation: Mapping[str, Any], openapi: Mapping[str, Any]
) -> Iterator[str]:
    yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    yield f"<p>{escape(operation.get('description', ''))}</p>"
    rows = [
        (one["name"], one["in"], _type(one["schema"]), one["required"], one["schema"])
        for one in operation.get("parameters", [])
    ]
    with suppress(KeyError):
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        schema = openapi["components"]["schemas"][body["$ref"].rpartition("/")[2]]
        yield f"<pre>{escape(schema.get('description', ''))}</pre>"
        required = schema.get("required", ())
        rows += [
            (name, "body", _type(one), name in required, one)
            for name, one in schema["properties"].items()
        ]
    if rows:
        yield "<table><tr><th>name<th>in<th>type<th>default</tr>"
        for name, where, type_, needed, one in rows:
            default = "required" if needed else escape(str(one.get("default", "")))
            yield f"<tr><td><code>{escape(name)}</code><td>{where}<td>{escape(type_)}<td>{default}"
        yield "</table>"


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}"
    return str(schema.get("type", schema.get("const", "any")))
