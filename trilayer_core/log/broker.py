"""Access to the log: the identity, offsets and records of topics.

All requests to the broker about offsets are made here. A topic is identified by its id, so that a
topic that was deleted and created again under the same name is recognised as another one.
"""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    CorruptRecordError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
    UnsupportedCodecError,
)
from pydantic import Field

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import EnvironmentFault, LogError
from trilayer_core.seam import Cut

FETCH_BYTES = 4_096
"""The maximum number of bytes that a look at records fetches from a partition.

A broker sends at least one batch, so a larger batch is sent completely. The newest records are
mostly in small batches.
"""

MOST_ALERT_BYTES = 32 << 20
"""The largest alert. It contains the events before an event, each of which may be large."""


@dataclass(frozen=True)
class Topic:
    """A topic as the broker describes it."""

    name: str
    id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Mark:
    """Identifies one record, to check later whether it is still in the log.

    Attributes:
        offset: Its offset in its partition.
        append_ms: The broker's append time, in ms since 1970.
        digest: Sixteen hexadecimal digits of the SHA-256 of its key and value.
        epoch: The epoch of the leader that appended it, which increases with each election; -1 if
            unknown. It is not stored, and ignored when marks are compared.
    """

    offset: int
    append_ms: int
    digest: str
    epoch: Annotated[int, Field(exclude=True)] = field(default=-1, compare=False)

    @staticmethod
    def of_record(
        offset: int, append_ms: int, key: bytes | None, value: bytes | None, epoch: int = -1
    ) -> Mark:
        """The mark of a record. A missing key and an empty key give different marks."""
        digest = hashlib.sha256()
        for part in (key, value):
            digest.update(b"-" if part is None else b"%d:" % len(part) + part)
        return Mark(offset, append_ms, digest.hexdigest()[:16], epoch)


Marks = Mapping[int, Mark | None]
"""The last record below an offset of each partition.

It is None if none of the 4,096 offsets below it has a record.
"""


CREATE_S = 300.0
"""How long the partitions of a new topic may take until each has a leader, in seconds."""


class Log:
    """A connection to the brokers. Use it as a context manager, in one thread only."""

    def __init__(self, bootstrap_servers: str, wait_s: float = 10.0) -> None:
        """Connects to the brokers.

        Args:
            bootstrap_servers: host:port, or several separated by commas.
            wait_s: How long to wait for a broker that does not answer.

        Raises:
            EnvironmentFault: No broker answered, or no address is given.
        """
        self.bootstrap_servers = bootstrap_servers
        if not bootstrap_servers:
            raise EnvironmentFault(
                "there is no Kafka broker: bootstrap_servers is empty, and `trilayer up` is not"
                " running; start the local stack with `trilayer up`, or set bootstrap_servers"
            )
        servers, wait_ms = bootstrap_servers.split(","), round(wait_s * 1000)
        with broker_errors(bootstrap_servers):
            self._admin = KafkaAdminClient(bootstrap_servers=servers, bootstrap_timeout_ms=wait_ms)
            self._consumer = KafkaConsumer(
                bootstrap_servers=servers,
                bootstrap_timeout_ms=wait_ms,
                max_partition_fetch_bytes=FETCH_BYTES,
                # The records that are requested exist; with the default, the next request could
                # wait for half a second.
                fetch_max_wait_ms=10,
                auto_offset_reset="earliest",
            )

    @classmethod
    def at_once(cls, bootstrap_servers: str, wait_s: float) -> Log:
        """A connection that does not wait for a broker which refuses connections.

        Args:
            bootstrap_servers: host:port, or several separated by commas.
            wait_s: How long to wait for a broker that accepts connections but does not answer.

        Raises:
            EnvironmentFault: No broker accepts a connection within a second, or none answered.
        """
        with broker_errors(bootstrap_servers):
            _knock(bootstrap_servers, 1.0)
        return cls(bootstrap_servers, wait_s)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._consumer.close(autocommit=False)
        self._admin.close()

    def find(self, stream: Stream) -> Topic | None:
        """The stream's topic; None if it does not exist."""
        return self.find_named(stream.topic)

    def find_named(self, name: str) -> Topic | None:
        """The topic with this name; None if it does not exist."""
        with broker_errors(self.bootstrap_servers):
            (description,) = self._admin.describe_topics([name])
        # Kafka's error 3 is UNKNOWN_TOPIC_OR_PARTITION.
        if description["error_code"] == 3 or not description["partitions"]:
            return None
        partitions = tuple(sorted(p["partition_index"] for p in description["partitions"]))
        return Topic(name, str(description["topic_id"]), partitions)

    def topic(self, stream: Stream) -> Topic:
        """The stream's topic.

        Raises:
            LogError: It does not exist.
        """
        topic = self.find(stream)
        if topic is None:
            raise LogError(
                f"topic {stream.topic!r} of stream {stream.name!r} does not exist at"
                f" {self.bootstrap_servers}; `trilayer replay` or `trilayer up` creates it"
            )
        return topic

    def ensure(self, stream: Stream, replication_factor: int = 1) -> Topic:
        """The stream's topic, which is created if it does not exist.

        A new topic is stamped with append times and has the stream's number of partitions.
        """
        return self._ensure(stream.topic, stream.partitions, replication_factor, {})

    def ensure_changelog(
        self, name: str, partitions: int, *, compacted: bool, replication_factor: int = 1
    ) -> Topic:
        """The topic of a changelog, which is created if it does not exist.

        It keeps the last value of each key for ever; if it is not compacted, all values.

        Raises:
            LogError: It exists, with settings under which records are lost, or with another number
                of partitions.
        """
        wanted = {"cleanup.policy": "compact" if compacted else "delete"}
        if not compacted:
            wanted |= {"retention.ms": "-1", "retention.bytes": "-1"}
        topic = self._ensure(name, partitions, replication_factor, wanted)
        if len(topic.partitions) != partitions:
            raise LogError(
                f"topic {name!r} must have {partitions} partitions, as its changelog declares; it"
                f" has {len(topic.partitions)}; a key's records must stay in one partition, so"
                " declare that number, or delete the topic"
            )
        for setting, value in wanted.items():
            got = self.setting(topic, setting)
            if got != value:
                raise LogError(
                    f"{setting} of topic {name!r} must be {value}, for it to keep what a changelog"
                    f" holds; got {got}; set it: kafka-configs --alter --topic {name} --add-config"
                    f" {setting}={value}"
                )
        return topic

    def ensure_alerts(self, name: str, partitions: int, replication_factor: int = 1) -> Topic:
        """The topic of alerts, which is created if it does not exist."""
        most = {"max.message.bytes": str(MOST_ALERT_BYTES)}
        topic = self._ensure(name, partitions, replication_factor, most)
        self.check_append_time(topic)
        return topic

    def _ensure(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> Topic:
        """The topic with this name, which is created with these settings if it does not exist."""
        topic = self.find_named(name)
        if topic is None:
            self._create(name, partitions, replication_factor, configs)
            topic = self.find_named(name)
        if topic is None:
            raise LogError(f"topic {name!r} was created and is not there; run again")
        return topic

    def _create(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        options = {
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "configs": {"message.timestamp.type": "LogAppendTime", **configs},
        }
        deadline = time.monotonic() + CREATE_S
        with broker_errors(self.bootstrap_servers):
            while True:
                try:
                    with suppress(TopicAlreadyExistsError):
                        self._admin.create_topics({name: options})
                    self._admin.wait_for_topics([name])
                    return
                except (KafkaTimeoutError, RequestTimedOutError):
                    # The client waits 10 s for leaders, which many partitions exceed on a busy
                    # machine.
                    if time.monotonic() > deadline:
                        raise

    def is_as_before(self, topic: Topic, beginning: Mapping[int, int]) -> bool:
        """Whether the topic was neither created again nor emptied.

        Args:
            topic: The topic.
            beginning: The first offset that each partition had.
        """
        return self.find_named(topic.name) == topic and self.beginning(topic) == beginning

    def setting(self, topic: Topic, name: str) -> str:
        """The effective value of a topic's setting, such as `message.timestamp.type`."""
        with broker_errors(self.bootstrap_servers):
            resource = ConfigResource(ConfigResourceType.TOPIC, topic.name, {name: None})
            settings = self._admin.describe_configs([resource], config_filter="all")
        return str(_find(settings, name)["value"])

    def check_append_time(self, topic: Topic) -> None:
        """Checks that the broker stamps the topic's records itself, because cuts depend on it.

        Raises:
            LogError: It does not.
        """
        kind = self.setting(topic, "message.timestamp.type")
        if kind != "LogAppendTime":
            raise LogError(
                f"message.timestamp.type of topic {topic.name!r} must be LogAppendTime, for cuts"
                f" to be exact; got {kind}; set it: kafka-configs --alter --topic {topic.name}"
                " --add-config message.timestamp.type=LogAppendTime"
            )

    def beginning(self, topic: Topic) -> dict[int, int]:
        """The first offset that each partition still holds."""
        return self._offsets(self._consumer.beginning_offsets, topic)

    def end(self, topic: Topic) -> dict[int, int]:
        """One past the last offset of each partition."""
        return self._offsets(self._consumer.end_offsets, topic)

    def _offsets(
        self, ask: Callable[..., Mapping[TopicPartition, int]], topic: Topic
    ) -> dict[int, int]:
        with broker_errors(self.bootstrap_servers):
            try:
                return _plain(ask(_partitions(topic)))
            except KeyError:
                # A partition was added since the consumer last asked for the topic's partitions.
                self._consumer.topics()
            try:
                return _plain(ask(_partitions(topic)))
            except KeyError as error:
                raise EnvironmentFault(
                    f"no Kafka broker at {self.bootstrap_servers} answers for {error} yet; wait"
                    " until each of them knows the partition"
                ) from None

    def index(self, topic: Topic, t_ms: int) -> tuple[dict[int, int], dict[int, int]]:
        """H(T) according to the broker's time index.

        Returns:
            The offset of each partition, and the append times, in ms, of the records at these
            offsets. Partitions without a record at or after T are left out.
        """
        with broker_errors(self.bootstrap_servers):
            entries = self._consumer.offsets_for_times(dict.fromkeys(_partitions(topic), t_ms))
        present = {tp.partition: entry for tp, entry in entries.items() if entry is not None}
        return {p: e.offset for p, e in present.items()}, {
            p: e.timestamp for p, e in present.items()
        }

    def stamps(self, topic: Topic, partition: int, offset: int, end: int) -> list[tuple[int, int]]:
        """The offsets and append times, in ms, of the next records in [offset, end) of a partition.

        The result has as many records as one small fetch returns, and at least one. It is empty if
        only the markers of transactions are left.
        """
        place = TopicPartition(topic.name, partition)
        with self._reading() as reader:
            _begin(reader, {place: offset})
            deadline = time.monotonic() + 30
            # By the position, which also passes the markers of transactions, of which `poll`
            # returns none.
            while reader.position(place) < end:
                records = reader.poll(timeout_ms=200).get(place, [])
                if records:
                    break
                if time.monotonic() > deadline:
                    raise self._silent({place: (offset, end)}, 30)
            else:
                records = []
        return [(record.offset, record.timestamp) for record in records if record.offset < end]

    def find_header(
        self, topic: Topic, partition: int, start: int, header: tuple[str, bytes]
    ) -> int | None:
        """The offset of the first record with `header`, at or after `start`.

        The search ends at the present end of the log. None if no record has the header.
        """
        with self._reading() as reader:
            tp = TopicPartition(topic.name, partition)
            end = reader.end_offsets([tp])[tp]
            _begin(reader, {tp: max(start, reader.beginning_offsets([tp])[tp])})
            deadline = time.monotonic() + 30
            while (position := reader.position(tp)) < end:
                for record in reader.poll(timeout_ms=200).get(tp, []):
                    if header in [(name, bytes(value or b"")) for name, value in record.headers]:
                        return int(record.offset)
                if reader.position(tp) > position:
                    deadline = time.monotonic() + 30
                elif time.monotonic() > deadline:
                    raise self._silent({tp: (position, end)}, 30)
            return None

    def newest(self, topic: Topic, most: int, within_s: float = 1.0) -> Iterator[bytes | None]:
        """The values of the newest records of each partition.

        As many are returned as arrive within a time limit.

        Args:
            topic: The topic to read.
            most: The maximum number of offsets of each partition.
            within_s: The time limit in seconds.
        """
        with self._reading() as reader:
            places = {TopicPartition(topic.name, p): end for p, end in self.end(topic).items()}
            beginning = self.beginning(topic)
            starts = {
                tp: max(end - most, beginning.get(tp.partition, 0)) for tp, end in places.items()
            }
            left = {tp: start for tp, start in starts.items() if start < places[tp]}
            _begin(reader, left)
            deadline = time.monotonic() + within_s
            while left and time.monotonic() < deadline:
                for tp, records in reader.poll(timeout_ms=50).items():
                    yield from (record.value for record in records if record.offset < places[tp])
                left = {tp: start for tp, start in left.items() if reader.position(tp) < places[tp]}

    def last_records(self, topic: Topic, below: Cut) -> dict[int, Mark]:
        """The last record below each offset.

        The offset directly below may hold the marker of a transaction, which is not a record. The
        search therefore goes back up to 4,096 offsets. Partitions without a record there are left
        out.

        Args:
            topic: The topic to read.
            below: An offset for each partition, not above the log's end.

        Raises:
            EnvironmentFault: The brokers return nothing for 10 s.
        """
        marks: dict[int, Mark] = {}
        beginning = self.beginning(topic)
        reached = {p: offset for p, offset in below.items() if offset > beginning.get(p, 0)}
        for back in (1, 64, 4096):
            spans = {
                p: (max(below[p] - back, beginning[p]), below[p]) for p in reached if p not in marks
            }
            if spans:
                marks |= self._last_of(topic, spans)
            reached = {p: start for p, (start, _) in spans.items() if start > beginning[p]}
        return marks

    def _last_of(self, topic: Topic, spans: Mapping[int, tuple[int, int]]) -> dict[int, Mark]:
        """The last record of each range [start, end) of offsets."""
        with self._reading() as reader:
            places = {TopicPartition(topic.name, p): span for p, span in spans.items()}
            _begin(reader, {tp: start for tp, (start, _) in places.items()})
            marks: dict[int, Mark] = {}
            left = dict(places)
            deadline = time.monotonic() + 10
            while left:
                if time.monotonic() > deadline:
                    raise self._silent(left, 10)
                # A short timeout, because a poll that finds only control records waits for all of
                # it.
                for tp, records in reader.poll(timeout_ms=20).items():
                    deadline = time.monotonic() + 10
                    for record in records:
                        if tp in left and record.offset < left[tp][1]:
                            marks[tp.partition] = Mark.of_record(
                                record.offset,
                                record.timestamp,
                                record.key,
                                record.value,
                                record.leader_epoch,
                            )
                left = {tp: span for tp, span in left.items() if reader.position(tp) < span[1]}
                reader.assign(list(left))
        return marks

    @contextmanager
    def _reading(self) -> Iterator[KafkaConsumer]:
        """The consumer, for reading records; `_begin` assigns its partitions.

        Nothing has to be restored afterwards, because a consumer only fetches when it is polled.
        Its partitions must not be paused: kafka-python 3.0 keeps what it has fetched from a paused
        partition, may never return it, and fetches no more of the partition meanwhile.
        """
        with broker_errors(self.bootstrap_servers):
            yield self._consumer

    def _silent(
        self, places: Mapping[TopicPartition, tuple[int, int]], waited_s: int
    ) -> EnvironmentFault:
        """The error to raise if the brokers did not return the records of these offsets."""
        (topic,) = {tp.topic for tp in places}
        return EnvironmentFault(
            f"topic {topic!r}: the brokers at {self.bootstrap_servers} did not return the records"
            f" of {_spans(places)} within {waited_s} s; look at their logs, and run again"
        )


def _knock(bootstrap_servers: str, within_s: float) -> None:
    """Checks that one of the brokers accepts a connection. A refusal is noticed at once.

    Raises:
        OSError: None does.
    """
    servers = [server for server in bootstrap_servers.split(",") if server]
    refused: OSError | None = None
    for server in servers:
        # Kafka's clients accept `PLAINTEXT://host:9092` as well.
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), within_s / len(servers)).close()
        except OSError as error:
            refused = error
        else:
            return
    if refused is not None:
        raise refused


def _spans(places: Mapping[TopicPartition, tuple[int, int]]) -> str:
    return ", ".join(
        f"partition {tp.partition} [{start}, {end})" for tp, (start, end) in places.items()
    )


def _begin(consumer: KafkaConsumer, places: Mapping[TopicPartition, int]) -> None:
    """Makes the consumer read these partitions, each from its offset on."""
    consumer.assign(list(places))
    for tp, offset in places.items():
        consumer.seek(tp, offset)


def _partitions(topic: Topic) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition) for partition in topic.partitions]


def _plain(offsets: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {tp.partition: offset for tp, offset in sorted(offsets.items())}


def _find(tree: Any, name: str) -> Any:
    if isinstance(tree, dict):
        if name in tree:
            return tree[name]
        for branch in tree.values():
            value = _find(branch, name)
            if value is not None:
                return value
    return None


@contextmanager
def broker_errors(bootstrap_servers: str) -> Iterator[None]:
    """Raises the errors of Kafka's client as those of trilayer.

    Raises:
        LogError: Records can't be read.
        EnvironmentFault: The brokers do not answer.
    """
    try:
        yield
    except (UnsupportedCodecError, CorruptRecordError) as error:
        raise LogError(
            f"the records at {bootstrap_servers} can't be read: {type(error).__name__}:"
            f" {error}; if a codec is missing, run: pip install 'kafka-python[lz4,snappy,zstd]';"
            " if a record is damaged, the broker's disk is at fault"
        ) from error.with_traceback(None)
    except (KafkaError, OSError) as error:
        # Without its traceback, because the client's thread keeps the error, and with the traceback
        # also the frames of all callers.
        raise EnvironmentFault(
            f"no Kafka broker answers at {bootstrap_servers}: {type(error).__name__}:"
            f" {error}; start the local stack with `trilayer up`, or set bootstrap_servers"
        ) from error.with_traceback(None)
