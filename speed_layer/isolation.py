"""Keeps the failure of one stream's query from the others."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from trilayer_core.errors import TrilayerError

logger = logging.getLogger("trilayer.speed")

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""How long a query that failed waits before it starts again; each time twice as long."""

SETTLED_S = 120.0
"""A query that has run for so long since it started again counts as one that never failed."""


class Stoppable(Protocol):
    """A query that can be stopped."""

    def stop(self) -> None:
        """Stops it."""


class Failures:
    """The queries that have failed, and when each of them starts again.

    As long as one query runs, the process goes on.
    """

    def __init__(
        self, queries: Sequence[Stoppable], elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        """Begins without any.

        Args:
            queries: All queries of the process.
            elapsed: A monotonic clock, in seconds.
        """
        self._queries, self._elapsed = queries, elapsed
        self._errors: dict[Stoppable, TrilayerError] = {}
        self._times: dict[Stoppable, int] = {}
        self._due: dict[Stoppable, float] = {}

    def add(self, query: Stoppable, error: TrilayerError) -> None:
        """Stops a query that has failed.

        Raises:
            TrilayerError: The error, if no other query runs.
        """
        query.stop()
        if self._elapsed() - self._due.get(query, 0.0) >= SETTLED_S:
            self._times.pop(query, None)
        times = self._times[query] = self._times.get(query, 0) + 1
        self._errors[query] = error
        if len(self._errors) == len(self._queries):
            raise error
        wait_s = min(FIRST_WAIT_S * 2 ** (times - 1), LONGEST_WAIT_S)
        self._due[query] = self._elapsed() + wait_s
        logger.error("%s (it starts again in %g s, the other streams go on)", error, wait_s)

    def __contains__(self, query: object) -> bool:
        """Whether a query has failed and was not started again."""
        return query in self._errors

    def is_due(self, query: Stoppable) -> bool:
        """Whether a query that has failed is to be started again now."""
        return self._elapsed() >= self._due[query]

    def started(self, query: Stoppable) -> None:
        """Notes that a query was started again."""
        del self._errors[query]

    def check(self) -> None:
        """Raises the error of a query that has failed and was not started again."""
        for error in self._errors.values():
            raise error
