"""Where the counting of a stream's log begins, as the store records it.

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
    """Where the counting of a stream's log begins.

    At first sight of it, and anew after a loss that was accepted.

    Offsets mean the same record within one origin only.

    Attributes:
        topic: The topic's name.
        topic_id: The topic's id, as the broker gave it.
        start: Per partition, the first offset that counts.
        number: 1 for the first origin, and one more with each loss that was accepted.
        before: Identity of the origin that ended with this one; None for the first, as all that
            follows.
        reason: What was found, in the words of the error that reported it.
        departed: Per partition, the offsets of the origin before that the log no longer held as
            they were ingested.
        accepted_ms: When the loss was accepted, in ms since 1970.
    """

    topic: str
    topic_id: str
    start: Cut
    number: Annotated[int, Field(exclude_if=lambda number: number == 1)] = 1
    before: Annotated[str | None, ABSENT_IF_NONE] = None
    reason: Annotated[str | None, ABSENT_IF_NONE] = None
    departed: Annotated[Mapping[int, StoredRange] | None, ABSENT_IF_NONE] = None
    accepted_ms: Annotated[int | None, ABSENT_IF_NONE] = None

    @property
    def identity(self) -> str:
        """What intervals, generations and publications keep as their `topic_id`.

        It is the topic's id itself for the first origin, so that older stores read as they are.
        Kafka's topic ids have no `#`.
        """
        return self.topic_id if self.number == 1 else f"{self.topic_id}#{self.number}"


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
        """The present origin; the first one is recorded when either layer first sees the log.

        Raises:
            LogError: The topic is another one now: it was deleted and created again.
        """
        path = layout.origin(self._stream, 1)
        if not self._store.exists(path):
            first = Origin(topic.name, topic.id, log.beginning(topic))
            self._store.create_document(path, first)
        found = self.present()
        assert found is not None
        check_same_topic(self._stream, found.topic_id, topic)
        return found

    def present(self) -> Origin | None:
        """The present origin as it is recorded, without asking the broker."""
        if not self._store.exists(layout.origin(self._stream, 1)):
            return None
        names = self._store.names(layout.later_origins(self._stream))
        return self._read(max((int(name.removesuffix(".json")) for name in names), default=1))

    def all(self) -> list[Origin]:
        """Every origin that the stream has had, oldest first."""
        present = self.present()
        return [self._read(n + 1) for n in range(present.number)] if present else []

    def begin(
        self, topic: Topic, start: Cut, before: Origin, reason: str, departed: Ranges
    ) -> Origin:
        """Records a new origin, from which the stream's log counts from now on.

        Args:
            topic: The topic as it is now.
            start: Per partition, the first offset that counts.
            before: The origin that ends.
            reason: What was found, in the words of the error that reported it.
            departed: Per partition, the offsets of the origin before that the log no longer holds
                as they were ingested.

        Raises:
            ConflictError: Another process has just begun one.
        """
        number = before.number + 1
        begun = Origin(
            topic.name,
            topic.id,
            start,
            number,
            before.identity,
            reason,
            departed,
            self._store.clock(),
        )
        path = layout.origin(self._stream, number)
        if not self._store.create_document(path, begun):
            raise ConflictError(
                f"{path} must be new; another process has just written it; run again"
            )
        return begun

    def _read(self, number: int) -> Origin:
        return self._store.read_document(layout.origin(self._stream, number), Origin)


def check_same_topic(stream: Stream, known_id: str, topic: Topic) -> None:
    """Raises LogError unless the topic is the one with this id."""
    if known_id != topic.id:
        raise LogError(
            f"topic {topic.name!r} of stream {stream.name!r} must be the one with id {known_id};"
            f" got id {topic.id}: it was deleted and created again, and its offsets count anew."
            " What was ingested from the old topic stays in the master dataset and in the"
            f" answers. {ACCEPT}"
        )


ACCEPT = (
    "To go on with the log as it is now, run `trilayer batch run --accept-loss`, which records the"
    " loss and begins a new origin"
)
"""What an operator can do about a log that is no longer the one that was ingested."""
