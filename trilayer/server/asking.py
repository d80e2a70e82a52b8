"""What a client asks, answered by the serving layer: one snapshot a statement, or a transaction."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pyarrow as pa

from serving_layer.connection import Connection, Layer, Snapshot


class Cancelled(Exception):
    """A query was interrupted."""


class Asking:
    """The questions of one client.

    Outside of a transaction each statement has a snapshot of its own. Its methods are called in
    worker threads, one at a time, except for `cancel`.

    Attributes:
        layer: The layer in which names without a schema are looked up.
    """

    def __init__(self, connection: Connection, layer: Layer, version: int | None) -> None:
        """Prepares it, without loading anything.

        Args:
            connection: The serving layer's connection, which clients share.
            layer: The layer.
            version: The publication on which answers are based; None for the newest state.
        """
        self.layer: Layer = layer
        self._connection, self._version = connection, version
        self._transaction: tuple[ExitStack, Snapshot] | None = None
        self._running: Snapshot | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Takes the snapshot that all statements have until `end`."""
        if self._transaction is None:
            stack = ExitStack()
            snapshot = stack.enter_context(self._connection.snapshot(self._version))
            self._transaction = (stack, snapshot)

    def end(self) -> None:
        """Ends the transaction, if there is one."""
        if self._transaction is not None:
            stack, _ = self._transaction
            self._transaction = None
            stack.close()

    def columns(self, query: str) -> pa.Schema:
        """The columns of the answer to a query, which does not run."""
        with ExitStack() as stack:
            return self._snapshot(stack).table(query, self.layer, rows=0).schema

    def answer(self, query: str) -> pa.Table:
        """The answer to a query.

        Raises:
            Cancelled: It was interrupted by `cancel`.
        """
        with ExitStack() as stack:
            snapshot = self._snapshot(stack)
            with self._lock:
                self._running = snapshot
            try:
                return snapshot.table(query, self.layer)
            except KeyboardInterrupt:
                raise Cancelled from None
            finally:
                with self._lock:
                    self._running = None

    def cancel(self) -> None:
        """Interrupts the query that runs, if one does."""
        with self._lock:
            if self._running is not None:
                self._running.interrupt()

    def _snapshot(self, stack: ExitStack) -> Snapshot:
        if self._transaction is not None:
            return self._transaction[1]
        return stack.enter_context(self._connection.snapshot(self._version))
