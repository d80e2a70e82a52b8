"""What a version holds, all batch views as of one T: `publications/00000012.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trilayer_core.errors import UsageError
from trilayer_core.seam import Cut, format_time
from trilayer_core.store.documents import NO_OTHER_FIELDS
from trilayer_core.store.files import StoredFile
from trilayer_core.store.runs import ReconciledView


@dataclass(frozen=True)
class PublishedStream:
    """What a publication holds of a stream.

    Attributes:
        topic_id: Identity of the origin in which the cut counts.
        fingerprint: Of the stream.
        cut: Partition to offset.
        events: Records below the cut, the quarantined ones included, the lost ones not.
        quarantined: Records that do not fit their schema.
        lost: Records that retention took.
        departed: Number of the newest generation of the speed layer that is known to have read
            records which the log had lost by the time it was ingested; 0 if there was none.
            Generations up to it are not merged with the publication.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    topic_id: str
    fingerprint: str
    cut: Cut
    events: int
    quarantined: int
    lost: int
    departed: int = 0


@dataclass(frozen=True)
class PublishedView:
    """A batch view: the files whose partials, merged, are the view.

    `changed_keys`: how many keys events since the base have touched.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    fingerprint: str
    files: Sequence[StoredFile]
    changed_keys: int = 0

    @property
    def rows(self) -> int:
        """Rows of all files together."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Publication:
    """All batch views as of one T.

    Attributes:
        version: Its number.
        token: Of the run that made it.
        t_ms: T, in ms since 1970.
        kind: incremental or full.
        base: The version in force when the run began; None only before the first publication.
        streams: Per stream, what lies below the cut.
        views: Per view, its files.
        reconciliation: Per view, what both layers have computed of it; empty if the step was left
            out.
        created_ms: When it was written, in ms since 1970.
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

    @property
    def t(self) -> str:
        """T as text."""
        return format_time(self.t_ms)


def choose_version(known: Sequence[Publication], version: int) -> Publication:
    """The one of that number. Raises UsageError where it is not among them."""
    for publication in known:
        if publication.version == version:
            return publication
    kept = ", ".join(str(p.version) for p in known) or "none yet; run `trilayer batch run`"
    raise UsageError(f"version must be one that is kept; got {version}; there is {kept}")


def oldest_cut(
    kept: Iterable[Publication], stream: str, identity: str, start: Cut | None = None
) -> dict[int, int]:
    """The lowest cut of a stream, partition by partition, that a rollback could come back to.

    Args:
        kept: The versions that are kept.
        stream: The stream's name.
        identity: Of the origin in which the cuts count.
        start: Where the log begins to count; 0 unless given. A partition that a version lacks is
            there.
    """
    start = start or {}
    of_stream = [p.streams[stream] for p in kept if stream in p.streams]
    cuts = [published.cut for published in of_stream if published.topic_id == identity]
    partitions = {partition for cut in cuts for partition in cut}
    return dict(start) | {p: min(cut.get(p, start.get(p, 0)) for cut in cuts) for p in partitions}
