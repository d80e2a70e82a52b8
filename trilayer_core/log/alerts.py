"""Reads the topics of alerts, and recognises their records."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from pydantic import Field, TypeAdapter

from trilayer_core.definitions.alerts import alert_id
from trilayer_core.log.broker import Log, broker_errors

_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"
"""Spark's pattern. Python would accept more notations, and with other results."""


@dataclass(frozen=True)
class AlertRecord:
    """A record of a topic.

    Attributes:
        partition: Its partition.
        offset: Its offset.
        at_ms: When it was appended, by the broker's clock, in ms since 1970.
        value: Its value.
    """

    partition: int
    offset: int
    at_ms: int
    value: bytes | None


@dataclass(frozen=True)
class SentAlert:
    """An alert as it was sent.

    Attributes:
        alert: The alert's name.
        fingerprint: The alert's fingerprint.
        origin_id: The identity of the origin in which the event's offset counts.
        partition: The event's partition.
        offset: The event's offset.
        created_at: When the event was appended to its topic.
        payload: The JSON object.
    """

    alert: str
    fingerprint: str
    origin_id: str
    partition: int
    offset: int
    created_at: datetime
    payload: str

    @property
    def id(self) -> str:
        """The id, which is the same if the alert is sent again."""
        return alert_id(self.alert, self.fingerprint, self.origin_id, self.partition, self.offset)


@dataclass(frozen=True)
class _Payload:
    """What every alert has."""

    id: str
    alert: str
    fingerprint: str
    topic_id: str
    partition: Annotated[int, Field(ge=0, lt=1 << 31)]
    offset: Annotated[int, Field(ge=0, lt=1 << 63)]
    created_at: Annotated[str, Field(pattern=_TIME)]
    # Each is None if it was too large.
    key: dict[str, object] | None
    event: dict[str, object] | None


_payload = TypeAdapter(_Payload)


def sent_alert(value: bytes | None) -> SentAlert | None:
    """The alert in a record's value; None if it is something else."""
    try:
        fields = _payload.validate_json(value or b"", strict=True)
        created_at = datetime.fromisoformat(fields.created_at).astimezone(UTC)
    except (ValueError, OverflowError):  # a ValidationError is a ValueError
        return None
    alert = SentAlert(
        fields.alert,
        fields.fingerprint,
        fields.topic_id,
        fields.partition,
        fields.offset,
        created_at,
        (value or b"").decode(),
    )
    return alert if fields.id == alert.id else None


GATHER_MS = 500
"""How long the broker gathers records for a reader that does not want them one at a time, in ms."""

_GATHERED_BYTES = 1 << 20
"""The number of bytes after which it gathers no more."""


class AlertReader:
    """Reads a topic from some offsets on. Use it as a context manager, in one thread only.

    Attributes:
        topic: The topic as it was found; None if it does not exist.
        missing: The number of records that retention has deleted before they were read.
    """

    def __init__(self, bootstrap_servers: str, name: str, *, gathered: bool = False) -> None:
        """Connects to the brokers.

        Args:
            bootstrap_servers: host:port, or several separated by commas.
            name: The topic's name.
            gathered: Whether the broker gathers records before it answers. Records that are fetched
                one at a time cost several times as much, here and in the broker.

        Raises:
            EnvironmentFault: No broker answers.
        """
        self._servers, self._name = bootstrap_servers, name
        self.missing = 0
        self._next: dict[int, int] = {}
        self._log = Log(bootstrap_servers)
        try:
            self.topic = self._log.find_named(name)
            with broker_errors(bootstrap_servers):
                self._consumer = KafkaConsumer(
                    bootstrap_servers=bootstrap_servers.split(","),
                    enable_auto_commit=False,
                    auto_offset_reset="earliest",
                    fetch_min_bytes=_GATHERED_BYTES if gathered else 1,
                    fetch_max_wait_ms=GATHER_MS,
                )
        except BaseException:
            self._log.close()
            raise

    def __enter__(self) -> AlertReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections."""
        with suppress(KafkaError):
            self._consumer.close(autocommit=False)
        with suppress(KafkaError):
            self._log.close()

    def begin(self, offsets: Mapping[int, int] | None = None) -> None:
        """Chooses where to read from.

        Args:
            offsets: The offsets, where 0 is assumed for a partition that is missing; None for the
                end of the topic.

        Raises:
            EnvironmentFault: No broker answers.
        """
        assert self.topic
        beginning = self._log.beginning(self.topic)
        if offsets is None:
            offsets = self._log.end(self.topic)
        self._next = {p: offsets.get(p, 0) for p in self.topic.partitions}
        for partition, first in beginning.items():
            self._skip(partition, first)
        with broker_errors(self._servers):
            self._consumer.assign([TopicPartition(self._name, p) for p in self._next])
            for partition, offset in self._next.items():
                self._consumer.seek(TopicPartition(self._name, partition), offset)

    @property
    def offsets(self) -> dict[int, int]:
        """For each partition, the offset below which all records were returned."""
        return dict(self._next)

    def poll(self, timeout_s: float) -> list[AlertRecord]:
        """The next records; empty if none comes in time, or if no broker answers.

        Raises:
            EnvironmentFault: The client has given up.
            LogError: Records can't be read.
        """
        with broker_errors(self._servers):
            polled = self._consumer.poll(timeout_ms=round(timeout_s * 1000))
        alerts = []
        for place, records in polled.items():
            for record in records:
                if record.offset > self._next[place.partition]:
                    self._count_missing(place.partition, record.offset)
                self._next[place.partition] = record.offset + 1
                alerts.append(
                    AlertRecord(place.partition, record.offset, record.timestamp, record.value)
                )
        return alerts

    def is_same(self) -> bool:
        """Whether the topic is still the one that was found.

        What was polled before is then of that topic, because the id of a topic that was deleted
        never comes back.

        Raises:
            EnvironmentFault: No broker answers.
        """
        return self._log.find_named(self._name) == self.topic

    def _count_missing(self, partition: int, offset: int) -> None:
        assert self.topic
        # Offsets without a record are also those of a transaction's markers.
        first = self._log.beginning(self.topic).get(partition, 0)
        self._skip(partition, min(first, offset))

    def _skip(self, partition: int, first: int) -> None:
        if first > self._next.get(partition, first):
            self.missing += first - self._next[partition]
            self._next[partition] = first
