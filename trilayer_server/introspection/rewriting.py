"""A statement about PostgreSQL's catalog, in DuckDB's SQL over what `install` makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import duckdb

from trilayer_server.encoding.tokens import QUOTED, parameter_number
from trilayer_server.introspection import names
from trilayer_server.introspection.casts import array_text
from trilayer_server.introspection.dialect import Translation, parsed, readable, written
from trilayer_server.introspection.nodes import Node, arguments_of
from trilayer_server.introspection.session import VERSION, SessionInfo
from trilayer_server.introspection.shapes import SCHEMAS, Relation, shapes
from trilayer_server.introspection.templates import quoted
from trilayer_server.introspection.types import (
    RECORDS,
    VECTORS,
    Columns,
    Output,
    Types,
    is_registered,
    starred,
)

_ABOUT = re.compile(
    QUOTED
    + r"""| (?P<catalog>
        "(?:pg_ | information_schema)[^"]*(?:"|\Z)
        | \b(?:pg_\w | information_schema\b | has_\w+_privilege\b
            | current_(?:schemas?|database|catalog|user|role|setting)\b | session_user\b
            | SELECT\s+user\s*(?:;|\Z) | set_config\b | version\s*\(
            | (?:format_type | (?:obj|col|shobj)_description | to_reg\w+ | quote_(?:ident|literal)
               | aclexplode | getdatabaseencoding)\s*\()
        | ::\s*"?(?:reg\w+|oid|name|xid|char"|int2vector|oidvector)\b
        | \bAS\s+(?:reg(?:class|type|proc|namespace|role)\w*|oid|name)\s*\)
        | \bOPERATOR\s*\(
        | ^\s*SHOW\s )
    | "[^"]*(?:"|\Z)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def mentions(sql: str) -> bool:
    """Whether a statement may ask PostgreSQL's catalog or about the session.

    It reads the statement once. A statement of which it is false has nothing to be rewritten.
    """
    return any(match["catalog"] for match in _ABOUT.finditer(sql))


@dataclass(frozen=True)
class Rewritten:
    """A statement for DuckDB.

    Attributes:
        sql: The statement.
        oids: The types of PostgreSQL of its columns; 0 for that of DuckDB's type. Empty if
            nothing is known about them.
    """

    sql: str
    oids: Sequence[int] = ()


def rewrite(sql: str, session: SessionInfo, parser: duckdb.DuckDBPyConnection) -> Rewritten:
    """A statement as DuckDB answers it, with PostgreSQL's meaning.

    One that can't be parsed is left as it is, for DuckDB to judge.

    Args:
        sql: One statement, of which `mentions` is true.
        session: The client's session.
        parser: A database that parses; it needs no views.

    Raises:
        SqlError: A part of it is not supported.
    """
    if (shown := _SHOW.match(sql)) is not None:
        return (shown["name"] and _shown(shown["name"], session, parser)) or Rewritten(sql)
    text, explained = readable(sql)
    if (tree := parsed(text, parser)) is None:
        return Rewritten(sql)
    try:
        rewriting = _Rewriting(text, session, parser)
        columns = rewriting.begin(tree)
        rewriting.change(tree)
    except RecursionError:  # DuckDB allows a depth of 1,000, and says so
        return Rewritten(sql)
    oids = [shapes().types[c.type]["oid"] if c.type else 0 for c in columns or ()]
    return Rewritten(explained + written(tree, parser), [] if explained else oids)


_DECIDED = re.compile(r"\$\d+\s*::|\bCAST\s*\(\s*\$\d+\s+AS\b", re.IGNORECASE)


def parameter_types(sql: str, parser: duckdb.DuckDBPyConnection) -> Mapping[int, int]:
    """The types, by their numbers in pg_type, of the parameters whose type is plain to see.

    These are parameters that are cast, as `$1::oid[]` is, and those that are compared with a column
    of the catalog. A client that asks for the types of parameters sends their values in these.
    """
    if "$" not in sql or not (_DECIDED.search(sql) or mentions(sql)):
        return {}
    text, _ = readable(sql)
    if (tree := parsed(text, parser)) is None:
        return {}
    types = Types(text)
    try:
        types.query(tree)
    except RecursionError:
        return {}
    given = {
        parameter_number(digits): "text" if is_registered(name) else name
        for digits, name in types.parameters.items()
    }
    return {n: shapes().types[name]["oid"] for n, name in given.items() if n and name}


_SHOW = re.compile(r'\s*SHOW\s+(?:(?P<name>[\w." ]+?)\s*;?\s*\Z)?', re.IGNORECASE)
"""SHOW, and the name of a setting if it is followed by that alone."""


def _shown(name: str, session: SessionInfo, parser: duckdb.DuckDBPyConnection) -> Rewritten | None:
    """The answer to SHOW; None if there is no such setting."""
    wanted = " ".join(name.replace('"', "").lower().split())
    wanted = {"transaction isolation level": "transaction_isolation", "time zone": "timezone",
              "session authorization": "session_authorization"}.get(wanted, wanted)  # fmt: skip
    if wanted == "all":
        every = "SELECT name, setting, short_desc AS description FROM pg_settings"
        return rewrite(every, session, parser)
    spelled = {name.lower(): name for name in shapes().settings}
    value = _setting(wanted, session)
    if value is None:
        return None
    return Rewritten(f'SELECT {quoted(value)} AS "{spelled.get(wanted, wanted)}"')


def _setting(name: str, session: SessionInfo) -> str | None:
    given = session.all_settings().get(name.lower())
    if given is not None:
        return given
    return next((v for n, v in shapes().settings.items() if n.lower() == name.lower()), None)


@cache
def _macros() -> Mapping[str, Sequence[str]]:
    """The macros of functions.sql, and which of the arguments path_ and user_ each has."""
    text = (resources.files(__package__) / "functions.sql").read_text(encoding="utf-8")
    macros = re.findall(r"CREATE MACRO _pg\.(\w+)\s*\(([^)]*)\)", text)
    return {name: re.findall(r"\b(?:path_|user_)", parameters) for name, parameters in macros}


_CONSTANTS = {
    "pg_is_in_recovery": "false", "pg_my_temp_schema": "0", "getdatabaseencoding": "'UTF8'",
    "pg_tablespace_location": "''", "pg_relation_size": "0::BIGINT",
    "pg_total_relation_size": "0::BIGINT", "pg_table_size": "0::BIGINT",
    "pg_database_size": "0::BIGINT", "pg_get_partkeydef": "NULL::VARCHAR",
    "pg_get_ruledef": "NULL::VARCHAR", "pg_get_function_result": "NULL::VARCHAR",
    "pg_get_function_arguments": "''", "pg_get_function_sqlbody": "NULL::VARCHAR",
    "pg_get_serial_sequence": "NULL::VARCHAR", "pg_get_statisticsobjdef_columns": "NULL::VARCHAR",
    "pg_stat_get_numscans": "0::BIGINT", "pg_advisory_unlock_all": "''",
    "pg_type_is_visible": "true", "pg_function_is_visible": "true",
    "pg_operator_is_visible": "true", "pg_opclass_is_visible": "true",
    "pg_collation_is_visible": "true", "pg_statistics_obj_is_visible": "true",
    "pg_ts_config_is_visible": "true", "pg_relation_is_publishable": "false",
}  # fmt: skip
"""Functions that have one answer here."""

_LEAST = {"current_setting": 1, "set_config": 2, "pg_has_role": 1, "generate_subscripts": 1}
"""How many arguments a function must have to be rewritten."""

_DATABASE_COLUMNS = re.compile(r"datname|catalog_name|\w+_catalog")
_USER_COLUMNS = ("rolname", "usename")
_REGPROCS = ("regprocedure", "regoper", "regconfig")
_TEXTS = frozenset({"text", "name", "char", "varchar", "bpchar", "cstring"})


class _Rewriting(Translation):
    """Changes the tree of one statement of a session."""

    def __init__(self, text: str, session: SessionInfo, parser: duckdb.DuckDBPyConnection) -> None:
        super().__init__(text, session.database, parser)
        self._session, self._types = session, Types(text)
        self._user = quoted(session.user)
        self._path = _listed(session.path)
        self._constants: Mapping[str, str] = {
            **_CONSTANTS,
            **dict.fromkeys(("current_user", "session_user", "user", "current_role"), self._user),
            **dict.fromkeys(("current_database", "current_catalog"), quoted(session.database)),
            "current_schema": quoted(session.layer),
            "version": quoted(f"PostgreSQL {VERSION} (trilayer), on DuckDB"),
            "pg_backend_pid": str(session.pid),
        }
        self._calls: Mapping[str, Callable[[Sequence[Node]], Node]] = {
            "current_schemas": self._schemas,
            "current_setting": self._current_setting,
            "set_config": lambda given: given[1],
            "pg_has_role": lambda given: self._made("_pg._allowed($1)", given[-1]),
        }

    def begin(self, tree: Node) -> Columns:
        """Finds the types of all expressions, and returns the columns of the answer."""
        columns = self._types.query(tree)
        self._write_as_names(tree, columns or ())
        return columns

    def _write_as_names(self, query: Node, columns: Sequence[Output]) -> None:
        """Makes names of the numbers that an answer would have for regclass and its like."""
        if not any(is_registered(column.type) for column in columns):
            return
        if query["type"] == "SET_OPERATION_NODE":
            for each in query["children"]:
                self._write_as_names(each, columns)
        if query["type"] != "SELECT_NODE":
            return
        listed = [one for each in query["select_list"] for one in self._unstarred(query, each)]
        if len(listed) == len(columns):
            query["select_list"] = [
                self._as_name(each, column) if is_registered(column.type) else each
                for each, column in zip(listed, columns, strict=True)
            ]

    def _unstarred(self, query: Node, node: Node) -> list[Node]:
        if node["class"] != "STAR":
            return [node]
        made = []
        for source in starred(node, self._types.sources[id(query)]):
            for column in source.columns or ():
                path = ".".join(_identifier(part) for part in (source.alias, column.name) if part)
                made.append(self._made(path) | {"of": [], "is": column.type})
        return made

    def _as_name(self, node: Node, column: Output) -> Node:
        made = self._made("CAST($1 AS text)", node | {"alias": ""})
        return made | {"alias": column.name, "of": [column.type]}

    # -- relations ---------------------------------------------------------------------------------

    def _table(self, node: Node) -> Node:
        node = super()._table(node)
        if "relation" not in node:
            return node
        relation = shapes().relations[tuple(node["relation"])]
        replaced = self._of_session(relation)
        alias = node["alias"] or relation.name
        if replaced:
            columns = ", ".join(f"{sql} AS {_identifier(name)}" for name, sql in replaced)
            sql = f"(SELECT * REPLACE ({columns}) FROM {relation.in_duckdb})"
            made = self._subquery(self._made(sql)["subquery"], alias, node["column_name_alias"])
            return made | {"sample": node["sample"]}
        schema = SCHEMAS[relation.schema]
        return node | {
            "schema_name": schema, "table_name": relation.name, "alias": alias,
            "qualified_name": {"path": [schema, relation.name]},
        }  # fmt: skip

    def _of_session(self, relation: Relation) -> list[tuple[str, str]]:
        """The columns of a relation that have the database's or the user's name."""
        replaced: list[tuple[str, str]] = []
        for column in relation.columns:
            name = _identifier(column.name)
            if _DATABASE_COLUMNS.fullmatch(column.name):
                value = quoted(self._session.database)
                replaced.append((column.name, f"replace({name}, '$database', {value})"))
            elif column.name in _USER_COLUMNS:
                replaced.append((column.name, f"replace({name}, '$user', {self._user})"))
            elif relation.name == "pg_settings" and column.name in ("setting", "reset_val"):
                replaced.append((column.name, f"CASE lower(name) {self._cases()} ELSE {name} END"))
        return replaced

    def _cases(self) -> str:
        """The session's settings as parts of a CASE."""
        settings = self._session.all_settings().items()
        return " ".join(f"WHEN {quoted(key)} THEN {quoted(value)}" for key, value in settings)

    def _table_function(self, node: Node) -> Node:
        """A function in FROM: one of rows, of records, or of a single value."""
        call, name = node["function"], node.get("called", "")
        alias, columns = node["alias"] or name, node["column_name_alias"]
        if name in RECORDS:
            sql = "(SELECT unnest($1, recursive := true))"
            subquery = self._made(sql, *arguments_of(call)[:1])["subquery"]
            return self._subquery(subquery, alias, columns)
        if call["class"] != "FUNCTION" or (call["schema"] == "_pg" and name not in _TABLES):
            subquery = self._made("(SELECT $1)", call)["subquery"]
            return self._subquery(subquery, alias, columns or [alias])
        return super()._table_function(node)

    # -- expressions -------------------------------------------------------------------------------

    def change(self, node: Any) -> Any:
        """The node that stands for one, which may be the same."""
        is_coalesce = isinstance(node, dict) and node.get("type") == "OPERATOR_COALESCE"
        if is_coalesce and node.get("is", "").startswith("_"):
            texts = [(each, _text(each)) for each in node["children"]]
            node["children"] = [
                self._made(array_text(text)) if text else each for each, text in texts
            ]
        return super().change(node)

    def _name_columns(self, select: Node) -> None:
        for each in select["select_list"]:
            if "keyword" in each or "hidden" in each:  # a value takes their place
                each["alias"] = each["alias"] or each["column_names"][-1]
        super()._name_columns(select)

    def _column(self, node: Node) -> Node:
        """Relations of the catalog are known by their names alone."""
        if "keyword" in node:
            return self._made(self._constants[node["keyword"]]) | {"alias": node["alias"]}
        if "hidden" in node:
            value = {"tableoid": f"{node['hidden']}::UINTEGER", "ctid": "'(0,1)'"}
            made = self._made(value.get(node["column_names"][-1].lower(), "1::UINTEGER"))
            return made | {"alias": node["alias"]}
        node = super()._column(node)
        path = node["column_names"]
        if len(path) > 2 and path[-3].lower() in SCHEMAS:
            node["column_names"] = path[-2:]
        return node

    def _function(self, node: Node) -> Node:
        if node["schema"] in SCHEMAS:
            node["schema"] = ""
            node["qualified_name"] = {"path": [node["function_name"]]}
        made = None if node["schema"] else self._of_catalog(node)
        return super()._function(node) if made is None else made | {"alias": node["alias"]}

    def _of_catalog(self, node: Node) -> Node | None:
        """What stands for a function of the catalog; None for all others."""
        name, arguments, of = node["function_name"], arguments_of(node), node.get("of", ())
        if name == "||" and len(arguments) == 2:
            return self._joined_lists(node, arguments)
        if name == "age" and of == ["xid"]:
            return self._made("1")
        if name in RECORDS:
            return self._made(f"unnest(_pg.{name.removeprefix('_pg_')}($1))", *arguments)
        if len(arguments) < _LEAST.get(name, 0):
            return None
        if name == "generate_subscripts":
            places = "0, len($1) - 1" if of[0] in VECTORS else "1, len($1)"
            return self._made(f"unnest(generate_series({places}))", arguments[0])
        if name in self._calls:
            return self._calls[name](arguments)
        if name in self._constants:
            return self._made(self._constants[name])
        if re.fullmatch(r"has_\w+_privilege", name) and arguments:
            return self._made("_pg._allowed($1)", arguments[-1])
        if (added := _macros().get(name)) is None:
            return None
        return self._macro(name, *arguments, added=added)

    def _macro(self, name: str, *arguments: Node, added: Sequence[str] | None = None) -> Node:
        """A call of a macro of functions.sql."""
        more = {"path_": self._path, "user_": self._user}
        added = _macros()[name] if added is None else added
        places = [f"${place}" for place, _ in enumerate(arguments, 1)]
        listed = ", ".join([*places, *(more[each] for each in added)])
        return self._made(f"_pg.{name}({listed})", *arguments)

    def _joined_lists(self, node: Node, arguments: Sequence[Node]) -> Node | None:
        of = node.get("of", ("", ""))
        if any(type_.startswith("_") for type_ in of):
            return self._made("list_concat($1, $2)", *arguments)  # || of NULL is NULL
        for argument, type_ in zip(node["arguments"], of, strict=True):
            if is_registered(type_):
                argument["expression"] = self._to_text(type_, argument["expression"])
        return None

    def _schemas(self, arguments: Sequence[Node]) -> Node:
        is_implicit = bool(arguments) and arguments[0].get("literal", {}).get("text") == "true"
        return self._made(_listed(self._session.path if is_implicit else self._session.search_path))

    def _current_setting(self, arguments: Sequence[Node]) -> Node:
        literal = arguments[0].get("literal", {})
        if literal.get("kind") != "STRING":
            sql = f"coalesce(CASE lower($1) {self._cases()} END, _pg.setting($1))"
            return self._made(sql, arguments[0])
        if (value := _setting(literal["text"], self._session)) is not None:
            return self._made(quoted(value))
        if len(arguments) > 1:
            return self._made("NULL::VARCHAR")
        message = f'unrecognized configuration parameter "{literal["text"]}"'
        return self._made(f"error({quoted(message)})")

    def _extracted(self, node: Node) -> Node:
        """The elements of a vector are counted from 0."""
        if node.get("of", ("",))[0] in VECTORS:
            return self._made("$1[$2 + 1]", *node["children"]) | {"alias": node["alias"]}
        return super()._extracted(node)

    def _converted(self, node: Node) -> Node | None:
        to, child = names.type_of(node["type_expr"], self._text), node["child"]
        of = node.get("of", ("",))[0]
        if is_registered(to):
            return self._to_number(to, child, of)
        if to in _TEXTS and (of in VECTORS or is_registered(of)):
            return self._to_text(of, child)
        if to.startswith("_") and (text := _text(child)):
            child = self._made(array_text(text))
        if to and to.removeprefix("_") not in _SHARED:
            return self._made(f"CAST($1 AS {shapes().in_duckdb(to)})", child)
        return super()._converted(node)

    def _to_number(self, to: str, child: Node, of: str) -> Node:
        name = "regproc" if to in _REGPROCS else to
        if of == "oid" or is_registered(of):
            return self._made("CAST($1 AS UINTEGER)", child)
        return self._macro("to_regrole" if name == "regrole" else name, child)

    def _to_text(self, of: str, child: Node) -> Node:
        """A value as text, where DuckDB would write a list or a number otherwise."""
        if of == "regrole":
            return self._macro("pg_get_userbyid", child)
        if of in VECTORS:
            return self._made("array_to_string($1, ' ')", child)
        return self._macro(f"{'regproc' if of in _REGPROCS else of}_text", child)


_SHARED = frozenset({"bool", "bytea", "int2", "int4", "int8", "float4", "float8", "numeric", "date",
                     "time", "timestamp", "timestamptz", "interval", "uuid", "json", "jsonb", "bit",
                     "text", "varchar", "bpchar"})  # fmt: skip
"""Types that DuckDB has, too."""

_TABLES = ("pg_get_keywords",)
"""Macros that return rows."""


def _text(node: Node) -> str:
    """The text that a literal is; empty for all other nodes."""
    literal = node.get("literal", {})
    return literal["text"] if literal.get("kind") == "STRING" else ""


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(values: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted, values))}]"
