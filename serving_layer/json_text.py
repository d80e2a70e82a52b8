"""DuckDB SQL that writes a value as JSON.

DuckDB's own `to_json` writes decimals as doubles, and NaN as something that is not JSON. Here a
decimal keeps its digits, and values that JSON does not have are text: NaN, infinity, and times,
which are ISO 8601, in UTC if they have a zone. A stream of trilayer reads all of these.
"""

from __future__ import annotations

from collections.abc import Mapping

from duckdb.sqltypes import DuckDBPyType

from trilayer_core.compute.merging import quoted_duckdb

_PLAIN = {
    "boolean", "tinyint", "smallint", "integer", "bigint", "hugeint",
    "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint", "decimal",
}  # fmt: skip
_TIME = "%Y-%m-%dT%H:%M:%S.%f"


def json_object_sql(columns: Mapping[str, DuckDBPyType]) -> str:
    """SQL of a JSON object of some columns, as text; each name maps to its type."""
    return _object({name: (quoted_duckdb(name), type_) for name, type_ in columns.items()}, 0)


def _object(members: Mapping[str, tuple[str, DuckDBPyType]], depth: int) -> str:
    parts = []
    for place, (name, (value, type_)) in enumerate(members.items()):
        escaped = name.replace("'", "''").replace('"', '\\"')
        parts.append(f"""'{"," if place else "{"}"{escaped}":', {_json(value, type_, depth)}""")
    # One call, because DuckDB limits how deep operators are nested, and with them the columns.
    return f"concat({', '.join(parts)}, '}}')" if parts else "'{}'"


def _json(value: str, type_: DuckDBPyType, depth: int) -> str:
    """SQL of the JSON of a value, as text that is never NULL."""
    kind = type_.id
    if kind in _PLAIN:
        text = f"CAST({value} AS VARCHAR)"
    elif kind in ("float", "double"):
        text = (
            f"CASE WHEN isnan({value}) THEN '\"NaN\"' WHEN isinf({value}) THEN"
            f" if({value} > 0, '\"Infinity\"', '\"-Infinity\"')"
            f" ELSE CAST(to_json({value}) AS VARCHAR) END"
        )
    elif kind in ("timestamp with time zone", "timestamp"):
        zone = "Z" if kind != "timestamp" else ""
        at = f"({value} AT TIME ZONE 'UTC')" if zone else value
        text = f"'\"' || strftime({at}, '{_TIME}{zone}') || '\"'"
    elif kind == "list":
        item = f"_item_{depth}"
        items = f"list_transform({value}, lambda {item}: {_json(item, type_.child, depth + 1)})"
        text = f"'[' || array_to_string({items}, ',') || ']'"
    elif kind == "struct":
        members = {
            name: (f"struct_extract({value}, {_text(name)})", child)
            for name, child in type_.children
            if isinstance(child, DuckDBPyType)
        }
        text = f"CASE WHEN {value} IS NOT NULL THEN {_object(members, depth)} END"
    elif kind == "blob":
        text = f"'\"' || to_base64({value}) || '\"'"
    else:
        text = f"CAST(to_json(CAST({value} AS VARCHAR)) AS VARCHAR)"
    return f"coalesce({text}, 'null')"


def _text(name: str) -> str:
    quoted = name.replace("'", "''")
    return f"'{quoted}'"
