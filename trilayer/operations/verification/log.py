"""Compares the master dataset with what the log still holds, record by record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from trilayer.operations.verification.findings import Notes, at_most, range_text
from trilayer.operations.verification.master import end_of
from trilayer.operations.verification.records import (
    CONTENT,
    DIGEST,
    FILE,
    ORIGIN,
    Records,
    tasks,
)
from trilayer.operations.verification.state import StreamState
from trilayer_core.compute.parsing import log_columns
from trilayer_core.definitions.aggregates.base import POSITION
from trilayer_core.errors import LogError
from trilayer_core.log.broker import Log, Topic
from trilayer_core.runtime.kafka_source import read_log
from trilayer_core.seam import Range, Ranges, ranges_between

_FAULTS = {
    "missing": "are in the log and not in the master dataset",
    "extra": "are in the master dataset and not in the log",
    "twice": "are in the master dataset more than once",
    "differs": "are in the master dataset with other content than in the log",
}


@dataclass(frozen=True)
class LogRanges:
    """The offsets of the log that can be compared.

    Attributes:
        held: The offsets of the master dataset that the log still holds.
        above: The records from the cut to the head.
    """

    held: Ranges
    above: Ranges


def ranges_of_log(state: StreamState, notes: Notes) -> LogRanges:
    """Determines what the log holds, and notes what is missing.

    Raises:
        LogError: Answers are based on records above the cut that the log does not have.
        EnvironmentFault: No broker answers.
    """
    head = state.cover.head if state.cover else state.provenance.cut
    above = {q: r for q, r in ranges_between(state.provenance.cut, head).items() if len(r)}
    with Log(state.project.settings.bootstrap_servers) as log:
        topic = log.find(state.stream)
        if (
            topic is None
            or topic.id != state.present.topic_id
            or (above and state.identity != state.present.identity)
        ):
            reason = _other_log(state, topic)
            if above:
                raise LogError(
                    f"stream {state.stream.name!r}: to verify the records above the cut takes"
                    f" the log, {reason}"
                )
            notes.not_compared.append(f"nothing could be compared with the log, {reason}")
            return LogRanges({}, {})
        beginning, end = log.beginning(topic), log.end(topic)
    ingested = end_of(state.own)
    former = sum(i.events for i in state.chain) - sum(i.events for i in state.own)
    if former:
        notes.not_compared.append(
            f"{former:,} records of origins before the present one are in no log any more;"
            " they were compared with their manifests alone"
        )
    answered = head if state.identity == state.present.identity else {}
    held: dict[int, Range] = {}
    for partition in topic.partitions:
        first = state.present.start.get(partition, 0)
        low, high = beginning.get(partition, 0), end.get(partition, 0)
        if low < first and state.present.number == 1:
            notes.wrong.append(
                f"partition {partition}: the log begins at offset {low}, its recorded origin"
                f" is {first}: offsets {range_text(Range(low, first))} are in no layer"
            )
        reached = max(ingested.get(partition, first), answered.get(partition, first))
        if reached > high:
            notes.wrong.append(
                f"partition {partition}: the layers have counted up to offset {reached}, the"
                f" log ends at {high}: offsets {range_text(Range(max(high, first), reached))} are"
                " not in the log"
            )
        if reached < high:
            notes.not_compared.append(
                f"partition {partition}: offsets {range_text(Range(max(reached, low), high))} are"
                " above the head: they are in no answer yet"
            )
        if low > first and ingested.get(partition, first) > first:
            gone = Range(first, min(low, ingested[partition]))
            notes.not_compared.append(
                f"partition {partition}: offsets {range_text(gone)} are not in the log any more;"
                " the master dataset's records of them were compared with its manifests alone"
            )
        if partition in ingested:
            held[partition] = Range(max(low, first), min(ingested[partition], high))
        if partition in above and (low > above[partition].start or high < above[partition].end):
            r = above[partition]
            if low > r.start:
                notes.wrong.append(
                    f"partition {partition}: the log begins at offset {low}, the cut is at"
                    f" {r.start}: retention took offsets"
                    f" {range_text(Range(r.start, min(low, r.end)))} before they were ingested"
                )
            above[partition] = Range(max(r.start, low), min(r.end, high))
    return LogRanges(_not_empty(held), _not_empty(above))


def _other_log(state: StreamState, topic: Topic | None) -> str:
    """Returns why the present log is not the one on which the answers are based."""
    if topic and topic.id == state.present.topic_id:
        return (
            "but a loss was accepted since, so that the log counts in a new origin;"
            " run `trilayer batch run`"
        )
    there = f"the topic has id {topic.id}" if topic else "there is no such topic"
    return (
        f"topic {state.stream.topic!r} with id {state.present.topic_id}, but {there}; restore the"
        " topic, or run `trilayer batch run --accept-loss`"
    )


def compare_with_log(state: StreamState, records: Records, held: Ranges, notes: Notes) -> None:
    """Compares the master dataset with what the log still holds of it, by offset and content."""
    present = len(state.begun)
    sides: list[DataFrame] = []
    if records.rows is not None:
        rows = records.rows.where(F.col(FILE).isNotNull())
        sides.append(rows.selectExpr(*POSITION, ORIGIN, DIGEST, "1 AS _master", "0 AS _log"))
    if held:
        # Retention may delete more while this reads, which leaves less to compare with.
        read = read_log(
            records.start(),
            state.project.settings.bootstrap_servers,
            state.stream.topic,
            held,
            complete=False,
        )
        sides.append(
            log_columns(read).selectExpr(
                *POSITION,
                f"{present} AS {ORIGIN}",
                f"{CONTENT} AS {DIGEST}",
                "0 AS _master",
                "1 AS _log",
            )
        )
    notes.compared += sum(g.records for g in records.groups if g.file is None)
    if not sides or (not held and not state.chain):
        return
    both = (
        tasks(reduce(DataFrame.unionByName, sides), records.few)
        .groupBy(*POSITION, ORIGIN)
        .agg(
            F.sum("_master").alias("_master"), F.sum("_log").alias("_log"),
            (F.min(DIGEST) != F.max(DIGEST)).alias("_differs"),
        )
    )  # fmt: skip
    kinds = both.selectExpr(
        *POSITION,
        ORIGIN,
        "CASE WHEN _master > 1 THEN 'twice' WHEN _master = 0 THEN 'missing' WHEN _log = 0 THEN"
        " 'extra' WHEN _differs THEN 'differs' ELSE 'same' END AS _kind",
    )
    starts = [held[q].start if q in held else 1 << 62 for q in range(1 + max([0, *held]))]
    of_log = (
        f"_offset >= coalesce(get(array({', '.join(f'{s}L' for s in starts)}), _partition),"
        f" {1 << 62}L)"
    )
    of_log += f" AND {ORIGIN} = {present}" if state.own else " AND false"
    kinds = kinds.selectExpr(
        *POSITION, ORIGIN, f"IF(_kind = 'extra' AND NOT ({of_log}), 'before', _kind) AS _kind"
    )
    numbers = {
        row["_kind"]: row["n"]
        for row in kinds.groupBy("_kind").agg(F.count("*").alias("n")).collect()
    }
    notes.compared += sum(numbers.get(kind, 0) for kind in ("same", "differs", "missing"))
    if numbers.keys() & _FAULTS.keys():
        notes.wrong += _located(state, records, kinds.where(F.col("_kind").isin(*_FAULTS)))


def _located(state: StreamState, records: Records, faults: DataFrame) -> list[str]:
    """Returns the faulty ranges of offsets that are still in the log."""
    faults.createOrReplaceTempView("_faults")
    islands = (
        records.start()
        .sql(
            """SELECT _kind, _partition, min(_offset) AS low, max(_offset) + 1 AS high FROM (
                 SELECT *, _offset - row_number() OVER (
                   PARTITION BY _kind, _origin, _partition ORDER BY _offset) AS island
                 FROM _faults)
               GROUP BY _kind, _origin, _partition, island ORDER BY _kind, _partition, low"""
        )
        .collect()
    )
    with Log(state.project.settings.bootstrap_servers) as log:
        beginning = log.beginning(log.topic(state.stream))
    by_kind: dict[str, list[str]] = {}
    for row in islands:
        r = Range(row["low"], row["high"])
        if row["_kind"] == "extra":  # retention deleted it between the two reads
            r = Range(max(r.start, beginning.get(row["_partition"], 0)), r.end)
        if len(r) > 0:
            by_kind.setdefault(row["_kind"], []).append(
                f"partition {row['_partition']}: offsets {range_text(r)} {_FAULTS[row['_kind']]}"
            )
    return [line for lines in by_kind.values() for line in at_most(lines)]


def _not_empty(ranges: Ranges) -> dict[int, Range]:
    return {partition: r for partition, r in ranges.items() if r.start < r.end}
