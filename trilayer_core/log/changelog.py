"""The topic of a changelog, which one process at a time writes, in transactions.

What it holds is the last value of each key. A writer that takes over ends the transactions of the
one before, which can then write no more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from types import TracebackType

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, MessageSizeTooLargeError

from trilayer_core.errors import ConflictError, EnvironmentFault, LogError
from trilayer_core.log.broker import Topic
from trilayer_core.runtime.failpoints import failpoint

MOST_IN_TRANSACTION = 10_000
"""The most records of one transaction. Readers of committed records see all of them or none."""

SILENT_S = 30
"""How long the brokers may return no record of a topic that has more, in seconds."""


class ChangelogTopic:
    """The writer of one topic. Use it as a context manager, in one thread only."""

    def __init__(self, bootstrap_servers: str, topic: Topic, writer: str) -> None:
        """Takes over the topic from the writer before.

        Args:
            bootstrap_servers: host:port, or several separated by commas.
            topic: The topic.
            writer: The identity of the topic's writers, of which the last one may write.

        Raises:
            EnvironmentFault: No broker answers.
        """
        self._servers, self._topic = bootstrap_servers, topic
        try:
            self._producer = KafkaProducer(
                bootstrap_servers=bootstrap_servers.split(","),
                transactional_id=writer,
                acks="all",
                linger_ms=5,
                batch_size=1 << 17,
            )
            self._producer.init_transactions()
        except KafkaError as error:
            raise self._away(error) from error.with_traceback(None)

    def __enter__(self) -> ChangelogTopic:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._producer.close(timeout=5)

    def held(self) -> dict[str, str]:
        """The last committed value of each key, read from the topic's beginning.

        Raises:
            EnvironmentFault: No broker answers.
            LogError: A record is not text, or has no key: something else has written it.
        """
        places = [TopicPartition(self._topic.name, p) for p in self._topic.partitions]
        found: dict[str, str] = {}
        try:
            reader = KafkaConsumer(
                bootstrap_servers=self._servers.split(","),
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            try:
                reader.assign(places)
                reader.seek_to_beginning(*places)
                ends = reader.end_offsets(places)
                deadline = time.monotonic() + SILENT_S
                while any(reader.position(place) < end for place, end in ends.items()):
                    for records in reader.poll(timeout_ms=100).values():
                        deadline = time.monotonic() + SILENT_S
                        for record in records:
                            self._take(found, record.offset, record.key, record.value)
                    if time.monotonic() > deadline:
                        raise EnvironmentFault(
                            f"topic {self._topic.name!r}: the brokers at {self._servers} returned"
                            f" no record within {SILENT_S} s; look at their logs"
                        )
            finally:
                reader.close(autocommit=False)
        except KafkaError as error:
            raise self._away(error) from error.with_traceback(None)
        return found

    def write(
        self,
        rows: Iterable[tuple[str, str]],
        gone: Iterable[str],
        headers: Sequence[tuple[str, bytes]],
    ) -> None:
        """Writes values and tombstones. Returns when they are committed.

        Args:
            rows: Keys and values.
            gone: The keys that no longer have a value.
            headers: What each record has beside them.

        Raises:
            EnvironmentFault: No broker answers. Some transactions may have been committed.
            ConflictError: Another writer has taken over.
            LogError: The brokers refuse a record.
        """
        records = [*rows, *((key, None) for key in gone)]
        try:
            for start in range(0, len(records), MOST_IN_TRANSACTION):
                self._producer.begin_transaction()
                for key, value in records[start : start + MOST_IN_TRANSACTION]:
                    self._producer.send(
                        self._topic.name,
                        key=key.encode(),
                        value=None if value is None else value.encode(),
                        headers=list(headers),
                    )
                self._producer.flush()
                failpoint("changelog.in-transaction")
                self._producer.commit_transaction()
                failpoint("changelog.after-commit")
        except MessageSizeTooLargeError as error:
            raise LogError(
                f"topic {self._topic.name!r}: a row is too large for a record: {error}; raise the"
                " topic's max.message.bytes and the broker's, or leave out columns of the view"
            ) from error.with_traceback(None)
        except KafkaError as error:
            # Once the client knows that it was replaced, it says so in another error's text.
            if "ProducerFenced" in f"{type(error).__name__} {error}":
                raise ConflictError(
                    f"topic {self._topic.name!r} must have one writer; another one has taken over;"
                    " end one of them"
                ) from error.with_traceback(None)
            raise self._away(error) from error.with_traceback(None)

    def _take(
        self, found: dict[str, str], offset: int, key: bytes | None, value: bytes | None
    ) -> None:
        try:
            if key is None:
                raise ValueError("no key")
            name = key.decode()
            if value is None:
                found.pop(name, None)
            else:
                found[name] = value.decode()
        except ValueError as error:
            raise LogError(
                f"topic {self._topic.name!r} must only have records of its changelog; the one at"
                f" offset {offset} is not: {error}; give the changelog a topic of its own"
            ) from None

    def _away(self, error: KafkaError) -> EnvironmentFault:
        return EnvironmentFault(
            f"topic {self._topic.name!r} can't be written at {self._servers}:"
            f" {type(error).__name__}: {error}"
        )
