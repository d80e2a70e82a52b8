"""Which types PostgreSQL would give the expressions of a statement, from DuckDB's tree.

DuckDB knows text and numbers only, but clients decide by `name`, `oid` and `"char"`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trilayer_server.introspection import names
from trilayer_server.introspection.nodes import Node, arguments_of
from trilayer_server.introspection.shapes import CATALOG, Relation, shapes


class Output(NamedTuple):
    """A column of an answer. `type` is the name of its type; empty for that of DuckDB's."""

    name: str
    type: str


Columns = Sequence[Output] | None
"""The columns of a query or table; None if they are not known."""


class Source(NamedTuple):
    """What a SELECT is from: its alias, columns, and the relation of PostgreSQL if it is one."""

    alias: str
    columns: Columns
    relation: Relation | None = None


class Scope(NamedTuple):
    """Where names are looked up: here, then further out.

    Attributes:
        sources: What the SELECT is from.
        ctes: The columns of common table expressions.
        outer: The scope around.
    """

    sources: list[Source]
    ctes: Mapping[str, Columns]
    outer: Scope | None = None


_REGISTERED = frozenset({"regclass", "regtype", "regproc", "regprocedure", "regnamespace",
                         "regrole", "regoper", "regconfig"})  # fmt: skip

VECTORS = ("int2vector", "oidvector")
"""Arrays whose elements are counted from 0."""

RECORDS: Mapping[str, Mapping[str, str]] = {
    "aclexplode": {"grantor": "oid", "grantee": "oid", "privilege_type": "text",
                   "is_grantable": "bool"},
    "pg_options_to_table": {"option_name": "text", "option_value": "text"},
    "_pg_expandarray": {"x": "int2", "n": "int4"},
}  # fmt: skip
"""The columns of functions that return rows."""

_RETURNS = {
    **dict.fromkeys(("current_schema", "current_database", "current_user", "current_catalog",
                     "current_role", "session_user", "user", "pg_get_userbyid",
                     "pg_encoding_to_char", "getdatabaseencoding"), "name"),
    **dict.fromkeys(("pg_backend_pid", "pg_char_to_encoding", "array_length", "array_lower",
                     "array_upper", "array_position", "cardinality", "length",
                     "char_length", "octet_length", "strpos", "position", "generate_subscripts",
                     "generate_series"), "int4"),
    **dict.fromkeys(("json_build_object", "json_build_array"), "json"),
    "current_schemas": "_name", "pg_my_temp_schema": "oid", "pg_advisory_unlock_all": "void",
    "pg_typeof": "regtype", "to_regclass": "regclass", "to_regtype": "regtype",
    "to_regproc": "regproc",
}  # fmt: skip
"""The types of functions whose Arrow type is another one."""

_HIDDEN = {"tableoid": "oid", "xmin": "xid", "xmax": "xid", "cmin": "cid", "cmax": "cid",
           "ctid": "text"}  # fmt: skip
"""Columns that every table of PostgreSQL has, and no star shows."""

_KEYWORDS = frozenset({"current_catalog", "current_role", "current_schema", "current_user",
                       "session_user", "user"})  # fmt: skip


def is_registered(type_: str) -> bool:
    """Whether it is a type whose values are numbers that are written as names."""
    return type_ in _REGISTERED


def relation_of(schema: str, name: str) -> Relation | None:
    """The relation of PostgreSQL that has a name; None if there is none."""
    return shapes().relations.get((schema.lower() or CATALOG, name.lower()))


class Types:
    """Notes types in the nodes of a statement, before it is changed.

    `of` has the types of a node's operands. A column that DuckDB does not have has `hidden`, the
    number of its relation, or `keyword`. A table has `relation` if it is one of PostgreSQL.

    Attributes:
        parameters: The types that the statement gives to its parameters, by number.
        sources: What each SELECT is from, by the id of its node.
    """

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        self.parameters: dict[str, str] = {}
        self.sources: dict[int, Sequence[Source]] = {}

    def query(self, node: Node, outer: Scope | None = None) -> Columns:
        """The columns of a query."""
        ctes = dict(outer.ctes if outer else {})
        for cte in node["cte_map"]["map"]:
            columns = self.query(cte["value"]["query_node"], Scope([], ctes, outer))
            ctes[cte["key"].lower()] = _renamed(columns, cte["value"]["aliases"])
        scope = Scope([], ctes, outer)
        match node["type"]:
            case "SELECT_NODE":
                return self._select(node, scope)
            case "SET_OPERATION_NODE":
                sides = [self.query(each, scope) for each in node["children"]]
            case "RECURSIVE_CTE_NODE":
                left = self.query(node["left"], scope)
                ctes[node["cte_name"].lower()] = _renamed(left, node["aliases"])
                sides = [left, self.query(node["right"], scope)]
            case _:
                self._walk(node, scope)
                return None
        self._walk(node["modifiers"], scope)
        first, *others = sides
        for other in others:
            if first is None or other is None or len(first) != len(other):
                continue
            first = [Output(a.name, a.type or b.type) for a, b in zip(first, other, strict=True)]
        return first

    def _select(self, node: Node, scope: Scope) -> Columns:
        self._source(node["from_table"], scope)
        outputs: list[Output] | None = []
        for each in node["select_list"]:
            type_ = self._expression(each, scope)
            if each["class"] != "STAR":
                name = each["alias"] or names.name_of(each, self._text) or names.UNNAMED
                outputs = outputs if outputs is None else [*outputs, Output(name, type_)]
                continue
            shown = () if _is_changed(each, node["from_table"]) else starred(each, scope.sources)
            columns = [source.columns for source in shown] or [None]
            if outputs is not None:
                outputs = (
                    None if None in columns else outputs + [c for cs in columns for c in cs or ()]
                )
        rest = {k: v for k, v in node.items() if k not in ("cte_map", "from_table", "select_list")}
        self._walk(rest, scope)
        self.sources[id(node)] = scope.sources
        return outputs

    def _source(self, node: Node, scope: Scope) -> None:
        """Adds what a part of FROM is to the sources."""
        alias, renamed = node["alias"].lower(), node.get("column_name_alias", ())
        match node["type"]:
            case "EMPTY":
                return
            case "JOIN":
                self._source(node["left"], scope)
                self._source(node["right"], scope)
                self._walk(node["condition"], scope)
                return
            case "BASE_TABLE":
                name, schema = node["table_name"], node["schema_name"]
                columns, relation = scope.ctes.get(name.lower()), None
                if schema or name.lower() not in scope.ctes:
                    relation = relation_of(schema, name)
                if relation:
                    node["relation"] = (relation.schema, relation.name)
                    columns = [Output(c.name, shapes().base(c.type)) for c in relation.columns]
                source = Source(alias or name.lower(), columns, relation)
            case "SUBQUERY":
                inner = Scope(list(scope.sources), scope.ctes, scope.outer)
                source = Source(alias, self.query(node["subquery"]["node"], inner))
            case "TABLE_FUNCTION":
                node["called"] = node["function"].get("function_name", "")
                source = self._of_function(node["function"], alias, scope)
            case _:
                rows = node.get("values") or [[]]
                types = [[self._expression(each, scope) for each in row] for row in rows]
                columns = [Output(f"column{n}", type_) for n, type_ in enumerate(types[0], 1)]
                source = Source(alias, columns if node.get("values") else None)
        scope.sources.append(source._replace(columns=_renamed(source.columns, renamed)))

    def _of_function(self, call: Node, alias: str, scope: Scope) -> Source:
        type_ = self._expression(call, scope)
        name = call.get("function_name", "")
        if name in RECORDS:
            return Source(alias or name, [Output(*column) for column in RECORDS[name].items()])
        return Source(alias or name, [Output(alias or name, type_)])

    def _walk(self, value: Any, scope: Scope) -> None:
        if isinstance(value, list):
            for each in value:
                self._walk(each, scope)
        elif isinstance(value, dict):
            if "class" in value:
                self._expression(value, scope)
            elif "cte_map" in value:
                self.query(value, scope)
            else:
                self._walk(list(value.values()), scope)

    def _expression(self, node: Node, scope: Scope) -> str:
        """The name of an expression's type."""
        if node["class"] == "SUBQUERY":
            columns = self.query(node["subquery"]["node"], scope)
            self._walk(node["child"], scope)
            self._compared(node, [node["child"], *node["subquery"]["node"].get("select_list", ())])
            is_scalar = node["subquery_type"] == "SCALAR" and columns
            node["is"] = columns[0].type if is_scalar and columns else ""
            return str(node["is"])
        self._walk([v for v in node.values() if isinstance(v, dict | list)], scope)
        node["of"] = [each["is"] for each in _operands(node)]
        node["is"] = type_ = self._type(node, scope)
        return type_

    def _type(self, node: Node, scope: Scope) -> str:
        of = node["of"]
        match node["class"]:
            case "COLUMN_REF":
                return self._column(node, scope)
            case "POSITIONAL_REFERENCE":  # of ARRAY(SELECT ...)
                columns = scope.sources[0].columns if scope.sources else None
                return columns[node["index"] - 1].type if columns else ""
            case "CAST":
                type_ = names.type_of(node["type_expr"], self._text)
                if node["child"]["class"] == "PARAMETER":
                    self.parameters.setdefault(node["child"]["identifier"], type_)
                return type_
            case "COMPARISON":
                self._compared(node, [node["left"], node["right"]])
            case "COLLATE":
                return str(of[0])
            case "CASE":  # PostgreSQL looks at the value of ELSE first
                return _first([node["else_expr"], *(c["then_expr"] for c in node["case_checks"])])
            case "OPERATOR" if node["type"] == "OPERATOR_COALESCE":
                return _first(node["children"])
            case "OPERATOR" if node["type"] == "ARRAY_EXTRACT":
                return _element(of[0])
            case "FUNCTION" | "WINDOW":
                return _returned(node["function_name"], of)
        return ""

    def _column(self, node: Node, scope: Scope) -> str:
        path = [name.lower() for name in node["column_names"]]
        name, table = path[-1], path[-2] if len(path) > 1 else ""
        if name in _KEYWORDS and names.written_at(node, self._text).startswith(name):
            sources = scope.sources if name == "user" else ()  # events have users
            if all(_has(source, name) is False for source in sources):
                node["keyword"] = name
                return "name"
        around: Scope | None = scope
        while around is not None:
            near = [source for source in around.sources if table in ("", source.alias)]
            for source in near:
                for column in source.columns or ():
                    if column.name.lower() == name:
                        return column.type
            if any(source.columns is None for source in near):
                return ""  # a column of a view
            for source in near:
                if name in _HIDDEN and source.relation and source.relation.kind == "r":
                    node["hidden"] = source.relation.oid
                    return _HIDDEN[name]
            if table and near:
                return ""
            around = around.outer
        return ""

    def _compared(self, node: Node, operands: Sequence[Any]) -> None:
        """Notes the type of a parameter that is compared with a column of the catalog."""
        if len(operands) != 2 or None in operands:
            return
        for one, other in (operands, operands[::-1]):
            type_ = other["is"] if other["class"] == "COLUMN_REF" else ""
            if node["class"] == "SUBQUERY" and one.get("function_name") == "unnest":
                one, type_ = arguments_of(one)[0], type_ and f"_{type_}"
            if one["class"] == "PARAMETER" and type_ and not is_registered(type_):
                self.parameters.setdefault(one["identifier"], type_)


def starred(star: Node, sources: Sequence[Source]) -> Iterator[Source]:
    """The sources whose columns a star shows."""
    wanted = (star["relation_name"] or "").lower()
    return (source for source in sources if wanted in ("", source.alias))


def _is_changed(star: Node, table: Node) -> bool:
    """Whether a star may show other columns than those of its tables, one after the other."""
    changes = ("exclude_list", "replace_list", "rename_list", "columns", "expr")
    return any(star.get(change) for change in changes) or _merges(table)


def _merges(table: Node) -> bool:
    """Whether a join shows columns of both of its sides once."""
    if table["type"] != "JOIN":
        return False
    is_merged = bool(table["using_columns"]) or table["ref_type"] == "NATURAL"
    return is_merged or _merges(table["left"]) or _merges(table["right"])


def _has(source: Source, column: str) -> bool | None:
    """Whether a source has a column; None if that is not known."""
    if source.columns is None:
        return None
    return any(each.name.lower() == column for each in source.columns)


def _operands(node: Node) -> list[Node]:
    match node["class"]:
        case "FUNCTION" | "WINDOW":
            return arguments_of(node)
        case "CAST" | "COLLATE":
            return [node["child"]]
        case "OPERATOR":
            return list(node["children"])
    return []


def _returned(function: str, of: Sequence[str]) -> str:
    """The type of a call."""
    if function in ("max", "min"):  # of names is text
        return "text" if of[0] in ("name", "char") else of[0]
    if function in ("array_agg", "list") and of:
        return f"_{of[0]}" if of[0] and not of[0].startswith("_") else ""
    if function == "age":  # of a transaction
        return "int4" if of == ["xid"] else ""
    if function == "unnest" and of:
        return _element(of[0])
    return of[0] if function == "nullif" else _RETURNS.get(function, "")


def _renamed(columns: Columns, given: Sequence[str]) -> Columns:
    if columns is None or not given:
        return columns
    renamed = [Output(name, c.type) for name, c in zip(given, columns, strict=False)]
    return renamed + list(columns[len(given) :])


def _element(array: str) -> str:
    if array in VECTORS:
        return "int2" if array == "int2vector" else "oid"
    return array[1:] if array.startswith("_") else ""


def _first(nodes: Sequence[Node]) -> str:
    """The common type of values; literals and NULL don't decide."""
    types = [node["is"] for node in nodes if node["class"] != "CONSTANT"]
    if not types:
        return ""
    is_wider = types[0] in ("name", "char") and {"text", ""}.intersection(types)
    return "text" if is_wider else str(types[0])
