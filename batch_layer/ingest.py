"""Step 2, ingest: copies the log below the cut into the master dataset.

Each run adds an interval that begins exactly where the last one ended. Writing the interval's
manifest commits it; from then on its end is the recorded cut of T.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from batch_layer.cut import check_ends_at
from batch_layer.engine import Engine, Ingested
from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import LogError, OvertakenError
from trilayer_core.log.broker import Log, Marks, Topic
from trilayer_core.project import Project
from trilayer_core.runtime.failpoints import failpoint
from trilayer_core.seam import Cut, Range, check_contiguous, ranges_between, size
from trilayer_core.store.continuity import (
    changed,
    check_log,
    check_reaches,
    joined,
    newest_with_lost_records,
)
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.intervals import Interval, chain_end, newest_of, newest_ruled_out
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origin, Origins
from trilayer_core.store.runs import IngestAttempt, Run

logger = logging.getLogger("trilayer.batch")


def ingest(
    project: Project,
    stream: Stream,
    run: Run,
    engine: Engine,
    *,
    accept_loss: bool = False,
    open_log: Callable[[str], Log] = Log,
) -> Interval:
    """Copies the stream's log up to the run's cut into the master dataset.

    Does nothing if that has been done already.

    Args:
        project: The project.
        stream: The stream.
        run: The run, whose token must still be the newest.
        engine: Copies the records.
        accept_loss: Whether to continue without events that retention deleted, and to record their
            offsets.
        open_log: Connects to the brokers.

    Returns:
        The interval that ends at the run's cut.

    Raises:
        CoverageError: Another run, with another cut for the same T, has ingested.
        LogError: The topic was created again, the log no longer holds what was ingested, or
            retention deleted events.
        OvertakenError: A later run has taken over, another one has ingested more, or a new origin
            has begun since the run's cut.
    """
    store = project.store
    Fence(store).check(run.token)
    identity = run.origin_ids[stream.name]
    note_attempt(stream, run, store)
    chain = _reparse(stream, store, engine)
    if chain and chain[-1].t_ms == run.t_ms and chain[-1].origin_id == identity:
        check_ends_at(stream, chain[-1].end, run.cuts[stream.name])
        return chain[-1]
    with open_log(project.settings.bootstrap_servers) as log:
        topic = log.topic(stream)
        present = Origins(store, stream).at(topic, log)
        _check_origin(stream, run, present)
        check_log(stream, topic, present, chain, log)
        check_reaches(stream, log.end(topic), run.cuts[stream.name])
        # Before Spark reads, so that `_check_unchanged` sees afterwards whether the log has changed
        # in between.
        last = log.last_records(topic, run.cuts[stream.name])
        marks = {p: last.get(p) for p in run.cuts[stream.name]}
        own = newest_of(chain, identity)
        have, beginning = chain_end(own, present.start), log.beginning(topic)
        ranges, lost = _ranges(stream, have, run.cuts[stream.name], beginning, accept_loss)
        # Without what retention has deleted, at which Spark would fail.
        held = {p: Range(lost[p].end if p in lost else r.start, r.end) for p, r in ranges.items()}
        held = {p: r for p, r in held.items() if len(r)}
        copied = engine.ingest(stream, len(chain), held) if held else Ingested()
        _check_unchanged(stream, topic, marks, run.cuts[stream.name], log)
        # After the records were read: whatever has read records that were lost until now must not
        # be merged with these.
        misled = newest_with_lost_records(store, stream, identity, topic, log)
        # If retention or many markers hide the last record, the previous mark is used instead.
        earlier = own[-1].marks if own else {}
        interval = Interval(
            len(chain),
            run.t_ms,
            identity,
            ranges,
            lost,
            copied.files,
            copied.events,
            copied.quarantined,
            joined(earlier, marks),
            max(misled, newest_ruled_out(chain, identity)),
        )
    # Again: a loss may have been accepted while Spark read.
    _check_origin(stream, run, Origins(store, stream).present())
    _commit(stream, interval, store)
    logger.info(
        "ingested %s: %s events, %s of them quarantined",
        stream.name,
        f"{interval.events:,}",
        interval.quarantined,
    )
    return interval


def _check_unchanged(stream: Stream, topic: Topic, marks: Marks, cut: Cut, log: Log) -> None:
    """Checks that the log still holds the last records that it held before it was read.

    If the last record is unchanged, so is everything that was read in between.

    Raises:
        LogError: It does not.
    """
    for partition, (mark, record) in changed(topic, marks, cut, log).items():
        place = record or mark
        assert place is not None
        raise LogError(
            f"stream {stream.name!r} partition {partition}: the log changed while it was read: the"
            f" record at offset {place.offset} did. Nothing was ingested; run `trilayer batch run`"
            " again"
        )


def _check_origin(stream: Stream, run: Run, present: Origin | None) -> None:
    if present is None or present.identity != run.origin_ids[stream.name]:
        raise OvertakenError(
            f"stream {stream.name!r}: the run was cut in the origin"
            f" {run.origin_ids[stream.name]}, but the present one is"
            f" {present and present.identity}: a loss was accepted since; run `trilayer batch run`"
        )


def _ranges(
    stream: Stream, have: Cut, cut: Cut, beginning: Cut, accept_loss: bool
) -> tuple[dict[int, Range], dict[int, Range]]:
    """The offsets from the end of the master dataset to the cut, and those that retention took.

    Raises:
        LogError: There are such, and `accept_loss` is not set.
    """
    ranges = ranges_between(have, cut)
    try:
        check_contiguous(stream.name, have, ranges, beginning)
    except LogError:
        if not accept_loss:
            raise
    else:
        return ranges, {}
    lost = {
        p: Range(r.start, min(beginning[p], r.end))
        for p, r in ranges.items()
        if beginning.get(p, 0) > r.start and len(r)
    }
    logger.warning("stream %s: %s events lost to retention, recorded", stream.name, size(lost))
    return ranges, lost


def note_attempt(stream: Stream, run: Run, store: Store) -> None:
    """Records in the run's folder that an attempt to ingest the stream has begun.

    `clean` in clean.py deletes these notes. Two notes of one stream show that an attempt was
    killed and may have left files: only then are the folders of all intervals searched.
    """
    attempts = itertools.count(1)
    while not store.create_document(
        run.path(f"ingest-{stream.name}-{next(attempts)}"),
        IngestAttempt(store.clock()),
        durable=False,
    ):
        pass


def _reparse(stream: Stream, store: Store, engine: Engine) -> Sequence[Interval]:
    """The stream's chain under its present schema.

    Intervals that only the chain of another schema has are parsed again from the raw bytes.
    """
    master = Master(store, stream)
    chain = master.chain()
    others = [master.chain(schema) for schema in master.schemas() if schema != stream.fingerprint]
    longest = max(others, key=len, default=chain)
    if len(longest) <= len(chain):
        return chain
    for old in longest[len(chain) :]:
        made = engine.parse_again(stream, old) if old.files else Ingested()
        _commit(stream, replace(old, **vars(made)), store)
        logger.info(
            "parsed interval %s of %s again under the changed schema: %s events",
            old.number,
            stream.name,
            f"{made.events:,}",
        )
    return master.chain()


def _commit(stream: Stream, interval: Interval, store: Store) -> None:
    failpoint("ingest.before-manifest")
    Master(store, stream).commit(interval)
    failpoint("ingest.after-manifest")
