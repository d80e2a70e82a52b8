"""The DAG files: what Airflow finds when it parses them, and what they must not cost it."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import ParamValidationError

from tests.support.places import PROJECT
from trilayer_core.store.fence import Fence
from trilayer_core.store.files import Store
from trilayer_core.store.publication import Publication, PublishedStream
from trilayer_core.store.publications import Publications

PARSE = """
import json, sys, time
from airflow.dag_processing.dagbag import DagBag
began = time.monotonic()
bag = DagBag("dags")
took_s = time.monotonic() - began
from airflow.serialization.serialized_objects import DagSerialization
found = {
    "took_s": took_s,
    "errors": bag.import_errors,
    "loaded": sorted({name.partition(".")[0] for name in sys.modules}),
    "dags": {
        name: {
            "doc": dag.doc_md, "tags": sorted(dag.tags), "catchup": dag.catchup,
            "max_active_runs": dag.max_active_runs, "timetable": type(dag.timetable).__name__,
            "params": {k: p.value for k, p in dag.params.items()},
            "deadline_s": [d.interval.total_seconds() for d in dag.deadline or []],
            "timeout_s": dag.dagrun_timeout and dag.dagrun_timeout.total_seconds(),
            "serialized": json.dumps(DagSerialization.to_dict(dag), sort_keys=True),
            "tasks": {
                t.task_id: {
                    "doc": t.doc_md, "after": sorted(t.upstream_task_ids), "mapped": t.is_mapped,
                    "retries": t.retries, "backoff": bool(t.retry_exponential_backoff),
                    "outlets": [o.name for o in t.outlets],
                    "owner": t.owner, "pool": t.pool, "weight_rule": str(t.weight_rule),
                    "timeout_s": t.execution_timeout and t.execution_timeout.total_seconds(),
                    "notifies": bool(t.on_failure_callback),
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
    assert dag["deadline_s"] == [600]
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
    run = SimpleNamespace(triggering_user_name=params.pop("user", None))
    values = {name: param.value for name, param in found.params.items()} | params
    texts = [
        Environment().from_string(a).render(params=values, dag_run=run)
        for a in found.get_task(task).arguments
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
        ({"version": " 7 "}, ["7"]),
        ({"hold": True, "user": "ann"}, ["--hold", "--by=ann (Airflow)"]),
        ({"user": "ann"}, []),
        ({"accept_unanswered": True}, ["--accept-unanswered"]),
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


OURS = ("lambda_batch", "lambda_full_recompute", "lambda_rollback", "lambda_release")


def test_whatever_can_hang_ends_and_has_an_owner(parsed):
    for name in OURS:
        dag = parsed["dags"][name]
        assert dag["timeout_s"] == 12 * 3600, name
        assert {"_link_PublicationLink", "_link_ConsoleLink"} <= set(dag["serialized"].split('"'))
        for task in dag["tasks"].values():
            assert (task["timeout_s"], task["owner"]) == (6 * 3600, "trilayer"), name
            assert task["notifies"], name


def test_settings_reach_the_dags(tmp_path):
    settings = {"batch_timeout_s": 7200, "batch_task_timeout_s": 600, "airflow_owner": "ann"}
    settings |= {"airflow_pool": "spark"}
    found = parse(tmp_path, **{f"TRILAYER_{k.upper()}": str(v) for k, v in settings.items()})
    assert found["errors"] == {}
    for name in OURS:
        dag = found["dags"][name]
        assert dag["timeout_s"] == 7200
        assert {(t["timeout_s"], t["owner"]) for t in dag["tasks"].values()} == {(600, "ann")}
    batch = found["dags"]["lambda_batch"]["tasks"].values()
    assert {t["pool"] for t in batch} == {"spark"}
    # A rollback never waits behind a run that computes.
    assert found["dags"]["lambda_rollback"]["tasks"]["rollback"]["pool"] == "default_pool"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("catalog = (", {}),
        ("raise SystemExit(1)", {}),
        (None, {}),
        ("", {"batch_every_s": "soon"}),
        ("", {"notify": "[1"}),
    ],
)
def test_recovery_depends_on_nothing_that_may_be_broken(tmp_path, text, settings):
    if text is not None:
        (tmp_path / "broken.py").write_text(text)
    names = {f"TRILAYER_{name.upper()}": value for name, value in settings.items()}
    found = parse(tmp_path, TRILAYER_CATALOG="broken:catalog", **names)
    assert {"lambda_rollback", "lambda_release"} <= set(found["dags"])
    assert "lambda_batch" not in found["dags"]


def test_nothing_that_a_publication_changes_is_a_part_of_a_dag(tmp_path):
    """Otherwise each publication would make a new version of the DAG."""
    store = str(tmp_path / "store")
    before = parse(tmp_path, TRILAYER_STORE=store)["dags"]
    publish(Store(store), version=1, token=1, events=1_200)
    after = parse(tmp_path, TRILAYER_STORE=store)["dags"]
    for name in OURS:
        assert after[name]["serialized"] == before[name]["serialized"]


VERSIONS = [(None, True), ("", True), ("7", True), (7, True), (" 7 ", True)]
VERSIONS += [(wrong, False) for wrong in ("abc", "-1", "7; rm", "7 T=1", 0, -3, 1.5, [7])]


def test_the_version_of_a_rollback_is_checked_before_its_run(monkeypatch, tmp_path):
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.chdir(PROJECT)
    params = DagBag(str(PROJECT / "dags")).dags["lambda_rollback"].params
    for value, fits in VERSIONS:
        with nullcontext() if fits else pytest.raises(ParamValidationError):
            params["version"] = value
            params.validate()


def publish(store: Store, *, version: int, token: int, events: int) -> None:
    """A version in force, without views."""
    assert Fence(store).take("batch run") == token
    streams = {"orders": PublishedStream("an origin", "a schema", {0: events}, events, 0, 0)}
    written = Publication(version, 1_767_225_600_000, token, "full", None, 0, streams, {}, {})
    Publications(store).put_in_force(Publications(store).write(written).version, token, "publish")
