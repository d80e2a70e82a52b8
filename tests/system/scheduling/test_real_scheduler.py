"""The real Airflow, on a real broker and a real speed layer: its DAGs run as they would for a user,
looked at through its REST API.

One story, told in order: each test goes on from where the one before it left the project, and
verifies every answer at its end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from tests.support.places import PROJECT
from tests.support.project import Project
from tests.support.waiting import until
from trilayer.local import airflow, processes
from trilayer.operations.local_stack import dag_folders
from trilayer.operations.project import Project as Opened
from trilayer.operations.verification.run import verification
from trilayer_core.store.publications import Publications

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

SCHEDULER = "airflow-scheduler"
ENDED = ("success", "failed")
RARELY_S = 2 * 60 * 60
"""`batch_every_s` once two intervals have been published: the tests after that trigger their runs,
and would wait for each scheduled run that begins meanwhile.
"""

MINE = '''"""A DAG of one's own, which knows no more of trilayer than the name of a view."""
from airflow.sdk import DAG, Asset, task

with DAG("mine", schedule=[Asset("by_user")]):

    @task
    def tell(triggering_asset_events):
        (events,) = triggering_asset_events.values()
        return dict(max(events, key=lambda event: event.timestamp).extra)

    tell()
'''


def arguments(folder: Path) -> dict:
    """Those with which Airflow is started."""
    return {
        "dags": dag_folders(folder),
        "project": folder,
        "env": {"PYTHONPATH": str(PROJECT)},
    }


class Scheduled:
    """A project whose batch layer Airflow runs, every minute in the first test."""

    def __init__(self, project: Project, home: Path, running: airflow.Airflow, spark) -> None:
        self.project, self.home, self.airflow, self._spark = project, home, running, spark
        self.api = running.client()

    def keep(self) -> None:
        """Starts the scheduler again, as `trilayer up` does, if it lost a race in its database.

        Airflow takes back the runs of a backfill that finds the database locked, and makes them
        again, while the scheduler may already have them.
        """
        if processes.running(self.home, SCHEDULER) is None:
            log = processes.log_tail(processes.last_started(self.home, SCHEDULER), lines=80)
            assert {"StaleDataError", "ObjectDeletedError"} & set(re.findall(r"\w+", log)), log
            airflow.start_again(SCHEDULER, self.home, **arguments(self.project.folder))

    def get(self, path: str, **params):
        self.keep()
        answer = self.api.get(path, params=params)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, body: dict):
        answer = self.api.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def trigger(self, dag: str, **conf) -> str:
        return self.post(f"/dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"]

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

    def wait_for_version(self, number: int) -> None:
        until(
            lambda: (
                (p := Publications(self.project.store).in_force()) is not None
                and p.version >= number
            ),
            timeout_s=400,
        )

    def quiet(self) -> None:
        """No run of lambda_batch is under way."""

        def is_quiet() -> bool:
            self.keep()
            return not airflow.runs(self.api, "lambda_batch", "running", "queued")

        until(is_quiet, timeout_s=400)

    def is_rarely_scheduled(self) -> bool:
        """Whether Airflow has parsed the DAG since `batch_every_s` became `RARELY_S`."""
        return self.get("/dags/lambda_batch/details")["timetable_summary"] == "0 */2 * * *"

    def pause_when_quiet(self) -> None:
        """Pauses lambda_batch between two runs; a run that is paused would wait."""
        while True:
            self.quiet()
            airflow.pause(self.api, "lambda_batch")
            if not airflow.runs(self.api, "lambda_batch", "running", "queued"):
                return
            airflow.pause(self.api, "lambda_batch", False)

    def verify(self) -> None:
        """Every answer equals the log, the master dataset, and what was sent."""
        self.project.wait_for_all(timeout_s=60)
        opened = Opened(self.project.settings(), self.project.catalog(), self.project.store)
        found = verification(opened, lambda: self._spark)
        assert found.clean, found
        self.project.check_answers()

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
    settings = {"batch_every_s": 60, "late_after": 1, "keep_versions": 20}
    project = Project(folder, broker.bootstrap, new_topic(), spark_remote=spark_connect, **settings)
    home = folder / ".trilayer"
    project.produce(1_000, broken=2)
    speed = project.start("speed", "run")
    try:
        (folder / "dags").mkdir()
        (folder / "dags" / "mine.py").write_text(MINE)
        running = airflow.start(home, **arguments(folder), echo=lambda _: None)
        airflow.unpause(running, "lambda_batch")
        yield Scheduled(project, home, running, spark)
    finally:
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
    scheduled.project.set("batch_every_s", RARELY_S)
    until(lambda: begun(2, "success") and scheduled.is_rarely_scheduled(), timeout_s=400)
    first, second = [r for r in scheduled.runs() if r["run_type"] == "scheduled"][:2]
    for run, publication in (
        (first, Publications(scheduled.project.store).versions()[0]),
        (second, Publications(scheduled.project.store).versions()[1]),
    ):
        end = datetime.fromisoformat(run["data_interval_end"])
        assert end - datetime.fromisoformat(run["data_interval_start"]) == timedelta(minutes=1)
        assert publication.t_ms == end.timestamp() * 1000
    scheduled.verify()


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
    that are scheduled on a view.
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
    folder = str(scheduled.project.folder)

    def killed() -> bool:
        for process in psutil.process_iter(["cmdline", "cwd"]):
            command = process.info["cmdline"] or []
            if process.info["cwd"] == folder and {"recompute", "trilayer.cli"} <= set(command):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
                    return True
        return False

    until(
        lambda: scheduled.tasks(run_id)["recompute"]["state"] == "running" and killed(),
        timeout_s=400,
    )
    tasks = scheduled.wait(run_id)
    assert tasks["recompute"]["try_number"] == 2
    assert "ended with -9" in "\n".join(scheduled.log(run_id, "recompute", number=1))
    scheduled.wait(report_id, "lambda_full_recompute")
    report = scheduled.returned(report_id, "report", "lambda_full_recompute")
    assert report["kind"] == "full"
    assert {view: counts["changed"] for view, counts in report["views"].items()} == {
        "by_user": 0,
        "by_minute": 0,
        "hourly": 0,
    }
    for name in ("example_on_publish", "mine"):

        def told(name: str = name) -> list[int]:
            ended = [r["dag_run_id"] for r in scheduled.runs(name) if r["state"] == "success"]
            return [scheduled.returned(run_id, "tell", name)["version"] for run_id in ended]

        until(lambda: max(told(), default=0) > before, timeout_s=120)
    for name in names:
        airflow.pause(scheduled.api, name)
    scheduled.verify()


def test_a_backfill_publishes_nothing_twice(scheduled):
    scheduled.quiet()
    newest = Publications(scheduled.project.store).in_force()
    interval_ms = RARELY_S * 1000
    began = datetime.fromtimestamp((newest.t_ms // interval_ms - 5) * RARELY_S, UTC)
    body = {
        "dag_id": "lambda_batch",
        "from_date": began.isoformat(),
        "to_date": (began + timedelta(seconds=RARELY_S)).isoformat(),
        "max_active_runs": 1,
        "reprocess_behavior": "none",
        "run_backwards": False,
        "dag_run_conf": {},
    }
    scheduled.post("/backfills", body)

    def backfilled() -> list[dict]:
        return [r for r in scheduled.runs() if r["run_type"] == "backfill"]

    until(
        lambda: len(backfilled()) == 2 and all(r["state"] in ENDED for r in backfilled()),
        timeout_s=400,
    )
    for run in backfilled():
        tasks = scheduled.tasks(run["dag_run_id"])
        states = {name: task["state"] for name, task in tasks.items()}
        assert set(states.values()) == {"skipped"}, states
        said = scheduled.log(run["dag_run_id"], "cut", number=tasks["cut"]["try_number"])
        assert "covers this run's interval" in "\n".join(said)
    mine = {p.t_ms for p in Publications(scheduled.project.store).versions()}
    assert not any(
        datetime.fromisoformat(r["data_interval_end"]).timestamp() * 1000 in mine
        for r in backfilled()
    )
    scheduled.verify()


def test_clearing_does_no_harm(scheduled):
    scheduled.quiet()
    done = [
        r["dag_run_id"] for r in scheduled.runs(run_type="scheduled") if r["state"] == "success"
    ]
    before = scheduled.version
    # A whole old run: it is covered, and says so.
    clear = {"dry_run": False, "only_failed": False, "reset_dag_runs": True, "dag_run_id": done[0]}
    scheduled.post("/dags/lambda_batch/clearTaskInstances", clear)
    tasks = scheduled.wait(done[0])
    assert tasks["cut"]["state"] == "skipped"
    # One task of an old run: a later run has taken over, and it ends without a change.
    scheduled.post(
        "/dags/lambda_batch/clearTaskInstances",
        clear | {"dag_run_id": done[1], "task_ids": ["recompute"]},
    )
    until(lambda: scheduled.tasks(done[1])["recompute"]["state"] == "skipped", timeout_s=120)
    number = scheduled.tasks(done[1])["recompute"]["try_number"]
    assert "a later run has taken over" in "\n".join(
        scheduled.log(done[1], "recompute", number=number)
    )
    assert scheduled.version >= before
    scheduled.verify()


def test_a_rollback_holds_while_the_batch_is_paused(scheduled):
    scheduled.pause_when_quiet()
    for name in ("lambda_rollback", "lambda_release"):
        airflow.pause(scheduled.api, name, False)
    target = Publications(scheduled.project.store).versions()[0].version
    run_id = scheduled.trigger("lambda_rollback", version=target)
    wrong = scheduled.trigger("lambda_rollback", version=9_999)
    scheduled.wait(run_id, "lambda_rollback")
    assert scheduled.version == target
    scheduled.project.produce(100)
    scheduled.verify()
    scheduled.wait(wrong, "lambda_rollback", expect="failed")
    assert "version must be one that is kept; got 9999" in "\n".join(
        scheduled.log(wrong, "rollback", "lambda_rollback")
    )
    assert scheduled.tasks(wrong, "lambda_rollback")["rollback"]["try_number"] == 1


def test_a_rollback_with_a_hold_lasts_until_it_is_released(scheduled):
    target = Publications(scheduled.project.store).versions()[-2]

    def offered() -> list[str]:
        """The form's line of the target: Airflow parses the file anew every half minute."""
        lines = scheduled.get("/dags/lambda_rollback/details")["params"]["version"]["schema"][
            "examples"
        ]
        return [line for line in lines if line.split()[0] == str(target.version)]

    until(lambda: bool(offered()), timeout_s=120)
    (line,) = offered()
    assert f"T={target.t}" in line
    run_id = scheduled.trigger("lambda_rollback", version=line, hold=True, why="a wrong price")
    scheduled.wait(run_id, "lambda_rollback")
    assert scheduled.version == target.version
    scheduled.project.produce(100)
    refused = scheduled.trigger("lambda_batch")
    airflow.pause(scheduled.api, "lambda_batch", False)
    tasks = scheduled.wait(refused)
    assert {task["state"] for task in tasks.values()} == {"skipped"}
    said = "\n".join(scheduled.log(refused, "cut", number=tasks["cut"]["try_number"]))
    assert f"version {target.version} is held since" in said
    assert "a wrong price; release it with `trilayer batch release`" in said
    assert scheduled.version == target.version
    scheduled.verify()
    # Once it is released, the next run publishes anew, on top of the older version.
    newest = Publications(scheduled.project.store).versions()[-1].version
    scheduled.wait(scheduled.trigger("lambda_release"), "lambda_release")
    scheduled.trigger("lambda_batch")
    scheduled.wait_for_version(newest + 1)
    scheduled.verify()


def test_status_says_where_airflow_is_and_who_may_log_in(scheduled):
    found = json.loads(scheduled.project.run("status", "--json")[0])["airflow"]
    assert (found["url"], found["user"]) == (scheduled.airflow.url, scheduled.airflow.user)
    assert json.loads(Path(found["password_file"]).read_text()) == {
        found["user"]: scheduled.airflow.password
    }
    said, _ = scheduled.project.run("status")
    assert f"Airflow: {found['url']}, user admin, password in {found['password_file']}" in said


def test_a_run_past_its_deadline_is_told(scheduled):
    """The settings of this project make every run late: `late_after` is one interval."""
    log = scheduled.home / "airflow" / "logs"

    def told() -> bool:
        files = [*log.rglob("*.log"), scheduled.home / "logs" / "airflow-triggerer.log"]
        return any(
            "LATE: the cut in force lags by more than 60 s" in f.read_text(errors="replace")
            for f in files
            if f.exists()
        )

    until(told, timeout_s=120)
