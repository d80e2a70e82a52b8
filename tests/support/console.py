"""The console in a browser, on `trilayer serve` as a process of its own."""

import json
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx
import pyarrow as pa
from playwright.sync_api import expect, sync_playwright

import serving_layer
from benchmarks.written import Written
from tests.support.places import PROJECT
from tests.support.waiting import until
from trilayer import Alert, Catalog, Stream, View, count, sum_, tumbling
from trilayer.command_lines import trilayer_command
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server.serving import users

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

PATIENCE_MS = 30_000
"""How long a page may take to show something while other tests need the processors."""

SALES = Stream("sales", "buyer string, price int, at timestamp", event_time="at")
BY_MINUTE = View(
    "by_minute",
    source=SALES,
    key={"buyer": "buyer", "minute": tumbling("at", "1 minute")},
    aggregates={"n": count(), "revenue": sum_("price")},
)
DEAR = Alert("dear", source=SALES, key=["buyer"], rule="price > 100")
CATALOG = Catalog(views=[BY_MINUTE])
WITH_ALERT = Catalog(views=[BY_MINUTE], alerts=[DEAR])
MINUTE_MS = 60_000

ADMIN = {"http_credentials": {"username": "root", "password": "secret"}}
READER = {"http_credentials": {"username": "ann", "password": "secret"}}
"""Options of a page that is opened by a user of a site with `users`."""


def found_browser():
    """The path of a browser of this machine; None if it has none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def opened_browser():
    """The browser of this machine."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found_browser(), args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened_pages(browser):
    """Opens pages of a console, each as a visitor of its own. Nothing may be wrong in them that is
    not `expected`: no error or warning in the browser's console, no request to another server.
    """
    contexts, wrong = [], []

    def open_page(address, place, expected=(), script="", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        context.add_init_script(script)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)

        def said(text):
            if not any(re.search(each, text) for each in expected):
                wrong.append(text)

        page.on("console", lambda m: said(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said(str(error)))
        mine = (address, f"blob:{address}")
        page.on("request", lambda r: None if r.url.startswith(mine) else said(r.url))
        page.goto(f"{address}{place}" if place.startswith("docs") else f"{address}#/{place}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == [], wrong


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
        address: The address of the server.
        ready: The file in which the server writes its addresses.
        written: The store's writer.
        connection: Asks the same store.
    """

    def __init__(self, folder, catalog="CATALOG", *, empty=False, with_users=False):
        self._folder, self._home = folder, folder / "home"
        self.ready = folder / "serve.ready"
        self._environment = os.environ | {
            "PYTHONPATH": str(PROJECT),
            "TRILAYER_CATALOG": f"{__name__}:{catalog}",
            "TRILAYER_STORE": str(folder / "store"),
            "TRILAYER_HOME": str(self._home),
        }
        settings = Settings(home=self._home, store=str(folder / "store"))
        store = Store(settings.store)
        if not empty:
            self._write(store)
        self._login = ("root", "secret") if with_users else None
        if with_users:
            users(settings).put("root", "secret", "admin")
            users(settings).put("ann", "secret", "reader")
        self.connection = serving_layer.connect(globals()[catalog], settings, store)

    def _write(self, store):
        self.written = Written(store, BY_MINUTE, end=1_000)  # the log began before
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
        return len(self._get("v1/sql").json()["questions"])

    def _get(self, path):
        return httpx.get(f"{self.address}{path}", auth=self._login, trust_env=False, timeout=60)

    @contextmanager
    def running(self):
        """Serves until the block is left."""
        ready, log = self.ready, self._folder / "serve.log"
        command = trilayer_command(
            "serve", "--port", "0", "--http-port", "0", "--ready-file", str(ready)
        )
        with (
            self.connection,
            log.open("w") as said,
            subprocess.Popen(
                command, cwd=self._folder, env=self._environment, stdout=said, stderr=said
            ) as process,
        ):
            try:
                until(lambda: ready.exists() or process.poll() is not None, timeout_s=60)
                assert process.poll() is None, log.read_text()
                self.address = json.loads(ready.read_text())["console"]
                # Its workers have started once it has answered what pages ask first.
                until(lambda: self._get("v1/status").status_code == 200, timeout_s=60)
                yield self
            finally:
                process.terminate()
                assert process.wait(60) == 0, log.read_text()
