"""The DAG files: what Airflow finds when it parses them, and what they must not cost it."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization
from jinja2 import Environment

from tests.support.places import PROJECT
from tests.support.published import run_once
from trilayer_core.store.files import Store

OURS = ("lambda_batch", "lambda_full_recompute", "lambda_rollback", "lambda_release")


def parse(folder=PROJECT, **settings):
    """What Airflow finds in dags/ with some settings, and with the modules of a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROJECT)
        patch.syspath_prepend(folder)
        for name, value in settings.items():
            patch.setenv(f"TRILAYER_{name.upper()}", str(value))
        return DagBag("dags")


@cache
def parsed():
    """The DAGs of the settings' defaults."""
    return parse()


def serialized(dag):
    return json.dumps(DagSerialization.to_dict(dag), sort_keys=True)


def test_every_dag_is_found_without_an_error_and_says_what_it_is_for():
    assert parsed().import_errors == {}
    assert set(parsed().dags) == {*OURS, "example_on_publish"}
    for name, dag in parsed().dags.items():
        assert dag.doc_md, name
        assert "trilayer" in dag.tags, name
        assert all(task.doc_md for task in dag.tasks), name


def test_lambda_batch_runs_its_steps_in_order_one_run_at_a_time():
    dag = parsed().dags["lambda_batch"]
    assert {task.task_id: task.upstream_task_ids for task in dag.tasks} == {
        "cut": set(),
        "ingest": {"cut"},
        "recompute": {"ingest"},
        "reconcile": {"recompute"},
        "publish": {"reconcile"},
    }
    assert [task.task_id for task in dag.tasks if task.is_mapped] == ["ingest"]
    assert [asset.name for asset in dag.get_task("publish").outlets] == [
        "delays_by_carrier",
        "busy_routes",
        "aircraft",
        "delay_quantiles",
        "routes",
        "tours",
    ]
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert type(dag.timetable).__name__ == "CronDataIntervalTimetable"
    assert all(task.retries and task.retry_exponential_backoff for task in dag.tasks)
    assert [alert.interval.total_seconds() for alert in dag.deadline] == [600]
    assert {name: param.value for name, param in dag.params.items()} == {"full": False}


def test_each_sink_has_a_task_after_the_publication(tmp_path):
    (tmp_path / "with_sinks.py").write_text(
        "from examples.extensions.csv_folder import CsvFolder\n"
        "from examples.flights import catalog as flights\n"
        "from trilayer import Catalog\n"
        "catalog = Catalog(views=flights.views, sinks=[CsvFolder('a', 'a'), CsvFolder('b', 'b')])\n"
    )
    bag = parse(tmp_path, catalog="with_sinks:catalog")
    assert bag.import_errors == {}
    task = bag.dags["lambda_batch"].get_task("deliver")
    assert (task.upstream_task_ids, task.is_mapped, bool(task.doc_md)) == ({"publish"}, True, True)


def test_parsing_costs_airflow_neither_spark_nor_duckdb(tmp_path):
    """In a process of its own, as Airflow's processor of DAGs is."""
    code = (
        "import sys; from airflow.dag_processing.dagbag import DagBag\n"
        "assert len(DagBag('dags').dags) == 5\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    environment = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env=os.environ | environment | {"PYTHONPATH": str(PROJECT)},
        text=True,
        capture_output=True,
        check=True,
    )
    assert not {"pyspark", "duckdb", "pandas"} & set(done.stdout.split())


def rendered(dag, task, user=None, **params):
    """A task's arguments as Airflow would render them for a run with these params, those that come
    out empty left out.
    """
    values = {name: param.value for name, param in dag.params.items()} | params
    run = SimpleNamespace(triggering_user_name=user)
    texts = [
        Environment().from_string(argument).render(params=values, dag_run=run)
        for argument in dag.get_task(task).arguments
    ]
    return [text for text in texts if text]


def test_the_rollback_form_becomes_a_command():
    dag = parsed().dags["lambda_rollback"]
    for params, arguments in (
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
    ):
        command = rendered(dag, "rollback", **params)
        assert command == ["batch", "rollback", *arguments, "--json"], params


def test_whatever_can_hang_ends_and_has_an_owner():
    for name in OURS:
        dag = parsed().dags[name]
        assert dag.dagrun_timeout.total_seconds() == 12 * 3600, name
        assert {"_link_PublicationLink", "_link_ConsoleLink"} <= set(serialized(dag).split('"'))
        for task in dag.tasks:
            assert task.execution_timeout.total_seconds() == 6 * 3600, name
            assert task.owner == "trilayer", name
            assert task.on_failure_callback, name


def test_settings_reach_the_dags():
    bag = parse(
        batch_timeout_s=7200, batch_task_timeout_s=600, airflow_owner="ann", airflow_pool="spark"
    )
    assert bag.import_errors == {}
    for name in OURS:
        dag = bag.dags[name]
        assert dag.dagrun_timeout.total_seconds() == 7200
        of_tasks = {(task.execution_timeout.total_seconds(), task.owner) for task in dag.tasks}
        assert of_tasks == {(600, "ann")}
    assert {task.pool for task in bag.dags["lambda_batch"].tasks} == {"spark"}
    # A rollback never waits behind a run that computes.
    assert bag.dags["lambda_rollback"].get_task("rollback").pool == "default_pool"


def test_recovery_depends_on_nothing_that_may_be_broken(tmp_path):
    for number, (text, settings) in enumerate([
        ("catalog = (", {}),
        ("raise SystemExit(1)", {}),
        (None, {}),
        ("", {"batch_every_s": "soon"}),
        ("", {"notify": "[1"}),
    ]):  # fmt: skip
        if text is not None:
            (tmp_path / f"broken_{number}.py").write_text(text)
        dags = parse(tmp_path, catalog=f"broken_{number}:catalog", **settings).dags
        assert {"lambda_rollback", "lambda_release"} <= set(dags), (text, settings)
        assert "lambda_batch" not in dags, (text, settings)


def test_nothing_that_a_publication_changes_is_a_part_of_a_dag(tmp_path):
    """Otherwise each publication would make a new version of the DAG."""
    store = tmp_path / "store"
    before = parse(store=store).dags
    run_once(Store(str(store)))
    after = parse(store=store).dags
    for name in OURS:
        assert serialized(after[name]) == serialized(before[name])


def test_the_version_of_a_rollback_is_checked_before_its_run():
    params = parse().dags["lambda_rollback"].params
    for value in (None, "", "7", 7, " 7 ", "abc", "-1", "7; rm", "7 T=1", 0, -3, 1.5, [7]):
        fits = value in (None, "", "7", 7, " 7 ")
        with nullcontext() if fits else pytest.raises(ParamValidationError):
            params["version"] = value
            params.validate()
