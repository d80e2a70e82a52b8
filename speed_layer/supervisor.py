"""Supervises the queries of a process: starts again what has failed, and waits for the broker.

The failure of one query does not stop the others. As long as one query runs, the process goes on;
`trilayer status` shows the reasons.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from trilayer_core.errors import EnvironmentFault, TrilayerError
from trilayer_core.log.broker import Log
from trilayer_core.runtime.session import driver_at_work
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import format_time
from trilayer_core.store.files import Store
from trilayer_core.store.segments import Fault

logger = logging.getLogger("trilayer.speed")

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""How long a query that failed waits before it starts again; each time twice as long."""

SETTLED_S = 120.0
"""A query that has run for so long since it started again counts as one that never failed."""

POLL_S = 0.5
"""Interval between checks whether the broker answers again, in seconds."""

# Spark reports the errors of its Kafka client, and those of Python, as text.
_SIGNS_OF_OUTAGE = (
    "TimeoutException",
    "DisconnectException",
    "KafkaException",
    "Failed to construct kafka",
    "UnknownTopicOrPartition",
    "LEADER_NOT_AVAILABLE",
    "Call(callName",
    "OffsetFetch",
    "Connection to node",
    "trilayer_core.errors.EnvironmentFault: ",
)


class Query(Protocol):
    """A streaming query that can be stopped and started again."""

    @property
    def label(self) -> str:
        """Its name in messages."""

    @property
    def fault_path(self) -> str:
        """The document in the store with the reason of its failure."""

    def start(self) -> object:
        """Starts it from where it has come."""

    def stop(self) -> None:
        """Stops it."""


class Supervisor:
    """The queries of a process: which of them have failed, and when each starts again."""

    def __init__(
        self,
        queries: Sequence[Query],
        settings: Settings,
        store: Store,
        stop: threading.Event,
        memory_setting: str,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins with no failure.

        Args:
            queries: All queries of the process.
            settings: The brokers.
            store: The store, in which it records reasons.
            stop: Set when the process is to end, which ends all waiting.
            memory_setting: The setting to increase if the driver's heap was full.
            elapsed: A monotonic clock, in seconds.
        """
        self._queries, self._settings, self._store = queries, settings, store
        self._stop, self._memory_setting, self._elapsed = stop, memory_setting, elapsed
        self._errors: dict[Query, TrilayerError] = {}
        self._times: dict[Query, int] = {}
        self._due: dict[Query, float] = {}
        self._since_ms: dict[Query, int] = {}
        for query in queries:
            record_fault(store, query.fault_path, None)

    def attend(self, query: Query, check: Callable[[], object]) -> None:
        """Checks a query, or starts it again if it has failed and its time has come.

        Args:
            query: The query.
            check: Raises TrilayerError, or an error of Spark, if it has failed.

        Raises:
            TrilayerError: It has failed, and no other query runs.
        """
        try:
            with driver_at_work(self._memory_setting):
                if query not in self:
                    self._settle(query)
                    check()
                elif self._elapsed() >= self._due[query]:
                    self.restart(query)
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

    # -- starting again ----------------------------------------------------------------------------

    def restart(self, query: Query, outage: str = "") -> None:
        """Stops a query and starts it, as soon as the broker answers.

        Args:
            query: The query.
            outage: What says that the broker is unavailable; empty if nothing does.
        """
        query.stop()
        while not self._stop.is_set():
            if outage and not self._waited(query, outage):
                return
            try:
                query.start()
            except EnvironmentFault as error:
                outage = str(error)
                query.stop()
            else:
                if outage:
                    logger.warning("%s: goes on", query.label)
                return

    def is_outage(self, text: str) -> bool:
        """Whether the error that ended a query, with this text, comes from an outage."""
        return any(sign in text for sign in _SIGNS_OF_OUTAGE) or not self._is_reachable()

    def _waited(self, query: Query, outage: str) -> bool:
        """Waits until the broker answers; returns False if the process is to end before."""
        logger.warning(
            "%s: waits for the broker, and reads nothing meanwhile: %s", query.label, outage
        )
        # Wait at least once, because a broker may repeatedly answer here and then not answer the
        # query.
        self._stop.wait(POLL_S)
        while not self._stop.is_set() and not self._is_reachable():
            self._stop.wait(POLL_S)
        return not self._stop.is_set()

    def _is_reachable(self) -> bool:
        try:
            with Log(self._settings.bootstrap_servers):
                return True
        except EnvironmentFault:
            return False

    # -- failures ----------------------------------------------------------------------------------

    def _add(self, query: Query, error: TrilayerError) -> None:
        query.stop()
        times = self._times[query] = self._times.get(query, 0) + 1
        since_ms = self._since_ms.setdefault(query, self._store.clock())
        wait_s = min(FIRST_WAIT_S * 2 ** (times - 1), LONGEST_WAIT_S)
        self._errors[query], self._due[query] = error, self._elapsed() + wait_s
        again = format_time(self._store.clock() + round(wait_s * 1000))
        fault = Fault(since_ms, f"{error} (the next try is at {again})")
        record_fault(self._store, query.fault_path, fault)
        if len(self._errors) == len(self._queries):
            raise error
        logger.error("%s (it starts again in %g s, the other queries go on)", error, wait_s)

    def _settle(self, query: Query) -> None:
        """Forgets that a query has failed, if it has run for long enough since."""
        if query in self._times and self._elapsed() - self._due[query] >= SETTLED_S:
            del self._times[query], self._since_ms[query]
            record_fault(self._store, query.fault_path, None)


def record_fault(store: Store, path: str, fault: Fault | None) -> None:
    """Records for `trilayer status` why something fails, or with None that it works again."""
    try:
        if fault is not None:
            store.write_document(path, fault)
        elif store.exists(path):
            store.delete(path)
    except (TrilayerError, OSError) as error:
        logger.warning("the reason of a failure can't be recorded: %s", error)
