"""How PostgreSQL names the columns of an answer that have no name, from DuckDB's tree.

Source: FigureColname in PostgreSQL's src/backend/parser/parse_target.c
"""

from __future__ import annotations

import re
from typing import Any

from trilayer_server.introspection.shapes import shapes

UNNAMED = "?column?"

_WORD = re.compile(r'(?:"?\w+"?\s*\.\s*)?"?(\w+)"?\s*(\()?')
_OF_TRIM = re.compile(r"trim\s*\(\s*(leading|trailing)\b")
_TRIMMED = {"leading": "ltrim", "trailing": "rtrim"}

_PADDED = re.compile(r"char(?:acter)?\b(?! varying)")

_TYPES = {
    "integer": "int4", "int": "int4", "bigint": "int8", "smallint": "int2", "boolean": "bool",
    "double": "float8", "float": "float8", "decimal": "numeric",
    "timestamp with time zone": "timestamptz", "string": "text",
}  # fmt: skip
"""PostgreSQL's names of types that DuckDB writes otherwise."""


def _type(kind: dict[str, Any], text: bytes) -> str:
    name = kind["type_name"].lower()
    if name == "list":
        return f"_{_type(kind['children'][0], text)}"
    written = written_at(kind, text)
    if name == "varchar" and _PADDED.match(written):
        return "bpchar"
    return "float4" if written.startswith("real") else _TYPES.get(name, name)


def type_of(kind: dict[str, Any], text: bytes) -> str:
    """The name in `pg_type` of a type as SQL writes it; empty if it is none of PostgreSQL's."""
    name = _type(kind, text)
    return name if name in shapes().types else ""


def written_at(node: dict[str, Any], text: bytes) -> str:
    """The text of a statement from where a node is on."""
    return text[node.get("query_location", len(text)) :][:200].decode(errors="replace")


def name_of(node: dict[str, Any], text: bytes) -> str:
    """The name of a column that has none; empty if PostgreSQL has none for it, either.

    Args:
        node: The column's expression.
        text: The statement that DuckDB has parsed.
    """
    return _named(node, text)[0]


def _named(node: dict[str, Any], text: bytes) -> tuple[str, int]:
    """A name, and how good it is: that of a type is used if there is no other."""
    match node["class"]:
        case "COLUMN_REF":
            return node["column_names"][-1], 2
        case "FUNCTION" | "WINDOW":
            return _called(node, text)
        case "CAST":
            called = _WORD.match(written_at(node, text))
            if called and called[2] and called[1].lower() == "date":  # which is parsed as a cast
                return "date", 2
            name, strength = _named(node["child"], text)
            return (
                (name, strength)
                if strength == 2
                else (_type(node["type_expr"], text).removeprefix("_"), 1)
            )
        case "CASE":
            name, strength = _named(node["else_expr"], text)
            return (name, strength) if strength == 2 else ("case", 1)
        case "COLLATE":
            return _named(node["child"], text)
        case "SUBQUERY":
            return _of_subquery(node, text)
    match node["type"]:
        case "ARRAY_EXTRACT" | "ARRAY_SLICE":
            return _named(node["children"][0], text)
        case "STRUCT_EXTRACT":
            return node["children"][1]["literal"]["text"], 2
        case "OPERATOR_COALESCE":
            return _called(node, text)[0] or "coalesce", 2
        case "ARRAY_CONSTRUCTOR":
            return "array", 2
        case "GROUPING_FUNCTION":
            return "grouping", 2
    return "", 0


def _called(node: dict[str, Any], text: bytes) -> tuple[str, int]:
    """The name of a function as it is written, for DuckDB's parser has changed some."""
    if node.get("is_operator"):
        return "", 0
    written = written_at(node, text)
    if node.get("function_name") == "timezone":
        return "timezone", 2
    if (word := _WORD.match(written)) is None:
        return "", 0
    name = word[1].lower()
    if not word[2]:
        return ("interval", 1) if name == "interval" else ("", 0)
    if name == "trim":
        side = _OF_TRIM.match(written)
        name = _TRIMMED[side[1]] if side else "btrim"
    return name, 2


def _of_subquery(node: dict[str, Any], text: bytes) -> tuple[str, int]:
    if node["subquery_type"] == "EXISTS":
        return "exists", 2
    if node["subquery_type"] != "SCALAR":
        return "", 0
    inner = node["subquery"]["node"]
    while inner["type"] == "SET_OPERATION_NODE":
        inner = inner["children"][0]
    if "select_list" not in inner:
        return "", 0
    if written_at(node, text).startswith("array"):
        return "array", 2
    first = inner["select_list"][0]
    return (first["alias"], 2) if first["alias"] else _named(first, text)
