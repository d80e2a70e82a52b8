"""Whether the log still is the one that was ingested.

A broker loses only the end of a log (after a power cut, or when a replica that was behind is
elected); the beginning goes by retention. So one record of each partition that is still in its
place, the last that was ingested, proves that all below it is there. If only transaction markers
follow that record up to the end of what was ingested, there must still be no record there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import IntegrityError, LogError
from trilayer_core.log.broker import Log, Mark, Marks, Topic
from trilayer_core.seam import Cut, format_time
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval, chain_end, newest_of
from trilayer_core.store.origins import ACCEPT, Origin
from trilayer_core.store.segments import Commit


def check_log(
    stream: Stream, topic: Topic, origin: Origin, chain: Sequence[Interval], log: Log
) -> None:
    """Compares the log with what the master dataset has of it.

    Args:
        stream: The stream.
        topic: Its topic.
        origin: Its present origin.
        chain: Its master dataset, under whatever schema.
        log: The log.

    Raises:
        LogError: The log ends below what was ingested, or holds another record where the last
            ingested one was.
    """
    own = newest_of(chain, origin.identity)
    end = log.end(topic)
    have = chain_end(own, origin.start)
    check_reaches(stream, end, have)
    # Skip partitions that were added after the topic was described: `end` does not have them.
    marks = {p: mark for p, mark in own[-1].marks.items() if p in end} if own else {}
    for partition, (mark, found) in changed(topic, marks, have, log).items():
        if mark is None or (found is not None and found.offset > mark.offset):
            assert found is not None
            raise LogError(
                f"stream {stream.name!r} partition {partition}: offset {found.offset} must hold no"
                " record, as when it was ingested; the log has one there, appended at"
                f" {format_time(found.append_ms)}. {_CAUSE} {ACCEPT}"
            )
        there = "none" if found is None else f"one appended at {format_time(found.append_ms)}"
        raise LogError(
            f"stream {stream.name!r} partition {partition}: the last record that was ingested must"
            f" still be at offset {mark.offset}, appended at {format_time(mark.append_ms)}; the"
            f" log, which ends at offset {end[partition]}, has {there} in its place. {_CAUSE}"
            f" {ACCEPT}"
        )


def check_reaches(stream: Stream, end: Cut, ingested: Cut) -> None:
    """Compares the log's end with what was ingested, in the partitions of which both are known.

    Args:
        stream: The stream.
        end: Per partition, one past the log's last offset.
        ingested: Per partition, the end of the master dataset.

    Raises:
        LogError: The log ends below what was ingested.
    """
    for partition, offset in sorted(ingested.items()):
        if partition in end and end[partition] < offset:
            raise LogError(
                f"stream {stream.name!r} partition {partition}: the log must reach offset"
                f" {offset}, up to which it was read; it ends at offset {end[partition]}. {_CAUSE}"
                f" {ACCEPT}"
            )


_CAUSE = (
    "The broker has lost records that it had acknowledged, as in a power cut without flushed disks"
    " or after an unclean election of a leader. Nothing is ingested on top; restore the log if"
    " there is a copy of it."
)


def changed(
    topic: Topic, marks: Marks, below: Cut, log: Log
) -> dict[int, tuple[Mark | None, Mark | None]]:
    """The partitions in which the last record is no longer the marked one.

    A record that retention took is no change.

    Args:
        topic: The topic.
        marks: Per partition the last record that was there, or None if there was none.
        below: Per partition the offset that it was the last record below.
        log: The log.

    Returns:
        Per partition the mark, and that of the record which is there instead, or None if there is
        none.
    """
    end = log.end(topic)
    reached = {p: below[p] for p in marks if p in below and below[p] <= end.get(p, 0)}
    found: dict[int, Mark] = dict(log.last_records(topic, reached))
    # Too many markers may lie between a record and the offset, for a look from there to find it.
    far = {
        p: mark.offset + 1 for p, mark in marks.items() if mark and p in reached and p not in found
    }
    found |= log.last_records(topic, far)
    beginning = log.beginning(topic)  # asked after the records, which retention may take meanwhile
    changes: dict[int, tuple[Mark | None, Mark | None]] = {}
    for p, mark in sorted(marks.items()):
        last = found.get(p)
        if last == mark:
            continue
        if last is not None and (mark is None or last.offset >= mark.offset):
            changes[p] = (mark, last)
        elif mark is not None and mark.offset >= beginning.get(p, 0):
            changes[p] = (mark, None)
    return changes


@dataclass(frozen=True)
class Read:
    """What the speed layer has read of a log.

    Attributes:
        ends: Up to where, in each partition.
        marks: The last record below that, where it is known.
    """

    ends: Cut
    marks: Marks

    def and_of(self, commits: Sequence[Commit]) -> Read:
        """With what commits, oldest first, have read after it."""
        ends, marks = dict(self.ends), dict(self.marks)
        for commit in commits:
            for segment in commit.segments:
                ends |= {p: max(r.end, ends.get(p, 0)) for p, r in segment.ranges.items()}
            marks = joined(marks, commit.marks)
        return Read(ends, marks)


NOTHING_READ = Read({}, {})


def joined(before: Marks, marks: Marks) -> dict[int, Mark | None]:
    """Marks with those before them, which stand where only transactions' markers came since."""
    return {**before, **{p: mark or before.get(p) for p, mark in marks.items()}}


def lost_of(read: Read, topic: Topic, log: Log) -> str | None:
    """What to say of a log that has lost what was read of it; None if it has lost nothing."""
    end = log.end(topic)
    if short := falls_short(end, read.ends):
        return short
    # Skip partitions that were added after the topic was described: `end` does not have them.
    marks = {p: mark for p, mark in read.marks.items() if p in end}
    for partition, (mark, found) in changed(topic, marks, read.ends, log).items():
        if mark is None or (found is not None and found.offset > mark.offset):
            assert found is not None
            return (
                f"partition {partition} of the log has at offset {found.offset} a record appended"
                f" at {format_time(found.append_ms)}, where there was none when it was read"
            )
        return (
            f"partition {partition} of the log no longer has at offset {mark.offset} the record"
            f" that was read there, which was appended at {format_time(mark.append_ms)}"
        )
    return None


def falls_short(end: Cut, read: Cut) -> str | None:
    """What to say of a log that ends below offsets which it must reach; None if it reaches them.

    Args:
        end: Per partition, where the log ends. Partitions that it does not have are passed over:
            they were added after the topic was described.
        read: Per partition, the offset that it must reach.
    """
    for partition, offset in sorted(read.items()):
        if partition in end and end[partition] < offset:
            return (
                f"partition {partition} of the log must reach offset {offset}, up to which it was"
                f" read; it ends at offset {end[partition]}"
            )
    return None


def departed_generation(store: Store, stream: Stream, identity: str, topic: Topic, log: Log) -> int:
    """The newest generation that has read what the log has lost in an origin.

    Its number, or 0 if none has.

    Generations whose commits can't be read are passed over: readers can't merge them either.
    """
    generations = Generations(store, stream)
    for generation in reversed(generations.all()):
        if generation.topic_id != identity:
            continue
        try:
            read = NOTHING_READ.and_of(generations.commits(generation.name))
        except IntegrityError:
            continue
        if lost_of(read, topic, log):
            return generation.number
    return 0
