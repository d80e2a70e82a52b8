"""The types that a statement gives to its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from trilayer_server.encoding.tokens import parameter_number
from trilayer_server.introspection.shapes import shapes
from trilayer_server.introspection.text import Written, mentions, plain
from trilayer_server.introspection.types import (
    is_of_views,
    is_registered,
    mark_views,
    type_name,
)

_DECIDED = re.compile(r"\$\d+\s*::|\bCAST\s*\(\s*\$\d+\s+AS\b", re.IGNORECASE)


def parameter_types(sql: str) -> Mapping[int, int]:
    """The types, by their numbers in pg_type, of the parameters whose type is plain to see.

    These are parameters that are cast, as `$1::oid[]` is, and those that are compared with a column
    of the catalog.
    A client that asks for the types of parameters sends their values in these.
    """
    if "$" not in sql or not (_DECIDED.search(sql) or mentions(sql)):
        return {}
    try:
        # sqlglot reads no $1 before '' at the very end.
        tree = sqlglot.parse_one(f"{plain(sql)}\n", dialect=Written)
    except SqlglotError:
        return {}
    mark_views(tree)
    found: dict[int, int] = {}
    for parameter in tree.find_all(exp.Placeholder):
        number = parameter_number(parameter.name)
        if number and (name := _type_of(parameter)):
            found.setdefault(number, shapes().types[name]["oid"])
    return found


def _type_of(parameter: exp.Placeholder) -> str:
    parent = parameter.parent
    if isinstance(parent, exp.Cast):
        name = type_name(parent.to)
        return "text" if is_registered(name) else name
    if found := _compared(parameter):
        return found
    if isinstance(parent, exp.Any | exp.Paren) and isinstance(parent.parent, exp.EQ | exp.Any):
        place = parent if isinstance(parent, exp.Any) else parent.parent
        name = _compared(place)
        return f"_{name}" if f"_{name}" in shapes().types else ""
    return ""


def _compared(node: exp.Expr) -> str:
    """The type of the column that a node is compared with; empty if it is none."""
    parent = node.parent
    if not isinstance(parent, exp.Predicate) or not isinstance(parent, exp.Binary):
        return ""
    other = parent.right if parent.left is node else parent.left
    if not isinstance(other, exp.Column) or is_of_views(other):
        return ""
    name = shapes().columns.get(other.name.lower(), "")
    return "" if is_registered(name) else name
