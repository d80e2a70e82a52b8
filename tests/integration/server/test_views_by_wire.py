"""The views as clients of PostgreSQL see them: layers, snapshots, versions and refusals."""

import psycopg
import pytest
from psycopg import errors

import serving_layer
from tests.support.layers import Pipeline, quick
from tests.support.sales import catalog_on, fill, sales
from tests.support.served import Served
from trilayer_core.store.files import Store

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

COUNTS = "SELECT shop, n FROM totals ORDER BY shop"


@pytest.fixture
def pipeline(broker, spark, new_topic, tmp_path):
    catalog, store = catalog_on(new_topic()), Store(str(tmp_path / "store"))
    with Pipeline(catalog, quick(broker.bootstrap), store, spark) as pipeline:
        fill(pipeline)
        yield pipeline


@pytest.fixture
def served(pipeline):
    with Served(pipeline.catalog, pipeline.settings, pipeline.store) as server:
        yield server


def test_layers_snapshots_and_versions(pipeline, served):
    with (
        served.client(autocommit=True) as each,
        served.client() as transaction,
        served.client(autocommit=True, options="-c search_path=speed") as speed,
        served.client("trilayer@1", autocommit=True) as first,
    ):
        before = [("a", 3), ("b", 2), ("c", 1)]
        assert each.execute(COUNTS).fetchall() == before
        assert transaction.execute(COUNTS).fetchall() == before
        assert speed.execute(COUNTS).fetchall() == [("a", 1), ("c", 1)]
        assert each.execute("SELECT sum(n) FROM batch.totals").fetchone() == (4,)

        pipeline.produce(sales("c"))
        pipeline.catch_up()
        now = [("a", 3), ("b", 2), ("c", 2)]
        assert each.execute(COUNTS).fetchall() == now
        assert transaction.execute(COUNTS).fetchall() == before
        transaction.commit()
        assert transaction.execute(COUNTS).fetchall() == now

        pipeline.wait_for_tick()
        pipeline.batch()
        assert each.execute(COUNTS).fetchall() == now
        assert each.execute("SELECT sum(n) FROM batch.totals").fetchone() == (7,)
        assert first.execute("SELECT sum(n) FROM batch.totals").fetchone() == (4,)


def test_every_view_and_layer_is_what_python_has(pipeline, served):
    with serving_layer.connect(pipeline.catalog, pipeline.settings, pipeline.store) as connection:
        _compare(pipeline.catalog, connection, served)


def _compare(catalog, connection, served):
    for layer in ("merged", "batch", "speed"):
        with served.client(autocommit=True, options=f"-c search_path={layer}") as client:
            for binary in (False, True):
                for view in catalog.views:
                    query = f"SELECT * FROM {view.name} ORDER BY ALL"
                    cursor = client.cursor(binary=binary).execute(query)
                    assert cursor.fetchall() == connection.sql(query, layer).rows()


def test_a_version_that_is_not_kept_is_refused_and_named(served):
    with (
        served.client("trilayer@9", autocommit=True) as client,
        pytest.raises(errors.SyntaxErrorOrAccessRuleViolation, match="9"),
    ):
        client.execute(COUNTS)
    with pytest.raises(psycopg.OperationalError, match="trilayer@VERSION"):
        served.client("trilayer@newest")
