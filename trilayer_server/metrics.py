"""The metrics of queries, processes and the store.

The store is read at most once a second. A scrape that comes while it is being read gets the last
values, with their age in `trilayer_facts_age_seconds`. No label has SQL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import psutil
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from serving_layer.history import Version
from trilayer.operations.status import Status
from trilayer_core.runtime.clock import now_ms
from trilayer_core.seam import parse_time

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""The limits of the buckets in which the durations of queries are counted, in seconds."""


class Outcome:
    """How a query ended: `ok`, unless `set` is called."""

    def __init__(self) -> None:
        self.value = "ok"

    def set(self, value: str) -> None:
        """Sets how it ended: error, timeout or cancelled."""
        self.value = value


class Metrics:
    """The metrics of a server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.facts = Facts()
        self.processes = Processes()
        self._seconds = Histogram(
            "trilayer_question_duration_seconds",
            "Time from a query to the last byte of its answer.",
            ["protocol"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._queries = Counter(
            "trilayer_questions",
            "Queries, by how they ended: ok, error, timeout or cancelled.",
            ["protocol", "outcome"],
            registry=self.registry,
        )
        self._verified = Counter(
            "trilayer_reader_verified",
            "Comparisons of a view's answer with a fresh computation, by result: match or differ.",
            ["result"],
            registry=self.registry,
        )
        for result in ("match", "differ"):
            self._verified.labels(result)  # so that an increase from zero is seen
        self.registry.register(self.facts)
        self.registry.register(self.processes)

    @contextmanager
    def query(self, protocol: str) -> Iterator[Outcome]:
        """Measures a query.

        Args:
            protocol: The protocol by which it came: http, subscribe or postgresql.
        """
        begun, outcome = time.perf_counter(), Outcome()
        try:
            yield outcome
        except BaseException:
            if outcome.value == "ok":
                outcome.set("error")
            raise
        finally:
            self._seconds.labels(protocol).observe(time.perf_counter() - begun)
            self._queries.labels(protocol, outcome.value).inc()

    def verified(self, result: Literal["match", "differ"]) -> None:
        """Counts the comparison of a view's answer with a fresh computation."""
        self._verified.labels(result).inc()

    def gauge(self, name: str, description: str, read: Callable[[], float]) -> None:
        """Adds a gauge whose value is read at each scrape.

        Args:
            name: Its name.
            description: What it is.
            read: Returns the value at once.
        """
        self.processes.gauges.append((name, description, read))


class Processes(Collector):
    """The processes of a server, and what its parts count themselves.

    Attributes:
        workers: Returns the process ids of the workers.
        gauges: Name, description and value of others.
    """

    def __init__(self) -> None:
        self.workers: Callable[[], Sequence[int]] = lambda: ()
        self.gauges: list[tuple[str, str, Callable[[], float]]] = []

    def describe(self) -> Iterable[Metric]:
        """None, so that nothing is read before the first scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The metrics, with their present values."""
        pids = self.workers()
        yield GaugeMetricFamily("trilayer_workers", "Processes that answer queries.", len(pids))
        memory = GaugeMetricFamily(
            "trilayer_resident_memory_bytes",
            "Memory of the server and of all its workers; pages that they share count for each.",
            labels=["process"],
        )
        memory.add_metric(["server"], _resident(psutil.Process().pid))
        memory.add_metric(["workers"], sum(map(_resident, pids)))
        yield memory
        for name, description, read in self.gauges:
            yield GaugeMetricFamily(name, description, read())


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


class Facts(Collector):
    """The state of the store when it was last read."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._history: Sequence[Version] = ()
        self._read_at: float | None = None

    def take(self, status: Status, history: Sequence[Version]) -> None:
        """Replaces the values by those that were read now."""
        self._status, self._history, self._read_at = status, history, time.monotonic()

    def describe(self) -> Iterable[Metric]:
        """None, so that nothing is read before the first scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The metrics; nothing before the store was read."""
        if self._status is None or self._read_at is None:
            return
        yield GaugeMetricFamily(
            "trilayer_facts_age_seconds",
            "Time since the store was read for the metrics of publications, streams and views.",
            time.monotonic() - self._read_at,
        )
        yield from self._publications(self._status)
        yield from self._streams(self._status)
        yield from self._views(self._status)

    def _publications(self, status: Status) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "trilayer_publications", "Publications that are kept.", len(self._history)
        )
        standing = status.publication
        if standing is None:
            return
        yield GaugeMetricFamily(
            "trilayer_publication_version", "The version in force.", standing.version
        )
        yield GaugeMetricFamily(
            "trilayer_publication_age_seconds",
            "Time since T of the version in force.",
            max(now_ms() - parse_time(standing.t), 0) / 1_000,
        )
        yield GaugeMetricFamily(
            "trilayer_batch_lag_seconds",
            "Time since T of the version in force, or since a later T with nothing new.",
            standing.lag_s,
        )
        yield GaugeMetricFamily(
            "trilayer_batch_late",
            "1 if batch runs lag by more than late_after allows.",
            int(standing.late),
        )
        yield GaugeMetricFamily(
            "trilayer_publication_held",
            "1 if somebody holds the version in force.",
            int(standing.held is not None),
        )
        if standing.uncovered_s is not None:
            yield GaugeMetricFamily(
                "trilayer_cut_age_seconds",
                "Age of the oldest event that no publication contains.",
                standing.uncovered_s,
            )

    def _streams(self, status: Status) -> Iterator[Metric]:
        offsets = {
            "head": "Offset up to which answers reach.",
            "cut": "Offset below which the batch layer's share lies.",
            "end": "End of the log.",
        }
        for part, description in offsets.items():
            family = GaugeMetricFamily(
                f"trilayer_stream_{part}_offset", description, labels=["stream", "partition"]
            )
            for name, stream in status.streams.items():
                for partition, offset in (getattr(stream, part) or {}).items():
                    family.add_metric([name, str(partition)], offset)
            yield family
        values: Mapping[str, tuple[str, str]] = {
            "freshness_seconds": ("lag_s", "Age of the oldest event that answers do not have yet."),
            "lag_events": ("lag_events", "Events in the log that answers do not have yet."),
            "speed_events": ("speed_events", "Events between the cut and the head."),
            "quarantined_events": (
                "quarantined_in_all",
                "Events below the head that do not fit their schema.",
            ),
        }
        for part, (field, description) in values.items():
            family = GaugeMetricFamily(f"trilayer_stream_{part}", description, labels=["stream"])
            for name, stream in status.streams.items():
                if (value := getattr(stream, field)) is not None:
                    family.add_metric([name], value)
            yield family

    def _views(self, status: Status) -> Iterator[Metric]:
        rows = GaugeMetricFamily("trilayer_view_rows", "Rows of a view.", labels=["view"])
        answered = GaugeMetricFamily(
            "trilayer_view_answered", "1 if a view has an answer.", labels=["view"]
        )
        for name, view in status.views.items():
            answered.add_metric([name], int(view.rows is not None))
            if view.rows is not None:
                rows.add_metric([name], view.rows)
        yield rows
        yield answered
        keys = GaugeMetricFamily(
            "trilayer_reconciliation_keys",
            "Keys that both layers have computed for the version in force, by how they compare.",
            labels=["view", "kind"],
        )
        for version in self._history:
            for name, counts in version.reconciliation.items() if version.in_force else ():
                for kind in ("match", "differ", "missing", "extra"):
                    if (value := getattr(counts, kind)) is not None:
                        keys.add_metric([name, kind], value)
        yield keys
