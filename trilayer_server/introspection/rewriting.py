"""Rewrites a statement about PostgreSQL's catalog into DuckDB's SQL over what `install` makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from trilayer_server.introspection.functions import (
    CONSTANTS,
    LEAST,
    RECORDS,
    ROWS,
    formatted,
    is_text,
    listed,
    literal,
    macro,
    macros,
    parsed,
    subscripts,
)
from trilayer_server.introspection.naming import name_columns
from trilayer_server.introspection.session import VERSION, SessionInfo
from trilayer_server.introspection.shapes import SCHEMAS, Relation, shapes
from trilayer_server.introspection.text import SHOW, Written, plain
from trilayer_server.introspection.types import (
    asks_catalog,
    columns_of,
    expand_stars,
    function_name,
    hidden_in,
    is_keyword,
    is_of_views,
    is_registered,
    mark_views,
    relation_of,
    type_name,
)


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


def rewrite(sql: str, session: SessionInfo) -> Rewritten:
    """A statement as DuckDB answers it.

    One that can't be parsed is left as it is, for DuckDB to judge.

    Args:
        sql: One statement, of which `mentions` is true.
        session: The client's session.
    """
    if (shown := SHOW.match(sql)) is not None:
        return (shown["name"] and _shown(shown["name"], session)) or Rewritten(sql)
    try:
        trees = sqlglot.parse(plain(sql), dialect=Written)
    except SqlglotError:
        return Rewritten(sql)
    tree = trees[0] if trees else None
    if not isinstance(tree, exp.Query) or any(trees[1:]):
        return Rewritten(sql)
    for text in list(tree.find_all(exp.ByteString)):  # E'...', whose escapes are read by now
        text.replace(literal(text.name))
    for given in tree.find_all(exp.PropertyEQ):  # a struct keeps the names that were written
        if isinstance(given.this, exp.Identifier):
            given.this.set("quoted", True)
    tree = normalize_identifiers(tree, dialect="postgres")
    mark_views(tree)
    _mean_as_postgresql(tree)
    name_columns(tree)
    expand_stars(tree)
    columns = columns_of(tree)
    types = [column.type for column in columns or ()]
    _write_as_names(tree, types)
    return Rewritten(_Rewriting(session).of(tree).sql(dialect="duckdb"), [_oid(t) for t in types])


def _oid(type_: str) -> int:
    if type_ in shapes().types:
        return int(shapes().types[type_]["oid"])
    return 0


def _shown(name: str, session: SessionInfo) -> Rewritten | None:
    """The answer to SHOW; None if there is no such setting."""
    wanted = " ".join(name.replace('"', "").lower().split())
    wanted = {"transaction isolation level": "transaction_isolation", "time zone": "timezone",
              "session authorization": "session_authorization"}.get(wanted, wanted)  # fmt: skip
    if wanted == "all":
        return rewrite("SELECT name, setting, short_desc AS description FROM pg_settings", session)
    known = {name.lower(): name for name in shapes().settings}
    value = _setting(wanted, session)
    if value is None:
        return None
    return Rewritten(f'SELECT {literal(value).sql("duckdb")} AS "{known.get(wanted, wanted)}"')


def _setting(name: str, session: SessionInfo) -> str | None:
    given = session.all_settings().get(name.lower())
    if given is not None:
        return given
    return next((v for n, v in shapes().settings.items() if n.lower() == name.lower()), None)


def _write_as_names(tree: exp.Expr, types: Sequence[str]) -> None:
    """Makes names of the numbers that an answer would have for regclass and its like."""
    if isinstance(tree, exp.Subquery):
        _write_as_names(tree.this, types)
    elif isinstance(tree, exp.SetOperation):
        _write_as_names(tree.this, types)
        _write_as_names(tree.expression, types)
    elif isinstance(tree, exp.Select) and len(types) == len(tree.expressions):
        for projection, type_ in zip(tree.expressions, types, strict=True):
            if is_registered(type_):
                inner = projection.unalias()
                name = projection.alias_or_name
                text = exp.cast(_registered(inner, type_), "text", dialect="postgres")
                projection.replace(exp.alias_(text, name, quoted=True))


def _registered(node: exp.Expr, type_: str) -> exp.Expr:
    if isinstance(node, exp.Cast) and type_name(node.to) == type_:
        return node.copy()
    kind = exp.DataType.build(type_, dialect="postgres", udt=True)
    return exp.Cast(this=node.copy(), to=kind)


def _mean_as_postgresql(tree: exp.Expr) -> None:
    """Gives operators over what the catalog contains the meaning that they have in PostgreSQL.

    Clients expect that. Over everything else they mean what they mean to DuckDB.
    """
    kinds = (exp.Div, exp.Like, exp.ILike, exp.Format, exp.Coalesce, exp.DPipe, exp.Anonymous)
    for node in list(tree.find_all(*kinds)):
        if not asks_catalog(node):
            if isinstance(node, exp.Format):  # whose template sqlglot would rewrite
                node.replace(exp.Anonymous(this="format", expressions=_arguments(node)))
            continue
        if isinstance(node, exp.Coalesce):
            _coalesce(node)
        elif isinstance(node, exp.DPipe):
            if isinstance(node.expression, exp.Array):  # NULL for DuckDB if one list is
                lists = [node.this, node.expression]
                node.replace(exp.Anonymous(this="list_concat", expressions=lists))
        elif isinstance(node, exp.Anonymous):
            if node.name.lower() == "age" and len(node.expressions) == 1:
                node.replace(literal(1))
        elif isinstance(node, exp.Div):
            if _is_integer(node.this) and _is_integer(node.expression):
                node.replace(exp.IntDiv(this=node.this, expression=node.expression))
        elif isinstance(node, exp.Format):
            node.replace(formatted(_arguments(node)))
        elif (
            not isinstance(node.parent, exp.Escape)
            and is_text(node.expression)
            and "\\" in node.expression.name
        ):  # DuckDB has no character that escapes unless it is said
            node.replace(exp.Escape(this=node.copy(), expression=literal("\\")))


def _is_duckdbs(kind: exp.DataType) -> bool:
    """Whether a type is written as DuckDB knows it."""
    udt = exp.DataType.Type.USERDEFINED
    return all(part.this != udt for part in kind.find_all(exp.DataType))


def _is_integer(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast):
        return type_name(node.to) in ("int2", "int4", "int8")
    return isinstance(node, exp.Literal) and node.is_int


_DATABASE_COLUMNS = re.compile(r"datname|catalog_name|\w+_catalog")
_USER_COLUMNS = frozenset({"rolname", "usename", "groname", "role_name", "grantee"})


class _Rewriting:
    """Rewrites the statements of one session."""

    def __init__(self, session: SessionInfo) -> None:
        self._session = session
        self._path = listed(session.path)
        self._user = literal(session.user)
        self._known: Mapping[str, Callable[[Sequence[exp.Expr]], exp.Expr]] = {
            "current_database": lambda _: literal(session.database),
            "current_catalog": lambda _: literal(session.database),
            "current_schema": lambda _: literal(session.layer),
            "current_schemas": self._schemas,
            "current_user": lambda _: self._user.copy(),
            "session_user": lambda _: self._user.copy(),
            "user": lambda _: self._user.copy(),
            "current_role": lambda _: self._user.copy(),
            "version": lambda _: literal(f"PostgreSQL {VERSION} (trilayer), on DuckDB"),
            "pg_backend_pid": lambda _: literal(session.pid),
            "current_setting": self._current_setting,
            "set_config": lambda given: given[1],
            "pg_has_role": lambda given: macro("_allowed", given[-1]),
            "pg_sleep": lambda _: literal(""),
            "json_build_object": lambda given: exp.Anonymous(this="json_object", expressions=given),
            "json_build_array": lambda given: exp.Anonymous(this="json_array", expressions=given),
            "generate_subscripts": subscripts,
            "array_length": lambda given: macro("array_length", *given),
            "pg_typeof": lambda given: macro("pg_typeof", *given),
            "to_regtype": lambda given: macro("to_regtype", *given),
        }

    def of(self, tree: exp.Expr) -> exp.Expr:
        """The statement, rewritten from the inside out."""
        ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        hidden = [(column, self._hidden(column)) for column in tree.find_all(exp.Column)]
        for column, value in hidden:
            if value is not None:
                column.replace(value)
        holder = exp.Paren(this=tree)
        for node in reversed(list(tree.walk(bfs=True))):
            if node is tree and not isinstance(node, exp.Subquery | exp.Query):
                continue
            made = self._node(node, ctes)
            if made is not node:
                node.replace(made)
        return holder.this

    def _node(self, node: exp.Expr, ctes: set[str]) -> exp.Expr:
        if isinstance(node, exp.Table):
            return self._table(node, ctes)
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Dot):
            return self._dot(node)
        if isinstance(node, exp.Bracket):
            return _bracket(node)
        if isinstance(node, exp.Any | exp.All):
            return _any(node)
        if isinstance(node, exp.DPipe):
            return self._joined(node)
        if isinstance(node, exp.RegexpLike | exp.RegexpILike):  # regexp_matches has other rows
            flags = [literal("i")] if isinstance(node, exp.RegexpILike) else []
            return macro("regexp_like", node.this, node.expression, *flags)
        if isinstance(node, exp.Initcap):
            return macro("initcap", node.this)
        if isinstance(node, exp.Func):
            return self._function(node)
        return node

    # -- relations ---------------------------------------------------------------------------------

    def _table(self, node: exp.Table, ctes: set[str]) -> exp.Expr:
        if not isinstance(node.this, exp.Identifier):
            return self._table_function(node)
        if node.catalog.lower() == self._session.database.lower():
            node.set("catalog", None)
        relation = relation_of(node)
        if relation is None or (not node.db and node.name.lower() in ctes):
            return node
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
        inner = exp.table_(relation.name, db=SCHEMAS[relation.schema], quoted=True)
        replaced = self._of_session(relation)
        if replaced:
            star = exp.Star(replace=[exp.alias_(sql, name) for name, sql in replaced])
            made: exp.Expr = exp.Subquery(this=exp.select(star).from_(inner), alias=alias)
        else:
            inner.set("alias", alias)
            made = inner
        for name in ("joins", "laterals", "pivots", "sample"):
            if node.args.get(name):
                made.set(name, node.args[name])
        return made

    def _of_session(self, relation: Relation) -> list[tuple[str, exp.Expr]]:
        """The columns of a relation that have the database's or the user's name."""
        found: list[tuple[str, exp.Expr]] = []
        for column in relation.columns:
            name = f'"{column.name}"'
            if _DATABASE_COLUMNS.fullmatch(column.name):
                value = literal(self._session.database).sql("duckdb")
                found.append((column.name, parsed(f"replace({name}, '$database', {value})")))
            elif column.name in _USER_COLUMNS:
                value = self._user.sql("duckdb")
                found.append((column.name, parsed(f"replace({name}, '$user', {value})")))
            elif relation.name == "pg_settings" and column.name in ("setting", "reset_val"):
                value = f"CASE lower(name) {self._cases()} ELSE {name} END"
                found.append((column.name, parsed(value)))
        return found

    def _cases(self) -> str:
        """The session's settings as parts of a CASE."""
        return " ".join(
            f"WHEN {literal(key).sql('duckdb')} THEN {literal(value).sql('duckdb')}"
            for key, value in self._session.all_settings().items()
        )

    def _table_function(self, node: exp.Table) -> exp.Expr:
        """A function in FROM: one of rows, of records, or of a single value."""
        call = node.this.expression if isinstance(node.this, exp.Dot) else node.this
        alias = node.args.get("alias")
        name = function_name(call)
        if name == "unnest" and call.expressions and _expanded(call.expressions[0]):
            given = [call.expressions[0], parsed("recursive := true")]
            select = exp.select(exp.Anonymous(this="unnest", expressions=given))
            return exp.Subquery(this=select, alias=alias)
        if name in ("pg_get_keywords", "range"):
            return node
        if name in ROWS or alias is None:
            if alias is not None and not alias.args.get("columns"):
                alias.set("columns", [exp.to_identifier(alias.name)])
            return node
        select = exp.select(exp.alias_(node.this.copy(), alias.name, quoted=True))
        return exp.Subquery(this=select, alias=alias)

    # -- expressions -------------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> exp.Expr:
        """The column as DuckDB finds it: relations of the catalog are known by their names alone.

        What has no name of a schema or database is the path to a field of a struct.
        """
        names_database = node.catalog.lower() == self._session.database.lower()
        if names_database:
            node.set("catalog", None)
        if node.db.lower() in SCHEMAS and not node.catalog:
            node.set("db", None)
        return node

    def _hidden(self, node: exp.Column) -> exp.Expr | None:
        """What stands for a column that each table of PostgreSQL hides, or for a keyword."""
        name = node.name.lower()
        if is_keyword(node):
            return self._known[name]([])
        relation = hidden_in(node)
        if relation is None:
            return None
        value = {"tableoid": f"{relation.oid}::UINTEGER", "ctid": "'(0,1)'"}
        return parsed(value.get(name, "1::UINTEGER"))

    def _dot(self, node: exp.Dot) -> exp.Expr:
        """A function with its schema, or a field of a record."""
        if isinstance(node.expression, exp.Func) and isinstance(node.this, exp.Identifier):
            return node.expression if node.this.name.lower() in SCHEMAS else node
        return node

    def _function(self, node: exp.Func) -> exp.Expr:
        name = function_name(node)
        arguments = _arguments(node)
        if name in RECORDS:
            return exp.Anonymous(this="unnest", expressions=[macro(RECORDS[name], *arguments)])
        if len(arguments) < LEAST.get(name, 0):
            return node
        if name in self._known:
            return self._known[name](arguments)
        if name in CONSTANTS:
            return parsed(CONSTANTS[name])
        if re.fullmatch(r"has_\w+_privilege", name) and arguments:
            return macro("_allowed", arguments[-1])
        added = macros().get(name)
        if added is None or (isinstance(node.parent, exp.Dot) and node.parent.this.name == "_pg"):
            return node
        more = {"path_": self._path, "user_": self._user}
        return macro(name, *arguments, *(more[a].copy() for a in ("path_", "user_") if a in added))

    def _schemas(self, arguments: Sequence[exp.Expr]) -> exp.Expr:
        implicit = arguments[0].sql().lower() == "true" if arguments else False
        return listed(self._session.path if implicit else self._session.search_path)

    def _current_setting(self, arguments: Sequence[exp.Expr]) -> exp.Expr:
        if not is_text(arguments[0]):
            name = arguments[0].sql("duckdb")
            return parsed(f"coalesce(CASE lower({name}) {self._cases()} END, _pg.setting({name}))")
        value = _setting(arguments[0].name, self._session)
        if value is not None:
            return literal(value)
        if len(arguments) > 1:
            return exp.cast(exp.null(), "text", dialect="duckdb")
        message = f'unrecognized configuration parameter "{arguments[0].name}"'
        return exp.Anonymous(this="error", expressions=[literal(message)])

    def _cast(self, node: exp.Cast) -> exp.Expr:
        to, inner = type_name(node.to), node.this
        if to.startswith("_") and not is_text(inner) and _is_duckdbs(node.to):
            return node  # it may have a fixed size
        if is_registered(to):
            return self._to_number(to, inner)
        if to.startswith("_") and is_text(inner):
            inner = listed(_elements(inner.name))
        if to in _TEXTS:
            text = self._to_text(inner)
            sizes = [size.this for size in node.to.expressions]
            return exp.Anonymous(this="left", expressions=[text, *sizes]) if sizes else text
        if not to:
            return node
        if node.to.this != exp.DataType.Type.USERDEFINED and not to.startswith("_"):
            return node
        stored = shapes().in_duckdb(to)
        return exp.Cast(this=inner, to=exp.DataType.build(stored, dialect="duckdb"))

    def _joined(self, node: exp.DPipe) -> exp.Expr:
        for name in ("this", "expression"):
            if is_registered(_catalog_type(node.args[name])):
                node.set(name, self._to_text(node.args[name].copy()))
        return node

    def _to_number(self, to: str, inner: exp.Expr) -> exp.Expr:
        name = {"regprocedure": "regproc", "regoper": "regproc", "regconfig": "regproc"}.get(to, to)
        known = _catalog_type(inner)
        if name in _NUMBERED and (known == "oid" or is_registered(known)):
            return macro(f"{name}_number", inner)
        if name == "regclass":
            return macro("regclass", inner, self._path.copy())
        if name == "regrole":
            return macro("to_regrole", inner, self._user.copy())
        return macro(name, inner)

    def _to_text(self, inner: exp.Expr) -> exp.Expr:
        """A value as text, where DuckDB would write a list or a number otherwise."""
        type_ = _catalog_type(inner)
        if type_ == "regrole":
            return macro("pg_get_userbyid", inner, self._user.copy())
        if type_ == "regclass":
            return macro("regclass_text", inner, self._path.copy())
        if is_registered(type_):
            return macro(f"{type_}_text", inner)
        if type_ in ("int2vector", "oidvector"):
            return exp.Anonymous(this="array_to_string", expressions=[inner, literal(" ")])
        if type_.startswith("_"):
            return exp.Anonymous(
                this="concat",
                expressions=[literal("{"), exp.Anonymous(
                    this="array_to_string", expressions=[inner, literal(",")]), literal("}")],
            )  # fmt: skip
        return exp.Cast(this=inner, to=exp.DataType.build("VARCHAR", dialect="duckdb"))


_NUMBERED = frozenset({"regclass", "regtype", "regproc", "regnamespace"})
"""The types for which a number needs no look-up."""

_TEXTS = frozenset({"text", "name", "char", "varchar", "bpchar", "cstring"})


def _catalog_type(node: exp.Expr) -> str:
    """The type of a column of the catalog, or of a value that was cast to regclass or its like."""
    if isinstance(node, exp.Column):
        return "" if is_of_views(node) else shapes().columns.get(node.name.lower(), "")
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):
        name = node.expression.name.removeprefix("to_").removesuffix("_number")
        name = "regtype" if name == "pg_typeof" else name
        return name if is_registered(name) else ""
    return ""


def _arguments(node: exp.Func) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    given = [node.args.get(name) for name in node.arg_types]
    return [
        argument
        for value in given
        for argument in (value if isinstance(value, list) else [value])
        if isinstance(argument, exp.Expr)
    ]


def _expanded(node: exp.Expr) -> exp.Expr | None:
    """The list of records that a macro returns; None if the node is something else."""
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):
        return node if node.expression.name in RECORDS.values() else None
    return None


def _elements(text: str) -> list[str]:
    """The elements of an array as PostgreSQL writes it."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^\s,{}"][^,{}]*)', text)
    return [re.sub(r"\\(.)", r"\1", quoted) if quoted else bare.strip() for quoted, bare in found]


def _any(node: exp.Any | exp.All) -> exp.Expr:
    inner = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    if isinstance(inner, exp.Array) and any(isinstance(e, exp.Query) for e in inner.expressions):
        return type(node)(this=exp.paren(inner.expressions[0]))  # DuckDB compares with lists here
    if is_text(inner) and inner.name.startswith("{"):
        return type(node)(this=listed(_elements(inner.name)))
    return node


def _coalesce(node: exp.Coalesce) -> None:
    for other in node.expressions:
        if is_text(other) and re.fullmatch(r"\{.*\}", other.name):
            other.replace(listed(_elements(other.name)))


def _bracket(node: exp.Bracket) -> exp.Expr:
    """The elements of a vector are counted from 0."""
    if (
        isinstance(node.this, exp.Column)
        and _catalog_type(node.this) in ("int2vector", "oidvector")
        and len(node.expressions) == 1
    ):
        place = node.expressions[0]
        node.set("expressions", [exp.paren(exp.Add(this=place.copy(), expression=literal(1)))])
    return node
