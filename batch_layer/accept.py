"""Accepting the loss of ingested records in a log.

A new origin begins, from which the log's offsets are counted. What was ingested stays in the master
dataset and in the answers. The new origin begins at the offset at which the log differs from the
master dataset, so that every record that only the log has is counted.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import LogError
from trilayer_core.log.broker import Log, Mark, Topic
from trilayer_core.project import Project
from trilayer_core.seam import Cut, Range
from trilayer_core.store.continuity import check_log
from trilayer_core.store.files import Store
from trilayer_core.store.intervals import Interval, chain_end, of_origin
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origin, Origins

logger = logging.getLogger("trilayer.batch")


class Records:
    """Reads the records of intervals in the master dataset."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def offsets(self, interval: Interval, partition: int, r: Range) -> list[int]:
        """The offsets in `r` at which the interval has records of the partition, in order.

        Raises:
            IntegrityError: A file of the interval is missing or altered.
        """
        self._store.check_all(interval.files)
        place, offset = ds.field("_partition"), ds.field("_offset")
        within = (place == partition) & (offset >= r.start) & (offset < r.end)
        table = self._files(interval).to_table(columns=["_offset"], filter=within)
        return sorted(table["_offset"].to_pylist())

    def mark(self, interval: Interval, partition: int, offset: int) -> Mark:
        """The mark of a record in the interval."""
        record = self._files(interval).to_table(
            columns=["_timestamp", "_key", "_value"],
            filter=(ds.field("_partition") == partition) & (ds.field("_offset") == offset),
        )
        # Read as numbers, because a stamp can be in a year that Python's datetime does not support.
        stamps = record["_timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False)
        (append_ms,) = stamps.cast(pa.int64()).to_pylist()
        key, value = record["_key"][0].as_py(), record["_value"][0].as_py()
        return Mark.of_record(offset, append_ms, key, value)

    def _files(self, interval: Interval) -> ds.Dataset:
        paths = [self._store.path(file.path) for file in interval.files]
        return ds.dataset(paths, filesystem=self._store.fs, format="parquet")


def accept_loss(
    project: Project,
    stream: Stream,
    *,
    open_log: Callable[[str], Log] = Log,
    read_records: Callable[[Store], Records] = Records,
) -> Origin | None:
    """Begins a new origin if the stream's log no longer holds what was ingested.

    This includes a topic that was created again under the same name. The caller must hold the
    stream's ingest lock.

    Args:
        project: The project.
        stream: The stream.
        open_log: Connects to the brokers.
        read_records: Reads the master dataset.

    Returns:
        The new origin, or None if none was needed.
    """
    store, origins = project.store, Origins(project.store, stream).all()
    if not origins:
        return None
    with open_log(project.settings.bootstrap_servers) as log:
        topic = log.topic(stream)
        present, chain = origins[-1], Master(store, stream).longest_chain()
        have = chain_end(of_origin(chain, present.identity), present.start)
        if present.topic_id != topic.id:
            reason = (
                f"the topic with id {present.topic_id} was deleted; the one of its name now has id"
                f" {topic.id}"
            )
            start = log.beginning(topic)
            differs_from = present.start
        else:
            try:
                check_log(stream, topic, present, chain, log)
            except LogError as error:
                reason = str(error)
            else:
                return None
            start = first_differences(topic, origins, chain, have, log, read_records(store))
            differs_from = start
        not_in_log = {p: Range(differs_from.get(p, 0), end) for p, end in have.items()}
        not_in_log = {p: r for p, r in not_in_log.items() if r.start < r.end}
    begun = Origins(store, stream).begin(topic, start, present, reason, not_in_log)
    logger.warning(
        "stream %s: the loss is accepted and recorded; origin %s begins at %s; offsets of the"
        " origin before that the log no longer holds as they were ingested: %s",
        stream.name,
        begun.number,
        ", ".join(f"{p}:{offset}" for p, offset in sorted(start.items())),
        ", ".join(f"{p}:[{r.start}, {r.end})" for p, r in sorted(not_in_log.items())) or "none",
    )
    return begun


def first_differences(
    topic: Topic,
    origins: Sequence[Origin],
    chain: Sequence[Interval],
    have: Cut,
    log: Log,
    records: Records,
) -> dict[int, int]:
    """The first offset at which log and master dataset may differ, for each partition.

    Args:
        topic: The topic.
        origins: All origins of the stream, oldest first.
        chain: The master dataset.
        have: The end of the present origin's part of the master dataset.
        log: The log.
        records: Reads the records of the master dataset.
    """
    end, beginning = log.end(topic), log.beginning(topic)
    return {
        p: _first_difference(
            p,
            _held(origins, chain, p, have.get(p, 0)),
            Range(beginning[p], end[p]),
            lambda offset, p=p: log.last_records(topic, {p: offset}).get(p),  # type: ignore[misc]
            records,
        )
        if p in have
        else 0
        for p in topic.partitions
    }


def _first_difference(
    partition: int,
    held: Sequence[tuple[Interval, Range]],
    there: Range,
    last_below: Callable[[int], Mark | None],
    records: Records,
) -> int:
    """The offset at which one partition differs, which is searched for by bisection.

    Log and master dataset agree below one offset and nowhere above it.

    Args:
        partition: The partition.
        held: Its ingested ranges, oldest first, each with its interval.
        there: The offsets that the log has.
        last_below: Returns the mark of the last record of the log below an offset.
        records: Reads the records of the master dataset.
    """
    beginning, end = there.start, there.end
    last = held[-1][1].end if held else beginning
    if beginning >= min(last, end):
        # The log holds no ingested record that could be compared.
        return min(last, end)

    def differs(interval: Interval, offset: int) -> bool:
        if offset < beginning:
            return False
        if offset >= end:
            return True
        return last_below(offset + 1) != records.mark(interval, partition, offset)

    for interval, r in reversed(held):
        offsets = records.offsets(interval, partition, r)
        if not offsets or differs(interval, offsets[0]):
            continue
        agreeing = bisect_left(offsets, True, key=lambda offset: differs(interval, offset))
        if agreeing == len(offsets) and r.end == last and end >= last:
            newest = last_below(last)
            if newest is None or newest.offset <= offsets[-1]:
                return last
        # The offset after the last common record may have been a transaction's marker, and may hold
        # a record now.
        return max(offsets[agreeing - 1] + 1, beginning)
    return beginning


def _held(
    origins: Sequence[Origin], chain: Sequence[Interval], partition: int, have: int
) -> list[tuple[Interval, Range]]:
    """The ranges of one partition that were ingested below `have`, oldest first.

    Only ranges of the present topic count: those of the present origin and, below its start, those
    of earlier origins.
    """
    held: list[tuple[Interval, Range]] = []
    upper = have
    for origin in reversed(origins):
        if origin.topic_id != origins[-1].topic_id:
            break
        lower = origin.start.get(partition, 0)
        for interval in reversed(of_origin(chain, origin.identity)):
            if partition in interval.ranges:
                r = interval.ranges[partition]
                start, end = max(r.start, lower), min(r.end, upper)
                if start < end:
                    held.append((interval, Range(start, end)))
        upper = min(upper, lower)
    return held[::-1]
