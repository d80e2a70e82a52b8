"""Reads alerts back from their topic and stores them, so that other layers find them in files.

What came is appended as a file of its own, and small files are merged: a file is written together
with the one before it while that has at most twice its rows. Their number stays small, and a row is
written again a few times only.

The list of files is replaced atomically, together with the offsets up to which the topic was read.
Wherever the process is killed, each record is afterwards in the listed files, or is read again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from trilayer_core.errors import EnvironmentFault, IntegrityError, LogError, StoreError
from trilayer_core.log.alerts import AlertReader, AlertRecord, SentAlert, sent_alert
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.store import layout
from trilayer_core.store.alerts import SENT_SCHEMA, Sent, sent_alerts, sent_part, writes_in
from trilayer_core.store.files import STALE_AFTER_S, Store, StoredFile

logger = logging.getLogger("trilayer.alerts")

WRITE_S = 1.0
"""How often alerts are stored at most, in seconds."""

POLL_S = 0.2
"""How long to wait for records, in seconds."""

MOST_AT_ONCE = 20_000
"""The number of records after which alerts are stored at once."""

MOST_MERGED = 100_000
"""The number of rows beyond which a file is not merged any more."""

MOST_MERGED_BYTES = 16 << 20
"""The number of bytes beyond which a file is not merged any more."""

TOPIC_CHECK_S = 2.0
"""Interval between checks whether the topic was deleted, in seconds."""

CLEAN_S = 10.0
"""How often the folder is searched for files that are not listed any more, in seconds."""

AGAIN_S = (1.0, 15.0)
"""The time between a fault and the next attempt, in seconds: at first, and at most."""

REPORT_S = 60.0
"""How often it is reported at most that records are no alerts, in seconds."""


class Collector(threading.Thread):
    """Stores the alerts of one topic, until `stop` is set.

    A fault of the brokers or of the disk is waited for, and never ends the process.
    """

    def __init__(
        self,
        store: Store,
        bootstrap_servers: str,
        topic: str,
        stop: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepares it; `start` starts it.

        Args:
            store: The store.
            bootstrap_servers: host:port, or several separated by commas.
            topic: The topic's name.
            stop: Ends it.
            clock: A monotonic clock, in seconds.
        """
        super().__init__(name=f"collector of {topic}", daemon=True)
        self._store, self._servers, self._topic = store, bootstrap_servers, topic
        self._stopped, self._clock = stop, clock
        self._failed: BaseException | None = None
        self._reported = ""
        self._unlisted: dict[str, float] = {}
        self._cleaned = float("-inf")
        self._foreign = _Foreign(topic, clock)
        self._unmergeable: set[str] = set()

    def run(self) -> None:
        """Stores alerts until it is stopped. What ends it otherwise is raised by `check`."""
        try:
            self.collect()
        except BaseException as error:  # noqa: BLE001  # raised by `check`, in the main thread
            self._failed = error

    def check(self) -> None:
        """Raises what has ended the thread, if anything has."""
        if self._failed is not None:
            raise self._failed

    def collect(self) -> None:
        """What `run` does, in the caller's thread."""
        pause_s = AGAIN_S[0]
        while not self._stopped.is_set():
            try:
                with AlertReader(self._servers, self._topic, gathered=True) as reader:
                    if reader.topic is not None:
                        self._read(reader)
                        pause_s = AGAIN_S[0]
                        continue
                self._report("it does not exist")
            except (EnvironmentFault, LogError, StoreError) as error:
                self._report(str(error))
            self._stopped.wait(pause_s)
            pause_s = min(2 * pause_s, AGAIN_S[1])

    def _report(self, why: str) -> None:
        if why != self._reported:
            logger.warning("alerts of topic %s are not stored, which is tried again: %s",
                           self._topic, why)  # fmt: skip
        self._reported = why

    # -- reading -----------------------------------------------------------------------------------

    def _read(self, reader: AlertReader) -> None:
        """Reads and stores until it is stopped, or until the topic is another one."""
        assert reader.topic
        stored = sent_alerts(self._store, self._topic) or Sent("")
        if stored.topic_id != reader.topic.id:
            if stored.topic_id:
                logger.warning(
                    "topic %s was deleted and created again; the alerts that were stored stay, and"
                    " the new topic is read from its beginning",
                    self._topic,
                )
            stored = Sent(reader.topic.id, {}, stored.files)
        reader.begin(stored.offsets)
        waiting: list[tuple[AlertRecord, SentAlert]] = []
        missing = 0
        wrote = checked_at = float("-inf")
        while not self._stopped.is_set():
            for record in reader.poll(POLL_S):
                alert = sent_alert(record.value)
                if alert is None:
                    self._foreign.count(record)
                else:
                    waiting.append((record, alert))
            if reader.missing > missing:
                logger.warning(
                    "topic %s: retention has deleted %s records before they were stored; alerts"
                    " are missing from the answers",
                    self._topic,
                    reader.missing - missing,
                )
                missing = reader.missing
            now = self._clock()
            came = reader.offsets != stored.offsets
            if came and (now - wrote >= WRITE_S or len(waiting) >= MOST_AT_ONCE):
                if not reader.is_same():
                    return
                stored = self._write(stored, reader.offsets, waiting)
                waiting.clear()
                wrote = checked_at = self._clock()
            elif now - checked_at >= TOPIC_CHECK_S:
                if not reader.is_same():
                    return
                checked_at = now
            if self._reported:
                self._reported = ""
                logger.info("alerts of topic %s are stored again", self._topic)
            self._foreign.report()
            if now - self._cleaned >= CLEAN_S:
                self._cleaned = now
                self._clean(stored)

    # -- writing -----------------------------------------------------------------------------------

    def _write(
        self,
        stored: Sent,
        offsets: dict[int, int],
        alerts: Sequence[tuple[AlertRecord, SentAlert]],
    ) -> Sent:
        """Stores alerts, and that the topic was read up to these offsets."""
        files = list(stored.files)
        if alerts:
            files = self._appended(files, _table(alerts))
        # After the files, so that a reader never finds a file listed that does not exist yet.
        now = Sent(stored.topic_id, offsets, files)
        failpoint("collect.before-document")
        self._store.write_document(layout.sent(self._topic), now)
        failpoint("collect.after-document")
        return now

    def _appended(self, files: list[StoredFile], rows: pa.Table) -> list[StoredFile]:
        """The files with another one, with which those before it may be merged."""
        last = max((w[1] for file in files if (w := writes_in(file))), default=0) + 1
        first, tables, number = last, [rows], len(rows)
        while files and (writes := writes_in(files[-1])) and self._is_mergeable(files[-1], number):
            try:
                tables.insert(0, self._store.read_table(files[-1]))
            except IntegrityError as error:
                # It stays listed, so that readers report it as well.
                self._unmergeable.add(files[-1].path)
                logger.error("topic %s: a file is not merged: %s", self._topic, error)
                break
            first, number = writes[0], number + files.pop().rows
        path = layout.sent_file(self._topic, sent_part(first, last, self._store.unique()))
        failpoint("collect.before-file")
        return [*files, self._store.write_table(path, without_repeats(pa.concat_tables(tables)))]

    def _is_mergeable(self, file: StoredFile, rows: int) -> bool:
        return (
            file.rows <= 2 * rows
            and file.rows + rows <= MOST_MERGED
            and file.bytes <= MOST_MERGED_BYTES
            and file.path not in self._unmergeable
        )

    def _clean(self, stored: Sent) -> None:
        """Deletes files that have not been listed for a while, which readers may still have read.

        They were merged, or their writer was killed before it had listed them.
        """
        folder, now = layout.sent_folder(self._topic), self._clock()
        listed = {file.path for file in stored.files}
        there = {
            path
            for name in self._store.names(folder)
            if name.endswith(".parquet") and (path := f"{folder}/{name}") not in listed
        }
        self._unlisted = {path: self._unlisted.get(path, now) for path in there}
        for path, since in self._unlisted.items():
            if now - since >= STALE_AFTER_S:
                failpoint("collect.before-delete")
                self._store.delete(path)
        for path in self._store.stale_temporaries([folder]):
            self._store.delete(path)


class _Foreign:
    """Counts the records of a topic that are no alerts, and reports them from time to time."""

    def __init__(self, topic: str, clock: Callable[[], float]) -> None:
        self._topic, self._clock = topic, clock
        self._reported = float("-inf")
        self._number, self._first = 0, ""

    def count(self, record: AlertRecord) -> None:
        """Counts one."""
        if not self._number:
            self._first = f"partition {record.partition}, offset {record.offset}"
        self._number += 1

    def report(self) -> None:
        """Reports those that were not reported yet, at most once a minute."""
        if self._number and self._clock() - self._reported >= REPORT_S:
            logger.warning(
                "topic %s: %s records are no alerts of trilayer and are left out, the first at %s;"
                " give the alerts a topic of their own",
                self._topic,
                self._number,
                self._first,
            )
            self._reported, self._number = self._clock(), 0


def without_repeats(rows: pa.Table) -> pa.Table:
    """The rows without alerts that are there already with equal bytes; the first one was seen."""
    others = [name for name in SENT_SCHEMA.names if name != "seen_at"]
    grouped = rows.group_by(others, use_threads=False).aggregate([("seen_at", "min")])
    named = grouped.rename_columns([n.removesuffix("_min") for n in grouped.column_names])
    return named.select(SENT_SCHEMA.names).cast(SENT_SCHEMA)


def _table(alerts: Sequence[tuple[AlertRecord, SentAlert]]) -> pa.Table:
    columns = {
        name: [getattr(alert, {"topic_id": "origin_id"}.get(name, name)) for _, alert in alerts]
        for name in SENT_SCHEMA.names
        if name != "seen_at"
    }
    columns["seen_at"] = [record.at_ms * 1000 for record, _ in alerts]
    return pa.table(columns, SENT_SCHEMA)
