"""A pipeline in one process, of real parts, for tests that drive the layers step by step: one
topic, one store, the shared Spark session.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from kafka import KafkaProducer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import serving_layer
from batch_layer.cut import choose_t, cut
from batch_layer.engine import Engine
from batch_layer.ingest import ingest
from batch_layer.publish import publish, rollback
from batch_layer.recompute import recompute
from batch_layer.reconcile import reconcile
from serving_layer.connection import Layer, Provenance
from speed_layer.query import StreamQuery
from tests.support.waiting import until
from trilayer import Catalog, Stream
from trilayer.testing import canonical
from trilayer_core.log.broker import Log
from trilayer_core.project import Project
from trilayer_core.runtime.clock import now_ms
from trilayer_core.runtime.settings import Settings
from trilayer_core.seam import Cut, latest_tick
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.publication import Publication, oldest_cut
from trilayer_core.store.publications import Publications
from trilayer_core.store.runs import Recomputed, Run

Answer = dict[tuple[Hashable, ...], dict[str, Any]]


class Pipeline:
    """Both layers and the serving layer over the streams of a catalog, of which most tests have
    one. Use as a context manager.
    """

    def __init__(
        self, catalog: Catalog, settings: Settings, store: Store, spark: SparkSession
    ) -> None:
        self.streams = catalog.streams
        self.stream = self.streams[0]
        self.catalog, self.settings, self.store, self.spark = catalog, settings, store, spark
        self._engine = Engine(settings, store, lambda: spark)
        self._queries: list[StreamQuery] = []
        with Log(settings.bootstrap_servers) as log:
            self._topics = [log.ensure(stream) for stream in self.streams]
        self.topic = self._topics[0]
        self._producer = KafkaProducer(bootstrap_servers=settings.bootstrap_servers)
        self._connection = serving_layer.connect(catalog, settings, store)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop_speed()
        self._connection.close()
        self._producer.close()

    # -- arrivals ----------------------------------------------------------------------------------

    def produce(
        self, values: Sequence[tuple[int, bytes | None]], stream: Stream | None = None
    ) -> list[tuple[int, int, int]]:
        """Appends (partition, value) in order, to the first stream unless another is given.

        Returns (partition, offset, append time in ms) of each.
        """
        topic = (stream or self.stream).topic
        sent = [
            self._producer.send(topic, value, key=b"k", partition=partition)
            for partition, value in values
        ]
        self._producer.flush()
        metadata = [future.get(timeout=20) for future in sent]
        return [(m.partition, m.offset, m.timestamp) for m in metadata]

    def wait_for_tick(self) -> None:
        """Returns when a cut asked for now would lie above everything appended so far."""
        tick_ms, settle_ms = self.settings.tick_ms, self.settings.settle_ms
        moment = now_ms()
        until(lambda: latest_tick(now_ms(), tick_ms, settle_ms) > moment)

    @property
    def project(self) -> Project:
        return Project(self.settings, self.catalog, self.store)

    # -- layers ------------------------------------------------------------------------------------

    def catch_up(self, rebuild: bool = False) -> None:
        """Has the speed layer commit all that has arrived; starts it where it is not running."""
        if not self._queries or rebuild:
            self.start_speed(rebuild)
        for query, running, topic in zip(self._queries, self._running, self._topics, strict=True):
            with Log(self.settings.bootstrap_servers) as log:
                end = log.end(topic)
            self._catch_up(query, running, end)

    def _catch_up(self, query: StreamQuery, running: StreamingQuery, end: Cut) -> None:
        # processAllAvailable may return for a trigger that had looked at the log before what has
        # just arrived.
        until(lambda: running.processAllAvailable() or self._committed(query, end), timeout_s=60)

    def start_speed(self, rebuild: bool = False) -> StreamQuery:
        """Starts the query of each stream. Returns that of the first."""
        self.stop_speed()
        self._queries = [
            StreamQuery(Project(self.settings, self.catalog, self.store), stream, self.spark)
            for stream in self.streams
        ]
        self._running = [query.start(rebuild) for query in self._queries]
        return self._queries[0]

    def _committed(self, query: StreamQuery, end: Cut) -> bool:
        generation = query.generation
        assert generation
        reached = dict(generation.start)
        kept = Publications(self.store).versions()
        # What lies below the oldest cut is cleared away.
        for partition, offset in oldest_cut(kept, query.stream.name, generation.origin_id).items():
            reached[partition] = max(reached.get(partition, 0), offset)
        for commit in Generations(self.store, query.stream).commits(generation.name):
            for segment in commit.segments:
                for partition, r in segment.ranges.items():
                    reached[partition] = max(reached.get(partition, 0), r.end)
        return all(reached.get(partition, 0) >= offset for partition, offset in end.items())

    @property
    def generation(self) -> str:
        generation = self._queries[0].generation
        assert generation
        return generation.name

    def stop_speed(self) -> None:
        for query in self._queries:
            query.stop()
        self._queries = []

    def batch(self, *, until_ms: int | None = None, full: bool = False) -> Publication:
        """A batch run in the shared session."""
        return self.publish(*self.recompute(self.ingest(until_ms=until_ms, full=full)))

    def ingest(self, *, until_ms: int | None = None, full: bool = False) -> Run:
        t_ms = choose_t(self.project, until_ms)
        run = cut(self.project, t_ms, full)
        for stream in self.streams:
            ingest(self.project, stream, run, self._engine)
        return run

    def recompute(self, run: Run) -> tuple[Run, Recomputed]:
        return run, recompute(self.project, run, self._engine)

    def publish(self, run: Run, recomputed: Recomputed) -> Publication:
        found = reconcile(self.project, run, recomputed)
        return publish(self.project, run, recomputed, found)

    def in_force(self) -> Publication:
        found = Publications(self.store).in_force()
        assert found
        return found

    def rollback(self, version: int | None = None) -> Publication:
        return rollback(version, self.store)

    # -- answers -----------------------------------------------------------------------------------

    def answers(
        self, layer: Layer = "merged", views: Iterable[str] | None = None
    ) -> tuple[dict[str, Answer], Provenance]:
        """View to its answer, all on one snapshot, with the snapshot's provenance."""
        with self._connection.snapshot() as snapshot:
            found = {
                view.name: by_key(
                    snapshot.sql(f"select * from {view.name}", layer).dicts(), view.key_names
                )
                for view in self.catalog.views
                if views is None or view.name in views
            }
            return found, snapshot.provenance


def by_key(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Answer:
    """Rows as the oracle states them. A key that is there twice is an error, not an overwriting."""
    found: Answer = {}
    for row in rows:
        key = tuple(canonical(row[name]) for name in keys)
        assert key not in found, f"key {key} is in the answer twice"
        found[key] = {name: value for name, value in row.items() if name not in keys}
    return found


def quick(bootstrap_servers: str, **more: Any) -> Settings:
    """Settings for tests: ticks of a second, cuts settled at once."""
    return Settings(
        bootstrap_servers=bootstrap_servers,
        **({"tick_s": 1, "settle_s": 0.1} | more),
    )
