"""Sessions and recent windows through the layers: events that join two sessions on either side of
the seam, the last minutes as of the query, and a verification that compares them at one moment.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.layers import Pipeline, quick
from tests.support.waiting import until
from trilayer import (
    Catalog,
    Query,
    Sink,
    Stream,
    View,
    collect,
    count,
    distinct,
    quantiles,
    recent,
    session,
    sum_,
)
from trilayer.operations.delivery import deliver
from trilayer.operations.verification.run import verification
from trilayer.testing import Aggregation, Event, Recent, Sessions, answer, field
from trilayer_core.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

MINUTE = timedelta(minutes=1)


class Taken(Sink):
    name = "taken"
    rows = ()

    def deliver(self, publication):
        self.t, self.rows = publication.t, publication.table("last_hour").to_pylist()


def catalog_on(topic, sinks=()):
    clicks = Stream("clicks", "who string, n int, at timestamp", event_time="at", topic=topic)

    def lately(name, size):
        aggregates = {"clicks": count(), "total": sum_("n")}
        if name == "last_hour":
            aggregates |= {"ns": distinct("n", exact=True), "middle": quantiles("n", [0.5])}
        key = {"who": "who", "minute": recent("at", size, "1 minute")}
        return View(name, source=clicks, key=key, aggregates=aggregates)

    sittings = View(
        "sittings",
        source=clicks,
        key={"who": "who", "sitting": session("at", "5 minutes")},
        aggregates={"clicks": count(), "newest": collect("n", 2, by="at")},
    )
    velocity = Query(
        "velocity",
        "SELECT who, coalesce(m.clicks, 0) AS last_minutes, h.clicks AS last_hour"
        " FROM last_hour h LEFT JOIN last_minutes m USING (who)",
    )
    views = [sittings, lately("last_hour", "1 hour"), lately("last_minutes", "10 minutes")]
    return Catalog(views=views, queries=[velocity], sinks=sinks)


def test_late_events_join_sessions_and_the_last_hour_is_as_of_the_query(
    broker, store, spark, new_topic
):
    now = datetime.now(UTC).replace(microsecond=0)

    def ago(minutes):
        return now - minutes * MINUTE

    ages = [("ann", 200), ("ann", 189), ("bob", 40), ("ann", 30), ("ann", 5), ("cid", 90)]
    before = [{"who": who, "n": n, "at": ago(age)} for n, (who, age) in enumerate(ages)]
    # Late events that join ann's oldest two sessions, exactly a gap apart; and some of now.
    later = [("ann", 195), ("ann", 194), ("bob", 3), ("ann", 2), ("cid", -30), ("dee", 70)]
    after = [{"who": who, "n": 10 + n, "at": ago(age)} for n, (who, age) in enumerate(later)]
    events = []
    taken = Taken()
    catalog, settings = catalog_on(new_topic(), [taken]), quick(broker.bootstrap)
    project = Project(settings, catalog, store)
    with Pipeline(catalog, settings, store, spark) as pipeline:

        def arrive(rows):
            values = [json.dumps(row | {"at": row["at"].isoformat()}).encode() for row in rows]
            placed = pipeline.produce([(n % 2, value) for n, value in enumerate(values)])
            events.extend(Event(p, o, row) for (p, o, _), row in zip(placed, rows, strict=True))
            pipeline.catch_up()

        def expected(part):
            asked = {"clicks": Aggregation("count")}
            if isinstance(part, Sessions):
                asked["newest"] = Aggregation("collect", field("n"), field("at"), options={"k": 2})
            return answer(events, {"who": field("who"), "window": part}, asked)

        def as_the_oracle_says():
            last_hour = Recent(field("at"), 60 * MINUTE, MINUTE, datetime.now(UTC))
            sittings = expected(Sessions(field("at"), 5 * MINUTE))
            found = pipeline.answers()[0]
            for row in found["sittings"].values():
                row.pop("sitting_end")
            counted = {key: {"clicks": row["clicks"]} for key, row in found["last_hour"].items()}
            return (found["sittings"], counted) == (sittings, expected(last_hour))

        arrive(before)
        assert len(expected(Sessions(field("at"), 5 * MINUTE))) == len(before)
        until(as_the_oracle_says)
        pipeline.wait_for_tick()
        pipeline.batch()
        until(as_the_oracle_says)
        arrive(after)
        until(as_the_oracle_says)
        of_ann = sorted(at for who, at in pipeline.answers()[0]["sittings"] if who == "ann")
        assert of_ann == [ago(200), ago(30), ago(5)], "two late events have joined two of the four"
        rows = pipeline._connection.sql("FROM velocity ORDER BY who").rows()
        assert rows == [("ann", 2, 3), ("bob", 1, 2)]
        assert verified(project, spark)
        pipeline.wait_for_tick()
        published = pipeline.batch()
        until(as_the_oracle_says)
        assert verified(project, spark)
        # What a sink gets is as of T, whenever it is delivered.
        t = datetime.fromtimestamp(published.t_ms / 1000, UTC)
        deliver(project, [taken])
        as_of_t = expected(Recent(field("at"), 60 * MINUTE, MINUTE, t))
        assert {(row["who"],): {"clicks": row["clicks"]} for row in taken.rows} == as_of_t


def verified(project, spark):
    found = verification(project, lambda: spark)
    # Panes are compared, also those that no answer shows any more.
    assert all(layers["batch"].match > 0 for layers in found.layers.values())
    return found.clean


def test_now_is_not_that_of_an_earlier_query(broker, store, spark, new_topic):
    catalog = catalog_on(new_topic())
    with Pipeline(catalog, quick(broker.bootstrap), store, spark) as pipeline:

        def now():
            return pipeline._connection.sql("SELECT now()").rows()[0][0]

        first, began = now(), time.monotonic()
        until(lambda: now() > first)
        # The transaction is kept for a second; more is the machine's.
        assert time.monotonic() - began < 10
