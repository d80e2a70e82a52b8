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
from kafka import KafkaProducer

import serving_layer
from tests.support.jvm import INTERPRETED, QUICK_JVM
from tests.support.notebooks import flights, write_catalog
from tests.support.places import JARS, PROJECT
from tests.support.waiting import until
from trilayer_core.definitions.catalog import load_catalog
from trilayer_core.log.broker import Log
from trilayer_core.runtime import class_archive
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import latest_tick
from trilayer_core.store.files import Store
from trilayer_local import processes

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

SPARK_HOME = Path(pyspark.__file__).parent

SPARK_CONF = INTERPRETED | {
    # An application takes every core there is unless told otherwise: this leaves one for the batch
    # beside the speed layer.
    "spark.cores.max": "1",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def with_archive() -> str:
    """The options of a JVM that is no driver: those get the archive of Spark's classes anyway."""
    return f"{QUICK_JVM} {class_archive.java_option(Settings(jars=JARS))}"


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
        self, folder: Path, machines: Machines, bootstrap_servers: str, topic: str, master: str
    ) -> None:
        self.settings = Settings(
            catalog=write_catalog(folder, topic),
            store=str(folder / "store"),
            home=folder,
            jars=JARS,
            bootstrap_servers=bootstrap_servers,
            spark_master=master,
            spark_conf=SPARK_CONF | {"spark.executor.extraJavaOptions": with_archive()},
            tick_s=1,
            settle_s=0.2,
            batch={"memory_mb": 512},
            speed={"memory_mb": 512},
        )
        self._machines, self._folder = machines, folder
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(folder)
            self.catalog = load_catalog(self.settings.catalog)
        self._flights, _ = flights(folder / "flights.parquet", days=5, late_days=())

    def start(self, *arguments: str) -> processes.Process:
        command = [sys.executable, "-m", "trilayer.cli", *arguments]
        env = self.settings.environment() | {"PYTHONPATH": str(self._folder)}
        return self._machines.start(f"trilayer-{arguments[0]}", command, env)

    def run(self, *arguments: str) -> None:
        """A command that must end well."""
        process = self.start(*arguments)
        until(lambda: processes.exit_status(process) is not None, timeout_s=180)
        assert processes.exit_status(process) == 0, processes.log_tail(process)

    def send(self, number: int) -> None:
        """Sends the next flights, and returns when a tick that began after them has settled: a cut
        has them all.
        """
        (stream,) = self.catalog.streams
        with Log(self.settings.bootstrap_servers) as log:
            log.ensure(stream)
        producer = KafkaProducer(bootstrap_servers=self.settings.bootstrap_servers)
        for value in self._flights[:number]:
            producer.send(stream.topic, value)
        producer.close()
        del self._flights[:number]
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


def test_both_layers_run_on_a_cluster_and_every_flight_is_counted_once(
    machines, tmp_path, broker, new_topic
):
    project = Project(tmp_path, machines, broker.bootstrap, new_topic(), machines.start_spark())
    ready = tmp_path / "speed.ready"
    speed = project.start("speed", "run", "--ready-file", str(ready))
    project.send(3_000)

    def runs() -> bool:
        assert processes.is_alive(speed), processes.log_tail(speed)
        return ready.exists()

    until(runs, timeout_s=90)
    with serving_layer.connect(
        project.catalog, project.settings, Store(project.settings.store)
    ) as connection:
        until(lambda: counted(connection)["speed"] == 3_000, timeout_s=90)
        assert machines.applications("active") == ["trilayer-speed"]

        project.run("batch", "run")
        assert counted(connection) == {"batch": 3_000, "speed": 0, "merged": 3_000}
        project.send(500)
        until(
            lambda: counted(connection) == {"batch": 3_000, "speed": 500, "merged": 3_500},
            timeout_s=60,
        )

    project.run("verify")  # ends well only if every key of every view equals its recompute
    # Its session has the batch layer's name. The master may hear of an application's end a little
    # after it.
    until(lambda: machines.applications("completed") == ["trilayer-batch"] * 2)
    assert machines.applications("active") == ["trilayer-speed"]
