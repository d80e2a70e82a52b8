"""The DAG files: what Airflow finds when it parses them, and what they must not cost it."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.places import PROJECT
from trilayer.airflow import load_project
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.publication import Publication, PublishedStream
from trilayer_core.store.publications import Publications

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
            "doc": dag.doc_md, "tags": sorted(dag.tags), "catchup": dag.catchup,
            "max_active_runs": dag.max_active_runs, "timetable": type(dag.timetable).__name__,
            "params": {k: p.value for k, p in dag.params.items()},
            "deadline_s": [d.interval.total_seconds() for d in dag.deadline or []],
            "tasks": {
                t.task_id: {
                    "doc": t.doc_md, "after": sorted(t.upstream_task_ids), "mapped": t.is_mapped,
                    "retries": t.retries, "backoff": bool(t.retry_exponential_backoff),
                    "outlets": [o.name for o in t.outlets],
                } for t in dag.tasks
            },
        } for name, dag in bag.dags.items()
    },
}
print("FOUND" + json.dumps(found))
"""


def parse(folder, **environment):
    """What a process of its own finds in dags/, twice: the second time Airflow itself is there
    already, as in its DAG processor.
    """
    environment = os.environ | {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(folder)]),
    } | environment  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PARSE],
        cwd=PROJECT,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.partition("FOUND")[2])


@pytest.fixture(scope="module")
def parsed(tmp_path_factory):
    return parse(tmp_path_factory.mktemp("airflow"))


def test_every_dag_is_found_without_an_error(parsed):
    assert parsed["errors"] == {}
    assert set(parsed["dags"]) == {
        "lambda_batch",
        "lambda_full_recompute",
        "lambda_rollback",
        "lambda_release",
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
        "cut": [],
        "ingest": ["cut"],
        "recompute": ["ingest"],
        "reconcile": ["recompute"],
        "publish": ["reconcile"],
    }
    assert [name for name, task in dag["tasks"].items() if task["mapped"]] == ["ingest"]
    assert dag["tasks"]["publish"]["outlets"] == [
        "delays_by_carrier",
        "busy_routes",
        "aircraft",
        "delay_quantiles",
        "routes",
        "tours",
    ]
    assert (dag["catchup"], dag["max_active_runs"]) == (False, 1)
    assert dag["timetable"] == "CronDataIntervalTimetable"
    assert all(task["retries"] and task["backoff"] for task in dag["tasks"].values())
    assert dag["deadline_s"] == [1200]
    assert dag["params"] == {"full": False}


def test_each_sink_has_a_task_after_the_publication(tmp_path):
    (tmp_path / "with_sinks.py").write_text(
        "from examples.extensions.csv_folder import CsvFolder\n"
        "from examples.flights import catalog as flights\n"
        "from trilayer import Catalog\n"
        "catalog = Catalog(views=flights.views, sinks=[CsvFolder('a', 'a'), CsvFolder('b', 'b')])\n"
    )
    found = parse(tmp_path, TRILAYER_CATALOG="with_sinks:catalog")
    assert found["errors"] == {}
    task = found["dags"]["lambda_batch"]["tasks"]["deliver"]
    assert (task["after"], task["mapped"], bool(task["doc"])) == (["publish"], True, True)


def test_parsing_costs_airflow_neither_spark_nor_duckdb(parsed):
    assert not {"pyspark", "duckdb", "pandas"} & set(parsed["loaded"])


def rendered(dag: str, task: str, **params) -> list[str]:
    """A task's arguments as Airflow would render them for a run with these params, those that come
    out empty left out.
    """
    from airflow.dag_processing.dagbag import DagBag
    from jinja2 import Environment

    found = DagBag(str(PROJECT / "dags")).dags[dag]
    values = {name: param.value for name, param in found.params.items()} | params
    texts = [
        Environment().from_string(a).render(params=values) for a in found.get_task(task).arguments
    ]
    return [text for text in texts if text]


@pytest.mark.parametrize(
    ("params", "arguments"),
    [
        ({}, []),
        ({"version": None}, []),
        ({"version": ""}, []),
        ({"version": 7}, ["7"]),
        ({"version": "7"}, ["7"]),
        ({"version": "7 T=2026-01-01T00:00:00Z, 12 events, 3 rows, full"}, ["7"]),
        ({"version": "7", "hold": True}, ["7", "--hold"]),
        ({"hold": True, "why": "a wrong deploy"}, ["--hold", "--why=a wrong deploy"]),
        ({"why": "without a hold"}, []),
    ],
)
def test_the_rollback_form_becomes_a_command(params, arguments, monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.chdir(PROJECT)
    assert rendered("lambda_rollback", "rollback", **params) == [
        "batch",
        "rollback",
        *arguments,
        "--json",
    ]


def test_the_rollback_form_offers_the_versions_that_are_kept(monkeypatch, tmp_path):
    store = Store(str(tmp_path / "store"))
    publish(store, version=1, token=1, events=1_200)
    publish(store, version=2, token=2, events=3_400)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRILAYER_CATALOG", "examples.retail:catalog")
    monkeypatch.setenv("TRILAYER_STORE", str(tmp_path / "store"))
    assert load_project().kept == [
        "2 T=2026-01-01T00:00:00Z, 3,400 events, 0 rows, full, in force",
        "1 T=2026-01-01T00:00:00Z, 1,200 events, 0 rows, full",
    ]
    (tmp_path / "store" / "publications" / "current.json").write_text("{}")
    assert load_project().kept == []


def publish(store: Store, *, version: int, token: int, events: int) -> None:
    """A version in force, without views."""
    assert Fence(store).take("batch run") == token
    streams = {"orders": PublishedStream("an origin", "a schema", {0: events}, events, 0, 0)}
    written = Publication(version, 1_767_225_600_000, token, "full", None, 0, streams, {}, {})
    Publications(store).put_in_force(Publications(store).write(written).version, token, "publish")
