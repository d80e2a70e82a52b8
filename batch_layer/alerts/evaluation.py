"""Evaluates the rules of alerts, in step recompute: the exact set of each alert.

An alert never changes later: it depends on its event, the newest events of the key before it in the
same partition, and a stored profile. An incremental run thus evaluates the events of the new
intervals alone, with the newest events of each key that the base publication remembers, and adds a
file. A full run evaluates all events. Both give the same set.

An alert without a profile is evaluated over the whole history, one with a profile from where it was
first watched, because only from there on it is known by which profile. The generations say so. If a
generation begins below the cut of the publication in force, that publication has evaluated some of
its events by the profile of the generation before; its evaluation stays, and the publication says
from where on the new profile counts (`JudgedFrom`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from batch_layer.alerts.engine import AlertEngine, Evaluation
from batch_layer.engine import Engine, tail
from trilayer_core.definitions.alerts import Alert, AlertGroup
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.definitions.stream import Stream
from trilayer_core.seam import Cut
from trilayer_core.store import layout
from trilayer_core.store.alerts import AlertGeneration, AlertGenerations, as_judged, judges_above
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.intervals import Interval, intervals_after, intervals_below
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origins
from trilayer_core.store.publication import (
    Publication,
    PublishedAlert,
    PublishedMemory,
    PublishedStream,
)
from trilayer_core.store.runs import JudgedFrom, RecomputedAlert, RecomputedMemory, Run

logger = logging.getLogger("trilayer.batch")


def evaluate(
    catalog: Catalog,
    stream: Stream,
    run: Run,
    base: Publication | None,
    store: Store,
    engine: Engine,
) -> tuple[dict[str, RecomputedAlert], dict[str, RecomputedMemory]]:
    """Evaluates the events of a stream by all its alerts.

    An alert whose present definition the base has is evaluated incrementally, unless the run is
    full.

    Returns:
        The alerts, and the newest events of each key by group.

    Raises:
        IntegrityError: A file that is needed is missing or altered, for example that of a profile.
    """
    alerts: dict[str, RecomputedAlert] = {}
    memories: dict[str, RecomputedMemory] = {}
    history, of_alerts = History(stream, run, base, store), AlertEngine(engine, store)
    for group in catalog.groups_of(stream):
        remembered = history.remembered(group)
        judged = _judged(group, history, remembered, store, of_alerts)
        alerts |= judged
        if group.last:
            memories[group.name] = _memory(group, history, remembered, of_alerts)
        logger.info(
            "judged %s of %s",
            ", ".join(f"{name} ({alert.kind})" for name, alert in judged.items()),
            stream.name,
        )
    return alerts, memories


def alert_definitions(catalog: Catalog) -> dict[str, str]:
    """The fingerprint of each alert and of what is remembered for each group.

    The names are those under which their files are among the batch views' files.
    """
    alerts = {layout.alert_files(alert.name): alert.fingerprint for alert in catalog.alerts}
    memories = {
        layout.memory_files(group.name): group.memory_fingerprint
        for group in catalog.alert_groups
        if group.last
    }
    return alerts | memories


def alerts_are_continued(catalog: Catalog, base: Publication) -> bool:
    """Whether the publication has all alerts with the same definitions, and all memories."""
    there = {name: artefact.fingerprint for name, artefact in base.artefacts.items()}
    return alert_definitions(catalog).items() <= there.items()


@dataclass(frozen=True)
class History:
    """What a run has of a stream: its intervals, and what its base has of its alerts.

    Attributes:
        stream: The stream.
        run: The run.
        base: The publication in force; None before the first one.
        store: The store.
    """

    stream: Stream
    run: Run
    base: Publication | None
    store: Store

    @property
    def identity(self) -> str:
        """The origin in which the run's cut counts."""
        return self.run.origin_ids[self.stream.name]

    @property
    def published(self) -> PublishedStream | None:
        """The stream in the base, if it has the present schema."""
        stream = self.base.streams.get(self.stream.name) if self.base else None
        return stream if stream and stream.fingerprint == self.stream.fingerprint else None

    @cached_property
    def whole(self) -> Sequence[Interval]:
        """All intervals below the cut."""
        return self._below(Master(self.store, self.stream).read_chain())

    @cached_property
    def new(self) -> Sequence[Interval]:
        """The intervals that the base does not have; all without a base."""
        before = self.published
        if before is None:
            return self.whole
        chain = Master(self.store, self.stream).chain_after(before.cut, before.origin_id)
        return intervals_after(self._below(chain), before.cut, self.stream, before.origin_id)

    @property
    def old(self) -> Sequence[Interval]:
        """The intervals that the base has."""
        new = {interval.number for interval in self.new}
        return [interval for interval in self.whole if interval.number not in new]

    def _below(self, chain: Sequence[Interval]) -> Sequence[Interval]:
        return intervals_below(chain, self.run.cuts[self.stream.name], self.identity)

    def published_alert(self, alert: Alert) -> PublishedAlert | None:
        """The alert in the base, if it has the present definition."""
        return self.base.alert(alert) if self.base and self.published else None

    def remembered(self, group: AlertGroup) -> PublishedMemory | None:
        """What the base remembers of each key, if it remembers what the group needs."""
        there = (self.base.memories or {}) if self.base and self.published else {}
        memory = there.get(group.name)
        return memory if memory and memory.fingerprint == group.memory_fingerprint else None


# -- alerts ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """How an alert is evaluated.

    Attributes:
        alert: The alert.
        published: The alert in the base.
        incremental: Whether only the new intervals are evaluated.
        generations: The generations by whose profiles it is evaluated; None without a profile.
    """

    alert: Alert
    published: PublishedAlert | None
    incremental: bool
    generations: Sequence[AlertGeneration] | None

    @property
    def together(self) -> str:
        """Equal for alerts that can be evaluated together."""
        return repr((self.incremental, self.generations))

    @property
    def judged(self) -> list[JudgedFrom] | None:
        """As in `PublishedAlert`."""
        if self.generations is None:
            return None
        return [
            JudgedFrom(generation.number, generation.alert_from) for generation in self.generations
        ]


def _judged(
    group: AlertGroup,
    history: History,
    remembered: PublishedMemory | None,
    store: Store,
    engine: AlertEngine,
) -> dict[str, RecomputedAlert]:
    plans: dict[str, list[_Plan]] = {}
    for alert in group.alerts:
        plan = _plan(alert, group, history, store)
        plans.setdefault(plan.together, []).append(plan)
    alerts: dict[str, RecomputedAlert] = {}
    for together in plans.values():
        alerts |= _judged_together(together, history, remembered, engine)
    return {alert.name: alerts[alert.name] for alert in group.alerts}


def _plan(alert: Alert, group: AlertGroup, history: History, store: Store) -> _Plan:
    before = history.published_alert(alert)
    incremental = before is not None and not history.run.full
    if alert.profile is None:
        return _Plan(alert, before, incremental, None)
    recorded = AlertGenerations(store, group).of(alert.name, alert.fingerprint)
    published = history.published
    if before is None or published is None:
        kept = kept_generations(recorded, alert.profile.name, None, store)
        return _Plan(alert, before, incremental, kept)
    cut_of = CutOf(published, [origin.identity for origin in Origins(store, group.stream).all()])
    generations = judging_generations(recorded, before, published)
    kept = kept_generations(generations, alert.profile.name, cut_of, store)
    return _Plan(alert, before, incremental, kept)


def _judged_together(
    plans: Sequence[_Plan],
    history: History,
    remembered: PublishedMemory | None,
    engine: AlertEngine,
) -> dict[str, RecomputedAlert]:
    token = history.run.token
    group = AlertGroup(tuple(plan.alert for plan in plans))
    generations = plans[0].generations
    if not plans[0].incremental:
        full = engine.evaluate(
            Evaluation(group, "full", history.whole, generations=generations), token
        )
        return {plan.alert.name: _full(plan, full, history, engine) for plan in plans}
    # Without what the base remembers, the events themselves must be read again.
    needs_old = group.last and remembered is None and history.new
    added = engine.evaluate(
        Evaluation(
            group,
            "added",
            history.new,
            history.old if needs_old else (),
            remembered.files if remembered else (),
            generations,
        ),
        token,
    )
    parts = {
        p.alert.name: tail(p.published.files, added[p.alert.name]) for p in plans if p.published
    }
    due = [plan.alert for plan in plans if parts[plan.alert.name][1]]
    merged = engine.merge_alerts(due, {a.name: parts[a.name][1] for a in due}, token)
    return {
        plan.alert.name: RecomputedAlert(
            "incremental",
            [*parts[plan.alert.name][0], *merged.get(plan.alert.name, [])],
            added[plan.alert.name],
            plan.judged,
        )
        for plan in plans
    }


def _full(
    plan: _Plan,
    full: Mapping[str, Sequence[StoredFile]],
    history: History,
    engine: AlertEngine,
) -> RecomputedAlert:
    files = full[plan.alert.name]
    if plan.published and plan.generations is not None:
        # What no kept profile can evaluate again stays as it was published.
        before = engine.judged_before(
            plan.alert, plan.published.files, plan.generations, history.run.token
        )
        files = [*before, *files]
    return RecomputedAlert("full", files, None, plan.judged)


@dataclass(frozen=True)
class CutOf:
    """The cut of a publication, seen from each origin of the stream.

    Attributes:
        published: The stream in the publication.
        origins: The identities of all origins, oldest first.
    """

    published: PublishedStream
    origins: Sequence[str]

    def origin(self, identity: str) -> Cut | None:
        """The cut in an origin; None if all its events are below it."""
        if identity == self.published.origin_id:
            return self.published.cut
        if identity not in self.origins or self.published.origin_id not in self.origins:
            return {}
        own, cut = self.origins.index(identity), self.origins.index(self.published.origin_id)
        return None if own < cut else {}


def judging_generations(
    recorded: Sequence[AlertGeneration], alert: PublishedAlert, published: PublishedStream
) -> list[AlertGeneration]:
    """The generations by whose profiles an alert is evaluated, and from where on each counts.

    Args:
        recorded: The generations that evaluate by this definition of the alert, as recorded.
        alert: The alert in the base.
        published: The stream in the base.
    """
    before = alert.judged or ()
    # A generation that is older than one of these, and not among them, evaluates no event any more.
    newest = max((judged.generation for judged in before), default=0)
    later = [
        replace(generation, alert_from=_later(generation.alert_from, published.cut))
        if generation.origin_id == published.origin_id
        else generation
        for generation in recorded
        if generation.number > newest
    ]
    return [*as_judged(recorded, before), *later]


def _later(cut: Cut, other: Cut) -> dict[int, int]:
    return {p: max(cut.get(p, 0), other.get(p, 0)) for p in sorted({*cut, *other})}


def kept_generations(
    generations: Sequence[AlertGeneration], view: str, cut_of: CutOf | None, store: Store
) -> list[AlertGeneration]:
    """The newest generations, back to where the profile of one is no longer kept.

    A profile that is missing is needed all the same if its generation evaluates events above the
    cut, or if there is no cut and the generation is one of the last that followed each other. Such
    a generation is returned, so that reading its profile raises an error.

    Args:
        generations: The generations by whose profiles an alert is evaluated.
        view: The view of the profile.
        cut_of: The cut of the publication in force; None if that does not have the alert.
        store: The store.
    """
    kept: list[AlertGeneration] = []
    for generation in reversed(generations):
        profile = generation.profiles.get(view)
        if kept and profile is not None and not store.exists(profile.file.path):
            if cut_of is None:
                needed = kept[0].number == generation.number + 1
            else:
                needed = judges_above(generation, kept, cut_of.origin(generation.origin_id))
            if not needed:
                break
        kept.insert(0, generation)
    return kept


# -- what is remembered ----------------------------------------------------------------------------


def _memory(
    group: AlertGroup, history: History, remembered: PublishedMemory | None, engine: AlertEngine
) -> RecomputedMemory:
    """The newest events of each key below the cut.

    Only the events of the present origin are remembered, because those of another one precede none.
    """
    token, identity, published = history.run.token, history.identity, history.published
    if history.run.full or remembered is None or published is None:
        own = [interval for interval in history.whole if interval.origin_id == identity]
        files = engine.remember(group, own, token, "full")
        return RecomputedMemory(files, engine.scattered(group, files))
    before = remembered.files if published.origin_id == identity else ()
    own = [interval for interval in history.new if interval.origin_id == identity]
    added = engine.remember(group, own, token, "added")
    if not added and before:
        return RecomputedMemory(before, remembered.scattered)
    kept, due = tail(before, added)
    files = [*kept, *(engine.merge_memory(group, due, token) if due else ())]
    return RecomputedMemory(files, engine.scattered(group, files))
