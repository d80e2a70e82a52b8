"""The console in a browser, on a server that runs in a thread of the test's process."""

import asyncio
import base64
import shutil
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pyarrow as pa

import serving_layer
import trilayer.server
from benchmarks.written import Written
from tests.support.engine_in_process import EngineInProcess
from trilayer import Alert, Catalog, Stream, View, count, sum_, tumbling
from trilayer.operations.project import Project
from trilayer.server.http.application import app
from trilayer.server.http.limits import Limits
from trilayer.server.http.security import Access
from trilayer.server.http.serving import serve
from trilayer.server.http.state import State
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

CONSOLE = Path(trilayer.server.__file__).parent / "console"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

SALES = Stream("sales", "buyer string, price int, at timestamp", event_time="at")
BY_MINUTE = View(
    "by_minute",
    source=SALES,
    key={"buyer": "buyer", "minute": tumbling("at", "1 minute")},
    aggregates={"n": count(), "revenue": sum_("price")},
)
DEAR = Alert("dear", source=SALES, key=["buyer"], rule="price > 100")
MINUTE_MS = 60_000
ADMIN = {"Authorization": "Basic " + base64.b64encode(b"root:secret").decode()}


def found_browser():
    """The path of a browser of this machine; None if it has none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def sold(minute, **revenues):
    """A partial of the view: three events of each buyer in a minute, with their revenue."""
    start = datetime.fromtimestamp(minute * 60, UTC)
    columns = {
        "buyer": list(revenues),
        "minute": [start] * len(revenues),
        "n__n": [3] * len(revenues),
        "revenue__sum": list(revenues.values()),
    }
    return pa.table(columns, partial_schema(BY_MINUTE))


class Site:
    """A store with two publications and two ticks of a speed layer, and its server.

    Attributes:
        url: The address of the console.
        written: The store's writer.
        connection: Asks the same store.
    """

    def __init__(self, folder, alerts=(), empty=False):
        settings = Settings(home=folder, store=str(folder / "store"), keep_versions=5)
        store = Store(settings.store)
        if not empty:
            self._write(store)
        catalog = Catalog(views=[BY_MINUTE], alerts=alerts)
        self.connection = serving_layer.connect(catalog, settings, store)
        self._project = Project(settings, catalog, store)
        self._ready = threading.Event()

    def _write(self, store):
        self.written = Written(store, BY_MINUTE)
        self.written.publish(sold(1, ann=10, bob=20), 6, 2 * MINUTE_MS)
        self.written.begin(2)
        self.written.commit(sold(1, ann=1, bob=2), 3, 2 * MINUTE_MS)
        self.written.publish(sold(1, ann=11, bob=22), 0, 3 * MINUTE_MS)
        self.written.commit(sold(2, cy=1_000), 3, 4 * MINUTE_MS)
        self.written.commit(sold(1, ann=5, dee=7), 6, 5 * MINUTE_MS)

    def answer(self, sql):
        """The rows of the serving layer's own answer."""
        return self.connection.sql(sql).rows()

    def running_questions(self):
        """How many questions the server is answering."""
        origin = self.url.removesuffix("/console/")
        return len(httpx.get(f"{origin}/v1/sql", trust_env=False).json()["questions"])

    async def _serve(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        engine, limits = EngineInProcess(self.connection), Limits()
        state = State(self._project, engine, limits)
        logins = {("root", "secret"): "admin"}
        access = Access(lambda name, password: logins.get((name, password)), guests=True)
        made = app(engine, state, access=access, limits=limits, console=CONSOLE)
        await serve(made, 0, self._stop, self._begun)
        state.close()

    def _begun(self, port):
        self.url = f"http://127.0.0.1:{port}/console/"
        self._ready.set()

    @contextmanager
    def running(self):
        """Serves until the block is left."""
        thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="console")
        thread.start()
        try:
            assert self._ready.wait(30)
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(30)
            assert not thread.is_alive()
