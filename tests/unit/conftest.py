"""Tests in this folder have no broker and no Spark session."""

import pytest


@pytest.fixture(scope="session")
def broker():
    pytest.fail("a test of tests/unit has no broker; move it to tests/integration")


@pytest.fixture(scope="session")
def spark():
    pytest.fail("a test of tests/unit has no Spark session; move it to tests/integration")


@pytest.fixture(scope="session")
def spark_connect():
    pytest.fail("a test of tests/unit has no Spark server; move it to tests/system")
