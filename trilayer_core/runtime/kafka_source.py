"""Reading a topic with Spark: the options of its Kafka source, and the meaning of its errors."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

from trilayer_core.seam import Cut, Ranges

# Measured: larger fetches, and polls of more records, than the defaults double the rows read per
# second. Polls of 20,000 records lose part of that again, because the garbage collector copies what
# a poll has returned.
KAFKA_OPTIONS = {
    "kafka.max.poll.records": "2000",
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.receive.buffer.bytes": "1048576",
    # By default the broker holds a request at the end of a quiet log for half a second, which would
    # delay every micro-batch.
    "kafka.fetch.max.wait.ms": "10",
    # Records of aborted transactions are no events.
    "kafka.isolation.level": "read_committed",
    # Otherwise Spark passes over records that retention has deleted.
    "failOnDataLoss": "true",
    "includeHeaders": "false",  # only the master dataset keeps them
}


def read_log(
    spark: SparkSession,
    bootstrap_servers: str,
    topic: str,
    ranges: Ranges,
    *,
    complete: bool = True,
) -> DataFrame:
    """Reads the records of `ranges`, in one bounded read.

    Args:
        spark: The session.
        bootstrap_servers: host:port, or several separated by commas.
        topic: The topic's name.
        ranges: The offsets of each partition.
        complete: Whether the read fails if the log no longer holds all records. Otherwise it
            returns those that the log holds.

    Returns:
        Rows of key, value, headers, partition, offset, timestamp.
    """
    return (
        spark.read.format("kafka")
        .options(**KAFKA_OPTIONS)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", str(complete).lower())
        .option("kafka.bootstrap.servers", bootstrap_servers)
        # Not `subscribe`, which would also read partitions that were added since.
        .option("assign", json.dumps({topic: sorted(ranges)}))
        .option("startingOffsets", offsets_json(topic, {p: r.start for p, r in ranges.items()}))
        .option("endingOffsets", offsets_json(topic, {p: r.end for p, r in ranges.items()}))
        .load()
    )


def offsets_json(topic: str, offsets: Cut) -> str:
    """The offsets in the JSON format of Spark's Kafka source."""
    return json.dumps(
        {topic: {str(partition): offset for partition, offset in sorted(offsets.items())}}
    )


def lost_by_log(text: str) -> bool:
    """Whether a Spark error says that the log no longer holds the requested offsets."""
    signs = ("OffsetOutOfRange", "Some data may have been lost", "data may have been missed")
    return any(sign in text for sign in signs)
