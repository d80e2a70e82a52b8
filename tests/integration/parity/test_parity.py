"""Batch, speed and merged give what the oracle gives, over events made to be nasty, for every
aggregate, window and a row function.
"""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from serving_layer import connect
from tests.support.layers import Pipeline, quick
from trilayer import (
    Catalog,
    Rows,
    Stream,
    View,
    any_,
    collect,
    count,
    distinct,
    every,
    first,
    histogram,
    latest,
    max_,
    mean,
    min_,
    mode,
    quantiles,
    recent,
    session,
    sliding,
    stddev,
    sum_,
    top,
    tumbling,
    variance,
)
from trilayer.operations.verification.run import verification
from trilayer.testing import (
    Aggregation,
    Event,
    Recent,
    Sessions,
    Windowed,
    answer,
    differences,
    field,
)
from trilayer_core.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

SCHEMA = (
    "k string, n int, big bigint, amount decimal(12,2), x double, f float, flag boolean, d date,"
    " at timestamp not null, text string, nested struct<a:int,b:string>, tags array<string>"
)


def catalog_on(topic):
    stream = Stream("nasty", schema=SCHEMA, event_time="at", topic=topic, max_event_bytes=4000)

    def split_words(events):
        from pyspark.sql import functions as F

        words = events.select(F.explode(F.split("text", " ")).alias("word"), "n", "at")
        return words.where("word <> 'stop'")

    words = Rows(
        "words", source=stream, rows=split_words, schema="word string, n int, at timestamp"
    )
    everything = {
        "events": count(),
        "ns": count("n"),
        "late": count(where="n > 0"),
        "sum_n": sum_("n"),
        "sum_big": sum_("big"),
        "sum_amount": sum_("amount"),
        "sum_x": sum_("x", where="k is not null"),
        "min_n": min_("n"),
        "max_big": max_("big"),
        "min_amount": min_("amount"),
        "min_x": min_("x"),
        "max_x": max_("x"),
        "min_f": min_("f"),
        "max_text": max_("text"),
        "min_text": min_("text"),
        "min_at": min_("at"),
        "max_d": max_("d"),
        "max_flag": max_("flag"),
        "mean_n": mean("n"),
        "mean_x": mean("x"),
        "mean_amount": mean("amount", where="flag"),
        "last_text": latest("text", by="at"),
        "last_x": latest("x", by="n"),
        "first_k": first("k", by="x"),
        "first_n": first("n", by="at", where="flag"),
        "last_by_d": latest("amount", by="d"),
    }
    return Catalog(
        views=[
            View("by_k", source=stream, key=["k"], aggregates=everything),
            View(
                "by_x_and_f",
                source=stream,
                key=["x", "f"],
                aggregates={"events": count(), "sum_n": sum_("n")},
            ),
            View(
                "by_types",
                source=stream,
                key=["flag", "d", "amount"],
                aggregates={"events": count(), "last_k": latest("k", by="at")},
            ),
            View(
                "by_expression",
                source=stream,
                key={"day": "to_date(at)", "even": "n % 2 = 0", "a": "cast(nested.a as int)"},
                aggregates={"events": count(), "tagged": count("tags")},
                where="k is null or k <> 'left out'",
            ),
            View(
                "per_hour",
                source=stream,
                key={"k": "k", "hour": tumbling("at", "1 hour")},
                aggregates={"events": count(), "sum_n": sum_("n")},
            ),
            View(
                "per_day",
                source=stream,
                key={"day": tumbling("d", "1 day")},
                aggregates={"events": count()},
            ),
            View(
                "sliding_hour",
                source=stream,
                key={"window": sliding("at", "1 hour", "15 minutes"), "flag": "flag"},
                aggregates={
                    "events": count(),
                    "mean_n": mean("n"),
                    "last_k": latest("k", by="at"),
                    "min_x": min_("x"),
                },
            ),
            View(
                "spread",
                source=stream,
                key=["k"],
                aggregates={
                    "some": any_("flag"),
                    "all_of": every("flag", where="n is not null"),
                    "last_texts": collect("text", 3, by="at"),
                    "last_x": collect("x", 2, by="n", where="flag"),
                    "variance_n": variance("n"),
                    "variance_big": variance("big"),
                    "variance_amount": variance("amount"),
                    "stddev_f": stddev("f", where="f < 10"),
                    "x_buckets": histogram("x", [-1, 0, 0.1, 2]),
                    "amount_buckets": histogram("amount", [0, Decimal("12.5")]),
                },
            ),
            View(
                "cells",
                source=stream,
                key=["k"],
                where="k is null or k <> 'left out'",
                aggregates={
                    "texts": distinct("text"),
                    "exact_texts": distinct("text", exact=True, where="n > 0"),
                    "exact_x": distinct("x", exact=True),
                    "x_quantiles": quantiles("x", [0, 0.25, 0.5, 1]),
                    "top_texts": top("text", 3),
                    "mode_n": mode("n"),
                    "events": count(),
                },
            ),
            View(
                "cells_by_window",
                source=stream,
                key={"window": sliding("at", "1 hour", "15 minutes"), "flag": "flag"},
                aggregates={"ks": distinct("k", exact=True), "top_n": top("n", 2)},
            ),
            View(
                "word_cells",
                source=words,
                key=["n"],
                aggregates={"top_words": top("word", 2), "last_words": collect("word", 2, by="at")},
            ),
            View(
                "words",
                source=words,
                key=["word"],
                aggregates={"n": count(), "sum_n": sum_("n"), "last_at": latest("at", by="n")},
            ),
            View(
                "words_per_day",
                source=words,
                key={"day": tumbling("at", "1 day"), "word": "word"},
                aggregates={"n": count()},
            ),
            View(
                "sessions",
                source=stream,
                key={"flag": "flag", "session": session("at", "7 minutes"), "n": "n"},
                aggregates={"events": count(), "mean_n": mean("n"), "last_k": latest("k", by="at")},
            ),
            View(
                "sessions_of_words",
                source=words,
                key={"session": session("at", "1 hour")},
                aggregates={"n": count(), "variance_n": variance("n")},
            ),
            View(
                "lately",
                source=stream,
                key={"day": recent("at", "52000 days", "1 day"), "flag": "flag"},
                aggregates={"events": count(), "min_x": min_("x"), "mode_k": mode("k")},
            ),
        ]
    )


F = field


def where_n_positive(row):
    return None if row["n"] is None else row["n"] > 0


EVERYTHING = {
    "events": Aggregation("count"),
    "ns": Aggregation("count", F("n")),
    "late": Aggregation("count", where=where_n_positive),
    "sum_n": Aggregation("sum_", F("n")),
    "sum_big": Aggregation("sum_", F("big")),
    "sum_amount": Aggregation("sum_", F("amount")),
    "sum_x": Aggregation("sum_", F("x"), where=lambda row: row["k"] is not None),
    "min_n": Aggregation("min_", F("n")),
    "max_big": Aggregation("max_", F("big")),
    "min_amount": Aggregation("min_", F("amount")),
    "min_x": Aggregation("min_", F("x")),
    "max_x": Aggregation("max_", F("x")),
    "min_f": Aggregation("min_", F("f")),
    "max_text": Aggregation("max_", F("text")),
    "min_text": Aggregation("min_", F("text")),
    "min_at": Aggregation("min_", F("at")),
    "max_d": Aggregation("max_", F("d")),
    "max_flag": Aggregation("max_", F("flag")),
    "mean_n": Aggregation("mean", F("n")),
    "mean_x": Aggregation("mean", F("x")),
    "mean_amount": Aggregation("mean", F("amount"), where=F("flag")),
    "last_text": Aggregation("latest", F("text"), F("at")),
    "last_x": Aggregation("latest", F("x"), F("n")),
    "first_k": Aggregation("first", F("k"), F("x")),
    "first_n": Aggregation("first", F("n"), F("at"), F("flag")),
    "last_by_d": Aggregation("latest", F("amount"), F("d")),
}
SPREAD = {
    "some": Aggregation("any_", F("flag")),
    "all_of": Aggregation("every", F("flag"), where=lambda row: row["n"] is not None),
    "last_texts": Aggregation("collect", F("text"), F("at"), options={"k": 3}),
    "last_x": Aggregation("collect", F("x"), F("n"), F("flag"), options={"k": 2}),
    "variance_n": Aggregation("variance", F("n")),
    "variance_big": Aggregation("variance", F("big")),
    "variance_amount": Aggregation("variance", F("amount")),
    "stddev_f": Aggregation(
        "stddev", F("f"), where=lambda row: row["f"] is not None and row["f"] < 10
    ),
    "x_buckets": Aggregation("histogram", F("x"), options={"bounds": (-1, 0, 0.1, 2)}),
    "amount_buckets": Aggregation(
        "histogram", F("amount"), options={"bounds": (0, Decimal("12.5"))}
    ),
}
CELLS = {
    "texts": Aggregation("distinct", F("text")),
    "exact_texts": Aggregation("distinct", F("text"), where=where_n_positive),
    "exact_x": Aggregation("distinct", F("x")),
    "x_quantiles": Aggregation("quantiles", F("x"), options={"quantiles": (0, 0.25, 0.5, 1)}),
    "top_texts": Aggregation("top", F("text"), options={"k": 3}),
    "mode_n": Aggregation("mode", F("n")),
    "events": Aggregation("count"),
}
TOLERANCES = {
    "sum_x": 1e-9,
    "mean_n": 1e-9,
    "mean_x": 1e-9,
    "mean_amount": 1e-9,
    "variance_n": 1e-12,
    "variance_big": 1e-12,
    "variance_amount": 1e-12,
    "stddev_f": 1e-9,
    "x_quantiles": 0.01 + 1e-9,
}


def words_of(row):
    if row["text"] is None:
        return []
    return [
        {"word": word, "n": row["n"], "at": row["at"]}
        for word in row["text"].split(" ")
        if word != "stop"
    ]


def even(row):
    return None if row["n"] is None else row["n"] % 2 == 0


VIEWS = {
    "by_k": lambda events: answer(events, {"k": F("k")}, EVERYTHING),
    "by_x_and_f": lambda events: answer(
        events,
        {"x": F("x"), "f": F("f")},
        {"events": Aggregation("count"), "sum_n": Aggregation("sum_", F("n"))},
    ),
    "by_types": lambda events: answer(
        events,
        {"flag": F("flag"), "d": F("d"), "amount": F("amount")},
        {"events": Aggregation("count"), "last_k": Aggregation("latest", F("k"), F("at"))},
    ),
    "by_expression": lambda events: answer(
        events,
        {
            "day": lambda row: row["at"].date(),
            "even": even,
            "a": lambda row: row["nested"] and row["nested"]["a"],
        },
        {"events": Aggregation("count"), "tagged": Aggregation("count", F("tags"))},
        where=lambda row: row["k"] is None or row["k"] != "left out",
    ),
    "per_hour": lambda events: answer(
        events,
        {"k": F("k"), "hour": Windowed(F("at"), timedelta(hours=1), timedelta(hours=1))},
        {"events": Aggregation("count"), "sum_n": Aggregation("sum_", F("n"))},
    ),
    "per_day": lambda events: answer(
        events,
        {"day": Windowed(F("d"), timedelta(days=1), timedelta(days=1))},
        {"events": Aggregation("count")},
    ),
    "sliding_hour": lambda events: answer(
        events,
        {"window": Windowed(F("at"), timedelta(hours=1), timedelta(minutes=15)), "flag": F("flag")},
        {
            "events": Aggregation("count"),
            "mean_n": Aggregation("mean", F("n")),
            "last_k": Aggregation("latest", F("k"), F("at")),
            "min_x": Aggregation("min_", F("x")),
        },
    ),
    "spread": lambda events: answer(events, {"k": F("k")}, SPREAD),
    "cells": lambda events: answer(
        events,
        {"k": F("k")},
        CELLS,
        where=lambda row: row["k"] is None or row["k"] != "left out",
    ),
    "cells_by_window": lambda events: answer(
        events,
        {"window": Windowed(F("at"), timedelta(hours=1), timedelta(minutes=15)), "flag": F("flag")},
        {
            "ks": Aggregation("distinct", F("k")),
            "top_n": Aggregation("top", F("n"), options={"k": 2}),
        },
    ),
    "word_cells": lambda events: answer(
        events,
        {"n": F("n")},
        {
            "top_words": Aggregation("top", F("word"), options={"k": 2}),
            "last_words": Aggregation(
                "collect", F("word"), F("at"), positioned=False, options={"k": 2}
            ),
        },
        rows=words_of,
    ),
    "words": lambda events: answer(
        events,
        {"word": F("word")},
        {
            "n": Aggregation("count"),
            "sum_n": Aggregation("sum_", F("n")),
            "last_at": Aggregation("latest", F("at"), F("n"), positioned=False),
        },
        rows=words_of,
    ),
    "words_per_day": lambda events: answer(
        events,
        {"day": Windowed(F("at"), timedelta(days=1), timedelta(days=1)), "word": F("word")},
        {"n": Aggregation("count")},
        rows=words_of,
    ),
    "sessions": lambda events: answer(
        events,
        {"flag": F("flag"), "session": Sessions(F("at"), timedelta(minutes=7)), "n": F("n")},
        {
            "events": Aggregation("count"),
            "mean_n": Aggregation("mean", F("n")),
            "last_k": Aggregation("latest", F("k"), F("at")),
        },
    ),
    "sessions_of_words": lambda events: answer(
        events,
        {"session": Sessions(F("at"), timedelta(hours=1))},
        {"n": Aggregation("count"), "variance_n": Aggregation("variance", F("n"))},
        rows=words_of,
    ),
    "lately": lambda events: answer(
        events,
        {
            "day": Recent(F("at"), timedelta(days=52000), timedelta(days=1), datetime.now(UTC)),
            "flag": F("flag"),
        },
        {
            "events": Aggregation("count"),
            "min_x": Aggregation("min_", F("x")),
            "mode_k": Aggregation("mode", F("k")),
        },
    ),
}

NASTY = {
    "k": [
        None,
        "",
        "a",
        "A",
        "ä",
        "日本",
        "a ",
        "left out",
        "\U0001f600",
        "a\u0000b",
        "'; drop table",
    ],
    "n": [None, 0, -1, 7, 2**31 - 1, -(2**31)],
    "big": [None, 0, 2**53 + 1, -(2**53) - 1, 2**40],
    "amount": [None, Decimal("0.00"), Decimal("-0.01"), Decimal("9999999999.99"), Decimal("12.50")],
    "x": [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1e308, 5e-324, 0.1],
    "f": [None, 0.0, -0.0, math.nan, math.inf, 1.5, -2.25],
    "flag": [None, True, False],
    "d": [
        None,
        date(1969, 12, 31),
        date(1970, 1, 1),
        date(2026, 2, 28),
        date(1582, 10, 4),
        date(9999, 12, 30),
        date(1, 1, 1),
    ],
    "text": [None, "", " ", "to be or not to be", "stop", "ü ß  x", "one"],
    "nested": [None, {"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": -1, "b": ""}],
    "tags": [None, [], ["a", None], ["b", "b"]],
}
TIMES = [
    datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1883, 11, 18, 12, 3, 58, tzinfo=UTC),
    datetime(1600, 2, 29, 23, 0, 0, 1, UTC),
    datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
    datetime(2026, 3, 29, 1, 44, 59, 999999, UTC),
    datetime(2026, 3, 29, 1, 45, tzinfo=UTC),
]

BAD = [
    None,
    b"",
    b"   ",
    b"{",
    b'{"k": "a"',
    b"not json",
    b"\xff\xfe",
    b'{"k": "\xff", "at": "2026-01-01T00:00:00Z"}',
    b"[]",
    b"null",
    b"1",
    b'"x"',
    b'[{"at": "2026-01-01T00:00:00Z"}]',
    b"{}",
    b'{"k": "no time"}',
    b'{"at": null}',
    b'{"at": "yesterday"}',
    b'{"at": "2026-01-01T00:00:00Z", "n": "seven"}',
    b'{"at": "2026-01-01T00:00:00Z", "n": 2147483648}',
    b'{"at": "2026-01-01T00:00:00Z", "n": 1.5}',
    b'{"at": "2026-01-01T00:00:00Z", "d": "2026-02-30"}',
    b'{"at": "2026-01-01T00:00:00Z", "text": "' + b"x" * 4000 + b'"}',
]


def event_of(rng):
    row = {name: rng.choice(values) for name, values in NASTY.items()}
    row["at"] = rng.choice(TIMES) + timedelta(minutes=rng.choice([0, 0, 0, 7, -90]))
    return row


def json_of(row, rng):
    """As a producer might write it: NULLs left out or written, unknown fields, any order."""
    shown = {}
    for name, value in row.items():
        if value is None and rng.random() < 0.5:
            continue
        if isinstance(value, datetime):
            value = value.isoformat().replace("+00:00", "Z")
        elif isinstance(value, date):
            value = value.isoformat()
        shown[name] = value
    if rng.random() < 0.3:
        shown |= {"unknown": {"deep": [1]}, "K": "another case"}
    items = list(shown.items())
    rng.shuffle(items)
    parts = [
        (
            f"{json.dumps(k)}:"
            f" {v if isinstance(v, Decimal) else json.dumps(v, ensure_ascii=rng.random() < 0.5)}"
        )
        for k, v in items
    ]
    return ("{" + ", ".join(parts) + "}").encode()


@pytest.fixture(scope="module")
def world(broker, spark, compiled, new_topic, tmp_path_factory):
    """A store in which half of the log is below the published cut, and all events with their
    places.
    """
    from trilayer_core.store.files import Store

    rng = random.Random(7)
    rows = [event_of(rng) for _ in range(600)]
    sent = [(rng.randrange(2), row, json_of(row, rng)) for row in rows]
    sent += [(rng.randrange(2), None, bad) for bad in BAD * 2]
    rng.shuffle(sent)
    half = len(sent) // 2
    store = Store(str(tmp_path_factory.mktemp("parity") / "store"))
    with Pipeline(
        catalog_on(new_topic()), quick(broker.bootstrap, keep_versions=2), store, spark
    ) as pipeline:
        places = []
        for part in (sent[: half // 2], sent[half // 2 : half], sent[half:]):
            placed = pipeline.produce([(partition, value) for partition, _, value in part])
            places += [(place, row) for place, (_, row, _) in zip(placed, part, strict=True)]
            pipeline.catch_up()
            if len(places) <= half:
                pipeline.wait_for_tick()
                pipeline.batch()
        yield pipeline, places


@pytest.mark.parametrize("layer", ["batch", "speed", "merged"])
def test_a_layer_gives_what_the_oracle_gives(layer, world):
    """The batch views are those of two runs, of which the second has merged its partials with those
    of the first in Spark.
    """
    pipeline, places = world
    answers, provenance = pipeline.answers(layer)
    cut, head = provenance.streams["nasty"].cut, provenance.streams["nasty"].head
    assert sum(head.values()) == len(places)
    assert 0 < sum(cut.values()) < len(places)
    events = [
        Event(partition, offset, row)
        for (partition, offset, _), row in places
        if row is not None
        and (layer == "merged" or (offset < cut[partition]) is (layer == "batch"))
    ]
    different = []
    for view, oracle in VIEWS.items():
        expected = oracle(events)
        got = {
            key: {name: value for name, value in row.items() if not name.endswith("_end")}
            for key, row in answers[view].items()
        }
        assert len(expected) > 2
        different += [f"{view}: {line}" for line in differences(got, expected, TOLERANCES)]
    assert not different, "\n".join(different)


def test_every_bad_event_is_counted_as_quarantined(world):
    pipeline, places = world
    _, provenance = pipeline.answers(views=[])
    publication = pipeline.in_force()
    bad = [place for place, row in places if row is None]
    assert provenance.streams["nasty"].quarantined + publication.streams[
        "nasty"
    ].quarantined == len(bad)


def test_verify_finds_nothing_wrong_with_any_of_them(world, spark):
    pipeline, _ = world
    found = verification(
        Project(pipeline.settings, pipeline.catalog, pipeline.store), lambda: spark
    )
    assert list(found.faults()) == []
    assert found.clean
    assert {view.name for view in pipeline.catalog.stored} == set(found.layers)
    assert set(VIEWS) == set(found.views)


def test_the_layers_are_compared_by_cell(world):
    pipeline, _ = world
    compared = pipeline.in_force().reconciliation
    for view in pipeline.catalog.stored:
        assert compared[view.name].match > 0, view.name
        assert compared[view.name].different == 0, view.name
    with connect(pipeline.catalog, pipeline.settings, pipeline.store) as connection:
        cells = connection.reconciliation("cells__top_texts")
    assert cells.columns == ["_kind", "k", "_cell", "top_texts__batch", "top_texts__speed"]
    assert all(row[-1] == row[-2] for row in cells.rows())


def test_an_answer_says_which_of_its_columns_are_approximate(world):
    pipeline, _ = world
    with connect(pipeline.catalog, pipeline.settings, pipeline.store) as connection:
        exact = connection.sql("SELECT sum(n) FROM words").provenance
        asked = connection.sql("SELECT k, texts FROM cells").provenance
        every_view = connection.provenance()
    assert exact.exact
    assert exact.approximate == {}
    assert not asked.exact
    assert asked.approximate == {
        "cells": {"texts": "standard error 3.25 %", "x_quantiles": "within 1 % of the value"}
    }
    assert every_view.approximate == asked.approximate
