"""Alerts as they come from their topic, with typed values."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from serving_layer.alerts.content import CONTENT, content_sql
from trilayer_core.compute.merging import open_duckdb, quoted_duckdb
from trilayer_core.definitions.alerts import Alert
from trilayer_core.errors import EnvironmentFault
from trilayer_core.log.alerts import AlertReader, AlertRecord, SentAlert, sent_alert

logger = logging.getLogger("trilayer.alerts")

POLL_S = 0.2
"""Interval between checks whether the iterator is closed, in seconds."""

TOPIC_CHECK_S = 2.0
"""Interval between checks whether the topic is still the same, in seconds."""

AGAIN_S = 1.0
"""The time between two attempts to connect, in seconds."""

REMEMBERED = 10_000
"""The number of newest alerts that are left out if they are sent again."""

_PARSER_MB = 128


@dataclass(frozen=True)
class RaisedAlert:
    """An alert as it was sent. Values have the Python types that DuckDB gives them.

    Attributes:
        id: Its id, which is the same if it is sent again.
        alert: The name of the alert's definition.
        partition: The partition of the event.
        offset: The offset of the event.
        created_at: When the event was appended to its topic, by the broker's clock.
        seen_at: When the alert was appended to the topic of alerts, by the broker's clock.
        key: The key columns; None if the alert would have been too large with them.
        event: The columns of the event; None in the same case.
        last: The columns of the newest events of the key before it, newest first; None in the same
            case.
        profile: The key's row in the profile's view; None without one, or in the same case.
        profile_version: The publication that the row is from; None without one.
    """

    id: str
    alert: str
    partition: int
    offset: int
    created_at: datetime
    seen_at: datetime
    key: dict[str, Any] | None
    event: dict[str, Any] | None
    last: list[dict[str, Any]] | None
    profile: dict[str, Any] | None
    profile_version: int | None


class ArrivingAlerts:
    """An iterator of the alerts of one definition. Close it, or use it as a context manager.

    It is to be used in one thread; `close` may be called in any.
    """

    def __init__(
        self, alert: Alert, bootstrap_servers: Callable[[], str], *, from_beginning: bool
    ) -> None:
        """Begins at the topic's present end, or at its beginning.

        Args:
            alert: The alert.
            bootstrap_servers: Returns host:port, or several separated by commas; empty while the
                local stack is not running. It is asked again whenever no broker answers.
            from_beginning: Whether to begin at the beginning.
        """
        self._alert, self._servers = alert, bootstrap_servers
        self._closed, self._at_work = threading.Event(), threading.Lock()
        self._reader: AlertReader | None = None
        self._read: tuple[str, dict[int, int]] | None = ("", {}) if from_beginning else None
        self._topic_checked_at = 0.0
        self._reported = ""
        self._waiting: deque[RaisedAlert] = deque()
        self._recent: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._parser = open_duckdb(_PARSER_MB, 1)
        self._sql = content_sql(alert, "_arriving")
        self._connect()

    def __enter__(self) -> ArrivingAlerts:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration, also one that waits in another thread."""
        self._closed.set()
        if self._at_work.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._at_work.release()

    def __iter__(self) -> ArrivingAlerts:
        return self

    def __next__(self) -> RaisedAlert:
        with self._at_work:
            return self._next()

    def _next(self) -> RaisedAlert:
        while not self._closed.is_set():
            if self._waiting:
                return self._waiting.popleft()
            if self._reader is None:
                self._connect()
                if self._reader is None:
                    self._closed.wait(AGAIN_S)
                continue
            try:
                self._take(self._poll(self._reader))
            except EnvironmentFault as error:
                self._disconnect(str(error))
        self._end()
        raise StopIteration

    def _end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._parser.close()

    def _disconnect(self, why: str) -> None:
        if why != self._reported:
            self._reported = why
            logger.warning("alerts are waited for: %s", why)
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # -- reading -----------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Connects to the topic, and continues where it was read before."""
        try:
            self._reader = AlertReader(self._servers(), self._alert.topic)
            topic = self._reader.topic
            if topic is None:
                # All that it will have comes after the beginning of this iteration.
                self._read = self._read or ("", {})
                self._disconnect(
                    f"topic {self._alert.topic!r} does not exist; `trilayer alerts run` creates it"
                )
                return
            if self._read is None:
                self._reader.begin()
            else:
                self._reader.begin(self._read[1] if self._read[0] == topic.id else {})
            self._read = (topic.id, self._reader.offsets)
        except EnvironmentFault as error:
            self._disconnect(str(error))
            return
        self._topic_checked_at = time.monotonic()
        if self._reported:
            self._reported = ""
            logger.info("alerts are read again")

    def _poll(self, reader: AlertReader) -> list[AlertRecord]:
        records = reader.poll(POLL_S)
        assert self._read
        if time.monotonic() - self._topic_checked_at >= TOPIC_CHECK_S:
            if not reader.is_same():
                self._disconnect(f"topic {self._alert.topic!r} was deleted, or created again")
                return []
            self._topic_checked_at = time.monotonic()
        self._read = (self._read[0], reader.offsets)
        return records

    def _take(self, records: list[AlertRecord]) -> None:
        alerts: list[tuple[AlertRecord, SentAlert]] = []
        for record in records:
            sent = sent_alert(record.value)
            if sent is None or (sent.alert, sent.fingerprint) != (
                self._alert.name,
                self._alert.fingerprint,
            ):
                continue
            identity = (sent.origin_id, sent.id)
            repeated = identity in self._recent
            self._recent[identity] = None
            self._recent.move_to_end(identity)
            if not repeated:
                alerts.append((record, sent))
        while len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        if alerts:
            self._waiting.extend(self._parsed(alerts))

    def _parsed(self, alerts: list[tuple[AlertRecord, SentAlert]]) -> list[RaisedAlert]:
        rows = pa.table(
            {
                "place": range(len(alerts)),
                "payload": [sent.payload for _, sent in alerts],
                "created_at": pa.array(
                    [sent.created_at for _, sent in alerts], pa.timestamp("us", "UTC")
                ),
                "seen_at": pa.array(
                    [record.at_ms * 1000 for record, _ in alerts], pa.timestamp("us", "UTC")
                ),
            }
        )
        self._parser.register("_arriving", rows)
        content = ", ".join(map(quoted_duckdb, CONTENT))
        parsed = self._parser.execute(
            f"SELECT created_at, seen_at, {content} FROM ({self._sql}) ORDER BY place"
        ).fetchall()
        self._parser.unregister("_arriving")
        return [
            RaisedAlert(sent.id, sent.alert, sent.partition, sent.offset, *values)
            for (_, sent), values in zip(alerts, parsed, strict=True)
        ]
