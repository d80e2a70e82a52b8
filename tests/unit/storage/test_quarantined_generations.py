"""Of several generations of the speed layer, those speak that parse events as the answers do."""

from dataclasses import replace

import pyarrow as pa
import pytest

from benchmarks.written import Written
from tests.support.published import quarantine
from trilayer import Stream, View, count
from trilayer.operations.quarantine import quarantined
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.store.files import Store


def view_of(schema, **options):
    stream = Stream("sold", schema, event_time="at", **options)
    return View("by_shop", source=stream, key=["shop"], aggregates={"n": count()})


OLD = view_of("shop string not null, at timestamp")


@pytest.mark.parametrize(
    "now",
    [
        view_of("shop string not null, at timestamp in milliseconds"),
        view_of("shop string, at timestamp"),
        view_of("shop string not null, at timestamp", max_event_bytes=1000),
    ],
)
def test_what_an_older_schema_refused_is_not_in_quarantine_once_another_is_in_force(tmp_path, now):
    written = Written(Store(str(tmp_path)), OLD)
    none = pa.table(partial_schema(OLD, {}).empty_table())
    quarantine(written, none, ["wrong type: at", "wrong type: at", "broken JSON"])
    places = [(event.offset, event.reason) for event in quarantined(written.store, OLD.stream)]
    assert places == [(0, "wrong type: at"), (1, "wrong type: at"), (2, "broken JSON")]
    assert not list(quarantined(written.store, now.stream)), "nobody has parsed them so"
    # The generation of the new schema reads the same offsets, and two of the three events fit.
    written.view, written.end = now, 0
    written.begin(2)
    written.commit(none, 2, 0)
    quarantine(written, none, ["broken JSON"])
    assert [event.offset for event in quarantined(written.store, now.stream)] == [2]
    assert len(list(quarantined(written.store, OLD.stream))) == 3


def test_after_a_change_of_a_view_all_generations_speak(tmp_path):
    written = Written(Store(str(tmp_path)), OLD)
    none = partial_schema(OLD, {}).empty_table()
    quarantine(written, none, ["broken JSON", "wrong type: at"])
    written.view = replace(OLD, aggregates={"n": count(), "late": count(where="shop = 'x'")})
    written.begin(2)
    assert [event.offset for event in quarantined(written.store, OLD.stream)] == [0, 1]
