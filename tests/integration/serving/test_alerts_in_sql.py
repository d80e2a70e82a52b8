"""Alerts in SQL: their states in each layer, and why."""

import pytest

import serving_layer
from tests.support.sent_alerts import AlertStore, Raised, later
from trilayer import Alert, Catalog, Query, Stream, View, count, max_
from trilayer_core.errors import UsageError
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.runs import JudgedFrom

PAYMENTS = Stream(
    "payments", "card string, amount bigint, note string, at timestamp", event_time="at"
)
BY_CARD = View(
    "by_card",
    source=PAYMENTS,
    key=["card"],
    aggregates={"n": count(), "most": max_("amount")},
)
LARGE = Alert("large", source=PAYMENTS, key=["card"], rule="amount > 5")
AGAIN = Alert("again", source=PAYMENTS, key=["card"], last=2, rule="size(last) > 0")
UNUSUAL = Alert(
    "unusual", source=PAYMENTS, key=["card"], rule="amount > profile.most", profile=BY_CARD
)
CATALOG = Catalog(
    views=[BY_CARD],
    alerts=[LARGE, AGAIN, UNUSUAL],
    queries=[Query("wrong", "SELECT offset FROM alerts.large WHERE state = 'withdrawn'".replace(
        "offset", '"offset"'))],
)  # fmt: skip
STATES = 'SELECT state, "offset" FROM alerts.{} ORDER BY "offset"'


@pytest.fixture
def written(store):
    return AlertStore(store, CATALOG)


@pytest.fixture(params=[True, False], ids=["kept", "merged by each query"])
def connection(request, written, tmp_path):
    settings = Settings(home=tmp_path, store=written.store.root)
    keep = request.param
    with serving_layer.connect(CATALOG, settings, written.store, keep=keep) as connection:
        yield connection


def raised(*offsets, alert=LARGE, **more):
    return [Raised(alert, offset, **more) for offset in offsets]


def states(asked, alert="large", layer="merged"):
    return asked.sql(STATES.format(alert), layer).rows()


def reasons(asked, alert):
    return dict(asked.sql(f'SELECT "offset", why FROM alerts.{alert}').rows())


def test_nothing_published_and_nothing_sent_is_no_error(connection):
    for layer in ("merged", "batch", "speed"):
        assert states(connection, layer=layer) == []


def test_the_states_of_alerts_in_each_layer(written, connection):
    written.begin(LARGE, {})
    written.send(*raised(1, 2, 7, 9, 12))
    assert states(connection) == [("early", n) for n in (1, 2, 7, 9, 12)]
    assert states(connection, layer="batch") == []
    written.publish({0: 10}, {"large": [written.batch_file(*raised(2, 5, 7, 9))]})
    assert states(connection) == [
        ("withdrawn", 1), ("confirmed", 2), ("added", 5), ("confirmed", 7), ("confirmed", 9),
        ("early", 12),
    ]  # fmt: skip
    assert states(connection, layer="batch") == [
        ("confirmed", 2), ("added", 5), ("confirmed", 7), ("confirmed", 9),
    ]  # fmt: skip
    assert states(connection, layer="speed") == [
        ("withdrawn", 1), ("confirmed", 2), ("confirmed", 7), ("confirmed", 9), ("early", 12),
    ]  # fmt: skip
    assert reasons(connection, "large") == {
        1: "unexplained", 2: None, 5: "not sent when it was compared", 7: None, 9: None, 12: None,
    }  # fmt: skip
    exact = "SELECT count(*) FROM alerts.large WHERE state <> 'withdrawn'"
    assert connection.sql(exact).rows() == [(5,)]


def test_what_a_row_has(written, connection):
    (one,) = raised(4)
    written.send(one)
    (row,) = connection.sql("SELECT * FROM alerts.large").dicts()
    assert row == {
        "state": "early",
        "why": None,
        "created_at": one.created_at,
        "seen_at": one.seen_at,
        "id": f"large-{LARGE.fingerprint}-0-4",
        "partition": 0,
        "offset": 4,
        "key": {"card": "c1"},
        "event": {"card": "c1", "amount": 4, "note": "", "at": one.created_at.replace(second=0)},
        "last": [],
        "profile": None,
        "profile_version": None,
    }
    written.publish({0: 10}, {"large": [written.batch_file(*raised(5))]})
    added = "SELECT seen_at, event.amount FROM alerts.large WHERE state = 'added'"
    assert connection.sql(added).rows() == [(None, 5)]


def test_a_partition_without_a_cut_and_origins_before_and_after_the_publication(
    written, connection
):
    first, second = "topic", written.later_origin(2)
    third = written.later_origin(3)
    written.send(
        *raised(90, origin_id=first),
        *raised(1, 20, origin_id=second),
        *raised(3, origin_id=third),
        *raised(4, origin_id=second, partition=1),
        *raised(5, origin_id="a log that no batch run has seen"),
    )
    written.publish({0: 10}, {"large": []}, origin_id=second)
    assert states(connection) == [
        ("withdrawn", 1), ("early", 3), ("early", 4), ("early", 5), ("early", 20),
        ("withdrawn", 90),
    ]  # fmt: skip


def test_a_rollback_brings_back_what_was(written, connection):
    written.send(*raised(1, 2, 3))
    one, two, three = (written.batch_file(*raised(n)) for n in (1, 2, 3))
    written.publish({0: 2}, {"large": [one]})
    before = states(connection)
    written.publish({0: 4}, {"large": [one, two]})
    assert states(connection) == [("confirmed", 1), ("confirmed", 2), ("withdrawn", 3)]
    with connection.snapshot() as snapshot:
        written.put_in_force(1)
        assert states(connection) == before == [("confirmed", 1), ("early", 2), ("early", 3)]
        assert states(snapshot) == [("confirmed", 1), ("confirmed", 2), ("withdrawn", 3)]
    with connection.snapshot(version=2) as snapshot:
        assert states(snapshot) == [("confirmed", 1), ("confirmed", 2), ("withdrawn", 3)]
        assert states(snapshot, layer="batch") == [("confirmed", 1), ("confirmed", 2)]
        assert snapshot.sql("FROM wrong").rows() == [(3,)]
    written.publish({0: 4}, {"large": [three]})
    assert states(connection) == [("withdrawn", 1), ("withdrawn", 2), ("confirmed", 3)]
    assert connection.sql("SELECT 1 FROM alerts.large").provenance.version == 3


def test_queries_of_the_catalog_use_alerts_in_the_layer_that_is_asked(written, connection):
    written.send(*raised(1))
    written.publish({0: 2}, {"large": []})
    assert connection.sql("FROM wrong").rows() == [(1,)]
    assert connection.sql("FROM wrong", "speed").rows() == [(1,)]
    assert connection.sql("FROM wrong", "batch").rows() == []
    assert connection.sql("FROM wrong").rows() == [(1,)]


def test_alerts_of_another_definition_are_not_shown(written, connection):
    written.send(*raised(1), *raised(2, fingerprint="another"), *raised(3, alert=AGAIN))
    assert states(connection) == [("early", 1)]
    assert states(connection, "again") == [("early", 3)]


def test_a_publication_that_lacks_an_alert_withdraws_nothing(written, connection):
    written.send(*raised(1))
    written.publish({0: 10}, {"again": []})
    assert states(connection) == [("early", 1)]


def test_what_is_sent_twice_or_merged_is_one(written, connection):
    (one, two) = raised(1, 2)
    written.send(one)
    assert states(connection) == [("early", 1)]
    written.send(later(one), two)
    assert states(connection) == [("early", 1), ("early", 2)]
    written.merge(LARGE.topic)
    read = []
    original = written.store.read_table
    written.store.read_table = lambda file, *a: read.append(file) or original(file, *a)
    assert states(connection) == [("early", 1), ("early", 2)]
    assert read == []  # what is merged is loaded already
    written.store.read_table = original
    written.send(*raised(3))
    written.merge(LARGE.topic)
    assert states(connection) == [("early", 1), ("early", 2), ("early", 3)]
    written.store.delete(f"alerts/sent/{LARGE.topic}")
    assert states(connection) == []
    written.send(*raised(4))
    assert states(connection) == [("early", 4)]


def test_of_two_payloads_the_one_of_the_events_generation_is_shown(written, connection):
    written.begin(UNUSUAL, {0: 0}, version=1, profile=1)
    old, new = (Raised(UNUSUAL, 5, version=version, content=f"v{version}") for version in (1, 2))
    shown = "SELECT profile_version, event.note FROM alerts.unusual"
    written.send(old)
    assert connection.sql(shown).rows() == [(1, "v1")]
    written.begin(UNUSUAL, {0: 3}, version=2, profile=2)
    written.send(new)
    assert connection.sql(shown).rows() == [(2, "v2")]
    written.send(old)
    assert connection.sql(shown).rows() == [(2, "v2")]
    written.send(Raised(UNUSUAL, 5, version=3))
    assert connection.sql(shown).rows() == [(2, "v2")]
    # The batch layer may have judged by the earlier profile; that was sent as well.
    file = written.batch_file(old)
    written.publish({0: 9}, {"unusual": [file]}, judged=[JudgedFrom(1, {0: 0})])
    asked = "SELECT state, why, profile_version FROM alerts.unusual"
    assert connection.sql(asked).rows() == [("confirmed", None, 1)]
    assert connection.sql(asked, "speed").rows() == [("confirmed", None, 2)]


def test_why_without_a_generation_for_them(written, connection):
    written.begin(AGAIN, {0: 5}, read_from={0: 4})
    written.send(*raised(6, alert=AGAIN))
    file = written.batch_file(*raised(1, 5, 7, alert=AGAIN))
    written.publish({0: 10}, {"again": [file]})
    partly = (
        "the generation that judged it began without a publication, and knew only the events"
        " since then"
    )
    assert reasons(connection, "again") == {
        1: "came before the alert was watched", 5: partly, 6: partly, 7: partly,
    }  # fmt: skip
    written.begin(AGAIN, {0: 7}, version=1, read_from={0: 7})
    written.send(*raised(12, alert=AGAIN))
    assert reasons(connection, "again")[7] == "not sent when it was compared"


def test_why_by_the_versions_of_profiles(written, connection):
    written.begin(UNUSUAL, {0: 0}, version=1, profile=1)
    written.begin(UNUSUAL, {0: 10}, version=2, profile=2)
    written.send(
        *raised(9, 11, 14, alert=UNUSUAL, version=1), *raised(12, alert=UNUSUAL, version=2)
    )
    batch = [*raised(14, 15, alert=UNUSUAL, version=2)]
    judged = [JudgedFrom(1, {0: 0}), JudgedFrom(2, {0: 10})]
    written.publish({0: 20}, {"unusual": [written.batch_file(*batch)]}, judged=judged)
    between = "judged by the profile of version 1, while version 2 was coming into force"
    assert reasons(connection, "unusual") == {
        9: "unexplained", 11: between, 12: "unexplained", 14: between,
        15: "not sent when it was compared",
    }  # fmt: skip
    judged = [JudgedFrom(1, {0: 0}), JudgedFrom(2, {0: 16})]
    written.publish({0: 20}, {"unusual": [written.batch_file(*batch)]}, judged=judged)
    assert reasons(connection, "unusual")[15] == (
        "judged by the profile of version 2, while version 1 was the batch layer's"
    )


def test_an_unknown_alert(connection, written, tmp_path):
    with pytest.raises(UsageError, match=r"alert must be one of the catalog's; got 'lage'.*large"):
        connection.sql("FROM alerts.lage")
    with pytest.raises(UsageError, match="got 'lage'"):
        connection.alerts("lage")
    settings = Settings(home=tmp_path, store=written.store.root)
    with (
        serving_layer.connect(Catalog(views=[BY_CARD]), settings, written.store) as without,
        pytest.raises(UsageError, match="the catalog; it has none"),
    ):
        without.sql("FROM alerts.large")


def test_a_load_that_fails_changes_nothing_or_all(written, connection, monkeypatch):
    written.send(*raised(1, 2))
    assert states(connection) == [("early", 1), ("early", 2)]
    changes = (
        lambda: written.send(*raised(3)),
        lambda: written.publish({0: 3}, {"large": [written.batch_file(*raised(2, 5))]}),
    )
    expected = (
        [("early", 1), ("early", 2), ("early", 3)],
        [("withdrawn", 1), ("confirmed", 2), ("early", 3), ("added", 5)],
    )
    for change, after in zip(changes, expected, strict=True):
        with connection.snapshot() as snapshot:
            before = states(snapshot)
            change()
            with monkeypatch.context() as context:
                context.setenv("TRILAYER_FAILPOINT", "refresh.before-commit:error:1")
                with pytest.raises(OSError, match="before-commit"):
                    connection.sql("FROM alerts.large")
            assert states(snapshot) == before
        assert states(connection) == after
