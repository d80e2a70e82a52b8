"""Answers by HTTP, served in a thread of the test's process."""

import asyncio
import json
from contextlib import asynccontextmanager, contextmanager, nullcontext
from types import SimpleNamespace

import httpx
import pyarrow as pa

import serving_layer
from benchmarks.written import Written
from tests.support.engine_in_process import EngineInProcess
from tests.support.in_thread import InThread
from trilayer import Stream, View, count
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server.http.application import app
from trilayer_server.http.limits import Limits
from trilayer_server.http.security import WebAccess
from trilayer_server.http.serving import serve
from trilayer_server.http.store_reader import StoreReader
from trilayer_server.metrics import Metrics
from trilayer_server.sql_error import SqlError

PROVENANCE = {
    "version": 1,
    "t": "2026-01-01T00:00:00Z",
    "kind": "full",
    "exact": True,
    "streams": {
        "sales": {
            "cut": {"0": 1},
            "head": {"0": 2},
            "generation": None,
            "speed_events": 1,
            "quarantined": 0,
            "note": "",
            "lag": None,
            "quarantined_in_all": 0,
            "batch_events": 1,
        }
    },
    "approximate": {},
}


class ServedHttp(InThread):
    """A server on a free port, and clients of it."""

    def __init__(self, engine, project, access=None, limits=None, pool=None):
        """Prepares it. A `pool` is an engine that is entered in the server's loop."""
        limits, engine = limits or Limits(), engine or pool
        self._pool = pool
        self.engine, self.metrics = engine, Metrics()
        self.store_reader = StoreReader(project, engine, limits)
        self._app = app(
            engine,
            self.store_reader,
            access=access or WebAccess(),
            limits=limits,
            metrics=self.metrics,
        )

    async def _serve(self):
        async with self._pool or nullcontext():
            await serve(self._app, 0, self._stop, self._begun, "127.0.0.1")

    def _begun(self, port):
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._ready.set()

    def client(self, **options):
        return httpx.Client(base_url=self.url, trust_env=False, timeout=60, **options)

    def ask(self, sql, **more):
        with self.client() as client:
            return client.post("/v1/sql", json={"sql": sql, **more})

    @contextmanager
    def follow(self, sql, last_id=None, **more):
        headers = {"Last-Event-ID": last_id} if last_id else {}
        with (
            self.client(headers=headers) as client,
            client.stream("GET", "/v1/subscribe", params={"sql": sql, **more}) as response,
        ):
            if response.status_code != 200:
                response.read()
            yield response


def events(response):
    """The events of a subscription: name, id and document."""
    name, id_ = "", None
    for line in response.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "id":
            id_ = value
        elif field == "data":
            yield name, id_, json.loads(value)


class ScriptedEngine:
    """An engine whose answers a test writes: by statement, the chunks, and an error after them."""

    def __init__(self, **answers):
        self.answers = answers
        self.number = 1
        self.asked, self.askers = [], []
        self.left = []
        self.looked = 0
        self.error = None
        self.hangs = False

    @asynccontextmanager
    async def ask(self, query, who=""):
        self.asked.append(query)
        self.askers.append(who)
        try:
            await asyncio.sleep(0)
            if query.sql in ("never", "FROM never"):
                await asyncio.Event().wait()
            if query.sql == "refused":
                raise SqlError("42P01", "there is no such view", "ask another", 7)
            yield _Scripted(self.answers[query.sql.removeprefix("FROM ")])
        finally:
            self.left.append(query.sql)

    async def key(self, sql, who):
        return None  # its answers are no view's

    async def news(self):
        await asyncio.Event().wait()  # it notices nothing

    async def state(self):
        self.looked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        return self.number


class _Scripted:
    def __init__(self, parts):
        self.schema, self.provenance = (
            pa.schema([("a", pa.string()), ("n", pa.int64())]),
            PROVENANCE,
        )
        self.rows, self._parts = 1, parts

    async def chunks(self):
        for part in self._parts:
            if part is None:
                await asyncio.Event().wait()
            elif isinstance(part, Exception):
                raise part
            else:
                yield part


SALES = Stream("sales", "buyer string, at timestamp", event_time="at")
SOLD = View("sold", source=SALES, key=["buyer"], aggregates={"n": count()})


def counts(**by_buyer):
    """A partial of the view."""
    table = {"buyer": list(by_buyer), "n__n": list(by_buyer.values())}
    return pa.table(table, partial_schema(SOLD))


def opened(folder, access=None, limits=None, engine=None):
    """A store, and a server on it that is not running yet."""
    store = Store(str(folder / "store"))
    settings = Settings(home=folder, store=str(folder / "store"))
    written = Written(store, SOLD)
    connection = None
    if engine is None:
        connection = serving_layer.connect(written.catalog, settings, store)
        engine = EngineInProcess(connection)
    project = Project(settings, written.catalog, store)
    served = ServedHttp(engine, project, access, limits)
    return SimpleNamespace(
        store=store,
        written=written,
        connection=connection,
        served=served,
        engine=engine,
        project=project,
    )
