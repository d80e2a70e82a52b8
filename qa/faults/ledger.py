"""What every answer is held against: the log itself, read by a plain consumer and added up in plain
Python.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from qa.faults.traffic import amount_of, good, user_of


@dataclass
class Partition:
    """One partition of one history of the log.

    Attributes:
        first: offset of the first record.
        serials: serial number of the record at each offset from `first` on; None for a hostile one.
        counts: how many good records lie below each offset from `first` on.
        sums: the sum of their serial numbers.
        kept: offset and serial number of each record that the log has lost and the answers still
            have, since it had been ingested.
    """

    first: int = 0
    serials: list[int | None] = field(default_factory=list)
    counts: list[int] = field(default_factory=lambda: [0])
    sums: list[int] = field(default_factory=lambda: [0])
    kept: list[tuple[int, int | None]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.first + len(self.serials)

    def append(self, serial: int | None) -> None:
        self.serials.append(serial)
        self.counts.append(self.counts[-1] + (serial is not None))
        self.sums.append(self.sums[-1] + (serial or 0))

    def cut(self, end: int) -> None:
        """Forgets what lies at or above `end`."""
        keep = max(end - self.first, 0)
        del self.serials[keep:]
        del self.counts[keep + 1 :]
        del self.sums[keep + 1 :]

    def below(self, offset: int) -> tuple[int, int]:
        """Number of good records that count below `offset`, and the sum of their serial numbers."""
        place = offset - self.first
        kept = [serial for _, serial in self.kept if serial is not None]
        return self.counts[place] + len(kept), self.sums[place] + sum(kept)

    def hostile(self) -> list[int]:
        """The offsets of the hostile records; those that the log has lost are kept if asked for."""
        there = [self.first + place for place, serial in enumerate(self.serials) if serial is None]
        return there + [offset for offset, serial in self.kept if serial is None]


History = dict[int, Partition]


class Ledger:
    """The log as it stands, and as it stood before each loss of its tail."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic = topic
        self.now: History = {number: Partition() for number in range(partitions)}
        self.before: list[History] = []

    def read(self, bootstrap: str) -> None:
        """Reads what has been appended since the last time."""
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            max_partition_fetch_bytes=8_000_000,
            bootstrap_timeout_ms=20_000,
        )
        try:
            places = {TopicPartition(self._topic, number): p for number, p in self.now.items()}
            ends = consumer.end_offsets(list(places))
            consumer.assign(list(places))
            for place, partition in places.items():
                assert ends[place] >= partition.end, (
                    f"{place}: the log ends at {ends[place]}, not {partition.end}"
                )
                consumer.seek(place, partition.end)
            while any(partition.end < ends[place] for place, partition in places.items()):
                for place, records in consumer.poll(timeout_ms=500, max_records=5000).items():
                    for record in records:
                        assert record.offset == places[place].end, (
                            f"{place}: a gap before {record.offset}"
                        )
                        self.take(place.partition, record.value)
        finally:
            consumer.close(autocommit=False)

    def take(self, partition: int, value: bytes | None) -> None:
        """Notes the next record of a partition."""
        self.now[partition].append(_serial(value))

    def tail_lost(self, ends: Mapping[int, int], ingested: Mapping[int, int]) -> None:
        """From now on the log ends where `ends` says.

        What was ingested above that stays in the answers, by promise.

        The log as it was is kept, since answers may have been given of it.
        """
        self.before.append(copy.deepcopy(self.now))
        for number, end in ends.items():
            partition = self.now[number]
            lost = range(end, min(ingested.get(number, 0), partition.end))
            partition.kept += [
                (offset, partition.serials[offset - partition.first]) for offset in lost
            ]
            partition.cut(end)

    def end(self, number: int) -> int:
        """One past the last record read of a partition."""
        return self.now[number].end

    def good(self) -> int:
        """How many good records count, as far as the log was read."""
        return sum(partition.below(partition.end)[0] for partition in self.now.values())

    def hostile(self) -> Counter[tuple[int, int]]:
        """Partition and offset of each hostile record: once, or twice if one that is kept had the
        place before.
        """
        return Counter((number, offset) for number, p in self.now.items() for offset in p.hostile())

    def wrong(self, answer: Mapping[str, Any]) -> str:
        """What is wrong with an answer of the reader's; nothing where it is right of some history
        of the log.
        """
        head = {int(number): offset for number, offset in answer["head"].items()}
        expected = []
        for history in [self.now, *self.before]:
            if any(offset > history[number].end for number, offset in head.items()):
                continue
            counts, sums = zip(
                *(history[number].below(offset) for number, offset in head.items()), strict=True
            )
            if (answer["n"], answer["serials"]) == (sum(counts), sum(sums)):
                return ""
            expected.append((sum(counts), sum(sums)))
        got = (answer["n"], answer["serials"])
        return (
            f"at head {head} (events, sum of serial numbers) must be one of {expected}; got {got}"
        )

    def by_user(self, head: Mapping[int, int]) -> list[dict[str, Any]]:
        """What `by_user` must say of the log below `head`, and of what is kept."""
        of: dict[str, list[int]] = {}
        for number, offset in head.items():
            partition = self.now[number]
            kept = [serial for _, serial in partition.kept]
            for serial in kept + partition.serials[: offset - partition.first]:
                if serial is not None:
                    of.setdefault(user_of(serial), []).append(serial)
        return [
            {
                "user": user,
                "n": len(serials),
                "serials": sum(serials),
                "spent": sum(map(amount_of, serials), Decimal(0)).quantize(Decimal("0.01")),
                "highest": max(serials) / 7,
                "last": max(serials),
            }
            for user, serials in sorted(of.items())
        ]


def _serial(value: bytes | None) -> int | None:
    """The serial number of a good event; None for a record that is none."""
    try:
        row = json.loads(value or b"")
        return int(row["serial"]) if value == good(row["serial"]) else None
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError):
        return None
