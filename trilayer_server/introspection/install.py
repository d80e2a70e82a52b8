"""Makes PostgreSQL's catalog in a database of DuckDB: relations, their rows, and functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import duckdb
import pyarrow as pa

from trilayer_core.definitions.catalog import Catalog
from trilayer_server.introspection.comments import SCHEMAS as CLIENT_SCHEMAS
from trilayer_server.introspection.objects import Object, objects
from trilayer_server.introspection.shapes import CATALOG, SCHEMAS, STANDARD, Column, shapes

OWNER = 6171
"""The role pg_database_owner, which no client can be."""

_FIRST_SCHEMA, _FIRST_OBJECT = 16385, 16401
_OF_CATALOG = {CATALOG: 11, "pg_toast": 99, STANDARD: 13000}

_SOURCES = """
CREATE TABLE _pg._client_schemas (_oid UINTEGER, _name VARCHAR, _comment VARCHAR);
CREATE TABLE _pg._objects (_oid UINTEGER, _schema VARCHAR, _name VARCHAR, _kind VARCHAR,
    _key SMALLINT[], _comment VARCHAR, _definition VARCHAR);
CREATE TABLE _pg._attributes (_object UINTEGER, _place SMALLINT, _name VARCHAR, _type UINTEGER,
    _modifier INTEGER, _required BOOLEAN, _comment VARCHAR);
CREATE TABLE _pg._formatted (_type UINTEGER, _name VARCHAR, _internal VARCHAR, _duckdb VARCHAR);
CREATE TABLE _pg._settings (_name VARCHAR, _setting VARCHAR);
"""
"""What relations.sql and the functions look things up in."""

_DUCKDB_TYPES = {"bool": "BOOLEAN", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT",
                 "float4": "FLOAT", "float8": "DOUBLE", "numeric": "DECIMAL", "text": "VARCHAR",
                 "oid": "UINTEGER", "date": "DATE", "timestamp": "TIMESTAMP", "bytea": "BLOB",
                 "timestamptz": "TIMESTAMP WITH TIME ZONE", "interval": "INTERVAL"}  # fmt: skip

_ZERO = {"bool": "false", "name": "''", "text": "''", "char": "''", "_text": "[]"}
"""The default of a column that is never NULL; that of all others is 0."""


def install(database: duckdb.DuckDBPyConnection, catalog: Catalog) -> None:
    """Makes the schemas `_pg` and `_information_schema`, which `rewrite` makes statements ask.

    It describes the views and tables that the database has at this moment.

    Args:
        database: A database of the serving layer, with all its schemas.
        catalog: The definitions that it answers.
    """
    schemas = [f"CREATE SCHEMA {name}" for name in SCHEMAS.values()]
    tables = [
        f"CREATE TABLE {relation.in_duckdb} ({', '.join(map(_declared, relation.columns))})"
        for relation in shapes().relations.values()
    ]
    database.execute(";\n".join([*schemas, *tables, _SOURCES]))
    for name, rows in shapes().rows.items():
        relation = shapes().relations[CATALOG, name]
        columns = [column.name for column in relation.columns]
        owned = {column: OWNER for column in columns if column.endswith("owner")}
        named = [dict(zip(columns, row, strict=True)) | owned for row in rows]
        _insert(database, relation.in_duckdb, named)
    _describe(database, objects(database, catalog))
    for file in ("dialect.sql", "functions.sql", "relations.sql"):
        database.execute((resources.files(__package__) / file).read_text(encoding="utf-8"))


def _declared(column: Column) -> str:
    default = f" DEFAULT {_ZERO.get(column.type, '0')}" if column.required else ""
    is_list = column.in_duckdb.endswith("[]") and column.type not in _ZERO
    return f'"{column.name}" {column.in_duckdb}{"" if is_list else default}'


def _insert(
    database: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    if not rows:
        return
    arrow = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    database.register("_described", arrow)
    try:
        database.execute(f"INSERT INTO {table} SELECT * FROM _described")
    finally:
        database.unregister("_described")


def _describe(database: duckdb.DuckDBPyConnection, described: Sequence[Object]) -> None:
    """Inserts what relations.sql makes the rows of PostgreSQL's relations of.

    The numbers after that of an object are those of its key's index, its key, and its rows' type.
    """
    names = ("_oid", "_schema", "_name", "_kind", "_key", "_comment", "_definition")
    own = [
        (relation.oid, relation.schema, relation.name, relation.kind, None, "", "")
        for relation in shapes().relations.values()
    ]
    numbered = [(_FIRST_OBJECT + 4 * place, each) for place, each in enumerate(described)]
    clients = [
        (oid, each.schema, each.name, each.kind, _key_places(each), each.comment, each.definition)
        for oid, each in numbered
    ]
    _insert_tuples(database, "_objects", names, [*own, *clients])
    names = ("_object", "_place", "_name", "_type", "_modifier", "_required", "_comment")
    columns = [
        (relation.oid, place, c.name, shapes().types[c.type]["oid"], c.modifier, c.required, "")
        for relation in shapes().relations.values()
        for place, c in enumerate(relation.columns, 1)
    ] + [
        (oid, place, column.name, column.type, column.modifier, False, column.comment)
        for oid, each in numbered
        for place, column in enumerate(each.columns, 1)
    ]
    _insert_tuples(database, "_attributes", names, columns)
    schemas = [(oid, name, "") for name, oid in _OF_CATALOG.items()] + [
        (oid, *described) for oid, described in enumerate(CLIENT_SCHEMAS.items(), _FIRST_SCHEMA)
    ]
    _insert_tuples(database, "_client_schemas", ("_oid", "_name", "_comment"), schemas)
    types = [
        (oid, name, shapes().type_names[oid], _DUCKDB_TYPES.get(shapes().type_names[oid]))
        for oid, name in shapes().formatted.items()
    ]
    _insert_tuples(database, "_formatted", ("_type", "_name", "_internal", "_duckdb"), types)
    settings = list(shapes().settings.items())
    _insert_tuples(database, "_settings", ("_name", "_setting"), settings)


def _insert_tuples(
    database: duckdb.DuckDBPyConnection,
    table: str,
    names: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
) -> None:
    _insert(database, f"_pg.{table}", [dict(zip(names, row, strict=True)) for row in rows])


def _key_places(described: Object) -> list[int] | None:
    """The places of the columns of a key, from 1 on; None without a key."""
    names = [column.name for column in described.columns]
    return [names.index(name) + 1 for name in described.key] or None
