"""lambda_full_recompute: every night, everything again from the whole master dataset."""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from trilayer.airflow import TrilayerOperator, load_project

project = load_project()

with DAG(
    "lambda_full_recompute",
    description=(
        "All views from the whole master dataset: equal to what is published, or corrected and told"
    ),
    doc_md="""
Runs `lambda_batch` with `full: true`, so that the two never compete, then says what came of it.

A full run must equal what is in force. If it does not, the recomputed views are published, and
`report` says in how many keys of which views they differ, and shows some.
""",
    schedule=project.nightly,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
    tags=["trilayer", "batch layer"],
):
    run = TriggerDagRunOperator(
        task_id="run",
        trigger_dag_id="lambda_batch",
        conf={"full": True},
        wait_for_completion=True,
        deferrable=True,
        poke_interval=5,
        fail_when_dag_is_paused=True,
        doc_md=(
            "One run of `lambda_batch` with `full: true`. Fails where `lambda_batch` is paused,"
            " since its run would wait for ever."
        ),
    )

    report = TrilayerOperator(
        task_id="report",
        arguments=[
            "batch",
            "reconciliation",
            "--full",
            "--since={{ dag_run.start_date.isoformat() }}",
            "--json",
        ],
        doc_md=(
            "Per view: `changed`, the number of keys that the full run has corrected, and"
            " `changed_keys`, some of them. Skipped where the run was skipped, and so has"
            " published nothing."
        ),
    )

    run >> report
