"""Step 1, cut: determines the cut at T and takes the run's token."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from trilayer_core.definitions.stream import Stream
from trilayer_core.errors import ClockError, CoverageError, UsageError
from trilayer_core.log.broker import Log
from trilayer_core.log.time_index import TimeIndex
from trilayer_core.project import Project
from trilayer_core.seam import Cut, check_tick, effective_cut, format_time, latest_tick, tick_of
from trilayer_core.store.continuity import check_log
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.intervals import Interval, chain_end, newest_of
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Run, Runs

logger = logging.getLogger("trilayer.batch")


def cut(
    project: Project,
    t_ms: int,
    full: bool,
    *,
    accept_clock: bool = False,
    open_log: Callable[[str], Log] = Log,
) -> Run:
    """Determines the cut of every stream at T, and takes a token, which overtakes all earlier runs.

    Args:
        project: The project, in whose store the run is recorded.
        t_ms: T, as returned by `choose_t`.
        full: Whether the run recomputes everything from the master dataset.
        accept_clock: Whether to cut a log at its end if the broker's clock is ahead at present.
        open_log: Connects to the brokers.

    Raises:
        ClockError: The newest records show that the broker's clock is ahead of this machine's.
        LogError: A topic is missing, was replaced, has no append times, or no longer holds what was
            ingested. Nothing has been written in this case.
    """
    with open_log(project.settings.bootstrap_servers) as log:
        streams = {
            stream.name: _cut_of(project, stream, t_ms, log, accept_clock)
            for stream in project.catalog.streams
        }
    # Last, because a token overtakes other runs: a run that finds no cut must not do so.
    token = Fence(project.store).take(f"batch run until {format_time(t_ms)}")
    cuts = {name: cut_at_t for name, (cut_at_t, _) in streams.items()}
    run = Run(
        token, t_ms, full, cuts, {name: origin_id for name, (_, origin_id) in streams.items()}
    )
    project.store.write_document(run.path("cut"), run)
    for name, cut_at_t in cuts.items():
        logger.info(
            "cut %s at T=%s: %s", name, run.t, ", ".join(f"{p}:{o}" for p, o in cut_at_t.items())
        )
    return run


def choose_t(
    project: Project,
    until_ms: int | None,
    *,
    at_least: bool = False,
    accept_clock: bool = False,
    wait: Callable[[float], object] = time.sleep,
) -> int:
    """Chooses the T of the next run.

    It is `until_ms`, else the newest settled tick, or a later T that a killed run has recorded. If
    T has passed but is not settled yet, this waits until it is.

    Args:
        project: The project, whose store has earlier cuts.
        until_ms: The requested T; None for the newest one.
        at_least: Whether T may be the newest cut if events after until_ms have been ingested
            already, because cuts never go back.
        accept_clock: Whether to continue from a cut whose T is later than now.
        wait: Waits for a number of seconds.

    Raises:
        UsageError: T is not on the grid, is in the future, or lies before what has been ingested or
            published.
        ClockError: The newest recorded or published T is later than now.
    """
    settings, store = project.settings, project.store
    if not accept_clock:
        check_clock(project)
    floor = _floor(project)
    if until_ms is None:
        return max(latest_tick(store.clock(), settings.tick_ms, settings.settle_ms), floor)
    if until_ms <= store.clock():
        wait_until_settled(project, until_ms, wait)
    check_tick(until_ms, store.clock(), settings.tick_ms, settings.settle_ms)
    if until_ms < floor and not at_least:
        raise UsageError(
            f"T must not lie before {format_time(floor)}, up to which events have been ingested;"
            f" got {format_time(until_ms)}; `trilayer batch rollback` goes back to an earlier"
            " publication"
        )
    return max(until_ms, floor)


def t_of_all(project: Project) -> int:
    """The first T, in ms, whose cut includes every record that is in the logs now.

    Records that are stamped later than now are waited for, but no longer than the settle delay.

    Raises:
        LogError: A topic is missing.
        EnvironmentFault: No broker answers.
    """
    settings, now = project.settings, project.store.clock()
    with Log(settings.bootstrap_servers) as log:
        topics = [log.topic(stream) for stream in project.catalog.streams]
        marks = [
            mark for topic in topics for mark in log.last_records(topic, log.end(topic)).values()
        ]
    newest = max((mark.append_ms for mark in marks), default=0)
    # H(T) is the first record stamped at or after T, so T must be later than the newest stamp.
    return tick_of(min(newest, now + settings.settle_ms), settings.tick_ms) + settings.tick_ms


def wait_until_settled(
    project: Project, t_ms: int, wait: Callable[[float], object] = time.sleep
) -> None:
    """Waits until the clock has passed T by the settle delay."""
    while (left_ms := t_ms + project.settings.settle_ms - project.store.clock()) > 0:
        wait(left_ms / 1000)


def latest_ms(project: Project) -> int:
    """The latest T, in ms, that this machine's clock confirms.

    A later T was recorded by a clock that was ahead.
    """
    return project.store.clock() + project.settings.settle_ms


def _floor(project: Project) -> int:
    """The newest T, in ms, up to which events have been ingested or published."""
    latest = latest_ms(project)
    # T is in whole seconds. A cut that is assigned to another T than its own has some milliseconds
    # more than the one before it.
    ingested = [
        t_ms - t_ms % 1000
        for stream in project.catalog.streams
        for t_ms in Master(project.store, stream).recorded_cuts(latest, lambda interval: True)
    ]
    published = Publications(project.store).in_force()
    if published and published.t_ms <= latest:
        ingested.append(published.t_ms)
    return max(ingested, default=0)


def check_clock(project: Project) -> None:
    """Checks that no recorded T is later than now.

    Only the newest interval of each stream and the newest version are checked. Older ones do not
    matter, because a run with the right time has followed them.

    Raises:
        ClockError: One is.
    """
    store = project.store
    recorded = [
        (
            chain[-1].t_ms,
            f"interval {chain[-1].number} of stream {stream.name!r} in the master dataset",
        )
        for stream in project.catalog.streams
        if (chain := Master(store, stream).longest_chain())
    ]
    recorded += [(p.t_ms, f"version {p.version}") for p in Publications(store).versions()[-1:]]
    t_ms, what = max(recorded, default=(0, ""))
    if t_ms > latest_ms(project):
        raise ClockError(
            f"no T may be later than now, {format_time(store.clock())}; {what} is of"
            f" T={format_time(t_ms)}: the clock of the machine that cut it was ahead, or this"
            " machine's clock is behind. Set the clock that is wrong. If it was the other one,"
            " `trilayer batch run --accept-clock` continues from that cut with the present T; no"
            " event is counted twice or left out"
        )


def _cut_of(
    project: Project, stream: Stream, t_ms: int, log: Log, accept_clock: bool
) -> tuple[dict[int, int], str]:
    """The cut of a stream, and the identity of the origin in which it counts."""
    settings, store = project.settings, project.store
    topic = log.topic(stream)
    log.check_append_time(topic)
    present = Origins(store, stream).at(topic, log)
    master = Master(store, stream)
    check_log(stream, topic, present, master.longest_chain(), log)
    back_to: Callable[[Interval], bool] = lambda interval: interval.t_ms <= t_ms  # noqa: E731
    recorded = master.recorded_cuts(latest_ms(project), back_to, identity=present.identity)
    index = TimeIndex(log, topic, settings.tick_ms, settings.settle_ms, store.clock)
    for partition, record in index.stamped_later_than_now().items():
        logger.warning(
            "stream %s partition %s: offset %s is stamped %s, which is later than now; cuts pass"
            " it by, or wait for it a tick at most",
            stream.name,
            partition,
            record.offset,
            format_time(record.stamp),
        )
    have = chain_end(newest_of(master.chain(), present.identity), present.start)
    if t_ms in recorded:
        boundary = recorded[t_ms]
    else:
        before = max((t for t in recorded if t < t_ms), default=None)
        floor = recorded[before] if before is not None else present.start
        boundary = index.cut(t_ms, floor, accept_clock=accept_clock)
    bound = effective_cut(t_ms, boundary, recorded)
    # The cut is never below what is ingested or where the log began. A partition that was added
    # after a cut was recorded begins at 0.
    partitions = topic.partitions if t_ms not in recorded else sorted(bound)
    return {p: max(bound.get(p, 0), have.get(p, 0)) for p in partitions}, present.identity


def check_ends_at(stream: Stream, end: Cut, cut: Cut) -> None:
    """Checks that the master dataset ends at the cut.

    It does not if another run, which had found another cut for the same T, has ingested in between.
    A partition without ingested records may be missing in either.

    Raises:
        CoverageError: It does not.
    """
    if {p: offset for p, offset in end.items() if offset} != {
        p: offset for p, offset in cut.items() if offset
    }:
        raise CoverageError(
            f"stream {stream.name!r}: the master dataset ends at {dict(end)} instead of the cut"
            f" {dict(cut)}; nothing was published; run `trilayer batch run`"
        )


def find_run(store: Store, token: int | None = None, until_ms: int | None = None) -> Run:
    """The run that a separate step continues.

    It is the run of `token`, or the one that the last `cut` began.

    Raises:
        ConflictError: A later run than that of `token` has taken over.
        UsageError: The run's T is not `until_ms`.
    """
    if token is not None:
        Fence(store).check(token)
    token = Fence(store).newest()
    run = Runs(store).begun(token) if token else None
    if run is None:
        raise UsageError(
            "a step must follow a cut; there is no run to go on with; run `trilayer batch cut`"
            " first"
        )
    if until_ms is not None and run.t_ms != until_ms:
        raise UsageError(
            f"--until must be the T of the newest cut, {run.t}; got {format_time(until_ms)}; run"
            " `trilayer batch cut` for it"
        )
    return run
