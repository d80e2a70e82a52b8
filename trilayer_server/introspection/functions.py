"""Functions of PostgreSQL, and the parts of statements that stand for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

import sqlglot
from sqlglot import exp

from trilayer_server.introspection.shapes import shapes


def literal(value: str | int) -> exp.Expr:
    """A literal."""
    return exp.Literal.number(value) if isinstance(value, int) else exp.Literal.string(value)


def listed(values: Sequence[str]) -> exp.Expr:
    """A list of texts."""
    return exp.Array(expressions=[literal(value) for value in values])


def parsed(text: str) -> exp.Expr:
    """An expression in DuckDB's SQL."""
    return sqlglot.parse_one(text, dialect="duckdb")


def macro(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A call of a macro of functions.sql."""
    call = exp.Anonymous(this=name, expressions=list(arguments))
    return exp.Dot(this=exp.to_identifier("_pg"), expression=call)


@cache
def macros() -> Mapping[str, frozenset[str]]:
    """The parameters of the macros that the rewriting adds, by macro."""
    text = (resources.files(__package__) / "functions.sql").read_text(encoding="utf-8")
    found = re.findall(r"CREATE MACRO _pg\.(\w+)\s*\(([^)]*)\)", text)
    return {
        name: frozenset({"path_", "user_"} & {p.strip() for p in parameters.split(",")})
        for name, parameters in found
    }


CONSTANTS = {
    "pg_is_in_recovery": "false", "pg_is_wal_replay_paused": "false", "pg_my_temp_schema": "0",
    "pg_is_other_temp_schema": "false", "pg_postmaster_start_time": "current_timestamp",
    "pg_conf_load_time": "current_timestamp", "pg_client_encoding": "'UTF8'",
    "getdatabaseencoding": "'UTF8'", "pg_tablespace_location": "''",
    "pg_relation_size": "0::BIGINT",
    "pg_total_relation_size": "0::BIGINT", "pg_table_size": "0::BIGINT",
    "pg_indexes_size": "0::BIGINT", "pg_database_size": "0::BIGINT",
    "pg_tablespace_size": "0::BIGINT", "pg_relation_is_updatable": "0",
    "pg_column_is_updatable": "false", "txid_current": "1::BIGINT",
    "pg_current_xact_id": "'1'", "pg_current_wal_lsn": "NULL::VARCHAR",
    "pg_last_wal_replay_lsn": "NULL::VARCHAR", "pg_last_wal_receive_lsn": "NULL::VARCHAR",
    "inet_server_addr": "NULL::VARCHAR", "inet_client_addr": "NULL::VARCHAR",
    "inet_server_port": "NULL::INTEGER", "inet_client_port": "NULL::INTEGER",
    "pg_get_partkeydef": "NULL::VARCHAR", "pg_get_ruledef": "NULL::VARCHAR",
    "pg_get_triggerdef": "NULL::VARCHAR", "pg_get_functiondef": "NULL::VARCHAR",
    "pg_get_function_result": "NULL::VARCHAR", "pg_get_function_arguments": "''",
    "pg_get_function_identity_arguments": "''", "pg_get_function_sqlbody": "NULL::VARCHAR",
    "pg_get_serial_sequence": "NULL::VARCHAR", "pg_get_statisticsobjdef": "NULL::VARCHAR",
    "pg_get_statisticsobjdef_columns": "NULL::VARCHAR",
    "pg_get_partition_constraintdef": "NULL::VARCHAR",
    "pg_stat_get_numscans": "0::BIGINT", "pg_stat_get_live_tuples": "0::BIGINT",
    "pg_jit_available": "false", "pg_advisory_unlock_all": "''", "pg_type_is_visible": "true",
    "pg_function_is_visible": "true", "pg_operator_is_visible": "true",
    "pg_opclass_is_visible": "true", "pg_collation_is_visible": "true",
    "pg_statistics_obj_is_visible": "true", "pg_ts_config_is_visible": "true",
    "pg_blocking_pids": "[]::INTEGER[]", "pg_relation_filenode": "NULL::UINTEGER",
    "row_security_active": "false", "pg_relation_is_publishable": "false",
    "pg_xact_commit_timestamp": "NULL::TIMESTAMPTZ",
}  # fmt: skip
"""Functions that have one answer here."""

RECORDS = {"_pg_expandarray": "expandarray", "aclexplode": "aclexplode",
            "pg_options_to_table": "pg_options_to_table"}  # fmt: skip
"""Functions that return rows, and the macros that return them as a list."""

ROWS = frozenset({"unnest", "generate_series"})
"""Functions of DuckDB that return rows of one column."""

LEAST = {"current_setting": 1, "set_config": 2, "pg_has_role": 1,
         "generate_subscripts": 1, "array_length": 2, "pg_typeof": 1, "to_regtype": 1}  # fmt: skip
"""How many arguments a function must have to be rewritten."""


def is_text(node: exp.Expr | None) -> bool:
    """Whether a node is a literal of text."""
    return isinstance(node, exp.Literal) and node.is_string


def formatted(arguments: Sequence[exp.Expr]) -> exp.Expr:
    """DuckDB's format is another function; printf is near PostgreSQL's."""
    first, *rest = arguments
    if is_text(first):
        first = literal(re.sub(r"%[IL]", "%s", first.name))
    return exp.Anonymous(this="printf", expressions=[first, *rest])


def subscripts(arguments: Sequence[exp.Expr]) -> exp.Expr:
    """The places of a list's elements; those of a vector are counted from 0."""
    array = arguments[0]
    vector = isinstance(array, exp.Column) and shapes().columns.get(array.name.lower()) in (
        "int2vector", "oidvector")  # fmt: skip
    first, last = (0, "- 1") if vector else (1, "")
    made = parsed(f"unnest(generate_series({first}, len(x) {last}))")
    next(c for c in made.find_all(exp.Column) if c.name == "x").replace(array.copy())
    return made
