"""Checks whether the log is still the one that was ingested.

A broker loses only the end of a log (after a power cut, or when a replica that was behind is
elected leader); the beginning is removed by retention. So in each partition one record that is
still in its place, the last one that was ingested, proves that everything below it is in place. If
only the markers of transactions follow that record up to the end of what was ingested, there must
still be no record among them.
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
    """Compares the log with the master dataset.

    Args:
        stream: The stream.
        topic: Its topic.
        origin: Its present origin.
        chain: Its master dataset, under any schema.
        log: The log.

    Raises:
        LogError: The log ends below what was ingested, or has another record in place of the last
            one that was ingested.
    """
    own = newest_of(chain, origin.identity)
    have = chain_end(own, origin.start)
    _refuse(stream, lost_of(Read(have, own[-1].marks if own else {}), topic, log))


def check_reaches(stream: Stream, end: Cut, ingested: Cut) -> None:
    """Compares the log's end with what was ingested, in the partitions that both have.

    Args:
        stream: The stream.
        end: One past the last offset of each partition of the log.
        ingested: The end of the master dataset in each partition.

    Raises:
        LogError: The log ends below what was ingested.
    """
    _refuse(stream, falls_short(end, ingested))


def _refuse(stream: Stream, loss: str | None) -> None:
    """Raises LogError if there is a loss."""
    if loss:
        raise LogError(f"stream {stream.name!r}: {loss}. {_CAUSE} {ACCEPT}")


_CAUSE = (
    "The broker has lost records that it had acknowledged, as in a power cut without flushed disks"
    " or after an unclean election of a leader. Nothing is ingested on top; restore the log if"
    " there is a copy of it."
)


def changed(
    topic: Topic, marks: Marks, below: Cut, log: Log
) -> dict[int, tuple[Mark | None, Mark | None]]:
    """The partitions in which another record has taken the place of the marked one.

    A record that retention has deleted is not counted as changed.

    Args:
        topic: The topic.
        marks: The last record that was there in each partition, or None if there was none.
        below: The offset in each partition of which it was the last record below.
        log: The log.

    Returns:
        For each such partition, the mark and the mark of the record that is there now, or None if
        there is none.
    """
    end = log.end(topic)
    reached = {p: below[p] for p in marks if p in below and below[p] <= end.get(p, 0)}
    records: dict[int, Mark] = dict(log.last_records(topic, reached))
    # There may be too many markers between a record and the offset for the search from the offset
    # to find it.
    far = {
        p: mark.offset + 1
        for p, mark in marks.items()
        if mark and p in reached and p not in records
    }
    records |= log.last_records(topic, far)
    beginning = log.beginning(topic)  # after the records, which retention may delete
    changes: dict[int, tuple[Mark | None, Mark | None]] = {}
    for p, mark in sorted(marks.items()):
        last = records.get(p)
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
        ends: The offset up to which each partition was read.
        marks: The last record below that offset, if it is known.
    """

    ends: Cut
    marks: Marks

    def and_of(self, commits: Sequence[Commit]) -> Read:
        """This together with what later commits, oldest first, have read."""
        ends, marks = dict(self.ends), dict(self.marks)
        for commit in commits:
            for segment in commit.segments:
                ends |= {p: max(r.end, ends.get(p, 0)) for p, r in segment.ranges.items()}
            marks = joined(marks, commit.marks)
        return Read(ends, marks)


NOTHING_READ = Read({}, {})


def joined(before: Marks, marks: Marks) -> dict[int, Mark | None]:
    """Combines marks with earlier ones.

    The earlier mark of a partition still applies if only transactions' markers were read since.
    """
    return {**before, **{p: mark or before.get(p) for p, mark in marks.items()}}


def lost_of(read: Read, topic: Topic, log: Log) -> str | None:
    """A message if the log has lost what was read of it, else None."""
    end = log.end(topic)
    if short := falls_short(end, read.ends):
        return short
    # Skip partitions that were added after the topic was described: `end` does not have them.
    marks = {p: mark for p, mark in read.marks.items() if p in end}
    for partition, (mark, record) in changed(topic, marks, read.ends, log).items():
        if mark is None or (record is not None and record.offset > mark.offset):
            assert record is not None
            return (
                f"partition {partition} of the log has at offset {record.offset} a record appended"
                f" at {format_time(record.append_ms)}, where there was none when it was read"
            )
        there = "none" if record is None else f"one appended at {format_time(record.append_ms)}"
        return (
            f"partition {partition} of the log no longer has at offset {mark.offset} the record"
            f" that was read there, which was appended at {format_time(mark.append_ms)}; now it has"
            f" {there} and ends at offset {end[partition]}"
        )
    return None


def falls_short(end: Cut, read: Cut) -> str | None:
    """A message if a log ends below offsets that it must reach, else None.

    Args:
        end: The end of each partition. Partitions that it lacks are skipped: they were added after
            the topic was described.
        read: The offset that each partition must reach.
    """
    for partition, offset in sorted(read.items()):
        if partition in end and end[partition] < offset:
            return (
                f"partition {partition} of the log ends at offset {end[partition]}, below offset"
                f" {offset}, up to which it was read"
            )
    return None


def newest_with_lost_records(
    store: Store, stream: Stream, identity: str, topic: Topic, log: Log
) -> int:
    """The number of the newest generation that has read records which the log has lost.

    It is 0 if there is none in the origin. Generations whose commits can't be read are skipped,
    because readers can't merge them either.
    """
    generations = Generations(store, stream)
    for generation in reversed(generations.all()):
        if generation.origin_id != identity:
            continue
        try:
            read = NOTHING_READ.and_of(generations.commits(generation.name))
        except IntegrityError:
            continue
        if lost_of(read, topic, log):
            return generation.number
    return 0
