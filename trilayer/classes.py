"""An archive of the classes that Spark loads: a session then starts, and plans its first query, in about half the time.

The JVM's own feature (JEP 350, dynamic class-data sharing). An archive that does not fit the JVM or the jars is left aside by it without a word.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING

import pyspark

from trilayer.errors import EnvironmentFault
from trilayer.filelock import exclusive
from trilayer.java import java_executable
from trilayer.ports import free_port
from trilayer.progress import shown
from trilayer.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def archive(settings: Settings) -> Path:
    """Where the archive is for this Java, this pyspark, and what is done here to fill it."""
    work = "".join(inspect.getsource(function) for function in (main, client, _work))
    fits = f"{Path(java_executable()).resolve()} {pyspark.__version__} {Path(pyspark.__file__).parent} {work}"
    return settings.jars.resolve() / "spark" / f"classes-{hashlib.sha256(fits.encode()).hexdigest()[:12]}.jsa"


def java_option(settings: Settings) -> str:
    """The JVM's option to use the archive, or nothing where none was made."""
    path = archive(settings)
    return f"-XX:SharedArchiveFile={path} -Xlog:cds*=off" if path.exists() else ""


def share(settings: Settings, *, echo: Callable[[str], None]) -> None:
    """Makes the archive, which takes half a minute, where there is none. Raises EnvironmentFault with what Spark said if it can't be made."""
    path = archive(settings)
    if path.exists():
        return
    with exclusive(path.with_suffix(".lock")):
        if path.exists():
            return
        echo(
            "An archive of the classes that Spark loads is made once for this user: sessions then start in half the time"
        )
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        with shown("Archiving Spark's classes", echo=echo) as reached:
            _make(unfinished, settings, reached)
        unfinished.replace(path)


def _make(unfinished: Path, settings: Settings, reached: Callable[[str], None]) -> None:
    """Has a process of its own make the archive, and tells `reached` how far that has come."""
    command = [sys.executable, "-P", "-m", "trilayer.classes", str(unfinished)]
    steps = len(STEPS)
    with (
        TemporaryFile("w+", errors="replace") as errors,
        subprocess.Popen(
            command, env=os.environ | settings.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
        ) as making,
    ):  # fmt: skip
        try:
            assert making.stdout
            for line in making.stdout:
                if line.strip() in STEPS:
                    reached(f"{STEPS.index(line.strip()) + 1} of {steps}: {line.strip()}")
            status = making.wait()
        except BaseException:
            # Its JVM and the client that it starts are in its session.
            with suppress(ProcessLookupError):
                os.killpg(making.pid, signal.SIGKILL)
            raise
        errors.seek(0)
        said = errors.read()
    if status or not unfinished.exists():
        raise EnvironmentFault(
            f"Spark failed while building the class archive {unfinished}, with status {status};"
            f" `trilayer doctor` checks Java and memory; it said:\n{said[-2000:]}"
        )


STEPS = ("starting Spark", "queries", "a stream", "a remote session", "writing the archive")
"""What the process that makes the archive does, as its lines on stdout say."""


def main(unfinished: str) -> None:
    """Runs a session that does a little of what both layers do, and has its JVM write the archive when it ends."""
    from pyspark import SparkContext

    from trilayer.settings import load_settings
    from trilayer.spark import JAVA_OPTIONS, session

    _tell("starting Spark")
    settings = load_settings(spark_master="local[1]")
    port = free_port()
    conf = {
        JAVA_OPTIONS: f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={unfinished}",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    settings = settings.model_copy(update={"spark_conf": settings.spark_conf | conf})
    spark = session("trilayer-classes", settings, memory_mb=512)
    with TemporaryDirectory() as folder:
        _tell("queries")
        _work(spark, f"{folder}/own")
        _tell("a stream")
        stream = (
            spark.readStream.schema("id bigint, value string").parquet(f"{folder}/own/events").writeStream
        )
        stream = stream.foreachBatch(lambda rows, _: rows.groupBy("id").count().toArrow())
        stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(
            availableNow=True
        ).start().awaitTermination()
        _tell("a remote session")
        # In a process of its own, since one has either a driver or a remote session.
        command = [
            sys.executable,
            "-P",
            "-m",
            "trilayer.classes",
            "--client",
            f"sc://127.0.0.1:{port}",
            f"{folder}/remote",
        ]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    _tell("writing the archive")
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=120)


def _tell(step: str) -> None:
    sys.stdout.write(f"{step}\n")
    sys.stdout.flush()


def client(remote: str, folder: str) -> None:
    """The same work by a remote session."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(remote).getOrCreate()
    _work(spark, folder)
    spark.stop()


def _work(spark: SparkSession, folder: str) -> None:
    events = spark.sql("SELECT id, to_json(named_struct('k', id % 7, 'v', id)) AS value FROM range(1000)")
    events.write.parquet(f"{folder}/events")
    counted = spark.sql(
        "SELECT e.k, count(*) AS n, sum(e.v) AS s, max_by(e.v, e.k) AS m FROM (SELECT from_json(value, 'k bigint, v bigint') AS e FROM {events})"
        " GROUP BY GROUPING SETS ((e.k), ())",
        events=spark.read.parquet(f"{folder}/events"),
    ).persist()
    counted.toArrow()
    counted.write.parquet(f"{folder}/counted")
    counted.unpersist()


if __name__ == "__main__":
    client(*sys.argv[2:]) if sys.argv[1] == "--client" else main(sys.argv[1])
