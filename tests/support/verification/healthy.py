"""A healthy store and its topic, made once by the real layers: several intervals, publications and
segments, with all kinds of views.
"""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from speed_layer.compaction import compact
from tests.support.layers import Pipeline, quick
from trilayer import Catalog, Rows, Stream, View, count, latest, max_, mean, sliding, sum_, tumbling
from trilayer.operations.verification.findings import Verification
from trilayer.operations.verification.run import verification
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations

PARTITIONS = 3
BROKEN: list[bytes | None] = [
    b"{broken",
    b'{"customer": "c1", "amount": 1.5, "at": "2026-01-01T00:00:00Z"}',
    None,
]


def catalog_on(topic: str) -> Catalog:
    """A view of each kind: plain, filtered, tumbling, sliding, on `Rows`."""
    orders = Stream(
        "orders",
        "customer string, amount bigint, price double, note string, at timestamp, tags"
        " array<string>",
        event_time="at",
        topic=topic,
        partitions=PARTITIONS,
    )
    words = Rows(
        "words",
        source=orders,
        rows=lambda events: events.select(
            F.explode(F.split("note", " ")).alias("word"), "customer"
        ),
        schema="word string, customer string",
    )
    totals = {
        "n": count(),
        "total": sum_("amount"),
        "mean_price": mean("price"),
        "largest": max_("amount"),
        "last_note": latest("note", by="at"),
    }
    return Catalog(
        views=[
            View("totals", source=orders, key=["customer"], aggregates=totals),
            View(
                "large",
                source=orders,
                key=["customer"],
                aggregates={"n": count()},
                where="amount > 50",
            ),
            View(
                "hours",
                source=orders,
                key={"hour": tumbling("at", "1 hour")},
                aggregates={"n": count()},
            ),
            View(
                "busy",
                source=orders,
                key={"customer": "customer", "window": sliding("at", "1 hour", "15 minutes")},
                aggregates={"n": count()},
            ),
            View("word_count", source=words, key=["word"], aggregates={"n": count()}),
        ]
    )


@dataclass(frozen=True)
class Healthy:
    """What was made. Tests verify copies of it and leave it as it is."""

    topic: str
    settings: Settings
    store: Store
    spark: SparkSession

    @property
    def catalog(self) -> Catalog:
        return catalog_on(self.topic)

    def copy(self, folder: Path) -> Healthy:
        """The same with a store of its own below `folder`; the checkpoints of Spark stay behind."""
        shutil.copytree(
            self.store.root, folder / "store", ignore=shutil.ignore_patterns("checkpoint")
        )
        return replace(self, store=Store(str(folder / "store")))

    def pipeline(self) -> Pipeline:
        return Pipeline(self.catalog, self.settings, self.store, self.spark)

    def verification(self) -> Verification:
        return verification(Project(self.settings, self.catalog, self.store), lambda: self.spark)


def build(bootstrap: str, topic: str, store: Store, spark: SparkSession) -> Healthy:
    """Three publications, then segments of several ticks above the cut, some of them compacted."""
    made = Healthy(topic, quick(bootstrap), store, spark)
    rng = random.Random(13)
    with made.pipeline() as pipeline:
        for number in range(3):
            pipeline.produce(_arriving(rng, 60))
            if number == 1:
                _transactions(bootstrap, topic)
            pipeline.catch_up()
            pipeline.wait_for_tick()
            pipeline.batch()
        for _ in range(4):
            for _ in range(2):
                pipeline.produce(_arriving(rng, 12))
                pipeline.catch_up()
            pipeline.wait_for_tick()
        of_stream = Generations(store, pipeline.stream)
        compact(of_stream, made.catalog.views, pipeline.generation, 2)
        for _ in range(2):
            pipeline.stop_speed()  # or a micro-batch may come with a part of them
            pipeline.produce(_arriving(rng, 12))
            pipeline.catch_up()
            pipeline.wait_for_tick()
    return made


def event(rng: random.Random) -> bytes:
    """An order of one of five customers on the first of January."""
    order: dict[str, Any] = {
        "customer": f"c{rng.randrange(5)}",
        "amount": rng.randrange(100),
        "price": rng.randrange(1000) / 8,
        "note": " ".join(rng.choice(["red", "green", "blue"]) for _ in range(2)),
        "at": f"2026-01-01T{rng.randrange(4):02d}:{rng.randrange(60):02d}:00Z",
        "tags": ["a", "b"][: rng.randrange(3)],
    }
    return json.dumps(order).encode()


def _arriving(rng: random.Random, number: int) -> list[tuple[int, bytes | None]]:
    """So many events over all partitions, and three that do not fit, not last."""
    values = [(n % PARTITIONS, event(rng)) for n in range(number)]
    broken = [(n, value) for n, value in enumerate(BROKEN)]
    return [*values[: number // 2], *broken, *values[number // 2 :]]


def _transactions(bootstrap: str, topic: str) -> None:
    """Leaves offsets without records that count: an aborted event, and the markers of two
    transactions.
    """
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"of-{topic}")
    producer.init_transactions()
    rng = random.Random(7)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.send(
            topic, event(rng), partition=0, headers=[("kind", b"transaction"), ("empty", b"")]
        )
        end()
    producer.close()
