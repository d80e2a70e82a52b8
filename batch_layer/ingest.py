"""Step 2, ingest: copies the log below the cut into the master dataset, an interval that goes on exactly where the last one ended.

The writing of the interval's manifest is the commit, and from then on its end is the recorded cut for T.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from uuid import uuid4

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from batch_layer.cut import Run
from trilayer.cut import Range, check_contiguous, ranges_between, size
from trilayer.errors import ConflictError, LogError
from trilayer.events import FITS, LOG_COLUMNS, REJECT, log_columns, parse
from trilayer.failpoints import failpoint
from trilayer.log import Log, check_same_topic, now_ms, origin
from trilayer.master import Chain, Interval, chain_end, chain_folder, schemas
from trilayer.publication import check_token
from trilayer.settings import Settings
from trilayer.spark import read_log
from trilayer.store import Store, StoredFile
from trilayer.stream import Stream

logger = logging.getLogger("trilayer.batch")
StartSpark = Callable[[], SparkSession]


def ingest(
    stream: Stream,
    run: Run,
    settings: Settings,
    store: Store,
    spark: StartSpark,
    *,
    accept_loss: bool = False,
) -> Interval:
    """The stream's log up to the run's cut, in the master dataset. Does nothing where it is there already.

    Raises LogError for a topic that was created again, and for events that retention took, unless `accept_loss`, which records their range.
    """
    check_token(store, run.token)
    note_attempt(stream, run, store)
    chain = _reparse(stream, store, spark)
    if chain and chain[-1].t_ms == run.t_ms:
        return chain[-1]
    with Log(settings.bootstrap_servers) as log:
        topic = log.topic(stream)
        start = origin(store, stream, topic, log).start
        check_same_topic(stream, run.topic_ids[stream.name], topic)
        beginning = log.beginning(topic)
    ranges = ranges_between(chain_end(chain, start), run.cuts[stream.name])
    lost: dict[int, Range] = {}
    try:
        check_contiguous(stream.name, chain_end(chain, start), ranges, beginning)
    except LogError:
        if not accept_loss:
            raise
        lost = {
            p: Range(r.start, min(beginning[p], r.end))
            for p, r in ranges.items()
            if beginning.get(p, 0) > r.start and len(r)
        }
        logger.warning("stream %s: %s events lost to retention, recorded", stream.name, size(lost))
    there = {p: Range(lost[p].end if p in lost else r.start, r.end) for p, r in ranges.items()}
    there = {p: r for p, r in there.items() if len(r)}
    records = (
        (lambda: log_columns(read_log(spark(), settings.bootstrap_servers, topic.name, there)))
        if there
        else None
    )
    files, events, quarantined = _write(stream, len(chain), records, store)
    interval = Interval(len(chain), run.t_ms, topic.id, ranges, lost, files, events, quarantined)
    _commit(stream, interval, store)
    logger.info("ingested %s: %s events, %s of them quarantined", stream.name, f"{events:,}", quarantined)
    return interval


def note_attempt(stream: Stream, run: Run, store: Store) -> None:
    """Leaves word that the run begins to ingest the stream. `clean` takes it away; where it finds a second one, of this run or one before
    it, a killed attempt may have left files."""
    attempts = itertools.count(1)
    while not store.create_document(
        run.path(f"ingest-{stream.name}-{next(attempts)}"), {"began_ms": now_ms()}, durable=False
    ):
        pass


def _reparse(stream: Stream, store: Store, spark: StartSpark) -> Sequence[Interval]:
    """The stream's chain under its present schema; what only another schema's chain has is parsed anew from the raw bytes."""
    chain = Chain(store, stream)
    others = [
        Chain(store, stream, schema) for schema in schemas(store, stream) if schema != stream.fingerprint
    ]
    longest = max(others, key=len, default=chain)
    if len(longest) <= len(chain):
        return chain
    for old in longest[len(chain) :]:
        files: Sequence[StoredFile] = []
        events = quarantined = 0
        if old.files:
            for file in old.files:
                store.check(file)
            paths = [store.uri(file.path) for file in old.files]
            raw = spark().read.parquet(*paths).select(*LOG_COLUMNS)
            files, events, quarantined = _write(stream, old.number, lambda raw=raw: raw, store)  # type: ignore[misc]  # mypy can't type a lambda's default
        interval = Interval(
            old.number, old.t_ms, old.topic_id, old.ranges, old.lost, files, events, quarantined
        )
        _commit(stream, interval, store)
        logger.info(
            "parsed interval %s of %s anew under the changed schema: %s events",
            old.number,
            stream.name,
            f"{events:,}",
        )
    return Chain(store, stream)


def _write(
    stream: Stream, number: int, records: Callable[[], DataFrame] | None, store: Store
) -> tuple[Sequence[StoredFile], int, int]:
    """Files, events and quarantined events of one interval. A folder of a killed attempt has no manifest and is never read."""
    if records is None:
        return [], 0, 0
    failpoint("ingest.before-write")
    folder = f"{chain_folder(stream, stream.fingerprint)}/{number:08d}-{uuid4().hex[:6]}"
    parse(records(), stream).drop(FITS).write.parquet(store.uri(folder))
    files = store.describe_folder(folder)
    return files, sum(file.rows for file in files), sum(_rejected(store, file) for file in files)


def _rejected(store: Store, file: StoredFile) -> int:
    metadata = pq.read_metadata(store.path(file.path), filesystem=store.fs)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    place = next(i for i in range(metadata.num_columns) if metadata.schema.column(i).path == REJECT)
    return sum(group.num_rows - group.column(place).statistics.null_count for group in groups)


def _commit(stream: Stream, interval: Interval, store: Store) -> None:
    failpoint("ingest.before-manifest")
    path = f"{chain_folder(stream, stream.fingerprint)}/{interval.number:08d}.json"
    if not store.create_document(path, interval.to_json()):
        raise ConflictError(f"{path} must be new; another run has just ingested it; run again")
    failpoint("ingest.after-manifest")
