"""The seam with real parts: random schedules on Kafka, Spark and DuckDB in this process, the merged
answer held against the oracle after every step.
"""

import json
import random

import pytest

from tests.support.layers import Pipeline, quick
from tests.support.waiting import until
from trilayer import Catalog, Stream, View, count, latest, sum_
from trilayer.testing import Aggregation, Event, answer, differences, field
from trilayer_core.runtime.clock import now_ms
from trilayer_core.store.publications import Publications

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

SCHEDULES = 3


def catalog_on(topic):
    stream = Stream(
        "events", "k string, n int, at timestamp", event_time="at", topic=topic, partitions=2
    )
    aggregates = {"events": count(), "total": sum_("n"), "newest": latest("n", by="at")}
    return Catalog(
        views=[
            View("by_key", source=stream, key=["k"], aggregates=aggregates),
            View(
                "by_sign", source=stream, key={"negative": "n < 0"}, aggregates={"events": count()}
            ),
        ]
    )


def expected(events):
    aggregates = {
        "events": Aggregation("count"),
        "total": Aggregation("sum_", field("n")),
        "newest": Aggregation("latest", field("n"), field("at")),
    }
    return {
        "by_key": answer(events, {"k": field("k")}, aggregates),
        "by_sign": answer(
            events, {"negative": lambda row: row["n"] < 0}, {"events": Aggregation("count")}
        ),
    }


class Schedule:
    def __init__(self, seed, pipeline):
        self.rng, self.pipeline = random.Random(seed), pipeline
        self.log = {}
        self.head = 0

    def append(self):
        arriving = []
        for _ in range(self.rng.randint(1, 6)):
            row = {
                "k": self.rng.choice("abc"),
                "n": self.rng.randint(-5, 5),
                "at": f"2026-03-01T00:00:{self.rng.randrange(60):02d}Z",
            }
            bad = self.rng.random() < 0.1
            arriving.append((self.rng.randrange(2), None if bad else row))
        values = [
            (p, b"not json" if row is None else json.dumps(row).encode()) for p, row in arriving
        ]
        for (p, o, _), (_, row) in zip(self.pipeline.produce(values), arriving, strict=True):
            self.log[p, o] = row

    def micro_batch(self):
        self.append()
        self.pipeline.catch_up()

    def batch(self):
        self.pipeline.batch(full=self.rng.random() < 0.3)

    def tick_and_batch(self):
        self.pipeline.wait_for_tick()
        self.pipeline.batch()

    def died_after_ingest(self):
        self.pipeline.ingest()

    def died_after_recompute(self):
        self.pipeline.recompute(self.pipeline.ingest())

    def rollback(self):
        if Publications(self.pipeline.store).in_force():
            self.pipeline.rollback(
                self.rng.choice(Publications(self.pipeline.store).versions()).version
            )

    def restart(self):
        self.pipeline.stop_speed()
        self.append()
        self.pipeline.catch_up()

    def rebuild(self):
        self.pipeline.catch_up(rebuild=True)

    def actions(self):
        """Each action at least once, in the order of the seed."""
        actions = [
            *(self.append, self.micro_batch, self.micro_batch, self.batch, self.tick_and_batch),
            *(self.died_after_ingest, self.died_after_recompute, self.rollback, self.restart),
            self.rebuild,
        ]
        return self.rng.sample(actions, len(actions))

    def check(self):
        """I1, I2, I4: merged is what the oracle makes of exactly the offsets below the head that
        the answer states.
        """
        found, provenance = self.pipeline.answers()
        head = provenance.streams["events"].head
        events = [
            Event(p, o, row)
            for (p, o), row in self.log.items()
            if row is not None and o < head.get(p, 0)
        ]
        for view, oracle in expected(events).items():
            different = differences(found[view], oracle)
            assert not different, f"{view}: " + "\n".join(different)
        return head

    def quarantined(self):
        publication = Publications(self.pipeline.store).in_force()
        _, provenance = self.pipeline.answers()
        return provenance.streams["events"].quarantined + (
            publication.streams["events"].quarantined if publication else 0
        )


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_a_random_schedule_of_real_parts(seed, broker, spark, store, new_topic):
    settings = quick(broker.bootstrap, settle_s=0.05, keep_versions=3)
    with Pipeline(catalog_on(new_topic()), settings, store, spark) as pipeline:
        schedule, done = Schedule(seed, pipeline), []
        pipeline.catch_up()
        try:
            for action in schedule.actions():
                before = now_ms()
                action()
                done.append(f"{action.__name__} ({now_ms() - before} ms)")
                schedule.check()
            schedule.append()
            pipeline.catch_up()
            # A reader looks for new generations once a second.
            until(lambda: sum(schedule.check().values()) == len(schedule.log))
            assert schedule.quarantined() == list(schedule.log.values()).count(None)
        except Exception as error:
            error.add_note(f"seed {seed}: {', '.join(done)}")
            raise
