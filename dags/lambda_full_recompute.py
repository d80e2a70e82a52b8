"""lambda_full_recompute: recomputes everything from the master dataset every night."""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from trilayer.airflow import TrilayerOperator, check_parameters, load_project

project = load_project()

with DAG(
    "lambda_full_recompute",
    description=("Recomputes all views from the whole master dataset, and reports corrections"),
    doc_md="""
Runs `lambda_batch` with `full: true`, so that the two DAGs never compete, and reports the result.

The result of a full run should equal what is in force. If it does not, the recomputed views are
published, and `report` says in how many keys of which views they differ, and shows some of them.
""",
    schedule=project.nightly,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    **project.runs,
    default_args={**project.tasks, "retries": 1, "retry_delay": timedelta(minutes=1)},
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
        pre_execute=check_parameters,
        doc_md=(
            "One run of `lambda_batch` with `full: true`. Fails if `lambda_batch` is paused,"
            " because its run would wait forever."
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
            "For each view: `changed`, the number of keys that the full run has corrected, and"
            " `changed_keys`, some of them. Skipped if the run was skipped and so has published"
            " nothing."
        ),
    )

    run >> report
