"""lambda_batch: runs the batch layer at the end of each interval.

T, at which the log is cut, is the end of the run's data interval.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from trilayer.airflow import CutOperator, PublishOperator, TrilayerOperator, load_project
from trilayer_core.definitions.steps import BY_NAME

project = load_project()

with DAG(
    "lambda_batch",
    description="Events from Kafka into exact views: cut, ingest, recompute, reconcile, publish",
    doc_md="""
**One run brings the batch views up to T, the end of its data interval**, and puts them in force all
at once.

- *Trigger* with `full: true` recomputes everything from the master dataset.
- *Clear* a run, rerun an old one or backfill: no event is counted twice and publishing never goes
  backwards. A run whose interval is published already is skipped, and names the version.
- *Clear* one task of the newest run: it is repeated with the same result. A task of an older run
  ends without a change: clear its `cut` as well.
- While a person holds the version in force, `cut` fails, and says who and how to release it.
- A run that was believed dead and comes back can't publish: `cut` takes a token, and only the
  newest token may publish.

The command `trilayer batch run` does the same. To go back to an older version, use the DAG
`lambda_rollback`.
""",
    schedule=project.every,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    deadline=project.late,
    **project.runs,
    params={
        "full": Param(False, type="boolean", description="Recompute from the whole master dataset")
    },
    default_args={
        **project.batch_tasks,
        "retries": 3,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
    },
    tags=["trilayer", "batch layer"],
):
    run = ["--run", "{{ ti.xcom_pull('cut')['token'] }}"]

    cut = CutOperator(
        task_id="cut",
        arguments=[
            "batch",
            "cut",
            "--at-least",
            (
                "{% if dag_run.data_interval_end %}--until={{ dag_run.data_interval_end.isoformat()"
                " }}{% endif %}"
            ),
            "{% if params.full %}--full{% endif %}",
        ],
        doc_md=BY_NAME["cut"].does,
    )

    ingest = TrilayerOperator.partial(
        task_id="ingest",
        arguments=["batch", "ingest", *run],
        map_index_template="{{ task.stream }}",
        doc_md=BY_NAME["ingest"].does,
    ).expand(stream=project.streams)

    recompute = TrilayerOperator(
        task_id="recompute",
        arguments=["batch", "recompute", *run],
        doc_md=BY_NAME["recompute"].does,
    )

    reconcile = TrilayerOperator(
        task_id="reconcile",
        arguments=["batch", "reconcile", *run],
        doc_md=BY_NAME["reconcile"].does,
    )

    publish = PublishOperator(
        task_id="publish",
        arguments=["batch", "publish", *run, "--json"],
        outlets=project.assets,
        doc_md=BY_NAME["publish"].does,
    )

    cut >> ingest >> recompute >> reconcile >> publish

    if project.sinks:
        # Also when nothing was published, because a sink may lack what an earlier run has
        # published.
        deliver = TrilayerOperator.partial(
            task_id="deliver",
            arguments=["batch", "deliver"],
            map_index_template="{{ task.sink }}",
            trigger_rule="none_failed",
            doc_md=BY_NAME["deliver"].does,
        ).expand(sink=project.sinks)
        publish >> deliver
