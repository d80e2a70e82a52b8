"""The content of a version, all batch views as of one T: `publications/00000012.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from trilayer_core.definitions.alerts import Alert
from trilayer_core.definitions.view import View
from trilayer_core.errors import UsageError, there_are
from trilayer_core.seam import Cut, format_time
from trilayer_core.store import layout
from trilayer_core.store.documents import ABSENT_IF_NONE, NO_OTHER_FIELDS, OriginId, RuledOut
from trilayer_core.store.files import StoredFile
from trilayer_core.store.runs import JudgedFrom, ReconciledAlert, ReconciledView


@dataclass(frozen=True)
class PublishedStream:
    """The part of a publication about one stream.

    Attributes:
        origin_id: The identity of the origin in which the cut counts.
        fingerprint: The stream's fingerprint.
        cut: The cut.
        events: The number of records below the cut, including quarantined ones but not lost ones.
        quarantined: The number of records that do not fit their schema.
        lost: The number of records that retention deleted.
        newest_ruled_out: The number of the newest generation of the speed layer that is known to
            have read records which the log had lost when it was ingested; 0 if there was none.
            Generations up to it are not merged with the publication.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    origin_id: OriginId
    fingerprint: str
    cut: Cut
    events: int
    quarantined: int
    lost: int
    newest_ruled_out: RuledOut = 0


@dataclass(frozen=True)
class PublishedView:
    """The part of a publication about one view: the files whose partials, merged, are the view.

    `changed_keys` is the number of keys that events since the base have touched.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    fingerprint: str
    files: Sequence[StoredFile]
    changed_keys: int = 0

    @property
    def rows(self) -> int:
        """The number of rows in all files."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class PublishedAlert:
    """The part of a publication about one alert: the files whose rows are its alerts.

    Attributes:
        fingerprint: The alert's fingerprint.
        files: The files, without overlaps.
        judged: For an alert with a profile, the generations by whose profiles the events were
            evaluated, oldest first; None for other alerts. Events before all of them were evaluated
            by profiles that are no longer kept, or came before the alert was watched.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    fingerprint: str
    files: Sequence[StoredFile]
    judged: Annotated[Sequence[JudgedFrom] | None, ABSENT_IF_NONE] = None


@dataclass(frozen=True)
class PublishedMemory:
    """The part of a publication about one group of alerts: what is remembered of each key.

    Attributes:
        fingerprint: The group's `memory_fingerprint`.
        files: The files. The newest events of a key are the newest ones in all files.
        scattered: The number of keys whose events are in more than one partition.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    fingerprint: str
    files: Sequence[StoredFile]
    scattered: int = 0


Artefact = PublishedView | PublishedAlert | PublishedMemory
"""What a run has computed and published, with a fingerprint of its definition and its files."""


@dataclass(frozen=True)
class Publication:
    """All batch views as of one T.

    Attributes:
        version: Its number.
        token: The token of the run that made it.
        t_ms: T, in ms since 1970.
        kind: incremental or full.
        base: The version in force when the run began; None only before the first publication.
        streams: What lies below the cut of each stream.
        views: The files of each view.
        reconciliation: The comparison of both layers for each view; empty if that step was left
            out.
        created_ms: When it was written, in ms since 1970.
        tables: The digest of each reference table with which the views were computed; None if there
            were none.
        alerts: The alerts that events below the cut have raised, by alert; None if the catalog had
            none.
        memories: The newest events of each key below the cut, by group of alerts; None if no rule
            needs events before an event.
        alert_reconciliation: The comparison of the alerts that were sent with those of the batch
            layer, by alert; None if the catalog had none.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    version: int
    t_ms: int
    token: int
    kind: str
    base: int | None
    created_ms: int
    streams: Mapping[str, PublishedStream]
    views: Mapping[str, PublishedView]
    reconciliation: Mapping[str, ReconciledView]
    tables: Annotated[Mapping[str, str] | None, ABSENT_IF_NONE] = None
    alerts: Annotated[Mapping[str, PublishedAlert] | None, ABSENT_IF_NONE] = None
    memories: Annotated[Mapping[str, PublishedMemory] | None, ABSENT_IF_NONE] = None
    alert_reconciliation: Annotated[Mapping[str, ReconciledAlert] | None, ABSENT_IF_NONE] = None

    @property
    def t(self) -> str:
        """T as text."""
        return format_time(self.t_ms)

    @property
    def artefacts(self) -> dict[str, Artefact]:
        """All that it contains, by the names under which files are stored: views, alerts, memories.

        The document has them apart.
        """
        alerts = {layout.alert_files(name): alert for name, alert in (self.alerts or {}).items()}
        memories = {layout.memory_files(group): m for group, m in (self.memories or {}).items()}
        return {**self.views, **alerts, **memories}

    @property
    def files(self) -> list[StoredFile]:
        """The files of all artefacts."""
        return [file for artefact in self.artefacts.values() for file in artefact.files]

    def has(self, view: View) -> bool:
        """Whether it has all that is stored of the view, with the present definition."""
        return all(
            stored.name in self.views and self.views[stored.name].fingerprint == stored.fingerprint
            for stored in view.stored
        )

    def alert(self, alert: Alert) -> PublishedAlert | None:
        """What it has of an alert; None if it lacks the alert's present definition."""
        published = (self.alerts or {}).get(alert.name)
        return published if published and published.fingerprint == alert.fingerprint else None


def choose_version(kept: Sequence[Publication], version: int) -> Publication:
    """The version with a number. Raises UsageError if it is not among `kept`."""
    for publication in kept:
        if publication.version == version:
            return publication
    there = (
        there_are([p.version for p in kept])
        if kept
        else "there is none yet; run `trilayer batch run`"
    )
    raise UsageError(f"version must be one that is kept; got {version}; {there}")


def oldest_cut(
    kept: Iterable[Publication], stream: str, identity: str, start: Cut | None = None
) -> dict[int, int]:
    """The lowest cut of a stream, per partition, to which a rollback could go back.

    Args:
        kept: The versions that are kept.
        stream: The stream's name.
        identity: The identity of the origin in which the cuts count.
        start: Where the log begins to count, which applies to partitions that a version lacks; 0 by
            default.
    """
    start = start or {}
    of_stream = [p.streams[stream] for p in kept if stream in p.streams]
    cuts = [published.cut for published in of_stream if published.origin_id == identity]
    partitions = {partition for cut in cuts for partition in cut}
    return dict(start) | {p: min(cut.get(p, start.get(p, 0)) for cut in cuts) for p in partitions}
