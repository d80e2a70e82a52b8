"""Which types PostgreSQL would give the columns of a SELECT over its catalog.

DuckDB knows text and numbers only, but clients decide by `name`, `oid` and `"char"`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from trilayer_server.introspection.shapes import CATALOG, SCHEMAS, Relation, shapes


class Output(NamedTuple):
    """A column of an answer. `type` is the name of its type; empty if it is not known."""

    name: str
    type: str


Columns = Sequence[Output] | None
"""The columns of a query or table; None if they are not known."""

_NAMES = {
    "INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "TEXT": "text", "VARCHAR": "varchar",
    "BOOLEAN": "bool", "DOUBLE": "float8", "FLOAT": "float4", "NAME": "name", "CHAR": "bpchar",
    "TIMESTAMPTZ": "timestamptz", "INT2": "int2", "INT4": "int4", "INT8": "int8",
}  # fmt: skip
_REGISTERED = frozenset({"regclass", "regtype", "regproc", "regprocedure", "regnamespace",
                         "regrole", "regoper", "regconfig"})  # fmt: skip

_RETURNS = {
    "current_database": "name", "current_catalog": "name", "current_schema": "name",
    "current_schemas": "_name", "current_user": "name", "session_user": "name",
    "current_role": "name", "user": "name", "pg_get_userbyid": "name",
    "pg_encoding_to_char": "name", "pg_client_encoding": "name", "getdatabaseencoding": "name",
    "pg_backend_pid": "int4", "pg_char_to_encoding": "int4", "array_length": "int4",
    "array_lower": "int4", "array_upper": "int4", "array_ndims": "int4", "cardinality": "int4",
    "length": "int4", "char_length": "int4", "octet_length": "int4", "strpos": "int4",
    "position": "int4", "generate_subscripts": "int4", "generate_series": "int4",
    "inet_server_port": "int4", "inet_client_port": "int4", "inet_server_addr": "inet",
    "inet_client_addr": "inet", "pg_my_temp_schema": "oid", "age": "int4", "pg_typeof": "regtype",
    "to_regclass": "regclass", "to_regtype": "regtype", "to_regproc": "regproc",
    "pg_current_wal_lsn": "pg_lsn", "pg_last_wal_replay_lsn": "pg_lsn",
    "pg_relation_is_updatable": "int4",
    "json_build_object": "json", "json_build_array": "json",
    "array_position": "int4", "pg_advisory_unlock_all": "void",
    "pg_sleep": "void",
}  # fmt: skip
"""The types of functions whose Arrow type is another one."""


_RECORDS = {
    "aclexplode": {"grantor": "oid", "grantee": "oid", "privilege_type": "text",
                   "is_grantable": "bool"},
    "pg_options_to_table": {"option_name": "text", "option_value": "text"},
    "_pg_expandarray": {"x": "int2", "n": "int4"},
}  # fmt: skip
"""The columns of functions that return rows."""


def is_registered(type_: str) -> bool:
    """Whether it is a type whose values are numbers that are written as names."""
    return type_ in _REGISTERED


def type_name(kind: exp.DataType) -> str:
    """The name in `pg_type` of a type as SQL writes it; empty if it is none of PostgreSQL's."""
    if kind.this == exp.DataType.Type.ARRAY:
        inner = kind.expressions
        element = type_name(inner[0]) if inner and isinstance(inner[0], exp.DataType) else ""
        return f"_{element}" if f"_{element}" in shapes().types else ""
    if kind.this == exp.DataType.Type.USERDEFINED:
        written = str(kind.args.get("kind") or "")
        quoted = written.rpartition(".")[2]
        name = "char" if quoted == '"char"' else quoted.strip('"').lower()
    else:
        written = kind.this.value if isinstance(kind.this, exp.DataType.Type) else str(kind.this)
        name = _NAMES.get(written.upper(), written.lower())
    return name if name in shapes().types or is_registered(name) else ""


def columns_of(query: exp.Expr, known: Mapping[str, Columns] | None = None) -> Columns:
    """The columns of a query in PostgreSQL's SQL.

    Args:
        query: The query; its columns have names.
        known: The columns of common table expressions that it may use.
    """
    known = dict(known or {})
    if (with_ := query.args.get("with_") or query.args.get("with")) is not None:
        for cte in with_.expressions:
            names = [c.name for c in cte.args["alias"].args.get("columns") or ()]
            inner = cte.this
            first = inner.this if with_.args.get("recursive") and _is_set(inner) else inner
            known[cte.alias.lower()] = _renamed(columns_of(first, known), names)
    if isinstance(query, exp.Subquery):
        return columns_of(query.this, known)
    if _is_set(query):
        left, right = columns_of(query.this, known), columns_of(query.expression, known)
        if left is None or right is None or len(left) != len(right):
            return left
        return [Output(a.name, a.type or b.type) for a, b in zip(left, right, strict=True)]
    if not isinstance(query, exp.Select):
        return None
    sources = _sources(query, known)
    found: list[Output] = []
    for projection in query.expressions:
        if projection.is_star:
            table = projection.table if isinstance(projection, exp.Column) else ""
            for name, columns in sources.items():
                if table and name != table.lower():
                    continue
                if columns is None:
                    return None
                found += columns
            continue
        found.append(Output(projection.alias_or_name, _type(projection, sources, known)))
    return found


def _is_set(query: exp.Expr) -> bool:
    return isinstance(query, exp.SetOperation)


def _renamed(columns: Columns, names: Sequence[str]) -> Columns:
    if columns is None or not names:
        return columns
    rest = columns[len(names) :]
    return [Output(n, c.type) for n, c in zip(names, columns, strict=False)] + list(rest)


def expand_stars(tree: exp.Expr) -> None:
    """Writes columns in place of a star if the answer has numbers that are written as names."""
    if not isinstance(tree, exp.Select) or not any(p.is_star for p in tree.expressions):
        return
    sources = _sources(tree, {})
    found = columns_of(tree) or ()
    joins = tree.args.get("joins") or ()
    if not any(is_registered(column.type) for column in found) or (
        None in sources.values() or any(join.args.get("using") for join in joins)
    ):
        return
    made: list[exp.Expr] = []
    for projection in tree.expressions:
        if not projection.is_star:
            made.append(projection)
            continue
        table = projection.table.lower() if isinstance(projection, exp.Column) else ""
        made += [
            exp.column(column.name, table=alias, quoted=True)
            for alias, columns in sources.items()
            if table in ("", alias)
            for column in columns or ()
        ]
    tree.set("expressions", made)


def _sources(query: exp.Expr, known: Mapping[str, Columns]) -> dict[str, Columns]:
    """The columns of what a SELECT is from, by alias."""
    found: dict[str, Columns] = {}
    for part in _parts(query):
        found |= _named_sources(part, known)
    return found


def _parts(query: exp.Expr) -> list[exp.Expr]:
    """What a SELECT is from."""
    from_ = query.args.get("from_") or query.args.get("from")
    parts = [from_.this] if from_ is not None else []
    parts += [join.this for join in query.args.get("joins") or ()]
    return [*parts, *(query.args.get("laterals") or ())]


def _named_sources(part: exp.Expr, known: Mapping[str, Columns]) -> dict[str, Columns]:
    joined = [join.this for join in part.args.get("joins") or ()]
    rest: dict[str, Columns] = {}
    for other in joined:
        rest |= _named_sources(other, known)
    if isinstance(part, exp.Subquery | exp.Paren) and isinstance(
        part.this, exp.Table | exp.Subquery | exp.Paren
    ) and not part.alias:  # fmt: skip
        return _named_sources(part.this, known) | rest
    alias = part.args.get("alias")
    columns = alias.args.get("columns") or () if isinstance(alias, exp.TableAlias) else ()
    names = [column.name for column in columns]
    return {part.alias_or_name.lower(): _renamed(_source(part, known), names)} | rest


def _source(part: exp.Expr, known: Mapping[str, Columns]) -> Columns:
    if isinstance(part, exp.Subquery):
        return columns_of(part, known)
    if isinstance(part, exp.Lateral):
        return _source(part.this, known)
    name = function_name(part.this) if isinstance(part, exp.Table) else function_name(part)
    if name in _RECORDS:
        return [Output(*column) for column in _RECORDS[name].items()]
    if isinstance(part, exp.Unnest):
        return [Output(part.alias or "unnest", _element(_type(part.expressions[0], {}, known)))]
    if isinstance(part, exp.Table) and isinstance(part.this, exp.Func):
        return [Output(part.alias or name, _RETURNS.get(name, ""))]
    if isinstance(part, exp.Table):
        name, schema = part.name.lower(), part.db.lower()
        if not schema and name in known:
            return known[name]
        relation = relation_of(part)
        if relation is None:
            return None
        return [Output(column.name, shapes().base(column.type)) for column in relation.columns]
    return None


_CALLED: Mapping[type[exp.Expr], str] = {
    exp.ArraySize: "array_length", exp.Unnest: "unnest",
    exp.Explode: "unnest", exp.CurrentVersion: "version", exp.GenerateSeries: "generate_series",
    exp.ExplodingGenerateSeries: "generate_series",
}  # fmt: skip


def function_name(node: exp.Expr) -> str:
    """The name by which PostgreSQL knows a function; empty if the node is none."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.GenerateSeries) and node.args.get("is_end_exclusive"):
        return "range"
    return _CALLED.get(type(node)) or (
        node.sql_name().lower() if isinstance(node, exp.Func) else ""
    )


def _type(node: exp.Expr, sources: Mapping[str, Columns], known: Mapping[str, Columns]) -> str:
    """The name of an expression's type; empty for that of Arrow."""

    def of(inner: exp.Expr) -> str:
        return _type(inner, sources, known)

    for kind, rule in _RULES.items():
        if isinstance(node, kind):
            return rule(node, of)
    if isinstance(node, exp.Column):
        return _column(node, sources)
    if isinstance(node, exp.Subquery | exp.Select):
        columns = columns_of(node, known)
        return columns[0].type if columns else ""
    if isinstance(node, exp.Array) and any(
        isinstance(inner, exp.Query) for inner in node.expressions
    ):
        columns = columns_of(node.expressions[0], known)
        return _array(columns[0].type) if columns else ""
    if isinstance(node, exp.Func | exp.Dot):
        called = node.expression if isinstance(node, exp.Dot) else node
        if not isinstance(called, exp.Func):
            return ""
        if function_name(called) == "unnest":
            given = called.expressions or [called.this]
            return _element(of(given[0]))
        return _RETURNS.get(function_name(called), "")
    return ""


def _column(node: exp.Column, sources: Mapping[str, Columns]) -> str:
    name, table = node.name.lower(), node.table.lower()
    if is_keyword(node):
        return "name"
    if hidden_in(node) is not None:
        return _HIDDEN[name]
    for alias, columns in sources.items():
        if columns is not None and table in ("", alias):
            for column in columns:
                if column.name.lower() == name:
                    return column.type
    # From an outer query, whose columns have names of their own in pg_catalog.
    is_open = (bool(table) or None in sources.values()) and not is_of_views(node)
    return shapes().base(shapes().columns[name]) if is_open and name in shapes().columns else ""


def asks_catalog(node: exp.Expr) -> bool:
    """Whether an expression is about something that the catalog, or the session, says."""
    if any(function_name(f) in _OF_THE_SESSION for f in node.find_all(exp.Func)):
        return True
    for column in node.find_all(exp.Column):
        name, select = column.name.lower(), column.find_ancestor(exp.Select)
        if select is None:
            continue
        sources, table = _sources(select, {}), column.table.lower()
        near = [sources[table]] if table in sources else [] if table else list(sources.values())
        is_its = name in shapes().columns
        found = [each for columns in near for each in columns or () if each.name.lower() == name]
        if any(is_its or each.type.startswith("_") for each in found):
            return True
        if is_its and None not in near:  # of an outer query
            return True
    return False


def mark_views(tree: exp.Expr) -> None:
    """Notes for each column whether `is_of_views`, before the statement is rewritten."""
    found = _OfViews(tree)
    for column in tree.find_all(exp.Column):
        column.meta[_OF_VIEWS] = found.has(column)


def is_of_views(node: exp.Column) -> bool:
    """Whether a column is surely none of the catalog, though one there may have its name."""
    return bool(node.meta.get(_OF_VIEWS))


_OF_VIEWS = "of views"


class _Scope(NamedTuple):
    """Where names of columns are looked up.

    Attributes:
        select: In what this is from.
        within: The id of that of its parts which does not count, because the place is in it.
        outer: And then here.
    """

    select: exp.Select
    within: int
    outer: _Scope | None


def _scopes(tree: exp.Expr) -> Mapping[int, _Scope | None]:
    """The scope of each node, by its id."""
    found: dict[int, _Scope | None] = {}
    parts: set[int] = set()
    for node in tree.walk(bfs=True):
        scope = found[id(node.parent)] if node is not tree else None
        if node is not tree and isinstance(node.parent, exp.Select):
            scope = _Scope(node.parent, 0, scope)
        if scope is not None and id(node) in parts:
            scope = scope._replace(within=id(node))
        if isinstance(node, exp.Select):
            parts.update(map(id, _parts(node)))
        found[id(node)] = scope
    return found


class _OfViews:
    """Finds the columns of one statement that are surely none of the catalog, each once."""

    def __init__(self, tree: exp.Expr) -> None:
        self._common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        self._scopes = _scopes(tree)
        self._columns: dict[int, bool] = {}
        self._sources: dict[tuple[int, str], bool] = {}

    def has(self, node: exp.Column) -> bool:
        if id(node) not in self._columns:
            self._columns[id(node)] = self._has(node)
        return self._columns[id(node)]

    def _has(self, node: exp.Column) -> bool:
        table, is_found = node.table.lower(), False
        scope = self._scopes[id(node)]
        while scope is not None:
            parts = [
                part
                for part in _parts(scope.select)
                if table in ("", part.alias_or_name.lower()) and id(part) != scope.within
            ]
            if not all(self._lacks(part, node.name.lower()) for part in parts):
                return False
            is_found = is_found or bool(parts)
            if table and parts:
                break
            scope = scope.outer  # which may have it if no part of this one does
        return is_found

    def _lacks(self, part: exp.Expr, column: str) -> bool:
        """Whether what a SELECT is from surely has no column of the catalog with this name."""
        key = id(part), column
        if key not in self._sources:
            self._sources[key] = True  # for parts that may see each other
            self._sources[key] = self._is_view(part, column)
        return self._sources[key]

    def _is_view(self, part: exp.Expr, column: str) -> bool:
        if isinstance(part, exp.Subquery) and isinstance(part.this, exp.Select):
            inner = part.this
            named = [one for one in inner.expressions if one.alias_or_name.lower() == column]
            if named:
                columns = list(named[0].find_all(exp.Column))
                return bool(columns) and all(map(self.has, columns))
            has_star = any(one.is_star for one in inner.expressions)
            return not has_star or all(self._lacks(each, column) for each in _parts(inner))
        if not isinstance(part, exp.Table) or not isinstance(part.this, exp.Identifier):
            return False
        if part.args.get("joins") or (not part.db and part.name.lower() in self._common):
            return False
        outputs = _source(part, {})
        return outputs is None or all(each.name.lower() != column for each in outputs)


_OF_THE_SESSION = frozenset({"current_setting", "current_schema", "current_database"})


def is_keyword(node: exp.Column) -> bool:
    """Whether a column is none, but asks for the session's user or database.

    In a query of other relations than PostgreSQL's it is taken for a column: events have users.
    """
    if node.table or node.this.args.get("quoted") or node.name.lower() not in _KEYWORDS:
        return False
    select = node.find_ancestor(exp.Select)
    if select is None:
        return True
    sources = _sources(select, {}).values()
    return not any(
        columns is None or any(column.name.lower() == node.name.lower() for column in columns)
        for columns in sources
    )


_KEYWORDS = frozenset({"user", "current_role", "current_catalog"})
_HIDDEN = {"tableoid": "oid", "xmin": "xid", "xmax": "xid", "cmin": "cid", "cmax": "cid",
           "ctid": "text"}  # fmt: skip
"""Columns that every table of PostgreSQL has, and no star shows."""


def hidden_in(node: exp.Column) -> Relation | None:
    """The table of the catalog that has this hidden column.

    The relations of the innermost SELECT are asked first. A column that one of them shows, or may
    show, hides those of PostgreSQL. None if it does, or if no table has a hidden column.
    """
    if node.name not in _HIDDEN:
        return None
    known = dict.fromkeys(cte.alias.lower() for cte in node.root().find_all(exp.CTE))
    asked, select = node.table.lower(), node.find_ancestor(exp.Select)
    while select is not None:
        for alias, columns in _sources(select, known).items():
            if asked in ("", alias) and (columns is None or node.name in [c.name for c in columns]):
                return None
        for table in select.find_all(exp.Table):
            relation = relation_of(table)
            if relation is None or relation.kind != "r":
                continue
            is_asked = asked in ("", table.alias_or_name.lower())
            if is_asked and table.find_ancestor(exp.Select) is select:
                return relation
        select = select.find_ancestor(exp.Select)
    return None


def is_replaced(node: exp.Column) -> bool:
    """Whether a column is none that DuckDB has, so that a value stands in its place."""
    return is_keyword(node) or hidden_in(node) is not None


def relation_of(node: exp.Table) -> Relation | None:
    """The relation of PostgreSQL that a table is; None if it is another one."""
    schema = node.db.lower() or CATALOG
    return shapes().relations.get((schema, node.name.lower())) if schema in SCHEMAS else None


def _element(array: str) -> str:
    return {"int2vector": "int2", "oidvector": "oid"}.get(array) or array.removeprefix("_") * (
        array.startswith("_")
    )


def _array(element: str) -> str:
    return f"_{element}" if element and not element.startswith("_") else ""


def _first(nodes: Sequence[exp.Expr | None], of: Callable[[exp.Expr], str]) -> str:
    """The common type of values; literals and NULL don't decide."""
    given = [node for node in nodes if node is not None]
    found = [of(node) for node in given if not isinstance(node, exp.Literal | exp.Null)]
    if not found:
        return ""
    is_wider = found[0] in ("name", "char") and {"text", ""}.intersection(found)
    return "text" if is_wider else found[0]


def _bracket(node: exp.Expr, of: Callable[[exp.Expr], str]) -> str:
    return _element(of(node.this))


def _case(node: exp.Expr, of: Callable[[exp.Expr], str]) -> str:
    """PostgreSQL looks at the value of ELSE first."""
    return _first([node.args.get("default"), *(i.args["true"] for i in node.args["ifs"])], of)


_RULES: Mapping[type[exp.Expr], Callable[..., str]] = {
    exp.Alias: lambda node, of: of(node.this),
    exp.Paren: lambda node, of: of(node.this),
    exp.Collate: lambda node, of: of(node.this),
    exp.Cast: lambda node, of: type_name(node.to),
    exp.Coalesce: lambda node, of: _first([node.this, *node.expressions], of),
    exp.Nullif: lambda node, of: of(node.this),
    exp.Max: lambda node, of: _extreme(of(node.this)),
    exp.Min: lambda node, of: _extreme(of(node.this)),
    exp.Case: _case,
    exp.ArrayAgg: lambda node, of: _array(of(node.this)),
    exp.Order: lambda node, of: of(node.this),
    exp.Distinct: lambda node, of: of(node.expressions[0]),
    exp.Filter: lambda node, of: of(node.this),
    exp.Bracket: _bracket,
    exp.Length: lambda node, of: "int4",
}


def _extreme(type_: str) -> str:
    """`max` of names is text."""
    return "text" if type_ in ("name", "char") else type_
