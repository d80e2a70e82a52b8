"""A server on a store that has nothing yet: what needs no view is answered all the same."""

from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.sales import catalog_on
from tests.support.served import Served
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store


@pytest.fixture(scope="session")
def served(tmp_path_factory):
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


_WITH_SERVERS = {"http", "introspection", "test_earlier_versions.py", "test_monitoring.py",
                 "test_starting.py", "test_users_that_change.py"}  # fmt: skip


def pytest_collection_modifyitems(items):
    """What starts servers is left out of the quick inner loop."""
    for item in items:
        if not item.path.is_relative_to(Path(__file__).parent):
            continue
        parts = _WITH_SERVERS & set(item.path.parts)
        if parts or {"served", "guarded", "project"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
