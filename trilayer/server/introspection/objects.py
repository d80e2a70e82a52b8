"""The views and tables that clients see, as DuckDB and the catalog describe them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from serving_layer.connection import LAYERS
from trilayer.server.encoding.values import type_of
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.view import Key, Measure, View

SCHEMAS = ("merged", "batch", "speed", "arrivals", "alerts", "tables", "trilayer")
"""The schemas that clients see."""

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
        comment: What it is, in words; empty if nothing is known.
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
        comment: What it is, in words; empty if nothing is known.
        definition: The SELECT of a view.
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
    definitions = {
        (schema, name): sql
        for schema, name, sql in database.execute(
            "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    }
    types = _types(database, {type_ for *_, type_ in of_columns})
    described: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for schema, name, column, type_ in of_columns:
        described.setdefault((schema, name), []).append((column, *types[type_]))
    return [
        _object(catalog, schema, name, columns, definitions.get((schema, name)))
        for (schema, name), columns in described.items()
    ]


def _types(database: duckdb.DuckDBPyConnection, names: set[str]) -> Mapping[str, tuple[int, int]]:
    """The number and modifier of the type that a client is told for each type of DuckDB."""
    wanted = sorted(names)
    if not wanted:
        return {}
    select = ", ".join(f"NULL::{name} AS c{place}" for place, name in enumerate(wanted))
    table: pa.Table = database.sql(f"SELECT {select}").to_arrow_table()
    found = [type_of(field.type) for field in table.schema]
    return {name: (one.oid, one.modifier) for name, one in zip(wanted, found, strict=True)}


def _object(
    catalog: Catalog,
    schema: str,
    name: str,
    columns: Sequence[tuple[str, int, int]],
    sql: str | None,
) -> Object:
    view = next((v for v in catalog.views if v.name == name), None)
    if schema not in (*LAYERS, "arrivals"):
        view = None
    comments = dict(_column_comments(view)) if view else {}
    # A tick is no part of a view, so it can't be the key of what arrived in it.
    key = tuple(view.key_names) if view and schema in LAYERS else ()
    return Object(
        schema,
        name,
        "r" if sql is None else "v",
        [Attribute(*column, comments.get(column[0], "")) for column in columns],
        key,
        _comment(catalog, schema, name, view),
        (sql or "").partition(" AS ")[2].rstrip().rstrip(";"),
    )


def _comment(catalog: Catalog, schema: str, name: str, view: View | None) -> str:
    if view:
        bounds = "; ".join(f"{column} is off by {how}" for column, how in view.approximate.items())
        said = f"Stream {view.stream.name}, {_HOLDS[schema]}."
        return f"{said} Approximate: {bounds}." if bounds else said
    if schema in LAYERS:
        return f"A query of the catalog over the layer {schema}."
    if schema == "alerts":
        source = next((a.source.name for a in catalog.alerts if a.name == name), "")
        return f"An alert over stream {source}: {_HOLDS[schema]}."
    return "A reference table." if schema == "tables" else ""


def _column_comments(view: View) -> Iterator[tuple[str, str]]:
    for key in view.keys:
        yield key.name, _of_key(key)
        if key.window:
            yield f"{key.name}_end", f"The end of the window {key.name}."
    for measure in view.measures:
        yield measure.name, _of_measure(measure)


def _of_key(key: Key) -> str:
    if key.window:
        return f"Key: the start of a window over {key.expression.sql}."
    return f"Key: {key.expression.sql}."


def _of_measure(measure: Measure) -> str:
    inputs = ", ".join(expression.sql for expression in measure.inputs.values())
    where = f" where {measure.where.sql}" if measure.where else ""
    said = f"{measure.aggregate.kind}({inputs}){where}."
    return f"{said} Approximate: off by {measure.bound}." if measure.bound else said
