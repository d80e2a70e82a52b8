"""The batch layer's alerts: what an incremental run adds, what a full run judges, and what a walk
over the log in plain Python says, are the same; and a store in which that was damaged is told.
"""

import json
import logging
import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from batch_layer.clean import clean
from batch_layer.run import BatchLayer
from tests.support.alerts import (
    Walk,
    begin_generation,
    parsed_rows,
    published_rows,
    send,
    some_events,
    watched,
)
from tests.support.hostile import hostile, hostile_stream
from tests.support.in_process import Killed
from tests.support.layers import Pipeline, quick
from trilayer import Alert, Catalog, View, count
from trilayer.operations.verification.run import verification
from trilayer_core.errors import DifferenceError, IntegrityError, OvertakenError
from trilayer_core.project import Project
from trilayer_core.runtime import failpoints
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGenerations, as_judged, profile_of
from trilayer_core.store.orphans import PROFILE, find_orphans
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Reconciliation

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


class Alerting:
    """A pipeline with alerts, the walk over its log, and the profiles of its generations."""

    def __init__(self, pipeline, watched):
        self.pipeline, self.watched, self.walk = pipeline, watched, Walk(watched)
        self.store, self.rows = pipeline.store, {}
        self.identity = None

    def produce(self, values):
        self.walk.add(values, self.pipeline.produce(values))
        self.pipeline.wait_for_tick()

    def begin(self, alert_from, version, **rows):
        """Begins a generation of all groups, of which one has a profile with these totals."""
        profile = {card: {"n": 1, "total": total} for card, total in rows.items()}
        self.rows[version] = profile
        self.identity = self.pipeline.in_force().streams["payments"].origin_id
        group = self.watched.group_of("unusual")
        begin_generation(self.store, group, self.identity, alert_from, profile, version=version)

    def judged_by(self, publication):
        """What the twin is told of profiles: those by which the publication has judged."""
        group = self.watched.group_of("unusual")
        alert = next(alert for alert in group.alerts if alert.name == "unusual")
        recorded = AlertGenerations(self.store, group).of(alert.name, alert.fingerprint)
        generations = as_judged(recorded, publication.alerts["unusual"].judged)

        def of(partition, offset):
            by = profile_of(generations, self.identity, partition, offset)
            return by and (
                by.profiles["by_card"].version,
                self.rows[by.profiles["by_card"].version],
            )

        return of

    def check(self, publication, only=None):
        """The publication's alerts are those of the walk, and a verification agrees."""
        stream = publication.streams["payments"]
        for twin in self.watched.twins:
            name = twin.alert.name
            if only and name not in only:
                continue
            profile = self.judged_by(publication) if twin.alert.profile else None
            expected = self.walk.alerts(name, stream.origin_id, stream.cut, profile)
            assert parsed_rows(published_rows(self.store, publication, name)) == expected, name

    def rows_of(self, publication):
        return {n: published_rows(self.store, publication, n) for n in publication.alerts}

    def verify(self):
        p = self.pipeline
        return verification(Project(p.settings, p.catalog, p.store), lambda: p.spark)


@pytest.fixture
def alerting(broker, spark, store, new_topic):
    alerts = watched(new_topic())
    with Pipeline(alerts.catalog, quick(broker.bootstrap), store, spark) as pipeline:
        yield Alerting(pipeline, alerts)


def run_again_with(alerting, catalog):
    """The same pipeline with another catalog."""
    alerting.pipeline.catalog = catalog


def test_any_schedule_gives_what_a_walk_over_the_log_does(alerting):
    rng, pipeline = random.Random(1), alerting.pipeline
    alerting.produce(some_events(rng, 40))
    alerting.check(pipeline.batch(), ["large", "rising", "moved", "anywhere"])
    cut = pipeline.in_force().streams["payments"].cut
    alerting.begin(cut, 1, a=5, b=3)
    alerting.produce(some_events(rng, 40))
    alerting.check(pipeline.batch())
    alerting.produce(some_events(rng, 40))
    alerting.begin(dict(pipeline.in_force().streams["payments"].cut), 2, a=2, b=9)
    pipeline.rollback()
    alerting.check(pipeline.batch())
    incremental = alerting.rows_of(pipeline.in_force())
    pipeline.wait_for_tick()
    full = pipeline.batch(full=True)
    assert alerting.rows_of(full) == incremental
    assert {one.changed for one in full.alert_reconciliation.values()} == {0}
    alerting.check(full)
    found = alerting.verify()
    assert found.clean, list(found.faults())
    assert {n: a.equal for n, a in found.alerts.items()} == {
        n: len(rows) for n, rows in incremental.items()
    }


def test_hostile_events_precede_by_their_place(broker, spark, store, new_topic):
    """Each event raises an alert, so the events before it are known from the alerts before it."""
    stream = hostile_stream(new_topic())
    view = View("n", source=stream, key=["flag"], aggregates={"n": count()})
    alerts = [
        Alert(f"last_{k}", source=stream, key={"first": "substring(id, 1, 4)"}, last=k, rule="true")
        for k in (0, 1, 3)
    ]
    catalog = Catalog(views=[view], alerts=alerts)
    made = [one for one, _ in zip(hostile(5), range(150), strict=False)]
    with Pipeline(catalog, quick(broker.bootstrap), store, spark) as pipeline:
        fits = {}
        for chunk in (made[:80], made[80:]):
            places = pipeline.produce([(n % 2, one.value) for n, one in enumerate(chunk)])
            fits |= {p[:2]: one.fits for p, one in zip(places, chunk, strict=True)}
            pipeline.wait_for_tick()
            publication = pipeline.batch()
        there = sorted(place for place, fit in fits.items() if fit)
        for alert in alerts:
            rows = parsed_rows(published_rows(store, publication, alert.name))
            assert sorted(rows) == there
            for place, row in rows.items():
                before = [p for p in there if p[0] == place[0] and p[1] < place[1]][::-1]
                assert row["last"] == [rows[p]["event"] for p in before[: alert.last]]
        incremental = {a.name: published_rows(store, publication, a.name) for a in alerts}
        full = pipeline.batch(full=True)
        assert {a.name: published_rows(store, full, a.name) for a in alerts} == incremental
        found = verification(Project(pipeline.settings, catalog, store), lambda: spark)
        assert found.clean, list(found.faults())


def test_a_run_that_is_killed_is_continued(alerting, monkeypatch):
    """One run, killed a step further on each time."""
    rng, pipeline = random.Random(4), alerting.pipeline
    run_again_with(alerting, alerting.watched.with_alerts("large", "rising", "moved"))
    alerting.produce(some_events(rng, 20))
    pipeline.batch()
    alerting.produce(some_events(rng, 20))

    def killed():
        raise Killed

    run = pipeline.ingest()
    for point in ("recompute.before-record", "reconcile.before-record", "publish.before-pointer"):
        with monkeypatch.context() as patched:
            patched.setattr(failpoints, "_reached", failpoints.Counter())
            patched.setattr(failpoints, "_die", killed)
            patched.setenv(failpoints.VARIABLE, point)
            with pytest.raises(Killed):
                pipeline.publish(*pipeline.recompute(run))
    names = ["large", "rising", "moved"]
    alerting.check(pipeline.publish(*pipeline.recompute(run)), names)
    alerting.produce(some_events(rng, 5))
    alerting.check(pipeline.batch(), names)


def test_an_alert_that_is_added_or_changed_is_judged_over_the_whole_history(alerting, caplog):
    rng, pipeline, alerts = random.Random(5), alerting.pipeline, alerting.watched
    run_again_with(alerting, alerts.with_alerts("large"))
    alerting.produce(some_events(rng, 30))
    first = pipeline.batch()
    assert first.memories is None
    layer = BatchLayer(Project(pipeline.settings, alerts.catalog, pipeline.store))
    assert layer.covered_by(first.t_ms) is None
    with caplog.at_level(logging.INFO, "trilayer.batch"):
        run_again_with(alerting, alerts.with_alerts("large", "rising"))
        alerting.produce(some_events(rng, 30))
        second = pipeline.batch()
        assert "judged large (incremental), rising (full) of payments" in caplog.text
    alerting.check(second, ["large", "rising"])
    # A further alert of the group remembers more: the memory is made anew, for all of them.
    run_again_with(alerting, alerts.with_alerts("large", "rising", "moved", "anywhere"))
    alerting.produce(some_events(rng, 30))
    third = pipeline.batch()
    alerting.check(third, ["large", "rising", "moved", "anywhere"])
    assert {n: len(one.files) for n, one in third.memories.items()} == {
        group.name: len(third.memories[group.name].files) for group in pipeline.catalog.alert_groups
    }
    changed = replace(alerts.twins[1].alert, rule="amount < last[0].amount")
    run_again_with(alerting, replace(alerts.catalog, alerts=[alerts.twins[0].alert, changed]))
    run, recomputed = pipeline.recompute(pipeline.ingest())
    assert recomputed.alerts["rising"].kind == "full"
    run_again_with(alerting, alerts.with_alerts("large", "rising"))
    with pytest.raises(OvertakenError, match=r"alert\.rising"):
        pipeline.recompute(run)
    run_again_with(alerting, replace(alerts.catalog, alerts=[alerts.twins[0].alert, changed]))
    fourth = pipeline.publish(run, recomputed)
    assert sorted(fourth.alerts) == ["large", "rising"]
    falling = parsed_rows(published_rows(pipeline.store, fourth, "rising"))
    assert falling
    for row in falling.values():
        assert row["event"]["amount"] < row["last"][0]["amount"]
    pipeline.rollback(third.version)
    run_again_with(alerting, alerts.with_alerts("large", "rising", "moved", "anywhere"))
    alerting.produce(some_events(rng, 10))
    alerting.check(pipeline.batch(), ["large", "rising", "moved", "anywhere"])


def test_nothing_new_publishes_nothing_but_a_new_alert_does(alerting):
    pipeline = alerting.pipeline
    run_again_with(alerting, alerting.watched.with_alerts("large", "rising"))
    alerting.produce(some_events(random.Random(6), 20))
    first = pipeline.batch()
    pipeline.wait_for_tick()
    assert pipeline.batch().version == first.version
    run_again_with(alerting, alerting.watched.with_alerts("large", "rising", "anywhere"))
    pipeline.wait_for_tick()
    second = pipeline.batch()
    assert second.version == first.version + 1
    assert second.alerts["large"] == first.alerts["large"]


def test_scattered_keys_are_counted(alerting):
    pipeline = alerting.pipeline
    run_again_with(alerting, alerting.watched.with_alerts("rising"))
    event = {"amount": 1, "place": "here", "at": "2026-01-01T00:00:00.000000Z"}
    alerting.produce(
        [(p, json.dumps({"card": card, **event}).encode())
         for p, card in [(0, "a"), (1, "a"), (0, "b"), (0, "b"), (2, None), (1, None), (2, "c")]]
    )  # fmt: skip
    group = alerting.watched.group_of("rising")
    assert pipeline.batch().memories[group.name].scattered == 2
    alerting.produce([(0, json.dumps({"card": "c", **event}).encode())])
    assert pipeline.batch().memories[group.name].scattered == 3


# -- profiles --------------------------------------------------------------------------------------


def test_a_missing_profile_is_named_and_an_old_one_is_carried_over(alerting):
    rng, pipeline, store = random.Random(7), alerting.pipeline, alerting.store
    names = ["large", "moved", "rising", "unusual"]
    run_again_with(alerting, alerting.watched.with_alerts(*names))
    alerting.produce(some_events(rng, 20))
    early = pipeline.batch().streams["payments"].cut
    alerting.begin(early, 1, a=1, b=1)
    alerting.produce(some_events(rng, 40))
    second = pipeline.batch()
    before = alerting.rows_of(second)["unusual"]
    # It begins below the cut, where the batch layer has evaluated some events without it: those
    # stay as they are.
    alerting.begin(early, 2, a=3, b=0)
    alerting.produce(some_events(rng, 40))
    third = pipeline.batch()
    assert [row for row in alerting.rows_of(third)["unusual"] if row in before] == before
    late = [one.alert_from for one in third.alerts["unusual"].judged]
    assert late == [early, second.streams["payments"].cut]
    alerting.check(third, names)
    group = alerting.watched.group_of("unusual")
    old, new = (g.profiles["by_card"].file.path for g in AlertGenerations(store, group).all())
    assert [one for one in find_orphans(store) if one.kind == PROFILE] == []
    # Once no rollback can go back to before the second generation, the first profile is cleared
    # away, and nothing else of what is needed.
    pipeline.settings = pipeline.settings.model_copy(update={"keep_versions": 1})
    clean(Project(pipeline.settings, pipeline.catalog, store))
    assert not store.exists(old)
    assert store.exists(new)
    store.check_all(third.files)
    incremental = alerting.rows_of(third)
    full = pipeline.batch(full=True)
    assert alerting.rows_of(full) == incremental
    assert [one.generation for one in full.alerts["unusual"].judged] == [2]
    found = alerting.verify()
    assert found.clean, list(found.faults())
    unusual = found.alerts["unusual"]
    assert "generation 2" in unusual.since
    assert unusual.equal + unusual.not_judged == len(alerting.rows_of(full)["unusual"])
    assert unusual.not_judged
    store.delete(new)
    alerting.produce(some_events(rng, 40))
    with pytest.raises(IntegrityError, match=new):
        pipeline.batch()


# -- what was sent ---------------------------------------------------------------------------------


def test_what_was_sent_is_compared_alert_by_alert(alerting, caplog):
    rng, pipeline, store = random.Random(8), alerting.pipeline, alerting.store
    run_again_with(alerting, alerting.watched.with_alerts("large", "rising"))
    rising = alerting.watched.twins[1].alert
    group = alerting.watched.group_of("rising")
    alerting.produce(some_events(rng, 60))
    run, recomputed = pipeline.recompute(pipeline.ingest())
    identity = run.origin_ids["payments"]
    begin_generation(store, group, identity, {0: 8}, publication=1)
    files = recomputed.alerts["rising"].files
    rows = [row for file in files for row in store.read_table(file).to_pylist()]
    in_0 = sorted((r for r in rows if r["partition"] == 0), key=lambda r: r["offset"])
    late = [row for row in rows if row["partition"] != 0 or row["offset"] >= 8]
    extra = {**late[0], "partition": 2, "offset": 10_000}
    inside = next(
        {**late[0], "partition": p, "offset": o}
        for p, o, _, value in alerting.walk.sent
        if p == 1 and (p, o) not in {(r["partition"], r["offset"]) for r in rows}
    )
    differs = {**late[1], "payload": late[1]["payload"].replace('"id"', '"ID"')}
    # Two are not sent, one has other bytes, one is of an event above the cut, one is none.
    send(store, rising, [*late[3:], differs, extra, inside])
    with caplog.at_level(logging.INFO, "trilayer.batch"):
        publication = pipeline.publish(run, recomputed)
    found = publication.alert_reconciliation["rising"]
    early = len(rows) - len(late)
    assert early
    assert found.confirmed == len(late) - 2
    assert (found.withdrawn, found.differ, found.unexplained) == (1, 1, 2)
    assert found.added == early + 2
    assert found.why == {
        "added: came before the alert was watched": early,
        "added: not sent when it was compared": 2,
        "differ: unexplained": 1,
        "withdrawn: unexplained": 1,
    }
    assert "reconcile alert rising: confirmed" in caplog.text
    assert len(found.examples) == min(20, early + 4)
    assert in_0
    # The others were not sent at all, which is no difference.
    assert publication.alert_reconciliation["large"].unexplained == 0
    assert publication.alert_reconciliation["large"].added > 0


def test_only_what_is_not_explained_fails_a_run(alerting):
    pipeline, store = alerting.pipeline, alerting.store
    pipeline.settings = pipeline.settings.model_copy(update={"reconcile": "fail"})
    run_again_with(alerting, alerting.watched.with_alerts("moved"))
    alerting.produce(some_events(random.Random(9), 30))
    pipeline.catch_up()
    run, recomputed = pipeline.recompute(pipeline.ingest())
    group = alerting.watched.group_of("moved")
    identity = run.origin_ids["payments"]

    def sent(offset):
        row = {
            "topic_id": identity, "partition": 0, "offset": offset,
            "created_at": datetime(2026, 1, 1, tzinfo=UTC), "payload": "{}",
        }  # fmt: skip
        send(store, alerting.watched.twins[2].alert, [row])

    def withdrawn():
        return store.read_document(run.path("reconcile"), Reconciliation).alerts["moved"].withdrawn

    # Without a publication it knew nothing before offset 2, so that what it sent is explained.
    read_from = dict.fromkeys(range(3), 2)
    begin_generation(store, group, identity, read_from, read_from=read_from)
    sent(2)
    first = pipeline.publish(run, recomputed)
    assert first.alert_reconciliation["moved"].withdrawn == withdrawn() == 1

    # With a publication it knew all of the events that were before.
    cut = first.streams["payments"].cut
    begin_generation(store, group, identity, cut, publication=first.version)
    alerting.produce([(0, b"no event"), *some_events(random.Random(9), 10)])
    pipeline.catch_up()
    run, recomputed = pipeline.recompute(pipeline.ingest())
    sent(cut[0])
    with pytest.raises(DifferenceError, match="alert moved"):
        pipeline.publish(run, recomputed)
    assert Publications(store).in_force().version == first.version
    assert withdrawn() == 1


# -- what is damaged -------------------------------------------------------------------------------


def test_verify_finds_an_alert_that_is_missing_and_one_that_is_wrong(alerting):
    pipeline, store = alerting.pipeline, alerting.store
    run_again_with(alerting, alerting.watched.with_alerts("large", "rising", "anywhere"))
    alerting.produce(some_events(random.Random(10), 40))
    run, recomputed = pipeline.recompute(pipeline.ingest())
    table = store.read_table(recomputed.alerts["large"].files[0])
    rows = table.to_pylist()
    assert len(rows) >= 3
    rows[0]["payload"] += " "
    del rows[1]
    rows.append({**rows[-1], "offset": 4_000})
    wrong = store.write_table(
        f"batch/{layout.alert_files('large')}/99999999-wrong/part.parquet",
        type(table).from_pylist(rows, table.schema),
    )
    files = [wrong, *recomputed.alerts["large"].files[1:]]
    damaged = {**recomputed.alerts, "large": replace(recomputed.alerts["large"], files=files)}
    pipeline.publish(run, replace(recomputed, alerts=damaged))
    found = alerting.verify()
    large = found.alerts["large"]
    assert (large.differ, large.missing, large.extra) == (1, 1, 1)
    assert not found.clean
    assert sum("alerts equal those judged again, large" in line for line in found.faults()) == 3
    assert all(one.same for name, one in found.alerts.items() if name != "large")
