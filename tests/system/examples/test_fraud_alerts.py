"""The alerts of the example `fraud`: what plain Python finds by walking the log is what the batch
layer's SQL finds with a window.
"""

import json
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from examples.fraud import by_card, catalog, transactions
from examples.fraud.generate import generate
from examples.fraud.truth import RULES, exact
from trilayer.operations.record_key import key_of, partition_of
from trilayer_core.compute.alerts import ORIGIN_ID, alerts_of, windowed_sql, with_profile
from trilayer_core.compute.parsing import REJECT, parse
from trilayer_core.definitions.alerts import profile_columns
from trilayer_core.runtime.session import select_from

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)


def log(payments, partitions):
    """The records of the payments as the layers see them, where `trilayer replay` puts them."""
    ends = dict.fromkeys(range(partitions), 0)
    for payment in payments:
        value = json.dumps(payment.event).encode()
        partition = partition_of(key_of(transactions, value), partitions)
        yield ("topic", partition, ends[partition], START, value)
        ends[partition] += 1


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_rules_without_a_profile_hold_for_the_same_payments(spark, partitions):
    payments = generate(events=4_000, seed=7, start=START)
    schema = (
        f"{ORIGIN_ID} string, _partition int, _offset bigint, _timestamp timestamp, _value binary"
    )
    records = spark.createDataFrame([*log(payments, partitions)], schema)
    place = [ORIGIN_ID, "_partition", "_offset", "_timestamp"]
    events = parse(records, transactions).where(F.col(REJECT).isNull())
    events = events.select(*place, *transactions.columns, F.lit(True).alias("_new"))
    (group,) = catalog.alert_groups
    judged = select_from(events, lambda rows: windowed_sql(group, rows, "_new"))
    columns = ", ".join(f"`{name}` {type_}" for name, type_ in profile_columns(by_card).items())
    nobody = spark.createDataFrame([], columns)
    judged = with_profile(judged, nobody, group, by_card, "CAST(NULL AS BIGINT)")
    found = {}
    for row in alerts_of(group, judged).collect():
        event = json.loads(row["payload"])["event"]
        found.setdefault(row["alert"], {})[row["partition"], row["offset"]] = {"id": event["id"]}
    right = {one.relation.removeprefix("alerts."): one.rows for one in exact(payments, partitions)}
    assert right.keys() == RULES.keys()
    assert all(right.values())
    assert found == right


def test_high_amount_looks_at_the_profile_and_at_what_came_since(spark):
    """Five payments make a profile; what was paid since then counts as well."""
    (group,) = catalog.alert_groups
    profile = spark.createDataFrame([("known",), ("new",)], "card string").selectExpr(
        "card",
        "IF(card = 'known', 5L, 4L) AS transactions",
        "CAST(100 AS DECIMAL(38,2)) AS total",
        "CAST(20 AS DECIMAL(10,2)) AS max_amount",
        "'shop' AS last_merchant",
        "TIMESTAMP '2026-01-01' AS last_paid_at",
    )
    assert profile.columns == list(profile_columns(by_card))
    paid = [("known", amount) for amount in (60, 181, 500, 70, 30, 211)] + [("new", 900)]
    values = [
        json.dumps(
            {
                "id": str(number),
                "card": card,
                "holder": "h",
                "amount": amount,
                "merchant": "shop",
                "terminal": {"lat": 0, "lon": 0},
                "paid_at": (START + timedelta(hours=number)).isoformat(),
            }
        ).encode()
        for number, (card, amount) in enumerate(paid)
    ]
    records = spark.createDataFrame(
        [("topic", 0, number, START, value) for number, value in enumerate(values)],
        f"{ORIGIN_ID} string, _partition int, _offset bigint, _timestamp timestamp, _value binary",
    )
    place = [ORIGIN_ID, "_partition", "_offset", "_timestamp"]
    events = parse(records, transactions).where(F.col(REJECT).isNull())
    events = events.select(*place, *transactions.columns, F.lit(True).alias("_new"))
    judged = select_from(events, lambda rows: windowed_sql(group, rows, "_new"))
    judged = with_profile(judged, profile, group, by_card, "CAST(1 AS BIGINT)")
    rows = alerts_of(group, judged).where("alert = 'high_amount'").collect()
    assert sorted(row["offset"] for row in rows) == [1, 5]
