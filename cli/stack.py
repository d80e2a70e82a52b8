"""`trilayer up`: broker, speed layer and Airflow on this machine, in the foreground."""

from __future__ import annotations

import logging
import signal
import sys
import threading
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


NoAirflow = Annotated[
    bool, typer.Option("--no-airflow", help="leave Airflow out: batch runs are then yours to start")
]


def up(no_airflow: NoAirflow = False) -> None:
    """Starts the local stack and keeps it until Ctrl-C: a Kafka broker, unless bootstrap_servers is set, the speed layer, and Airflow."""
    p = project()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    home = p.settings.home.resolve()
    with exclusive(home / "up.lock", once="`trilayer up`"):
        Stack(p, home, with_airflow=not no_airflow).run(stop)


def dag_folders(project: Path) -> dict[str, Path]:
    """trilayer's DAGs, and those that the project has in a folder `dags` of its own."""
    own = project / "dags"
    return {"trilayer": DAGS} | ({"project": own} if own.is_dir() and own.resolve() != DAGS.resolve() else {})


class Stack:
    """The processes of one home: what runs is recorded there, so that what a crash leaves behind is found and ended."""

    def __init__(self, p: Project, home: Path, *, with_airflow: bool) -> None:
        self._project, self._home, self.with_airflow = p, home, with_airflow
        self.airflow: airflow.Airflow | None = None

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set. Raises EnvironmentFault, with the end of its log, when a process ends by itself."""
        for left in processes.end_leftovers(self._home):
            logger.info("ended %s (pid %s), left by a crash", left.name, left.pid)
        try:
            self.start()
            if self.with_airflow and not stop.is_set():
                self.start_airflow()
            if not stop.is_set():
                self._announce()
            while not stop.wait(0.3):
                self._check()
        finally:
            logger.info("stopping")
            self.stop()

    def start(self) -> Project:
        """Broker, topics, Spark Connect and speed layer; returns when they work: the project with their addresses in its settings."""
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
        ready = self._home / "speed.ready"
        ready.unlink(missing_ok=True)
        logger.info("Starting the speed layer")
        command = [sys.executable, "-m", "cli", "speed", "run", "--ready-file", str(ready)]
        # MALLOC_ARENA_MAX: glibc keeps an arena a thread; two save tens of MB in each process.
        speed = processes.start(
            "speed", command, home=self._home, env=settings.environment() | {"MALLOC_ARENA_MAX": "2"}
        )
        while not ready.exists():
            if processes.exit_status(speed) is not None:
                raise EnvironmentFault(f"the speed layer must start; it ended:\n{processes.log_tail(speed)}")
            threading.Event().wait(0.1)
        if server:
            settings = settings.model_copy(update={"spark_remote": spark.wait(server, self._home)})
        self._project = Project(settings, self._project.catalog, self._project.store)
        return self._project

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
        expected = ["speed", *(airflow.PROCESSES if self.airflow else [])]
        if (self._home / BROKER_ADDRESS).exists():
            expected.append(kafka.NAME)
        if (self._home / SPARK_ADDRESS).exists():
            expected.append(spark.NAME)
        for name in expected:
            if processes.running(self._home, name) is None:
                log = self._home / "logs" / f"{name}.log"
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""
                raise EnvironmentFault(f"{name} must run; it ended by itself; the end of {log}:\n{tail}")

    def stop(self) -> None:
        """Ends in order what runs. Nothing happens to what doesn't."""
        airflow.stop(self._home)
        record = processes.running(self._home, "speed")
        if record is not None:
            processes.terminate(record, home=self._home, timeout_s=20)
        spark.stop(self._home)
        kafka.stop(self._home)
        (self._home / BROKER_ADDRESS).unlink(missing_ok=True)
        (self._home / "speed.ready").unlink(missing_ok=True)
