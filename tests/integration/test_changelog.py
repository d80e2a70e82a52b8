"""A changelog's topic holds the merged view: read from its beginning, it is what SQL answers."""

import json
import random
import threading
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from kafka import KafkaConsumer

from tests.support.changelogs import Following, become_current, read
from tests.support.layers import Pipeline, quick
from tests.support.waiting import until
from trilayer import Catalog, Changelog, Stream, View, count, latest, max_, session, sum_, top
from trilayer.errors import DefinitionError, EnvironmentFault, LogError
from trilayer.operations.changelog_topic import ChangelogWriter
from trilayer.operations.status import project_status
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.store.files import Store
from trilayer_local import kafka

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def catalog_on(topic):
    sales = Stream(
        "sales",
        schema="buyer string, amount decimal(10,2), weight double, sold timestamp",
        event_time="sold",
        topic=topic,
    )
    by_buyer = View(
        "by_buyer",
        source=sales,
        key=["buyer"],
        aggregates={
            "n": count(),
            "total": sum_("amount"),
            "heaviest": max_("weight"),
            "last": latest("amount", by="sold"),
            "amounts": top("amount", 2),
        },
    )
    visits = View(
        "visits",
        source=sales,
        key={"buyer": "buyer", "visit": session("sold", "10 minutes")},
        aggregates={"n": count()},
    )
    return Catalog(
        views=[by_buyer, visits],
        changelogs=[
            Changelog("buyers", view=by_buyer, topic=f"{topic}-buyers", partitions=2),
            Changelog("visits", view=visits, topic=f"{topic}-visits"),
        ],
    )


def events(seed, number):
    """Sales of a few buyers: strange names, missing and infinite values, visits that join later."""
    random_ = random.Random(seed)
    buyers = ["ann", 'b"o\\b', "ümit\n", "", None, "cid's"]
    for _ in range(number):
        yield json.dumps(
            {
                "buyer": random_.choice(buyers),
                "amount": f"{random_.randrange(-500, 500) / 100:.2f}",
                "weight": random_.choice([0.1, -0.0, 1e300, None, "NaN", "Infinity"]),
                "sold": f"{BEGIN + timedelta(minutes=random_.randrange(3000)):%Y-%m-%dT%H:%M:%SZ}",
            }
        ).encode()


ANN = b'{"buyer": "ann", "amount": "1.00", "weight": 1.5, "sold": "2026-01-05T00:00:00Z"}'


def places(records):
    return {(record.partition, record.offset) for record in records}


def are_there(bootstrap, topic):
    """Whether the topic exists, with both of its partitions."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    found = consumer.partitions_for_topic(topic)
    consumer.close()
    return found == {0, 1}


@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_holds_the_merged_view_whatever_is_published_rolled_back_or_restarted(
    broker, store, spark, new_topic
):
    catalog, settings = catalog_on(new_topic()), quick(broker.bootstrap)
    project = Project(settings, catalog, store)

    def wait_until_current():
        become_current(catalog, settings, store)

    with Pipeline(catalog, settings, store, spark) as pipeline:
        pipeline.produce([(n % 2, value) for n, value in enumerate(events(1, 200))])
        pipeline.catch_up()
        with Following(project):
            wait_until_current()

            def stands():
                return project_status(project).changelogs["buyers"]

            until(lambda: stands().behind == 0, timeout_s=30)
            assert (stands().rows, stands().topic, stands().note) == (
                6,
                catalog.changelogs[0].topic,
                "",
            )
            pipeline.wait_for_tick()
            pipeline.batch()
            pipeline.produce([(n % 2, value) for n, value in enumerate(events(2, 50))])
            pipeline.catch_up()
            wait_until_current()
        # Nobody follows while more events come and a batch run is published.
        pipeline.produce([(n % 2, value) for n, value in enumerate(events(3, 50))])
        pipeline.catch_up()
        pipeline.wait_for_tick()
        pipeline.batch()
        buyers = catalog.changelogs[0].topic
        _, before = read(broker.bootstrap, buyers)
        with Following(project):
            wait_until_current()
            _, after = read(broker.bootstrap, buyers)
            written = [r for r in after if (r.partition, r.offset) not in places(before)]
            assert 0 < len(written) <= 6, "only what differs is written again"
            headers = dict(written[-1].headers)
            assert headers["publication"] == b"2"
            assert json.loads(headers["head"]) == {"sales": {"0": 150, "1": 150}}
            for change in (
                lambda: pipeline.rollback(1),
                lambda: pipeline.batch(full=True),
            ):
                # No answer changes, but that of ann, which says when the writer has looked.
                change()
                _, before = read(broker.bootstrap, buyers)
                pipeline.produce([(0, ANN)])
                pipeline.catch_up()
                wait_until_current()
                _, after = read(broker.bootstrap, buyers)
                written = [r for r in after if (r.partition, r.offset) not in places(before)]
                assert [json.loads(r.key) for r in written] == [{"buyer": "ann"}]
            with Log(broker.bootstrap) as log:
                log._admin.delete_topics([buyers])
            until(lambda: are_there(broker.bootstrap, buyers), timeout_s=60)
            wait_until_current()
        _, visits = read(broker.bootstrap, catalog.changelogs[1].topic)
        assert any(record.value is None for record in visits), "sessions that joined are deleted"


@pytest.mark.kafka
def test_a_topic_has_one_writer_and_holds_nothing_else(broker, new_topic):
    name = new_topic()
    with Log(broker.bootstrap) as log:
        topic = log.ensure_changelog(name, 1, compacted=True)
        assert log.ensure_changelog(name, 1, compacted=True) == topic
        stream = Stream(
            "plain", schema="a int, at timestamp", event_time="at", topic=new_topic(), partitions=1
        )
        log.ensure(stream)
        with pytest.raises(LogError, match=r"must be compact, .* got delete; set it"):
            log.ensure_changelog(stream.topic, 1, compacted=True)
        with pytest.raises(LogError, match=r"retention.ms .* must be -1, .* got 604800000; set it"):
            log.ensure_changelog(stream.topic, 1, compacted=False)
        with pytest.raises(LogError, match=r"must have 2 partitions, .* has 1"):
            log.ensure_changelog(name, 2, compacted=True)
    never = threading.Event()
    with ChangelogWriter(broker.bootstrap, topic, name) as first:
        first.write([('{"a":1}', "{}"), ('{"a":2}', "{}")], [], [])
        with ChangelogWriter(broker.bootstrap, topic, name) as second:
            second.write([('{"a":3}', "{}")], ['{"a":1}'], [])
            with pytest.raises(EnvironmentFault, match="have given the topic to another writer"):
                first.write([('{"a":1}', "old")], [], [])
            assert second.held(never) == {'{"a":2}': "{}", '{"a":3}': "{}"}
            with pytest.raises(LogError, match=r"the row with the key \{\"a\":4\} is larger than"):
                second.write([('{"a":4}', f'"{"x" * 3_000_000}"')], [], [])
    with (
        ChangelogWriter(broker.bootstrap, topic, "other") as other,
        pytest.raises(LogError, match=f"the record at offset 0 is of {name}, not of other"),
    ):
        other.held(never)


@pytest.mark.kafka
def test_a_record_that_the_brokers_do_not_take_is_never_committed(
    tmp_path, kafka_jars, monkeypatch
):
    """A broker that stands still for longer than the client waits, while a change is written."""
    monkeypatch.setattr("trilayer.operations.changelog_topic.ANSWER_S", 3.0)
    broker = kafka.start(tmp_path, jars=kafka_jars, echo=lambda _: None)
    stands = psutil.Process(broker.pid)
    try:
        with Log(broker.bootstrap) as log:
            topic = log.ensure_changelog("slow", 1, compacted=True)
        with ChangelogWriter(broker.bootstrap, topic, "slow") as writer:
            writer.write([("1", "{}")], [], [])
            stands.suspend()
            with pytest.raises(EnvironmentFault, match="topic 'slow': the brokers at"):
                writer.write([("2", "{}")], [], [])
            stands.resume()
        with ChangelogWriter(broker.bootstrap, topic, "slow") as writer:
            held = writer.held(threading.Event())
            writer.write([("3", "{}")], [], [])
            assert writer.held(threading.Event()) == held | {"3": "{}"}
        assert held == {"1": "{}"}
    finally:
        stands.resume()
        kafka.stop(tmp_path)


def test_a_wrong_changelog_says_what_is_wrong():
    catalog = catalog_on("t")
    view, (changelog, _) = catalog.views[0], catalog.changelogs
    for wrong, says in (
        (lambda: Changelog("Buyers", view=view), "name of a changelog"),
        (lambda: Changelog("b", view="by_buyer"), "view of changelog 'b' must be a View; got"),
        (lambda: Changelog("b", view=view, topic="a b"), "topic of changelog 'b' must be 1 to 249"),
        (lambda: Changelog("b", view=view, topic=".."), "and not '.' or '..'; got '..'"),
        (lambda: Changelog("b", view=view, partitions=0), "partitions of changelog 'b' must be"),
        (lambda: Changelog("b", view=view, compacted=1), "compacted of changelog 'b' must be True"),
        (lambda: Catalog(views=[view], changelogs=["b"]), "must be a list of Changelog; got 'b'"),
        (
            lambda: Catalog(views=[catalog.views[1]], changelogs=[changelog]),
            "view of changelog 'buyers' must be one of the catalog's; got 'by_buyer'",
        ),
        (
            lambda: Catalog(views=[view], changelogs=[changelog, changelog]),
            "topic of changelog 'buyers' must be its own; got 't-buyers'",
        ),
        (
            lambda: Catalog(views=[view], changelogs=[Changelog("b", view=view, topic="t")]),
            "topic of changelog 'b' must be its own; got 't', which belongs to a stream",
        ),
    ):
        with pytest.raises(DefinitionError, match=says):
            wrong()


@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_that_keeps_each_change_is_the_stream_of_another_catalog(
    broker, tmp_path, spark, new_topic
):
    topic = new_topic()
    view = catalog_on(topic).views[1]
    busy = View(
        "busy",
        source=view.source,
        key=["buyer"],
        aggregates={"n": count(), "total": sum_("amount"), "seen": max_("sold")},
    )
    changes = Changelog("busy", view=busy, topic=f"{topic}-busy", compacted=False)
    first = Catalog(views=[busy], changelogs=[changes])
    totals = Stream(
        "totals",
        schema="buyer string, n bigint, total decimal(38,2), seen timestamp",
        event_time="seen",
        topic=changes.topic,
        partitions=1,
    )
    newest = View(
        "newest",
        source=totals,
        key=["buyer"],
        aggregates={"most": max_("n"), "total": latest("total", by="n")},
    )
    settings = quick(broker.bootstrap)
    below, above = Store(str(tmp_path / "below")), Store(str(tmp_path / "above"))
    with (
        Pipeline(first, settings, below, spark) as source,
        Following(Project(settings, first, below)),
        Pipeline(Catalog(views=[newest]), settings, above, spark) as second,
    ):
        source.produce([(n % 2, value) for n, value in enumerate(events(4, 60))])
        source.catch_up()

        def agree():
            second.catch_up()
            answer = {
                buyer: {"most": row["n"], "total": row["total"]}
                for buyer, row in source.answers()[0]["busy"].items()
            }
            return len(answer) == 6 and second.answers()[0]["newest"] == answer

        until(agree, timeout_s=60)
        second.wait_for_tick()
        second.batch()
        assert agree()
