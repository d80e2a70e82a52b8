"""The payments of the example `fraud`: frauds are planted and not marked, and the rules in plain
Python hold for what they say.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest

from examples.fraud import catalog, transactions
from examples.fraud.generate import CARDS, CITIES, LATE, Payment, generate
from examples.fraud.truth import RULES, distance_km, exact, planted, prepare
from trilayer.operations.files.reading import read_events
from trilayer.operations.record_key import key_of, partition_of

START = datetime(2026, 1, 1, tzinfo=UTC)
HERE, THERE = {"lat": 48.21, "lon": 16.37}, {"lat": 52.52, "lon": 13.40}


@pytest.fixture(scope="module")
def payments():
    return generate(events=12_000, seed=1, start=START)


def test_frauds_of_each_kind_are_planted_and_rare(payments):
    found = planted(payments)
    assert found.of_alert.keys() == {alert.name for alert in catalog.alerts}
    assert all(len(ids) >= 10 for ids in found.of_alert.values())
    assert set().union(*found.of_alert.values()) < found.all
    assert 0.01 < len(found.all) / len(payments) < 0.04
    assert found.events == {payment.id for payment in payments}
    assert len(found.events) == len(payments)


def test_an_event_does_not_say_that_it_is_a_fraud(payments):
    shapes = {
        is_fraud: {frozenset(p.event) for p in payments if p.is_fraud == is_fraud}
        for is_fraud in (True, False)
    }
    assert shapes[True] == shapes[False]
    words = json.dumps([payment.event for payment in payments]).lower()
    assert not any(word in words for word in ("fraud", "thief", "planted", "velocity"))


def test_events_have_what_is_hard(payments):
    fitting = [payment for payment in payments if payment.fits]
    assert 0 < len(payments) - len(fitting) < len(payments) / 100
    late = [
        START + timedelta(seconds=number) - datetime.fromisoformat(payment.event["paid_at"])
        for number, payment in enumerate(payments)
    ]
    assert timedelta(minutes=30) < max(late) <= LATE + timedelta(seconds=1)
    assert 0.1 < sum("phone" not in p.event for p in payments) / len(payments) < 0.3
    cards = {payment.event["card"] for payment in payments}
    assert len(cards) > CARDS
    assert len({payment.event["holder"] for payment in payments}) < len(cards)


def test_every_rule_is_wrong_sometimes_and_mostly_useful(payments):
    """Otherwise precision and recall would show nothing."""
    later = {payment.id for payment in payments[6_000:]}  # at the beginning every card is new
    truth = planted(payments[6_000:])
    for expected in exact(payments, transactions.partitions):
        alert = expected.relation.removeprefix("alerts.")
        raised = {row["id"] for row in expected.rows.values()} & later
        assert 0.4 < len(raised & truth.all) / len(raised) < 1, alert
        wanted = truth.of_alert[alert]
        assert 0.5 < len(raised & wanted) / len(wanted) < 1, alert


def test_the_invalid_ones_are_those_that_do_not_fit(tmp_path):
    prepared = prepare(tmp_path, events=3_000, seed=2, start=START)
    events = [
        event
        for file in (prepared.history["transactions"], prepared.files["transactions"])
        for event in read_events(file, transactions)
    ]
    assert len(events) == 3_000
    amounts = [str(json.loads(event.value)["amount"]) for event in events]
    fits = [amount for amount in amounts if re.fullmatch(r"\d{1,8}(\.\d+)?", amount)]
    assert len(fits) == prepared.events < 3_000
    assert all(key_of(transactions, event.value) for event in events)


def payment(number, card, seconds, amount="10.00", *, fits=True, **more):
    paid_at = (START + timedelta(seconds=seconds)).isoformat()
    event = {"id": str(number), "card": card, "amount": amount, "paid_at": paid_at}
    return Payment(event | {"terminal": HERE} | more, fits=fits)


def test_the_rules_look_at_the_card_s_payments_before_it_by_their_place_in_the_log():
    sent = [
        payment(0, "a", 0, "501.00"),  # new and dear
        payment(1, "b", 1, "500.00"),  # new and not dear enough
        payment(2, "a", 10),  # ten seconds later
        payment(3, "a", 29),  # the third one within thirty seconds
        payment(4, "a", 500, "10,00", fits=False),  # precedes nothing
        payment(5, "a", 505),
        payment(6, "a", 500, "900.00"),  # came late, and is five seconds before the last one
        payment(7, "b", 1000, phone=THERE),
        payment(8, "b", 2000, phone={"lat": 48.0, "lon": 16.0}),
        payment(9, "c", 3000, "10,00", fits=False),
        payment(10, "c", 3001, "700.00"),  # the first one that fits
    ]
    found = {one.relation: one.rows for one in exact(sent, 3)}
    ends, places = {}, {}
    for one in sent:
        partition = partition_of(one.event["card"].encode(), 3)
        offset = ends.get(partition, 0)
        places[one.id], ends[partition] = (partition, offset), offset + 1
    assert {name: [row["id"] for row in rows.values()] for name, rows in found.items()} == {
        "alerts.velocity": ["2", "3", "6"],
        "alerts.far_from_phone": ["7"],
        "alerts.new_card": ["0", "10"],
    }
    for rows in found.values():
        assert all(places[row["id"]] == place for place, row in rows.items())


def test_the_distance_is_that_of_cities():
    assert distance_km(HERE, THERE) == pytest.approx(523.6, abs=2)
    assert distance_km(HERE, HERE) == 0
    for one, two in combinations(CITIES.values(), 2):
        places = [{"lat": lat, "lon": lon} for lat, lon in (one, two)]
        assert distance_km(*places) > 340


def test_the_oracle_knows_every_alert_without_a_profile():
    assert RULES.keys() == {alert.name for alert in catalog.alerts if alert.profile is None}
