"""I5: processes killed with SIGKILL at a failpoint, and started again; the answers do not change.

tests/integration/recovery has every failpoint, in the process of the tests.
"""

import json
import signal

import pytest

from tests.support.changelogs import answers, in_topic, read
from tests.support.in_process import ProjectOfBoth
from tests.support.project import clean, ended, kill_group, wait_for_settled_tick
from tests.support.waiting import until
from trilayer_core.errors import TrilayerError
from trilayer_core.store.generations import Generations
from trilayer_core.store.publications import Publications

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def project(tmp_path, broker, new_topic, spark, spark_connect):
    # The Spark server outlives each command that is killed, and goes on with what it was asked for.
    return ProjectOfBoth(
        tmp_path, broker.bootstrap, new_topic(), spark, spark_remote=spark_connect, compact_after=3
    )


def test_i5_batch_and_reader_killed_and_run_again(project):
    project.produce(1_000, broken=3)
    wait_for_settled_tick(project)
    project.run("batch", "run")
    project.produce(40_000)
    wait_for_settled_tick(project)
    # The server goes on with the query of a client that was killed, beside the next run's: neither
    # touches what the other writes.
    for written in ("master/clicks/*/*/_temporary", "batch/*/*/_temporary"):
        process = project.start("batch", "run")
        until(
            lambda written=written, process=process: (
                any((project.folder / "store").glob(written)) or process.poll() is not None
            ),
            timeout_s=240,
        )
        kill_group(process)
        assert process.returncode == -signal.SIGKILL, f"it ended before it had {written}"
    project.killed("publish.in-pointer", "batch", "run")
    project.run("batch", "run")
    project.check_answers()
    project.killed("refresh.before-commit", "sql", "from top")
    project.check_answers()
    oldest = str(Publications(project.store).versions()[0].version)
    project.killed("rollback.in-pointer", "batch", "rollback", oldest)
    project.run("batch", "rollback", oldest)
    assert Publications(project.store).in_force().version == int(oldest)
    project.run("batch", "run")
    project.check_answers()
    assert clean(project.run("verify", "--json")[0])


def test_i5_speed_layer_and_changelogs_killed_and_started_again(project):
    """One speed layer ends at a commit, the next in a compaction, and the third has every event
    once. Beside it, one writer of changelogs ends before its records are committed, the next
    directly after, and the third writes what the topic lacks. A second process on the same store
    says so and ends.
    """
    declared = (project.folder / f"{project.module}.py").read_text()
    changelog = f'changelogs=[Changelog("users", view=by_user, topic="{project.topic}-users")]'
    project.write_catalog(
        declared.replace("import Catalog", "import Changelog, Catalog").replace(
            "    queries=", f"    {changelog},\n    queries="
        )
    )
    project.produce(500, broken=2)
    process = project.start("speed", "run", failpoint="segment.before-commit")
    assert ended(process, timeout_s=240) == -signal.SIGKILL
    process = project.start("speed", "run", failpoint="compaction.before-delete")

    def died():
        project.produce(5)
        return process.poll() is not None

    until(died, timeout_s=240)
    assert process.returncode == -signal.SIGKILL
    process.communicate()
    speed = project.start("speed", "run")

    def caught_up():
        try:
            return project.has_all()
        except TrilayerError:
            return False  # nothing has run yet

    until(caught_up, timeout_s=240)
    project.check_answers()
    for place in ("in-transaction", "after-commit"):
        killed = project.start("changelog", "run", failpoint=f"changelog.{place}")
        assert ended(killed, timeout_s=240) == -signal.SIGKILL
        project.produce(30)
    writer = project.start("changelog", "run")
    (changelog,) = project.catalog().changelogs

    def holds_all():
        held, _ = read(project.settings().bootstrap_servers, changelog.topic)
        return sum(json.loads(value)["n"] for value in held.values()) == project.sent

    until(holds_all, timeout_s=120)
    settings = project.settings()
    expected = answers(project.catalog(), settings, project.store, changelog)
    assert in_topic(settings, changelog) == expected
    for name in ("changelog", "speed"):
        _, err = project.run(name, "run", expect=1)
        assert "must run once at a time" in err, err
    stream = project.catalog().streams[0]
    (generation,) = Generations(project.store, stream).all()
    assert any(
        last > first for first, last in Generations(project.store, stream).spans(generation.name)
    ), "nothing was compacted"
    for running in (writer, speed):
        running.terminate()
        assert ended(running) == 0
    wait_for_settled_tick(project)
    project.run("batch", "run")
    project.check_answers()
    assert clean(project.run("verify", "--json")[0])
