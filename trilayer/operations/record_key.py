"""The keys of the records that trilayer sends to a stream's topic."""

from __future__ import annotations

from kafka.partitioner.default import murmur2

from trilayer_core.compute.formats import format_of
from trilayer_core.definitions.stream import Stream


def key_of(stream: Stream, value: bytes) -> bytes | None:
    """Returns the key of the record of an event: the text of the stream's `record_key`, as UTF-8.

    Args:
        stream: The stream.
        value: The event's bytes, which need not fit the schema.

    Returns:
        None if the stream has no `record_key`, or the event no value of it.
    """
    if stream.record_key is None:
        return None
    text = format_of(stream).key_text(stream, value)
    # Half a surrogate pair, which JSON can escape, has no bytes in UTF-8.
    return None if text is None else text.encode(errors="replace")


def partition_of(key: bytes, partitions: int) -> int:
    """Returns the partition of a key, as Kafka's producers choose it by default.

    >>> [partition_of(key, 4) for key in (b"card-1", b"card-2", b"card-3")]
    [3, 0, 1]
    """
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
