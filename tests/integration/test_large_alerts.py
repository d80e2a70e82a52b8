"""An alert that is too large for Kafka is sent without some of its fields, in both layers alike."""

import itertools
import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from trilayer import Alert, Catalog, Stream, View, count, max_
from trilayer_core.compute import alerts
from trilayer_core.compute.alerts import alerts_of, streamed_sql, windowed_sql, with_profile
from trilayer_core.compute.parsing import parse
from trilayer_core.log.alerts import sent_alert

pytestmark = pytest.mark.spark

FIELDS = ("event", "last", "profile", "key")
MOST = 4000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

STREAM = Stream("notes", "card string, note string, at timestamp", event_time="at")
BY_CARD = View(
    "by_card", source=STREAM, key=["card"], aggregates={"n": count(), "longest": max_("note")}
)
ALERT = Alert("any", source=STREAM, key=["card"], rule="true", last=2, profile=BY_CARD)


def compact(value):
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def cut(whole):
    """The alert as it must be sent, in plain Python."""
    for number in range(len(FIELDS)):
        names = FIELDS[:number]
        rest = {**whole, **dict.fromkeys(names)} | ({"cut": list(names)} if names else {})
        if compact(rest) + compact(whole["key"]) <= MOST:
            return rest
    return {**whole, **dict.fromkeys(FIELDS), "cut": list(FIELDS)}


def cases():
    """The lengths of the key, the event, each event before it, and the profile."""
    yield from itertools.product([1, 600, 1500, 2500], [1, 1800, 4200], [1, 1700, 2100], [1, 4100])
    # Lengths around the border at which a part no longer fits, one byte at a time.
    yield from ((1, length, 1, 1) for length in range(3450, 3600))
    yield from ((length, 1, 1, 1) for length in range(1400, 1560))
    yield from ((length, 1, 1, 1) for length in range(1750, 1900))


def test_both_layers_send_what_fits_of_it(spark, monkeypatch):
    rng = random.Random(1)
    records, profiles = [], []
    for number, (key, event, before, profile) in enumerate(cases()):
        card = f"{number}{rng.choice('aé')}".ljust(key, "k")
        for length in (before, before, event):
            value = {"card": card, "note": "n" * length, "at": "2026-01-01T00:00:00Z"}
            at = BEGIN + timedelta(seconds=number)
            records.append((0, len(records), at, json.dumps(value).encode()))
        profiles.append((card, 3, "p" * profile))
    columns = "_partition int, _offset bigint, _timestamp timestamp, _value binary"
    spark.createDataFrame(records, columns).createOrReplaceTempView("large_records")
    profile = spark.createDataFrame(profiles, "card string, n bigint, longest string")
    (group,) = Catalog(views=[BY_CARD], alerts=[ALERT]).alert_groups
    parsed = parse(spark.table("large_records"), STREAM).selectExpr(
        "'t' AS _topic_id", "*", "_offset % 3 = 2 AS _new"
    )
    parsed.createOrReplaceTempView("large_parsed")
    events = {
        "speed": spark.sql(streamed_sql(group, "large_records", "t")),
        "batch": spark.sql(windowed_sql(group, "large_parsed", "_new")),
    }

    def sent(layer):
        joined = with_profile(events[layer], profile, group, BY_CARD, "CAST(7 AS BIGINT)")
        raised = alerts_of(group, joined, may_not_fit=layer == "speed")
        rows = raised.select("offset", "key", "payload").collect()
        return {row.offset: (row.key, row.payload) for row in rows}

    whole = {offset: json.loads(payload) for offset, (_, payload) in sent("batch").items()}
    monkeypatch.setattr(alerts, "MOST_ALERT_BYTES", MOST + alerts._OVERHEAD_BYTES)
    by_layer = {layer: sent(layer) for layer in events}
    assert by_layer["speed"] == by_layer["batch"]
    assert len(whole) == len(records) // 3
    number_of_cuts = set()
    for offset, (key, payload) in by_layer["batch"].items():
        expected = cut(whole[offset])
        assert json.loads(payload) == expected, expected.get("cut")
        number_of_cuts.add(len(expected.get("cut", ())))
        assert len(payload.encode()) + len((key or "").encode()) <= MOST
        assert key is None or json.loads(key) == whole[offset]["key"]
        assert key is not None or expected["key"] is None
        assert sent_alert(payload.encode()).offset == offset
    assert number_of_cuts == {0, 1, 2, 3, 4}
