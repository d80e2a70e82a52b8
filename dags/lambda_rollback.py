"""lambda_rollback: puts an older version in force again when a person triggers it."""

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from trilayer.airflow import PublishOperator, load_project

project = load_project()

with DAG(
    "lambda_rollback",
    description="Puts an earlier publication of all views in force again",
    doc_md="""
Choose one of the kept versions as `version`, or leave it empty for the version that was in force
before the present one.

The views and the cut go back together, and the speed layer covers what arrived since, so that no
event is lost or counted twice. A batch run that is active ends as skipped.

**What the next run of `lambda_batch` does:** it publishes on top of the older version, with every
event that has arrived since, so that the rollback lasts for one interval. With `hold`, this run and
all later ones are skipped until someone runs `lambda_release`. Meanwhile answers include new
events, which the speed layer covers.
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
                " was in force before the present one"
            ),
        ),
        "hold": Param(
            False,
            type="boolean",
            description=(
                "Off: the next run of lambda_batch publishes on top of it. On: it stays in force"
                " until lambda_release is run. An existing hold stays in either case"
            ),
        ),
        "why": Param(
            "",
            type=["string", "null"],
            description="The reason for the hold, for those whose runs are skipped",
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
        doc_md="Moves the pointer to the older version at once. Nothing is recomputed.",
    )  # fmt: skip
