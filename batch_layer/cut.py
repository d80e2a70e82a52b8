"""Step 1, cut: decides where the log is cut at T, and takes the run's token."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trilayer.catalog import Catalog
from trilayer.continuity import check_log
from trilayer.cut import check_tick, cut_from_json, effective_cut, format_time, latest_tick
from trilayer.errors import UsageError
from trilayer.log import Log, now_ms, origin
from trilayer.master import chain_end, longest_chain, of_origin, read_chain, recorded_cuts
from trilayer.publication import check_token, in_force, newest_token, take_token
from trilayer.settings import Settings
from trilayer.store import Store
from trilayer.stream import Stream

logger = logging.getLogger("trilayer.batch")


@dataclass(frozen=True)
class Run:
    """One batch run: its token, T, and the cut of each stream. full: recompute from the whole master dataset.

    topic_ids: identity of each stream's origin, in which its cut counts.
    """

    token: int
    t_ms: int
    full: bool
    cuts: Mapping[str, Mapping[int, int]]
    topic_ids: Mapping[str, str]

    @property
    def t(self) -> str:
        return format_time(self.t_ms)

    @property
    def folder(self) -> str:
        return f"runs/{self.token:08d}"

    def path(self, step: str) -> str:
        return f"{self.folder}/{step}.json"

    @staticmethod
    def of(document: dict[str, Any]) -> Run:
        return Run(
            **(document | {"cuts": {name: cut_from_json(cut) for name, cut in document["cuts"].items()}})
        )


def cut(catalog: Catalog, settings: Settings, store: Store, t_ms: int, full: bool) -> Run:
    """The cut of every stream at T, which `choose_t` has found. Takes the run's token, which fences off every run before it.

    Raises LogError, before anything is written, if a log no longer holds what was ingested of it.
    """
    with Log(settings.bootstrap_servers) as log:
        streams = {stream.name: _cut_of(stream, t_ms, log, store) for stream in catalog.streams}
    token = take_token(store, f"batch run until {format_time(t_ms)}")
    cuts = {name: found for name, (found, _) in streams.items()}
    run = Run(token, t_ms, full, cuts, {name: topic_id for name, (_, topic_id) in streams.items()})
    store.write_document(run.path("cut"), dict(vars(run)))
    for name, found in cuts.items():
        logger.info("cut %s at T=%s: %s", name, run.t, ", ".join(f"{p}:{o}" for p, o in found.items()))
    return run


def choose_t(
    catalog: Catalog, settings: Settings, store: Store, until_ms: int | None, *, at_least: bool = False
) -> int:
    """T: until_ms, or the newest settled tick, or a later cut that a killed run has left. Waits until a T that has passed is settled.

    at_least: where events after until_ms have been ingested already, T is the newest cut; nothing goes back.
    Raises UsageError for a T off the grid, in the future, or before what has been ingested or published.
    """
    settle_ms = round(settings.settle_s * 1000)
    floor = _floor(store, {stream.name: recorded_cuts(store, stream) for stream in catalog.streams})
    if until_ms is None:
        return max(latest_tick(now_ms(), settings.tick_ms, settle_ms), floor)
    if until_ms <= now_ms():
        threading.Event().wait(max(until_ms + settle_ms - now_ms(), 0) / 1000)
    check_tick(until_ms, now_ms(), settings.tick_ms, settle_ms)
    if until_ms < floor and not at_least:
        raise UsageError(
            f"T must not lie before {format_time(floor)}, up to which events have been ingested; got {format_time(until_ms)};"
            " `trilayer batch rollback` goes back to an earlier publication"
        )
    return max(until_ms, floor)


def _floor(store: Store, recorded: Mapping[str, Mapping[int, Any]]) -> int:
    published = in_force(store)
    ingested = [t_ms for cuts in recorded.values() for t_ms in cuts]
    return max([*ingested, published.t_ms if published else 0], default=0)


def _cut_of(stream: Stream, t_ms: int, log: Log, store: Store) -> tuple[dict[int, int], str]:
    topic = log.topic(stream)
    log.check_append_time(topic)
    present = origin(store, stream, topic, log)
    check_log(stream, topic, present, longest_chain(store, stream), log)
    recorded = recorded_cuts(store, stream, present.identity)
    bound = effective_cut(t_ms, log.cut(topic, t_ms), recorded)
    have = chain_end(of_origin(read_chain(store, stream), present.identity), present.start)
    # Never below what is ingested, nor below where the log began; a partition that was added since a recorded cut begins at 0.
    partitions = topic.partitions if t_ms not in recorded else sorted(bound)
    return {p: max(bound.get(p, 0), have.get(p, 0)) for p in partitions}, present.identity


def find_run(store: Store, token: int | None = None, until_ms: int | None = None) -> Run:
    """The run that a step on its own goes on with: that of `token`, or the one that the last `cut` began.

    Raises ConflictError where a later run has taken over from `token`, UsageError where the run is not for `until_ms`.
    """
    if token is not None:
        check_token(store, token)
    token = newest_token(store)
    path = f"runs/{token:08d}/cut.json"
    if not token or not store.exists(path):
        raise UsageError(
            "a step must follow a cut; there is no run to go on with; run `trilayer batch cut` first"
        )
    run = Run.of(store.read_document(path))
    if until_ms is not None and run.t_ms != until_ms:
        raise UsageError(
            f"--until must be the T of the newest cut, {run.t}; got {format_time(until_ms)}; run `trilayer batch cut` for it"
        )
    return run
