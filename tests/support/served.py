"""Servers in a thread of the test's process: for clients of PostgreSQL, or as `trilayer serve`."""

from pathlib import Path

import psycopg

from tests.support.in_thread import InThread
from trilayer_core.project import Project
from trilayer_server import serving
from trilayer_server.engine.pool import Pool
from trilayer_server.users import Users
from trilayer_server.wire.authentication import Access
from trilayer_server.wire.listen import Server


class Served(InThread):
    """A server that runs in a thread of its own."""

    def __init__(self, catalog, settings, store, limits=None, access=None):
        self._access = access or Access(Users(Path(store.root) / "no-users.json"))
        self._project, self._limits = Project(settings, catalog, store), limits

    async def _serve(self):
        async with Pool(self._project, self._limits) as self.pool:
            await Server(self.pool, self._access, "127.0.0.1").run(0, self._stop, self._begun)

    def _begun(self, port):
        self.port = port
        self._ready.set()

    def client(self, dbname="trilayer", **options):
        return psycopg.connect(
            host="127.0.0.1", port=self.port, dbname=dbname, user="analyst", **options
        )


class Serving(InThread):
    """All that `trilayer serve` runs, in a thread of the test's process."""

    def __init__(self, project):
        self._project = project

    async def _serve(self):
        await serving.serve(self._project, self._stop, self._begun)

    def _begun(self, at):
        self.wire, self.target = at.wire, f"127.0.0.1:{at.http}"
        self._ready.set()

    def client(self):
        return psycopg.connect(
            host="127.0.0.1", port=self.wire, dbname="trilayer", user="grafana", autocommit=True
        )
