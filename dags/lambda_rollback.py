"""lambda_rollback: an older version in force again, started by a person."""

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from orchestration import PublishOperator, load_project

project = load_project()

with DAG(
    "lambda_rollback",
    description="An earlier publication in force again, all views at once",
    doc_md="""
Give a `version` (`trilayer batch history` lists those that are kept), or none for the one that was in force before the present.

The views and the cut go back together, and the speed layer covers what came since, so that no event is lost or counted twice. A batch run
under way is fenced off. **The next run of `lambda_batch` publishes anew: pause it to stay with the older version.**
""",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    params={
        "version": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            description="Version to go back to; the one before if empty",
        )
    },
    tags=["trilayer", "batch layer"],
):
    PublishOperator(
        task_id="rollback",
        arguments=["batch", "rollback", "{{ params.version or '' }}", "--json"],
        outlets=project.assets,
        doc_md="Moves the pointer to the older version. Done at once; nothing is recomputed.",
    )
