"""Tests of the server in the test's process."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """What listens on sockets or makes PostgreSQL's catalog is left out of the quick inner loop."""
    for item in items:
        if {FOLDER / "http", FOLDER / "introspection"} & set(item.path.parents):
            item.add_marker(pytest.mark.slow)
