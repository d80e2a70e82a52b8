"""The origins of streams: where the offsets of a stream's log begin to count.

```
streams/STREAM/origin.json               the first origin
streams/STREAM/origins/00000002.json     one for each loss that was accepted since
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import ConflictError, LogError
from trilayer_core.log.broker import Log, Topic
from trilayer_core.seam import Cut, Ranges
from trilayer_core.store import layout
from trilayer_core.store.documents import ABSENT_IF_NONE, StoredRange
from trilayer_core.store.files import Store


@dataclass(frozen=True)
class Origin:
    """The point from which a stream's log is counted.

    The first origin is where the log began when it was first seen; each accepted loss begins
    another. An offset identifies a record only within one origin.

    Attributes:
        topic: The topic's name.
        topic_id: The topic's id, from the broker.
        start: The first offset of each partition that counts.
        number: 1 for the first origin, and one more for each accepted loss.
        before: The identity of the origin that this one replaced. It is None for the first origin,
            as are the following attributes.
        reason: What was found, in the words of the error that reported it.
        not_in_log: The offsets of the previous origin that the log no longer held as they were
            ingested, for each partition.
        accepted_ms: When the loss was accepted, in ms since 1970.
    """

    topic: str
    topic_id: str
    start: Cut
    number: Annotated[int, Field(exclude_if=lambda number: number == 1)] = 1
    before: Annotated[str | None, ABSENT_IF_NONE] = None
    reason: Annotated[str | None, ABSENT_IF_NONE] = None
    not_in_log: Annotated[
        Mapping[int, StoredRange] | None, ABSENT_IF_NONE, Field(alias="departed")
    ] = None
    accepted_ms: Annotated[int | None, ABSENT_IF_NONE] = None

    @property
    def identity(self) -> str:
        """The identity of the origin.

        Intervals, generations and publications have it as `origin_id`. It is the topic's id for
        the first origin, so that older stores can be read unchanged. Kafka's topic ids do not
        contain `#`.
        """
        return self.topic_id if self.number == 1 else f"{self.topic_id}#{self.number}"


def topic_id_of(identity: str) -> str:
    """The id of the topic whose offsets count in the origin with this identity."""
    return identity.partition("#")[0]


def origin_number(identity: str) -> int:
    """The number of the origin with this identity."""
    return int(identity.partition("#")[2] or 1)


class Origins:
    """The origins of a stream.

    Args:
        store: The store.
        stream: The stream.
    """

    def __init__(self, store: Store, stream: Stream) -> None:
        self._store, self._stream = store, stream

    def at(self, topic: Topic, log: Log) -> Origin:
        """The present origin. The first one is recorded when either layer first sees the log.

        Raises:
            LogError: The topic has another id: it was deleted and created again.
        """
        path = layout.origin(self._stream, 1)
        if not self._store.exists(path):
            first = Origin(topic.name, topic.id, log.beginning(topic))
            # Both layers may come here at once. One document is created, and both read that one.
            self._store.create_document(path, first)
        present = self.present()
        assert present is not None
        check_same_topic(self._stream, present.topic_id, topic)
        return present

    def present(self) -> Origin | None:
        """The present origin as it is recorded, without asking the broker."""
        if not self._store.exists(layout.origin(self._stream, 1)):
            return None
        names = self._store.names(layout.later_origins(self._stream))
        return self._read(max(layout.numbers(names), default=1))

    def all(self) -> list[Origin]:
        """All origins of the stream, oldest first."""
        present = self.present()
        return [self._read(n + 1) for n in range(present.number)] if present else []

    def begin(
        self, topic: Topic, start: Cut, before: Origin, reason: str, not_in_log: Ranges
    ) -> Origin:
        """Records a new origin, from which the stream's log is counted from now on.

        Args:
            topic: The topic as it is now.
            start: The first offset of each partition that counts.
            before: The origin that this one replaces.
            reason: What was found, in the words of the error that reported it.
            not_in_log: The offsets of the previous origin that the log no longer holds as they were
                ingested, for each partition.

        Raises:
            ConflictError: Another process has just recorded one.
        """
        number = before.number + 1
        begun = Origin(
            topic.name,
            topic.id,
            start,
            number,
            before.identity,
            reason,
            not_in_log,
            self._store.clock(),
        )
        path = layout.origin(self._stream, number)
        if not self._store.create_document(path, begun):
            raise ConflictError(f"another process has just written {path}; run this again")
        return begun

    def _read(self, number: int) -> Origin:
        return self._store.read_document(layout.origin(self._stream, number), Origin)


def check_same_topic(stream: Stream, topic_id: str, topic: Topic) -> None:
    """Checks that the topic has this id.

    Raises:
        LogError: It has another one.
    """
    if topic_id != topic.id:
        raise LogError(
            f"topic {topic.name!r} of stream {stream.name!r} must be the one with id {topic_id};"
            f" got id {topic.id}: it was deleted and created again, and its offsets count anew."
            " What was ingested from the old topic stays in the master dataset and in the"
            f" answers. {ACCEPT}"
        )


ACCEPT = (
    "To go on with the log as it is now, run `trilayer batch run --accept-loss`, which records the"
    " loss and begins a new origin"
)
"""What an operator can do about a log that is no longer the one that was ingested."""
