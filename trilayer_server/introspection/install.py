"""Makes PostgreSQL's catalog in a database of DuckDB: relations, their rows, and functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import duckdb
import pyarrow as pa

from trilayer_core.definitions.catalog import Catalog
from trilayer_server.introspection.comments import SCHEMAS as SCHEMAS_SEEN
from trilayer_server.introspection.objects import Object, objects
from trilayer_server.introspection.shapes import CATALOG, SCHEMAS, STANDARD, Relation, shapes

OWNER = 6171
"""The role pg_database_owner, which no client can be."""

USER_ROLE = 16384
"""The role of the session's user, called `$user` until a statement is rewritten."""

_FIRST_SCHEMA, _FIRST_OBJECT = 16385, 16401
_OF_CATALOG = {CATALOG: 11, "pg_toast": 99, STANDARD: 13000}
_RELATION = 1259
"""The number of pg_class."""

_NAMESPACE = 2615
"""The number of pg_namespace."""

_MAY_SELECT = ["=r/pg_database_owner"]
_MAY_USE = ["pg_database_owner=UC/pg_database_owner", "=U/pg_database_owner"]

_EXTRA = """
CREATE TABLE _pg._formatted (_type UINTEGER, _name VARCHAR, _internal VARCHAR, _duckdb VARCHAR);
CREATE TABLE _pg._definitions (_object UINTEGER, _sql VARCHAR);
CREATE TABLE _pg._settings (_name VARCHAR, _setting VARCHAR);
CREATE TABLE _pg._spelled (_text VARCHAR, _name VARCHAR, _schema VARCHAR, _relation UINTEGER,
    _qualified BOOLEAN, _homonyms VARCHAR[]);
"""
"""What the functions look things up in."""

_DUCKDB_TYPES = {"bool": "BOOLEAN", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT",
                 "float4": "FLOAT", "float8": "DOUBLE", "numeric": "DECIMAL", "text": "VARCHAR",
                 "oid": "UINTEGER", "date": "DATE", "timestamp": "TIMESTAMP", "bytea": "BLOB",
                 "timestamptz": "TIMESTAMP WITH TIME ZONE", "interval": "INTERVAL"}  # fmt: skip

_ZERO: Mapping[str, Any] = {"bool": False, "name": "", "text": "", "char": "", "_text": []}
"""What a column that is never NULL has if nothing is said of it; all others have 0."""


def install(database: duckdb.DuckDBPyConnection, catalog: Catalog) -> None:
    """Makes the schemas `_pg` and `_information_schema`, which `rewrite` makes statements ask.

    It describes the views and tables that the database has at this moment.

    Args:
        database: A database of the serving layer, with all its schemas.
        catalog: The definitions that it answers.
    """
    relations = shapes().relations.values()
    tables = [
        f"CREATE TABLE {relation.in_duckdb} ("
        + ", ".join(f'"{column.name}" {column.in_duckdb}' for column in relation.columns)
        + ")"
        for relation in relations
    ]
    schemas = [f"CREATE SCHEMA {name}" for name in SCHEMAS.values()]
    database.execute(";\n".join([*schemas, *tables, _EXTRA]))
    for name, fixed in shapes().rows.items():
        relation = shapes().relations[CATALOG, name]
        names = [column.name for column in relation.columns]
        rows = [dict(zip(names, row, strict=True)) for row in fixed]
        _fill(
            database,
            relation,
            [row | {n: OWNER for n in row if n.endswith("owner")} for row in rows],
        )
    found = objects(database, catalog)
    for name, rows in _rows(found).items():
        _fill(database, shapes().relations[CATALOG, name], rows)
    _fill_extra(database, found)
    for file in ("dialect.sql", "functions.sql", "relations.sql"):
        text = (resources.files(__package__) / file).read_text(encoding="utf-8")
        database.execute(text)


def _fill(
    database: duckdb.DuckDBPyConnection, relation: Relation, rows: Iterable[Mapping[str, Any]]
) -> None:
    """Inserts rows, whose missing values are NULL or, where that is not allowed, zero."""
    defaults: dict[str, Any] = {
        column.name: _ZERO.get(column.type, 0) if column.required else None
        for column in relation.columns
    }
    _insert(database, relation.in_duckdb, [defaults | dict(row) for row in rows])


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


def _schema_oids() -> dict[str, int]:
    return _OF_CATALOG | {n: _FIRST_SCHEMA + place for place, n in enumerate(SCHEMAS_SEEN)}


def _numbered(found: Sequence[Object]) -> list[tuple[int, Object]]:
    """Each object with its number. The next ones are those of its key, and of its rows' type."""
    return [(_FIRST_OBJECT + 4 * place, one) for place, one in enumerate(found)]


def _rows(found: Sequence[Object]) -> Mapping[str, list[dict[str, Any]]]:
    """The rows of relations of pg_catalog that describe this database."""
    schemas = _schema_oids()
    return {
        "pg_namespace": [
            {"oid": oid, "nspname": name, "nspowner": OWNER, "nspacl": _MAY_USE}
            for name, oid in schemas.items()
        ],
        "pg_authid": [
            {"oid": USER_ROLE, "rolname": "$user", "rolinherit": True, "rolcanlogin": True,
             "rolconnlimit": -1}
        ],
        "pg_database": [
            {"oid": 5, "datname": "$database", "datdba": OWNER, "encoding": 6,
             "datlocprovider": "c", "datallowconn": True, "datconnlimit": -1,
             "dattablespace": 1663, "datcollate": "C", "datctype": "C",
             "datacl": ["=c/pg_database_owner"]}
        ],
        "pg_class": [*_own_classes(schemas), *_classes(found, schemas)],
        "pg_type": _row_types(found, schemas),
        "pg_attribute": [*_own_attributes(), *_attributes(found)],
        "pg_description": _descriptions(found),
        "pg_index": _indexes(found),
        "pg_constraint": _constraints(found, schemas),
    }  # fmt: skip


def _class(oid: int, name: str, schema: int, kind: str, columns: int) -> dict[str, Any]:
    return {
        "oid": oid,
        "relname": name,
        "relnamespace": schema,
        "relowner": OWNER,
        "relam": {"r": 2, "i": 403}.get(kind, 0),
        "reltuples": -1.0,
        "relpersistence": "p",
        "relkind": kind,
        "relnatts": columns,
        "relhasrules": kind == "v",
        "relispopulated": True,
        "relreplident": "d" if kind == "r" else "n",
        "relacl": None if kind == "i" else _MAY_SELECT,
    }


def _own_classes(schemas: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        _class(r.oid, r.name, schemas[r.schema], r.kind, len(r.columns)) | {"relreplident": "n"}
        for r in shapes().relations.values()
    ]


def _classes(found: Sequence[Object], schemas: Mapping[str, int]) -> list[dict[str, Any]]:
    rows = []
    for oid, one in _numbered(found):
        schema = schemas[one.schema]
        described = _class(oid, one.name, schema, one.kind, len(one.columns))
        rows.append(described | {"reltype": oid + 3})
        if one.key:
            rows.append(_class(oid + 1, _key_name(one), schema, "i", len(one.key)))
    return rows


def _row_types(found: Sequence[Object], schemas: Mapping[str, int]) -> list[dict[str, Any]]:
    """The types of the rows of relations, as far as clients look for them."""
    return [
        {
            "oid": oid + 3,
            "typname": one.name,
            "typnamespace": schemas[one.schema],
            "typowner": OWNER,
            "typlen": -1,
            "typtype": "c",
            "typcategory": "C",
            "typisdefined": True,
            "typdelim": ",",
            "typrelid": oid,
            "typinput": 2290,
            "typoutput": 2291,
            "typreceive": 2402,
            "typsend": 2403,
            "typalign": "d",
            "typstorage": "x",
            "typtypmod": -1,
        }
        for oid, one in _numbered(found)
    ]


def _key_name(one: Object) -> str:
    return f"{one.name}_pkey"


def _attribute(
    relation: int,
    place: int,
    name: str,
    type_: str,
    modifier: int,
    *,
    required: bool = False,
    collation: int = 0,
) -> dict[str, Any]:
    row = shapes().types[type_]
    return {
        "attrelid": relation,
        "attname": name,
        "atttypid": row["oid"],
        "attstattarget": -1,
        "attlen": row["typlen"],
        "attnum": place,
        "attndims": 1 if row["typcategory"] == "A" else 0,
        "attcacheoff": -1,
        "atttypmod": modifier,
        "attbyval": row["typbyval"],
        "attalign": row["typalign"],
        "attstorage": row["typstorage"],
        "attnotnull": required,
        "attislocal": True,
        "attcollation": row["typcollation"] and (collation or row["typcollation"]),
    }


def _own_attributes() -> list[dict[str, Any]]:
    return [
        _attribute(r.oid, place, c.name, c.type, c.modifier, required=c.required, collation=950)
        for r in shapes().relations.values()
        for place, c in enumerate(r.columns, 1)
    ]


def _attributes(found: Sequence[Object]) -> list[dict[str, Any]]:
    """The columns of relations, and those of their keys' indexes, by which clients find keys."""
    of_relations = [(oid, one.columns) for oid, one in _numbered(found)]
    of_keys = [
        (oid + 1, [one.columns[place - 1] for place in _key_places(one)])
        for oid, one in _numbered(found)
    ]
    return [
        _attribute(relation, place, column.name, shapes().type_names[column.type], column.modifier)
        for relation, columns in [*of_relations, *of_keys]
        for place, column in enumerate(columns, 1)
    ]


def _descriptions(found: Sequence[Object]) -> list[dict[str, Any]]:
    said = [
        (oid, place, comment)
        for oid, one in _numbered(found)
        for place, comment in enumerate([one.comment, *(c.comment for c in one.columns)])
        if comment
    ]
    of_schemas = [
        (_schema_oids()[name], _NAMESPACE, 0, comment) for name, comment in SCHEMAS_SEEN.items()
    ]
    of_objects = [(oid, _RELATION, place, comment) for oid, place, comment in said]
    names = ("objoid", "classoid", "objsubid", "description")
    return [dict(zip(names, row, strict=True)) for row in [*of_schemas, *of_objects]]


def _key_places(one: Object) -> list[int]:
    names = [column.name for column in one.columns]
    return [names.index(name) + 1 for name in one.key]


def _indexes(found: Sequence[Object]) -> list[dict[str, Any]]:
    """A row for each key. NULL is a value of a key like any other, so that it is unique too."""
    return [
        {
            "indexrelid": oid + 1,
            "indrelid": oid,
            "indnatts": len(one.key),
            "indnkeyatts": len(one.key),
            "indisunique": True,
            "indnullsnotdistinct": True,
            "indisprimary": True,
            "indimmediate": True,
            "indisvalid": True,
            "indisready": True,
            "indislive": True,
            "indkey": _key_places(one),
            "indcollation": [0] * len(one.key),
            "indclass": [0] * len(one.key),
            "indoption": [0] * len(one.key),
        }
        for oid, one in _numbered(found)
        if one.key
    ]


def _constraints(found: Sequence[Object], schemas: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "oid": oid + 2,
            "conname": _key_name(one),
            "connamespace": schemas[one.schema],
            "contype": "p",
            "convalidated": True,
            "conrelid": oid,
            "conindid": oid + 1,
            "confupdtype": " ",
            "confdeltype": " ",
            "confmatchtype": " ",
            "conislocal": True,
            "connoinherit": True,
            "conkey": _key_places(one),
        }
        for oid, one in _numbered(found)
        if one.key
    ]


def _fill_extra(database: duckdb.DuckDBPyConnection, found: Sequence[Object]) -> None:
    """What the functions look things up in."""
    types = [
        {"_type": oid, "_name": name, "_internal": shapes().type_names[oid],
         "_duckdb": _DUCKDB_TYPES.get(shapes().type_names[oid])}
        for oid, name in shapes().formatted.items()
    ]  # fmt: skip
    _insert(database, "_pg._formatted", types)
    settings = [{"_name": n, "_setting": value} for n, value in shapes().settings.items()]
    _insert(database, "_pg._settings", settings)
    _insert(database, "_pg._definitions", _definitions(found))
    _insert(database, "_pg._spelled", _spelled(found))


def _definitions(found: Sequence[Object]) -> list[dict[str, Any]]:
    rows = []
    for oid, one in _numbered(found):
        if one.definition:
            rows.append({"_object": oid, "_sql": one.definition})
        if one.key:
            name, columns = f"{one.schema}.{one.name}", f"({', '.join(one.key)})"
            index = f"CREATE UNIQUE INDEX {_key_name(one)} ON {name} USING btree {columns}"
            rows.append({"_object": oid + 1, "_sql": index})
            rows.append({"_object": oid + 2, "_sql": f"PRIMARY KEY {columns}"})
    return rows


def _spelled(found: Sequence[Object]) -> list[dict[str, Any]]:
    """The names of all relations, each with its schema and without."""
    named = [(r.schema, r.name, r.oid) for r in shapes().relations.values()]
    for oid, one in _numbered(found):
        named.append((one.schema, one.name, oid))
        if one.key:
            named.append((one.schema, _key_name(one), oid + 1))
    schemas: dict[str, list[str]] = {}
    for schema, name, _ in named:
        schemas.setdefault(name, []).append(schema)
    return [
        {"_text": f"{schema}.{name}" if qualified else name, "_name": name, "_schema": schema,
         "_relation": oid, "_qualified": qualified, "_homonyms": schemas[name]}
        for schema, name, oid in named
        for qualified in (True, False)
    ]  # fmt: skip
