"""Which generation of a group of alerts goes on, and where another one begins."""

import json
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from speed_layer.alerts.succession import AlertSuccession, Progress
from trilayer import Alert, Catalog, Stream, View, count
from trilayer_core.definitions.alerts import AlertGroup
from trilayer_core.log.broker import Topic
from trilayer_core.runtime.settings import Settings
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGenerations
from trilayer_core.store.origins import Origins
from trilayer_core.store.pointer import Pointer, PointerFile
from trilayer_core.store.publication import (
    Publication,
    PublishedMemory,
    PublishedStream,
    PublishedView,
)
from trilayer_core.store.publications import Publications

clicks = Stream("clicks", schema="user string, amount int, at timestamp", event_time="at")
by_user = View("by_user", source=clicks, key=["user"], aggregates={"n": count()})


def group(rule="size(last) = 2", last=2, profile=None) -> AlertGroup:
    alert = Alert("often", source=clicks, key=["user"], rule=rule, last=last, profile=profile)
    (found,) = Catalog(views=[by_user], alerts=[alert]).alert_groups
    return found


@dataclass
class Broker:
    """The offsets of a log with two partitions, and those of an hour ago."""

    ends: dict = field(default_factory=lambda: {0: 100, 1: 50})
    beginnings: dict = field(default_factory=lambda: {0: 0, 1: 0})
    an_hour_ago: dict = field(default_factory=lambda: {0: 60})

    def end(self, topic):
        return dict(self.ends)

    def beginning(self, topic):
        return dict(self.beginnings)

    def index(self, topic, t_ms):
        return dict(self.an_hour_ago), {}


@pytest.fixture
def log():
    return Broker()


@pytest.fixture
def succession(store, log):
    def of(group):
        topic = Topic("clicks", "topic-1", (0, 1))
        return AlertSuccession(group, Settings(), store, topic, log)

    return of


def judged(store, group, number, batch, ends):
    """Spark has finished a batch with these end offsets."""
    path = Progress(store, group, number).path
    offsets = {"clicks": {str(p): offset for p, offset in ends.items()}}
    store.write(f"{path}/offsets/{batch}", f"v1\n{{}}\n{json.dumps(offsets)}".encode())
    store.write(f"{path}/commits/{batch}", b"v1\n{}")


def publish(store, version, cut, group, *, origin_id="topic-1", answer=b"") -> Publication:
    """A version with what is remembered of each key, and a view of one file."""
    rows = pa.table({"user": ["u"], "n__n": pa.array([len(answer)], pa.int64())})
    file = store.write_table(f"batch/by_user/{version}/part.parquet", rows)
    memory = store.write_table(f"batch/memory/{version}/part.parquet", pa.table({"a": [1]}))
    publication = Publication(
        version, 1_000, version, "incremental", None, 1_000,
        {"clicks": PublishedStream(origin_id, clicks.fingerprint, cut, 1, 0, 0)},
        {"by_user": PublishedView(by_user.fingerprint, [file])},
        {},
        memories={group.name: PublishedMemory(group.memory_fingerprint, [memory])},
    )  # fmt: skip
    store.create_document(layout.version(version), publication)
    _, digest = Publications(store)._read(version)
    PointerFile(store).write(
        Pointer(version, digest, version, "publish", 1_000, [*range(1, version)], [], None)
    )
    return publication


def test_the_first_judges_from_the_end_and_remembers_an_hour(succession):
    first = succession(group()).choose()
    assert first.number == 1
    assert first.alert_from == {0: 100, 1: 50}
    assert first.read_from == {0: 60, 1: 50}, "partition 1 has had no record for an hour"
    assert "knows events since" in first.why


def test_the_first_of_a_short_log_knows_all(succession, log):
    log.an_hour_ago = {0: 0, 1: 0}
    assert "knows all events" in succession(group()).choose().why


def test_it_goes_on_with_the_same_definitions(succession):
    first = succession(group()).choose()
    assert succession(group()).choose() == first


def test_changed_rules_judge_from_where_the_former_ones_came(succession, store, log):
    old, new = group(), group("size(last) = 1")
    first = succession(old).choose()
    log.ends = {0: 200, 1: 90}
    judged(store, old, first.number, 0, {0: 150, 1: 80})
    judged(store, old, first.number, 1, {0: 170, 1: 85})
    second = succession(new).choose()
    assert (second.number, second.alert_from) == (2, {0: 170, 1: 85})
    assert "definitions have changed" in second.why


def test_nothing_finished_is_judged_again(succession, store, log):
    succession(group()).choose()
    log.ends = {0: 200, 1: 90}
    assert succession(group("size(last) = 1")).choose().alert_from == {0: 100, 1: 50}


def test_a_batch_that_was_planned_and_not_finished_does_not_count(succession, store, log):
    first = succession(group()).choose()
    log.ends = {0: 200, 1: 90}
    judged(store, group(), first.number, 0, {0: 150, 1: 80})
    store.write(f"{Progress(store, group(), 1).path}/offsets/1", b"v1\n{}\n{}")
    assert succession(group("size(last) = 1")).choose().alert_from == {0: 150, 1: 80}


def test_records_that_the_log_has_lost_are_judged_when_they_come_again(succession, store, log):
    first = succession(group()).choose()
    judged(store, group(), first.number, 0, {0: 100, 1: 50})
    log.ends = {0: 90, 1: 50}
    second = succession(group()).choose()
    assert "it has lost records" in second.why
    assert second.alert_from == {0: 90, 1: 50}


def test_what_retention_has_deleted_is_passed_over(succession, store, log, caplog):
    first = succession(group()).choose()
    judged(store, group(), first.number, 0, {0: 100, 1: 50})
    log.ends, log.beginnings = {0: 400, 1: 50}, {0: 300, 1: 0}
    second = succession(group()).choose()
    assert second.alert_from == {0: 300, 1: 50}
    assert "offsets [100, 300) of partition 0 raise no early alert" in caplog.text


def test_an_added_partition_is_judged_from_its_beginning(succession, store, log):
    first = succession(group()).choose()
    judged(store, group(), first.number, 0, {0: 100, 1: 50})
    log.ends = {0: 100, 1: 50, 2: 7}
    log.beginnings[2] = 0
    assert succession(group("size(last) = 1")).choose().alert_from == {0: 100, 1: 50, 2: 0}


def test_a_new_origin_is_judged_from_its_start(succession, store, log):
    of = succession(group())
    of.choose()
    present = Origins(store, clicks).present()
    Origins(store, clicks).begin(of.topic, {0: 30, 1: 0}, present, "lost", {})
    second = of.choose()
    assert second.alert_from == {0: 30, 1: 0}
    assert "a new origin has begun" in second.why


def test_a_publication_says_what_came_before(succession, store):
    publish(store, 1, {0: 80, 1: 40}, group())
    first = succession(group()).choose()
    assert (first.version, first.read_from) == (1, {0: 80, 1: 40})
    assert len(first.memory) == 1


def test_a_cut_above_what_was_judged_is_of_no_use(succession, store, log):
    publish(store, 1, {0: 80, 1: 40}, group())
    first = succession(group()).choose()
    judged(store, group(), first.number, 0, {0: 120, 1: 60})
    log.ends = {0: 900, 1: 900}
    publish(store, 2, {0: 800, 1: 800}, group())
    second = succession(group()).begin("asked to")
    assert (second.version, second.alert_from) == (1, {0: 120, 1: 60})


@pytest.mark.parametrize("of", ["another group", "another origin"])
def test_other_memories_are_of_no_use(succession, store, of):
    other = group("size(last) = 1", last=1) if of == "another group" else group()
    publish(store, 1, {0: 80, 1: 40}, other, origin_id="topic-1" if other != group() else "gone")
    assert succession(group()).choose().version is None


def test_files_that_are_missing_end_a_generation(succession, store):
    publish(store, 1, {0: 80, 1: 40}, group())
    first = succession(group()).choose()
    store.delete(first.memory[0].path)
    publish(store, 2, {0: 90, 1: 40}, group())
    second = succession(group()).choose()
    assert (second.number, second.version) == (2, 2)
    assert "is missing" in second.why


# -- when another one is due -----------------------------------------------------------------------


def test_earlier_events_are_a_reason(succession, store):
    of = succession(group())
    first = of.choose()
    assert of.due(first, {0: 100, 1: 50}, 5, {}) == ""
    publish(store, 1, {0: 80, 1: 40}, group())
    assert "version 1 remembers earlier events" in of.due(first, {0: 100, 1: 50}, 5, {})
    assert of.due(first, {0: 70, 1: 50}, 5, {}) == "", "its cut is above what was judged"


def test_a_large_state_is_a_reason(succession, store):
    publish(store, 1, {0: 80, 1: 40}, group())
    of = succession(group())
    first = of.choose()
    assert of.due(first, {0: 100, 1: 50}, 2_000_000, {}) == "", "no publication bounds it"
    publish(store, 2, {0: 90, 1: 50}, group())
    assert of.due(first, {0: 100, 1: 50}, 5, {}) == ""
    assert "its state has 2,000,000 keys" in of.due(first, {0: 100, 1: 50}, 2_000_000, {})


def test_only_another_profile_is_a_reason(succession, store):
    of = succession(group("profile.n > 1", last=0, profile=by_user))
    publish(store, 1, {0: 80, 1: 40}, of.group, answer=b"x")
    first = of.choose()
    assert first.profiles["by_user"].version == 1
    same = publish(store, 2, {0: 80, 1: 40}, of.group, answer=b"x")
    assert of.due(first, {0: 100}, 5, of.profiles(same)) == ""
    other = publish(store, 3, {0: 80, 1: 40}, of.group, answer=b"xy")
    prepared = of.profiles(other)
    assert "version 3 has another profile by_user" in of.due(first, {0: 100}, 5, prepared)
    second = of.begin("asked to", prepared)
    assert second.profiles == prepared, "what was prepared is used"
    assert AlertGenerations(store, of.group).of("often", of.group.alerts[0].fingerprint) == [
        first,
        second,
    ]
