"""Creates Spark sessions, and interprets their errors."""

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
from trilayer_core.runtime import class_archive, jars, java
from trilayer_core.runtime.kafka_source import lost_by_log
from trilayer_core.runtime.settings import SPARK_ADDRESS, Settings
from trilayer_core.runtime.spark_options import reset_inherited

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
JARS = "spark.jars"
EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
SPARK_CONNECT_PORT = 15002


def connector_jars(settings: Settings) -> list[Path]:
    """The Kafka connector's jars, downloaded if necessary."""
    lock = settings.spark_connector_lock or jars.SPARK_KAFKA
    return jars.fetch(
        lock, (settings.jars / "spark").resolve(), echo=logging.getLogger("trilayer").info
    )


# UTC everywhere; ANSI mode, so that an overflow is an error; dates of every century unchanged.
_SQL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # The first-level map is useless here: it takes no row with a NULL key, which all rows of a
    # grouping set have, and needs 8 MB per task.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def session(
    name: str, settings: Settings, *, memory_mb: int, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A SparkSession with a driver of its own, for one layer.

    Args:
        name: The application's name.
        settings: The settings.
        memory_mb: The heap of the driver, which in local mode also runs the tasks.
        conf: Further Spark settings.
    """
    for variable, value in driver_environment(settings).items():
        os.environ.setdefault(variable, value)
    os.environ.update(java.environment())
    builder = SparkSession.builder.appName(name)
    if settings.spark_master:
        builder = builder.master(settings.spark_master)
    ours = driver_conf(settings, memory_mb=memory_mb, conf=conf or {})
    with _without_jvm_notices():
        spark = builder.config(map={**ours}).getOrCreate()
    reset_inherited(spark, ours)
    return spark


def driver_environment(settings: Settings) -> dict[str, str]:
    """The environment variables of a driver."""
    local = {"SPARK_LOCAL_IP": "127.0.0.1"} if settings.spark_master.startswith("local") else {}
    return local | {"PYSPARK_PYTHON": sys.executable}


def driver_conf(settings: Settings, *, memory_mb: int, conf: Mapping[str, str]) -> dict[str, str]:
    """The Spark settings of a driver."""
    # As a URI, which has no character that Spark or Log4j would interpret.
    log4j = Path(str(files("trilayer_core.runtime") / "log4j2.properties")).absolute().as_uri()
    theirs = settings.spark_conf.get(JAVA_OPTIONS, "")
    # A JVM does not start with two garbage collectors selected.
    collector = "" if re.search(r"-XX:\+Use\w+GC\b", theirs) else "-XX:+UseParallelGC"
    # Parsing an event allocates about 13 KB. Measured: prefetching this memory evicts the groups
    # from the processor's caches, and costs 6 % of the CPU time when the speed layer reads a
    # backlog.
    java_options = [
        (
            "-XX:+ExitOnOutOfMemoryError -XX:AllocatePrefetchStyle=0"
            f" -Dlog4j2.configurationFile={log4j} {collector}"
        ),
        class_archive.java_option(settings),
        theirs,
        *java.OPTIONS,
    ]
    executor_options = [settings.spark_conf.get(EXECUTOR_OPTIONS, ""), *java.OPTIONS]
    connector = (path.resolve().as_uri() for path in connector_jars(settings))
    theirs_too = filter(None, [settings.spark_conf.get(JARS)])
    return {
        "spark.driver.memory": f"{memory_mb}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # No `_SUCCESS` files: manifests say which files count.
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        **_SQL,
        **conf,
        **settings.spark_conf,
        JARS: ",".join([*connector, *theirs_too]),
        JAVA_OPTIONS: " ".join(java_options),
        EXECUTOR_OPTIONS: " ".join(executor_options),
    }


# Spark creates this many partitions in a shuffle; adaptive execution merges the small ones again.
BATCH_CONF = {"spark.sql.shuffle.partitions": "4", "spark.sql.adaptive.enabled": "true"}


def batch_session(settings: Settings) -> SparkSession:
    """The batch layer's session.

    It uses the Spark Connect server of `spark_remote` or of `trilayer up`, else a driver of its
    own. The JVM of a server has already loaded and compiled its classes, which is most of what a
    short run with its own driver waits for.

    Raises:
        EnvironmentFault: The server of `spark_remote` does not answer.
    """
    if settings.spark_remote and not listens(settings.spark_remote):
        raise EnvironmentFault(
            f"no Spark Connect server answers at spark_remote, {settings.spark_remote}; start it,"
            " or leave spark_remote empty"
        )
    remote = settings.spark_remote or _remote_of_stack(settings)
    if not remote:
        return session(
            "trilayer-batch", settings, memory_mb=settings.batch.memory_mb, conf=BATCH_CONF
        )
    from pyspark.sql.connect.client.retries import DefaultPolicy

    conf = (
        _SQL
        | BATCH_CONF
        | {k: v for k, v in settings.spark_conf.items() if k.startswith("spark.sql.")}
    )
    spark = SparkSession.builder.remote(remote).config(map={**conf}).getOrCreate()
    reset_inherited(spark, conf)
    # By default a client would retry for ten minutes if the server has ended, while this process
    # holds the batch lock.
    spark.client.set_retry_policies(
        [
            DefaultPolicy(
                max_retries=8, initial_backoff=100, backoff_multiplier=2.0, max_backoff=5_000
            )
        ]
    )
    return spark


def _remote_of_stack(settings: Settings) -> str:
    """The address of the server of `trilayer up`; empty if none runs.

    Under spark-submit it is not used, because spark-submit provides the driver.
    """
    address = settings.home / SPARK_ADDRESS
    if not settings.spark_master or not address.exists():
        return ""
    remote = address.read_text().strip()
    return remote if listens(remote) else ""


def listens(remote: str) -> bool:
    """Whether a server accepts connections at a Spark Connect address."""
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
    """Translates Spark's errors within the block.

    Args:
        memory_setting: The setting to increase if the driver's heap was full.

    Raises:
        EnvironmentFault: The driver's JVM or the Spark Connect server has ended.
        LogError: The log no longer holds what was being read.
        TrilayerError: A Spark job failed for another reason.
    """
    try:
        yield
    except (ConnectionError, Py4JNetworkError) as error:
        raise EnvironmentFault(
            "Spark's driver has ended; run this again. If its log says OutOfMemoryError, first"
            f" increase {memory_setting}"
        ) from error
    except (PySparkException, Py4JJavaError) as error:
        if not _server_is_gone(error):
            raise _failed(str(error)) from error
        raise EnvironmentFault(
            "the Spark Connect server has ended or was restarted; run this again when it answers."
            f" If its log says OutOfMemoryError, first increase {memory_setting}"
        ) from error


def first_cause(text: str) -> str:
    """The line of a Spark error that says what happened, with its condition and its place.

    It is the error that Python code raised, if any, else the root cause. The place is the part of
    the SQL that Spark points at, or the line of the author's Python code.
    """
    raised = _raised_in_python(text)
    if raised:
        return raised
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by:")]
    # Py4J's own line names an object of the JVM; the next one is the error.
    named = [line.removeprefix(": ") for line in lines if not line.startswith(_WRAPPERS)]
    return (causes[-1:] or named[:1] or ["no reason given"])[0] + _sql_place(text)


_WRAPPERS = (
    "An error occurred while calling ",
    "An exception was raised by the Python Proxy.",
    "py4j.protocol.Py4JJavaError: An error occurred while calling ",
)


def _raised_in_python(text: str) -> str:
    """The last line of the Python traceback in a Spark error, and its place.

    Empty if there is none, or if it only reports an error of the JVM whose text follows.
    """
    _, _, traceback = text.rpartition("Traceback (most recent call last):")
    # Frames are indented; the first line that is not indented names the error.
    line = next((line for line in traceback.splitlines()[1:] if line and not line[0].isspace()), "")
    name = re.match(r"(\w+\.)*\w+(?=: |$)", line)
    if name is None or name[0].startswith("py4j."):
        return ""
    if name[0].startswith("pyspark."):
        return line.removeprefix(f"{name[0]}: ").strip() + _sql_place(traceback)
    if name[0].startswith("trilayer_core.errors."):
        return line.removeprefix("trilayer_core.errors.").strip()
    return line.strip() + _python_place(traceback)


def _sql_place(text: str) -> str:
    """The part of the SQL at which an error points, in brackets; empty if it points at none."""
    context = re.search(r"^== SQL .*==\n(.*)\n( *)(\^+)$", text, re.MULTILINE)
    if context is None:
        return ""
    start = len(context[2])
    return f" (in {context[1][start : start + min(len(context[3]), MOST_SHOWN)]})"


MOST_SHOWN = 200
"""The most characters of SQL that a message quotes."""


def _python_place(traceback: str) -> str:
    """The innermost line of code that is neither Python's nor installed, in brackets."""
    frames = re.findall(r'^  File "(.+)", line (\d+)', traceback, re.MULTILINE)
    installed = ("site-packages", "dist-packages", "/lib/python", ".zip/", "<frozen")
    own = [(file, line) for file, line in frames if not any(part in file for part in installed)]
    return f" ({own[-1][0]}:{own[-1][1]})" if own else ""


def _server_is_gone(error: Exception) -> bool:
    """Whether an error says that the Spark Connect server is away or has lost this session."""
    status = getattr(error, "getGrpcStatusCode", None)
    unavailable = status is not None and status().name == "UNAVAILABLE"
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return unavailable or (condition or "").startswith("INVALID_HANDLE")


def _failed(text: str) -> TrilayerError:
    """The error to raise for a Spark job that failed with this text."""
    if lost_by_log(text):
        return LogError(
            "the log no longer holds what it held when this run began, because of retention or a"
            " failure of the broker; run this again to see what is lost:"
            f" {first_cause(text)}"
        )
    return TrilayerError(
        f"a Spark job failed: {first_cause(text)}. If a disk, the store or the broker was"
        " unavailable, run this again; if an expression of a view, or the function of a `Rows`"
        " source, fails on an event, change it as docs/operations.md says"
    )


@contextmanager
def _without_jvm_notices() -> Iterator[None]:
    """Suppresses pointless notices on the stderr of a JVM that is started within the block.

    A thread forwards all other lines.
    """
    # The file descriptor, which a JVM inherits, instead of `sys.stderr`.
    stderr = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)

    def forward() -> None:
        with os.fdopen(reading, "rb") as lines, os.fdopen(stderr, "wb", buffering=0) as there:
            for line in lines:
                if b"Using incubator modules" not in line:
                    # If the disk is full, lines are lost but the thread continues; otherwise the
                    # JVM's later output would be lost as well.
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
    """A DataFrame from SQL, which `sql` makes from the name under which it finds `rows`."""
    name = "_the_rows"
    # With arguments Spark formats the text first, as `str.format` does.
    text = sql(name).replace("{", "{{").replace("}", "}}")
    return rows.sparkSession.sql(text.replace(name, "{rows}"), rows=rows)
