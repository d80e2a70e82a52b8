"""Sends corrected events back to their topics, each once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated

from kafka import KafkaProducer
from kafka.errors import KafkaError, RetriableError
from pydantic import Field
from pyspark.sql import functions as F

from batch_layer.engine import batch_spark
from trilayer.operations.quarantine import Quarantined, quarantined
from trilayer.operations.record_key import key_of, partition_of
from trilayer.operations.sending import finish
from trilayer_core.compute.parsing import REJECT, parse
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import EnvironmentFault, UsageError
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.store import layout
from trilayer_core.store.documents import ABSENT_IF_NONE
from trilayer_core.store.origins import Origins

ORIGIN_HEADER = "trilayer-origin"
"""The header of an event that replaces a quarantined one: TOPIC_ID/PARTITION/OFFSET."""


@dataclass(frozen=True)
class Sending:
    """The record that a correction is about to be sent.

    Attributes:
        start: The offset from which on it would be found, in its partition.
        value: The SHA-256 of its value.
        began_ms: The time, in ms since 1970.
        partition: Its partition, if that is not the one of the event that it replaces.
    """

    start: Annotated[int, Field(alias="from")]
    value: str
    began_ms: int
    partition: Annotated[int | None, ABSENT_IF_NONE] = None


@dataclass(frozen=True)
class Replayed:
    """The record that a correction was sent.

    Attributes:
        to: Its position in the log, as PARTITION:OFFSET.
        sent_ms: The time, in ms since 1970.
        value: The SHA-256 of its value; None in older records.
    """

    to: str
    sent_ms: int
    value: str | None = None


@dataclass
class Sent:
    """The result of replaying a file of corrections.

    Attributes:
        now: The number of events that were sent.
        before: The number of events that an interrupted replay had sent, which this one continues.
        rejected: A line for each event that was not sent, with its position and the reason.
    """

    now: int = 0
    before: int = 0
    rejected: list[str] = field(default_factory=list)


def send_corrections(p: Project, file: Path, *, again: bool, report: Callable[[str], None]) -> Sent:
    """Sends the corrections in a file.

    Only one replay runs at a time on a store, because two could send an event twice.

    Args:
        p: The project with the quarantine.
        file: JSON Lines, as `quarantine list --jsonl` prints them, with `value` corrected.
        again: Whether to send also those that were sent before.
        report: Called with the progress.

    Raises:
        UsageError: The file does not exist.
        EnvironmentFault: The broker does not answer; the message says what was sent.
    """
    with p.store.lock(layout.QUARANTINE_LOCK, "a quarantine replay"), ExitStack() as stack:
        replay = _Replay(p, again, report, stack)
        replay.run(list(_lines(file)))
        return replay.sent


@dataclass(frozen=True)
class _Correction:
    """A corrected event.

    Attributes:
        stream: The event's stream.
        origin: The number of the origin in which the offset counts.
        partition: The partition of the event that it replaces.
        offset: The offset of the event that it replaces.
        value: The corrected text.
        where: File and line.
        header: The header that says which event it replaces.
    """

    stream: Stream
    origin: int
    partition: int
    offset: int
    value: str
    where: str
    header: bytes

    @staticmethod
    def of(p: Project, raw: bytes, where: str) -> _Correction:
        """Returns the correction in a line of `quarantine list --jsonl`.

        Raises UsageError if it is invalid.
        """
        try:
            line = json.loads(raw.decode())
            value = line["value"]
            value = value if isinstance(value, str) else json.dumps(value)
            name = line["stream"]
            # Older lines do not name an origin.
            number, partition, offset = (
                int(line.get(name, 1)) for name in ("origin", "partition", "offset")
            )
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise UsageError(
                f"{where} must be a line as `quarantine list --jsonl` prints it; got"
                f" {raw[:80].decode(errors='replace')!r}: {type(error).__name__}: {error}"
            ) from None
        try:
            stream = p.catalog.stream(name)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        origins = Origins(p.store, stream).all()
        identity = origins[number - 1].identity if 0 < number <= len(origins) else ""
        header = f"{identity}/{partition}/{offset}".encode()
        return _Correction(stream, number, partition, offset, value, where, header)

    @property
    def key(self) -> tuple[str, int, int, int]:
        return self.stream.name, self.origin, self.partition, self.offset

    @property
    def place(self) -> str:
        return f"{self.partition}:{self.offset}"

    @property
    def marker(self) -> str:
        """The path of the record that the event was sent."""
        return layout.replayed(self.stream, self.origin, self.partition, self.offset)

    @property
    def intent(self) -> str:
        """The path of the record that the event is about to be sent.

        It contains the offset from which on the event would be found.
        """
        return layout.sending(self.stream, self.origin, self.partition, self.offset)

    @property
    def encoded(self) -> bytes:
        """Its bytes; not UTF-8 if the text has half of a surrogate pair, which no event has."""
        return self.value.encode(errors="surrogatepass")

    @property
    def record_key(self) -> bytes | None:
        """The key of its record."""
        return key_of(self.stream, self.encoded)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.value.encode()).hexdigest()


class _Replay:
    """One replay of a file of corrections."""

    def __init__(
        self, p: Project, again: bool, report: Callable[[str], None], stack: ExitStack
    ) -> None:
        self.sent = Sent()
        self._p, self._again, self._report, self._stack = p, again, report, stack
        self._seen: dict[tuple[str, int, int, int], _Correction] = {}
        self._with_its_key: set[tuple[str, int, int, int]] = set()

    def run(self, lines: list[tuple[str, bytes]]) -> None:
        """Checks all lines, then sends what is due, in order."""
        read = []
        for where, raw in lines:
            try:
                read.append(_Correction.of(self._p, raw, where))
            except UsageError as error:
                self.sent.rejected.append(str(error))
        named = {correction.key for correction in read}
        held = {
            event.key: event
            for stream in {
                correction.stream.name: correction.stream for correction in read
            }.values()
            for event in quarantined(self._p.store, stream)
            if event.key in named
        }
        due = []
        for correction in read:
            try:
                self._check(correction, held.get(correction.key))
                if self._is_sent(correction):
                    self.sent.before += 1
                else:
                    due.append(correction)
            except UsageError as error:
                self.sent.rejected.append(str(error))
        due = self._fitting(due)
        for number, correction in enumerate(due):
            self._report(f"{number:,} of {len(due):,} events")
            try:
                self._send(correction)
                self.sent.now += 1
            except UsageError as error:
                self.sent.rejected.append(str(error))
            except EnvironmentFault as error:
                rejected = "".join(f"\nnot sent: {line}" for line in self.sent.rejected)
                raise EnvironmentFault(
                    f"{error}; {self.sent.now} of {len(due)} were sent, in the lines before"
                    f" it{rejected}"
                ) from None

    def _fitting(self, due: list[_Correction]) -> list[_Correction]:
        """Returns the corrections that fit their schema, as the parser of both layers decides."""
        reasons: dict[tuple[str, int, int, int], str | None] = {}
        with batch_spark(self._p.settings) as start_spark:
            for stream in {
                correction.stream.name: correction.stream for correction in due
            }.values():
                self._report(f"parsing the corrections of {stream.name}")
                theirs = [correction for correction in due if correction.stream.name == stream.name]
                values = [
                    (n, correction.encoded, correction.record_key)
                    for n, correction in enumerate(theirs)
                ]
                rows = start_spark().createDataFrame(
                    values, "_place int, _value binary, _key binary"
                )
                parsed = parse(rows.withColumn("_timestamp", F.current_timestamp()), stream)
                for row in parsed.select("_place", REJECT).collect():
                    reasons[theirs[row["_place"]].key] = row[REJECT]
        self.sent.rejected += [
            f"{correction.where}: `value` must fit the schema, or it comes back to quarantine;"
            f" {reasons[correction.key]}"
            for correction in due
            if reasons[correction.key] is not None
        ]
        return [correction for correction in due if reasons[correction.key] is None]

    @cached_property
    def _log(self) -> Log:
        return self._stack.enter_context(Log(self._p.settings.bootstrap_servers))

    @cached_property
    def _producer(self) -> KafkaProducer:
        servers = self._p.settings.bootstrap_servers
        try:
            # Once the client has given up it sends nothing more, so what is not in the log
            # afterwards was not sent.
            producer = KafkaProducer(
                bootstrap_servers=servers.split(","),
                acks="all",
                delivery_timeout_ms=30_000,
                request_timeout_ms=20_000,
            )
        except KafkaError as error:
            raise EnvironmentFault(f"no Kafka broker answers at {servers}: {error}") from error
        self._stack.callback(finish, producer)
        return producer

    def _check(self, correction: _Correction, event: Quarantined | None) -> None:
        """Checks that the line corrects an event in quarantine, and that it is the first to do so.

        Raises:
            UsageError: It does not.
        """
        if event is None:
            raise UsageError(
                f"{correction.where} must name an event in quarantine; got {correction.stream.name}"
                f" {correction.place}"
            )
        if correction.key in self._seen:
            line = self._seen[correction.key].where.rpartition(":")[2]
            raise UsageError(
                f"{correction.where} must name an event of its own; got {correction.place}, which"
                f" line {line} names too"
            )
        if event.is_cut:
            raise UsageError(
                f"{correction.where} must name an event that is kept whole; of {correction.place}"
                " only the beginning is until the next batch run; run `trilayer batch run` and"
                " list it again"
            )
        if event.text == correction.value:
            raise UsageError(
                f"{correction.where}: `value` must be corrected; it is as it was: {event.reason}"
            )
        self._seen[correction.key] = correction
        if event.value is not None and correction.record_key == key_of(
            correction.stream, event.value
        ):
            self._with_its_key.add(correction.key)

    def _is_sent(self, correction: _Correction) -> bool:
        """Returns whether an earlier replay has sent it and it is not to be sent again.

        Raises:
            UsageError: The earlier replay has sent another correction of the event, or it is
                unknown whether it has sent this one.
        """
        store = self._p.store
        if store.exists(correction.intent) and self._settle(correction):
            return True
        if self._again or not store.exists(correction.marker):
            return False
        if store.read_document(correction.marker, Replayed).value == correction.digest:
            return True
        raise UsageError(
            f"{correction.where}: {correction.place} must not be replayed twice; another correction"
            " of it was sent before; --again sends this one, too"
        )

    def _settle(self, correction: _Correction) -> bool:
        """Returns whether an event that an interrupted replay was about to send is in the log.

        It must be in the log with the value that the file has now. Deletes the record of the
        intent.
        """
        intent = self._p.store.read_document(correction.intent, Sending)
        topic = self._log.topic(correction.stream)
        header = (ORIGIN_HEADER, correction.header)
        partition = correction.partition if intent.partition is None else intent.partition
        offset = self._log.find_header(topic, partition, intent.start, header)
        beginning = self._log.beginning(topic).get(partition, 0)
        if offset is not None:
            self._mark(correction, f"{partition}:{offset}", intent.value)
            return intent.value == correction.digest
        if beginning > intent.start and not self._again:
            raise UsageError(
                f"{correction.where}: it is unknown whether {correction.place} was sent: a replay"
                f" was interrupted, and retention took offsets [{intent.start}, {beginning}) of"
                f" partition {partition} of topic {topic.name!r}, where it would be; --again sends"
                " it all the same"
            )
        self._p.store.delete(correction.intent)
        return False

    def _send(self, correction: _Correction) -> None:
        """Sends the event.

        Raises:
            UsageError: The broker rejects it.
            EnvironmentFault: The broker does not answer.
        """
        store = self._p.store
        topic = self._log.topic(correction.stream)
        partition = self._partition(correction, len(topic.partitions))
        end = self._log.end(topic)[partition]
        other = partition if partition != correction.partition else None
        store.write_document(correction.intent, Sending(end, correction.digest, now_ms(), other))
        failpoint("quarantine.before-send")
        try:
            # The partition is written down before, so that only this one is searched if it is
            # unknown whether the event was sent.
            future = self._producer.send(
                correction.stream.topic,
                correction.value.encode(),
                key=correction.record_key,
                headers=[(ORIGIN_HEADER, correction.header)],
                partition=partition,
            )
            sent = future.get(timeout=40)
        except KafkaError as error:
            if isinstance(error, RetriableError):
                # After any of these errors the event may still be in the log.
                raise EnvironmentFault(
                    f"{correction.where}: it is unknown whether the event was sent: the broker has"
                    f" not acknowledged it; got {type(error).__name__}: {error}; run the same"
                    " command again: it looks for the event in the log, and sends what is not"
                    " there"
                ) from None
            store.delete(correction.intent)
            raise UsageError(
                f"{correction.where}: the broker must take the event; got {error}"
            ) from None
        failpoint("quarantine.after-send")
        self._mark(correction, f"{sent.partition}:{sent.offset}", correction.digest)

    def _partition(self, correction: _Correction, partitions: int) -> int:
        """Returns the partition of the replaced event, or that of its key if it has another.

        Whoever sent the event may have chosen the partition of its key in another way than Kafka's
        producers do by default.
        """
        key = correction.record_key
        if key is None or correction.key in self._with_its_key:
            return correction.partition
        return partition_of(key, partitions)

    def _mark(self, correction: _Correction, to: str, value: str) -> None:
        self._p.store.write_document(correction.marker, Replayed(to, now_ms(), value))
        failpoint("quarantine.after-marker")
        self._p.store.delete(correction.intent)


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the lines that are not empty, each with its file and number."""
    if not file.is_file():
        raise UsageError(f"FILE must be a file; got {str(file)!r}, which is not there")
    # JSON lines end at \n only; their text may contain U+2028 and other line separators.
    for number, raw in enumerate(file.read_bytes().split(b"\n"), 1):
        if raw.strip():
            yield f"{file}:{number}", raw
