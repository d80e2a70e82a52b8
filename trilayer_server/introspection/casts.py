"""Casts with PostgreSQL's meaning, as nodes of DuckDB's tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any

import duckdb

from trilayer_server.introspection import names
from trilayer_server.introspection.nodes import TEXTS, Node, call, constant, has_aggregate
from trilayer_server.introspection.templates import quoted
from trilayer_server.sql_error import SqlError, unsupported


class Casts:
    """Changes the casts of one statement."""

    def __init__(self, text: str, parser: duckdb.DuckDBPyConnection) -> None:
        self._text, self._parser = text.encode(), parser

    def _made(self, sql: str, *arguments: Node) -> Node:
        """An expression in DuckDB's SQL, with nodes for `$1`, `$2` and so on."""
        unused = dict(enumerate(arguments, 1))

        def filled(node: Any) -> Any:
            if isinstance(node, list):
                return [filled(each) for each in node]
            if not isinstance(node, dict):
                return node
            if node.get("class") == "PARAMETER":
                place = int(node["identifier"])
                return unused.pop(place, None) or deepcopy(arguments[place - 1])
            return {key: filled(value) for key, value in node.items()}

        made: Node = filled(_snippet(self._parser, sql))
        return made

    def _cast(self, node: Node) -> Node:
        made = self._converted(node)
        return made | {"alias": node["alias"]} if made else node

    def _converted(self, node: Node) -> Node | None:
        """What stands for a cast; None for the cast itself, whose literal may have changed."""
        kind, child = node["type_expr"], node["child"]
        name, modifiers = kind["type_name"].lower(), kind["children"]
        text = constant(child)
        if text is not None and (no := _NO_NUMBERS.get(name)) and no.fullmatch(text):
            raise SqlError(
                "22P02",
                f'invalid input syntax for type {name}: "{text}"',
                "Write the number without quotes, or as PostgreSQL reads it",
            )
        if name == "jsonb":
            return self._made("CAST($1 AS JSON)", child)
        if names.type_of(kind, self._text) == "float8" and not modifiers:
            return self._made("CAST($1 AS DOUBLE)", child)
        if name in ("decimal", "numeric") and not modifiers:
            return self._made("CAST($1 AS DECIMAL(38, 15))", child)
        char = _CHAR.match(names.written_at(kind, self._text))
        if char and len(text or "") < int(char[1] or 1):
            raise unsupported("char(n) pads texts with spaces", "Write varchar(n) or text")
        if char:
            return self._made(f"left($1, {char[1] or 1})", child)
        if name in ("boolean", "bool") and text is not None and (value := _boolean(text)):
            return self._made(value)
        if name == "bytea" and text is not None and text.startswith("\\x"):
            return self._made(f"unhex({quoted(text[2:])})")
        if name in TEXTS and child.get("function_name") == "row":
            raise unsupported("a row can't be cast to text", "Write concat_ws(',', a, b)")
        if name in TEXTS and (text is None or modifiers):
            sql = "left(_pg.text($1), $2)" if modifiers else "_pg.text($1)"
            return self._made(sql, child, *modifiers)
        if name in _MOMENTS and text is not None and text.lower() in _MOMENTS[name]:
            return self._made(_MOMENTS[name][text.lower()])
        if name == "time" and text is None and not has_aggregate(child):
            return self._made("_pg.time_of($1)", child)
        if name == "interval" and text is not None:
            child["literal"]["text"] = re.sub(r"([-+])\s+(?=\d)", r"\1", text)
        if name == "list" and text is not None and re.fullmatch(r"\s*\{.*\}\s*", text, re.DOTALL):
            node["child"] = self._made(array_text(text))
        return None


@lru_cache(1_000)  # some contain texts of a client
def _snippet(parser: duckdb.DuckDBPyConnection, sql: str) -> Node:
    document = call(parser, "json_serialize_sql(?::VARCHAR)", f"SELECT {sql}")
    assert not document["error"], document  # it is ours
    made: Node = document["statements"][0]["node"]["select_list"][0]
    return made


def array_text(text: str) -> str:
    """The list that an array is, as PostgreSQL writes it."""
    values = []
    for text_, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|([^\s,{}"][^,{}]*)', text):
        is_null = bare.strip().upper() == "NULL"
        value = bare.strip() or re.sub(r"\\(.)", r"\1", text_)
        values.append("NULL" if is_null else quoted(value))
    return f"[{', '.join(values)}]"


def _boolean(text: str) -> str:
    """The boolean that a text is, a word or its beginning; empty if it is none."""
    word = text.strip().lower()
    for value, words in (("true", _TRUE), ("false", _FALSE)):
        if word not in ("", "o") and any(each.startswith(word) for each in words):
            return value
    return ""


_INTEGERS = ("smallint", "integer", "bigint", "int2", "int4", "int8", "int")
_NO_NUMBERS = {
    **dict.fromkeys(
        _INTEGERS,
        re.compile(r"\s*[-+]?(?:(?=.*[.eE_])[\d_]*\.?[\d_]*(?:[eE][-+]?\d+)?|0[xXbB]\w+)\s*"),
    ),
    **dict.fromkeys(
        ("decimal", "numeric", "float", "float4", "float8", "double", "double precision", "real"),
        re.compile(r"\s*[-+]?\d.*_.*"),
    ),
}
"""Texts of which DuckDB makes a number of a type, though PostgreSQL does not."""

_CHAR = re.compile(r"(?i)char(?:acter)?\b(?! varying)(?: *\( *(\d+))?")

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")

_DAYS = {"today": "current_date", "yesterday": "current_date - 1", "tomorrow": "current_date + 1"}
_MOMENTS: Mapping[str, Mapping[str, str]] = {
    "date": _DAYS | {"now": "current_date"},
    **{
        type_: {k: f"CAST({v} AS {type_})" for k, v in (_DAYS | {"now": "now()"}).items()}
        for type_ in ("timestamp", "timestamptz", "timestamp with time zone")
    },
}
"""Words that stand for a time."""
