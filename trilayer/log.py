"""The log: one topic's identity, offsets and time index. The only place that talks to the broker about offsets.

A topic is known by its id, so that one deleted and created again under the same name is not taken for the one before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, KafkaTimeoutError, TopicAlreadyExistsError

from trilayer.cut import Cut, cut_from_json
from trilayer.errors import EnvironmentFault, LogError
from trilayer.store import Store
from trilayer.stream import Stream


def now_ms() -> int:
    """This machine's clock, in ms since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Topic:
    """A topic as the broker describes it."""

    name: str
    id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Origin:
    """The log as trilayer first saw it: the topic's id, and where each partition began then."""

    topic_id: str
    start: Cut


class Log:
    """A connection to the brokers. Use as a context manager; not to be shared between threads."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        servers = bootstrap_servers.split(",")
        with _broker_errors(bootstrap_servers):
            self._admin = KafkaAdminClient(bootstrap_servers=servers, bootstrap_timeout_ms=10_000)
            self._consumer = KafkaConsumer(bootstrap_servers=servers, bootstrap_timeout_ms=10_000)

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
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
                f"topic {stream.topic!r} of stream {stream.name!r} must exist at {self.bootstrap_servers}; there is none;"
                " `trilayer replay` or `trilayer up` creates it"
            )
        return found

    def ensure(self, stream: Stream, replication_factor: int = 1) -> Topic:
        """The stream's topic, created where there is none: append time as its timestamps, the stream's number of partitions."""
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
        """Raises LogError unless the broker stamps the topic's records itself: cuts are found by those stamps."""
        kind = self.setting(topic, "message.timestamp.type")
        if kind != "LogAppendTime":
            raise LogError(
                f"message.timestamp.type of topic {topic.name!r} must be LogAppendTime, for cuts to be exact; got {kind};"
                f" set it: kafka-configs --alter --topic {topic.name} --add-config message.timestamp.type=LogAppendTime"
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
        """H(T) from the broker's time index, and the append time, in ms, of the record found in each partition.

        A partition with no record at or after T is in neither.
        """
        with _broker_errors(self.bootstrap_servers):
            found = self._consumer.offsets_for_times(dict.fromkeys(_partitions(topic), t_ms))
        present = {tp.partition: entry for tp, entry in found.items() if entry is not None}
        return {p: e.offset for p, e in present.items()}, {p: e.timestamp for p, e in present.items()}

    def cut(self, topic: Topic, t_ms: int) -> dict[int, int]:
        """H(T); where no record is at or after T, the end. The end is asked first, so that no record falls between the two."""
        end = self.end(topic)
        offsets, _ = self.index(topic, t_ms)
        return {partition: offsets.get(partition, offset) for partition, offset in end.items()}

    def append_times(self, topic: Topic, offsets: Cut) -> dict[int, int]:
        """Append time, in ms, of the record at (or next after) each of `offsets`; none for an offset at the end."""
        with _broker_errors(self.bootstrap_servers):
            self._consumer.assign([TopicPartition(topic.name, p) for p in offsets])
            for partition, offset in offsets.items():
                self._consumer.seek(TopicPartition(topic.name, partition), offset)
            found: dict[int, int] = {}
            deadline = time.monotonic() + 5
            while len(found) < len(offsets) and time.monotonic() < deadline:
                for tp, records in self._consumer.poll(timeout_ms=200, max_records=len(offsets) * 10).items():
                    found.setdefault(tp.partition, records[0].timestamp)
                    self._consumer.pause(tp)
            return found

    def find_header(self, topic: Topic, partition: int, start: int, header: tuple[str, bytes]) -> int | None:
        """Offset of the first record at or after `start`, up to the present end, that carries `header`; None where none does."""
        with _broker_errors(self.bootstrap_servers):
            tp = TopicPartition(topic.name, partition)
            self._consumer.assign([tp])
            start = max(start, self._consumer.beginning_offsets([tp])[tp])
            end = self._consumer.end_offsets([tp])[tp]
            self._consumer.seek(tp, start)
            deadline = time.monotonic() + 30
            while (position := self._consumer.position(tp)) < end:
                for record in self._consumer.poll(timeout_ms=200).get(tp, []):
                    if header in [(name, bytes(value or b"")) for name, value in record.headers]:
                        return int(record.offset)
                if self._consumer.position(tp) > position:
                    deadline = time.monotonic() + 30
                elif time.monotonic() > deadline:
                    raise KafkaTimeoutError(f"no record of {tp} at offset {position} within 30 s")
            return None


def origin(store: Store, stream: Stream, topic: Topic, log: Log) -> Origin:
    """Where the stream's log began when either layer first saw it, recorded once. Raises LogError if the topic is another one now."""
    path = f"streams/{stream.name}/origin.json"
    if not store.exists(path):
        document = {"topic": topic.name, "topic_id": topic.id, "start": log.beginning(topic)}
        store.create_document(path, document)
    found = read_origin(store, stream)
    assert found is not None
    check_same_topic(stream, found.topic_id, topic)
    return found


def read_origin(store: Store, stream: Stream) -> Origin | None:
    """As recorded by `origin`, without asking the broker."""
    path = f"streams/{stream.name}/origin.json"
    if not store.exists(path):
        return None
    document = store.read_document(path)
    return Origin(document["topic_id"], cut_from_json(document["start"]))


def check_same_topic(stream: Stream, known_id: str, topic: Topic) -> None:
    if known_id != topic.id:
        raise LogError(
            f"topic {topic.name!r} of stream {stream.name!r} must be the one with id {known_id}; got id {topic.id}: it was"
            " deleted and created again, and its offsets count anew. What was ingested from the old topic stays in the master dataset."
            " Go on with the new topic in a store of its own (setting `store`), or declare it as a stream with another name"
        )


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
    except (KafkaError, OSError) as error:
        # Without its traceback: the client's thread keeps the error, and with it every caller's frame.
        raise EnvironmentFault(
            f"a Kafka broker must answer at {bootstrap_servers or '(no bootstrap_servers set)'}; got {type(error).__name__}: {error};"
            " start the local stack with `trilayer up`, or set bootstrap_servers"
        ) from error.with_traceback(None)
