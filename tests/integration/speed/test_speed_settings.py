"""The speed layer started again with other settings, on Spark: a micro-batch that was too large is
not replayed for ever.
"""

import json

import pytest

from speed_layer.query import StreamQuery
from tests.support.layers import Pipeline, quick
from tests.support.waiting import until
from trilayer import Catalog, Stream, View, count
from trilayer_core.project import Project
from trilayer_core.store.generations import Generations

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def test_less_intake_after_a_micro_batch_that_was_too_large(broker, spark, new_topic, store):
    stream = Stream("sales", "k int, at timestamp", event_time="at", topic=new_topic())
    catalog = Catalog(views=[View("by_k", source=stream, key=["k"], aggregates={"n": count()})])
    settings = quick(broker.bootstrap)
    with Pipeline(catalog, settings, store, spark) as pipeline:
        pipeline.produce(
            [
                (n % 2, json.dumps({"k": n % 3, "at": "2026-01-01T00:00:00Z"}).encode())
                for n in range(300)
            ]
        )

        def out_of_memory(*_, **__):
            raise MemoryError

        first = StreamQuery(Project(settings, catalog, store), stream, spark, write=out_of_memory)
        first.start()
        until(lambda: first.failure() is not None, timeout_s=60)
        first.stop()
    lower = quick(broker.bootstrap, speed={"max_events": 50})
    with Pipeline(catalog, lower, store, spark) as pipeline:
        pipeline.catch_up()
        answers, _ = pipeline.answers()
        assert answers["by_k"] == {(k,): {"n": 100} for k in range(3)}
    assert [generation.number for generation in Generations(store, stream).all()] == [1, 2]
    commits = Generations(store, stream).commits(Generations(store, stream).all()[-1].name)
    assert max(sum(s.events for s in commit.segments) for commit in commits) <= 52
