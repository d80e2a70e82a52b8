"""DuckDB SQL of the content of alerts, which are JSON, as typed columns."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlglot import exp

from trilayer_core.compute.merging import quoted_duckdb
from trilayer_core.definitions.alerts import Alert, profile_columns

CONTENT = ("key", "event", "last", "profile", "profile_version")
"""The columns with what the rule was about."""


def content_types(alert: Alert) -> dict[str, str]:
    """The DuckDB type of each column of `CONTENT`."""
    return {name: _type_sql(type_) for name, type_ in _types(alert).items()}


def content_sql(alert: Alert, rows: str) -> str:
    """A SELECT of some rows with `digest` and the columns of `CONTENT` in place of `payload`.

    Args:
        alert: The alert.
        rows: A table name, or a SELECT in brackets, of rows with `payload`.
    """
    types = _types(alert)
    structure = json.dumps({n: _type_sql(_as_text(t)) for n, t in types.items()}).replace("'", "''")
    columns = [
        f"{_converted(f'_json.{quoted_duckdb(name)}', type_)} AS {quoted_duckdb(name)}"
        for name, type_ in types.items()
    ]
    # What is no JSON for DuckDB has no content, instead of making all queries fail.
    parsed = f"TRY(json_transform(payload, '{structure}'))"
    return (
        f"SELECT * EXCLUDE (_json), {', '.join(columns)}"
        f" FROM (SELECT * EXCLUDE (payload), md5_number(payload) AS digest, {parsed} AS _json"
        f" FROM {rows})"
    )


def _types(alert: Alert) -> dict[str, exp.DataType]:
    event = _struct(alert.stream.columns)
    return {
        "key": _struct({key.name: key.type for key in alert.keys}),
        "event": event,
        "last": exp.DataType(this=exp.DType.ARRAY, expressions=[event.copy()], nested=True),
        "profile": _struct(profile_columns(alert.profile))
        if alert.profile
        else exp.DataType.build("string", dialect="spark"),
        "profile_version": exp.DataType.build("bigint", dialect="spark"),
    }


def _struct(columns: Mapping[str, str]) -> exp.DataType:
    fields = [
        exp.ColumnDef(
            this=exp.to_identifier(name, quoted=True),
            kind=exp.DataType.build(type_, dialect="spark"),
        )
        for name, type_ in columns.items()
    ]
    return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)


def _type_sql(type_: exp.DataType) -> str:
    quoted = type_.copy()
    for name in quoted.find_all(exp.Identifier):
        name.set("quoted", True)
    return quoted.sql(dialect="duckdb")


def _as_text(type_: exp.DataType) -> exp.DataType:
    """The type as it stands in JSON: with text for binary."""

    def text(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.DataType) and node.this == exp.DType.BINARY:
            return exp.DataType.build("string", dialect="spark")
        return node

    type_in_json = type_.copy().transform(text)
    assert isinstance(type_in_json, exp.DataType)
    return type_in_json


def _converted(value: str, type_: exp.DataType, depth: int = 0) -> str:
    """The SQL of a value of `_as_text(type_)` as one of `type_`."""
    if not any(part.this == exp.DType.BINARY for part in type_.find_all(exp.DataType)):
        return value
    if type_.this == exp.DType.BINARY:
        return f"TRY(from_base64({value}))"
    item = f"_item_{depth}"
    if type_.this == exp.DType.STRUCT:
        fields = []
        for field in type_.expressions:
            name = field.this.name
            text = name.replace("'", "''")
            inner = _converted(f"struct_extract({value}, '{text}')", field.kind, depth)
            fields.append(f"{quoted_duckdb(name)} := {inner}")
        return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
    if type_.this == exp.DType.ARRAY:
        inner = _converted(item, type_.expressions[0], depth + 1)
        return f"list_transform({value}, lambda {item}: {inner})"
    assert type_.this == exp.DType.MAP, type_
    inner = _converted(f"{item}.value", type_.expressions[1], depth + 1)
    entries = f"list_transform(map_entries({value}), lambda {item}: ({item}.key, {inner}))"
    return f"CASE WHEN {value} IS NOT NULL THEN map_from_entries({entries}) END"
