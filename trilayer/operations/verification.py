"""What `trilayer verify` finds: whether the answers are right.

It holds everything against everything else there is.

Three things are independent of each other: the log, the master dataset, and what the layers have
made of both. Therefore three comparisons:

*Records (I1).* The master dataset against the log, record by record, over the offsets that the log
still holds. The segments against the log's records above the cut: how many there are in each
segment, how many do not fit, in which tick they arrived. Quarantine against what does not fit when
it is parsed anew. Below the log's beginning the master dataset can only be compared with its own
manifests, which is said.

*Views (I2).* Each merged answer against a recompute from the raw bytes of the master dataset below
the cut and of the log above it.

*Layers.* The states of each batch view against a recompute of what lies below the cut, those of
each speed view, tick by tick, against one of what lies above it. Two errors that cancel each other
out in the merged view are found here, and an error is traced to its layer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import serving_layer
from batch_layer.ingest import StartSpark
from batch_layer.run import batch_spark
from serving_layer.connection import Snapshot, StreamProvenance
from trilayer.operations.project import Project
from trilayer_core.compute.grouping import Pass, partial_schema, plan
from trilayer_core.compute.merging import (
    Comparison,
    compare_answers,
    compare_partials,
    create_table_sql,
    insert_rows,
    open_duckdb,
    present_select,
    quoted_duckdb,
)
from trilayer_core.compute.parsing import FITS, LOG_COLUMNS, REJECT, log_columns, parse
from trilayer_core.compute.rows import rows_made
from trilayer_core.definitions.aggregates import POSITION
from trilayer_core.definitions.stream import Rows, Stream
from trilayer_core.definitions.view import View
from trilayer_core.errors import CoverageError, IntegrityError, LogError, UsageError
from trilayer_core.log.broker import Log
from trilayer_core.runtime.kafka_source import read_log
from trilayer_core.seam import Range, Ranges, format_time, ranges_between, size, tick_of
from trilayer_core.store import layout
from trilayer_core.store.cover import Cover, cover_from
from trilayer_core.store.files import Store, StoredFile
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval, intervals_below, of_origin, rising_ts
from trilayer_core.store.master import Master
from trilayer_core.store.origins import Origin, Origins
from trilayer_core.store.pointer import PointerFile
from trilayer_core.store.publication import Publication, PublishedStream
from trilayer_core.store.publications import Publications
from trilayer_core.store.segments import BYTES, SHORTEST_REASON, TICK, Commit, with_bytes

MOST_LINES = 20
"""Of each kind of fault, the ranges that are listed one by one; the rest are counted."""

MOST_TICKS = 64
"""A view on `Rows` is recomputed tick by tick up to so many ticks: its function is called for each
of them.
"""

FEW_RECORDS = 20_000
"""Up to so many records one task does it all, which saves every job its shuffle and most of its
scheduling.
"""

PART = "_part"
"""Which recompute a record belongs to: 0 below the cut, from 1 on a tick above it, negative for
none.
"""

FILE = "_file"
"""The end of the path of the master dataset's file that a record is in; NULL for a record read from
the log.
"""

SEGMENT = "_segment"
DIGEST = "_digest"
ORIGIN = "_origin"
STORED = "_stored"
ALTERED = "_altered"
REJECTED = "_rejected"

_NUMBER = f"cast(substring({FILE}, 1, 8) AS int)"
"""The number of the interval that a file is of."""

_CONTENT = "xxhash64(isnull(_key), _key, isnull(_value), _value, _timestamp, _headers)"
_RAW = "concat(coalesce(sha2(_key, 256), ''), '/', coalesce(sha2(_value, 256), ''))"


@dataclass(frozen=True)
class Census:
    """What became of one stream's records.

    Attributes:
        batch: Records below the cut, as the publication counts them.
        speed: Records between the cut and the head, as the segments count them.
        quarantined: Records among `batch` and `speed` that do not fit their schema, by the layers'
            own count.
        lost: Offsets that retention took before they were ingested, and whose loss an operator
            accepted.
        found: Records that verify has found: in the master dataset below the cut, in the log from
            there to the head.
        found_quarantined: Records of `found` that do not fit their schema when they are parsed
            anew.
        compared: Records of the log that were compared with the master dataset or the segments, one
            by one.
        wrong: What does not add up, a line each, with partition and offsets.
        not_compared: What could not be compared with the log, and why. None of it is a fault.
    """

    batch: int
    speed: int
    quarantined: int
    lost: int
    found: int
    found_quarantined: int
    compared: int
    wrong: Sequence[str]
    not_compared: Sequence[str]

    @property
    def counted(self) -> int:
        """Records that are in a view, each once."""
        return self.batch + self.speed - self.quarantined


@dataclass(frozen=True)
class Verification:
    """What was found.

    Attributes:
        streams: Each stream's records.
        views: Each view's merged answer against its recompute; `left` is the recompute, `right` the
            answer.
        layers: Each view's states in one layer ("batch", "speed") against their recompute, of the
            same sides.
        unanswered: Views that could not be compared, and why.
        failed: Those of `unanswered` that have an answer, which could not be given.
        files: Files of versions kept for rollback that are missing or altered, a line each.
    """

    streams: dict[str, Census]
    views: dict[str, Comparison]
    unanswered: dict[str, str]
    failed: list[str]
    layers: dict[str, dict[str, Comparison]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        """Whether anything at all was compared."""
        keys = sum(c.match + c.differ + c.missing + c.extra for c in self.views.values())
        return bool(keys or sum(census.compared for census in self.streams.values()))

    @property
    def clean(self) -> bool:
        """Whether something was compared, and nothing was found wrong."""
        return (
            self.verified
            and not self.failed
            and not self.files
            and not any(census.wrong for census in self.streams.values())
            and all(c.same for c in self.views.values())
            and all(c.same for layers in self.layers.values() for c in layers.values())
        )


def verification(
    p: Project, spark: StartSpark | None = None, tell: Callable[[str], None] = lambda far: None
) -> Verification:
    """Verifies the newest state, whatever arrives or is published meanwhile.

    Args:
        p: The project whose store is verified.
        spark: Gives the Spark session to use. Without it, one is started and stopped.
        tell: Called with how far it has come.

    Raises:
        CoverageError: The serving layer can't prove that segments cover the log.
        IntegrityError: A file that the answers stand on is missing or altered.
        LogError: The log with the records above the cut is not there any more.
        EnvironmentFault: No broker answers.
    """
    own = batch_spark(p.settings, p.catalog.rows) if spark is None else nullcontext(spark)
    with own as start:
        for attempt in range(3):
            before = _moving(p)
            try:
                return _verification(p, start, tell)
            except (CoverageError, IntegrityError):
                # A publication or a compaction may have cleared away what was being read.
                if attempt == 2 or before == _moving(p):
                    raise
    raise AssertionError("unreachable")


def _moving(p: Project) -> Any:
    """Changes with every publication, commit and compaction."""
    commits = [
        Generations(p.store, stream).spans(generation.name)
        for stream in p.catalog.streams
        for generation in Generations(p.store, stream).all()[-1:]
    ]
    return PointerFile(p.store).data(), commits


@dataclass
class _Answers:
    """What the serving layer says on one snapshot.

    Of each view its merged answer, and the states that it loaded.
    """

    merged: dict[str, pa.Table] = field(default_factory=dict)
    batch: dict[str, pa.Table] = field(default_factory=dict)
    speed: dict[str, pa.Table] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def _verification(p: Project, spark: StartSpark, tell: Callable[[str], None]) -> Verification:
    found = _Answers()
    tell("asking the views")
    with (
        serving_layer.connect(p.catalog, p.settings, p.store) as connection,
        # One a view, since a view that can't be answered ends its snapshot.
        connection.snapshots(len(p.catalog.views)) as snapshots,
    ):
        provenance = snapshots[0].provenance
        for view, snapshot in zip(p.catalog.views, snapshots, strict=True):
            _ask(view, snapshot, found)
    # The one that the answers stand on: another may be in force by now.
    published = Publications(p.store).read(provenance.version) if provenance.version else None
    censuses: dict[str, Census] = {}
    views: dict[str, Comparison] = {}
    layers: dict[str, dict[str, Comparison]] = {}
    with open_duckdb(p.settings.serving_memory_mb) as duck:
        for stream in p.catalog.streams:
            of_stream = p.catalog.views_of(stream)
            answered = [view for view in of_stream if view.name in found.merged]
            # Where no view has an answer yet, its layers have counted under other definitions, or
            # not at all.
            if not answered and not any(view.name in found.failed for view in of_stream):
                continue
            verify = _StreamVerification(
                p, stream, provenance.streams[stream.name], published, spark, duck
            )
            try:
                tell(f"comparing the records of {stream.name}")
                verify.records()
                for pass_ in plan(answered):
                    tell(f"recomputing {', '.join(view.name for view in pass_.views)}")
                    recomputed = verify.recomputed(pass_)
                    for view in pass_.views:
                        tables = recomputed[view.name]
                        views[view.name] = _compare_merged(
                            duck, view, found.merged[view.name], tables
                        )
                        layers[view.name] = verify.compare_layers(view, found, tables)
                censuses[stream.name] = verify.census()
            finally:
                verify.close()
    return Verification(
        censuses, views, found.unanswered, found.failed, layers, _damaged_files(p.store, published)
    )


def _ask(view: View, snapshot: Snapshot, found: _Answers) -> None:
    name = quoted_duckdb(view.name)
    try:
        merged = snapshot.sql(f"FROM {name}").arrow()
    except CoverageError as error:
        found.unanswered[view.name] = str(error)
        return
    except UsageError as error:
        found.unanswered[view.name] = str(error)
        found.failed.append(view.name)
        return
    found.merged[view.name] = merged
    found.batch[view.name] = snapshot.sql(f"SELECT * EXCLUDE (_file) FROM _batch.{name}").arrow()
    found.speed[view.name] = snapshot.sql(f"FROM _speed.{name}").arrow()


@dataclass
class _Recomputed:
    """A view's partials anew.

    Of all records, of those below the cut, and of those above it with their tick.
    """

    whole: pa.Table
    batch: pa.Table
    speed: pa.Table
    by_tick: bool


@dataclass(frozen=True)
class _Group:
    """Records of one file of the master dataset, or of one segment, in one partition."""

    file: str | None
    segment: int | None
    partition: int
    counted: bool
    records: int
    unfit: int
    rejected: int
    low: int
    high: int
    oldest_ms: int
    newest_ms: int
    altered: int
    sample: Any


class _StreamVerification:
    """The verification of one stream.

    Call `records` first, `recomputed` for each pass, `census` at the end, and `close`.
    """

    def __init__(
        self,
        p: Project,
        stream: Stream,
        at: StreamProvenance,
        published: Publication | None,
        spark: StartSpark,
        duck: duckdb.DuckDBPyConnection,
    ) -> None:
        self._p, self._stream, self._at, self._start, self._duck = p, stream, at, spark, duck
        self._published: PublishedStream | None = (
            published.streams.get(stream.name) if published else None
        )
        self._origins = {origin.identity: origin for origin in Origins(p.store, stream).all()}
        *_, self._present = self._origins.values()
        # A publication may be of an origin before the present one.
        self._identity = self._published.topic_id if self._published else self._present.identity
        self._wrong: list[str] = []
        self._not_compared: list[str] = []
        self._chain = Master(p.store, stream).read_chain()
        self._own = of_origin(self._chain, self._present.identity)
        self._below = (
            intervals_below(self._chain, at.cut, self._identity) if self._published else []
        )
        # The first intervals of all origins but the first.
        self._begun = [b.number for a, b in pairwise(self._chain) if a.topic_id != b.topic_id]
        self._cover = self._covered()
        # Segment numbers stand for (commit, segment): the records of each are counted.
        self._segments = [
            (commit, segment)
            for commit in (self._cover.commits if self._cover else [])
            for segment in commit.segments
            if segment.tick in self._cover_ticks(commit)
        ]
        self._ticks = sorted({segment.tick for _, segment in self._segments})
        self._few = False
        self._parsed: DataFrame | None = None
        self._groups: list[_Group] = []
        self._compared = 0

    @property
    def _spark(self) -> SparkSession:
        return self._start()

    def close(self) -> None:
        if self._parsed is not None:
            self._parsed.unpersist()

    # -- records -----------------------------------------------------------------------------------

    def records(self) -> None:
        """Reads what there is of the stream, and compares it record by record."""
        self._check_chain()
        self._check_publication()
        held, above = self._of_log()
        self._few = sum(i.events for i in self._chain) + size(above) <= FEW_RECORDS
        for interval in self._chain:
            self._p.store.check_all(interval.files)
        parsed = self._parse(above)
        if parsed is not None:
            self._parsed = parsed.persist()
            self._groups = self._grouped(self._parsed)
        self._compare_with_log(held)
        self._check_master()
        self._check_segments()
        self._check_quarantine()

    def census(self) -> Census:
        """What was found. The faults that are counted rather than located come last."""
        of_batch = self._published
        batch, lost = (of_batch.events, of_batch.lost) if of_batch else (0, 0)
        quarantined = (of_batch.quarantined if of_batch else 0) + self._at.quarantined
        counted = [group for group in self._groups if group.counted]
        below = [group for group in counted if group.file is not None]
        above = [group for group in counted if group.file is None]
        found, bad = sum(g.records for g in counted), sum(g.unfit for g in counted)
        wrong = list(self._wrong)
        for layer, said, there in (
            ("the publication counts", batch, sum(g.records for g in below)),
            ("the segments count", self._at.speed_events, sum(g.records for g in above)),
        ):
            if said != there:
                wrong.append(f"{layer} {said:,} records, {there:,} are there")
        if bad != quarantined:
            wrong.append(f"the layers have quarantined {quarantined:,} records, {bad:,} do not fit")
        return Census(
            batch,
            self._at.speed_events,
            quarantined,
            lost,
            found,
            bad,
            self._compared,
            wrong,
            self._not_compared,
        )

    def _covered(self) -> Cover | None:
        """The segments that the answers stand on, and those that were committed since."""
        if self._at.generation is None:
            return None
        by_name = {
            generation.name: generation
            for generation in Generations(self._p.store, self._stream).all()
        }
        if self._at.generation not in by_name:
            raise CoverageError(
                f"stream {self._stream.name!r}: generation {self._at.generation} was cleared away"
                " while it was verified; verify again"
            )
        commits = Generations(self._p.store, self._stream).commits(self._at.generation)
        return cover_from(self._stream, by_name[self._at.generation], commits, self._at.cut)

    def _cover_ticks(self, commit: Commit) -> frozenset[int]:
        assert self._cover
        return self._cover.ticks.get(commit.name, frozenset())

    def _check_chain(self) -> None:
        """Intervals go on where the one before ended, from where their origin begins."""
        have: dict[int, int] = {}
        before = ""
        for interval in self._chain:
            origin: Origin | None = self._origins.get(interval.topic_id)
            if origin is None:
                self._wrong.append(
                    f"interval {interval.number} of the master dataset,"
                    f" {_ranges(interval.ranges)}, is of an origin with the id"
                    f" {interval.topic_id}, which the stream has never had"
                )
                continue
            if interval.topic_id != before:
                have, before = dict(origin.start), interval.topic_id
            for partition, r in sorted(interval.ranges.items()):
                expected = have.get(partition, 0)
                if r.start != expected:
                    self._wrong.append(
                        f"partition {partition}: interval {interval.number} of the master dataset"
                        f" begins at offset {r.start}; what is before it ends at {expected}"
                    )
                have[partition] = r.end
            for partition, r in sorted(interval.lost.items()):
                whole = interval.ranges.get(partition, Range(0, 0))
                if r.start < whole.start or r.end > whole.end:
                    self._wrong.append(
                        f"partition {partition}: interval {interval.number} records offsets"
                        f" {_range(r)} as lost, outside of its own {_range(whole)}"
                    )

    def _check_publication(self) -> None:
        """The publication's cut and counts are those of the intervals below it."""
        if self._published is None:
            return
        end = _end_of(of_origin(self._below, self._identity))
        for partition in sorted(self._at.cut.keys() | end.keys()):
            cut, reached = self._at.cut.get(partition, 0), end.get(partition, 0)
            if cut != reached:
                self._wrong.append(
                    f"partition {partition}: the cut in force is at offset {cut}; the master"
                    f" dataset below it ends at {reached}: offsets"
                    f" {_range(Range(*sorted((cut, reached))))} are"
                    f" {'in no layer' if cut > reached else 'in both layers'}"
                )
        for what, said, there in (
            ("records", self._published.events, sum(i.events for i in self._below)),
            (
                "records in quarantine",
                self._published.quarantined,
                sum(i.quarantined for i in self._below),
            ),
            ("lost offsets", self._published.lost, sum(size(i.lost) for i in self._below)),
        ):
            if said != there:
                self._wrong.append(
                    f"the publication counts {said:,} {what}, its intervals {there:,}"
                )

    def _of_log(self) -> tuple[Ranges, Ranges]:
        """Two parts of the log.

        What it still holds of the master dataset's offsets, and the records from the cut on.
        """
        head = self._cover.head if self._cover else self._at.cut
        above = {q: r for q, r in ranges_between(self._at.cut, head).items() if len(r)}
        with Log(self._p.settings.bootstrap_servers) as log:
            topic = log.find(self._stream)
            known = self._present.topic_id
            if (
                topic is None
                or topic.id != known
                or (above and self._identity != self._present.identity)
            ):
                there = f"the topic has id {topic.id}" if topic else "there is no such topic"
                said = (
                    f"topic {self._stream.topic!r} with id {known}, but {there}; restore the"
                    " topic, or run `trilayer batch run --accept-loss`"
                )
                if topic and topic.id == known:
                    said = (
                        "but a loss was accepted since, so that the log counts in a new origin;"
                        " run `trilayer batch run`"
                    )
                if above:
                    raise LogError(
                        f"stream {self._stream.name!r}: to verify the records above the cut takes"
                        f" the log, {said}"
                    )
                self._not_compared.append(f"nothing could be compared with the log, {said}")
                return {}, {}
            beginning, end = log.beginning(topic), log.end(topic)
        ingested = _end_of(self._own)
        start = self._present.start
        former = sum(i.events for i in self._chain) - sum(i.events for i in self._own)
        if former:
            self._not_compared.append(
                f"{former:,} records of origins before the present one are in no log any more;"
                " they were compared with their manifests alone"
            )
        held: dict[int, Range] = {}
        for partition in topic.partitions:
            first = start.get(partition, 0)
            low, high = beginning.get(partition, 0), end.get(partition, 0)
            if low < first and self._present.number == 1:
                self._wrong.append(
                    f"partition {partition}: the log begins at offset {low}, its recorded origin"
                    f" is {first}: offsets {_range(Range(low, first))} are in no layer"
                )
            answered = head if self._identity == self._present.identity else {}
            reached = max(ingested.get(partition, first), answered.get(partition, first))
            if reached > high:
                self._wrong.append(
                    f"partition {partition}: the layers have counted up to offset {reached}, the"
                    f" log ends at {high}: offsets {_range(Range(max(high, first), reached))} are"
                    " not in the log"
                )
            if reached < high:
                self._not_compared.append(
                    f"partition {partition}: offsets {_range(Range(max(reached, low), high))} are"
                    " above the head: they are in no answer yet"
                )
            if low > first and ingested.get(partition, first) > first:
                gone = Range(first, min(low, ingested[partition]))
                self._not_compared.append(
                    f"partition {partition}: offsets {_range(gone)} are not in the log any more;"
                    " the master dataset's records of them were compared with its manifests alone"
                )
            if partition in ingested:
                held[partition] = Range(max(low, first), min(ingested[partition], high))
            if partition in above and (low > above[partition].start or high < above[partition].end):
                r = above[partition]
                if low > r.start:
                    self._wrong.append(
                        f"partition {partition}: the log begins at offset {low}, the cut is at"
                        f" {r.start}: retention took offsets"
                        f" {_range(Range(r.start, min(low, r.end)))} before they were ingested"
                    )
                above[partition] = Range(max(r.start, low), min(r.end, high))
        return _not_empty(held), _not_empty(above)

    def _parse(self, above: Ranges) -> DataFrame | None:
        """Every record parsed anew from its bytes.

        Of the master dataset, and of the log above the cut.
        """
        frames: list[DataFrame] = []
        files = [file for interval in self._chain for file in interval.files]
        if files:
            rows = self._spark.read.parquet(*(self._p.store.uri(file.path) for file in files))
            stored = ", ".join([REJECT, *(f"`{name}`" for name in self._stream.columns)])
            frames.append(
                rows.selectExpr(
                    *LOG_COLUMNS,
                    f"struct({stored}) AS {STORED}",
                    f"regexp_extract(_metadata.file_path, '([^/]+/[^/]+)$') AS {FILE}",
                    f"cast(NULL AS int) AS {SEGMENT}",
                    "cast(NULL AS int) AS _tick_number",
                )
            )
        if above:
            records = log_columns(
                read_log(self._spark, self._p.settings.bootstrap_servers, self._stream.topic, above)
            )
            frames.append(self._in_segments(records))
        if not frames:
            return None
        raw = self._tasks(
            reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), frames)
        )
        parsed = parse(raw, self._stream)
        altered, rejected = "cast(NULL AS string)", "cast(NULL AS boolean)"
        if STORED in raw.columns:
            altered, rejected = self._altered_sql(), f"{STORED}.{REJECT} IS NOT NULL"
        return parsed.selectExpr(
            *POSITION,
            "unix_millis(_timestamp) AS _stamp",
            FITS,
            FILE,
            SEGMENT,
            f"{altered} AS {ALTERED}",
            f"{rejected} AS {REJECTED}",
            f"IF({FITS}, NULL, {REJECT}) AS {REJECT}",
            f"IF({FITS}, NULL, {_RAW}) AS _raw",
            f"IF({FILE} IS NULL, NULL, {_CONTENT}) AS {DIGEST}",
            f"{self._part_sql()} AS {PART}",
            f"{self._origin_sql()} AS {ORIGIN}",
            *(f"`{name}`" for name in self._stream.columns),
        )

    def _tasks(self, rows: DataFrame) -> DataFrame:
        return rows.coalesce(1) if self._few else rows

    def _in_segments(self, records: DataFrame) -> DataFrame:
        """The records with the number of their segment and of its tick.

        By a join with the segments' ranges.
        """
        place = {tick: number for number, tick in enumerate(self._ticks, 1)}
        ranges = [
            (partition, r, number, place[segment.tick])
            for number, (_, segment) in enumerate(self._segments)
            for partition, r in segment.ranges.items()
            if len(r)
        ]
        # Offsets in steps: an equal step makes the join a look-up, and there are at most some
        # 100,000 rows to look in.
        step = max(1, sum(len(r) for _, r, _, _ in ranges) // 100_000)
        rows = [
            (q, bucket, r.start, r.end, number, tick)
            for q, r, number, tick in ranges
            for bucket in range(r.start // step, (r.end - 1) // step + 1)
        ]
        names = ["_q", "_bucket", "_from", "_to", SEGMENT, "_tick_number"]
        types = [pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.int32(), pa.int32()]
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        looked_up = pa.table(
            {n: pa.array(list(c), t) for n, c, t in zip(names, columns, types, strict=True)}
        )
        known = F.broadcast(self._spark.createDataFrame(looked_up))
        found = records.join(
            known,
            F.expr(
                f"_partition = _q AND _offset DIV {step} = _bucket AND _offset >= _from AND"
                " _offset < _to"
            ),
            "left",
        )
        return found.selectExpr(
            *LOG_COLUMNS, f"cast(NULL AS string) AS {FILE}", SEGMENT, "_tick_number"
        )

    def _part_sql(self) -> str:
        # Not as numbers that stand by themselves: Spark would compile new code for every cut.
        partitions = range(1 + max([0, *self._at.cut, *self._at.head]))
        cut, head = (
            f"array({', '.join(f'{offsets.get(q, 0)}L' for q in partitions)})[_partition]"
            for offsets in (self._at.cut, self._at.head)
        )
        known = f"_partition < {len(partitions)}"
        below = f"{_NUMBER} < {len(self._below)}"
        return (
            f"CASE WHEN {FILE} IS NOT NULL THEN IF({below}, 0, -1) WHEN NOT ({known}) THEN -1 WHEN"
            f" _offset >= {cut} AND _offset < {head} THEN coalesce(_tick_number, -1) ELSE -1 END"
        )

    def _origin_sql(self) -> str:
        """How many origins there were before that of a record of the master dataset.

        Offsets of different ones do not compare.
        """
        return " + ".join(["0", *(f"IF({_NUMBER} >= {number}, 1, 0)" for number in self._begun)])

    def _altered_sql(self) -> str:
        """What the master dataset has that the parser makes otherwise of its own bytes.

        Names of columns; NULL if all are equal.
        """
        wrong = [f"IF({STORED}.{REJECT} <=> {REJECT}, NULL, 'the reason to quarantine it')"]
        for name, type_ in self._stream.columns.items():
            left, right = f"{STORED}.`{name}`", f"`{name}`"
            nested = any(kind in type_ for kind in ("struct", "array", "map"))
            if nested and any(kind in type_ for kind in ("timestamp", "date")):
                # A time without a date, within a nested value, is one of the day on which it is
                # read.
                self._not_compared.append(
                    f"column {name!r} of the master dataset: times in nested values may be read"
                    " otherwise another day"
                )
                continue
            if "map" in type_:
                left, right = f"cast({left} AS string)", f"cast({right} AS string)"
            wrong.append(f"IF({left} <=> {right}, NULL, '{name}')")
        return f"IF({STORED} IS NULL, NULL, nullif(concat_ws(', ', {', '.join(wrong)}), ''))"

    def _grouped(self, parsed: DataFrame) -> list[_Group]:
        groups = parsed.groupBy(
            FILE, SEGMENT, "_partition", (F.col(PART) >= 0).alias("_counted")
        ).agg(
            F.count(F.lit(1)),
            F.count_if(~F.col(FITS)),
            F.count_if(F.col(REJECTED)),
            F.min("_offset"),
            F.max("_offset"),
            F.min("_stamp"),
            F.max("_stamp"),
            F.count(ALTERED),
            F.min(F.when(F.col(ALTERED).isNotNull(), F.struct("_offset", ALTERED))),
        )
        return [_Group(*row) for row in groups.collect()]

    def _compare_with_log(self, held: Ranges) -> None:
        """The master dataset against what the log still holds of it.

        The same offsets, the same content.
        """
        sides: list[DataFrame] = []
        if self._parsed is not None:
            rows = self._parsed.where(F.col(FILE).isNotNull())
            sides.append(rows.selectExpr(*POSITION, ORIGIN, DIGEST, "1 AS _master", "0 AS _log"))
        if held:
            # Retention may take more while this reads: then there is less to compare with.
            records = read_log(
                self._spark,
                self._p.settings.bootstrap_servers,
                self._stream.topic,
                held,
                complete=False,
            )
            sides.append(
                log_columns(records).selectExpr(
                    *POSITION,
                    f"{len(self._begun)} AS {ORIGIN}",
                    f"{_CONTENT} AS {DIGEST}",
                    "0 AS _master",
                    "1 AS _log",
                )
            )
        self._compared += sum(g.records for g in self._groups if g.file is None)
        if not sides or (not held and not self._chain):
            return
        both = (
            self._tasks(reduce(DataFrame.unionByName, sides))
            .groupBy(*POSITION, ORIGIN)
            .agg(
                F.sum("_master").alias("_master"), F.sum("_log").alias("_log"),
                (F.min(DIGEST) != F.max(DIGEST)).alias("_differs"),
            )
        )  # fmt: skip
        kinds = both.selectExpr(
            *POSITION,
            ORIGIN,
            "CASE WHEN _master > 1 THEN 'twice' WHEN _master = 0 THEN 'missing' WHEN _log = 0 THEN"
            " 'extra' WHEN _differs THEN 'differs' ELSE 'same' END AS _kind",
        )
        starts = [held[q].start if q in held else 1 << 62 for q in range(1 + max([0, *held]))]
        of_log = (
            f"_offset >= coalesce(get(array({', '.join(f'{s}L' for s in starts)}), _partition),"
            f" {1 << 62}L)"
        )
        of_log += f" AND {ORIGIN} = {len(self._begun)}" if self._own else " AND false"
        kinds = kinds.selectExpr(
            *POSITION, ORIGIN, f"IF(_kind = 'extra' AND NOT ({of_log}), 'before', _kind) AS _kind"
        )
        numbers = {
            row["_kind"]: row["n"]
            for row in kinds.groupBy("_kind").agg(F.count("*").alias("n")).collect()
        }
        self._compared += (
            numbers.get("same", 0) + numbers.get("differs", 0) + numbers.get("missing", 0)
        )
        if numbers.keys() & _FAULTS.keys():
            self._locate(kinds.where(F.col("_kind").isin(*_FAULTS)))

    def _locate(self, faults: DataFrame) -> None:
        """The ranges of offsets at fault, those alone that are still in the log."""
        faults.createOrReplaceTempView("_faults")
        found = self._spark.sql(
            """SELECT _kind, _partition, min(_offset) AS low, max(_offset) + 1 AS high FROM (
                 SELECT *, _offset - row_number() OVER (
                   PARTITION BY _kind, _origin, _partition ORDER BY _offset) AS island
                 FROM _faults)
               GROUP BY _kind, _origin, _partition, island ORDER BY _kind, _partition, low"""
        ).collect()
        with Log(self._p.settings.bootstrap_servers) as log:
            beginning = log.beginning(log.topic(self._stream))
        by_kind: dict[str, list[str]] = {}
        for row in found:
            r = Range(row["low"], row["high"])
            if row["_kind"] == "extra":  # retention took it between the two looks
                r = Range(max(r.start, beginning.get(row["_partition"], 0)), r.end)
            if len(r) > 0:
                by_kind.setdefault(row["_kind"], []).append(
                    f"partition {row['_partition']}: offsets {_range(r)} {_FAULTS[row['_kind']]}"
                )
        for lines in by_kind.values():
            self._wrong += _some(lines)

    def _check_master(self) -> None:
        """Checks the master dataset.

        Each file and interval against its manifest, and its columns against its own bytes.
        """
        by_file: dict[str, list[_Group]] = {}
        for group in self._groups:
            if group.file is not None:
                by_file.setdefault(group.file, []).append(group)
        lines: list[str] = []
        for interval in self._chain:
            groups = [
                g for file in interval.files for g in by_file.get(_end_of_path(file.path), [])
            ]
            there, rejected = sum(g.records for g in groups), sum(g.rejected for g in groups)
            what = f"interval {interval.number} of the master dataset, {_ranges(interval.ranges)},"
            if interval.events != there or sum(file.rows for file in interval.files) != there:
                lines.append(f"{what} counts {interval.events:,} records, its files hold {there:,}")
            if interval.quarantined != rejected:
                lines.append(
                    f"{what} counts {interval.quarantined:,} quarantined records, its files hold"
                    f" {rejected:,}"
                )
            for group in groups:
                r = interval.ranges.get(group.partition, Range(0, 0))
                if group.low < r.start or group.high >= r.end:
                    outside = group.low if group.low < r.start else group.high
                    lines.append(
                        f"partition {group.partition}: offset {outside} is in interval"
                        f" {interval.number} of the master dataset, which has {_range(r)}"
                    )
        for group in self._groups:
            if group.altered:
                offset, columns = group.sample
                lines.append(
                    f"partition {group.partition}: {group.altered:,} records of the master dataset"
                    f" are not what their bytes say, offset {offset} first: {columns}"
                )
        self._wrong += _some(lines)

    def _check_segments(self) -> None:
        """Each segment's counts, stamps and tick against the log's records in its ranges."""
        by_segment: dict[int, list[_Group]] = {}
        for group in self._groups:
            if group.file is None and group.segment is not None:
                by_segment.setdefault(group.segment, []).append(group)
        lines: list[str] = []
        for number, (commit, segment) in enumerate(self._segments):
            groups = by_segment.get(number, [])
            what = (
                f"segment {commit.name} of tick {format_time(segment.tick)},"
                f" {_ranges(segment.ranges)},"
            )
            for name, said, there in (
                ("records", segment.events, sum(g.records for g in groups)),
                ("quarantined records", segment.quarantined, sum(g.unfit for g in groups)),
            ):
                if said != there:
                    lines.append(f"{what} counts {said:,} {name}, the log holds {there:,}")
            for name, stamp, found in (
                ("first", segment.oldest_ms, min((g.oldest_ms for g in groups), default=None)),
                ("last", segment.newest_ms, max((g.newest_ms for g in groups), default=None)),
            ):
                if stamp is not None and found is not None and stamp != found:
                    lines.append(
                        f"{what} says that the {name} of them was appended at"
                        f" {format_time(stamp)}, the log {format_time(found)}"
                    )
        lines += self._wrong_ticks()
        self._wrong += _some(lines)

    def _wrong_ticks(self) -> list[str]:
        """Segments in a tick that their records did not arrive in.

        Records that are out of order by their stamps are left out: their tick is where the broker's
        index puts them. So are stamps on the other side of a cut that a batch run has recorded:
        that goes before stamps.
        """
        by_partition: dict[int, list[_Group]] = {}
        for group in self._groups:
            if group.file is None and group.segment is not None:
                by_partition.setdefault(group.partition, []).append(group)
        assert self._cover or not by_partition
        tick_ms = (self._cover and self._cover.generation.tick_ms) or self._p.settings.tick_ms
        margin_ms = tick_ms + round(self._p.settings.settle_s * 1000)
        own = of_origin(self._chain, self._identity)
        # A cut whose own T no clock bears out is known by one that is on no grid, and says nothing
        # of ticks.
        known = [
            (t_ms, i.ranges)
            for t_ms, i in zip(rising_ts(own), own, strict=True)
            if t_ms % tick_ms == 0
        ]
        lines = []
        for partition, groups in sorted(by_partition.items()):
            recorded = [
                (ranges[partition].end, t_ms) for t_ms, ranges in known if partition in ranges
            ]
            ends = [end for end, _ in recorded]
            groups.sort(key=lambda g: g.low)
            least_after = [g.oldest_ms for g in groups[1:]] + [1 << 62]
            for place in range(len(groups) - 2, -1, -1):
                least_after[place] = min(least_after[place], least_after[place + 1])
            before = -1
            for group, after in zip(groups, least_after, strict=True):
                assert group.segment is not None
                commit, segment = self._segments[group.segment]
                in_order = before <= group.oldest_ms and group.newest_ms <= after
                in_order &= group.newest_ms <= commit.committed_ms + margin_ms  # else it was ahead
                before = max(before, group.newest_ms)
                passed = bisect_right(ends, group.low)
                low = recorded[passed - 1][1] if passed else 0
                high = recorded[passed][1] - tick_ms if passed < len(recorded) else 1 << 62
                expected = {
                    min(max(tick_of(ms, tick_ms), low), high)
                    for ms in (group.oldest_ms, group.newest_ms)
                }
                if in_order and expected != {segment.tick}:
                    lines.append(
                        f"partition {partition}: offsets"
                        f" {_range(Range(group.low, group.high + 1))} arrived in the tick"
                        f" {' to '.join(format_time(t) for t in sorted(expected))}; segment"
                        f" {commit.name} has them in {format_time(segment.tick)}"
                    )
        return lines

    def _check_quarantine(self) -> None:
        """The speed layer's quarantine against the records above the cut that do not fit."""
        if self._cover is None or self._parsed is None:
            return
        tables: list[pa.Table] = []
        for commit in self._cover.commits:
            ticks = self._cover_ticks(commit)
            if commit.quarantine and ticks:
                table = self._p.store.read_table(commit.quarantine)
                tables.append(
                    table.filter(pc.is_in(table[TICK], pa.array(sorted(ticks), pa.int64())))
                )
        unfit = any(g.unfit for g in self._groups if g.file is None)
        if not tables and not unfit:
            return
        tick_of_segment = [segment.tick for _, segment in self._segments]
        columns = ["_partition", "_offset", "_stamp", REJECT, "_raw", SEGMENT]
        there = self._parsed.where(F.col(FILE).isNull() & ~F.col(FITS)).select(*columns).toArrow()
        numbers = there[SEGMENT].to_pylist()
        found_in = [tick_of_segment[n] if n is not None else None for n in numbers]
        there = there.append_column(TICK, pa.array(found_in, pa.int64()))
        schema = pa.schema(
            [
                ("_partition", pa.int32()),
                ("_offset", pa.int64()),
                ("_timestamp", pa.timestamp("us", "UTC")),
                ("_key", pa.binary()),
                ("_value", pa.binary()),
                (REJECT, pa.string()),
                (TICK, pa.int64()),
                (BYTES, pa.int64()),
            ]
        )
        kept = [with_bytes(table).select(schema.names).cast(schema) for table in tables]
        self._duck.register("there", there)
        self._duck.register("kept", pa.concat_tables(kept) if kept else schema.empty_table())
        rows = self._duck.execute(
            f"""WITH k AS (
                  SELECT _partition, _offset, any_value(epoch_ms(_timestamp)) AS _stamp,
                    any_value({REJECT}) AS {REJECT}, any_value({TICK}) AS {TICK}, count(*) AS n,
                    any_value(coalesce(sha256(_key), '') || '/' || coalesce(sha256(_value), ''))
                      AS _raw,
                    -- If many events do not fit, each keeps the beginning of its key, value and
                    -- reason: as many bytes as a power of two.
                    any_value(
                      (octet_length(_value) BETWEEN {SHORTEST_REASON} AND {BYTES} - 1
                        AND bit_count(octet_length(_value)) = 1)
                      OR (octet_length(_key) >= {SHORTEST_REASON}
                        AND bit_count(octet_length(_key)) = 1)) IS TRUE AS _cut
                  FROM kept GROUP BY ALL)
                SELECT coalesce(t._partition, k._partition), coalesce(t._offset, k._offset), CASE
                  WHEN k._offset IS NULL
                    THEN 'does not fit (' || t.{REJECT} || ') and is not in the speed layer''s'
                      || ' quarantine'
                  WHEN t._offset IS NULL
                    THEN 'is in the speed layer''s quarantine (' || k.{REJECT} || ') and fits, or'
                      || ' is not there'
                  WHEN k.n > 1 THEN 'is in the speed layer''s quarantine ' || k.n || ' times'
                  WHEN t.{REJECT} IS DISTINCT FROM k.{REJECT}
                      AND NOT (length(k.{REJECT}) >= {SHORTEST_REASON}
                        AND starts_with(t.{REJECT}, k.{REJECT}))
                    THEN 'is in the speed layer''s quarantine as ''' || k.{REJECT}
                      || '''; it is ''' || t.{REJECT} || ''''
                  WHEN t.{TICK} IS DISTINCT FROM k.{TICK}
                    THEN 'is in the speed layer''s quarantine in another tick than its segment'
                  WHEN (t._raw <> k._raw AND NOT k._cut) OR t._stamp <> k._stamp
                    THEN 'has other bytes in the speed layer''s quarantine than in the log'
                  END AS fault
                FROM there t FULL JOIN k ON t._partition = k._partition AND t._offset = k._offset
                WHERE fault IS NOT NULL ORDER BY ALL"""
        ).fetchall()
        self._wrong += _some(
            [f"partition {q}: offset {offset} {fault}" for q, offset, fault in rows]
        )

    # -- views -------------------------------------------------------------------------------------

    def recomputed(self, pass_: Pass) -> dict[str, _Recomputed]:
        """The partials of the pass's views anew.

        Of all records, of those below the cut, and tick by tick of those above it.
        """
        by_tick = not isinstance(pass_.source, Rows) or len(self._ticks) <= MOST_TICKS
        if not by_tick:
            self._not_compared.append(
                f"views on {pass_.source.name!r}: {len(self._ticks)} ticks above the cut were"
                " compared together, not one by one"
            )
        if self._parsed is None:
            tables = [
                partial_schema(view, {PART: pa.int32()}).empty_table() for view in pass_.views
            ]
        elif isinstance(pass_.source, Rows):
            tables = self._of_rows(pass_, pass_.source, by_tick)
        else:
            # Each record twice: in the part of its layer and tick, and in that of all records.
            rows = self._counted.withColumn(
                PART, F.explode(F.array(F.col(PART), F.lit(self._whole)))
            )
            tables = self._slices(pass_, rows)
        by_view = zip(pass_.views, tables, strict=True)
        return {view.name: self._split(view, table, by_tick) for view, table in by_view}

    def _slices(self, pass_: Pass, rows: DataFrame) -> list[pa.Table]:
        """The partials of each view of the pass, with their part."""
        result = pass_.run(rows, PART)
        if self._few:
            table = result.toArrow()
            return [pass_.arrow_slice_of(view, table, (PART,)) for view in pass_.views]
        result = result.persist()
        try:
            # Most of a small Spark job is waiting for the driver.
            with ThreadPoolExecutor(max_workers=4) as pool:
                return list(
                    pool.map(lambda v: pass_.slice_of(v, result, (PART,)).toArrow(), pass_.views)
                )
        finally:
            result.unpersist()

    def _of_rows(self, pass_: Pass, source: Rows, by_tick: bool) -> list[pa.Table]:
        """As `_slices`, for a function of rows, which lets no part through.

        A job for each part, and one for all records.
        """
        above = range(1, self._whole)
        parts = [
            [0],
            *([[n] for n in above] if by_tick else [list(above)]),
            list(range(self._whole)),
        ]
        numbers = [*(part[0] for part in parts[:-1] if part), self._whole]

        def tables(members: list[int], number: int) -> list[pa.Table]:
            # An array is no part of the code that Spark compiles, which is then the same for all
            # parts.
            wanted = F.expr(f"array_contains(array({', '.join(map(str, members))}), {PART})")
            made = rows_made(source, self._counted.where(wanted)).withColumn(PART, F.lit(0))
            return [
                t.set_column(0, PART, pa.array([number] * t.num_rows, pa.int32()))
                for t in self._slices(pass_, made)
            ]

        with ThreadPoolExecutor(max_workers=2) as pool:
            found = list(pool.map(tables, [part for part in parts if part], numbers))
        return [pa.concat_tables(of_view) for of_view in zip(*found, strict=True)]

    @property
    def _counted(self) -> DataFrame:
        """The records that are in a view."""
        assert self._parsed is not None
        return self._parsed.where(F.col(FITS) & (F.col(PART) >= 0))

    @property
    def _whole(self) -> int:
        """The part that all records are in together: one more than there are."""
        return len(self._ticks) + 1

    def _split(self, view: View, table: pa.Table, by_tick: bool) -> _Recomputed:
        part = table[PART]
        states = table.drop_columns([PART]).cast(partial_schema(view))
        above = pc.and_(pc.greater(part, 0), pc.less(part, self._whole))
        if by_tick and self._ticks:
            places = pc.subtract(part.filter(above), 1)
            ticks = pa.array(self._ticks, pa.int64()).take(places)
        else:
            ticks = pa.nulls(pc.sum(above).as_py() or 0, pa.int64())
        speed = states.filter(above).add_column(0, TICK, ticks)
        return _Recomputed(
            states.filter(pc.equal(part, self._whole)),
            states.filter(pc.equal(part, 0)),
            speed,
            by_tick,
        )

    def compare_layers(
        self, view: View, found: _Answers, recomputed: _Recomputed
    ) -> dict[str, Comparison]:
        """The states of the view in each layer against the recompute.

        As the serving layer has loaded them.
        """
        result = {}
        for layer, left, right, extra in (
            ("batch", recomputed.batch, found.batch[view.name], {}),
            ("speed", recomputed.speed, found.speed[view.name], {TICK: pa.int64()}),
        ):
            if extra and not recomputed.by_tick:
                right = right.set_column(0, TICK, pa.nulls(right.num_rows, pa.int64()))
            schema = partial_schema(view, extra)
            for name, table in (("recomputed", left), ("loaded", right)):
                columns = [f"{column} BIGINT" for column in extra]
                self._duck.execute(
                    f"DROP TABLE IF EXISTS {name}; {create_table_sql(name, view, columns)}"
                )
                insert_rows(self._duck, name, table.select(schema.names).cast(schema))
            result[layer] = compare_partials(
                self._duck, view, "recomputed", "loaded", keep=list(extra)
            )
        return result


_FAULTS = {
    "missing": "are in the log and not in the master dataset",
    "extra": "are in the master dataset and not in the log",
    "twice": "are in the master dataset more than once",
    "differs": "are in the master dataset with other content than in the log",
}


def _compare_merged(
    duck: duckdb.DuckDBPyConnection, view: View, answer: pa.Table, recomputed: _Recomputed
) -> Comparison:
    duck.register("answer", answer)
    duck.execute(f"DROP TABLE IF EXISTS recomputed; {create_table_sql('recomputed', view)}")
    insert_rows(duck, "recomputed", recomputed.whole)
    expected = f"({present_select(view, ['recomputed'], magnitudes=True)})"
    return compare_answers(duck, view, expected, "answer", magnitudes=True)


def _damaged_files(store: Store, published: Publication | None) -> list[str]:
    """What a rollback would meet: files of other kept versions that were changed."""
    known = (
        {f.path for view in published.views.values() for f in view.files} if published else set()
    )
    wrong = []
    for version in Publications(store).versions():
        for name, file in _files_of(version):
            if file.path in known:
                continue
            known.add(file.path)
            try:
                store.check(file)
            except IntegrityError as error:
                if store.exists(layout.version(version.version)):  # else it was just cleared away
                    wrong.append(f"version {version.version}, view {name}: {error}")
    return wrong


def _files_of(version: Publication) -> Iterable[tuple[str, StoredFile]]:
    for name, view in version.views.items():
        yield from ((name, file) for file in view.files)
    for name, found in version.reconciliation.items():
        if found.file is not None:
            yield name, found.file


def _end_of(chain: Sequence[Interval]) -> dict[int, int]:
    return {partition: r.end for interval in chain for partition, r in interval.ranges.items()}


def _end_of_path(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def _not_empty(ranges: Ranges) -> dict[int, Range]:
    return {partition: r for partition, r in ranges.items() if r.start < r.end}


def _range(r: Range) -> str:
    return f"[{r.start}, {r.end})"


def _ranges(ranges: Ranges) -> str:
    return ", ".join(f"partition {q} {_range(r)}" for q, r in sorted(ranges.items()))


def _some(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"{more:,} more of this kind"]
