"""The views and tables that clients see, as DuckDB and the catalog describe them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from serving_layer.snapshot import LAYERS
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.view import Key, Measure, View
from trilayer_core.definitions.windows import (
    AlignedWindow,
    RecentWindow,
    SessionWindow,
    duration,
)
from trilayer_core.store.segments import TICK
from trilayer_server.encoding.values import type_of
from trilayer_server.introspection.comments import OWN_RELATIONS, OWN_SCHEMA, SCHEMAS

_HOLDS = {
    "merged": "all events: the batch and the speed layer merged",
    "batch": "the events below the cut of the publication in force, as the batch layer counts them",
    "speed": "the events from that cut on, as the speed layer counts them",
    "arrivals": "the events from that cut on, by the tick in which they arrived",
    "alerts": "the events that raised it",
}


@dataclass(frozen=True)
class Attribute:
    """A column.

    Attributes:
        name: Its name.
        type: The number of its type in PostgreSQL.
        modifier: The type's modifier; -1 without.
        comment: What it is, in words; may be empty.
    """

    name: str
    type: int
    modifier: int
    comment: str = ""


@dataclass(frozen=True)
class Object:
    """A view or table.

    Attributes:
        schema: Its schema.
        name: Its name.
        kind: `v` for a view, `r` for a table.
        columns: Its columns, in order.
        key: The columns that identify a row; empty if none are known to.
        comment: What it is, in words; may be empty.
        definition: What a view means, as a SELECT over its source; empty for a table.
    """

    schema: str
    name: str
    kind: str
    columns: Sequence[Attribute]
    key: Sequence[str] = ()
    comment: str = ""
    definition: str = ""


def objects(database: duckdb.DuckDBPyConnection, catalog: Catalog) -> list[Object]:
    """The views and tables of the schemas that clients see, in order of these."""
    of_columns = database.execute(
        "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns()"
        " WHERE NOT internal AND list_contains(?, schema_name)"
        " ORDER BY list_position(?, schema_name), table_name, column_index",
        [list(SCHEMAS), list(SCHEMAS)],
    ).fetchall()
    views = set(
        database.execute(
            "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    )
    types = _types(database, {type_ for *_, type_ in of_columns})
    described: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for schema, name, column, type_ in of_columns:
        described.setdefault((schema, name), []).append((column, *types[type_]))
    return [
        _object(catalog, schema, name, columns, is_view=(schema, name) in views)
        for (schema, name), columns in described.items()
    ]


def _types(database: duckdb.DuckDBPyConnection, names: set[str]) -> Mapping[str, tuple[int, int]]:
    """The number and modifier of the type that a client sees for each type of DuckDB."""
    wanted = sorted(names)
    if not wanted:
        return {}
    select = ", ".join(f"NULL::{name} AS c{place}" for place, name in enumerate(wanted))
    table: pa.Table = database.sql(f"SELECT {select}").to_arrow_table()
    kinds = [type_of(field.type) for field in table.schema]
    return {name: (kind.oid, kind.modifier) for name, kind in zip(wanted, kinds, strict=True)}


def _object(
    catalog: Catalog,
    schema: str,
    name: str,
    columns: Sequence[tuple[str, int, int]],
    *,
    is_view: bool,
) -> Object:
    view = next((v for v in catalog.views if v.name == name), None)
    if schema not in (*LAYERS, "arrivals"):
        view = None
    comments: Mapping[str, str] = dict(_column_comments(view)) if view else {}
    if schema == OWN_SCHEMA and name in OWN_RELATIONS:
        comments = OWN_RELATIONS[name][1]
    # A tick is no part of a view, so it can't be the key of what arrived in it.
    key = tuple(view.key_names) if view and schema in LAYERS else ()
    return Object(
        schema,
        name,
        "v" if is_view else "r",
        [Attribute(*column, comments.get(column[0], "")) for column in columns],
        key,
        _comment(catalog, schema, name, view),
        f"{_definition(catalog, schema, name, view)};" if is_view else "",
    )


def _definition(catalog: Catalog, schema: str, name: str, view: View | None) -> str:
    """What the catalog says of a view. How it is computed is nobody's concern."""
    if view is not None:
        return meaning(view, by_tick=schema == "arrivals")
    if (alert := next((a for a in catalog.alerts if a.name == name), None)) and schema == "alerts":
        return f" SELECT *\n   FROM {alert.source.name}\n  WHERE {alert.rule}"
    return next((q.sql.strip().rstrip(";") for q in catalog.queries if q.name == name), "")


def meaning(view: View, *, by_tick: bool) -> str:
    """The SELECT over its source that a view means, with windows as they were declared."""
    shown = [_named(_key(key), key.name) for key in view.keys if key.shown]
    measures = [_named(_call(measure), measure.name) for measure in view.measures]
    by = [key.name if key.shown else _key(key) for key in view.keys]
    ticks = [TICK] if by_tick else []
    lines = [
        " SELECT " + ",\n    ".join([*ticks, *shown, *measures]),
        f"   FROM {view.source.name}",
        *([f"  WHERE {view.where}"] if view.where else []),
        f"  GROUP BY {', '.join([*ticks, *by])}",
    ]
    return "\n".join(lines)


def _named(sql: str, name: str) -> str:
    return sql if sql == name else f"{sql} AS {name}"


def _key(key: Key) -> str:
    window, sql = key.window, key.expression.shown
    match window:
        case SessionWindow():
            return f"session({sql}, {_quoted(window.gap_us)})"
        case RecentWindow():
            return f"recent({sql}, {_quoted(window.size_us)}, {_quoted(window.slide_us)})"
        case AlignedWindow() if window.size_us == window.slide_us:
            return f"tumbling({sql}, {_quoted(window.size_us)})"
        case AlignedWindow():
            return f"sliding({sql}, {_quoted(window.size_us)}, {_quoted(window.slide_us)})"
    return sql


def _quoted(us: int) -> str:
    return f"'{duration(us)}'"


def _call(measure: Measure) -> str:
    inputs = ", ".join(expression.shown for expression in measure.inputs.values())
    where = f" FILTER (WHERE {measure.where.shown})" if measure.where else ""
    return f"{measure.aggregate.kind.rstrip('_')}({inputs or '*'}){where}"


def _comment(catalog: Catalog, schema: str, name: str, view: View | None) -> str:
    if view:
        bounds = ", ".join(f"{column} ({how})" for column, how in view.approximate.items())
        comment = f"Stream {view.stream.name}, {_HOLDS[schema]}."
        return f"{comment} Approximate: {bounds}." if bounds else comment
    if schema in LAYERS:
        return f"A query of the catalog over the layer {schema}."
    if schema == "alerts":
        source = next((a.source.name for a in catalog.alerts if a.name == name), "")
        return f"An alert over stream {source}: {_HOLDS[schema]}."
    if schema == OWN_SCHEMA and name in OWN_RELATIONS:
        return OWN_RELATIONS[name][0]
    return "A reference table." if schema == "tables" else ""


def _column_comments(view: View) -> Iterator[tuple[str, str]]:
    yield TICK, "The start of the tick in which the events arrived."
    for key in view.keys:
        yield key.name, _of_key(key)
        if key.window:
            yield f"{key.name}_end", f"The end of the window {key.name}."
    for measure in view.measures:
        yield measure.name, _of_measure(measure)


def _of_key(key: Key) -> str:
    if key.window:
        return f"Key: the start of a window over {key.expression.shown}."
    return f"Key: {key.expression.shown}."


def _of_measure(measure: Measure) -> str:
    inputs = ", ".join(expression.shown for expression in measure.inputs.values())
    where = f" where {measure.where.shown}" if measure.where else ""
    comment = f"{measure.aggregate.kind.rstrip('_')}({inputs}){where}."
    return f"{comment} Approximate: {measure.bound}." if measure.bound else comment
