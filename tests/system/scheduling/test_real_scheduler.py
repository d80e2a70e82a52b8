"""The real Airflow, on a real broker and a real speed layer: its DAGs run as they would for a user,
seen through its REST API.

One story in order: each test continues from where the one before it left the project, and checks
every answer at its end. Together they are the checks that an operator makes: schedules, a full
recompute beside batch runs, manual runs at once and with past and future dates, backfills with
three at once, deleted runs, clears of old and new tasks and runs, marks, kills of a task and of the
scheduler, rollbacks with and without a hold, a broken catalog, and a pause with its catch-up on
another schedule.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from tests.support.places import PROJECT
from tests.support.project import Project
from tests.support.waiting import until
from trilayer.operations.verification.run import verification
from trilayer_core.project import Project as Opened
from trilayer_core.store.publications import Publications
from trilayer_local import airflow, processes
from trilayer_local.stack import dag_folders

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

SCHEDULER = "airflow-scheduler"
COVERED = "covers this run's interval"
REQUESTED = 409
"""What Airflow answers if it has been asked already to parse a file."""

ENDED = ("success", "failed")
RARELY_S = 2 * 60 * 60
"""`batch.every_s` once two intervals have been published: the tests after that trigger their runs,
and would wait for each scheduled run that begins meanwhile.
"""

PARSED_ON_REQUEST = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600"}
"""To parse all DAGs twice a minute takes a fifth of a processor, and after a change the tests would
wait for it; see `Scheduled.parse_until`.
"""

MINE = '''"""A DAG of one's own, which knows no more of trilayer than the name of a view."""
from airflow.sdk import DAG, Asset, task

with DAG("mine", schedule=[Asset("by_user")]):

    @task
    def report(triggering_asset_events):
        (events,) = triggering_asset_events.values()
        return dict(max(events, key=lambda event: event.timestamp).extra)

    report()
'''

HOOK = '''"""A notifier of one's own, which sends the message to a web server."""
import urllib.request
from airflow.sdk import BaseNotifier

class Webhook(BaseNotifier):
    template_fields = ("text",)

    def __init__(self):
        super().__init__()
        self.text = "{{ trilayer.kind }}: {{ trilayer.message }}"

    def notify(self, context):
        urllib.request.urlopen("http://127.0.0.1:PORT", self.text.encode()).close()
'''


def arguments(folder: Path) -> dict:
    """Those with which Airflow is started."""
    return {
        "dags": dag_folders(folder),
        "project": folder,
        "env": {"PYTHONPATH": str(PROJECT), **PARSED_ON_REQUEST},
    }


class Scheduled:
    """A project whose batch layer Airflow runs, every minute in the first test."""

    def __init__(
        self, project: Project, home: Path, running: airflow.Airflow, spark, messages: list[str]
    ) -> None:
        self.project, self.home, self.airflow, self._spark = project, home, running, spark
        self.messages = messages
        self.api = running.client()
        self.beside: dict[str, str] = {}
        """Runs that were triggered while a full recompute ran, by what is special about them."""
        self.late: list[str] = []
        """The messages about late runs from before the backfill."""

    def keep(self) -> None:
        """No process of Airflow has ended by itself, as the scheduler did on a locked database."""
        for name in airflow.PROCESSES:
            if processes.running(self.home, name) is None:
                log = processes.log_tail(processes.last_started(self.home, name), lines=80)
                raise AssertionError(f"{name} has ended: {log}")

    def get(self, path: str, **params):
        self.keep()
        answer = self.api.get(path, params=params)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, body: dict):
        answer = self.api.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def trigger(self, dag: str, at: datetime | None = None, **conf) -> str:
        body = {"logical_date": at and at.isoformat(), "conf": conf}
        return self.post(f"/dags/{dag}/dagRuns", body)["dag_run_id"]

    def patch(self, path: str, body: dict) -> None:
        answer = self.api.patch(path, json=body)
        assert answer.is_success, answer.text

    def until_running(self, run_id: str, task: str) -> None:
        """Waits until the task's command runs."""
        until(
            lambda: self.tasks(run_id)[task]["state"] == "running" and self.commands(task),
            timeout_s=400,
        )

    def commands(self, step: str) -> list[psutil.Process]:
        """The processes of the project that perform a step."""
        found = psutil.process_iter(["cmdline", "cwd"])
        return [
            process
            for process in found
            if process.info["cwd"] == str(self.project.folder)
            and {step, "trilayer.cli"} <= set(process.info["cmdline"] or [])
        ]

    def run(self, run_id: str, dag: str = "lambda_batch") -> dict:
        return self.get(f"/dags/{dag}/dagRuns/{run_id}")

    def runs(self, dag: str = "lambda_batch", **filters) -> list[dict]:
        return self.get(f"/dags/{dag}/dagRuns", order_by="run_after", **filters)["dag_runs"]

    def wait(
        self, run_id: str, dag: str = "lambda_batch", *, expect: str = "success"
    ) -> dict[str, dict]:
        """Waits until the run has ended, which must be as expected: its task instances by id."""
        until(lambda: self.run(run_id, dag)["state"] in ENDED, timeout_s=400)
        tasks = self.tasks(run_id, dag)
        assert self.run(run_id, dag)["state"] == expect, {
            n: t["state"] for n, t in tasks.items()
        } | self.logs(run_id, dag)
        return tasks

    def tasks(self, run_id: str, dag: str = "lambda_batch") -> dict[str, dict]:
        found = self.get(f"/dags/{dag}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {task["task_id"]: task for task in found}

    def returned(self, run_id: str, task: str, dag: str = "lambda_batch", map_index: int = -1):
        path = f"/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}/xcomEntries/return_value"
        return self.get(path, map_index=map_index, deserialize=True)["value"]

    def log(
        self,
        run_id: str,
        task: str,
        dag: str = "lambda_batch",
        map_index: int = -1,
        number: int = 1,
    ) -> list[str]:
        path = f"/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}/logs/{number}"
        return [
            str(line) for line in self.get(path, map_index=map_index, full_content=True)["content"]
        ]

    def logs(self, run_id: str, dag: str) -> dict[str, str]:
        """The log of each task that failed."""
        failed = [t for t in self.tasks(run_id, dag).values() if t["state"] == "failed"]
        return {
            t["task_id"]: "\n".join(
                self.log(run_id, t["task_id"], dag, t["map_index"], t["try_number"])[-30:]
            )
            for t in failed
        }

    def messages_of(self, kind: str) -> list[str]:
        """What the notifier has sent of a kind."""
        return [message for message in self.messages if message.startswith(kind)]

    def quiet(self) -> None:
        """No run of lambda_batch is under way."""

        def is_quiet() -> bool:
            self.keep()
            return not airflow.runs(self.api, "lambda_batch", "running", "queued")

        until(is_quiet, timeout_s=400)

    def parse_until(self, condition: Callable[[], bool], *dags: str) -> None:
        """Has Airflow parse these DAGs at once, until the condition holds.

        A request is lost if Airflow is parsing the file already, perhaps as it was before.
        """
        tokens = [self.get(f"/dags/{dag}")["file_token"] for dag in dags]

        def holds() -> bool:
            if condition():
                return True
            for token in tokens:
                answer = self.api.put(f"/parseDagFile/{token}")
                assert answer.is_success or answer.status_code == REQUESTED, answer.text
            return False

        until(holds, timeout_s=200)

    def schedule_every(self, every_s: int) -> None:
        """Changes the schedule of lambda_batch, and returns when Airflow knows it."""
        self.project.set("batch.every_s", every_s)
        rarely = every_s == RARELY_S
        self.parse_until(lambda: self.is_rarely_scheduled() == rarely, "lambda_batch")

    def is_rarely_scheduled(self) -> bool:
        """Whether Airflow has parsed the DAG since `batch.every_s` became `RARELY_S`."""
        return self.get("/dags/lambda_batch/details")["timetable_summary"] == "0 */2 * * *"

    def pause_when_quiet(self) -> None:
        """Pauses lambda_batch between two runs; a run that is paused would wait."""
        while True:
            self.quiet()
            airflow.pause(self.api, "lambda_batch")
            if not airflow.runs(self.api, "lambda_batch", "running", "queued"):
                return
            airflow.pause(self.api, "lambda_batch", False)

    def check(self) -> None:
        """Every answer counts what was sent."""
        self.project.wait_for_all(timeout_s=60)
        self.project.check_answers()

    def verify(self) -> None:
        """The same, and every answer equals the log and the master dataset."""
        self.check()
        opened = Opened(self.project.settings(), self.project.catalog(), self.project.store)
        found = verification(opened, lambda: self._spark)
        assert found.clean, found

    @property
    def version(self) -> int:
        return Publications(self.project.store).in_force().version


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory, broker, spark, spark_connect, new_topic):
    for name in [name for name in os.environ if name.startswith("TRILAYER_")]:
        del os.environ[name]
    folder = tmp_path_factory.mktemp("scheduled")
    # late_after: one interval, so that a run is late the moment it begins, and the deadline can be
    # seen without waiting for a broken one.
    settings = {"batch.every_s": 60, "late_after": 1, "keep_versions": 20}
    settings |= {"notify": ["hook.Webhook"], "console_url": "https://console.example/"}
    messages: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):  # the name is http.server's
            messages.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    project = Project(folder, broker.bootstrap, new_topic(), spark_remote=spark_connect, **settings)
    home = folder / ".trilayer"
    project.produce(1_000, broken=2)
    speed = project.start("speed", "run")
    try:
        (folder / "dags").mkdir()
        (folder / "hook.py").write_text(HOOK.replace("PORT", str(receiver.server_port)))
        (folder / "dags" / "mine.py").write_text(MINE)
        running = airflow.start(home, **arguments(folder), echo=lambda _: None)
        airflow.unpause(running, "lambda_batch")
        yield Scheduled(project, home, running, spark, messages)
    finally:
        receiver.shutdown()
        airflow.stop(home)
        speed.send_signal(signal.SIGTERM)
        speed.communicate(timeout=60)
    assert processes.list_running(home) == []
    left = [
        p.pid
        for p in psutil.process_iter(["cmdline", "cwd"])
        if str(folder) in (p.info["cwd"] or "")
    ]
    assert left == []


def test_two_scheduled_intervals_are_published_while_events_stream_in(scheduled):
    """Some events arrive whenever a run or a task has begun or ended."""
    seen: list = []

    def begun(number: int, *states: str) -> bool:
        runs = scheduled.runs()
        tasks = [scheduled.tasks(r["dag_run_id"]) for r in runs if r["state"] == "running"]
        now = [{name: task["state"] for name, task in of_run.items()} for of_run in tasks]
        if [len(runs), *now] != seen:
            scheduled.project.produce(50)
            seen[:] = [len(runs), *now]
        return len([r for r in runs if r["state"] in states]) >= number

    until(lambda: begun(2, "running", "success"), timeout_s=400)
    scheduled.schedule_every(RARELY_S)
    until(lambda: begun(2, "success"), timeout_s=400)
    first, second = [r for r in scheduled.runs() if r["run_type"] == "scheduled"][:2]
    for run, publication in (
        (first, Publications(scheduled.project.store).versions()[0]),
        (second, Publications(scheduled.project.store).versions()[1]),
    ):
        end = datetime.fromisoformat(run["data_interval_end"])
        assert end - datetime.fromisoformat(run["data_interval_start"]) == timedelta(minutes=1)
        assert publication.t_ms == end.timestamp() * 1000
    scheduled.check()


def test_each_task_returns_what_it_did(scheduled):
    scheduled.quiet()
    run = next(
        r
        for r in reversed(scheduled.runs())
        if r["state"] == "success"
        and scheduled.tasks(r["dag_run_id"])["publish"]["state"] == "success"
    )
    run_id = run["dag_run_id"]
    cut = scheduled.returned(run_id, "cut")
    assert cut["t"] == run["data_interval_end"].replace(".000000", "")
    ingested = scheduled.returned(run_id, "ingest", map_index=0)["clicks"]
    assert {p: end for p, (_, end) in ingested["offsets"].items()} == cut["cuts"]["clicks"]
    assert set(ingested) == {"t", "events", "quarantined", "offsets"}
    assert set(scheduled.returned(run_id, "recompute")["rows"]) == {
        "by_user",
        "by_minute",
        "hourly",
    }
    reconciled = scheduled.returned(run_id, "reconcile")
    assert (
        reconciled["by_user"]["differ"]
        == reconciled["by_user"]["missing"]
        == reconciled["by_user"]["extra"]
        == 0
    )
    published = scheduled.returned(run_id, "publish")
    assert published["t"] == cut["t"]
    entries = f"/dags/lambda_batch/dagRuns/{run_id}/taskInstances/publish/xcomEntries"
    pushed = {
        name: scheduled.get(f"{entries}/{name}", deserialize=True)["value"]
        for name in ("version", "t", "rows", "differing_keys")
    }
    rows = ", ".join(f"{name} {number}" for name, number in published["views"].items())
    assert pushed == {
        "version": published["version"],
        "t": cut["t"],
        "rows": rows,
        "differing_keys": 0,
    }
    assert f"rows: {rows}" in "\n".join(scheduled.log(run_id, "publish"))
    instance = f"/dags/lambda_batch/dagRuns/{run_id}/taskInstances/publish"
    assert scheduled.get(f"{instance}/links")["extra_links"] == {
        "Publication": f"https://console.example/#/publications/{published['version']}",
        "Console": "https://console.example/#/",
    }
    mapped = scheduled.get(f"/dags/lambda_batch/dagRuns/{run_id}/taskInstances/ingest/listMapped")[
        "task_instances"
    ]
    assert [t["rendered_map_index"] for t in mapped] == ["clicks"]


def test_views_are_assets_whose_events_say_what_was_published(scheduled):
    assets = {a["name"]: a["id"] for a in scheduled.get("/assets")["assets"]}
    assert set(assets) == {"by_user", "by_minute", "hourly"}
    events = scheduled.get("/assets/events", asset_id=assets["by_user"], order_by="timestamp")[
        "asset_events"
    ]
    published = {p.version: p for p in Publications(scheduled.project.store).versions()}
    for event in [event["extra"] for event in events]:
        publication = published[event["version"]]
        view = publication.views["by_user"]
        assert event == {
            "version": publication.version, "t": publication.t, "reason": "publish",
            "rows": view.rows, "changed_keys": view.changed_keys, "corrected_keys": 0,
        }  # fmt: skip
    assert {event["extra"]["version"] for event in events} >= {1, 2}
    assert max(event["extra"]["changed_keys"] for event in events) == 7


def test_a_full_recompute_equals_what_is_published_though_a_task_is_killed(scheduled):
    """The killed task is retried, and the answer is the same. What is published starts the DAGs
    that are scheduled on a view. The next two tests look at what runs beside it.
    """

    def full() -> list[str]:
        return [r["dag_run_id"] for r in scheduled.runs() if r["conf"].get("full")]

    def nightly() -> list[str]:
        return [r["dag_run_id"] for r in scheduled.runs("lambda_full_recompute")]

    scheduled.quiet()
    before = scheduled.version
    names = ("lambda_full_recompute", "example_on_publish", "mine")
    for name in names:
        airflow.pause(scheduled.api, name, False)
    # Airflow makes up for last night's full recompute when the DAG is switched on.
    until(lambda: bool(full()), timeout_s=120)
    ((run_id,), (report_id,)) = full(), nightly()
    scheduled.until_running(run_id, "recompute")
    for process in scheduled.commands("recompute"):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _trigger_beside(scheduled)
    tasks = scheduled.wait(run_id)
    assert tasks["recompute"]["try_number"] == 2
    assert "was ended by SIGKILL: Linux does this if memory runs out" in "\n".join(
        scheduled.log(run_id, "recompute", number=1)
    )
    scheduled.wait(report_id, "lambda_full_recompute")
    report = scheduled.returned(report_id, "report", "lambda_full_recompute")
    assert report["kind"] == "full"
    assert {view: counts["changed"] for view, counts in report["views"].items()} == {
        "by_user": 0,
        "by_minute": 0,
        "hourly": 0,
    }
    scheduled.wait(scheduled.beside["now"])
    for name in ("example_on_publish", "mine"):

        def reported(name: str = name) -> list[int]:
            ended = [r["dag_run_id"] for r in scheduled.runs(name) if r["state"] == "success"]
            return [scheduled.returned(run_id, "report", name)["version"] for run_id in ended]

        until(lambda: max(reported(), default=0) > before, timeout_s=120)
    for name in names:
        airflow.pause(scheduled.api, name)
    scheduled.verify()


def _trigger_beside(scheduled: Scheduled) -> None:
    """Has a backfill of three runs at once, and manual runs of any date, begin or wait."""
    scheduled.project.produce(50)
    now = datetime.now(UTC)
    scheduled.beside["future"] = scheduled.trigger("lambda_batch", at=now + timedelta(days=365))
    scheduled.beside["now"] = scheduled.trigger("lambda_batch")
    deleted = scheduled.trigger("lambda_batch")
    scheduled.beside["past"] = scheduled.trigger("lambda_batch", at=now - timedelta(days=100))
    scheduled.beside["unknown"] = scheduled.trigger("lambda_batch", ful=True)
    # Airflow deletes no run that is active; this one is queued behind the others.
    assert scheduled.api.delete(f"/dags/lambda_batch/dagRuns/{deleted}").is_success
    newest = Publications(scheduled.project.store).in_force()
    began = datetime.fromtimestamp((newest.t_ms // (RARELY_S * 1000) - 5) * RARELY_S, UTC)
    body = {
        "dag_id": "lambda_batch",
        "from_date": began.isoformat(),
        "to_date": (began + timedelta(seconds=2 * RARELY_S)).isoformat(),
        "max_active_runs": 3,
        "reprocess_behavior": "none",
        "run_backwards": False,
        "dag_run_conf": {},
    }
    scheduled.late = scheduled.messages_of("late")
    scheduled.post("/backfills", body)


def test_a_backfill_publishes_nothing_twice(scheduled):
    """Three of its runs at once, beside manual ones: Airflow's database is not locked either."""

    def backfilled() -> list[dict]:
        return [r for r in scheduled.runs() if r["run_type"] == "backfill"]

    until(
        lambda: len(backfilled()) == 3 and all(r["state"] in ENDED for r in backfilled()),
        timeout_s=400,
    )
    for run in backfilled():
        tasks = scheduled.tasks(run["dag_run_id"])
        states = {name: task["state"] for name, task in tasks.items()}
        assert set(states.values()) == {"skipped"}, states
        log = scheduled.log(run["dag_run_id"], "cut", number=tasks["cut"]["try_number"])
        assert COVERED in "\n".join(log)
    # A backfill's interval is long past, which makes nothing late.
    assert scheduled.messages_of("late") == scheduled.late
    for name in airflow.PROCESSES:
        log = (scheduled.home / "logs" / f"{name}.log").read_text(errors="replace")
        assert "database is locked" not in log
    scheduled.check()


def test_manual_runs_at_once_of_any_date_and_deleted_ones(scheduled):
    future, past, unknown = (scheduled.beside[name] for name in ("future", "past", "unknown"))
    scheduled.wait(future, expect="failed")
    assert "the logical date must not be in the future" in scheduled.run(future)["note"]
    cut = scheduled.wait(past)["cut"]
    assert COVERED in "\n".join(scheduled.log(past, "cut", number=cut["try_number"]))
    scheduled.wait(unknown, expect="failed")
    said = "\n".join(scheduled.log(unknown, "cut"))
    assert "a parameter of lambda_batch must be one of full; got 'ful'" in said
    assert scheduled.api.delete(f"/dags/lambda_batch/dagRuns/{past}").is_success
    scheduled.check()


def test_clearing_does_no_harm_nor_does_a_killed_scheduler(scheduled):
    scheduled.quiet()
    done = [
        r["dag_run_id"] for r in scheduled.runs(run_type="scheduled") if r["state"] == "success"
    ]
    before = scheduled.version
    # A whole old run: it is covered, and says so.
    clear = {"dry_run": False, "only_failed": False, "reset_dag_runs": True, "dag_run_id": done[0]}
    scheduled.post("/dags/lambda_batch/clearTaskInstances", clear)
    # One task of an old run: a later run has taken over, and it ends without a change.
    scheduled.post(
        "/dags/lambda_batch/clearTaskInstances",
        clear | {"dag_run_id": done[1], "task_ids": ["recompute"]},
    )
    # One task of the newest run, and the whole run: the result is the same.
    newest = clear | {"dag_run_id": scheduled.beside["now"]}
    scheduled.post("/dags/lambda_batch/clearTaskInstances", newest | {"task_ids": ["reconcile"]})
    tasks = scheduled.wait(done[0])
    assert tasks["cut"]["state"] == "skipped"
    until(lambda: scheduled.tasks(done[1])["recompute"]["state"] == "skipped", timeout_s=120)
    number = scheduled.tasks(done[1])["recompute"]["try_number"]
    log = "\n".join(scheduled.log(done[1], "recompute", number=number))
    assert "a later run has taken over, and this one ends without a change; clear `cut` as" in log
    scheduled.wait(scheduled.beside["now"])
    scheduled.quiet()
    scheduled.project.produce(50)
    scheduled.post("/dags/lambda_batch/clearTaskInstances", newest)
    until(lambda: scheduled.run(scheduled.beside["now"])["state"] == "running")
    psutil.Process(processes.running(scheduled.home, SCHEDULER).pid).kill()
    until(lambda: processes.running(scheduled.home, SCHEDULER) is None)
    airflow.start_again(SCHEDULER, scheduled.home, **arguments(scheduled.project.folder))
    scheduled.wait(scheduled.beside["now"])
    assert scheduled.version >= before
    scheduled.check()


def test_marks_change_no_answer(scheduled):
    """A task that is marked as failed ends with its command; a run may be marked as anything."""
    scheduled.quiet()
    before = scheduled.version
    run_id = scheduled.trigger("lambda_batch", full=True)
    scheduled.until_running(run_id, "recompute")
    blocked_by = airflow.blocked_by(scheduled.airflow, "lambda_batch")
    assert blocked_by.startswith(f"run {run_id} of lambda_batch is running, since 20")
    path = f"/dags/lambda_batch/dagRuns/{run_id}"
    scheduled.patch(f"{path}/taskInstances/recompute", {"new_state": "failed"})
    scheduled.wait(run_id, expect="failed")
    until(lambda: not scheduled.commands("recompute"), timeout_s=60)
    assert scheduled.version == before
    scheduled.patch(path, {"state": "success"})
    assert scheduled.run(run_id)["state"] == "success"
    scheduled.check()


def test_a_rollback_holds_while_the_batch_is_paused(scheduled):
    scheduled.pause_when_quiet()
    for name in ("lambda_rollback", "lambda_release"):
        airflow.pause(scheduled.api, name, False)
    target = Publications(scheduled.project.store).versions()[0].version
    run_id = scheduled.trigger("lambda_rollback", version=target)
    refused = scheduled.api.post(
        "/dags/lambda_rollback/dagRuns", json={"logical_date": None, "conf": {"version": "abc"}}
    )
    assert refused.status_code == 400
    assert "'abc' does not match" in refused.text
    scheduled.wait(run_id, "lambda_rollback")
    assert scheduled.version == target
    scheduled.project.produce(100)
    scheduled.check()
    failures = scheduled.messages_of("failed")
    wrong = scheduled.trigger("lambda_rollback", version=9_999)
    scheduled.wait(wrong, "lambda_rollback", expect="failed")
    assert "version must be one that is kept; got 9999" in "\n".join(
        scheduled.log(wrong, "rollback", "lambda_rollback")
    )
    assert scheduled.tasks(wrong, "lambda_rollback")["rollback"]["try_number"] == 1
    # Another one has the same cause, so there is one message.
    again = scheduled.trigger("lambda_rollback", version=9_998)
    scheduled.wait(again, "lambda_rollback", expect="failed")
    (message,) = scheduled.messages_of("failed")[len(failures) :]
    assert "lambda_rollback.rollback: trilayer batch rollback 999" in message


def test_a_rollback_with_a_hold_lasts_until_it_is_released(scheduled):
    """The next two tests release it, and publish anew on top of the older version."""
    target = Publications(scheduled.project.store).versions()[-2]
    version = str(target.version)
    run_id = scheduled.trigger("lambda_rollback", version=version, hold=True, why="a wrong price")
    scheduled.wait(run_id, "lambda_rollback")
    assert scheduled.version == target.version
    scheduled.project.produce(100)
    refused = scheduled.trigger("lambda_batch")
    airflow.pause(scheduled.api, "lambda_batch", False)
    tasks = scheduled.wait(refused, expect="failed")
    assert tasks["cut"]["state"] == "failed"
    assert tasks["cut"]["try_number"] == 1
    said = "\n".join(scheduled.log(refused, "cut", number=1))
    assert (
        "held by admin (Airflow): a wrong price; release it with `trilayer batch release`" in said
    )
    assert scheduled.version == target.version
    again = scheduled.trigger("lambda_batch")
    scheduled.wait(again, expect="failed")
    (message,) = scheduled.messages_of("held")
    assert message.startswith("held: held by admin (Airflow): a wrong price; release it with")
    scheduled.check()


def test_a_broken_catalog_prevents_no_rollback_and_no_release(scheduled):
    scheduled.pause_when_quiet()
    text = (scheduled.project.folder / f"{scheduled.project.module}.py").read_text()
    began = datetime.now(UTC)
    recovery = ("lambda_rollback", "lambda_release")

    def parsed(dag: str) -> bool:
        return datetime.fromisoformat(scheduled.get(f"/dags/{dag}")["last_parsed_time"]) > began

    def is_broken() -> bool:
        return scheduled.get("/importErrors")["total_entries"] > 0

    scheduled.project.write_catalog("catalog = (")
    scheduled.parse_until(
        lambda: is_broken() and all(parsed(dag) for dag in recovery), "lambda_batch", *recovery
    )
    broken = [e["filename"] for e in scheduled.get("/importErrors")["import_errors"]]
    assert not [name for name in broken if "rollback" in name or "release" in name]
    oldest, *_, newest = Publications(scheduled.project.store).versions()
    run_id = scheduled.trigger("lambda_rollback", version=oldest.version)
    scheduled.wait(run_id, "lambda_rollback")
    assert scheduled.version == oldest.version < newest.version
    scheduled.wait(scheduled.trigger("lambda_release"), "lambda_release")
    scheduled.project.write_catalog(text)
    scheduled.parse_until(lambda: not is_broken(), "lambda_batch")


def test_a_pause_is_made_up_for_on_another_schedule(scheduled):
    """There is a single run after the pause, not one for each interval that was missed. It
    publishes anew, on top of the version that was rolled back to and is no longer held.
    """
    before = {r["dag_run_id"] for r in scheduled.runs()}
    newest = Publications(scheduled.project.store).versions()[-1].version
    scheduled.project.produce(50)
    assert airflow.blocked_by(scheduled.airflow, "lambda_batch") == "lambda_batch is paused"
    scheduled.schedule_every(60)
    airflow.pause(scheduled.api, "lambda_batch", False)

    def new() -> list[dict]:
        return [r for r in scheduled.runs() if r["dag_run_id"] not in before]

    until(lambda: bool(new()), timeout_s=100)
    scheduled.schedule_every(RARELY_S)
    (first, *later) = new()
    start, end = (
        datetime.fromisoformat(first[f"data_interval_{name}"]) for name in ("start", "end")
    )
    assert end - start == timedelta(minutes=1)
    assert all(datetime.fromisoformat(r["data_interval_start"]) >= end for r in later)
    scheduled.wait(first["dag_run_id"])
    assert scheduled.version > newest
    scheduled.quiet()
    scheduled.verify()


def test_status_says_where_airflow_is_and_who_may_log_in(scheduled):
    found = json.loads(scheduled.project.run("status", "--json")[0])["airflow"]
    assert (found["url"], found["user"]) == (scheduled.airflow.url, scheduled.airflow.user)
    assert json.loads(Path(found["password_file"]).read_text()) == {
        found["user"]: scheduled.airflow.password
    }
    said, _ = scheduled.project.run("status")
    assert f"Airflow: {found['url']}, user admin, password in {found['password_file']}" in said


def test_a_late_batch_is_reported(scheduled):
    """The settings of the first tests made every run late: `late_after` was one interval."""
    assert scheduled.messages_of("late: LATE: ")
