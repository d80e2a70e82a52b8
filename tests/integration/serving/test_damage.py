"""What docs/operations.md says to do about a damaged store does mend it, and clearing away never
leaves one that can't be read.
"""

from pathlib import Path

import pytest

from tests.support.layers import Pipeline, quick
from tests.support.sales import catalog_on, fill, sales, truncate
from trilayer_core.errors import IntegrityError
from trilayer_core.seam import Range
from trilayer_core.store import layout
from trilayer_core.store.files import Store
from trilayer_core.store.generations import Generations
from trilayer_core.store.intervals import Interval
from trilayer_core.store.master import Master
from trilayer_core.store.publications import Publications


def counts(pipeline):
    found, _ = pipeline.answers(views=["totals"])
    return {shop: row["n"] for (shop,), row in found["totals"].items()}


@pytest.fixture
def pipeline(broker, spark, store, new_topic):
    """Four events below the published cut, two above it, in a segment."""
    with Pipeline(
        catalog_on(new_topic()), quick(broker.bootstrap, keep_versions=2), store, spark
    ) as pipeline:
        fill(pipeline)
        yield pipeline


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("damaged", ["commit", "partials"])
def test_a_rebuild_mends_a_damaged_segment(pipeline, damaged):
    store, stream = pipeline.store, pipeline.stream
    first, last = Generations(store, stream).spans(pipeline.generation)[-1]
    commit = Path(store.path(layout.commit(stream, pipeline.generation, first, last)))
    partials = Path(store.path(f"{layout.generation(stream, pipeline.generation)}/data"))
    pipeline.stop_speed()
    truncate(
        commit if damaged == "commit" else next(partials.glob(f"{first:012d}-*-totals.parquet"))
    )
    with pytest.raises(IntegrityError):
        counts(pipeline)
    pipeline.wait_for_tick()
    batch = pipeline.batch()
    assert "truncated" in batch.reconciliation["totals"].not_compared
    pipeline.catch_up(rebuild=True)
    pipeline.produce(sales("dd"))
    pipeline.catch_up()
    assert counts(pipeline) == {"a": 3, "b": 2, "c": 1, "d": 2}
    pipeline.wait_for_tick()
    batch = pipeline.batch()
    assert batch.reconciliation["totals"].match == 1
    assert [generation.name for generation in Generations(store, stream).all()] == [
        pipeline.generation
    ]
    assert counts(pipeline) == {"a": 3, "b": 2, "c": 1, "d": 2}


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True], ids=["the one before", "one named"])
def test_a_rollback_mends_a_damaged_publication(pipeline, named):
    before = pipeline.in_force().version
    pipeline.wait_for_tick()
    damaged = pipeline.batch().version
    truncate(Path(pipeline.store.path(f"publications/{damaged:08d}.json")))
    with pytest.raises(IntegrityError, match=f"{damaged:08d}"):
        counts(pipeline)
    with pytest.raises(IntegrityError, match=f"{damaged:08d}"):
        pipeline.batch()
    assert pipeline.rollback(before if named else None).version == before
    assert counts(pipeline) == {"a": 3, "b": 2, "c": 1}
    pipeline.wait_for_tick()
    assert pipeline.batch(full=True).version == damaged + 1
    assert counts(pipeline) == {"a": 3, "b": 2, "c": 1}
    assert Publications(pipeline.store).numbers() == [before, damaged, damaged + 1]
    pipeline.wait_for_tick()
    pipeline.batch(full=True)
    assert Publications(pipeline.store).numbers() == [damaged + 1, damaged + 2]
    kept = {
        file.path.rsplit("/", 1)[0]
        for p in Publications(pipeline.store).versions()
        for file in p.views["totals"].files
    }
    assert kept == {f"batch/totals/{attempt}" for attempt in pipeline.store.names("batch/totals")}


@pytest.mark.parametrize("deletions", range(5))
def test_a_chain_half_cleared_away_is_still_one(tmp_path, deletions):
    """Killed after any of its deletions."""

    class Killed(BaseException):
        pass

    class Dying(Store):
        left = deletions

        def delete(self, relative):
            if not self.left:
                raise Killed
            self.left -= 1
            super().delete(relative)

    store = Dying(str(tmp_path))
    stream = catalog_on("t").streams[0]
    chain = layout.chain(stream, "old")
    for number in range(3):
        ranges = {0: Range(number * 10, number * 10 + 10)}
        interval = Interval(number, number * 1000, "id", ranges, {}, [], 10, 0)
        store.write_document(f"{chain}/{number:08d}.json", interval)
    if deletions < 4:
        with pytest.raises(Killed):
            Master(store, stream).delete_chain("old")
    else:
        Master(store, stream).delete_chain("old")
    left = max(3 - deletions, 0)
    assert [interval.number for interval in Master(store, stream).read_chain("old")] == list(
        range(left)
    )
    assert sorted(Master(store, stream).recorded_cuts()) == [
        number * 1000 for number in range(left)
    ]


def test_a_chain_cleared_away_while_it_is_read_is_read_again(tmp_path):
    class Clearing(Store):
        reads = 0

        def read(self, relative):
            self.reads += 1
            if self.reads == 2:
                Master(self, stream).delete_chain("old")
            return super().read(relative)

    store = Clearing(str(tmp_path))
    stream = catalog_on("t").streams[0]
    chain = layout.chain(stream, "old")
    for number in range(3):
        interval = Interval(number, number, "id", {0: Range(number, number + 1)}, {}, [], 1, 0)
        store.write_document(f"{chain}/{number:08d}.json", interval)
    assert Master(store, stream).read_chain("old") == []
