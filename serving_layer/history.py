"""The history in the store, as tables.

This covers the publications kept, what was reconciled for them, and what the speed layer has
committed since the oldest. Nothing of it is loaded into a connection's tables; it is read from the
store on request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from serving_layer.result import RowSet
from trilayer_core.definitions.stream import Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError, UsageError
from trilayer_core.seam import Cut, format_time
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.last_check import LastCheck, LastChecks
from trilayer_core.store.origins import origin_number
from trilayer_core.store.publication import Publication, choose_version
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import KeyCounts, ReconciledView
from trilayer_core.store.segments import Commit, Segment


@dataclass(frozen=True)
class StreamShare:
    """A stream's share in a publication: what lies below the cut.

    Attributes:
        cut: The cut.
        origin: The number of the origin in which the cut counts: 1, and one more for each accepted
            loss.
        events: The number of records, including quarantined ones but not lost ones.
        quarantined: The number of records that do not fit their schema.
        lost: The number of records that retention deleted.
    """

    cut: Cut
    events: int
    quarantined: int
    lost: int
    origin: int = 1


@dataclass(frozen=True)
class Reconciled(KeyCounts):
    """The comparison of both layers for one view, over the events added to the base.

    Attributes:
        not_compared: Why there is nothing to compare; the counts are then None.
    """

    not_compared: str | None = None


@dataclass(frozen=True)
class Version:
    """A publication that is kept, with the names of `trilayer batch history --json`.

    Attributes:
        version: Its number.
        t: Its T, as ISO 8601 in UTC.
        published_at: When it was written, as ISO 8601 in UTC.
        kind: incremental or full.
        base: The version from which it was computed.
        in_force: Whether it is in force.
        published: Whether it is or has been in force. False if its run was killed or overtaken
            before it could publish it.
        events: The number of events of all streams.
        quarantined: The number of quarantined events of all streams.
        lost: The number of lost events of all streams.
        differing_keys: The number of differing keys of all views; None if none was compared.
        views: The number of rows of each batch view, before its files are merged.
        changed_keys: The number of keys of each view that events since the base have touched.
        corrected_keys: The number of keys of each view in which a full run differs from what
            incremental runs had.
        streams: The details of each stream.
        reconciliation: The details of each view.
        looked_t: The latest T at which a run has found nothing new since, as ISO 8601. None if
            there was no such run, or if the last one looked at another version.
    """

    version: int
    in_force: bool
    t: str
    kind: str
    base: int | None
    published_at: str
    events: int
    quarantined: int
    lost: int
    differing_keys: int | None
    views: Mapping[str, int]
    changed_keys: Mapping[str, int]
    corrected_keys: Mapping[str, int]
    streams: Mapping[str, StreamShare]
    reconciliation: Mapping[str, Reconciled]
    published: bool = True
    looked_t: str | None = None


def history(store: Store) -> list[Version]:
    """The publications kept, oldest first."""
    publications = Publications(store)
    current, published = publications.in_force(), publications.past().by_use
    return [
        version_of(
            publication,
            current,
            publication.version in published,
            LastChecks(store).last(publication),
        )
        for publication in publications.versions()
    ]


def version_of(
    publication: Publication,
    current: Publication | None,
    published: bool = True,
    look: LastCheck | None = None,
) -> Version:
    """The `Version` of a publication.

    `current` is the one in force, `published` says whether this one has been in force, and `look`
    is the last run since that found nothing new.
    """
    streams = {
        name: StreamShare(dict(s.cut), s.events, s.quarantined, s.lost, origin_number(s.origin_id))
        for name, s in publication.streams.items()
    }
    reconciled = {
        name: _reconciled(publication.reconciliation.get(name)) for name in publication.views
    }
    compared = [
        comparison
        for name in publication.views
        if (comparison := publication.reconciliation.get(name)) and comparison.not_compared is None
    ]
    return Version(
        version=publication.version,
        in_force=current is not None and publication.version == current.version,
        t=publication.t,
        kind=publication.kind,
        base=publication.base,
        published_at=format_time(publication.created_ms // 1000 * 1000),
        events=sum(s.events for s in streams.values()),
        quarantined=sum(s.quarantined for s in streams.values()),
        lost=sum(s.lost for s in streams.values()),
        differing_keys=sum(comparison.different for comparison in compared) if compared else None,
        views={name: view.rows for name, view in publication.views.items()},
        changed_keys={name: view.changed_keys for name, view in publication.views.items()},
        corrected_keys={
            name: comparison.changed or 0
            if (comparison := publication.reconciliation.get(name))
            else 0
            for name in publication.views
        },
        streams=streams,
        reconciliation=reconciled,
        published=published,
        looked_t=look.t if look else None,
    )


def _reconciled(view: ReconciledView | None) -> Reconciled:
    if view is None:
        return Reconciled(not_compared="it was published without the step reconcile")
    return Reconciled(view.match, view.differ, view.missing, view.extra, view.not_compared)


def reconciliation(view: View, version: int | None, store: Store) -> RowSet:
    """All keys that were compared for a publication, with both answers.

    See `Connection.reconciliation`.
    """
    publication = (
        Publications(store).in_force()
        if version is None
        else choose_version(Publications(store).versions(), version)
    )
    if publication is None:
        raise UsageError(
            "a reconciliation must be of a publication; there is none yet; run `trilayer batch run`"
        )
    comparison = publication.reconciliation.get(view.name)
    why = _reconciled(comparison).not_compared
    if comparison is None or why is not None:
        raise CoverageError(
            f"view {view.name!r} was not compared for version {publication.version}: {why}"
        )
    if comparison.file is None:
        raise CoverageError(
            f"view {view.name!r} of version {publication.version} must have been compared by a run"
            f" that keeps every key; it has only counts: {comparison.counts}"
        )
    return RowSet(store.read_table(comparison.file))


SEGMENTS = pa.schema(
    [
        ("generation", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("tick", pa.timestamp("ms", "UTC")),
        ("events", pa.int64()),
        ("quarantined", pa.int64()),
        ("oldest", pa.timestamp("ms", "UTC")),
        ("newest", pa.timestamp("ms", "UTC")),
        ("committed_at", pa.timestamp("ms", "UTC")),
        ("waited_s", pa.float64()),
        (
            "ranges",
            pa.list_(
                pa.struct([("partition", pa.int32()), ("start", pa.int64()), ("end", pa.int64())])
            ),
        ),
        ("batch_version", pa.int64()),
    ]
)


def segments(stream: Stream, generation: str | None, store: Store) -> RowSet:
    """What the generation has committed, one row per segment, in order.

    See `Connection.segments`.
    """
    if generation is None:
        return RowSet(SEGMENTS.empty_table())
    generations = Generations(store, stream)
    identity = generations.read(generation).origin_id
    # Offsets of another origin can't be compared with the segments'.
    cuts = {
        publication.version: published.cut
        for publication in Publications(store).versions()
        if (published := publication.streams.get(stream.name)) and published.origin_id == identity
    }
    rows = [
        _row(commit, segment, cuts) | {"generation": generation}
        for commit in generations.commits(generation)
        for segment in commit.segments
    ]
    return RowSet(pa.Table.from_pylist(rows, SEGMENTS))


def _row(commit: Commit, segment: Segment, cuts: Mapping[int, Cut]) -> dict[str, Any]:
    below = [
        version
        for version, cut in cuts.items()
        if all(r.end <= cut.get(partition, 0) for partition, r in segment.ranges.items())
    ]
    return {
        "first": commit.first,
        "last": commit.last,
        "tick": segment.tick,
        "events": segment.events,
        "quarantined": segment.quarantined,
        "oldest": segment.oldest_ms,
        "newest": segment.newest_ms,
        "committed_at": commit.committed_ms,
        "waited_s": None if segment.waited_ms is None else segment.waited_ms / 1000,
        "ranges": [
            {"partition": partition, "start": r.start, "end": r.end}
            for partition, r in sorted(segment.ranges.items())
        ],
        "batch_version": min(below, default=None),
    }
