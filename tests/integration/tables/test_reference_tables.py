"""A reference table in both layers, across a publication, in queries, and with another content."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.support.layers import Pipeline, quick
from tests.support.waiting import until
from trilayer import Catalog, Query, Rows, Stream, Table, View, count, sum_
from trilayer.errors import CoverageError, UsageError
from trilayer.operations.definitions import loaded
from trilayer.operations.verification.run import verification
from trilayer_core.project import Project
from trilayer_core.store import orphans, tables
from trilayer_core.store.orphans import find_orphans

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

BEFORE = "lift,valley,height\nred,north,2000\nblue,south,1500\ngreen,,900\n"
AFTER = "lift,valley,height\nred,north,2100\nblue,north,1500\ngrey,west,700\n"
OTHERS = "valley,name\nnorth,Nordtal\nsouth,Südtal\n"


def with_lifts(rides, lifts):
    joined = rides.join(lifts, "lift", "left")
    return joined.select("valley", "height")


def catalog_on(topic, folder, lifts):
    """The catalog when the file of lifts has this content."""
    (folder / "lifts.csv").write_text(lifts)
    (folder / "valleys.csv").write_text(OTHERS)
    rides = Stream("rides", "lift string, at timestamp", event_time="at", topic=topic)
    table = Table(
        "lifts",
        path=folder / "lifts.csv",
        schema="lift string not null, valley string, height int",
    )
    named = Rows(
        "named",
        source=rides,
        tables=[table],
        rows=with_lifts,
        schema="valley string, height int",
    )
    by_valley = View(
        "by_valley",
        source=named,
        key=["valley"],
        aggregates={"riders": count(), "climbed": sum_("height")},
    )
    by_lift = View("by_lift", source=rides, key=["lift"], aggregates={"riders": count()})
    highest = Query(
        "by_name",
        "SELECT coalesce(name, valley) AS name, sum(b.riders) AS riders FROM by_lift b"
        " JOIN tables.lifts l USING (lift) LEFT JOIN tables.valleys v USING (valley) GROUP BY 1",
    )
    valleys = Table("valleys", path=folder / "valleys.csv", schema="valley string, name string")
    return Catalog(views=[by_valley, by_lift], queries=[highest], tables=[valleys])


def expected(lifts, ridden):
    rows = [line.split(",") for line in lifts.splitlines()[1:]]
    known = {lift: (valley or None, int(height)) for lift, valley, height in rows}
    found = {}
    for lift, riders in Counter(ridden).items():
        valley, height = known.get(lift, (None, None))
        row = found.setdefault((valley,), {"riders": 0, "climbed": None})
        row["riders"] += riders
        if height is not None:
            row["climbed"] = (row["climbed"] or 0) + riders * height
    return found


def by_name(lifts, ridden):
    names = dict(line.split(",") for line in OTHERS.splitlines()[1:])
    of = {lift: names.get(v, v or None) for lift, v, _ in (x.split(",") for x in lifts.split()[1:])}
    return Counter(of[lift] for lift in ridden if lift in of)


FIRST = ["red", "red", "blue", "green", "black"]
SECOND = ["red", "blue", "blue", None, "grey"]


def values(lifts):
    rows = [{"lift": lift, "at": "2026-01-01T10:00:00Z"} for lift in lifts]
    return [(n % 2, json.dumps(row).encode()) for n, row in enumerate(rows)]


def asked(pipeline, layer="merged"):
    return pipeline.answers(layer, ["by_valley"])[0]["by_valley"]


def clean(pipeline, spark):
    project = Project(pipeline.settings, pipeline.catalog, pipeline.store)
    return verification(project, lambda: spark).clean


def test_all_layers_join_the_content_that_the_definitions_have(
    broker, store, spark, new_topic, tmp_path
):
    topic, settings = new_topic(), quick(broker.bootstrap, keep_versions=2)
    catalog = catalog_on(topic, tmp_path, BEFORE)
    with Pipeline(catalog, settings, store, spark) as pipeline:
        pipeline.produce(values(FIRST))
        pipeline.catch_up()
        until(lambda: asked(pipeline) == expected(BEFORE, FIRST))
        # The definitions are those of the file as it was, whatever becomes of it.
        (tmp_path / "lifts.csv").write_text(AFTER)
        pipeline.wait_for_tick()
        pipeline.batch()
        assert asked(pipeline, "batch") == expected(BEFORE, FIRST)
        pipeline.produce(values(SECOND))
        pipeline.catch_up()
        until(lambda: asked(pipeline, "speed") == expected(BEFORE, SECOND))
        assert asked(pipeline) == expected(BEFORE, FIRST + SECOND)
        assert clean(pipeline, spark)
        names = pipeline._connection.sql("FROM by_name").rows()
        assert dict(names) == by_name(BEFORE, FIRST + SECOND)
        assert pipeline._connection.sql("SELECT max(height) FROM lifts").rows() == [(2000,)]
        with pytest.raises(UsageError, match="must not be that of a table of the catalog; got"):
            pipeline._connection.table("lifts", [{"lift": "red"}])
        generation = pipeline.generation
    before = contents(store)
    assert len(before) == 1

    catalog = catalog_on(topic, tmp_path, AFTER)
    assert str(tmp_path / "lifts.csv") in loaded(catalog, tmp_path).files, "it is watched"
    with Pipeline(catalog, settings, store, spark) as pipeline:
        with pytest.raises(CoverageError, match=r"by_valley.*its definition has changed"):
            asked(pipeline)
        pipeline.catch_up()
        assert pipeline.generation != generation
        pipeline.wait_for_tick()
        published = pipeline.batch()
        assert published.kind == "full"
        assert asked(pipeline) == expected(AFTER, FIRST + SECOND)
        assert clean(pipeline, spark)
        names = pipeline._connection.sql("FROM by_name").rows()
        assert dict(names) == by_name(AFTER, FIRST + SECOND)
        both = contents(store)
        assert set(before) < set(both)
        age(store)
        assert not tables_left(store), "the version before can be put in force again"
        for _ in range(2):
            pipeline.produce(values(FIRST))
            pipeline.catch_up()
            pipeline.wait_for_tick()
            pipeline.batch()
        assert contents(store) == sorted(set(both) - set(before)), "nothing has the older content"
        assert asked(pipeline) == expected(AFTER, FIRST * 3 + SECOND)


def contents(store):
    return [name for name in store.names("tables/lifts") if name.endswith(".parquet")]


def tables_left(store):
    return [left for left in find_orphans(store) if left.kind == orphans.TABLE]


def age(store):
    """As if the files had been written ten minutes ago."""
    for name in store.names("tables/lifts"):
        path = Path(store.path(f"tables/lifts/{name}"))
        then = path.stat().st_mtime - 600
        os.utime(path, (then, then))


def test_the_speed_layer_reads_a_table_once(broker, store, spark, new_topic, tmp_path, monkeypatch):
    read, frame = [], tables._frame
    monkeypatch.setattr(
        tables, "_frame", lambda *given: read.append(given[1].name) or frame(*given)
    )
    catalog = catalog_on(new_topic(), tmp_path, BEFORE)
    with Pipeline(catalog, quick(broker.bootstrap), store, spark) as pipeline:
        for _ in range(3):
            pipeline.produce(values(FIRST))
            pipeline.catch_up()
    assert read == ["lifts"]
