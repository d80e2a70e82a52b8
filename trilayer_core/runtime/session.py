"""The one place that builds a SparkSession, and what its errors say."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from trilayer_core.errors import EnvironmentFault, LogError, TrilayerError
from trilayer_core.runtime import class_archive, jars
from trilayer_core.runtime.kafka_source import lost_by_log
from trilayer_core.runtime.settings import SPARK_ADDRESS, Settings

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SPARK_CONNECT_PORT = 15002


def connector_jars(settings: Settings) -> list[Path]:
    """The Kafka connector's jars, fetched where they are not there yet."""
    lock = settings.spark_connector_lock or jars.SPARK_KAFKA
    return jars.fetch(
        lock, (settings.jars / "spark").resolve(), echo=logging.getLogger("trilayer").info
    )


# UTC everywhere; ANSI mode, so that an overflow is an error; dates of every century as they are
# written.
_SQL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # The map in front of the hash map takes no row with a NULL key, which all rows of a grouping
    # set have, and 8 MB a task.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def session(
    name: str, settings: Settings, *, memory_mb: int, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A SparkSession with a driver of its own, for one layer.

    `memory_mb` is the heap of the driver, which in local mode is all there is.
    """
    for variable, value in driver_environment(settings).items():
        os.environ.setdefault(variable, value)
    builder = SparkSession.builder.appName(name)
    if settings.spark_master:
        builder = builder.master(settings.spark_master)
    builder = builder.config(map={**driver_conf(settings, memory_mb=memory_mb, conf=conf or {})})
    with _without_jvm_notices():
        return builder.getOrCreate()


def driver_environment(settings: Settings) -> dict[str, str]:
    """Variables that a driver is started with."""
    local = {"SPARK_LOCAL_IP": "127.0.0.1"} if settings.spark_master.startswith("local") else {}
    return local | {"PYSPARK_PYTHON": sys.executable}


def driver_conf(settings: Settings, *, memory_mb: int, conf: Mapping[str, str]) -> dict[str, str]:
    """What a driver is started with."""
    log4j = files("trilayer_core.runtime") / "log4j2.properties"
    theirs = settings.spark_conf.get(JAVA_OPTIONS, "")
    # A JVM that is told of two garbage collectors does not start.
    collector = "" if re.search(r"-XX:\+Use\w+GC\b", theirs) else "-XX:+UseParallelGC"
    # Parsing an event allocates about 13 KB. Measured: to have the processor fetch that memory
    # ahead empties the caches of the groups, and costs 6 % of the CPU time where the speed layer's
    # SQL reads a backlog.
    java_options = [
        (
            "-XX:+ExitOnOutOfMemoryError -XX:AllocatePrefetchStyle=0"
            f" -Dlog4j2.configurationFile={log4j} {collector}"
        ),
        class_archive.java_option(settings),
        theirs,
    ]
    return {
        "spark.jars": ",".join(str(path.resolve()) for path in connector_jars(settings)),
        "spark.driver.memory": f"{memory_mb}m",
        JAVA_OPTIONS: " ".join(java_options),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        **_SQL,
        **conf,
        **{key: value for key, value in settings.spark_conf.items() if key != JAVA_OPTIONS},
    }


BATCH_CONF = {"spark.sql.shuffle.partitions": "4", "spark.sql.adaptive.enabled": "true"}


def batch_session(settings: Settings) -> SparkSession:
    """The batch layer's session.

    Of the Spark Connect server of `spark_remote` or of `trilayer up`, else with a driver of its
    own.

    A server's JVM has its classes loaded and its code compiled, which is most of what a short run
    on a driver of its own waits for. Raises EnvironmentFault where `spark_remote` does not answer.
    """
    if settings.spark_remote and not listens(settings.spark_remote):
        raise EnvironmentFault(
            f"a Spark Connect server must answer at spark_remote, {settings.spark_remote}; none"
            " does; start it, or leave spark_remote empty"
        )
    remote = settings.spark_remote or _remote_of_stack(settings)
    if not remote:
        return session(
            "trilayer-batch", settings, memory_mb=settings.batch_memory_mb, conf=BATCH_CONF
        )
    from pyspark.sql.connect.client.retries import DefaultPolicy

    conf = (
        _SQL
        | BATCH_CONF
        | {k: v for k, v in settings.spark_conf.items() if k.startswith("spark.sql.")}
    )
    spark = SparkSession.builder.remote(remote).config(map={**conf}).getOrCreate()
    # By default a client asks a server that has ended for ten minutes, with the batch's lock held.
    spark.client.set_retry_policies(
        [
            DefaultPolicy(
                max_retries=8, initial_backoff=100, backoff_multiplier=2.0, max_backoff=5_000
            )
        ]
    )
    return spark


def _remote_of_stack(settings: Settings) -> str:
    """The address of the server of `trilayer up`, or nothing where none runs.

    Not under spark-submit, which brings a driver.
    """
    address = settings.home / SPARK_ADDRESS
    if not settings.spark_master or not address.exists():
        return ""
    remote = address.read_text().strip()
    return remote if listens(remote) else ""


def listens(remote: str) -> bool:
    """Whether something takes connections at the address of a Spark Connect server."""
    server = urlsplit(remote)
    try:
        socket.create_connection(
            (server.hostname, server.port or SPARK_CONNECT_PORT), timeout=5
        ).close()
    except OSError:
        return False
    return True


@contextmanager
def driver_at_work(memory_setting: str) -> Iterator[None]:
    """Raises EnvironmentFault if the driver's JVM ends within the block.

    It does so when its heap is full.
    """
    try:
        yield
    except (ConnectionError, Py4JNetworkError) as error:
        raise EnvironmentFault(
            "Spark's driver has ended; run this again. If its log says OutOfMemoryError, first"
            f" raise {memory_setting}"
        ) from error
    except (PySparkException, Py4JJavaError) as error:
        if not _server_is_gone(error):
            raise _failed(str(error)) from error
        raise EnvironmentFault(
            "the Spark Connect server has ended, or was started again; run this again when it"
            f" answers. If its log says OutOfMemoryError, first raise {memory_setting}"
        ) from error


def first_cause(text: str) -> str:
    """The line of a Spark error that says what happened.

    What trilayer's own code raised, else the root cause.
    """
    raised = _raised_here(text)
    if raised:
        return raised
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by:")]
    return (causes or lines or ["no reason given"])[-1 if causes else 0]


def _raised_here(text: str) -> str:
    """The last line of the Python traceback that a Spark error quotes.

    Empty if there is none, or if Spark raised it.
    """
    _, _, traceback = text.rpartition("Traceback (most recent call last):")
    # Frames are indented; the first line that is not says what was raised.
    line = next((line for line in traceback.splitlines()[1:] if line and not line[0].isspace()), "")
    name = re.match(r"(\w+\.)*\w+(?=: )", line)
    if name is None or name[0].startswith(("py4j.", "pyspark.")):
        return ""
    return line.removeprefix("trilayer_core.errors.").strip()


def _server_is_gone(error: Exception) -> bool:
    """Whether an error says that the Spark Connect server does not answer.

    Or that it does not know this session any more.
    """
    status = getattr(error, "getGrpcStatusCode", None)
    unavailable = status is not None and status().name == "UNAVAILABLE"
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return unavailable or (condition or "").startswith("INVALID_HANDLE")


def _failed(text: str) -> TrilayerError:
    """The error to raise for a Spark job that has failed with this text."""
    if lost_by_log(text):
        return LogError(
            "the log must hold what it held when this run began; some of it is gone, by retention"
            " or by a failure of the broker; run this again, which says what is lost:"
            f" {first_cause(text)}"
        )
    return TrilayerError(
        f"a Spark job failed: {first_cause(text)}. If a disk, the store or the broker was away,"
        " run this again; if an expression of a view, or the function of a `Rows` source, fails"
        " on an event, change it as docs/operations.md says"
    )


@contextmanager
def _without_jvm_notices() -> Iterator[None]:
    """Leaves notices out of what a JVM that is started within says on stderr.

    A thread passes on the rest. The notices are those that no user can do anything about.
    """
    stderr = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)

    def forward() -> None:
        with os.fdopen(reading, "rb") as lines, os.fdopen(stderr, "wb", buffering=0) as there:
            for line in lines:
                if b"Using incubator modules" not in line:
                    # A full disk costs lines, not the thread: without it nothing the JVM says would
                    # ever be seen again.
                    with suppress(OSError):
                        there.write(line)

    threading.Thread(target=forward, daemon=True, name="jvm-stderr").start()
    kept = os.dup(stderr)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def select_from(rows: DataFrame, sql: Callable[[str], str]) -> DataFrame:
    """A DataFrame by the SQL that `sql` makes of the name under which it finds `rows`."""
    name = "_the_rows"
    text = sql(name).replace("{", "{{").replace("}", "}}")
    return rows.sparkSession.sql(text.replace(name, "{rows}"), rows=rows)
