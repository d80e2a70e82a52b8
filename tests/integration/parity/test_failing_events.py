"""Events that an expression of a view can't take: all layers set the same ones aside, and count
all others in all views of the stream. Other streams do not notice.
"""

import json
import random
import threading
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from speed_layer import run, supervisor
from tests.support.layers import Pipeline, quick
from tests.support.waiting import in_thread, until
from trilayer import Catalog, Rows, Stream, View, count, latest, sum_, tumbling
from trilayer.operations.quarantine import quarantined
from trilayer.operations.status import project_status
from trilayer.operations.verification.run import verification
from trilayer.testing import Aggregation, Event, Windowed, answer, differences, field
from trilayer_core.errors import CoverageError, TrilayerError
from trilayer_core.project import Project
from trilayer_core.store import layout

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

FAILING = {
    "where": ({"kind": "x"}, "where of view 'errors'", "int(kind) > 0", '"kind":"x"'),
    "filter": ({"status": "N/A"}, "where of aggregate 'bad' of view 'errors'",
               "cast(status as int) >= 400", '"status":"N/A"'),
    "overflow": ({"n": 3000, "items": None}, "value of aggregate 'total' of view 'errors'",
                 "n * 1000000", '"n":3000'),
    "element": ({"n": 7}, "value of aggregate 'last' of view 'errors'", "items[n]",
                '"items":[5,6,7],"n":7'),
    "key": ({"n": 0}, "key 'share' of view 'shares'", "100 div n", '"n":0'),
    "window": ({"seen": "-"}, "key 'hour' of view 'shares'", "to_timestamp(seen)", '"seen":"-"'),
}  # fmt: skip
"""What makes an event fail: its fields, and the part, the expression and the values that the reason
names.
"""


def catalog_on(logs_topic, orders_topic):
    logs = Stream(
        "logs",
        "host string, kind string, status string, n int, items array<int>, seen string,"
        " at timestamp",
        event_time="at",
        topic=logs_topic,
    )
    orders = Stream(
        "orders", "item string, n int, at timestamp", event_time="at", topic=orders_topic
    )
    return Catalog(
        views=[
            View("hosts", source=logs, key=["host"], aggregates={"events": count()}),
            View(
                "errors",
                source=logs,
                key=["host"],
                where="int(kind) > 0",
                aggregates={
                    "bad": count(where="cast(status as int) >= 400"),
                    "total": sum_("n * 1000000"),
                    "last": latest("items[n]", by="at"),
                },
            ),
            View(
                "shares",
                source=logs,
                key={"share": "100 div n", "hour": tumbling("to_timestamp(seen)", "1 hour")},
                aggregates={"events": count()},
            ),
            View("by_order", source=orders, key=["item"], aggregates={"n": sum_("n")}),
        ]
    )


HOUR = timedelta(hours=1)
LOGS = {
    "hosts": lambda e: answer(e, {"host": field("host")}, {"events": Aggregation("count")}),
    "errors": lambda e: answer(
        e,
        {"host": field("host")},
        {
            "bad": Aggregation("count", where=lambda row: int(row["status"]) >= 400),
            "total": Aggregation("sum_", lambda row: row["n"] * 1000000),
            "last": Aggregation("latest", lambda row: row["items"][row["n"]], field("at")),
        },
        where=lambda row: int(row["kind"]) > 0,
    ),
    "shares": lambda e: answer(
        e,
        {"share": lambda row: 100 // row["n"], "hour": Windowed(seen, HOUR, HOUR)},
        {"events": Aggregation("count")},
    ),
}


def seen(row):
    return datetime.fromisoformat(row["seen"])


def log_events(rng, number):
    """Events of logs, each with what makes it fail or None."""
    made = []
    for _ in range(number):
        why = rng.choice([None, None, None, *FAILING])
        row = {
            "host": rng.choice("ab"),
            "kind": rng.choice("01"),
            "status": rng.choice(["200", "404", "500"]),
            "n": rng.choice([1, 2]),
            "items": [5, 6, 7],
            "seen": f"2026-01-01T0{rng.randrange(3)}:30:00+00:00",
            "at": BEGIN + timedelta(minutes=rng.randrange(60)),
        }
        # What a filter leaves out is not computed.
        row |= {"kind": "1"} if why else {}
        made.append((row | (FAILING[why][0] if why else {}), why))
    return made


def json_of(row):
    return json.dumps(row, default=datetime.isoformat).encode()


def test_all_layers_set_the_same_events_aside(broker, spark, store, new_topic):
    rng = random.Random(5)
    catalog = catalog_on(new_topic(), new_topic())
    logs, orders = catalog.stream("logs"), catalog.stream("orders")
    good, failing, ordered = [], {}, []
    with Pipeline(catalog, quick(broker.bootstrap), store, spark) as pipeline:

        def arrive():
            made = [(rng.randrange(2), *event) for event in log_events(rng, 60)]
            places = pipeline.produce([(p, json_of(row)) for p, row, _ in made], logs)
            for (partition, offset, _), (_, row, why) in zip(places, made, strict=True):
                if why:
                    failing[partition, offset] = why
                else:
                    good.append(Event(partition, offset, row))
            rows = [{"item": rng.choice("xy"), "n": 1, "at": BEGIN} for _ in range(10)]
            placed = pipeline.produce([(0, json_of(row)) for row in rows], orders)
            ordered.extend(Event(p, o, row) for (p, o, _), row in zip(placed, rows, strict=True))
            pipeline.catch_up()

        def check():
            for layer in ("batch", "speed", "merged"):
                found, provenance = pipeline.answers(layer)

                def of_layer(stream, events, layer=layer, provenance=provenance):
                    cut = provenance.streams[stream].cut
                    below = [e.offset < cut.get(e.partition, 0) for e in events]
                    return [
                        e
                        for e, is_below in zip(events, below, strict=True)
                        if layer == "merged" or is_below == (layer == "batch")
                    ]

                for view, of in LOGS.items():
                    different = differences(found[view], of(of_layer("logs", good)), {})
                    assert not different, (layer, view, different)
                numbers = Counter(e.row["item"] for e in of_layer("orders", ordered))
                assert found["by_order"] == {(i,): {"n": n} for i, n in numbers.items()}, layer
            aside = {(e.partition, e.offset): e for e in quarantined(store, logs)}
            assert aside.keys() == failing.keys()
            for place, event in aside.items():
                _, part, expression, values = FAILING[failing[place]]
                assert event.reason.startswith(f"failed expression: {part}"), event.reason
                assert expression in event.reason
                assert values in event.reason
                assert event.value
            assert not list(quarantined(store, orders))

        arrive()
        pipeline.wait_for_tick()
        pipeline.batch()
        arrive()
        assert set(failing.values()) == set(FAILING)
        check()
        pipeline.wait_for_tick()
        publication = pipeline.batch(full=True)
        check()
        assert {found.different for found in publication.reconciliation.values()} == {0}
        found = verification(Project(pipeline.settings, catalog, store), lambda: spark)
        assert list(found.faults()) == []
        assert found.clean


def test_a_stream_that_fails_is_named_and_the_other_goes_on(
    broker, spark, store, new_topic, monkeypatch
):
    """Functions of `Rows` can't be tried beforehand, so an event can fail one when views are
    computed. Spark's session is that of the test run, which the speed layer must not stop.
    """
    logs = Stream("logs", "n int, at timestamp", event_time="at", topic=new_topic())
    orders = Stream("orders", "n int, at timestamp", event_time="at", topic=new_topic())
    shares = Rows(
        "shares",
        source=logs,
        rows=lambda events: events.selectExpr("100 div n AS share"),
        schema="share bigint",
    )
    by_share = View("by_share", source=shares, key=["share"], aggregates={"events": count()})
    by_n = View("by_n", source=orders, key=["n"], aggregates={"events": count()})
    catalog, settings = Catalog(views=[by_share, by_n]), quick(broker.bootstrap)
    shared = {name: getattr(spark, name) for name in ("readStream", "sparkContext", "sql")}
    monkeypatch.setattr(
        run, "session", lambda *_, **__: SimpleNamespace(stop=lambda: None, **shared)
    )
    monkeypatch.setattr(supervisor, "LONGEST_WAIT_S", 1_000.0)
    monkeypatch.setattr(supervisor, "FIRST_WAIT_S", 1_000.0)  # it is stopped before it starts again
    errors, stop = [], threading.Event()
    with Pipeline(catalog, settings, store, spark) as pipeline:

        def goes_on():
            with suppress(CoverageError):  # before its first micro-batch
                return pipeline.answers(views=["by_n"])[0]["by_n"] == {(7,): {"events": 1}}

        thread = in_thread(lambda: run.run_speed(Project(settings, catalog, store), stop), errors)
        try:
            pipeline.produce([(0, json_of({"n": n, "at": BEGIN})) for n in (1, 0)])
            until(lambda: store.exists(layout.stream_fault("logs")), timeout_s=60)
            pipeline.produce([(0, json_of({"n": 7, "at": BEGIN}))], orders)
            until(goes_on, timeout_s=60)
            status = project_status(Project(settings, catalog, store))
            assert status.streams["orders"].note == ""
            note = status.streams["logs"].note
            pipeline.wait_for_tick()
            with pytest.raises(TrilayerError) as raised:
                pipeline.batch()
        finally:
            stop.set()
            thread.join(timeout=60)
    message = str(raised.value)
    assert message.startswith("stream 'logs', when computing by_share: a Spark job failed: ")
    assert "its query has failed since " in note
    assert "the next try is at " in note
    (ended_by,) = errors
    for text in (message, note, str(ended_by)):
        assert "stream 'logs'" in text
        assert "[DIVIDE_BY_ZERO]" in text
        assert "(in 100 div n)" in text
