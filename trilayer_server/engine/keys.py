"""Which columns identify a row of the answer to a query that is followed.

A worker finds it: the parser's time may double with each word of a statement.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from serving_layer.snapshot import LAYERS
from trilayer_core.definitions.catalog import Catalog


def key_of(sql: str, catalog: Catalog) -> list[str] | None:
    """The key of the view of which a statement selects all columns; None if it is another one.

    A condition, an order and a limit leave each row what it is. A statement that is nested very
    deeply is taken for another one.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except (SqlglotError, RecursionError):
        return None
    if not isinstance(tree, exp.Select) or not all(type(e) is exp.Star for e in tree.expressions):
        return None
    usual = {"expressions", "kind", "from", "from_", "where", "order", "limit", "offset"}
    if any(value for name, value in tree.args.items() if name not in usual):
        return None
    tables = list(tree.find_all(exp.Table))
    if len(tables) != 1 or not isinstance(tables[0].this, exp.Identifier):
        return None
    table = tables[0]
    if not isinstance(table.parent, exp.From) or table.parent.parent is not tree:
        return None
    layer, name = table.text("db").lower(), table.name.lower()
    if table.text("catalog") or layer not in ("", *LAYERS):
        return None
    if any(value for star in tree.expressions for value in star.args.values()):
        return None  # * EXCLUDE, REPLACE or RENAME
    return next((view.key_names for view in catalog.views if view.name == name), None)
