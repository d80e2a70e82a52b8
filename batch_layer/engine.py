"""The Spark computations of a batch run.

The steps decide what is computed and give an `Engine` the files and offsets. It returns the files
that it has written, with their digests.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from trilayer_core.compute.grouping import Pass, merge_sql, quoted
from trilayer_core.compute.parsing import FITS, LOG_COLUMNS, REJECT, log_columns, parse
from trilayer_core.compute.rows import check_rows, rows_made
from trilayer_core.definitions.alerts import Alert
from trilayer_core.definitions.stream import Rows, Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import StoreError
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.runtime.kafka_source import read_log
from trilayer_core.runtime.session import batch_session, driver_at_work
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Ranges
from trilayer_core.store import layout
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.intervals import Interval
from trilayer_core.store.tables import check_tables, table_frames

StartSpark = Callable[[], SparkSession]
Files = Mapping[str, Sequence[StoredFile]]
"""The files of each view's partials, or of each alert."""

Named = TypeVar("Named", View, Alert)


@dataclass(frozen=True)
class Ingested:
    """The files that were written for an interval.

    Attributes:
        files: The files.
        events: The number of events, including quarantined ones.
        quarantined: The number of events that do not fit their schema.
    """

    files: Sequence[StoredFile] = ()
    events: int = 0
    quarantined: int = 0


class Engine:
    """Runs Spark for the steps of a batch run.

    Attributes:
        spark: Returns the session, which is started by the first call.
    """

    def __init__(self, settings: Settings, store: Store, spark: StartSpark) -> None:
        """Creates the engine, without starting Spark.

        Args:
            settings: The brokers.
            store: The store that it reads and writes.
            spark: Returns the session, which is only started if there is something to compute.
        """
        self._settings, self._store, self.spark = settings, store, spark

    def ingest(self, stream: Stream, number: int, ranges: Ranges) -> Ingested:
        """Copies offsets of the stream's log into the files of an interval, and parses them."""
        log = read_log(self.spark(), self._settings.bootstrap_servers, stream.topic, ranges)
        return self._write_interval(stream, number, log_columns(log))

    def parse_again(self, stream: Stream, interval: Interval) -> Ingested:
        """Parses an interval of another schema again, from its raw bytes."""
        for file in interval.files:
            self._store.check(file)
        raw = self.read(interval.files).select(*LOG_COLUMNS)
        return self._write_interval(stream, interval.number, raw)

    def compute(self, pass_: Pass, intervals: Sequence[Interval], token: int, kind: str) -> Files:
        """Computes the partials of each view of the pass from all events in the intervals.

        Args:
            pass_: The views.
            intervals: The intervals to read; the digests of their files are checked first.
            token: The run's token, which is part of the folders' names.
            kind: The kind of files, which is part of the folders' names.

        Returns:
            The files of each view.
        """
        rows = rows_of(pass_, intervals, self._store, self.spark)
        if rows is None:
            return {view.name: [] for view in pass_.views}
        # Without `persist` Spark would compute the whole pass again for each view that is written.
        result = pass_.run(rows).persist()
        try:
            return side_by_side(
                pass_.views,
                lambda view: self.write(pass_.slice_of(view, result), view.name, token, kind),
            )
        finally:
            result.unpersist()

    def merge(self, views: Sequence[View], files: Files, token: int) -> Files:
        """Merges the partials of each view in `files` by key, after checking digests."""

        def merged(view: View) -> Sequence[StoredFile]:
            self._store.check_all(files[view.name])
            partials = merge(view, self.read(files[view.name]))
            return self.write(partials, view.name, token, "merged")

        return side_by_side(views, merged)

    # -- files -------------------------------------------------------------------------------------

    def read(self, files: Sequence[StoredFile]) -> DataFrame:
        """The rows of some files, whose digests the caller has checked."""
        return self.spark().read.parquet(*(self._store.uri(file.path) for file in files))

    def _write_interval(self, stream: Stream, number: int, records: DataFrame) -> Ingested:
        """Writes the records of an interval.

        The folder of a killed attempt has no manifest and is never read.
        """
        failpoint("ingest.before-write")
        chain = layout.chain(stream, stream.fingerprint)
        folder = layout.records(chain, number, self._store.unique())
        files = write_files(self._store, parse(records, stream).drop(FITS), folder)
        rejected = sum(rejected_in(file, self._store) for file in files)
        return Ingested(files, sum(file.rows for file in files), rejected)

    def write(self, rows: DataFrame, name: str, token: int, kind: str) -> Sequence[StoredFile]:
        """Writes the rows of a view, or of something else with a name, into a folder of the run."""
        # Each attempt has its own folder, because a server or cluster may still be writing to that
        # of a killed attempt.
        folder = layout.partials(name, token, kind, self._store.unique())
        return write_files(self._store, rows, folder)


def rows_of(
    pass_: Pass, intervals: Sequence[Interval], store: Store, spark: StartSpark
) -> DataFrame | None:
    """The rows of a pass in the master dataset, with digests checked; None if there are none."""
    files = [file for interval in intervals for file in interval.files]
    if not files:
        return None
    store.check_all(files)
    rows = (
        spark()
        .read.parquet(*(store.uri(file.path) for file in files))
        .where(F.col(REJECT).isNull())
    )
    if isinstance(pass_.source, Rows):
        return rows_made(pass_.source, rows, table_frames(store, pass_.source, spark()))
    return rows


def merge(view: View, partials: DataFrame) -> DataFrame:
    """Merges partials of `view` by key in Spark."""
    states = [
        F.expr(merge_sql(column, state, "spark")).alias(column)
        for column, state in view.states.items()
    ]
    return partials.groupBy(*(quoted(key.name) for key in view.keys)).agg(*states)


def rejected_in(file: StoredFile, store: Store) -> int:
    """The number of rows with a reason.

    The column itself is read, because Parquet has no statistics of long values.
    """
    column = pq.read_table(store.path(file.path), columns=[REJECT], filesystem=store.fs)[REJECT]
    return len(column) - int(column.null_count)


def side_by_side(
    of: Sequence[Named], work: Callable[[Named], Sequence[StoredFile]]
) -> dict[str, Sequence[StoredFile]]:
    """The results of `work` for each view or alert, computed in parallel.

    A small Spark job mostly waits for the driver.
    """
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip((one.name for one in of), pool.map(work, of), strict=True))


@contextmanager
def batch_spark(settings: Settings, rows: Sequence[Rows] = ()) -> Iterator[StartSpark]:
    """Provides a Spark session that is started when it is first needed, and stopped at the end.

    Args:
        settings: The settings.
        rows: The `Rows` sources that will be used. Starting the session raises DefinitionError if a
            function does not return what its source declares.
    """
    started: list[SparkSession] = []
    one_at_a_time = Lock()  # views are computed in several threads

    def start() -> SparkSession:
        with one_at_a_time:
            if not started:
                started.append(batch_session(settings))
                check_rows(rows, started[0])
            return started[0]

    with driver_at_work("batch.memory_mb"):
        try:
            yield start
        finally:
            for spark in started:
                spark.stop()


@contextmanager
def batch_engine(settings: Settings, store: Store, rows: Sequence[Rows]) -> Iterator[Engine]:
    """An engine whose Spark session is stopped at the end, see `batch_spark`."""
    check_tables(store, rows, settings.table_max_mb)
    with batch_spark(settings, rows) as spark:
        yield Engine(settings, store, spark)


GROWTH = 2
"""A file is merged with the previous one if that has at most this many times its rows."""


def tail(
    before: Sequence[StoredFile], new: Sequence[StoredFile]
) -> tuple[Sequence[StoredFile], Sequence[StoredFile]]:
    """The files of the base that stay unchanged, and those to merge with the added ones.

    Files at the end are merged as long as each is not much larger than those after it. The second
    list is empty if nothing is merged; the added files are then appended to those of the base.
    (This is the idea of the log-structured merge tree: O'Neil, Cheng, Gawlick, O'Neil, 1996.)
    """
    kept, merged = list(before), list(new)
    while new and kept and kept[-1].rows <= GROWTH * sum(file.rows for file in merged):
        merged.insert(0, kept.pop())
    return (kept, merged) if len(merged) > len(new) else ([*before, *new], [])


# Spark reports the error of an executor as text, without its number.
_ERRNO_BY_TEXT = {
    os.strerror(number): number
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES)
}


def write_files(store: Store, rows: DataFrame, folder: str) -> list[StoredFile]:
    """Writes rows as Parquet files into a new folder of the store, durably.

    Args:
        rows: The rows.
        folder: A folder that does not exist yet.
        store: The store, which Spark's executors must be able to reach.

    Returns:
        The files that have rows.

    Raises:
        StoreError: The operating system refused, on this machine or an executor's. After any
            failure the folder is deleted.
    """
    try:
        rows.write.parquet(store.uri(folder))
        return store.describe_folder(folder)
    except Exception as error:
        with suppress(StoreError):
            store.delete(folder)
        for line in str(error).splitlines():
            for reason, number in _ERRNO_BY_TEXT.items():
                if reason in line:
                    raise store.fault(
                        OSError(number, reason), "have Spark write", folder
                    ) from error
        raise
