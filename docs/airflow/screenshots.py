"""Takes the pictures of docs/airflow.md in headless Chromium.

From a running `trilayer up` or `trilayer demo`.

    sudo apt-get install chromium chromium-driver
    .venv/bin/python docs/airflow/screenshots.py [HOME]      # HOME of the stack: .trilayer, or
    .trilayer/demo

Each picture is taken when the text that it is about is on the page. The failed run is made for it:
a rollback to a version that is not there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from trilayer_local import airflow

HERE = Path(__file__).parent
SIZE = (1500, 950)


def main() -> None:
    """Takes the pictures, one page after another."""
    home = Path(sys.argv[1] if len(sys.argv) > 1 else ".trilayer").resolve()
    running = airflow.running(home)
    if running is None:
        sys.exit(
            f"Airflow must run in {home}; it does not; start it with `trilayer up` in another"
            " terminal"
        )
    with running.client() as api:
        failed = _failed_rollback(api)
        newest = api.get(
            "/dags/lambda_batch/dagRuns",
            params={"state": "success", "order_by": "-run_after", "limit": 1},
        )
        run = newest.json()["dag_runs"][0]["dag_run_id"]
        asset = api.get("/assets").json()["assets"][0]
    browser = _browser()
    try:
        _log_in(browser, running)
        base = running.url
        _failed_page(browser, f"{base}/dags/lambda_rollback/runs/{failed}/tasks/rollback")
        _take(browser, f"{base}/dags", "dags", "lambda_rollback")
        _take(browser, f"{base}/dags/lambda_batch", "grid", "publish")
        _take(browser, f"{base}/dags/lambda_batch/runs/{run}", "run", "reconcile")
        _take(browser, f"{base}/assets/{asset['id']}", "asset", asset["name"])
        _graph(browser, base)
    finally:
        browser.quit()


def _failed_rollback(api) -> str:  # noqa: ANN001  # an httpx.Client
    api.patch("/dags/lambda_rollback", json={"is_paused": False}).raise_for_status()
    made = api.post(
        "/dags/lambda_rollback/dagRuns", json={"logical_date": None, "conf": {"version": 9999}}
    )
    made.raise_for_status()
    run: str = made.json()["dag_run_id"]
    _until(
        lambda: (
            api.get(f"/dags/lambda_rollback/dagRuns/{run}").json()["state"] in ("failed", "success")
        )
    )
    return run


def _browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--window-size={SIZE[0]},{SIZE[1]}",
    ):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def _log_in(browser: webdriver.Chrome, running: airflow.Airflow) -> None:
    browser.get(f"{running.url}/auth/login/")
    WebDriverWait(browser, 30).until(lambda b: b.find_elements(By.NAME, "username"))
    browser.find_element(By.NAME, "username").send_keys(running.user)
    browser.find_element(By.NAME, "password").send_keys(running.password)
    browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
    WebDriverWait(browser, 30).until(lambda b: "/auth/login" not in b.current_url)
    browser.execute_script(
        "localStorage.setItem('color-mode', 'light'); localStorage.setItem('chakra-ui-color-mode',"
        " 'light')"
    )


def _take(browser: webdriver.Chrome, url: str, name: str, text: str) -> None:
    _show(browser, url, text)
    _save(browser, name)


def _show(browser: webdriver.Chrome, url: str, text: str) -> None:
    browser.get(url)
    WebDriverWait(browser, 40).until(lambda b: text in b.find_element(By.TAG_NAME, "body").text)
    _settle(browser)


def _save(browser: webdriver.Chrome, name: str) -> None:
    browser.save_screenshot(str(HERE / f"{name}.png"))
    sys.stderr.write(f"{name}.png\n")


def _graph(browser: webdriver.Chrome, base: str) -> None:
    _show(browser, f"{base}/dags/lambda_batch", "publish")
    # The buttons above the grid: grid, perhaps Gantt, graph.
    buttons = [
        b
        for b in browser.find_elements(By.TAG_NAME, "button")
        if 55 < b.location["y"] < 100 and b.location["x"] < 200
    ]
    max(buttons, key=lambda b: b.location["x"]).click()
    WebDriverWait(browser, 40).until(
        lambda b: len(b.find_elements(By.CSS_SELECTOR, ".react-flow__node")) >= 5
    )
    _settle(browser)
    _save(browser, "graph")


def _failed_page(browser: webdriver.Chrome, url: str) -> None:
    """The failed task's log, with the frames of its exception folded away."""
    _show(browser, url, "version must be one that is kept")
    browser.execute_script(
        "for (const e of document.querySelectorAll('*')) if (!e.querySelector('div') &&"
        " e.textContent.trim().startsWith('File \"')) e.style.display = 'none'"
    )
    _save(browser, "failed")


def _settle(browser: webdriver.Chrome) -> None:
    """Returns when two looks at the page, a fifth of a second apart, see the same."""
    before = b""
    deadline = monotonic() + 15
    while monotonic() < deadline:
        now = browser.get_screenshot_as_png()
        if now == before:
            return
        before = now
        browser.execute_async_script("setTimeout(arguments[0], 200)")


def _until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = monotonic() + timeout_s
    while not condition():
        if monotonic() > deadline:
            sys.exit(f"this must come true within {timeout_s:g} s: {condition}")


if __name__ == "__main__":
    main()
