"""Decides with which generation a group's query starts, and when another one is to follow.

A generation goes on as long as it has the present definitions and the log holds what it reads. At
the end of a real-time batch, another one may begin: to evaluate by a newer profile, to know the
events before the cut of a publication, or to drop the state of keys that have long been quiet.
Nothing here starts Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from speed_layer.alerts.profile import stored_profile
from speed_layer.reading import read_end
from trilayer_core.definitions.alerts import AlertGroup
from trilayer_core.definitions.view import View
from trilayer_core.errors import IntegrityError
from trilayer_core.log.broker import Log, Topic
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Cut, format_time
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGeneration, AlertGenerations, AlertState, Profile
from trilayer_core.store.files import Store
from trilayer_core.store.origins import Origin, Origins
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications

logger = logging.getLogger("trilayer.alerts")


class Progress:
    """What Spark has committed of a generation.

    In real-time mode the end of a batch is known only when it has ended: Spark then writes its end
    offsets, and that it is finished.
    """

    def __init__(self, store: Store, group: AlertGroup, number: int) -> None:
        self._store, self._topic = store, group.stream.topic
        self.path = layout.alert_checkpoint(group.name, number)

    def batches(self) -> list[int]:
        """The batches that are finished, in order."""
        return sorted(int(n) for n in self._store.names(f"{self.path}/commits") if n.isdigit())

    def finished(self) -> int:
        """The last batch that is finished; -1 if none is. Spark deletes older ones."""
        return max(self.batches(), default=-1)

    def judged(self) -> Cut:
        """The offsets below which all events were evaluated for certain; empty if none is known.

        Raises:
            IntegrityError: Spark's file can't be read.
        """
        batches = self.batches()
        if not batches:
            return {}
        return read_end(self._store, self.path, batches[-1], self._topic, f"delete {self.path}")


@dataclass(frozen=True)
class AlertSuccession:
    """The succession of one group's generations.

    Attributes:
        group: The group.
        settings: The present settings.
        store: The store.
        topic: The stream's topic.
        log: The log.
    """

    group: AlertGroup
    settings: Settings
    store: Store
    topic: Topic
    log: Log

    @property
    def generations(self) -> AlertGenerations:
        """The group's generations."""
        return AlertGenerations(self.store, self.group)

    def choose(self) -> AlertGeneration:
        """The newest generation if it can go on, else a new one.

        Raises:
            LogError: The topic was created again.
            EnvironmentFault: No broker answers.
        """
        origin = Origins(self.store, self.group.stream).at(self.topic, self.log)
        newest = self.generations.newest()
        why = self._ended(newest, origin) if newest else "it is the first"
        if newest and not why:
            return newest
        return self.begin(why)

    def _ended(self, newest: AlertGeneration, origin: Origin) -> str:
        """Why the newest generation can't go on; empty if it can."""
        if newest.origin_id != origin.identity:
            return "a new origin has begun"
        if newest.fingerprint != self.group.fingerprint:
            return "definitions have changed"
        try:
            self.store.check_all(newest.files)
        except IntegrityError as error:
            return f"a file that it reads can't be used: {error}"
        progress = Progress(self.store, self.group, newest.number)
        added = set(self.topic.partitions) - set(newest.read_from)
        if added and progress.finished() < 0:
            return f"the topic has more partitions: {', '.join(map(str, sorted(added)))}"
        judged = {**newest.read_from, **progress.judged()}
        beginning, end = self.log.beginning(self.topic), self.log.end(self.topic)
        for partition, offset in sorted(judged.items()):
            first, last = beginning.get(partition, 0), end.get(partition, 0)
            if offset < first:
                return (
                    f"the log no longer holds offsets [{offset}, {first}) of partition {partition}"
                )
            if offset > last:
                return (
                    f"the log ends at offset {last} of partition {partition}, although offsets up"
                    f" to {offset} were judged: it has lost records"
                )
        return ""

    def begin(self, why: str, prepared: Mapping[str, Profile] | None = None) -> AlertGeneration:
        """Begins a generation that evaluates from where the one before has come.

        The first one ever evaluates from the end of the log on, and one of a new origin from where
        that begins.

        Args:
            why: Why it begins.
            prepared: The profiles of the publication in force, if they were stored before.
        """
        origin = Origins(self.store, self.group.stream).at(self.topic, self.log)
        before = self.generations.newest()
        alert_from = self._alert_from(before, origin)
        publications = Publications(self.store)
        in_force = publications.in_force()
        base = self._base(alert_from, origin, publications, in_force)
        profiles = self.profiles(in_force) if prepared is None else prepared
        if before and before.fingerprint == self.group.fingerprint:
            profiles = {**before.profiles, **profiles}
        if base is None and self.group.last:
            read_from, why = self._horizon(alert_from, origin, why)
        elif base is None:
            read_from = alert_from
        else:
            cut = base.streams[self.group.stream.name].cut
            read_from = {p: cut.get(p, origin.start.get(p, 0)) for p in alert_from}
        generation = AlertGeneration(
            before.number + 1 if before else 1,
            self.group.fingerprint,
            {alert.name: alert.fingerprint for alert in self.group.alerts},
            origin.identity,
            base.version if base else None,
            read_from,
            alert_from,
            (base.memories or {})[self.group.name].files if base else [],
            profiles,
            why,
            self.store.clock(),
        )
        self.generations.begin(generation)
        logger.info(
            "%s: generation %s judges from %s on: %s",
            self.group.name,
            generation.number,
            ", ".join(f"{p}:{o}" for p, o in sorted(alert_from.items())),
            why,
        )
        return generation

    def _alert_from(self, before: AlertGeneration | None, origin: Origin) -> dict[int, int]:
        beginning, end = self.log.beginning(self.topic), self.log.end(self.topic)
        partitions = sorted({*self.topic.partitions, *end})
        if before is None:
            return {partition: end.get(partition, 0) for partition in partitions}
        if before.origin_id == origin.identity:
            judged = Progress(self.store, self.group, before.number).judged()
            reached = {**before.alert_from, **judged}
            reached = {p: max(o, before.alert_from.get(p, 0)) for p, o in reached.items()}
        else:
            reached = dict(origin.start)
        offsets = {}
        for partition in partitions:
            offset = reached.get(partition, origin.start.get(partition, 0))
            first, last = beginning.get(partition, 0), end.get(partition, 0)
            if offset < first:
                logger.warning(
                    "%s: offsets [%s, %s) of partition %s raise no early alert, because retention"
                    " has deleted them",
                    self.group.name, offset, first, partition,
                )  # fmt: skip
            # Spark does not start at an offset that the log does not have.
            offsets[partition] = min(max(offset, first), last)
        return offsets

    def _base(
        self,
        alert_from: Cut,
        origin: Origin,
        publications: Publications,
        in_force: Publication | None,
    ) -> Publication | None:
        """The newest publication that remembers the events below a cut that was evaluated."""
        if not self.group.last or in_force is None:
            return None
        kept = sorted(publications.versions(), key=lambda one: -one.version)
        beginning = self.log.beginning(self.topic)
        for publication in [in_force, *kept]:
            if self.remembers(publication, origin.identity):
                cut = publication.streams[self.group.stream.name].cut
                within = all(
                    beginning.get(p, 0) <= cut.get(p, origin.start.get(p, 0)) <= offset
                    for p, offset in alert_from.items()
                )
                if within:
                    return publication
        return None

    def remembers(self, publication: Publication, identity: str) -> bool:
        """Whether a publication of an origin has the newest events of each key of the group."""
        memory = (publication.memories or {}).get(self.group.name)
        stream = publication.streams.get(self.group.stream.name)
        return (
            memory is not None
            and stream is not None
            and memory.fingerprint == self.group.memory_fingerprint
            and stream.origin_id == identity
        )

    def _horizon(self, alert_from: Cut, origin: Origin, why: str) -> tuple[dict[int, int], str]:
        """The offsets from which a generation reads that knows no publication."""
        path = layout.alert_state(self.group.name)
        # What is evaluated next came after this.
        judged_ms = (
            self.store.read_document(path, AlertState).at_ms
            if self.store.exists(path)
            else self.store.clock()
        )
        since_ms = judged_ms - self.settings.alerts.horizon_s * 1000
        index, _ = self.log.index(self.topic, since_ms)
        beginning = self.log.beginning(self.topic)
        horizons = {}
        for partition, offset in alert_from.items():
            first = max(beginning.get(partition, 0), origin.start.get(partition, 0))
            horizons[partition] = max(first, min(index.get(partition, offset), offset))
        whole = all(horizons[p] <= origin.start.get(p, 0) for p in horizons)
        events = "all events" if whole else f"events since {format_time(since_ms // 1000 * 1000)}"
        return horizons, f"{why}; no publication remembers earlier events, so it knows {events}"

    def profiles(self, publication: Publication | None) -> dict[str, Profile]:
        """The profiles of the group in a publication, by view."""
        if publication is None:
            return {}
        profiles = {}
        for view in self.group.profiles:
            if (profile := self._profile(view, publication)) is not None:
                profiles[view.name] = profile
        return profiles

    def _profile(self, view: View, publication: Publication) -> Profile | None:
        newest = self.generations.newest()
        profile = newest.profiles.get(view.name) if newest else None
        return stored_profile(view, publication, self.store, [profile] if profile else [])

    def due(
        self, generation: AlertGeneration, judged: Cut, keys: int, prepared: Mapping[str, Profile]
    ) -> str:
        """Why another generation should begin now, at the end of a batch; empty if none should.

        Args:
            generation: The generation that runs.
            judged: The offsets below which it has evaluated all events.
            keys: The number of keys in its state.
            prepared: The profiles of the publication in force.
        """
        changed = [name for name, one in prepared.items() if generation.profiles.get(name) != one]
        if changed:
            one = prepared[changed[0]]
            return f"version {one.version} has another profile {', '.join(changed)}"
        publications = Publications(self.store)
        published = publications.in_force()
        if not self.group.last or published is None or published.version == generation.version:
            return ""
        origin = Origins(self.store, self.group.stream).present()
        if origin is None or origin.identity != generation.origin_id:
            return ""
        if self._base(judged, origin, publications, published) != published:
            return ""
        if generation.version is None:
            return f"version {published.version} remembers earlier events"
        if keys > self.settings.alerts.state_max:
            return f"its state has {keys:,} keys, and version {published.version} remembers them"
        return ""
