"""An archive of the classes that Spark loads: a session then starts, and plans its first query, in about half the time.

The JVM's own feature (JEP 350, dynamic class-data sharing). An archive that does not fit the JVM or the jars is left aside by it without a word.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyspark

from trilayer.errors import EnvironmentFault
from trilayer.filelock import exclusive
from trilayer.java import java_executable
from trilayer.ports import free_port
from trilayer.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def archive(settings: Settings) -> Path:
    """Where the archive is for this Java, this pyspark, and what is done here to fill it."""
    fits = f"{Path(java_executable()).resolve()} {pyspark.__version__} {Path(pyspark.__file__).parent} {Path(__file__).read_text()}"
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
        echo("Archiving the classes that Spark loads, once: its sessions then start in half the time")
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        made = subprocess.run(
            [sys.executable, "-m", "trilayer.classes", str(unfinished)],
            env=os.environ | settings.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode or not unfinished.exists():
            raise EnvironmentFault(f"Spark must start and end well; it did not:\n{made.stderr[-2000:]}")
        unfinished.replace(path)


def main(unfinished: str) -> None:
    """Runs a session that does a little of what both layers do, and has its JVM write the archive when it ends."""
    from pyspark import SparkContext

    from trilayer.settings import load_settings
    from trilayer.spark import JAVA_OPTIONS, session

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
        _work(spark, f"{folder}/own")
        stream = (
            spark.readStream.schema("id bigint, value string").parquet(f"{folder}/own/events").writeStream
        )
        stream = stream.foreachBatch(lambda rows, _: rows.groupBy("id").count().toArrow())
        stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(
            availableNow=True
        ).start().awaitTermination()
        # In a process of its own, since one has either a driver or a remote session.
        command = [
            sys.executable,
            "-m",
            "trilayer.classes",
            "--client",
            f"sc://127.0.0.1:{port}",
            f"{folder}/remote",
        ]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=120)


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
