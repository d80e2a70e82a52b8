"""The status of a project: its publication, streams, views and processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import serving_layer
from serving_layer import Provenance, Snapshot, StreamProvenance
from trilayer.operations.changelog import ChangelogState
from trilayer_core.compute.merging import quoted_duckdb
from trilayer_core.definitions.changelogs import Changelog
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError
from trilayer_core.extension import extensions
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.seam import Cut, format_time, parse_time
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGenerations, AlertState
from trilayer_core.store.generations import Generations
from trilayer_core.store.last_check import LastChecks
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import Fault

# The fields of these classes are those of `trilayer status --json`, which docs/operations.md
# describes.


STALLED_S = 60
"""How long a real-time batch may be overdue, beside a second one, in seconds."""


@dataclass(frozen=True)
class HeldStatus:
    """Who holds the version in force, why and since when; None if nobody does."""

    who: str
    why: str
    since: str


@dataclass(frozen=True)
class PublicationStatus:
    """The publication in force.

    Attributes:
        version: Its version.
        t: Its T.
        kind: incremental or full.
        lag_s: The time since its T, or since a later T at which a run has found nothing new.
        late: Whether batch runs lag by more than the setting `late_after` allows, or T is later
            than now.
        ahead: Whether that T is later than now.
        uncovered_s: The age of the oldest event after the cut; None if no broker answers.
        looked_t: The T up to which a run has found nothing new, if there was one.
        held: Who holds the version, if anyone does.
    """

    version: int
    t: str
    kind: str | None
    lag_s: float
    late: bool
    ahead: bool
    uncovered_s: float | None
    looked_t: str | None
    held: HeldStatus | None


@dataclass(frozen=True)
class CompactionStatus:
    """Since when and why a stream's commits can't be compacted."""

    since: str
    reason: str


@dataclass(frozen=True)
class StreamStatus:
    """One stream.

    Attributes:
        head: The offset up to which answers reach.
        cut: The batch layer's share lies below it.
        end: The end of the log. If no broker answers, this and everything else that a broker knows
            is None.
        generation: The speed layer's generation, if there is one.
        lag_events: The number of events between head and end.
        lag_s: The age of the oldest of them.
        batch_events: The number of events below the cut, without those that were lost.
        speed_events: The number of events between cut and head.
        quarantined: The number of those that do not fit the schema.
        quarantined_in_all: The number of events below the head that do not fit the schema.
        note: An explanation of the head, if one is needed.
        ahead: Partition, offset and stamp of records that are stamped later than now.
        compaction: Why commits can't be compacted, if so.
    """

    head: Cut
    cut: Cut
    end: Cut | None
    generation: str | None
    lag_events: int | None
    lag_s: float | None
    batch_events: int
    speed_events: int
    quarantined: int
    quarantined_in_all: int
    note: str
    ahead: list[tuple[int, int, str]] | None
    compaction: CompactionStatus | None


@dataclass(frozen=True)
class ViewStatus:
    """One view. Without an answer it has no rows and no publication, and a note with the reason.

    Attributes:
        stream: The stream at the root of its source.
        rows: The number of its rows.
        publication: The version on which its answer is based.
        note: Why it has no answer.
        approximate: Its approximate columns, with how far they may be off, in words.
    """

    stream: str
    rows: int | None
    publication: int | None
    note: str
    approximate: Mapping[str, str]


@dataclass(frozen=True)
class ChangelogStatus:
    """One changelog. Before its writer has run it has no rows, and nothing else is known.

    Attributes:
        topic: The topic.
        view: The view.
        rows: The number of rows that the topic held when its writer last said so.
        behind: The number of events that answers count now and the topic did not then.
        at: When that was.
        note: Why it stands still, if it does.
    """

    topic: str
    view: str
    rows: int | None
    behind: int | None
    at: str | None
    note: str


@dataclass(frozen=True)
class AlertStatus:
    """One alert. Before its process has run, nothing but its topic is known.

    Attributes:
        stream: Its stream.
        topic: The topic to which it is sent.
        generation: The number of the generation of its query.
        since: When that began.
        why: Why it began, and which earlier events it knows.
        version: The publication whose newest events of each key it knows.
        profile: The publication whose answer it compares events with, if it has a profile.
        keys: The number of keys in the query's state at the end of its last real-time batch. It
            begins again with each generation.
        judged: The offsets below which all events had been evaluated then.
        judged_at: When that was.
        scattered: The number of keys with events in several partitions. Their rules look at the
            events of one partition only.
        note: What is wrong, if something is.
    """

    stream: str
    topic: str
    generation: int | None
    since: str | None
    why: str
    version: int | None
    profile: int | None
    keys: int | None
    judged: Cut | None
    judged_at: str | None
    scattered: int
    note: str


@dataclass(frozen=True)
class Status:
    """The whole project.

    Attributes:
        publication: The publication in force; None before the first.
        streams: The streams, by name.
        views: The views, by name.
        changelogs: The changelogs, by name.
        alerts: The alerts, by name.
        processes: The processes of the local stack that run.
        airflow: Airflow of the local stack; None if it does not run.
        speed_note: Says that the speed layer does not run while the local stack does.
        extensions: What other extensions report, by the names of their sections.
    """

    publication: PublicationStatus | None
    streams: Mapping[str, StreamStatus]
    views: Mapping[str, ViewStatus]
    changelogs: Mapping[str, ChangelogStatus]
    alerts: Mapping[str, AlertStatus]
    processes: list[Any]
    airflow: Any
    speed_note: str
    extensions: Mapping[str, Any]


def project_status(p: Project) -> Status:
    """Returns the present status of the project."""
    with serving_layer.connect(p.catalog, p.settings, p.store, keep=False) as connection:
        provenance = connection.provenance()
        with connection.snapshot() as snapshot:
            views = {view.name: _view(view, snapshot, provenance) for view in p.catalog.views}
    return status_of(p, provenance, views, explained=True)


def status_of(
    p: Project,
    provenance: Provenance,
    views: Mapping[str, ViewStatus],
    *,
    explained: bool = False,
) -> Status:
    """Returns the present status of the project, of whose views the caller knows the status.

    Args:
        p: The project.
        provenance: What answers are based on, with the lag if it is known.
        views: The status of each view.
        explained: Whether extensions explain why the batch layer is late, which takes a while.
    """
    publication = _publication(p, provenance)
    late = explained and (publication is None or publication.late)
    sections: dict[str, Any] = {}
    for extension in extensions().values():
        sections |= extension.status(p, late=late)
    running = sections.pop("processes", [])
    return Status(
        publication=publication,
        streams={name: _stream(p, name, at) for name, at in provenance.streams.items()},
        views=views,
        changelogs={
            changelog.name: _changelog(p, changelog, provenance)
            for changelog in p.catalog.changelogs
        },
        alerts=_alerts(p, running),
        processes=running,
        airflow=sections.pop("airflow", None),
        speed_note=sections.pop("speed_note", ""),
        extensions=sections,
    )


def _changelog(p: Project, changelog: Changelog, provenance: Provenance) -> ChangelogStatus:
    topic, view, path = changelog.topic, changelog.view, layout.changelog_state(changelog.name)
    if not p.store.exists(path):
        return ChangelogStatus(topic, view.name, None, None, None, "not written yet")
    state = p.store.read_document(path, ChangelogState)
    head = provenance.streams[view.stream.name].head
    behind = sum(max(end - state.head.get(place, 0), 0) for place, end in head.items())
    at = format_time(state.at_ms)
    return ChangelogStatus(topic, view.name, state.rows, behind, at, state.note)


def _alerts(p: Project, running: Sequence[Any]) -> dict[str, AlertStatus]:
    alerts_process = next((process for process in running if process.name == "alerts"), None)
    not_running = "their process is not running" if running and alerts_process is None else ""
    started_ms = parse_time(alerts_process.started_at) if alerts_process else None
    published = Publications(p.store).in_force()
    memories = (published.memories if published else None) or {}
    alerts: dict[str, AlertStatus] = {}
    for group in p.catalog.alert_groups:
        generation, state = AlertGenerations(p.store, group).newest(), None
        if p.store.exists(path := layout.alert_state(group.name)):
            state = p.store.read_document(path, AlertState)
        memory = memories.get(group.name)
        fault = _query_fault(p, layout.alerts_fault(group.name))
        for alert in group.alerts:
            current = generation if generation and alert.name in generation.alerts else None
            note = not_running or fault or ("" if current else "no event has been judged yet")
            if current and current.alerts[alert.name] != alert.fingerprint and not fault:
                note = "the rule has changed since; the process of alerts must be started again"
            profile = (
                current.profiles.get(alert.profile.name) if current and alert.profile else None
            )
            of_it = state if state and current and state.generation == current.number else None
            if of_it and started_ms and not note:
                note = stalled(of_it, started_ms, now_ms(), p.settings.alerts.boundary_s)
            alerts[alert.name] = AlertStatus(
                stream=alert.source.name,
                topic=alert.topic,
                generation=current.number if current else None,
                since=_moment(current.created_ms) if current else None,
                why=current.why if current else "",
                version=current.version if current else None,
                profile=profile.version if profile else None,
                keys=of_it.keys if of_it else None,
                judged=of_it.judged if of_it else None,
                judged_at=_moment(of_it.at_ms) if of_it else None,
                scattered=memory.scattered if memory else 0,
                note=note,
            )
    return dict(sorted(alerts.items()))


def stalled(state: AlertState, started_ms: int, at_ms: int, boundary_s: int) -> str:
    """What to say about a query whose real-time batches don't end any more; empty if they do.

    Args:
        state: What it has noted at the end of its last batch.
        started_ms: When its process was started, in ms since 1970.
        at_ms: The present time, in ms since 1970.
        boundary_s: The length of a batch, in seconds.
    """
    if at_ms - max(state.at_ms, started_ms) <= (2 * boundary_s + STALLED_S) * 1000:
        return ""
    return (
        f"no real-time batch has ended since {_moment(state.at_ms)}, although each should take"
        f" {boundary_s} s; see the log of the process of alerts"
    )


def _moment(at_ms: int) -> str:
    return format_time(at_ms // 1000 * 1000)


def _view(view: View, snapshot: Snapshot, provenance: Provenance) -> ViewStatus:
    try:
        counted = snapshot.sql(f"SELECT count(*) FROM {quoted_duckdb(view.name)}")
    except CoverageError as error:
        return ViewStatus(view.stream.name, None, None, str(error), view.approximate)
    rows = counted.rows()[0][0]
    return ViewStatus(view.stream.name, rows, provenance.version, "", view.approximate)


def _stream(p: Project, name: str, at: StreamProvenance) -> StreamStatus:
    lag, fault = at.lag, Generations(p.store, p.catalog.stream(name)).compaction_fault()
    return StreamStatus(
        head=at.head,
        cut=at.cut,
        end=lag.end if lag else None,
        generation=at.generation,
        lag_events=lag.events if lag else None,
        lag_s=lag.seconds if lag else None,
        batch_events=at.batch_events,
        speed_events=at.speed_events,
        quarantined=at.quarantined,
        quarantined_in_all=at.quarantined_in_all,
        note=" ".join(filter(None, [at.note, _query_fault(p, layout.stream_fault(name))])),
        ahead=[
            (partition, record.offset, format_time(record.stamp))
            for partition, record in lag.ahead.items()
        ]
        if lag
        else None,
        compaction=CompactionStatus(format_time(fault.since_ms), fault.reason) if fault else None,
    )


def _query_fault(p: Project, path: str) -> str:
    """Since when and why a query fails, by the document at a path; empty if it does not."""
    if not p.store.exists(path):
        return ""
    fault = p.store.read_document(path, Fault)
    return f"its query has failed since {format_time(fault.since_ms)}: {fault.reason}"


def _publication(p: Project, provenance: Provenance) -> PublicationStatus | None:
    if not (provenance.version and provenance.t):
        return None
    published = Publications(p.store).in_force()
    last_check = LastChecks(p.store).last(published) if published else None
    lag_s = (now_ms() - max(parse_time(provenance.t), last_check.t_ms if last_check else 0)) / 1000
    ahead = lag_s < -p.settings.settle_s
    ages = [stream.lag.since_cut for stream in provenance.streams.values() if stream.lag]
    uncovered_s = max(ages, default=None)
    by = PointerFile(p.store).held()
    return PublicationStatus(
        version=provenance.version,
        t=provenance.t,
        kind=provenance.kind,
        lag_s=round(max(lag_s, 0), 1),
        # T can advance while the cut stays the same.
        late=ahead or max(lag_s, uncovered_s or 0) > p.settings.late_after_s,
        ahead=ahead,
        uncovered_s=None if uncovered_s is None else round(uncovered_s, 1),
        looked_t=format_time(last_check.t_ms) if last_check else None,
        held=HeldStatus(by.who, by.why, format_time(by.since_ms // 1000 * 1000)) if by else None,
    )
