"""What a batch run writes into its folder, step by step, so that each step can be done again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from trilayer_core.seam import Cut, format_time
from trilayer_core.store import layout
from trilayer_core.store.documents import ABSENT_IF_NONE, NO_OTHER_FIELDS
from trilayer_core.store.files import StoredFile


@dataclass(frozen=True)
class Run:
    """One batch run, as its step `cut` has begun it.

    Attributes:
        token: Only the newest token may publish.
        t_ms: T, in ms since 1970.
        full: Whether everything is recomputed from the whole master dataset.
        cuts: Stream to its cut at T.
        topic_ids: Stream to the identity of the origin in which its cut counts.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    token: int
    t_ms: int
    full: bool
    cuts: Mapping[str, Cut]
    topic_ids: Mapping[str, str]

    @property
    def t(self) -> str:
        """T as text."""
        return format_time(self.t_ms)

    def path(self, step: str) -> str:
        """The path of a step's document."""
        return layout.step(self.token, step)


@dataclass(frozen=True)
class IngestAttempt:
    """That an attempt to ingest a stream has begun, in ms since 1970."""

    began_ms: int


@dataclass(frozen=True)
class Recomputed:
    """What a run has recomputed.

    Attributes:
        base: The publication in force that the run started from; None if there was none.
        definitions: Per view, the fingerprint by which it was computed.
        kinds: Per stream, incremental or full.
        views: Per view, the files of the new batch view.
        added: Per view, the files of what the intervals since the base have added.
    """

    base: int | None
    definitions: Mapping[str, str]
    kinds: Mapping[str, str]
    views: Mapping[str, Sequence[StoredFile]]
    added: Mapping[str, Sequence[StoredFile]]

    @property
    def changed_keys(self) -> dict[str, int]:
        """Per view, how many keys the events since the base have touched.

        All of them if there is no base to go on from.
        """
        return {
            name: sum(f.rows for f in self.added.get(name, files))
            for name, files in self.views.items()
        }


@dataclass(frozen=True)
class ReconciledView:
    """What both layers have computed of a view from the very same events, compared key by key.

    Attributes:
        match: Keys of which both say the same. None, as all other counts, if `not_compared`.
        differ: Keys of which they don't.
        missing: Keys that batch alone has.
        extra: Keys that the speed layer alone has.
        keys: The first keys that do not match, in their states, as text.
        file: Every key, with both answers. Comparisons from before it was kept have none.
        not_compared: Why there is nothing to compare.
        changed: After a full run, keys in which it differs from what an incremental run would have
            published.
        changed_keys: The first of these, as `keys`.
    """

    match: Annotated[int | None, ABSENT_IF_NONE] = None
    differ: Annotated[int | None, ABSENT_IF_NONE] = None
    missing: Annotated[int | None, ABSENT_IF_NONE] = None
    extra: Annotated[int | None, ABSENT_IF_NONE] = None
    keys: Annotated[Sequence[Mapping[str, str]] | None, ABSENT_IF_NONE] = None
    file: Annotated[StoredFile | None, ABSENT_IF_NONE] = None
    not_compared: Annotated[str | None, ABSENT_IF_NONE] = None
    changed: Annotated[int | None, ABSENT_IF_NONE] = None
    changed_keys: Annotated[Sequence[Mapping[str, str]] | None, ABSENT_IF_NONE] = None

    @property
    def different(self) -> int:
        """Keys of which both layers do not say the same."""
        return (self.differ or 0) + (self.missing or 0) + (self.extra or 0)


@dataclass(frozen=True)
class Reconciliation:
    """What the step `reconcile` has found, by view."""

    views: Mapping[str, ReconciledView]
