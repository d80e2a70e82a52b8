"""Apache Airflow on this machine, in a folder of its own.

It has a database, four processes and one user, and is meant for a laptop: SQLite, the
LocalExecutor, loopback only. Another Airflow installation can run the same DAGs; docs/airflow.md
says how.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from trilayer.command_lines import with_parent
from trilayer_core.errors import EnvironmentFault
from trilayer_core.runtime.progress import shown
from trilayer_local import processes
from trilayer_local.ports import choose_port

PROCESSES = (
    "airflow-api-server",
    "airflow-scheduler",
    "airflow-dag-processor",
    "airflow-triggerer",
)
USER = "admin"

NOT_INSTALLED = (
    "Airflow must be installed to schedule the batch; it is not; run: pip install"
    " 'trilayer[airflow]', or leave it out: trilayer up --no-airflow"
)

TIMEOUT_S = 60
"""The time limit of a request in seconds; the machine may be busy with other work."""

LOCK_TIMEOUT_S = 50
"""How long Airflow waits for its database while another of its processes writes, in seconds.

With SQLite's default of 5 s, a request on a busy machine fails with "Database error".
"""

POOL = "trilayer"
"""The pool of the tasks of batch runs. It has one slot, because they share one machine."""

IMPORTED = {
    "config/airflow_local_settings.py": "import trilayer_local.airflow_database",
    "plugins/trilayer_plugin.py": "from trilayer.airflow.refused_runs import TrilayerPlugin",
}
"""Files below Airflow's folder that it imports in each process, and their only line."""

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""The pauses before a request that Airflow could not answer is repeated, in seconds."""


@dataclass(frozen=True)
class Airflow:
    """A running Airflow: the address of its web interface and REST API, and the login."""

    url: str
    user: str
    password: str

    def client(self) -> httpx.Client:
        """Returns a client of its REST API (/api/v2) that is logged in."""
        user = {"username": self.user, "password": self.password}
        answer = httpx.post(f"{self.url}/auth/token", json=user, timeout=TIMEOUT_S)
        answer.raise_for_status()
        headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
        return httpx.Client(
            base_url=f"{self.url}/api/v2", headers=headers, timeout=TIMEOUT_S, transport=_Again()
        )


class _Again(httpx.HTTPTransport):
    """Repeats a request after a server error, if repeating it can do no harm.

    SQLite refuses a transaction that has read and then wants to write, at once and whatever its
    timeout, if another process has written in between. Nothing was done in that case, so such a
    request is repeated whatever its method is.
    """

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        for pause_s in PAUSES_S:
            answer = super().handle_request(request)
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                return answer
            is_locked = b"database is locked" in answer.read().lower()
            if not is_locked and request.method not in ("GET", "PATCH", "PUT", "DELETE"):
                return answer
            answer.close()
            threading.Event().wait(pause_s)
        return super().handle_request(request)


def is_installed() -> bool:
    """Returns whether the package is installed, without importing it."""
    return importlib.util.find_spec("airflow") is not None


def start(
    home: Path,
    *,
    dags: Mapping[str, Path],
    project: Path,
    env: Mapping[str, str],
    port: int = 0,
    echo: Callable[[str], None],
) -> Airflow:
    """Starts Airflow in `home/airflow`, and returns when it answers.

    Its tasks run in the folder `project` with `env` added to their environment. `dags` maps names
    of bundles to folders of DAG files. `port` is the port of the web interface; if it is 0, the
    previous one or a free one.

    Raises:
        EnvironmentFault: A process has ended. The message has the end of its log.
    """
    if not is_installed():
        raise EnvironmentFault(NOT_INSTALLED)
    folder = home / "airflow"
    folder.mkdir(parents=True, exist_ok=True)
    state = _state(folder, port)
    environment = _environment(env, folder, dags, state)
    airflow = _at(state)
    for name, line in IMPORTED.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{line}  # noqa: F401\n")
    if not (folder / "airflow.db").exists():
        with shown("Making Airflow's database", echo=echo):
            _create_database(folder, project, environment)
    started = {name: _start(name, home, project, environment) for name in PROCESSES}
    with shown(f"Starting Airflow at {airflow.url}", echo=echo):
        while not is_healthy(airflow):
            for name, process in started.items():
                if processes.exit_status(process) is not None:
                    raise EnvironmentFault(
                        f"{name} must start; it ended:\n{processes.log_tail(process)}"
                    )
            threading.Event().wait(0.2)
    _create_pool(airflow)
    return airflow


def _create_pool(airflow: Airflow) -> None:
    """Creates the pool, unless it exists: a person may have given it another number of slots."""
    with airflow.client() as client:
        if client.get(f"/pools/{POOL}").status_code == httpx.codes.NOT_FOUND:
            purpose = "The tasks of batch runs, one at a time because they share this machine"
            pool = {"name": POOL, "slots": 1, "description": purpose, "include_deferred": False}
            client.post("/pools", json=pool).raise_for_status()


def start_again(
    name: str, home: Path, *, dags: Mapping[str, Path], project: Path, env: Mapping[str, str]
) -> processes.Process:
    """Starts one of `PROCESSES` again, which has ended, beside the others.

    The arguments are those of `start`. Airflow loses nothing: its processes go on from its
    database.

    Raises:
        ConflictError: It is running.
    """
    folder = home / "airflow"
    state = json.loads((folder / "state.json").read_text())
    return _start(name, home, project, _environment(env, folder, dags, state))


def _start(
    name: str, home: Path, project: Path, environment: Mapping[str, str]
) -> processes.Process:
    command = _command(project, name.removeprefix("airflow-"))
    return processes.start(name, command, home=home, env=environment, cwd=project)


def unpause(airflow: Airflow, dag_id: str, *, timeout_s: float = 600) -> None:
    """Waits until the DAG has been parsed, and starts its schedule.

    Raises:
        EnvironmentFault: It was not found. The message has the import errors.
    """
    deadline = time.monotonic() + timeout_s
    with airflow.client() as client:
        while (
            client.patch(f"/dags/{dag_id}", json={"is_paused": False}).status_code != httpx.codes.OK
        ):
            if time.monotonic() > deadline:
                errors = [
                    e["stack_trace"] for e in client.get("/importErrors").json()["import_errors"]
                ]
                raise EnvironmentFault(
                    f"DAG {dag_id} must be there; it is not; {errors or 'no import error is known'}"
                )
            threading.Event().wait(0.2)


def pause(api: httpx.Client, dag_id: str, paused: bool = True) -> None:
    """Pauses or unpauses the DAG.

    While it is paused, no further scheduled run begins, and an active one waits before its next
    task.
    """
    api.patch(f"/dags/{dag_id}", json={"is_paused": paused}).raise_for_status()


def runs(api: httpx.Client, dag_id: str, *states: str) -> list[str]:
    """Returns the ids of the DAG's runs in one of the states."""
    answer = api.get(f"/dags/{dag_id}/dagRuns", params={"state": list(states)})
    answer.raise_for_status()
    return [run["dag_run_id"] for run in answer.json()["dag_runs"]]


def blocked_by(airflow: Airflow, dag_id: str) -> str:
    """What keeps the DAG's next scheduled run from beginning, in words; empty if nothing does."""
    try:
        with airflow.client() as api:
            if api.get(f"/dags/{dag_id}").raise_for_status().json()["is_paused"]:
                return f"{dag_id} is paused"
            unfinished = {"state": ["running", "queued"], "order_by": "run_after"}
            answer = api.get(f"/dags/{dag_id}/dagRuns", params=unfinished).raise_for_status()
            # Runs of a backfill prevent no other run.
            active = [r for r in answer.json()["dag_runs"] if r["run_type"] != "backfill"]
    except httpx.HTTPError as error:
        return f"Airflow does not answer: {error}"
    if not active:
        return ""
    run = active[0]
    since = f"since {run['start_date']}" if run["start_date"] else f"not before {run['run_after']}"
    return (
        f"run {run['dag_run_id']} of {dag_id} is {run['state']}, {since}; wait, or mark it failed"
    )


def running(home: Path) -> Airflow | None:
    """Returns the Airflow that is running in `home`, or None."""
    if any(processes.running(home, name) is None for name in PROCESSES):
        return None
    return _at(json.loads((home / "airflow" / "state.json").read_text()))


@dataclass(frozen=True)
class AirflowStatus:
    """The address and login of a running Airflow, as `trilayer status` shows them.

    Attributes:
        url: The address.
        user: The user.
        password_file: The file with the password.
        blocked_by: If the batch is late: what keeps scheduled runs from beginning, in words, such
            as a run that is active. Otherwise, and in what the server reports, empty.
    """

    url: str
    user: str
    password_file: str
    blocked_by: str = ""


def status(home: Path, *, late: bool) -> AirflowStatus | None:
    """Returns the status of the Airflow that is running in `home`; None if none is.

    Args:
        home: The folder of the local stack.
        late: Whether to ask Airflow what keeps scheduled runs from beginning.
    """
    airflow = running(home)
    if airflow is None:
        return None
    blocked = blocked_by(airflow, "lambda_batch") if late else ""
    return AirflowStatus(airflow.url, airflow.user, str(password_file(home)), blocked)


def password_file(home: Path) -> Path:
    """Returns the file with the password of Airflow's user, which only this user can read."""
    return home / "airflow" / "passwords.json"


def stop(home: Path, *, timeout_s: float = 10) -> None:
    """Ends all processes at once, including running tasks. Does nothing if none is running.

    Processes that have not ended after `timeout_s` seconds are killed.
    """
    alive = [record for name in PROCESSES if (record := processes.running(home, name)) is not None]
    with ThreadPoolExecutor(len(PROCESSES)) as pool:
        list(
            pool.map(
                partial(processes.terminate, home=home, timeout_s=timeout_s, last_s=0.5), alive
            )
        )


def _at(state: Mapping[str, str]) -> Airflow:
    return Airflow(f"http://127.0.0.1:{state['port']}", USER, state["password"])


def _state(folder: Path, port: int) -> dict[str, str]:
    """Returns the port, the password and the keys, which are chosen once.

    The password is in a file that only this user can read.
    """
    path = folder / "state.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    chosen = choose_port(port or None, before.get("port"))
    # The logs of running tasks are served on two more ports, whose defaults would conflict with a
    # second stack.
    ports = {
        name: str(choose_port(None, before.get(name), chosen))
        for name in ("task_logs", "trigger_logs")
    }
    keys = {
        name: before.get(name) or secrets.token_urlsafe(24)
        for name in ("password", "secret", "jwt")
    }
    state = {"port": str(chosen), **ports, **keys}
    path.touch(mode=0o600)
    path.write_text(json.dumps(state))
    passwords = password_file(folder.parent)
    passwords.touch(mode=0o600)
    passwords.write_text(json.dumps({USER: state["password"]}))
    return state


def _environment(
    env: Mapping[str, str], folder: Path, dags: Mapping[str, Path], state: Mapping[str, str]
) -> dict[str, str]:
    """Returns the environment of Airflow's processes, with the pool of the settings or ours."""
    pool = env.get("TRILAYER_AIRFLOW_POOL") or POOL
    return {**env, "TRILAYER_AIRFLOW_POOL": pool, **_configuration(folder, dags, state)}


def _configuration(
    folder: Path, dags: Mapping[str, Path], state: Mapping[str, str]
) -> dict[str, str]:
    url = _at(state).url
    bundles = [
        {
            "name": name,
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(path), "refresh_interval": 30},
        }
        for name, path in dags.items()
    ]
    settings = {
        ("core", "dags_folder"): str(next(iter(dags.values()))),
        ("dag_processor", "dag_bundle_config_list"): json.dumps(bundles),
        ("core", "load_examples"): "False",
        ("core", "executor"): "LocalExecutor",
        ("core", "parallelism"): "4",
        (
            "core",
            "auth_manager",
        ): "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
        ("core", "simple_auth_manager_users"): f"{USER}:admin",
        ("core", "simple_auth_manager_passwords_file"): str(password_file(folder.parent)),
        ("core", "execution_api_server_url"): f"{url}/execution/",
        ("core", "fernet_key"): "",
        (
            "database",
            "sql_alchemy_conn",
        ): f"sqlite:///{folder / 'airflow.db'}?timeout={LOCK_TIMEOUT_S}",
        ("api", "host"): "127.0.0.1",
        ("api", "port"): state["port"],
        ("api", "base_url"): url,
        ("api", "workers"): "1",
        ("api", "expose_stacktrace"): "True",  # shown to the user, who owns database and logs
        ("api", "secret_key"): state["secret"],
        ("api_auth", "jwt_secret"): state["jwt"],
        ("logging", "base_log_folder"): str(folder / "logs"),
        ("logging", "worker_log_server_port"): state["task_logs"],
        ("logging", "trigger_log_server_port"): state["trigger_logs"],
        ("scheduler", "enable_health_check"): "False",
        (
            "scheduler",
            "scheduler_idle_sleep_time",
        ): "0.25",  # a run of five short tasks waits for this between the tasks
        (
            "scheduler",
            "orphaned_tasks_check_interval",
        ): "30",  # a scheduler that is started again adopts the tasks of the one before this soon
        ("usage_data_collection", "enabled"): "False",
    }
    variables = {
        f"AIRFLOW__{section.upper()}__{name.upper()}": value
        for (section, name), value in settings.items()
    }
    return {"AIRFLOW_HOME": str(folder), "MALLOC_ARENA_MAX": "2", **variables}


def _create_database(folder: Path, project: Path, environment: Mapping[str, str]) -> None:
    log = folder / "database.log"
    with log.open("wb") as output:
        created = subprocess.run(
            with_parent(_command(project, "db", "migrate")),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | environment,
            cwd=project,
            check=False,
        )
    if created.returncode:
        (folder / "airflow.db").unlink(missing_ok=True)
        raise EnvironmentFault(
            f"Airflow's database must be made; it could not be:\n{log.read_text()[-2000:]}"
        )
    with closing(sqlite3.connect(folder / "airflow.db")) as database:
        # Its readers and its writer do not wait for each other then. The file remembers it.
        database.execute("PRAGMA journal_mode = WAL")


# At its end, Python waits for the workers of the scheduler. They wait for work for ever if a second
# SIGTERM has interrupted the scheduler while it told them to end. If the starter is killed, Linux
# sends the scheduler one for each of the starter's threads. So the workers are terminated first,
# which no further signal interrupts.
_AIRFLOW = """
import atexit, multiprocessing.util, runpy, signal, sys
def end():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for child in multiprocessing.active_children():
        child.terminate()
atexit.register(end)
sys.path.append(sys.argv.pop(1))
runpy.run_module("airflow", None, "__main__", True)
"""


def _command(project: Path, *arguments: str) -> list[str]:
    """Returns the command `airflow ARGUMENTS`, which searches the project's modules last.

    They therefore do not shadow Airflow's own.
    """
    return [sys.executable, "-P", "-c", _AIRFLOW, str(project), *arguments]


def is_healthy(airflow: Airflow) -> bool:
    """Returns whether Airflow answers and reports that all components are healthy.

    These are its database, scheduler, DAG processor and triggerer.
    """
    try:
        health = httpx.get(f"{airflow.url}/api/v2/monitor/health", timeout=5)
    except httpx.HTTPError:
        return False
    parts = health.json() if health.is_success else {}
    return bool(parts) and all(
        parts.get(part, {}).get("status") == "healthy"
        for part in ("metadatabase", "scheduler", "triggerer", "dag_processor")
    )
