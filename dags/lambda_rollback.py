"""lambda_rollback: an older version in force again, started by a person."""

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from trilayer.airflow import PublishOperator, load_project

project = load_project()

with DAG(
    "lambda_rollback",
    description="An earlier publication in force again, all views at once",
    doc_md="""
Choose a `version` of those that are kept, or none for the one that was in force before the present.

The views and the cut go back together, and the speed layer covers what came since, so that no event
is lost or counted twice. A batch run under way is fenced off: it ends as skipped.

**What the next run of `lambda_batch` does:** it publishes on top of the older version, with every
event that has come since, so that the rollback lasts for one interval. With `hold`, it is skipped,
and so are the runs after it, until someone runs `lambda_release`. Events go on being answered
meanwhile: the speed layer covers them.
""",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    params={
        "version": Param(
            None,
            type=["string", "integer", "null"],
            examples=project.kept,
            description=(
                "Version to go back to: its number, or a line of the list; empty for the one that"
                " was in force before the present"
            ),
        ),
        "hold": Param(
            False,
            type="boolean",
            description=(
                "Off: the next run of lambda_batch publishes on top of it. On: it stays in force"
                " until lambda_release is run. A hold that is there already stays either way"
            ),
        ),
        "why": Param(
            "",
            type=["string", "null"],
            description="Why it is held, for those whose runs are skipped",
        ),
    },
    tags=["trilayer", "batch layer"],
):
    PublishOperator(
        task_id="rollback",
        arguments=[
            "batch", "rollback",
            "{{ ((params.version or '') | string).split() | first | default('') }}",
            "{% if params.hold %}--hold{% endif %}",
            "{% if params.hold and params.why %}--why={{ params.why }}{% endif %}",
            "--json",
        ],
        outlets=project.assets,
        doc_md="Moves the pointer to the older version. Done at once; nothing is recomputed.",
    )  # fmt: skip
