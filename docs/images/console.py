"""Takes the pictures of docs/console.md from a running server, in headless Chromium.

    .venv/bin/python docs/images/console.py URL

The server is that of `trilayer up` on a catalog like the one of tests/support/shop.py, to which
events are being sent, some of them late and some broken, and which has three publications.
"""

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).parent

BY_SHOP = """select shop, count(*) as minutes, sum(n) as events, sum(revenue) as revenue
from by_minute
group by shop
order by revenue desc"""
BY_MINUTE = """select minute, sum(n) as events, sum(n) filter (shop = 'Bern') as in_bern
from by_minute
where minute between now() - interval 45 minutes and now() - interval 1 minute
group by minute
order by minute"""

SAMPLES_MS = 60_000
"""How long the overview is watched, so that its charts have something to show."""


def main() -> None:
    """Takes them."""
    url = f"{sys.argv[1].rstrip('/')}/console/"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        take(browser, url)
        browser.close()


def take(browser: Browser, url: str) -> None:
    """Takes the pictures of the console at an address."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.set_default_timeout(120_000)
    page.goto(f"{url}#/overview")
    page.locator("canvas").first.wait_for()
    page.wait_for_timeout(SAMPLES_MS)
    save(page, "overview", 1000)
    visit(page, url, "publications", "canvas")
    save(page, "publications", 900)
    visit(page, url, "quarantine", "table >> nth=1")
    save(page, "quarantine", 560)
    visit(page, url, "lateness/by_minute", "table.answer")
    save(page, "lateness", 760)
    visit(page, url, "alerts", "table.answer")
    save(page, "alerts", 640)
    visit(page, url, "views/cards", "table.answer")
    save(page, "views", 860)
    ask(page, url, BY_SHOP)
    save(page, "sql", 700)

    page.emulate_media(color_scheme="dark")
    ask(page, url, BY_MINUTE)
    page.get_by_role("button", name="Chart").click()
    page.locator("canvas").wait_for()
    page.get_by_label("in_bern").check()
    save(page, "chart", 780)

    phone = browser.new_page(viewport={"width": 390, "height": 800})
    phone.set_default_timeout(120_000)
    phone.goto(f"{url}#/overview")
    phone.locator("canvas").first.wait_for()
    save(phone, "phone", 800)


def visit(page: Page, url: str, place: str, shown: str) -> None:
    """Shows a page, and waits for what it is about."""
    page.goto(f"{url}#/{place}")
    page.locator(shown).first.wait_for()


def ask(page: Page, url: str, sql: str) -> None:
    """Asks a question on the page for it."""
    visit(page, url, "sql", ".cm-content")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)
    page.keyboard.press("Control+Enter")
    page.locator("table.answer").wait_for()


def save(page: Page, name: str, height: int) -> None:
    """Saves the top of a page once its charts have been drawn."""
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": size["width"], "height": height})
    page.wait_for_timeout(500)
    page.mouse.move(0, 0)
    page.screenshot(path=HERE / f"console-{name}.png")


if __name__ == "__main__":
    main()
