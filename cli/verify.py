"""`trilayer verify`: the invariants I1 and I2, on demand.

Everything is computed anew from what the layers did not compute: the raw bytes of the master dataset below the cut, the log itself from the cut to
the head. Then every record must be there once (I1), and every key of every merged view must have the same answer (I2).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any

import duckdb
import pyarrow as pa
import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.table import Table

import serving_layer
from batch_layer.ingest import StartSpark
from batch_layer.run import batch_spark
from cli.context import Project, err, out, print_json, project
from serving_layer.connection import Provenance, StreamProvenance
from trilayer.aggregates import POSITION
from trilayer.cut import Range, ranges_between
from trilayer.errors import CoverageError, LogError, UsageError
from trilayer.events import FITS, LOG_COLUMNS, REJECT, log_columns, parse
from trilayer.log import Log, origin_number, read_origin
from trilayer.master import intervals_below, of_origin, read_chain
from trilayer.merging import (
    Comparison,
    compare_answers,
    create_table_sql,
    open_duckdb,
    present_select,
    quoted_duckdb,
)
from trilayer.partials import Pass, partial_schema, plan
from trilayer.publication import Publication, read_version
from trilayer.spark import read_log
from trilayer.stream import Rows, Stream
from trilayer.view import View

ORIGIN = "_origin"
"""Number of the origin in which a record's offset counts: within one origin an offset may occur once."""


@dataclass(frozen=True)
class Census:
    """Records of one stream: counted by the layers, and found in master dataset and log. wrong: what does not add up."""

    batch: int
    speed: int
    quarantined: int
    lost: int
    found: int
    found_quarantined: int
    wrong: Sequence[str]

    @property
    def counted(self) -> int:
        """Records that are in a view, each once."""
        return self.batch + self.speed - self.quarantined


@dataclass(frozen=True)
class Verification:
    """unanswered: views that could not be compared, and why. failed: those of them that have an answer, which could not be given."""

    streams: dict[str, Census]
    views: dict[str, Comparison]
    unanswered: dict[str, str]
    failed: list[str]

    @property
    def clean(self) -> bool:
        return (
            not self.failed
            and not any(census.wrong for census in self.streams.values())
            and all(c.same for c in self.views.values())
        )


def verify(as_json: Annotated[bool, typer.Option("--json", help="answer as JSON")] = False) -> None:
    """Recomputes every view from the log and the master dataset and compares, key by key. Exit code 1 where they differ, with the keys, and where a view can't be answered."""
    found = verification(project())
    if as_json:
        print_json(_document(found))
    else:
        _print(found)
    if not found.clean:
        raise typer.Exit(1)


def verification(p: Project, spark: StartSpark | None = None) -> Verification:
    """I1 and I2 of the newest state, whatever arrives or is published meanwhile. In a Spark session of its own, unless given one."""
    answers: dict[str, pa.Table] = {}
    unanswered: dict[str, str] = {}
    failed: list[str] = []
    with (
        serving_layer.connect(p.catalog, p.settings, p.store) as connection,
        # One a view, since a view that can't be answered ends its snapshot.
        connection.snapshots(len(p.catalog.views)) as snapshots,
    ):
        provenance = snapshots[0].provenance
        for view, snapshot in zip(p.catalog.views, snapshots, strict=True):
            try:
                answers[view.name] = snapshot.sql(f"FROM {quoted_duckdb(view.name)}").arrow()
            except CoverageError as error:
                unanswered[view.name] = str(error)
            except UsageError as error:
                unanswered[view.name] = str(error)
                failed.append(view.name)
    censuses: dict[str, Census] = {}
    views: dict[str, Comparison] = {}
    # The one that the answers stand on: another may be in force by now.
    published = read_version(p.store, provenance.version) if provenance.version else None
    own = batch_spark(p.settings) if spark is None else nullcontext(spark)
    with own as spark, open_duckdb(p.settings.serving_memory_mb) as duck:
        for stream in p.catalog.streams:
            answered = [view for view in p.catalog.views_of(stream) if view.name in answers]
            # Where no view has an answer yet, its layers have counted under other definitions, or not at all.
            if not answered and not any(view.name in failed for view in p.catalog.views_of(stream)):
                continue
            records = _records(p, stream, provenance, published, spark)
            parsed = _parsed(records, stream).persist() if records is not None else None
            censuses[stream.name] = _census(p, stream, provenance, published, parsed, spark)
            for pass_ in plan(answered):
                result = _run(pass_, parsed)
                for view in pass_.views:
                    recomputed = pass_.slice_of(view, result).toArrow() if result is not None else None
                    views[view.name] = _compare(duck, view, answers[view.name], recomputed)
                if result is not None:
                    result.unpersist()
            if parsed is not None:
                parsed.unpersist()
    return Verification(censuses, views, unanswered, failed)


def _records(
    p: Project, stream: Stream, provenance: Provenance, published: Publication | None, spark: StartSpark
) -> DataFrame | None:
    """Raw records: the master dataset's below the cut, the log's from there to the head."""
    at = provenance.streams[stream.name]
    of_batch = published.streams.get(stream.name) if published else None
    chain = intervals_below(read_chain(p.store, stream), at.cut, of_batch.topic_id) if of_batch else []
    files = [file for interval in chain for file in interval.files]
    above = {partition: r for partition, r in ranges_between(at.cut, at.head).items() if len(r)}
    number = _origin_of(stream, published)
    present = read_origin(p.store, stream)
    if above and (present is None or present.number != number):
        raise LogError(
            f"stream {stream.name!r}: what lies above the cut can only be verified with the log that it was read from; a new"
            " origin has begun since. Run `trilayer batch run`, then verify again"
        )
    frames: list[DataFrame] = []
    p.store.check_all(files)
    for identity in dict.fromkeys(interval.topic_id for interval in chain if interval.files):
        paths = [p.store.uri(file.path) for i in of_origin(chain, identity) for file in i.files]
        rows = spark().read.parquet(*paths).select(*LOG_COLUMNS)
        frames.append(rows.withColumn(ORIGIN, F.lit(origin_number(identity))))
    if above:
        rows = log_columns(read_log(spark(), p.settings.bootstrap_servers, stream.topic, above))
        frames.append(rows.select(*LOG_COLUMNS).withColumn(ORIGIN, F.lit(number)))
    return reduce(DataFrame.unionByName, frames) if frames else None


def _origin_of(stream: Stream, published: Publication | None) -> int:
    """The number of the origin in which the answer's cut and head count."""
    of_batch = published.streams.get(stream.name) if published else None
    return origin_number(of_batch.topic_id) if of_batch else 1


def _parsed(records: DataFrame, stream: Stream) -> DataFrame:
    """What the census and the views need of the records, parsed once."""
    return parse(records, stream).drop(REJECT, *(column for column in LOG_COLUMNS if column not in POSITION))


def _census(
    p: Project,
    stream: Stream,
    provenance: Provenance,
    published: Publication | None,
    parsed: DataFrame | None,
    spark: StartSpark,
) -> Census:
    at = provenance.streams[stream.name]
    of_batch = published.streams.get(stream.name) if published else None
    counted = parsed.groupBy(ORIGIN, "_partition").agg(
        F.count(F.lit(1)).alias("n"), F.count_distinct("_offset").alias("offsets"), F.max("_offset").alias("high"),
        F.count_if(~F.col(FITS)).alias("bad"),
    ).collect() if parsed is not None else []  # fmt: skip
    found = sum(row["n"] for row in counted)
    bad = sum(row["bad"] for row in counted)
    batch, lost = (of_batch.events, of_batch.lost) if of_batch else (0, 0)
    quarantined = (of_batch.quarantined if of_batch else 0) + at.quarantined
    wrong = []
    number = _origin_of(stream, published)
    for row in counted:
        if row["n"] != row["offsets"]:
            wrong.append(
                f"partition {row['_partition']}: {row['n'] - row['offsets']} records are there twice"
            )
        if row[ORIGIN] == number and row["high"] >= at.head.get(row["_partition"], 0):
            wrong.append(f"partition {row['_partition']}: offset {row['high']} lies above the head")
    if found != batch + at.speed_events:
        wrong.append(f"the layers have counted {batch + at.speed_events:,} records, {found:,} are there")
    if bad != quarantined:
        wrong.append(f"the layers have quarantined {quarantined:,} records, {bad:,} do not fit")
    wrong += _against_log(p, stream, at, number, [row for row in counted if row[ORIGIN] == number], spark)
    return Census(batch, at.speed_events, quarantined, lost, found, bad, wrong)


def _against_log(
    p: Project,
    stream: Stream,
    at: StreamProvenance,
    number: int,
    counted: Sequence[Any],
    spark: StartSpark,
) -> list[str]:
    """Whether what was found is all that the log has had, where the log still holds it: without gaps its offsets number its records."""
    origin = read_origin(p.store, stream)
    assert origin
    if origin.number != number:
        return []  # the log is no longer the one that these offsets are of
    with Log(p.settings.bootstrap_servers) as log:
        topic = log.topic(stream)
        beginning = log.beginning(topic)
    first = {q: max(origin.start.get(q, 0), beginning.get(q, 0)) for q in at.head if q in topic.partitions}
    held = {q: Range(start, at.head[q]) for q, start in first.items() if start < at.head[q]}
    if not held:
        return []
    # Retention may take more while this reads: then there is less to hold against.
    log_records = read_log(spark(), p.settings.bootstrap_servers, topic.name, held, complete=False)
    numbers = {row["partition"]: row["count"] for row in log_records.groupBy("partition").count().collect()}
    by_partition = {row["_partition"]: row["n"] for row in counted}
    return [
        f"partition {partition}: the log holds {number:,} records up to the head, {by_partition.get(partition, 0):,} are counted"
        for partition, number in sorted(numbers.items())
        if number > by_partition.get(partition, 0)
    ]


def _run(pass_: Pass, parsed: DataFrame | None) -> DataFrame | None:
    """The pass over the events that fit, kept for a slice a view."""
    if parsed is None:
        return None
    fitting = parsed.where(F.col(FITS))
    if isinstance(pass_.source, Rows):
        fitting = pass_.source.rows(fitting.select(*pass_.source.stream.columns))
    return pass_.run(fitting).persist()


def _compare(
    duck: duckdb.DuckDBPyConnection, view: View, answer: pa.Table, recomputed: pa.Table | None
) -> Comparison:
    schema = partial_schema(view)
    partials = recomputed.cast(schema) if recomputed is not None else schema.empty_table()
    duck.register("answer", answer)
    duck.register("partials", partials)
    duck.execute(f"CREATE OR REPLACE {create_table_sql('recomputed', view).removeprefix('CREATE ')}")
    duck.execute("INSERT INTO recomputed SELECT * FROM partials")
    expected = f"({present_select(view, ['recomputed'], magnitudes=True)})"
    return compare_answers(duck, view, expected, "answer", magnitudes=True)


def _print(found: Verification) -> None:
    counts = Table(
        "stream",
        "batch",
        "speed",
        "quarantined",
        "lost",
        "records found",
        "I1",
        title="I1: every record once",
    )
    for name, census in found.streams.items():
        numbers = (census.batch, census.speed, census.quarantined, census.lost, census.found)
        counts.add_row(
            name, *(f"{n:,}" for n in numbers), "[red]wrong[/]" if census.wrong else "[green]holds[/]"
        )
    out.print(counts)
    views = Table(
        "view", "match", "differ", "missing", "extra", "I2", title="I2: merged equals the full recompute"
    )
    for name, c in found.views.items():
        views.add_row(
            name,
            *(f"{n:,}" for n in (c.match, c.differ, c.missing, c.extra)),
            "[green]holds[/]" if c.same else "[red]wrong[/]",
        )
    out.print(views)
    for name, census in found.streams.items():
        for line in census.wrong:
            err.print(f"[red]I1[/] {name}: {line}")
    for name, c in found.views.items():
        for row in c.keys:
            err.print(
                f"[red]I2[/] {name}: " + ", ".join(f"{k}={v}" for k, v in row.items()).replace("[", "\\[")
            )
    for name, why in found.unanswered.items():
        colour = "red" if name in found.failed else "yellow"
        err.print(f"[{colour}]not verified[/] {name}: " + why.replace("[", "\\["))


def _document(found: Verification) -> dict[str, Any]:
    return {
        "clean": found.clean,
        "streams": {
            name: vars(census) | {"counted": census.counted} for name, census in found.streams.items()
        },
        "views": {name: vars(comparison) for name, comparison in found.views.items()},
        "unanswered": found.unanswered,
        "failed": found.failed,
    }
