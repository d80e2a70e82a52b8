"""Throughput of the speed layer: rows per second, from a backlog in Kafka to committed segments.

The limit program is the same streaming read, with the same options and batch size, parsed with
from_json into Spark's noop sink.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.figure import Figure, Options, ratios, say, seconds
from benchmarks.workload import FIVE, ONE, SALES, TWO, broker, check, home, produce, write_events
from speed_layer.query import StreamQuery
from speed_layer.run import SPARK_CONF
from trilayer import Catalog
from trilayer_core.project import Project
from trilayer_core.runtime.kafka_source import KAFKA_OPTIONS
from trilayer_core.runtime.session import session
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store

EVENTS = 4_000_000
WARM_UP_BATCHES = 40

# Spark keeps the consumers of a stopped query, each with 20,000 fetched records, for five minutes.
# With one query per repeat in a single session they would fill the heap that the next query needs.
# A real speed layer has one query per stream.
FORGET = {
    f"spark.kafka.consumer.{cache}.{name}": "5s"
    for cache in ("cache", "fetchedData.cache")
    for name in ("timeout", "evictorThreadRunInterval")
}


def measure(options: Options) -> Sequence[Figure]:
    """The figures of this benchmark."""
    number = options.events(EVENTS)
    programs = {"one": ONE, "two": TWO, "five": FIVE}
    took: dict[str, list[float]] = {name: [] for name in ("limit", *programs)}
    with home() as folder, broker(folder) as settings:
        spark = session(
            "trilayer-speed", settings, memory_mb=settings.speed.memory_mb, conf=SPARK_CONF | FORGET
        )
        events = write_events(folder / "events.parquet", number)
        say(
            f"{number:,} events written in"
            f" {seconds(lambda: produce(spark, events, SALES, settings)):.1f} s"
        )
        for repeat in range(-1, options.repeats + 1):
            # Two rounds warm up the JVM. The first one has enough micro-batches for the JVM to
            # compile the code that plans a micro-batch, as in a speed layer after its first
            # minutes. Its answers are compared.
            intake = settings.speed.max_events if repeat >= 0 else number // WARM_UP_BATCHES
            speed = settings.speed.model_copy(update={"max_events": intake})
            settled = settings.model_copy(update={"speed": speed})
            runs = {"limit": _limit(spark, settled, folder, number)}
            for name, catalog in programs.items():
                runs[name] = _product(
                    spark, catalog, settled, folder, events if repeat < 0 else None
                )
            say(", ".join(f"{name} {number / run:,.0f} rows/s" for name, run in runs.items()))
            if repeat > 0:
                for name, run in runs.items():
                    took[name].append(run)
        spark.stop()
    rates = {name: [number / run for run in runs] for name, runs in took.items()}
    return [
        Figure("limit: read and from_json into noop", "rows/s", rates["limit"]),
        Figure("speed layer, one view", "rows/s", rates["one"]),
        Figure("speed layer, two views", "rows/s", rates["two"]),
        Figure("speed layer, five views", "rows/s", rates["five"]),
        Figure(
            "speed layer, two views / limit", "", ratios(rates["two"], rates["limit"]), at_least=0.7
        ),
        Figure(
            "speed layer, five views / one view",
            "",
            ratios(rates["five"], rates["one"]),
            at_least=0.75,
        ),
    ]


def _limit(spark: SparkSession, settings: Settings, folder: Path, number: int) -> float:
    records = (
        spark.readStream.format("kafka")
        .options(**KAFKA_OPTIONS)
        .option("kafka.bootstrap.servers", settings.bootstrap_servers)
        .option("subscribe", SALES.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(settings.speed.max_events))
        .load()
    )
    writer = _parsed(records).writeStream.format("noop").trigger(processingTime="0 seconds")
    writer = writer.option("checkpointLocation", str(folder / f"limit-{uuid4().hex}"))
    query = None

    def run() -> None:
        nonlocal query
        query = writer.start()
        query.processAllAvailable()

    took = seconds(run)
    assert query is not None
    query.stop()
    progress = [p for p in query.recentProgress if p["sources"][0]["endOffset"]][-1]
    end = json.loads(progress["sources"][0]["endOffset"])[SALES.topic]
    if sum(end.values()) != number:
        raise AssertionError(f"the limit program must have read {number} rows; got {end}")
    return took


def _parsed(records: DataFrame) -> DataFrame:
    columns = ", ".join(
        [*(f"{field.name} {field.type}" for field in SALES.fields), "_corrupt string"]
    )
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "timeZone": "UTC"}
    event = F.from_json(F.col("value").cast("string"), columns, options)
    return records.select("partition", "offset", event.alias("event")).select(
        "partition", "offset", "event.*"
    )


def _product(
    spark: SparkSession, catalog: Catalog, settings: Settings, folder: Path, compared: Path | None
) -> float:
    store = Store(str(folder / f"store-{uuid4().hex}"))
    query = StreamQuery(Project(settings, catalog, store), SALES, spark)
    took = seconds(lambda: query.start().processAllAvailable())
    query.stop()
    if compared:
        check(catalog, settings, store, compared)
    store.delete("")
    return took
