"""One batch run by Airflow's own scheduler; tests/system/scheduling has what operators do."""

import pytest

from tests.support.places import PROJECT
from tests.support.project import Project, wait_for_settled_tick
from tests.support.waiting import until
from trilayer_core.store.publications import Publications
from trilayer_local import airflow, processes
from trilayer_local.stack import dag_folders

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DAG = "lambda_batch"


def test_a_triggered_run_is_published(tmp_path, broker, spark_connect, new_topic):
    project = Project(tmp_path, broker.bootstrap, new_topic(), spark_remote=spark_connect)
    home = tmp_path / ".trilayer"
    project.produce(100, broken=2)
    try:
        running = airflow.start(
            home,
            dags=dag_folders(tmp_path),
            project=tmp_path,
            env={"PYTHONPATH": str(PROJECT)},
            echo=lambda _: None,
        )
        airflow.unpause(running, DAG)
        wait_for_settled_tick(project)
        with running.client() as api:
            run = api.post(f"/dags/{DAG}/dagRuns", json={"logical_date": None, "conf": {}})
            run_id = run.raise_for_status().json()["dag_run_id"]
            # The latest interval, which is run because its schedule has begun, may be first.
            until(lambda: run_id in airflow.runs(api, DAG, "success", "failed"), timeout_s=200)
            assert run_id in airflow.runs(api, DAG, "success")
    finally:
        airflow.stop(home)
    assert processes.list_running(home) == []
    stream = Publications(project.store).in_force().streams[project.catalog().streams[0].name]
    assert (stream.events, stream.quarantined) == (102, 2)
    project.check_answers()
