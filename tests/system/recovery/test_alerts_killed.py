"""Alerts: the process is killed in a burst, a publication changes the profile, a rollback.

No event is missed, each alert has what came before its event, and the batch layer confirms it.
"""

import json
import random
import threading
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

import serving_layer
from tests.support.alert_topics import expected, produce, sent
from tests.support.console import found_browser, opened_browser, opened_pages
from tests.support.in_process import ProjectInProcess
from tests.support.project import clean, ended, kill_group, wait_for_settled_tick
from tests.support.waiting import until
from trilayer_core.store.alerts import AlertGenerations

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

CATALOG = """
from trilayer import Alert, Catalog, Stream, View, count, mean

clicks = Stream(
    "clicks", schema="user string, amount bigint not null, at timestamp", event_time="at",
    topic="TOPIC", partitions=2, record_key="user",
)
by_user = View(
    "by_user", source=clicks, key=["user"],
    aggregates={"n": count(), "mean_amount": mean("amount")},
)
rising = Alert(
    "rising", source=clicks, key=["user"], last=2, topic="TOPIC-alerts",
    rule="size(last) = 2 AND amount > last[0].amount AND last[0].amount > last[1].amount",
)
above = Alert(
    "above", source=clicks, key=["user"], profile=by_user, topic="TOPIC-alerts",
    rule="amount > 1.5 * profile.mean_amount",
)
# A second query, whose tasks and profile need slots beside those of the first.
by_amount = View("by_amount", source=clicks, key=["user", "amount"], aggregates={"n": count()})
again = Alert(
    "again", source=clicks, key=["user", "amount"], last=1, profile=by_amount,
    topic="TOPIC-alerts", rule="profile.n > 1000000",
)
catalog = Catalog(views=[by_user, by_amount], alerts=[rising, above, again])
"""


def rises(event, last):
    amounts = [event["amount"], *(one["amount"] for one in last)]
    return len(amounts) == 3 and amounts[0] > amounts[1] > amounts[2]


@pytest.fixture
def project(tmp_path, broker, new_topic, spark):
    topic = new_topic()
    project = ProjectInProcess(
        tmp_path, broker.bootstrap, topic, spark,
        **{"alerts.boundary_s": 5, "alerts.horizon_s": 0, "alerts.memory_mb": 512},
    )  # fmt: skip
    project.write_catalog(CATALOG.replace("TOPIC", topic))
    yield project
    project.end()


class Story:
    """The project, its events and what is there of them."""

    def __init__(self, project):
        self.project, self.random = project, random.Random(7)
        self.broker, self.topic = project.settings().bootstrap_servers, project.topic

    def produce(self, count):
        events = [
            {"user": self.random.choice(["ann", "bob", "cid", None]),
             "amount": self.random.randrange(100), "at": "2026-01-01T00:00:00Z"}
            for _ in range(count)
        ]  # fmt: skip
        broken = [b"{", {"user": "ann", "amount": None}, b"\xff\xfe"]
        produce(
            self.broker, self.topic, "user", [*events[: count // 2], *broken, *events[count // 2 :]]
        )

    def rising(self):
        return expected(self.broker, self.topic, "user", 2, rises, ["amount", "at"])

    def sent(self, alert="rising"):
        return sent(self.broker, f"{self.topic}-alerts", alert)

    def check_all_sent(self):
        """Every alert of the oracle is there, nothing else, and repeats have equal bytes."""
        should, have = self.rising(), {}

        def is_all_there():
            have.update(self.sent())
            return have.keys() >= should.keys()

        until(is_all_there, timeout_s=120)
        assert have.keys() == should.keys()
        for place, payloads in have.items():
            assert len({json.dumps(payload) for payload in payloads}) == 1, "one id, two contents"
            amounts = [event["amount"] for event in payloads[0]["last"]]
            assert amounts == [event["amount"] for event in should[place]]

    def states(self, alert):
        project = self.project
        with serving_layer.connect(project.catalog(), project.settings(), project.store) as c:
            rows = c.sql(f"select state, count(*) as n from alerts.{alert} group by all").dicts()
        return {row["state"]: row["n"] for row in rows}

    def generations(self):
        group, _ = self.project.catalog().alert_groups
        return AlertGenerations(self.project.store, group).all()

    def start(self):
        ready = self.project.folder / "alerts.ready"
        ready.unlink(missing_ok=True)
        process = self.project.start("alerts", "run", "--ready-file", str(ready))

        def is_ready():
            assert process.poll() is None, process.communicate()
            return ready.exists()

        until(is_ready, timeout_s=120)
        return process


@contextmanager
def console_of(project):
    """A function that waits for what the console should show of `rising`: the numbers by state, and
    the state of the newest alert. The page stays open, so that it has to follow.
    """
    if found_browser() is None:
        yield lambda *_: None  # the console's own tests say so
        return
    ready = project.folder / "serve.ready"
    process = project.start("serve", "--port", "0", "--http-port", "0", "--ready-file", str(ready))
    until(lambda: ready.exists() or process.poll() is not None, timeout_s=60)
    assert process.poll() is None, process.communicate()
    with opened_browser() as browser, opened_pages(browser) as open_page:
        page = open_page(json.loads(ready.read_text())["console"], "alerts/rising")

        def shows(states, newest):
            for state in ("early", "confirmed", "withdrawn", "added"):
                number = page.locator("dl dd", has=page.locator(f".tag.{state}"))
                expect(number).to_have_text(f"{state} {states.get(state, 0):,}")
            rows = page.locator("table.answer tbody tr")
            expect(rows).to_have_count(min(sum(states.values()), 200))
            expect(rows.first.locator(".tag")).to_have_text(newest)

        yield shows
    process.terminate()
    assert ended(process) == 0


def test_alerts_are_exact_through_kills_publications_and_a_rollback(project):
    story = Story(project)
    process = story.start()
    story.produce(300)
    story.check_all_sent()
    _killed_in_a_burst(story, process)
    process = story.start()
    story.check_all_sent()
    assert story.sent("above") == {}, "there is no profile yet"
    wait_for_settled_tick(project)
    project.run("batch", "run")
    rising = len(story.rising())
    until(lambda: story.states("rising") == {"confirmed": rising})
    _another_generation_has_the_profile(story)
    with console_of(project) as shows:
        shows({"confirmed": rising}, "confirmed")
        story.produce(300)
        story.check_all_sent()
        until(lambda: len(story.sent("above")) > 20, timeout_s=60)
        assert {one["profile_version"] for (one, *_) in story.sent("above").values()} == {1}
        early = len(story.rising()) - rising
        until(lambda: story.states("rising") == {"confirmed": rising, "early": early})
        shows({"confirmed": rising, "early": early}, "early")
        wait_for_settled_tick(project)
        project.run("batch", "run")
        project.run("batch", "run", "--full")
        shows({"confirmed": rising + early}, "confirmed")
    above = len(story.sent("above"))
    until(lambda: story.states("above") == {"confirmed": above})
    assert story.states("rising") == {"confirmed": rising + early}
    assert clean(project.run("verify", "--json")[0])
    project.run("batch", "rollback", "1")
    assert story.states("rising") == {"confirmed": rising, "early": early}
    process.terminate()
    assert ended(process) == 0


def _killed_in_a_burst(story, process):
    producing = threading.Thread(target=story.produce, args=(4_000,))
    producing.start()
    began = len(story.sent())
    until(lambda: len(story.sent()) > began + 50, timeout_s=60)
    kill_group(process)
    producing.join()


def _another_generation_has_the_profile(story):
    def has():
        newest = story.generations()[-1]
        return newest.version == 1 and "by_user" in newest.profiles

    until(has, timeout_s=60)
