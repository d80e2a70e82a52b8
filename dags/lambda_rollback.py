"""lambda_rollback: puts an older version in force again when a person triggers it.

It imports nothing that a wrong deployment can break: neither the catalog nor the store.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, AssetAlias, Param

from trilayer.airflow import PublishOperator, load_scheduling

scheduling = load_scheduling()

with DAG(
    "lambda_rollback",
    description="Puts an earlier publication of all views in force again",
    doc_md="""
Enter the number of one of the kept versions as `version`, or leave it empty for the version that
was in force before the present one. The console's page *Publications* and `trilayer batch history`
list the versions.

The views and the cut go back together, and the speed layer covers what arrived since, so that no
event is lost or counted twice. A batch run that is active ends as skipped.

**What the next run of `lambda_batch` does:** it publishes on top of the older version, with every
event that has arrived since, so that the rollback lasts for one interval. With `hold`, this run and
all later ones fail, and say who holds the version, until someone runs `lambda_release`. Meanwhile
answers include new events, which the speed layer covers.
""",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    **scheduling.runs,
    default_args=scheduling.tasks,
    params={
        "version": Param(
            None,
            type=["string", "integer", "null"],
            pattern=r"^\s*[0-9]*\s*$",
            minimum=1,
            description=(
                "Number of the version to go back to; empty for the one that was in force before"
                " the present one"
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
            description="The reason for the hold, for those whose runs fail",
        ),
        "accept_unanswered": Param(
            False,
            type="boolean",
            description=(
                "On: go back although views whose definitions have changed since have no answer"
                " until the next publication"
            ),
        ),
    },
    tags=["trilayer", "batch layer"],
):
    PublishOperator(
        task_id="rollback",
        arguments=[
            "batch", "rollback",
            "{{ (params.version or '') | string | trim }}",
            "{% if params.hold %}--hold{% endif %}",
            "{% if params.hold and params.why %}--why={{ params.why }}{% endif %}",
            (
                "{% if params.hold and dag_run.triggering_user_name %}"
                "--by={{ dag_run.triggering_user_name }} (Airflow){% endif %}"
            ),
            "{% if params.accept_unanswered %}--accept-unanswered{% endif %}",
            "--json",
        ],
        outlets=[AssetAlias("trilayer_rollback")],
        doc_md="Moves the pointer to the older version at once. Nothing is recomputed.",
    )  # fmt: skip
