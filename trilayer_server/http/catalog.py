"""The catalog as a JSON document."""

from __future__ import annotations

from typing import Any

from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import Key, View
from trilayer_core.definitions.windows import (
    AlignedWindow,
    RecentWindow,
    SessionWindow,
    Window,
    duration,
)
from trilayer_server.http.store_reader import StoreReader


async def document(store: StoreReader) -> dict[str, Any]:
    """The definitions of a project."""
    catalog = store.project.catalog
    return {
        "views": [
            _view(view) | {"columns": await store.columns(view.name)} for view in catalog.views
        ],
        "queries": [
            {"name": query.name, "sql": query.sql, "columns": await store.columns(query.name)}
            for query in catalog.queries
        ],
        "streams": [
            _stream(stream) | {"views": [view.name for view in catalog.views_of(stream)]}
            for stream in catalog.streams
        ],
        "tables": [{"name": table.name} for table in catalog.all_tables],
        "alerts": [
            {
                "name": alert.name,
                "stream": alert.source.name,
                "topic": alert.topic,
                "key": [key.name for key in alert.keys],
            }
            for alert in catalog.alerts
        ],
    }


def _view(view: View) -> dict[str, Any]:
    return {
        "name": view.name,
        "key": view.key_names,
        "output": view.output,
        "stream": view.stream.name,
        "source": view.source.name,
        "filter": view.where,
        "keys": [_key(key) for key in view.keys],
        "aggregates": [
            {
                "name": measure.name,
                "type": measure.type,
                "aggregate": measure.aggregate.kind.rstrip("_"),
                "where": measure.aggregate.where,
                "approximate": measure.bound,
            }
            for measure in view.measures
        ],
        "approximate": view.approximate,
    }


def _key(key: Key) -> dict[str, Any]:
    return {
        "name": key.name,
        "type": key.type,
        "expression": key.expression.shown,
        "window": _window(key.window) if key.window else None,
        "shown": key.shown,
    }


def _window(window: Window) -> str:
    """A window in words."""
    match window:
        case AlignedWindow() if window.size_us == window.slide_us:
            return f"tumbling, {duration(window.size_us)}"
        case AlignedWindow():
            return f"sliding, {duration(window.size_us)} every {duration(window.slide_us)}"
        case SessionWindow():
            return f"sessions with gaps of {duration(window.gap_us)}"
        case RecentWindow():
            return f"the last {duration(window.size_us)}, by {duration(window.slide_us)}"
    return type(window).__name__


def _stream(stream: Stream) -> dict[str, Any]:
    return {
        "name": stream.name,
        "topic": stream.topic,
        "schema": stream.schema,
        "columns": [{"name": name, "type": type_} for name, type_ in stream.columns.items()],
        "event_time": stream.event_time,
    }
