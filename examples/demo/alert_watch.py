"""Watches alerts as they come, and says how fast and how right they were."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from trilayer_core.errors import TrilayerError
from trilayer_core.log.alerts import AlertReader, AlertRecord, sent_alert
from trilayer_core.runtime.clock import now_ms

POLL_S = 0.2
"""The longest time that one look for new alerts takes, in seconds."""


@dataclass(frozen=True)
class Arrived:
    """An alert that has just been read from its topic.

    Attributes:
        alert: Its name.
        id: Its id; an alert that was sent twice has the same.
        event: The value of the event's identifying column.
        key: The key, as JSON has it.
        created_ms: When the event was appended to its topic, in ms since 1970.
        seen_ms: When the alert was appended to its topic, by the same clock.
        read_ms: When it was read here, by this machine's clock.
    """

    alert: str
    id: str
    event: str
    key: Mapping[str, object]
    created_ms: float
    seen_ms: int
    read_ms: int

    @property
    def latency_ms(self) -> float:
        """The time from the event's append to the alert's."""
        return self.seen_ms - self.created_ms

    @property
    def wall_ms(self) -> float:
        """The time from the event's append to this process having the alert."""
        return self.read_ms - self.created_ms


class AlertWatch(threading.Thread):
    """Reads all alerts of some topics, each once, while it is a context.

    Args:
        bootstrap_servers: The brokers.
        topics: The topics of alerts.
        column: The column that identifies an event.
    """

    def __init__(self, bootstrap_servers: str, topics: Sequence[str], column: str) -> None:
        super().__init__(name="alert-watch", daemon=True)
        self._servers, self._topics, self._column = bootstrap_servers, topics, column
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._arrived: dict[str, Arrived] = {}
        self._reported = 0
        self._fault: TrilayerError | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self.join()

    @property
    def all(self) -> list[Arrived]:
        """All alerts that have come, in the order in which they were read."""
        with self._lock:
            return list(self._arrived.values())

    def new(self) -> list[Arrived]:
        """Those that have come since the last call.

        Raises:
            TrilayerError: They can't be read.
        """
        if self._fault is not None:
            raise self._fault
        new = self.all[self._reported :]
        self._reported += len(new)
        return new

    def run(self) -> None:
        """Reads until the context ends."""
        try:
            with ExitStack() as stack:
                readers = [
                    stack.enter_context(AlertReader(self._servers, topic)) for topic in self._topics
                ]
                for reader in readers:
                    reader.begin({})
                while not self._stopped.is_set():
                    for reader in readers:
                        records = reader.poll(POLL_S / len(readers))
                        self._take(records, now_ms())
        except TrilayerError as error:
            self._fault = error

    def _take(self, records: Sequence[AlertRecord], read_ms: int) -> None:
        with self._lock:
            for record in records:
                sent = sent_alert(record.value)
                if sent is None:
                    continue
                payload = json.loads(sent.payload)
                one = Arrived(
                    sent.alert,
                    sent.id,
                    str(payload["event"][self._column]),
                    payload["key"],
                    sent.created_at.timestamp() * 1000,
                    record.at_ms,
                    read_ms,
                )
                self._arrived.setdefault(one.id, one)


@dataclass(frozen=True)
class Latencies:
    """How long alerts took, in ms.

    Attributes:
        number: The number of alerts.
        to_log: The median and the 99th percentile of the time from the event's append to that of
            the alert.
        to_reader: The same of the time until another process had read it.
    """

    number: int
    to_log: tuple[float, float]
    to_reader: tuple[float, float]


def latencies(arrived: Sequence[Arrived]) -> Latencies:
    """How long these alerts took, of which there must be one at least."""
    return Latencies(
        len(arrived),
        _quantiles([one.latency_ms for one in arrived]),
        _quantiles([one.wall_ms for one in arrived]),
    )


def _quantiles(values: Iterable[float]) -> tuple[float, float]:
    ordered = sorted(values)
    p50, p99 = (ordered[-(-len(ordered) * percent // 100) - 1] for percent in (50, 99))
    return p50, p99


@dataclass(frozen=True)
class Score:
    """How right an alert was.

    Attributes:
        alert: Its name.
        raised: The number of events that it was raised for.
        right: The number of those that it was right about.
        planted: The number of events that it was meant to find.
        found: The number of those that it has found.
    """

    alert: str
    raised: int
    right: int
    planted: int
    found: int

    @property
    def precision(self) -> float | None:
        """The fraction of what was raised that was right; None if nothing was raised."""
        return self.right / self.raised if self.raised else None

    @property
    def recall(self) -> float | None:
        """The fraction of what it was meant to find that it has found; None if that is nothing."""
        return self.found / self.planted if self.planted else None


def score(
    alert: str, raised: Collection[str], right: Collection[str], planted: Collection[str]
) -> Score:
    """Compares the events for which an alert was raised with what is true, all by their ids.

    >>> score("a", ["1", "2", "3", "4"], ["1", "2", "3", "5", "6"], ["3", "5"]).recall
    0.5
    """
    raised_places = set(raised)
    return Score(
        alert,
        len(raised_places),
        len(raised_places.intersection(right)),
        len(set(planted)),
        len(raised_places.intersection(planted)),
    )
