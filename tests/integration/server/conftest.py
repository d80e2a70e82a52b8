"""Servers for clients of PostgreSQL: one of each kind for all files of a worker of pytest."""

from pathlib import Path

import pytest

from tests.support.server_fixtures import *  # noqa: F403


def pytest_collection_modifyitems(items):
    """Mutation tests and the quick inner loop leave out what starts servers."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)
