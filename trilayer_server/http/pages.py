"""Pages for people and for Prometheus: the endpoints, and the metrics."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from html import escape
from typing import Any

from fastapi import FastAPI, Request
from prometheus_client.exposition import choose_encoder
from starlette.responses import HTMLResponse, Response

from trilayer_server.engine.question import Refusal
from trilayer_server.http.faults import Failure
from trilayer_server.http.limits import Limits
from trilayer_server.http.sql import MOST_ACCEPT
from trilayer_server.http.store_reader import Remembered, StoreReader
from trilayer_server.metrics import Metrics

logger = logging.getLogger("trilayer_server")

FACTS_S = 2.0
"""How long a scrape waits for the store."""


def add(app: FastAPI, store: StoreReader, metrics: Metrics, limits: Limits) -> None:
    """Adds the pages to an application."""

    async def read() -> None:
        metrics.facts.take(*await store.facts())

    facts = Remembered(read, max(limits.facts_s, 1.0))

    @app.get("/metrics", tags=["health"], response_class=Response)
    async def measured(request: Request) -> Response:
        """The metrics, as Prometheus reads them."""
        try:
            async with asyncio.timeout(FACTS_S):
                await facts.get()
        except (TimeoutError, Failure, Refusal) as error:
            logger.debug("metrics are those that were read before: %r", error)
        # To read a very long one takes long.
        accept = request.headers.get("accept", "")[:MOST_ACCEPT]
        encode, content_type = choose_encoder(accept)
        body = await asyncio.to_thread(encode, metrics.registry)
        return Response(body, headers={"content-type": content_type})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """All endpoints, as a page without scripts."""
        return HTMLResponse(page(app.openapi()))


def page(openapi: Mapping[str, Any]) -> str:
    """The endpoints of an OpenAPI document as a page without scripts, in the console's look."""
    title = escape(openapi["info"]["title"])
    operations = [
        (path, method, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Endpoints · {title}</title>",
            '<link rel="icon" href="/console/icon.svg" type="image/svg+xml">',
            '<link rel="stylesheet" href="/console/docs.css"></head><body>',
            f"<header><h1>Endpoints of {title}</h1>",
            '<p>The same as <a href="/openapi.json">OpenAPI</a>, for people. ',
            '<a href="/console/">The console</a> is made with them.</p></header>',
            '<nav aria-label="Endpoints"><ul>',
            *(
                f'<li><a href="#{operation["operationId"]}">{_name(path, method)}</a></li>'
                for path, method, operation in operations
            ),
            "</ul></nav><main>",
            *(part for one in operations for part in _operation(*one, openapi)),
            "</main></body></html>",
        ]
    )


def _name(path: str, method: str) -> str:
    return f"<code><b>{method.upper()}</b> {escape(path)}</code>"


def _operation(
    path: str, method: str, operation: Mapping[str, Any], openapi: Mapping[str, Any]
) -> Iterator[str]:
    yield f'<section><h2 id="{operation["operationId"]}">{_name(path, method)}</h2>'
    yield f"<p>{_text(operation.get('description', ''))}</p>"
    rows = [
        (
            one["name"],
            one["in"],
            _type(one["schema"]),
            one["required"],
            one["schema"],
            one.get("description", ""),
        )
        for one in operation.get("parameters", [])
    ]
    with suppress(KeyError):
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        schema = openapi["components"]["schemas"][body["$ref"].rpartition("/")[2]]
        required = schema.get("required", ())
        meanings = _attributes(schema.get("description", ""))
        rows += [
            (name, "body", _type(one), name in required, one, meanings.get(name, ""))
            for name, one in schema["properties"].items()
        ]
    if rows:
        explained = any(said for *_, said in rows)
        yield '<div class="scroll"><table><thead><tr><th>name<th>in<th>type<th>default'
        yield "<th>what it is" if explained else ""
        yield "</thead><tbody>"
        for name, where, type_, needed, one, said in rows:
            default = "required" if needed else escape(_default(one.get("default", "")))
            yield f"<tr><td><code>{escape(name)}</code><td>{where}<td>{escape(type_)}<td>{default}"
            yield f"<td>{_text(said)}" if explained else ""
        yield "</tbody></table></div>"
    yield "</section>"


def _default(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """A docstring as HTML: what stands between backquotes is code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))


def _attributes(docstring: str) -> dict[str, str]:
    """What a docstring's section `Attributes` says, by name."""
    lines = docstring.partition("Attributes:\n")[2].splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[:indent].strip() == "" and line[indent : indent + 1].strip():
            name, _, text = line.strip().partition(": ")
            found[name] = text
        elif name and line.strip():
            found[name] += f" {line.strip()}"
    return found


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}"
    return str(schema.get("type", schema.get("const", "any")))
