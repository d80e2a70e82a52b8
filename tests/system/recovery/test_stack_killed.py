"""The whole stack: every process killed with SIGKILL in turn while events arrive, and verified
afterwards.

One story, told in order: each test starts the stack in the home that the one before it has left.
"""

import json
import random
import shutil
import signal
from contextlib import suppress

import psutil
import pytest
from playwright.sync_api import expect

from qa.faults.catalogue import cut_log
from tests.support.console import found_browser, opened_browser, opened_pages
from tests.support.in_process import ProjectOfBoth
from tests.support.project import Project, clean, ended, ended_with, event, wait_for_settled_tick
from tests.support.waiting import until
from trilayer_core.store.generations import Generations
from trilayer_local import airflow, processes
from trilayer_local.stack import BROKER_ADDRESS

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

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


@pytest.fixture(scope="module")
def project(tmp_path_factory, new_topic, spark, shared_classes):
    folder = tmp_path_factory.mktemp("stack")
    project = ProjectOfBoth(folder, "", new_topic(), spark)
    for name in NOT_OURS:
        (folder / f"{name}.py").write_text(
            f"raise SystemExit('the project\\'s own {name}.py was run')"
        )
    return project


@pytest.fixture(autouse=True)
def ends(project):
    """What a test that failed has left running would be in the way of the next one."""
    yield
    project.end()


def _up(project, *options):
    (project.folder / ".trilayer" / "speed.ready").unlink(missing_ok=True)
    process = project.start("up", "--no-airflow", *options)
    until(
        lambda: (
            (project.folder / ".trilayer" / "speed.ready").exists() or process.poll() is not None
        ),
        timeout_s=240,
    )
    assert process.poll() is None, process.communicate()
    return process


def _replay(project, events):
    """Has the stack's own broker take so many further events."""
    file = project.folder / "events.jsonl"
    file.write_bytes(b"".join(event(project.sent + number) + b"\n" for number in range(events)))
    project.run("replay", str(file), "--stream", "clicks", "--rate", "2000")
    project.sent += events


def _produce(project, events):
    """The same without a command."""
    project.produce(events, to=(project.folder / ".trilayer" / BROKER_ADDRESS).read_text())


def _left(project, but=None):
    """What runs still: the names of recorded processes, and command lines with the project's
    folder. Those that name `but` are left out.
    """
    mine = (" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"]))
    left = [
        *(record.name for record in processes.list_running(project.folder / ".trilayer")),
        *(command for command in mine if str(project.folder) in command),
    ]
    return [one for one in left if but is None or but not in one]


def _until_nothing_is_left(project, *, but=None, timeout_s=40):
    try:
        until(lambda: not _left(project, but), timeout_s=timeout_s)
    except AssertionError:
        assert _left(project, but) == [], f"after {timeout_s} s"


def _its_console_shows_the_stack(project):
    """What only a stack has: the end of the log, the lag and the processes, as they change."""
    if found_browser() is None:
        return  # the console's own tests say so
    home = project.folder / ".trilayer"
    address = json.loads((home / "serve.ready").read_text())["console"]
    with opened_browser() as browser, opened_pages(browser) as open_page:
        page = open_page(address, "overview")
        card = page.locator("article", has_text="clicks")

        def shows(head, lag):
            said = {"in the log": f"{head + lag:,} events", "up to the head": f"{head:,} events"}
            for term, what in said.items():
                expect(card.locator("dl div", has_text=term)).to_have_text(f"{term}{what}")
            expect(card.locator("dl div", has_text="lag")).to_contain_text(f"lag{lag} events, ")

        shows(project.sent, 0)
        speed = psutil.Process(processes.running(home, "speed").pid)
        suspended = [speed, *speed.children(recursive=True)]
        for process in suspended:
            process.suspend()
        _produce(project, 500)
        shows(project.sent - 500, 500)
        for process in suspended:
            process.resume()
        shows(project.sent, 0)
        table = page.get_by_role("region", name="Processes of the local stack")
        named = [row.split()[:2] for row in table.locator("tbody tr").all_inner_texts()]
        running = processes.list_running(home)
        assert sorted(named) == sorted([one.name, str(one.pid)] for one in running)
        assert {"kafka", "spark", "speed", "serve"} <= {one.name for one in running}


def test_without_its_spark_a_batch_run_and_the_stack_say_so_and_end(project):
    home = project.folder / ".trilayer"
    process = _up(project)
    _replay(project, 1000)
    project.wait_for_all()
    _its_console_shows_the_stack(project)
    project.check_answers()
    batch = project.start("batch", "run", failpoint="store.write:slow:1")
    until(
        lambda: (
            (project.folder / "store" / "master" / "clicks").exists() or batch.poll() is not None
        ),
        timeout_s=240,
    )
    server = psutil.Process(processes.running(home, "spark").pid)
    for victim in [server, *server.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # it ends with its parent
            victim.kill()
    status, said = ended_with(batch)
    assert status == 1, said
    assert "error: the Spark Connect server has ended" in said, said
    assert "Traceback" not in said, said
    assert ended(process) == 1
    _until_nothing_is_left(project)


def _up_with_airflow(project, *options):
    """`up`, when its Airflow answers and has taken the batch's DAG."""
    home = project.folder / ".trilayer"
    process = project.start("up", *options)

    def is_well():
        running = airflow.running(home)
        return running is not None and airflow.is_healthy(running)

    until(lambda: is_well() or process.poll() is not None, timeout_s=240)
    with airflow.running(home).client() as api:
        until(
            lambda: not api.get("/dags/lambda_batch").json().get("is_paused", True), timeout_s=120
        )
    return process


def _a_killed_scheduler_is_started_again(project):
    home = project.folder / ".trilayer"
    scheduler = processes.running(home, "airflow-scheduler")
    killed = psutil.Process(scheduler.pid)
    its_own = killed.children(recursive=True)
    assert its_own
    killed.kill()

    def another_runs():
        running = processes.running(home, "airflow-scheduler")
        return running is not None and running.pid != scheduler.pid

    until(another_runs, timeout_s=60)
    assert not any(processes._lives(one) for one in its_own)


def test_without_up_its_processes_end(project, monkeypatch):
    """Its Airflow, too, whose scheduler has been started again. The speed layer was rebuilt before
    that, since `up` was asked to.
    """
    # The scheduler waits for the task that it runs, which tries five times to reach the API server
    # that has ended, with growing pauses of a random length.
    monkeypatch.setenv("AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX", "2")
    process = _up_with_airflow(project, "--rebuild")
    _a_killed_scheduler_is_started_again(project)
    until(
        lambda: len(Generations(project.store, project.catalog().streams[0]).all()) == 2,
        timeout_s=240,
    )
    project.wait_for_all()
    wait_for_settled_tick(project)
    project.run("batch", "run")
    project.check_answers()
    assert len(_left(project, but="airflow")) > 4
    process.kill()
    status, said = ended_with(process)
    assert status == -signal.SIGKILL
    assert "airflow-scheduler ended by itself; it is started again in 5 s" in said, said
    _until_nothing_is_left(project, but="airflow")
    _until_nothing_is_left(project, timeout_s=120)


@pytest.fixture
def on_a_cluster(project, broker, spark_connect):
    """The project with another broker and Spark, and a new store for its topic there."""
    file, store = project.folder / "trilayer.toml", project.folder / "store"
    text, sent = file.read_text(), project.sent
    kept = store.rename(project.folder / "store-of-the-stack")
    project.set("bootstrap_servers", broker.bootstrap)
    project.set("spark_remote", spark_connect)
    project.sent = 0
    yield project
    project.end()
    shutil.rmtree(store)
    kept.rename(store)
    file.write_text(text)
    project.sent = sent


def test_a_cluster_set_after_a_crash_is_the_one_that_is_used(on_a_cluster):
    """What a killed stack has left in its home says where its own broker and Spark were, not where
    the next ones are. All of it ends with Ctrl-C.
    """
    project = on_a_cluster
    process = _up(project)
    running = processes.list_running(project.folder / ".trilayer")
    assert {record.name for record in running} == {"speed", "serve"}
    project.produce(70)
    project.wait_for_all()
    wait_for_settled_tick(project)
    Project.run(project, "batch", "run")  # a process, which has the cluster's Spark
    project.check_answers()
    process.send_signal(signal.SIGINT)
    assert ended(process) == 0
    _until_nothing_is_left(project, timeout_s=60)


def test_a_loss_is_accepted_beside_the_stack_which_ends_with_its_broker(project):
    """The embedded broker has lost what was ingested: `up` keeps the broker, without which nothing
    can be accepted. Then the speed layer and a batch run are killed beside it, and in the end the
    broker.
    """
    home = project.folder / ".trilayer"
    # The broker ended well, and would not look at its log again.
    (home / "kafka" / "data" / ".kafka_cleanshutdown").unlink()
    for partition in range(2):
        cut_log(
            home / "kafka" / "data" / f"{project.topic}-{partition}",
            10,
            random.Random(1),
            within=True,
        )
    (home / "speed.ready").unlink(missing_ok=True)
    process = project.start("up", "--no-airflow")
    until(lambda: LOST in (home / "logs" / "speed.log").read_text(), timeout_s=240)
    assert LOST in project.run("batch", "run", expect=1)[1]
    token = json.loads(project.run("batch", "cut", "--accept-loss")[0])["token"]
    for step in ("ingest", "recompute", "reconcile", "publish"):
        project.run("batch", step, "--run", str(token))
    until(lambda: (home / "speed.ready").exists(), timeout_s=240)
    _produce(project, 300)
    project.wait_for_all()
    project.check_answers()  # what was lost by the log alone counts
    assert clean(project.run("verify", "--json")[0])

    psutil.Process(processes.running(home, "speed").pid).kill()
    _produce(project, 1000)
    project.wait_for_all()  # by the speed layer that `up` has started again
    project.check_answers()
    fence = project.folder / "store" / "fence"
    tokens = set(fence.iterdir())
    batch = project.start("batch", "run")
    until(lambda: set(fence.iterdir()) != tokens, timeout_s=240)
    batch.kill()
    batch.communicate()
    wait_for_settled_tick(project)
    project.run("batch", "run")
    _saved_definitions_are_run_by_the_speed_layer_and_the_server(project, process)
    assert clean(project.run("verify", "--json")[0])
    psutil.Process(processes.running(home, "kafka").pid).kill()
    status, said = ended_with(process)
    assert status == 1
    assert "kafka must run; it ended by itself" in said
    changed = next(line for line in said.splitlines() if "Definitions were changed" in line)
    assert "changed: by_minute. Until a batch run has computed them in full, these views" in changed
    assert "no answer: by_minute. " in changed
    assert changed.endswith("The speed layer starts again, to run them.")
    assert "as `trilayer speed restart` asks" in said
    _until_nothing_is_left(project)


def _saved_definitions_are_run_by_the_speed_layer_and_the_server(project, process):
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

    until(runs_them, timeout_s=240)
    project.run("batch", "run")  # until then the changed view has no answer
    project.wait_for_all()
    project.check_answers()
    second = processes.running(home, "speed").pid
    project.run("speed", "restart")
    after = {p.name: p.pid for p in processes.list_running(home)}
    assert after.pop("speed") not in (before.pop("speed"), second)
    assert after.pop("serve") != before.pop("serve")  # it answers the saved definitions
    assert after == before
    _produce(project, 50)
    project.wait_for_all()
    project.check_answers()
