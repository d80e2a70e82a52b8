"""What is the same in every PostgreSQL 15: relations, types, and the rows that describe it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any

CATALOG, STANDARD = "pg_catalog", "information_schema"
SCHEMAS: Mapping[str, str] = {CATALOG: "_pg", STANDARD: "_information_schema"}
"""PostgreSQL's schemas, and those of DuckDB that hold them: DuckDB has schemas of these names."""

_IN_DUCKDB = {
    "bool": "BOOLEAN", "bytea": "BLOB", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT",
    "float4": "FLOAT", "float8": "DOUBLE", "numeric": "DECIMAL(38,9)", "oid": "UINTEGER",
    "xid": "UINTEGER", "regproc": "UINTEGER", "regtype": "UINTEGER", "regclass": "UINTEGER",
    "interval": "INTERVAL",
    "timestamptz": "TIMESTAMPTZ", "int2vector": "SMALLINT[]", "oidvector": "UINTEGER[]",
    "date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP", "uuid": "UUID",
}  # fmt: skip
"""How DuckDB stores a type. All others are text."""


_CATALOG_OID = 11

_FORMATTED = {
    "bool": "boolean", "char": '"char"', "int8": "bigint", "int2": "smallint", "int4": "integer",
    "float4": "real", "float8": "double precision", "bpchar": "character",
    "varchar": "character varying", "time": "time without time zone",
    "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
    "timetz": "time with time zone", "varbit": "bit varying", "any": '"any"',
    "_pg_statistic": "pg_statistic[]",
}  # fmt: skip
"""The types that SQL writes otherwise than `pg_type`."""


@dataclass(frozen=True)
class Column:
    """A column of a relation.

    Attributes:
        name: Its name.
        type: The name of its type in `pg_type`.
        modifier: The type's modifier; -1 without.
        required: Whether it is never NULL.
    """

    name: str
    type: str
    modifier: int
    required: bool

    @property
    def in_duckdb(self) -> str:
        """The type in which DuckDB stores it."""
        return shapes().in_duckdb(self.type)


@dataclass(frozen=True)
class Relation:
    """A relation of PostgreSQL itself.

    Attributes:
        schema: `pg_catalog` or `information_schema`.
        name: Its name.
        oid: Its number.
        kind: `r` for a table, `v` for a view.
        columns: Its columns, in order.
    """

    schema: str
    name: str
    oid: int
    kind: str
    columns: Sequence[Column]

    @property
    def in_duckdb(self) -> str:
        """The quoted name of the table of DuckDB that holds it."""
        return f'{SCHEMAS[self.schema]}."{self.name}"'


class Shapes:
    """The data file, read."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.relations: Mapping[tuple[str, str], Relation] = {}
        """By schema and name."""
        for full, (oid, kind, *columns) in document["relations"].items():
            schema, _, name = full.partition(".")
            self.relations[schema, name] = Relation(
                schema, name, oid, kind, [Column(*column) for column in columns]
            )
        self.rows: Mapping[str, Sequence[Sequence[Any]]] = document["rows"]
        """The rows of relations of pg_catalog, by name."""

    @cached_property
    def types(self) -> Mapping[str, Mapping[str, Any]]:
        """The rows of pg_type, by the type's name."""
        names = [column.name for column in self.relations[CATALOG, "pg_type"].columns]
        rows = (dict(zip(names, row, strict=True)) for row in self.rows["pg_type"])
        return {row["typname"]: row for row in rows}

    @cached_property
    def type_names(self) -> Mapping[int, str]:
        """The names of types, by their numbers."""
        return {row["oid"]: name for name, row in self.types.items()}

    @cached_property
    def formatted(self) -> Mapping[int, str]:
        """The types as SQL writes them, by their numbers: `integer` for int4."""
        return {row["oid"]: self._formatted(row) for row in self.types.values()}

    def _formatted(self, row: Mapping[str, Any]) -> str:
        name: str = row["typname"]
        if name in _FORMATTED:
            return _FORMATTED[name]
        if name.startswith("_"):
            return f"{self._formatted(self.types[name[1:]])}[]"
        return name if row["typnamespace"] == _CATALOG_OID else f"{STANDARD}.{name}"

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """The settings of PostgreSQL by name, as SHOW writes them."""
        return {
            name: _with_unit(setting, unit) if unit else setting
            for name, setting, unit, *_ in self.rows["pg_settings"]
        }

    def base(self, name: str) -> str:
        """The type under a domain, or the type itself, which clients see."""
        number = self.types[name]["typbasetype"]
        return self.base(self.type_names[number]) if number else name

    def in_duckdb(self, name: str) -> str:
        """The type in which DuckDB stores values of a type."""
        base = self.base(name)
        if base.startswith("_"):
            return f"{_IN_DUCKDB.get(base[1:], 'VARCHAR')}[]"
        return _IN_DUCKDB.get(base, "VARCHAR")


_KILOBYTES = {"8kB": 8, "kB": 1}


def _with_unit(setting: str, unit: str) -> str:
    """A size as SHOW writes it: in the largest unit in which it is whole. All times are 0."""
    if unit not in _KILOBYTES or setting == "0":
        return setting
    size = int(setting) * _KILOBYTES[unit]
    for larger, name in ((1 << 20, "GB"), (1 << 10, "MB")):
        if size % larger == 0:
            return f"{size // larger}{name}"
    return f"{size}kB"


@cache
def shapes() -> Shapes:
    """The contents of the data file, which is read once."""
    text = (resources.files(__package__) / "postgres15.json").read_text(encoding="utf-8")
    return Shapes(json.loads(text))
