"""A PostgreSQL that has the relations of our server."""

import pytest

from trilayer_server.introspection.comments import SCHEMAS
from trilayer_server.introspection.objects import objects


@pytest.fixture(scope="session")
def theirs(connection, ours, postgresql):
    """A client of a PostgreSQL with relations of the same names, columns and comments."""
    server = postgresql
    with server.client(autocommit=True) as owner:
        owner.execute("CREATE ROLE analyst LOGIN")
        owner.execute("CREATE DATABASE trilayer OWNER pg_database_owner TEMPLATE template0")
    with server.client(dbname="trilayer", autocommit=True) as owner:
        for statement in _statements(objects(connection._database, connection.catalog), ours):
            owner.execute(statement)
        owner.execute("ANALYZE")  # without it PostgreSQL plans asyncpg's query for seconds
    options = (
        r"-c search_path=merged,\ tables -c TimeZone=UTC -c default_transaction_read_only=on"
        r" -c default_transaction_isolation=repeatable\ read"
    )
    with server.client(
        dbname="trilayer", user="analyst", options=options, autocommit=True
    ) as client:
        yield client


def _statements(found, ours):
    owner = "pg_database_owner"
    yield "DROP SCHEMA public"
    for schema, comment in SCHEMAS.items():
        yield f"CREATE SCHEMA {schema} AUTHORIZATION {owner}"
        yield f"COMMENT ON SCHEMA {schema} IS '{comment}'"
        yield f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC"
    for one in found:
        name = f"{one.schema}.{one.name}"
        types = ours.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            f" WHERE attrelid = '{name}'::regclass ORDER BY attnum"
        ).fetchall()
        if one.kind == "v":
            columns = ", ".join(f'NULL::{type_} AS "{column}"' for column, type_ in types)
            yield f"CREATE VIEW {name} AS SELECT {columns}"
        else:
            columns = ", ".join(f'"{column}" {type_}' for column, type_ in types)
            yield f"CREATE TABLE {name} ({columns})"
        yield f"ALTER TABLE {name} OWNER TO {owner}"
        yield f"REVOKE ALL ON {name} FROM {owner}"
        yield f"GRANT SELECT ON {name} TO PUBLIC"
        kind = "VIEW" if one.kind == "v" else "TABLE"
        if one.comment:
            yield f"COMMENT ON {kind} {name} IS '{one.comment}'"
        for column in one.columns:
            if column.comment:
                yield f"COMMENT ON COLUMN {name}.\"{column.name}\" IS '{column.comment}'"
