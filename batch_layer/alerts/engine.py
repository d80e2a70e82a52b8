"""The Spark computations of alerts in a batch run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from batch_layer.alerts import spark_rules
from batch_layer.alerts.spark_rules import NEW, event_columns, events_in, union
from batch_layer.engine import Engine, Files, side_by_side
from trilayer_core.compute.formats.json import literal
from trilayer_core.definitions.alerts import ALERT_COLUMNS, Alert, AlertGroup
from trilayer_core.definitions.stream import Stream
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGeneration
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.intervals import Interval


@dataclass(frozen=True)
class Evaluation:
    """Alerts that are evaluated together, and on which events.

    Attributes:
        group: The alerts.
        kind: The kind of files, which is part of the folders' names.
        new: The intervals with the events to be evaluated.
        before: Intervals whose events only precede these.
        memory: Files with the newest events of each key in yet earlier intervals.
        generations: The generations by whose profiles the events are evaluated; None if no alert
            has a profile.
    """

    group: AlertGroup
    kind: str
    new: Sequence[Interval]
    before: Sequence[Interval] = ()
    memory: Sequence[StoredFile] = ()
    generations: Sequence[AlertGeneration] | None = None


class AlertEngine:
    """Evaluates the rules of alerts, with the Spark session of a batch run."""

    def __init__(self, engine: Engine, store: Store) -> None:
        self._engine, self._store = engine, store

    def evaluate(self, evaluation: Evaluation, token: int) -> Files:
        """Evaluates the rules of alerts.

        Returns:
            The files of each alert.

        Raises:
            IntegrityError: A file that it reads is missing or altered.
        """
        group = evaluation.group
        new = self._events(group.stream, evaluation.new)
        if new is None:
            return {alert.name: [] for alert in group.alerts}
        before = None
        if group.last:
            remembered = self._remembered(group, evaluation.memory)
            before = union([self._events(group.stream, evaluation.before), remembered])
        rows = new.selectExpr("*", f"true AS {NEW}")
        if before is not None:
            rows = rows.unionByName(before.selectExpr("*", f"false AS {NEW}"))
        result = spark_rules.raised(group, rows, evaluation.generations, self._store).persist()
        try:
            return side_by_side(
                group.alerts,
                lambda alert: self._write_alerts(
                    result.where(f"alert = {literal(alert.name)}"), alert, token, evaluation.kind
                ),
            )
        finally:
            result.unpersist()

    def judged_before(
        self,
        alert: Alert,
        files: Sequence[StoredFile],
        generations: Sequence[AlertGeneration],
        token: int,
    ) -> Sequence[StoredFile]:
        """The rows of an alert's files whose events come before all of the generations."""
        if not files:
            return []
        self._store.check_all(files)
        by = spark_rules.generation_sql(generations, "topic_id", "partition", "`offset`")
        return self._write_alerts(
            self._engine.read(files).where(f"{by} IS NULL"), alert, token, "kept"
        )

    def merge_alerts(self, alerts: Sequence[Alert], files: Files, token: int) -> Files:
        """The rows of the files of each alert, as one result."""

        def merged(alert: Alert) -> Sequence[StoredFile]:
            self._store.check_all(files[alert.name])
            return self._write_alerts(self._engine.read(files[alert.name]), alert, token, "merged")

        return side_by_side(alerts, merged)

    def remember(
        self, group: AlertGroup, intervals: Sequence[Interval], token: int, kind: str
    ) -> Sequence[StoredFile]:
        """The newest events of each key in some intervals."""
        events = self._events(group.stream, intervals)
        return [] if events is None else self._write_memory(group, events, token, kind)

    def merge_memory(
        self, group: AlertGroup, files: Sequence[StoredFile], token: int
    ) -> Sequence[StoredFile]:
        """The newest events of each key in some files of such."""
        events = self._remembered(group, files)
        return [] if events is None else self._write_memory(group, events, token, "merged")

    def scattered(self, group: AlertGroup, files: Sequence[StoredFile]) -> int:
        """The number of keys whose events are in more than one partition."""
        events = self._remembered(group, files)
        return 0 if events is None else spark_rules.scattered(group, events)

    def _events(self, stream: Stream, intervals: Sequence[Interval]) -> DataFrame | None:
        if not any(interval.files for interval in intervals):
            return None  # without starting Spark
        return events_in(stream, intervals, self._store, self._engine.spark())

    def _remembered(self, group: AlertGroup, files: Sequence[StoredFile]) -> DataFrame | None:
        if not files:
            return None
        self._store.check_all(files)
        return self._engine.read(files).selectExpr(*event_columns(group.stream))

    def _write_memory(
        self, group: AlertGroup, events: DataFrame, token: int, kind: str
    ) -> Sequence[StoredFile]:
        rows = spark_rules.newest(group, events)
        return self._engine.write(rows, layout.memory_files(group.name), token, kind)

    def _write_alerts(
        self, rows: DataFrame, alert: Alert, token: int, kind: str
    ) -> Sequence[StoredFile]:
        # Rebalanced, because each task has few alerts, and would write a file of its own.
        rows = rows.select(*ALERT_COLUMNS).hint("rebalance")
        # In the order of places, so that a range of offsets is in few row groups.
        ordered = rows.sortWithinPartitions("topic_id", "partition", "offset")
        return self._engine.write(ordered, layout.alert_files(alert.name), token, kind)
