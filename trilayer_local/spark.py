"""A Spark Connect server for the batch layer.

Batch runs share its driver, so that none of them has to start a JVM.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pyspark

from trilayer_core.errors import EnvironmentFault
from trilayer_core.runtime import java
from trilayer_core.runtime.progress import shown
from trilayer_core.runtime.session import BATCH_CONF, driver_conf, driver_environment, listens
from trilayer_core.runtime.settings import SPARK_ADDRESS, Settings
from trilayer_local import processes
from trilayer_local.ports import choose_port

NAME = "spark"
SPARK_HOME = Path(pyspark.__file__).parent
SERVER = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")


def _silent(_: str) -> None:
    pass


def start(home: Path, settings: Settings, *, echo: Callable[[str], None]) -> processes.Process:
    """Starts the server of `home` on 127.0.0.1; call `wait` for it.

    The file SPARK_ADDRESS in `home` has its address.
    """
    echo("Starting Spark Connect")
    port = choose_port(None, None)
    conf = driver_conf(settings, memory_mb=settings.batch.memory_mb, conf=BATCH_CONF) | {
        "spark.master": settings.spark_master,
        "spark.app.name": "trilayer-batch",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    command = [str(SPARK_HOME / "bin" / "spark-submit"), *options, *SERVER]
    env = driver_environment(settings) | java.environment() | {"SPARK_HOME": str(SPARK_HOME)}
    record = processes.start(NAME, command, home=home, env=env)
    (home / SPARK_ADDRESS).write_text(f"sc://127.0.0.1:{port}")
    return record


def wait(
    record: processes.Process,
    home: Path,
    *,
    echo: Callable[[str], None] = _silent,
) -> str:
    """Waits until the server listens, as long as its process lives, and returns its address.

    Raises:
        EnvironmentFault: It does not start. The message has the end of its log.
    """
    remote = (home / SPARK_ADDRESS).read_text()
    with shown("Waiting for Spark Connect", echo=echo):
        while processes.is_alive(record):
            if listens(remote):
                return remote
            time.sleep(0.05)
    raise EnvironmentFault(
        f"Spark Connect must come up at {remote}; it ended; see"
        f" {record.log}, which ends:\n{processes.log_tail(record)}"
    )


def stop(home: Path, *, timeout_s: float = 10) -> None:
    """Stops the server of `home` with SIGTERM, and with SIGKILL after `timeout_s` seconds.

    Does nothing if none is running.
    """
    (home / SPARK_ADDRESS).unlink(missing_ok=True)
    record = processes.running(home, NAME)
    if record is not None:
        processes.terminate(record, home=home, timeout_s=timeout_s, last_s=0.3)
