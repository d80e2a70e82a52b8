"""`trilayer serve` as a process, for psycopg and a browser: tests/system/server has the rest."""

import json

import psycopg
import pytest
from playwright.sync_api import expect

from tests.support.console import READER, Site, found_browser, opened_browser, opened_pages
from tests.support.places import INSTALL

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with Site(tmp_path_factory.mktemp("site"), with_users=True).running() as site:
        yield site


def test_psycopg_reads_what_the_reader_in_process_has(site):
    ready = json.loads(site.ready.read_text())
    login = {"user": "ann", "password": "secret", "dbname": "trilayer"}
    with psycopg.connect(host="127.0.0.1", port=ready["ports"][0], **login) as client:
        for layer in ("merged", "batch", "speed"):
            sql = f"SELECT buyer, n, revenue FROM {layer}.by_minute ORDER BY ALL"
            assert client.execute(sql).fetchall() == [tuple(row) for row in site.answer(sql)]


def test_a_browser_shows_the_views(site):
    if found_browser() is None:
        pytest.skip(f"Chromium is not installed; {INSTALL}")
    with opened_browser() as browser, opened_pages(browser) as open_page:
        page = open_page(site.address, "views/by_minute", **READER)
        rows = page.locator("table.answer tbody tr")
        expect(rows).to_have_count(len(site.answer("FROM by_minute")))
