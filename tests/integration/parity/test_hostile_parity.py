"""Hostile events among good ones: batch, speed and merged give what plain Python gives, and both
layers the same reasons.
"""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.support.hostile import KINDS, hostile, hostile_stream
from tests.support.layers import Pipeline, quick
from trilayer import Catalog, View, count, latest, max_, mean, min_, sum_, tumbling
from trilayer.operations.quarantine import quarantined
from trilayer.testing import Aggregation, Event, Windowed, answer, differences, field

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 6
AGGREGATES = {
    "events": count(),
    "ns": count("n"),
    "sum_n": sum_("n"),
    "sum_big": sum_("big"),
    "sum_price": sum_("price"),
    "sum_wide": sum_("wide"),
    "mean_wide": mean("wide"),
    "least": min_("ratio"),
    "most": max_("ratio"),
    "last_price": latest("price", by="at"),
    "last_flag": latest("flag", by="n"),
}
ASKED = {
    "events": Aggregation("count"),
    "ns": Aggregation("count", field("n")),
    "sum_n": Aggregation("sum_", field("n")),
    "sum_big": Aggregation("sum_", field("big")),
    "sum_price": Aggregation("sum_", field("price")),
    "sum_wide": Aggregation("sum_", field("wide")),
    "mean_wide": Aggregation("mean", field("wide")),
    "least": Aggregation("min_", field("ratio")),
    "most": Aggregation("max_", field("ratio")),
    "last_price": Aggregation("latest", field("price"), field("at")),
    "last_flag": Aggregation("latest", field("flag"), field("n")),
}


def row_of(value):
    """The columns that are asked for, read by Python's own JSON parser."""
    read = json.loads(value, parse_float=Decimal)
    at = datetime.fromisoformat(read["at"])
    row = {name: read.get(name) for name in ("n", "big", "flag")}
    row |= {
        name: None if read.get(name) is None else Decimal(read[name]) for name in ("price", "wide")
    }
    ratio = read.get("ratio")
    return row | {
        "ratio": None if ratio is None else float(ratio),
        "at": at.replace(tzinfo=at.tzinfo or UTC),
    }


def expected_of(events):
    """Both views' answers; a total that has no room in its type is NULL."""
    keys = {
        "all_that_fit": {"beginning": lambda _: "fits"},
        "per_hour": {"hour": Windowed(field("at"), timedelta(hours=1), timedelta(hours=1))},
    }
    found = {name: answer(events, key, ASKED) for name, key in keys.items()}
    for measures in itertools.chain.from_iterable(view.values() for view in found.values()):
        for name, room in (("sum_big", 2**63), ("sum_wide", 10**36)):
            if measures[name] is not None and not -room < measures[name] < room:
                measures[name] = None
    return found


def test_what_fits_is_counted_alike_and_what_does_not_is_put_aside_for_the_same_reasons(
    broker, spark, store, new_topic
):
    stream = hostile_stream(new_topic())
    catalog = Catalog(
        views=[
            View(
                "all_that_fit",
                source=stream,
                key={"beginning": "substring(id, 1, 4)"},
                aggregates=AGGREGATES,
            ),
            View(
                "per_hour",
                source=stream,
                key={"hour": tumbling("at", "1 hour")},
                aggregates=AGGREGATES,
            ),
        ]
    )
    made = list(itertools.islice(hostile(5), ROUNDS * len(KINDS)))
    settings = quick(broker.bootstrap)
    events, unfit, by_speed = [], set(), {}

    def reasons():
        return {
            (event.partition, event.offset): event.reason for event in quarantined(store, stream)
        }

    with Pipeline(catalog, settings, store, spark) as pipeline:
        for half in (made[: len(made) // 2], made[len(made) // 2 :]):
            if by_speed:
                pipeline.wait_for_tick()
                pipeline.batch()
            places = pipeline.produce([(n % 2, one.value) for n, one in enumerate(half)])
            for (partition, offset, _), one in zip(places, half, strict=True):
                if one.fits:
                    events.append(Event(partition, offset, row_of(one.value)))
                else:
                    unfit.add((partition, offset))
            pipeline.catch_up()
            by_speed |= reasons()
        for layer in ("batch", "speed", "merged"):
            found, provenance = pipeline.answers(layer)
            cut = provenance.streams[stream.name].cut
            of_layer = [
                event
                for event in events
                if layer == "merged" or (event.offset < cut[event.partition]) is (layer == "batch")
            ]
            assert len(of_layer) > len(KINDS) // 2
            for view, expected in expected_of(of_layer).items():
                got = {
                    key: {
                        name: value for name, value in measures.items() if not name.endswith("_end")
                    }
                    for key, measures in found[view].items()
                }
                different = differences(got, expected, {"mean_wide": 1e-9})
                assert not different, "\n".join([layer, *different])
        pipeline.wait_for_tick()
        pipeline.batch()
        by_batch = reasons()
        publication = pipeline.in_force()
    assert publication.streams[stream.name].events == len(made)
    assert publication.streams[stream.name].quarantined == len(unfit)
    assert by_batch.keys() == unfit
    assert by_speed == by_batch
