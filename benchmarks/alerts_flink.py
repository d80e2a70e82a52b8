"""Flink SQL over the same topic, as the engine with which alerts are compared.

Run as a process: `python -m benchmarks.alerts_flink FOLDER BOOTSTRAP_SERVERS READY_FILE`. Flink's
jars are installed into FOLDER. They are no requirement of the project.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyspark.find_spark_home import _find_spark_home

from benchmarks.alerts_load import OUTPUT, PARTITIONS, STREAM
from trilayer_core.errors import TrilayerError
from trilayer_core.runtime import jars
from trilayer_core.runtime.java import java_executable

PACKAGE = "apache-flink-libraries==2.2.1"
CONNECTOR = Path(__file__).with_name("flink-connector.lock")

_OPENED = (
    "java.lang", "java.net", "java.io", "java.util", "java.util.concurrent", "java.text",
    "java.time",
)  # fmt: skip

# What corresponds to the settings of the real-time query: no waiting for full network buffers, no
# checkpoints, a slot for each partition of the topic, and records that are sent at once.
_SETTINGS = {
    "parallelism.default": str(PARTITIONS),
    "execution.buffer-timeout.interval": "1 ms",
    "table.local-time-zone": "UTC",
    "table.exec.source.idle-timeout": "0 ms",
}

_SQL = (
    f"""
    CREATE TABLE payments (
        card STRING NOT NULL, amount DECIMAL(10, 2), created_us BIGINT, `at` STRING,
        `partition` INT METADATA VIRTUAL, `offset` BIGINT METADATA VIRTUAL, now AS PROCTIME()
    ) WITH (
        'connector' = 'kafka', 'topic' = '{STREAM.topic}', 'format' = 'json',
        'properties.bootstrap.servers' = 'SERVERS', 'properties.group.id' = 'flink',
        'scan.startup.mode' = 'earliest-offset'
    )""",
    f"""
    CREATE TABLE alerts (
        `partition` INT, `offset` BIGINT,
        event ROW<card STRING, amount DECIMAL(10, 2), created_us BIGINT>,
        `last` ARRAY<ROW<card STRING, amount DECIMAL(10, 2), created_us BIGINT>>
    ) WITH (
        'connector' = 'kafka', 'topic' = '{OUTPUT}', 'format' = 'json',
        'properties.bootstrap.servers' = 'SERVERS', 'properties.linger.ms' = '0',
        'sink.delivery-guarantee' = 'none'
    )""",
    """
    INSERT INTO alerts SELECT `partition`, `offset`, ROW(card, amount, created_us), ARRAY[
        ROW(card_1, amount_1, created_us_1), ROW(card_2, amount_2, created_us_2)]
    FROM (SELECT *,
        LAG(card, 1) OVER w AS card_1, LAG(amount, 1) OVER w AS amount_1,
        LAG(created_us, 1) OVER w AS created_us_1,
        LAG(card, 2) OVER w AS card_2, LAG(amount, 2) OVER w AS amount_2,
        LAG(created_us, 2) OVER w AS created_us_2
        FROM payments WINDOW w AS (PARTITION BY card ORDER BY now))
    WHERE amount >= 0""",
)


class Unavailable(TrilayerError):
    """Flink can't be installed, for example without a network."""


def install(folder: Path) -> list[Path]:
    """The jars of Flink and of its Kafka connector, which are downloaded if they are missing.

    Raises:
        Unavailable: They can't be downloaded.
    """
    library = folder / "pyflink" / "lib"
    if not library.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        ended = subprocess.run(
            [*command, "--target", str(folder), PACKAGE], capture_output=True, text=True
        )
        if ended.returncode:
            raise Unavailable(f"{PACKAGE} can't be installed: {ended.stderr.strip()[-300:]}")
    try:
        connector = jars.fetch(CONNECTOR, folder / "connector", echo=lambda _: None)
    except TrilayerError as error:
        raise Unavailable(str(error)) from error
    return [*sorted(library.glob("*.jar")), *connector]


def main(folder: str, bootstrap_servers: str, ready: str) -> None:
    """Runs the query until the process is stopped."""
    spark_home = Path(_find_spark_home())
    (py4j,) = (spark_home / "jars").glob("py4j-*.jar")
    # A class path with Spark's own folder would bring in other versions of what Flink uses.
    port = launch_gateway(
        classpath=os.pathsep.join(map(str, install(Path(folder)))),
        jarpath=str(py4j),
        javaopts=[
            "-Xmx1g",
            *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
        ],
        die_on_exit=True,
        java_path=str(java_executable()),
        redirect_stdout=sys.stdout,
        redirect_stderr=sys.stderr,
    )
    jvm = JavaGateway(gateway_parameters=GatewayParameters(port=port)).jvm
    settings = jvm.org.apache.flink.table.api.EnvironmentSettings.inStreamingMode()
    table = jvm.org.apache.flink.table.api.TableEnvironment.create(settings)
    for name, value in _SETTINGS.items():
        table.getConfig().set(name, value)
    for statement in _SQL:
        result = table.executeSql(statement.replace("SERVERS", bootstrap_servers))
    job = result.getJobClient().get()
    while str(job.getJobStatus().get()) != "RUNNING":
        time.sleep(0.1)
    Path(ready).write_text("ready")
    getattr(result, "await")()  # a keyword of Python


if __name__ == "__main__":
    main(*sys.argv[1:])
