"""The server of `trilayer up` says which ports it uses in place of those that are taken."""

import re
import socket

import pytest

from tests.support import console
from tests.support.places import PROJECT
from trilayer.cli.up import _announce
from trilayer.local import processes
from trilayer.operations.local_stack import _SERVER, Stack
from trilayer.operations.project import Project
from trilayer_core.runtime.ports import free_port
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store


@pytest.fixture
def announced(tmp_path, monkeypatch, capsys):
    """What `trilayer up` says of a server for which these ports are wanted."""
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    started = []

    def said_of(wire, http):
        settings = Settings(
            home=tmp_path,
            store=str(tmp_path / "store"),
            catalog=f"{console.__name__}:CATALOG",
            serve_port=wire,
            serve_http_port=http,
        )
        project = Project(settings, console.CATALOG, Store(settings.store))
        stack = Stack(project, with_airflow=False)
        started.append(stack._start_beside(_SERVER))
        _announce(stack)
        return capsys.readouterr().out

    yield said_of
    for process in started:
        processes.terminate(process, home=tmp_path, timeout_s=5)


@pytest.fixture
def taken():
    """A port on which something else listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_the_port_of_sql_clients_is_taken(announced, taken):
    said = announced(taken, free_port())
    used = re.search(r"psql -h 127\.0\.0\.1 -p (\d+)", said)[1]
    assert int(used) != taken
    assert [line for line in said.splitlines() if "taken" in line] == [
        f"Port {taken} is taken, so SQL clients use port {used} instead."
    ]


def test_the_port_of_the_console_is_taken(announced, taken):
    said = announced(0, taken)
    used = re.search(r"http://127\.0\.0\.1:(\d+)/", said)[1]
    assert int(used) != taken
    assert [line for line in said.splitlines() if "taken" in line] == [
        f"Port {taken} is taken, so the console uses port {used} instead."
    ]


def test_nothing_is_said_of_ports_that_are_free(announced):
    wire, http = free_port(), free_port()
    said = announced(wire, http)
    assert (f"-p {wire} " in said, f":{http}/" in said, "taken" in said) == (True, True, False)
