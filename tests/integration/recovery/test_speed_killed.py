"""I5 and I6: the speed layer killed at its failpoints, its checkpoint deleted; readers killed while
they load.

All of it happens in this process: what is killed ends at the failpoint, and does nothing more.
tests/system/recovery has a speed layer that is killed with SIGKILL.
"""

import json
import shutil

import pytest

from speed_layer.compaction import compact
from tests.support.in_process import Killed, ProjectInProcess
from tests.support.layers import Pipeline
from tests.support.project import clean, wait_for_settled_tick
from tests.support.waiting import until
from trilayer_core.runtime import failpoints
from trilayer_core.store.generations import Generations

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def project(tmp_path, broker, new_topic, spark):
    return ProjectInProcess(tmp_path, broker.bootstrap, new_topic(), spark)


@pytest.fixture
def pipeline(project, spark):
    with Pipeline(project.catalog(), project.settings(), project.store, spark) as pipeline:
        yield pipeline


class Ended(RuntimeError):
    """What a failpoint raises in a micro-batch, which Spark calls: it hands on errors alone."""


@pytest.fixture
def armed(monkeypatch):
    """A function that arms a failpoint, which raises once."""

    def arm(failpoint, error=Killed):
        def die():
            raise error

        monkeypatch.setattr(failpoints, "_reached", failpoints.Counter())
        monkeypatch.setattr(failpoints, "_die", die)
        monkeypatch.setenv(failpoints.VARIABLE, failpoint)

    return arm


def test_i5_segments_and_compaction_killed(project, pipeline, armed):
    """One life after another, each ended at the next failpoint; every answer on the way has every
    event once.
    """
    project.produce(500, broken=2)
    for failpoint in ("segment.before-write", "segment.before-commit", "segment.after-commit"):
        armed(failpoint, Ended)
        query = pipeline.start_speed()
        project.produce(50)
        until(lambda query=query: query.failure() is not None, timeout_s=60)
        pipeline.stop_speed()
        if failpoint == "segment.after-commit":
            assert project.answers()["by_user"], "what was committed is there"
    for _ in range(4):
        project.produce(5)
        pipeline.catch_up()
    of_stream = Generations(project.store, pipeline.stream)

    def compacted():
        return compact(of_stream, pipeline.catalog.views, pipeline.generation, 3, recent_ms=0)

    for failpoint in (
        "compaction.before-write",
        "compaction.before-commit",
        "compaction.before-delete",
    ):
        armed(failpoint)
        with pytest.raises(Killed):
            compacted()
        project.check_answers()
    while compacted():
        project.check_answers()
    (generation,) = of_stream.all()
    assert any(last > first for first, last in of_stream.spans(generation.name)), (
        "nothing was compacted"
    )
    wait_for_settled_tick(project)
    project.run("batch", "run")
    project.check_answers()
    assert clean(project.run("verify", "--json")[0])


def test_checkpoint_deleted_begins_a_new_generation(project, pipeline):
    project.produce(300)
    pipeline.catch_up()
    wait_for_settled_tick(project)
    project.run("batch", "run")
    project.produce(100)
    pipeline.catch_up()
    pipeline.stop_speed()
    stream = pipeline.stream
    first = Generations(project.store, stream).all()[-1]
    shutil.rmtree(project.folder / "store" / "speed" / stream.name / first.name / "checkpoint")
    project.check_answers()
    project.produce(100)
    pipeline.catch_up()
    project.check_answers()
    assert [g.number for g in Generations(project.store, stream).all()] == [
        first.number,
        first.number + 1,
    ]
    project.run("batch", "rollback", "1")
    project.check_answers()


def test_i5_reader_killed_while_it_loads(project):
    project.produce(100)
    wait_for_settled_tick(project)
    project.run("batch", "run")
    query = ("sql", "select sum(n) as n from by_user", "--format", "json")
    for failpoint in ("refresh.before-load", "refresh.before-commit", "refresh.after-commit"):
        project.killed(failpoint, *query)
        assert json.loads(project.run(*query)[0]) == [{"n": 100}]
