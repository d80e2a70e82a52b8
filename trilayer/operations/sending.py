"""Sends a file's events to their stream's topic at a given rate."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

from trilayer.operations.files.events import Event, Events
from trilayer.operations.quarantine import SOURCE_HEADER
from trilayer.operations.record_key import key_of
from trilayer_core.compute.unknown_fields import UnknownFields
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import EnvironmentFault, UsageError

logger = logging.getLogger("trilayer.replay")

SLICE_S = 0.02
"""The length of a time slice in seconds; events that are due in one slice are sent together."""

TELL_EVERY = 500
"""The number of events between two progress reports."""

FINISH_S = 130.0
"""How long the broker may take to answer for an event, in seconds."""


@dataclass
class Sent:
    """What was sent.

    Attributes:
        events: The number of events.
        unknown: The number of events with each field that is not in the schema.
        faulty: The number of rows that are none of their file's, or are not UTF-8.
        first: The first of these.
        undecoded: Whether one of them is not UTF-8.
        interrupted: Whether Ctrl-C ended it.
    """

    unknown: UnknownFields
    events: int = 0
    faulty: int = 0
    first: Event | None = None
    undecoded: bool = False
    interrupted: bool = False

    def count(self, event: Event) -> None:
        """Counts an event that is about to be sent."""
        self.events += 1
        self.unknown.count(event.value)
        try:
            event.value.decode()
        except UnicodeDecodeError:
            self.undecoded = True
            event = replace(event, fault=event.fault or "invalid UTF-8")
        if event.fault:
            self.first = self.first or event
            self.faulty += 1


def finish(producer: KafkaProducer) -> KafkaTimeoutError | None:
    """Waits until the broker has answered for everything that was sent, and closes the producer.

    The client gives up a batch after its delivery timeout of two minutes. It has been seen to wait
    for ever nevertheless, after its broker had ended.

    Returns:
        None, or an error if the broker has not answered for all within FINISH_S seconds.
    """
    try:
        producer.flush(timeout=FINISH_S)
    except KafkaTimeoutError:
        with suppress(KafkaTimeoutError):
            producer.close(timeout=0)
        return KafkaTimeoutError(f"no answer from the broker within {FINISH_S:g} s")
    producer.close()
    return None


def send(
    events: Events,
    stream: Stream,
    bootstrap_servers: str,
    source: str,
    *,
    rate: float = 0,
    skip: int = 0,
    limit: int | None = None,
    report: Callable[[Sent, float, float], None] = lambda sent, done, elapsed_s: None,
) -> Sent:
    """Sends events to the stream's topic until the broker has acknowledged all of them.

    Args:
        events: A file's events.
        stream: The stream.
        bootstrap_servers: The brokers.
        source: The file's name, which is put into a header of each event, with its position in
            the file.
        rate: Events per second; 0 for no limit.
        skip: The number of events to skip at the beginning.
        limit: The maximum number of events to send.
        report: Called regularly with what was sent, the fraction of the work that is done, and the
            time in seconds that it has taken.

    Raises:
        EnvironmentFault: The broker has not accepted an event. The message has its position in the
            file.
    """
    try:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers.split(","),
            linger_ms=5,
            batch_size=1 << 17,
            acks="all",
        )
    except KafkaError as error:
        raise EnvironmentFault(
            f"no Kafka broker answers at {bootstrap_servers}: {error}; start `trilayer up`"
        ) from error
    failed: list[BaseException] = []
    unsent = ""
    sent = Sent(UnknownFields(stream))
    started = time.monotonic()
    try:
        for event in islice(events, skip, None if limit is None else skip + limit):
            headers = [(SOURCE_HEADER, f"{source} {event.place}".encode())]
            try:
                producer.send(
                    stream.topic, event.value, key=key_of(stream, event.value), headers=headers
                ).add_errback(failed.append)
            except KafkaError as error:
                on = (1, "after") if isinstance(error, MessageSizeTooLargeError) else (0, "with")
                unsent = (
                    f"{event.place} can't be sent: {error}; {sent.events:,} were sent, those"
                    f" before it; --skip {skip + sent.events + on[0]} goes on {on[1]} it"
                )
                break
            sent.count(event)
            if failed:
                break
            elapsed = time.monotonic() - started
            if rate and sent.events >= (elapsed + SLICE_S) * rate:
                time.sleep(max(0.0, sent.events / rate - elapsed))
            if sent.events % TELL_EVERY == 0:
                done = events.progress()
                report(sent, done if limit is None else max(done, sent.events / limit), elapsed)
    except UsageError as error:
        raise UsageError(f"{error}; {sent.events:,} events were sent, those before it") from None
    except KeyboardInterrupt:
        sent.interrupted = True
        logger.warning(
            "interrupted after %s events; --skip %d goes on after them",
            f"{sent.events:,}",
            skip + sent.events,
        )
    finally:
        unfinished = finish(producer)
        if unfinished is not None:
            failed.append(unfinished)
    if failed:
        raise EnvironmentFault(
            f"the broker must take every event; it refused one of the first {sent.events:,}:"
            f" {failed[0]}"
        )
    if unsent:
        raise EnvironmentFault(f"the broker must take every event; {unsent}")
    return sent
