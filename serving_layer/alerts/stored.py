"""What a reader loads of alerts: what was sent, and by what the events were evaluated."""

from __future__ import annotations

from collections.abc import Sequence

from serving_layer.alerts.reasons import Evaluations, reach_of
from serving_layer.alerts.tables import AlertArrival, AlertChange
from serving_layer.state import FilesPlan, Loaded, SentState
from trilayer_core.definitions.alerts import Alert
from trilayer_core.definitions.catalog import Catalog
from trilayer_core.store import layout
from trilayer_core.store.alerts import SENT_SCHEMA, AlertGenerations, Sent
from trilayer_core.store.documents import parse_document
from trilayer_core.store.files import Store
from trilayer_core.store.origins import Origin, Origins
from trilayer_core.store.publication import Publication


class StoredAlerts:
    """What the store has of a catalog's alerts."""

    def __init__(self, catalog: Catalog, store: Store) -> None:
        self._store = store
        self._topics: dict[str, list[Alert]] = {}
        self._generations: dict[str, AlertGenerations] = {}
        for group in catalog.alert_groups:
            generations = AlertGenerations(store, group)
            for alert in group.alerts:
                self._topics.setdefault(alert.topic, []).append(alert)
                self._generations[alert.name] = generations

    @property
    def topics(self) -> list[str]:
        """The topics of the alerts."""
        return list(self._topics)

    def document(self, topic: str) -> bytes | None:
        """The bytes of the document with the files of what was sent; None if there is none."""
        path = layout.sent(topic)
        return self._store.read(path) if self._store.exists(path) else None

    def arrived(
        self, topic: str, loaded: Loaded
    ) -> tuple[Sequence[AlertArrival], SentState] | None:
        """What was stored of a topic since, and the state once it is loaded; None if nothing was.

        Raises:
            IntegrityError: A file is missing or altered.
        """
        document, before = self.document(topic), loaded.sent.get(topic, SentState())
        if document == before.document:
            return None
        files = (
            parse_document(document, layout.sent(topic), Sent).files if document is not None else ()
        )
        unread = before.unread(files)
        rows = [
            self._store.read_table(file, SENT_SCHEMA.names)
            for file in (files if unread is None else unread)
        ]
        arrivals = [
            AlertArrival(alert, rows, unread is None, self._judging(alert, loaded.publication))
            for alert in self._topics[topic]
        ]
        return arrivals, SentState.of(document, files)

    def change(
        self, alert: Alert, files: FilesPlan, publication: Publication | None
    ) -> AlertChange:
        """The change of the batch layer's set of an alert to that of a publication."""
        reach = reach_of(alert, publication, self._origins(alert))
        return AlertChange(alert, files, reach, self._judging(alert, publication))

    def _judging(self, alert: Alert, publication: Publication | None) -> Evaluations:
        published = publication.alert(alert) if publication else None
        return Evaluations(
            alert,
            self._generations[alert.name].of(alert.name, alert.fingerprint),
            published.judged if published else None,
            {origin.identity: origin.start for origin in self._origins(alert)},
        )

    def _origins(self, alert: Alert) -> Sequence[Origin]:
        return Origins(self._store, alert.stream).all()
