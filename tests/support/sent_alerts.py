"""Alerts in a store, as both layers write them, without Spark and Kafka."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from trilayer import Alert, Catalog
from trilayer_core.definitions.alerts import alert_id
from trilayer_core.store import layout
from trilayer_core.store.alerts import (
    SENT_SCHEMA,
    AlertGeneration,
    AlertGenerations,
    Profile,
    Sent,
    sent_alerts,
    sent_part,
    writes_in,
)
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.origins import Origin
from trilayer_core.store.publication import Publication, PublishedAlert, PublishedStream
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import JudgedFrom

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BATCH_SCHEMA = pa.schema(
    [field for field in SENT_SCHEMA if field.name not in ("fingerprint", "seen_at")]
)


@dataclass(frozen=True)
class Raised:
    """An alert that was raised by the event at an offset."""

    alert: Alert
    offset: int
    partition: int = 0
    origin_id: str = "topic"
    version: int | None = None
    content: str = ""
    fingerprint: str = ""

    @property
    def created_at(self) -> datetime:
        return BEGIN + timedelta(seconds=self.offset)

    @property
    def seen_at(self) -> datetime:
        return self.created_at + timedelta(milliseconds=12)

    @property
    def payload(self) -> str:
        fingerprint = self.fingerprint or self.alert.fingerprint
        event = {"card": f"c{self.offset % 3}", "amount": self.offset, "note": self.content}
        document: dict[str, Any] = {
            "id": alert_id(
                self.alert.name, fingerprint, self.origin_id, self.partition, self.offset
            ),
            "alert": self.alert.name,
            "fingerprint": fingerprint,
            "topic_id": self.origin_id,
            "partition": self.partition,
            "offset": self.offset,
            "created_at": self.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "key": {"card": event["card"]},
            "event": event | {"at": "2026-01-01T00:00:00.000000Z"},
            "last": [],
            "profile": None,
            "profile_version": self.version,
        }
        return json.dumps(document, separators=(",", ":"))

    @property
    def row(self) -> dict[str, Any]:
        return {
            "alert": self.alert.name,
            "fingerprint": self.fingerprint or self.alert.fingerprint,
            "topic_id": self.origin_id,
            "partition": self.partition,
            "offset": self.offset,
            "created_at": self.created_at,
            "seen_at": self.seen_at,
            "payload": self.payload,
        }


@dataclass
class AlertStore:
    """A store of one stream with alerts, and what has been written to it."""

    store: Store
    catalog: Catalog
    files: int = 0
    versions: list[Publication] = field(default_factory=list)

    def __post_init__(self) -> None:
        stream = self.stream
        self.store.create_document(
            layout.origin(stream, 1), Origin(stream.topic, "topic", {0: 0, 1: 0})
        )

    @property
    def stream(self):
        return self.catalog.streams[0]

    def later_origin(self, number: int) -> str:
        """Begins another origin; its identity."""
        origin = Origin(self.stream.topic, "topic", {0: 0}, number, "topic", "lost", {}, 1)
        self.store.create_document(layout.origin(self.stream, number), origin)
        return origin.identity

    def send(self, *raised: Raised) -> None:
        """Stores alerts that were sent, as the collector does when it has merged nothing."""
        topic = raised[0].alert.topic
        sent = sent_alerts(self.store, topic) or Sent("topic of alerts")
        last = max((w[1] for file in sent.files if (w := writes_in(file))), default=0) + 1
        path = layout.sent_file(topic, sent_part(last, last, self.store.unique()))
        table = pa.Table.from_pylist([one.row for one in raised], SENT_SCHEMA)
        file = self.store.write_table(path, table)
        self.list_files(topic, [*sent.files, file])

    def list_files(self, topic: str, files: list[StoredFile]) -> None:
        self.store.write_document(layout.sent(topic), Sent("topic of alerts", {}, files))

    def merge(self, topic: str) -> None:
        """Merges all files into one."""
        sent = sent_alerts(self.store, topic)
        assert sent
        tables = [self.store.read_table(file) for file in sent.files]
        last = max(w[1] for file in sent.files if (w := writes_in(file)))
        path = layout.sent_file(topic, sent_part(1, last, self.store.unique()))
        self.list_files(topic, [self.store.write_table(path, pa.concat_tables(tables))])
        for file in sent.files:
            self.store.delete(file.path)

    def batch_file(self, *raised: Raised) -> StoredFile:
        """A file of the batch layer's set."""
        self.files += 1
        name = layout.alert_files(raised[0].alert.name)
        path = f"{layout.partials(name, self.files, 'added', 'abcdef')}/part.parquet"
        table = pa.Table.from_pylist([one.row for one in raised], BATCH_SCHEMA)
        return self.store.write_table(path, table)

    def publish(
        self,
        cut: dict[int, int],
        alerts: dict[str, list[StoredFile]],
        origin_id: str = "topic",
        judged: list[JudgedFrom] | None = None,
    ) -> Publication:
        """Puts a publication in force whose views have no rows."""
        known = {alert.name: alert for alert in self.catalog.alerts}
        published = {
            name: PublishedAlert(known[name].fingerprint, files, judged)
            for name, files in alerts.items()
        }
        publications = Publications(self.store)
        token = Fence(self.store).take("test")
        number = publications.next_number()
        publication = Publication(
            number,
            number * 60_000,
            token,
            "full",
            None,
            0,
            {self.stream.name: PublishedStream(origin_id, self.stream.fingerprint, cut, 0, 0, 0)},
            {},
            {},
            alerts=published,
        )
        publications.put_in_force(publications.write(publication).version, token, "publish")
        self.versions.append(publication)
        return publication

    def put_in_force(self, version: int) -> None:
        Publications(self.store).put_in_force(version, Fence(self.store).take("test"), "rollback")

    def begin(
        self,
        alert: Alert,
        alert_from: dict[int, int],
        *,
        version: int | None = None,
        read_from: dict[int, int] | None = None,
        profile: int | None = None,
        origin_id: str = "topic",
    ) -> None:
        """Records another generation of an alert."""
        (group,) = (g for g in self.catalog.alert_groups if alert in g.alerts)
        generations = AlertGenerations(self.store, group)
        number = len(generations.all()) + 1
        profiles = {}
        if profile is not None and alert.profile:
            file = StoredFile("profile.parquet", 0, 0, "")
            profiles[alert.profile.name] = Profile(profile, {}, origin_id, file)
        generations.begin(
            AlertGeneration(
                number,
                group.fingerprint,
                {a.name: a.fingerprint for a in group.alerts},
                origin_id,
                version,
                read_from or {},
                alert_from,
                [],
                profiles,
                "test",
                0,
            )
        )


def later(one: Raised, **changed: Any) -> Raised:
    """The alert with other attributes."""
    return replace(one, **changed)
