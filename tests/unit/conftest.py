"""Tests in this folder have no broker and no Spark session, and start no process."""

import multiprocessing.process
import subprocess

import pytest


@pytest.fixture(autouse=True)
def no_process(monkeypatch):
    """Fails a test that starts a process."""

    def fail(*_, **__):
        pytest.fail("a test of tests/unit starts no process; move it to tests/integration")

    monkeypatch.setattr(subprocess.Popen, "__init__", fail)
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", fail)


@pytest.fixture(scope="session")
def broker():
    pytest.fail("a test of tests/unit has no broker; move it to tests/integration")


@pytest.fixture(scope="session")
def spark():
    pytest.fail("a test of tests/unit has no Spark session; move it to tests/integration")


@pytest.fixture(scope="session")
def spark_connect():
    pytest.fail("a test of tests/unit has no Spark server; move it to tests/system")
