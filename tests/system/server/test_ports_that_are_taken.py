"""The server of `trilayer up` says which ports it uses in place of those that are taken."""

import re
import socket

import pytest

from tests.support import console
from tests.support.places import PROJECT
from tests.support.waiting import until
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_local import processes
from trilayer_local.commands.up import _announce
from trilayer_local.ports import free_port
from trilayer_local.stack import Stack
from trilayer_server.extension import COMPANION as SERVER


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Starts the server of a stack for which these ports are wanted."""
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))

    def start(wire, http):
        settings = Settings(
            home=tmp_path,
            store=str(tmp_path / "store"),
            catalog=f"{console.__name__}:CATALOG",
            serve_port=wire,
            serve_http_port=http,
        )
        project = Project(settings, console.CATALOG, Store(settings.store))
        stack = Stack(project, with_airflow=False)
        stack._start_companion(SERVER)
        return stack

    yield start
    if (server := processes.running(tmp_path, SERVER.name)) is not None:
        processes.terminate(server, home=tmp_path, timeout_s=5)


@pytest.fixture
def announced(started, capsys):
    """What `trilayer up` says of a server for which these ports are wanted."""

    def said_of(wire, http):
        _announce(started(wire, http))
        return capsys.readouterr().out

    return said_of


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


@pytest.mark.parametrize("wanted", ["taken", "any"])
def test_a_server_that_starts_again_keeps_its_ports(wanted, started, caplog):
    """Also when the port that was taken at first is free by then."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1] if wanted == "taken" else 0
        stack = started(port, port)
        first = stack.server()
    stack._restart_companion(SERVER)
    again = stack.server()
    stack._keep_addresses()
    assert (again.console, again.psql, again.ports) == (first.console, first.psql, first.ports)
    assert caplog.records == []


def test_ports_that_can_not_be_kept_are_reported(started, caplog):
    stack = started(0, 0)
    wire, http = stack.server().ports
    server = processes.running(stack.project.settings.home, SERVER.name)
    processes.terminate(server, home=stack.project.settings.home, timeout_s=5)
    with socket.create_server(("127.0.0.1", wire)):
        stack._start_companion(SERVER)
        until(lambda: stack._addresses() is not None)
        stack._keep_addresses()
        stack._keep_addresses()
    (report,) = [record.getMessage() for record in caplog.records]
    assert f"http://127.0.0.1:{http}/" in report
    assert f"Port {wire} is taken, so SQL clients use port" in report
