"""What DuckDB's tree of a statement shows of an expression."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb

Node = dict[str, Any]


def call(parser: duckdb.DuckDBPyConnection, function: str, text: str) -> Any:
    """The JSON document that a function of DuckDB makes of a text."""
    row = parser.execute(f"SELECT {function}", [text]).fetchone()
    assert row is not None  # an aggregate-free SELECT has a row
    return json.loads(row[0])


def constant(node: Any) -> str | None:
    """The text of a literal in quotes, which may be cast to text; None for all other nodes."""
    if not isinstance(node, dict):
        return None
    if node.get("class") == "CAST" and node["type_expr"]["type_name"].lower() in TEXTS:
        return None if node["type_expr"]["children"] else constant(node["child"])
    if node.get("class") == "CONSTANT" and node["literal"]["kind"] == "STRING":
        return str(node["literal"]["text"])
    return None


def arguments_of(node: Node) -> list[Node]:
    """The arguments of a call."""
    return [argument["expression"] for argument in node["arguments"]]


def rename(node: Node, name: str, schema: str = "") -> Node:
    """Makes a call one of another function."""
    node["function_name"], node["schema"], node["is_operator"] = name, schema, False
    node["qualified_name"] = {"path": [schema, name] if schema else [name]}
    return node


def walk(node: Any) -> Iterator[Node]:
    """All nodes below one, each before those below it."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)


def is_text(node: Node) -> bool:
    """Whether it shows without types that an operand is a text."""
    if node.get("function_name") == "||":
        return any(is_text(argument) for argument in arguments_of(node))
    return constant(node) is not None or node.get("function_name") in _OF_TEXTS


def has_aggregate(nodes: Any) -> bool:
    """Whether a node is, or has below it, what has the value of an aggregate or a subquery."""
    return any(
        node.get("class") in ("WINDOW", "SUBQUERY")
        or (node.get("class") == "FUNCTION" and node["function_name"] in _AGGREGATES)
        for node in walk(nodes)
    )


def is_fraction(node: Node) -> bool:
    """Whether an operand is numeric in PostgreSQL, though it may be a whole number in DuckDB."""
    if node.get("class") in ("FUNCTION", "WINDOW"):
        name = node["function_name"]
        if name == "sum":  # of another aggregate, if DuckDB does not know its type
            return all(each.get("function_name") != "addend" for each in arguments_of(node))
        if name in _FRACTIONS:
            return True
        inner = arguments_of(node) if name in _PASSING else []
    elif node.get("class") == "CAST":
        inner = [node["child"]] if node["type_expr"]["type_name"].lower() == "interval" else []
        return bool(inner)
    elif node.get("class") == "OPERATOR":
        inner = node["children"] if node["type"] == "OPERATOR_COALESCE" else []
    elif node.get("class") == "CASE":
        inner = [check["then_expr"] for check in node["case_checks"]] + [node["else_expr"]]
    else:
        inner = []
    return any(is_fraction(each) for each in inner)


COUNTS = ("count", "count_star")

EXTREMES = ("max", "min")

SPREADS = ("avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp")

_AGGREGATES = frozenset({*COUNTS, *EXTREMES, *SPREADS, "sum", "first", "last", "any_value",
                         "mode", "quantile_disc", "quantile_cont", "median", "bool_and", "bool_or",
                         "bit_and", "bit_or", "bit_xor", "string_agg", "list", "array_agg", "corr",
                         "covar_pop", "covar_samp", "regr_slope", "regr_count"})  # fmt: skip
"""Aggregates whose value may be given to a function that has a form for each type."""

_OF_TEXTS = frozenset({"text", "strftime", "upper", "lower", "initcap", "trim", "concat",
                       "concat_ws", "replace", "left", "right", "lpad", "rpad", "substring",
                       "printf"})  # fmt: skip
"""Functions that return a text."""

_PASSING = frozenset({"+", "-", "*", "nullif", "greatest", "least", "abs", "max", "min"})
"""Functions whose result is numeric if an argument is."""

_FRACTIONS = frozenset({"round", "rounded", "trunc", "sign", "ceil", "ceiling", "floor"})
"""Functions whose result is `float8` or `numeric` in PostgreSQL, of integers, too."""

TEXTS = ("text", "varchar", "string", "bpchar")
