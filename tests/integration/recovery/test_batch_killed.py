"""I5: the batch layer killed at each of its failpoints and run again; the answers do not change.

The commands run in this process, and end at the failpoint. tests/system/recovery has some that are
killed with SIGKILL.
"""

import json

import pytest

from tests.support.in_process import ProjectInProcess
from tests.support.project import clean, wait_for_settled_tick

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def project(tmp_path_factory, broker, new_topic, spark):
    folder = tmp_path_factory.mktemp("batch")
    project = ProjectInProcess(folder, broker.bootstrap, new_topic(), spark)
    project.produce(300, broken=3)
    wait_for_settled_tick(project)
    project.run("batch", "run")
    project.check_answers()
    return project


def test_i5_run_killed_and_run_again(project):
    """One run after another, each killed a step further on: none changes an answer, and the one
    that lives has all of it.
    """
    before = project.answers()
    version = _history(project)[-1]["version"]
    for failpoint in (
        "ingest.before-write",
        "ingest.before-manifest",
        "ingest.after-manifest",
        "recompute.before-write",
        "recompute.before-record",
        "recompute.after-record",
    ):
        project.produce(100)
        wait_for_settled_tick(project)
        project.killed(failpoint, "batch", "run")
        assert project.answers() == before, f"killed at {failpoint}"
    project.run("batch", "run")
    project.check_answers()
    assert _history(project)[-1]["version"] == version + 1


def test_i5_publish_killed_and_run_again(project):
    """One publication, killed at each of its points in turn: it is in force from its pointer on,
    and all of it at once.
    """
    before = project.answers()
    project.produce(100)
    wait_for_settled_tick(project)
    for step in ("cut", "ingest", "recompute"):
        project.run("batch", step)
    project.killed("reconcile.before-record", "batch", "reconcile")
    project.run("batch", "reconcile")
    for failpoint in (
        "publish.before-version",
        "publish.in-version",
        "publish.before-pointer",
        "publish.in-pointer",
    ):
        project.killed(failpoint, "batch", "publish")
        assert project.answers() == before, f"killed at {failpoint}"
    for failpoint in (
        "publish.after-pointer",
        "publish.before-clean",
        "clean.in-versions",
        "clean.before-files",
        "clean.between-files",
    ):
        project.killed(failpoint, "batch", "publish")
        project.check_answers()
    project.run("batch", "publish")
    project.check_answers()


def _history(project):
    return json.loads(project.run("batch", "history", "--json")[0])


@pytest.mark.parametrize(
    "failpoint", ["rollback.before-pointer", "rollback.in-pointer", "rollback.after-pointer"]
)
def test_i5_rollback_killed_and_run_again(project, failpoint):
    history = _history(project)
    current = next(row["version"] for row in history if row["in_force"])
    older = max(row["version"] for row in history if row["version"] < current)
    project.killed(failpoint, "batch", "rollback", str(older))
    project.run("batch", "rollback", str(older))
    assert [row["version"] for row in _history(project) if row["in_force"]] == [older]
    project.run("batch", "run")
    project.check_answers()


def test_verify_is_clean_after_all_of_it(project):
    assert clean(project.run("verify", "--json")[0])
