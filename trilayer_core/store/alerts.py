"""What the store holds of alerts beside the publications: generations, and what was sent.

```
alerts/groups/GROUP/generations/00000003.json   a generation of a group's streaming query
alerts/groups/GROUP/checkpoints/00000003/       Spark's checkpoint of it
alerts/profiles/VIEW/00000012-ab12cd.parquet    a view's answer in publication 12
alerts/sent/TOPIC/current.json                  the files of alerts that were read from a topic
alerts/sent/TOPIC/000000000003-000000000007-ab12cd.parquet  one of them, see `sent_part`
```

A generation begins at the cut of a publication, which has the newest events of each key below that
cut. It evaluates the events from `alert_from` on, until the next generation does. Which profile an
event is evaluated by is thereby fixed, for both layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from trilayer_core.definitions.alerts import Alert, AlertGroup
from trilayer_core.errors import ConflictError, IntegrityError
from trilayer_core.runtime.retries import read_listed
from trilayer_core.seam import Cut
from trilayer_core.store import layout
from trilayer_core.store.documents import OriginId
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.publication import Publication, PublishedAlert, PublishedStream
from trilayer_core.store.runs import JudgedFrom

SENT_SCHEMA = pa.schema(
    [
        ("alert", pa.string()),
        ("fingerprint", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("created_at", pa.timestamp("us", "UTC")),
        ("seen_at", pa.timestamp("us", "UTC")),
        ("payload", pa.string()),
    ]
)
"""The columns of a file of alerts that were read from a topic. `created_at` is when the event was
appended to its topic, and `seen_at` when the alert was appended to that of alerts, both by the
broker's clock. An alert that was sent twice is there twice, with equal bytes.
"""


@dataclass(frozen=True)
class Profile:
    """The answer of a view in a publication, by which events are evaluated.

    Attributes:
        version: The publication.
        cut: Its cut of the view's stream.
        origin_id: The identity of the origin in which the cut counts.
        file: The file of the answer.
    """

    version: int
    cut: Cut
    origin_id: OriginId
    file: StoredFile


@dataclass(frozen=True)
class AlertGeneration:
    """A generation of a group's streaming query.

    Attributes:
        number: Its number, from 1 on.
        fingerprint: The fingerprint of the group.
        alerts: The fingerprint of each alert.
        origin_id: The identity of the origin in which offsets count.
        version: The publication whose newest events of each key it knows; None without one.
        read_from: The offsets from which on it reads. With a publication this is its cut. Without
            one, events before these offsets are not known to it.
        alert_from: The offsets from which on it evaluates. Between both it only remembers.
        memory: The files with the newest events of each key below the cut, from the publication.
            They are kept as long as the generation is the newest one.
        profiles: The profile of each view; a view that was not published yet is missing.
        why: Why it began.
        created_ms: When it began, in ms since 1970.
    """

    number: int
    fingerprint: str
    alerts: Mapping[str, str]
    origin_id: OriginId
    version: int | None
    read_from: Cut
    alert_from: Cut
    memory: Sequence[StoredFile]
    profiles: Mapping[str, Profile]
    why: str
    created_ms: int

    @property
    def files(self) -> list[StoredFile]:
        """The files that its query reads."""
        return [*self.memory, *(profile.file for profile in self.profiles.values())]


def alert_generations(
    store: Store, group: str, already_read: dict[str, AlertGeneration] | None = None
) -> list[AlertGeneration]:
    """All generations of the group with this name, oldest first.

    Args:
        store: The store.
        group: The group's name.
        already_read: The generations that were read before, by the names of their files. They are
            not read again, and those that are read are added.
    """
    folder, read = layout.alert_generations(group), {} if already_read is None else already_read

    def generation(name: str) -> AlertGeneration:
        if name not in read:
            read[name] = store.read_document(f"{folder}/{name}", AlertGeneration)
        return read[name]

    return read_listed(
        lambda: [name for name in store.names(folder) if name.endswith(".json")], generation
    )


class AlertGenerations:
    """The generations of a group's streaming query. Each document is read once.

    Args:
        store: The store.
        group: The group.
    """

    def __init__(self, store: Store, group: AlertGroup) -> None:
        self._store, self._group = store, group
        self._read: dict[str, AlertGeneration] = {}

    def all(self) -> list[AlertGeneration]:
        """All generations, oldest first."""
        return alert_generations(self._store, self._group.name, self._read)

    def newest(self) -> AlertGeneration | None:
        """The newest generation; None before the first. Only its document is read."""
        folder = layout.alert_generations(self._group.name)
        names = [name for name in self._store.names(folder) if name.endswith(".json")]
        path = f"{folder}/{names[-1]}" if names else ""
        return self._store.read_document(path, AlertGeneration) if path else None

    def of(self, alert: str, fingerprint: str) -> list[AlertGeneration]:
        """The generations that evaluate by this definition of an alert, oldest first."""
        return [one for one in self.all() if one.alerts.get(alert) == fingerprint]

    def begin(self, generation: AlertGeneration) -> None:
        """Records a generation, which exists from then on.

        Raises:
            ConflictError: Another process has just recorded one with its number.
        """
        path = layout.alert_generation(self._group.name, generation.number)
        if not self._store.create_document(path, generation):
            raise ConflictError(f"another process has just written {path}; start this again")


@dataclass(frozen=True)
class AlertState:
    """How far the query of a group has come, for `trilayer status`.

    Attributes:
        generation: The number of the generation that runs.
        judged: The offsets below which it had evaluated all events at the end of its last batch.
        keys: The number of keys in its state then.
        at_ms: When that was, in ms since 1970.
    """

    generation: int
    judged: Cut
    keys: int
    at_ms: int


def profile_of(
    generations: Sequence[AlertGeneration], origin_id: str, partition: int, offset: int
) -> AlertGeneration | None:
    """The generation by which an event is evaluated: the newest one that evaluates from there on.

    None if the event came before all of them.
    """
    own = [one for one in generations if one.origin_id == origin_id]
    return next((one for one in reversed(own) if one.alert_from.get(partition, 0) <= offset), None)


def as_judged(
    generations: Sequence[AlertGeneration], judged: Sequence[JudgedFrom] | None
) -> list[AlertGeneration]:
    """The generations by whose profiles the batch layer has evaluated, from where on it has.

    Args:
        generations: The generations of an alert as they were recorded.
        judged: What a publication says of the alert. Without it, the recorded offsets count.
    """
    if judged is None:
        return list(generations)
    offsets = {one.generation: one.alert_from for one in judged}
    return [
        replace(one, alert_from=offsets[one.number]) for one in generations if one.number in offsets
    ]


def judges_above(one: AlertGeneration, later: Sequence[AlertGeneration], cut: Cut | None) -> bool:
    """Whether a generation evaluates events at or above a cut.

    Args:
        one: The generation.
        later: Those that follow it.
        cut: The cut in the generation's origin; None if the cut is in a later origin.
    """
    if cut is None:
        return False
    following = next((other for other in later if other.origin_id == one.origin_id), None)
    if following is None:
        return True
    ends = following.alert_from
    return any(ends.get(p, 0) > cut.get(p, 0) for p in {*cut, *ends})


def needed_profiles(
    group: str, generations: Sequence[AlertGeneration], kept: Sequence[Publication]
) -> Iterator[str]:
    """The files of profiles by which events may still be evaluated.

    These are the profiles of the newest generation, and those by which a generation evaluates an
    event above the oldest kept cut. A run may begin at any version that is kept, after a rollback.
    If that does not have an alert, the run evaluates all its events.

    Args:
        group: The group's name.
        generations: Its generations, oldest first.
        kept: The versions that are kept.
    """
    if not generations:
        return
    yield from (profile.file.path for profile in generations[-1].profiles.values())
    stream = group.partition("-")[0]
    published = {(name, one.fingerprint) for p in kept for name, one in (p.alerts or {}).items()}
    for alert, fingerprint in {*generations[-1].alerts.items(), *published}:
        own = [one for one in generations if one.alerts.get(alert) == fingerprint]
        for place, one in enumerate(own):
            later = own[place + 1 :]
            if not kept or any(
                (version.alerts or {}).get(alert, _NO_ALERT).fingerprint != fingerprint
                or _may_evaluate(one, later, version.streams.get(stream))
                for version in kept
            ):
                yield from (profile.file.path for profile in one.profiles.values())


_NO_ALERT = PublishedAlert("", ())


def _may_evaluate(
    one: AlertGeneration, later: Sequence[AlertGeneration], stream: PublishedStream | None
) -> bool:
    """Whether a run may evaluate events by a generation, from the cut of a version on."""
    if stream is None:
        return True
    if stream.origin_id == one.origin_id:
        return judges_above(one, later, stream.cut)
    # Generations follow the origins: an earlier origin has only earlier generations.
    passed = any(other.origin_id == stream.origin_id for other in later)
    return judges_above(one, later, None if passed else {})


NOT_SENT = "not sent when it was compared"
UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Evaluators:
    """The generations by which the events of an alert are evaluated in both layers.

    Attributes:
        generations: Those that evaluate by this definition of the alert, as recorded.
        judged: The generations as the batch layer has evaluated by them, see `as_judged`; empty if
            it has evaluated by those recorded.
        last: The alert's `last`.
        view: The name of the view of the alert's profile; None without one.
        starts: The offsets at which each origin begins; 0 for a partition that is missing.
    """

    generations: Sequence[AlertGeneration]
    judged: Sequence[AlertGeneration] = ()
    last: int = 0
    view: str | None = None
    starts: Mapping[str, Cut] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        alert: Alert,
        generations: Sequence[AlertGeneration],
        judged: Sequence[JudgedFrom] | None,
        starts: Mapping[str, Cut],
    ) -> Evaluators:
        """Those of an alert, of which `judged` is what the batch layer has recorded."""
        view = alert.profile.name if alert.profile else None
        return cls(generations, as_judged(generations, judged), alert.last, view, starts)

    def why_withdrawn(
        self, origin_id: str, partition: int, offset: int, version: int | None = None
    ) -> str:
        """Why an alert that was sent is not in the batch's set, or has other content there.

        Args:
            origin_id: The identity of the origin in which the event's offset counts.
            partition: The event's partition.
            offset: The event's offset.
            version: The `profile_version` in the alert that was sent.
        """
        place = (origin_id, partition, offset)
        return self._why(*place, version, "coming into force") or UNEXPLAINED

    def why_added(self, origin_id: str, partition: int, offset: int) -> str:
        """Why an alert of the batch's set was not sent. The arguments are as above."""
        place = (origin_id, partition, offset)
        sent = self._version(self.generations, *place)
        return self._why(*place, sent, "the batch layer's") or NOT_SENT

    def _why(
        self, origin_id: str, partition: int, offset: int, sent: int | None, was: str
    ) -> str | None:
        """Why the layers evaluated an event differently; None if they did not.

        Either the speed layer did not know all that the batch layer knows, or it had the profile of
        the version `sent`, and the batch layer that of another one, of which `was` says more.
        """
        by = profile_of(self.generations, origin_id, partition, offset)
        if by is None:
            return "came before the alert was watched"
        start = self.starts.get(origin_id, {}).get(partition, 0)
        if self.last and by.version is None and by.read_from.get(partition, 0) > start:
            return (
                "the generation that judged it began without a publication, and knew only the"
                " events since then"
            )
        theirs = self._version(self.judged or self.generations, origin_id, partition, offset)
        if self.view is None or sent == theirs:
            return None
        return f"judged by the profile of {_described(sent)}, while {_described(theirs)} was {was}"

    def _version(
        self, generations: Sequence[AlertGeneration], origin_id: str, partition: int, offset: int
    ) -> int | None:
        """The version of the profile by which an event is evaluated; None without a profile."""
        by = profile_of(generations, origin_id, partition, offset)
        profile = by.profiles.get(self.view) if by and self.view else None
        return profile.version if profile else None


def _described(version: int | None) -> str:
    return "no version" if version is None else f"version {version}"


@dataclass(frozen=True)
class Sent:
    """The alerts that were read from a topic.

    Attributes:
        topic_id: The id of the topic.
        offsets: For each partition, the offset below which all its records are in the files.
        files: The files.
    """

    topic_id: str
    offsets: Mapping[int, int] = field(default_factory=dict)
    files: Sequence[StoredFile] = ()


def sent_part(first: int, last: int, unique: str) -> str:
    """The name of a file with what was written to a topic's files by writes `first` to `last`.

    Writes are numbered from 1 on. A merged file has those of the files that it replaces, so that a
    reader which has them already need not read it.
    """
    return f"{first:012d}-{last:012d}-{unique}"


def writes_in(file: StoredFile) -> tuple[int, int] | None:
    """The numbers of the first and the last write in a file; None if its name does not say so."""
    match = _WRITES.search(file.path)
    return (int(match[1]), int(match[2])) if match else None


_WRITES = re.compile(r"/(\d{12})-(\d{12})-[^/]*$")


def sent_alerts(store: Store, topic: str) -> Sent | None:
    """What was read from a topic of alerts; None before anything was."""
    path = layout.sent(topic)
    try:
        return store.find_document(path, Sent)
    except IntegrityError:
        if store.exists(path):
            raise
        return None
