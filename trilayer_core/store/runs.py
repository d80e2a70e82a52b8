"""What a batch run writes into its folder, step by step, so that each step can be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from trilayer_core.seam import Cut, format_time
from trilayer_core.store import layout
from trilayer_core.store.documents import ABSENT_IF_EMPTY, ABSENT_IF_NONE, NO_OTHER_FIELDS
from trilayer_core.store.files import Store, StoredFile


@dataclass(frozen=True)
class Run:
    """One batch run, as its step `cut` has begun it.

    Attributes:
        token: Its token. Only the newest token may publish.
        t_ms: T, in ms since 1970.
        full: Whether everything is recomputed from the whole master dataset.
        cuts: The cut of each stream at T.
        origin_ids: The identity of the origin in which each stream's cut counts.
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    token: int
    t_ms: int
    full: bool
    cuts: Mapping[str, Cut]
    origin_ids: Annotated[Mapping[str, str], Field(alias="topic_ids")]

    @property
    def t(self) -> str:
        """T as text."""
        return format_time(self.t_ms)

    def path(self, step: str) -> str:
        """The path of a step's document."""
        return layout.step(self.token, step)


class Runs:
    """The folders of a store's batch runs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def tokens(self) -> list[int]:
        """The tokens of the runs that have a folder, in order; other folders are passed over."""
        return [int(name) for name in self._store.names(layout.RUNS) if name.isdecimal()]

    def begun(self, token: int) -> Run | None:
        """The run with this token; None if its step `cut` has not recorded it.

        Raises:
            IntegrityError: Its document is damaged.
        """
        return self._store.find_document(layout.step(token, "cut"), Run)

    def ingest_notes(self, newest: int) -> list[str]:
        """The paths of the notes that `ingest` left in the runs up to the token `newest`."""
        return [
            f"{layout.run(token)}/{name}"
            for token in self.tokens()
            if token <= newest
            for name in self._store.names(layout.run(token))
            if name.startswith("ingest-")
        ]


@dataclass(frozen=True)
class IngestAttempt:
    """A note that an attempt to ingest a stream has begun, in ms since 1970."""

    began_ms: int


@dataclass(frozen=True)
class JudgedFrom:
    """From where on a generation of the alerts' process decides the profile of an event.

    Attributes:
        generation: The number of the generation.
        alert_from: The offsets, in the generation's origin. An event below the cut of the
            publication that was in force when the batch layer first saw the generation has been
            evaluated before, by an earlier one. That evaluation stays.
    """

    generation: int
    alert_from: Cut


@dataclass(frozen=True)
class RecomputedAlert:
    """What step `recompute` has made of an alert.

    Attributes:
        kind: incremental or full.
        files: The files of all alerts.
        added: Those of the events in the new intervals; None if they are not in files of their own.
        judged: As in `PublishedAlert`.
    """

    kind: str
    files: Sequence[StoredFile]
    added: Sequence[StoredFile] | None
    judged: Sequence[JudgedFrom] | None = None


@dataclass(frozen=True)
class RecomputedMemory:
    """What step `recompute` has made of the newest events of each key of a group of alerts.

    Attributes:
        files: The files.
        scattered: The number of keys whose events are in more than one partition.
    """

    files: Sequence[StoredFile]
    scattered: int


@dataclass(frozen=True)
class Recomputed:
    """The result of a run's step `recompute`.

    Attributes:
        base: The publication in force from which the run started; None if there was none.
        definitions: The fingerprint with which each view, `alert.NAME` and `memory.GROUP` was
            computed.
        kinds: incremental or full, for each stream.
        views: The files of each new batch view.
        added: The files of each view with what the intervals since the base have added.
        alerts: The alerts, by name.
        memories: The newest events of each key, by group of alerts.
    """

    base: int | None
    definitions: Mapping[str, str]
    kinds: Mapping[str, str]
    views: Mapping[str, Sequence[StoredFile]]
    added: Mapping[str, Sequence[StoredFile]]
    alerts: Annotated[Mapping[str, RecomputedAlert], ABSENT_IF_EMPTY] = field(default_factory=dict)
    memories: Annotated[Mapping[str, RecomputedMemory], ABSENT_IF_EMPTY] = field(
        default_factory=dict
    )

    @property
    def changed_keys(self) -> dict[str, int]:
        """The number of keys of each view that the events since the base have touched.

        Without a base these are all keys.
        """
        return {
            name: sum(f.rows for f in self.added.get(name, files))
            for name, files in self.views.items()
        }


@dataclass(frozen=True)
class KeyCounts:
    """How many keys two computations of a view agree on.

    Attributes:
        match: The number of keys with the same result. It is None, as all other counts are, if
            nothing was compared.
        differ: The number of keys with different results.
        missing: The number of keys that only the batch layer has.
        extra: The number of keys that only the speed layer has.
    """

    match: Annotated[int | None, ABSENT_IF_NONE] = None
    differ: Annotated[int | None, ABSENT_IF_NONE] = None
    missing: Annotated[int | None, ABSENT_IF_NONE] = None
    extra: Annotated[int | None, ABSENT_IF_NONE] = None

    @property
    def different(self) -> int:
        """The number of keys for which the layers do not agree."""
        return (self.differ or 0) + (self.missing or 0) + (self.extra or 0)

    @property
    def counts(self) -> str:
        """The counts, for a message."""
        names = ("match", "differ", "missing", "extra")
        return ", ".join(f"{name} {getattr(self, name) or 0:,}" for name in names)


@dataclass(frozen=True)
class ReconciledView(KeyCounts):
    """The comparison of what both layers computed for a view from the same events.

    Attributes:
        keys: The first keys that do not match, with their states, as text.
        file: The file with every key and both answers. Older comparisons have none.
        not_compared: Why there is nothing to compare.
        changed: After a full run, the number of keys in which it differs from what an incremental
            run would have published.
        changed_keys: The first of these keys, as in `keys`.
    """

    keys: Annotated[Sequence[Mapping[str, str]] | None, ABSENT_IF_NONE] = None
    file: Annotated[StoredFile | None, ABSENT_IF_NONE] = None
    not_compared: Annotated[str | None, ABSENT_IF_NONE] = None
    changed: Annotated[int | None, ABSENT_IF_NONE] = None
    changed_keys: Annotated[Sequence[Mapping[str, str]] | None, ABSENT_IF_NONE] = None


@dataclass(frozen=True)
class ReconciledAlert:
    """The comparison of the alerts that were sent for some events with those of the batch layer.

    Attributes:
        confirmed: The number of alerts that were sent and are in the batch's set. It is None, as
            all other counts are, if `not_compared` is set.
        withdrawn: The number of alerts that were sent and are not in the batch's set.
        added: The number of alerts that are in the batch's set and were not sent.
        differ: The number of confirmed alerts that were sent with other content than the batch's.
        unexplained: The number of alerts that were withdrawn or differ for no known reason.
        why: How many alerts were withdrawn, were added or differ, by state and reason.
        examples: The first of these, as text.
        not_compared: Why there is nothing to compare.
        changed: After a full run, the number of alerts below the cut of the publication in force
            in which the full run's set differs from that publication's.
    """

    confirmed: Annotated[int | None, ABSENT_IF_NONE] = None
    withdrawn: Annotated[int | None, ABSENT_IF_NONE] = None
    added: Annotated[int | None, ABSENT_IF_NONE] = None
    differ: Annotated[int | None, ABSENT_IF_NONE] = None
    unexplained: Annotated[int | None, ABSENT_IF_NONE] = None
    why: Annotated[Mapping[str, int] | None, ABSENT_IF_NONE] = None
    examples: Annotated[Sequence[Mapping[str, str]] | None, ABSENT_IF_NONE] = None
    not_compared: Annotated[str | None, ABSENT_IF_NONE] = None
    changed: Annotated[int | None, ABSENT_IF_NONE] = None

    @property
    def different(self) -> int:
        """The number of alerts for which the layers do not agree, and for no known reason."""
        return self.unexplained or 0


@dataclass(frozen=True)
class Reconciliation:
    """The result of the step `reconcile`, by view and by alert."""

    views: Mapping[str, ReconciledView]
    alerts: Annotated[Mapping[str, ReconciledAlert], ABSENT_IF_EMPTY] = field(default_factory=dict)
