"""A server with views of several kinds, and a PostgreSQL that has the same relations."""

import pytest

import serving_layer
from tests.support.served import Served
from tests.support.shop import shop_catalog
from trilayer.operations.system_relations import OWN_SCHEMA, relations
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server import introspection
from trilayer_server.introspection.comments import SCHEMAS
from trilayer_server.introspection.objects import objects


@pytest.fixture(scope="session")
def connection(tmp_path_factory):
    store = Store(str(tmp_path_factory.mktemp("described") / "store"))
    with serving_layer.connect(shop_catalog(), Settings(), store) as connection:
        for name, relation in relations().items():
            connection.relation(OWN_SCHEMA, name, relation.schema.empty_table())
        connection.describe(introspection.install)
        yield connection


@pytest.fixture(scope="session")
def described(connection):
    """A server that describes its views."""
    with Served(connection.catalog, connection._settings, connection._store) as server:
        yield server


@pytest.fixture(scope="session")
def ours(described):
    with described.client(autocommit=True) as client:
        yield client


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
