"""Damages to a healthy store, as a layer that gets something wrong would have left it: with
manifests, counts and digests that fit.

Each is a function of a `Damage`, and returns texts that one line of what `verify` says must hold,
all of them: the view and the key, or the partition and the offsets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from batch_layer.engine import Engine
from batch_layer.publish import publish
from batch_layer.recompute import recompute
from tests.support.verification.healthy import Healthy
from trilayer_core.compute.parsing import REJECT
from trilayer_core.project import Project
from trilayer_core.seam import Range, format_time
from trilayer_core.store import layout
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import StoredFile
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval
from trilayer_core.store.master import Master
from trilayer_core.store.publication import Publication
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Run
from trilayer_core.store.segments import TICK, Commit

Row = dict[str, Any]
Change = Callable[[list[Row]], list[Row]]
Expected = Sequence[str]

DAMAGES: dict[str, Callable[[Damage], Expected]] = {}


def damage(function: Callable[[Damage], Expected]) -> Callable[[Damage], Expected]:
    DAMAGES[function.__name__] = function
    return function


class Damage:
    """A store to damage, and how its files are rewritten."""

    def __init__(self, healthy: Healthy) -> None:
        self.healthy, self.store = healthy, healthy.store
        self.catalog = healthy.catalog
        (self.stream,) = self.catalog.streams
        self._published = True

    # -- tables ------------------------------------------------------------------------------------

    def rows(self, file: StoredFile) -> list[Row]:
        return list(self.store.read_table(file).to_pylist())

    def rewrite(self, files: Sequence[StoredFile], change: Change) -> StoredFile:
        """The rows of all the files, changed, in one file beside the first."""
        tables = [self.store.read_table(file) for file in files]
        rows = change([row for table in tables for row in table.to_pylist()])
        folder = files[0].path.rsplit("/", 1)[0]
        return self.store.write_table(
            f"{folder}/damaged-{uuid4().hex[:6]}.parquet",
            pa.Table.from_pylist(rows, schema=tables[0].schema),
        )

    # -- master dataset ----------------------------------------------------------------------------

    @property
    def chain(self) -> list[Interval]:
        return Master(self.store, self.stream).read_chain()

    def write_interval(self, interval: Interval) -> None:
        folder = layout.chain(self.stream, self.stream.fingerprint)
        self.store.write_document(f"{folder}/{interval.number:08d}.json", interval)

    def ingest(self, number: int, change: Change, *, and_on: bool = True, **fields: Any) -> None:
        """Interval `number` as if ingest had made its rows so. and_on: with batch views and counts
        that were computed from it.
        """
        interval = self.chain[number]
        file = self.rewrite(interval.files, change)
        rejected = sum(row[REJECT] is not None for row in self.rows(file))
        made = {"files": [file], "events": file.rows, "quarantined": rejected} | fields
        self.write_interval(replace(interval, **made))
        if and_on:
            self.publish_again()

    def publish_again(self) -> None:
        """Asks for another computation of the publication in force, one for several damages."""
        self._published = False

    def publish(self) -> None:
        """Computes the publication in force anew, in full, from the master dataset as it is now, if
        a damage has asked for it.
        """
        if self._published:
            return
        self._published = True
        published = self.publication
        of_stream = published.streams[self.stream.name]
        token = Fence(self.store).take("a batch run")
        run = Run(
            token,
            published.t_ms,
            True,
            {self.stream.name: of_stream.cut},
            {self.stream.name: of_stream.origin_id},
        )
        engine = Engine(self.healthy.settings, self.store, lambda: self.healthy.spark)
        project = Project(self.healthy.settings, self.catalog, self.store)
        publish(project, run, recompute(project, run, engine), {})

    def place(self, number: int, *, fits: bool = True, partition: int = 1, nth: int = 3) -> int:
        """The offset of a record of interval `number` that fits, or not."""
        rows = [row for file in self.chain[number].files for row in self.rows(file)]
        found = sorted(
            r["_offset"]
            for r in rows
            if r["_partition"] == partition and (r[REJECT] is None) == fits
        )
        return int(found[min(nth, len(found) - 1)])

    # -- publication -------------------------------------------------------------------------------

    @property
    def publication(self) -> Publication:
        self.publish()
        found = Publications(self.store).in_force()
        assert found
        return found

    def write_publication(self, publication: Publication) -> None:
        path = f"publications/{publication.version:08d}.json"
        self.store.write_document(path, publication)
        token = json.loads(self.store.read(layout.POINTER))["token"]
        Publications(self.store).put_in_force(publication.version, token, "publish")

    def of_stream(self, **fields: Any) -> None:
        """The publication with other facts about its stream."""
        published = self.publication
        streams = {n: replace(s, **fields) for n, s in published.streams.items()}
        self.write_publication(replace(published, streams=streams))

    def files(self, view: str, files: Sequence[StoredFile]) -> None:
        published = self.publication
        views = {n: replace(v, files=files) if n == view else v for n, v in published.views.items()}
        self.write_publication(replace(published, views=views))

    def batch(self, view: str, change: Change) -> None:
        """A batch view whose first file's rows are changed; it has all keys, since a first run
        computes them in one file.
        """
        first, *rest = self.publication.views[view].files
        self.files(view, [self.rewrite([first], change), *rest])

    # -- segments ----------------------------------------------------------------------------------

    @property
    def generation(self) -> str:
        return Generations(self.store, self.stream).all()[-1].name

    @property
    def commits(self) -> list[Commit]:
        """Those that are above the cut, whole, in order."""
        cut = self.publication.streams[self.stream.name].cut
        found = Generations(self.store, self.stream).commits(self.generation)
        return [
            c
            for c in found
            if all(r.start >= cut[q] for s in c.segments for q, r in s.ranges.items() if len(r))
        ]

    @property
    def wide(self) -> Commit:
        """The compacted commit; it may reach from below the cut to above it."""
        found = Generations(self.store, self.stream).commits(self.generation)
        return next(c for c in reversed(found) if c.first != c.last)

    @property
    def ticks(self) -> list[int]:
        """Those of the compacted commit that are above the cut."""
        cut = self.publication.streams[self.stream.name].cut
        return [
            s.tick
            for s in self.wide.segments
            if all(r.start >= cut[q] for q, r in s.ranges.items() if len(r))
        ]

    def write_commit(self, commit: Commit) -> None:
        path = layout.commit(self.stream, self.generation, commit.first, commit.last)
        self.store.write_document(path, commit)

    def segment(self, view: str, change: Change, commit: Commit | None = None) -> None:
        """A segment whose partials of a view are changed."""
        commit = commit or self.commits[-1]
        file = self.rewrite([commit.files[view]], change)
        self.write_commit(replace(commit, files={**commit.files, view: file}))

    def speed_quarantine(self, change: Change) -> None:
        commit = self.commits[-1]
        assert commit.quarantine
        self.write_commit(replace(commit, quarantine=self.rewrite([commit.quarantine], change)))

    def counts(self, place: int = 0, **fields: Any) -> Commit:
        """The newest commit with other facts about one of its segments."""
        commit = self.commits[-1]
        segments = list(commit.segments)
        segments[place] = replace(segments[place], **fields)
        commit = replace(commit, segments=segments)
        self.write_commit(commit)
        return commit


def at(
    partition: int, offset: int, change: Callable[[Row], Row | None], more: Sequence[Row] = ()
) -> Change:
    """Changes one record; None drops it."""

    def changed(rows: list[Row]) -> list[Row]:
        found = [
            change(row) if (row["_partition"], row["_offset"]) == (partition, offset) else row
            for row in rows
        ]
        return [*(row for row in found if row is not None), *more]

    return changed


def first(change: Callable[[Row], Row | None]) -> Change:
    """Changes the first row in order of its first key; None drops it."""

    def changed(rows: list[Row]) -> list[Row]:
        key = next(iter(name for name in rows[0] if name != TICK))
        rows = sorted(rows, key=lambda row: (str(row[key]), str(row)))
        made = change(dict(rows[0]))
        return [*([made] if made is not None else []), *rows[1:]]

    return changed


def plus(column: str, by: Any = 1) -> Change:
    return first(lambda row: row | {column: row[column] + by})


# -- ingest: all that follows from it is computed from it, and only the log knows better -----------


@damage
def ingest_dropped_an_event(d):
    o = d.place(1)
    d.ingest(1, at(1, o, lambda row: None))
    return [
        "orders",
        f"partition 1: offsets [{o}, {o + 1}) are in the log and not in the master dataset",
    ]


@damage
def ingest_dropped_the_first_event_of_all(d):
    d.ingest(0, at(0, 0, lambda row: None))
    return ["partition 0: offsets [0, 1) are in the log and not in the master dataset"]


@damage
def ingest_dropped_a_run_of_events(d):
    o = d.place(2)
    d.ingest(
        2, lambda rows: [r for r in rows if r["_partition"] != 1 or not o <= r["_offset"] < o + 4]
    )
    return [f"partition 1: offsets [{o}, {o + 4}) are in the log and not in the master dataset"]


@damage
def ingest_dropped_a_partition(d):
    r = d.chain[1].ranges[2]
    d.ingest(1, lambda rows: [row for row in rows if row["_partition"] != 2])
    return [
        f"partition 2: offsets [{r.start}, {r.end}) are in the log and not in the master dataset"
    ]


@damage
def ingest_doubled_an_event(d):
    o = d.place(1)
    d.ingest(1, lambda rows: rows + [r for r in rows if (r["_partition"], r["_offset"]) == (1, o)])
    return [f"partition 1: offsets [{o}, {o + 1}) are in the master dataset more than once"]


@damage
def an_event_is_in_two_intervals(d):
    o = d.place(0)
    twice = [
        r for f in d.chain[0].files for r in d.rows(f) if (r["_partition"], r["_offset"]) == (1, o)
    ]
    d.ingest(1, lambda rows: rows + twice)
    return [f"partition 1: offsets [{o}, {o + 1}) are in the master dataset more than once"]


@damage
def ingest_dropped_one_and_doubled_another(d):
    """The counts are as they were."""
    o = d.place(1)
    d.ingest(1, at(1, o, lambda row: row | {"_offset": o + 1}))
    return [f"partition 1: offsets [{o}, {o + 1}) are in the log and not in the master dataset"]


@damage
def ingest_altered_an_events_value(d):
    o = d.place(1)
    value = json.dumps({"customer": "c9", "amount": 1, "at": "2026-01-01T00:00:00Z"}).encode()
    d.ingest(1, at(1, o, lambda row: row | {"_value": value}))
    return [
        (
            f"partition 1: offsets [{o}, {o + 1}) are in the master dataset with other content"
            " than in the log"
        )
    ]


@damage
def ingest_altered_an_events_stamp(d):
    o = d.place(1)
    d.ingest(1, at(1, o, lambda row: row | {"_timestamp": row["_timestamp"].replace(year=2020)}))
    return [f"partition 1: offsets [{o}, {o + 1}) are in the master dataset with other content"]


@damage
def ingest_lost_an_events_key(d):
    o = d.place(1)
    d.ingest(1, at(1, o, lambda row: row | {"_key": None}))
    return [f"partition 1: offsets [{o}, {o + 1}) are in the master dataset with other content"]


@damage
def ingest_lost_an_events_headers(d):
    rows = [r for interval in d.chain for f in interval.files for r in d.rows(f) if r["_headers"]]
    (row,) = rows
    q, o = row["_partition"], row["_offset"]
    number = next(i.number for i in d.chain if i.ranges[q].start <= o < i.ranges[q].end)
    d.ingest(number, at(q, o, lambda row: row | {"_headers": None}))
    return [f"partition {q}: offsets [{o}, {o + 1}) are in the master dataset with other content"]


@damage
def ingest_moved_an_event_to_another_partition(d):
    o = d.place(1)
    d.ingest(1, at(1, o, lambda row: row | {"_partition": 2, "_offset": d.place(1, partition=2)}))
    return [f"partition 1: offsets [{o}, {o + 1}) are in the log and not in the master dataset"]


@damage
def ingest_moved_an_event_to_another_offset(d):
    o, end = d.place(1), d.chain[1].ranges[1].end
    d.ingest(1, at(1, o, lambda row: row | {"_offset": end + 2}))
    return [f"partition 1: offset {end + 2} is in interval 1 of the master dataset"]


@damage
def ingest_counted_an_aborted_event(d):
    there = {(r["_partition"], r["_offset"]) for i in d.chain for f in i.files for r in d.rows(f)}
    gap = next(
        (i.number, o)
        for i in d.chain
        for o in range(i.ranges[0].start, i.ranges[0].end)
        if (0, o) not in there
    )
    number, offset = gap
    like = d.rows(d.chain[number].files[0])[0] | {"_partition": 0, "_offset": offset}
    d.ingest(number, lambda rows: [*rows, like])
    return [
        (
            f"partition 0: offsets [{offset}, {offset + 1}) are in the master dataset and not in"
            " the log"
        )
    ]


@damage
def ingest_dropped_a_quarantined_event(d):
    o = d.place(1, fits=False, nth=0)
    d.ingest(1, at(1, o, lambda row: None))
    return [f"partition 1: offsets [{o}, {o + 1}) are in the log and not in the master dataset"]


@damage
def ingest_quarantined_an_event_that_fits(d):
    o = d.place(1)
    empty = dict.fromkeys(d.stream.columns)
    d.ingest(
        1, at(1, o, lambda row: row | empty | {REJECT: "broken JSON: must be one JSON object"})
    )
    return [
        "partition 1: 1 records of the master dataset are not what their bytes say",
        f"offset {o} first",
        "the reason",
    ]


@damage
def ingest_let_an_event_pass_that_does_not_fit(d):
    o = d.place(1, fits=False, nth=0)
    d.ingest(1, at(1, o, lambda row: row | {REJECT: None, "customer": "c1", "amount": 1}))
    return [
        "partition 1: 1 records of the master dataset are not what their bytes say",
        f"offset {o} first",
        "the reason",
    ]


@damage
def ingest_gave_another_reason(d):
    o = d.place(1, fits=False, nth=0)
    d.ingest(1, at(1, o, lambda row: row | {REJECT: "tombstone"}))
    return [
        "partition 1: 1 records of the master dataset",
        f"offset {o} first: the reason to quarantine it",
    ]


@damage
def ingest_parsed_a_column_wrong(d):
    o = d.place(1)
    d.ingest(1, at(1, o, lambda row: row | {"amount": row["amount"] + 1}))
    return ["partition 1: 1 records of the master dataset", f"offset {o} first: amount"]


@damage
def ingest_parsed_a_column_wrong_that_no_view_has(d):
    o = d.place(1)
    d.ingest(1, at(1, o, lambda row: row | {"tags": ["z"]}))
    return ["partition 1: 1 records of the master dataset", f"offset {o} first: tags"]


@damage
def a_manifest_counts_one_event_more(d):
    d.write_interval(replace(d.chain[1], events=d.chain[1].events + 1))
    d.publish_again()
    return ["interval 1 of the master dataset", "records, its files hold", "partition 1 ["]


@damage
def a_manifest_counts_one_quarantined_event_less(d):
    d.write_interval(replace(d.chain[1], quarantined=d.chain[1].quarantined - 1))
    d.publish_again()
    return ["interval 1 of the master dataset", "quarantined records, its files hold"]


@damage
def a_manifest_leaves_a_file_out(d):
    interval = d.chain[1]
    file = d.rewrite(interval.files, lambda rows: rows[1:])
    d.write_interval(replace(interval, files=[file], events=file.rows))
    d.publish_again()
    return ["orders: partition", "are in the log and not in the master dataset"]


@damage
def two_manifests_draw_their_border_elsewhere(d):
    one, two = d.chain[:2]
    border = one.ranges[1].end - 1
    d.write_interval(replace(one, ranges={**one.ranges, 1: Range(one.ranges[1].start, border)}))
    d.write_interval(replace(two, ranges={**two.ranges, 1: Range(border, two.ranges[1].end)}))
    return [f"partition 1: offset {border} is in interval 0 of the master dataset, which has ["]


@damage
def ingest_gave_up_as_lost_what_the_log_holds(d):
    r = d.chain[1].ranges[1]
    lost = Range(r.start, r.start + 2)

    def without(rows):
        return [row for row in rows if row["_partition"] != 1 or row["_offset"] >= lost.end]

    d.ingest(1, without, lost={1: lost})
    return [
        (
            f"partition 1: offsets [{lost.start}, {lost.end}) are in the log and not in the master"
            " dataset"
        )
    ]


@damage
def the_origin_lies_above_where_the_log_begins(d):
    path = f"streams/{d.stream.name}/origin.json"
    document = d.store.read_document(path, dict)
    document["start"]["1"] = 3
    d.store.write_document(path, document)
    ranges = {**d.chain[0].ranges, 1: Range(3, d.chain[0].ranges[1].end)}
    d.ingest(
        0,
        lambda rows: [r for r in rows if r["_partition"] != 1 or r["_offset"] >= 3],
        ranges=ranges,
    )
    return [
        (
            "partition 1: the log begins at offset 0, its recorded origin is 3: offsets [0, 3) are"
            " in no layer"
        )
    ]


@damage
def the_newest_interval_is_gone(d):
    d.publish()
    interval = d.chain[-1]
    d.store.delete(f"{layout.chain(d.stream, d.stream.fingerprint)}/{interval.number:08d}.json")
    r = interval.ranges[1]
    return [
        f"partition 1: the cut in force is at offset {r.end}",
        f"offsets [{r.start}, {r.end}) are in no layer",
    ]


@damage
def an_interval_has_a_hole_before_it(d):
    r = d.chain[2].ranges[1]
    ranges = {**d.chain[2].ranges, 1: Range(r.start + 2, r.end)}
    d.ingest(
        2,
        lambda rows: [x for x in rows if x["_partition"] != 1 or x["_offset"] >= r.start + 2],
        and_on=False,
        ranges=ranges,
    )
    return [
        "stream 'orders' partition 1",
        f"begins at offset {r.start + 2} instead of {r.start};",
    ]


# -- batch views -----------------------------------------------------------------------------------


@damage
def a_batch_count_is_off_by_one(d):
    d.batch("totals", plus("n__n"))
    return ["totals, batch layer", "customer=c0", "recomputed n__n="]


@damage
def a_batch_sum_is_off_by_one(d):
    d.batch("totals", plus("total__sum"))
    return ["totals, merged", "customer=c0", "recomputed total="]


@damage
def a_batch_mean_is_off_in_both_of_its_states(d):
    """The mean that is answered before the next merge is the same."""
    twice = lambda row: row | {k: row[k] * 2 for k in ("mean_price__sum", "mean_price__count")}  # noqa: E731
    d.batch("totals", first(twice))
    return ["totals, batch layer", "customer=c0", "mean_price__count="]


@damage
def a_batch_sum_of_fractions_is_off(d):
    d.batch("totals", plus("mean_price__sum", 0.001))
    return ["totals, batch layer", "customer=c0", "mean_price__sum="]


@damage
def a_batch_maximum_is_off(d):
    d.batch("totals", plus("largest__max", 100))
    return ["totals, merged", "customer=c0", "largest="]


@damage
def a_batch_latest_is_of_another_place_in_the_log(d):
    def moved(row):
        return row | {"last_note__event": row["last_note__event"] | {"offset": 10**6}}

    d.batch("totals", first(moved))
    return ["totals, batch layer", "customer=c0", "last_note__event="]


@damage
def batch_moved_an_event_to_another_key(d):
    def moved(rows):
        one, two, *rest = sorted(rows, key=lambda row: row["customer"])
        return [one | {"n__n": one["n__n"] - 1}, two | {"n__n": two["n__n"] + 1}, *rest]

    d.batch("large", moved)
    return ["large, batch layer", "customer=c1", "is wrong"]


@damage
def a_batch_key_is_missing(d):
    d.batch("totals", first(lambda row: None))
    return ["totals, batch layer", "customer=c0", "is missing"]


@damage
def a_batch_key_is_there_that_no_event_has(d):
    d.batch("totals", lambda rows: [*rows, rows[0] | {"customer": "nobody"}])
    return ["totals, merged", "customer=nobody", "should not be there"]


@damage
def a_batch_window_is_another_one(d):
    d.batch("hours", first(lambda row: row | {"hour": row["hour"].replace(hour=9)}))
    return ["hours, merged", "09:00", "should not be there"]


@damage
def a_batch_pane_is_another_one(d):
    d.batch("busy", first(lambda row: row | {"window": row["window"].replace(hour=9)}))
    return ["busy, merged", "customer=c0", "09:"]


@damage
def a_batch_view_on_rows_is_off(d):
    d.batch("word_count", plus("n__n", -1))
    return ["word_count, batch layer", "word=blue"]


@damage
def a_batch_view_is_that_of_an_older_version(d):
    older = Publications(d.store).versions()[-2]
    d.files("totals", older.views["totals"].files)
    return ["totals, batch layer", "customer=c0"]


@damage
def a_batch_view_counts_a_file_twice(d):
    file = d.publication.views["hours"].files[0]
    d.files("hours", [*d.publication.views["hours"].files, d.rewrite([file], lambda rows: rows)])
    return ["hours, batch layer", "hour=2026-01-01 00:00"]


@damage
def a_batch_view_has_no_files(d):
    d.files("large", [])
    return ["large, batch layer", "customer=c0", "is missing"]


@damage
def batch_and_speed_err_and_cancel_out(d):
    d.batch("totals", plus("n__n"))
    customer = d.rows(d.commits[-1].files["totals"])
    assert "c0" in {row["customer"] for row in customer}
    d.segment("totals", plus("n__n", -1))
    return ["totals, speed layer", "customer=c0"]


# -- the publication -------------------------------------------------------------------------------


@damage
def the_publication_counts_one_event_less(d):
    d.of_stream(events=d.publication.streams["orders"].events - 1)
    return ["orders", "the publication counts", "records, its intervals"]


@damage
def the_publication_counts_one_quarantined_event_more(d):
    d.of_stream(quarantined=d.publication.streams["orders"].quarantined + 1)
    return ["orders", "the publication counts", "records in quarantine, its intervals"]


@damage
def the_publication_counts_a_loss_that_is_none(d):
    d.of_stream(lost=1)
    return ["orders", "the publication counts 1 lost offsets, its intervals 0"]


@damage
def the_cut_is_one_too_low(d):
    cut = d.publication.streams["orders"].cut
    d.of_stream(cut={**cut, 1: cut[1] - 1})
    return ["stream 'orders' partition 1", str(cut[1])]


@damage
def the_cut_is_one_too_high(d):
    cut = d.publication.streams["orders"].cut
    d.of_stream(cut={**cut, 1: cut[1] + 1})
    return ["stream 'orders' partition 1", str(cut[1] + 1)]


@damage
def an_older_version_stands_as_the_newest(d):
    """Its views and counts, under the newest T and cut."""
    older = Publications(d.store).versions()[-2]
    newest = d.publication
    streams = {"orders": replace(older.streams["orders"], cut=newest.streams["orders"].cut)}
    d.write_publication(replace(newest, views=older.views, streams=streams))
    return ["busy, batch layer", "customer=c0"]


@damage
def the_publication_has_another_t_than_its_run(d):
    d.write_publication(replace(d.publication, t_ms=d.publication.t_ms + 86_400_000))
    return [f"version {d.publication.version}", "its T must be that of its run"]


@damage
def a_batch_view_lists_a_file_twice(d):
    files = d.publication.views["hours"].files
    d.files("hours", [*files, files[0]])
    return [f"version {d.publication.version}", f"it lists {files[0].path} 2 times"]


# -- segments --------------------------------------------------------------------------------------


@damage
def a_speed_count_is_off_by_one(d):
    d.segment("totals", plus("n__n"))
    return ["totals, speed layer", "customer=c0", "recomputed n__n="]


@damage
def a_speed_pane_is_another_one(d):
    d.segment("busy", first(lambda row: row | {"window": row["window"].replace(hour=9)}))
    return ["busy, speed layer", "customer=c0", "09:"]


@damage
def a_speed_view_on_rows_is_off(d):
    d.segment("word_count", plus("n__n"))
    return ["word_count, speed layer", "tick=20", "word=blue"]


@damage
def speed_moved_an_event_to_another_key(d):
    d.segment("totals", first(lambda row: row | {"customer": "c7"}))
    return ["totals, merged", "customer=c7", "should not be there"]


@damage
def a_segment_dropped_an_event(d):
    """From its partials and its count."""
    d.segment("totals", plus("n__n", -1))
    d.counts(events=d.commits[-1].segments[0].events - 1)
    r = d.commits[-1].segments[0].ranges[1]
    return [
        f"segment {d.commits[-1].name}",
        f"partition 1 [{r.start}, {r.end})",
        "records, the log holds",
    ]


@damage
def a_segment_counted_an_event_twice(d):
    d.segment("large", plus("n__n"))
    d.counts(events=d.commits[-1].segments[0].events + 1)
    return [f"segment {d.commits[-1].name}", "partition 1 [", "records, the log holds"]


@damage
def a_segments_partials_are_in_another_tick(d):
    one, two, *_ = d.ticks

    def move(rows):
        place = next(n for n, row in enumerate(rows) if row[TICK] == one)
        return [*rows[:place], rows[place] | {TICK: two}, *rows[place + 1 :]]

    d.segment("hours", move, d.wide)
    return ["hours, speed layer", "hour=2026-01-01 0", f"tick={format_time(one)}"]


@damage
def a_whole_segment_is_in_another_tick(d):
    """Its partials and its quarantine too: nothing in the store says otherwise, only the log's
    stamps.
    """
    commit = d.commits[-1]
    wrong = commit.segments[0].tick + 1000
    move = lambda rows: [row | {TICK: wrong} for row in rows]  # noqa: E731
    files = {view: d.rewrite([file], move) for view, file in commit.files.items()}
    assert commit.quarantine
    quarantine = d.rewrite([commit.quarantine], move)
    d.write_commit(replace(commit, files=files, quarantine=quarantine))
    d.counts(tick=wrong)
    r = commit.segments[0].ranges[1]
    return [f"partition 1: offsets [{r.start}, {r.end}) arrived in the tick", format_time(wrong)]


@damage
def a_record_is_in_the_next_segment(d):
    *_, before, commit = d.commits
    left, right = before.segments[-1], commit.segments[0]
    border = left.ranges[1].end - 1
    d.counts(ranges={**right.ranges, 1: Range(border, right.ranges[1].end)})
    moved = replace(left, ranges={**left.ranges, 1: Range(left.ranges[1].start, border)})
    d.write_commit(replace(before, segments=[*before.segments[:-1], moved]))
    return [
        f"segment {before.name}",
        f"partition 1 [{moved.ranges[1].start}, {border})",
        "records, the log holds",
    ]


@damage
def a_segment_has_the_partials_of_another_one(d):
    """Of another generation, or another micro-batch: both are partials of the same view, with a
    digest of their own.
    """
    *_, before, commit = d.commits
    tick = commit.segments[0].tick
    theirs = d.rows(before.files["totals"])
    d.segment("totals", lambda rows: [row | {TICK: tick} for row in theirs])
    return ["totals, speed layer", "customer=c0"]


@damage
def a_segment_forgot_a_view(d):
    commit = d.commits[-1]
    d.write_commit(replace(commit, files={v: f for v, f in commit.files.items() if v != "large"}))
    return ["large, speed layer", "is missing", "customer="]


@damage
def a_segment_lost_its_quarantine(d):
    commit = d.commits[-1]
    assert commit.quarantine
    row = min(d.rows(commit.quarantine), key=lambda row: (row["_partition"], row["_offset"]))
    d.write_commit(replace(commit, quarantine=None))
    return [
        f"partition {row['_partition']}: offset {row['_offset']} does not fit",
        "not in the speed layer's quarantine",
    ]


@damage
def a_segment_lost_its_quarantine_and_counts_none(d):
    d.write_commit(replace(d.commits[-1], quarantine=None))
    d.counts(quarantined=0)
    return [
        f"segment {d.commits[-1].name}",
        "partition 1 [",
        "counts 0 quarantined records, the log holds",
    ]


@damage
def compaction_lost_a_quarantined_event(d):
    assert d.wide.quarantine
    row = next(row for row in d.rows(d.wide.quarantine) if row[TICK] in d.ticks)
    q, o = row["_partition"], row["_offset"]
    kept = d.rewrite([d.wide.quarantine], at(q, o, lambda row: None))
    d.write_commit(replace(d.wide, quarantine=kept))
    return [f"partition {q}: offset {o} does not fit", "not in the speed layer's quarantine"]


def _quarantined(d):
    row = min(d.rows(d.commits[-1].quarantine), key=lambda row: (row["_partition"], row["_offset"]))
    return row["_partition"], row["_offset"]


@damage
def a_speed_quarantine_has_another_reason(d):
    q, o = _quarantined(d)
    d.speed_quarantine(at(q, o, lambda row: row | {REJECT: "oversized: 9 bytes, at most 1"}))
    return [
        f"partition {q}: offset {o} is in the speed layer's quarantine as 'oversized",
        "it is '",
    ]


@damage
def a_speed_quarantine_has_other_bytes(d):
    q, o = _quarantined(d)
    d.speed_quarantine(at(q, o, lambda row: row | {"_value": b"{other"}))
    return [f"partition {q}: offset {o} has other bytes in the speed layer's quarantine"]


@damage
def a_speed_quarantine_has_an_event_twice(d):
    q, o = _quarantined(d)
    d.speed_quarantine(
        lambda rows: rows + [r for r in rows if (r["_partition"], r["_offset"]) == (q, o)]
    )
    return [f"partition {q}: offset {o} is in the speed layer's quarantine 2 times"]


@damage
def a_speed_quarantine_has_an_event_that_fits(d):
    r = d.commits[-1].segments[0].ranges[2]
    q, o = _quarantined(d)
    place = r.end - 1
    d.speed_quarantine(at(q, o, lambda row: row | {"_partition": 2, "_offset": place}))
    return [f"partition 2: offset {place} is in the speed layer's quarantine", "and fits"]


@damage
def a_speed_quarantine_is_in_another_tick(d):
    one, two, *_ = d.ticks
    assert d.wide.quarantine
    row = next(row for row in d.rows(d.wide.quarantine) if row[TICK] == one)
    q, o = row["_partition"], row["_offset"]
    moved = d.rewrite([d.wide.quarantine], at(q, o, lambda row: row | {TICK: two}))
    d.write_commit(replace(d.wide, quarantine=moved))
    return [f"partition {q}: offset {o} is in the speed layer's quarantine in another tick"]


@damage
def compaction_lost_a_key(d):
    tick = d.ticks[0]
    lost = min(row["customer"] for row in d.rows(d.wide.files["totals"]) if row[TICK] == tick)
    d.segment(
        "totals", lambda rows: [r for r in rows if (r[TICK], r["customer"]) != (tick, lost)], d.wide
    )
    return ["totals, speed layer", f"tick={format_time(tick)}, customer={lost}", "is missing"]


@damage
def compaction_merged_a_commit_twice(d):
    tick = d.ticks[0]
    double = lambda rows: [r | {"n__n": r["n__n"] * 2} if r[TICK] == tick else r for r in rows]  # noqa: E731
    d.segment("word_count", double, d.wide)
    return ["word_count, speed layer", f"tick={format_time(tick)}", "word=blue"]


@damage
def a_segments_first_stamp_is_off(d):
    d.counts(oldest_ms=d.commits[-1].segments[0].oldest_ms - 5)
    return [
        f"segment {d.commits[-1].name}",
        "partition 1 [",
        "says that the first of them was appended at",
    ]


@damage
def the_speed_layer_claims_more_than_the_log_has(d):
    segment = d.commits[-1].segments[0]
    r = segment.ranges[1]
    d.counts(ranges={**segment.ranges, 1: Range(r.start, r.end + 2)})
    return [
        f"partition 1: the layers have counted up to offset {r.end + 2}",
        f"offsets [{r.end}, {r.end + 2}) are not in the log",
    ]


@damage
def a_commit_is_gone(d):
    gone = d.commits[-2]
    d.store.delete(layout.commit(d.stream, d.generation, gone.first, gone.last))
    return ["stream 'orders' partition", "nothing covers offsets ["]


@damage
def a_micro_batch_was_committed_under_two_numbers(d):
    commit = d.commits[-1]
    d.write_commit(replace(commit, first=commit.first + 1, last=commit.last + 1))
    return ["stream 'orders' partition", "two segments cover offsets"]


@damage
def a_segment_of_the_generation_before_stands_among_these(d):
    """With the ranges that it covered then."""
    commit = d.commits[-1]
    segment = commit.segments[0]
    ranges = {q: Range(r.start - 3, r.end) for q, r in segment.ranges.items()}
    d.counts(ranges=ranges)
    return ["stream 'orders' partition 0: two segments cover offsets", str(segment.ranges[0].start)]


# -- files that are not what was written -----------------------------------------------------------


def _flip(d, path):
    file = Path(d.store.path(path))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    return [path]


@damage
def a_batch_file_has_a_flipped_bit(d):
    return _flip(d, d.publication.views["totals"].files[0].path)


@damage
def a_master_file_has_a_flipped_bit(d):
    return _flip(d, d.chain[1].files[0].path)


@damage
def a_segments_file_has_a_flipped_bit(d):
    return _flip(d, d.commits[-1].files["hours"].path)


@damage
def a_speed_quarantine_has_a_flipped_bit(d):
    quarantine = d.commits[-1].quarantine
    assert quarantine
    return _flip(d, quarantine.path)


@damage
def a_manifest_was_edited(d):
    path = Path(d.store.path(layout.chain(d.stream, d.stream.fingerprint))) / "00000001.json"
    path.write_text(path.read_text().replace('"quarantined": 3', '"quarantined": 2'))
    return ["00000001.json", "it was altered"]


@damage
def a_file_of_an_older_version_is_missing(d):
    used = {f.path for v in d.publication.views.values() for f in v.files}
    version, name, path = next(
        (v.version, n, f.path)
        for v in Publications(d.store).versions()
        for n, view in v.views.items()
        for f in view.files
        if f.path not in used
    )
    d.store.delete(path)
    return [f"version {version}, view {name}", path, "is missing"]
