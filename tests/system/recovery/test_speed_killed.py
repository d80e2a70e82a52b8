"""I5 and I6: the speed layer killed at its failpoints, its checkpoint deleted, its files damaged;
readers killed while they load.
"""

import json
import shutil
import signal

import pytest

from tests.support.project import Project, clean, ended, kill_group, wait_for_settled_tick
from tests.support.waiting import until
from trilayer_core.errors import TrilayerError
from trilayer_core.store.generations import Generations

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def project(tmp_path, broker, new_topic, spark_connect):
    return Project(
        tmp_path, broker.bootstrap, new_topic(), spark_remote=spark_connect, compact_after=3
    )


def _caught_up(project):
    def condition():
        try:
            return project.has_all()
        except TrilayerError:
            return False  # nothing has run yet

    until(condition, timeout_s=90)


def test_i5_segments_and_compaction_killed(project):
    """One life after another, each ended at the next failpoint; every answer on the way has every
    event once.
    """
    project.produce(500, broken=2)
    for failpoint in ("segment.before-write", "segment.before-commit", "segment.after-commit"):
        process = project.start("speed", "run", failpoint=failpoint)
        project.produce(50)
        assert ended(process) == -signal.SIGKILL
    for failpoint in (
        "compaction.before-write",
        "compaction.before-commit",
        "compaction.before-delete",
    ):
        process = project.start("speed", "run", failpoint=failpoint)

        def died(process=process):
            project.produce(5)
            return process.poll() is not None

        until(died, timeout_s=90)
        assert process.returncode == -signal.SIGKILL
        process.communicate()
    process = project.start("speed", "run")
    _caught_up(project)
    project.check_answers()
    stream = project.catalog().streams[0]
    (generation,) = Generations(project.store, stream).all()
    assert any(
        last > first for first, last in Generations(project.store, stream).spans(generation.name)
    ), "nothing was compacted"
    process.terminate()
    assert ended(process) == 0
    wait_for_settled_tick(project)
    project.run("batch", "run")
    project.check_answers()
    assert clean(project.run("verify", "--json")[0])


def test_checkpoint_deleted_begins_a_new_generation(project):
    project.produce(300)
    process = project.start("speed", "run")
    _caught_up(project)
    wait_for_settled_tick(project)
    project.run("batch", "run")
    project.produce(100)
    _caught_up(project)
    kill_group(process)
    stream = project.catalog().streams[0]
    first = Generations(project.store, stream).all()[-1]
    shutil.rmtree(project.folder / "store" / "speed" / stream.name / first.name / "checkpoint")
    project.check_answers()
    project.produce(100)
    process = project.start("speed", "run")
    _caught_up(project)
    project.check_answers()
    assert [g.number for g in Generations(project.store, stream).all()] == [
        first.number,
        first.number + 1,
    ]
    project.run("batch", "rollback", "1")
    project.check_answers()
    process.terminate()
    assert ended(process) == 0


def test_i5_reader_killed_while_it_loads(project):
    project.produce(100)
    wait_for_settled_tick(project)
    project.run("batch", "run")
    query = ("sql", "select sum(n) as n from by_user", "--format", "json")
    for failpoint in ("refresh.before-load", "refresh.before-commit", "refresh.after-commit"):
        project.killed(failpoint, *query)
        assert json.loads(project.run(*query)[0]) == [{"n": 100}]


def test_two_at_once_are_told(project):
    """Two speed layers on one store: one works, the other says so and ends."""
    project.produce(10)
    process = project.start("speed", "run")
    until((project.folder / "store" / "locks" / "speed").exists, timeout_s=60)
    _, err = project.run("speed", "run", expect=1)
    assert "must run once at a time" in err
    process.terminate()
    assert ended(process) == 0
