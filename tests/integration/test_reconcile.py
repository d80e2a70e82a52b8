"""Reconcile, where batch and speed disagree: a warning and the batch's answer, or no publication at
all.
"""

from dataclasses import replace

import pytest

from tests.support.layers import Pipeline, quick
from tests.support.sales import catalog_on, sales
from trilayer_core.errors import DifferenceError
from trilayer_core.store.publications import Publications

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def differing(broker, spark, store, new_topic, request):
    """A run whose batch share of `totals` has one count too many, and its pipeline."""
    settings = quick(broker.bootstrap).model_copy(update={"reconcile": request.param})
    with Pipeline(catalog_on(new_topic()), settings, store, spark) as pipeline:
        pipeline.produce(sales("aabb"))
        pipeline.catch_up()
        pipeline.wait_for_tick()
        run, recomputed = pipeline.recompute(pipeline.ingest())
        (file,) = recomputed.views["totals"]
        table = store.read_table(file)
        place = table.column_names.index("n__n")
        wrong = table.set_column(
            place, "n__n", [[table["n__n"][0].as_py() + 1, *table["n__n"].to_pylist()[1:]]]
        )
        files = [store.write_table("batch/totals/99999999-wrong/part.parquet", wrong)]
        yield pipeline, run, replace(recomputed, views={**recomputed.views, "totals": files})


@pytest.mark.parametrize("differing", ["fail"], indirect=True)
def test_a_difference_fails_the_run_however_often_it_is_tried(differing):
    pipeline, run, recomputed = differing
    for _ in range(2):  # as a scheduler does
        with pytest.raises(DifferenceError, match="batch and speed differ in totals"):
            pipeline.publish(run, recomputed)
    assert Publications(pipeline.store).in_force() is None


@pytest.mark.parametrize("differing", ["warn"], indirect=True)
def test_a_difference_is_told_and_the_batch_is_published(differing, caplog):
    pipeline, run, recomputed = differing
    publication = pipeline.publish(run, recomputed)
    counts = publication.reconciliation["totals"]
    assert (counts.match, counts.differ, counts.missing, counts.extra) == (1, 1, 0, 0)
    assert publication.reconciliation["per_price"].differ == 0
    assert "reconcile totals: match 1, differ 1, missing 0, extra 0" in caplog.text
