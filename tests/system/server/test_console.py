"""The console in a real browser, on a real server over a store.

A server takes seconds to start, so that one serves nearly all tests. Those that change its store
are the last ones.
"""

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.console import (
    ADMIN,
    MINUTE_MS,
    READER,
    Site,
    found_browser,
    opened_browser,
    opened_pages,
    sold,
)
from tests.support.places import INSTALL
from tests.support.waiting import until

pytestmark = pytest.mark.slow

SUMS = "SELECT buyer, sum(revenue) AS revenue FROM by_minute GROUP BY buyer ORDER BY buyer"
PHONE = {"viewport": {"width": 390, "height": 800}}


@pytest.fixture(scope="module")
def browser():
    if found_browser() is None:
        pytest.skip(f"Chromium is not installed; {INSTALL}")
    with opened_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site that only its users may ask, with an alert in its catalog."""
    folder = tmp_path_factory.mktemp("site")
    with Site(folder, "WITH_ALERT", with_users=True).running() as site:
        yield site


@pytest.fixture
def empty(tmp_path):
    with Site(tmp_path, empty=True).running() as site:
        yield site


@pytest.fixture
def visit(browser):
    """Opens a page of a site, as a guest."""
    with opened_pages(browser) as open_page:
        yield lambda site, place, **more: open_page(site.address, place, **more)


@pytest.fixture
def open_page(visit, site):
    """Opens a page of the site, as its reader."""
    return lambda place, **more: visit(site, place, **{**READER, **more})


def ask(page, sql):
    """Types a question over the one that is there, and runs it by the keyboard."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)
    page.keyboard.press("Control+Enter")


def rows(page):
    """The cells of the answer's table as text."""
    expect(page.locator("table.answer")).to_be_visible()
    return [
        line.locator("td").all_inner_texts() for line in page.locator("table.answer tbody tr").all()
    ]


PAGES = [
    ("overview", "Overview", "No process of the local stack runs"),
    ("views", "Views", "key: the start of the window"),
    ("sql", "SQL", "select * from by_minute limit 20"),
    ("publications", "Publications", "Publication 2"),
    ("quarantine", "Quarantine", "No event waits in quarantine."),
    ("lateness", "Lateness", "2 ticks since the cut"),
    ("alerts", "Alerts", "There is none yet."),
]


def go(page, place):
    page.goto(page.url.split("#")[0] + f"#/{place}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_page_loads_and_fits_a_phone(open_page, scheme):
    page = open_page("overview", color_scheme=scheme, **PHONE)
    for place, title, text in PAGES:
        go(page, place)
        expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible()
        expect(page.locator("main")).to_contain_text(text)
        expect(page.locator("#connection")).to_have_text("connected")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    for link in page.locator("nav a").all():
        box = link.bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= 390, link.inner_text()


@pytest.mark.parametrize(("with_users", "psql"), [(False, "trilayer"), (True, "-U NAME trilayer")])
def test_the_server_says_its_addresses_and_nothing_at_its_end(tmp_path, with_users, psql):
    with Site(tmp_path, with_users=with_users).running() as site:
        address = site.address
    console, clients = (tmp_path / "serve.log").read_text().splitlines()
    assert console.split() == ["console", address]
    assert re.fullmatch(rf"SQL clients +psql -h 127.0.0.1 -p \d+ {psql}", clients)


def test_a_store_without_anything_says_what_to_do(empty, visit):
    page = visit(empty, "overview", expected=["409"])
    warnings = page.locator("section[aria-label=Warnings]")
    expect(warnings).to_contain_text("There is no publication yet.")
    expect(warnings).to_contain_text("trilayer up starts both layers.")
    for place, text in (
        ("views", "revenue"),
        ("publications", "There is no publication yet."),
        ("lateness", "no layer has run on its stream yet"),
        ("alerts", "The catalog declares no alerts."),
    ):
        go(page, place)
        expect(page.locator("main")).to_contain_text(text)


DRAWN = """
window.drawn = [];
const { fillText } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  window.drawn.push(text);
  return fillText.call(this, text, ...place);
};
"""
"""Keeps the texts that charts draw."""


def test_overview_shows_what_the_layers_share(open_page):
    page = open_page("overview", script=DRAWN)
    card = page.locator("article", has_text="sales")
    expect(card).to_contain_text("batch 50 %")
    expect(card).to_contain_text("speed 50 %")
    shown = card.locator("dl div").all_inner_texts()
    wanted = {
        "in the log\nunknown",
        "up to the head\n18 events",
        "batch layer\n9 events",
        "speed layer\n9 events",
    }
    assert wanted <= set(shown)
    offsets = card.locator("details tbody tr").all_inner_texts()
    assert [row.split() for row in offsets] == [["0", "1,009", "1,018", "unknown"]]
    expect(card.locator("canvas")).to_have_count(2)
    expect(page.locator("section[aria-label=Warnings]")).to_contain_text("trilayer batch run")


@pytest.mark.parametrize("place", ["overview", "publications"])
def test_a_chart_names_its_axes_and_shows_no_years_for_one_moment(open_page, place):
    page = open_page(place, script=DRAWN)
    until(lambda: "events" in page.evaluate("drawn"))
    drawn = page.evaluate("drawn")
    times = [text for text in drawn if ":" in text]
    assert times
    assert not [text for text in drawn if text.startswith("20") and "-" in text]


def test_a_view_has_in_each_layer_what_sql_answers(open_page, site):
    for layer in ("merged", "batch", "speed"):
        page = open_page("views/by_minute" + ("" if layer == "merged" else f"/{layer}"))
        counted = site.answer(f"SELECT count(*) FROM {layer}.by_minute")[0][0]
        expect(page.locator("main")).to_contain_text(f"{counted} rows, in")
        wanted = site.answer(f"SELECT buyer, n, revenue FROM {layer}.by_minute")
        shown = [(row[0], int(row[3]), int(row[4])) for row in rows(page)]
        assert sorted(shown) == sorted(wanted)


def test_a_question_is_typed_run_sorted_and_remembered(open_page, site, tmp_path):
    page = open_page("sql")
    ask(page, SUMS)
    wanted = [[buyer, str(revenue)] for buyer, revenue in site.answer(SUMS)]
    assert rows(page) == wanted
    expect(page.locator(".provenance")).to_contain_text("merged from publication 2 (full")
    expect(page.locator(".provenance")).to_contain_text("the first 9 events")

    page.get_by_role("button", name="revenue").click()
    by_revenue = sorted(wanted, key=lambda row: int(row[1]))
    assert rows(page) == by_revenue
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("revenue")

    page.get_by_role("button", name="Chart").click()
    expect(page.locator("canvas")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    download.value.save_as(tmp_path / "answer.csv")
    text = Path(tmp_path / "answer.csv").read_text(encoding="utf-8")
    assert list(csv.reader(text.splitlines())) == [["buyer", "revenue"], *wanted]

    page.reload()
    page.locator("summary", has_text="Questions asked before").click()
    expect(page.locator("details .history li")).to_have_text([SUMS])


def test_values_that_numbers_of_a_browser_do_not_hold_are_exact(open_page):
    page = open_page("sql")
    ask(
        page,
        "SELECT 9007199254740993::BIGINT, '-12345678901234567890.05'::DECIMAL(38,2),"
        " '1969-12-31 23:59:59.999999'::TIMESTAMP, '2026-02-03'::DATE,"
        " 18446744073709551615::UBIGINT,"
        " [1.50::DECIMAL(4,2), NULL], INTERVAL '1 month 2 days', NULL,"
        " 123456789012345678901::DOUBLE, 0.1::DOUBLE + 0.2, 9007199254740991::DOUBLE",
    )
    assert rows(page) == [
        [
            "9007199254740993",
            "-12345678901234567890.05",
            "1969-12-31 23:59:59.999999",
            "2026-02-03",
            "18446744073709551615",
            "[1.50, null]",
            "1 month 2 days",
            "NULL",
            "1.2345678901234568e+20",
            "0.3",
            "9007199254740991",
        ]
    ]
    expect(page.get_by_text("0.3", exact=True)).to_have_attribute("title", "0.30000000000000004")


def test_an_empty_page_of_sql_offers_questions(open_page, site):
    page = open_page("sql")
    page.get_by_role("button", name="select * from by_minute order by n desc limit 10").click()
    assert len(rows(page)) == len(site.answer("SELECT 1 FROM by_minute"))


def test_a_large_answer_is_cut_and_says_so(open_page):
    page = open_page("sql")
    ask(page, "SELECT range AS number FROM range(25000)")
    expect(page.locator(".note")).to_contain_text("more than 10,000 rows")
    assert page.locator("table.answer tbody tr").count() == 2000


def test_names_are_completed(open_page):
    page = open_page("sql")
    page.locator(".cm-content").click()
    page.keyboard.type("select * from by_m")
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("by_minute")


def test_a_mistake_is_told_with_its_hint(open_page):
    page = open_page("sql", expected=["400"])
    ask(page, "SELECT * FROM by_hour")
    expect(page.get_by_role("alert")).to_contain_text("by_hour")
    expect(page.get_by_role("alert").locator(".hint")).to_contain_text("by_minute")


def test_a_question_is_cancelled_in_the_server_too(open_page, site):
    page = open_page("sql")
    ask(page, "SELECT sum(a.range * b.range) FROM range(100000) a, range(30000) b")
    until(lambda: site.running_questions() == 1)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".note")).to_have_text("The question was cancelled.")
    until(lambda: site.running_questions() == 0)


def test_lateness_is_what_arrivals_has(open_page, site):
    page = open_page("lateness/by_minute")
    wanted = site.answer("SELECT count(*), sum(n) FROM arrivals.by_minute GROUP BY _tick")
    assert sorted((int(row[1]), int(row[2])) for row in rows(page)) == sorted(wanted)
    expect(page.locator("canvas")).to_be_visible()
    assert page.locator(".u-legend th").all_inner_texts() == [
        "tick in which they arrived (UTC)",
        "at most 1 min late",
        "1 min to 1 h late",
        "1 h to 1 day late",
        "more than 1 day late",
    ]


def test_an_alert_has_its_states_counted(open_page):
    page = open_page("alerts")
    for state in ("early", "confirmed", "withdrawn", "added"):
        expect(page.locator(f".tag.{state}")).to_be_visible()
    expect(page.locator("main")).to_contain_text("There is none yet.")
    page.goto(page.url.replace("#/alerts", "#/overview"))
    expect(page.locator("main")).to_contain_text("Alert dear: no event has been judged yet.")


def test_a_reader_is_not_offered_what_an_admin_may_do(open_page):
    page = open_page("publications/1")
    expect(page.locator("#who")).to_have_text("ann (reader)")
    expect(page.locator("main")).to_contain_text("Publication 1")
    expect(page.get_by_role("button", name="Roll back")).to_have_count(0)


def test_a_lost_connection_is_said_and_comes_back(open_page):
    page = open_page("overview", expected=["ERR_INTERNET_DISCONNECTED"])
    expect(page.locator("#connection")).to_have_text("connected")
    page.context.set_offline(True)
    expect(page.locator("#connection")).to_contain_text("The connection is lost.")
    page.keyboard.press("2")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    page.context.set_offline(False)
    expect(page.locator("#connection")).to_have_text("connected")
    expect(page.locator("main")).to_contain_text("Rows of merged.by_minute")


FOCUSED = """
() => {
  const now = document.activeElement;
  const outlined = (element) => element && getComputedStyle(element).outlineStyle !== "none";
  const seen = outlined(now) || outlined(now.closest(".editor"));
  return { there: now !== document.body, seen, text: now.outerHTML.slice(0, 200) };
}
"""
REACHABLE = """
() => [...document.querySelectorAll("a, button, select, input, summary, pre, .scroll, .editor")]
  .filter((element) => !element.disabled && element.checkVisibility()).length
"""


def reached(page):
    """How many elements the tabulator goes through, all of which must show that they have focus."""
    page.locator(".skip").focus()
    passed = set()
    while (focused := page.evaluate(FOCUSED))["there"] and focused["text"] not in passed:
        assert focused["seen"], focused["text"]
        passed.add(focused["text"])
        page.keyboard.press("Tab")
    page.locator("main").focus()
    return len(passed)


def test_the_keyboard_reaches_everything(open_page):
    page = open_page("overview")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for digit, (_, title, text) in enumerate(PAGES, start=1):
        page.keyboard.press(str(digit))
        expect(page.locator("h1")).to_have_text(title)
        expect(page.locator("main")).to_contain_text(text)
        until(lambda: reached(page) == page.evaluate(REACHABLE))  # parts of a page come later


def test_motion_is_reduced_where_that_is_asked_for(open_page):
    blinking = "document.querySelector('.editor').shadowRoot.getAnimations().length"
    for wish, moves in (("no-preference", True), ("reduce", False)):
        page = open_page("overview", reduced_motion=wish)
        bar = page.locator(".bar .batch").first
        expect(bar).to_have_css("transition-duration", "0.4s" if moves else "0s")
        go(page, "sql")
        page.locator(".cm-content").click()
        expect(page.locator(".cm-cursor")).to_be_visible()
        assert bool(page.evaluate(blinking)) == moves


def test_the_theme_is_chosen_and_remembered(open_page):
    page = open_page("overview", color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    button = page.locator("#theme")
    button.click()
    button.click()
    expect(button).to_contain_text("dark")
    page.reload()
    expect(button).to_contain_text("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_a_live_answer_moves(open_page, site):
    page = open_page("sql")
    ask(page, SUMS)
    page.get_by_role("button", name="Live").click()
    expect(page.locator("main")).to_contain_text("kept current")
    site.written.commit(sold(3, zoe=77), 3, 6 * MINUTE_MS)
    expect(page.locator("table.answer")).to_contain_text("zoe")
    assert sorted(rows(page)) == [[buyer, str(sum_)] for buyer, sum_ in site.answer(SUMS)]


def test_who_goes_back_leaves_what_is_asked(open_page):
    page = open_page("overview", **ADMIN)
    page.goto(f"{page.url.partition('#')[0]}#/publications/1")
    page.get_by_role("button", name="Roll back to version 1").click()
    expect(page.locator("dialog")).to_be_visible()
    page.go_back()
    expect(page.locator("h1", has_text="Overview")).to_be_visible()
    expect(page.locator("dialog")).to_have_count(0)


def test_a_rollback_is_asked_twice(open_page):
    based_on = open_page("sql").get_by_label("Based on")
    expect(based_on).to_contain_text("2 (in force)")
    based_on.select_option("2")
    page = open_page("publications/1", **ADMIN)
    expect(page.locator("#who")).to_have_text("root (admin)")
    page.get_by_role("button", name="Roll back to version 1").click()
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("dialog")).to_contain_text("Really put version 1 in force?")
    page.get_by_role("button", name="Leave it").click()
    expect(page.locator("#in-force")).to_have_text("publication 2")

    page.get_by_role("button", name="Roll back to version 1").click()
    page.get_by_label("Hold it").check()
    page.get_by_label("Why it is held").fill("a look at it")
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Yes, roll back to version 1").click()
    expect(page.locator("dialog")).to_contain_text("Version 1 is in force.")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#in-force")).to_have_text("publication 1, held")
    expect(based_on).to_contain_text("1 (in force)")
    expect(based_on).to_have_value("2")
