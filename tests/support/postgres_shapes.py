"""Writes trilayer_server/introspection/postgres15.json, from a PostgreSQL 15 that it starts.

    python -m tests.support.postgres_shapes

The file has the columns of the relations of pg_catalog and information_schema that a statement of
the corpora names, and the rows of those that are the same in every database. Each relation and each
row is a line.
"""

import json
import re
from pathlib import Path

from tests.support.postgres import Postgres

ROOT = Path(__file__).parents[2]
FILE = ROOT / "trilayer_server/introspection/postgres15.json"
ASKED = (
    "tests/system/server/introspection/corpus.sql",
    "tests/system/server/charts/charts.sql",
    "trilayer_server/introspection/relations.sql",
)
"""What names the relations that are kept."""

RELATIONS = """
    SELECT n.nspname, c.relname, c.oid, c.relkind::text,
        (SELECT json_agg(json_build_array(a.attname, t.typname, a.atttypmod, a.attnotnull)
                         ORDER BY a.attnum)
         FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
         WHERE a.attrelid = c.oid AND a.attnum > 0)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v')
    ORDER BY 1 DESC, 2"""

PLAIN = """t.typtype <> 'c'
        AND (t.typelem = 0 OR e.typtype <> 'c' OR t.typname = '_pg_statistic')"""
"""A type that is not a relation's row, nor an array of rows that no relation has."""

SETTINGS = """
    DateStyle IntervalStyle TimeZone application_name array_nulls backslash_quote block_size
    bytea_output client_encoding client_min_messages constraint_exclusion default_tablespace
    default_transaction_deferrable default_transaction_isolation default_transaction_read_only
    effective_cache_size escape_string_warning extra_float_digits
    idle_in_transaction_session_timeout idle_session_timeout in_hot_standby integer_datetimes jit
    lc_collate lc_ctype lc_messages lc_monetary lc_numeric lc_time lock_timeout log_timezone
    maintenance_work_mem max_connections max_function_args max_identifier_length max_index_keys
    password_encryption port row_security search_path server_encoding server_version
    server_version_num session_replication_role shared_buffers ssl standard_conforming_strings
    statement_timeout temp_buffers transaction_deferrable transaction_isolation
    transaction_read_only work_mem xmlbinary xmloption"""
"""The settings that clients ask for."""

ROWS = {
    "pg_type": f"pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem WHERE {PLAIN}",
    "pg_range": "pg_range t",
    "pg_am": "pg_am t",
    "pg_collation": "pg_collation t WHERE collprovider <> 'i'",
    "pg_language": "pg_language t",
    "pg_tablespace": "pg_tablespace t",
    "pg_authid": "pg_authid t WHERE rolname LIKE 'pg\\_%'",
    "pg_settings": f"pg_settings t WHERE name = ANY(regexp_split_to_array('{SETTINGS}', '\\s+'))",
    "pg_proc": """pg_proc t WHERE oid IN (
        SELECT unnest(ARRAY[t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin,
                            t.typmodout]::oid[])
        FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem WHERE """
    + PLAIN
    + ")",
}
"""The relations whose rows are the same everywhere, and which of them are kept."""

NUMBERS = ("oid", "regproc")
AS_LISTS = {"oidvector": "oid[]", "int2vector": "int2[]", "regproc": "oid", "aclitem[]": "text[]"}


def main():
    with Postgres() as server:
        FILE.write_text(document(server), encoding="utf-8")


def document(server):
    """The contents of the file, from a server that runs."""
    with server.client(autocommit=True) as client:
        relations = client.execute(RELATIONS).fetchall()
        asked = set(re.findall(r"\w+", " ".join((ROOT / file).read_text() for file in ASKED)))
        shapes = {
            f"{schema}.{name}": (columns, oid, kind)
            for schema, name, oid, kind, columns in relations
            if name in asked
        }
        # What only a superuser sees in settings is about this machine.
        client.execute("CREATE ROLE reader LOGIN")
        with server.client(user="reader", autocommit=True) as reader:
            rows = {
                name: _rows(client if name == "pg_authid" else reader, name, wanted, shapes)
                for name, wanted in ROWS.items()
            }
        client.execute("DROP ROLE reader")
    return _document(shapes, rows)


def _rows(client, name, wanted, shapes):
    described = shapes[f"pg_catalog.{name}"][0]
    columns = [
        f"t.{column}::{AS_LISTS[type_]}" if type_ in AS_LISTS else f"t.{column}"
        for column, type_, *_ in described
    ]
    numbers = {place for place, (_, type_, *_) in enumerate(described) if type_ in NUMBERS}
    found = client.execute(f"SELECT json_build_array({', '.join(columns)}) FROM {wanted}")
    rows = [
        [int(value) if place in numbers else value for place, value in enumerate(row)]
        for (row,) in found
    ]
    if name == "pg_settings":
        rows = [_as_installed(row, [column for column, *_ in described]) for row in rows]
    return sorted(rows, key=lambda row: row[0])


def _as_installed(row, columns):
    """A setting without what this machine or this run has made of it."""
    setting = dict(zip(columns, row, strict=True))
    given = {"setting": setting["boot_val"], "reset_val": setting["boot_val"], "source": "default"}
    return list((setting | (given if setting["source"] != "default" else {})).values())


def _document(shapes, rows):
    lines = ['{"made by": "python -m tests.support.postgres_shapes, from PostgreSQL 15",']
    lines.append('"a relation is": "[oid, kind, [column, type, modifier, whether not null]...]",')
    lines.append('"relations": {')
    lines.append(
        ",\n".join(
            f"{_json(name)}: {_json([oid, kind, *columns])}"
            for name, (columns, oid, kind) in shapes.items()
        )
    )
    lines.append('},\n"rows": {')
    lines.append(
        ",\n".join(
            f"{_json(name)}: [\n" + ",\n".join(map(_json, found)) + "\n]"
            for name, found in rows.items()
        )
    )
    lines.append("}}\n")
    return "\n".join(lines)


def _json(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


if __name__ == "__main__":
    main()
