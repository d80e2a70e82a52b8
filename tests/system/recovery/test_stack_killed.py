"""The whole stack: every process killed with SIGKILL in turn while events arrive, and verified
afterwards.
"""

import json
import random
import shutil
import signal

import psutil
import pytest

from tests.support.faults.catalogue import cut_log
from tests.support.project import Project, clean, ended, ended_with, event, wait_for_settled_tick
from tests.support.waiting import until
from trilayer.local import airflow, processes
from trilayer_core.store.generations import Generations

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LOST = "up to which it was read"

NOT_OURS = (
    "cli",
    "dags",
    "embedded",
    "operations",
    "local",
    "notebooks",
    "speed_layer",
    "batch_layer",
    "airflow",
    "tests",
)
"""What a project may call its own files: no process takes them for trilayer's or Airflow's."""


@pytest.fixture
def project(tmp_path, new_topic):
    project = Project(tmp_path, "", new_topic())
    for name in NOT_OURS:
        (tmp_path / f"{name}.py").write_text(
            f"raise SystemExit('the project\\'s own {name}.py was run')"
        )
    yield project
    project.end()


def _up(project, *options):
    process = project.start("up", "--no-airflow", *options)
    until(
        lambda: (
            (project.folder / ".trilayer" / "speed.ready").exists() or process.poll() is not None
        ),
        timeout_s=90,
    )
    assert process.poll() is None, process.communicate()
    return process


def _replay(project, events):
    """Has the stack's own broker take so many further events."""
    file = project.folder / "events.jsonl"
    file.write_bytes(b"".join(event(project.sent + number) + b"\n" for number in range(events)))
    project.run("replay", str(file), "--stream", "clicks", "--rate", "2000")
    project.sent += events


def _down(process):
    process.send_signal(signal.SIGINT)
    assert ended(process) == 0


def _nothing_left(project):
    home = project.folder / ".trilayer"
    mine = [
        p.pid
        for p in psutil.process_iter(["cwd", "cmdline"])
        if str(project.folder) in " ".join(p.info["cmdline"] or [])
    ]
    return processes.list_running(home) == [] and not mine


def test_kill_each_process_in_turn(project):
    home = project.folder / ".trilayer"
    for name in ("kafka", "spark", "up"):
        process = _up(project)
        _replay(project, 1000)
        victim = process.pid if name == "up" else processes.running(home, name).pid
        psutil.Process(victim).kill()
        # Without its broker or its Spark the stack says so and ends; without `up` itself its
        # processes end with it.
        assert ended(process) == (-signal.SIGKILL if name == "up" else 1)
        until(lambda: _nothing_left(project), timeout_s=40)
    process = _up(project)
    until(project.has_all, timeout_s=60)
    project.check_answers()
    psutil.Process(processes.running(home, "speed").pid).kill()
    _replay(project, 1000)
    until(project.has_all, timeout_s=90)  # by the speed layer that `up` has started again
    project.check_answers()
    batch = project.start("batch", "run")
    until((project.folder / "store" / "fence").exists, timeout_s=60)
    batch.kill()
    batch.communicate()
    wait_for_settled_tick(project)
    project.run("batch", "run")
    _replay(project, 1000)
    until(project.has_all, timeout_s=60)
    assert clean(project.run("verify", "--json")[0])
    _down(process)
    until(lambda: _nothing_left(project), timeout_s=20)


def test_a_loss_is_accepted_beside_the_stack(project):
    """The embedded broker has lost what was ingested: `up` keeps the broker, without which nothing
    can be accepted.
    """
    home = project.folder / ".trilayer"
    process = _up(project)
    _replay(project, 500)
    until(project.has_all, timeout_s=60)
    wait_for_settled_tick(project)
    project.run("batch", "run")
    process.kill()
    assert ended(process) == -signal.SIGKILL
    until(lambda: _nothing_left(project), timeout_s=40)
    # The broker ended well, and would not look at its log again.
    (home / "kafka" / "data" / ".kafka_cleanshutdown").unlink()
    for partition in range(2):
        cut_log(
            home / "kafka" / "data" / f"{project.topic}-{partition}",
            10,
            random.Random(1),
            within=True,
        )
    (home / "speed.ready").unlink()
    process = project.start("up", "--no-airflow")
    until(lambda: LOST in (home / "logs" / "speed.log").read_text(), timeout_s=90)
    assert LOST in project.run("batch", "run", expect=1)[1]
    token = json.loads(project.run("batch", "cut", "--accept-loss")[0])["token"]
    for step in ("ingest", "recompute", "reconcile", "publish"):
        project.run("batch", step, "--run", str(token))
    until(lambda: (home / "speed.ready").exists(), timeout_s=90)
    _replay(project, 300)
    until(project.has_all, timeout_s=60)
    assert (
        sum(row["n"] for row in project.answers()["by_user"]) == 800
    )  # what was lost by the log alone counts
    assert clean(project.run("verify", "--json")[0])
    _down(process)
    until(lambda: _nothing_left(project), timeout_s=20)


def test_up_rebuilds_the_speed_layer(project):
    process = _up(project)
    _replay(project, 100)
    until(project.has_all, timeout_s=60)
    _down(process)
    (project.folder / ".trilayer" / "speed.ready").unlink(missing_ok=True)
    process = _up(project, "--rebuild")
    until(
        lambda: len(Generations(project.store, project.catalog().streams[0]).all()) == 2,
        timeout_s=20,
    )
    until(project.has_all, timeout_s=60)
    project.check_answers()
    _saved_definitions_are_run_by_the_speed_layer_alone(project, process)
    process.send_signal(signal.SIGINT)
    status, said = ended_with(process)
    assert status == 0
    assert "Definitions were changed: by_minute. The speed layer starts again, to run them." in said
    assert "as `trilayer speed restart` asks" in said


def _saved_definitions_are_run_by_the_speed_layer_alone(project, process):
    home = project.folder / ".trilayer"
    file = project.folder / f"{project.module}.py"
    text, before = file.read_text(), {p.name: p.pid for p in processes.list_running(home)}
    file.write_text(text + "wrong\n")  # the speed layer runs on
    for line in process.stderr:
        if "can't be used as it is" in line:
            break
    assert "NameError: name 'wrong' is not defined" in line
    file.write_text(text.replace('"1 minute"', '"2 minutes"'))

    def runs_them():
        stream = project.catalog().streams[0]
        newest = Generations(project.store, stream).all()[-1]
        return newest.fingerprint == project.catalog().stream_fingerprint(stream)

    until(runs_them, timeout_s=60)
    until(project.has_all, timeout_s=60)
    project.check_answers()
    second = processes.running(home, "speed").pid
    project.run("speed", "restart")
    after = {p.name: p.pid for p in processes.list_running(home)}
    assert after.pop("speed") not in (before.pop("speed"), second)
    assert after == before
    _replay(project, 50)
    until(project.has_all, timeout_s=60)
    project.check_answers()


def test_a_cluster_set_after_a_crash_is_the_one_that_is_used(project, broker, spark_connect):
    """What a killed stack has left in its home says where its own broker and Spark were, not where
    the next ones are.
    """
    home = project.folder / ".trilayer"
    process = _up(project)
    process.kill()
    assert ended(process) == -signal.SIGKILL
    until(lambda: _nothing_left(project), timeout_s=40)
    (home / "speed.ready").unlink()
    shutil.rmtree(project.folder / "store")  # of the topic at the other broker
    file = project.folder / "trilayer.toml"
    text = file.read_text().replace(
        'bootstrap_servers = ""', f'bootstrap_servers = "{broker.bootstrap}"'
    )
    file.write_text(text.replace('spark_remote = ""', f'spark_remote = "{spark_connect}"'))
    process = _up(project)
    assert [record.name for record in processes.list_running(home)] == ["speed"]
    project.produce(70)
    until(project.has_all, timeout_s=60)
    project.check_answers()
    _down(process)


def _airflow_is_well(home):
    running = airflow.running(home)
    return running is not None and airflow.is_healthy(running)


def test_airflow_goes_with_the_stack(project):
    """Started with the rest, and ended with it: by kill -9 of `up`, and by Ctrl-C."""
    home = project.folder / ".trilayer"
    for number in (signal.SIGKILL, signal.SIGINT):
        process = project.start("up")
        until(
            lambda process=process: _airflow_is_well(home) or process.poll() is not None,
            timeout_s=180,
        )
        with airflow.running(home).client() as api:
            until(
                lambda api=api: not api.get("/dags/lambda_batch").json().get("is_paused", True),
                timeout_s=120,
            )
        process.send_signal(number)
        assert ended(process, timeout_s=90) == (-number if number == signal.SIGKILL else 0)
        until(lambda: _nothing_left(project), timeout_s=60)


def test_broker_away_for_a_while(project):
    """A broker killed and started again beside a speed layer that runs on: it waits, and goes on
    where it was.
    """
    from tests.support.places import JARS
    from trilayer.local import kafka

    home = project.folder / "elsewhere"
    broker = kafka.start(home, jars=JARS / "kafka", echo=lambda _: None)
    text = (project.folder / "trilayer.toml").read_text()
    text = text.replace('bootstrap_servers = ""', f'bootstrap_servers = "{broker.bootstrap}"')
    (project.folder / "trilayer.toml").write_text(text)
    try:
        project.produce(200)
        process = project.start("speed", "run")
        until(
            lambda: (project.folder / "store" / "speed").exists() and project.has_all(),
            timeout_s=90,
        )
        psutil.Process(broker.pid).kill()
        again = kafka.start(home, jars=JARS / "kafka", echo=lambda _: None)
        assert again.bootstrap == broker.bootstrap
        project.produce(200)
        until(project.has_all, timeout_s=120)
        project.check_answers()
        process.terminate()
        assert ended(process) == 0
    finally:
        kafka.stop(home)
