"""The one place that builds a SparkSession, and the one that reads a topic with it."""

from __future__ import annotations

import itertools
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from trilayer import classes, jars
from trilayer.cut import Cut, Ranges
from trilayer.settings import Settings

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# Measured: a poll that returns more, and larger, doubles the rows read per second.
KAFKA_OPTIONS = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.receive.buffer.bytes": "1048576",
    "kafka.isolation.level": "read_committed",
    "failOnDataLoss": "true",
    "includeHeaders": "false",
}


def connector_jars(settings: Settings) -> list[Path]:
    """The Kafka connector's jars, fetched where they are not there yet."""
    lock = settings.spark_connector_lock or jars.SPARK_KAFKA
    return jars.fetch(lock, (settings.jars / "spark").resolve(), echo=logging.getLogger("trilayer").info)


def session(
    name: str, settings: Settings, *, memory_mb: int, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A SparkSession for one layer. memory_mb: heap of the driver, which in local mode is all there is.

    UTC everywhere; ANSI mode, so that an overflow is an error; dates of every century as they are written.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1") if settings.spark_master.startswith(
        "local"
    ) else None
    log4j = files("trilayer") / "log4j2.properties"
    options = {
        "spark.jars": ",".join(str(path.resolve()) for path in connector_jars(settings)),
        "spark.driver.memory": f"{memory_mb}m",
        JAVA_OPTIONS: " ".join(
            [
                f"-XX:+UseSerialGC -Dlog4j2.configurationFile={log4j}",
                classes.java_option(settings),
                settings.spark_conf.get(JAVA_OPTIONS, ""),
            ]
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "true",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.codegen.aggregate.map.vectorized.enable": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        **(conf or {}),
        **{key: value for key, value in settings.spark_conf.items() if key != JAVA_OPTIONS},
    }
    builder = SparkSession.builder.appName(name)
    if settings.spark_master:
        builder = builder.master(settings.spark_master)
    for key, value in options.items():
        builder = builder.config(key, value)
    with _without_jvm_notices():
        return builder.getOrCreate()


@contextmanager
def _without_jvm_notices() -> Iterator[None]:
    """What a JVM started within says on stderr goes through a thread, which leaves out what no user can do anything about."""
    stderr = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)

    def forward() -> None:
        with os.fdopen(reading, "rb") as lines, os.fdopen(stderr, "wb", buffering=0) as there:
            for line in lines:
                if b"Using incubator modules" not in line:
                    there.write(line)

    threading.Thread(target=forward, daemon=True, name="jvm-stderr").start()
    kept = os.dup(stderr)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def read_log(spark: SparkSession, bootstrap_servers: str, topic: str, ranges: Ranges) -> DataFrame:
    """The records of `ranges`, in one bounded read: key, value, headers, partition, offset, timestamp."""
    return (
        spark.read.format("kafka")
        .options(**KAFKA_OPTIONS)
        .option("includeHeaders", "true")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("assign", json.dumps({topic: sorted(ranges)}))
        .option("startingOffsets", offsets_json(topic, {p: r.start for p, r in ranges.items()}))
        .option("endingOffsets", offsets_json(topic, {p: r.end for p, r in ranges.items()}))
        .load()
    )


def offsets_json(topic: str, offsets: Cut) -> str:
    """Offsets as Spark's Kafka source takes them."""
    return json.dumps({topic: {str(partition): offset for partition, offset in sorted(offsets.items())}})


_names = itertools.count()


def select_from(rows: DataFrame, sql: Callable[[str], str]) -> DataFrame:
    """A DataFrame by the SQL that `sql` makes of the name under which it finds `rows`."""
    name = f"_rows_{next(_names)}"
    rows.createOrReplaceTempView(name)
    try:
        return rows.sparkSession.sql(sql(name))
    finally:
        rows.sparkSession.catalog.dropTempView(name)
