"""What the serving layer tells of the past: publications kept, their reconciliation key by key,
their snapshots, and what was committed since.
"""

import gc
import json
import shutil
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import pandas
import pyarrow as pa
import pytest

import serving_layer
from batch_layer.reconcile import reconcile
from serving_layer.refresh import Refresh
from speed_layer.compaction import compact
from tests.support.layers import Pipeline, quick
from trilayer import Catalog, Stream, View, count, max_, sliding, sum_
from trilayer_core.compute.grouping import partial_schema
from trilayer_core.compute.merging import (
    compare_partials,
    create_table_sql,
    insert_rows,
    open_duckdb,
    present_compared_select,
)
from trilayer_core.errors import CoverageError, IntegrityError, UsageError
from trilayer_core.project import Project
from trilayer_core.seam import tick_of
from trilayer_core.store import layout
from trilayer_core.store.documents import encode
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import read_partials

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def catalog_on(topic, *, where=None):
    stream = Stream(
        "sales", "shop string, price bigint, at timestamp", event_time="at", topic=topic
    )
    aggregates = {"n": count(), "revenue": sum_("price"), "dearest": max_("price")}
    totals = View("totals", source=stream, key=["shop"], aggregates=aggregates, where=where)
    hours = View(
        "hours",
        source=stream,
        key={"hour": sliding("at", "1 hour", "30 minutes")},
        aggregates={"n": count()},
    )
    return Catalog(views=[totals, hours])


def sales(shops):
    return [
        (n % 2, json.dumps({"shop": s, "price": n, "at": "2026-01-01T00:40:00Z"}).encode())
        for n, s in enumerate(shops)
    ]


class Made:
    """A store with two publications and a segment after them; what each layer said at each
    publication; when events were appended.
    """

    def __init__(self, topic, settings, store):
        self.topic, self.settings, self.store = topic, settings, store
        self.answers, self.appended = {}, []

    def connect(self, store=None, **catalog):
        return serving_layer.connect(
            catalog_on(self.topic, **catalog), self.settings, store or self.store
        )


@pytest.fixture(scope="module")
def made(broker, spark, new_topic, tmp_path_factory):
    topic = new_topic()
    store = Store(str(tmp_path_factory.mktemp("history") / "store"))
    found = Made(topic, quick(broker.bootstrap), store)
    with Pipeline(catalog_on(topic), found.settings, store, spark) as pipeline:
        for version, shops in enumerate(("aabb", "acc", "ada"), 1):
            events = [*sales(shops), *([(0, b"{")] if version == 2 else [])]
            for some in (events[:2], events[2:]):  # two micro-batches
                found.appended += pipeline.produce(some)
                pipeline.catch_up()
            if version < 3:
                pipeline.wait_for_tick()
                pipeline.batch()
                found.answers[version] = pipeline.answers("batch")[0]
        found.merged = pipeline.answers()[0]
    return found


@pytest.fixture
def copy(made, tmp_path):
    """The store, this test's own."""
    shutil.copytree(made.store.root, tmp_path / "store")
    return Store(str(tmp_path / "store"))


def counts(snapshot, layer="merged"):
    return dict(snapshot.sql("select shop, n from totals", layer).rows())


# -- publications ----------------------------------------------------------------------------------


def test_history_tells_each_stream_and_view(made):
    with made.connect() as connection:
        first, second = connection.history()
    assert (first.in_force, second.in_force, second.base) == (False, True, 1)
    assert (first.streams["sales"].events, second.streams["sales"].events) == (4, 8)
    assert second.streams["sales"].quarantined == 1
    assert sum(second.streams["sales"].cut.values()) == 8
    assert second.views["totals"] >= 3
    assert asdict(second.reconciliation["totals"]) == {
        "match": 2, "differ": 0, "missing": 0, "extra": 0, "not_compared": None,
    }  # fmt: skip
    frame = pandas.DataFrame([first, second])
    assert frame["events"].tolist() == [4, 8]
    assert pandas.to_datetime(frame["published_at"]).is_monotonic_increasing


def test_before_the_first_publication_there_is_no_history(made, store):
    with made.connect(store) as connection:
        assert connection.history() == []
        with pytest.raises(UsageError, match="there is none yet"):
            connection.reconciliation("totals")
        with (
            pytest.raises(
                UsageError, match="version must be one that is kept; got 1; there is none yet"
            ),
            connection.snapshot(version=1),
        ):
            pass


# -- earlier publications --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "speed"), [(1, {"a": 3, "c": 2, "d": 1}), (2, {"a": 2, "d": 1})]
)
def test_a_snapshot_of_a_version_answers_as_if_it_were_in_force(made, version, speed):
    with made.connect() as connection, connection.snapshot(version=version) as snapshot:
        assert snapshot.provenance.version == version
        assert counts(snapshot, "speed") == speed
        assert counts(snapshot, "batch") == {
            shop: row["n"] for (shop,), row in made.answers[version]["totals"].items()
        }
        assert counts(snapshot) == {
            shop: row["n"] for (shop,), row in made.merged["totals"].items()
        }
        at = snapshot.provenance.streams["sales"]
        assert at.speed_events == sum(at.head.values()) - sum(at.cut.values())


def test_a_snapshot_of_a_version_leaves_the_connection_as_it_was(made):
    with made.connect() as connection:
        before, provenance = counts(connection), connection.sql("select 1").provenance
        with connection.snapshot() as newest, connection.snapshot(version=1) as earlier:
            assert counts(earlier, "batch") != counts(newest, "batch")
            assert counts(newest) == counts(earlier) == before
        for _ in range(3):
            with pytest.raises(UsageError), connection.snapshot(version=1) as earlier:
                earlier.sql("select nothing from totals")
        assert counts(connection) == before
        assert connection.sql("select 1").provenance == provenance
        gc.collect()
        # isinstance would ask Airflow's lazy proxies for their class, which imports what they name.
        mine = [refresh for refresh in gc.get_objects() if type(refresh) is Refresh]
        assert len([refresh for refresh in mine if refresh._store is made.store]) == 1


def test_a_version_that_is_not_kept_is_named(made):
    with (
        made.connect() as connection,
        pytest.raises(UsageError, match="version must be one that is kept; got 7; there are 1, 2"),
        connection.snapshot(version=7),
    ):
        pass


def test_a_version_of_other_definitions_has_no_answer_and_the_other_views_go_on(made, copy):
    with (
        made.connect(copy, where="price > 0") as connection,
        connection.snapshot(version=1) as snapshot,
    ):
        with pytest.raises(CoverageError, match="its definition has changed since version 1"):
            counts(snapshot)
        assert snapshot.sql("select sum(n)::bigint from hours", "batch").rows() == [(8,)]


def test_a_version_whose_segments_are_gone_is_an_error_that_names_them(made, copy):
    (stream,) = catalog_on(made.topic).streams
    generation = Generations(copy, stream).all()[-1].name
    cut = Publications(copy).read(1).streams["sales"].cut
    above = [
        commit for commit in Generations(copy, stream).commits(generation)
        if any(r.start >= cut[p] for segment in commit.segments for p, r in segment.ranges.items())
    ]  # fmt: skip
    copy.delete(layout.commit(stream, generation, above[0].first, above[0].last))
    with made.connect(copy) as connection:
        assert counts(connection, "batch")
        with (
            pytest.raises(
                CoverageError, match=r"stream 'sales' partition \d: nothing covers offsets"
            ),
            connection.snapshot(version=1),
        ):
            pass


def test_without_segments_of_its_definitions_a_version_stops_at_its_cut_and_says_so(made, copy):
    copy.delete("speed/sales")
    with made.connect(copy) as connection, connection.snapshot(version=1) as snapshot:
        assert counts(snapshot) == counts(snapshot, "batch") == {"a": 2, "b": 2}
        assert "answers stop at the cut of T=" in snapshot.provenance.streams["sales"].note


# -- reconciliation --------------------------------------------------------------------------------


def test_reconciliation_has_both_answers_key_by_key(made):
    with made.connect() as connection:
        assert connection.reconciliation("totals", 1).rows() == [
            ("match", "a", 2, 2, 1, 1, 1, 1),
            ("match", "b", 2, 2, 5, 5, 3, 3),
        ]
        newest = connection.reconciliation("totals")
        assert newest.columns[:4] == ["_kind", "shop", "n__batch", "n__speed"]
        assert [row[:4] for row in newest.rows()] == [("match", "a", 1, 1), ("match", "c", 2, 2)]
        # by pane, not by window
        pane = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
        assert connection.reconciliation("hours").rows() == [("match", pane, 3, 3)]
        with pytest.raises(UsageError, match="view must be one of the catalog's; got 'total'"):
            connection.reconciliation("total")
        with pytest.raises(UsageError, match="version must be one that is kept; got 9"):
            connection.reconciliation("totals", 9)


def tamper(store, stream, view, generation):
    """The newest segment's `totals`: `a` has another revenue, `b` is gone, `x` is there."""
    commit = Generations(store, stream).commits(generation)[-1]
    ticks = frozenset(segment.tick for segment in commit.segments)
    rows = read_partials(store, commit, view, ticks).to_pylist()
    rows = [row for row in rows if row["shop"] != "b"]
    added = [row | {"shop": "x"} for row in rows if row["shop"] == "a"]
    for row in rows:
        row["revenue__sum"] += row["shop"] == "a"
    table = pa.Table.from_pylist(rows + added, partial_schema(view, {"_tick": pa.int64()}))
    file = store.write_table(commit.files[view.name].path, table)
    changed = replace(commit, files={**commit.files, view.name: file})
    store.write_document(layout.commit(stream, generation, commit.first, commit.last), changed)


def test_what_does_not_match_is_told_with_its_kind_and_its_values(broker, spark, store, new_topic):
    """And a reconcile that is run again, as after a kill, keeps the same; a run folder goes with
    its publication.
    """
    found = Made(new_topic(), quick(broker.bootstrap, keep_versions=2), store)
    catalog = catalog_on(found.topic)
    with Pipeline(catalog, found.settings, store, spark) as pipeline, found.connect() as connection:
        pipeline.produce(sales("abc"))
        pipeline.catch_up()
        pipeline.wait_for_tick()
        run, recomputed = pipeline.recompute(pipeline.ingest())
        tamper(store, pipeline.stream, catalog.view("totals"), pipeline.generation)
        once = reconcile(Project(found.settings, catalog, store), run, recomputed)
        store.delete(run.path("reconcile"))
        pipeline.publish(run, recomputed)
        assert Publications(store).read(1).reconciliation == once
        (version,) = connection.history()
        assert version.differing_keys == 3
        assert (
            version.reconciliation["totals"].differ == version.reconciliation["totals"].missing == 1
        )
        assert connection.reconciliation("totals").rows() == [
            ("differ", "a", 1, 1, 0, 1, 0, 0),
            ("missing", "b", 1, None, 1, None, 1, None),
            ("match", "c", 1, 1, 2, 2, 2, 2),
            ("extra", "x", None, 1, None, 0, None, 0),
        ]
        for _ in range(2):
            pipeline.produce(sales("a"))
            pipeline.catch_up()
            pipeline.wait_for_tick()
            pipeline.batch()
        assert not store.exists(layout.run(run.token))
        assert connection.reconciliation("totals", 2).rows()
        with pytest.raises(UsageError, match="got 1; there are 2, 3"):
            connection.reconciliation("totals", 1)


def test_why_nothing_was_compared_is_said(broker, spark, store, new_topic):
    found = Made(new_topic(), quick(broker.bootstrap), store)
    with Pipeline(catalog_on(found.topic), found.settings, store, spark) as pipeline:
        pipeline.produce(sales("ab"))
        pipeline.wait_for_tick()
        pipeline.batch()
    with found.connect() as connection:
        (version,) = connection.history()
        assert version.differing_keys is None
        assert version.reconciliation["totals"].match is None
        why = "the speed layer has not run these definitions"
        assert version.reconciliation["totals"].not_compared == why
        with pytest.raises(CoverageError, match=f"'totals' was not compared for version 1: {why}"):
            connection.reconciliation("totals")
        assert connection.segments("sales").rows() == []


def test_a_damaged_reconciliation_is_an_error_that_names_it(made, copy):
    path = Publications(copy).in_force().reconciliation["totals"].file.path
    data = bytearray(copy.read(path))
    data[len(data) // 2] ^= 1
    Path(copy.path(path)).write_bytes(data)
    with made.connect(copy) as connection:
        with pytest.raises(IntegrityError, match=path):
            connection.reconciliation("totals")
        assert connection.reconciliation("totals", 1).rows()


def test_a_total_that_does_not_fit_is_told_as_null():
    view = catalog_on("t").view("totals")
    row = {"shop": "a", "n__n": 1, "revenue__sum": 10**30, "dearest__max": 1}
    with open_duckdb() as connection:
        for side in ("one", "other"):
            connection.execute(create_table_sql(side, view))
            insert_rows(connection, side, pa.Table.from_pylist([row], partial_schema(view)))
        assert compare_partials(connection, view, "one", "other", into="compared").same
        shown = connection.sql(
            present_compared_select(view, "compared", ("batch", "speed"))
        ).fetchall()
    assert shown == [("match", "a", 1, 1, None, None, 1, 1)]


# -- what was committed ----------------------------------------------------------------------------


def test_arrivals_are_the_speed_share_by_arrival_tick(made):
    with made.connect() as connection, connection.snapshot(version=1) as snapshot:
        arrivals = snapshot.sql("from arrivals.totals order by _tick, shop")
        assert arrivals.columns == ["_tick", "shop", "n", "revenue", "dearest"]
        by_shop = dict(
            snapshot.sql("select shop, sum(n)::bigint from arrivals.totals group by all").rows()
        )
        assert by_shop == counts(snapshot, "speed")
        ticks = {
            datetime.fromtimestamp(tick_of(ms, 1000) / 1000, UTC) for *_, ms in made.appended[4:]
        }
        assert {row[0] for row in arrivals.rows()} <= ticks
        windows = snapshot.sql(
            "select hour, sum(n)::bigint from arrivals.hours group by all order by 1"
        ).rows()
        assert [n for _, n in windows] == [6, 6]


def test_segments_tell_what_was_committed_when(made):
    with made.connect() as connection:
        rows = connection.segments("sales").dicts()
        with pytest.raises(UsageError, match="stream must be one of the catalog's"):
            connection.segments("sale")
    cut = Publications(made.store).read(1).streams["sales"].cut
    after = [(p, o, ms) for p, o, ms in made.appended if o >= cut[p]]
    above = [row for row in rows if row["batch_version"] != 1]
    assert sum(row["events"] for row in above) == len(after) == 7
    assert sum(row["quarantined"] for row in rows) == 1
    assert {row["batch_version"] for row in rows} <= {1, 2, None}
    for row in above:
        stamps = [
            ms for p, o, ms in after
            if any(r["partition"] == p and r["start"] <= o < r["end"] for r in row["ranges"])
        ]  # fmt: skip
        oldest, newest = (
            datetime.fromtimestamp(ms / 1000, UTC) for ms in (min(stamps), max(stamps))
        )
        assert (row["oldest"], row["newest"], row["events"]) == (oldest, newest, len(stamps))
        assert row["waited_s"] == pytest.approx((row["committed_at"] - oldest).total_seconds())
        assert row["tick"] <= oldest


def test_compaction_keeps_the_longest_wait(made, copy):
    (stream,) = catalog_on(made.topic).streams
    with made.connect(copy) as connection:
        before = connection.segments("sales").dicts()
    generation = before[0]["generation"]
    wide = compact(
        Generations(copy, stream), catalog_on(made.topic).views_of(stream), generation, 2
    )
    assert wide
    with made.connect(copy) as connection:
        after = connection.segments("sales").dicts()
    inside = [row for row in before if row["last"] <= wide.last]
    compacted = [row for row in after if row["last"] == wide.last]
    assert len(compacted) < len(before)
    assert max(row["waited_s"] for row in compacted) == max(row["waited_s"] for row in inside)
    assert min(row["oldest"] for row in compacted) == min(row["oldest"] for row in inside)
    assert sum(row["events"] for row in compacted) == sum(row["events"] for row in inside)


def test_commits_from_before_append_times_were_kept_are_read(made, copy):
    (stream,) = catalog_on(made.topic).streams
    generation = Generations(copy, stream).all()[-1].name
    for commit in Generations(copy, stream).commits(generation):
        document = encode(commit)
        for segment in document["segments"]:
            for name in ("oldest_ms", "newest_ms", "waited_ms"):
                del segment[name]
        copy.write_document(layout.commit(stream, generation, commit.first, commit.last), document)
    with made.connect(copy) as connection:
        assert counts(connection) == {
            shop: row["n"] for (shop,), row in made.merged["totals"].items()
        }
        rows = connection.segments("sales").dicts()
        assert rows
        assert {row["waited_s"] for row in rows} == {row["oldest"] for row in rows} == {None}
