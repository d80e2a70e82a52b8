"""The separate processes on a Spark cluster, a standalone master and its worker: what runs on one
machine runs there, by settings alone.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pyspark
import pytest

import serving_layer
from examples.flights import catalog
from examples.flights.__main__ import prepare
from tests.support.jvm import QUICK_JVM
from tests.support.places import JARS, PROJECT
from tests.support.waiting import until
from trilayer_core.runtime import class_archive, jars
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import latest_tick
from trilayer_core.store.files import Store
from trilayer_local import kafka, processes

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

SPARK_HOME = Path(pyspark.__file__).parent

QUICK = f"-XX:+UseSerialGC {QUICK_JVM}"

SPARK_CONF = {
    # An application takes every core there is unless told otherwise: this leaves one for the batch
    # beside the speed layer.
    "spark.cores.max": "1",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def with_archive() -> str:
    """The options of a JVM that is no driver: those get the archive of Spark's classes anyway."""
    return f"{QUICK} {class_archive.java_option(Settings(jars=JARS))}"


class Machines:
    """The processes that a cluster would have on several machines, and what Spark's master says of
    them.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._started: list[processes.Process] = []
        self._page = ""

    def start(self, name: str, argv: list[str], env: dict[str, str]) -> processes.Process:
        process = processes.start(name, argv, home=self._home, env=env, cwd=PROJECT)
        self._started.append(process)
        return process

    def start_kafka(self) -> str:
        """Starts a broker for these machines alone: the topic of the flights is the catalog's to
        name. Returns its address.
        """
        folder = JARS / "kafka"
        jars.fetch(jars.KAFKA_BROKER, folder, echo=lambda _: None)
        return kafka.start(self._home, jars=folder, echo=lambda _: None).bootstrap

    def start_spark(self) -> str:
        """Starts Spark's master and a worker with 2 cores, as docker/compose.yml does.

        Returns the master's URL.
        """
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._page = f"http://127.0.0.1:{port}/json/"
        master = self._start_spark("master.Master", "--webui-port", str(port))
        until(lambda: self._has(master, status="ALIVE"), timeout_s=60)
        url: str = self.spark()["url"]
        size = ["--cores", "2", "--memory", "2g", "--work-dir", str(self._home / "work")]
        worker = self._start_spark("worker.Worker", "--webui-port", "0", *size, url)
        until(lambda: self._has(worker, aliveworkers=1), timeout_s=60)
        return url

    def _start_spark(self, main: str, *arguments: str) -> processes.Process:
        program = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        address = ["--host", "127.0.0.1", "--port", "0"]
        env = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": with_archive(),
        }
        return self.start(main.partition(".")[0], [*program, *address, *arguments], env)

    def _has(self, process: processes.Process, **expected: object) -> bool:
        assert processes.is_alive(process), processes.log_tail(process)
        try:
            return expected.items() <= self.spark().items()
        except (URLError, json.JSONDecodeError):
            return False  # not yet: the page is there before what it says as JSON

    def spark(self) -> dict[str, Any]:
        """The master's page of itself, its workers and applications."""
        with urlopen(self._page, timeout=5) as answer:
            return json.load(answer)

    def applications(self, state: str) -> list[str]:
        """Names of the `active` or `completed` applications for which the worker has started an
        executor.
        """
        executors = {path.parent.name for path in (self._home / "work").glob("app-*/0")}
        return sorted(app["name"] for app in self.spark()[f"{state}apps"] if app["id"] in executors)

    def end(self) -> None:
        """Ends all, newest first. Raises AssertionError for a descendant that has outlived it."""
        for process in reversed(self._started):
            processes.terminate(process, home=self._home)
        kafka.stop(self._home)
        tokens = {process.token for process in self._started}
        left = [
            p
            for p in psutil.process_iter()
            if _environment(p).get(processes.TOKEN_VARIABLE) in tokens
        ]
        assert not left, left


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}  # another user's, or gone


class Project:
    """The flights, in a store of their own, by settings that every command gets as variables."""

    def __init__(
        self, folder: Path, machines: Machines, bootstrap_servers: str, spark_master: str
    ) -> None:
        self.settings = Settings(
            catalog="examples.flights:catalog",
            store=str(folder / "store"),
            home=folder,
            jars=JARS,
            bootstrap_servers=bootstrap_servers,
            spark_master=spark_master,
            spark_conf=SPARK_CONF | {"spark.executor.extraJavaOptions": with_archive()},
            tick_s=1,
            settle_s=0.2,
            batch={"memory_mb": 512},
            speed={"memory_mb": 512},
        )
        self._machines, self._sent = machines, 0
        self._flights = folder / "flights.parquet"
        prepare(self._flights)

    def start(self, *arguments: str) -> processes.Process:
        command = [sys.executable, "-m", "trilayer.cli", *arguments]
        return self._machines.start(
            f"trilayer-{arguments[0]}", command, self.settings.environment()
        )

    def run(self, *arguments: str) -> None:
        """A command that must end well."""
        process = self.start(*arguments)
        until(lambda: processes.exit_status(process) is not None, timeout_s=180)
        assert processes.exit_status(process) == 0, processes.log_tail(process)

    def replay(self, flights: int) -> None:
        """Sends the next `flights`, and returns when a tick that began after them has settled: a
        cut has them all.
        """
        self.run(
            "replay",
            str(self._flights),
            "--stream",
            "flights",
            "--skip",
            str(self._sent),
            "--limit",
            str(flights),
        )
        self._sent += flights
        moment, settle_ms = now_ms(), self.settings.settle_ms
        until(lambda: latest_tick(now_ms(), self.settings.tick_ms, settle_ms) > moment)


def counted(connection: serving_layer.Connection) -> dict[str, int]:
    """Flights by layer, at one moment."""
    query = "SELECT coalesce(sum(flights), 0)::BIGINT FROM delays_by_carrier"
    with connection.snapshot() as snapshot:
        return {
            layer: snapshot.sql(query, layer).rows()[0][0] for layer in ("batch", "speed", "merged")
        }


@pytest.fixture
def machines(tmp_path, shared_classes) -> Iterator[Machines]:
    machines = Machines(tmp_path)
    try:
        yield machines
    finally:
        machines.end()


def test_both_layers_run_on_a_cluster_and_every_flight_is_counted_once(machines, tmp_path):
    project = Project(tmp_path, machines, machines.start_kafka(), machines.start_spark())
    ready = tmp_path / "speed.ready"
    speed = project.start("speed", "run", "--ready-file", str(ready))
    project.replay(3_000)

    def runs() -> bool:
        assert processes.is_alive(speed), processes.log_tail(speed)
        return ready.exists()

    until(runs, timeout_s=90)
    with serving_layer.connect(
        catalog, project.settings, Store(project.settings.store)
    ) as connection:
        until(lambda: counted(connection)["speed"] == 3_000, timeout_s=90)
        assert machines.applications("active") == ["trilayer-speed"]

        project.run("batch", "run")
        assert counted(connection) == {"batch": 3_000, "speed": 0, "merged": 3_000}
        project.replay(500)
        until(
            lambda: counted(connection) == {"batch": 3_000, "speed": 500, "merged": 3_500},
            timeout_s=60,
        )

    project.run("verify")  # ends well only if every key of every view equals its recompute
    # Its session has the batch layer's name. The master may hear of an application's end a little
    # after it.
    until(lambda: machines.applications("completed") == ["trilayer-batch"] * 2)
    assert machines.applications("active") == ["trilayer-speed"]
