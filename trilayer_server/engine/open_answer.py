"""An answer that is being read in a worker, all at once or in parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from serving_layer.snapshot import Snapshot
from trilayer_server.encoding.answers import Encoder, Wire, batches

ROWS_AT_ONCE = 16_384
"""The number of rows that are encoded at once."""


class OpenAnswer:
    """An answer that is computed while it is read.

    Attributes:
        stack: Closes what the answer needs.
        columns: The columns that the client knows.
        encode: Makes the bytes of the rows.
        begun: Whether a part of it was read.
        rows: How many rows were read.
    """

    def __init__(
        self,
        stack: ExitStack,
        snapshot: Snapshot,
        reader: pa.RecordBatchReader,
        encode: Encoder,
        columns: pa.Schema,
    ) -> None:
        """Prepares it; nothing is read yet.

        Args:
            stack: Closes what the answer needs.
            snapshot: What it is computed from.
            reader: The rows.
            encode: Makes their bytes.
            columns: The columns that the client knows, to whose types the rows are cast.
        """
        self.stack, self.encode, self.columns = stack, encode, columns
        self.begun, self.rows = False, 0
        self._snapshot = snapshot
        self._batches = batches(_conforming(reader, columns), ROWS_AT_ONCE)
        self._left: pa.RecordBatch | None = None
        self._ahead: _Ahead | None = None

    def take(self, most_rows: int) -> Iterator[tuple[int, bytes | pa.Buffer]]:
        """The next rows in pieces: the number of rows in each, and their bytes.

        Args:
            most_rows: The number of rows in all pieces; 0 for all that are left.
        """
        if not most_rows:
            yield from self._rest()
            return
        while most_rows and (ahead := self._encoded_ahead(most_rows)) is not None:
            number = min(most_rows, ahead.left)
            yield number, ahead.take(number)
            most_rows -= number

    def encode_as(self, encode: Wire) -> None:
        """Has the rows that were not read yet encoded in another way."""
        if isinstance(self.encode, Wire) and self.encode.formats == encode.formats:
            return
        self.encode = encode
        if self._ahead is not None:
            self._ahead = _Ahead(self._ahead.rest(), encode)

    def is_over(self) -> bool:
        """Whether no rows are left."""
        if self._ahead is not None and self._ahead.left:
            return False
        if self._left is None:
            self._left = self._next()
        return self._left is None

    def _rest(self) -> Iterator[tuple[int, bytes | pa.Buffer]]:
        if self._ahead is not None and (left := self._ahead.left):
            yield left, self._ahead.take(left)
        while (batch := self._next()) is not None:
            yield batch.num_rows, self.encode.batch(batch)

    def _encoded_ahead(self, wanted: int) -> _Ahead | None:
        """Rows that are encoded; None if no rows are left.

        To encode many rows at once takes a third of the time that it takes by the thousand, and
        a client that has come again will probably go on. So twice as many as the last time are
        encoded.
        """
        if self._ahead is not None and self._ahead.left:
            return self._ahead
        if (batch := self._next()) is None:
            return None
        assert isinstance(self.encode, Wire)  # other outputs are read at once
        most = max(wanted, 2 * self._ahead.rows if self._ahead else 0)
        if batch.num_rows > most:
            self._left, batch = batch.slice(most), batch.slice(0, most)
        self._ahead = _Ahead(batch, self.encode)
        return self._ahead

    def _next(self) -> pa.RecordBatch | None:
        batch, self._left = self._left, None
        while batch is None or not batch.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                self._snapshot.sound = True
                return None
        return batch


class _Ahead:
    """Rows of the wire that were encoded together, and are taken in parts."""

    def __init__(self, batch: pa.RecordBatch, encode: Wire) -> None:
        messages = encode.messages(batch)
        _, ends, self._data = messages.buffers()
        self._ends = np.frombuffer(ends, np.int64)[messages.offset :]
        self._batch, self._taken = batch, 0

    @property
    def rows(self) -> int:
        """How many rows they are in all."""
        return self._batch.num_rows

    @property
    def left(self) -> int:
        """How many of them were not taken."""
        return self._batch.num_rows - self._taken

    def take(self, number: int) -> pa.Buffer:
        """The messages of the next rows."""
        start, end = self._ends[self._taken], self._ends[self._taken + number]
        self._taken += number
        return self._data.slice(start, end - start)

    def rest(self) -> pa.RecordBatch:
        """The rows that were not taken."""
        return self._batch.slice(self._taken)


def _conforming(reader: pa.RecordBatchReader, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches with the columns that the client knows.

    An unnamed column is named like its text, and a literal's type may depend on its value. So what
    was described before values were bound can differ in both.
    """
    for batch in reader:
        if batch.schema == columns:
            yield batch
            continue
        arrays = [
            column.cast(field.type) for column, field in zip(batch.columns, columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)
