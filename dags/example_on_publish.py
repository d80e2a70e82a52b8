"""example_on_publish: an example of a DAG that runs whenever a view has a new version.

Copy it, and replace its task with your work.
"""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task

from trilayer.airflow import load_project

view = load_project().assets[0]

with DAG(
    "example_on_publish",
    description=f"Runs when {view.name} is published",
    doc_md=(
        "Scheduled on the Asset of a batch view. The event contains the version and the number of"
        " changed keys."
    ),
    schedule=[view],
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["trilayer", "example"],
):

    @task(doc_md="Returns the content of the newest event of the view's Asset.")
    def report(triggering_asset_events: Any = None) -> dict:
        """Returns the content of the newest event of the view's Asset."""
        # Several events, in no order, if the view was published more than once.
        events = triggering_asset_events[view]
        return dict(max(events, key=lambda event: event.timestamp).extra)

    report()
