"""What is measured: questions as they are answered, and the store when it is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Outcome:
    """How a question ended; `ok` unless said otherwise."""

    def __init__(self) -> None:
        self.value = "ok"

    def set(self, value: str) -> None:
        """Says how it ended: error, timeout or cancelled."""
        self.value = value


class Metrics:
    """The metrics of a server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "trilayer_question_duration_seconds",
            "Time from a question to the last byte of its answer.",
            ["protocol"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._questions = Counter(
            "trilayer_questions",
            "Questions, by how they ended: ok, error, timeout or cancelled.",
            ["protocol", "outcome"],
            registry=self.registry,
        )

    @contextmanager
    def question(self, protocol: str) -> Iterator[Outcome]:
        """Measures a question.

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
            self._questions.labels(protocol, outcome.value).inc()
