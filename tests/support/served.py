"""A server for clients of PostgreSQL, in a thread of the test's process."""

import asyncio
import threading
from pathlib import Path

import psycopg

from trilayer.operations.project import Project
from trilayer.server.engine.pool import Pool
from trilayer.server.users import Users
from trilayer.server.wire.authentication import Access
from trilayer.server.wire.listen import Server


class Served:
    """A server that runs in a thread of its own."""

    def __init__(self, catalog, settings, store, limits=None, access=None):
        self._access = access or Access(Users(Path(store.root) / "no-users.json"))
        self._project, self._limits = Project(settings, catalog, store), limits
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server")

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(120)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self):
        async def run():
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            async with Pool(self._project, self._limits) as self.pool:
                await Server(self.pool, self._access).run(0, self._stop, self._begun)

        asyncio.run(run())

    def _begun(self, port):
        self.port = port
        self._ready.set()

    def client(self, dbname="trilayer", **options):
        return psycopg.connect(
            host="127.0.0.1", port=self.port, dbname=dbname, user="analyst", **options
        )
