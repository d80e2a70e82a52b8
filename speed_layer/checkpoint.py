"""Reads what Spark has planned and finished of a generation's micro-batches.

Spark records the end of a micro-batch in its checkpoint before it runs the micro-batch, and
afterwards that it is finished. Only Spark writes these files.
"""

from __future__ import annotations

import json

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import IntegrityError
from trilayer_core.seam import Cut
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.segments import Generation


class Checkpoint:
    """Spark's checkpoint of one generation.

    Attributes:
        path: Its folder in the store.
    """

    def __init__(self, store: Store, stream: Stream, generation: Generation) -> None:
        self.path = layout.checkpoint(stream, generation.name)
        self._store, self._stream, self._generation = store, stream, generation

    def planned(self) -> list[int]:
        """The micro-batches in Spark's checkpoint, in order."""
        names = self._store.names(f"{self.path}/offsets")
        return sorted(int(name) for name in names if name.isdigit())

    def is_done(self, batch_id: int) -> bool:
        """Whether Spark counts the micro-batch as finished."""
        return self._store.exists(f"{self.path}/commits/{batch_id}")

    def begin(self, batch_id: int) -> Cut:
        """The offsets at which a micro-batch begins, which are the end of the previous one.

        Raises:
            IntegrityError: Spark's plan can't be read.
        """
        return self.end(batch_id - 1) if batch_id else self._generation.start

    def end(self, batch_id: int) -> Cut:
        """The end offsets of a micro-batch in Spark's checkpoint.

        Raises:
            IntegrityError: The file can't be read.
        """
        remedy = "run `trilayer speed run --rebuild`"
        return read_end(self._store, self.path, batch_id, self._stream.topic, remedy)


def read_end(store: Store, checkpoint: str, batch_id: int, topic: str, remedy: str) -> Cut:
    """The end offsets that Spark has written for a batch into the folder of a checkpoint.

    Raises:
        IntegrityError: The file can't be read; `remedy` says what to do.
    """
    path = f"{checkpoint}/offsets/{batch_id}"
    try:
        # The first two lines are the format's version, and properties of the batch.
        ends = json.loads(store.read(path).decode().splitlines()[2])[topic]
        return {int(partition): offset for partition, offset in ends.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise IntegrityError(
            f"{path} does not contain the offsets that Spark has planned; it was truncated or"
            f" altered, for example by a power cut; {remedy}"
        ) from None
