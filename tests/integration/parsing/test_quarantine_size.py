"""What a micro-batch keeps of events that do not fit is bounded, however many and long they are;
the rest is in the log.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from speed_layer import segments
from speed_layer.segments import fit_quarantine, quarantine_share
from trilayer import Catalog, Stream, View, count
from trilayer_core.compute.parsing import REJECT
from trilayer_core.store.generations import Generations
from trilayer_core.store.segments import BYTES


def test_the_shares_of_all_events_are_never_more_than_may_be_kept():
    for events in (1, 2, 3, 999, 1_000_000, segments.QUARANTINE_BYTES):
        share = quarantine_share(events)
        assert share >= 1
        assert share * events <= segments.QUARANTINE_BYTES < 2 * share * events
    assert quarantine_share(2**40) == 1


def test_quarantines_are_cut_to_the_size_of_one_when_they_are_put_together(monkeypatch):
    monkeypatch.setattr(segments, "QUARANTINE_BYTES", 64)
    older = pa.table(
        {"_value": [b"a" * 100, b"b", None], "_key": [b"k" * 100, None, None], REJECT: ["x"] * 3}
    )
    assert fit_quarantine(older, 8).to_pylist() == [
        {"_value": b"a" * 8, "_key": b"k" * 8, REJECT: "x", BYTES: 100},
        {"_value": b"b", "_key": None, REJECT: "x", BYTES: 1},
        {"_value": None, "_key": None, REJECT: "x", BYTES: None},
    ]
    again = fit_quarantine(fit_quarantine(older, 8), 16).to_pylist()
    assert [(row["_value"], row[BYTES]) for row in again] == [
        (b"aaaa", 100),
        (b"b", 1),
        (None, None),
    ]


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
def test_of_many_long_events_the_speed_layer_keeps_the_beginnings_and_the_batch_layer_all(
    broker, spark, store, new_topic, monkeypatch
):
    from tests.support.layers import Pipeline, quick
    from trilayer.operations.quarantine import quarantined

    monkeypatch.setattr(segments, "QUARANTINE_BYTES", 4096)
    topic = new_topic()
    stream = Stream(
        "long",
        "id string not null, at timestamp",
        event_time="at",
        topic=topic,
        partitions=1,
        max_event_bytes=1000,
    )
    catalog = Catalog(views=[View("by_id", source=stream, key=["id"], aggregates={"n": count()})])
    values = [f"{n:04}".encode() + b"x" * 20_000 for n in range(20)] + [b"short", None]
    settings = quick(broker.bootstrap)
    with Pipeline(catalog, settings, store, spark) as pipeline:
        pipeline.produce([(0, value) for value in values])
        pipeline.catch_up()
        commits = Generations(store, stream).commits(pipeline.generation)
        tables = [store.read_table(commit.quarantine) for commit in commits if commit.quarantine]
        rows = [row for table in tables for row in table.to_pylist()]
        assert len(rows) == len(values)
        for table in tables:
            assert sum(len(row["_value"] or b"") for row in table.to_pylist()) <= 4096
        speed = {event.offset: event for event in quarantined(store, stream)}
        assert [speed[offset].is_cut for offset in range(len(values))] == [True] * 20 + [False] * 2
        assert [row[BYTES] for row in sorted(rows, key=lambda row: row["_offset"])] == [
            20_004
        ] * 20 + [
            5,
            None,
        ]
        assert speed[3].text.startswith("0003xxx")
        pipeline.wait_for_tick()
        pipeline.batch()
        batch = {event.offset: event for event in quarantined(store, stream)}
    assert [batch[offset].text for offset in range(len(values))] == [
        v and v.decode() for v in values
    ]
    assert [batch[offset].reason for offset in range(len(values))] == [
        speed[offset].reason for offset in range(len(values))
    ]
    assert not any(event.is_cut for event in batch.values())
