"""A server loads when it starts, and serves on a store that can't be read until it is mended."""

import asyncio
import logging
import socket

import httpx
import psutil
import psycopg
import pytest

from tests.support.published import CATALOG, SETTINGS, VIEW, run_once
from tests.support.served import Serving
from tests.support.waiting import until
from trilayer import Catalog, Table
from trilayer_core.errors import EnvironmentFault
from trilayer_core.project import Project
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_server.engine import loader
from trilayer_server.serving import serve

SETTINGS = SETTINGS.model_copy(update={"serve": {"port": 0, "http_port": 0}})


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


@pytest.fixture
def serving(store, tmp_path):
    def on(catalog):
        settings = SETTINGS.model_copy(update={"home": tmp_path / "home"})
        return Serving(Project(settings, catalog, store))

    return on


def all_loaders():
    found = psutil.Process().children()
    return [child for child in found if loader.__name__ in child.cmdline()]


@pytest.fixture
def loaders():
    """The loaders that were started since the test began."""
    before = all_loaders()
    return lambda: [found for found in all_loaders() if found not in before]


def ready(server):
    return httpx.get(f"http://{server.target}/readyz", timeout=60)


def asked(server, sql):
    with server.client() as client:
        return client.execute(sql).fetchall()


def test_an_empty_store_is_loaded_before_the_first_query(serving, loaders):
    with serving(CATALOG) as server:
        until(loaders)
        until(lambda: ready(server).status_code == 200)
        assert asked(server, "SELECT 1") == [(1,)]
        assert len(loaders()) == 1
    assert not loaders()


def test_a_damaged_store_is_said_and_mended_while_the_server_runs(serving, store, caplog):
    run_once(store)
    whole = store.read(layout.POINTER)
    store.write(layout.POINTER, b"?")
    caplog.set_level(logging.WARNING)
    with serving(CATALOG) as server:
        until(lambda: "the store has no answer yet" in caplog.text)
        assert layout.POINTER in caplog.text
        assert ready(server).status_code == 503
        with pytest.raises(psycopg.errors.DataCorrupted, match=layout.POINTER):
            asked(server, "SELECT 1")
        store.write(layout.POINTER, whole)
        assert ready(server).status_code == 200
        assert asked(server, "SELECT version FROM trilayer.history") == [(1,)]


def test_what_prevents_loading_is_the_answer_until_it_is_mended(serving, tmp_path):
    file = tmp_path / "lifts.csv"
    file.write_text("name\nred\n")
    catalog = Catalog(views=[VIEW], tables=[Table("lifts", path=file, schema="name string")])
    file.write_text("name\nblue\n")
    with serving(catalog) as server:
        assert ready(server).status_code == 503
        with pytest.raises(psycopg.Error, match="must stay as it was when the definitions were"):
            asked(server, "SELECT 1")
        file.write_text("name\nred\n")
        assert asked(server, "SELECT name FROM tables.lifts") == [("red",)]


@pytest.mark.parametrize("setting", ["port", "http_port"])
def test_a_port_that_is_taken_is_told(store, tmp_path, setting):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        serve_on = SETTINGS.serve | {setting: port}
        settings = SETTINGS.model_copy(update={"home": tmp_path / "home", "serve": serve_on})
        with pytest.raises(EnvironmentFault, match=f"can't listen on 127.0.0.1:{port}"):
            asyncio.run(serve(Project(settings, CATALOG, store), asyncio.Event(), print))
