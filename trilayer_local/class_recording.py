"""The process that fills the archive of Spark's classes, by doing a little of what both layers do.

`python -m trilayer_local.class_recording FILE` runs a session of its own and writes the
archive to FILE when it ends; with `--client REMOTE FOLDER` it is the client of that session. A
change of this file is a change of the archive: increase `CONTENT` of
`trilayer_core.runtime.class_archive` with it.
"""

from __future__ import annotations

import subprocess
import sys
from shlex import quote
from tempfile import TemporaryDirectory

from pyspark import SparkContext
from pyspark.sql import SparkSession

from trilayer_core.runtime.session import JAVA_OPTIONS, session
from trilayer_core.runtime.settings import load_settings
from trilayer_local.class_archive import RECORDING
from trilayer_local.ports import free_port


def main(unfinished: str) -> None:
    """Runs a session that does a little of what both layers do.

    Its JVM writes the archive when it ends.
    """
    _report("starting Spark")
    settings = load_settings(spark_master="local[1]")
    port = free_port()
    conf = {
        JAVA_OPTIONS: f"-XX:TieredStopAtLevel=1 {quote(f'-XX:ArchiveClassesAtExit={unfinished}')}",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    settings = settings.model_copy(update={"spark_conf": settings.spark_conf | conf})
    spark = session("trilayer-classes", settings, memory_mb=512)
    with TemporaryDirectory() as folder:
        _report("queries")
        _work(spark, f"{folder}/own")
        _report("a stream")
        stream = (
            spark.readStream.schema("id bigint, value string")
            .parquet(f"{folder}/own/events")
            .writeStream
        )
        stream = stream.foreachBatch(lambda rows, _: rows.groupBy("id").count().toArrow())
        stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(
            availableNow=True
        ).start().awaitTermination()
        _report("a remote session")
        # In a process of its own, since one has either a driver or a remote session.
        command = [
            sys.executable,
            "-P",
            "-m",
            RECORDING,
            "--client",
            f"sc://127.0.0.1:{port}",
            f"{folder}/remote",
        ]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    _report("writing the archive")
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _report(step: str) -> None:
    sys.stdout.write(f"{step}\n")
    sys.stdout.flush()


def client(remote: str, folder: str) -> None:
    """The same work by a remote session."""
    spark = SparkSession.builder.remote(remote).getOrCreate()
    _work(spark, folder)
    spark.stop()


def _work(spark: SparkSession, folder: str) -> None:
    events = spark.sql(
        "SELECT id, to_json(named_struct('k', id % 7, 'v', id)) AS value FROM range(1000)"
    )
    events.write.parquet(f"{folder}/events")
    counted = spark.sql(
        "SELECT e.k, count(*) AS n, sum(e.v) AS s, max_by(e.v, e.k) AS m FROM (SELECT"
        " from_json(value, 'k bigint, v bigint') AS e FROM {events}) GROUP BY GROUPING SETS"
        " ((e.k), ())",
        events=spark.read.parquet(f"{folder}/events"),
    ).persist()
    counted.toArrow()
    counted.write.parquet(f"{folder}/counted")
    counted.unpersist()


if __name__ == "__main__":
    client(*sys.argv[2:]) if sys.argv[1] == "--client" else main(sys.argv[1])
