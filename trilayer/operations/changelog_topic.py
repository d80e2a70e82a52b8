"""Writes and reads the topic of a changelog.

One process at a time writes a topic, in transactions. A writer that takes over ends the
transactions of the one before, which can then write no more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from trilayer_core.errors import EnvironmentFault, LogError
from trilayer_core.log.broker import Topic, broker_errors
from trilayer_core.runtime.failpoints import failpoint

OWNER = "changelog"
"""The header that says to which changelog of which store a record belongs."""

MOST_IN_TRANSACTION = 10_000
"""The most records of one transaction. Readers of committed records see all of them or none."""

MOST_BYTES = 64 << 20
"""The largest record that is sent. The brokers refuse what is larger than they allow."""

ANSWER_S = 30.0
"""How long to wait for the brokers' answer, in seconds."""


class ChangelogWriter:
    """The writer of one topic. Use it as a context manager, in one thread only.

    After an error it can't be used any more: a new one finds out what the topic holds.
    """

    def __init__(self, bootstrap_servers: str, topic: Topic, owner: str) -> None:
        """Takes over the topic from the writer before.

        Args:
            bootstrap_servers: host:port, or several separated by commas.
            topic: The topic.
            owner: What identifies the changelog and its store.

        Raises:
            EnvironmentFault: The brokers do not answer, or have no transactions.
        """
        self._servers, self._topic, self._owner = bootstrap_servers, topic, owner
        with broker_errors(bootstrap_servers):
            self._producer = KafkaProducer(
                bootstrap_servers=bootstrap_servers.split(","),
                transactional_id=f"trilayer-changelog-{owner}",
                acks="all",
                linger_ms=5,
                batch_size=1 << 17,
                max_request_size=MOST_BYTES,
                request_timeout_ms=round(ANSWER_S * 500),
                # The records of a transaction that the brokers have given up must fail, too.
                delivery_timeout_ms=round(ANSWER_S * 1000),
            )
        try:
            self._wait(self._producer.init_transactions, "begin transactions")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ChangelogWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. What is not committed is given up."""
        with suppress(KafkaError):
            self._producer.close(timeout=0)

    def held(self, stop: threading.Event) -> dict[str, str]:
        """Returns the last committed value of each key, read from the topic's beginning.

        Args:
            stop: Ends the reading; the result is then incomplete.

        Raises:
            EnvironmentFault: The brokers do not answer.
            LogError: A record belongs to something else.
        """
        places = [TopicPartition(self._topic.name, p) for p in self._topic.partitions]
        values: dict[str, str] = {}
        with broker_errors(self._servers):
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
                deadline = time.monotonic() + ANSWER_S
                while any(reader.position(place) < end for place, end in ends.items()):
                    if stop.is_set():
                        break
                    for records in reader.poll(timeout_ms=100).values():
                        deadline = time.monotonic() + ANSWER_S
                        for record in records:
                            self._check(record.offset, record.headers)
                            if record.value is None:
                                values.pop(record.key.decode(), None)
                            else:
                                values[record.key.decode()] = record.value.decode()
                    if time.monotonic() > deadline:
                        raise EnvironmentFault(
                            f"topic {self._topic.name!r}: the brokers at {self._servers} returned"
                            f" no record within {ANSWER_S:g} s; look at their logs"
                        )
            finally:
                reader.close(autocommit=False)
        return values

    def write(
        self,
        rows: Iterable[tuple[str, str]],
        gone: Iterable[str],
        headers: Sequence[tuple[str, bytes]],
    ) -> None:
        """Writes values, and tombstones: records without a value, which delete a key.

        Returns when they are committed.

        Args:
            rows: Keys and values.
            gone: The keys to be deleted.
            headers: The headers of each record, beside its owner.

        Raises:
            EnvironmentFault: The brokers do not answer, or another writer has taken over. Some of
                the transactions may have been committed.
            LogError: The brokers refuse a record.
        """
        records = [*rows, *((key, None) for key in gone)]
        for start in range(0, len(records), MOST_IN_TRANSACTION):
            some = records[start : start + MOST_IN_TRANSACTION]
            try:
                self._producer.begin_transaction()
                sent = [
                    self._producer.send(
                        self._topic.name,
                        key=key.encode(),
                        value=None if value is None else value.encode(),
                        headers=[(OWNER, self._owner.encode()), *headers],
                    )
                    for key, value in some
                ]
                self._producer.flush(timeout=ANSWER_S)
            except KafkaError as error:
                raise self._fault(error) from error.with_traceback(None)
            # A record that has failed does not end the transaction, which could be committed
            # without it.
            for (key, _), future in zip(some, sent, strict=True):
                if future.exception is not None:
                    raise self._fault(future.exception, key)
            failpoint("changelog.in-transaction")
            self._wait(self._producer.commit_transaction, "commit")
            failpoint("changelog.after-commit")

    def _wait(self, ask: Callable[[], object], what: str) -> None:
        """Asks the brokers in a thread of its own, because the client may wait for ever."""
        failed: list[Exception] = []

        def run() -> None:
            try:
                ask()
            except Exception as error:  # noqa: BLE001  # it is raised by the caller
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(ANSWER_S)
        if thread.is_alive():
            raise EnvironmentFault(
                f"topic {self._topic.name!r}: the brokers at {self._servers} must {what} within"
                f" {ANSWER_S:g} s; they did not; look at their logs. A single broker needs"
                " transaction.state.log.replication.factor=1"
            )
        if failed:
            raise self._fault(failed[0]) from failed[0].with_traceback(None)

    def _fault(self, error: BaseException, key: str = "") -> EnvironmentFault | LogError:
        cause = f"{type(error).__name__}: {error}"
        if "MessageSizeTooLarge" in cause or "RecordTooLarge" in cause:
            return LogError(
                f"topic {self._topic.name!r}: the row with the key {key} is larger than the brokers"
                " allow; raise max.message.bytes of the topic and of the brokers, or leave out"
                " columns of the view"
            )
        if "ProducerFenced" in cause or "ProducerEpoch" in cause:
            return EnvironmentFault(
                f"topic {self._topic.name!r}: the brokers have given the topic to another writer,"
                " or have given up a transaction of this one"
            )
        return EnvironmentFault(
            f"topic {self._topic.name!r}: the brokers at {self._servers} must take what is"
            f" written; got {cause}"
        )

    def _check(self, offset: int, headers: Sequence[tuple[str, bytes]]) -> None:
        owners = [bytes(value).decode(errors="replace") for name, value in headers if name == OWNER]
        if owners != [self._owner]:
            raise LogError(
                f"topic {self._topic.name!r} must only have records of its changelog in this store;"
                f" the record at offset {offset} is of {owners[0] if owners else 'something else'},"
                f" not of {self._owner}; give the changelog another topic, or delete this one"
            )
