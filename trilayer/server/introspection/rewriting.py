"""Rewrites a statement about PostgreSQL's catalog into DuckDB's SQL over what `install` has made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from trilayer.server.introspection.naming import name_columns
from trilayer.server.introspection.session import VERSION, Session
from trilayer.server.introspection.shapes import CATALOG, SCHEMAS, Relation, shapes
from trilayer.server.introspection.text import SHOW, plain
from trilayer.server.introspection.types import columns_of, is_registered, type_name


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


def rewritten(sql: str, session: Session) -> str:
    """See `rewrite`; without the types."""
    return rewrite(sql, session).sql


def rewrite(sql: str, session: Session) -> Rewritten:
    """A statement as DuckDB answers it.

    One that can't be parsed as PostgreSQL's SQL is left as it is, for DuckDB to judge.

    Args:
        sql: One statement, of which `mentions` is true.
        session: The client's session.
    """
    if (shown := SHOW.match(sql)) is not None:
        return _shown(shown["name"], session) or Rewritten(sql)
    try:
        tree = sqlglot.parse_one(plain(sql), dialect="postgres")
    except SqlglotError:
        return Rewritten(sql)
    if not isinstance(tree, exp.Query):
        return Rewritten(sql)
    tree = normalize_identifiers(tree, dialect="postgres")
    name_columns(tree)
    columns = columns_of(tree)
    types = [column.type for column in columns or ()]
    _write_as_names(tree, types)
    return Rewritten(_Rewriting(session).of(tree).sql(dialect="duckdb"), [_oid(t) for t in types])


def _oid(type_: str) -> int:
    if type_ in shapes().types:
        return int(shapes().types[type_]["oid"])
    return 0


def _shown(name: str, session: Session) -> Rewritten | None:
    """The answer to SHOW; None if there is no such setting."""
    wanted = " ".join(name.replace('"', "").lower().split())
    wanted = {"transaction isolation level": "transaction_isolation", "time zone": "timezone",
              "session authorization": "session_authorization"}.get(wanted, wanted)  # fmt: skip
    if wanted == "all":
        return rewrite("SELECT name, setting, short_desc AS description FROM pg_settings", session)
    known = {row[0].lower(): row[0] for row in shapes().rows["pg_settings"]}
    value = _setting(wanted, session)
    if value is None:
        return None
    return Rewritten(f'SELECT {_literal(value).sql("duckdb")} AS "{known.get(wanted, wanted)}"')


def _setting(name: str, session: Session) -> str | None:
    given = session.all_settings().get(name.lower())
    if given is not None:
        return given
    for row in shapes().rows["pg_settings"]:
        if row[0].lower() == name.lower():
            return row[1] if row[2] is None else _with_unit(row[1], row[2])
    return None


_UNITS = {"8kB": (8, "kB"), "kB": (1, "kB"), "ms": (1, "ms"), "s": (1, "s"), "min": (1, "min"),
          "MB": (1, "MB"), "B": (1, "B")}  # fmt: skip
_LARGER = {"kB": [(1 << 20, "GB"), (1 << 10, "MB")], "MB": [(1 << 10, "GB")],
           "ms": [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")],
           "s": [(86_400, "d"), (3600, "h"), (60, "min")], "min": [(1440, "d"), (60, "h")]}  # fmt: skip


def _with_unit(setting: str, unit: str) -> str:
    """A number as SHOW writes it: in the largest unit in which it is whole."""
    factor, name = _UNITS[unit]
    number = int(float(setting)) * factor
    if number <= 0:
        return setting
    for size, larger in _LARGER.get(name, []):
        if number % size == 0:
            return f"{number // size}{larger}"
    return f"{number}{name}"


def _write_as_names(tree: exp.Expression, types: Sequence[str]) -> None:
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


def _registered(node: exp.Expression, type_: str) -> exp.Expression:
    if isinstance(node, exp.Cast) and type_name(node.to) == type_:
        return node.copy()
    kind = exp.DataType.build(type_, dialect="postgres", udt=True)
    return exp.Cast(this=node.copy(), to=kind)


# -- parts of statements ---------------------------------------------------------------------------


def _literal(value: str | int) -> exp.Expression:
    return exp.Literal.number(value) if isinstance(value, int) else exp.Literal.string(value)


def _list(values: Sequence[str]) -> exp.Expression:
    return exp.Array(expressions=[_literal(value) for value in values])


def _sql(text: str) -> exp.Expression:
    return sqlglot.parse_one(text, dialect="duckdb")


def _macro(name: str, *arguments: exp.Expression) -> exp.Expression:
    call = exp.Anonymous(this=name, expressions=list(arguments))
    return exp.Dot(this=exp.to_identifier("_pg"), expression=call)


@cache
def _macros() -> Mapping[str, frozenset[str]]:
    """The parameters of the macros that the rewriting adds, by macro."""
    text = (resources.files(__package__) / "functions.sql").read_text(encoding="utf-8")
    found = re.findall(r"CREATE MACRO _pg\.(\w+)\s*\(([^)]*)\)", text)
    return {
        name: frozenset({"path_", "user_"} & {p.strip() for p in parameters.split(",")})
        for name, parameters in found
    }


_CONSTANTS = {
    "pg_is_in_recovery": "false", "pg_is_wal_replay_paused": "false", "pg_my_temp_schema": "0",
    "pg_is_other_temp_schema": "false", "pg_postmaster_start_time": "current_timestamp",
    "pg_conf_load_time": "current_timestamp", "pg_client_encoding": "'UTF8'",
    "getdatabaseencoding": "'UTF8'", "pg_tablespace_location": "''", "pg_relation_size": "0::BIGINT",
    "pg_total_relation_size": "0::BIGINT", "pg_table_size": "0::BIGINT",
    "pg_indexes_size": "0::BIGINT", "pg_database_size": "0::BIGINT",
    "pg_tablespace_size": "0::BIGINT", "pg_relation_is_updatable": "0",
    "pg_column_is_updatable": "false", "txid_current": "1::BIGINT", "age": "1",
    "pg_current_xact_id": "'1'", "pg_current_wal_lsn": "NULL::VARCHAR",
    "pg_last_wal_replay_lsn": "NULL::VARCHAR", "pg_last_wal_receive_lsn": "NULL::VARCHAR",
    "inet_server_addr": "NULL::VARCHAR", "inet_client_addr": "NULL::VARCHAR",
    "inet_server_port": "NULL::INTEGER", "inet_client_port": "NULL::INTEGER",
    "pg_get_partkeydef": "NULL::VARCHAR", "pg_get_ruledef": "NULL::VARCHAR",
    "pg_get_triggerdef": "NULL::VARCHAR", "pg_get_functiondef": "NULL::VARCHAR",
    "pg_get_function_result": "NULL::VARCHAR", "pg_get_function_arguments": "''",
    "pg_get_function_identity_arguments": "''", "pg_get_function_sqlbody": "NULL::VARCHAR",
    "pg_get_serial_sequence": "NULL::VARCHAR", "pg_get_statisticsobjdef": "NULL::VARCHAR",
    "pg_get_statisticsobjdef_columns": "NULL::VARCHAR", "pg_get_partition_constraintdef": "NULL::VARCHAR",
    "pg_stat_get_numscans": "0::BIGINT", "pg_stat_get_live_tuples": "0::BIGINT",
    "pg_jit_available": "false", "pg_advisory_unlock_all": "''", "pg_type_is_visible": "true",
    "pg_function_is_visible": "true", "pg_operator_is_visible": "true",
    "pg_opclass_is_visible": "true", "pg_collation_is_visible": "true",
    "pg_statistics_obj_is_visible": "true", "pg_ts_config_is_visible": "true",
    "pg_blocking_pids": "[]::INTEGER[]", "pg_relation_filenode": "NULL::UINTEGER",
    "row_security_active": "false", "pg_relation_is_publishable": "false", "pg_xact_commit_timestamp": "NULL::TIMESTAMPTZ",
}  # fmt: skip
"""Functions that have one answer here."""

_RECORDS = {"_pg_expandarray": "expandarray", "aclexplode": "aclexplode",
            "pg_options_to_table": "pg_options_to_table"}  # fmt: skip
"""Functions that return rows, and the macros that return them as a list."""

_DATABASE_COLUMNS = re.compile(r"datname|catalog_name|\w+_catalog")
_USER_COLUMNS = frozenset({"rolname", "usename", "groname", "role_name", "grantee"})


class _Rewriting:
    """Rewrites the statements of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._path = _list(session.path)
        self._user = _literal(session.user)
        self._known: Mapping[str, Callable[[Sequence[exp.Expression]], exp.Expression]] = {
            "current_database": lambda _: _literal(session.database),
            "current_catalog": lambda _: _literal(session.database),
            "current_schema": lambda _: _literal(session.layer),
            "current_schemas": self._schemas,
            "current_user": lambda _: self._user.copy(),
            "session_user": lambda _: self._user.copy(),
            "user": lambda _: self._user.copy(),
            "current_role": lambda _: self._user.copy(),
            "version": lambda _: _literal(f"PostgreSQL {VERSION} (trilayer), on DuckDB"),
            "pg_backend_pid": lambda _: _literal(session.pid),
            "current_setting": self._current_setting,
            "set_config": lambda given: given[1],
            "pg_has_role": lambda given: _macro("_allowed", given[-1]),
            "pg_sleep": lambda _: _literal(""),
            "format": _formatted,
            "json_build_object": lambda given: exp.Anonymous(this="json_object", expressions=given),
            "json_build_array": lambda given: exp.Anonymous(this="json_array", expressions=given),
            "generate_subscripts": _subscripts,
            "array_length": lambda given: _macro("array_length", *given),
            "pg_typeof": lambda given: _macro("pg_typeof", *given),
        }

    def of(self, tree: exp.Expression) -> exp.Expression:
        """The statement, rewritten from the inside out."""
        ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        hidden = [(node, self._hidden(node)) for node in tree.find_all(exp.Column)]
        for node, value in hidden:
            if value is not None:
                node.replace(value)
        holder = exp.Paren(this=tree)
        for node in reversed(list(tree.walk(bfs=True))):
            if node is tree and not isinstance(node, exp.Subquery | exp.Query):
                continue
            made = self._node(node, ctes)
            if made is not node:
                node.replace(made)
        return holder.this

    def _node(self, node: exp.Expression, ctes: set[str]) -> exp.Expression:
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
        if isinstance(node, exp.Coalesce):
            return _coalesce(node)
        if isinstance(node, exp.Like | exp.ILike):
            return _like(node)
        if isinstance(node, exp.Substring) and _is_text(node.args.get("start")):
            return exp.Anonymous(this="regexp_extract", expressions=[node.this, node.args["start"]])
        if isinstance(node, exp.Func):
            return self._function(node)
        return node

    # -- relations ---------------------------------------------------------------------------------

    def _table(self, node: exp.Table, ctes: set[str]) -> exp.Expression:
        if isinstance(node.this, exp.Func | exp.Dot):
            return self._table_function(node)
        if node.catalog.lower() == self._session.database.lower():
            node.set("catalog", None)
        relation = _relation(node)
        if relation is None or (not node.db and node.name.lower() in ctes):
            return node
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
        inner = exp.table_(relation.name, db=SCHEMAS[relation.schema], quoted=True)
        replaced = self._of_session(relation)
        if replaced:
            star = exp.Star(replace=[exp.alias_(sql, name) for name, sql in replaced])
            made: exp.Expression = exp.Subquery(this=exp.select(star).from_(inner), alias=alias)
        else:
            inner.set("alias", alias)
            made = inner
        for name in ("joins", "laterals", "pivots", "sample"):
            if node.args.get(name):
                made.set(name, node.args[name])
        return made

    def _of_session(self, relation: Relation) -> list[tuple[str, exp.Expression]]:
        """The columns of a relation that have the database's or the user's name."""
        found: list[tuple[str, exp.Expression]] = []
        for column in relation.columns:
            name = f'"{column.name}"'
            if _DATABASE_COLUMNS.fullmatch(column.name):
                value = _literal(self._session.database).sql("duckdb")
                found.append((column.name, _sql(f"replace({name}, '$database', {value})")))
            elif column.name in _USER_COLUMNS:
                value = self._user.sql("duckdb")
                found.append((column.name, _sql(f"replace({name}, '$user', {value})")))
            elif relation.name == "pg_settings" and column.name in ("setting", "reset_val"):
                value = f"CASE lower(name) {self._cases()} ELSE {name} END"
                found.append((column.name, _sql(value)))
        return found

    def _cases(self) -> str:
        """The session's settings as parts of a CASE."""
        return " ".join(
            f"WHEN {_literal(key).sql('duckdb')} THEN {_literal(value).sql('duckdb')}"
            for key, value in self._session.all_settings().items()
        )

    def _table_function(self, node: exp.Table) -> exp.Expression:
        """A function in FROM whose rows are records."""
        call = node.this.expression if isinstance(node.this, exp.Dot) else node.this
        name = _called(call)
        alias = node.args.get("alias")
        if name == "unnest" and call.expressions and (listed := _expanded(call.expressions[0])):
            select = _sql("SELECT unnest(x, recursive := true)")
            place = next(c for c in select.find_all(exp.Column) if c.name == "x")
            place.replace(listed)
            return exp.Subquery(this=select, alias=alias)
        if name in _RECORDS:
            raise AssertionError(name)  # its inner node was rewritten to unnest before
        return node

    # -- expressions -------------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> exp.Expression:
        if (
            not node.table
            and not node.this.args.get("quoted")
            and (node.name.lower() in ("user", "current_role", "current_catalog"))
        ):
            return self._known[node.name.lower()]([])
        if node.args.get("db") or node.args.get("catalog"):
            node.set("db", None)
            node.set("catalog", None)
        return node

    def _hidden(self, node: exp.Column) -> exp.Expression | None:
        """What stands for a column that every table of PostgreSQL has."""
        name = node.name.lower()
        if name not in ("tableoid", "xmin", "xmax", "ctid", "cmin", "cmax"):
            return None
        select = node.find_ancestor(exp.Select)
        while select is not None:
            tables = [
                t for t in select.find_all(exp.Table) if t.find_ancestor(exp.Select) is select
            ]
            for table in tables:
                relation = _relation(table)
                if relation is not None and node.table.lower() in ("", table.alias_or_name.lower()):
                    value = {"tableoid": f"{relation.oid}::UINTEGER", "ctid": "'(0,1)'"}
                    return _sql(value.get(name, "1::UINTEGER"))
            select = select.find_ancestor(exp.Select)
        return None

    def _dot(self, node: exp.Dot) -> exp.Expression:
        """A function with its schema, or a field of a record."""
        if isinstance(node.expression, exp.Func) and isinstance(node.this, exp.Identifier):
            return node.expression if node.this.name.lower() in SCHEMAS else node
        return node

    def _function(self, node: exp.Func) -> exp.Expression:
        name = _called(node)
        arguments = _arguments(node)
        if name in _RECORDS:
            return exp.Anonymous(this="unnest", expressions=[_macro(_RECORDS[name], *arguments)])
        if name in self._known:
            return self._known[name](arguments)
        if name in _CONSTANTS:
            if name == "age" and len(arguments) != 1:
                return node
            return _sql(_CONSTANTS[name])
        if re.fullmatch(r"has_\w+_privilege", name):
            return _macro("_allowed", arguments[-1])
        added = _macros().get(name)
        if added is None or (isinstance(node.parent, exp.Dot) and node.parent.this.name == "_pg"):
            return node
        more = {"path_": self._path, "user_": self._user}
        return _macro(name, *arguments, *(more[a].copy() for a in ("path_", "user_") if a in added))

    def _schemas(self, arguments: Sequence[exp.Expression]) -> exp.Expression:
        implicit = arguments[0].sql().lower() == "true" if arguments else False
        return _list(self._session.path if implicit else self._session.search_path)

    def _current_setting(self, arguments: Sequence[exp.Expression]) -> exp.Expression:
        if not _is_text(arguments[0]):
            name = arguments[0].sql("duckdb")
            return _sql(f"coalesce(CASE lower({name}) {self._cases()} END, _pg.setting({name}))")
        value = _setting(arguments[0].name, self._session)
        if value is not None:
            return _literal(value)
        if len(arguments) > 1:
            return exp.cast(exp.null(), "text", dialect="duckdb")
        message = f'unrecognized configuration parameter "{arguments[0].name}"'
        return exp.Anonymous(this="error", expressions=[_literal(message)])

    def _cast(self, node: exp.Cast) -> exp.Expression:
        to, inner = type_name(node.to), node.this
        if is_registered(to):
            return self._to_number(to, inner)
        if to.startswith("_") and _is_text(inner):
            inner = _list(_elements(inner.name))
        if to in _TEXTS:
            return self._to_text(inner)
        if not to:
            return node
        stored = _duckdb_type(to)
        if to in ("oid", "xid", "int4", "int8") and isinstance(inner, exp.Dot):
            return inner  # a number already, if it was a cast to regclass
        if stored is None:
            return node
        return exp.Cast(this=inner, to=exp.DataType.build(stored, dialect="duckdb"))

    def _to_number(self, to: str, inner: exp.Expression) -> exp.Expression:
        name = {"regprocedure": "regproc", "regoper": "regproc", "regconfig": "regproc"}.get(to, to)
        if name == "regclass":
            return _macro("regclass", inner, self._path.copy())
        if name == "regrole":
            return _macro("to_regrole", inner, self._user.copy())
        return _macro(name, inner)

    def _to_text(self, inner: exp.Expression) -> exp.Expression:
        """A value as text, where DuckDB would write a list or a number otherwise."""
        type_ = (
            shapes().columns.get(inner.name.lower(), "") if isinstance(inner, exp.Column) else ""
        )
        if isinstance(inner, exp.Dot) and isinstance(inner.expression, exp.Anonymous):
            name = inner.expression.name.removeprefix("to_")
            if is_registered(name):
                type_ = name
        if type_ == "regrole":
            return _macro("pg_get_userbyid", inner, self._user.copy())
        if type_ == "regclass":
            return _macro("regclass_text", inner, self._path.copy())
        if is_registered(type_):
            return _macro(f"{type_}_text", inner)
        if type_ in ("int2vector", "oidvector"):
            return exp.Anonymous(this="array_to_string", expressions=[inner, _literal(" ")])
        if type_.startswith("_"):
            return exp.Anonymous(
                this="concat",
                expressions=[_literal("{"), exp.Anonymous(
                    this="array_to_string", expressions=[inner, _literal(",")]), _literal("}")],
            )  # fmt: skip
        return exp.Cast(this=inner, to=exp.DataType.build("VARCHAR", dialect="duckdb"))


_TEXTS = frozenset({"text", "name", "char", "varchar", "bpchar", "cstring"})


def _duckdb_type(name: str) -> str | None:
    """The type of DuckDB for one that it does not have; None for those that it has."""
    if name in ("oid", "xid", "_oid", "_regtype", "_regclass", "_regproc", "oidvector"):
        return "UINTEGER[]" if name.startswith("_") or name == "oidvector" else "UINTEGER"
    if name == "int2vector":
        return "SMALLINT[]"
    if name.startswith("_"):
        return {"_int2": "SMALLINT[]", "_int4": "INTEGER[]", "_int8": "BIGINT[]"}.get(
            name, "VARCHAR[]"
        )
    base = shapes().base(name)
    if base != name:
        return _duckdb_type(base) or {"int4": "INTEGER", "timestamptz": "TIMESTAMPTZ"}.get(
            base, "VARCHAR"
        )
    return None if name in _BOTH else "VARCHAR"


_BOTH = frozenset({"bool", "int2", "int4", "int8", "float4", "float8", "numeric", "date", "time",
                   "timestamp", "timestamptz", "interval", "bytea", "uuid", "bit"})  # fmt: skip


def _relation(node: exp.Table) -> Relation | None:
    """The relation of PostgreSQL that a table is; None if it is another one."""
    schema = node.db.lower() or CATALOG
    return shapes().relations.get((schema, node.name.lower())) if schema in SCHEMAS else None


def _called(node: exp.Expression) -> str:
    """The name by which PostgreSQL knows a function."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    names: Mapping[type[exp.Expression], str] = {
        exp.ArraySize: "array_length", exp.Typeof: "pg_typeof", exp.Unnest: "unnest",
        exp.Explode: "unnest", exp.CurrentVersion: "version",
    }  # fmt: skip
    return names.get(type(node)) or (node.sql_name().lower() if isinstance(node, exp.Func) else "")


def _arguments(node: exp.Func) -> list[exp.Expression]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    given = [node.args.get(name) for name in node.arg_types]
    return [
        argument
        for value in given
        for argument in (value if isinstance(value, list) else [value])
        if isinstance(argument, exp.Expression)
    ]


def _expanded(node: exp.Expression) -> exp.Expression | None:
    """The list of records that a macro returns; None if the node is something else."""
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):
        return node if node.expression.name in _RECORDS.values() else None
    return None


def _is_text(node: exp.Expression | None) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _elements(text: str) -> list[str]:
    """The elements of an array as PostgreSQL writes it."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^,{}]+)', text)
    return [re.sub(r"\\(.)", r"\1", quoted) if quoted else bare for quoted, bare in found]


def _any(node: exp.Any | exp.All) -> exp.Expression:
    inner = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    if _is_text(inner) and inner.name.startswith("{"):
        return type(node)(this=_list(_elements(inner.name)))
    return node


def _coalesce(node: exp.Coalesce) -> exp.Expression:
    for other in node.expressions:
        if _is_text(other) and re.fullmatch(r"\{.*\}", other.name):
            other.replace(_list(_elements(other.name)))
    return node


def _like(node: exp.Expression) -> exp.Expression:
    """DuckDB has no character that escapes unless it is said."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or not _is_text(pattern) or "\\" not in pattern.name:
        return node
    return exp.Escape(this=node.copy(), expression=_literal("\\"))


def _bracket(node: exp.Bracket) -> exp.Expression:
    """The elements of a vector are counted from 0."""
    if (
        isinstance(node.this, exp.Column)
        and shapes().columns.get(node.this.name.lower()) in ("int2vector", "oidvector")
        and len(node.expressions) == 1
    ):
        place = node.expressions[0]
        node.set("expressions", [exp.paren(exp.Add(this=place.copy(), expression=_literal(1)))])
    return node


def _formatted(arguments: Sequence[exp.Expression]) -> exp.Expression:
    """DuckDB's format is another function; printf is near PostgreSQL's."""
    first, *rest = arguments
    if _is_text(first):
        first = _literal(re.sub(r"%[IL]", "%s", first.name))
    return exp.Anonymous(this="printf", expressions=[first, *rest])


def _subscripts(arguments: Sequence[exp.Expression]) -> exp.Expression:
    array = arguments[0]
    vector = isinstance(array, exp.Column) and shapes().columns.get(array.name.lower()) in (
        "int2vector", "oidvector")  # fmt: skip
    first, last = (0, "- 1") if vector else (1, "")
    made = _sql(f"unnest(generate_series({first}, len(x) {last}))")
    next(c for c in made.find_all(exp.Column) if c.name == "x").replace(array.copy())
    return made
