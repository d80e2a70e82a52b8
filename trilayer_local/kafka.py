"""A single-node Kafka broker in KRaft mode, without Docker.

It listens on 127.0.0.1 only. Its data survives SIGKILL, and it restarts on the same port if that is
free, so that clients reconnect. Signals are only sent to the broker of this home.
"""

import os
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from kafka import KafkaAdminClient
from kafka.errors import RetriableError

from trilayer_core.errors import EnvironmentFault
from trilayer_core.runtime import jars as locked_jars
from trilayer_core.runtime import java
from trilayer_core.runtime.file_lock import exclusive
from trilayer_core.runtime.progress import shown
from trilayer_local import processes
from trilayer_local.ports import choose_port

NAME = "kafka"

_LOGGING = Path(__file__).absolute().parent / "log4j2.properties"

# Memory is more important than speed: one garbage collection thread, small stacks and code cache.
# With the quick compiler alone, single records cost about twice the processor time.
_JVM = (
    "-XX:+UseSerialGC", "-Xss512k", "-XX:ReservedCodeCacheSize=48m",
    "-XX:MaxDirectMemorySize=64m", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true",
    f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", *java.OPTIONS,
)  # fmt: skip


@dataclass(frozen=True)
class Broker:
    """A running broker: the address for clients, its pid, and its home."""

    bootstrap: str
    pid: int
    home: Path


_PORT_TAKEN = "Address already in use"
"""Java's message if a port that was free has been taken meanwhile."""


def start(
    home: Path,
    *,
    jars: Path,
    echo: Callable[[str], None],
    heap_mb: int = 384,
    die_with_parent: bool = True,
) -> Broker:
    """Starts the broker of `home`, and returns when it answers requests.

    Its jars are those of the lock in `jars`. The storage is formatted on first use. `home/kafka`
    has server.properties and the data, `home/logs/kafka.log` the log, and `home/processes` the
    broker's record, which `processes.list_running(home)` includes. The port is the previous one if
    it is free, else another. A running broker of this home is returned, unless its starter
    crashed and it should have ended with it: then it is ended and started again. `processes.start`
    explains `die_with_parent`.

    Raises:
        EnvironmentFault: It does not start. The message has the end of its log.
        ConflictError: A process of that name runs that is not the broker.
    """
    with exclusive(home / "kafka" / ".lock"):
        broker = running(home)
        record = processes.running(home, NAME)
        if broker is not None and record is not None and not processes.is_orphan(record):
            try:
                with shown("Waiting for Kafka", echo=echo, after_s=5):
                    _wait_until_ready(broker, record)
            except EnvironmentFault:
                if processes.is_alive(record):
                    raise
            else:
                return broker
        if broker is not None and record is not None:
            processes.terminate(record, home=home)
        processes.end_remains(home, NAME)
        attempts = 3
        while True:
            attempts -= 1
            _write_properties(home)
            if not _data(home).exists():
                with shown(f"Formatting Kafka's storage in {_data(home)}", echo=echo):
                    _format(home, jars)
            command = [
                *_java(jars),
                f"-Xms{heap_mb // 4}m",
                f"-Xmx{heap_mb}m",
                "kafka.Kafka",
                str(_properties(home)),
            ]
            record = processes.start(
                NAME,
                command,
                home=home,
                env=java.environment(),
                cwd=_data(home).parent,
                die_with_parent=die_with_parent,
            )
            broker = Broker(_bootstrap(home), record.pid, home)
            try:
                with shown("Starting Kafka", echo=echo):
                    _wait_until_ready(broker, record)
            except BaseException as error:
                patience_s = 5.0 if isinstance(error, Exception) else 1.0  # for an interrupt
                processes.terminate(record, home=home, timeout_s=patience_s, last_s=0.5)
                if not attempts or _PORT_TAKEN not in str(error):
                    raise
                echo("Another program has taken the port meanwhile")
            else:
                return broker


def stop(home: Path, *, timeout_s: float = 30) -> None:
    """Stops the broker of `home` with SIGTERM, and with SIGKILL after `timeout_s` seconds.

    Does nothing if none is running.
    """
    with exclusive(home / "kafka" / ".lock"):
        record = processes.running(home, NAME)
        if record is not None and running(home) is not None:
            processes.terminate(record, home=home, timeout_s=timeout_s, last_s=0.5)


def running(home: Path) -> Broker | None:
    """Returns the broker of `home` if it is alive; it may still be starting.

    It is identified by the recorded pid and creation time, and by server.properties in its command
    line.
    """
    record = processes.running(home, NAME)
    if record is None:
        return None
    try:
        command_line = psutil.Process(record.pid).cmdline()
    except psutil.Error:
        return None
    if str(_properties(home)) not in command_line:
        return None
    return Broker(_bootstrap(home), record.pid, home)


def _wait_until_ready(broker: Broker, record: processes.Process) -> None:
    """Waits until the broker lists itself in its own metadata, as long as its process lives.

    The controller has then admitted it, and it accepts requests.
    """
    while not _answers(broker.bootstrap):
        if not processes.is_alive(record):
            raise EnvironmentFault(
                f"Kafka must come up on {broker.bootstrap}; it ended with status"
                f" {processes.exit_status(record)}; see {record.log}, which"
                f" ends:\n{processes.log_tail(record)}"
            )
        time.sleep(0.05)


def _answers(bootstrap: str) -> bool:
    host, port = bootstrap.split(":")
    try:
        socket.create_connection(
            (host, int(port)), timeout=1
        ).close()  # faster than waiting for a client to fail
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap, request_timeout_ms=5000, bootstrap_timeout_ms=2000
        )
    except (OSError, RetriableError):
        return False
    try:
        return bool(client.describe_cluster()["brokers"])
    except RetriableError:
        return False
    finally:
        client.close()


def _write_properties(home: Path) -> None:
    """Writes server.properties, with the previous ports if they are free.

    The data does not depend on the ports.
    """
    before = _read_properties(home)
    client_port = choose_port(None, before.get("trilayer.port"))
    controller_port = choose_port(
        None, before.get("trilayer.controller.port"), not_this=client_port
    )
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client_port}",
        "controller.listener.names": "CONTROLLER",
        # relative to the working directory, whose path may hold any character
        "log.dirs": _data(home).name,
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "log.message.timestamp.type": "LogAppendTime",
        # otherwise the controller waits 9 s for a killed broker before it admits its successor
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        # threads and buffers for the clients of one machine
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "2",
        "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
        "trilayer.port": str(client_port),
        "trilayer.controller.port": str(controller_port),
    }
    path = _properties(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    os.replace(partial, path)


def _read_properties(home: Path) -> dict[str, str]:
    try:
        lines = _properties(home).read_text().splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split("=", 1) for line in lines)


def _format(home: Path, jars: Path) -> None:
    """Formats the storage, in a temporary place so that it is either complete or missing."""
    fresh = _data(home).with_name("data.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    properties = _properties(home).with_name("format.properties")
    properties.write_text(
        _properties(home).read_text().replace("log.dirs=data\n", f"log.dirs={fresh.name}\n")
    )
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
    command = [
        *_java(jars),
        "kafka.tools.StorageTool",
        "format",
        "-t",
        cluster_id,
        "-c",
        str(properties),
    ]
    answer = subprocess.run(
        command,
        cwd=fresh.parent,
        env=os.environ | java.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    properties.unlink()
    if answer.returncode != 0:
        raise EnvironmentFault(
            f"Kafka's storage must be formatted in {_data(home)}; its tool ended with status"
            f" {answer.returncode}:\n"
            f"{answer.stdout}{answer.stderr}"
        )
    os.replace(fresh, _data(home))


def _java(jars: Path) -> list[str]:
    """Returns the command up to the main class; the class path has only the lock's jars."""
    class_path = locked_jars.paths(locked_jars.KAFKA_BROKER, jars)
    missing = [path.name for path in class_path if not path.exists()]
    if missing:
        raise EnvironmentFault(
            f"{jars} must hold the {len(class_path)} jars of {locked_jars.KAFKA_BROKER.name}; got"
            f" {len(missing)} missing, {missing[0]} first; fetch them with"
            " trilayer_core.runtime.jars.fetch"
        )
    return [str(java.java_executable()), *_JVM, "-cp", os.pathsep.join(map(str, class_path))]


def _properties(home: Path) -> Path:
    return home.absolute() / "kafka" / "server.properties"


def _data(home: Path) -> Path:
    return home.absolute() / "kafka" / "data"


def _bootstrap(home: Path) -> str:
    return f"127.0.0.1:{_read_properties(home)['trilayer.port']}"
