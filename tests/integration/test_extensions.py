"""The extensions of examples/ work in batch, speed and merged; nothing of trilayer knows them."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pyarrow.csv
import pytest

from batch_layer.publish import rollback
from examples.extensions.count_between import count_between
from examples.extensions.csv_folder import CsvFolder
from examples.extensions.delimited import Delimited
from examples.extensions.year_to_date import year_to_date
from tests.support.layers import Pipeline, quick
from tests.support.waiting import until
from trilayer import Catalog, Sink, Stream, View, count, sum_, tumbling
from trilayer.errors import DefinitionError, SinkError, UsageError
from trilayer.operations.delivery import Delivered, deliver, sink
from trilayer_core.compute.parsing import REJECT, parse
from trilayer_core.project import Project

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def catalog_on(topic, sinks=()):
    visits = Stream(
        "visits",
        schema="visitor string not null, pages int, at timestamp",
        event_time="at",
        topic=topic,
        format=Delimited("|"),
    )
    by_visitor = View(
        "by_visitor",
        source=visits,
        key=["visitor"],
        aggregates={"visits": count(), "short": count_between("pages", 1, 3)},
    )
    so_far = View(
        "so_far",
        source=visits,
        key={"visitor": "visitor", "day": year_to_date("at")},
        aggregates={"visits": count(), "pages": sum_("pages")},
    )
    return Catalog(views=[by_visitor, so_far], sinks=sinks)


def line(visitor, pages, hour):
    return f"{visitor}|{pages}|{BEGIN + timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ}".encode()


BEFORE = [("ann", 1, 0), ("ann", 5, 9), ("bob", 2, 3), ("ann", 3, 30), ("cid", 7, -1)]
"""Below the cut: two days of ann's; cid's day is the last one of the year before."""
AFTER = [("ann", 4, 15), ("ann", 2, 52), ("bob", 9, 100), ("cid", 1, 9)]
"""Above it: a late event of ann's first day and one of a third day; a second day of bob's; and one
of cid's, in the new year.
"""
MISFITS = {
    b"ann|1": "wrong number: must have 3 parts, got 2",
    b"ann|many|2026-01-01T00:00:00Z": "wrong type: pages must be int",
    b"ann|1|10:00": "wrong type: at must be timestamp",
    b"|1|2026-01-01T00:00:00Z": "wrong type: visitor must be string",
    b"\xff|1|2026-01-01T00:00:00Z": "invalid UTF-8",
    b"": "wrong number: must have 3 parts, got 1",
    None: "tombstone",
}


def expected(events):
    """Both views of these events, in plain Python."""
    by_visitor, so_far = {}, {}
    of_visitor = defaultdict(list)
    for visitor, pages, hour in events:
        of_visitor[visitor].append((BEGIN + timedelta(hours=hour), pages))
    for visitor, visits in of_visitor.items():
        short = sum(1 <= pages <= 3 for _, pages in visits)
        by_visitor[visitor,] = {"visits": len(visits), "short": short}
        for day in {at.replace(hour=0) for at, _ in visits}:
            until = day + timedelta(days=1)
            counted = [(at, n) for at, n in visits if at.year == day.year and at < until]
            so_far[visitor, day] = {
                "day_end": max(counted)[0],
                "visits": len(counted),
                "pages": sum(pages for _, pages in counted),
            }
    return {"by_visitor": by_visitor, "so_far": so_far}


@pytest.mark.spark
@pytest.mark.kafka
def test_they_work_in_each_layer_and_across_the_seam(broker, store, spark, new_topic):
    catalog = catalog_on(new_topic())
    with Pipeline(catalog, quick(broker.bootstrap), store, spark) as pipeline:
        pipeline.produce([(n % 2, line(*event)) for n, event in enumerate(BEFORE)])
        pipeline.produce([(0, value) for value in MISFITS])
        pipeline.catch_up()
        assert pipeline.answers("merged")[0] == expected(BEFORE)
        pipeline.wait_for_tick()
        published = pipeline.batch()
        assert published.streams["visits"].events == len(BEFORE) + len(MISFITS)
        assert published.streams["visits"].quarantined == len(MISFITS)
        assert pipeline.answers("batch")[0] == expected(BEFORE)
        pipeline.produce([(n % 2, line(*event)) for n, event in enumerate(AFTER)])
        pipeline.catch_up()
        # A reader looks for what follows a publication within a second.
        until(lambda: pipeline.answers("speed")[0] == expected(AFTER))
        assert pipeline.answers("merged")[0] == expected(BEFORE + AFTER)
        pipeline.wait_for_tick()
        pipeline.batch()
        assert pipeline.answers("batch")[0] == expected(BEFORE + AFTER)
        pipeline.batch(full=True)
        assert pipeline.answers("batch")[0] == expected(BEFORE + AFTER)


class Broken(Sink):
    """A sink that takes nothing until it is mended."""

    name = "broken"
    mended = False
    taken = ()

    def deliver(self, publication):
        if not self.mended:
            raise OSError("the warehouse is closed")
        with pytest.raises(UsageError, match=r"must be one that version .* has; got 'so_fat'"):
            publication.table("so_fat")
        self.taken += ((publication.version, publication.t, tuple(publication.views)),)


def delivered_to(folder):
    """What the files of `CsvFolder` say, in the words of `expected`."""
    found = {}
    for view, keys in (("by_visitor", 1), ("so_far", 2)):
        rows = pyarrow.csv.read_csv(folder / "current" / f"{view}.csv").to_pylist()
        found[view] = {tuple(row.values())[:keys]: dict(list(row.items())[keys:]) for row in rows}
    return found


@pytest.mark.spark
@pytest.mark.kafka
def test_a_sink_has_what_is_in_force_whatever_fails_or_dies(
    broker, store, spark, new_topic, tmp_path
):
    folder, broken = CsvFolder(tmp_path / "files"), Broken()
    catalog, settings = catalog_on(new_topic(), [broken, folder]), quick(broker.bootstrap)
    p = Project(settings, catalog, store)
    assert deliver(p, catalog.sinks) == {}, "before the first publication"
    with Pipeline(catalog, settings, store, spark) as pipeline:
        pipeline.produce([(n % 2, line(*event)) for n, event in enumerate(BEFORE)])
        pipeline.catch_up()
        pipeline.wait_for_tick()
        first = pipeline.batch()
        with pytest.raises(
            SinkError, match="sink 'broken' has not taken version 1: OSError: the warehouse"
        ):
            deliver(p, catalog.sinks)
        assert delivered_to(folder.folder) == expected(BEFORE), "though the sink before it failed"
        pipeline.produce([(n % 2, line(*event)) for n, event in enumerate(AFTER)])
        pipeline.wait_for_tick()
        second = pipeline.batch()
        broken.mended = True
        assert deliver(p, catalog.sinks) == {
            "broken": Delivered(2, anew=True),
            "csv_folder": Delivered(2, anew=True),
        }
        assert delivered_to(folder.folder) == expected(BEFORE + AFTER)
        assert deliver(p, [sink(p, "broken")]) == {"broken": Delivered(2, anew=False)}
        store.delete("sinks/csv_folder.json")  # as if the process had died before it was written
        assert deliver(p, catalog.sinks)["csv_folder"] == Delivered(2, anew=True)
        assert delivered_to(folder.folder) == expected(BEFORE + AFTER)
        rollback(1, store)
        deliver(p, catalog.sinks)
        assert delivered_to(folder.folder) == expected(BEFORE)
    views = ("by_visitor", "so_far")
    assert broken.taken == ((2, second.t, views), (1, first.t, views))


@pytest.mark.spark
def test_a_format_says_why_an_event_does_not_fit(spark):
    (stream,) = catalog_on("visits").streams
    events = {line("ann", 1, 0): None, b"ann||2026-01-01T00:00:00Z": None} | MISFITS
    rows = spark.createDataFrame(list(enumerate(events)), "_place int, _value binary")
    found = {row["_place"]: row[REJECT] for row in parse(rows, stream).collect()}
    assert [found[n] for n in range(len(events))] == list(events.values())


def test_what_they_mean_is_in_the_fingerprints():
    def view(low=1, window=year_to_date, separator="|"):
        stream = Stream(
            "s", schema="n int, at timestamp", event_time="at", format=Delimited(separator)
        )
        key = {"day": window("at")}
        return View("v", source=stream, key=key, aggregates={"a": count_between("n", low, 3)})

    def days(time):
        return tumbling(time, "1 day")

    found = {v.fingerprint for v in (view(), view(low=2), view(window=days), view(separator=";"))}
    assert len(found) == 4
    assert view().fingerprint == view().fingerprint


def test_bad_use_is_an_error_when_it_is_declared():
    stream = Stream("s", schema="n int, t string, at timestamp", event_time="at")
    for aggregate, says in (
        (count_between("n", 3, 1), "must have low <= high; got 3 and 1"),
        (count_between("t", 1, 3), "must be over an int or a bigint; got string"),
    ):
        with pytest.raises(DefinitionError, match=says):
            View("v", source=stream, key=["t"], aggregates={"a": aggregate})
    with pytest.raises(DefinitionError, match="format of stream 's' must be a Format"):
        Stream("s", schema="at timestamp", event_time="at", format="csv")
    view = View("v", source=stream, key=["t"], aggregates={"a": count()})
    for sinks, says in (
        ([CsvFolder], "a sink must be an instance of a subclass of Sink"),
        ([CsvFolder(".", "Files!")], "name of the sink CsvFolder must be"),
        ([CsvFolder("a"), CsvFolder("b")], "sinks must have different names; got csv_folder twice"),
    ):
        with pytest.raises(DefinitionError, match=says):
            Catalog(views=[view], sinks=sinks)
