"""The local stack: runs broker, Spark, the speed layer's processes and Airflow on this machine."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TypedDict

from trilayer.command_lines import trilayer_command
from trilayer.operations import definitions
from trilayer.operations.speed_restart import LOCK, SPEED_AGAIN, SPEED_ENDED, SPEED_READY
from trilayer_core.errors import EnvironmentFault, TrilayerError
from trilayer_core.extension import Companion, extensions
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.runtime import jars
from trilayer_core.runtime.class_archive import archive
from trilayer_core.runtime.file_lock import exclusive
from trilayer_core.runtime.progress import shown
from trilayer_core.runtime.session import connector_jars
from trilayer_core.runtime.settings import BROKER_ADDRESS, SPARK_ADDRESS
from trilayer_core.store.publications import Publications
from trilayer_local import airflow, class_archive, kafka, processes, spark

logger = logging.getLogger("trilayer.up")

DAGS = Path(str(files("trilayer.dags")))

RESTART_AFTER_S = 5.0
"""The time after which a process that has ended is started again, in seconds.

These are the speed layer, its alerts, the writer of changelogs and those of Airflow.
"""

ALERTS = "alerts"
"""The name of the process that evaluates the rules of alerts, if the catalog has any."""

SERVER = "serve"
"""The name of the process that answers SQL clients and browsers."""

BROKER_S = 120.0
"""How long a broker that accepts connections may take to answer at the start, in seconds."""

CLASSES = "classes"
"""The name of the process that builds the archive of Spark's classes."""

CLASSES_AFTER_S = 60.0
"""How long after the start the archive is begun, in seconds, because first answers come first."""

STOP_S = 2.0
"""The time that a process has for an orderly end before it is killed, in seconds."""


@dataclass(frozen=True)
class ServerAddresses:
    """Where the server of the stack answers.

    Attributes:
        console: The address of the console, for a browser.
        ports: Those of PostgreSQL's protocol and of HTTP.
        psql: The command that connects psql.
        notes: A sentence for each port that was taken, with the one that is used instead.
    """

    console: str
    ports: Sequence[int]
    psql: str
    notes: Sequence[str]


def companions() -> Sequence[Companion]:
    """Returns the processes of all extensions that run beside the speed layer."""
    return [companion for adding in extensions().values() for companion in adding.companions()]


class Interrupt:
    """Handles Ctrl-C and SIGTERM: the first one raises KeyboardInterrupt in the main thread.

    Later ones are ignored.
    """

    def __init__(self) -> None:
        self._came = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def ignore(self) -> None:
        """Ignores all signals from now on, because the processes are being ended already."""
        self._came = True

    def _on_signal(self, number: int, frame: object) -> None:
        if not self._came:
            self._came = True
            raise KeyboardInterrupt


def dag_folders(project: Path) -> dict[str, Path]:
    """Returns the folders of trilayer's DAGs, and of the project's own in its folder `dags`."""
    own = project / "dags"
    return {"trilayer": DAGS} | (
        {"project": own} if own.is_dir() and own.resolve() != DAGS.resolve() else {}
    )


class _AirflowArguments(TypedDict):
    dags: dict[str, Path]
    project: Path
    env: dict[str, str]


class Stack:
    """The processes of one home.

    They are recorded there, so that what a crash leaves running is found and ended.

    Attributes:
        project: The project; after `start`, with the addresses of broker and Spark in its settings.
        with_airflow: Whether Airflow is among the processes.
        airflow: Airflow, after `start_airflow`.
    """

    def __init__(self, p: Project, *, with_airflow: bool) -> None:
        self.with_airflow = with_airflow
        self._home = home = p.settings.home.resolve()
        self._companions = companions()
        for companion in self._companions:
            p = Project(companion.complete(p.settings), p.catalog, p.store)
        self.project = p
        self.airflow: airflow.Airflow | None = None
        self._speed_ready = home / SPEED_READY
        self._speed_again = home / SPEED_AGAIN
        self._speed_ended = home / SPEED_ENDED
        self._again_at: dict[str, float] = {}
        self._tell_when_ready = False
        self._announced: ServerAddresses | None = None
        self._classes_at: float | None = None
        self._classes: processes.Process | None = None
        self._unusable = False
        self._definitions = definitions.loaded(p.catalog, Path.cwd())
        self._watch = definitions.Watch(self._definitions.files)

    def run(self, *, rebuild: bool = False, started: Callable[[], None]) -> None:
        """Runs the stack until a signal arrives. All processes have then been ended.

        Args:
            rebuild: Whether the speed layer rebuilds.
            started: Called once all processes have been started.

        Raises:
            ConflictError: A stack is already running in the project's home.
            EnvironmentFault: The broker or Spark Connect ended by itself. The message has the end
                of its log.
        """
        with exclusive(self._home / LOCK, once="`trilayer up`"), suppress(KeyboardInterrupt):
            self._run(Interrupt(), rebuild=rebuild, started=started)

    def _run(self, interrupt: Interrupt, *, rebuild: bool, started: Callable[[], None]) -> None:
        self._speed_again.unlink(missing_ok=True)
        try:
            for left in processes.end_orphans(self._home):
                logger.info("ended %s (pid %s), left by a crash", left.name, left.pid)
            self.start(rebuild=rebuild, keep=True)
            if self.with_airflow:
                self.start_airflow()
            started()
            settings = self.project.settings
            if settings.class_archive and not archive(settings).exists():
                self._classes_at = time.monotonic() + CLASSES_AFTER_S
            pause = threading.Event()
            while not pause.wait(0.3):
                self._check()
                self._follow_definitions()
                self._keep_speed()
                self._keep_companions()
                self._keep_addresses()
                self.keep_airflow()
                self._build_classes()
        finally:
            interrupt.ignore()
            logger.info("stopping")
            self.stop()

    def start(
        self,
        *,
        rebuild: bool = False,
        keep: bool = False,
        first: Callable[[Project], None] = lambda p: None,
    ) -> None:
        """Starts broker, topics, Spark Connect and the speed layer, and returns when they work.

        Args:
            rebuild: Whether the speed layer rebuilds.
            keep: Whether `_keep_speed` handles a speed layer that ends at once; what its message
                advises may need the broker.
            first: Called when the broker has the topics, before anything reads them.

        Returns:
            The project, with the addresses of broker and Spark in its settings.

        Raises:
            EnvironmentFault: One of them does not start.
        """
        settings = self.project.settings
        connector_jars(settings)
        address = self._home / BROKER_ADDRESS
        # After a crash the file exists, and settings without an address use its address.
        left = address.read_text().strip() if address.exists() else ""
        if settings.bootstrap_servers in ("", left):
            folder = (settings.jars / "kafka").resolve()
            jars.fetch(jars.KAFKA_BROKER, folder, echo=logger.info)
            broker = kafka.start(
                self._home, jars=folder, heap_mb=settings.broker_memory_mb, echo=logger.info
            )
            address.write_text(broker.bootstrap)
            settings = settings.model_copy(update={"bootstrap_servers": broker.bootstrap})
        else:
            address.unlink(missing_ok=True)
        with Log(settings.bootstrap_servers, BROKER_S) as log:
            for stream in self.project.catalog.streams:
                log.ensure(stream, settings.replication_factor)
        first(Project(settings, self.project.catalog, self.project.store))
        (self._home / SPARK_ADDRESS).unlink(missing_ok=True)
        own_spark = not settings.spark_remote and settings.spark_master
        server = spark.start(self._home, settings, echo=logger.info) if own_spark else None
        self.project = Project(settings, self.project.catalog, self.project.store)
        speed = self._start_speed(rebuild=rebuild)
        for companion in self._companions:
            if companion.works(self._definitions):
                self._start_companion(companion)
        with shown("Starting the speed layer", echo=logger.info):
            while not self._speed_ready.exists():
                if processes.exit_status(speed) is not None:
                    if keep:
                        break
                    raise EnvironmentFault(
                        f"the speed layer must start; it ended:\n{processes.log_tail(speed)}"
                    )
                threading.Event().wait(0.1)
        if server:
            settings = settings.model_copy(
                update={"spark_remote": spark.wait(server, self._home, echo=logger.info)}
            )
            self.project = Project(settings, self.project.catalog, self.project.store)

    def _start_speed(self, *, rebuild: bool = False) -> processes.Process:
        self._speed_ready.unlink(missing_ok=True)
        self._speed_ended.unlink(missing_ok=True)
        command = trilayer_command("speed", "run", "--ready-file", str(self._speed_ready))
        # MALLOC_ARENA_MAX: glibc uses one arena per thread; two arenas save tens of MB in each
        # process.
        environment = self.project.settings.environment() | {"MALLOC_ARENA_MAX": "2"}
        return processes.start(
            "speed",
            [*command, *(["--rebuild"] if rebuild else [])],
            home=self._home,
            env=environment,
        )

    def ready_file(self, name: str) -> Path:
        """Returns the file that a process beside the speed layer writes once it works."""
        return self._home / f"{name}.ready"

    def _start_companion(self, companion: Companion) -> processes.Process:
        ready = self.ready_file(companion.name)
        ready.unlink(missing_ok=True)
        settings = self.project.settings
        if self._announced:
            wire, http = self._announced.ports
            ports = {"port": wire, "http_port": http}
            settings = settings.model_copy(update={"serve": settings.serve | ports})
        return processes.start(
            companion.name,
            trilayer_command(*companion.command, "--ready-file", str(ready)),
            home=self._home,
            env=settings.environment() | {"MALLOC_ARENA_MAX": "2"},
        )

    def server(self) -> ServerAddresses | None:
        """Waits until the server listens, and returns where; None if it has ended.

        A server that is started again listens there, too.
        """
        pause = threading.Event()
        while (addresses := self._addresses()) is None:
            if processes.running(self._home, SERVER) is None:
                return None
            pause.wait(0.05)
        self._announced = addresses
        return addresses

    def _addresses(self) -> ServerAddresses | None:
        ready = self.ready_file(SERVER)
        return ServerAddresses(**json.loads(ready.read_text())) if ready.exists() else None

    def _keep_addresses(self) -> None:
        """Reports where the server listens if that is not what was announced before."""
        addresses = self._addresses()
        if addresses and (self._announced is None or addresses.ports != self._announced.ports):
            notes = " ".join(addresses.notes)
            logger.warning(
                "The console is at %s, and SQL clients connect by: %s. %s",
                addresses.console, addresses.psql, notes,
            )  # fmt: skip
            self._announced = addresses

    def _build_classes(self) -> None:
        """Builds the archive of Spark's classes in the background, for the next sessions."""
        if self._classes_at is not None and time.monotonic() >= self._classes_at:
            self._classes_at = None
            logger.info(
                "Building an archive of Spark's classes in the background, once for this user:"
                " sessions then start in half the time (class_archive = false switches it off)"
            )
            command = [sys.executable, "-P", "-m", class_archive.__name__]
            env = self.project.settings.environment()
            self._classes = processes.start(CLASSES, command, home=self._home, env=env)
        if self._classes and not processes.is_alive(self._classes):
            if processes.exit_status(self._classes):
                logger.warning(
                    "Spark's classes could not be archived, so that sessions start no quicker than"
                    " this one; the end of %s", self._end_of_log(CLASSES),
                )  # fmt: skip
            self._classes = None

    def _follow_definitions(self) -> None:
        """Reports what saved definitions mean for answers, and runs them."""
        if not self._watch.changed():
            return
        try:
            saved = definitions.saved(self._definitions)
            self._watch.follow(saved.files)
            sentences = definitions.changes(
                self._definitions, saved, Publications(self.project.store).in_force()
            )
        except EnvironmentFault as error:
            logger.warning("the project's files were saved: %s; they are looked at again", error)
            self._watch.again()
            return
        except TrilayerError as error:
            self._unusable = True
            logger.error(
                "the project's files were saved, and the catalog can't be used as it is. The speed"
                " layer goes on with the former definitions; commands and batch runs fail until"
                " this is mended: %s",
                error,
            )
            return
        if self._unusable:
            self._unusable = False
            logger.warning("the catalog can be used again; commands and batch runs work as before")
        former, self._definitions = self._definitions, saved
        if sentences:
            logger.warning("%s The speed layer starts again, to run them.", " ".join(sentences))
            self._restart_speed()
        for companion in self._companions:
            changed = companion.work(saved) != companion.work(former)
            if changed:
                logger.warning("%s starts again, because its definitions changed", companion.title)
            if sentences or changed:
                self._restart_companion(companion)

    def _end(self, name: str) -> None:
        """Ends a process in order to start it again at once."""
        record = processes.running(self._home, name)
        if record is not None:
            processes.terminate(record, home=self._home, timeout_s=2 * STOP_S)
        self._again_at.pop(name, None)

    def _restart_companion(self, companion: Companion) -> None:
        self._end(companion.name)
        if companion.works(self._definitions):
            self._start_companion(companion)

    def _restart_speed(self) -> None:
        self._end("speed")
        self._start_speed()
        self._speed_again.unlink(missing_ok=True)
        self._tell_when_ready = True

    def _keep_speed(self) -> None:
        """Restarts a speed layer that has ended, after some seconds or at once on request."""
        if self._speed_again.exists():
            logger.info("Starting the speed layer again, as `trilayer speed restart` asks")
            self._restart_speed()
        if self._tell_when_ready and self._speed_ready.exists():
            self._tell_when_ready = False
            logger.info("the speed layer runs again")
        if self._starts_again("speed", "the speed layer"):
            self._start_speed()

    def _keep_companions(self) -> None:
        """Restarts processes beside the speed layer, which lose nothing, after some seconds."""
        for companion in self._companions:
            works = companion.works(self._definitions)
            if works and self._starts_again(companion.name, companion.title):
                self._start_companion(companion)

    def keep_airflow(self) -> None:
        """Restarts processes of Airflow that have ended, after some seconds.

        Its scheduler ends by itself if it loses a race for a row of its database (seen with Airflow
        3.3 on SQLite, when a backfill was created).
        """
        for name in airflow.PROCESSES if self.airflow else ():
            if self._starts_again(name, name):
                airflow.start_again(name, self._home, **self._airflow_arguments())

    def _starts_again(self, name: str, called: str) -> bool:
        """Returns whether the process has ended by itself and is to be started again now."""
        if processes.running(self._home, name) is not None:
            self._again_at.pop(name, None)
            return False
        if name not in self._again_at:
            self._again_at[name] = time.monotonic() + RESTART_AFTER_S
            end = self._end_of_log(name)
            logger.error(
                "%s ended by itself; it is started again in %g s; the end of %s",
                called, RESTART_AFTER_S, end,
            )  # fmt: skip
            if name == "speed":  # `trilayer speed restart` may be waiting
                partial = self._speed_ended.with_suffix(".partial")
                partial.write_text(end)
                os.replace(partial, self._speed_ended)
        if time.monotonic() < self._again_at[name]:
            return False
        del self._again_at[name]
        logger.info("Starting %s", called)
        return True

    def _end_of_log(self, name: str) -> str:
        last = processes.last_started(self._home, name)
        if last is None:
            return str(self._home / "logs" / f"{name}.log")
        return f"{last.log}:\n{processes.log_tail(last, lines=15)}"

    def start_airflow(self) -> airflow.Airflow:
        """Starts Airflow, after `start`.

        Returns when it answers. `lambda_batch` is then scheduled, unless a person has paused it.
        """
        new = not (self._home / "airflow" / "airflow.db").exists()
        self.airflow = airflow.start(
            self._home,
            **self._airflow_arguments(),
            port=self.project.settings.airflow_port,
            echo=logger.info,
        )
        if new:
            airflow.unpause(self.airflow, "lambda_batch")
        return self.airflow

    def _airflow_arguments(self) -> _AirflowArguments:
        project = Path.cwd()
        return {
            "dags": dag_folders(project),
            "project": project,
            "env": self.project.settings.environment(),
        }

    def _check(self) -> None:
        expected = []
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
        """Ends all processes in less than five seconds. Does nothing if none is running.

        Processes that have not ended by then are killed, which loses nothing: every layer continues
        from what it has committed.
        """
        writing: list[Future[None]] = []
        with ThreadPoolExecutor(4 + len(self._companions)) as pool:
            pool.submit(airflow.stop, self._home, timeout_s=STOP_S)
            pool.submit(spark.stop, self._home, timeout_s=STOP_S)
            end = partial(processes.terminate, home=self._home, timeout_s=STOP_S, last_s=0.3)
            for name in (CLASSES, *(companion.name for companion in self._companions)):
                if (writer := processes.running(self._home, name)) is not None:
                    writing.append(pool.submit(end, writer))
            record = processes.running(self._home, "speed")
            if record is not None:
                processes.terminate(record, home=self._home, timeout_s=STOP_S, last_s=0.3)
            # Last, because all of these would wait for it.
            for ended in writing:
                ended.result()
            kafka.stop(self._home, timeout_s=STOP_S)
        (self._home / BROKER_ADDRESS).unlink(missing_ok=True)
        self._speed_ready.unlink(missing_ok=True)
        for companion in self._companions:
            self.ready_file(companion.name).unlink(missing_ok=True)
