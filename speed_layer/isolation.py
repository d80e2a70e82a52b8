"""Keeps the failure of one query from the others of its process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from trilayer_core.errors import TrilayerError
from trilayer_core.runtime.session import driver_at_work
from trilayer_core.seam import format_time
from trilayer_core.store.files import Store
from trilayer_core.store.segments import Fault

logger = logging.getLogger("trilayer.speed")

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""How long a query that failed waits before it starts again; each time twice as long."""

SETTLED_S = 120.0
"""A query that has run for so long since it started again counts as one that never failed."""


class Stoppable(Protocol):
    """A query that can be stopped."""

    @property
    def fault_path(self) -> str:
        """The document in the store with the reason of its failure."""

    def stop(self) -> None:
        """Stops it."""


class Failures:
    """The queries that have failed, and when each of them starts again.

    As long as one query runs, the process goes on. `trilayer status` shows the reasons.
    """

    def __init__(
        self,
        queries: Sequence[Stoppable],
        store: Store,
        memory_setting: str,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins without any.

        Args:
            queries: All queries of the process.
            store: The store, in which it records reasons.
            memory_setting: The setting to increase if the driver's heap was full.
            elapsed: A monotonic clock, in seconds.
        """
        self._queries, self._store, self._elapsed = queries, store, elapsed
        self._memory_setting = memory_setting
        self._errors: dict[Stoppable, TrilayerError] = {}
        self._times: dict[Stoppable, int] = {}
        self._due: dict[Stoppable, float] = {}
        self._since_ms: dict[Stoppable, int] = {}
        for query in queries:
            self._record(query, None)

    def attend(
        self, query: Stoppable, check: Callable[[], object], again: Callable[[], object]
    ) -> None:
        """Checks a query, or starts it again if it has failed and its time has come.

        Args:
            query: The query.
            check: Raises TrilayerError, or an error of Spark, if it has failed.
            again: Starts it again.

        Raises:
            TrilayerError: It has failed, and no other query runs.
        """
        try:
            with driver_at_work(self._memory_setting):
                if query not in self:
                    self._settle(query)
                    check()
                elif self._elapsed() >= self._due[query]:
                    again()
                    del self._errors[query]
        except TrilayerError as error:
            self._add(query, error)

    def __contains__(self, query: object) -> bool:
        """Whether a query has failed and was not started again."""
        return query in self._errors

    def check(self) -> None:
        """Raises the error of a query that has failed and was not started again."""
        for error in self._errors.values():
            raise error

    def _add(self, query: Stoppable, error: TrilayerError) -> None:
        query.stop()
        times = self._times[query] = self._times.get(query, 0) + 1
        since_ms = self._since_ms.setdefault(query, self._store.clock())
        wait_s = min(FIRST_WAIT_S * 2 ** (times - 1), LONGEST_WAIT_S)
        self._errors[query], self._due[query] = error, self._elapsed() + wait_s
        again = format_time(self._store.clock() + round(wait_s * 1000))
        self._record(query, Fault(since_ms, f"{error} (the next try is at {again})"))
        if len(self._errors) == len(self._queries):
            raise error
        logger.error("%s (it starts again in %g s, the other queries go on)", error, wait_s)

    def _settle(self, query: Stoppable) -> None:
        """Forgets that a query has failed, if it has run for long enough since."""
        if query in self._times and self._elapsed() - self._due[query] >= SETTLED_S:
            del self._times[query], self._since_ms[query]
            self._record(query, None)

    def _record(self, query: Stoppable, fault: Fault | None) -> None:
        try:
            if fault is not None:
                self._store.write_document(query.fault_path, fault)
            elif self._store.exists(query.fault_path):
                self._store.delete(query.fault_path)
        except (TrilayerError, OSError) as error:
            logger.warning("the reason of a failure can't be recorded: %s", error)
