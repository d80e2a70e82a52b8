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
    described = objects(database, catalog)
    for name, rows in _rows(described).items():
        _fill(database, shapes().relations[CATALOG, name], rows)
    _fill_extra(database, described)
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


def _numbered(relations: Sequence[Object]) -> list[tuple[int, Object]]:
    """Each object with its number. The next ones are those of its key, and of its rows' type."""
    return [(_FIRST_OBJECT + 4 * place, relation) for place, relation in enumerate(relations)]


def _rows(relations: Sequence[Object]) -> Mapping[str, list[dict[str, Any]]]:
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
        "pg_class": [*_own_classes(schemas), *_classes(relations, schemas)],
        "pg_type": _row_types(relations, schemas),
        "pg_attribute": [*_own_attributes(), *_attributes(relations)],
        "pg_description": _descriptions(relations),
        "pg_index": _indexes(relations),
        "pg_constraint": _constraints(relations, schemas),
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


def _classes(relations: Sequence[Object], schemas: Mapping[str, int]) -> list[dict[str, Any]]:
    rows = []
    for oid, relation in _numbered(relations):
        schema = schemas[relation.schema]
        described = _class(oid, relation.name, schema, relation.kind, len(relation.columns))
        rows.append(described | {"reltype": oid + 3})
        if relation.key:
            rows.append(_class(oid + 1, _key_name(relation), schema, "i", len(relation.key)))
    return rows


def _row_types(relations: Sequence[Object], schemas: Mapping[str, int]) -> list[dict[str, Any]]:
    """The types of the rows of relations, as far as clients look for them."""
    return [
        {
            "oid": oid + 3,
            "typname": relation.name,
            "typnamespace": schemas[relation.schema],
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
        for oid, relation in _numbered(relations)
    ]


def _key_name(relation: Object) -> str:
    return f"{relation.name}_pkey"


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


def _attributes(relations: Sequence[Object]) -> list[dict[str, Any]]:
    """The columns of relations, and those of their keys' indexes, by which clients find keys."""
    of_relations = [(oid, relation.columns) for oid, relation in _numbered(relations)]
    of_keys = [
        (oid + 1, [relation.columns[place - 1] for place in _key_places(relation)])
        for oid, relation in _numbered(relations)
    ]
    return [
        _attribute(relation, place, column.name, shapes().type_names[column.type], column.modifier)
        for relation, columns in [*of_relations, *of_keys]
        for place, column in enumerate(columns, 1)
    ]


def _descriptions(relations: Sequence[Object]) -> list[dict[str, Any]]:
    comments = [
        (oid, place, comment)
        for oid, relation in _numbered(relations)
        for place, comment in enumerate([relation.comment, *(c.comment for c in relation.columns)])
        if comment
    ]
    of_schemas = [
        (_schema_oids()[name], _NAMESPACE, 0, comment) for name, comment in SCHEMAS_SEEN.items()
    ]
    of_objects = [(oid, _RELATION, place, comment) for oid, place, comment in comments]
    names = ("objoid", "classoid", "objsubid", "description")
    return [dict(zip(names, row, strict=True)) for row in [*of_schemas, *of_objects]]


def _key_places(relation: Object) -> list[int]:
    names = [column.name for column in relation.columns]
    return [names.index(name) + 1 for name in relation.key]


def _indexes(relations: Sequence[Object]) -> list[dict[str, Any]]:
    """A row for each key. NULL is a value of a key like any other, so that it is unique too."""
    return [
        {
            "indexrelid": oid + 1,
            "indrelid": oid,
            "indnatts": len(relation.key),
            "indnkeyatts": len(relation.key),
            "indisunique": True,
            "indnullsnotdistinct": True,
            "indisprimary": True,
            "indimmediate": True,
            "indisvalid": True,
            "indisready": True,
            "indislive": True,
            "indkey": _key_places(relation),
            "indcollation": [0] * len(relation.key),
            "indclass": [0] * len(relation.key),
            "indoption": [0] * len(relation.key),
        }
        for oid, relation in _numbered(relations)
        if relation.key
    ]


def _constraints(relations: Sequence[Object], schemas: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "oid": oid + 2,
            "conname": _key_name(relation),
            "connamespace": schemas[relation.schema],
            "contype": "p",
            "convalidated": True,
            "conrelid": oid,
            "conindid": oid + 1,
            "confupdtype": " ",
            "confdeltype": " ",
            "confmatchtype": " ",
            "conislocal": True,
            "connoinherit": True,
            "conkey": _key_places(relation),
        }
        for oid, relation in _numbered(relations)
        if relation.key
    ]


def _fill_extra(database: duckdb.DuckDBPyConnection, relations: Sequence[Object]) -> None:
    """What the functions look things up in."""
    types = [
        {"_type": oid, "_name": name, "_internal": shapes().type_names[oid],
         "_duckdb": _DUCKDB_TYPES.get(shapes().type_names[oid])}
        for oid, name in shapes().formatted.items()
    ]  # fmt: skip
    _insert(database, "_pg._formatted", types)
    settings = [{"_name": n, "_setting": value} for n, value in shapes().settings.items()]
    _insert(database, "_pg._settings", settings)
    _insert(database, "_pg._definitions", _definitions(relations))
    _insert(database, "_pg._spelled", _spelled(relations))


def _definitions(relations: Sequence[Object]) -> list[dict[str, Any]]:
    rows = []
    for oid, relation in _numbered(relations):
        if relation.definition:
            rows.append({"_object": oid, "_sql": relation.definition})
        if relation.key:
            name, columns = f"{relation.schema}.{relation.name}", f"({', '.join(relation.key)})"
            index = f"CREATE UNIQUE INDEX {_key_name(relation)} ON {name} USING btree {columns}"
            rows.append({"_object": oid + 1, "_sql": index})
            rows.append({"_object": oid + 2, "_sql": f"PRIMARY KEY {columns}"})
    return rows


def _spelled(relations: Sequence[Object]) -> list[dict[str, Any]]:
    """The names of all relations, each with its schema and without."""
    named = [(r.schema, r.name, r.oid) for r in shapes().relations.values()]
    for oid, relation in _numbered(relations):
        named.append((relation.schema, relation.name, oid))
        if relation.key:
            named.append((relation.schema, _key_name(relation), oid + 1))
    schemas: dict[str, list[str]] = {}
    for schema, name, _ in named:
        schemas.setdefault(name, []).append(schema)
    return [
        {"_text": f"{schema}.{name}" if qualified else name, "_name": name, "_schema": schema,
         "_relation": oid, "_qualified": qualified, "_homonyms": schemas[name]}
        for schema, name, oid in named
        for qualified in (True, False)
    ]  # fmt: skip
