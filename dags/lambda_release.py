"""lambda_release: ends a hold, so that batch runs publish again."""

from datetime import UTC, datetime

from airflow.sdk import DAG

from trilayer.airflow import TrilayerOperator, load_scheduling

scheduling = load_scheduling()

with DAG(
    "lambda_release",
    description="Ends a hold: the next batch run publishes again",
    doc_md="""
A version that was held, by `lambda_rollback` with `hold` or by `trilayer batch hold`, stays in
force until this DAG is run, or `trilayer batch release`. Until then every run of `lambda_batch`
fails, and says who holds the version and why.
""",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    **scheduling.runs,
    default_args=scheduling.tasks,
    tags=["trilayer", "batch layer"],
):
    TrilayerOperator(
        task_id="release",
        arguments=["batch", "release", "--json"],
        doc_md=(
            "Ends the hold, if there is one. The next run of `lambda_batch` publishes on top of"
            " the version that was held."
        ),
    )
