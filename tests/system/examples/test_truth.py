"""The examples' answers are those that their truth and the tests' oracle compute in plain Python,
each for itself.
"""

import csv
import importlib
import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce

import pytest

from examples.demo import compare
from examples.transport import lifts
from tests.support.answers import answers_to_files
from trilayer.testing import Aggregation, Event, Recent, Sessions, Windowed, answer, field, same
from trilayer_core.definitions.catalog import load_catalog

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(minutes=13, seconds=20)
EVENTS = {"retail": 3_000, "transport": 2_000, "social": 1_000, "network": 6_000, "fraud": 3_000}


def asked_of_retail():
    def amount(row):
        return row["quantity"] * Decimal(row["unit_price"])

    bought = field("purchased_at")
    minute = timedelta(minutes=1)
    hour = Windowed(bought, 60 * minute, 60 * minute)
    return {
        "sales_of_last_hour": (
            {"product": field("product"), "minute": Recent(bought, 60 * minute, minute, NOW)},
            {"purchases": Aggregation("count"), "items": Aggregation("sum_", field("quantity"))},
        ),
        "buyers_by_product": (
            {"product": field("product")},
            {
                "buyers": Aggregation("distinct", field("customer")),
                "with_coupon": Aggregation("count", lambda row: row.get("coupons")),
            },
        ),
        "spending_by_customer": (
            {"customer": field("customer")},
            {
                "purchases": Aggregation("count"),
                "variance": Aggregation("variance", amount),
                "deviation": Aggregation("stddev", amount),
                "favourite": Aggregation("mode", field("product")),
                "last_products": Aggregation("collect", field("product"), bought, options={"k": 3}),
                "bought_in_bulk": Aggregation("any_", lambda row: row["quantity"] >= 5),
            },
        ),
        "baskets_by_hour": (
            {"hour": hour},
            {
                "amounts": Aggregation(
                    "quantiles", amount, options={"quantiles": [0.5, 0.9, 0.99]}
                ),
                "sizes": Aggregation("histogram", amount, options={"bounds": [5, 10, 20, 50]}),
                "best_sellers": Aggregation("top", field("product"), options={"k": 3}),
            },
        ),
    }


def asked_of_network():
    second = Windowed(field("seen"), timedelta(seconds=1), timedelta(seconds=1))
    return {
        "traffic_by_second": (
            {"source": field("source"), "second": second},
            {"packets": Aggregation("count"), "bytes": Aggregation("sum_", field("bytes"))},
        ),
        "sources": (
            {"source": field("source")},
            {
                "ports": Aggregation("distinct", field("port")),
                "destinations": Aggregation("distinct", field("destination")),
                "first_seen": Aggregation("min_", field("seen")),
                "last_seen": Aggregation("max_", field("seen")),
                "sizes": Aggregation(
                    "histogram", field("bytes"), options={"bounds": [128, 512, 1024]}
                ),
            },
        ),
    }


def asked_of_social():
    def counted_words(row):
        return re.findall("[a-z]+", row["text"].lower())

    everything = {"everything": lambda row: "all"}
    tags = "#([a-z]+)"
    minute = Windowed(field("posted"), timedelta(minutes=1), timedelta(minutes=1))
    words = lambda row: [{"word": word} for word in counted_words(row)]  # noqa: E731
    hashtags = lambda row: [row | {"hashtag": tag} for tag in re.findall(tags, row["text"])]  # noqa: E731
    return {
        "vocabulary": (
            everything,
            {
                "words": Aggregation("count"),
                "different": Aggregation("distinct", field("word")),
                "most_common": Aggregation("top", field("word"), options={"k": 10}),
            },
            words,
        ),
        "popular_hashtags": (
            {"hashtag": field("hashtag")},
            {
                "posts": Aggregation("count"),
                "authors": Aggregation("distinct", field("author")),
                "first_author": Aggregation(
                    "first", field("author"), field("posted"), positioned=False
                ),
            },
            hashtags,
        ),
        "hashtags_of_5_minutes": (
            {
                "hashtag": field("hashtag"),
                "recent": Recent(field("posted"), timedelta(minutes=5), timedelta(seconds=10), NOW),
            },
            {"posts": Aggregation("count")},
            hashtags,
        ),
        "trending": (
            {"minute": minute},
            {"hashtags": Aggregation("top", field("hashtag"), options={"k": 5})},
            hashtags,
        ),
    }


def asked_of_transport():
    with lifts.file.open() as file:
        names = {lift["lift"]: lift["name"] for lift in csv.DictReader(file)}
    period = Windowed(field("passed"), timedelta(minutes=10), timedelta(minutes=5))
    reported = field("reported")
    return {
        "riders": (
            {"lift": field("lift"), "period": period},
            {"rides": Aggregation("count"), "skiers": Aggregation("distinct", field("skier"))},
            lambda row: [row | {"lift": names.get(row["lift"], row["lift"])}],
        ),
        "skiers": (
            {"skier": field("skier")},
            {
                "rides": Aggregation("count"),
                "last_lifts": Aggregation(
                    "collect", field("lift"), field("passed"), options={"k": 3}
                ),
            },
        ),
        "buses": (
            {"bus": field("bus")},
            {
                "reported": Aggregation("max_", reported),
                "route": Aggregation("latest", field("route"), reported),
                "latitude": Aggregation("latest", field("latitude"), reported),
                "longitude": Aggregation("latest", field("longitude"), reported),
                "always_empty": Aggregation("every", lambda row: row["passengers"] == 0),
            },
        ),
        "services": (
            {"bus": field("bus"), "service": Sessions(reported, timedelta(minutes=5))},
            {
                "reports": Aggregation("count"),
                "most_passengers": Aggregation("max_", field("passengers")),
                "longest_delay_s": Aggregation("max_", field("delay_s")),
            },
        ),
        "delays_by_route": (
            {"route": field("route")},
            {
                "reports": Aggregation("count"),
                "late": Aggregation("count", where=lambda row: row["delay_s"] > 300),
                "delay_s": Aggregation(
                    "quantiles", field("delay_s"), options={"quantiles": [0.5, 0.9, 0.99]}
                ),
            },
        ),
    }


def asked_of_fraud():
    paid = field("paid_at")

    def amount(row):
        return Decimal(row["amount"])

    sums = {"transactions": Aggregation("count"), "total": Aggregation("sum_", amount)}
    largest = {"largest": Aggregation("max_", amount)}
    minute = Windowed(paid, timedelta(minutes=1), timedelta(minutes=1))
    return {
        "by_card": (
            {"card": field("card")},
            sums
            | {
                "max_amount": Aggregation("max_", amount),
                "last_merchant": Aggregation("latest", field("merchant"), paid),
                "last_paid_at": Aggregation("max_", paid),
            },
        ),
        "by_minute": ({"minute": minute}, sums | largest),
        "outings": (
            {"card": field("card"), "outing": Sessions(paid, timedelta(hours=1))},
            sums | largest,
        ),
        "merchants": (
            {"merchant": field("merchant")},
            sums
            | {
                "amounts": Aggregation("quantiles", amount, options={"quantiles": [0.5, 0.9, 0.99]})
            },
        ),
    }


ASKED = {
    "fraud": asked_of_fraud,
    "retail": asked_of_retail,
    "transport": asked_of_transport,
    "social": asked_of_social,
    "network": asked_of_network,
}


@pytest.mark.parametrize("name", EVENTS)
def test_the_answers_are_the_truth_and_the_oracle_s(spark, tmp_path, name):
    demo = importlib.import_module(f"examples.{name}.truth").demo
    prepared = demo.prepare(tmp_path, events=EVENTS[name], seed=1, start=START)
    files = {stream: whole(prepared, stream, tmp_path) for stream in prepared.files}
    catalog = load_catalog(demo.catalog)
    connection = answers_to_files(spark, catalog, files, now=f"TIMESTAMPTZ '{NOW.isoformat()}'")
    # Those of alerts need a log: test_fraud_alerts.py has one.
    expected = [one for one in prepared.expected(NOW) if not one.relation.startswith("alerts.")]
    for relation in expected:
        compared = compare(relation, dicts(connection, relation.sql))
        assert compared.wrong == [], relation.relation
        assert compared.errors.keys() == relation.within.keys()
        assert relation.within.keys() <= {*relation.columns}
    truths = {relation.relation: relation for relation in expected}
    for view, (key, aggregates, *made) in ASKED[name]().items():
        stream = catalog.view(view).stream
        events = events_of(files[stream.name], stream)
        rows = answer(events, key, aggregates, rows=made[0] if made else lambda row: [row])
        tolerated = truths[view].within
        found = {
            tuple(row[name] for name, part in key.items() if not isinstance(part, Recent)): row
            for row in dicts(connection, f"from {view}")
        }
        assert found.keys() == rows.keys()
        for of_key, right in rows.items():
            for column, value in right.items():
                if column not in tolerated:
                    assert same(found[of_key][column], value, 1e-12), (view, of_key, column)
                if column in truths[view].columns:
                    assert same(truths[view].rows[of_key][column], value, 1e-12)
    for query in demo.queries:
        assert connection.sql(f"from {query}").columns, query


def whole(prepared, stream, folder):
    """The file of a stream, with what is sent before it."""
    if stream not in prepared.history:
        return prepared.files[stream]
    path = folder / f"whole-{stream}.jsonl"
    path.write_bytes(prepared.history[stream].read_bytes() + prepared.files[stream].read_bytes())
    return path


def events_of(path, stream):
    """The events of a file that fit the columns of their stream."""
    for offset, line in enumerate(path.read_text("utf-8").splitlines()):
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        row = {one.name: reduce(within, one.path, found) for one in stream.fields}
        missing = any(row[one.name] is None for one in stream.fields if one.required)
        if missing or any(
            (type_ == "int" and not isinstance(row[name], int))
            or (type_.startswith("decimal") and "," in row[name])
            for name, type_ in stream.columns.items()
        ):
            continue
        times = [name for name, type_ in stream.columns.items() if type_ == "timestamp"]
        yield Event(0, offset, row | {name: datetime.fromisoformat(row[name]) for name in times})


def within(value, step):
    return (value or {}).get(step)


def dicts(connection, sql):
    cursor = connection.execute(sql)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
