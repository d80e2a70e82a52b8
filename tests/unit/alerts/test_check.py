"""What `trilayer doctor` says of alerts before anything has run."""

from types import SimpleNamespace

import pytest

from trilayer import Alert, Catalog, Stream, View, count
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_local.doctor.examination import Note
from trilayer_local.doctor.machine import check_alerts


@pytest.mark.parametrize(
    ("last", "record_key", "noted"), [(1, None, True), (1, "k", False), (0, None, False)]
)
def test_earlier_events_without_a_record_key_are_noted(tmp_path, last, record_key, noted):
    stream = Stream("taps", schema="k string, at timestamp", event_time="at", record_key=record_key)
    catalog = Catalog(
        views=[View("n", source=stream, key=["k"], aggregates={"n": count()})],
        alerts=[Alert("any", source=stream, key=["k"], last=last, rule="k IS NOT NULL")],
    )
    subject = SimpleNamespace(settings=Settings(), catalog=catalog, store=Store(str(tmp_path)))
    said = [str(one) for one in check_alerts(subject) if isinstance(one, Note)]
    assert any("'taps' has no record_key" in text for text in said) is noted
