"""A catalog of alerts, and a plain-Python twin of them that walks the log. No Spark, no DuckDB."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.support.hostile import hostile
from trilayer import Alert, Catalog, Stream, View, count, sum_
from trilayer_core.definitions.alerts import AlertGroup, alert_id
from trilayer_core.seam import Cut
from trilayer_core.store import layout
from trilayer_core.store.alerts import (
    SENT_SCHEMA,
    AlertGeneration,
    AlertGenerations,
    Profile,
    Sent,
    sent_alerts,
)
from trilayer_core.store.files import Store
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications

Row = Mapping[str, Any]
Rule = Callable[[Row, Sequence[Row], Row | None], bool]
PARTITIONS = 3

NOT_EVENTS = [
    made.value
    for made, _ in zip(hostile(7, fits=False), range(400), strict=False)
    if made.kind in ("not_json", "not_one_object", "noise", "not_utf8")
]
"""Hostile values that fit no schema."""


@dataclass(frozen=True)
class Twin:
    """An alert, and its rule in Python over the event, those before it and the profile."""

    alert: Alert
    rule: Rule


@dataclass(frozen=True)
class Watched:
    """A stream of payments with alerts of each kind.

    `k` is 0, 1 and 3, two alerts share a group with different `last`, one has a profile, and one
    has another key.
    """

    stream: Stream
    view: View
    twins: Sequence[Twin]

    @property
    def catalog(self) -> Catalog:
        return Catalog(views=[self.view], alerts=[twin.alert for twin in self.twins])

    def with_alerts(self, *names: str) -> Catalog:
        return Catalog(
            views=[self.view], alerts=[t.alert for t in self.twins if t.alert.name in names]
        )

    def group_of(self, name: str) -> AlertGroup:
        return next(
            group
            for group in self.catalog.alert_groups
            if name in [alert.name for alert in group.alerts]
        )


def watched(topic: str) -> Watched:
    stream = Stream(
        "payments",
        "card string, amount bigint, place string, at timestamp",
        event_time="at",
        topic=topic,
        partitions=PARTITIONS,
    )
    view = View(
        "by_card", source=stream, key=["card"], aggregates={"n": count(), "total": sum_("amount")}
    )
    make = {"source": stream, "key": ["card"]}
    return Watched(
        stream,
        view,
        [
            Twin(
                Alert("large", **make, rule="amount >= 7"),
                lambda e, last, p: e["amount"] is not None and e["amount"] >= 7,
            ),
            Twin(
                Alert("rising", **make, last=1, rule="amount > last[0].amount"),
                lambda e, last, p: bool(last) and _greater(e["amount"], last[0]["amount"]),
            ),
            Twin(
                Alert(
                    "moved",
                    **make,
                    last=3,
                    rule="size(last) = 3 AND EXISTS(last, one -> one.place <> place)",
                ),
                lambda e, last, p: (
                    len(last) == 3
                    and any(
                        e["place"] is not None and one["place"] not in (None, e["place"])
                        for one in last
                    )
                ),
            ),
            Twin(
                Alert(
                    "unusual",
                    **make,
                    last=1,
                    profile=view,
                    rule="profile IS NULL OR amount > profile.total",
                ),
                lambda e, last, p: p is None or _greater(e["amount"], p["total"]),
            ),
            Twin(
                Alert("anywhere", source=stream, key=["place"], last=1, rule="size(last) = 1"),
                lambda e, last, p: len(last) == 1,
            ),
        ],
    )


def _greater(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one > other


def some_events(rng: random.Random, number: int) -> list[tuple[int, bytes | None]]:
    """Events in random partitions: NULL keys, scattered keys, and what fits no schema."""
    events: list[tuple[int, bytes | None]] = []
    for _ in range(number):
        partition = rng.randrange(PARTITIONS)
        if rng.random() < 0.2:
            events.append((partition, rng.choice([*NOT_EVENTS, b'{"amount": "many"}', None])))
            continue
        event = {
            "card": rng.choice(["a", "b", 'c"\\\u2028', None]),
            "amount": rng.choice([*range(10), None]),
            "place": rng.choice(["here", "there", None]),
            "at": "2026-01-01T00:00:00.000000Z",
        }
        events.append((partition, json.dumps(event).encode()))
    return events


@dataclass
class Walk:
    """What the twins say of a log.

    Attributes:
        watched: The alerts.
        sent: (partition, offset, append time in ms, value) of each record.
    """

    watched: Watched
    sent: list[tuple[int, int, int, bytes | None]] = field(default_factory=list)

    def add(
        self,
        values: Sequence[tuple[int, bytes | None]],
        places: Sequence[tuple[int, int, int]],
    ) -> None:
        self.sent += [(*place, value) for (_, value), place in zip(values, places, strict=True)]

    def alerts(
        self,
        name: str,
        origin_id: str,
        cut: Cut,
        profile_of: Callable[[int, int], tuple[int, Mapping[str | None, Row]] | None] | None = None,
    ) -> dict[tuple[int, int], dict[str, Any]]:
        """The alerts below a cut by place, each as its payload parsed.

        Args:
            name: The alert.
            origin_id: The identity of the origin.
            cut: The cut.
            profile_of: For an alert with a profile, the version and rows by which the event of a
                partition and offset is judged; None if it is not judged.
        """
        twin = next(twin for twin in self.watched.twins if twin.alert.name == name)
        (key,) = (key.name for key in twin.alert.keys)
        found = {}
        before: dict[tuple[int, str | None], list[Row]] = {}
        for partition, offset, stamp_ms, value in sorted(self.sent, key=lambda one: one[:2]):
            event = _parsed(value)
            if event is None or offset >= cut.get(partition, 0):
                continue
            known = before.setdefault((partition, event[key]), [])
            last = known[: twin.alert.last]
            known.insert(0, event)
            version, rows = None, {}
            if profile_of is not None:
                judged_by = profile_of(partition, offset)
                if judged_by is None:
                    continue
                version, rows = judged_by
            row = rows.get(event[key])
            profile = {key: event[key], **row} if row else None
            if not twin.rule(event, last, profile):
                continue
            found[partition, offset] = {
                "id": alert_id(name, twin.alert.fingerprint, origin_id, partition, offset),
                "alert": name,
                "fingerprint": twin.alert.fingerprint,
                "topic_id": origin_id,
                "partition": partition,
                "offset": offset,
                "created_at": _time(stamp_ms),
                "key": {key: event[key]},
                "event": event,
                "last": last,
                "profile": profile,
                "profile_version": version,
            }
        return found


def _parsed(value: bytes | None) -> Row | None:
    try:
        event = json.loads(value or b"")
    except ValueError:
        return None
    if not isinstance(event, dict) or "card" not in event:
        return None
    return event


def _time(stamp_ms: int) -> str:
    from datetime import UTC, datetime, timedelta

    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stamp_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}Z"


def published_rows(store: Store, publication: Publication, name: str) -> list[Row]:
    """The rows of an alert's files, in the order of their places."""
    assert publication.alerts
    rows = [
        row for file in publication.alerts[name].files for row in store.read_table(file).to_pylist()
    ]
    return sorted(rows, key=lambda row: (row["topic_id"], row["partition"], row["offset"]))


def parsed_rows(rows: Iterable[Row]) -> dict[tuple[int, int], dict[str, Any]]:
    """Rows as the twin states them. A place that is there twice is an error."""
    found = {}
    for row in rows:
        place = row["partition"], row["offset"]
        assert place not in found
        found[place] = json.loads(row["payload"])
    return found


# -- what the speed layer would have left in the store ---------------------------------------------


def begin_generation(
    store: Store,
    group: AlertGroup,
    origin_id: str,
    alert_from: Cut,
    profile: Mapping[str | None, Row] | None = None,
    *,
    version: int = 1,
    read_from: Cut | None = None,
    publication: int | None = None,
) -> AlertGeneration:
    """Records a generation of a group, and stores the profile by which it judges."""
    generations = AlertGenerations(store, group)
    versions = {found.version: found for found in Publications(store).versions()}
    memories = versions[publication].memories if publication in versions else None
    profiles = {}
    if profile is not None:
        rows = [{"card": card, **row} for card, row in profile.items()]
        schema = pa.schema([("card", pa.string()), ("n", pa.int64()), ("total", pa.int64())])
        path = layout.profile("by_card", version, store.unique())
        file = store.write_table(path, pa.Table.from_pylist(rows, schema))
        of = versions.get(version)
        at = of.streams[group.stream.name] if of else None
        cut, identity = (at.cut, at.origin_id) if at else ({}, origin_id)
        profiles["by_card"] = Profile(version, cut, identity, file)
    newest = generations.newest()
    generation = AlertGeneration(
        newest.number + 1 if newest else 1,
        group.fingerprint,
        {alert.name: alert.fingerprint for alert in group.alerts},
        origin_id,
        publication,
        alert_from if read_from is None else read_from,
        alert_from,
        memories[group.name].files if memories else [],
        profiles,
        "a test",
        1,
    )
    generations.begin(generation)
    return generation


def send(store: Store, alert: Alert, rows: Iterable[Row]) -> None:
    """Stores alerts as the collector does when it has read them from the topic."""
    sent = [
        {
            "alert": alert.name,
            "fingerprint": alert.fingerprint,
            "seen_at": row["created_at"],
            **{name: row[name] for name in
               ("topic_id", "partition", "offset", "created_at", "payload")},
        }
        for row in rows
    ]  # fmt: skip
    file = store.write_table(
        layout.sent_file(alert.topic, store.unique()), pa.Table.from_pylist(sent, SENT_SCHEMA)
    )
    known = sent_alerts(store, alert.topic)
    files = [*(known.files if known else ()), file]
    store.write_document(layout.sent(alert.topic), Sent("alerts", {0: 1}, files))
