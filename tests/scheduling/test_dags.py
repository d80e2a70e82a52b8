"""The DAG files: what Airflow finds when it parses them, and what they must not cost it."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import PROJECT

PARSE = """
import json, sys, time
from airflow.dag_processing.dagbag import DagBag
began = time.monotonic()
bag = DagBag("dags")
found = {
    "took_s": time.monotonic() - began,
    "errors": bag.import_errors,
    "loaded": sorted({name.partition(".")[0] for name in sys.modules}),
    "dags": {
        name: {
            "doc": dag.doc_md, "tags": sorted(dag.tags), "catchup": dag.catchup, "max_active_runs": dag.max_active_runs,
            "timetable": type(dag.timetable).__name__, "params": {k: p.value for k, p in dag.params.items()},
            "deadline_s": [d.interval.total_seconds() for d in dag.deadline or []],
            "tasks": {
                t.task_id: {
                    "doc": t.doc_md, "after": sorted(t.upstream_task_ids), "mapped": t.is_mapped, "retries": t.retries,
                    "backoff": bool(t.retry_exponential_backoff), "outlets": [o.name for o in t.outlets],
                } for t in dag.tasks
            },
        } for name, dag in bag.dags.items()
    },
}
print("FOUND" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory):
    """What a process of its own finds in dags/, twice: the second time Airflow itself is there already, as in its DAG processor."""
    environment = os.environ | {
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONPATH": str(PROJECT),
    }
    done = subprocess.run([sys.executable, "-c", PARSE], cwd=PROJECT, env=environment, text=True, capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.partition("FOUND")[2])


def test_every_dag_is_found_without_an_error(parsed):
    assert parsed["errors"] == {}
    assert set(parsed["dags"]) == {
        "lambda_batch",
        "lambda_full_recompute",
        "lambda_rollback",
        "example_on_publish",
    }


def test_dags_and_tasks_say_what_they_are_for(parsed):
    for name, dag in parsed["dags"].items():
        assert dag["doc"], name
        assert "trilayer" in dag["tags"], name
        assert all(task["doc"] for task in dag["tasks"].values()), name


def test_lambda_batch_runs_its_steps_in_order_one_run_at_a_time(parsed):
    dag = parsed["dags"]["lambda_batch"]
    after = {name: task["after"] for name, task in dag["tasks"].items()}
    assert after == {
        "cut": [], "ingest": ["cut"], "recompute": ["ingest"], "reconcile": ["recompute"], "publish": ["reconcile"]
    }  # fmt: skip
    assert [name for name, task in dag["tasks"].items() if task["mapped"]] == ["ingest"]
    assert dag["tasks"]["publish"]["outlets"] == ["delays_by_carrier", "busy_routes", "aircraft"]
    assert (dag["catchup"], dag["max_active_runs"]) == (False, 1)
    assert dag["timetable"] == "CronDataIntervalTimetable"
    assert all(task["retries"] and task["backoff"] for task in dag["tasks"].values())
    assert dag["deadline_s"] == [1200]
    assert dag["params"] == {"full": False}


def test_parsing_costs_airflow_neither_spark_nor_duckdb(parsed):
    assert not {"pyspark", "duckdb", "pandas", "pyarrow"} & set(parsed["loaded"])
