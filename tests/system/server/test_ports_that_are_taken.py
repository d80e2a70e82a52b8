"""The server of `trilayer up` reports the ports that replace taken ones."""

import socket
from contextlib import ExitStack
from types import SimpleNamespace

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
            serve={"port": wire, "http_port": http},
        )
        project = Project(settings, console.CATALOG, Store(settings.store))
        stack = Stack(project, with_airflow=False)
        stack._start_companion(SERVER)
        return stack

    yield start
    if (server := processes.running(tmp_path, SERVER.name)) is not None:
        processes.terminate(server, home=tmp_path, timeout_s=5)


@pytest.fixture
def taken():
    """Two ports on which something else listens, until `close` is called."""
    with ExitStack() as others:
        sockets = [others.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in "ab"]
        yield SimpleNamespace(
            ports=[other.getsockname()[1] for other in sockets], close=others.close
        )


def check_kept(stack):
    """A server that starts again keeps its ports."""
    first = stack.server()
    stack._restart_companion(SERVER)
    again = stack.server()
    stack._keep_addresses()
    assert (again.console, again.psql, again.ports) == (first.console, first.psql, first.ports)


def test_ports_that_are_taken_are_replaced_and_kept(started, taken, capsys, caplog):
    """They are kept though those that were taken at first are free by then."""
    stack = started(*taken.ports)
    _announce(stack)
    lines = capsys.readouterr().out.splitlines()
    wire, http = stack.server().ports
    assert not {wire, http} & set(taken.ports)
    assert any(f"psql -h 127.0.0.1 -p {wire} " in line for line in lines)
    assert any(f"http://127.0.0.1:{http}/" in line for line in lines)
    assert [line for line in lines if line.startswith("Port ")] == [
        f"Port {taken.ports[0]} is taken, so SQL clients use port {wire} instead.",
        f"Port {taken.ports[1]} is taken, so the console uses port {http} instead.",
    ]
    taken.close()
    check_kept(stack)
    assert caplog.records == []


def test_free_ports_are_kept_or_it_is_reported(started, capsys, caplog):
    wanted = [free_port(), free_port()]
    stack = started(*wanted)
    _announce(stack)
    wire, http = stack.server().ports
    assert [wire, http] == wanted
    assert "is taken" not in capsys.readouterr().out
    assert caplog.records == []
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


def test_any_ports_are_kept(started, caplog):
    check_kept(started(0, 0))
    assert caplog.records == []
