"""Step 2, ingest: copies the log below the cut into the master dataset.

Each run adds an interval, which goes on exactly where the last one ended.

The writing of the interval's manifest is the commit, and from then on its end is the recorded cut
for T.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from batch_layer.cut import check_ends_at
from trilayer_core.compute.parsing import FITS, LOG_COLUMNS, REJECT, log_columns, parse
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import LogError, OvertakenError
from trilayer_core.log.broker import Log, Mark, Topic
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.runtime.kafka_source import read_log
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Range, check_contiguous, ranges_between, size
from trilayer_core.store import layout
from trilayer_core.store.continuity import changed, check_log, check_reaches, departed_generation
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.intervals import Interval, chain_end, newest_departed, newest_of
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origin, Origins
from trilayer_core.store.runs import IngestAttempt, Run
from trilayer_core.store.spark_files import write_files

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
    """Copies the stream's log up to the run's cut into the master dataset.

    Does nothing if it is there already.

    Args:
        stream: The stream.
        run: The run, whose token must still be the newest.
        settings: The brokers.
        store: Where the master dataset is.
        spark: Gives the Spark session, which is started only if there is something to copy.
        accept_loss: Go on without events that retention took; their range is recorded.

    Returns:
        The interval that ends at the run's cut.

    Raises:
        CoverageError: Another run has ingested up to the same T, and had found another cut for it.
        LogError: The topic was created again, the log no longer holds what was ingested, or
            retention took events.
        OvertakenError: A later run has taken over, another one has ingested more, or a new origin
            has begun since the run's cut.
    """
    Fence(store).check(run.token)
    identity = run.topic_ids[stream.name]
    note_attempt(stream, run, store)
    chain = _reparse(stream, store, spark)
    if chain and chain[-1].t_ms == run.t_ms and chain[-1].topic_id == identity:
        check_ends_at(stream, chain[-1].end, run.cuts[stream.name])
        return chain[-1]
    with Log(settings.bootstrap_servers) as log:
        topic = log.topic(stream)
        present = Origins(store, stream).at(topic, log)
        _check_origin(stream, run, present)
        check_log(stream, topic, present, chain, log)
        check_reaches(stream, log.end(topic), run.cuts[stream.name])
        last = log.last_records(topic, run.cuts[stream.name])
        marks = {p: last.get(p) for p in run.cuts[stream.name]}
        interval = _copied(
            stream, run, chain, present, topic, marks, log, settings, store, spark, accept_loss
        )
        # The last record, which was there before and is there now, vouches for what was read in
        # between.
        if different := changed(topic, marks, run.cuts[stream.name], log):
            partition, (mark, found) = next(iter(different.items()))
            place = found or mark
            assert place is not None
            raise LogError(
                f"stream {stream.name!r} partition {partition}: the log must not change while it"
                f" is read; the record at offset {place.offset} did. Nothing was ingested; run"
                " `trilayer batch run` again"
            )
        departed = departed_generation(stream, identity, topic, log, store)
        interval = replace(interval, departed=max(departed, newest_departed(chain, identity)))
    _check_origin(stream, run, Origins(store, stream).present())
    _commit(stream, interval, store)
    logger.info(
        "ingested %s: %s events, %s of them quarantined",
        stream.name,
        f"{interval.events:,}",
        interval.quarantined,
    )
    return interval


def _check_origin(stream: Stream, run: Run, present: Origin | None) -> None:
    if present is None or present.identity != run.topic_ids[stream.name]:
        raise OvertakenError(
            f"stream {stream.name!r}: a run must be ingested in the origin that it was cut in,"
            f" {run.topic_ids[stream.name]}; the present one is {present and present.identity}: a"
            " loss was accepted since; run `trilayer batch run`"
        )


def _copied(
    stream: Stream,
    run: Run,
    chain: Sequence[Interval],
    present: Origin,
    topic: Topic,
    marks: Mapping[int, Mark | None],
    log: Log,
    settings: Settings,
    store: Store,
    spark: StartSpark,
    accept_loss: bool,
) -> Interval:
    """The interval from the end of the master dataset to the run's cut, its files written."""
    beginning = log.beginning(topic)
    own = newest_of(chain, present.identity)
    have = chain_end(own, present.start)
    ranges = ranges_between(have, run.cuts[stream.name])
    lost: dict[int, Range] = {}
    try:
        check_contiguous(stream.name, have, ranges, beginning)
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
    # Where retention, or many markers, hide the last record, the one before stands for it.
    known = own[-1].marks if own else {}
    ends = {p: mark or known.get(p) for p, mark in {**known, **marks}.items()}
    return Interval(
        len(chain), run.t_ms, present.identity, ranges, lost, files, events, quarantined, ends
    )


def note_attempt(stream: Stream, run: Run, store: Store) -> None:
    """Notes in the run's folder that an attempt to ingest the stream begins.

    `clean` in publish.py deletes the notes. A second note of a stream tells it that an attempt was
    killed, which may have left files: only then does it look at the folders of all intervals.
    """
    attempts = itertools.count(1)
    while not store.create_document(
        run.path(f"ingest-{stream.name}-{next(attempts)}"), IngestAttempt(now_ms()), durable=False
    ):
        pass


def _reparse(stream: Stream, store: Store, spark: StartSpark) -> Sequence[Interval]:
    """The stream's chain under its present schema.

    What only the chain of another schema has is parsed anew from the raw bytes.
    """
    master = Master(store, stream)
    chain = master.chain()
    others = [master.chain(schema) for schema in master.schemas() if schema != stream.fingerprint]
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
        _commit(stream, replace(old, files=files, events=events, quarantined=quarantined), store)
        logger.info(
            "parsed interval %s of %s anew under the changed schema: %s events",
            old.number,
            stream.name,
            f"{events:,}",
        )
    return master.chain()


def _write(
    stream: Stream, number: int, records: Callable[[], DataFrame] | None, store: Store
) -> tuple[Sequence[StoredFile], int, int]:
    """Files, events and quarantined events of one interval.

    A folder of a killed attempt has no manifest and is never read.
    """
    if records is None:
        return [], 0, 0
    failpoint("ingest.before-write")
    folder = layout.records(layout.chain(stream, stream.fingerprint), number, uuid4().hex[:6])
    files = write_files(parse(records(), stream).drop(FITS), folder, store)
    return files, sum(file.rows for file in files), sum(_rejected(store, file) for file in files)


def _rejected(store: Store, file: StoredFile) -> int:
    """How many rows of the file have a reason.

    The column itself is counted: Parquet has no statistics of long values.
    """
    column = pq.read_table(store.path(file.path), columns=[REJECT], filesystem=store.fs)[REJECT]
    return len(column) - int(column.null_count)


def _commit(stream: Stream, interval: Interval, store: Store) -> None:
    failpoint("ingest.before-manifest")
    Master(store, stream).commit(interval)
    failpoint("ingest.after-manifest")
