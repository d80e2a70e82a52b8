"""The steps as a scheduler calls them: each names its run, an old T does no harm, and a cut that
lags is told.
"""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.in_process import ProjectInProcess
from tests.support.project import wait_for_settled_tick

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def project(tmp_path_factory, broker, new_topic, spark):
    folder = tmp_path_factory.mktemp("steps")
    return ProjectInProcess(
        folder,
        broker.bootstrap,
        new_topic(),
        spark,
        **{"batch.every_s": 60},
        late_after=2,
    )


def _cut(project, *options):
    return json.loads(project.run("batch", "cut", "--at-least", *options)[0])


def _finish(project, token):
    for step in ("ingest", "recompute", "reconcile"):
        project.run("batch", step, "--run", str(token))
    return json.loads(project.run("batch", "publish", "--run", str(token), "--json")[0])


def _minutes_ago(number):
    return (datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=number)).isoformat()


def test_a_cut_that_lags_is_late(project):
    project.produce(70)
    found = _cut(project, "--until", _minutes_ago(3))
    assert _finish(project, found["token"])["events"] == 0
    out, _ = project.run("status")
    assert "LATE" in out
    status = json.loads(project.run("status", "--json")[0])["publication"]
    assert status["late"]
    assert 180 <= status["lag_s"] < 400


def test_a_newer_t_is_published_and_an_older_one_is_covered(project):
    wait_for_settled_tick(project)
    published = _finish(project, _cut(project)["token"])
    assert (published["events"], published["changed_keys"]["by_user"], published["reason"]) == (
        70,
        7,
        "publish",
    )
    assert _cut(project, "--until", _minutes_ago(2)) == {
        "covered_by": published["version"],
        "t": published["t"],
    }
    assert not json.loads(project.run("status", "--json")[0])["publication"]["late"]


def test_a_full_run_of_an_older_t_recomputes_what_is_ingested(project):
    newest = json.loads(project.run("batch", "history", "--json")[0])[-1]
    found = _cut(project, "--full", "--until", _minutes_ago(2))
    assert (found["t"], found["full"]) == (newest["t"], True)
    published = _finish(project, found["token"])
    assert published["kind"] == "full"
    assert set(published["corrected_keys"].values()) == {0}
    report = json.loads(project.run("batch", "reconciliation", "--full", "--json")[0])
    assert report["version"] == published["version"]
    assert {view: counts["changed"] for view, counts in report["views"].items()} == dict.fromkeys(
        report["views"], 0
    )


def test_a_run_that_was_overtaken_ends_without_a_change(project):
    older = _cut(project, "--full")["token"]
    newer = _cut(project, "--full")["token"]
    before = project.run("batch", "history", "--json")[0]
    for step in ("ingest", "recompute", "reconcile", "publish"):
        _, err = project.run("batch", step, "--run", str(older), expect=3)
        assert f"got token {older}, the newest is {newer}: a later run has taken over" in err
    assert project.run("batch", "history", "--json")[0] == before


def test_a_run_recomputed_by_other_definitions_is_not_published(project):
    token = _cut(project, "--full")["token"]
    for step in ("ingest", "recompute"):
        project.run("batch", step, "--run", str(token))
    before = project.run("batch", "history", "--json")[0]
    definitions = project.folder / f"{project.module}.py"
    deployed_first = definitions.read_text()
    project.write_catalog(deployed_first.replace("amount > 5", "amount > 6"))
    for step in ("recompute", "reconcile", "publish"):
        _, err = project.run("batch", step, "--run", str(token), expect=3)
        assert "since the run was recomputed: hourly; run `trilayer batch run`" in err
    assert project.run("batch", "history", "--json")[0] == before
    project.write_catalog(deployed_first)
    assert _finish(project, token)["kind"] == "full"
