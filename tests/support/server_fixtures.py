"""Fixtures of servers that tests of several folders share: their conftest.py imports them.

Each server is one for the run of a worker of pytest.
"""

import pytest

import serving_layer
from tests.support import postgres
from tests.support.sales import catalog_on
from tests.support.served import Served
from tests.support.shop import shop_catalog
from trilayer.operations.system_relations import OWN_SCHEMA, relations
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server import introspection

__all__ = ["client", "connection", "described", "ours", "postgresql", "served"]


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """A server on a store that has nothing yet."""
    store = Store(str(tmp_path_factory.mktemp("served") / "store"))
    with Served(catalog_on("sales"), Settings(), store) as server:
        yield server


@pytest.fixture
def client(served):
    with served.client(autocommit=True) as client:
        yield client


@pytest.fixture(scope="session")
def postgresql():
    """A PostgreSQL that has nothing yet."""
    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    with postgres.Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def connection(tmp_path_factory):
    """A connection, in the test's process, with views of several kinds in PostgreSQL's catalog."""
    store = Store(str(tmp_path_factory.mktemp("described") / "store"))
    with serving_layer.connect(shop_catalog(), Settings(), store) as connection:
        for name, relation in relations().items():
            connection.relation(OWN_SCHEMA, name, relation.schema.empty_table())
        connection.describe(introspection.install)
        yield connection


@pytest.fixture(scope="session")
def described(tmp_path_factory):
    """A server with views of several kinds."""
    store = Store(str(tmp_path_factory.mktemp("shop") / "store"))
    with Served(shop_catalog(), Settings(), store) as server:
        yield server


@pytest.fixture(scope="session")
def ours(described):
    with described.client(autocommit=True) as client:
        yield client
