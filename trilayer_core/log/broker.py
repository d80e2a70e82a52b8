"""The log: one topic's identity, offsets and time index.

The only place that talks to the broker about offsets.

A topic is known by its id, so that one deleted and created again under the same name is not taken
for the one before.
"""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Annotated, Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    CorruptRecordError,
    KafkaError,
    TopicAlreadyExistsError,
    UnsupportedCodecError,
)
from pydantic import Field

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import EnvironmentFault, LogError
from trilayer_core.seam import Cut

FETCH_BYTES = 4_096
"""Most bytes that a look at records fetches of a partition. A broker sends at least one batch, so
that a larger batch comes whole. The newest records are mostly in small batches."""


@dataclass(frozen=True)
class Topic:
    """A topic as the broker describes it."""

    name: str
    id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Mark:
    """One record as it stood in the log, by which to tell whether it is still there.

    Attributes:
        offset: Its place in its partition.
        append_ms: The broker's append time, in ms since 1970.
        digest: Sixteen hexadecimal digits of the SHA-256 of its key and value.
        epoch: Of the leader that has appended it; each election of a leader raises it. -1 if it is
            not known. It is not kept, and does not count when marks are compared.
    """

    offset: int
    append_ms: int
    digest: str
    epoch: Annotated[int, Field(exclude=True)] = field(default=-1, compare=False)

    @staticmethod
    def of_record(
        offset: int, append_ms: int, key: bytes | None, value: bytes | None, epoch: int = -1
    ) -> Mark:
        """The mark of a record with these bytes. No key and an empty key are told apart."""
        digest = hashlib.sha256()
        for part in (key, value):
            digest.update(b"-" if part is None else b"%d:" % len(part) + part)
        return Mark(offset, append_ms, digest.hexdigest()[:16], epoch)


Marks = Mapping[int, Mark | None]
"""Per partition the last record below an offset; None where the 4,096 offsets below it had none."""


class Log:
    """A connection to the brokers. Use as a context manager; not to be shared between threads."""

    def __init__(self, bootstrap_servers: str, wait_s: float = 10.0) -> None:
        """Connects.

        Args:
            bootstrap_servers: host:port, or several with commas between them.
            wait_s: How long brokers may take to answer; so long is one waited for that is not
                there.

        Raises:
            EnvironmentFault: None has answered, or none is named.
        """
        self.bootstrap_servers = bootstrap_servers
        if not bootstrap_servers:
            raise EnvironmentFault(
                "a Kafka broker must be named or run here; bootstrap_servers is empty, and"
                " `trilayer up` does not run; start the local stack with `trilayer up`, or set"
                " bootstrap_servers"
            )
        servers, wait_ms = bootstrap_servers.split(","), round(wait_s * 1000)
        with _broker_errors(bootstrap_servers):
            self._admin = KafkaAdminClient(bootstrap_servers=servers, bootstrap_timeout_ms=wait_ms)
            self._consumer = KafkaConsumer(
                bootstrap_servers=servers,
                bootstrap_timeout_ms=wait_ms,
                max_partition_fetch_bytes=FETCH_BYTES,
                # What is looked for is there; the default holds up the next look for half a second.
                fetch_max_wait_ms=10,
                auto_offset_reset="earliest",
            )

    @classmethod
    def at_once(cls, bootstrap_servers: str, wait_s: float) -> Log:
        """A connection, as for `Log`, without waiting for a broker that is not there.

        Args:
            bootstrap_servers: host:port, or several with commas between them.
            wait_s: How long brokers that take connections may take to answer.

        Raises:
            EnvironmentFault: No broker takes connections within a second, or none has answered.
        """
        with _broker_errors(bootstrap_servers):
            _knock(bootstrap_servers, 1.0)
        return cls(bootstrap_servers, wait_s)

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._consumer.close(autocommit=False)
        self._admin.close()

    def find(self, stream: Stream) -> Topic | None:
        """The stream's topic, or None where the broker has none of that name."""
        with _broker_errors(self.bootstrap_servers):
            (found,) = self._admin.describe_topics([stream.topic])
        if found["error_code"] == 3 or not found["partitions"]:
            return None
        partitions = tuple(sorted(p["partition_index"] for p in found["partitions"]))
        return Topic(stream.topic, str(found["topic_id"]), partitions)

    def topic(self, stream: Stream) -> Topic:
        """As `find`, but an error where there is none."""
        found = self.find(stream)
        if found is None:
            raise LogError(
                f"topic {stream.topic!r} of stream {stream.name!r} must exist at"
                f" {self.bootstrap_servers}; there is none; `trilayer replay` or `trilayer up`"
                " creates it"
            )
        return found

    def ensure(self, stream: Stream, replication_factor: int = 1) -> Topic:
        """The stream's topic, which is created if there is none.

        It then has append times as its timestamps, and the stream's number of partitions.
        """
        topic = self.find(stream)
        if topic is None:
            options = {
                "num_partitions": stream.partitions,
                "replication_factor": replication_factor,
                "configs": {"message.timestamp.type": "LogAppendTime"},
            }
            with _broker_errors(self.bootstrap_servers):
                try:
                    self._admin.create_topics({stream.topic: options}, wait_for_metadata=True)
                except TopicAlreadyExistsError:
                    self._admin.wait_for_topics([stream.topic])
            topic = self.topic(stream)
        return topic

    def setting(self, topic: Topic, name: str) -> str:
        """A topic's setting in force, such as `message.timestamp.type`."""
        with _broker_errors(self.bootstrap_servers):
            resource = ConfigResource(ConfigResourceType.TOPIC, topic.name, {name: None})
            found = self._admin.describe_configs([resource], config_filter="all")
        return str(_find(found, name)["value"])

    def check_append_time(self, topic: Topic) -> None:
        """Raises LogError unless the broker stamps the topic's records itself.

        Cuts are found by those stamps.
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
        with _broker_errors(self.bootstrap_servers):
            return _plain(self._consumer.beginning_offsets(_partitions(topic)))

    def end(self, topic: Topic) -> dict[int, int]:
        """One past the last offset of each partition."""
        with _broker_errors(self.bootstrap_servers):
            return _plain(self._consumer.end_offsets(_partitions(topic)))

    def index(self, topic: Topic, t_ms: int) -> tuple[dict[int, int], dict[int, int]]:
        """H(T) from the broker's time index, and the append times of the records found.

        Append times are in ms, by partition.

        A partition with no record at or after T is in neither.
        """
        with _broker_errors(self.bootstrap_servers):
            found = self._consumer.offsets_for_times(dict.fromkeys(_partitions(topic), t_ms))
        present = {tp.partition: entry for tp, entry in found.items() if entry is not None}
        return {p: e.offset for p, e in present.items()}, {
            p: e.timestamp for p, e in present.items()
        }

    def stamps(self, topic: Topic, partition: int, offset: int, end: int) -> list[tuple[int, int]]:
        """Offset and append time, in ms, of the next records of [offset, end) of a partition.

        As many as one small fetch brings, and at least one; none if only a transaction's markers
        are left.
        """
        found = TopicPartition(topic.name, partition)
        with self._reading() as reader:
            _begin(reader, {found: offset})
            deadline = time.monotonic() + 30
            while reader.position(found) < end:
                records = reader.poll(timeout_ms=200).get(found, [])
                if records:
                    break
                if time.monotonic() > deadline:
                    raise self._silent({found: (offset, end)}, 30)
            else:
                records = []
        return [(record.offset, record.timestamp) for record in records if record.offset < end]

    def find_header(
        self, topic: Topic, partition: int, start: int, header: tuple[str, bytes]
    ) -> int | None:
        """Offset of the first record at or after `start` that carries `header`.

        Up to the present end; None if no record does.
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
        """Values of the newest records of each partition, as many as come within a time.

        Args:
            topic: The topic to read.
            most: How many offsets of each partition, at most.
            within_s: Seconds after which nothing more is read.
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
        """The last record below each offset, which must not lie above the log's end.

        What a partition holds directly below an offset may be the marker of a transaction, which is
        no record: so this looks back, up to 4,096 offsets. A partition with no record there is not
        in the answer.

        Args:
            topic: The topic to read.
            below: Partition to offset.

        Raises:
            EnvironmentFault: The brokers send nothing for 10 s.
        """
        found: dict[int, Mark] = {}
        beginning = self.beginning(topic)
        reached = {p: offset for p, offset in below.items() if offset > beginning.get(p, 0)}
        for back in (1, 64, 4096):
            spans = {
                p: (max(below[p] - back, beginning[p]), below[p]) for p in reached if p not in found
            }
            if spans:
                found |= self._last_of(topic, spans)
            reached = {p: start for p, (start, _) in spans.items() if start > beginning[p]}
        return found

    def _last_of(self, topic: Topic, spans: Mapping[int, tuple[int, int]]) -> dict[int, Mark]:
        """The last record of each span [start, end) of offsets."""
        with self._reading() as reader:
            places = {TopicPartition(topic.name, p): span for p, span in spans.items()}
            _begin(reader, {tp: start for tp, (start, _) in places.items()})
            found: dict[int, Mark] = {}
            left = dict(places)
            deadline = time.monotonic() + 10
            while left:
                if time.monotonic() > deadline:
                    raise self._silent(left, 10)
                # Short, since a poll that meets nothing but control records waits in vain until its
                # end.
                for tp, records in reader.poll(timeout_ms=20).items():
                    deadline = time.monotonic() + 10
                    for record in records:
                        if tp in left and record.offset < left[tp][1]:
                            found[tp.partition] = Mark.of_record(
                                record.offset,
                                record.timestamp,
                                record.key,
                                record.value,
                                record.leader_epoch,
                            )
                left = {tp: span for tp, span in left.items() if reader.position(tp) < span[1]}
                reader.assign(list(left))
        return found

    @contextmanager
    def _reading(self) -> Iterator[KafkaConsumer]:
        """The consumer for a look at records, which `_begin` gives its partitions.

        Nothing needs to be taken back after a look: a consumer fetches only when it is polled. Its
        partitions must not be
        paused: kafka-python 3.0 keeps what it has fetched of a paused partition, may never return
            to that, and fetches no more
        of it meanwhile.
        """
        with _broker_errors(self.bootstrap_servers):
            yield self._consumer

    def _silent(
        self, places: Mapping[TopicPartition, tuple[int, int]], waited_s: int
    ) -> EnvironmentFault:
        """What to raise if the brokers have not sent the records of these offsets [start, end)."""
        (topic,) = {tp.topic for tp in places}
        return EnvironmentFault(
            f"topic {topic!r}: the brokers at {self.bootstrap_servers} must return the records of"
            f" {_spans(places)} within {waited_s} s; they did not; look at their logs, and run"
            " again"
        )


def _knock(bootstrap_servers: str, within_s: float) -> None:
    """Raises OSError unless one of the brokers takes a connection. A refusal is known at once."""
    servers = [server for server in bootstrap_servers.split(",") if server]
    refused: OSError | None = None
    for server in servers:
        # Kafka's clients take `PLAINTEXT://host:9092` as well.
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
    """Has the consumer read these partitions, each from its offset on."""
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
            found = _find(branch, name)
            if found is not None:
                return found
    return None


@contextmanager
def _broker_errors(bootstrap_servers: str) -> Iterator[None]:
    try:
        yield
    except (UnsupportedCodecError, CorruptRecordError) as error:
        raise LogError(
            f"the records at {bootstrap_servers} must be readable; got {type(error).__name__}:"
            f" {error}; if a codec is missing, run: pip install 'kafka-python[lz4,snappy,zstd]';"
            " if a record is damaged, the broker's disk is at fault"
        ) from error.with_traceback(None)
    except (KafkaError, OSError) as error:
        # Without its traceback: the client's thread keeps the error, and with it every caller's
        # frame.
        raise EnvironmentFault(
            f"a Kafka broker must answer at {bootstrap_servers}; got {type(error).__name__}:"
            f" {error}; start the local stack with `trilayer up`, or set bootstrap_servers"
        ) from error.with_traceback(None)
