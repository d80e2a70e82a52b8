"""How PostgreSQL names the columns of an answer that have no name.

Source: FigureColname in PostgreSQL's src/backend/parser/parse_target.c
"""

from __future__ import annotations

from sqlglot import exp

from trilayer_server.introspection.types import function_name, is_replaced, type_name

_UNNAMED = "?column?"

_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.GroupConcat: "string_agg", exp.CurrentTimestamp: "now", exp.ArraySize: "array_length",
    exp.Substring: "substring", exp.StrPosition: "position",
    exp.ArrayToString: "array_to_string", exp.CountIf: "count",
    exp.LogicalAnd: "bool_and", exp.LogicalOr: "bool_or", exp.Pow: "power",
    exp.ExplodingGenerateSeries: "generate_series",
    exp.CurrentVersion: "version", exp.RegexpReplace: "regexp_replace",
    exp.Explode: "unnest",
}  # fmt: skip
"""The functions that sqlglot calls otherwise."""


def name_columns(tree: exp.Expr) -> None:
    """Names the columns of all queries in a statement, and what functions in FROM return."""
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Func) and not table.alias:
            called = exp.to_identifier(_name(table.this)[0])
            table.set("alias", exp.TableAlias(this=called))
    for select in list(tree.find_all(exp.Select)):
        named = []
        for projection in select.expressions:
            if (
                isinstance(projection, exp.Alias | exp.Aliases)
                or projection.is_star
                or (isinstance(projection, exp.Column) and not is_replaced(projection))
            ):
                named.append(projection)
            else:
                name = _name(projection)[0] or _UNNAMED
                named.append(exp.alias_(projection.copy(), name, quoted=True))
        select.set("expressions", named)


def _name(node: exp.Expr) -> tuple[str, int]:
    """A name, and how good it is: that of a type is used if there is no other."""
    if isinstance(node, exp.Column | exp.Alias):
        return node.alias_or_name, 2
    if isinstance(node, exp.Dot):
        return node.expression.name or _name(node.expression)[0], 2
    if isinstance(node, exp.Cast):
        name, strength = _name(node.this)
        return (name, strength) if strength == 2 else (type_name(node.to).removeprefix("_"), 1)
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        name, strength = _name(default) if default is not None else ("", 0)
        return (name, strength) if strength == 2 else ("case", 1)
    if isinstance(
        node, exp.Paren | exp.Bracket | exp.Collate | exp.Filter | exp.Window | exp.WithinGroup
    ):
        return _name(node.this)
    if isinstance(node, exp.Exists):
        return "exists", 2
    if isinstance(node, exp.Subquery):
        inner = node.this
        while isinstance(inner, exp.SetOperation):
            inner = inner.this
        return _name(inner.expressions[0]) if isinstance(inner, exp.Select) else ("", 0)
    if isinstance(node, exp.Boolean):
        return "bool", 1
    if isinstance(node, exp.Interval):
        return "interval", 1
    if isinstance(node, exp.And | exp.Or | exp.Not | exp.Binary | exp.Unary):
        return "", 0
    if isinstance(node, exp.Anonymous):
        return node.name.lower(), 2
    if isinstance(node, exp.Trim):
        sides = {"TRAILING": "rtrim", "LEADING": "ltrim"}
        return sides.get(str(node.args.get("position")).upper(), "btrim"), 2
    if isinstance(node, exp.Pad):
        return "lpad" if node.args["is_left"] else "rpad", 2
    if isinstance(node, exp.GenerateSeries):
        return function_name(node), 2
    if isinstance(node, exp.Func):
        return _FUNCTIONS.get(type(node)) or node.sql_name().lower(), 2
    return "", 0
