"""`trilayer up`: broker, speed layer and Airflow on this machine, in the foreground."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

import dags
from cli.context import Project, out, project
from embedded import airflow, kafka, processes, spark
from trilayer import classes, jars
from trilayer.errors import EnvironmentFault
from trilayer.filelock import exclusive
from trilayer.log import Log
from trilayer.settings import BROKER_ADDRESS, SPARK_ADDRESS
from trilayer.spark import connector_jars

logger = logging.getLogger("trilayer.up")

DAGS = Path(dags.__file__).parent

START_AGAIN_S = 5.0
"""How long after the speed layer has ended it is started again."""

NoAirflow = Annotated[
    bool, typer.Option("--no-airflow", help="leave Airflow out: batch runs are then yours to start")
]


def up(
    no_airflow: NoAirflow = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="the speed layer begins anew, as with `speed run --rebuild`")
    ] = False,
) -> None:
    """Starts the local stack and keeps it until Ctrl-C: a Kafka broker, unless bootstrap_servers is set, the speed layer, and Airflow.

    A speed layer that ends by itself says why and is started again, while the rest goes on.
    """
    p = project()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    home = p.settings.home.resolve()
    with exclusive(home / "up.lock", once="`trilayer up`"):
        Stack(p, home, with_airflow=not no_airflow).run(stop, rebuild=rebuild)


def dag_folders(project: Path) -> dict[str, Path]:
    """trilayer's DAGs, and those that the project has in a folder `dags` of its own."""
    own = project / "dags"
    return {"trilayer": DAGS} | ({"project": own} if own.is_dir() and own.resolve() != DAGS.resolve() else {})


class Stack:
    """The processes of one home: what runs is recorded there, so that what a crash leaves behind is found and ended."""

    def __init__(self, p: Project, home: Path, *, with_airflow: bool) -> None:
        self._project, self._home, self.with_airflow = p, home, with_airflow
        self.airflow: airflow.Airflow | None = None
        self._speed_ready = home / "speed.ready"
        self._speed_again_at: float | None = None

    def run(self, stop: threading.Event, *, rebuild: bool = False) -> None:
        """Until `stop` is set. Raises EnvironmentFault, with the end of its log, when a process other than the speed layer ends by itself."""
        for left in processes.end_leftovers(self._home):
            logger.info("ended %s (pid %s), left by a crash", left.name, left.pid)
        try:
            self.start(rebuild=rebuild, keep=True)
            if self.with_airflow and not stop.is_set():
                self.start_airflow()
            if not stop.is_set():
                self._announce()
            while not stop.wait(0.3):
                self._check()
                self._keep_speed()
        finally:
            logger.info("stopping")
            self.stop()

    def start(self, *, rebuild: bool = False, keep: bool = False) -> Project:
        """Broker, topics, Spark Connect and speed layer; returns when they work.

        Args:
            rebuild: Have the speed layer begin anew.
            keep: Leave a speed layer that ends at once to `_keep_speed`: what its message advises may need the broker.

        Returns:
            The project with the addresses of broker and Spark in its settings.

        Raises:
            EnvironmentFault: One of them does not start.
        """
        settings = self._project.settings
        connector_jars(settings)
        classes.share(settings, echo=logger.info)
        address = self._home / BROKER_ADDRESS
        # A crash leaves the file, whose address settings without one then have.
        left = address.read_text().strip() if address.exists() else ""
        if settings.bootstrap_servers in ("", left):
            folder = (settings.jars / "kafka").resolve()
            jars.fetch(jars.KAFKA_BROKER, folder, echo=logger.info)
            broker = kafka.start(self._home, jars=folder, heap_mb=settings.broker_memory_mb, echo=logger.info)
            address.write_text(broker.bootstrap)
            settings = settings.model_copy(update={"bootstrap_servers": broker.bootstrap})
        else:
            address.unlink(missing_ok=True)
        with Log(settings.bootstrap_servers) as log:
            for stream in self._project.catalog.streams:
                log.ensure(stream, settings.replication_factor)
        (self._home / SPARK_ADDRESS).unlink(missing_ok=True)
        own_spark = not settings.spark_remote and settings.spark_master
        server = spark.start(self._home, settings, echo=logger.info) if own_spark else None
        self._project = Project(settings, self._project.catalog, self._project.store)
        speed = self._start_speed(rebuild=rebuild)
        while not self._speed_ready.exists():
            if processes.exit_status(speed) is not None:
                if keep:
                    break
                raise EnvironmentFault(f"the speed layer must start; it ended:\n{processes.log_tail(speed)}")
            threading.Event().wait(0.1)
        if server:
            settings = settings.model_copy(update={"spark_remote": spark.wait(server, self._home)})
            self._project = Project(settings, self._project.catalog, self._project.store)
        return self._project

    def _start_speed(self, *, rebuild: bool = False) -> processes.Process:
        self._speed_ready.unlink(missing_ok=True)
        logger.info("Starting the speed layer")
        command = [sys.executable, "-m", "cli", "speed", "run", "--ready-file", str(self._speed_ready)]
        # MALLOC_ARENA_MAX: glibc keeps an arena a thread; two save tens of MB in each process.
        environment = self._project.settings.environment() | {"MALLOC_ARENA_MAX": "2"}
        return processes.start(
            "speed", [*command, *(["--rebuild"] if rebuild else [])], home=self._home, env=environment
        )

    def _keep_speed(self) -> None:
        """Starts the speed layer again, some seconds after it has ended by itself."""
        if processes.running(self._home, "speed") is not None:
            return
        if self._speed_again_at is None:
            self._speed_again_at = time.monotonic() + START_AGAIN_S
            logger.error(
                "the speed layer ended by itself; it is started again in %g s; the end of %s",
                START_AGAIN_S, self._end_of_log("speed"),
            )  # fmt: skip
        elif time.monotonic() >= self._speed_again_at:
            self._speed_again_at = None
            self._start_speed()

    def _end_of_log(self, name: str) -> str:
        log = self._home / "logs" / f"{name}.log"
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""
        return f"{log}:\n{tail}"

    def start_airflow(self) -> airflow.Airflow:
        """Airflow beside the rest, after `start`; returns when it answers, with `lambda_batch` scheduled unless a person has paused it."""
        new = not (self._home / "airflow" / "airflow.db").exists()
        settings = self._project.settings
        self.airflow = airflow.start(
            self._home, dags=dag_folders(Path.cwd()), project=Path.cwd(), env=settings.environment(), port=settings.airflow_port, echo=logger.info
        )  # fmt: skip
        if new:
            airflow.unpause(self.airflow, "lambda_batch")
        return self.airflow

    def _announce(self) -> None:
        out.print(f"Kafka         {self._project.settings.bootstrap_servers}")
        out.print(f"speed layer   {', '.join(stream.name for stream in self._project.catalog.streams)}")
        if self.airflow:
            out.print(
                f"Airflow       {self.airflow.url}   user {self.airflow.user}, password {self.airflow.password}"
            )
            every_min = self._project.settings.batch_every_s // 60
            out.print(
                f"batch layer   DAG lambda_batch, every {every_min} min; the others are paused until you start them"
            )
        out.print(f"logs          {self._home / 'logs'}")
        out.print(
            "now           trilayer replay FILE --stream NAME · trilayer batch run · trilayer sql QUERY · Ctrl-C ends it"
        )

    def _check(self) -> None:
        expected = list(airflow.PROCESSES) if self.airflow else []
        if (self._home / BROKER_ADDRESS).exists():
            expected.append(kafka.NAME)
        if (self._home / SPARK_ADDRESS).exists():
            expected.append(spark.NAME)
        for name in expected:
            if processes.running(self._home, name) is None:
                raise EnvironmentFault(
                    f"{name} must run; it ended by itself; the end of {self._end_of_log(name)}"
                )

    def stop(self) -> None:
        """Ends in order what runs. Nothing happens to what doesn't."""
        airflow.stop(self._home)
        record = processes.running(self._home, "speed")
        if record is not None:
            processes.terminate(record, home=self._home, timeout_s=20)
        spark.stop(self._home)
        kafka.stop(self._home)
        (self._home / BROKER_ADDRESS).unlink(missing_ok=True)
        self._speed_ready.unlink(missing_ok=True)
